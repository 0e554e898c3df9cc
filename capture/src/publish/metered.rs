//! Turns the intervals of a capturing worker into messages: batches of records, then the closing record, which
//! balances, then the counters.

use super::messages::{Messages, counter, volume};
use super::pace::Pace;
use super::{Identity, Published, Sink};
use crate::app::NotInspected;
use crate::app::awaited::NotRead;
use crate::filter::{FilterCounts, FilterSets};
use crate::meter::{ClosedInterval, Tally};
use crate::packet::{Cause, Checksum};
use crate::proto;
use crate::source::Witness;
use crate::volume::Volume;
use std::sync::Arc;

/// A closed interval, with the worker's counters.
#[derive(Debug, Default)]
pub struct Closing {
    /// The metered interval.
    pub interval: ClosedInterval,
    /// The source's own count at the close, since the epoch's start; `None`: equal to the packets captured.
    pub witness: Option<Witness>,
    /// The interfaces' own counters (worker 0).
    pub interfaces: Vec<proto::InterfaceCounters>,
    /// The worker's load.
    pub load: proto::Load,
    /// Nothing follows.
    pub last: bool,
    /// Whether the ring is certainly empty.
    pub drained: bool,
}

/// Turns the intervals of one worker into messages.
pub struct Publisher {
    messages: Messages,
    tally: Tally,
    published: Published,
    witness: Witness,
    /// The same at the last close; packets that waited then count as offered in the new epoch if one began.
    before: Witness,
    /// The sums at the start of the epoch.
    epoch: EpochStart,
    in_ring: u64,
    /// Packets dropped in the interval published last.
    dropped: u64,
    filters: FilterCounts,
}

/// The sums at the start of an epoch.
#[derive(Default)]
struct EpochStart {
    tally: Tally,
    published: Published,
    witness: Witness,
}

impl Publisher {
    /// A publisher at sequence 0.
    pub fn new(identity: Identity, filters: Arc<FilterSets>) -> Publisher {
        Publisher {
            messages: Messages::new(identity),
            tally: Tally::default(),
            published: Published::default(),
            witness: Witness::default(),
            filters: FilterCounts::new(filters),
            before: Witness::default(),
            epoch: EpochStart::default(),
            in_ring: 0,
            dropped: 0,
        }
    }

    /// The epoch of the messages.
    pub fn epoch(&self) -> u64 {
        self.messages.identity().epoch
    }

    /// Begins a later epoch, whose messages are numbered from 0 and whose sums begin at 0.
    pub fn begin_epoch(&mut self, epoch: u64) {
        self.messages.begin_epoch(epoch);
        self.before.offered -= self.in_ring;
        self.epoch = EpochStart { tally: self.tally, published: self.published, witness: self.before };
    }

    /// Sums published since the start.
    pub fn published(&self) -> &Published {
        &self.published
    }

    /// Sums received since the start, in closed intervals.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The last count of the source, if it has one.
    pub fn witness(&self) -> &Witness {
        &self.witness
    }

    /// Publishes an interval: its batches at the given pace, its closing record, its counters. Afterwards its records
    /// can no longer be read.
    ///
    /// # Errors
    /// If the sink cannot continue.
    pub fn publish(&mut self, closing: &mut Closing, pace: &Pace, sink: &mut dyn Sink) -> anyhow::Result<()> {
        let interval = &mut closing.interval;
        let start_ms = interval.start_ms;
        if let Some(sets) = &interval.filter_sets {
            if !Arc::ptr_eq(sets, self.filters.sets()) {
                self.filters = FilterCounts::new(Arc::clone(sets));
            }
        }
        let mut here = Published::default();
        self.messages.batch.begin_interval(start_ms);

        let records = &mut interval.records;
        let pace = pace.start(records.len() + interval.overflow.len());
        let nowhere = sink.is_nowhere();
        for number in 0..records.len() {
            here.flow += records.count(number, &mut self.filters);
            if nowhere {
                self.messages.batch.pass();
            } else {
                self.messages.batch.flow(&records.get(number), start_ms);
            }
            if self.messages.batch.is_full() {
                self.messages.send_batch(start_ms, sink)?;
                records.passed(number + 1);
                pace.wait(number + 1);
            }
        }
        here.flow_records = records.len() as u64;
        for record in &interval.overflow {
            self.messages.batch.overflow(record, start_ms);
            if self.messages.batch.is_full() {
                self.messages.send_batch(start_ms, sink)?;
            }
            here.overflow += record.volume;
        }
        here.overflow_records = interval.overflow.len() as u64;
        if !self.messages.batch.is_empty() {
            self.messages.send_batch(start_ms, sink)?;
        }
        here.batches = self.messages.batches();
        here.closings = 1;
        let closing = &*closing;
        let interval = &closing.interval;
        here.longest_stall_us = closing.load.close_stall_us;
        self.tally += &interval.tally;
        let (on_interface, arrived) = self.arrived(closing);
        here.unbalanced = u64::from(!(balanced(&interval.tally, &here) && arrived));
        self.published += &here;
        let stated = self.closing(closing, &here, on_interface);
        let counters = self.counters(closing);
        self.messages.order = self.filters.sets().order();
        self.messages.close(start_ms, stated, counters, sink)
    }

    /// Packets that the interface offered in this interval, and whether all of them are captured, dropped or still
    /// expected. Those still expected wait in the ring, or were taken already and belong to a later interval.
    fn arrived(&mut self, closing: &Closing) -> (u64, bool) {
        let captured = self.tally.captured.packets;
        self.witness = closing.witness.unwrap_or(Witness { offered: captured, dropped: 0 });
        let before = std::mem::replace(&mut self.before, self.witness);
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
            tracing::error!(offered, dropped, captured, "packets were admitted and never came out: this is a bug");
        }
        (offered - before.offered, balanced && !lost)
    }

    fn closing(&self, closing: &Closing, here: &Published, on_interface: u64) -> proto::ClosingRecord {
        let tally = &closing.interval.tally;
        // A live interface counts only packets.
        let octets = |volume: Volume| if closing.witness.is_none() { volume.octets } else { 0 };
        let interval = ConservationSums {
            on_interface: Volume { packets: on_interface, octets: octets(tally.captured) },
            dropped: self.dropped,
            in_ring: self.in_ring,
            tally,
            published: here,
        };
        let tally = &self.tally.since(&self.epoch.tally);
        let on_interface = self.witness.offered - self.epoch.witness.offered;
        let epoch = ConservationSums {
            on_interface: Volume { packets: on_interface, octets: octets(tally.captured) },
            dropped: self.witness.dropped - self.epoch.witness.dropped,
            in_ring: self.in_ring,
            tally,
            published: &self.published.since(&self.epoch.published),
        };
        proto::ClosingRecord {
            records: here.flow_records + here.overflow_records,
            interval: Some(interval.conservation()),
            epoch_total: Some(epoch.conservation()),
            last: closing.last,
            interfaces: closing.interfaces.clone(),
            load: Some(closing.load),
            skipped_intervals: closing.interval.skipped,
            ..proto::ClosingRecord::default()
        }
    }

    fn counters(&mut self, closing: &Closing) -> Vec<proto::Counter> {
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
        for (label, packets) in NotRead::NAMES.into_iter().zip(applications.not_read) {
            if packets > 0 {
                counters.push(counter("applications", label, Volume { packets, octets: 0 }));
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
        counters
    }
}

/// Whether the records and causes of an interval add up to the packets captured in it.
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
struct ConservationSums<'a> {
    on_interface: Volume,
    dropped: u64,
    in_ring: u64,
    tally: &'a Tally,
    published: &'a Published,
}

impl ConservationSums<'_> {
    fn conservation(&self) -> proto::Conservation {
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
    use crate::publish::{Encoded, NoSink};

    /// Keeps the counters of the last interval.
    #[derive(Default)]
    struct LastCounters(Vec<(String, String, Volume)>);

    impl Sink for LastCounters {
        fn flows(&mut self, _: Encoded<'_>) -> anyhow::Result<()> {
            Ok(())
        }

        fn counters(&mut self, message: &proto::CounterMessage) -> anyhow::Result<()> {
            let volume = |of: &proto::Counter| Volume { packets: of.packets, octets: of.octets };
            self.0 = message.counters.iter().map(|of| (of.set.clone(), of.label.clone(), volume(of))).collect();
            Ok(())
        }
    }

    impl LastCounters {
        fn of(&self, set: &str) -> Vec<(&str, u64, u64)> {
            let of_set = self.0.iter().filter(|(of, ..)| of == set);
            of_set.map(|(_, label, volume)| (&label[..], volume.packets, volume.octets)).collect()
        }
    }

    #[test]
    fn what_is_not_in_records_is_in_counter_sets() {
        let volume = |packets| Volume { packets, octets: 100 * packets };
        let mut interval = ClosedInterval::default();
        interval.tally.captured = volume(7);
        interval.tally.not_metered[Cause::NotIp as usize] = volume(4);
        interval.tally.not_metered[Cause::OwnExport as usize] = volume(3);
        (interval.checksums[0], interval.checksums[2]) = (volume(5), volume(2));
        interval.fragments.joined = volume(6);
        interval.fragments.timed_out = volume(1);
        let (mut publisher, mut last) = (Publisher::new(Identity::default(), Arc::default()), LastCounters::default());
        let mut close = |interval, offered, dropped| {
            let witness = Some(Witness { offered, dropped });
            let mut closing = Closing { interval, witness, ..Closing::default() };
            publisher.publish(&mut closing, &Pace::Unpaced, &mut last).unwrap();
            assert_eq!(publisher.published().unbalanced, 0);
            ["drops", "checksums", "fragments"].map(|set| {
                let of = last.of(set).into_iter();
                of.map(|(label, packets, octets)| format!("{label} {packets} {octets}")).collect::<Vec<_>>()
            })
        };
        let [drops, checksums, fragments] = close(interval, 16, 9);
        assert_eq!(drops, ["not_ip 4 400", "own_export 3 300", "kernel 9 0"]);
        let [first, _, third, ..] = Checksum::NAMES;
        assert_eq!(checksums, [format!("{first} 5 500"), format!("{third} 2 200")]);
        assert_eq!(fragments, ["joined 6 600", "timed_out 1 100"]);
        // Packets that the kernel dropped belong to the interval in which it dropped them.
        assert_eq!(close(ClosedInterval::default(), 16, 9), [const { Vec::<String>::new() }; 3]);
        assert_eq!(close(ClosedInterval::default(), 18, 11)[0], ["kernel 2 0"]);
    }

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
