//! The Internet checksum (RFC 1071) of IPv4's header, TCP, UDP, ICMP and ICMPv6.

use super::IpPacket;

/// The result of checking a packet's checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Checksum {
    /// All are right.
    Good,
    /// IPv4's header does not agree with its checksum.
    BadIp,
    /// Layer 4 does not agree with its checksum.
    BadLayer4,
    /// There is none, or not all of the packet was captured, or it is a fragment.
    Unchecked,
}

impl Checksum {
    /// The counters' names, in the order of the discriminants.
    pub const NAMES: [&'static str; 4] = ["good", "bad_ip", "bad_layer4", "unchecked"];

    /// Checks a packet; `layer3` holds its captured octets, from the IP header on.
    pub fn of(ip: &IpPacket, layer3: &[u8]) -> Checksum {
        let transport = usize::from(ip.transport);
        let (Some(header), Some(layer4)) =
            (layer3.get(..transport), layer3.get(transport..transport + ip.payload as usize))
        else {
            return Checksum::Unchecked;
        };
        if ip.version == 4 && !is_right(header) {
            return Checksum::BadIp;
        }
        let field = match ip.protocol {
            6 => 16,
            17 => 6,
            1 => 2,
            58 => 2,
            _ => return Checksum::Unchecked,
        };
        let Some(stated) = layer4.get(field..field + 2) else { return Checksum::Unchecked };
        // UDP over IPv4 may omit it; a routing header (RFC 8200, section 8.1) hides the last destination.
        let routed = ip.version == 6 && header.len() > 40;
        if ip.fragment.is_some() || routed || (ip.protocol == 17 && stated == [0, 0]) {
            return Checksum::Unchecked;
        }
        let pseudo = if ip.protocol == 1 {
            0
        } else {
            // IPv4 in 16 octets adds ffff, which changes nothing.
            sum(&ip.src) + sum(&ip.dst) + u64::from(ip.protocol) + layer4.len() as u64
        };
        if folded(pseudo + sum(layer4)) == 0xffff { Checksum::Good } else { Checksum::BadLayer4 }
    }
}

/// Whether an IPv4 header agrees with its checksum.
pub(super) fn is_right(header: &[u8]) -> bool {
    folded(sum(header)) == 0xffff
}

fn sum(data: &[u8]) -> u64 {
    let words = data.chunks_exact(4);
    let rest = words.remainder();
    let whole: u64 = words.map(|word| u64::from(u32::from_be_bytes(word.try_into().expect("4 octets")))).sum();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    whole + u64::from(u32::from_be_bytes(last))
}

fn folded(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
