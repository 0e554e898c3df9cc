//! The identity of a biflow (RFC 5103), the same for both directions.

use crate::filter::subject::FlowSubject;
use crate::packet::{Address, IcmpRole, IpPacket, tcp};
use std::hash::{Hash, Hasher};

/// Two ends, the lower one first, and their protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Addresses of the lower and the upper end.
    pub addresses: [Address; 2],
    /// Their ports; for ICMP both are the request's type * 256 + code.
    pub ports: [u16; 2],
    /// Outer VLAN id, 0 for none.
    pub vlan: u16,
    /// Protocol above IP.
    pub protocol: u8,
    /// 4 or 6.
    pub version: u8,
}

/// Which of a key's two ends: an index into `addresses` and `ports`.
pub type End = u8;

impl Key {
    /// The key of a packet, and the end that sent it.
    pub fn of(ip: &IpPacket, vlan: u16) -> (Key, End) {
        let [src_port, dst_port] = ports(ip);
        let upper = is_upper(ip, (ip.src, src_port), (ip.dst, dst_port));
        let key = Key {
            addresses: if upper { [ip.dst, ip.src] } else { [ip.src, ip.dst] },
            ports: if upper { [dst_port, src_port] } else { [src_port, dst_port] },
            vlan,
            protocol: ip.protocol,
            version: ip.version,
        };
        (key, End::from(upper))
    }

    /// The port of an end as a record states it: an ICMP source has none.
    pub fn source_port(&self, end: End) -> u16 {
        if is_icmp(self.protocol) { 0 } else { self.ports[usize::from(end)] }
    }
}

/// The ports of a packet's two ends; for ICMP both are the request's type * 256 + code.
#[inline]
fn ports(ip: &IpPacket) -> [u16; 2] {
    [if is_icmp(ip.protocol) { ip.dst_port } else { ip.src_port }, ip.dst_port]
}

/// Whether the upper end sent a packet from `src` to `dst`.
#[inline]
fn is_upper<T: PartialOrd>(ip: &IpPacket, src: T, dst: T) -> bool {
    // A host that pings itself is both ends: the message's role distinguishes them.
    src > dst || src == dst && ip.icmp == IcmpRole::Reply
}

/// A key as tables keep it: of one IP version, without what that version does not need.
#[warn(missing_docs)]
pub trait Compact: Copy + Eq + Hash {
    /// The compact form of a key; `key.version` must be this form's version.
    fn of(key: &Key) -> Self;
    /// The key of a packet of this version, and the end that sent it: a faster [`Key::of`].
    fn of_packet(ip: &IpPacket, vlan: u16) -> (Self, End);
    /// The key again.
    fn key(&self) -> Key;
    /// The packets of one end, as filters see them.
    fn sent_by(&self, end: End) -> FlowSubject;
}

/// The key of an IPv4 flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct V4([u32; 4]);

/// The key of an IPv6 flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct V6([u32; 10]);

/// The fields after the addresses, in two words.
fn tail(key: &Key) -> [u32; 2] {
    [
        u32::from(key.ports[0]) << 16 | u32::from(key.ports[1]),
        u32::from(key.vlan) << 16 | u32::from(key.protocol) << 8 | u32::from(key.version),
    ]
}

fn from_parts(addresses: [Address; 2], [ports, rest]: [u32; 2]) -> Key {
    Key {
        addresses,
        ports: [(ports >> 16) as u16, ports as u16],
        vlan: (rest >> 16) as u16,
        protocol: (rest >> 8) as u8,
        version: rest as u8,
    }
}

impl Compact for V4 {
    #[inline]
    fn of(key: &Key) -> V4 {
        let address = |end: usize| u32::from_ne_bytes(*key.addresses[end].last_chunk().expect("16 octets"));
        let [ports, rest] = tail(key);
        V4([address(0), address(1), ports, rest])
    }

    #[inline]
    fn of_packet(ip: &IpPacket, vlan: u16) -> (V4, End) {
        let address = |of: &Address| u32::from_ne_bytes(*of.last_chunk().expect("16 octets"));
        let [src, dst] = [address(&ip.src), address(&ip.dst)];
        let [src_port, dst_port] = ports(ip);
        let end = |address: u32, port: u16| u64::from(u32::from_be(address)) << 16 | u64::from(port);
        let upper = is_upper(ip, end(src, src_port), end(dst, dst_port));
        let rest = u32::from(vlan) << 16 | u32::from(ip.protocol) << 8 | 4;
        let [src_port, dst_port] = [u32::from(src_port), u32::from(dst_port)];
        let key = if upper {
            V4([dst, src, dst_port << 16 | src_port, rest])
        } else {
            V4([src, dst, src_port << 16 | dst_port, rest])
        };
        (key, End::from(upper))
    }

    fn key(&self) -> Key {
        let [a, b, ports, rest] = self.0;
        let address = |word: u32| std::net::Ipv4Addr::from(word.to_ne_bytes()).to_ipv6_mapped().octets();
        from_parts([address(a), address(b)], [ports, rest])
    }

    #[inline]
    fn sent_by(&self, end: End) -> FlowSubject {
        let [a, b, ports, rest] = self.0;
        let (addresses, ports) = ([a.to_ne_bytes(), b.to_ne_bytes()], [(ports >> 16) as u16, ports as u16]);
        let (from, to) = (usize::from(end & 1), usize::from(1 - (end & 1)));
        FlowSubject::v4((rest >> 8) as u8, [addresses[from], addresses[to]], [ports[from], ports[to]])
    }
}

impl Compact for V6 {
    #[inline]
    fn of(key: &Key) -> V6 {
        let mut words = [0; 10];
        for (word, octets) in words.iter_mut().zip(key.addresses.as_flattened().chunks_exact(4)) {
            *word = u32::from_ne_bytes(octets.try_into().expect("4 octets"));
        }
        [words[8], words[9]] = tail(key);
        V6(words)
    }

    #[inline]
    fn of_packet(ip: &IpPacket, vlan: u16) -> (V6, End) {
        let (key, end) = Key::of(ip, vlan);
        (V6::of(&key), end)
    }

    fn key(&self) -> Key {
        let mut addresses = [[0; 16]; 2];
        for (octets, word) in addresses.as_flattened_mut().chunks_exact_mut(4).zip(self.0) {
            octets.copy_from_slice(&word.to_ne_bytes());
        }
        from_parts(addresses, [self.0[8], self.0[9]])
    }

    #[inline]
    fn sent_by(&self, end: End) -> FlowSubject {
        let Key { addresses, ports, protocol, .. } = self.key();
        let (from, to) = (usize::from(end & 1), usize::from(1 - (end & 1)));
        FlowSubject::v6(protocol, [&addresses[from], &addresses[to]], [ports[from], ports[to]])
    }
}

impl Hash for V4 {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [a, b, c, d] = self.0;
        state.write_u64(u64::from(a) << 32 | u64::from(b));
        state.write_u64(u64::from(c) << 32 | u64::from(d));
    }
}

impl Hash for V6 {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        for pair in self.0.chunks_exact(2) {
            state.write_u64(u64::from(pair[0]) << 32 | u64::from(pair[1]));
        }
    }
}

/// ICMP or ICMPv6.
pub fn is_icmp(protocol: u8) -> bool {
    protocol == 1 || protocol == 58
}

/// The initiator of a flow, derived from one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initiator {
    /// The initiator's end.
    pub end: End,
    /// Whether the packet gives no evidence, so its sender is assumed.
    pub guess: bool,
}

impl Initiator {
    /// The sender of a SYN or of an ICMP request; the receiver of a SYN-ACK or of an ICMP reply; else, as a guess,
    /// the sender.
    pub fn told_by(ip: &IpPacket, sender: End) -> Initiator {
        let flags = ip.tcp.map_or(0, |tcp| tcp.flags & (tcp::SYN | tcp::ACK));
        match (flags, ip.icmp) {
            (tcp::SYN, _) | (_, IcmpRole::Request) => Initiator { end: sender, guess: false },
            (SYN_ACK, _) | (_, IcmpRole::Reply) => Initiator { end: 1 - sender, guess: false },
            _ => Initiator { end: sender, guess: true },
        }
    }
}

/// Both flags of a SYN's answer.
pub const SYN_ACK: u8 = tcp::SYN | tcp::ACK;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Frame, LinkType, parse};
    use crate::testing as t;

    #[test]
    fn compact_forms_give_the_key_again() {
        let mapped = |last| std::net::Ipv4Addr::new(192, 0, 2, last).to_ipv6_mapped().octets();
        let key = Key { addresses: [mapped(1), mapped(2)], ports: [7, 65_535], vlan: 4095, protocol: 255, version: 4 };
        assert_eq!(V4::of(&key).key(), key);
        let addresses = [std::array::from_fn(|at| at as u8), std::array::from_fn(|at| 255 - at as u8)];
        let key = Key { addresses, version: 6, ..key };
        assert_eq!(V6::of(&key).key(), key);
    }

    #[test]
    fn who_asks_itself_is_both_ends() {
        let of = |kind| {
            let data = t::frame(0x0800, &t::ipv4([127, 0, 0, 1], [127, 0, 0, 1], 1, &t::icmp(kind, 0, b"")));
            let frame =
                Frame { time_ns: 0, link: LinkType::Ethernet, data: &data, length: data.len() as u32, vlan: None };
            let ip = parse(&frame).ip.unwrap();
            let (key, end) = Key::of(&ip, 0);
            assert_eq!(V4::of_packet(&ip, 0), (V4::of(&key), end));
            (key, end, Initiator::told_by(&ip, end).end)
        };
        let ((request, asks, first), (reply, answers, second)) = (of(8), of(0));
        assert_eq!((request, asks, answers), (reply, 0, 1));
        assert_eq!((first, second), (0, 0));
    }
}
