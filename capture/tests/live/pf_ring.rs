//! PF_RING against a stand-in for libpfring, which is built here from `tests/pf_ring/libpfring.c`.

use crate::common::agent::Agent;
use crate::common::{own, probe};
use crate::needs::{Need, live};
use crate::testing as t;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

live! {
    [] =>
        what_pf_ring_hands_over_is_captured_and_its_drops_are_counted,
        a_device_that_ends_ends_the_capture,
        workers_share_a_device_by_addresses_or_take_queues_of_their_own,
        what_is_missing_is_said_in_one_line,
        an_idle_ring_costs_next_to_nothing,
        capture_is_kept_on_the_processors_named;
    [Need::PfRing] => the_real_library_reads_a_capture_file;
}

/// A folder with the stand-in, a capture file and a configuration.
struct Bench {
    folder: tempfile::TempDir,
    library: PathBuf,
}

impl Bench {
    fn new(packets: &[t::Captured]) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("libpfring.so");
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
            .arg(&library)
            .arg(own("pf_ring/libpfring.c"))
            .status();
        assert!(compiled.expect("a C compiler").success(), "the stand-in does not compile");
        std::fs::write(folder.path().join("packets.pcap"), t::pcap(t::Form::default(), packets)).unwrap();
        Bench { folder, library }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The agent on a device, with the stand-in named by the configuration.
    fn command(&self, device: &str, workers: u32, environment: &[(&str, &str)]) -> Command {
        let config = self.path("weir-probe.toml");
        let text = format!(
            "interval = \"1s\"\nworkers = {workers}\nstate_dir = {:?}\n[source]\ninterface = {device:?}\n\
             receive_offloads = \"keep\"\npf_ring_library = {:?}\n[kafka]\nbrokers = \"127.0.0.1:1\"\n\
             [metrics]\nlisten = \"127.0.0.1:0\"\n",
            self.folder.path(),
            self.library,
        );
        std::fs::write(&config, text).unwrap();
        let mut command = probe();
        command.args(["run", "--summary", "json", "--config"]).arg(&config).env_remove("WEIR_PF_RING_LIBRARY");
        command.env("STANDIN_PCAP", self.path("packets.pcap")).env("STANDIN_LOG", self.path("log"));
        command.envs(environment.iter().copied());
        command
    }

    fn summary(&self, device: &str, workers: u32, environment: &[(&str, &str)]) -> Value {
        Agent::spawn(self.command(device, workers, environment)).stop()
    }

    fn refused(&self, device: &str, workers: u32, environment: &[(&str, &str)]) -> String {
        one_line(&self.command(device, workers, environment).output().unwrap())
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap()
    }
}

/// Asserts that it could not start, and printed one line about it.
fn one_line(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}

/// Both directions of this many pairs of hosts.
fn packets(pairs: u8) -> Vec<t::Captured> {
    (0..pairs)
        .flat_map(|number| {
            let (a, b) = ([10, 0, 0, number], [192, 0, 2, 1]);
            let there = t::ipv4(a, b, 17, &t::udp((1000, 53), &[0; 600]));
            let back = t::ipv4(b, a, 17, &t::udp((53, 1000), &[0; 20]));
            [there, back].map(|packet| t::whole(1_600_000_000_000_000_000, t::frame(0x0800, &packet)))
        })
        .collect()
}

fn what_pf_ring_hands_over_is_captured_and_its_drops_are_counted() {
    let bench = Bench::new(&packets(100));
    for environment in [&[][..], &[("STANDIN_NS", "1")], &[("STANDIN_POLL", "1")], &[("STANDIN_POLL", "-7")]] {
        let summary = bench.summary("pfring:lo", 1, environment);
        assert_eq!(summary["packets"]["seen"], 200, "{environment:?} {summary}");
        assert_eq!((&summary["packets"]["in_flow_records"], &summary["packets"]["late"]), (&200.into(), &0.into()));
        assert_eq!(summary["octets"]["in_flow_records"], 100 * (628 + 48));
        assert_eq!(summary["flows"], 100);
    }
    let summary = bench.summary("pfring:lo", 1, &[("STANDIN_DROP", "10")]);
    assert_eq!(
        (&summary["packets"]["seen"], &summary["packets"]["captured"], &summary["dropped"]["kernel"]),
        (&200.into(), &180.into(), &20.into())
    );
    // Capture goes on after a failure.
    assert_eq!(bench.summary("pfring:lo", 1, &[("STANDIN_FAIL", "50")])["packets"]["captured"], 200);
    let log = bench.log();
    assert!(log.starts_with("open lo 2048 536\nclose 1200 100\n"), "promiscuous, with times, not parsed: {log}");
}

fn a_device_that_ends_ends_the_capture() {
    let bench = Bench::new(&packets(50));
    assert_eq!(bench.summary("pfring:lo", 1, &[("STANDIN_END", "1")])["packets"]["captured"], 100);
}

fn workers_share_a_device_by_addresses_or_take_queues_of_their_own() {
    let bench = Bench::new(&packets(100));
    let summary = bench.summary("pfring:lo", 2, &[]);
    assert_eq!((&summary["packets"]["in_flow_records"], &summary["flows"]), (&200.into(), &100.into()));
    let log = bench.log();
    let clusters: Vec<&str> = log.lines().filter(|line| line.starts_with("set cluster")).collect();
    assert!(clusters.len() == 2 && clusters[0] == clusters[1] && clusters[0].ends_with(" 2"), "{log}");
    assert!(log.contains("open lo 2048 24\n"), "{log}");

    for (name, opened) in [("zc:eth7", ["zc:eth7@0", "zc:eth7@1"]), ("zc:99@3", ["zc:99@3", "zc:99@4"])] {
        std::fs::remove_file(bench.path("log")).unwrap();
        bench.summary(name, 2, &[]);
        let log = bench.log();
        assert!(opened.iter().all(|queue| log.contains(&format!("open {queue} 2048 537\n"))), "{log}");
        assert!(!log.contains("cluster"), "{log}");
    }
}

fn what_is_missing_is_said_in_one_line() {
    let bench = Bench::new(&[]);
    let module = bench.refused("pfring:lo", 1, &[("STANDIN_ERRNO", "97")]);
    assert!(module.contains("the pf_ring kernel module is not loaded"), "{module}");
    let permission = bench.refused("zc:eth1", 1, &[("STANDIN_ERRNO", "1")]);
    assert!(permission.contains("no permission to capture on zc:eth1 with PF_RING"), "{permission}");
    let silent = bench.refused("zc:eth1", 1, &[("STANDIN_ERRNO", "0")]);
    assert!(silent.contains("PF_RING cannot open zc:eth1, and gives no reason"), "{silent}");
    let name = bench.refused("pfring:nosuch0", 1, &[]);
    assert!(name.contains("there is no interface \"nosuch0\""), "{name}");
    let device = bench.refused("pfring:none:x", 1, &[]);
    assert!(device.contains("PF_RING has no device \"none:x\""), "{device}");
    let merged = bench.refused("lo,", 1, &[]);
    assert!(merged.contains("\"\" cannot be an interface's name"), "{merged}");
    let queue = bench.refused("zc:eth1@x", 1, &[]);
    assert!(queue.contains("\"x\" is not a queue number"), "{queue}");
    let library = bench.refused("pfring:lo", 1, &[("WEIR_PF_RING_LIBRARY", "/no/such/libpfring.so")]);
    assert!(library.contains("cannot load libpfring: /no/such/libpfring.so"), "{library}");
}

fn the_real_library_reads_a_capture_file() {
    let bench = Bench::new(&packets(100));
    let device = format!("pfring:pcap:{}", bench.path("packets.pcap").display());
    let mut command = bench.command(&device, 1, &[]);
    let config = bench.path("weir-probe.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let own_library = format!("pf_ring_library = {:?}", bench.library);
    std::fs::write(&config, text.replace(&own_library, "pf_ring_library = \"\"")).unwrap();
    command.env_remove("STANDIN_PCAP");
    let summary = Agent::spawn(command).stop();
    assert_eq!((&summary["packets"]["in_flow_records"], &summary["flows"]), (&200.into(), &100.into()));
}

/// Processor time of the agent's first capture thread so far, ns.
fn capture_ns(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(Path::new("/proc").join(pid.to_string()).join("task")).unwrap();
    let folders: Vec<PathBuf> = tasks.map(|task| task.unwrap().path()).collect();
    let read = |folder: &Path, name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let capture = folders.iter().find(|folder| read(folder, "comm").trim() == "capture-0").unwrap();
    read(capture, "schedstat").split_whitespace().next().unwrap().parse().unwrap()
}

fn an_idle_ring_costs_next_to_nothing() {
    let bench = Bench::new(&[]);
    // A library that waits for packets, one that cannot wait, and one that returns at once even if there is no packet.
    for environment in [&[][..], &[("STANDIN_POLL", "-7")], &[("STANDIN_POLL", "1")]] {
        let agent = Agent::spawn(bench.command("pfring:lo", 1, environment));
        std::thread::sleep(Duration::from_millis(500));
        let (started, before) = (Instant::now(), capture_ns(agent.pid()));
        std::thread::sleep(Duration::from_secs(3));
        let used = (capture_ns(agent.pid()) - before) as f64 / started.elapsed().as_nanos() as f64;
        println!("{environment:?}: {:.2} % of a core", used * 100.0);
        // The share is well below 1 % on a quiet machine; a busy loop would take 100 %.
        assert!(used < 0.03, "{environment:?}: {:.2} % of a core", used * 100.0);
        agent.stop();
    }
}

/// The agent's threads of this name, each with the processors it may run on.
fn processors(pid: u32, prefix: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for task in std::fs::read_dir(Path::new("/proc").join(pid.to_string()).join("task")).unwrap() {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let field =
            |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("").trim().to_owned();
        if field("Name:").starts_with(prefix) {
            found.push((field("Name:"), field("Cpus_allowed_list:")));
        }
    }
    found.sort();
    found
}

fn capture_is_kept_on_the_processors_named() {
    let bench = Bench::new(&[]);
    let allowed = weir_probe::host::allowed_cpus().unwrap();
    let last = *allowed.last().unwrap();
    let pinned = |cpus: &str| {
        let mut command = bench.command("pfring:lo", 0, &[]);
        let path = bench.path("weir-probe.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("[source]", &format!("[source]\ncpus = [{cpus}]"))).unwrap();
        command.env_remove("STANDIN_PCAP");
        command
    };
    let agent = Agent::spawn(pinned(&last.to_string()));
    // A thread pins itself as the first thing it does, which may be a moment after it was started.
    let deadline = Instant::now() + Duration::from_secs(60);
    while processors(agent.pid(), "capture-") != [("capture-0".to_owned(), last.to_string())] {
        assert!(Instant::now() < deadline, "{:?}", processors(agent.pid(), "capture-"));
        std::thread::sleep(Duration::from_millis(20));
    }
    if allowed.len() > 1 {
        let mut publishing = processors(agent.pid(), "publish-");
        while publishing.is_empty() {
            assert!(Instant::now() < deadline, "no thread publishes");
            std::thread::sleep(Duration::from_millis(20));
            publishing = processors(agent.pid(), "publish-");
        }
        assert_ne!(publishing[0].1, last.to_string(), "publishing is not pinned");
    }
    agent.stop();
    let error = one_line(&pinned("4000").output().unwrap());
    assert!(error.contains("source.cpus: there is no processor 4000 that the agent may run on"), "{error}");
}
