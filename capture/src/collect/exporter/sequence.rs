//! Sequence numbers: what was lost, what only came late, and when the exporter began anew.

use serde::{Deserialize, Serialize};

/// How far a number may be behind to be late rather than of an exporter that began anew, units.
const LATE: u32 = 1 << 16;
/// How far it may be ahead to be a loss rather than that, units.
const AHEAD: u32 = 1 << 24;
/// So many late ones that follow on each other are an exporter that began anew.
const LATE_RUN: u32 = 8;
/// Gaps that late ones may still fill.
const GAPS: usize = 16;

/// What sequence numbers told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Units that never came.
    pub lost: u64,
    /// Datagrams that came after later ones.
    pub late: u64,
    /// Datagrams that came twice.
    pub repeated: u64,
    /// Times that the exporter began to count anew.
    pub restarts: u64,
}

/// The numbers of one exporter; a unit is what it numbers: records, datagrams or samples.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::collect) struct Sequence {
    /// The number that comes next; `None` where it is unknown.
    pub(in crate::collect) next: Option<u32>,
    /// What is missing, from and so many, oldest first.
    #[serde(skip)]
    gaps: Vec<(u32, u32)>,
    /// The number after the last late one, and how many followed on each other.
    #[serde(skip)]
    late: (u32, u32),
}

impl Sequence {
    /// Takes in a datagram with this number, of so many units; `None`: of a number of units that is not known.
    #[inline]
    pub(in crate::collect) fn hear(&mut self, number: u32, units: Option<u32>, losses: &mut Losses) {
        if self.next != Some(number) {
            self.jump(number, units.unwrap_or(0), losses);
        } else {
            self.next = units.map(|units| number.wrapping_add(units));
        }
    }

    /// The exporter is known to have begun anew: nothing was lost.
    pub(in crate::collect) fn restart(&mut self) {
        *self = Sequence::default();
    }

    #[cold]
    fn jump(&mut self, number: u32, units: u32, losses: &mut Losses) {
        let after = number.wrapping_add(units);
        let Some(next) = self.next else {
            self.next = Some(after);
            return;
        };
        let (ahead, behind) = (number.wrapping_sub(next), next.wrapping_sub(number));
        if ahead <= AHEAD {
            losses.lost += u64::from(ahead);
            if self.gaps.len() == GAPS {
                self.gaps.remove(0);
            }
            self.gaps.push((next, ahead));
            self.next = Some(after);
        } else if behind <= LATE && !self.runs_on(number, after) {
            losses.late += 1;
            let filled = self.fill(number, units);
            losses.lost = losses.lost.saturating_sub(u64::from(filled));
            losses.repeated += u64::from(filled == 0 && units > 0);
        } else {
            losses.restarts += 1;
            self.restart();
            self.next = Some(after);
        }
    }

    /// Whether late ones follow on each other for long: then they are not late.
    fn runs_on(&mut self, number: u32, after: u32) -> bool {
        self.late = (after, if self.late.0 == number { self.late.1 + 1 } else { 1 });
        self.late.1 >= LATE_RUN
    }

    /// Takes what came late out of the gaps, and says how much that was.
    fn fill(&mut self, number: u32, units: u32) -> u32 {
        for at in 0..self.gaps.len() {
            let (from, count) = self.gaps[at];
            let into = number.wrapping_sub(from);
            if into < count {
                let filled = units.min(count - into);
                self.gaps[at].1 = into;
                if into + filled < count && self.gaps.len() < GAPS {
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

    fn heard(numbers: &[(u32, u32)]) -> (Sequence, Losses) {
        let (mut sequence, mut losses) = (Sequence::default(), Losses::default());
        for &(number, units) in numbers {
            sequence.hear(number, Some(units), &mut losses);
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
    fn a_restart_soon_after_the_start_is_noticed() {
        let numbers: Vec<_> = [0, 1000].into_iter().chain((0..20).map(|at| at * 10)).map(|at| (at, 10)).collect();
        let (sequence, losses) = heard(&numbers);
        assert_eq!((sequence.next, losses.restarts), (Some(200), 1));
    }

    #[test]
    fn an_unknown_number_of_units_loses_nothing() {
        let (mut sequence, mut losses) = heard(&[(0, 10)]);
        sequence.hear(10, None, &mut losses);
        sequence.hear(500, Some(1), &mut losses);
        assert_eq!((sequence.next, losses), (Some(501), Losses::default()));
    }
}
