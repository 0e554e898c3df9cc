//! Information elements (IANA's registry, RFC 5103, ntop's PEN 35632): what each means to a record.

/// Private enterprise number of reverse information elements (RFC 5103, section 6.1).
pub(super) const PEN_REVERSE: u32 = 29_305;
/// Private enterprise number of ntop.
pub(super) const PEN_NTOP: u32 = 35_632;
/// NetFlow v9 has no enterprises: ntop's element n has this number more there.
pub(super) const V9_NTOP: u16 = 57_472;

/// A unit of time, and what it counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clock {
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

/// What an element is to a record; `Reverse…`: of the destination's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
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
    /// IE 23 and 24: of whom is decided by the template as a whole (see [`super::template`]).
    PostOctets,
    PostPackets,
    Flags,
    ReverseFlags,
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
    /// One packet in so many (IE 34, 50).
    SamplingInterval,
    Sampler,
    PacketInterval,
    PacketSpace,
    SamplingSize,
    SamplingPopulation,
    Application,
    /// IE 95 (RFC 6759).
    ApplicationTag,
    /// Half a round trip between an end and the exporter, ms.
    Latency,
    ServerName,
    ServerLocator,
    DnsQuery,
    /// Of variable length and no meaning here: it only moves what follows.
    Skip,
}

/// Preference among elements of the same slot: only the lowest of a template is read, the first one of equals. Elements
/// of rank [`ALL`] are all read.
pub(super) const ALL: u8 = u8::MAX;

/// What the element `id` of the enterprise `pen` (0: IANA's) means, and its rank; `None` where it means nothing here.
pub(super) fn meaning(pen: u32, id: u16) -> Option<(What, u8)> {
    Some(match (pen, id) {
        (0, 1) => (What::Octets, 0),
        (0, 2) => (What::Packets, 0),
        (0, 85) => (What::Octets, 1),
        (0, 86) => (What::Packets, 1),
        // Of a firewall's connection: the initiator is the source.
        (0, 231) => (What::Octets, 2),
        (0, 298) => (What::Packets, 2),
        (0, 232) => (What::ReverseOctets, 2),
        (0, 299) => (What::ReversePackets, 2),
        (0, 23) => (What::PostOctets, 0),
        (0, 24) => (What::PostPackets, 0),
        (0, 4) => (What::Protocol, 0),
        (0, 6) => (What::Flags, 0),
        (0, 7) => (What::SourcePort, 0),
        (0, 11) => (What::DestinationPort, 0),
        // Ports of UDP and of TCP alone.
        (0, 180 | 182) => (What::SourcePort, ALL),
        (0, 181 | 183) => (What::DestinationPort, ALL),
        (0, 8) => (What::Source4, 0),
        (0, 12) => (What::Destination4, 0),
        (0, 27) => (What::Source6, 0),
        (0, 28) => (What::Destination6, 0),
        (0, 10) => (What::InputInterface, 0),
        (0, 14) => (What::OutputInterface, 0),
        (0, 58) => (What::Vlan, 0),
        (0, 243) => (What::Vlan, 1),
        (0, 60) => (What::Version, 0),
        (0, 32 | 139) => (What::Icmp, ALL),
        (0, 176 | 178) => (What::IcmpType, ALL),
        (0, 177 | 179) => (What::IcmpCode, ALL),
        (0, 156) => (What::First(Clock::Ntp), 0),
        (0, 154) => (What::First(Clock::Ntp), 1),
        (0, 152) => (What::First(Clock::Milliseconds), 2),
        (0, 158) => (What::First(Clock::MicrosecondsBefore), 3),
        (0, 22) => (What::First(Clock::Uptime), 4),
        (0, 150) => (What::First(Clock::Seconds), 5),
        (0, 157) => (What::Last(Clock::Ntp), 0),
        (0, 155) => (What::Last(Clock::Ntp), 1),
        (0, 153) => (What::Last(Clock::Milliseconds), 2),
        (0, 159) => (What::Last(Clock::MicrosecondsBefore), 3),
        (0, 21) => (What::Last(Clock::Uptime), 4),
        (0, 151) => (What::Last(Clock::Seconds), 5),
        (0, 161) => (What::DurationMilliseconds, 0),
        (0, 162) => (What::DurationMicroseconds, 0),
        (0, 323) => (What::Observed, 0),
        (0, 160) => (What::Boot, 0),
        (0, 239) => (What::Biflow, 0),
        (0, 34 | 50) => (What::SamplingInterval, ALL),
        (0, 48) => (What::Sampler, 1),
        (0, 302) => (What::Sampler, 0),
        (0, 305) => (What::PacketInterval, 0),
        (0, 306) => (What::PacketSpace, 0),
        (0, 309) => (What::SamplingSize, 0),
        (0, 310) => (What::SamplingPopulation, 0),
        (0, 95) => (What::ApplicationTag, 0),
        (PEN_REVERSE, 1) => (What::ReverseOctets, 0),
        (PEN_REVERSE, 2) => (What::ReversePackets, 0),
        (PEN_REVERSE, 85) => (What::ReverseOctets, 1),
        (PEN_REVERSE, 86) => (What::ReversePackets, 1),
        (PEN_REVERSE, 6) => (What::ReverseFlags, 0),
        (PEN_NTOP, 78) => (What::Flags, 1),
        (PEN_NTOP, 79) => (What::ReverseFlags, 1),
        (PEN_NTOP, 109) => (What::Retransmissions, 0),
        (PEN_NTOP, 110) => (What::ReverseRetransmissions, 0),
        (PEN_NTOP, 111) => (What::OutOfOrder, 0),
        (PEN_NTOP, 112) => (What::ReverseOutOfOrder, 0),
        (PEN_NTOP, 118) => (What::Application, 0),
        (PEN_NTOP, 123 | 124) => (What::Latency, ALL),
        (PEN_NTOP, 180) => (What::ServerLocator, ALL),
        // Of TLS, of HTTP, of a site in HTTP.
        (PEN_NTOP, 187 | 188 | 361) => (What::ServerName, ALL),
        (PEN_NTOP, 205) => (What::DnsQuery, 0),
        _ => return None,
    })
}

impl What {
    /// The same number for elements of which a record can have but one.
    pub(super) fn slot(self) -> What {
        match self {
            What::First(_) => What::First(Clock::Uptime),
            What::Last(_) => What::Last(Clock::Uptime),
            other => other,
        }
    }

    /// Whether a field of so many octets can be read as this.
    pub(super) fn takes(self, length: u16) -> bool {
        match self {
            What::Source4 | What::Destination4 => length == 4,
            What::Source6 | What::Destination6 => length == 16,
            What::First(Clock::Ntp) | What::Last(Clock::Ntp) => length == 8,
            What::ApplicationTag | What::ServerName | What::ServerLocator | What::DnsQuery | What::Skip => true,
            _ => (1..=8).contains(&length),
        }
    }
}
