//! Sums that the conservation law is checked with.

use crate::packet::Cause;
use crate::volume::Volume;
use std::ops::AddAssign;

/// What a worker took in over some time. What its records add up to is summed where they are encoded, so that the
/// two can be held against each other. Adding the next time's keeps the first `carried_in` and takes the last
/// `carried_out`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Taken from the source.
    pub captured: Volume,
    /// Older than the open interval, counted in it all the same.
    pub late: Volume,
    /// In no record, by [`Cause`].
    pub not_metered: [Volume; Cause::ALL.len()],
    pub flows: u64,
    /// Datagrams of packets that are metered: those that are no fragment but the first.
    pub datagrams: u64,
    /// Layer-4 octets of packets that are metered.
    pub layer4_octets: u64,
    /// What waited from before.
    pub carried_in: Volume,
    /// What waits for a later interval.
    pub carried_out: Volume,
}

impl AddAssign<&Tally> for Tally {
    fn add_assign(&mut self, other: &Tally) {
        self.captured += other.captured;
        self.late += other.late;
        self.flows += other.flows;
        self.datagrams += other.datagrams;
        self.layer4_octets += other.layer4_octets;
        self.carried_out = other.carried_out;
        for (sum, more) in self.not_metered.iter_mut().zip(other.not_metered) {
            *sum += more;
        }
    }
}
