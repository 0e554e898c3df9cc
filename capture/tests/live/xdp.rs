//! AF_XDP on a veth pair, in copy mode: packets, drops, and that it leaves nothing behind.

use crate::common::agent::{Agent, Net};
use crate::common::probe;
use crate::fanout::Sender;
use crate::needs::{Need, live};
use crate::testing as t;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use weir_probe::source::config::SourceConfig;
use weir_probe::source::live::{Device, Live};
use weir_probe::source::{Next, Polled, Source as _, ethtool, netns};

live! {
    [Need::Xdp] =>
        what_does_not_fit_is_counted_as_dropped,
        the_agent_takes_what_comes_and_leaves_the_interface_as_it_was;
}

/// Whether the interface of the first namespace has an XDP program.
fn has_program(net: &Net) -> bool {
    let output = Command::new("ip").args(["-n", &net.names[0], "link", "show", "wire0"]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).contains("prog/xdp")
}

fn frame(number: u16) -> Vec<u8> {
    let [high, low] = number.to_be_bytes();
    t::frame(0x0800, &t::ipv4([10, 1, high, low], [10, 99, 0, 1], 17, &t::udp((7, 9), &[0; 30])))
}

/// The rings of all queues of `wire0`.
pub fn open(net: &Net) -> anyhow::Result<Vec<Live>> {
    let _inside = netns::enter(&net.names[0]).unwrap();
    let device: Device = "xdp:wire0".parse().unwrap();
    let opened = device.open(&SourceConfig::default(), ethtool::receive_queues("wire0"));
    opened.and_then(|opened| opened.rings.into_iter().map(|ring| ring.admit()).collect())
}

/// Takes packets until the ring ends; returns their number.
fn drain(ring: &mut Live) -> u64 {
    let mut handed = 0;
    assert!(ring.stop());
    let count = |ring: &mut Live, handed: &mut u64| {
        ring.poll(Duration::from_millis(10), &mut |frames| {
            assert!(frames.iter().all(|frame| (frame.length, frame.data.len()) == (72, 72)));
            *handed += frames.len() as u64;
            Next::More
        })
        .unwrap()
    };
    while count(ring, &mut handed) != Polled::End {}
    handed
}

fn what_does_not_fit_is_counted_as_dropped() {
    const SENT: u64 = 20_000;
    let net = Net::new("xdpfull");
    let mut rings = open(&net).unwrap();
    assert!(has_program(&net));
    let far = {
        let _inside = netns::enter(&net.names[1]).unwrap();
        Sender::on("wire1")
    };
    // Sends more frames than all rings hold while nobody reads.
    (0..SENT).for_each(|number| far.send(&frame(number as u16)));
    // The last frames may still be on their way.
    let deadline = Instant::now() + Duration::from_secs(20);
    let offered = |rings: &mut Vec<Live>| rings.iter_mut().map(|ring| ring.witness().unwrap().offered).sum::<u64>();
    while offered(&mut rings) < SENT && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    let handed: u64 = rings.iter_mut().map(drain).sum();
    let dropped: u64 = rings.iter_mut().map(|ring| ring.witness().unwrap().dropped).sum();
    println!("sent {SENT}, handed over {handed}, dropped {dropped}");
    assert_eq!((handed + dropped, offered(&mut rings)), (SENT, SENT));
    assert!(dropped > 0 && handed >= 8192, "{handed} {dropped}");
    drop(rings);
    assert!(!has_program(&net), "the program is left behind");
}

fn the_agent_takes_what_comes_and_leaves_the_interface_as_it_was() {
    let net = Net::new("xdp");
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("weir-probe.toml");
    let write = |workers: u32| {
        let text = format!(
            "interval = \"1s\"\nworkers = {workers}\nstate_dir = {:?}\n[source]\ninterface = \"xdp:wire0\"\n[kafka]\n\
             brokers = \"127.0.0.1:1\"\n",
            folder.path()
        );
        std::fs::write(&config, text).unwrap();
    };
    let run = |config: &Path| {
        let mut command = net.inside(&net.names[0], probe().get_program().to_str().unwrap());
        command.args(["run", "--summary", "json", "--config"]).arg(config);
        command
    };
    write(0);
    // One agent ends while another starts, as in a restart: the interface is not free at once.
    let before = open(&net).unwrap();
    let ends = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(1));
        drop(before);
    });
    let agent = Agent::spawn(run(&config));
    ends.join().unwrap();
    let far = {
        let _inside = netns::enter(&net.names[1]).unwrap();
        Sender::on("wire1")
    };
    (0..3000).for_each(|number| far.send(&frame(number)));
    // Waits until the kernel has delivered all packets, because a stopping agent takes no new ones.
    std::thread::sleep(Duration::from_millis(500));
    let summary: Value = agent.stop();
    assert_eq!(summary["packets"]["in_flow_records"], 3000, "{summary}");
    assert_eq!((&summary["flows"], &summary["dropped"]["kernel"]), (&3000.into(), &0.into()));
    assert_eq!(summary["octets"]["in_flow_records"], 3000 * 58);
    assert!(!has_program(&net), "the program is left behind");
    let ping = net.inside(&net.names[1], "ping").args(["-q", "-c", "1", "-W", "5", "10.99.0.1"]).output().unwrap();
    assert!(ping.status.success(), "the host sees its packets again: {ping:?}");

    write(9);
    let output = run(&config).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("takes one worker for each, not 9") && error.lines().count() == 1, "{error}");
}
