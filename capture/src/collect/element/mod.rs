//! Information elements (IANA's registry, RFC 5103, ntop's PEN 35632): what each means to a record.

pub mod event;
pub mod field;
pub mod frame;
pub mod moment;
pub mod names;
pub mod octets;
pub mod routed;
pub mod template;
pub mod values;

/// Private enterprise number of reverse information elements (RFC 5103, section 6.1).
pub const PEN_REVERSE: u32 = 29_305;
/// Private enterprise number of ntop.
pub const PEN_NTOP: u32 = 35_632;
/// Represents sFlow records among the elements left out: no enterprise has this number.
pub const PEN_SFLOW: u32 = u32::MAX - 1;
/// NetFlow v9 has no enterprise numbers: there ntop's element n has the number n plus this.
pub const V9_NTOP: u16 = 57_472;

/// Private enterprise number of the CERT's YAF, which marks the elements of the other direction by [`YAF_REVERSE`].
const PEN_YAF: u32 = 6871;
const YAF_REVERSE: u16 = 0x4000;
/// Private enterprise number of Procera.
const PEN_PROCERA: u32 = 15_397;

/// A unit of time, and its reference point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// ms since the exporter's boot (IE 21, 22).
    Uptime,
    /// s since 1970 (IE 150, 151).
    Seconds,
    /// ms since 1970 (IE 152, 153).
    Milliseconds,
    /// Seconds since 1900 and their fraction, 32 bits each (IE 154 to 157; RFC 7011, section 6.1.9).
    Ntp,
    /// µs before the time of export (IE 158, 159).
    MicrosecondsBefore,
}

/// The meaning of an element for a record; `Reverse…`: for the destination's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    Source4,
    Destination4,
    Source6,
    Destination6,
    SourcePort,
    DestinationPort,
    Protocol,
    Version,
    Vlan,
    Octets,
    ReverseOctets,
    Packets,
    ReversePackets,
    /// IE 23 and 24: the template as a whole decides whose counts they are (see [`template`]).
    PostOctets,
    PostPackets,
    Flags,
    ReverseFlags,
    ClassOfService,
    ReverseClassOfService,
    /// IE 55: the template as a whole decides whose class of service it is.
    PostClassOfService,
    Retransmissions,
    ReverseRetransmissions,
    OutOfOrder,
    ReverseOutOfOrder,
    First(Clock),
    Last(Clock),
    DurationMilliseconds,
    DurationMicroseconds,
    /// When it was seen, for events (IE 323).
    Observed,
    /// When the exporter booted, ms since 1970 (IE 160).
    Boot,
    /// type * 256 + code (IE 32, 139).
    Icmp,
    IcmpType,
    IcmpCode,
    InputInterface,
    OutputInterface,
    Biflow,
    /// One packet in this many (IE 34, 50).
    SamplingInterval,
    Sampler,
    PacketInterval,
    PacketSpace,
    SamplingSize,
    SamplingPopulation,
    /// How packets are chosen (IE 304), and with which probability (IE 311).
    SamplingAlgorithm,
    SamplingProbability,
    /// The template that a sampling rate applies to (IE 145).
    TemplateId,
    /// A connection's number (IE 148).
    FlowId,
    /// The first octets of a frame (IE 315) or IP packet (313), and octets of the whole frame (312).
    Frame,
    IpSection,
    FrameSize,
    Application,
    /// IE 95 (RFC 6759).
    ApplicationTag,
    /// Half of the round-trip time between one end of the flow and the exporter, in ms.
    Latency,
    ServerName,
    ServerLocator,
    DnsQuery,
    /// Of variable length and unused: it only shifts the fields after it.
    Skip,
}

/// Preference among elements of the same slot: the decoder reads the template's element with the lowest rank, the first
/// of several with that rank. It reads all elements of rank [`ALL`].
pub const ALL: u8 = u8::MAX;

/// The meaning of the element `id` of the enterprise `pen` (0: IANA's), and its rank; `None` if the element has no use
/// here.
pub fn meaning(pen: u32, id: u16) -> Option<(Meaning, u8)> {
    Some(match (pen, id) {
        (0, 1) => (Meaning::Octets, 0),
        (0, 2) => (Meaning::Packets, 0),
        (0, 85) => (Meaning::Octets, 1),
        (0, 86) => (Meaning::Packets, 1),
        // Counts of a firewall's connection, whose source is the initiator.
        (0, 231) => (Meaning::Octets, 2),
        (0, 298) => (Meaning::Packets, 2),
        (0, 232) => (Meaning::ReverseOctets, 2),
        (0, 299) => (Meaning::ReversePackets, 2),
        (0, 23) => (Meaning::PostOctets, 0),
        (0, 24) => (Meaning::PostPackets, 0),
        (0, 4) => (Meaning::Protocol, 0),
        (0, 5) => (Meaning::ClassOfService, 0),
        (0, 55) => (Meaning::PostClassOfService, 0),
        (0, 6) => (Meaning::Flags, 0),
        (0, 7) => (Meaning::SourcePort, 0),
        (0, 11) => (Meaning::DestinationPort, 0),
        // Ports of UDP and of TCP alone.
        (0, 180 | 182) => (Meaning::SourcePort, ALL),
        (0, 181 | 183) => (Meaning::DestinationPort, ALL),
        (0, 8) => (Meaning::Source4, 0),
        (0, 12) => (Meaning::Destination4, 0),
        (0, 27) => (Meaning::Source6, 0),
        (0, 28) => (Meaning::Destination6, 0),
        (0, 10) => (Meaning::InputInterface, 0),
        (0, 14) => (Meaning::OutputInterface, 0),
        // The physical ones.
        (0, 252) => (Meaning::InputInterface, 1),
        (0, 253) => (Meaning::OutputInterface, 1),
        (0, 58) => (Meaning::Vlan, 0),
        (0, 243) => (Meaning::Vlan, 1),
        (0, 60) => (Meaning::Version, 0),
        (0, 32 | 139) => (Meaning::Icmp, ALL),
        (0, 176 | 178) => (Meaning::IcmpType, ALL),
        (0, 177 | 179) => (Meaning::IcmpCode, ALL),
        (0, 156) => (Meaning::First(Clock::Ntp), 0),
        (0, 154) => (Meaning::First(Clock::Ntp), 1),
        (0, 152) => (Meaning::First(Clock::Milliseconds), 2),
        (0, 158) => (Meaning::First(Clock::MicrosecondsBefore), 3),
        (0, 22) => (Meaning::First(Clock::Uptime), 4),
        (0, 150) => (Meaning::First(Clock::Seconds), 5),
        (0, 157) => (Meaning::Last(Clock::Ntp), 0),
        (0, 155) => (Meaning::Last(Clock::Ntp), 1),
        (0, 153) => (Meaning::Last(Clock::Milliseconds), 2),
        (0, 159) => (Meaning::Last(Clock::MicrosecondsBefore), 3),
        (0, 21) => (Meaning::Last(Clock::Uptime), 4),
        (0, 151) => (Meaning::Last(Clock::Seconds), 5),
        (0, 161) => (Meaning::DurationMilliseconds, 0),
        (0, 162) => (Meaning::DurationMicroseconds, 0),
        (0, 323) => (Meaning::Observed, 0),
        (0, 160) => (Meaning::Boot, 0),
        (0, 239) => (Meaning::Biflow, 0),
        (0, 34 | 50) => (Meaning::SamplingInterval, ALL),
        (0, 48) => (Meaning::Sampler, 1),
        (0, 302) => (Meaning::Sampler, 0),
        (0, 305) => (Meaning::PacketInterval, 0),
        (0, 306) => (Meaning::PacketSpace, 0),
        (0, 309) => (Meaning::SamplingSize, 0),
        (0, 310) => (Meaning::SamplingPopulation, 0),
        (0, 304) => (Meaning::SamplingAlgorithm, 0),
        (0, 311) => (Meaning::SamplingProbability, 0),
        (0, 145) => (Meaning::TemplateId, 0),
        (0, 148) => (Meaning::FlowId, 0),
        (0, 315) => (Meaning::Frame, 0),
        (0, 313) => (Meaning::IpSection, 0),
        (0, 312) => (Meaning::FrameSize, 0),
        (0, 95) => (Meaning::ApplicationTag, 0),
        (PEN_REVERSE, 1) => (Meaning::ReverseOctets, 0),
        (PEN_REVERSE, 2) => (Meaning::ReversePackets, 0),
        (PEN_REVERSE, 85) => (Meaning::ReverseOctets, 1),
        (PEN_REVERSE, 86) => (Meaning::ReversePackets, 1),
        (PEN_REVERSE, 231) => (Meaning::ReverseOctets, 2),
        (PEN_REVERSE, 298) => (Meaning::ReversePackets, 2),
        (PEN_REVERSE, 5) => (Meaning::ReverseClassOfService, 0),
        (PEN_REVERSE, 6) => (Meaning::ReverseFlags, 0),
        // Flags of the first packet, and of all others.
        (PEN_YAF, 14 | 15) => (Meaning::Flags, ALL),
        (PEN_YAF, id) if matches!(id ^ YAF_REVERSE, 14 | 15) => (Meaning::ReverseFlags, ALL),
        // Incoming and outgoing octets, from the initiator's point of view.
        (PEN_PROCERA, 3) => (Meaning::ReverseOctets, 3),
        (PEN_PROCERA, 4) => (Meaning::Octets, 3),
        (PEN_NTOP, 78) => (Meaning::Flags, 1),
        (PEN_NTOP, 79) => (Meaning::ReverseFlags, 1),
        (PEN_NTOP, 109) => (Meaning::Retransmissions, 0),
        (PEN_NTOP, 110) => (Meaning::ReverseRetransmissions, 0),
        (PEN_NTOP, 111) => (Meaning::OutOfOrder, 0),
        (PEN_NTOP, 112) => (Meaning::ReverseOutOfOrder, 0),
        (PEN_NTOP, 118) => (Meaning::Application, 0),
        (PEN_NTOP, 123 | 124) => (Meaning::Latency, ALL),
        (PEN_NTOP, 180) => (Meaning::ServerLocator, ALL),
        // Server names from TLS, from HTTP, and of a site in HTTP.
        (PEN_NTOP, 187 | 188 | 361) => (Meaning::ServerName, ALL),
        (PEN_NTOP, 205) => (Meaning::DnsQuery, 0),
        _ => return None,
    })
}

impl Meaning {
    /// Equal for elements that exclude each other within a record.
    pub fn slot(self) -> Meaning {
        match self {
            Meaning::First(_) => Meaning::First(Clock::Uptime),
            Meaning::Last(_) => Meaning::Last(Clock::Uptime),
            other => other,
        }
    }

    /// Whether it is a field of a packet header, which tunnels have twice.
    pub(super) fn is_of_header(self) -> bool {
        self.is_address()
            || matches!(
                self,
                Meaning::SourcePort
                    | Meaning::DestinationPort
                    | Meaning::Protocol
                    | Meaning::Version
                    | Meaning::Flags
                    | Meaning::ClassOfService
                    | Meaning::Icmp
                    | Meaning::IcmpType
                    | Meaning::IcmpCode
            )
    }

    pub(super) fn is_address(self) -> bool {
        matches!(self, Meaning::Source4 | Meaning::Destination4 | Meaning::Source6 | Meaning::Destination6)
    }

    /// Whether its value is read as a number, as an IPv4 address is.
    pub(super) fn is_number(self) -> bool {
        !matches!(
            self,
            Meaning::Source6
                | Meaning::Destination6
                | Meaning::ApplicationTag
                | Meaning::ServerName
                | Meaning::ServerLocator
                | Meaning::DnsQuery
                | Meaning::Frame
                | Meaning::IpSection
                | Meaning::Skip
        )
    }

    /// Whether a field of this length can be read as this element.
    pub fn takes(self, length: u16) -> bool {
        match self {
            Meaning::Source4 | Meaning::Destination4 => length == 4,
            Meaning::Source6 | Meaning::Destination6 => length == 16,
            Meaning::First(Clock::Ntp) | Meaning::Last(Clock::Ntp) => length == 8,
            Meaning::ApplicationTag
            | Meaning::ServerName
            | Meaning::ServerLocator
            | Meaning::DnsQuery
            | Meaning::Frame
            | Meaning::IpSection
            | Meaning::Skip => true,
            _ => (1..=8).contains(&length),
        }
    }
}
