//! The expected outcome of a simulation, in a few plain sums: each packet is in one record or under one cause, messages
//! are numbered and state their sums, and a clock that steps costs at most one interval.

use super::schedule::Schedule;
use super::world::{Flow, Happened, START_NS, Said, Seen};
use crate::meter::GRACE_NS;
use crate::proto::{self, flow_message::Body};
use std::collections::BTreeMap;

/// Packets and octets.
type Sum = (u64, u64);

fn add(sum: &mut Sum, more: Sum) {
    sum.0 += more.0;
    sum.1 += more.1;
}

fn sum(volume: Option<&proto::Volume>) -> Sum {
    volume.map_or((0, 0), |volume| (volume.packets, volume.octets))
}

macro_rules! hold {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            return Err(format!($($why)+));
        }
    };
}

/// Sums of records and causes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sums {
    flows: BTreeMap<Flow, Sum>,
    overflow: Sum,
    causes: BTreeMap<String, Sum>,
    records: u64,
}

impl Sums {
    fn flow(&self) -> Sum {
        let mut total = (0, 0);
        self.flows.values().for_each(|of| add(&mut total, *of));
        total
    }
}

/// The sums of the messages, by a reader that trusts none of their totals.
#[derive(Default)]
struct Reader {
    epoch: u64,
    sequence: u64,
    counters: u64,
    batches: u32,
    /// Start of the last closed interval of the epoch.
    closed_ms: Option<u64>,
    /// Sums of the interval, of the epoch and of all.
    interval: Sums,
    epoch_sums: Sums,
    all: Sums,
    carried: Sum,
    dropped: u64,
    /// Packets that waited in the ring at the last close of the epoch.
    in_ring: u64,
    epoch_captured: Sum,
    epoch_dropped: u64,
    epoch_late: u64,
    captured: BTreeMap<u64, u64>,
    stated: Option<(u64, proto::ClosingRecord)>,
    closings: u64,
    ended: bool,
}

pub fn judge(schedule: &Schedule, worker: u32, happened: &Happened) -> Result<(), String> {
    let mut reader = Reader::default();
    for said in &happened.said {
        match said {
            Said::Flows(message) => reader.message(schedule, worker, message)?,
            Said::Counters(message) => reader.counters(schedule, message)?,
        }
    }
    hold!(reader.ended && reader.stated.is_none(), "the last closing record, or its counters, did not come");
    let (mut expected, mut dropped, mut octets) = (Sums::default(), 0, (0, 0));
    for (_, seen) in &happened.seen {
        match seen {
            Seen::Packet { octets: of, fate, .. } => {
                add(&mut octets, (1, *of));
                let into = match fate {
                    Ok(flow) => expected.flows.entry(flow.clone()).or_default(),
                    Err(cause) => expected.causes.entry(cause.name().to_owned()).or_default(),
                };
                add(into, (1, *of));
            }
            Seen::Dropped(packets) => dropped += packets,
            Seen::Time(_) => {}
        }
    }
    hold!(reader.all.causes == expected.causes, "causes {:?}, not {:?}", reader.all.causes, expected.causes);
    hold!(reader.dropped == dropped, "{} packets dropped, not {dropped}", reader.dropped);
    hold!(reader.carried == (0, 0), "{:?} still wait at the end", reader.carried);
    let mut less = (0, 0);
    for (flow, of) in &reader.all.flows {
        let sent = expected.flows.get(flow).copied().unwrap_or_default();
        hold!(of.0 <= sent.0 && of.1 <= sent.1, "flow {flow:?}: {of:?} published, {sent:?} sent");
    }
    for (flow, sent) in &expected.flows {
        let of = reader.all.flows.get(flow).copied().unwrap_or_default();
        add(&mut less, (sent.0 - of.0, sent.1 - of.1));
    }
    hold!(less == reader.all.overflow, "{less:?} are in no flow's record, {:?} in overflow", reader.all.overflow);
    let roomy = schedule.records >= 1000 && schedule.flows >= 1000;
    hold!(!roomy || less == (0, 0), "overflow {less:?} although there is room");
    let outcome = &happened.outcome;
    let captured = outcome.tally.captured;
    hold!((captured.packets, captured.octets) == octets, "the outcome says {captured:?}, sent were {octets:?}");
    hold!(outcome.published.unbalanced == 0, "{} intervals are not balanced", outcome.published.unbalanced);
    hold!(outcome.published.closings == reader.closings, "closings {}", outcome.published.closings);
    let times = Times::of(schedule, happened);
    let mut wrong = 0;
    for (start, packets) in &times.packets {
        wrong += packets.saturating_sub(reader.captured.get(start).copied().unwrap_or_default());
    }
    hold!(wrong <= times.excused, "misplaced: {wrong} packets are not in their interval, {} may", times.excused);
    Ok(())
}

/// The packets of each interval by their own times, and how many may be in another one.
struct Times {
    packets: BTreeMap<u64, u64>,
    excused: u64,
}

impl Times {
    /// Late packets may be counted in the open interval; and for one interval after an upset of time, all.
    fn of(schedule: &Schedule, happened: &Happened) -> Times {
        let length_ns = i64::from(schedule.interval_s) * 1_000_000_000;
        let mut times = Times { packets: BTreeMap::new(), excused: 0 };
        // A live worker knows the time before its first packet.
        let mut offset_ns = schedule.live.then_some(START_NS);
        let (mut newest_ns, mut upset_until_ns) = (offset_ns.unwrap_or(i64::MIN), i64::MIN);
        for (passed_ns, seen) in &happened.seen {
            let time_ns = match seen {
                Seen::Packet { time_ns, .. } => *time_ns,
                Seen::Time(time_ns) => *time_ns,
                Seen::Dropped(_) => continue,
            };
            let off = time_ns - passed_ns;
            let expected = offset_ns.get_or_insert(off);
            // Late packets do not move the clock; whatever else differs upsets it.
            // A further step back, of any length, while the worker waits to see whether the first one lasts.
            let again =
                schedule.live && matches!(seen, Seen::Time(_)) && off < *expected && *passed_ns <= upset_until_ns;
            let stepped = again || off > *expected + GRACE_NS || off < *expected - 4_000_000_000_i64.max(length_ns);
            if stepped {
                *expected = off;
                upset_until_ns = passed_ns + length_ns + GRACE_NS;
                newest_ns = time_ns;
            }
            if let Seen::Packet { .. } = seen {
                let start_ns = time_ns.max(0).div_euclid(length_ns) * length_ns;
                *times.packets.entry((start_ns / 1_000_000) as u64).or_default() += 1;
                let newest_start_ns = newest_ns.max(0).div_euclid(length_ns) * length_ns;
                times.excused += u64::from(start_ns < newest_start_ns || *passed_ns <= upset_until_ns);
            }
            newest_ns = newest_ns.max(time_ns);
        }
        times
    }
}

impl Reader {
    fn message(&mut self, schedule: &Schedule, worker: u32, message: &proto::FlowMessage) -> Result<(), String> {
        hold!(message.worker == worker, "worker {}", message.worker);
        hold!(self.stated.is_none(), "a closing record without counters");
        hold!(!self.ended, "a message after the last one");
        if message.epoch != self.epoch {
            hold!(message.epoch > self.epoch, "epoch {} after {}", message.epoch, self.epoch);
            hold!(self.sequence == 0 || self.closed_ms.is_some() && self.batches == 0, "an epoch ends without closing");
            *self = Reader {
                epoch: message.epoch,
                all: std::mem::take(&mut self.all),
                captured: std::mem::take(&mut self.captured),
                carried: self.carried,
                dropped: self.dropped,
                closings: self.closings,
                ..Reader::default()
            };
        }
        hold!(message.sequence == self.sequence, "sequence {}, not {}", message.sequence, self.sequence);
        self.sequence += 1;
        let start_ms = message.interval_start_ms;
        let length_ms = u64::from(schedule.interval_s) * 1000;
        hold!(start_ms % length_ms == 0, "an interval from {start_ms}");
        if let Some(closed_ms) = self.closed_ms {
            hold!(start_ms > closed_ms, "interval {start_ms} after {closed_ms} was closed");
        }
        match message.body.as_ref() {
            Some(Body::Batch(batch)) => {
                hold!(!batch.flows.is_empty(), "an empty batch");
                self.batches += 1;
                batch.flows.iter().try_for_each(|flow| self.flow(flow, length_ms))
            }
            Some(Body::Closing(closing)) => self.closing(schedule, start_ms, closing),
            None => Err("a message without a body".to_owned()),
        }
    }

    fn flow(&mut self, flow: &proto::Flow, length_ms: u64) -> Result<(), String> {
        let of = (flow.fwd_packets + flow.rev_packets, flow.fwd_octets + flow.rev_octets);
        hold!(of.0 > 0, "a record without packets: {flow:?}");
        self.interval.records += 1;
        // Packets may be late, but not early.
        let last_ms = flow.first_seen_offset_ms.saturating_add_unsigned(flow.last_seen_offset_ms);
        hold!(last_ms < length_ms as i64, "a record ends {last_ms} ms after its interval's start");
        if flow.overflow.is_some() {
            add(&mut self.interval.overflow, of);
        } else {
            let (a, b) = (flow.src_addr.clone(), flow.dst_addr.clone());
            let key = if a < b { (a, b, flow.protocol) } else { (b, a, flow.protocol) };
            add(self.interval.flows.entry(key).or_default(), of);
        }
        Ok(())
    }

    fn closing(&mut self, schedule: &Schedule, start_ms: u64, closing: &proto::ClosingRecord) -> Result<(), String> {
        let first = self.closed_ms.is_none();
        if let Some(closed_ms) = self.closed_ms {
            let length_ms = u64::from(schedule.interval_s) * 1000;
            let passed = (start_ms - closed_ms) / length_ms - 1;
            hold!(passed == closing.skipped_intervals, "skipped {}, not {passed}", closing.skipped_intervals);
        }
        hold!(closing.first == first, "first {}", closing.first);
        hold!(closing.workers == schedule.workers, "workers {}", closing.workers);
        hold!(closing.batches == self.batches, "batches {}, not {}", closing.batches, self.batches);
        let expected = self.sequence - 1 - u64::from(self.batches);
        hold!(closing.first_sequence == expected, "first sequence {}, not {expected}", closing.first_sequence);
        hold!(closing.records == self.interval.records, "records {}, not {}", closing.records, self.interval.records);
        let (Some(interval), Some(total)) = (&closing.interval, &closing.epoch_total) else {
            return Err("a closing record without sums".to_owned());
        };
        for cause in &interval.not_metered {
            self.interval.causes.insert(cause.cause.clone(), sum(cause.volume.as_ref()));
        }
        let captured = sum(interval.captured.as_ref());
        let dropped = interval.dropped.iter().map(|of| of.packets).sum::<u64>();
        let carried_in = sum(interval.carried_in.as_ref());
        hold!(carried_in == self.carried, "carried in {carried_in:?}, not {:?}", self.carried);
        self.carried = sum(interval.carried_out.as_ref());
        let arrived = captured.0 + dropped + interval.in_ring_packets;
        let on_interface =
            sum(interval.on_interface.as_ref()).0 + std::mem::replace(&mut self.in_ring, interval.in_ring_packets);
        hold!(on_interface == arrived, "interval: {on_interface} on the interface, {arrived} arrived");
        balanced("interval", interval, &self.interval, captured, dropped)?;
        self.epoch_sums.add(&self.interval);
        add(&mut self.epoch_captured, captured);
        self.epoch_dropped += dropped;
        self.epoch_late += interval.late_packets;
        let arrived = self.epoch_captured.0 + self.epoch_dropped + total.in_ring_packets;
        let on_interface = sum(total.on_interface.as_ref()).0;
        hold!(on_interface == arrived, "epoch: {on_interface} on the interface, {arrived} arrived");
        balanced("epoch", total, &self.epoch_sums, self.epoch_captured, self.epoch_dropped)?;
        let stated = total.not_metered.iter().map(|of| (of.cause.clone(), sum(of.volume.as_ref()))).collect();
        hold!(self.epoch_sums.causes == stated, "causes of the epoch {stated:?}");
        hold!(total.late_packets == self.epoch_late, "late {}, not {}", total.late_packets, self.epoch_late);
        self.dropped += dropped;
        *self.captured.entry(start_ms).or_default() += captured.0;
        self.all.add(&std::mem::take(&mut self.interval));
        self.batches = 0;
        self.closings += 1;
        self.closed_ms = Some(start_ms);
        self.ended = closing.last;
        self.stated = Some((start_ms, closing.clone()));
        Ok(())
    }

    fn counters(&mut self, schedule: &Schedule, message: &proto::CounterMessage) -> Result<(), String> {
        let Some((start_ms, closing)) = self.stated.take() else { return Err("counters without closing".to_owned()) };
        hold!(message.interval_start_ms == start_ms, "counters of {}", message.interval_start_ms);
        hold!(
            (message.epoch, message.sequence) == (self.epoch, self.counters),
            "counters' number {}",
            message.sequence
        );
        self.counters += 1;
        let interval = closing.interval.unwrap_or_default();
        let of = |set: &str| -> BTreeMap<&str, Sum> {
            let labels = message.counters.iter().filter(|counter| counter.set == set);
            labels.map(|counter| (counter.label.as_str(), (counter.packets, counter.octets))).collect()
        };
        let mut drops: BTreeMap<&str, Sum> =
            interval.not_metered.iter().map(|of| (of.cause.as_str(), sum(of.volume.as_ref()))).collect();
        drops.extend(interval.dropped.iter().map(|of| (of.cause.as_str(), (of.packets, 0))));
        hold!(of("drops") == drops, "the counters of drops are {:?}, not {drops:?}", of("drops"));
        let captured = sum(interval.captured.as_ref()).0;
        let packets = |set: &str| of(set).values().map(|of| of.0).sum::<u64>();
        let excluded: u64 = interval.not_metered.iter().map(|of| sum(of.volume.as_ref()).0).sum();
        let checked = if schedule.checksums { captured - excluded } else { 0 };
        hold!(packets("checksums") == checked, "{} checksums of {checked} packets", packets("checksums"));
        for set in ["ip_version", "size"] {
            let packets = packets(set);
            hold!(packets == captured, "the counters of {set} have {packets} packets, captured were {captured}");
        }
        Ok(())
    }
}

impl Sums {
    fn add(&mut self, other: &Sums) {
        other.flows.iter().for_each(|(flow, of)| add(self.flows.entry(flow.clone()).or_default(), *of));
        other.causes.iter().for_each(|(cause, of)| add(self.causes.entry(cause.clone()).or_default(), *of));
        add(&mut self.overflow, other.overflow);
        self.records += other.records;
    }
}

/// Whether stated sums are those of the records that arrived, and obey the conservation law.
fn balanced(of: &str, stated: &proto::Conservation, came: &Sums, captured: Sum, dropped: u64) -> Result<(), String> {
    let (flow, overflow) = (sum(stated.in_flow_records.as_ref()), sum(stated.in_overflow_records.as_ref()));
    hold!((flow, overflow) == (came.flow(), came.overflow), "{of}: records {flow:?} {overflow:?}, came {came:?}");
    hold!(sum(stated.captured.as_ref()) == captured, "{of}: captured {:?}, not {captured:?}", stated.captured);
    let stated_drops = stated.dropped.iter().map(|of| of.packets).sum::<u64>();
    hold!(stated_drops == dropped, "{of}: dropped {stated_drops}, not {dropped}");
    let mut out = sum(stated.carried_out.as_ref());
    [flow, overflow].into_iter().chain(came.causes.values().copied()).for_each(|of| add(&mut out, of));
    let mut taken = captured;
    add(&mut taken, sum(stated.carried_in.as_ref()));
    hold!(taken == out, "{of}: {taken:?} captured and carried in, {out:?} in records, causes and carried out");
    Ok(())
}
