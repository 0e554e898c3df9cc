//! The records within a flow sample of sFlow, and the route that they state.

use crate::collect::element::octets::mapped;
use crate::collect::element::routed::Route;
use crate::packet::Address;

/// The formats of flow records that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowRecord {
    RawHeader,
    SampledIpv4,
    SampledIpv6,
    ExtendedSwitch,
    ExtendedRouter,
    ExtendedGateway,
}

impl FlowRecord {
    /// The format of a number in a sample.
    pub fn from_number(number: u32) -> Option<FlowRecord> {
        Some(match number {
            1 => FlowRecord::RawHeader,
            3 => FlowRecord::SampledIpv4,
            4 => FlowRecord::SampledIpv6,
            1001 => FlowRecord::ExtendedSwitch,
            1002 => FlowRecord::ExtendedRouter,
            1003 => FlowRecord::ExtendedGateway,
            _ => return None,
        })
    }
}

/// Octets, read from the start.
#[derive(Clone, Copy)]
pub struct Words<'a>(pub &'a [u8]);

impl<'a> Words<'a> {
    pub fn word(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*word))
    }

    pub fn octets(&mut self, count: u32) -> Option<&'a [u8]> {
        let (octets, rest) = self.0.split_at_checked(usize::try_from(count).ok()?)?;
        self.0 = rest;
        Some(octets)
    }

    /// A record: its format and octets.
    pub fn record(&mut self) -> Option<(u32, &'a [u8])> {
        let (format, length) = (self.word()?, self.word()?);
        Some((format, self.octets(length)?))
    }

    pub fn address(&mut self) -> Option<Address> {
        match self.word()? {
            1 => Some(mapped(self.octets(4)?.try_into().ok()?)),
            2 => self.octets(16)?.try_into().ok(),
            // An agent that does not know its own address.
            0 => Some(Address::default()),
            _ => None,
        }
    }
}

/// Routing data in a sample's flow records.
pub fn route(records: &[u8], route: &mut Route) {
    let mut words = Words(records);
    while let Some((format, octets)) = words.record() {
        let mut words = Words(octets);
        match FlowRecord::from_number(format) {
            Some(FlowRecord::ExtendedRouter) => {
                route.next_hop = words.address().unwrap_or_default();
                let lengths = words.word().zip(words.word());
                route.prefix_lengths =
                    lengths.map_or([0; 2], |(source, destination)| [source as u8, destination as u8]);
            }
            Some(FlowRecord::ExtendedGateway) => {
                let _ = gateway(&mut words, route);
            }
            // The addresses of an Ethernet frame.
            Some(FlowRecord::RawHeader) => {
                if let (Some(1), Some(frame)) = (words.word(), words.octets(12).and_then(|_| words.octets(12))) {
                    route.macs[1].copy_from_slice(&frame[..6]);
                    route.macs[0].copy_from_slice(&frame[6..]);
                }
            }
            _ => {}
        }
    }
}

/// BGP's next hop, the AS of the source and of its neighbour, and the AS path to the destination, from the neighbour to
/// the destination's AS.
fn gateway(words: &mut Words<'_>, route: &mut Route) -> Option<()> {
    route.bgp_next_hop = words.address()?;
    let _own = words.word()?;
    route.autonomous_systems[0] = words.word()?;
    route.adjacent[0] = words.word()?;
    let mut is_first = true;
    for _ in 0..words.word()? {
        let (_kind, count) = (words.word()?, words.word()?);
        let path = words.octets(count.checked_mul(4)?)?;
        if let (true, Some(first)) = (is_first, path.first_chunk()) {
            route.adjacent[1] = u32::from_be_bytes(*first);
            is_first = false;
        }
        if let Some(last) = path.last_chunk() {
            route.autonomous_systems[1] = u32::from_be_bytes(*last);
        }
    }
    Some(())
}
