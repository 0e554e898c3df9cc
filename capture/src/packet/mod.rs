//! Parses one frame: link layer, IP header, transport header.
//!
//! Nothing here panics, allocates or reads beyond the captured octets. [`Packet::read`] is the entry point.

mod checksum;
pub mod ether_type;
mod ip;
mod link;
pub mod ppp;
pub mod protocol;
mod transport;
mod tunnel;

pub use checksum::Checksum;
pub use link::LinkType;

use std::net::{IpAddr, Ipv6Addr};

/// Packets processed together, so that others proceed while the memory of one is fetched.
pub const BATCH: usize = 32;

/// An address as 16 octets: IPv6 as it is, IPv4 as `::ffff:a.b.c.d` (RFC 4291, section 2.5.5.2).
pub type Address = [u8; 16];

/// An address as 16 octets.
pub fn address(ip: IpAddr) -> Address {
    match ip {
        IpAddr::V4(four) => four.to_ipv6_mapped().octets(),
        IpAddr::V6(six) => six.octets(),
    }
}

/// An address as in messages: 4 octets for IPv4, else 16.
pub fn shortest(address: &Address) -> &[u8] {
    if address[..12] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff] { &address[12..] } else { address }
}

/// The same as a message field: empty for the unspecified address.
#[must_use]
pub fn stated(address: &Address) -> Vec<u8> {
    if *address == Address::default() { Vec::new() } else { shortest(address).to_vec() }
}

/// An address as text.
pub fn readable(address: &Address) -> IpAddr {
    Ipv6Addr::from(*address).to_canonical()
}

/// One frame from a source.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Arrival, nanoseconds from the Unix epoch.
    pub time_ns: i64,
    /// The frame's link layer.
    pub link: LinkType,
    /// The octets captured, from the link layer's header on.
    pub data: &'a [u8],
    /// Octets of the whole frame on the wire; never trusted to be at least `data.len()`.
    pub length: u32,
    /// VLAN id that the kernel removed from the frame with its tag (4 octets of layer 2).
    pub vlan: Option<u16>,
}

/// Layer-2 destination of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cast {
    /// One station.
    Unicast,
    /// A group.
    Multicast,
    /// Everybody.
    Broadcast,
}

/// Why a packet is in no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Cause {
    /// No IP packet inside (ARP, LLDP, ...).
    NotIp,
    /// The capture ends inside the link layer's or IP's fixed header.
    Truncated,
    /// Announced as IP, but with an impossible version or header length.
    Malformed,
    /// Of an unsupported link type (only in captures with several link types).
    LinkType,
    /// The agent's own packets to or from Kafka.
    OwnExport,
}

impl Cause {
    /// Every cause, in the order of its discriminants.
    pub const ALL: [Cause; 5] = [Cause::NotIp, Cause::Truncated, Cause::Malformed, Cause::LinkType, Cause::OwnExport];

    /// The cause in plain words.
    pub fn meaning(self) -> &'static str {
        match self {
            Cause::NotIp => "no IP packet inside: ARP, LLDP, ...",
            Cause::Truncated => "the capture ends inside the link layer's or IP's fixed header",
            Cause::Malformed => "announced as IP, but the version or the header's length is impossible",
            Cause::LinkType => "of an unsupported link type, in a capture file with several",
            Cause::OwnExport => "the agent's own packets to or from Kafka",
        }
    }

    /// The cause as records, metrics and the summary name it.
    pub fn name(self) -> &'static str {
        match self {
            Cause::NotIp => "not_ip",
            Cause::Truncated => "truncated",
            Cause::Malformed => "malformed",
            Cause::LinkType => "link_type",
            Cause::OwnExport => "own_export",
        }
    }
}

/// TCP flag bits of [`Tcp::flags`] (RFC 9293, section 3.1).
pub mod tcp {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset the connection.
    pub const RST: u8 = 0x04;
    /// The acknowledgement number counts.
    pub const ACK: u8 = 0x10;
}

/// The fields read from a TCP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    /// FIN, SYN, RST, PSH, ACK, URG, ECE, CWR from the lowest bit.
    pub flags: u8,
    pub sequence: u32,
    pub acknowledgement: u32,
    /// Octets of the stream in this segment, by IP's and TCP's own lengths; 0 in a fragment, which does not show it.
    pub payload: u32,
}

/// The role of an ICMP message, from its type (RFC 792, RFC 4443).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IcmpRole {
    /// Not ICMP, or a message without a counterpart.
    #[default]
    None,
    /// A request, such as an echo request.
    Request,
    /// A reply, such as an echo reply.
    Reply,
    /// An error about another packet.
    Error,
}

/// A fragment's place in its datagram (RFC 791, section 3.2; RFC 8200, section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Identification, the same in all fragments of a datagram.
    pub id: u32,
    /// Where its payload belongs, in units of 8 octets.
    pub offset: u16,
    /// Whether more of the datagram follows.
    pub more: bool,
}

/// The header fields of an IP packet that identify its flow, and its volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpPacket {
    pub src: Address,
    pub dst: Address,
    /// Source port of TCP, UDP, SCTP, UDP-Lite and DCCP; 0 if there is none or a fragment hides it.
    pub src_port: u16,
    /// Destination port; for ICMP the *request's* type * 256 + code, so that a reply has its request's number.
    pub dst_port: u16,
    /// Protocol above IP and IPv6's extension headers.
    pub protocol: u8,
    /// 4 or 6.
    pub version: u8,
    /// IPv4's type of service or IPv6's traffic class: DSCP and ECN (RFC 2474, RFC 3168).
    pub class_of_service: u8,
    /// TCP's header, if it was captured and the packet is not a later fragment.
    pub tcp: Option<Tcp>,
    pub icmp: IcmpRole,
    /// Its place among the fragments of its datagram; `None` for a whole one.
    pub fragment: Option<Fragment>,
    /// Layer-4 octets: what follows IP's headers, by IP's own length.
    pub payload: u32,
    /// Where layer 4 begins, octets from the start of IP's header.
    pub transport: u16,
}

impl IpPacket {
    /// Whether it is a fragment other than the first: without ports and flags of its own.
    pub fn is_later_fragment(&self) -> bool {
        self.fragment.is_some_and(|fragment| fragment.offset > 0)
    }
}

/// The flow of a packet that an ICMP error quotes, in that packet's direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted {
    /// Its source and destination.
    pub addresses: [Address; 2],
    /// Their ports, 0 if not quoted; for ICMP the latter is the request's type * 256 + code.
    pub ports: [u16; 2],
    /// Its protocol.
    pub protocol: u8,
    /// 4 or 6.
    pub version: u8,
}

/// The flow that an ICMP error quotes (RFC 792; RFC 4443, section 3); `layer3` is the captured part of the error, from
/// its IP header on. `None` if it quotes no IP header.
pub fn quoted(error: &IpPacket, layer3: &[u8]) -> Option<Quoted> {
    let data = layer3.get(usize::from(error.transport) + 8..)?;
    let mut ip = IpPacket::default();
    ip::parse(data, data.len(), &mut ip).ok()?;
    let IpPacket { src, dst, src_port, dst_port, protocol, version, .. } = ip;
    Some(Quoted { addresses: [src, dst], ports: [src_port, dst_port], protocol, version })
}

/// What [`parse`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The IP packet, or why there is none.
    pub ip: Result<IpPacket, Cause>,
    /// Layer-3 octets: IP's own length, or what follows the link layer's header.
    pub octets: u32,
    /// Octets of the frame on the wire without checksum, including a VLAN tag that the kernel removed.
    pub frame_octets: u32,
    /// Layer-2 destination; for links without one, IP's.
    pub cast: Cast,
    /// Outer VLAN id, 0 for none.
    pub vlan: u16,
    /// Where layer 3 begins, octets from the start of the frame.
    pub layer3: u32,
}

/// Maximum length of a packet, whatever its headers say: the largest merged segment that a kernel delivers.
const MAX_OCTETS: usize = 1 << 19;

impl Default for Packet {
    fn default() -> Packet {
        Packet { ip: Err(Cause::Truncated), octets: 0, frame_octets: 0, cast: Cast::Unicast, vlan: 0, layer3: 0 }
    }
}

impl Packet {
    /// Overwrites the packet with a frame's headers.
    #[inline]
    pub fn read(&mut self, frame: &Frame<'_>) {
        let length = (frame.length as usize).clamp(frame.data.len().min(MAX_OCTETS), MAX_OCTETS);
        let tag = if frame.vlan.is_some() { 4 } else { 0 };
        let link = link::parse(frame.link, frame.data);
        let available = length.saturating_sub(link.header);
        self.octets = available as u32;
        self.frame_octets = (length + tag) as u32;
        self.cast = link.cast.unwrap_or(Cast::Unicast);
        self.vlan = frame.vlan.unwrap_or(link.vlan);
        self.layer3 = link.header as u32;
        if let link::Payload::Other(cause) = link.payload {
            self.ip = Err(cause);
            return;
        }
        self.ip = Ok(IpPacket::default());
        let Ok(ip) = &mut self.ip else { return };
        match ip::parse(frame.data.get(link.header..).unwrap_or(&[]), available, ip) {
            Ok(octets) => {
                self.octets = octets;
                if link.cast.is_none() {
                    self.cast = ip::cast(ip);
                }
            }
            Err(cause) => self.ip = Err(cause),
        }
    }

    /// Replaces the packet with the one within the tunnel, if there is one; the tunnel's own headers do not count.
    /// `frame` is the frame just read.
    pub fn enter_tunnel(&mut self, frame: &Frame<'_>) {
        tunnel::enter(self, frame.data);
    }
}

/// Reads a frame's headers.
pub fn parse(frame: &Frame<'_>) -> Packet {
    let mut packet = Packet::default();
    packet.read(frame);
    packet
}

/// Reads a frame's headers, those of the packet within a tunnel where there is one.
pub fn parse_inner(frame: &Frame<'_>) -> Packet {
    let mut packet = parse(frame);
    packet.enter_tunnel(frame);
    packet
}

/// Two octets in network order at `at`, if captured.
fn be16(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(data.get(at..at + 2)?.try_into().ok()?))
}

/// Four octets in network order at `at`, if captured.
fn be32(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(data.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests;
