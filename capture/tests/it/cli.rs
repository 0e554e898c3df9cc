//! The command line: what it prints, what it refuses, and its exit status.

use crate::testing as t;
use crate::{assert_balanced, probe};
use serde_json::Value;
use std::io::Write as _;
use std::path::Path;
use std::process::{Output, Stdio};

const TIME_NS: u64 = 1_600_000_000_000_000_000;

fn some_packets(count: u64) -> Vec<t::Captured> {
    (0..count)
        .map(|number| {
            let port = 1000 + (number % 7) as u16;
            let ip = t::ipv4([192, 0, 2, 1], [198, 51, 100, 2], 17, &t::udp((port, 53), b"question"));
            t::whole(TIME_NS + number * 1_000_000, t::frame(0x0800, &ip))
        })
        .collect()
}

fn capture(count: u64) -> Vec<u8> {
    t::pcap(t::Form::default(), &some_packets(count))
}

fn read(arguments: &[&str], file: &[u8]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.pcap");
    std::fs::write(&path, file).unwrap();
    probe().arg("read").arg(&path).args(arguments).output().unwrap()
}

fn summary(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let summary = serde_json::from_str(text.lines().last().unwrap_or_else(|| panic!("{output:?}"))).unwrap();
    assert_balanced(&summary, "summary");
    summary
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Asserts that it ended with this status and one line with this text.
fn assert_refused(output: &Output, status: i32, needle: &str) {
    let error = stderr(output);
    assert_eq!(output.status.code(), Some(status), "{error}");
    assert!(error.contains(needle), "{needle:?} is not in {error:?}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(output.stdout.is_empty());
}

#[test]
fn a_summary_counts_everything() {
    let output = read(&["--summary", "json"], &capture(100));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let summary = summary(&output);
    assert_eq!(summary["packets"]["seen"], 100);
    assert_eq!(summary["packets"]["in_flow_records"], 100);
    assert_eq!(summary["octets"]["captured"], 100 * 36);
    assert_eq!((&summary["flows"], &summary["records"], &summary["batches"]), (&7.into(), &7.into(), &1.into()));
    assert!(summary["seconds"].as_f64().unwrap() > 0.0);
    let text = stderr(&read(&[], &capture(100)));
    assert!(text.starts_with("100 packets seen, 100 captured"), "{text}");
}

#[test]
fn json_lines_are_records_and_their_summary_goes_to_the_standard_error() {
    let output = read(&["--to", "jsonl", "--summary", "json", "--keep-time"], &capture(100));
    let lines: Vec<Value> =
        String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 7);
    assert_eq!(lines[0]["first_seen"], "2020-09-13T12:26:40.000Z");
    let summary: Value = serde_json::from_str(stderr(&output).lines().last().unwrap()).unwrap();
    assert_eq!(summary["records"], 7);
}

#[test]
fn bad_captures_end_with_one_clear_line() {
    assert_refused(&read(&[], b""), 2, "is empty: no capture file");
    assert_refused(&read(&[], b"not a capture at all"), 2, "neither a pcap nor a pcapng file");
    let token_ring = t::pcap(t::Form { link: 6, ..t::Form::default() }, &some_packets(1));
    assert_refused(&read(&[], &token_ring), 2, "unsupported link type 6 (IEEE 802.5 token ring)");
    let missing = probe().args(["read", "/no/such/file.pcap"]).output().unwrap();
    assert_refused(&missing, 2, "cannot read /no/such/file.pcap");
    let folder = probe().args(["read", "/"]).output().unwrap();
    assert_refused(&folder, 2, "cannot read /");
}

#[test]
fn one_bad_file_among_good_ones_is_refused_before_anything_is_metered() {
    let folder = tempfile::tempdir().unwrap();
    let (good, bad) = (folder.path().join("good"), folder.path().join("bad"));
    std::fs::write(&good, capture(3)).unwrap();
    std::fs::write(&bad, b"").unwrap();
    let output = probe().arg("read").args([&good, &bad]).args(["--to", "jsonl"]).output().unwrap();
    assert_refused(&output, 2, "is empty");
}

#[test]
fn a_capture_cut_in_mid_packet_gives_its_whole_packets_and_status_3() {
    let whole = capture(10);
    let output = read(&["--summary", "json"], &whole[..whole.len() - 5]);
    assert_eq!(output.status.code(), Some(3));
    let error = stderr(&output);
    assert!(error.contains("cut in mid-packet at octet") && error.contains("9 whole packets"), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert_eq!(summary(&output)["packets"]["in_flow_records"], 9);
}

#[test]
fn a_capture_without_packets_is_fine() {
    let output = read(&["--summary", "json"], &capture(0));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(summary(&output)["closing_records"], 1);
}

#[test]
fn the_standard_input_is_a_file_too() {
    let mut child =
        probe().args(["read", "-", "--summary", "json"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&capture(50)).unwrap();
    assert_eq!(summary(&child.wait_with_output().unwrap())["packets"]["captured"], 50);
}

#[test]
fn several_workers_meter_what_one_does() {
    let mut packets = some_packets(50);
    for number in 0..200u8 {
        let ip = t::ipv4([10, 1, number, 1], [10, 2, 7, number], 6, &t::tcp((number.into(), 80), t::SYN, 1, 0, b""));
        packets.push(t::whole(TIME_NS + u64::from(number) * 100_000_000, t::frame(0x0800, &ip)));
    }
    packets.push(t::whole(TIME_NS, t::frame(0x0806, &[0; 28])));
    let file = t::pcap(t::Form::default(), &packets);
    let one = summary(&read(&["--summary", "json"], &file));
    let four = summary(&read(&["--summary", "json", "--workers", "4"], &file));
    for key in ["packets", "octets"] {
        let without_late = |summary: &Value| {
            let mut terms = summary[key].clone();
            terms["late"] = 0.into();
            terms
        };
        assert_eq!(without_late(&one), without_late(&four));
    }
    assert_eq!((&one["flows"], &one["records"]), (&four["flows"], &four["records"]));
    // Every worker closes every interval.
    assert_eq!(one["closing_records"].as_u64().unwrap() * 4, four["closing_records"].as_u64().unwrap());
}

#[test]
fn replays_are_moved_to_now_by_whole_windows() {
    let now_ms =
        i64::try_from(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis()).unwrap();
    let moved = summary(&read(&["--summary", "json"], &capture(10)))["time_shift_ms"].as_i64().unwrap();
    let last_ms = (TIME_NS / 1_000_000) as i64 + 9 + moved;
    assert_eq!(moved % 30_000, 0);
    assert!((now_ms - 30_001..now_ms + 60_000).contains(&last_ms), "{last_ms} {now_ms}");
    assert_eq!(summary(&read(&["--summary", "json", "--keep-time"], &capture(10)))["time_shift_ms"], 0);
}

#[test]
fn files_are_sorted_and_overlapping_ones_follow_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str, start_s: u64| {
        let packets: Vec<_> = some_packets(3)
            .into_iter()
            .map(|packet| t::Captured { time_ns: packet.time_ns + start_s * 1_000_000_000, ..packet })
            .collect();
        let path = folder.path().join(name);
        std::fs::write(&path, t::pcap(t::Form::default(), &packets)).unwrap();
        path
    };
    // The files are given in the wrong order; b begins at the same time as a.
    let files = [at("c", 40), at("a", 0), at("b", 0)];
    let run = |more: &[&str]| {
        let output = probe().arg("read").args(&files).args(["--summary", "json"]).args(more).output().unwrap();
        summary(&output)
    };
    let moved = run(&[]);
    assert_eq!((&moved["packets"]["captured"], &moved["packets"]["late"]), (&9.into(), &0.into()));
    assert_eq!(moved["closing_records"], 5);
    assert_eq!(run(&["--keep-time"])["packets"]["late"], 0, "late only where an interval has closed");
}

#[test]
fn real_speed_follows_the_packets_times() {
    let packets = [
        some_packets(1),
        some_packets(1)
            .into_iter()
            .map(|packet| t::Captured { time_ns: packet.time_ns + 600_000_000, ..packet })
            .collect(),
    ]
    .concat();
    let file = t::pcap(t::Form::default(), &packets);
    let seconds = summary(&read(&["--summary", "json", "--speed", "real"], &file))["seconds"].as_f64().unwrap();
    assert!(seconds >= 0.6, "{seconds}");
}

#[test]
fn wrong_options_and_configurations_are_named() {
    let output = read(&["--interval", "7s"], &capture(1));
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("one of 1s, 2s, 5s"), "{}", stderr(&output));
    assert_refused(&read(&["--probe", "No Such"], &capture(1)), 2, "cannot be a probe's name");
    let folder = tempfile::tempdir().unwrap();
    let config = |text: &str| {
        let path = folder.path().join("weir-probe.toml");
        std::fs::write(&path, text).unwrap();
        probe().args(["run", "--config"]).arg(&path).output().unwrap()
    };
    assert_refused(&config("probe = \"a\"\nintervall = \"10s\""), 2, "line 2: unknown field `intervall`");
    assert_refused(&config("probe = \"a\""), 2, "source.interface is not set");
    assert_refused(&config("[source]\ninterface = \"nosuch0\""), 2, "there is no interface \"nosuch0\"");
    let missing = probe().args(["run", "--config", "/no/such.toml"]).output().unwrap();
    assert_refused(&missing, 2, "cannot read /no/such.toml");
}

#[test]
fn a_closed_output_is_no_error() {
    let mut child = probe()
        .args(["read", "-", "--to", "jsonl"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    child.stdin.take().unwrap().write_all(&capture(5)).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(!stderr(&output).contains("panicked") && !stderr(&output).contains("Broken pipe"), "{}", stderr(&output));
}

#[test]
fn the_example_configuration_is_printed() {
    let output = probe().arg("config-example").output().unwrap();
    let kept = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("weir-probe.example.toml")).unwrap();
    assert_eq!(output.stdout, kept);
}

#[test]
fn every_command_has_help_with_an_example() {
    for command in ["run", "read", "interfaces", "config-example", "completions", "man"] {
        let output = probe().args([command, "--help"]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.contains("Example") && text.contains("weir-probe"), "{text}");
    }
    let man = probe().arg("man").output().unwrap();
    assert!(String::from_utf8_lossy(&man.stdout).contains(".TH weir-probe"));
    for shell in ["bash", "zsh", "fish"] {
        let script = probe().args(["completions", shell]).output().unwrap();
        assert!(String::from_utf8_lossy(&script.stdout).contains("keep-time"), "{shell}");
    }
}
