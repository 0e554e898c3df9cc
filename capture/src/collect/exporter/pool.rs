//! The effective sampling rate of an sFlow source: an agent that drops samples sends fewer than it announces, and its
//! counter of packets that could have been sampled (`sample_pool`) shows how many packets each sample represents.

/// A rate is computed over at least this many samples and this long: with fewer, chance alone changes it by some per
/// cent.
const SAMPLES: u32 = 1024;
const LASTS_MS: i64 = 10_000;
/// A number that decreases, or increases by more, means that the source restarted or a datagram arrived out of order.
const FAR: u32 = 1 << 24;

/// A sample's data on its source: its number, the announced rate, the counter of packets that could have been sampled,
/// and that of samples dropped.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stated {
    pub at_ms: i64,
    pub sequence: u32,
    pub rate: u32,
    pub pool: u32,
    pub drops: u32,
}

/// The sampling rate of one source, and the sample from which the collector began to measure it.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    since: Stated,
    in_effect: u32,
}

impl Pool {
    /// The effective rate: the announced one if the agent dropped nothing, or if its pool shows no drops.
    #[inline]
    pub fn rate(&mut self, now: Stated) -> u32 {
        let samples = now.sequence.wrapping_sub(self.since.sequence);
        if now.rate != self.since.rate || samples > FAR && samples < FAR.wrapping_neg() {
            *self = Pool { since: now, in_effect: now.rate };
        } else if (SAMPLES..=FAR).contains(&samples) && now.at_ms.saturating_sub(self.since.at_ms) >= LASTS_MS {
            *self = Pool { in_effect: self.between(&now, samples), since: now };
        }
        self.in_effect
    }

    /// Moves the time of the first sample along with the host's clock.
    pub fn clock_set(&mut self, by_ms: i64) {
        self.since.at_ms = self.since.at_ms.saturating_add(by_ms);
    }

    /// Packets that each sample since the first one represents. The pool is trusted only as far as the drops explain
    /// it: some agents include packets that they never sample, and count the drops of all sources in each.
    fn between(&self, now: &Stated, samples: u32) -> u32 {
        let (announced, samples) = (u64::from(now.rate), u64::from(samples));
        let drops = u64::from(now.drops.wrapping_sub(self.since.drops));
        let by_pool = (u64::from(now.pool.wrapping_sub(self.since.pool)) + samples / 2) / samples;
        let by_drops = announced * (samples + drops) / samples;
        let most = by_drops + by_drops / 4;
        // A tenth is chance.
        let is_plain = drops > 0 && drops < 1 << 31 && by_pool > announced + announced / 10;
        if is_plain { by_pool.min(most).min(1 << 24) as u32 } else { now.rate }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rate after 2,000 samples in 20 s, each of which increases the pool and the drops by these amounts.
    fn after(pool: u32, drops: u32) -> u32 {
        let mut source = Pool::default();
        let at = |number: u32| Stated {
            at_ms: i64::from(number) * 10,
            sequence: (u32::MAX - 500).wrapping_add(number),
            rate: 1000,
            pool: (u32::MAX - 70_000).wrapping_add(number * pool),
            drops: (u32::MAX - 9).wrapping_add(number * drops),
        };
        at_each(&mut source, (0..2000).map(at))
    }

    fn at_each(source: &mut Pool, all: impl Iterator<Item = Stated>) -> u32 {
        all.map(|stated| source.rate(stated)).last().unwrap()
    }

    #[test]
    fn a_pool_that_grows_with_drops_tells_the_rate() {
        assert_eq!(after(3000, 2), 3000);
        assert_eq!(after(1000, 0), 1000);
        assert_eq!(after(2500, 2), 2500, "some were dropped after they were counted elsewhere");
    }

    #[test]
    fn a_pool_that_drops_do_not_explain_is_not_believed() {
        assert_eq!(after(5000, 0), 1000, "nothing was dropped");
        assert_eq!(after(1050, 1), 1000, "drops of other sources");
        assert_eq!(after(900_000, 1), 2500, "packets that are not sampled at all");
        assert_eq!(after(0, 1), 1000, "no pool");
    }

    #[test]
    fn a_rate_begins_anew_with_another_announced_one_or_another_count() {
        let stated = |number: u32, rate| Stated {
            at_ms: i64::from(number) * 10,
            sequence: number,
            rate,
            pool: number * 3000,
            drops: number * 2,
        };
        let mut source = Pool::default();
        assert_eq!(at_each(&mut source, (0..2000).map(|number| stated(number, 1000))), 3000);
        // One that was overtaken has the rate of the others.
        assert_eq!(source.rate(stated(1500, 1000)), 3000);
        assert_eq!(source.rate(stated(2001, 512)), 512);
        assert_eq!(at_each(&mut source, (2002..4000).map(|number| stated(number, 512))), 1920);
        assert_eq!(source.rate(Stated { sequence: 1 << 30, ..stated(4000, 512) }), 512);
        // Samples that arrive fast keep their rate for a while.
        let fast = (0..5000).map(|number| Stated { at_ms: 0, ..stated(number, 1000) });
        assert_eq!(at_each(&mut Pool::default(), fast), 1000);
    }
}
