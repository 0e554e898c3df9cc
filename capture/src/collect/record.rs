//! The record that every decoder produces, from any format.

use super::element::routed::Routed;
use crate::packet::Address;

/// Counts of one side of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentCounts {
    /// Packets as exported, not scaled by the sampling rate (IE 2, 86, 23, 24).
    pub packets: u64,
    /// Layer-3 octets as exported, not scaled (IE 1, 85).
    pub octets: u64,
    /// All TCP flags of the flow, or-ed (IE 6).
    pub tcp_flags: u8,
    /// Type of service or traffic class (IE 5).
    pub class_of_service: u8,
    /// Segments sent again (ntop 35632.109, 110).
    pub retransmissions: u32,
    /// Segments out of order (ntop 35632.111, 112).
    pub out_of_order: u32,
}

/// One record of another exporter: a flow from source to destination, with the reverse direction if the record includes
/// it (RFC 5103).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported<'a> {
    /// Source and destination, IPv4 mapped (IE 8, 12, 27, 28).
    pub addresses: [Address; 2],
    /// Source and destination port (IE 7, 11); for ICMP 0 and type * 256 + code (IE 32, 139).
    pub ports: [u16; 2],
    /// 4 or 6 (IE 60, else by the addresses).
    pub version: u8,
    /// Protocol above IP (IE 4).
    pub protocol: u8,
    /// VLAN id, 0 for none (IE 58, 243).
    pub vlan: u16,
    /// Sent by the source, and received by it: zeros in a one-way record.
    pub sent: [SentCounts; 2],
    /// First packet of the flow, ms from the Unix epoch (IE 22, 150, 152, 154, 156, 158).
    pub first_ms: i64,
    /// Last packet of the flow, ms from the Unix epoch (IE 21, 151, 153, 155, 157, 159); not before `first_ms`.
    pub last_ms: i64,
    /// One packet in this many was sampled, as the exporter stated (IE 34, 50, 305 and 306); `None` if it stated
    /// nothing.
    pub sampling: Option<u32>,
    /// Interface that the packets entered by (IE 10).
    pub input_interface: u32,
    /// Interface the packets left by (IE 14).
    pub output_interface: u32,
    /// Whether the source is known to be the initiator (IE 239: 1, nProbe's records); otherwise it is guessed.
    pub initiator_known: bool,
    /// Application as nDPI numbers them, 0 unknown (ntop 35632.118; IE 95 with engine 20).
    pub application_id: u16,
    /// From the SYN to the ACK of the SYN-ACK, µs; 0 unknown (ntop 35632.123 and 124 together).
    pub handshake_rtt_us: u32,
    /// Server name of TLS or HTTP, empty for none (ntop 35632.180, 188).
    pub server_name: &'a [u8],
    /// Name queried in DNS, empty if none (ntop 35632.205).
    pub dns_query: &'a [u8],
    /// The router's routing data, if any.
    pub routed: Option<Routed<'a>>,
    /// Whether the exporter has source and destination the other way round (IE 239: 2), its routing data too.
    pub turned: bool,
}

/// An event of address translation or of a firewall, without its traffic counts (RFC 8158; NSEL). Fields that the
/// exporter does not state are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NatEvent<'a> {
    /// IE 230: 4 and 5 a session created and deleted, 16 and 17 a block of ports allocated and de-allocated, ...
    pub nat_event: u8,
    /// IE 233: 1 created, 2 deleted, 3 denied, 4 alert, 5 update.
    pub firewall_event: u8,
    /// Time of the event by the exporter's clock, in ms since the Unix epoch (IE 323, else 152).
    pub time_ms: i64,
    /// IE 4.
    pub protocol: u8,
    /// Source and destination before translation, IPv4 mapped (IE 8, 12, 27, 28), and after (225, 226, 281, 282).
    pub addresses: [Address; 2],
    pub translated: [Address; 2],
    /// IE 7, 11; 227, 228.
    pub ports: [u16; 2],
    pub translated_ports: [u16; 2],
    /// First and last port of a block (IE 361, 362), its step (363), its size (364).
    pub port_block: [u16; 2],
    pub port_step: u16,
    pub port_count: u16,
    /// Ingress and egress (IE 234, 235).
    pub vrf: [u32; 2],
    /// Number of the connection on the exporter (IE 148).
    pub connection: u64,
    /// IE 371; ASA 40000.
    pub user: &'a [u8],
}

/// The kind of thing that an exporter names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Named {
    /// IE 10 or 14, with 82 and 83.
    #[default]
    Interface,
    /// IE 234 or 235, with 236.
    Vrf,
}

/// A name, by an option.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenName<'a> {
    pub of: Named,
    pub number: u32,
    pub name: &'a [u8],
    pub description: &'a [u8],
}

/// An interface's counters since its start, from an sFlow sample (sFlow version 5, `if_counters`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceCounters {
    pub index: u32,
    /// Bits a second.
    pub speed: u64,
    /// 1: administratively up; 2: operationally up; 3: both.
    pub status: u32,
    /// In and out.
    pub octets: [u64; 2],
    /// Unicast, multicast and broadcast together; they wrap at 32 bits each.
    pub packets: [u64; 2],
    pub discards: [u32; 2],
    pub errors: [u32; 2],
}
