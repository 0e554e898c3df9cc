//! From closed intervals to messages: batches of records, then the closing record, then the counters.
//!
//! A [`Publisher`] numbers and fills the messages of one worker; a [`Sink`] takes them somewhere.

pub mod bench;
pub mod destination;
pub mod encode;
pub mod jsonl;
pub mod kafka;
pub mod pace;
pub mod spool;
pub mod topic;

use crate::app::NotInspected;
use crate::filter::{FilterCounts, FilterSets};
use crate::meter::{ClosedInterval, Tally};
use crate::packet::{Cause, Checksum};
use crate::proto;
use crate::proto::flow_message::Body;
use crate::source::Witness;
use crate::volume::Volume;
use encode::BatchEncoder;
use pace::Pace;
use prost::Message as _;
use std::sync::Arc;

/// Version of the schemas whose change old readers cannot survive.
pub const MAJOR: u32 = 1;
/// An encoded [`proto::FlowMessage`].
#[derive(Clone, Copy, Debug)]
pub struct Encoded<'a> {
    /// The worker that it is of.
    pub worker: u32,
    /// Whether it is a batch of records, and not a closing record.
    pub is_batch: bool,
    /// Records in it.
    pub records: usize,
    /// Protocol Buffers.
    pub octets: &'a [u8],
}

/// Where messages go.
pub trait Sink: Send {
    /// Takes a batch or a closing record.
    ///
    /// # Errors
    /// Where the sink cannot go on at all.
    fn flows(&mut self, message: Encoded<'_>) -> anyhow::Result<()>;

    /// Takes the counters of an interval.
    ///
    /// # Errors
    /// As above.
    fn counters(&mut self, message: &proto::CounterMessage) -> anyhow::Result<()>;

    /// Whether messages go nowhere: records then need not be made, only added up.
    fn is_nowhere(&self) -> bool {
        false
    }

    /// Octets that wait in memory.
    fn queued_octets(&self) -> u64 {
        0
    }

    /// Octets that wait on disk.
    fn spooled_octets(&self) -> u64 {
        0
    }
}

/// Takes messages nowhere.
pub struct NoSink;

impl Sink for NoSink {
    fn flows(&mut self, _: Encoded<'_>) -> anyhow::Result<()> {
        Ok(())
    }

    fn counters(&mut self, _: &proto::CounterMessage) -> anyhow::Result<()> {
        Ok(())
    }

    fn is_nowhere(&self) -> bool {
        true
    }
}

/// What the messages of one worker say of it.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    /// Name of the probe.
    pub probe: String,
    /// Number of the worker.
    pub worker: u32,
    /// Workers of the agent.
    pub workers: u32,
    /// Start of the agent, µs from the Unix epoch.
    pub epoch: u64,
    /// Length of the intervals, ms.
    pub interval_ms: u32,
    /// What is captured: `af_packet:eth0`, `file:/path`.
    pub source: String,
    /// How far a replay moved its packets' times, ms.
    pub time_shift_ms: i64,
    /// What passed since the epoch before: packets and ms; zeros where not known.
    pub gap: (u64, u64),
}

impl Identity {
    /// The message of an interval's counters.
    pub fn counters(
        &self,
        sequence: u64,
        interval_start_ms: u64,
        counters: Vec<proto::Counter>,
    ) -> proto::CounterMessage {
        proto::CounterMessage {
            major: MAJOR,
            minor: 0,
            probe: self.probe.clone(),
            worker: self.worker,
            epoch: self.epoch,
            sequence,
            interval_start_ms,
            interval_ms: self.interval_ms,
            counters,
        }
    }
}

/// One counter of a message.
pub fn counter(set: &str, label: &str, volume: Volume) -> proto::Counter {
    proto::Counter { set: set.to_owned(), label: label.to_owned(), packets: volume.packets, octets: volume.octets }
}

/// A closed interval with what the worker knows beside it.
#[derive(Debug, Default)]
pub struct Closing {
    /// What was metered.
    pub interval: ClosedInterval,
    /// The source's own count at the close, since the epoch's start; `None`: all that was captured.
    pub witness: Option<Witness>,
    /// The interfaces' own counters (worker 0).
    pub interfaces: Vec<proto::InterfaceCounters>,
    /// What the worker costs.
    pub load: proto::Load,
    /// Nothing follows.
    pub last: bool,
    /// Nothing can be in the ring any more.
    pub drained: bool,
}

/// What was published so far, from the records themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// What the records of kind flow add up to.
    pub flow: Volume,
    /// What the records of kind overflow add up to.
    pub overflow: Volume,
    /// Records of kind flow.
    pub flow_records: u64,
    /// Records of kind overflow.
    pub overflow_records: u64,
    /// Batches.
    pub batches: u64,
    /// Closing records.
    pub closings: u64,
    /// Intervals whose sums did not agree. Always 0, or there is a bug.
    pub unbalanced: u64,
    /// The longest that closing an interval kept a worker from its packets, us.
    pub longest_stall_us: u64,
}

impl Published {
    /// What was published since `earlier`; the longest stall stays that of the whole run.
    pub fn since(&self, earlier: &Published) -> Published {
        let volume = |now: Volume, then: Volume| Volume {
            packets: now.packets - then.packets,
            octets: now.octets - then.octets,
        };
        Published {
            flow: volume(self.flow, earlier.flow),
            overflow: volume(self.overflow, earlier.overflow),
            flow_records: self.flow_records - earlier.flow_records,
            overflow_records: self.overflow_records - earlier.overflow_records,
            batches: self.batches - earlier.batches,
            closings: self.closings - earlier.closings,
            unbalanced: self.unbalanced - earlier.unbalanced,
            longest_stall_us: self.longest_stall_us,
        }
    }
}

impl std::ops::AddAssign<&Published> for Published {
    fn add_assign(&mut self, other: &Published) {
        self.flow += other.flow;
        self.overflow += other.overflow;
        self.flow_records += other.flow_records;
        self.overflow_records += other.overflow_records;
        self.batches += other.batches;
        self.closings += other.closings;
        self.unbalanced += other.unbalanced;
        self.longest_stall_us = self.longest_stall_us.max(other.longest_stall_us);
    }
}

/// The messages of one worker.
pub struct Publisher {
    identity: Identity,
    sequence: u64,
    counters_sequence: u64,
    tally: Tally,
    published: Published,
    witness: Witness,
    in_ring: u64,
    /// Packets dropped in the interval published last.
    dropped: u64,
    /// What all messages say; its body is that of closing records alone.
    message: proto::FlowMessage,
    batch: BatchEncoder,
    filters: FilterCounts,
}

impl Publisher {
    /// A publisher at sequence 0.
    pub fn new(identity: Identity, filters: Arc<FilterSets>) -> Publisher {
        let message = proto::FlowMessage {
            major: MAJOR,
            probe: identity.probe.clone(),
            worker: identity.worker,
            epoch: identity.epoch,
            interval_ms: identity.interval_ms,
            ..proto::FlowMessage::default()
        };
        Publisher {
            identity,
            sequence: 0,
            counters_sequence: 0,
            tally: Tally::default(),
            published: Published::default(),
            witness: Witness::default(),
            in_ring: 0,
            dropped: 0,
            message,
            batch: BatchEncoder::default(),
            filters: FilterCounts::new(filters),
        }
    }

    /// What was published since the epoch's start.
    pub fn published(&self) -> &Published {
        &self.published
    }

    /// What was taken in since the epoch's start, in closed intervals.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The last count of the source, where it has one.
    pub fn witness(&self) -> &Witness {
        &self.witness
    }

    /// Publishes an interval: its batches at the given pace, its closing record, its counters. Its records cannot be read
    /// any more then.
    ///
    /// # Errors
    /// Where the sink cannot go on.
    pub fn publish(&mut self, closing: &mut Closing, pace: &Pace, sink: &mut dyn Sink) -> anyhow::Result<()> {
        let interval = &mut closing.interval;
        let start_ms = interval.start_ms;
        if let Some(sets) = &interval.filter_sets
            && !Arc::ptr_eq(sets, self.filters.sets())
        {
            self.filters = FilterCounts::new(Arc::clone(sets));
        }
        let first_sequence = self.sequence;
        let mut here = Published::default();
        self.message.interval_start_ms = start_ms;

        let records = &mut interval.records;
        let pace = pace.start(records.len() + interval.overflow.len());
        let nowhere = sink.is_nowhere();
        for number in 0..records.len() {
            here.flow += records.count(number, &mut self.filters);
            if nowhere {
                self.batch.pass();
            } else {
                self.batch.flow(&records.get(number), start_ms);
            }
            if self.batch.is_full() {
                self.send_batch(sink)?;
                records.passed(number + 1);
                pace.wait(number + 1);
            }
        }
        here.flow_records = records.len() as u64;
        for record in &interval.overflow {
            self.batch.overflow(record, start_ms);
            if self.batch.is_full() {
                self.send_batch(sink)?;
            }
            here.overflow += record.volume;
        }
        here.overflow_records = interval.overflow.len() as u64;
        if !self.batch.is_empty() {
            self.send_batch(sink)?;
        }
        here.batches = self.sequence - first_sequence;
        here.closings = 1;
        let closing = &*closing;
        let interval = &closing.interval;
        here.longest_stall_us = closing.load.close_stall_us;
        self.tally += &interval.tally;
        let (on_interface, arrived) = self.arrived(closing);
        here.unbalanced = u64::from(!(balanced(&interval.tally, &here) && arrived));
        self.published += &here;
        let body = self.closing(closing, &here, first_sequence, on_interface);
        self.message.body = Some(Body::Closing(body));
        self.next_sequence();
        let octets = self.message.encode_to_vec();
        self.message.body = None;
        sink.flows(Encoded { worker: self.message.worker, is_batch: false, records: 0, octets: &octets })?;

        let counters = self.counters(closing);
        sink.counters(&counters)
    }

    fn send_batch(&mut self, sink: &mut dyn Sink) -> anyhow::Result<()> {
        self.next_sequence();
        let records = self.batch.len();
        let octets = self.batch.message(&self.message);
        sink.flows(Encoded { worker: self.message.worker, is_batch: true, records, octets })
    }

    /// Numbers the message that is sent next.
    fn next_sequence(&mut self) {
        self.message.sequence = self.sequence;
        self.sequence += 1;
    }

    /// Packets that the interface offered in this interval, and whether all of them are captured, dropped or still to
    /// come. Those still to come wait in the ring, or were taken already and belong to a later interval.
    fn arrived(&mut self, closing: &Closing) -> (u64, bool) {
        let captured = self.tally.captured.packets;
        let before = self.witness;
        self.witness = closing.witness.unwrap_or(Witness { offered: captured, dropped: 0 });
        let Witness { offered, dropped } = self.witness;
        self.dropped = dropped - before.dropped;
        let balanced = offered >= dropped + captured;
        if !balanced {
            tracing::error!(offered, dropped, captured, "more packets were captured than offered: this is a bug");
        }
        debug_assert!(balanced, "offered {offered}, dropped {dropped}, captured {captured}");
        self.in_ring = offered.saturating_sub(dropped + captured);
        let lost = closing.drained && self.in_ring > 0;
        if lost {
            tracing::error!(offered, dropped, captured, "packets were let in and never came out: this is a bug");
        }
        (offered - before.offered, balanced && !lost)
    }

    fn closing(
        &self,
        closing: &Closing,
        here: &Published,
        first_sequence: u64,
        on_interface: u64,
    ) -> proto::ClosingRecord {
        let first = self.published.closings == 1;
        let tally = &closing.interval.tally;
        // A live interface counts packets alone.
        let octets = |volume: Volume| if closing.witness.is_none() { volume.octets } else { 0 };
        let interval = Sums {
            on_interface: Volume { packets: on_interface, octets: octets(tally.captured) },
            dropped: self.dropped,
            in_ring: self.in_ring,
            tally,
            published: here,
        };
        let epoch = Sums {
            on_interface: Volume { packets: self.witness.offered, octets: octets(self.tally.captured) },
            dropped: self.witness.dropped,
            in_ring: self.in_ring,
            tally: &self.tally,
            published: &self.published,
        };
        proto::ClosingRecord {
            first_sequence,
            batches: here.batches as u32,
            records: here.flow_records + here.overflow_records,
            interval: Some(interval.conservation()),
            epoch_total: Some(epoch.conservation()),
            workers: self.identity.workers,
            first,
            last: closing.last,
            gap_packets: if first { self.identity.gap.0 } else { 0 },
            gap_ms: if first { self.identity.gap.1 } else { 0 },
            interfaces: closing.interfaces.clone(),
            load: Some(closing.load),
            agent_version: crate::VERSION.to_owned(),
            source: self.identity.source.clone(),
            clock_offset_us: crate::host::clock_offset_us(),
            time_shift_ms: self.identity.time_shift_ms,
            skipped_intervals: closing.interval.skipped,
            ..proto::ClosingRecord::default()
        }
    }

    fn counters(&mut self, closing: &Closing) -> proto::CounterMessage {
        let interval = &closing.interval;
        let mut counters: Vec<_> =
            interval.counters.labels().map(|(set, label, volume)| counter(set, label, volume)).collect();
        for cause in Cause::ALL {
            let volume = interval.tally.not_metered[cause as usize];
            if volume.packets > 0 {
                counters.push(counter("drops", cause.name(), volume));
            }
        }
        let checksums = Checksum::NAMES.into_iter().zip(interval.checksums);
        counters.extend(
            checksums
                .filter(|(_, volume)| volume.packets > 0)
                .map(|(label, volume)| counter("checksums", label, volume)),
        );
        let mut filters = self.filters.take();
        filters += &interval.filters;
        counters.extend(filters.labels().map(|(set, label, volume)| counter(set, label, volume)));
        let applications = &interval.applications;
        let not_inspected = NotInspected::ALL.map(|cause| (cause.name(), applications.not_inspected[cause as usize]));
        for (label, affected) in [("inspected", applications.inspected)].into_iter().chain(not_inspected) {
            if affected.packets > 0 {
                counters.push(counter("applications", label, Volume { packets: affected.packets, octets: 0 }));
            }
        }
        for (label, volume) in interval.fragments.named() {
            if volume.packets > 0 {
                counters.push(counter("fragments", label, volume));
            }
        }
        if self.dropped > 0 {
            counters.push(counter("drops", "kernel", Volume { packets: self.dropped, octets: 0 }));
        }
        let sequence = self.counters_sequence;
        self.counters_sequence += 1;
        self.identity.counters(sequence, interval.start_ms, counters)
    }
}

/// Whether the records and causes of an interval add up to what was captured in it.
fn balanced(tally: &Tally, published: &Published) -> bool {
    let counted: Volume =
        tally.not_metered.iter().copied().sum::<Volume>() + published.flow + published.overflow + tally.carried_out;
    let came = tally.captured + tally.carried_in;
    let balanced = counted == came;
    if !balanced {
        tracing::error!(?tally, ?published, "the interval's sums do not agree: this is a bug");
    }
    debug_assert!(balanced, "captured and carried in {came:?}, in records, causes and carried out {counted:?}");
    balanced
}

/// The conservation law over some time.
struct Sums<'a> {
    on_interface: Volume,
    dropped: u64,
    in_ring: u64,
    tally: &'a Tally,
    published: &'a Published,
}

impl Sums<'_> {
    fn conservation(&self) -> proto::Conservation {
        let volume = |volume: Volume| Some(proto::Volume { packets: volume.packets, octets: volume.octets });
        let not_metered = Cause::ALL
            .into_iter()
            .map(|cause| (cause, self.tally.not_metered[cause as usize]))
            .filter(|(_, of)| of.packets > 0)
            .map(|(cause, of)| proto::CauseVolume { cause: cause.name().to_owned(), volume: volume(of) })
            .collect();
        let dropped = match self.dropped {
            0 => Vec::new(),
            packets => vec![proto::DropCount { cause: "kernel".to_owned(), packets }],
        };
        proto::Conservation {
            on_interface: volume(self.on_interface),
            captured: volume(self.tally.captured),
            dropped,
            in_ring_packets: self.in_ring,
            carried_in: volume(self.tally.carried_in),
            in_flow_records: volume(self.published.flow),
            in_overflow_records: volume(self.published.overflow),
            not_metered,
            carried_out: volume(self.tally.carried_out),
            late_packets: self.tally.late.packets,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_never_came_out_of_a_drained_ring_are_told() {
        for (drained, unbalanced) in [(false, 0), (true, 1)] {
            let witness = Some(Witness { offered: 2, dropped: 1 });
            let mut closing = Closing { witness, last: true, drained, ..Closing::default() };
            let mut publisher = Publisher::new(Identity::default(), Arc::default());
            publisher.publish(&mut closing, &Pace::Unpaced, &mut NoSink).unwrap();
            assert_eq!(publisher.published().unbalanced, unbalanced);
        }
    }
}
