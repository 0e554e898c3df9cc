//! Applications and names of the flows in whole captures, with a flow table of the tests' own.

use crate::common::captures;
use crate::needs::{Need, live};
use crate::testing as t;
use serde_json::json;
use std::collections::HashMap;
use std::io::Write as _;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};
use std::time::Instant;
use weir_probe::app::{AppCounts, AppOptions, AppPacket, AppSlot, Apps, NotInspected};
use weir_probe::meter::key::{End, Initiator, Key};
use weir_probe::packet::{Frame, IpPacket, LinkType, parse};
use weir_probe::source::file::CaptureFile;

live! {
    [Need::NdpiCaptures] => applications_and_names_of_shared_captures, what_applications_cost;
}

/// A packet as the meter shows it.
struct Shown {
    ip: IpPacket,
    l3: Vec<u8>,
    l4: usize,
    vlan: u16,
    time_ms: u64,
}

impl Shown {
    fn of_flow(&self, from_initiator: bool) -> AppPacket<'_> {
        AppPacket { ip: &self.ip, l3: &self.l3, l4: self.l4, from_initiator, time_ms: self.time_ms }
    }

    fn of(frame: &Frame<'_>) -> Option<Shown> {
        let packet = parse(frame);
        let ip = packet.ip.ok()?;
        // Whether IP begins at this offset: the rest of the frame, parsed as raw IP, gives the same packet.
        let begins = |at: &usize| {
            let data = &frame.data[*at..];
            matches!(data[0] >> 4, 4 | 6)
                && parse(&Frame { link: LinkType::RawIp, data, length: frame.length - *at as u32, ..*frame }).ip
                    == Ok(ip)
        };
        let l3 = &frame.data[(0..frame.data.len()).find(begins)?..];
        let l4 = transport(l3);
        Some(Shown { ip, l3: l3.to_vec(), l4, vlan: packet.vlan, time_ms: (frame.time_ns / 1_000_000) as u64 })
    }
}

/// Where the transport header begins.
fn transport(l3: &[u8]) -> usize {
    if l3[0] >> 4 == 4 {
        return usize::from(l3[0] & 15) * 4;
    }
    let (mut next, mut at) = (l3[6], 40);
    while let (0 | 43 | 44 | 51 | 60, Some(&[following, length])) = (next, l3.get(at..).and_then(|l3| l3.first_chunk()))
    {
        at += match next {
            44 => 8,
            51 => usize::from(length) * 4 + 8,
            _ => usize::from(length) * 8 + 8,
        };
        next = following;
    }
    at
}

/// The packets of a capture, up to the point where it is damaged.
fn packets(path: &Path) -> Vec<Shown> {
    let Ok(file) = CaptureFile::open(path) else { return Vec::new() };
    let (mut reader, mut packets) = (file.reader(), Vec::new());
    while let Ok(Some(raw)) = reader.next(file.octets()) {
        let link = LinkType::from_number(raw.link).unwrap_or(LinkType::Unknown);
        let length = raw.length.max(raw.data.len() as u32);
        packets.extend(Shown::of(&Frame { time_ns: raw.time_ns, link, data: raw.data, length, vlan: None }));
    }
    packets
}

struct Flow {
    initiator: End,
    slot: AppSlot,
}

/// Shows packets to `apps`, all of one flow to one slot.
fn walk(apps: &mut Apps, packets: &[Shown]) -> HashMap<Key, Flow> {
    let mut flows: HashMap<Key, Flow> = HashMap::new();
    for packet in packets {
        let (key, sender) = Key::of(&packet.ip, packet.vlan);
        let flow = flows.entry(key).or_insert_with(|| Flow {
            initiator: Initiator::told_by(&packet.ip, sender).end,
            slot: AppSlot::default(),
        });
        let from_initiator = sender == flow.initiator;
        apps.packet(&mut flow.slot, &packet.of_flow(from_initiator));
    }
    flows
}

/// A flow as `read --to jsonl` prints it, with only its key, application and names.
fn record(key: &Key, flow: &Flow) -> serde_json::Value {
    let address = |end: End| Ipv6Addr::from(key.addresses[usize::from(end)]).to_canonical().to_string();
    let (from, to) = (flow.initiator, 1 - flow.initiator);
    json!({
        "src_addr": address(from), "src_port": key.source_port(from),
        "dst_addr": address(to), "dst_port": key.ports[usize::from(to)],
        "protocol": key.protocol,
        "application_id": flow.slot.application_id(),
        "server_name": flow.slot.server_name().map_or("", |name| name.as_str()),
        "dns_query": flow.slot.dns_query().map_or("", |name| name.as_str()),
        "not_inspected": flow.slot.not_inspected().map(NotInspected::name),
    })
}

/// The folder of nDPI's captures; `WEIR_APPS_CAPTURES=FOLDER` names another.
pub fn folder() -> PathBuf {
    let usual = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/pcaps/ndpi");
    std::env::var_os("WEIR_APPS_CAPTURES").map_or_else(usual, PathBuf::from)
}

fn shared_captures() -> Vec<PathBuf> {
    let mut files = Vec::new();
    captures(&folder(), &mut files);
    files.sort();
    files
}

fn number(variable: &str, default: u8) -> u8 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// nDPI's captures, each as a probe of its own would see it. `WEIR_APPS_RECORDS=FOLDER` keeps the results, for
/// `tests/compare_ndpi.py --records`; `WEIR_APPS_TCP` and `WEIR_APPS_UDP` set the budgets.
fn applications_and_names_of_shared_captures() {
    let files = shared_captures();
    let default = AppOptions::default();
    let options = AppOptions {
        tcp_packets: number("WEIR_APPS_TCP", default.tcp_packets),
        udp_packets: number("WEIR_APPS_UDP", default.udp_packets),
        ..default
    };
    let records = std::env::var_os("WEIR_APPS_RECORDS").map(PathBuf::from);
    let (mut flows, mut told, mut sum) = (0, 0, AppCounts::default());
    for path in &files {
        let mut apps = Apps::new(&options).unwrap();
        let mut found = walk(&mut apps, &packets(path));
        flows += found.len();
        told += found.values().filter(|flow| flow.slot.application_id() != 0).count();
        let counts = apps.counts();
        sum.names += counts.names;
        sum.inspected.flows += counts.inspected.flows;
        sum.inspected.packets += counts.inspected.packets;
        if let Some(folder) = &records {
            let name = format!("{}.jsonl", path.file_name().unwrap().to_string_lossy());
            let mut file = std::io::BufWriter::new(std::fs::File::create(folder.join(name)).unwrap());
            for (key, flow) in &found {
                writeln!(file, "{}", record(key, flow)).unwrap();
            }
        }
        found.values_mut().for_each(|flow| apps.end(&mut flow.slot));
        assert_eq!(apps.load().0, 0, "{}: every state was given back", path.display());
    }
    eprintln!("{} captures, {flows} flows, {told} with an application: {sum:?}", files.len());
    assert!(sum.names > flows as u64 / 10);
    assert!(!options.ndpi || told > flows / 3);
}

/// The cost of application detection per packet and flow: `cargo test --release --test live what_applications_cost --
/// --ignored`.
fn what_applications_cost() {
    let files = shared_captures();
    // Flows of different captures stay separate, because each capture has its own VLAN number.
    let mut ordinary: Vec<Shown> = Vec::new();
    for (number, path) in files.iter().enumerate() {
        ordinary.extend(packets(path).into_iter().map(|packet| Shown { vlan: number as u16, ..packet }));
    }
    // One million packets, in flows of `packets` packets each, of which only the first has payload.
    let flood = |packets: u32, port: u16, payload: &[u8]| -> Vec<Shown> {
        (0..1_000_000u32)
            .map(|number| {
                let [_, a, b, c] = (number / packets).to_be_bytes();
                let l3 = t::ipv4(
                    [10, a, b, c],
                    [198, 51, 100, 1],
                    17,
                    &t::udp((4000, port), if number % packets == 0 { payload } else { b"" }),
                );
                let data = t::frame(0x0800, &l3);
                let length = data.len() as u32;
                let frame = Frame { time_ns: 0, link: LinkType::Ethernet, data: &data, length, vlan: None };
                Shown { ip: parse(&frame).ip.unwrap(), l3, l4: 20, vlan: 0, time_ms: u64::from(number / 1000) }
            })
            .collect()
    };
    // nDPI knows this name: it decides at once and frees its state for the next flow.
    let question = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x03www\x06google\x03com\0\0\x01\0\x01";
    let traces = [
        ("ordinary", ordinary),
        ("each packet a new flow", flood(1, 9, b"18 octets of noise")),
        ("each packet a question", flood(1, 53, question)),
        // Just below the share at which inspection stops: the most expensive traffic possible.
        ("every third packet a new flow", flood(3, 9, b"18 octets of noise")),
        ("every third packet a question", flood(3, 53, question)),
    ];
    let off = AppOptions { ndpi: false, names: false, ..AppOptions::default() };
    let names = AppOptions { names: true, ..off.clone() };
    let mut cases = vec![("off".to_owned(), off), ("names".to_owned(), names)];
    for budget in [2, 4, 8, 16, 32] {
        let options = AppOptions { tcp_packets: budget, udp_packets: budget, ..AppOptions::default() };
        cases.push((format!("names, nDPI {budget}"), options));
    }
    for (name, packets) in &traces {
        // Packets are assigned to flows in advance, so that the measurement includes no flow table.
        let mut numbers: HashMap<Key, (usize, End)> = HashMap::new();
        let order: Vec<(usize, bool)> = packets
            .iter()
            .map(|packet| {
                let (key, sender) = Key::of(&packet.ip, packet.vlan);
                let next = numbers.len();
                let entry = numbers.entry(key).or_insert((next, Initiator::told_by(&packet.ip, sender).end));
                (entry.0, sender == entry.1)
            })
            .collect();
        println!("{name}: {} packets, {} flows", packets.len(), numbers.len());
        let (mut off_ns, mut names_ns) = (0.0, 0.0);
        for (case, options) in cases.iter().filter(|(_, options)| cfg!(ndpi) || !options.ndpi) {
            let mut best = f64::INFINITY;
            let mut counts = AppCounts::default();
            for _ in 0..3 {
                let mut apps = Apps::new(options).unwrap();
                let mut slots: Vec<AppSlot> = (0..numbers.len()).map(|_| AppSlot::default()).collect();
                let started = Instant::now();
                for (packet, &(flow, from_initiator)) in packets.iter().zip(&order) {
                    apps.packet(&mut slots[flow], &packet.of_flow(from_initiator));
                }
                best = best.min(started.elapsed().as_nanos() as f64);
                counts = *apps.counts();
                slots.iter_mut().for_each(|slot| apps.end(slot));
            }
            let each = |base: f64, count: u64| (best - base) / count as f64;
            let all = packets.len() as u64;
            print!("  {case:<16} {:6.1} ns a packet", each(0.0, all));
            match &case[..] {
                "off" => off_ns = best,
                "names" => {
                    names_ns = best;
                    print!(", {:6.1} more than off", each(off_ns, all));
                }
                _ => print!(
                    ", {:6.1} more than names; {:5.0} ns each of {} calls, {:5.0} ns each of {} inspected flows",
                    each(names_ns, all),
                    each(names_ns, counts.inspected.packets),
                    counts.inspected.packets,
                    each(names_ns, counts.inspected.flows),
                    counts.inspected.flows,
                ),
            }
            println!("; {} names; flows not inspected {:?}", counts.names, counts.not_inspected.map(|not| not.flows));
        }
    }
}
