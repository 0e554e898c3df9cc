//! Which exporter makes room for a new one. An exporter is a stranger until its turn comes; it then becomes known if it
//! sent data, or sent often. Strangers only displace strangers, and an address first its own: whoever invents
//! exporters, or addresses, costs a known exporter nothing.

use crate::collect::limits::DecodeLimits;
use crate::packet::Address;
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Number of known exporters examined to choose the one to forget.
const LOOKED_AT: usize = 32;
/// Of all exporters, the part that is kept free for strangers: one in this many.
const RESERVE: usize = 8;
/// The part that one address may hold: of strangers, and of known exporters.
const STRANGERS_OF_ONE: usize = 64;
const KNOWN_OF_ONE: usize = 4;
/// An address may hold at least this many.
const LEAST_OF_ONE: usize = 8;

/// The turns of the strangers, and who is known.
#[derive(Debug, Default)]
pub(super) struct Places {
    next: u64,
    /// The slots of strangers, by turn: the oldest first.
    strangers: BTreeMap<u64, usize>,
    addresses: HashMap<Address, Held, RandomState>,
    known: Known,
}

/// The exporters of one address.
#[derive(Debug, Default)]
struct Held {
    /// The turns of its strangers.
    strangers: BTreeSet<u64>,
    known: Known,
}

/// Slots of known exporters, and where the next search begins.
#[derive(Debug, Default)]
struct Known {
    slots: Vec<usize>,
    hand: usize,
}

impl Known {
    fn next(&mut self) -> impl Iterator<Item = usize> + '_ {
        let (count, from) = (self.slots.len(), self.hand);
        self.hand = (from + LOOKED_AT) % count.max(1);
        (from..from + LOOKED_AT.min(count)).map(move |at| self.slots[at % count])
    }

    fn remove(&mut self, slot: usize) {
        self.slots.retain(|&other| other != slot);
    }
}

impl Places {
    /// Gives a new exporter of this address a turn.
    pub(super) fn add(&mut self, address: Address, slot: usize) -> u64 {
        let turn = self.next;
        self.next += 1;
        self.strangers.insert(turn, slot);
        self.addresses.entry(address).or_default().strangers.insert(turn);
        turn
    }

    /// The stranger whose turn it is before an exporter of this address is added; `None` if there is room.
    pub(super) fn due(&self, address: &Address, limits: &DecodeLimits, count: usize) -> Option<usize> {
        let held = self.addresses.get(address);
        let most = (limits.exporters / STRANGERS_OF_ONE).max(LEAST_OF_ONE);
        let own = held.filter(|held| held.strangers.len() >= most).and_then(|held| held.strangers.first());
        let is_full = count >= limits.exporters.max(1);
        let turn = own.or_else(|| self.strangers.keys().next().filter(|_| is_full))?;
        self.strangers.get(turn).copied()
    }

    /// Makes a stranger known.
    pub(super) fn know(&mut self, address: Address, turn: u64, slot: usize) {
        self.strangers.remove(&turn);
        self.known.slots.push(slot);
        let held = self.addresses.entry(address).or_default();
        held.strangers.remove(&turn);
        held.known.slots.push(slot);
    }

    /// Known exporters one of which must make room before another one of this address is known: none if there is room.
    pub(super) fn candidates(&mut self, address: &Address, limits: &DecodeLimits) -> Option<Vec<usize>> {
        let most = limits.exporters.saturating_sub((limits.exporters / RESERVE).max(1));
        let most_of_one = (limits.exporters / KNOWN_OF_ONE).max(LEAST_OF_ONE);
        let held = self.addresses.get_mut(address).filter(|held| held.known.slots.len() >= most_of_one);
        match held {
            Some(held) => Some(held.known.next().collect()),
            None if self.known.slots.len() >= most => Some(self.known.next().collect()),
            None => None,
        }
    }

    /// Forgets an exporter; `turn`: that of a stranger.
    pub(super) fn remove(&mut self, address: &Address, turn: Option<u64>, slot: usize) {
        let Some(held) = self.addresses.get_mut(address) else { return };
        if let Some(turn) = turn {
            self.strangers.remove(&turn);
            held.strangers.remove(&turn);
        } else {
            self.known.remove(slot);
            held.known.remove(slot);
        }
        if held.strangers.is_empty() && held.known.slots.is_empty() {
            self.addresses.remove(address);
        }
    }
}
