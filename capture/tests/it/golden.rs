//! Captures that this file generates, and the resulting records: `tests/golden/<name>.jsonl`, one record a line.
//!
//! `WEIR_BLESS=1 cargo test golden` writes them again; read the difference before you commit it.

use crate::testing::{self as t, ACK, FIN, RST, SYN};
use crate::{own, probe};

/// An interval's start.
const TIME_NS: u64 = 1_600_000_000_000_000_000;
const CLIENT: [u8; 4] = [192, 0, 2, 10];
const SERVER: [u8; 4] = [198, 51, 100, 20];

fn at(ms: u64, data: Vec<u8>) -> t::Captured {
    t::whole(TIME_NS + ms * 1_000_000, data)
}

/// Reads a capture with this configuration. Without nDPI: not every build has it, nor the same version.
fn golden(name: &str, file: &[u8], config: &str) {
    let folder = tempfile::tempdir().unwrap();
    let [capture, toml] = ["capture", "weir-probe.toml"].map(|name| folder.path().join(name));
    std::fs::write(&capture, file).unwrap();
    std::fs::write(&toml, format!("[applications]\nndpi = \"off\"\n{config}")).unwrap();
    let mut command = probe();
    command.arg("read").arg(&capture).args(["--to", "jsonl", "--keep-time", "--config"]).arg(&toml);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found = without_registers(&String::from_utf8(output.stdout).unwrap());
    let path = own("golden").join(name).with_extension("jsonl");
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, wanted, "{} differs: see the head of golden.rs", path.display());
}

/// Each run hashes with another key: of a sketch's 256 digits stays how many of them there are.
fn without_registers(lines: &str) -> String {
    let mut parts = lines.split("\"distinct_sketch\":\"");
    let mut left = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (registers, rest) = part.split_once('"').unwrap();
        left += &format!("\"distinct_sketch\":\"{} digits\"{rest}", registers.len());
    }
    left
}

fn pcap(packets: &[t::Captured]) -> Vec<u8> {
    t::pcap(t::Form { nanoseconds: true, ..t::Form::default() }, packets)
}

#[test]
fn tcp_connection_over_two_intervals() {
    let there = |flags, sequence, acknowledgement, payload: &[u8]| {
        t::frame(0x0800, &t::ipv4(CLIENT, SERVER, 6, &t::tcp((40000, 80), flags, sequence, acknowledgement, payload)))
    };
    let back = |flags, sequence, acknowledgement, payload: &[u8]| {
        t::frame(0x0800, &t::ipv4(SERVER, CLIENT, 6, &t::tcp((80, 40000), flags, sequence, acknowledgement, payload)))
    };
    golden(
        "tcp_connection",
        &pcap(&[
            at(9000, there(SYN, 1000, 0, b"")),
            at(9012, back(SYN | ACK, 5000, 1001, b"")),
            at(9025, there(ACK, 1001, 5001, b"")),
            at(9030, there(ACK, 1001, 5001, b"GET / HTTP/1.1\r\n\r\n")),
            at(12_000, back(ACK, 5001, 1019, &[b'x'; 1200])),
            at(12_001, back(FIN | ACK, 6201, 1019, b"")),
            at(12_050, there(FIN | ACK, 1019, 6202, b"")),
            at(12_060, back(RST, 6202, 0, b"")),
        ]),
        "",
    );
}

#[test]
fn names_pings_and_errors() {
    let question = t::ipv4(CLIENT, SERVER, 17, &t::udp((5353, 53), b"question"));
    let quoted = [&[0; 4][..], &question[..28]].concat();
    let v6 = |src, dst, next, payload: &[u8]| t::frame(0x86dd, &t::ipv6(src, dst, next, payload));
    golden(
        "dns_icmp",
        &pcap(&[
            at(1, t::frame(0x0800, &question)),
            at(21, t::frame(0x0800, &t::ipv4(SERVER, CLIENT, 17, &t::udp((53, 5353), &[7; 100])))),
            at(30, t::frame(0x0800, &t::ipv4(CLIENT, SERVER, 1, &t::icmp(8, 0, &[0; 56])))),
            at(42, t::frame(0x0800, &t::ipv4(SERVER, CLIENT, 1, &t::icmp(0, 0, &[0; 56])))),
            at(50, t::frame(0x0800, &t::ipv4(SERVER, CLIENT, 1, &t::icmp(3, 3, &quoted)))),
            at(60, v6(1, 2, 58, &t::icmp(128, 0, &[0; 56]))),
            at(61, v6(2, 1, 58, &t::icmp(129, 0, &[0; 56]))),
            at(70, v6(1, 2, 17, &t::udp((546, 547), b"solicit"))),
            at(80, t::frame(0x0806, &[0; 28])),
        ]),
        "",
    );
}

#[test]
fn classes_of_service_of_both_directions() {
    let classified = |class, packet: Vec<u8>| {
        t::frame(if packet[0] >> 4 == 4 { 0x0800 } else { 0x86dd }, &t::classified(class, packet))
    };
    let six = |src, dst, ports| t::ipv6(src, dst, 17, &t::udp(ports, b"voice"));
    golden(
        "class_of_service",
        &pcap(&[
            at(1, classified(0xb8, t::ipv4(CLIENT, SERVER, 17, &t::udp((5060, 5060), b"INVITE")))),
            at(2, classified(0x68, t::ipv4(SERVER, CLIENT, 17, &t::udp((5060, 5060), b"OK")))),
            at(3, classified(0x00, t::ipv4(CLIENT, SERVER, 17, &t::udp((5060, 5060), b"ACK")))),
            at(4, classified(0x2b, six(1, 2, (7000, 7001)))),
            at(5, classified(0x00, six(2, 1, (7001, 7000)))),
        ]),
        "",
    );
}

#[test]
fn tags_fragments_and_cut_packets() {
    let tagged = |vlan, ip: &[u8]| t::frame(0x8100, &t::tagged(vlan, 0x0800, ip));
    let datagram = t::ipv4(CLIENT, SERVER, 17, &t::udp((1, 2), &[0; 900]));
    let first = t::ipv4_with(CLIENT, SERVER, 17, &[], 0x2000, &t::udp((1, 2), &[0; 800]));
    let later = t::ipv4_with(CLIENT, SERVER, 17, &[], 101, &[0; 100]);
    let sctp = t::ipv4(CLIENT, SERVER, 132, &[0x0b, 0x80, 0x0b, 0x81, 0, 0, 0, 0, 0, 0, 0, 0]);
    let cut = t::frame(0x0800, &datagram);
    golden(
        "tags_fragments",
        &pcap(&[
            at(1, tagged(10, &datagram)),
            at(2, tagged(20, &datagram)),
            at(3, t::frame(0x88a8, &t::tagged(30, 0x8100, &t::tagged(40, 0x0800, &datagram)))),
            at(4, t::frame(0x0800, &first)),
            at(5, t::frame(0x0800, &later)),
            at(6, t::frame(0x0800, &sctp)),
            // Only headers were captured; octets count the whole packet on the wire.
            t::Captured { length: cut.len() as u32, data: cut[..50].to_vec(), ..at(7, Vec::new()) },
        ]),
        "",
    );
}

#[test]
fn overflow_records_say_what_they_give_up() {
    let packets: Vec<_> = (0..60u8)
        .map(|number| {
            let target = [198, 51, 100, number];
            at(u64::from(number), t::frame(0x0800, &t::ipv4(CLIENT, target, 6, &t::tcp((40000, 22), SYN, 1, 0, b""))))
        })
        .collect();
    golden("overflow", &pcap(&packets), "[limits]\nmax_records_per_interval = 2\n");
}

#[test]
fn pcapng_of_both_byte_orders() {
    let mut file = Vec::new();
    for (big_endian, port) in [(false, 1), (true, 2)] {
        let ip = t::ipv4(CLIENT, SERVER, 17, &t::udp((port, 9), b""));
        file.extend(t::section(big_endian));
        file.extend(t::interface(big_endian, 1, Some(9)));
        file.extend(t::interface(big_endian, 101, None));
        file.extend(t::enhanced(big_endian, 0, TIME_NS + 5_000_000, &t::frame(0x0800, &ip)));
        file.extend(t::enhanced(big_endian, 1, TIME_NS / 1000 + 6000, &ip));
    }
    golden("pcapng", &file, "");
}
