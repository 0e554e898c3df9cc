//! A live capture between two network namespaces of the test's own, joined by a veth pair.

use crate::{assert_balanced, probe};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Two namespaces that go when the test does.
pub(crate) struct Net {
    pub(crate) names: [String; 2],
}

fn ip(arguments: &[&str]) -> bool {
    Command::new("ip")
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

impl Net {
    /// `None` where namespaces cannot be made: without root, or without iproute2.
    pub(crate) fn new(tag: &str) -> Option<Net> {
        let names = ["a", "b"].map(|side| format!("weir-{tag}-{}-{side}", std::process::id()));
        let net = Net { names };
        let [a, b] = &net.names;
        let made = ip(&["netns", "add", a])
            && ip(&["netns", "add", b])
            && ip(&["link", "add", "wire0", "netns", a, "type", "veth", "peer", "name", "wire1", "netns", b])
            && ip(&["-n", a, "addr", "add", "10.99.0.1/24", "dev", "wire0"])
            && ip(&["-n", b, "addr", "add", "10.99.0.2/24", "dev", "wire1"])
            // Without IPv6 nothing speaks up of itself while packets are counted.
            && net.inside(a, "sysctl").args(["-qw", "net.ipv6.conf.wire0.disable_ipv6=1"]).status().is_ok_and(|s| s.success())
            && net.inside(b, "sysctl").args(["-qw", "net.ipv6.conf.wire1.disable_ipv6=1"]).status().is_ok_and(|s| s.success())
            && [("lo", a), ("wire0", a), ("lo", b), ("wire1", b)].iter().all(|(link, of)| ip(&["-n", of, "link", "set", link, "up"]));
        if !made {
            eprintln!("skipped: network namespaces cannot be made here (it takes root and iproute2)");
            return None;
        }
        Some(net)
    }

    pub(crate) fn inside(&self, namespace: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace, program]);
        command
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        self.names.iter().for_each(|name| {
            ip(&["netns", "del", name]);
        });
    }
}

/// A running agent, with Kafka away, and what it says.
pub(crate) struct Agent(Child, std::sync::mpsc::Receiver<String>);

impl Agent {
    fn start(net: &Net, folder: &Path, interface: &str, more: &str) -> Agent {
        let config = folder.join("weir-probe.toml");
        let text = format!(
            "probe = \"live\"\ninterval = \"1s\"\nworkers = 2\nstate_dir = {folder:?}\n{more}\n[source]\ninterface = \"{interface}\"\n\
             [kafka]\nbrokers = \"127.0.0.1:1\"\n"
        );
        std::fs::write(&config, text).unwrap();
        let mut command = net.inside(&net.names[0], probe().get_program().to_str().unwrap());
        command.args(["run", "--summary", "json", "--config"]).arg(&config);
        Agent::spawn(command)
    }

    /// Starts it, and waits until it captures.
    pub(crate) fn spawn(mut command: Command) -> Agent {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (lines, said) = std::sync::mpsc::channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| lines.send(line)));
        let agent = Agent(child, said);
        agent.wait_for("capturing on");
        agent
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args([format!("-{name}"), self.0.id().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()));
    }

    /// Ends it at once, as a crash does.
    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Waits for a line of the log.
    pub(crate) fn wait_for(&self, needle: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut said = String::new();
        while let Ok(line) = self.1.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            if line.contains(needle) {
                return;
            }
            said += &(line + "\n");
        }
        panic!("it did not say {needle:?} but:\n{said}");
    }

    /// Asks it to stop and not to wait for Kafka; its summary.
    pub(crate) fn stop(self) -> Value {
        self.end(true)
    }

    /// Asks it to stop once Kafka has everything; its summary.
    pub(crate) fn finish(self) -> Value {
        self.end(false)
    }

    fn end(mut self, at_once: bool) -> Value {
        let pid = self.0.id().to_string();
        let deadline = Instant::now() + Duration::from_secs(60);
        let ask = || assert!(Command::new("kill").args(["-TERM", &pid]).status().is_ok());
        ask();
        while self.0.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "it does not stop");
            std::thread::sleep(Duration::from_millis(100));
            if at_once {
                ask();
            }
        }
        let mut text = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let summary = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text:?}"));
        assert_balanced(&summary, "live");
        summary
    }
}

/// Packets of an interface, both directions.
fn counted(net: &Net, interface: &str) -> u64 {
    let output = net.inside(&net.names[0], "cat").arg("/proc/net/dev").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.trim().strip_prefix(&format!("{interface}:"))).unwrap();
    let fields: Vec<u64> = line.split_whitespace().map(|field| field.parse().unwrap()).collect();
    fields[1] + fields[9]
}

pub(crate) fn ping(net: &Net, side: usize, target: &str, count: u32) {
    let output = net
        .inside(&net.names[side], "ping")
        .args(["-q", "-c", &count.to_string(), "-i", "0.002", "-s", "100", target])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn what_the_interface_counted_was_captured() {
    let Some(net) = Net::new("veth") else { return };
    let folder = tempfile::tempdir().unwrap();
    let before = counted(&net, "wire0");
    let agent = Agent::start(&net, folder.path(), "wire0", "");
    ping(&net, 1, "10.99.0.1", 300);
    let on_interface = counted(&net, "wire0") - before;
    let summary = agent.stop();
    // ARP may speak before or after: those few are counted by both or by the interface alone.
    let captured = summary["packets"]["captured"].as_u64().unwrap();
    assert_eq!(summary["packets"]["seen"].as_u64().unwrap(), captured + summary["dropped"]["kernel"].as_u64().unwrap());
    assert!(
        captured >= 600 && captured.abs_diff(on_interface) <= 8,
        "captured {captured}, on the interface {on_interface}"
    );
    assert_eq!(summary["packets"]["in_flow_records"], 600);
    assert_eq!(summary["octets"]["in_flow_records"], 600 * 128);
    assert_eq!(summary["flows"], 1, "request and reply are one flow");
}

#[test]
fn a_deleted_interface_ends_the_capture_in_order() {
    let Some(net) = Net::new("gone") else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut agent = Agent::start(&net, folder.path(), "wire0", "");
    ping(&net, 1, "10.99.0.1", 50);
    assert!(ip(&["-n", &net.names[0], "link", "del", "wire0"]));
    agent.wait_for("the interface is gone");
    // Kafka is away, and is not to be waited for.
    let pid = agent.0.id().to_string();
    let deadline = Instant::now() + Duration::from_secs(60);
    let status = loop {
        if let Some(status) = agent.0.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < deadline, "it does not stop");
        assert!(Command::new("kill").args(["-TERM", &pid]).status().is_ok());
        std::thread::sleep(Duration::from_millis(100));
    };
    assert_eq!(status.code(), Some(1));
    let mut text = String::new();
    agent.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    let summary: Value = serde_json::from_str(&text).unwrap();
    assert_balanced(&summary, "gone");
    assert_eq!(summary["packets"]["in_flow_records"], 100);
    assert_eq!(
        summary["packets"]["seen"].as_u64().unwrap(),
        summary["packets"]["captured"].as_u64().unwrap() + summary["dropped"]["kernel"].as_u64().unwrap()
    );
    let last = agent.1.iter().last().unwrap_or_default();
    assert!(last.contains("the interface is gone"), "{last}");
}

#[test]
fn the_loopback_shows_each_packet_once_and_the_next_run_tells_its_gap() {
    let Some(net) = Net::new("lo") else { return };
    let folder = tempfile::tempdir().unwrap();
    let agent = Agent::start(&net, folder.path(), "lo", "");
    ping(&net, 0, "127.0.0.1", 100);
    let summary = agent.stop();
    // The agent's own attempts to reach Kafka are there too, but not metered.
    assert_eq!(summary["packets"]["in_flow_records"], 200, "{summary}");
    let state: Value = serde_json::from_slice(&std::fs::read(folder.path().join("live.json")).unwrap()).unwrap();
    assert_eq!(state["interface"], "lo");
    assert!(state["packets"].as_u64().unwrap() >= 200);
}

#[test]
fn a_killed_agent_leaves_what_its_interface_had_counted() {
    let Some(net) = Net::new("kill") else { return };
    let folder = tempfile::tempdir().unwrap();
    let agent = Agent::start(&net, folder.path(), "wire0", "");
    ping(&net, 1, "10.99.0.1", 50);
    let packets = counted(&net, "wire0");
    let state = || serde_json::from_slice::<Value>(&std::fs::read(folder.path().join("live.json")).ok()?).ok();
    let deadline = Instant::now() + Duration::from_secs(60);
    // It is kept once a close is published.
    while state().is_none_or(|state| state["packets"].as_u64().unwrap() < packets) {
        assert!(Instant::now() < deadline, "{:?}, {packets}", state());
        std::thread::sleep(Duration::from_millis(100));
    }
    agent.kill();
    assert_eq!(state().unwrap()["interface"], "wire0");
}

#[test]
fn without_permission_one_line_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("weir-probe.toml");
    std::fs::write(&config, "[source]\ninterface = \"lo\"\n").unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    // As another user, where this one may do everything; the program has to be where that one can read it.
    let program = folder.path().join("weir-probe");
    std::fs::copy(probe().get_program(), &program).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]).arg(&program);
    let root =
        Command::new("setpriv").args(["--reuid=65534", "--clear-groups", "true"]).status().is_ok_and(|s| s.success());
    if !root {
        command = probe();
    }
    let output = command.args(["run", "--config"]).arg(&config).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(
        error.contains("no permission to capture on lo: give CAP_NET_RAW") && error.lines().count() == 1,
        "{error}"
    );
}
