//! The identity of a biflow (RFC 5103), the same for both directions.

use crate::packet::{Address, IcmpRole, IpPacket, tcp};
use std::hash::{Hash, Hasher};

/// Two ends, lower one first, and what they speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        let icmp = is_icmp(ip.protocol);
        let src_port = if icmp { ip.dst_port } else { ip.src_port };
        // A host that asks itself is both ends: the message's role tells them apart.
        let to_itself = ip.src == ip.dst && ip.icmp == IcmpRole::Reply;
        let upper = (ip.src, src_port) > (ip.dst, ip.dst_port) || to_itself;
        let key = Key {
            addresses: if upper { [ip.dst, ip.src] } else { [ip.src, ip.dst] },
            ports: if upper { [ip.dst_port, src_port] } else { [src_port, ip.dst_port] },
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

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for address in &self.addresses {
            state.write_u128(u128::from_ne_bytes(*address));
        }
        state.write_u64(
            u64::from(self.ports[0]) << 48
                | u64::from(self.ports[1]) << 32
                | u64::from(self.vlan) << 16
                | u64::from(self.protocol) << 8
                | u64::from(self.version),
        );
    }
}

/// ICMP or ICMPv6.
pub fn is_icmp(protocol: u8) -> bool {
    protocol == 1 || protocol == 58
}

/// Who began a flow, told from one packet of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initiator {
    /// The initiator's end.
    pub end: End,
    /// Whether nothing in the packet tells, and its sender was taken.
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
    fn who_asks_itself_is_both_ends() {
        let of = |kind| {
            let data = t::frame(0x0800, &t::ipv4([127, 0, 0, 1], [127, 0, 0, 1], 1, &t::icmp(kind, 0, b"")));
            let frame =
                Frame { time_ns: 0, link: LinkType::Ethernet, data: &data, length: data.len() as u32, vlan: None };
            let ip = parse(&frame).ip.unwrap();
            let (key, end) = Key::of(&ip, 0);
            (key, end, Initiator::told_by(&ip, end).end)
        };
        let ((request, asks, first), (reply, answers, second)) = (of(8), of(0));
        assert_eq!((request, asks, answers), (reply, 0, 1));
        assert_eq!((first, second), (0, 0));
    }
}
