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
        let data = if plain && !ip.later_fragment {
            data
        } else {
            rewrite(ip, data, header, scratch);
            scratch
        };
        Subject { row, data, octets, transport: header }
    }

    /// The value of a field; `None` where it was not captured.
    #[inline]
    pub fn read(&self, field: Field) -> Option<u32> {
        let Field { anchor, offset, size } = field;
        let base = match anchor {
            Anchor::Length => return Some(self.octets),
            Anchor::Transport => self.transport,
            Anchor::Ipv4 | Anchor::Ipv6 => 0,
        };
        bpf::read(self.data, (base + usize::from(offset)) as u32, size)
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
    if !ip.later_fragment {
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

/// A packet with what is constant in what one end of a flow sends.
#[derive(Clone, Copy, Debug)]
pub struct FlowPacket {
    row: Row,
    octets: [u8; 44],
}

impl FlowPacket {
    /// As `sender` sends it.
    #[inline]
    pub fn of_flow(key: &Key, sender: End) -> FlowPacket {
        let (from, to) = (usize::from(sender & 1), usize::from(1 - (sender & 1)));
        let row = Row { later_fragment: false, version: key.version, protocol: key.protocol };
        FlowPacket::new(row, &key.addresses[from], &key.addresses[to], [key.ports[from], key.ports[to]])
    }

    /// As the flow of a packet.
    pub fn of_packet(ip: &IpPacket) -> FlowPacket {
        let row = Row { later_fragment: false, ..Row::of(ip) };
        FlowPacket::new(row, &ip.src, &ip.dst, [ip.src_port, ip.dst_port])
    }

    #[inline]
    fn new(row: Row, src: &Address, dst: &Address, ports: [u16; 2]) -> FlowPacket {
        let mut octets = [0; 44];
        let header = if row.version == 4 {
            octets[0] = 0x45;
            octets[9] = row.protocol;
            octets[12..16].copy_from_slice(&src[12..]);
            octets[16..20].copy_from_slice(&dst[12..]);
            20
        } else {
            octets[0] = 0x60;
            octets[6] = row.protocol;
            octets[8..24].copy_from_slice(src);
            octets[24..40].copy_from_slice(dst);
            40
        };
        octets[header..header + 2].copy_from_slice(&ports[0].to_be_bytes());
        octets[header + 2..header + 4].copy_from_slice(&ports[1].to_be_bytes());
        FlowPacket { row, octets }
    }

    /// To ask programs about.
    #[inline]
    pub fn subject(&self) -> Subject<'_> {
        let transport = if self.row.version == 4 { 20 } else { 40 };
        let end = if self.row.has_ports() { transport + 4 } else { transport };
        Subject { row: self.row, data: &self.octets[..end], octets: end as u32, transport }
    }
}
