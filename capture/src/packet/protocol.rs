//! Protocols above IP by their numbers (IANA).

pub const ICMP: u8 = 1;
/// IPv4 within IP.
pub const IPV4: u8 = 4;
pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
pub const DCCP: u8 = 33;
/// IPv6 within IP.
pub const IPV6: u8 = 41;
pub const GRE: u8 = 47;
pub const ICMPV6: u8 = 58;
pub const SCTP: u8 = 132;
pub const UDP_LITE: u8 = 136;
