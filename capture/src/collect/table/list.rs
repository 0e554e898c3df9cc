//! The flows of one interval in memory: densely in order of arrival, and found by their keys.

use super::cell::Cell;
use crate::collect::part::FlowPart;
use crate::meter::index::Index;
use crate::meter::key::{Compact, V4, V6};
use crate::meter::memory::advise_huge;
use crate::prefetch::prefetch;
use std::hash::{Hash, Hasher};

/// Initial capacity of a list, in flows.
const LEAST: usize = 64;

/// One flow of one origin. `origin` is its index in the list of origins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlowKey<K> {
    pub(super) key: K,
    pub(super) origin: u32,
}

impl<K: Hash> Hash for FlowKey<K> {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key.hash(state);
        state.write_u32(self.origin);
    }
}

/// The flows of an interval, separate for each IP version: most are IPv4, whose keys are small.
#[derive(Default)]
pub(super) struct Cells {
    pub(super) four: List<V4>,
    pub(super) six: List<V6>,
}

/// Flows in order of arrival, so that a new one is written next to the last one, and an index of their places by
/// key.
pub(super) struct List<K> {
    pub(super) places: Index,
    pub(super) flows: Vec<(FlowKey<K>, Cell)>,
}

impl<K> Default for List<K> {
    fn default() -> List<K> {
        List { places: Index::default(), flows: Vec::new() }
    }
}

impl<K: Compact> List<K> {
    /// Prefetches the flow that most likely has this hash.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        if let Some(flow) = self.places.likely(hash).and_then(|place| self.flows.get(place as usize)) {
            prefetch(&flow.0);
            prefetch(&flow.1);
        }
    }

    /// Adds a part of a record; returns whether it is the first of its flow.
    #[inline]
    pub(super) fn add(&mut self, key: FlowKey<K>, hash: u64, part: &mut FlowPart) -> bool {
        let flows = &mut self.flows;
        let place = self.places.find(hash, |place| flows[place as usize].0 == key);
        if let Some(place) = place {
            flows[place as usize].1.add(part);
            return false;
        }
        self.places.insert(hash, flows.len() as u32);
        if flows.len() == flows.capacity() {
            flows.reserve(flows.len().max(LEAST));
            advise_huge(flows.as_ptr(), flows.capacity());
        }
        flows.push((key, Cell::new(part)));
        if let Some((_, cell)) = flows.last_mut() {
            cell.add(part);
        }
        true
    }

    fn clear(&mut self) {
        self.places.clear();
        self.flows.clear();
    }
}

impl Cells {
    pub(super) fn len(&self) -> usize {
        self.four.flows.len() + self.six.flows.len()
    }

    pub(super) fn capacity(&self) -> usize {
        self.four.flows.capacity() + self.six.flows.capacity()
    }

    /// The indices of the flows' routes.
    pub(super) fn routes(&mut self) -> impl Iterator<Item = &mut u32> {
        let four = self.four.flows.iter_mut().map(|(_, cell)| &mut cell.routes);
        let six = self.six.flows.iter_mut().map(|(_, cell)| &mut cell.routes);
        four.chain(six).flatten().flatten()
    }

    pub(super) fn clear(&mut self) {
        self.four.clear();
        self.six.clear();
    }
}
