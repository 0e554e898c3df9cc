//! nProbe elements that the record has no field for, counted by name.

use super::keys::Keys;
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Maximum number of names of unknown elements that are kept, and maximum octets of a name.
pub(super) const MOST_NAMES: usize = 256;
pub(super) const LONGEST_NAME: usize = 64;

/// Elements that the record has no field for, by name.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    known: Vec<u64>,
    unknown: HashMap<Box<str>, u64, RandomState>,
    others: u64,
}

impl LeftOut {
    pub(super) fn count_known(&mut self, place: u16) {
        if self.known.is_empty() {
            self.known = vec![0; Keys::all().nowhere()];
        }
        self.known[usize::from(place)] += 1;
    }

    pub(super) fn count(&mut self, name: &str) {
        let end = (0..=name.len().min(LONGEST_NAME)).rev().find(|&end| name.is_char_boundary(end));
        let name = &name[..end.unwrap_or(0)];
        if let Some(count) = self.unknown.get_mut(name) {
            *count += 1;
        } else if self.unknown.len() < MOST_NAMES {
            self.unknown.insert(name.into(), 1);
        } else {
            self.others += 1;
        }
    }

    /// Counts by name; past [`MOST_NAMES`] unknown names, under `other`.
    pub(super) fn all(&self) -> Vec<(String, u64)> {
        let known = (0..).zip(&self.known).filter(|(_, count)| **count > 0);
        let known = known.map(|(place, count)| (Keys::all().name(place).to_owned(), *count));
        let unknown = self.unknown.iter().map(|(name, count)| (name.to_string(), *count));
        let others = Some(("other".to_owned(), self.others)).filter(|(_, count)| *count > 0);
        let mut all: Vec<_> = known.chain(unknown).chain(others).collect();
        all.sort();
        all
    }
}
