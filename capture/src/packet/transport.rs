//! Ports and flags of what IP carries.

use super::ip::icmp_role;
use super::{IcmpRole, Tcp, be16, be32};

/// Protocol numbers (IANA) with a meaning here.
pub(super) mod protocol {
    pub const ICMP: u8 = 1;
    pub const TCP: u8 = 6;
    pub const UDP: u8 = 17;
    pub const DCCP: u8 = 33;
    pub const ICMPV6: u8 = 58;
    pub const SCTP: u8 = 132;
    pub const UDP_LITE: u8 = 136;
}

/// What tells the flows between two hosts apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ports {
    pub src_port: u16,
    pub dst_port: u16,
    pub tcp: Option<Tcp>,
    pub icmp: IcmpRole,
}

/// Reads the transport header at the start of `data`, of which `octets` were on the wire; what was not captured stays 0.
pub(super) fn parse(number: u8, data: &[u8], octets: u32) -> Ports {
    match number {
        protocol::TCP => Ports { tcp: tcp(data, octets), ..ports(data) },
        protocol::UDP | protocol::SCTP | protocol::DCCP | protocol::UDP_LITE => ports(data),
        protocol::ICMP => icmp(4, data),
        protocol::ICMPV6 => icmp(6, data),
        _ => Ports::default(),
    }
}

fn ports(data: &[u8]) -> Ports {
    match (be16(data, 0), be16(data, 2)) {
        (Some(src_port), Some(dst_port)) => Ports { src_port, dst_port, ..Ports::default() },
        _ => Ports::default(),
    }
}

fn tcp(data: &[u8], octets: u32) -> Option<Tcp> {
    let header = data.get(..14)?;
    Some(Tcp {
        flags: header[13],
        sequence: be32(header, 4)?,
        acknowledgement: be32(header, 8)?,
        payload: octets.saturating_sub(u32::from(header[12] >> 4) * 4),
    })
}

fn icmp(version: u8, data: &[u8]) -> Ports {
    let (Some(&kind), Some(&code)) = (data.first(), data.get(1)) else { return Ports::default() };
    let (role, request) = icmp_role(version, kind);
    Ports { dst_port: u16::from(request) << 8 | u16::from(code), icmp: role, ..Ports::default() }
}
