//! Packets and octets, added up.

use std::ops::{Add, AddAssign, Sub};

/// Adds fields of `$other` to those of the same names of `$sum`.
macro_rules! add_fields {
    ($sum:ident, $other:ident: $($field:ident),+) => {
        $($sum.$field += $other.$field;)+
    };
}
pub(crate) use add_fields;

/// Packets and layer-3 octets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    pub packets: u64,
    /// Layer-3 octets.
    pub octets: u64,
}

impl Volume {
    /// One packet of `octets`.
    pub fn one(octets: u32) -> Volume {
        Volume { packets: 1, octets: u64::from(octets) }
    }

    /// Counts one packet of `octets`. No number of packets that a machine receives overflows the sums.
    #[inline]
    pub fn count(&mut self, octets: u32) {
        self.packets += 1;
        self.octets += u64::from(octets);
    }
}

impl Add for Volume {
    type Output = Volume;

    fn add(self, other: Volume) -> Volume {
        // A sum that exporters can drive past the largest number stays there.
        Volume { packets: self.packets.saturating_add(other.packets), octets: self.octets.saturating_add(other.octets) }
    }
}

impl Sub for Volume {
    type Output = Volume;

    fn sub(self, other: Volume) -> Volume {
        Volume { packets: self.packets - other.packets, octets: self.octets - other.octets }
    }
}

impl AddAssign for Volume {
    fn add_assign(&mut self, other: Volume) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Volume {
    fn sum<I: Iterator<Item = Volume>>(volumes: I) -> Volume {
        volumes.fold(Volume::default(), Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_stays_at_the_largest_number() {
        let most = Volume { packets: 3, octets: u64::MAX - 1 };
        assert_eq!([most, most].into_iter().sum::<Volume>(), Volume { packets: 6, octets: u64::MAX });
    }
}
