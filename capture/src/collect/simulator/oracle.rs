//! The expected outcome of a simulation, in a few plain sums by the RFCs: each received record is published once with
//! the right sums in each interval, or counted under a cause; and the losses.

use super::exporter::flows;
use super::schedule::{Announces, Numbers, Part, Schedule, Speaks};
use super::world::{ByExporter, Happened, Heard, INTERVAL_MS, Sent};
use std::collections::{BTreeMap, HashMap, HashSet};

/// How long sets wait for their template, ms.
const WAITS_MS: i64 = 60_000;
/// Clock errors above this are corrected, ms.
const CLOCK_ERROR_MS: i64 = 3_600_000;
/// How long intervals stay open after their end, ms.
const GRACE_MS: i64 = 200;
/// How far before the open interval records may reach, ms.
const OLDEST_MS: i64 = 3_600_000;

/// A record that must be published.
struct Expected {
    packets: u64,
    octets: u64,
    rate: Option<u32>,
    first_ms: i64,
    last_ms: i64,
    /// The host's clock when it was read.
    read_ms: i64,
    exporter: Vec<u8>,
}

/// The scope of templates, sampling and sequence numbers: the session and the domain (RFC 7011, sections 3.1 and 8), or
/// the sFlow agent and sub-agent.
type Scope = (Speaks, u8, u16, u32);

/// The state that a collector must have about one scope.
#[derive(Default)]
struct Known {
    start: u32,
    layout: Option<usize>,
    rate: Option<u32>,
    /// Messages whose records wait, and when they arrived.
    waiting: Vec<(usize, i64)>,
}

/// Counts, beside the published records.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sums {
    records: u64,
    unknown_sets: u64,
    repeated: u64,
    clock_off: u64,
    without_rate: u64,
    counter_samples: u64,
    unknown_samples: u64,
}

/// Compares the outcome with the expected one; returns the differences.
pub fn judge(schedule: &Schedule, happened: &Happened) -> Result<(), String> {
    let mut oracle = Oracle { schedule, sent: &happened.sent, ..Oracle::new(schedule) };
    for heard in &happened.heard {
        match heard {
            Heard::Message(at, ms) => oracle.message(*at, *ms),
            Heard::Clock(off_ms) => oracle.off_ms = *off_ms,
            Heard::Stopped => oracle.known.values_mut().for_each(|known| {
                oracle.sums.unknown_sets += known.waiting.drain(..).len() as u64;
            }),
        }
    }
    if let Some(why) = &happened.wrong {
        return Err(why.clone());
    }
    oracle.published(happened)?;
    let counts = &happened.outcome.counts;
    let cause = |name: &str| {
        let causes = crate::collect::cause::Refusal::ALL.into_iter();
        causes.filter(|cause| cause.name() == name).map(|cause| counts.of(cause)).sum::<u64>()
    };
    let got = Sums {
        records: counts.records,
        unknown_sets: cause("unknown_template"),
        repeated: cause("repeated"),
        clock_off: cause("clock_off"),
        without_rate: happened.outcome.without_sampling_rate,
        counter_samples: counts.counter_samples,
        unknown_samples: cause("unknown_sample"),
    };
    if got != oracle.sums {
        return Err(format!("counted {got:?}, not {:?}", oracle.sums));
    }
    let known = ["unknown_template", "repeated", "clock_off", "unknown_sample"];
    for other in crate::collect::cause::Refusal::ALL {
        if !known.contains(&other.name()) && counts.of(other) > 0 {
            return Err(format!("counted {} of {}", counts.of(other), other.name()));
        }
    }
    let refused: BTreeMap<String, u64> = crate::collect::cause::Refusal::ALL
        .into_iter()
        .map(|cause| (cause.name().to_owned(), counts.of(cause)))
        .filter(|(_, count)| *count > 0)
        .collect();
    if happened.closed.refused != refused {
        return Err(format!("closing records refuse {:?}, not {refused:?}", happened.closed.refused));
    }
    if happened.closed.uncounted != 0 {
        let (uncounted, of) = (happened.closed.uncounted, happened.closed.reports);
        return Err(format!("closing records leave {uncounted} of {of} reports other than flows uncounted"));
    }
    let mut closed = happened.closed.exporters.clone();
    closed.retain(|_, sums| sums.0 > 0);
    if closed != oracle.by_exporter {
        return Err(format!("closing records have {closed:?}, not {:?}", oracle.by_exporter));
    }
    let (least, most) = oracle.lost();
    let lost = counts.losses.lost;
    if lost < least || lost > most {
        return Err(format!("{lost} lost by sequence numbers, not {least} to {most}"));
    }
    Ok(())
}

struct Oracle<'a> {
    schedule: &'a Schedule,
    sent: &'a [Sent],
    /// How far the host's clock is ahead of the time that passes, ms.
    off_ms: i64,
    known: HashMap<Scope, Known>,
    expected: BTreeMap<u32, Expected>,
    sums: Sums,
    /// Records, and those without a rate, by exporter as closing records name it.
    by_exporter: ByExporter,
    /// Received messages, by scope and start, in order; and whether their units were known.
    came: BTreeMap<(Scope, u32), Vec<(usize, bool)>>,
    seen: HashSet<(u16, &'a [u8])>,
}

impl<'a> Oracle<'a> {
    fn new(schedule: &'a Schedule) -> Oracle<'a> {
        Oracle {
            schedule,
            sent: &[],
            off_ms: 0,
            known: HashMap::new(),
            expected: BTreeMap::new(),
            sums: Sums::default(),
            by_exporter: BTreeMap::new(),
            came: BTreeMap::new(),
            seen: HashSet::new(),
        }
    }

    fn message(&mut self, at: usize, now_ms: i64) {
        for known in self.known.values_mut() {
            let before = known.waiting.len();
            known.waiting.retain(|(_, came_ms)| now_ms - came_ms <= WAITS_MS);
            self.sums.unknown_sets += (before - known.waiting.len()) as u64;
        }
        let sent = &self.sent[at];
        let plan = &self.schedule.exporters[sent.exporter];
        let off_ms = now_ms + self.off_ms - (sent.sent_ms + plan.clock_off_s * 1000);
        if off_ms.abs() > CLOCK_ERROR_MS && plan.speaks != Speaks::Sflow {
            self.sums.clock_off += 1;
        }
        if !self.seen.insert((sent.session.port, &sent.octets)) {
            self.sums.repeated += 1;
            return;
        }
        let scope = match plan.speaks {
            Speaks::Sflow => (Speaks::Sflow, plan.agent, 0, plan.domain),
            speaks => (speaks, plan.address, sent.session.port, plan.domain),
        };
        let known = self.known.entry(scope).or_default();
        if known.start != sent.start {
            self.sums.unknown_sets += known.waiting.drain(..).len() as u64;
            (known.start, known.layout) = (sent.start, None);
        }
        let templated = matches!(plan.speaks, Speaks::V9 | Speaks::Ipfix);
        for part in &sent.parts {
            match part {
                Part::Template | Part::NewTemplate(_) if templated => {
                    known.layout = Some(sent.layout);
                    let rate = known.rate;
                    for (at, came_ms) in std::mem::take(&mut known.waiting) {
                        let into = (&mut self.expected, &mut self.sums, &mut self.by_exporter);
                        let clocks = (came_ms + self.off_ms, now_ms + self.off_ms);
                        take(into, self.schedule, &self.sent[at], clocks, rate);
                    }
                }
                // The option template comes with it.
                Part::Rate(rate) if templated => known.rate = Some(*rate),
                Part::Counters => self.sums.counter_samples += 1,
                Part::Dropped => self.sums.unknown_samples += 1,
                _ => {}
            }
        }
        let any = flows(&sent.parts).next().is_some();
        let waits = templated && known.layout.is_none() && any;
        if waits {
            known.waiting.push((at, now_ms));
        } else {
            let into = (&mut self.expected, &mut self.sums, &mut self.by_exporter);
            let read_ms = now_ms + self.off_ms;
            take(into, self.schedule, sent, (read_ms, read_ms), known.rate);
        }
        self.came.entry((scope, sent.start)).or_default().push((at, !waits));
    }

    /// Each record is published once, in the right intervals, or not at all.
    fn published(&self, happened: &Happened) -> Result<(), String> {
        let mut got: BTreeMap<u32, Vec<_>> = BTreeMap::new();
        happened.got.iter().for_each(|part| got.entry(part.id).or_default().push(part));
        for (id, parts) in &got {
            let Some(expected) = self.expected.get(id) else {
                return Err(format!("record {id} was published and should not be: {parts:?}"));
            };
            for part in parts {
                if part.rate != u64::from(expected.rate.unwrap_or(0)) || part.exporter != expected.exporter {
                    return Err(format!(
                        "record {id} should have rate {:?} and exporter {:?}: {part:?}",
                        expected.rate, expected.exporter
                    ));
                }
            }
        }
        for (id, expected) in &self.expected {
            let mut intervals = BTreeMap::new();
            for part in got.get(id).into_iter().flatten() {
                let sums: &mut (u64, u64) = intervals.entry(part.interval_ms).or_default();
                sums.0 += part.packets;
                sums.1 += part.octets;
            }
            let mut should = expected.intervals(expected.read_ms);
            if !intervals.is_empty() && !intervals.keys().eq(should.keys()) {
                // The interval before may still be open.
                should = expected.intervals(expected.read_ms - GRACE_MS);
            }
            // Octets are rounded.
            let near = |a: u64, b: u64| a.abs_diff(b) <= should.len() as u64;
            let sum = |of: &BTreeMap<i64, (u64, u64)>| of.values().map(|sums| sums.1).sum::<u64>();
            let alike = intervals.len() == should.len()
                && sum(&intervals) == sum(&should)
                && intervals
                    .iter()
                    .zip(&should)
                    .all(|(one, other)| one.0 == other.0 && one.1.0 == other.1.0 && near(one.1.1, other.1.1));
            if !alike {
                return Err(format!("record {id} should be {should:?}, and is {intervals:?}"));
            }
        }
        Ok(())
    }

    /// Minimum and maximum losses, in the exporters' units: everything between the first and the last message received
    /// that did not arrive. If units were unknown, or too few messages arrived to recognise the unit, the collector may
    /// report less.
    fn lost(&self) -> (u64, u64) {
        let (mut least, mut most) = (0, 0);
        for came in self.came.values() {
            let first = &self.sent[came[0].0];
            let plan = &self.schedule.exporters[first.exporter];
            let place = |sent: &Sent| i64::from(sent.number.wrapping_sub(first.number) as i32);
            let (mut end, mut units) = (0, 0);
            for (at, _) in came {
                let sent = &self.sent[*at];
                if place(sent) >= 0 {
                    units += u64::from(sent.units);
                    end = end.max(place(sent) + i64::from(sent.units));
                }
            }
            let lost = (end as u64).saturating_sub(units);
            most += lost;
            // Consecutive messages reveal the unit if the first of them did not have exactly one flow.
            let telling = came.windows(2).filter(|pair| {
                let [before, after] = [&self.sent[pair[0].0], &self.sent[pair[1].0]];
                before.number.wrapping_add(before.units) == after.number && flows(&before.parts).count() != 1
            });
            let told = telling.count() >= 16 || matches!(plan.speaks, Speaks::Sflow);
            let clear = plan.numbers == Numbers::Messages || came.iter().all(|(_, known)| *known);
            let options = came.iter().flat_map(|(at, _)| &self.sent[*at].parts);
            let options = options.filter(|part| matches!(part, Part::Rate(_))).count() as u64;
            if told && clear {
                least += lost.saturating_sub(4 * options);
            }
        }
        (least, most)
    }
}

/// Expects a message's records to be published, at the rate that is known. It arrived, and was read, at these times by
/// the host's clock.
fn take(
    (expected, sums, by_exporter): (&mut BTreeMap<u32, Expected>, &mut Sums, &mut ByExporter),
    schedule: &Schedule,
    sent: &Sent,
    (came_ms, read_ms): (i64, i64),
    known: Option<u32>,
) {
    let plan = &schedule.exporters[sent.exporter];
    let rate = match plan.announces {
        Announces::Nothing => None,
        Announces::InRecords => Some(plan.rate),
        _ => known,
    };
    for flow in flows(&sent.parts) {
        sums.records += 1;
        sums.without_rate += u64::from(rate.is_none());
        let scale = u64::from(rate.unwrap_or(1));
        let expects = match plan.speaks {
            Speaks::Sflow => {
                let exporter = vec![203, 0, 113, plan.agent];
                let octets = u64::from(flow.size) * scale;
                Expected { packets: scale, octets, rate, first_ms: came_ms, last_ms: came_ms, read_ms, exporter }
            }
            _ => {
                let export_ms = sent.sent_ms + plan.clock_off_s * 1000;
                let wrong = (came_ms - export_ms).abs() > CLOCK_ERROR_MS;
                let last_ms = if wrong { came_ms } else { export_ms } - i64::from(flow.ended_ms);
                Expected {
                    packets: u64::from(flow.packets) * scale,
                    octets: u64::from(flow.packets * flow.size) * scale,
                    rate,
                    first_ms: last_ms - i64::from(flow.lasted_ms),
                    last_ms,
                    read_ms,
                    exporter: vec![192, 0, 2, plan.address],
                }
            }
        };
        let protocol = match plan.speaks {
            Speaks::V5 => "netflow5",
            Speaks::V9 => "netflow9",
            Speaks::Ipfix => "ipfix",
            Speaks::Sflow => "sflow",
        };
        let by = (expects.exporter.clone(), plan.domain, protocol.to_owned());
        let of = by_exporter.entry(by).or_default();
        *of = (of.0 + 1, of.1 + u64::from(rate.is_none()));
        expected.insert(flow.id, expects);
    }
}

impl Expected {
    /// Packets and octets by interval: packets are evenly spaced, the first at the beginning and the last at the end. At
    /// `now_ms` records of the future end in the interval of that time, and those before the oldest begin in it.
    fn intervals(&self, now_ms: i64) -> BTreeMap<i64, (u64, u64)> {
        let mut all = BTreeMap::new();
        let open = now_ms.div_euclid(INTERVAL_MS) * INTERVAL_MS;
        let ahead = (self.last_ms - (open + INTERVAL_MS - 1)).max(0);
        let first = (self.first_ms - ahead).max(open - OLDEST_MS);
        let last = (self.last_ms - ahead).max(first);
        let lasted = (last - first) as u128;
        let before = |end: i64| -> u64 {
            if end <= first {
                return 0;
            }
            let (passed, spaces) = ((end - first) as u128, u128::from(self.packets - 1));
            // How many k from 0 to `spaces` have k * lasted / spaces < passed.
            match spaces * passed {
                _ if spaces == 0 || passed > lasted => self.packets,
                product => (product.div_ceil(lasted) as u64).min(self.packets),
            }
        };
        let mut start = first.div_euclid(INTERVAL_MS) * INTERVAL_MS;
        while start <= last {
            let packets = before(start + INTERVAL_MS) - before(start);
            if packets > 0 {
                let octets = u128::from(self.octets) * u128::from(packets) / u128::from(self.packets);
                all.insert(start, (packets, octets as u64));
            }
            start += INTERVAL_MS;
        }
        // The remainder of rounding goes into the last interval, so that sums are exact.
        let sum: u64 = all.values().map(|sums: &(u64, u64)| sums.1).sum();
        if let Some(mut last) = all.last_entry() {
            last.get_mut().1 += self.octets - sum;
        }
        all
    }
}
