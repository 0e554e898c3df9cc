//! The fixed counter sets of `counters.proto`, over every packet captured.

use crate::packet::Packet;
use crate::volume::Volume;

/// The counters of one interval: one cell for each combination of labels, so that a packet is one addition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedCounters {
    cells: Box<[Volume; CELLS]>,
}

const CASTS: [&str; 3] = ["unicast", "multicast", "broadcast"];
const VERSIONS: [&str; 3] = ["ipv4", "ipv6", "other"];
const PROTOCOLS: [&str; 5] = ["tcp", "udp", "icmp", "icmpv6", "other"];
const SIZES: [&str; 7] = ["64", "65-127", "128-255", "256-511", "512-1023", "1024-1518", "1519+"];

/// Protocols of either IP version, and non-IP.
const KINDS: usize = 2 * PROTOCOLS.len() + 1;

const CELLS: usize = CASTS.len() * KINDS * SIZES.len();

/// The number of each protocol's label.
const BY_PROTOCOL: [u8; 256] = {
    let mut labels = [4; 256];
    labels[6] = 0;
    labels[17] = 1;
    labels[1] = 2;
    labels[58] = 3;
    labels
};

/// Offsets of the kinds of IPv4 and of IPv6.
const KIND_OF_VERSION: [usize; 2] = [0, PROTOCOLS.len()];

/// The number of each size's label; the last one is for all larger sizes.
const BY_OCTETS: [u8; 1520] = {
    let most = [64, 127, 255, 511, 1023, 1518];
    let mut labels = [0; 1520];
    let mut octets = 0;
    while octets < labels.len() {
        while (labels[octets] as usize) < most.len() && octets > most[labels[octets] as usize] {
            labels[octets] += 1;
        }
        octets += 1;
    }
    labels
};

/// Octets of the frame check sequence, which captures omit and RFC 2819's size classes include.
const FCS_OCTETS: u32 = 4;

impl Default for FixedCounters {
    fn default() -> FixedCounters {
        FixedCounters { cells: Box::new([Volume::default(); CELLS]) }
    }
}

impl FixedCounters {
    /// Counts one packet in every set.
    #[inline]
    pub fn add(&mut self, packet: &Packet) {
        let cast = packet.cast as usize;
        let kind = match &packet.ip {
            Ok(ip) => {
                usize::from(BY_PROTOCOL[usize::from(ip.protocol)]) + KIND_OF_VERSION[usize::from(ip.version == 6)]
            }
            Err(_) => KINDS - 1,
        };
        let octets = (packet.frame_octets + FCS_OCTETS) as usize;
        let size = usize::from(BY_OCTETS[octets.min(BY_OCTETS.len() - 1)]);
        self.cells[(cast * KINDS + kind) * SIZES.len() + size].count(packet.octets);
    }

    /// Every label that counted something, as (set, label, volume).
    pub fn labels(&self) -> impl Iterator<Item = (&'static str, &'static str, Volume)> {
        let mut sums = [[Volume::default(); SIZES.len()]; 4];
        for (number, &volume) in self.cells.iter().enumerate() {
            let (cast, kind, size) = (number / SIZES.len() / KINDS, number / SIZES.len() % KINDS, number % SIZES.len());
            sums[0][cast] += volume;
            sums[1][kind / PROTOCOLS.len()] += volume;
            if kind != KINDS - 1 {
                sums[2][kind % PROTOCOLS.len()] += volume;
            }
            sums[3][size] += volume;
        }
        let sets: [(&str, &[&str]); 4] =
            [("cast", &CASTS), ("ip_version", &VERSIONS), ("protocol", &PROTOCOLS), ("size", &SIZES)];
        sets.into_iter()
            .zip(sums)
            .flat_map(|((set, labels), sums)| labels.iter().zip(sums).map(move |(label, volume)| (set, *label, volume)))
            .filter(|(_, _, volume)| volume.packets > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Frame, LinkType, parse};
    use crate::testing as t;

    #[test]
    fn a_packets_size_class_is_that_of_its_frame() {
        let size = |octets: usize| {
            let data = t::frame(0x0800, &t::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 17, &vec![0; octets - 34 - 4]));
            let length = data.len() as u32;
            let mut counters = FixedCounters::default();
            counters.add(&parse(&Frame { time_ns: 0, link: LinkType::Ethernet, data: &data, length, vlan: None }));
            let found = counters.labels().find(|(set, ..)| *set == "size");
            found.map(|(_, label, volume)| (label, volume.octets as usize)).unwrap()
        };
        for (octets, label) in [
            (63, "64"),
            (64, "64"),
            (65, "65-127"),
            (127, "65-127"),
            (128, "128-255"),
            (255, "128-255"),
            (256, "256-511"),
            (511, "256-511"),
            (512, "512-1023"),
            (1023, "512-1023"),
            (1024, "1024-1518"),
            (1518, "1024-1518"),
            (1519, "1519+"),
            (9000, "1519+"),
        ] {
            assert_eq!(size(octets), (label, octets - 18), "{octets}");
        }
    }
}
