//! Protocols above IP by their numbers, and ports whose protocols may carry names (IANA).

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

/// Ports of DNS (RFC 1035), mDNS (RFC 6762) and LLMNR (RFC 4795).
pub const DNS_PORTS: [u16; 3] = [53, 5353, 5355];
/// Ports of servers whose clients begin with TLS: what a client sends there may be a later part of its ClientHello.
pub const TLS_PORTS: [u16; 7] = [443, 465, 636, 853, 993, 995, 8443];
