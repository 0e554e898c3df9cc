//! The records within a flow sample of sFlow, and the route that they state.

use crate::collect::element::octets::mapped;
use crate::collect::element::routed::Route;
use crate::packet::Address;

/// Flow records within a sample.
pub const RAW_HEADER: u32 = 1;
pub const SAMPLED_IPV4: u32 = 3;
pub const SAMPLED_IPV6: u32 = 4;
pub const EXTENDED_SWITCH: u32 = 1001;
pub const EXTENDED_ROUTER: u32 = 1002;
pub const EXTENDED_GATEWAY: u32 = 1003;
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
        match format {
            EXTENDED_ROUTER => {
                route.next_hop = words.address().unwrap_or_default();
                let lengths = words.word().zip(words.word());
                route.prefix_lengths =
                    lengths.map_or([0; 2], |(source, destination)| [source as u8, destination as u8]);
            }
            EXTENDED_GATEWAY => {
                let _ = gateway(&mut words, route);
            }
            // The addresses of an Ethernet frame.
            RAW_HEADER => {
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
