//! `weir-probe bench-decode`: what decoding costs, over generated datagrams that are wholly in memory.

use super::decode::{Decoder, ExporterInfo, Protocol};
use super::record::Imported;
use crate::cli::BenchDecodeArgs;
use crate::packet::Address;
use crate::proto;
use crate::publish::elements::{Template, View};
use crate::publish::nprobe_json::JsonForm;
use crate::{Exit, Failure, host};
use anyhow::Context as _;
use serde_json::json;
use std::hint::black_box;
use std::io::Write as _;
use std::time::Instant;

/// Different datagrams: more than a processor's caches hold would measure memory.
const DATAGRAMS: u32 = 1000;
/// Records of a datagram, as many as an Ethernet frame holds, about.
const RECORDS: u32 = 24;
/// Samples of an sFlow datagram.
const SAMPLES: u32 = 8;
/// When datagrams are sent and come, s; ms since the exporter's boot.
const NOW: u32 = 1_700_000_000;
const UPTIME: u32 = 1_000_000_000;
/// What routers export: addresses, ports, protocol, flags, class of service, counters, times, interfaces, next hop,
/// autonomous systems, prefix lengths.
const FIELDS: [(u16, u16); 18] = [
    (8, 4),
    (12, 4),
    (15, 4),
    (10, 2),
    (14, 2),
    (2, 4),
    (1, 4),
    (22, 4),
    (21, 4),
    (7, 2),
    (11, 2),
    (6, 1),
    (4, 1),
    (5, 1),
    (16, 4),
    (17, 4),
    (9, 1),
    (13, 1),
];

/// Decodes generated datagrams and prints one JSON object, or writes them to a file.
///
/// # Errors
/// [`Exit::CannotStart`] for a protocol that is not known.
pub fn bench(args: &BenchDecodeArgs) -> Result<Exit, Failure> {
    let protocol = Protocol::ALL.into_iter().find(|protocol| protocol.name() == args.protocol);
    let protocol = protocol
        .with_context(|| format!("{:?} is no protocol: netflow5, netflow9, ipfix, sflow or nprobe", args.protocol))
        .map_err(Failure::start)?;
    let first = template(protocol);
    let datagrams: Vec<Vec<u8>> = (0..DATAGRAMS).map(|number| datagram(protocol, number)).collect();
    if let Some(path) = &args.write {
        let mut file = std::fs::File::create(path).with_context(|| path.display().to_string())?;
        for datagram in std::iter::once(&first).chain(&datagrams).filter(|datagram| !datagram.is_empty()) {
            file.write_all(&(datagram.len() as u16).to_be_bytes())?;
            file.write_all(datagram)?;
        }
        return Ok(Exit::Done);
    }
    let mut decoder = Decoder::default();
    let (mut records, mut octets) = (0u64, 0u64);
    let received_ns = i64::from(NOW) * 1_000_000_000;
    let mut feed = |data: &[u8], records: &mut u64| {
        let mut take = |_: &ExporterInfo, record: &Imported<'_>| {
            *records += 1;
            octets += black_box(record).sent[0].octets;
        };
        match protocol {
            Protocol::Nprobe => decoder.nprobe_json(Address::default(), received_ns, data, &mut take),
            _ => decoder.datagram(Address::default(), received_ns, data, &mut take),
        }
    };
    feed(&first, &mut records);
    let (started, cpu_ns) = (Instant::now(), host::thread_cpu_ns());
    while records < args.records {
        for datagram in &datagrams {
            feed(datagram, &mut records);
        }
    }
    let cpu_seconds = (host::thread_cpu_ns() - cpu_ns) as f64 / 1e9;
    println!(
        "{}",
        json!({
            "protocol": protocol.name(),
            "records": records,
            "octets": octets,
            "seconds": started.elapsed().as_secs_f64(),
            "cpu_seconds": cpu_seconds,
            "records_per_cpu_second": (records as f64 / cpu_seconds).round(),
        })
    );
    Ok(Exit::Done)
}

/// The datagram of templates; empty where the protocol has none.
fn template(protocol: Protocol) -> Vec<u8> {
    let mut body = vec![1, 0, 0, FIELDS.len() as u8];
    for (id, length) in fields(protocol) {
        body.extend(id.to_be_bytes());
        body.extend(length.to_be_bytes());
    }
    match protocol {
        Protocol::NetflowV9 => message(protocol, 0, 0, &body),
        Protocol::Ipfix => message(protocol, 0, 2, &body),
        Protocol::NetflowV5 | Protocol::Sflow | Protocol::Nprobe => Vec::new(),
    }
}

/// IPFIX has no uptime in its header: its times are of the Unix epoch.
fn fields(protocol: Protocol) -> impl Iterator<Item = (u16, u16)> {
    FIELDS.into_iter().map(move |(id, length)| match (protocol, id) {
        (Protocol::Ipfix, 22) => (152, 8),
        (Protocol::Ipfix, 21) => (153, 8),
        _ => (id, length),
    })
}

fn datagram(protocol: Protocol, number: u32) -> Vec<u8> {
    let records = number * RECORDS..(number + 1) * RECORDS;
    match protocol {
        Protocol::NetflowV5 => {
            let mut data = vec![0, 5, 0, RECORDS as u8];
            data.extend([UPTIME, NOW, 0, number * RECORDS, 0].iter().flat_map(|word| word.to_be_bytes()));
            records.for_each(|record| netflow5(&mut data, record));
            data
        }
        Protocol::NetflowV9 | Protocol::Ipfix => {
            let mut body = Vec::new();
            for record in records {
                for (id, length) in fields(protocol) {
                    body.extend(&value(id, record).to_be_bytes()[8 - usize::from(length)..]);
                }
            }
            let sequence = if protocol == Protocol::Ipfix { number * RECORDS } else { number + 1 };
            message(protocol, sequence, 256, &body)
        }
        Protocol::Sflow => sflow(number),
        Protocol::Nprobe => nprobe(records),
    }
}

/// What nProbe sends for `@NTOPNG@`: an array of records with numbers for keys.
fn nprobe(records: std::ops::Range<u32>) -> Vec<u8> {
    let form = JsonForm::new(Template::parse("@NTOPNG@", true).unwrap_or_else(|_| unreachable!()), false);
    let mut json = vec![b'['];
    for record in records {
        let flow = proto::Flow {
            src_addr: (value(8, record) as u32).to_be_bytes().to_vec(),
            dst_addr: (value(12, record) as u32).to_be_bytes().to_vec(),
            src_port: value(7, record) as u32,
            dst_port: 443,
            protocol: 6,
            ip_version: 4,
            fwd_packets: value(2, record),
            fwd_octets: value(1, record),
            rev_packets: value(2, record) * 2,
            rev_octets: value(1, record) * 9,
            fwd_tcp_syn: 1,
            rev_tcp_synack: 1,
            tcp_handshake_rtt_us: value(2, record) as u32 * 317,
            application_id: 91,
            server_name: format!("host-{}.example.org", record % 1000),
            first_seen_offset_ms: -10_000,
            last_seen_offset_ms: 9000,
            input_interface: value(10, record) as u32,
            output_interface: value(14, record) as u32,
            exporter_addr: vec![192, 0, 2, 1],
            ..proto::Flow::default()
        };
        form.write(&View::both(&flow, u64::from(NOW) * 1000), &mut json);
        json.push(b',');
    }
    json.pop();
    json.push(b']');
    json
}

/// The value of an element in a record.
fn value(id: u16, record: u32) -> u64 {
    let mixed = record.wrapping_mul(0x9e37_79b1);
    u64::from(match id {
        8 => 0x0a00_0000 | mixed >> 12,
        12 => 0xc633_6400 | mixed & 0xff,
        2 => 1 + mixed % 100,
        1 => 100 + mixed % 100_000,
        22 => UPTIME - 10_000,
        21 => UPTIME - 1000,
        152 => return u64::from(NOW) * 1000 - 10_000,
        153 => return u64::from(NOW) * 1000 - 1000,
        7 => 1024 + mixed % 60_000,
        11 => 443,
        4 => 6,
        6 => 0x1b,
        10 | 14 => 1 + mixed % 8,
        _ => mixed & 0xff,
    })
}

fn netflow5(data: &mut Vec<u8>, record: u32) {
    let lengths = [(8, 4), (12, 4), (15, 4), (10, 2), (14, 2), (2, 4), (1, 4), (22, 4), (21, 4), (7, 2), (11, 2)];
    for (id, length) in lengths {
        data.extend(&value(id, record).to_be_bytes()[8 - length..]);
    }
    data.extend([0, 0x1b, 6, 0]);
    data.extend([0; 8]);
}

/// A message of one set.
fn message(protocol: Protocol, sequence: u32, set: u16, body: &[u8]) -> Vec<u8> {
    let octets = body.len() as u16 + 4;
    let mut data = match protocol {
        Protocol::Ipfix => [[0, 10], (octets + 16).to_be_bytes()].concat(),
        _ => vec![0, 9, 0, RECORDS as u8],
    };
    let words = [UPTIME, NOW, sequence, 1];
    let words = if protocol == Protocol::Ipfix { &words[1..] } else { &words[..] };
    data.extend(words.iter().flat_map(|word| word.to_be_bytes()));
    data.extend(set.to_be_bytes());
    data.extend(octets.to_be_bytes());
    data.extend(body);
    data
}

/// Samples of TCP segments of which 128 octets were sent.
fn sflow(number: u32) -> Vec<u8> {
    let words = |data: &mut Vec<u8>, words: &[u32]| data.extend(words.iter().flat_map(|word| word.to_be_bytes()));
    let mut data = Vec::new();
    words(&mut data, &[5, 1, 0x0a00_0001, 0, number, UPTIME, SAMPLES]);
    for sample in number * SAMPLES..(number + 1) * SAMPLES {
        words(&mut data, &[1, 184, sample, 3, 1000, 0, 0, 5, 6, 1]);
        words(&mut data, &[1, 144, 1, 1518, 4, 128]);
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 5, 220, 0, 0, 0x40, 0, 64, 6, 0, 0];
        words(&mut frame, &[value(8, sample) as u32, value(12, sample) as u32]);
        frame.extend((value(7, sample) as u16).to_be_bytes());
        frame.extend([1, 187, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0xff, 0xff]);
        frame.resize(128, 0);
        data.extend(frame);
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_generated_record_is_decoded() {
        for protocol in Protocol::ALL {
            let mut decoder = Decoder::default();
            let mut records = 0;
            let received_ns = i64::from(NOW) * 1_000_000_000;
            for data in std::iter::once(template(protocol))
                .filter(|data| !data.is_empty())
                .chain((0..3).map(|at| datagram(protocol, at)))
            {
                let mut take = |_: &ExporterInfo, record: &Imported<'_>| {
                    records += 1;
                    assert_eq!((record.ports[1], record.protocol, record.addresses[0][12]), (443, 6, 10));
                    assert!(record.last_ms <= NOW as i64 * 1000 && record.first_ms >= NOW as i64 * 1000 - 10_000);
                };
                match protocol {
                    Protocol::Nprobe => decoder.nprobe_json(Address::default(), received_ns, &data, &mut take),
                    _ => decoder.datagram(Address::default(), received_ns, &data, &mut take),
                }
            }
            assert_eq!(records, if protocol == Protocol::Sflow { 3 * SAMPLES } else { 3 * RECORDS });
            let counts = decoder.counts();
            assert_eq!((counts.losses.lost, counts.causes.iter().sum::<u64>()), (0, 0), "{protocol}");
        }
    }
}
