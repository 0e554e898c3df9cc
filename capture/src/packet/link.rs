//! Link layers: finds the length of the header, the VLAN, and whether IP follows.

use super::ether_type::{QINQ1, QINQ2, QINQ3, SERVICE_VLAN, VLAN};
use super::{Cast, Cause, be16, be32, checksum, ether_type, ppp};

/// The supported link layers, with their numbers in capture files (the tcpdump group's list).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    /// Ethernet (1).
    Ethernet,
    /// IP without anything before it (12, 14, 101, 228, 229).
    RawIp,
    /// BSD loopback: four octets of address family, in either order (0, 108).
    Loopback,
    /// Linux "any" device, first version (113).
    LinuxCooked,
    /// Linux "any" device, second version (276).
    LinuxCooked2,
    /// PPP, with or without its HDLC framing (9, 50, 51).
    Ppp,
    /// Cisco HDLC (104).
    CiscoHdlc,
    /// Frame relay (107).
    FrameRelay,
    /// IEEE 802.11 (105).
    Wifi,
    /// IEEE 802.11 after a radiotap header (127).
    WifiRadiotap,
    /// FDDI (10).
    Fddi,
    /// MPLS labels without anything before them (219).
    Mpls,
    /// Linux netfilter's log (239).
    NetfilterLog,
    /// Any other: its packets are counted, not read.
    Unknown,
}

impl LinkType {
    /// The link type of a number in a capture file; `None` if unsupported.
    pub fn from_number(number: u32) -> Option<LinkType> {
        Some(match number {
            1 => LinkType::Ethernet,
            12 | 14 | 101 | 228 | 229 => LinkType::RawIp,
            0 | 108 => LinkType::Loopback,
            113 => LinkType::LinuxCooked,
            276 => LinkType::LinuxCooked2,
            9 | 50 | 51 => LinkType::Ppp,
            104 => LinkType::CiscoHdlc,
            107 => LinkType::FrameRelay,
            105 => LinkType::Wifi,
            127 => LinkType::WifiRadiotap,
            10 => LinkType::Fddi,
            219 => LinkType::Mpls,
            239 => LinkType::NetfilterLog,
            _ => return None,
        })
    }

    /// The name of a link type's number, for messages about unsupported ones.
    pub fn name(number: u32) -> String {
        let known = match number {
            3 => "AX.25",
            6 => "IEEE 802.5 token ring",
            7 => "ARCNET",
            8 => "SLIP",
            11 => "ATM RFC 1483",
            117 => "pflog",
            119 => "IEEE 802.11 with Prism header",
            129 => "ARCNET Linux",
            143 => "DOCSIS",
            147..=162 => "user-defined",
            163 => "IEEE 802.11 with AVS header",
            187 => "Bluetooth HCI H4",
            189 => "USB Linux",
            195 | 230 => "IEEE 802.15.4",
            201 => "Bluetooth HCI H4 with direction",
            220 => "USB Linux, padded",
            227 => "SocketCAN",
            231 => "D-Bus",
            253 => "netlink",
            _ => return format!("{number}"),
        };
        format!("{number} ({known})")
    }
}

/// The protocol after the link layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payload {
    /// IP of either version.
    Ip,
    /// No protocol that can be metered.
    Other(Cause),
}

/// A link layer's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// Octets before layer 3, tags and labels included.
    pub header: usize,
    /// Layer-2 destination, where the link has one.
    pub cast: Option<Cast>,
    /// Outer VLAN id, 0 for none.
    pub vlan: u16,
    pub payload: Payload,
}

/// Maximum number of labels, tags and encapsulations before IP; a frame with more is likely malicious.
const MAX_LAYERS: usize = 16;

/// Maximum depth of frames within frames and LLC headers, since the parser recurses.
const MAX_HEADERS: usize = 256;

/// Reads the link layer of `data`.
#[inline]
pub(super) fn parse(link: LinkType, data: &[u8]) -> Link {
    match (link, data.first_chunk::<14>()) {
        // The common case.
        (LinkType::Ethernet, Some(&[.., 0x08, 0x00] | &[.., 0x86, 0xdd])) => {
            Link { header: 14, cast: Some(mac_cast(&data[..6])), vlan: 0, payload: Payload::Ip }
        }
        _ => parse_any(link, data),
    }
}

fn parse_any(link: LinkType, data: &[u8]) -> Link {
    match link {
        LinkType::Ethernet => ethernet(data, 0, 0),
        LinkType::RawIp => plain(0, None, Payload::Ip),
        LinkType::Loopback => loopback(data),
        LinkType::LinuxCooked => cooked(data, 0, 14, 16),
        LinkType::LinuxCooked2 => cooked(data, 10, 0, 20),
        LinkType::Ppp => ppp(data),
        LinkType::CiscoHdlc => match be16(data, 2) {
            Some(kind) => ethertype(data, 4, kind, None, 0),
            None => truncated(data),
        },
        LinkType::FrameRelay => frame_relay(data),
        LinkType::Wifi => wifi(data, 0),
        LinkType::WifiRadiotap => match data.get(2..4) {
            Some(length) => wifi(data, u16::from_le_bytes([length[0], length[1]]) as usize),
            None => truncated(data),
        },
        // Frame control, destination, source; some drivers keep addresses with their bits in another order.
        LinkType::Fddi => match data.get(1..7) {
            Some(destination) if data.len() >= 13 => llc(data, 13, Some(mac_cast(destination)), 0),
            _ => truncated(data),
        },
        LinkType::Mpls => ethertype(data, 0, ether_type::MPLS, None, 0),
        LinkType::NetfilterLog => netfilter_log(data),
        LinkType::Unknown => plain(0, None, Payload::Other(Cause::LinkType)),
    }
}

fn plain(header: usize, cast: Option<Cast>, payload: Payload) -> Link {
    Link { header, cast, vlan: 0, payload }
}

fn truncated(data: &[u8]) -> Link {
    plain(data.len(), None, Payload::Other(Cause::Truncated))
}

fn mac_cast(mac: &[u8]) -> Cast {
    if mac[0] & 1 == 0 {
        Cast::Unicast
    } else if mac == [0xff; 6] {
        Cast::Broadcast
    } else {
        Cast::Multicast
    }
}

/// Ethernet II, IEEE 802.3 with LLC, at `start` of `data`.
fn ethernet(data: &[u8], start: usize, vlan: u16) -> Link {
    let Some(kind) = be16(data, start + 12) else { return Link { vlan, ..truncated(data) } };
    let cast = Some(mac_cast(&data[start..start + 6]));
    if kind <= 1500 { llc(data, start + 14, cast, vlan) } else { ethertype(data, start + 14, kind, cast, vlan) }
}

/// Where the frame of an Ethernet pseudowire begins, if one follows the labels: after a control word (RFC 4385, section
/// 3), or at once (RFC 4448), with a station's address where the version of IP would be.
fn pseudowire(data: &[u8], at: usize) -> Option<usize> {
    match *data.get(at)? >> 4 {
        4 if has_checksum(data, at) => None,
        _ if holds_ip(data, at) => Some(at),
        0 if holds_ip(data, at + 4) => Some(at + 4),
        _ => None,
    }
}

/// Whether an Ethernet frame that holds IP begins here.
fn holds_ip(data: &[u8], start: usize) -> bool {
    let mut at = start + 12;
    while let Some(VLAN | SERVICE_VLAN) = be16(data, at) {
        at += 4;
    }
    match be16(data, at) {
        Some(ether_type::IPV4) => has_checksum(data, at + 2),
        Some(ether_type::IPV6) => data.get(at + 2).is_some_and(|first| first >> 4 == 6),
        _ => false,
    }
}

/// Whether an IPv4 header with the right checksum begins here.
fn has_checksum(data: &[u8], at: usize) -> bool {
    let length = data.get(at).map_or(0, |first| usize::from(first & 15) * 4);
    let header = data.get(at..at + length).filter(|header| header.len() >= 20 && header[0] >> 4 == 4);
    header.is_some_and(checksum::is_right)
}

/// Reads the payload of an EtherType, `data`.
pub(super) fn typed(kind: u16, data: &[u8]) -> Link {
    ethertype(data, 0, kind, None, 0)
}

/// Follows an EtherType to IP, past VLAN tags (IEEE 802.1Q, 802.1ad) and other ones, MPLS labels (RFC 3032), PPPoE (RFC
/// 2516) and network service headers (RFC 8300).
fn ethertype(data: &[u8], mut at: usize, mut kind: u16, cast: Option<Cast>, mut vlan: u16) -> Link {
    for _ in 0..MAX_LAYERS {
        let end = |payload| Link { header: at, cast, vlan, payload };
        match kind {
            ether_type::IPV4 | ether_type::IPV6 => return end(Payload::Ip),
            VLAN | SERVICE_VLAN | QINQ1 | QINQ2 | QINQ3 => {
                let (Some(tag), Some(next)) = (be16(data, at), be16(data, at + 2)) else {
                    return Link { cast, vlan, ..truncated(data) };
                };
                if vlan == 0 {
                    vlan = tag & 0x0fff;
                }
                at += 4;
                kind = next;
                if kind <= 1500 {
                    return llc(data, at, cast, vlan);
                }
            }
            ether_type::MPLS | ether_type::MPLS_MULTICAST => {
                let Some(label) = be32(data, at) else { return Link { cast, vlan, ..truncated(data) } };
                at += 4;
                if label & 0x100 != 0 {
                    if let Some(frame) = pseudowire(data, at).filter(|_| at < MAX_HEADERS) {
                        return Link { cast, ..ethernet(data, frame, vlan) };
                    }
                    // The bottom of the stack: the next four bits identify the payload (RFC 4928).
                    match data.get(at).map(|first| first >> 4) {
                        Some(4 | 6) => kind = ether_type::IPV4,
                        Some(_) => return Link { header: at, cast, vlan, payload: Payload::Other(Cause::NotIp) },
                        None => return Link { cast, vlan, ..truncated(data) },
                    }
                }
            }
            // A whole Ethernet frame follows.
            ether_type::BACKBONE | ether_type::FABRIC_PATH if at < MAX_HEADERS => {
                let inner = ethernet(data, at + if kind == ether_type::BACKBONE { 4 } else { 2 }, vlan);
                return Link { cast, ..inner };
            }
            ether_type::VN_TAG | ether_type::E_TAG | ether_type::CISCO_METADATA => {
                // The next EtherType ends the tag. Cisco's states its length in units of 8 octets.
                let octets = match kind {
                    ether_type::VN_TAG => Some(6),
                    ether_type::E_TAG => Some(8),
                    _ => data.get(at + 1).map(|&units| usize::from(units.max(1)) * 8),
                };
                let next = octets.and_then(|octets| Some((octets, be16(data, at + octets - 2)?)));
                let Some((octets, next)) = next else { return Link { cast, vlan, ..truncated(data) } };
                at += octets;
                kind = next;
            }
            ether_type::SERVICE_HEADER => {
                let (Some(first), Some(&next)) = (be16(data, at), data.get(at + 3)) else {
                    return Link { cast, vlan, ..truncated(data) };
                };
                // In units of 4 octets, at least its base and its path.
                at += usize::from(first & 0x3f).max(2) * 4;
                kind = match next {
                    1 | 2 => ether_type::IPV4,
                    3 if at < MAX_HEADERS => return Link { cast, ..ethernet(data, at, vlan) },
                    4 => ether_type::SERVICE_HEADER,
                    5 => ether_type::MPLS,
                    _ => return Link { header: at.min(data.len()), cast, vlan, payload: Payload::Other(Cause::NotIp) },
                };
            }
            ether_type::PPPOE_SESSION => {
                let Some((next, payload)) = ppp_protocol(data, at + 6) else {
                    return Link { cast, vlan, ..truncated(data) };
                };
                at = next;
                kind = match payload {
                    ppp::IPV4 | ppp::IPV6 => ether_type::IPV4,
                    ppp::MPLS | ppp::MPLS_MULTICAST => ether_type::MPLS,
                    _ => return Link { header: at, cast, vlan, payload: Payload::Other(Cause::NotIp) },
                };
            }
            _ => return end(Payload::Other(Cause::NotIp)),
        }
    }
    Link { header: at, cast, vlan, payload: Payload::Other(Cause::Malformed) }
}

/// IEEE 802.2: SNAP with an EtherType (RFC 1042), or IP's own service access point.
fn llc(data: &[u8], at: usize, cast: Option<Cast>, vlan: u16) -> Link {
    let other = Link { header: at.min(data.len()), cast, vlan, payload: Payload::Other(Cause::NotIp) };
    match data.get(at..at + 3) {
        Some([0xaa, 0xaa, 0x03]) if at < MAX_HEADERS => match (data.get(at + 3..at + 6), be16(data, at + 6)) {
            (Some([0, 0, 0] | [0, 0, 0xf8]), Some(kind)) => ethertype(data, at + 8, kind, cast, vlan),
            (None, _) | (_, None) => Link { cast, vlan, ..truncated(data) },
            _ => other,
        },
        Some([0x06, 0x06, 0x03]) => Link { header: at + 3, payload: Payload::Ip, ..other },
        _ => other,
    }
}

/// BSD's address family, in the order of the machine that captured.
fn loopback(data: &[u8]) -> Link {
    let Some(family) = be32(data, 0) else { return truncated(data) };
    let family = if family > 0xffff { family.swap_bytes() } else { family };
    match family {
        2 | 10 | 24 | 28 | 30 => plain(4, None, Payload::Ip),
        _ => plain(4, None, Payload::Other(Cause::NotIp)),
    }
}

/// Linux cooked captures: the packet's type (an octet or two at `kind_at`), a protocol, a header of fixed length.
fn cooked(data: &[u8], kind_at: usize, protocol_at: usize, header: usize) -> Link {
    if data.len() < header {
        return truncated(data);
    }
    let kind = if header == 16 { data[kind_at + 1] } else { data[kind_at] };
    let cast = Some(match kind {
        1 => Cast::Broadcast,
        2 => Cast::Multicast,
        _ => Cast::Unicast,
    });
    let protocol = be16(data, protocol_at).unwrap_or(0);
    match protocol {
        // LINUX_SLL_P_802_2: an LLC header follows.
        0x0004 => llc(data, header, cast, 0),
        _ => ethertype(data, header, protocol, cast, 0),
    }
}

/// Netfilter's log: a header of four octets, then attributes (length, type, value) in the order of the machine that
/// captured; the packet is the attribute of type 9.
fn netfilter_log(data: &[u8]) -> Link {
    let mut at = 4;
    while let (Some(length), Some(kind)) = (data.get(at..at + 2), data.get(at + 2..at + 4)) {
        let length = usize::from(u16::from_le_bytes([length[0], length[1]]));
        if kind == [9, 0] {
            return plain(at + 4, None, Payload::Ip);
        }
        if length < 4 {
            return plain(at, None, Payload::Other(Cause::Malformed));
        }
        at += length.next_multiple_of(4);
    }
    truncated(data)
}

/// PPP (RFC 1661), its HDLC framing (RFC 1662) and PPPoE's header where they stand before it.
fn ppp(data: &[u8]) -> Link {
    let at = match data.get(..2) {
        Some([0xff, 0x03]) => 2,
        // Cisco HDLC in a capture of link type 50.
        Some([0x0f | 0x8f, 0x00]) => {
            return match be16(data, 2) {
                Some(kind) => ethertype(data, 4, kind, None, 0),
                None => truncated(data),
            };
        }
        Some(_) => 0,
        None => return truncated(data),
    };
    let Some((at, protocol)) = ppp_protocol(data, at) else { return truncated(data) };
    match protocol {
        ppp::IPV4 | ppp::IPV6 => plain(at, None, Payload::Ip),
        ppp::MPLS | ppp::MPLS_MULTICAST => ethertype(data, at, ether_type::MPLS, None, 0),
        _ => plain(at, None, Payload::Other(Cause::NotIp)),
    }
}

/// Where PPP's payload begins, and its protocol, whose field may be compressed to its low octet, which is odd.
fn ppp_protocol(data: &[u8], at: usize) -> Option<(usize, u16)> {
    match data.get(at)? {
        first if first & 1 == 1 => Some((at + 1, u16::from(*first))),
        _ => Some((at + 2, be16(data, at)?)),
    }
}

/// Frame relay with RFC 2427's encapsulation: an address of two to four octets, then a protocol id.
fn frame_relay(data: &[u8]) -> Link {
    let Some(last) = data.iter().take(4).position(|octet| octet & 1 == 1) else { return truncated(data) };
    let mut at = last + 1;
    // Cisco's encapsulation has an EtherType right here; RFC 2427 has an UI control octet.
    if data.get(at) != Some(&0x03) {
        return match be16(data, at) {
            Some(kind) => ethertype(data, at + 2, kind, None, 0),
            None => truncated(data),
        };
    }
    at += 1;
    if data.get(at) == Some(&0) {
        at += 1;
    }
    match data.get(at) {
        Some(0xcc | 0x8e) => plain(at + 1, None, Payload::Ip),
        Some(0x80) => match (data.get(at + 1..at + 4), be16(data, at + 4)) {
            (Some([0, 0, 0]), Some(kind)) => ethertype(data, at + 6, kind, None, 0),
            (Some([0, 0x80, 0xc2]), Some(1 | 7)) => {
                // Bridged Ethernet; kind 1 includes the frame check sequence.
                ethernet(data, at + 6, 0)
            }
            (None, _) | (_, None) => truncated(data),
            _ => plain(at, None, Payload::Other(Cause::NotIp)),
        },
        Some(_) => plain(at, None, Payload::Other(Cause::NotIp)),
        None => truncated(data),
    }
}

/// IEEE 802.11 data frames that are not encrypted, from `at` on.
fn wifi(data: &[u8], at: usize) -> Link {
    let (Some(control), Some(flags)) = (data.get(at), data.get(at + 1)) else { return truncated(data) };
    let Some(receiver) = data.get(at + 4..at + 10) else { return truncated(data) };
    let (kind, subtype) = ((control >> 2) & 3, control >> 4);
    let to_ds = flags & 1 != 0;
    // With "to DS" alone the destination is the third address.
    let destination = if to_ds { data.get(at + 16..at + 22).unwrap_or(receiver) } else { receiver };
    let cast = Some(mac_cast(destination));
    let mut header = at + if flags & 3 == 3 { 30 } else { 24 };
    if subtype & 8 != 0 {
        header += 2;
        if flags & 0x80 != 0 {
            header += 4;
        }
    }
    let other = |header: usize| plain(header.min(data.len()), cast, Payload::Other(Cause::NotIp));
    // Not data, without data, encrypted, or a later fragment of a frame: nothing to read.
    let fragment = data.get(at + 22).is_some_and(|sequence| sequence & 0x0f != 0);
    if kind != 2 || subtype & 4 != 0 || flags & 0x40 != 0 || fragment {
        return other(header);
    }
    llc(data, header, cast, 0)
}
