//! Counts distinct items in 128 octets: HyperLogLog (Flajolet et al. 2007) as `flow.proto` defines it.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::LazyLock;

/// SipHash with a key that this process draws and tells nobody: a sender who chooses addresses cannot make many count as
/// few, nor few as many, and a reader of the records cannot test whether an address was counted.
static KEYED: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Registers, one octet each.
const REGISTERS: usize = 128;
/// Bits of the hash that choose the register.
const INDEX_BITS: u32 = 7;

/// A mergeable distinct count with a standard error of about 9 %.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sketch([u8; REGISTERS]);

impl Default for Sketch {
    fn default() -> Self {
        Sketch([0; REGISTERS])
    }
}

impl Sketch {
    /// Counts an item, given by its octets: the top 7 bits of its hash choose the register, which keeps the largest
    /// position of the first 1 among the other 57 bits (58 if there is none).
    pub fn insert(&mut self, item: &[u8]) {
        let mut hasher = KEYED.build_hasher();
        hasher.write(item);
        self.count(hasher.finish());
    }

    fn count(&mut self, hash: u64) {
        let register = (hash >> (64 - INDEX_BITS)) as usize;
        let rank = ((hash << INDEX_BITS).leading_zeros().min(64 - INDEX_BITS) + 1) as u8;
        self.0[register] = self.0[register].max(rank);
    }

    /// The registers, as records carry them.
    pub fn registers(&self) -> &[u8] {
        &self.0
    }

    /// The estimated number of distinct items, from the harmonic mean of the registers, or by linear counting while
    /// many registers are empty.
    pub fn estimate(&self) -> f64 {
        let m = REGISTERS as f64;
        let sum: f64 = self.0.iter().map(|&rank| 2f64.powi(-i32::from(rank))).sum();
        let raw = 0.7213 / (1.0 + 1.079 / m) * m * m / sum;
        let empty = self.0.iter().filter(|&&rank| rank == 0).count();
        if raw <= 2.5 * m && empty > 0 { m * (m / empty as f64).ln() } else { raw }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_within_six_standard_errors() {
        for count in [1u32, 10, 100, 1_000, 100_000] {
            let mut sketch = Sketch::default();
            for item in 0..count {
                sketch.insert(&item.to_be_bytes());
                sketch.insert(&item.to_be_bytes());
            }
            let error = (sketch.estimate() - f64::from(count)).abs() / f64::from(count);
            assert!(error < 0.55, "{count}: {}", sketch.estimate());
        }
    }

    #[test]
    fn registers_follow_the_schema() {
        // Register 0x77, then the bits 1010...: rank 1. Register 0, then 57 zeros: rank 58.
        let mut sketch = Sketch::default();
        sketch.count(0xef46_db37_51d8_e999);
        sketch.count(0);
        assert_eq!((sketch.registers()[0x77], sketch.registers()[0]), (1, 58));
        assert_eq!(sketch.registers().iter().filter(|&&rank| rank > 0).count(), 2);
    }

    /// An item of 16 octets, of which `h` is the xxHash64 with seed 0: the second half undoes what the first one did.
    fn of_the_former_hash(first: u64, h: u64) -> [u8; 16] {
        const P: [u64; 5] = [
            0x9e37_79b1_85eb_ca87,
            0xc2b2_ae3d_27d4_eb4f,
            0x1656_67b1_9e37_79f9,
            0x85eb_ca77_c2b2_ae63,
            0x27d4_eb2f_1656_67c5,
        ];
        let inverse = |odd: u64| (0..6).fold(odd, |x, _| x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x))));
        let round = |lane: u64| lane.wrapping_mul(P[1]).rotate_left(31).wrapping_mul(P[0]);
        let step = |h: u64| h.rotate_left(27).wrapping_mul(P[0]).wrapping_add(P[3]);
        let before = step(P[4].wrapping_add(16) ^ round(first));
        let mut h = h ^ h >> 32;
        h = h.wrapping_mul(inverse(P[2]));
        h ^= h >> 29 ^ h >> 58;
        h = h.wrapping_mul(inverse(P[1]));
        h ^= h >> 33;
        let after = h.wrapping_sub(P[3]).wrapping_mul(inverse(P[0])).rotate_right(27);
        let lane = (before ^ after).wrapping_mul(inverse(P[0])).rotate_right(31).wrapping_mul(inverse(P[1]));
        let mut item = [0; 16];
        item[..8].copy_from_slice(&first.to_le_bytes());
        item[8..].copy_from_slice(&lane.to_le_bytes());
        item
    }

    #[test]
    fn chosen_addresses_count_as_others_do() {
        // Register 5, rank 1.
        let mut many = Sketch::default();
        for number in 0..10_000 {
            many.insert(&of_the_former_hash(number, 0x0bff_0000_0000_0000));
        }
        assert!((many.estimate() - 10_000.0).abs() < 5_500.0, "10,000 count as {}", many.estimate());
        let mut few = Sketch::default();
        for register in 0..128 {
            few.insert(&of_the_former_hash(0, register << 57));
        }
        assert!((few.estimate() - 128.0).abs() < 64.0, "128 count as {}", few.estimate());
    }
}
