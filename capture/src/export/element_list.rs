//! Information elements: nProbe's and IANA's names for them, their numbers and lengths, for sending and for receiving.
//! The elements are those of nProbe's public list: IANA's registry for IPFIX, ntop's elements under enterprise number
//! 35632, which NetFlow v9 numbers from 57472 on.

/// Enterprise number of ntop's elements.
pub const NTOP: u32 = 35632;
/// Enterprise number of the reverse of an IANA element (RFC 5103).
pub const REVERSE: u32 = 29305;
/// Offset that NetFlow v9 adds to the numbers of ntop's elements.
pub const NTOP_IN_V9: u16 = 57472;

/// How an element is written in a binary record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// A number or address of this many octets.
    Octets(u8),
    /// Text: of any length in IPFIX; in NetFlow v9 truncated or zero-padded to this many octets.
    Text(u16),
}

/// The value of an element; see [`Element::value`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// IPv4 address of the source (0) or destination (1).
    V4(usize),
    /// IPv6 address of the source or destination.
    V6(usize),
    /// Packets that the source sent (0) or received (1).
    Packets(usize),
    /// Octets, as above.
    Octets(usize),
    /// TCP flags of both directions.
    Flags,
    /// TCP flags of one direction.
    FlagsOf(usize),
    /// Type of service or traffic class of one direction.
    ClassOfService(usize),
    /// Port of the source or destination.
    Port(usize),
    /// ICMP type * 256 + code.
    Icmp,
    IcmpType,
    IcmpCode,
    Protocol,
    /// 4 or 6.
    Version,
    Vlan,
    /// First (0) or last (1) packet, in the form's own time format.
    Switched(usize),
    /// The same, s from the Unix epoch.
    Seconds(usize),
    /// The same, ms from the Unix epoch.
    Millis(usize),
    /// From the first to the last packet, ms.
    Duration,
    /// Interface in (0) or out (1).
    Interface(usize),
    /// Always 0: ingress, and captured rather than collected.
    Zero,
    Sampling,
    /// Exporter that the record was imported from, where its address is IPv4.
    ExporterV4,
    /// The same, IPv6.
    ExporterV6,
    /// Who began the flow.
    Initiator,
    /// Why the record ends: always active timeout (2), because the flow continues in the next interval or was idle.
    EndReason,
    Retransmissions(usize),
    /// Overtaken segments.
    OutOfOrder(usize),
    /// Half of the handshake's round trip.
    Latency,
    Application,
    ApplicationName,
    /// Application, its category.
    Category,
    ServerName,
    /// Name asked in DNS.
    DnsQuery,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    /// nProbe's name for it.
    pub name: &'static str,
    /// IANA's name for it; empty for one of ntop's.
    pub iana: &'static str,
    /// 0 for one of IANA's.
    pub enterprise: u32,
    /// Its number.
    pub id: u16,
    /// How it is written.
    pub width: Width,
    pub what: What,
}

const fn iana(id: u16, name: &'static str, iana: &'static str, octets: u8, what: What) -> Element {
    Element { name, iana, enterprise: 0, id, width: Width::Octets(octets), what }
}

const fn ntop(id: u16, name: &'static str, width: Width, what: What) -> Element {
    Element { name, iana: "", enterprise: NTOP, id, width, what }
}

/// Elements that records have a value for.
pub const ELEMENTS: &[Element] = &[
    iana(1, "IN_BYTES", "octetDeltaCount", 8, What::Octets(0)),
    iana(2, "IN_PKTS", "packetDeltaCount", 8, What::Packets(0)),
    iana(4, "PROTOCOL", "protocolIdentifier", 1, What::Protocol),
    iana(5, "SRC_TOS", "ipClassOfService", 1, What::ClassOfService(0)),
    iana(6, "TCP_FLAGS", "tcpControlBits", 1, What::Flags),
    iana(7, "L4_SRC_PORT", "sourceTransportPort", 2, What::Port(0)),
    iana(8, "IPV4_SRC_ADDR", "sourceIPv4Address", 4, What::V4(0)),
    iana(10, "INPUT_SNMP", "ingressInterface", 4, What::Interface(0)),
    iana(11, "L4_DST_PORT", "destinationTransportPort", 2, What::Port(1)),
    iana(12, "IPV4_DST_ADDR", "destinationIPv4Address", 4, What::V4(1)),
    iana(14, "OUTPUT_SNMP", "egressInterface", 4, What::Interface(1)),
    iana(21, "LAST_SWITCHED", "flowEndSysUpTime", 4, What::Switched(1)),
    iana(22, "FIRST_SWITCHED", "flowStartSysUpTime", 4, What::Switched(0)),
    iana(23, "OUT_BYTES", "postOctetDeltaCount", 8, What::Octets(1)),
    iana(24, "OUT_PKTS", "postPacketDeltaCount", 8, What::Packets(1)),
    iana(27, "IPV6_SRC_ADDR", "sourceIPv6Address", 16, What::V6(0)),
    iana(28, "IPV6_DST_ADDR", "destinationIPv6Address", 16, What::V6(1)),
    iana(32, "ICMP_TYPE", "icmpTypeCodeIPv4", 2, What::Icmp),
    iana(34, "SAMPLING_INTERVAL", "samplingInterval", 4, What::Sampling),
    iana(55, "DST_TOS", "postIpClassOfService", 1, What::ClassOfService(1)),
    iana(58, "SRC_VLAN", "vlanId", 2, What::Vlan),
    iana(60, "IP_PROTOCOL_VERSION", "ipVersion", 1, What::Version),
    iana(61, "DIRECTION", "flowDirection", 1, What::Zero),
    iana(130, "EXPORTER_IPV4_ADDRESS", "exporterIPv4Address", 4, What::ExporterV4),
    iana(131, "EXPORTER_IPV6_ADDRESS", "exporterIPv6Address", 16, What::ExporterV6),
    iana(136, "FLOW_END_REASON", "flowEndReason", 1, What::EndReason),
    iana(150, "FLOW_START_SEC", "flowStartSeconds", 4, What::Seconds(0)),
    iana(151, "FLOW_END_SEC", "flowEndSeconds", 4, What::Seconds(1)),
    iana(152, "FLOW_START_MILLISECONDS", "flowStartMilliseconds", 8, What::Millis(0)),
    iana(153, "FLOW_END_MILLISECONDS", "flowEndMilliseconds", 8, What::Millis(1)),
    iana(161, "FLOW_DURATION_MILLISECONDS", "flowDurationMilliseconds", 4, What::Duration),
    iana(176, "ICMP_IPV4_TYPE", "icmpTypeIPv4", 1, What::IcmpType),
    iana(177, "ICMP_IPV4_CODE", "icmpCodeIPv4", 1, What::IcmpCode),
    iana(239, "BIFLOW_DIRECTION", "biflowDirection", 1, What::Initiator),
    iana(243, "DOT1Q_SRC_VLAN", "dot1qVlanId", 2, What::Vlan),
    ntop(78, "CLIENT_TCP_FLAGS", Width::Octets(1), What::FlagsOf(0)),
    ntop(79, "SERVER_TCP_FLAGS", Width::Octets(1), What::FlagsOf(1)),
    ntop(109, "RETRANSMITTED_IN_PKTS", Width::Octets(4), What::Retransmissions(0)),
    ntop(110, "RETRANSMITTED_OUT_PKTS", Width::Octets(4), What::Retransmissions(1)),
    ntop(111, "OOORDER_IN_PKTS", Width::Octets(4), What::OutOfOrder(0)),
    ntop(112, "OOORDER_OUT_PKTS", Width::Octets(4), What::OutOfOrder(1)),
    ntop(118, "L7_PROTO", Width::Octets(2), What::Application),
    ntop(119, "L7_PROTO_NAME", Width::Text(16), What::ApplicationName),
    ntop(124, "SERVER_NW_LATENCY_MS", Width::Octets(4), What::Latency),
    ntop(188, "TLS_SERVER_NAME", Width::Text(48), What::ServerName),
    ntop(205, "DNS_QUERY", Width::Text(256), What::DnsQuery),
    ntop(501, "L7_PROTO_CATEGORY", Width::Text(16), What::Category),
    ntop(579, "FLOW_SOURCE", Width::Octets(1), What::Zero),
];

/// Alternative names that nProbe accepts.
const ALIASES: &[(&str, &str)] = &[
    ("SRC_TO_DST_BYTES", "IN_BYTES"),
    ("SRC_TO_DST_PKTS", "IN_PKTS"),
    ("DST_TO_SRC_BYTES", "OUT_BYTES"),
    ("DST_TO_SRC_PKTS", "OUT_PKTS"),
    ("APPLICATION_NAME", "L7_PROTO_NAME"),
    ("SSL_SERVER_NAME", "TLS_SERVER_NAME"),
    ("SAMPLING_RATE", "SAMPLING_INTERVAL"),
];

/// Elements that this agent accepts from exporters and does not measure itself: name, enterprise, number.
const TAKEN: &[(&str, u32, u16)] = &[
    ("OCTET_TOTAL", 0, 85),
    ("PACKET_TOTAL", 0, 86),
    ("FLOW_START_MICROSECONDS", 0, 154),
    ("FLOW_END_MICROSECONDS", 0, 155),
    ("FLOW_DURATION_MICROSECONDS", 0, 162),
    ("INITIATOR_OCTETS", 0, 231),
    ("RESPONDER_OCTETS", 0, 232),
    ("INITIATOR_PKTS", 0, 298),
    ("RESPONDER_PKTS", 0, 299),
    ("SAMPLING_SIZE", 0, 309),
    ("SAMPLING_POPULATION", 0, 310),
    ("CLIENT_NW_LATENCY_MS", NTOP, 123),
    ("HTTP_URL", NTOP, 180),
    ("HTTP_HOST", NTOP, 187),
    ("HTTP_SITE", NTOP, 361),
    ("NPROBE_IPV4_ADDRESS", NTOP, 471),
];

/// nProbe elements that this agent neither measures nor accepts from exporters; templates may still name them.
const NOT_MEASURED: &[&str] = &[
    "IPV4_SRC_MASK",
    "IPV4_DST_MASK",
    "IPV6_SRC_MASK",
    "IPV6_DST_MASK",
    "IPV4_NEXT_HOP",
    "IPV6_NEXT_HOP",
    "IPV4_BGP_NEXT_HOP",
    "SRC_AS",
    "DST_AS",
    "BGP_PREV_ADJACENT_ASN",
    "BGP_NEXT_ADJACENT_ASN",
    "MIN_IP_PKT_LEN",
    "MAX_IP_PKT_LEN",
    "SAMPLING_ALGORITHM",
    "FLOW_ACTIVE_TIMEOUT",
    "FLOW_INACTIVE_TIMEOUT",
    "ENGINE_TYPE",
    "ENGINE_ID",
    "TOTAL_BYTES_EXP",
    "TOTAL_PKTS_EXP",
    "TOTAL_FLOWS_EXP",
    "MIN_TTL",
    "MAX_TTL",
    "DST_VLAN",
    "DOT1Q_DST_VLAN",
    "IN_SRC_MAC",
    "IN_DST_MAC",
    "OUT_SRC_MAC",
    "OUT_DST_MAC",
    "INTERFACE_NAME",
    "FORWARDING_STATUS",
    "FLOW_ID",
    "MPLS_LABEL_1",
    "MPLS_LABEL_2",
    "MPLS_LABEL_3",
    "APPLICATION_ID",
    "SRC_FRAGMENTS",
    "DST_FRAGMENTS",
    "APPL_LATENCY_MS",
    "NPROBE_INSTANCE_NAME",
    "UNIQUE_SOURCE_ID",
    "PROTOCOL_MAP",
    "L4_SRC_PORT_MAP",
    "L4_DST_PORT_MAP",
    "L4_SRV_PORT",
    "L4_SRV_PORT_MAP",
    "SRC_TO_DST_MAX_THROUGHPUT",
    "SRC_TO_DST_MIN_THROUGHPUT",
    "SRC_TO_DST_AVG_THROUGHPUT",
    "DST_TO_SRC_MAX_THROUGHPUT",
    "DST_TO_SRC_MIN_THROUGHPUT",
    "DST_TO_SRC_AVG_THROUGHPUT",
    "NUM_PKTS_UP_TO_128_BYTES",
    "NUM_PKTS_128_TO_256_BYTES",
    "NUM_PKTS_256_TO_512_BYTES",
    "NUM_PKTS_512_TO_1024_BYTES",
    "NUM_PKTS_1024_TO_1514_BYTES",
    "NUM_PKTS_OVER_1514_BYTES",
    "LONGEST_FLOW_PKT",
    "SHORTEST_FLOW_PKT",
    "RETRANSMITTED_IN_BYTES",
    "RETRANSMITTED_OUT_BYTES",
    "SRC_IP_COUNTRY",
    "DST_IP_COUNTRY",
    "SRC_IP_CITY",
    "DST_IP_CITY",
    "FLOW_PROTO_PORT",
    "UPSTREAM_TUNNEL_ID",
    "DOWNSTREAM_TUNNEL_ID",
    "L7_CONFIDENCE",
    "L7_INFO",
    "L7_PROTO_RISK",
    "L7_RISK_SCORE",
    "L7_RISK_INFO",
    "TCP_WIN_MAX_IN",
    "TCP_WIN_MAX_OUT",
    "TCP_WIN_MIN_IN",
    "TCP_WIN_MIN_OUT",
    "DNS_QUERY_ID",
    "DNS_QUERY_TYPE",
    "DNS_RET_CODE",
    "DNS_NUM_ANSWERS",
    "DNS_RESPONSE",
    "HTTP_METHOD",
    "HTTP_RET_CODE",
    "HTTP_USER_AGENT",
    "HTTP_UA",
    "HTTP_REFERER",
    "HTTP_MIME",
    "BITTORRENT_HASH",
    "JA3C_HASH",
    "JA3S_HASH",
    "JA4C_HASH",
    "TLS_VERSION",
    "TLS_CIPHER",
    "TLS_UNSAFE_CIPHER",
    "SRC_AS_MAP",
    "DST_AS_MAP",
    "FLOW_EXPORT_TIME",
    "CUMULATIVE_ICMP_TYPE",
    "POST_NAT_SRC_IPV4_ADDR",
    "POST_NAT_DST_IPV4_ADDR",
    "FIREWALL_EVENT",
    "NAT_EVENT",
];

impl Element {
    /// The element of this name, nProbe's or IANA's.
    pub(super) fn named(name: &str) -> Option<&'static Element> {
        let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name);
        ELEMENTS.iter().find(|element| element.name == name || !element.iana.is_empty() && element.iana == name)
    }

    /// Its octets in a record; for text in a form with fixed lengths, the maximum.
    pub fn octets(&self) -> u16 {
        match self.width {
            Width::Octets(octets) => octets.into(),
            Width::Text(octets) => octets,
        }
    }
}

/// Whether nProbe has an element of this name that this agent does not measure.
pub(super) fn is_known(name: &str) -> bool {
    NOT_MEASURED.contains(&name) || TAKEN.iter().any(|taken| taken.0 == name)
}

/// Every nProbe or IANA name of the elements numbered here, with enterprise and number.
pub fn numbered() -> impl Iterator<Item = (&'static str, u32, u16)> {
    let own = ELEMENTS.iter().map(|element| (element.name, element.enterprise, element.id));
    let iana = ELEMENTS.iter().map(|element| (element.iana, element.enterprise, element.id));
    let aliases = ALIASES
        .iter()
        .filter_map(|(alias, name)| Element::named(name).map(|element| (*alias, element.enterprise, element.id)));
    own.chain(iana.filter(|named| !named.0.is_empty())).chain(aliases).chain(TAKEN.iter().copied())
}

/// The names of the other elements that nProbe has.
pub fn without_number() -> impl Iterator<Item = &'static str> {
    NOT_MEASURED.iter().copied()
}
