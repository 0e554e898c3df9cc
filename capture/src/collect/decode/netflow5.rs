//! NetFlow version 5: a header of 24 octets, followed by records of 48 octets.

use crate::collect::cause::Refusal;
use crate::collect::element::event::Take;
use crate::collect::element::moment::Moment;
use crate::collect::element::octets::mapped;
use crate::collect::element::routed::Routed;
use crate::collect::element::values::is_absurd;
use crate::collect::exporter::Exporter;
use crate::collect::exporter::counting::Units;
use crate::collect::exporter::origin::Protocol;
use crate::collect::limits::DecodeLimits;
use crate::collect::record::{Imported, SentCounts};

pub(super) const HEADER: usize = 24;
const RECORD: usize = 48;

/// Sequence number of the first record (flow_sequence).
pub(super) fn sequence(data: &[u8; HEADER]) -> u32 {
    u32::from_be_bytes([data[16], data[17], data[18], data[19]])
}

/// Reads the records of a message; `at` is the index of its session.
pub(super) fn records(
    exporter: &mut Exporter,
    at: usize,
    moment: &Moment,
    limits: &DecodeLimits,
    data: &[u8; HEADER],
    records: &[u8],
    take: &mut impl Take,
) {
    let count = usize::from(u16::from_be_bytes([data[2], data[3]]));
    // The upper two bits are the mode, which some sampling exporters leave at 0.
    let interval = u32::from(u16::from_be_bytes([data[22], data[23]]) & 0x3fff);
    let sampling = Some(interval).filter(|&interval| interval > 0);
    let units = Units { flows: Some(count as u32), records: Some(count as u32) };
    let losses = &mut exporter.counts.losses;
    exporter.talks[at].counting.hear(Protocol::NetflowV5, sequence(data), units, moment.export_ms, losses);
    if records.len() / RECORD < count {
        exporter.counts.count(Refusal::Truncated);
    }
    let whole = records.chunks_exact(RECORD).filter_map(|record| record.first_chunk());
    for record in whole.take(count) {
        let mut read = Imported::default();
        match self::record(record, sampling, moment, limits, &mut read) {
            Ok(mended) => {
                if mended {
                    exporter.counts.count(Refusal::TimeClamped);
                }
                exporter.counts.records += 1;
                take.flow(&exporter.info, &read);
            }
            Err(cause) => exporter.counts.count(cause),
        }
    }
}

/// Reads a record into an empty one; returns whether its times had to be corrected.
fn record<'a>(
    data: &'a [u8; RECORD],
    sampling: Option<u32>,
    moment: &Moment,
    limits: &DecodeLimits,
    record: &mut Imported<'a>,
) -> Result<bool, Refusal> {
    let short = |at: usize| u16::from_be_bytes([data[at], data[at + 1]]);
    let four = |at: usize| [data[at], data[at + 1], data[at + 2], data[at + 3]];
    let long = |at: usize| u32::from_be_bytes(four(at));
    let sent = SentCounts {
        packets: u64::from(long(16)),
        octets: u64::from(long(20)),
        tcp_flags: data[37],
        class_of_service: data[39],
        ..SentCounts::default()
    };
    if sent.packets == 0 && sent.octets == 0 {
        return Err(Refusal::Empty);
    }
    if is_absurd(&sent, sampling) {
        return Err(Refusal::Absurd);
    }
    let protocol = data[38];
    let (first_ms, last_ms, mended) = moment.settle(moment.of_uptime(long(24)), moment.of_uptime(long(28)), limits);
    record.addresses = [mapped(four(0)), mapped(four(4))];
    record.ports = [if protocol == 1 { 0 } else { short(32) }, short(34)];
    (record.version, record.protocol) = (4, protocol);
    record.sent[0] = sent;
    (record.first_ms, record.last_ms) = (first_ms, last_ms);
    record.sampling = sampling;
    record.input_interface = u32::from(short(12));
    record.output_interface = u32::from(short(14));
    record.routed = Some(Routed::Netflow5(data));
    Ok(mended)
}
