//! NetFlow version 5: a header of 24 octets, records of 48.

use crate::collect::cause::Refusal;
use crate::collect::element::moment::Moment;
use crate::collect::element::values::mapped;
use crate::collect::exporter::{Exporter, ExporterInfo};
use crate::collect::limits::DecodeLimits;
use crate::collect::record::{Imported, SentCounts};

pub(super) const HEADER: usize = 24;
const RECORD: usize = 48;

/// Reads the records; `data` is at least a header.
pub(super) fn records(
    exporter: &mut Exporter,
    moment: &Moment,
    limits: &DecodeLimits,
    data: &[u8; HEADER],
    records: &[u8],
    take: &mut impl FnMut(&ExporterInfo, &Imported<'_>),
) {
    let count = usize::from(u16::from_be_bytes([data[2], data[3]]));
    let sequence = u32::from_be_bytes([data[16], data[17], data[18], data[19]]);
    // The upper two bits are the mode, which exporters that sample are seen to leave 0.
    let interval = u32::from(u16::from_be_bytes([data[22], data[23]]) & 0x3fff);
    let sampling = Some(interval).filter(|&interval| interval > 0);
    exporter.sequence.hear(sequence, Some(count as u32), &mut exporter.counts.losses);
    let (whole, _) = records.as_chunks::<RECORD>();
    if whole.len() < count {
        exporter.counts.count(Refusal::Truncated);
    }
    for record in whole.iter().take(count) {
        match self::record(record, sampling, moment, limits) {
            Ok((record, mended)) => {
                if mended {
                    exporter.counts.count(Refusal::TimeClamped);
                }
                exporter.counts.records += 1;
                take(&exporter.info, &record);
            }
            Err(cause) => exporter.counts.count(cause),
        }
    }
}

fn record(
    data: &[u8; RECORD],
    sampling: Option<u32>,
    moment: &Moment,
    limits: &DecodeLimits,
) -> Result<(Imported<'static>, bool), Refusal> {
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
    let protocol = data[38];
    let (first_ms, last_ms, mended) = moment.settle(moment.of_uptime(long(24)), moment.of_uptime(long(28)), limits);
    let record = Imported {
        addresses: [mapped(four(0)), mapped(four(4))],
        ports: [if protocol == 1 { 0 } else { short(32) }, short(34)],
        version: 4,
        protocol,
        sent: [sent, SentCounts::default()],
        first_ms,
        last_ms,
        sampling,
        input_interface: u32::from(short(12)),
        output_interface: u32::from(short(14)),
        ..Imported::default()
    };
    Ok((record, mended))
}
