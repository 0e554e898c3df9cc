//! Sampling rates that an exporter announced in options.

use crate::collect::element::values::{Sampled, Values};
use std::collections::HashMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Of {
    /// All that its domain exports.
    Domain,
    /// Packets chosen by this sampler or selector (IE 48, 302).
    Sampler(u64),
    /// Packets received on this interface.
    Interface(u32),
    /// Records exported with this template (IE 145).
    Template(u16),
}

/// Whether an exporter's sampling rates are known, and if not, why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SamplingState {
    /// Rates are known, or the exporter never announced sampling.
    #[default]
    Known,
    /// The exporter named a sampler, or announced options, but no rate has arrived yet.
    Expected,
    /// The exporter announced sampling in a form without a readable rate.
    NotUnderstood,
}

impl SamplingState {
    /// The state as a closing record encodes it.
    pub fn name(self) -> &'static str {
        match self {
            SamplingState::Known => "",
            SamplingState::Expected => "expected",
            SamplingState::NotUnderstood => "not_understood",
        }
    }
}

/// The rates of one session and domain.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    known: HashMap<Of, (u32, i64), foldhash::fast::RandomState>,
    /// The rate of all samplers, if they have the same one; it then applies to records that name no sampler, too.
    of_all_samplers: Option<u32>,
    /// Whether some rates apply to interfaces or templates.
    narrower: bool,
    state: SamplingState,
}

impl Rates {
    /// An option that states rates will follow.
    pub fn announce(&mut self) {
        if self.known.is_empty() && self.state == SamplingState::Known {
            self.state = SamplingState::Expected;
        }
    }

    pub fn state(&self) -> SamplingState {
        self.state
    }

    /// Restores the state with this name.
    pub fn restore_state(&mut self, name: &str) {
        let all = [SamplingState::Known, SamplingState::Expected, SamplingState::NotUnderstood];
        self.state = all.into_iter().find(|state| state.name() == name).unwrap_or_default();
    }

    /// Reads an option's values; `true` if it had to forget another rate.
    pub fn hear(&mut self, values: &Values<'_>, heard_ms: i64, most: usize) -> bool {
        let Some(rate) = values.sampled.rate() else {
            if values.sampled.is_strange() {
                self.state = SamplingState::NotUnderstood;
            }
            return false;
        };
        self.state = SamplingState::Known;
        let of = match (values.sampled.sampler, values.interface(), values.sampled.template) {
            (Some(sampler), _, _) => Of::Sampler(sampler),
            (None, Some(interface), _) => Of::Interface(interface),
            (None, None, 0) => Of::Domain,
            (None, None, template) => Of::Template(template),
        };
        self.set(of, rate, heard_ms, most)
    }

    /// Keeps a rate; `true` if it had to forget the oldest.
    pub fn set(&mut self, of: Of, rate: u32, heard_ms: i64, most: usize) -> bool {
        let full = !self.known.contains_key(&of) && self.known.len() >= most;
        if full {
            if let Some(oldest) = self.known.iter().min_by_key(|(_, known)| known.1).map(|(&of, _)| of) {
                self.known.remove(&oldest);
            }
        }
        let before = self.known.insert(of, (rate, heard_ms)).map(|(rate, _)| rate);
        self.narrower |= matches!(of, Of::Interface(_) | Of::Template(_));
        if full || before != Some(rate) {
            let samplers =
                || self.known.iter().filter(|(of, _)| matches!(of, Of::Sampler(_))).map(|(_, known)| known.0);
            self.of_all_samplers = samplers().next().filter(|&first| samplers().all(|rate| rate == first));
        }
        full
    }

    /// The rate of a record; one that the record itself states takes precedence.
    #[inline]
    pub fn of(&mut self, sampled: &Sampled, interface: u32, template: u16) -> Option<u32> {
        let own = sampled.rate();
        if own.is_some() {
            return own;
        }
        let rate = if self.known.is_empty() { None } else { self.known(sampled, interface, template) };
        if rate.is_none() && self.state == SamplingState::Known && sampled.sampler.is_some_and(|sampler| sampler > 0) {
            self.state = SamplingState::Expected;
        }
        rate
    }

    fn known(&self, sampled: &Sampled, interface: u32, template: u16) -> Option<u32> {
        let known = |of: Of| self.known.get(&of).map(|known| known.0);
        if let Some(sampler) = sampled.sampler {
            return known(Of::Sampler(sampler)).or_else(|| known(Of::Domain));
        }
        let narrower =
            || self.narrower.then(|| known(Of::Interface(interface)).or_else(|| known(Of::Template(template))));
        narrower().flatten().or_else(|| known(Of::Domain)).or(self.of_all_samplers)
    }

    /// Number of rates.
    pub fn count(&self) -> usize {
        self.known.len()
    }

    /// Forgets all rates; those that were there are expected again.
    pub fn forget(&mut self) {
        let state = if self.known.is_empty() { self.state } else { SamplingState::Expected };
        *self = Rates { state, ..Rates::default() };
    }

    /// Every rate, after its scope.
    pub fn iter(&self) -> impl Iterator<Item = (Of, u32)> {
        self.known.iter().map(|(&of, &(rate, _))| (of, rate))
    }
}
