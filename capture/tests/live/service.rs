//! The agent as a service: killed, with a changed configuration, without root.

use crate::common::agent::{Agent, Net, ping};
use crate::common::cluster::{PATIENCE, cluster, consume};
use crate::common::probe;
use crate::needs::{Need, live};
use prost::Message as _;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use weir_probe::proto::flow_message::Body;
use weir_probe::proto::{CounterMessage, FlowMessage};

live! {
    [Need::Namespaces] => what_was_spooled_when_the_agent_was_killed_arrives_after_the_restart;
    [Need::Namespaces, Need::Libpcap] =>
        a_changed_configuration_holds_from_a_later_interval_on_and_a_wrong_one_does_not;
    [Need::Namespaces, Need::Setpriv] => it_captures_without_root_and_keeps_no_capability;
}

const NET_ADMIN: u64 = 1 << 12;
/// Nobody, on most systems; no account is needed.
const USER: u32 = 65534;

/// Writes a configuration for one worker on the near end of the pair.
fn configure(folder: &Path, net: &Net, brokers: &str, first: &str, more: &str) {
    let text = format!(
        "probe = \"lab\"\nworkers = 1\nstate_dir = {folder:?}\n{first}\n[source]\ninterface = \"wire0\"\nnetns = {:?}\n\
         [kafka]\nbrokers = \"{brokers}\"\n[limits]\nmemory = \"256MiB\"\n{more}\n",
        net.names[0]
    );
    fs::write(folder.join("weir-probe.toml"), text).unwrap();
}

fn start(folder: &Path) -> Agent {
    let mut command = probe();
    command.args(["run", "--summary", "json", "--config"]).arg(folder.join("weir-probe.toml"));
    Agent::spawn(command)
}

/// Checks every thread of a process: it has no more than these capabilities, cannot gain any, and may not make every
/// system call.
fn assert_confined(pid: u32, allowed: u64) {
    for task in fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
        let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
        for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
            let held = u64::from_str_radix(&field(set), 16).unwrap();
            assert_eq!(held & !allowed, 0, "{} {set} {held:x}", field("Name:"));
        }
        assert_eq!(field("NoNewPrivs:"), "1", "{}", field("Name:"));
        assert_eq!(field("Seccomp:"), "2", "{}: not every system call", field("Name:"));
    }
}

fn octets_in(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}

fn what_was_spooled_when_the_agent_was_killed_arrives_after_the_restart() {
    let net = Net::new("spool");
    let folder = tempfile::tempdir().unwrap();
    let interval = "interval = \"1s\"";
    configure(folder.path(), &net, "127.0.0.1:1", interval, "[filters]\ndefault = false");
    let agent = start(folder.path());
    assert_confined(agent.pid(), NET_ADMIN);
    ping(&net, 1, "10.99.0.1", 300);
    // The spool grows at the end of each interval; the second end from here on comes after the last ping.
    let spool = folder.path().join("spool/lab");
    let deadline = Instant::now() + PATIENCE;
    let mut lengths = BTreeSet::new();
    while lengths.len() < 6 {
        assert!(Instant::now() < deadline, "{lengths:?}");
        lengths.insert(octets_in(&spool));
        std::thread::sleep(Duration::from_millis(50));
    }
    agent.kill();

    let cluster = cluster(1);
    let brokers = cluster.bootstrap_servers();
    configure(folder.path(), &net, &brokers, interval, "[filters]\ndefault = false");
    let agent = start(folder.path());
    let decode = |value: &Vec<u8>| FlowMessage::decode(&value[..]).unwrap();
    let values = consume(&brokers, "weir.flows.lab", 0, |values| {
        values.last().is_some_and(|last| decode(last).epoch != decode(&values[0]).epoch)
    });
    agent.stop();
    let messages: Vec<FlowMessage> = values.iter().map(decode).collect();
    let killed = messages[0].epoch;
    let (before, after) = messages.split_at(messages.iter().take_while(|message| message.epoch == killed).count());
    assert!(before.iter().zip(0..).all(|(message, sequence)| message.sequence == sequence));
    assert!(before.len() >= 3 && after.iter().all(|message| message.epoch > killed));
    let packets: u64 = before
        .iter()
        .flat_map(|message| match &message.body {
            Some(Body::Batch(batch)) => &batch.flows[..],
            _ => &[],
        })
        .map(|flow| flow.fwd_packets + flow.rev_packets)
        .sum();
    assert_eq!(packets, 600);
}

fn a_changed_configuration_holds_from_a_later_interval_on_and_a_wrong_one_does_not() {
    let net = Net::new("reload");
    let folder = tempfile::tempdir().unwrap();
    let cluster = cluster(1);
    let brokers = cluster.bootstrap_servers();
    let sets = |set: &str| {
        format!("[filters]\ndefault = false\n[filters.sets.{set}]\nechoes = \"icmp\"\nlong = \"greater 100\"")
    };
    configure(folder.path(), &net, &brokers, "interval = \"1s\"", &sets("first"));
    let agent = start(folder.path());
    let counted = |set: &'static str| {
        let value = |value: &Vec<u8>| CounterMessage::decode(&value[..]).unwrap();
        let has = move |message: &CounterMessage| message.counters.iter().any(|counter| counter.set == set);
        let values = consume(&brokers, "weir.counters.lab", 0, move |values| {
            values.last().is_some_and(|last| has(&value(last)))
        });
        values.iter().map(value).collect::<Vec<_>>()
    };
    ping(&net, 1, "10.99.0.1", 50);
    counted("first");
    configure(folder.path(), &net, &brokers, "interval = \"2s\"", &sets("second"));
    agent.signal("HUP");
    agent.wait_for("interval changed in");
    agent.wait_for("it applies from the next interval on");
    // An interval closes, and the next one is the first with the new configuration.
    std::thread::sleep(Duration::from_millis(2500));
    ping(&net, 1, "10.99.0.1", 50);
    let messages = counted("second");
    for message in &messages {
        let sets: BTreeSet<&str> = message.counters.iter().map(|counter| counter.set.as_str()).collect();
        assert!(!(sets.contains("first") && sets.contains("second")), "an interval is of one sort: {sets:?}");
        assert_eq!(message.interval_ms, 1000);
    }
    let last = messages.last().unwrap();
    let second = |label: &str| {
        last.counters.iter().find(|counter| (counter.set.as_str(), counter.label.as_str()) == ("second", label))
    };
    assert_eq!(second("echoes").map(|counter| counter.packets), second("long").map(|counter| counter.packets));

    configure(folder.path(), &net, &brokers, "intervall = \"1s\"", "");
    agent.signal("HUP");
    agent.wait_for("unknown field `intervall`");
    ping(&net, 1, "10.99.0.1", 50);
    agent.stop();
}

fn it_captures_without_root_and_keeps_no_capability() {
    let net = Net::new("caps");
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("weir-probe");
    fs::copy(probe().get_program(), &program).unwrap();
    let state = folder.path().join("state");
    fs::create_dir(&state).unwrap();
    chown(&state, Some(USER), Some(USER)).unwrap();
    let text = format!(
        "probe = \"lab\"\nworkers = 1\nstate_dir = {state:?}\n[source]\ninterface = \"wire0\"\nreceive_offloads = \"keep\"\n\
         [kafka]\nbrokers = \"127.0.0.1:1\"\n[limits]\nmemory = \"256MiB\"\n"
    );
    let config = folder.path().join("weir-probe.toml");
    fs::write(&config, text).unwrap();
    let user = USER.to_string();
    let as_user = |command: &mut Command, ambient: &str| {
        command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
        command.args([format!("--inh-caps={ambient}"), format!("--ambient-caps={ambient}")]);
    };
    let mut command = net.inside(&net.names[0], "setpriv");
    as_user(&mut command, "-all,+net_raw");
    command.arg(&program).args(["run", "--summary", "json", "--config"]).arg(&config);
    let agent = Agent::spawn(command);
    assert_confined(agent.pid(), 0);
    ping(&net, 1, "10.99.0.1", 100);
    let summary = agent.stop();
    assert_eq!(summary["packets"]["in_flow_records"], 200);
    assert!(octets_in(&state.join("spool/lab")) > 0);
}
