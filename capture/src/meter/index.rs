//! Maps a hash to the numbers of entries kept elsewhere: open addressing with linear probing.
//!
//! A slot has eight octets, the high 32 bits of the hash and the entry's number, so searching, growing and removing
//! touch nothing else, and a slot can be prefetched ([`Index::prefetch`]).

use crate::prefetch::prefetch;

/// Slots at first.
const LEAST: usize = 1 << 10;
/// Maximum fill ratio of the slots: numerator and denominator.
const FULLEST: (usize, usize) = (7, 10);

/// An index of numbers below `u32::MAX`.
pub struct Index {
    /// Slots: 0 if free; else the high 32 bits of the hash, followed by the entry's number plus 1.
    slots: Vec<u64>,
    len: usize,
}

impl Default for Index {
    fn default() -> Index {
        Index { slots: vec![0; LEAST], len: 0 }
    }
}

impl Index {
    /// Maximum octets per entry, reached right after the index grew.
    pub const COST: usize = size_of::<u64>() * 2 * FULLEST.1 / FULLEST.0 + 1;

    pub fn len(&self) -> usize {
        self.len
    }

    /// Where a slot's search begins: it preserves the order of the hashes' high 32 bits, so that growing is one linear
    /// pass.
    fn home(&self, slot: u64) -> usize {
        (((slot >> 32) * self.slots.len() as u64) >> 32) as usize
    }

    fn next(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() { 0 } else { at + 1 }
    }

    /// Prefetches the slot where a hash's search begins.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        prefetch(&self.slots[self.home(hash)]);
    }

    /// The first number whose hash has the same high 32 bits; most often the right one.
    #[inline]
    pub fn likely(&self, hash: u64) -> Option<u32> {
        self.find(hash, |_| true)
    }

    /// The number with this hash that `is` recognises.
    #[inline]
    pub fn find(&self, hash: u64, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut at = self.home(hash);
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return None;
            }
            let number = slot as u32 - 1;
            if slot >> 32 == hash >> 32 && is(number) {
                return Some(number);
            }
            at = self.next(at);
        }
    }

    /// Adds the number of a new entry that is not in the index yet.
    #[inline]
    pub fn insert(&mut self, hash: u64, number: u32) {
        if (self.len + 1) * FULLEST.1 > self.slots.len() * FULLEST.0 {
            self.grow();
        }
        self.put(hash & !0xffff_ffff | (u64::from(number) + 1));
        self.len += 1;
    }

    /// Removes all numbers; the memory stays.
    pub fn clear(&mut self) {
        self.slots.fill(0);
        self.len = 0;
    }

    fn put(&mut self, slot: u64) {
        let mut at = self.home(slot);
        while self.slots[at] != 0 {
            at = self.next(at);
        }
        self.slots[at] = slot;
    }

    #[cold]
    fn grow(&mut self) {
        let mut larger = vec![0; self.slots.len() * 2];
        super::memory::advise_huge(larger.as_ptr(), larger.len());
        std::mem::swap(&mut larger, &mut self.slots);
        for slot in larger {
            if slot != 0 {
                self.put(slot);
            }
        }
    }

    /// Removes a number, if it is there.
    pub fn remove(&mut self, hash: u64, number: u32) {
        let wanted = hash & !0xffff_ffff | (u64::from(number) + 1);
        let mut hole = self.home(hash);
        while self.slots[hole] != wanted {
            if self.slots[hole] == 0 {
                return;
            }
            hole = self.next(hole);
        }
        // Later entries move up if their search would otherwise end at the hole.
        let mut at = hole;
        loop {
            at = self.next(at);
            let slot = self.slots[at];
            if slot == 0 {
                break;
            }
            let home = self.home(slot);
            let stays = if hole < at { hole < home && home <= at } else { hole < home || home <= at };
            if !stays {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole] = 0;
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn it_is_a_map(steps in proptest::collection::vec((0u64..40, any::<bool>()), 0..3000), spread in 0u32..33) {
            let mut index = Index::default();
            let mut map = HashMap::new();
            // Few distinct upper halves make clusters, some of which wrap around the end.
            let hash = |key: u64| (u64::MAX - (key << 61)).rotate_left(spread) ^ key << 33;
            for (number, (key, add)) in steps.into_iter().enumerate() {
                let number = number as u32;
                if add && !map.contains_key(&key) {
                    index.insert(hash(key), number);
                    map.insert(key, number);
                } else if let Some(number) = map.remove(&key) {
                    index.remove(hash(key), number);
                }
                prop_assert_eq!(index.len(), map.len());
                for (key, number) in &map {
                    prop_assert_eq!(index.find(hash(*key), |other| other == *number), Some(*number));
                }
            }
        }
    }

    #[test]
    fn it_grows() {
        let mut index = Index::default();
        let hash = |number: u32| u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for number in 0..100_000 {
            index.insert(hash(number), number);
        }
        assert!((0..100_000).all(|number| index.find(hash(number), |other| other == number).is_some()));
        assert_eq!(index.find(hash(100_000), |_| true), None);
        index.remove(hash(7), 7);
        assert_eq!((index.find(hash(7), |_| true), index.len()), (None, 99_999));
        index.clear();
        assert_eq!((index.find(hash(8), |_| true), index.len()), (None, 0));
    }
}
