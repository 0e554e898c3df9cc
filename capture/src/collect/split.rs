//! Splits a record that spans several intervals.
//!
//! Packets of one direction are taken to be evenly spaced from the first to the last one, each as large as the others;
//! if first and last coincide, all are at that time. Sums are exact in integers.

/// The packets and octets of one direction, spread evenly over a time span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    packets: u64,
    octets: u64,
    first_ms: i64,
    last_ms: i64,
}

impl Spread {
    /// These packets and octets between `first_ms` and `last_ms`, which is not earlier.
    pub fn new(packets: u64, octets: u64, first_ms: i64, last_ms: i64) -> Spread {
        Spread { packets, octets, first_ms, last_ms }
    }

    /// Packets and octets before `end_ms`.
    pub fn before(&self, end_ms: i64) -> (u64, u64) {
        if end_ms <= self.first_ms {
            return (0, 0);
        }
        if end_ms > self.last_ms {
            return (self.packets, self.octets);
        }
        // Octets without packets count as one packet.
        let steps = self.packets.saturating_sub(1);
        let (passed, lasted) = (end_ms.abs_diff(self.first_ms), self.last_ms.abs_diff(self.first_ms));
        // Packet k is at first + k * lasted / steps.
        let packets = match passed.checked_mul(steps) {
            Some(product) => product.div_ceil(lasted),
            None => (u128::from(passed) * u128::from(steps)).div_ceil(lasted.into()) as u64,
        };
        let packets = packets.max(1).min(self.packets);
        let octets = match (self.packets, self.octets.checked_mul(packets)) {
            (0, _) => self.octets,
            (all, Some(product)) => product / all,
            (all, None) => (u128::from(self.octets) * u128::from(packets) / u128::from(all)) as u64,
        };
        (packets, octets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn packets_are_evenly_spaced() {
        // At 0, 10, 20 and 30 s.
        let spread = Spread::new(4, 4000, 0, 30_000);
        let parts: Vec<_> = [0, 10_000, 10_001, 20_000, 30_000, 30_001].map(|end| spread.before(end).0).into();
        assert_eq!(parts, [0, 1, 2, 2, 3, 4]);
        assert_eq!(spread.before(20_000), (2, 2000));
    }

    #[test]
    fn one_packet_is_at_the_first_time() {
        let spread = Spread::new(1, 1500, 5, 90_000);
        assert_eq!((spread.before(5), spread.before(6)), ((0, 0), (1, 1500)));
        assert_eq!(Spread::new(0, 7, 0, 10).before(1), (0, 7));
        assert_eq!(Spread::new(9, 90, 4, 4).before(5), (9, 90));
    }

    proptest! {
        #[test]
        fn parts_grow_to_the_whole(
            packets in prop_oneof![0..5_u64, any::<u64>()], octets in any::<u64>(), first in -9_000_000_000_000..9_000_000_000_000_i64,
            lasted in prop_oneof![0..100_i64, 0..9_000_000_000_000_i64], mut ends in prop::collection::vec(any::<f64>(), 1..20),
        ) {
            let spread = Spread::new(packets, octets, first, first + lasted);
            ends.iter_mut().for_each(|end| *end = end.fract().abs());
            ends.sort_by(f64::total_cmp);
            let mut before = (0, 0);
            for end in ends {
                let now = spread.before(first + (end * lasted as f64) as i64);
                prop_assert!(now.0 >= before.0 && now.1 >= before.1);
                before = now;
            }
            prop_assert_eq!(spread.before(first), (0, 0));
            prop_assert_eq!(spread.before(first + lasted + 1), (packets, octets));
        }
    }
}
