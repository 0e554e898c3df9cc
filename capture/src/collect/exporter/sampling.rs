//! Sampling rates that an exporter announced by options.

use crate::collect::element::values::{Sampled, Values};
use std::collections::HashMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::collect) enum Of {
    /// All that its domain exports.
    Domain,
    /// What this sampler chose (IE 48, 302).
    Sampler(u64),
    /// What came by this interface.
    Interface(u32),
}

/// The rates of one exporter.
#[derive(Clone, Debug, Default)]
pub(in crate::collect) struct Rates {
    known: HashMap<Of, (u32, i64), foldhash::fast::RandomState>,
    /// The one rate, where all samplers have the same: records that name no sampler have it too.
    of_all_samplers: Option<u32>,
}

impl Rates {
    /// Takes in an option's values; `true` where another rate had to be forgotten for it.
    pub(in crate::collect) fn hear(&mut self, values: &Values<'_>, heard_ms: i64, most: usize) -> bool {
        let Some(rate) = values.sampled.rate() else { return false };
        let of = match (values.sampled.sampler, values.interface()) {
            (Some(sampler), _) => Of::Sampler(sampler),
            (None, Some(interface)) => Of::Interface(interface),
            (None, None) => Of::Domain,
        };
        self.set(of, rate, heard_ms, most)
    }

    /// Keeps a rate; `true` where the oldest had to be forgotten for it.
    pub(in crate::collect) fn set(&mut self, of: Of, rate: u32, heard_ms: i64, most: usize) -> bool {
        let full = !self.known.contains_key(&of) && self.known.len() >= most;
        if full && let Some(oldest) = self.known.iter().min_by_key(|(_, known)| known.1).map(|(&of, _)| of) {
            self.known.remove(&oldest);
        }
        let before = self.known.insert(of, (rate, heard_ms)).map(|(rate, _)| rate);
        if full || before != Some(rate) {
            let samplers =
                || self.known.iter().filter(|(of, _)| matches!(of, Of::Sampler(_))).map(|(_, known)| known.0);
            self.of_all_samplers = samplers().next().filter(|&first| samplers().all(|rate| rate == first));
        }
        full
    }

    /// The rate of a record; what it says itself goes first.
    #[inline]
    pub(in crate::collect) fn of(&self, sampled: &Sampled, interface: u32) -> Option<u32> {
        let own = sampled.rate();
        if own.is_some() || self.known.is_empty() {
            return own;
        }
        let known = |of: Of| self.known.get(&of).map(|known| known.0);
        match sampled.sampler {
            Some(sampler) => known(Of::Sampler(sampler)).or_else(|| known(Of::Domain)),
            None => known(Of::Interface(interface)).or_else(|| known(Of::Domain)).or(self.of_all_samplers),
        }
    }

    /// Every rate, what it is of first.
    pub(in crate::collect) fn iter(&self) -> impl Iterator<Item = (Of, u32)> {
        self.known.iter().map(|(&of, &(rate, _))| (of, rate))
    }
}
