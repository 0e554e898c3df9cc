//! Values that many flows of a table share, each once.

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::{BuildHasher as _, Hash};

/// The values, each with its index.
pub(super) struct Indexed<T> {
    all: Vec<T>,
    places: HashTable<u32>,
    /// The index asked for last.
    latest: usize,
    hasher: RandomState,
}

impl<T> Default for Indexed<T> {
    fn default() -> Indexed<T> {
        Indexed { all: Vec::new(), places: HashTable::new(), latest: 0, hasher: RandomState::default() }
    }
}

impl<T: Copy + Eq + Hash> Indexed<T> {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// The index of a value, which is added if it is new.
    pub(super) fn index(&mut self, value: T) -> u32 {
        let Indexed { all, places, latest, hasher } = self;
        let next = all.len() as u32;
        // Runs of records are one exporter's.
        if all.get(*latest) == Some(&value) {
            return *latest as u32;
        }
        let found = places.entry(
            hasher.hash_one(value),
            |&place| all[place as usize] == value,
            |&place| hasher.hash_one(all[place as usize]),
        );
        let place = *found.or_insert(next).get();
        if place == next {
            all.push(value);
        }
        *latest = place as usize;
        place
    }

    /// All values, in the order of their indices.
    pub(super) fn all(&self) -> &[T] {
        &self.all
    }

    /// Takes all values, in the order of their indices.
    pub(super) fn take(&mut self) -> Vec<T> {
        self.places.clear();
        std::mem::take(&mut self.all)
    }
}
