//! How flows and packets look to programs.
//!
//! Programs see a packet as if nothing stood between the fixed header of IPv6 and its transport header, and a later
//! fragment as if its datagram's ports, and nothing else of the transport header, were in it. A flow is a packet of
//! which only what is constant may be looked at.

use super::analysis::{Anchor, Field, Row};
use super::bpf;
use crate::meter::key::{End, Key};
use crate::packet::{Address, IpPacket};

/// What programs are asked about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Version and protocol.
    pub row: Row,
    /// The octets from the IP header on.
    pub data: &'a [u8],
    /// Layer-3 octets.
    pub octets: u32,
    /// Where the transport header begins, if `data` comes so far.
    transport: usize,
}

impl<'a> Subject<'a> {
    /// A packet of `octets` layer-3 octets, of which `data` was captured from the IP header on. `scratch` is used where
    /// programs are to see something else.
    #[inline]
    pub fn packet(ip: &IpPacket, data: &'a [u8], octets: u32, scratch: &'a mut Vec<u8>) -> Subject<'a> {
        let row = Row::of(ip);
        let data = &data[..data.len().min(octets as usize)];
        let header = if ip.version == 4 { data.first().map_or(20, |first| usize::from(first & 0x0f) * 4) } else { 40 };
        let plain = ip.version == 4 || data.get(6) == Some(&ip.protocol) && !row.breaks_off();
        let data = if plain && !ip.is_later_fragment() {
            data
        } else {
            rewrite(ip, data, header, scratch);
            scratch
        };
        Subject { row, data, octets, transport: header }
    }
}

/// Room for the headers of a flow's packets.
pub type Buffer = [u8; 44];

/// What has the values of fields.
pub trait Readable {
    /// The value of a field; `None` where it was not captured.
    fn read(&self, field: Field) -> Option<u32>;
    /// What programs are asked about, where need be made in `buffer`.
    fn subject<'a>(&'a self, buffer: &'a mut Buffer) -> Subject<'a>;
}

impl Readable for Subject<'_> {
    #[inline]
    fn read(&self, field: Field) -> Option<u32> {
        let Field { anchor, offset, size } = field;
        let base = match anchor {
            Anchor::Length => return Some(self.octets),
            Anchor::Transport => self.transport,
            Anchor::Ipv4 | Anchor::Ipv6 => 0,
        };
        bpf::read(self.data, (base + usize::from(offset)) as u32, size)
    }

    #[inline]
    fn subject<'a>(&'a self, _: &'a mut Buffer) -> Subject<'a> {
        *self
    }
}

/// What programs are to see of a later fragment or behind extension headers.
#[cold]
fn rewrite(ip: &IpPacket, data: &[u8], header: usize, scratch: &mut Vec<u8>) {
    scratch.clear();
    scratch.extend(&data[..header.min(data.len())]);
    if ip.version == 6
        && let Some(next_header) = scratch.get_mut(6)
    {
        *next_header = ip.protocol;
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

/// The transport header and what follows; `None` where it was not captured.
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

/// What is constant in what one end of a flow sends.
#[derive(Clone, Copy, Debug)]
pub struct FlowSubject<'a> {
    /// Version and protocol.
    pub row: Row,
    src: &'a Address,
    dst: &'a Address,
    ports: [u16; 2],
}

impl<'a> FlowSubject<'a> {
    /// As `sender` sends it.
    #[inline]
    pub fn of_flow(key: &'a Key, sender: End) -> FlowSubject<'a> {
        let (from, to) = (usize::from(sender & 1), usize::from(1 - (sender & 1)));
        FlowSubject {
            row: Row { later_fragment: false, version: key.version, protocol: key.protocol },
            src: &key.addresses[from],
            dst: &key.addresses[to],
            ports: [key.ports[from], key.ports[to]],
        }
    }

    /// As the flow of a packet.
    #[inline]
    pub fn of_packet(ip: &'a IpPacket) -> FlowSubject<'a> {
        let row = Row { later_fragment: false, ..Row::of(ip) };
        FlowSubject { row, src: &ip.src, dst: &ip.dst, ports: [ip.src_port, ip.dst_port] }
    }
}

impl Readable for FlowSubject<'_> {
    #[inline]
    fn read(&self, field: Field) -> Option<u32> {
        let Field { anchor, offset, size } = field;
        let offset = u32::from(offset);
        match anchor {
            Anchor::Transport => match (offset, size) {
                (0, 2) => Some(u32::from(self.ports[0])),
                (2, 2) => Some(u32::from(self.ports[1])),
                _ => bpf::read(self.ports.map(u16::to_be_bytes).as_flattened(), offset, size),
            },
            // An IPv4 address is the last 4 octets of its 16.
            Anchor::Ipv4 if offset < 16 => bpf::read(self.src, offset, size),
            Anchor::Ipv4 => bpf::read(self.dst, offset - 4, size),
            Anchor::Ipv6 if offset < 24 => bpf::read(self.src, offset.checked_sub(8)?, size),
            Anchor::Ipv6 => bpf::read(self.dst, offset - 24, size),
            Anchor::Length => None,
        }
    }

    fn subject<'a>(&'a self, buffer: &'a mut Buffer) -> Subject<'a> {
        buffer.fill(0);
        let transport = if self.row.version == 4 {
            buffer[0] = 0x45;
            buffer[9] = self.row.protocol;
            buffer[12..16].copy_from_slice(&self.src[12..]);
            buffer[16..20].copy_from_slice(&self.dst[12..]);
            20
        } else {
            buffer[0] = 0x60;
            buffer[6] = self.row.protocol;
            buffer[8..24].copy_from_slice(self.src);
            buffer[24..40].copy_from_slice(self.dst);
            40
        };
        buffer[transport..transport + 4].copy_from_slice(self.ports.map(u16::to_be_bytes).as_flattened());
        let end = if self.row.has_ports() { transport + 4 } else { transport };
        Subject { row: self.row, data: &buffer[..end], octets: end as u32, transport }
    }
}
