//! Protocols above PPP by their numbers (IANA).

pub const IPV4: u16 = 0x0021;
pub const IPV6: u16 = 0x0057;
/// MPLS labels: unicast, and multicast (RFC 3032).
pub const MPLS: u16 = 0x0281;
pub const MPLS_MULTICAST: u16 = 0x0283;
