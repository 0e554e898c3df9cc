//! Determines what an exporter's sequence numbers count: messages, flow records, or flow and option records. Not every
//! exporter follows the standards. It tracks every possible unit until one is clear; a gap that another unit explains
//! is no loss.

use crate::collect::exporter::origin::Protocol;
use crate::collect::exporter::sequence::{Losses, Numbered, Sequence};
use serde::{Deserialize, Serialize};

/// The unit that the sequence numbers count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Messages,
    /// Records of flows.
    Flows,
    /// Records of flows and of options.
    Records,
    /// Flow records, including those of the current message. softflowd counts them so in IPFIX.
    FlowsSoFar,
}

/// A unit is ruled out once it predicts this many more losses than another.
const PLAIN: u32 = 16;
/// Within this difference two units are equally likely, and the smaller loss is reported.
const LIKELY: u32 = 4;

/// Gaps that late messages may still fill.
const GAPS: usize = 256;

/// How many of each unit a message contains; `None` if unknown.
#[derive(Clone, Copy, Debug)]
pub struct Units {
    pub flows: Option<u32>,
    pub records: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Way {
    #[serde(flatten)]
    sequence: Sequence,
    /// Number of messages with the expected sequence number.
    hits: u32,
    /// Whether this unit is ruled out.
    out: bool,
    losses: Losses,
}

/// The numbers of one session and domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counting {
    ways: [Way; 4],
    /// Losses counted so far.
    told: Losses,
}

/// The units, likeliest first: RFC 7011, section 3.1; RFC 3954, section 5.1; flows for v5.
fn order(protocol: Protocol) -> &'static [Unit] {
    match protocol {
        Protocol::NetflowV5 => &[Unit::Flows, Unit::Messages],
        Protocol::NetflowV9 => &[Unit::Messages, Unit::Flows, Unit::Records, Unit::FlowsSoFar],
        Protocol::Ipfix => &[Unit::Records, Unit::Flows, Unit::Messages, Unit::FlowsSoFar],
        Protocol::Sflow | Protocol::Nprobe => &[Unit::Messages],
    }
}

impl Counting {
    /// Processes a message's sequence number, and updates the losses.
    #[inline]
    pub fn hear(&mut self, protocol: Protocol, number: u32, units: Units, sent_ms: i64, losses: &mut Losses) {
        let mut changed = false;
        // If one unit predicts no number, as without a template, the others prove nothing.
        let all_foretell = self.ways.iter().all(|way| way.out || !way.sequence.is_inexact());
        for &unit in order(protocol) {
            let way = &mut self.ways[unit as usize];
            if way.out {
                continue;
            }
            let (number, units) = match unit {
                Unit::Messages => (number, Some(1)),
                Unit::Flows => (number, units.flows),
                Unit::Records => (number, units.records),
                Unit::FlowsSoFar => (number.wrapping_sub(units.flows.unwrap_or(0)), units.flows),
            };
            let hit = way.sequence.hear(Numbered { number, units, sent_ms }, GAPS, &mut way.losses);
            way.hits = way.hits.saturating_add(u32::from(hit && all_foretell));
            changed |= !hit;
        }
        if changed {
            self.settle(protocol, losses);
        }
    }

    /// Rules out units that are plainly not counted; returns the losses by the remaining ones.
    #[cold]
    fn settle(&mut self, protocol: Protocol, losses: &mut Losses) {
        let most = self.most();
        for way in self.ways.iter_mut().filter(|way| way.hits.saturating_add(PLAIN) <= most) {
            way.out = true;
            way.sequence.forget_gaps();
        }
        let Some((_, way)) = self.likely(protocol).min_by_key(|(_, way)| way.losses.lost) else { return };
        let now = way.losses;
        let told = &mut self.told;
        // Losses reported for an earlier run cannot be withdrawn.
        let tell = |sum: &mut u64, now: u64, told: &mut u64| {
            let less = told.saturating_sub(now).min(*sum);
            let more = now.saturating_sub(*told);
            *sum = *sum + more - less;
            *told = *told + more - less;
        };
        tell(&mut losses.lost, now.lost, &mut told.lost);
        tell(&mut losses.late, now.late, &mut told.late);
        tell(&mut losses.repeated, now.repeated, &mut told.repeated);
        tell(&mut losses.restarts, now.restarts, &mut told.restarts);
    }

    /// The counted unit, as far as it is known.
    pub fn unit(&self, protocol: Protocol) -> Unit {
        self.likely(protocol).next().map_or(Unit::Messages, |(unit, _)| unit)
    }

    fn most(&self) -> u32 {
        self.ways.iter().map(|way| way.hits).max().unwrap_or(0)
    }

    /// The possible units, likeliest first.
    fn likely(&self, protocol: Protocol) -> impl Iterator<Item = (Unit, &Way)> {
        let most = self.most();
        let all = order(protocol).iter().map(|&unit| (unit, &self.ways[unit as usize]));
        all.filter(move |(_, way)| !way.out && way.hits.saturating_add(LIKELY) >= most)
    }

    /// Whether the number may continue the sequence.
    pub fn may_hold(&self, protocol: Protocol, number: u32, sent_ms: i64) -> bool {
        self.likely(protocol).any(|(_, way)| way.sequence.may_hold(number, sent_ms))
    }

    /// Whether the number continues the sequence so closely that it must be the same exporter's.
    pub fn runs_on(&self, protocol: Protocol, number: u32) -> bool {
        let of = |unit: Unit| self.ways[unit as usize].sequence.next;
        // Low numbers may be close by chance.
        let near = |next: u32| next > NEAR && number > NEAR && number.wrapping_sub(next) < NEAR;
        order(protocol).iter().any(|&unit| of(unit).is_some_and(near))
    }

    /// Whether no earlier message had this number: by the likeliest unit, it is the next one. If that unit is ruled out, its
    /// sequence stands still and decides nothing.
    #[inline]
    pub fn is_new(&self, protocol: Protocol, number: u32) -> bool {
        let way = &self.ways[order(protocol)[0] as usize];
        !way.out && way.sequence.is_new(number)
    }

    /// Whether messages with higher sequence numbers have arrived.
    pub fn is_behind(&self, number: u32) -> bool {
        self.ways[Unit::Messages as usize].sequence.next.is_some_and(|next| number < next)
    }

    /// The exporter restarted: its unit stays the same, and nothing was lost.
    pub fn restart(&mut self) {
        self.ways.iter_mut().for_each(|way| way.sequence.restart());
    }
}

/// How near, units.
const NEAR: u32 = 1 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages of (flows, options), numbered by a unit; some are lost.
    fn lost(protocol: Protocol, unit: Unit, messages: &[(u32, u32)], gone: &[usize]) -> (u64, Unit) {
        let (mut counting, mut losses, mut number) = (Counting::default(), Losses::default(), 77);
        for (at, &(flows, options)) in messages.iter().enumerate() {
            if !gone.contains(&at) {
                let units = Units { flows: Some(flows), records: Some(flows + options) };
                let said = if unit == Unit::FlowsSoFar { number + flows } else { number };
                counting.hear(protocol, said, units, at as i64, &mut losses);
            }
            number += match unit {
                Unit::Messages => 1,
                Unit::Flows | Unit::FlowsSoFar => flows,
                Unit::Records => flows + options,
            };
        }
        (losses.lost, counting.unit(protocol))
    }

    #[test]
    fn of_messages_that_come_in_disorder_none_is_lost() {
        for protocol in [Protocol::NetflowV9, Protocol::Ipfix] {
            let (mut counting, mut losses) = (Counting::default(), Losses::default());
            let mut order: Vec<u32> = (0..3000).collect();
            order[100..].sort_by_key(|at| at + at * 7919 % 1000);
            for at in order {
                let number = if protocol == Protocol::Ipfix { at * 20 } else { at };
                let units = Units { flows: Some(20), records: Some(20) };
                counting.hear(protocol, number, units, 0, &mut losses);
            }
            assert_eq!((losses.lost, losses.restarts), (0, 0), "{protocol}");
        }
    }

    #[test]
    fn what_is_counted_is_found_and_losses_are_right() {
        let messages: Vec<(u32, u32)> = (0..240).map(|at| (2 + at % 5, u32::from(at % 10 == 0))).collect();
        let sum = |gone: &[usize], unit: Unit| -> u64 {
            let of = |at: &usize| match unit {
                Unit::Messages => 1,
                Unit::Flows | Unit::FlowsSoFar => messages[*at].0,
                Unit::Records => messages[*at].0 + messages[*at].1,
            };
            gone.iter().map(of).sum::<u32>().into()
        };
        for protocol in [Protocol::NetflowV9, Protocol::Ipfix] {
            for unit in [Unit::Messages, Unit::Flows, Unit::Records, Unit::FlowsSoFar] {
                assert_eq!(lost(protocol, unit, &messages, &[]), (0, unit), "{protocol} {unit:?}");
                let gone = [1, 20, 21, 47];
                assert_eq!(lost(protocol, unit, &messages, &gone), (sum(&gone, unit), unit), "{protocol} {unit:?}");
            }
        }
    }
}
