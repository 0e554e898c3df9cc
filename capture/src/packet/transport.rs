//! Ports and flags of transport headers.

use super::{IcmpRole, IpPacket, Tcp, protocol};

/// Reads the transport header at the start of `data` into `ip`; fields that were not captured keep their values.
#[inline]
pub(super) fn read(data: &[u8], ip: &mut IpPacket) {
    match ip.protocol {
        protocol::TCP => {
            ports(data, ip);
            ip.tcp = tcp(data, ip.payload);
        }
        protocol::UDP | protocol::SCTP | protocol::DCCP | protocol::UDP_LITE => ports(data, ip),
        protocol::ICMP => icmp(4, data, ip),
        protocol::ICMPV6 => icmp(6, data, ip),
        _ => {}
    }
}

#[inline]
fn ports(data: &[u8], ip: &mut IpPacket) {
    if let Some(&[a, b, c, d]) = data.first_chunk() {
        ip.src_port = u16::from_be_bytes([a, b]);
        ip.dst_port = u16::from_be_bytes([c, d]);
    }
}

#[inline]
fn tcp(data: &[u8], octets: u32) -> Option<Tcp> {
    let header: &[u8; 14] = data.first_chunk()?;
    Some(Tcp {
        flags: header[13],
        sequence: u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
        acknowledgement: u32::from_be_bytes([header[8], header[9], header[10], header[11]]),
        payload: octets.saturating_sub(u32::from(header[12] >> 4) * 4),
    })
}

fn icmp(version: u8, data: &[u8], ip: &mut IpPacket) {
    if let Some(&[kind, code]) = data.first_chunk() {
        let (role, request) = icmp_role(version, kind);
        ip.icmp = role;
        ip.dst_port = u16::from(request) << 8 | u16::from(code);
    }
}

/// Whether a message of this ICMP type is a request, a reply or an error, and the type of the request that it belongs
/// to.
fn icmp_role(version: u8, kind: u8) -> (IcmpRole, u8) {
    use IcmpRole::{Error, None, Reply, Request};
    match (version, kind) {
        (4, 8 | 13 | 15 | 17) => (Request, kind),
        (4, 0) => (Reply, 8),
        (4, 14 | 16 | 18) => (Reply, kind - 1),
        (4, 3 | 4 | 5 | 11 | 12) => (Error, kind),
        (6, 128) => (Request, 128),
        (6, 129) => (Reply, 128),
        (6, 0..=127) => (Error, kind),
        _ => (None, kind),
    }
}
