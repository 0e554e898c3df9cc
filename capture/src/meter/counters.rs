//! The fixed counter sets of `counters.proto`, over every packet captured.

use super::Volume;
use crate::packet::{Cast, Packet};

/// The counters of one interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FixedCounters {
    cast: [Volume; 3],
    ip_version: [Volume; 3],
    protocol: [Volume; 5],
    size: [Volume; 7],
}

const CASTS: [&str; 3] = ["unicast", "multicast", "broadcast"];
const VERSIONS: [&str; 3] = ["ipv4", "ipv6", "other"];
const PROTOCOLS: [&str; 5] = ["tcp", "udp", "icmp", "icmpv6", "other"];
const SIZES: [&str; 7] = ["64", "65-127", "128-255", "256-511", "512-1023", "1024-1518", "1519+"];

/// The frame check sequence, which captures leave out and RFC 2819's size classes count.
const FCS_OCTETS: u32 = 4;

impl FixedCounters {
    /// Counts one packet in every set.
    pub fn add(&mut self, packet: &Packet) {
        let one = Volume::one(packet.octets);
        self.cast[match packet.cast {
            Cast::Unicast => 0,
            Cast::Multicast => 1,
            Cast::Broadcast => 2,
        }] += one;
        self.ip_version[match packet.ip {
            Ok(ip) if ip.version == 4 => 0,
            Ok(_) => 1,
            Err(_) => 2,
        }] += one;
        if let Ok(ip) = packet.ip {
            self.protocol[match ip.protocol {
                6 => 0,
                17 => 1,
                1 => 2,
                58 => 3,
                _ => 4,
            }] += one;
        }
        self.size[match packet.frame_octets + FCS_OCTETS {
            0..=64 => 0,
            65..=127 => 1,
            128..=255 => 2,
            256..=511 => 3,
            512..=1023 => 4,
            1024..=1518 => 5,
            _ => 6,
        }] += one;
    }

    /// Every label that counted something, as (set, label, volume).
    pub fn labels(&self) -> impl Iterator<Item = (&'static str, &'static str, Volume)> {
        let sets: [(&str, &[&str], &[Volume]); 4] = [
            ("cast", &CASTS, &self.cast),
            ("ip_version", &VERSIONS, &self.ip_version),
            ("protocol", &PROTOCOLS, &self.protocol),
            ("size", &SIZES, &self.size),
        ];
        sets.into_iter()
            .flat_map(|(set, labels, volumes)| {
                labels.iter().zip(volumes).map(move |(label, volume)| (set, *label, *volume))
            })
            .filter(|(_, _, volume)| volume.packets > 0)
            .collect::<Vec<_>>()
            .into_iter()
    }
}
