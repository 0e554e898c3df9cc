//! nProbe's messages: JSON of Kafka, and the two frames of ZeroMQ, through one decoder within narrow bounds.

use super::netflow::LIMITS;
use super::{Input, START_NS};
use weir_probe::collect::decode::Decoder;
use weir_probe::collect::exporter::origin::{ExporterInfo, Protocol};
use weir_probe::collect::record::Imported;
use weir_probe::packet::Address;

/// Maximum number of messages in one input.
const MOST: usize = 16;
/// Number of unknown elements counted by name, of known elements, and the name for the others.
const NAMES: usize = 256 + 256 + 1;

/// An input is a message.
pub fn check_json(input: &[u8]) {
    let mut decoder = Decoder::new(LIMITS);
    let mut records = 0;
    let mut take = |info: &ExporterInfo, record: &Imported<'_>| holds(info, record, &mut records);
    decoder.nprobe_json(Address::default(), START_NS, input, &mut take);
    agrees(&decoder, 1, records);
}

/// An input consists of messages: length of the header, the header, length of the payload (two octets), the payload.
pub fn check_zmq(input: &[u8]) {
    let mut input = Input(input);
    let mut decoder = Decoder::new(LIMITS);
    let (mut messages, mut records) = (0, 0);
    while !input.is_empty() && messages < MOST {
        let length = usize::from(input.octet());
        let header = input.octets(length);
        let length = usize::from(input.number());
        let payload = input.octets(length);
        let mut take = |info: &ExporterInfo, record: &Imported<'_>| holds(info, record, &mut records);
        decoder.nprobe_zmq(Address::default(), START_NS, [header, payload], &mut take);
        messages += 1;
    }
    agrees(&decoder, messages, records);
}

/// The invariants of every record.
fn holds(info: &ExporterInfo, record: &Imported<'_>, records: &mut u64) {
    *records += 1;
    assert_eq!(info.protocol, Protocol::Nprobe);
    assert!(record.first_ms <= record.last_ms, "{record:?}");
    assert!(record.last_ms.abs_diff(START_NS / 1_000_000) <= 86_400_000, "{record:?}");
    assert!(record.vlan < 4096 && matches!(record.version, 4 | 6), "{record:?}");
    assert!(record.sent.iter().any(|sent| sent.packets > 0 || sent.octets > 0), "{record:?}");
    assert_ne!(record.sampling, Some(0));
    assert!(!record.server_name.contains(&0) && !record.dns_query.contains(&0));
}

/// The invariants at the end.
fn agrees(decoder: &Decoder, messages: usize, records: u64) {
    let counts = decoder.counts();
    assert_eq!(counts.records, records, "every record is counted");
    assert_eq!(counts.datagrams, messages as u64, "every message is counted");
    assert!(decoder.exporters().count() <= LIMITS.exporters);
    let heard = decoder.nprobes();
    assert!(heard.left_out.len() <= NAMES && heard.left_out.iter().all(|(name, _)| name.len() <= 64));
}
