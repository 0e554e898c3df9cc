//! nProbe's messages to ntopng over ZeroMQ and to Kafka: records with both directions, as JSON or in nDPI's
//! serialization.
//!
//! serde_json parses the JSON as a stream: the decoder looks up each key as it comes, and builds no tree.

mod header;
mod json;
mod keys;
mod left_out;
mod record;
#[cfg(test)]
mod tests;
mod tlv;

pub use header::ZmqTopic;

use crate::collect::cause::Refusal;
use crate::collect::element::moment::Moment;
use crate::collect::exporter::Exporters;
use crate::collect::exporter::counting::Units;
use crate::collect::exporter::origin::{ExporterInfo, Protocol};
use crate::collect::limits::DecodeLimits;
use crate::collect::record::Imported;
use crate::packet::Address;
use flate2::{Decompress, FlushDecompress, Status};
use header::{Form, Header};
use left_out::LeftOut;
use record::NprobeRecords;
use serde::Deserialize;

/// Maximum octets of a decompressed payload: hundreds of times the usual size.
const MOST_OCTETS: usize = 16 << 20;

/// State about nProbes that no exporter holds.
#[derive(Debug, Default)]
pub(super) struct Nprobe {
    left_out: LeftOut,
    topics: [u64; ZmqTopic::ALL.len()],
    inflated: Vec<u8>,
}

/// Losses that an event reports, since the nProbe began.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Event {
    packet_drops: u64,
    drops: Drops,
}

/// Flows that an nProbe dropped. Its drops on the way to other receivers do not concern this collector.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Drops {
    export_queue_full: u64,
    too_many_flows: u64,
    flow_collection_drops: u64,
}

/// The sources of an nProbe's drops, by the unit that they count.
const PACKETS: u64 = 0;
const RECORDS: u64 = 1;

/// Counts of nProbes' messages and elements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// Messages over ZeroMQ by [`ZmqTopic`] as index.
    pub topics: [u64; ZmqTopic::ALL.len()],
    /// Values of elements that the record has no field for, by the elements' names; past 256 unknown names, under
    /// `other`.
    pub left_out: Vec<(String, u64)>,
}

impl Nprobe {
    /// Reads a message of nProbe's in Kafka: JSON.
    pub(super) fn json(
        &mut self,
        known: (&mut Exporters, &DecodeLimits),
        from: Address,
        sent_ns: i64,
        data: &[u8],
        take: &mut impl FnMut(&ExporterInfo, &Imported<'_>),
    ) {
        let records = &mut records(known, &mut self.left_out, info(from, 0), (sent_ns, data.len()), take);
        json::read(data, records);
    }

    /// Reads a message of nProbe's over ZeroMQ, in its two frames.
    pub(super) fn zmq(
        &mut self,
        (exporters, limits): (&mut Exporters, &DecodeLimits),
        from: Address,
        received_ns: i64,
        [header, payload]: [&[u8]; 2],
        take: &mut impl FnMut(&ExporterInfo, &Imported<'_>),
    ) {
        let came = (received_ns, header.len() + payload.len());
        let Nprobe { left_out, topics, inflated } = self;
        let header = match Header::read(header) {
            Ok(header) => header,
            Err(cause) => return records((exporters, limits), left_out, info(from, 0), came, take).count(cause),
        };
        topics[header.topic as usize] += 1;
        let info = info(from, header.source);
        let exporter = exporters.get(&info, limits);
        if let Some(number) = header.number {
            // A connection preserves the order, so a lower number means that the publisher restarted.
            let at = exporter.talk(from.into(), number, limits);
            if exporter.talks[at].counting.is_behind(number) {
                exporter.talks[at].counting.restart();
                exporter.counts.losses.restarts += 1;
            }
            let units = Units { flows: None, records: None };
            let losses = &mut exporter.counts.losses;
            exporter.talks[at].counting.hear(Protocol::Nprobe, number, units, received_ns, losses);
        }
        let mut records = records((exporters, limits), left_out, info, came, take);
        let read = match header.topic {
            ZmqTopic::Flow | ZmqTopic::Event => plain(payload, &header, inflated),
            _ => Ok(&[][..]),
        };
        let read = read.and_then(|payload| match (header.topic, header.form) {
            (ZmqTopic::Flow, Form::Json) => {
                json::read(payload, &mut records);
                Ok(())
            }
            (ZmqTopic::Flow, Form::Tlv) => tlv::read(payload, &mut records),
            (ZmqTopic::Event, _) => event(payload, &mut records),
            _ => Ok(()),
        });
        if let Err(cause) = read {
            records.count(cause);
        }
    }

    /// Counts of all nProbes' messages so far.
    pub(super) fn heard(&self) -> Heard {
        Heard { topics: self.topics, left_out: self.left_out.all() }
    }
}

/// Counts a message, and returns the receiver of its records.
fn records<'m, T: FnMut(&ExporterInfo, &Imported<'_>)>(
    (exporters, limits): (&'m mut Exporters, &'m DecodeLimits),
    left_out: &'m mut LeftOut,
    from: ExporterInfo,
    (received_ns, octets): (i64, usize),
    take: &'m mut T,
) -> NprobeRecords<'m, T> {
    let received_ms = received_ns.div_euclid(1_000_000);
    // Records state times since 1970, but messages state no time, so a wrong clock of the nProbe goes unnoticed.
    let moment = Moment { received_ms, export_ms: received_ms, uptime_ms: None, boot_ms: None };
    let exporter = exporters.get(&from, limits);
    let at = exporter.talk(from.address.into(), 0, limits);
    exporter.hear(at, &moment, octets, limits, |_, _| true);
    NprobeRecords { exporters, limits, left_out, from, moment, take }
}

/// Reads an event, which is JSON in every version.
fn event<T>(payload: &[u8], records: &mut NprobeRecords<'_, T>) -> Result<(), Refusal> {
    let event: Event = serde_json::from_slice(payload.trim_ascii()).map_err(|_| Refusal::BadJson)?;
    let Drops { export_queue_full, too_many_flows, flow_collection_drops } = event.drops;
    let dropped = export_queue_full.wrapping_add(too_many_flows).wrapping_add(flow_collection_drops);
    let exporter = records.exporters.get(&records.from, records.limits);
    // The difference of the low 32 bits is right, too.
    let now_ms = records.moment.received_ms;
    exporter.counts.exporter_drops +=
        exporter.source(PACKETS, now_ms, records.limits).0.more(event.packet_drops as u32);
    exporter.counts.exporter_records_dropped += exporter.source(RECORDS, now_ms, records.limits).0.more(dropped as u32);
    Ok(())
}

fn info(address: Address, domain: u32) -> ExporterInfo {
    ExporterInfo { address, agent: Address::default(), protocol: Protocol::Nprobe, domain }
}

/// The payload without its compression.
fn plain<'a>(payload: &'a [u8], header: &Header, inflated: &'a mut Vec<u8>) -> Result<&'a [u8], Refusal> {
    // Neither JSON nor zlib data begins with a 0.
    let zlib = match payload {
        [0, zlib @ ..] if header.form == Form::Json || header.compressed => zlib,
        _ if header.compressed => payload,
        _ => return Ok(payload),
    };
    inflate(zlib, inflated)?;
    Ok(inflated)
}

/// Decompresses zlib data, up to [`MOST_OCTETS`].
fn inflate(zlib: &[u8], inflated: &mut Vec<u8>) -> Result<(), Refusal> {
    inflated.clear();
    inflated.reserve(zlib.len().saturating_mul(8).clamp(1 << 12, MOST_OCTETS));
    let mut decompress = Decompress::new(true);
    loop {
        let read = usize::try_from(decompress.total_in()).unwrap_or(usize::MAX);
        let rest = zlib.get(read..).unwrap_or_default();
        let status = decompress.decompress_vec(rest, inflated, FlushDecompress::Finish);
        match status {
            Ok(Status::StreamEnd) => return Ok(()),
            Ok(Status::Ok | Status::BufError) if inflated.len() == inflated.capacity() => {
                if inflated.len() >= MOST_OCTETS {
                    return Err(Refusal::BadCompression);
                }
                let more = inflated.len().min(MOST_OCTETS - inflated.len());
                inflated.reserve_exact(more.max(1));
            }
            _ => return Err(Refusal::BadCompression),
        }
    }
}
