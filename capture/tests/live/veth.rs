//! A live capture between two network namespaces of the test's own, joined by a veth pair.

use crate::common::agent::{Agent, Net, counted, ip, ping};
use crate::common::{assert_balanced, probe};
use crate::needs::{Need, live};
use serde_json::Value;
use std::io::Read as _;
use std::process::Command;
use std::time::{Duration, Instant};

live! {
    [Need::Namespaces] =>
        what_the_interface_counted_was_captured,
        a_deleted_interface_ends_the_capture_in_order,
        the_loopback_shows_each_packet_once_and_the_next_run_tells_its_gap,
        a_killed_agent_leaves_what_its_interface_had_counted;
    [Need::Namespaces, Need::Ethtool] => no_segments_are_joined_while_the_agent_captures;
    [] => without_permission_one_line_says_what_to_do;
}

fn what_the_interface_counted_was_captured() {
    let net = Net::new("veth");
    let folder = tempfile::tempdir().unwrap();
    let before = counted(&net, "wire0");
    let agent = Agent::start(&net, folder.path(), "wire0", "");
    ping(&net, 1, "10.99.0.1", 300);
    let on_interface = counted(&net, "wire0") - before;
    let summary = agent.stop();
    // The agent and the interface, or the interface alone, may also count a few ARP packets before or after the pings.
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

/// Whether the interface joins segments that it receives (GRO).
fn joins_segments(net: &Net) -> bool {
    let output = net.inside(&net.names[0], "ethtool").args(["-k", "wire0"]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).lines().any(|line| line == "generic-receive-offload: on")
}

fn no_segments_are_joined_while_the_agent_captures() {
    let net = Net::new("gro");
    let folder = tempfile::tempdir().unwrap();
    let on = net.inside(&net.names[0], "ethtool").args(["-K", "wire0", "gro", "on"]).status();
    assert!(on.is_ok_and(|status| status.success()) && joins_segments(&net));
    let agent = Agent::start(&net, folder.path(), "wire0", "");
    assert!(!joins_segments(&net));
    agent.stop();
    assert!(joins_segments(&net), "as it was before");
}

fn a_deleted_interface_ends_the_capture_in_order() {
    let net = Net::new("gone");
    let folder = tempfile::tempdir().unwrap();
    let mut agent = Agent::start(&net, folder.path(), "wire0", "");
    ping(&net, 1, "10.99.0.1", 50);
    assert!(ip(&["-n", &net.names[0], "link", "del", "wire0"]));
    agent.wait_for("the interface is gone");
    // Kafka is away, and the agent must not wait for it.
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

fn the_loopback_shows_each_packet_once_and_the_next_run_tells_its_gap() {
    let net = Net::new("lo");
    let folder = tempfile::tempdir().unwrap();
    let agent = Agent::start(&net, folder.path(), "lo", "");
    ping(&net, 0, "127.0.0.1", 100);
    let summary = agent.stop();
    // The interface also carries the agent's own attempts to reach Kafka, which are not metered.
    assert_eq!(summary["packets"]["in_flow_records"], 200, "{summary}");
    let state: Value = serde_json::from_slice(&std::fs::read(folder.path().join("live.json")).unwrap()).unwrap();
    assert_eq!(state["interface"], "lo");
    assert!(state["packets"].as_u64().unwrap() >= 200);
}

fn a_killed_agent_leaves_what_its_interface_had_counted() {
    let net = Net::new("kill");
    let folder = tempfile::tempdir().unwrap();
    let agent = Agent::start(&net, folder.path(), "wire0", "");
    ping(&net, 1, "10.99.0.1", 50);
    let packets = counted(&net, "wire0");
    let state = || serde_json::from_slice::<Value>(&std::fs::read(folder.path().join("live.json")).ok()?).ok();
    let deadline = Instant::now() + Duration::from_secs(60);
    // The agent saves the state once it has published a closing record.
    while state().is_none_or(|state| state["packets"].as_u64().unwrap() < packets) {
        assert!(Instant::now() < deadline, "{:?}, {packets}", state());
        std::thread::sleep(Duration::from_millis(100));
    }
    agent.kill();
    assert_eq!(state().unwrap()["interface"], "wire0");
}

fn without_permission_one_line_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("weir-probe.toml");
    std::fs::write(&config, "[source]\ninterface = \"lo\"\n").unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    // Runs as another user, because this one has all rights; that user must be able to read the program.
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
        error.contains("no permission to capture on lo: grant CAP_NET_RAW") && error.lines().count() == 1,
        "{error}"
    );
}
