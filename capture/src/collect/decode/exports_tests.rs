//! Exports as golden texts that a person can read: `tests/golden/exports`. Those of `tests/exports` (`own-*.txt`)
//! follow the vendors' documents; exports that vendors' devices sent are not part of the project, and their test
//! says `SKIPPED` if they are absent. `WEIR_BLESS=1` writes the texts again.

use super::*;
use crate::collect::record::{GivenName, InterfaceCounters, Named, NatEvent, SentCounts};
use crate::packet::{Frame, LinkType, parse};
use crate::source::file::CaptureFile;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Writes one line for each decoded item.
#[derive(Default)]
struct Lines(String);

impl Take for Lines {
    fn flow(&mut self, from: &ExporterInfo, record: &Imported<'_>) {
        let [src, dst] = record.addresses.map(|address| crate::packet::readable(&address));
        let [fwd, rev] = &record.sent;
        let sent = |sent: &SentCounts| {
            let SentCounts { packets, octets, tcp_flags, class_of_service, .. } = sent;
            format!("{packets} packets {octets} octets flags {tcp_flags:#x} class {class_of_service:#x}")
        };
        let mut line = format!(
            "flow {} {}/{} {src}:{} > {dst}:{} protocol {} vlan {}: {}",
            crate::packet::readable(from.speaker()),
            from.protocol,
            from.domain,
            record.ports[0],
            record.ports[1],
            record.protocol,
            record.vlan,
            sent(fwd)
        );
        if *rev != SentCounts::default() {
            line += &format!("; back {}", sent(rev));
        }
        line += &format!("; {} ms to {}; interfaces", record.last_ms - record.first_ms, record.last_ms);
        line += &format!(" {} {}", record.input_interface, record.output_interface);
        if let Some(rate) = record.sampling {
            line += &format!("; 1 in {rate}");
        }
        if record.application_id > 0 {
            line += &format!("; application {}", record.application_id);
        }
        if let Some(routed) = record.routed {
            line += &format!("\n     {}", said(&routed.read().unwrap_or_default()));
        }
        self.0 += &line;
        self.0 += "\n";
    }

    fn event(&mut self, _: &ExporterInfo, event: &NatEvent<'_>) {
        let two = |addresses: &[Address; 2], ports: &[u16; 2]| {
            let end = |at: usize| format!("{}:{}", crate::packet::readable(&addresses[at]), ports[at]);
            format!("{} {}", end(0), end(1))
        };
        let _ = writeln!(
            self.0,
            "event nat {} firewall {} at {} protocol {}: {} as {}; block {:?} of {}; vrf {:?}; connection {}; user {:?}",
            event.nat_event,
            event.firewall_event,
            event.time_ms,
            event.protocol,
            two(&event.addresses, &event.ports),
            two(&event.translated, &event.translated_ports),
            event.port_block,
            event.port_count,
            event.vrf,
            event.connection,
            String::from_utf8_lossy(event.user)
        );
    }

    fn name(&mut self, _: &ExporterInfo, given: &GivenName<'_>) -> bool {
        let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        let (name, description) = (text(given.name), text(given.description));
        let _ = writeln!(
            self.0,
            "{} {}: {name:?} {description:?}",
            if given.of == Named::Vrf { "vrf" } else { "interface" },
            given.number
        );
        true
    }

    fn counters(&mut self, _: &ExporterInfo, counters: &InterfaceCounters) -> bool {
        let _ = writeln!(self.0, "{counters:?}");
        true
    }
}

/// The parts of a route that are present.
fn said(route: &Route) -> String {
    let all = format!("{route:?}");
    let nothing = format!("{:?}", Route::default());
    let parts = |text: &str| -> Vec<String> {
        let (mut depth, mut parts) = (0, vec![String::new()]);
        for letter in text.trim_start_matches("Route { ").trim_end_matches(" }").chars() {
            match letter {
                '[' | '(' => depth += 1,
                ']' | ')' => depth -= 1,
                _ => {}
            }
            match (letter, parts.last_mut()) {
                (',', _) if depth == 0 => parts.push(String::new()),
                (_, Some(part)) => part.push(letter),
                _ => {}
            }
        }
        parts.into_iter().map(|part| part.trim().to_owned()).collect()
    };
    let hop = |name: &str, address: &Address| {
        (*address != Address::default()).then(|| format!("{name}: {}", crate::packet::readable(address)))
    };
    let [source, destination] = &route.translated;
    let hops = [
        hop("next_hop", &route.next_hop),
        hop("bgp_next_hop", &route.bgp_next_hop),
        hop("translated source", source),
        hop("translated destination", destination),
    ];
    let (all, nothing) = (parts(&all), parts(&nothing));
    let rest = all
        .into_iter()
        .zip(nothing)
        .filter(|(one, other)| one != other && !one.contains("_hop") && !one.starts_with("translated:"));
    hops.into_iter().flatten().chain(rest.map(|(one, _)| one)).collect::<Vec<_>>().join(", ")
}

/// A datagram: its session, its arrival time and its content.
pub(super) type Datagram = (Session, i64, Vec<u8>);

/// The datagrams within a capture, whatever port they are for.
pub(super) fn captured(path: &Path) -> Vec<Datagram> {
    let file = CaptureFile::open(path).unwrap();
    let mut reader = file.reader();
    let mut datagrams = Vec::new();
    while let Ok(Some(raw)) = reader.next(file.octets()) {
        let link = LinkType::from_number(raw.link).unwrap_or(LinkType::Unknown);
        let packet = parse(&Frame { time_ns: raw.time_ns, link, data: raw.data, length: raw.length, vlan: None });
        let Ok(ip) = packet.ip else { continue };
        let start = packet.layer3 as usize + usize::from(ip.transport) + 8;
        let Some(payload) = raw.data.get(start..) else { continue };
        let from = Session { address: ip.src, port: ip.src_port, local_port: ip.dst_port, stream: false };
        datagrams.push((from, raw.time_ns, payload.to_vec()));
    }
    datagrams
}

/// The datagrams of a text: a line `from ADDRESS PORT to PORT at MS` begins one, the others are hexadecimal, comments after `#`.
fn written(path: &Path) -> Vec<Datagram> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut datagrams: Vec<Datagram> = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let ["from", address, port, "to", local_port, "at", ms] = line.split(' ').collect::<Vec<_>>()[..] {
            let address = crate::packet::address(address.parse().unwrap());
            let (port, local_port) = (port.parse().unwrap(), local_port.parse().unwrap());
            let from = Session { address, port, local_port, stream: false };
            datagrams.push((from, ms.parse::<i64>().unwrap() * 1_000_000, Vec::new()));
            continue;
        }
        let digits: Vec<u8> = line.bytes().filter(|digit| !digit.is_ascii_whitespace()).collect();
        let octets = digits.chunks(2).map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap());
        if let Some((_, _, data)) = datagrams.last_mut() {
            data.extend(octets);
        }
    }
    datagrams
}

fn told(datagrams: &[Datagram]) -> String {
    let mut decoder = Decoder::default();
    let mut lines = Lines::default();
    for (from, time_ns, data) in datagrams {
        decoder.datagram_to(*from, *time_ns, data, &mut lines);
    }
    decoder.end();
    let mut text = lines.0;
    let counts = decoder.counts();
    let _ = writeln!(
        text,
        "{} datagrams, {} records, {} options, {} templates, {} samples of counters, {} lost",
        counts.datagrams, counts.records, counts.options, counts.templates, counts.counter_samples, counts.losses.lost
    );
    for known in decoder.exporters() {
        let _ = writeln!(
            text,
            "exporter {} {}/{}: sampling {:?} {}",
            crate::packet::readable(known.info.speaker()),
            known.info.protocol,
            known.info.domain,
            known.sampling,
            known.sampling_state.name()
        );
    }
    for cause in Refusal::ALL {
        if counts.of(cause) > 0 {
            let _ = writeln!(text, "{}: {}", cause.name(), counts.of(cause));
        }
    }
    for (name, count) in decoder.left_out() {
        let _ = writeln!(text, "left out: {name} {count}");
    }
    text
}

/// Compares the text of a decoded export with its golden file.
fn compare(name: &str, told: &str) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/exports").join(format!("{name}.txt"));
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&golden, told).unwrap();
    }
    assert_eq!(told, std::fs::read_to_string(&golden).unwrap_or_default(), "{}", golden.display());
}

/// The files of a folder with this ending, sorted; `None` if the folder does not exist.
fn files(folder: &Path, extension: &str) -> Option<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).ok()?;
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|other| other == extension));
    paths.sort();
    Some(paths)
}

/// The folder of vendors' exports; if it is absent, says that the test of this name skips.
pub(super) fn vendors(test: &str) -> Option<PathBuf> {
    let exports = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/exports");
    if exports.is_dir() {
        return Some(exports);
    }
    // libtest keeps what `println!` writes in a test that passes; `tests/run.py` reads this line.
    let said = format!("\nSKIPPED 1 ../shared/exports is absent: {test}\n");
    std::io::stdout().write_all(said.as_bytes()).unwrap();
    None
}

#[test]
fn exports_of_vendors_are_read_as_before() {
    let Some(exports) = vendors("exports_of_vendors_are_read_as_before") else { return };
    let paths = files(&exports, "pcap").unwrap_or_default();
    assert!(!paths.is_empty(), "{}", exports.display());
    for path in paths {
        compare(&path.file_stem().unwrap().to_string_lossy(), &told(&captured(&path)));
    }
}

#[test]
fn exports_after_the_documents_of_vendors_are_read_as_before() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exports");
    let paths = files(&folder, "txt").unwrap_or_default();
    assert!(paths.len() >= 12, "{}", folder.display());
    for path in paths {
        let datagrams = written(&path);
        assert!(!datagrams.is_empty(), "{}", path.display());
        compare(&format!("own-{}", path.file_stem().unwrap().to_string_lossy()), &told(&datagrams));
    }
}
