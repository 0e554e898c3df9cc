//! The exporters that may send, by address prefix. A running collector can change the list.

use crate::meter::overflow::Network;
use crate::packet::Address;
use crate::units::parsed_list;
use serde::Deserialize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// `[collect]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CollectConfig {
    /// Address prefixes of the exporters that may send; empty: every address may.
    #[serde(deserialize_with = "parsed_list")]
    pub exporters: Vec<Network>,
}

/// The first and last addresses of ranges, sorted and disjoint; none: every address.
type Ranges = Arc<[(u128, u128)]>;

/// The list of all workers; clones share it.
#[derive(Clone, Default)]
pub struct Allowed(Arc<Shared>);

#[derive(Default)]
struct Shared {
    version: AtomicU64,
    ranges: Mutex<Ranges>,
}

impl Allowed {
    /// Allows the addresses within these prefixes, or all if there are none.
    pub fn new(prefixes: &[Network]) -> Allowed {
        let allowed = Allowed::default();
        allowed.set(prefixes);
        allowed
    }

    /// Replaces the list.
    pub fn set(&self, prefixes: &[Network]) {
        let mut all: Vec<(u128, u128)> = prefixes.iter().map(Network::range).collect();
        all.sort_unstable();
        all.dedup_by(|next, kept| {
            let overlap = next.0 <= kept.1;
            if overlap {
                kept.1 = kept.1.max(next.1);
            }
            overlap
        });
        *self.0.ranges.lock().unwrap_or_else(PoisonError::into_inner) = all.into();
        self.0.version.fetch_add(1, Ordering::Release);
    }

    /// One worker's view of the list.
    pub fn gate(&self) -> Gate {
        let mut gate = Gate { allowed: self.clone(), seen: 0, ranges: Ranges::default() };
        gate.refresh();
        gate
    }
}

/// A worker's copy of the list.
pub struct Gate {
    allowed: Allowed,
    seen: u64,
    ranges: Ranges,
}

impl Gate {
    /// Takes over a changed list; true if it changed.
    pub fn refresh(&mut self) -> bool {
        let version = self.allowed.0.version.load(Ordering::Acquire);
        if std::mem::replace(&mut self.seen, version) == version {
            return false;
        }
        self.ranges = Arc::clone(&self.allowed.0.ranges.lock().unwrap_or_else(PoisonError::into_inner));
        true
    }

    /// Whether this address may send.
    #[inline]
    pub fn admits(&self, address: &Address) -> bool {
        let address = u128::from_be_bytes(*address);
        let at = self.ranges.partition_point(|&(first, _)| first <= address);
        self.ranges.is_empty() || at > 0 && address <= self.ranges[at - 1].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet;

    #[test]
    fn addresses_within_a_prefix_are_admitted() {
        let networks = |prefixes: &[&str]| prefixes.iter().map(|text| text.parse().unwrap()).collect::<Vec<Network>>();
        let allowed = Allowed::new(&networks(&["10.1.0.0/16", "10.0.0.0/8", "192.0.2.7/32", "2001:db8::/32"]));
        let mut gate = allowed.gate();
        let admits = |gate: &Gate, address: &str| gate.admits(&packet::address(address.parse().unwrap()));
        for (address, is_admitted) in [
            ("9.255.255.255", false),
            ("10.0.0.0", true),
            ("10.200.0.1", true),
            ("10.255.255.255", true),
            ("11.0.0.0", false),
            ("192.0.2.6", false),
            ("192.0.2.7", true),
            ("192.0.2.8", false),
            ("2001:db8:ffff::1", true),
            ("2001:db9::", false),
            ("::1", false),
        ] {
            assert_eq!(admits(&gate, address), is_admitted, "{address}");
        }
        let gate_of = |prefix: &str| Allowed::new(&networks(&[prefix])).gate();
        for prefix in ["192.0.2.7", "::ffff:192.0.2.7", "::ffff:192.0.2.7/128", "::ffff:192.0.2.0/120", "192.0.2.0/24"]
        {
            assert!(admits(&gate_of(prefix), "192.0.2.7"), "{prefix}");
            assert!(!admits(&gate_of(prefix), "192.0.3.7"), "{prefix}");
        }
        assert!(admits(&gate_of("2001:db8::7"), "2001:db8::7") && !admits(&gate_of("2001:db8::7"), "2001:db8::8"));
        for text in ["router", "192.0.2", "192.0.2.0/33", "192.0.2.0/", "2001:db8::/129", ""] {
            let error = text.parse::<Network>().unwrap_err().to_string();
            assert!(error.contains("is not an address prefix such as"), "{error}");
        }
        allowed.set(&networks(&["::/0"]));
        assert!(!admits(&gate, "11.0.0.0"));
        assert!(gate.refresh() && !gate.refresh());
        assert!(admits(&gate, "11.0.0.0"));
        assert!(admits(&Allowed::new(&[]).gate(), "11.0.0.0"), "without a list, all");
    }
}
