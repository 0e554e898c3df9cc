//! The packets that programs see.
//!
//! Programs see a packet as if nothing stood between the fixed header of IPv6 and its transport header, and a later
//! fragment as if it held its datagram's ports and nothing else of the transport header. To programs, a flow looks like
//! a packet in which they may read only the fields that are constant in the flow.

use super::analysis::{Anchor, Field, Row};
use super::bpf;
use crate::packet::{Address, IpPacket};

/// The packet that a program runs on.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Version and protocol.
    pub row: Row,
    /// The octets from the IP header on.
    pub data: &'a [u8],
    /// Layer-3 octets.
    pub octets: u32,
    /// Offset of the transport header, if `data` includes it.
    transport: usize,
}

impl<'a> Subject<'a> {
    /// A packet of `octets` layer-3 octets, of which `data` was captured from the IP header on. It builds a modified
    /// packet in `scratch` if programs must see other octets.
    #[inline]
    pub fn packet(ip: &IpPacket, data: &'a [u8], octets: u32, scratch: &'a mut Vec<u8>) -> Subject<'a> {
        let row = Row::of(ip);
        let data = &data[..data.len().min(octets as usize)];
        let transport = usize::from(ip.transport);
        // Without extension headers IPv6's transport header follows the fixed one.
        let plain = ip.version == 4 || transport == IPV6_HEADER && !row.breaks_off();
        if plain && !row.later_fragment {
            return Subject { row, data, octets, transport };
        }
        let transport = if ip.version == 4 { transport } else { IPV6_HEADER };
        rewrite(ip, data, transport, scratch);
        Subject { row, data: scratch, octets, transport }
    }
}

impl Subject<'_> {
    /// The value of a field; `None` if it was not captured.
    pub fn read(&self, field: Field) -> Option<u32> {
        self.value(Place::of(field))
    }
}

/// Octets of IPv6's fixed header.
const IPV6_HEADER: usize = 40;

/// Room for the headers of a flow's packets.
pub type Buffer = [u8; 44];

/// The precomputed position of a field in packets and in [`FlowSubject::octets`].
#[derive(Clone, Copy, Debug)]
pub struct Place {
    anchor: Anchor,
    /// Offset from the anchor.
    offset: u8,
    /// In [`FlowSubject::octets`].
    in_flow: u8,
    /// Bits of the next four octets that do not belong to the field.
    shift: u8,
}

impl Place {
    /// Computes the position of a field.
    pub fn of(field: Field) -> Place {
        let Field { anchor, offset, size } = field;
        let in_flow = match anchor {
            Anchor::Transport => PORTS as u8 + offset.min(4),
            // An IPv4 address is the last 4 octets of its 16.
            Anchor::Ipv4 if offset < 16 => offset,
            Anchor::Ipv4 => offset.saturating_add(12),
            Anchor::Ipv6 => offset.saturating_sub(8),
            Anchor::Length => 0,
        };
        Place { anchor, offset, in_flow, shift: 32 - 8 * size.min(4) }
    }
}

/// Something in which fields have values.
#[warn(missing_docs)]
pub trait Readable {
    /// The value of the field at a precomputed position; `None` if it was not captured.
    fn value(&self, place: Place) -> Option<u32>;
    /// The packet to run programs on, built in `buffer` if necessary.
    fn subject<'a>(&'a self, buffer: &'a mut Buffer) -> Subject<'a>;
}

impl Readable for Subject<'_> {
    #[inline]
    fn value(&self, place: Place) -> Option<u32> {
        let base = match place.anchor {
            Anchor::Length => return Some(self.octets),
            Anchor::Transport => self.transport,
            Anchor::Ipv4 | Anchor::Ipv6 => 0,
        };
        let octets = self.data.get(base + usize::from(place.offset)..)?;
        match octets.first_chunk() {
            Some(&four) => Some(u32::from_be_bytes(four) >> (place.shift & 31)),
            None => bpf::read(octets, 0, 4 - place.shift / 8),
        }
    }

    #[inline]
    fn subject<'a>(&'a self, _: &'a mut Buffer) -> Subject<'a> {
        *self
    }
}

/// The packet that programs see for a later fragment or behind extension headers.
#[cold]
fn rewrite(ip: &IpPacket, data: &[u8], header: usize, scratch: &mut Vec<u8>) {
    scratch.clear();
    scratch.extend(&data[..header.min(data.len())]);
    if ip.version == 6 {
        if let Some(next_header) = scratch.get_mut(6) {
            *next_header = ip.protocol;
        }
    }
    let row = Row::of(ip);
    if scratch.len() < header || row.breaks_off() {
        return;
    }
    if !ip.is_later_fragment() {
        scratch.extend(behind_extensions(ip, data).unwrap_or(&[]));
    } else if row.has_ports() {
        scratch.extend(ip.src_port.to_be_bytes());
        scratch.extend(ip.dst_port.to_be_bytes());
    }
}

/// The transport header and the rest; `None` if it was not captured.
fn behind_extensions<'a>(ip: &IpPacket, data: &'a [u8]) -> Option<&'a [u8]> {
    let mut next = *data.get(6)?;
    let mut rest = data.get(40..)?;
    // Every header is at least 8 octets long, so this ends with the packet.
    while next != ip.protocol {
        let (&following, &units) = (rest.first()?, rest.get(1)?);
        let length = match next {
            44 => 8,
            51 => usize::from(units) * 4 + 8,
            _ => usize::from(units) * 8 + 8,
        };
        next = following;
        rest = rest.get(length..)?;
    }
    Some(rest)
}

/// The constant fields of the packets that one end of a flow sends.
#[derive(Clone, Copy, Debug)]
pub struct FlowSubject {
    /// Version and protocol.
    pub row: Row,
    /// Source and destination, 16 octets each; the ports; and nothing, so that any number can be read as four octets.
    octets: [u8; 40],
}

/// Where the ports are in [`FlowSubject::octets`].
const PORTS: usize = 32;

impl FlowSubject {
    /// An IPv4 flow: addresses and ports of the sender and of the other end.
    #[inline]
    pub fn v4(protocol: u8, [src, dst]: [[u8; 4]; 2], ports: [u16; 2]) -> FlowSubject {
        let mut subject = FlowSubject::of(Row { later_fragment: false, version: 4, protocol }, ports);
        subject.octets[12..16].copy_from_slice(&src);
        subject.octets[28..PORTS].copy_from_slice(&dst);
        subject
    }

    /// An IPv6 flow, as above.
    #[inline]
    pub fn v6(protocol: u8, [src, dst]: [&Address; 2], ports: [u16; 2]) -> FlowSubject {
        let mut subject = FlowSubject::of(Row { later_fragment: false, version: 6, protocol }, ports);
        subject.octets[..16].copy_from_slice(src);
        subject.octets[16..PORTS].copy_from_slice(dst);
        subject
    }

    /// The flow of a packet.
    pub fn of_packet(ip: &IpPacket) -> FlowSubject {
        // An IPv4 address is the last 4 of its 16 octets, here and there.
        let subject = FlowSubject::v6(ip.protocol, [&ip.src, &ip.dst], [ip.src_port, ip.dst_port]);
        FlowSubject { row: Row { later_fragment: false, ..Row::of(ip) }, ..subject }
    }

    #[inline]
    fn of(row: Row, [src_port, dst_port]: [u16; 2]) -> FlowSubject {
        let mut octets = [0; 40];
        octets[PORTS..PORTS + 2].copy_from_slice(&src_port.to_be_bytes());
        octets[PORTS + 2..PORTS + 4].copy_from_slice(&dst_port.to_be_bytes());
        FlowSubject { row, octets }
    }
}

impl Readable for FlowSubject {
    #[inline]
    fn value(&self, place: Place) -> Option<u32> {
        let four = self.octets.get(usize::from(place.in_flow)..)?.first_chunk()?;
        Some(u32::from_be_bytes(*four) >> (place.shift & 31))
    }

    fn subject<'a>(&'a self, buffer: &'a mut Buffer) -> Subject<'a> {
        buffer.fill(0);
        let transport = if self.row.version == 4 {
            buffer[0] = 0x45;
            buffer[9] = self.row.protocol;
            buffer[12..16].copy_from_slice(&self.octets[12..16]);
            buffer[16..20].copy_from_slice(&self.octets[28..PORTS]);
            20
        } else {
            buffer[0] = 0x60;
            buffer[6] = self.row.protocol;
            buffer[8..40].copy_from_slice(&self.octets[..PORTS]);
            40
        };
        buffer[transport..transport + 4].copy_from_slice(&self.octets[PORTS..PORTS + 4]);
        let end = if self.row.has_ports() { transport + 4 } else { transport };
        Subject { row: self.row, data: &buffer[..end], octets: end as u32, transport }
    }
}
