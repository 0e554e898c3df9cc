//! Sequence numbers: losses, late arrivals, and restarts of the exporter.

use serde::{Deserialize, Serialize};

/// How far behind a number may be and still count as late rather than as a restart of the exporter, units.
const LATE: u32 = 1 << 16;
/// How far ahead it may be and still count as a loss rather than as a restart, units.
const AHEAD: u32 = 1 << 24;
/// This many consecutive late numbers mean that the exporter restarted, even if its clock does not show it.
const LATE_RUN: u32 = 8;

/// Losses that the sequence numbers reveal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// Units that never came.
    pub lost: u64,
    /// Datagrams that arrived out of order: after datagrams with higher numbers.
    pub late: u64,
    /// Datagrams that came twice.
    pub repeated: u64,
    /// Number of restarts of the exporter's sequence.
    pub restarts: u64,
}

/// A sequence number, the number of units that it covers (if known), and its export time by the exporter's clock.
#[derive(Clone, Copy, Debug)]
pub struct Numbered {
    pub number: u32,
    pub units: Option<u32>,
    pub sent_ms: i64,
}

/// The numbers of one exporter; they count a unit: records, messages or samples.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sequence {
    /// The expected number, or its lower bound if units were unknown; `None` before the first message.
    pub next: Option<u32>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    inexact: bool,
    /// Whether the newest message had units, so that the next one has a new number.
    #[serde(skip)]
    moved: bool,
    /// When the newest number was sent.
    #[serde(default)]
    sent_ms: i64,
    /// Gaps (first number, length), oldest first.
    #[serde(skip)]
    gaps: Vec<(u32, u32)>,
    /// The number after the last late one, and how many late ones were consecutive.
    #[serde(skip)]
    late: (u32, u32),
}

impl Sequence {
    /// Processes a datagram's number; true if it is the expected one. Late ones may fill at most `most_gaps` gaps.
    #[inline]
    pub fn hear(&mut self, heard: Numbered, most_gaps: usize, losses: &mut Losses) -> bool {
        let is_next = self.next == Some(heard.number) && !self.inexact;
        if is_next {
            self.advance(&heard);
        } else {
            self.jump(&heard, most_gaps, losses);
        }
        is_next
    }

    /// Whether this number is the expected one, with no gap before it.
    #[inline]
    pub fn is_new(&self, number: u32) -> bool {
        self.next == Some(number) && self.moved
    }

    /// Whether only a lower bound of the next number is known.
    pub fn is_inexact(&self) -> bool {
        self.inexact
    }

    /// Restarts the sequence after a known restart of the exporter: nothing was lost.
    pub fn restart(&mut self) {
        *self = Sequence::default();
    }

    /// Whether a number may belong to the same sequence: in order, after a loss, or late.
    pub fn may_hold(&self, number: u32, sent_ms: i64) -> bool {
        self.next.is_none_or(|next| {
            number.wrapping_sub(next) <= AHEAD || next.wrapping_sub(number) <= LATE && sent_ms <= self.sent_ms
        })
    }

    /// Forgets the gaps, when the losses of this sequence no longer count.
    pub fn forget_gaps(&mut self) {
        self.gaps = Vec::new();
    }

    fn advance(&mut self, heard: &Numbered) {
        self.next = Some(heard.number.wrapping_add(heard.units.unwrap_or(0)));
        self.inexact = heard.units.is_none();
        self.moved = heard.units.is_some_and(|units| units > 0);
        self.sent_ms = self.sent_ms.max(heard.sent_ms);
    }

    #[cold]
    fn jump(&mut self, heard: &Numbered, most_gaps: usize, losses: &mut Losses) {
        let Numbered { number, units, sent_ms } = *heard;
        let Some(next) = self.next else { return self.advance(heard) };
        let (ahead, behind) = (number.wrapping_sub(next), next.wrapping_sub(number));
        if self.inexact && ahead == 0 && units == Some(0) {
            // A message without units leaves the lower bound as it is.
        } else if ahead <= AHEAD {
            // If units were unknown, the part of the gap that is a loss is unknown.
            if !self.inexact {
                losses.lost += u64::from(ahead);
                if self.gaps.len() >= most_gaps.max(1) {
                    self.gaps.remove(0);
                }
                self.gaps.push((next, ahead));
            }
            self.advance(heard);
        } else if behind <= LATE && sent_ms <= self.sent_ms && !self.is_late_run(number, units) {
            losses.late += 1;
            let filled = self.fill(number, units.unwrap_or(0), most_gaps);
            losses.lost = losses.lost.saturating_sub(u64::from(filled));
            losses.repeated += u64::from(filled == 0 && units.is_some_and(|units| units > 0));
        } else {
            losses.restarts += 1;
            self.restart();
            self.advance(heard);
        }
    }

    /// Whether late numbers have been consecutive for so long that they are not late.
    fn is_late_run(&mut self, number: u32, units: Option<u32>) -> bool {
        let run = if self.late.0 == number { self.late.1 + 1 } else { 1 };
        self.late = (number.wrapping_add(units.unwrap_or(0)), run);
        run >= LATE_RUN && units.is_some_and(|units| units > 0)
    }

    /// Removes late arrivals from the gaps; returns their number.
    fn fill(&mut self, number: u32, units: u32, most_gaps: usize) -> u32 {
        for at in 0..self.gaps.len() {
            let (from, count) = self.gaps[at];
            let into = number.wrapping_sub(from);
            if into < count {
                let filled = units.min(count - into);
                self.gaps[at].1 = into;
                if into + filled < count && self.gaps.len() < most_gaps {
                    self.gaps.insert(at + 1, (number.wrapping_add(filled), count - into - filled));
                }
                self.gaps.retain(|gap| gap.1 > 0);
                return filled;
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(&(number, units): &(u32, u32)) -> Numbered {
        Numbered { number, units: Some(units), sent_ms: 0 }
    }

    fn heard(numbers: &[(u32, u32)]) -> (Sequence, Losses) {
        let (mut sequence, mut losses) = (Sequence::default(), Losses::default());
        for of in numbers {
            sequence.hear(numbered(of), 16, &mut losses);
        }
        (sequence, losses)
    }

    #[test]
    fn in_order_nothing_is_lost_across_the_wrap() {
        let (sequence, losses) = heard(&[(u32::MAX - 29, 20), (u32::MAX - 9, 20), (10, 5)]);
        assert_eq!((sequence.next, losses), (Some(15), Losses::default()));
    }

    #[test]
    fn a_gap_is_lost_until_it_comes_late() {
        let (_, losses) = heard(&[(0, 10), (40, 10)]);
        assert_eq!(losses, Losses { lost: 30, ..Losses::default() });
        let (_, losses) = heard(&[(0, 10), (40, 10), (20, 10)]);
        assert_eq!(losses, Losses { lost: 20, late: 1, ..Losses::default() });
        let (sequence, losses) = heard(&[(0, 10), (40, 10), (20, 10), (30, 10), (10, 10), (50, 10)]);
        assert_eq!((sequence.next, losses), (Some(60), Losses { late: 3, ..Losses::default() }));
    }

    #[test]
    fn what_comes_twice_fills_nothing() {
        let (_, losses) = heard(&[(0, 10), (10, 10), (10, 10), (20, 10), (40, 10), (20, 10)]);
        assert_eq!(losses, Losses { lost: 10, late: 2, repeated: 2, ..Losses::default() });
    }

    #[test]
    fn going_back_a_lot_is_a_restart() {
        for before in [1_000_000, 3_000_000_000] {
            let (sequence, losses) = heard(&[(before, 10), (0, 10), (10, 10)]);
            assert_eq!((sequence.next, losses), (Some(20), Losses { restarts: 1, ..Losses::default() }));
        }
    }

    #[test]
    fn late_ones_that_follow_on_each_other_are_a_restart() {
        let numbers: Vec<_> = [0, 1000].into_iter().chain((0..20).map(|at| at * 10)).map(|at| (at, 10)).collect();
        let (sequence, losses) = heard(&numbers);
        assert_eq!((sequence.next, losses.restarts), (Some(200), 1));
    }

    #[test]
    fn what_goes_back_and_was_sent_later_is_a_restart() {
        let (mut sequence, mut losses) = heard(&[(0, 10), (1000, 10)]);
        sequence.hear(Numbered { number: 0, units: Some(10), sent_ms: 1000 }, 16, &mut losses);
        assert_eq!((sequence.next, losses.restarts, losses.lost), (Some(10), 1, 990));
    }

    #[test]
    fn a_number_may_hold_where_it_is_near_and_was_sent_before() {
        let (sequence, _) = heard(&[(1_000_000, 10)]);
        for (number, sent_ms, holds) in [
            (1_000_010, 9, true),
            (1_000_010 + AHEAD, 9, true),
            (1_000_011 + AHEAD, 0, false),
            (999_000, 0, true),
            (999_000, 1, false),
            (1_000_009 - LATE, 0, false),
        ] {
            assert_eq!(sequence.may_hold(number, sent_ms), holds, "{number} {sent_ms}");
        }
    }

    #[test]
    fn late_ones_that_count_nothing_are_no_restart() {
        let numbers: Vec<_> = [(0, 10), (1000, 10)].into_iter().chain((0..20).map(|_| (500, 0))).collect();
        let (sequence, losses) = heard(&numbers);
        assert_eq!((sequence.next, losses.lost, losses.restarts), (Some(1010), 990, 0));
    }

    #[test]
    fn gaps_that_were_filled_make_room_for_others() {
        let first = [(0, 10), (20, 10)];
        let filled = (0..20).flat_map(|at| [(40 + 20 * at, 10), (30 + 20 * at, 10)]);
        let numbers: Vec<_> = first.into_iter().chain(filled).chain([(10, 10)]).collect();
        assert_eq!(heard(&numbers).1, Losses { late: 21, ..Losses::default() });
    }

    #[test]
    fn an_unknown_number_of_units_loses_nothing() {
        let (mut sequence, mut losses) = heard(&[(0, 10)]);
        for number in [10, 12, 500] {
            sequence.hear(Numbered { number, units: None, sent_ms: 0 }, 16, &mut losses);
        }
        sequence.hear(numbered(&(510, 1)), 16, &mut losses);
        assert_eq!((sequence.next, losses), (Some(511), Losses::default()));
    }
}
