//! State about exporters' interfaces, bounded for each sender: one that uses very many interface numbers displaces only
//! its own.

use crate::packet::Address;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

/// Maximum entries of all senders, and of one of them.
const MOST: usize = 65_536;
const MOST_OF_ONE: usize = MOST / 2;
/// Maximum number of remembered senders.
const MOST_SENDERS: usize = 4096;
/// An entry that is silent this long may be dropped to make room, ms.
const SILENT_MS: i64 = 3_600_000;
/// How often a full sender is searched for silent entries, ms.
const SEARCH_EVERY_MS: i64 = 60_000;

/// The error that the sender has no room for more.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

/// Entries by sender of the datagrams, each with a value and the time when that was set.
#[derive(Debug)]
pub(super) struct Remembered<K, V> {
    senders: HashMap<Address, Sender<K, V>, RandomState>,
    count: usize,
    /// Entries dropped to make room for other senders.
    forgotten: u64,
}

#[derive(Debug)]
struct Sender<K, V> {
    known: HashMap<K, (i64, V), RandomState>,
    heard_ms: i64,
    searched_ms: i64,
    /// Whether it ever set an entry again later: one that did not makes room before one that did.
    goes_on: bool,
}

impl<K, V> Default for Remembered<K, V> {
    fn default() -> Remembered<K, V> {
        Remembered { senders: HashMap::default(), count: 0, forgotten: 0 }
    }
}

impl<K: Eq + Hash, V> Remembered<K, V> {
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    pub(super) fn get(&self, sender: &Address, key: &K) -> Option<&(i64, V)> {
        self.senders.get(sender)?.known.get(key)
    }

    /// Keeps a value; returns the one before, and when that was set.
    ///
    /// # Errors
    /// If the sender used too many entries in the last hour: this one is not kept.
    pub(super) fn keep(&mut self, sender: &Address, key: K, now_ms: i64, value: V) -> Result<Option<(i64, V)>, Full> {
        if self.get(sender, &key).is_none() {
            self.make_room(sender, now_ms)?;
        }
        let of = self.senders.entry(*sender).or_insert_with(|| Sender {
            known: HashMap::default(),
            heard_ms: now_ms,
            searched_ms: now_ms,
            goes_on: false,
        });
        of.heard_ms = now_ms;
        match of.known.entry(key) {
            Entry::Occupied(mut known) => {
                of.goes_on |= known.get().0 < now_ms;
                Ok(Some(known.insert((now_ms, value))))
            }
            Entry::Vacant(place) => {
                place.insert((now_ms, value));
                self.count += 1;
                Ok(None)
            }
        }
    }

    /// Moves all times along with the host's clock.
    pub(super) fn clock_set(&mut self, by_ms: i64, mut also: impl FnMut(&mut V)) {
        for of in self.senders.values_mut() {
            for at_ms in [&mut of.heard_ms, &mut of.searched_ms] {
                *at_ms = at_ms.saturating_add(by_ms);
            }
            for (at_ms, value) in of.known.values_mut() {
                *at_ms = at_ms.saturating_add(by_ms);
                also(value);
            }
        }
    }

    /// Makes room for one more entry of a sender: among its own if it has too many; else it drops the sender with the
    /// most entries, or, if there are too many senders, an eighth of them, those with the fewest first. Senders that never
    /// set an entry again go before others.
    fn make_room(&mut self, sender: &Address, now_ms: i64) -> Result<(), Full> {
        if let Some(of) = self.senders.get_mut(sender).filter(|of| of.known.len() >= MOST_OF_ONE) {
            if now_ms.saturating_sub(of.searched_ms) < SEARCH_EVERY_MS {
                return Err(Full);
            }
            of.searched_ms = now_ms;
            let before = of.known.len();
            of.known.retain(|_, (at_ms, _)| now_ms.saturating_sub(*at_ms) < SILENT_MS);
            self.count -= before - of.known.len();
            if of.known.len() >= MOST_OF_ONE {
                return Err(Full);
            }
        }
        if self.count >= MOST {
            let most = self.senders.iter().max_by_key(|(_, of)| (!of.goes_on, of.known.len()));
            self.forget(most.map(|(&address, _)| address));
        }
        if self.senders.len() >= MOST_SENDERS && !self.senders.contains_key(sender) {
            // Several at once, because finding them takes long.
            let least = |(address, of): (&Address, &Sender<K, V>)| (of.goes_on, of.known.len(), of.heard_ms, *address);
            let mut order: Vec<_> = self.senders.iter().map(least).collect();
            order.sort_unstable();
            order.iter().take(MOST_SENDERS / 8).for_each(|&(.., address)| self.forget(Some(address)));
        }
        Ok(())
    }

    fn forget(&mut self, sender: Option<Address>) {
        let Some(gone) = sender.and_then(|sender| self.senders.remove(&sender)) else { return };
        self.count -= gone.known.len();
        self.forgotten += gone.known.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(number: u32) -> Address {
        let mut address = Address::default();
        address[12..].copy_from_slice(&number.to_be_bytes());
        address
    }

    #[test]
    fn a_sender_of_many_things_costs_itself_alone() {
        let mut all = Remembered::default();
        assert_eq!(all.keep(&sender(1), 7_u32, 0, "a"), Ok(None));
        let refused = (0..MOST as u32).filter(|&key| all.keep(&sender(2), key, 1, "b") == Err(Full)).count();
        assert_eq!((refused, all.count), (MOST - MOST_OF_ONE, MOST_OF_ONE + 1));
        assert_eq!(all.keep(&sender(1), 7, 2, "c"), Ok(Some((0, "a"))));
        assert_eq!(all.keep(&sender(2), 7, 2, "d"), Ok(Some((1, "b"))), "those that it has go on");
        // When a third sender appears, the one of the two with more entries loses them.
        (0..MOST_OF_ONE as u32 - 1).for_each(|key| _ = all.keep(&sender(3), key, 2, "e"));
        assert_eq!(all.keep(&sender(3), 0, 3, "e"), Ok(Some((2, "e"))));
        assert_eq!((all.count, all.forgotten()), (MOST, 0));
        assert_eq!(all.keep(&sender(4), 0, 2, "f"), Ok(None));
        assert_eq!((all.count, all.forgotten()), (MOST_OF_ONE + 1, MOST_OF_ONE as u64));
        assert_eq!(all.get(&sender(1), &7), Some(&(2, "c")));
        assert_eq!(all.get(&sender(2), &7), None);
    }

    #[test]
    fn what_was_not_heard_for_an_hour_makes_room() {
        let mut all = Remembered::default();
        (0..MOST_OF_ONE as u32).for_each(|key| _ = all.keep(&sender(1), key, i64::from(key % 2) * 1000, ()));
        assert_eq!(all.keep(&sender(1), u32::MAX, SILENT_MS, ()), Ok(None), "half of them are old");
        assert_eq!(all.count, MOST_OF_ONE / 2 + 1);
        let refused = (0..MOST as u32).filter(|&key| all.keep(&sender(1), key, SILENT_MS, ()) == Err(Full)).count();
        assert_eq!(refused, MOST / 2 + 1);
    }

    #[test]
    fn of_too_many_senders_those_with_least_go() {
        let mut all = Remembered::default();
        (0..3_u32).for_each(|key| _ = all.keep(&sender(0), key, 0, ()));
        (1..3 * MOST_SENDERS as u32).for_each(|number| _ = all.keep(&sender(number), 0, 1, ()));
        assert!((MOST_SENDERS / 8 * 7..=MOST_SENDERS).contains(&all.senders.len()));
        assert_eq!(all.get(&sender(0), &2), Some(&(0, ())));
        assert_eq!(all.count, all.senders.len() + 2);
    }

    #[test]
    fn a_sender_that_goes_on_keeps_its_entries_however_many_others_there_are() {
        let mut all = Remembered::default();
        (0..2).for_each(|now_ms| (0..100_u32).for_each(|key| _ = all.keep(&sender(0), key, now_ms, ())));
        // As many as are kept, with fewer entries each; then as many entries as are kept.
        for each in [1, 99] {
            for number in 1..3 * MOST_SENDERS as u32 {
                (0..each).for_each(|key| _ = all.keep(&sender(number), key, 2, ()));
            }
        }
        assert!(all.forgotten() > 10_000);
        assert_eq!((0..100).filter(|key| all.get(&sender(0), key).is_some()).count(), 100);
    }
}
