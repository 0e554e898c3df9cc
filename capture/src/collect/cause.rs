//! Causes: why data that an exporter sent is missing from the records, or was changed.

/// Why the collector left something out, or corrected it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Refusal {
    /// Datagrams that are neither NetFlow v5, v9, IPFIX nor sFlow v5, and messages in a form that nProbe does not send.
    UnknownVersion,
    /// Datagrams and messages that end before their headers or records do.
    Truncated,
    /// Sets, samples and messages with an impossible length.
    BadLength,
    /// Sets with a reserved id.
    UnknownSet,
    /// Templates that are cut, empty, too long, or of an id that data cannot have.
    BadTemplate,
    /// Data sets whose template did not arrive in time, or that were dropped because too many waited.
    UnknownTemplate,
    /// Records without two addresses.
    NoAddress,
    /// Records that count neither packets nor octets.
    Empty,
    /// Samples of frames without IP.
    NotIp,
    /// Samples whose frame is cut short, malformed, or of an unsupported link layer.
    BadHeader,
    /// Records with an impossible time, which the time of export replaces.
    TimeClamped,
    /// Datagrams from an exporter whose clock is far off. The collector converted their records' times to this host's
    /// clock.
    ClockOff,
    /// Templates forgotten for newer ones.
    TemplatesForgotten,
    /// Sampling rates and sFlow sources forgotten for newer ones.
    OptionsForgotten,
    /// Exporters forgotten for newer ones.
    ExportersForgotten,
    /// Counters and names of interfaces that were dropped because a sender used too many.
    InterfacesForgotten,
    /// Datagrams that the kernel dropped because the collector's socket was full; their exporters are unknown.
    SocketFull,
    /// Connections that the collector closed for newer ones, since there were too many.
    ConnectionsClosed,
    /// Connections that the collector closed because no whole message came within a minute.
    ConnectionsSilent,
    /// Datagrams of addresses without an established exporter, dropped unread while a socket was filling up.
    StrangersShed,
    /// Datagrams and connections from addresses that the list of exporters does not have.
    ExporterNotAllowed,
    /// Payloads, or lines, that are not JSON or are incomplete.
    BadJson,
    /// Values that their elements cannot have: the record is used without them.
    BadValue,
    /// Payloads that are not zlib data, or that expand to more than 16 MiB.
    BadCompression,
    /// Datagrams received twice, and records that repeat an event or totals that another record reported.
    Repeated,
    /// sFlow samples of an unsupported kind.
    UnknownSample,
    /// Records with impossible counts: too many octets per packet, too many packets or too many octets.
    Absurd,
    /// Records that count only payload octets (IE 231, 232), used unchanged.
    PayloadOctets,
    /// Totals and events that an earlier record may have reported: it arrived before the collector restarted, or before
    /// it forgot their flow. They count nothing; later totals of the flow count from there.
    MayBeRepeated,
    /// Flows whose last totals were forgotten for newer ones.
    TotalsForgotten,
}

/// Counts, indexed by [`Refusal`].
pub type Causes = [u64; Refusal::ALL.len()];

impl Refusal {
    /// Every cause, in the order of its discriminants.
    pub const ALL: [Refusal; 30] = [
        Refusal::UnknownVersion,
        Refusal::Truncated,
        Refusal::BadLength,
        Refusal::UnknownSet,
        Refusal::BadTemplate,
        Refusal::UnknownTemplate,
        Refusal::NoAddress,
        Refusal::Empty,
        Refusal::NotIp,
        Refusal::BadHeader,
        Refusal::TimeClamped,
        Refusal::ClockOff,
        Refusal::TemplatesForgotten,
        Refusal::OptionsForgotten,
        Refusal::ExportersForgotten,
        Refusal::InterfacesForgotten,
        Refusal::SocketFull,
        Refusal::ConnectionsClosed,
        Refusal::ConnectionsSilent,
        Refusal::StrangersShed,
        Refusal::ExporterNotAllowed,
        Refusal::BadJson,
        Refusal::BadValue,
        Refusal::BadCompression,
        Refusal::Repeated,
        Refusal::UnknownSample,
        Refusal::Absurd,
        Refusal::PayloadOctets,
        Refusal::MayBeRepeated,
        Refusal::TotalsForgotten,
    ];

    /// The cause in plain words, and the unit that it counts.
    pub fn meaning(self) -> &'static str {
        match self {
            Refusal::UnknownVersion => {
                "datagrams other than NetFlow, IPFIX and sFlow, and messages other than nProbe's"
            }
            Refusal::Truncated => "datagrams and messages that end before their headers or records do",
            Refusal::BadLength => "sets, samples and messages with an impossible length",
            Refusal::UnknownSet => "sets with a reserved id",
            Refusal::BadTemplate => "templates that are cut, empty, too long, or with an id that data cannot have",
            Refusal::UnknownTemplate => {
                "data sets whose template did not come in time, or dropped when too many waited"
            }
            Refusal::NoAddress => "records without two addresses",
            Refusal::Empty => "records that count neither packets nor octets",
            Refusal::NotIp => "samples of frames without IP: ARP, LLDP, ...",
            Refusal::BadHeader => "samples whose frame is cut short, malformed, or of an unsupported link layer",
            Refusal::TimeClamped => "records in which the time of export replaces an impossible one",
            Refusal::ClockOff => "datagrams from an exporter whose clock is far off; times were moved to this host's",
            Refusal::TemplatesForgotten => "templates forgotten for newer ones",
            Refusal::OptionsForgotten => "sampling rates and sFlow sources forgotten for newer ones",
            Refusal::ExportersForgotten => "exporters forgotten for newer ones",
            Refusal::InterfacesForgotten => "counters and names of interfaces dropped because a sender used too many",
            Refusal::SocketFull => "datagrams that the kernel dropped because the collector's socket was full",
            Refusal::ConnectionsClosed => "connections closed for newer ones, because there were too many",
            Refusal::ConnectionsSilent => "connections closed because no whole message came within a minute",
            Refusal::StrangersShed => {
                "datagrams of addresses without an established exporter, dropped while a socket was filling up"
            }
            Refusal::ExporterNotAllowed => "datagrams and connections from addresses that `[collect] exporters` lacks",
            Refusal::BadJson => "payloads or lines from nProbe that are not JSON, or are incomplete",
            Refusal::BadValue => "values that their elements cannot have; the record is used without them",
            Refusal::BadCompression => "payloads that are not zlib data, or that expand to more than 16 MiB",
            Refusal::Repeated => "datagrams received twice, and records that repeat what another reported",
            Refusal::UnknownSample => "sFlow samples of an unsupported kind",
            Refusal::Absurd => "records with impossible counts of packets or octets",
            Refusal::PayloadOctets => "records that count only payload octets, as some firewalls do",
            Refusal::MayBeRepeated => {
                "running totals and events that may have been counted before, and so count nothing: the collector \
                 restarted, or forgot their flow"
            }
            Refusal::TotalsForgotten => "flows whose last totals were forgotten for newer ones",
        }
    }

    /// The cause as metrics and the summary name it.
    pub fn name(self) -> &'static str {
        match self {
            Refusal::UnknownVersion => "unknown_version",
            Refusal::Truncated => "truncated",
            Refusal::BadLength => "bad_length",
            Refusal::UnknownSet => "unknown_set",
            Refusal::BadTemplate => "bad_template",
            Refusal::UnknownTemplate => "unknown_template",
            Refusal::NoAddress => "no_address",
            Refusal::Empty => "empty",
            Refusal::NotIp => "not_ip",
            Refusal::BadHeader => "bad_header",
            Refusal::TimeClamped => "time_clamped",
            Refusal::ClockOff => "clock_off",
            Refusal::TemplatesForgotten => "templates_forgotten",
            Refusal::OptionsForgotten => "options_forgotten",
            Refusal::ExportersForgotten => "exporters_forgotten",
            Refusal::InterfacesForgotten => "interfaces_forgotten",
            Refusal::SocketFull => "socket_full",
            Refusal::ConnectionsClosed => "connections_closed",
            Refusal::ConnectionsSilent => "connections_silent",
            Refusal::StrangersShed => "strangers_shed",
            Refusal::ExporterNotAllowed => "exporter_not_allowed",
            Refusal::BadJson => "bad_json",
            Refusal::BadValue => "bad_value",
            Refusal::BadCompression => "bad_compression",
            Refusal::Repeated => "repeated",
            Refusal::UnknownSample => "unknown_sample",
            Refusal::Absurd => "absurd",
            Refusal::PayloadOctets => "payload_octets",
            Refusal::MayBeRepeated => "may_be_repeated",
            Refusal::TotalsForgotten => "totals_forgotten",
        }
    }
}
