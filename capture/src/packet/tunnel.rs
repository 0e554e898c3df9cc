//! Tunnels: the packet inside a packet.

use super::ip;
use super::link::{self, LinkType, Payload};
use super::{IpPacket, Packet, be16, ether_type, protocol};

/// Maximum depth of tunnels within tunnels; a packet with more is likely malicious.
const MAX_DEPTH: usize = 4;

/// UDP ports of tunnels (IANA). 8472 is the port that Linux used for VXLAN before one was assigned.
const GTP_U: u16 = 2152;
const VXLAN: [u16; 2] = [4789, 8472];
const GENEVE: u16 = 6081;

// The offsets below are from the start of layer 4, UDP's 8 octets included.

/// The payload of a tunnel.
#[derive(Clone, Copy)]
enum InnerPacket {
    Ip,
    Link(LinkType),
}

/// Replaces a packet by the one that it carries, in IP in IP (RFC 2003, RFC 2473, RFC 4213), GRE (RFC 2784, RFC 2890;
/// PPTP's, RFC 2637; ERSPAN), VXLAN (RFC 7348), Geneve (RFC 8926) or GTP-U (3GPP TS 29.281), at any depth; a packet that
/// carries no IP packet, or only part of one, stays as it is. `frame` is the captured part of the frame.
pub(super) fn enter(packet: &mut Packet, frame: &[u8]) {
    for _ in 0..MAX_DEPTH {
        let Ok(outer) = packet.ip else { return };
        if outer.fragment.is_some() {
            return;
        }
        let begin = packet.layer3 as usize + usize::from(outer.transport);
        let Some(body) = frame.get(begin..) else { return };
        // Octets after the outer packet in the frame do not belong to the inner one.
        let body = &body[..body.len().min(outer.payload as usize)];
        let found = match outer.protocol {
            protocol::IPV4 | protocol::IPV6 => Some((0, InnerPacket::Ip)),
            protocol::GRE => gre(body),
            protocol::UDP if VXLAN.contains(&outer.dst_port) => vxlan(body),
            protocol::UDP if outer.dst_port == GENEVE => geneve(body),
            protocol::UDP if outer.dst_port == GTP_U => gtp_u(body),
            _ => None,
        };
        let Some((mut offset, inner)) = found else { return };
        if let InnerPacket::Link(kind) = inner {
            let Some(data) = body.get(offset..) else { return };
            let link = link::parse(kind, data);
            if link.payload != Payload::Ip {
                return;
            }
            offset += link.header;
        }
        let Some(data) = body.get(offset..) else { return };
        let mut ip = IpPacket::default();
        let available = (outer.payload as usize).saturating_sub(offset);
        let Ok(octets) = ip::parse(data, available, &mut ip) else { return };
        // Its header goes on beyond the end of the tunnel's packet.
        if octets as usize > available {
            return;
        }
        packet.ip = Ok(ip);
        packet.octets = octets;
        packet.layer3 = (begin + offset) as u32;
    }
}

fn by_ether_type(number: u16) -> Option<InnerPacket> {
    match number {
        ether_type::IPV4 | ether_type::IPV6 => Some(InnerPacket::Ip),
        ether_type::BRIDGED_ETHERNET => Some(InnerPacket::Link(LinkType::Ethernet)),
        ether_type::PPP => Some(InnerPacket::Link(LinkType::Ppp)),
        _ => None,
    }
}

fn gre(data: &[u8]) -> Option<(usize, InnerPacket)> {
    let flags = be16(data, 0)?;
    let present = |bit: u16| if flags & bit != 0 { 4 } else { 0 };
    let (checksum, routing, key, sequence, acknowledgement) = (0x8000, 0x4000, 0x2000, 0x1000, 0x0080);
    let offset = match flags & 7 {
        0 if flags & routing == 0 => 4 + present(checksum) + present(key) + present(sequence),
        1 => 8 + present(sequence) + present(acknowledgement),
        _ => return None,
    };
    let kind = be16(data, 2)?;
    let mirrored = InnerPacket::Link(LinkType::Ethernet);
    Some(match kind {
        // Only the second version numbers its packets, and has a header.
        ether_type::ERSPAN if flags & sequence == 0 => (offset, mirrored),
        ether_type::ERSPAN => (offset + 8, mirrored),
        // The last bit of its header says that 8 octets follow.
        ether_type::ERSPAN_3 => (offset + 12 + usize::from(data.get(offset + 11)? & 1) * 8, mirrored),
        _ => (offset, by_ether_type(kind)?),
    })
}

fn vxlan(data: &[u8]) -> Option<(usize, InnerPacket)> {
    // The flag says that there is a network identifier, as there always is.
    (data.get(8)? & 0x08 != 0).then_some((16, InnerPacket::Link(LinkType::Ethernet)))
}

fn geneve(data: &[u8]) -> Option<(usize, InnerPacket)> {
    let first = *data.get(8)?;
    let inner = by_ether_type(be16(data, 10)?)?;
    (first >> 6 == 0).then_some((16 + usize::from(first & 0x3f) * 4, inner))
}

fn gtp_u(data: &[u8]) -> Option<(usize, InnerPacket)> {
    let first = *data.get(8)?;
    // Version 1, GTP and not GTP', a user's packet.
    if first & 0xf0 != 0x30 || *data.get(9)? != 255 {
        return None;
    }
    let mut offset = 16;
    if first & 7 != 0 {
        let mut next = *data.get(19)?;
        offset = 20;
        while next != 0 {
            let length = usize::from(*data.get(offset)?) * 4;
            if length == 0 {
                return None;
            }
            next = *data.get(offset + length - 1)?;
            offset += length;
        }
    }
    Some((offset, InnerPacket::Ip))
}
