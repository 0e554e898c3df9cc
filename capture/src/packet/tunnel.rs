//! Tunnels: the packet inside a packet.

use super::ip;
use super::link::{self, LinkType, Payload};
use super::{IpPacket, Packet, be16, ether_type, protocol};

/// Maximum depth of tunnels within tunnels; a packet with more is likely malicious.
const MAX_DEPTH: usize = 4;

/// UDP ports of tunnels (IANA). 8472 is the port that Linux used for VXLAN before one was assigned.
const GTP_U: u16 = 2152;
const VXLAN: [u16; 2] = [4789, 8472];
const VXLAN_GPE: u16 = 4790;
const GENEVE: u16 = 6081;
const GRE_IN_UDP: u16 = 4754;
const TEREDO: u16 = 3544;
const AYIYA: u16 = 5072;

// The offsets below are from the start of layer 4, UDP's 8 octets included.

/// The payload of a tunnel.
#[derive(Clone, Copy)]
enum InnerPacket {
    Ip,
    Link(LinkType),
    /// The payload of this EtherType.
    Typed(u16),
}

/// Replaces a packet by the one that it carries, in IP in IP (RFC 2003, RFC 2473, RFC 4213), GRE (RFC 2784, RFC 2890;
/// PPTP's, RFC 2637; ERSPAN; in UDP, RFC 8086), VXLAN (RFC 7348; draft-ietf-nvo3-vxlan-gpe), Geneve (RFC 8926), GTP-U
/// (3GPP TS 29.281), Teredo (RFC 4380) or AYIYA (draft-massar-v6ops-ayiya), at any depth; a packet that carries no IP
/// packet, or only part of one, stays as it is. `frame` is the captured part of the frame.
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
            protocol::GRE => gre(body, 0),
            protocol::UDP if outer.dst_port == GRE_IN_UDP => gre(body, 8),
            protocol::UDP if VXLAN.contains(&outer.dst_port) => vxlan(body),
            protocol::UDP if outer.dst_port == VXLAN_GPE => vxlan_gpe(body),
            protocol::UDP if outer.dst_port == GENEVE => geneve(body),
            protocol::UDP if outer.dst_port == GTP_U => gtp_u(body),
            // Clients have ports of their own; relays and servers answer from this one.
            protocol::UDP if outer.dst_port == TEREDO || outer.src_port == TEREDO => teredo(body),
            protocol::UDP if outer.dst_port == AYIYA || outer.src_port == AYIYA => ayiya(body),
            _ => None,
        };
        let Some((mut offset, inner)) = found else { return };
        let Some(data) = body.get(offset..) else { return };
        let link = match inner {
            InnerPacket::Ip => None,
            InnerPacket::Link(kind) => Some(link::parse(kind, data)),
            InnerPacket::Typed(kind) => Some(link::typed(kind, data)),
        };
        if let Some(link) = link {
            if link.payload != Payload::Ip {
                return;
            }
            offset += link.header;
        }
        let Some(data) = body.get(offset..) else { return };
        let mut ip = IpPacket::default();
        let available = (outer.payload as usize).saturating_sub(offset);
        let Ok(octets) = ip::parse(data, available, &mut ip) else { return };
        // Its header extends beyond the end of the tunnel's packet.
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
        ether_type::MPLS | ether_type::MPLS_MULTICAST | ether_type::SERVICE_HEADER => Some(InnerPacket::Typed(number)),
        _ => None,
    }
}

/// GRE's header begins at `at`.
fn gre(data: &[u8], at: usize) -> Option<(usize, InnerPacket)> {
    let flags = be16(data, at)?;
    let present = |bit: u16| if flags & bit != 0 { 4 } else { 0 };
    let (checksum, routing, key, sequence, acknowledgement) = (0x8000, 0x4000, 0x2000, 0x1000, 0x0080);
    let offset = match flags & 7 {
        0 if flags & routing == 0 => at + 4 + present(checksum) + present(key) + present(sequence),
        1 => at + 8 + present(sequence) + present(acknowledgement),
        _ => return None,
    };
    let kind = be16(data, at + 2)?;
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

fn vxlan_gpe(data: &[u8]) -> Option<(usize, InnerPacket)> {
    let (version, identifier, protocol, maintenance) = (0x30, 0x08, 0x04, 0x01);
    let flags = *data.get(8)?;
    if flags & (version | maintenance) != 0 {
        return None;
    }
    let inner = match (flags & protocol, data.get(11)?) {
        (0, _) if flags & identifier == 0 => return None,
        (0, _) | (_, 3) => InnerPacket::Link(LinkType::Ethernet),
        (_, 1 | 2) => InnerPacket::Ip,
        (_, 4) => InnerPacket::Typed(ether_type::SERVICE_HEADER),
        (_, 5) => InnerPacket::Typed(ether_type::MPLS),
        _ => return None,
    };
    Some((16, inner))
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

/// The IPv6 packet at `offset`, if there is one.
fn six(data: &[u8], offset: usize) -> Option<(usize, InnerPacket)> {
    (data.get(offset)? >> 4 == 6).then_some((offset, InnerPacket::Ip))
}

fn teredo(data: &[u8]) -> Option<(usize, InnerPacket)> {
    let mut offset = 8;
    // An authentication's header (section 5.1.1): lengths of a client's name and of a value, then a number and a flag.
    if be16(data, offset)? == 1 {
        offset += 13 + usize::from(*data.get(offset + 2)?) + usize::from(*data.get(offset + 3)?);
    }
    // Where the packet came from: a port and an IPv4 address.
    if be16(data, offset)? == 0 {
        offset += 8;
    }
    six(data, offset)
}

fn ayiya(data: &[u8]) -> Option<(usize, InnerPacket)> {
    let &[lengths, signature, operation, next] = data.get(8..)?.first_chunk()?;
    // Its header and a time, then the sender's identity and signature.
    let offset = 8 + 8 + (1 << (lengths >> 4)) + usize::from(signature >> 4) * 4;
    // To forward, with an echo or without.
    match (operation & 0x0f, next) {
        (1 | 3, protocol::IPV6) => six(data, offset),
        (1 | 3, protocol::IPV4) => Some((offset, InnerPacket::Ip)),
        _ => None,
    }
}
