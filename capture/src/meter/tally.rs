//! Sums for checking the conservation law.

use crate::packet::Cause;
use crate::volume::{Volume, add_fields};
use std::ops::AddAssign;

/// A worker's input over some time. The encoder sums its records separately, so that the two can be compared. Adding a
/// later tally keeps the first `carried_in` and the last `carried_out`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Taken from the source.
    pub captured: Volume,
    /// Packets older than the open interval but counted in it.
    pub late: Volume,
    /// Packets in no record, by [`Cause`].
    pub not_metered: [Volume; Cause::ALL.len()],
    pub flows: u64,
    /// Datagrams of metered packets: whole packets and first fragments.
    pub datagrams: u64,
    /// Layer-4 octets of metered packets.
    pub layer4_octets: u64,
    /// Fragments that waited from an earlier interval.
    pub carried_in: Volume,
    /// Fragments that wait for a later interval.
    pub carried_out: Volume,
}

impl Tally {
    /// The increase since `earlier`.
    pub fn since(&self, earlier: &Tally) -> Tally {
        let mut not_metered = self.not_metered;
        not_metered.iter_mut().zip(earlier.not_metered).for_each(|(sum, before)| *sum = *sum - before);
        Tally {
            captured: self.captured - earlier.captured,
            late: self.late - earlier.late,
            not_metered,
            flows: self.flows - earlier.flows,
            datagrams: self.datagrams - earlier.datagrams,
            layer4_octets: self.layer4_octets - earlier.layer4_octets,
            carried_in: earlier.carried_out,
            carried_out: self.carried_out,
        }
    }
}

impl AddAssign<&Tally> for Tally {
    fn add_assign(&mut self, other: &Tally) {
        add_fields!(self, other: captured, late, flows, datagrams, layer4_octets);
        self.carried_out = other.carried_out;
        for (sum, more) in self.not_metered.iter_mut().zip(other.not_metered) {
            *sum += more;
        }
    }
}
