//! `weir-probe read -`: captures on standard input.

use crate::testing as t;
use crate::{assert_balanced, probe};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Output, Stdio};

const TIME_NS: u64 = 1_600_000_000_000_000_000;

/// Packets of `hosts` pairs, one every 100 ms.
fn packets(count: u64, hosts: u64, payload: usize) -> Vec<t::Captured> {
    (0..count)
        .map(|number| {
            let ip =
                t::ipv4([10, 0, 0, (number % hosts) as u8], [192, 0, 2, 1], 17, &t::udp((7, 53), &vec![0; payload]));
            t::whole(TIME_NS + number * 100_000_000, t::frame(0x0800, &ip))
        })
        .collect()
}

fn pcap(packets: &[t::Captured]) -> Vec<u8> {
    t::pcap(t::Form::default(), packets)
}

fn start(arguments: &[&str]) -> Child {
    let mut command = probe();
    command.args(["read", "-"]).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn read(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = start(arguments);
    // A command that rejects its input does not read it to the end.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn summary(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let summary = serde_json::from_str(text.lines().last().unwrap_or_else(|| panic!("{output:?}"))).unwrap();
    assert_balanced(&summary, "stream");
    summary
}

#[test]
fn a_stream_is_metered_as_its_file_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.pcap");
    let file = pcap(&packets(500, 20, 30));
    std::fs::write(&path, &file).unwrap();
    for more in [&[][..], &["--workers", "3"]] {
        let arguments = [&["--summary", "json", "--keep-time"], more].concat();
        let of_stream = summary(&read(&arguments, &file));
        let of_file = summary(&probe().arg("read").arg(&path).args(&arguments).output().unwrap());
        for key in ["packets", "octets", "flows", "records", "closing_records", "time_shift_ms"] {
            assert_eq!(of_stream[key], of_file[key], "{key} {more:?}");
        }
    }
}

/// Kills the program under test if a test fails, and ends its wait for more input.
struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn records_come_while_the_stream_goes_on() {
    let mut child = Guarded(start(&["--to", "jsonl", "--keep-time", "--interval", "1s"]));
    let mut input = child.0.stdin.take().unwrap();
    // A thousand flows a second for four seconds: more than any buffer on the way out holds.
    let packets: Vec<_> = (0..4000u64)
        .map(|number| {
            let ip = t::ipv4([10, 0, (number >> 8) as u8, number as u8], [192, 0, 2, 1], 17, &t::udp((7, 53), b""));
            t::whole(TIME_NS + number * 1_000_000, t::frame(0x0800, &ip))
        })
        .collect();
    input.write_all(&pcap(&packets)).unwrap();
    // The stream is still open, and the first interval's records are out.
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    let first: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!((&first["interval_start"], &first["fwd_packets"]), (&"2020-09-13T12:26:40.000Z".into(), &1.into()));
    drop(input);
    assert_eq!(lines.count(), 3999);
    assert!(child.0.wait().unwrap().success());
}

#[test]
fn a_signal_ends_it_though_nothing_comes() {
    for input in [Vec::new(), pcap(&packets(3, 1, 30))] {
        let mut child = Guarded(start(&["--summary", "json"]));
        let mut stdin = child.0.stdin.take().unwrap();
        stdin.write_all(&input).unwrap();
        // The agent handles signals by now; otherwise the signal would kill it without a message.
        std::thread::sleep(std::time::Duration::from_millis(500));
        assert!(Command::new("kill").args(["-TERM", &child.0.id().to_string()]).status().unwrap().success());
        let mut errors = String::new();
        child.0.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        if !errors.is_empty() {
            assert!(errors.contains("stopped before the"), "{errors}");
            assert_eq!(child.0.wait().unwrap().code(), Some(1));
        }
        drop(stdin);
    }
}

#[test]
fn times_are_moved_so_that_the_first_packet_is_recent() {
    let now_ms = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64;
    let moved = summary(&read(&["--summary", "json"], &pcap(&packets(1000, 1, 30))))["time_shift_ms"].as_i64().unwrap();
    let first_ms = (TIME_NS / 1_000_000) as i64 + moved;
    assert_eq!(moved % 30_000, 0);
    assert!((now_ms - 30_001..now_ms + 60_000).contains(&first_ms), "{first_ms} {now_ms}");
}

#[test]
fn what_is_wrong_with_a_stream_is_said_as_of_a_file() {
    let file = pcap(&packets(10, 1, 30));
    let cut = read(&["--summary", "json"], &file[..file.len() - 1]);
    let error = String::from_utf8_lossy(&cut.stderr).into_owned();
    assert_eq!(cut.status.code(), Some(3), "{error}");
    assert!(error.contains("- ends early: it is cut in mid-packet") && error.contains("9 whole packets"), "{error}");
    assert_eq!(summary(&cut)["packets"]["captured"], 9);
    let refused = |output: &Output, needle: &str| {
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(needle) && error.lines().count() == 1, "{error}");
    };
    refused(&read(&[], b""), "- is empty");
    refused(&read(&[], &[b'x'; 100]), "neither a pcap nor a pcapng file");
    refused(&read(&["/no/such/file"], &file), "the standard input (-) cannot be combined");
}

#[test]
fn memory_does_not_grow_with_the_stream() {
    let mut child = start(&["--summary", "json", "--keep-time"]);
    let mut input = child.stdin.take().unwrap();
    let file = pcap(&packets(1000, 20, 1400));
    input.write_all(&file[..24]).unwrap();
    let most_kib = |child: &Child| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    // 20 MB, then 150 MB more.
    let mut send = |times: u32| (0..times).for_each(|_| input.write_all(&file[24..]).unwrap());
    send(14);
    let before = most_kib(&child);
    send(105);
    let after = most_kib(&child);
    println!("{before} KiB after 20 MB, {after} KiB after 170 MB");
    assert!(after < before + (64 << 10), "{before} KiB, then {after} KiB");
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert_eq!(summary(&output)["packets"]["captured"], 119_000);
}
