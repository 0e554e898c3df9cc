//! How flows and packets look to programs.
//!
//! Programs see a packet as if nothing stood between the fixed header of IPv6 and its transport header, and a later
//! fragment as if its datagram's ports, and nothing else of the transport header, were in it.

use super::analysis::{Anchor, Field, Row};
use super::bpf;
use super::decide::Subject;
use crate::meter::key::{End, Key};
use crate::packet::{Address, IpPacket};

/// What one end of a flow sends, as far as that is the same in every packet.
#[derive(Clone, Copy, Debug)]
pub struct FlowSubject<'a> {
    row: Row,
    src: &'a Address,
    dst: &'a Address,
    /// Source port, destination port, as they are on the wire.
    ports: u32,
}

impl<'a> FlowSubject<'a> {
    /// What `sender` sends.
    #[inline]
    pub fn of_flow(key: &'a Key, sender: End) -> FlowSubject<'a> {
        let (from, to) = (usize::from(sender & 1), usize::from(1 - (sender & 1)));
        FlowSubject {
            row: Row { version: key.version, protocol: key.protocol },
            src: &key.addresses[from],
            dst: &key.addresses[to],
            ports: u32::from(key.ports[from]) << 16 | u32::from(key.ports[to]),
        }
    }

    /// The same of a packet.
    pub fn of_packet(ip: &'a IpPacket) -> FlowSubject<'a> {
        FlowSubject { row: Row::of(ip), src: &ip.src, dst: &ip.dst, ports: ports(ip) }
    }
}

impl Subject for FlowSubject<'_> {
    fn row(&self) -> Row {
        self.row
    }

    #[inline]
    fn read(&self, field: Field) -> Option<u32> {
        let Field { anchor, offset, size } = field;
        let offset = u32::from(offset);
        match anchor {
            Anchor::Transport => match (offset, size) {
                (0, 2) => Some(self.ports >> 16),
                (2, 2) => Some(self.ports & 0xffff),
                _ => bpf::read(&self.ports.to_be_bytes(), offset, size),
            },
            // An IPv4 address is the last 4 octets of its 16.
            Anchor::Ipv4 if offset < 16 => bpf::read(self.src, offset, size),
            Anchor::Ipv4 => bpf::read(self.dst, offset - 4, size),
            Anchor::Ipv6 if offset < 24 => bpf::read(self.src, offset.checked_sub(8)?, size),
            Anchor::Ipv6 => bpf::read(self.dst, offset - 24, size),
            Anchor::Length => None,
        }
    }

    fn packet<'a>(&'a self, scratch: &'a mut Vec<u8>) -> (&'a [u8], u32) {
        scratch.clear();
        if self.row.version == 4 {
            scratch.extend([0x45, 0, 0, 0, 0, 0, 0, 0, 0, self.row.protocol, 0, 0]);
            scratch.extend(&self.src[12..]);
            scratch.extend(&self.dst[12..]);
        } else {
            scratch.extend([0x60, 0, 0, 0, 0, 0, self.row.protocol, 0]);
            scratch.extend(self.src);
            scratch.extend(self.dst);
        }
        if self.row.has_ports() {
            scratch.extend(self.ports.to_be_bytes());
        }
        (scratch, scratch.len() as u32)
    }
}

/// A packet.
#[derive(Clone, Copy, Debug)]
pub struct PacketSubject<'a> {
    ip: &'a IpPacket,
    data: &'a [u8],
    octets: u32,
    /// Where the transport header begins; `None` where the packet has none or it was not captured.
    transport: Option<usize>,
}

impl<'a> PacketSubject<'a> {
    /// A packet of `octets` layer-3 octets, of which `data` was captured from the IP header on.
    pub fn new(ip: &'a IpPacket, data: &'a [u8], octets: u32) -> PacketSubject<'a> {
        let data = &data[..data.len().min(octets as usize)];
        let transport = if ip.later_fragment || Row::of(ip).breaks_off() { None } else { transport(ip, data) };
        PacketSubject { ip, data, octets, transport }
    }
}

fn ports(ip: &IpPacket) -> u32 {
    u32::from(ip.src_port) << 16 | u32::from(ip.dst_port)
}

/// Octets of the fixed header and its options.
fn header(ip: &IpPacket, data: &[u8]) -> usize {
    if ip.version == 4 { data.first().map_or(20, |first| usize::from(first & 0x0f) * 4) } else { 40 }
}

fn transport(ip: &IpPacket, data: &[u8]) -> Option<usize> {
    let mut at = header(ip, data);
    if ip.version == 6 {
        let mut next = *data.get(6)?;
        // Every header is at least 8 octets long, so this ends with the packet.
        while next != ip.protocol {
            let units = usize::from(*data.get(at + 1)?);
            let length = match next {
                44 => 8,
                51 => units * 4 + 8,
                _ => units * 8 + 8,
            };
            next = data[at];
            at += length;
        }
    }
    Some(at)
}

impl Subject for PacketSubject<'_> {
    fn row(&self) -> Row {
        Row::of(self.ip)
    }

    #[inline]
    fn read(&self, field: Field) -> Option<u32> {
        let Field { anchor, offset, size } = field;
        match anchor {
            Anchor::Length => Some(self.octets),
            Anchor::Ipv4 | Anchor::Ipv6 => bpf::read(self.data, u32::from(offset), size),
            Anchor::Transport => match self.transport {
                Some(at) => bpf::read(self.data.get(at..)?, u32::from(offset), size),
                None if self.ip.later_fragment && Row::of(self.ip).has_ports() => {
                    bpf::read(&ports(self.ip).to_be_bytes(), u32::from(offset), size)
                }
                None => None,
            },
        }
    }

    fn packet<'a>(&'a self, scratch: &'a mut Vec<u8>) -> (&'a [u8], u32) {
        let header = header(self.ip, self.data).min(self.data.len());
        let as_it_is = self.transport == Some(header);
        if !as_it_is {
            scratch.clear();
            scratch.extend(&self.data[..header]);
            if self.ip.version == 6
                && let Some(next_header) = scratch.get_mut(6)
            {
                *next_header = self.ip.protocol;
            }
            match self.transport {
                Some(at) => scratch.extend(self.data.get(at..).unwrap_or(&[])),
                None if self.ip.later_fragment && Row::of(self.ip).has_ports() => {
                    scratch.extend(ports(self.ip).to_be_bytes());
                }
                None => {}
            }
            return (scratch, self.octets);
        }
        (self.data, self.octets)
    }
}
