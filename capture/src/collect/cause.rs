//! Why something of an exporter's is in no record, or in one that differs from what was sent.

/// What was left out, or mended, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Refusal {
    /// Datagrams that are neither NetFlow v5, v9, IPFIX nor sFlow v5, and messages in a form that nProbe has not.
    UnknownVersion,
    /// Datagrams and messages that end before their headers or records do.
    Truncated,
    /// Sets, samples and messages with an impossible length.
    BadLength,
    /// Sets with a reserved id.
    UnknownSet,
    /// Templates that are cut, empty, too long, or of an id that data cannot have.
    BadTemplate,
    /// Sets of data whose template did not come in time, or that waited when too much did.
    UnknownTemplate,
    /// Records without two addresses.
    NoAddress,
    /// Records that count neither packets nor octets.
    Empty,
    /// Samples of frames without IP.
    NotIp,
    /// Samples whose frame breaks off, is malformed, or of a link layer that is not understood.
    BadHeader,
    /// Records with an impossible time, handed over with the time of export in its place.
    TimeClamped,
    /// Datagrams from an exporter whose clock is far off: their records' times were moved to this host's clock.
    ClockOff,
    /// Templates forgotten for newer ones.
    TemplatesForgotten,
    /// Sampling rates and sFlow sources forgotten for newer ones.
    OptionsForgotten,
    /// Exporters forgotten for newer ones.
    ExportersForgotten,
    /// Counters and names of interfaces that were not kept, because a sender named too many.
    InterfacesForgotten,
    /// Datagrams that came while the collector's socket was full: counted by the kernel, of whom is not known.
    SocketFull,
    /// Payloads, or lines, that are no JSON, or break off.
    BadJson,
    /// Values that their elements cannot have: left out, the record is taken without them.
    BadValue,
    /// Payloads that zlib did not make, or that become longer than 16 MiB.
    BadCompression,
    /// Datagrams that came twice, and records that tell an event, or totals, that another told.
    Repeated,
    /// Samples of sFlow's of a kind that is not read.
    UnknownSample,
    /// Records with more octets a packet, or more of either, than can be.
    Absurd,
    /// Records whose octets are those of the payload alone (IE 231, 232), taken as they are.
    PayloadOctets,
}

impl Refusal {
    /// Every cause, in the order of its discriminants.
    pub const ALL: [Refusal; 24] = [
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
        Refusal::BadJson,
        Refusal::BadValue,
        Refusal::BadCompression,
        Refusal::Repeated,
        Refusal::UnknownSample,
        Refusal::Absurd,
        Refusal::PayloadOctets,
    ];

    /// What the cause means, and what is counted, for a person.
    pub fn meaning(self) -> &'static str {
        match self {
            Refusal::UnknownVersion => "datagrams that are neither NetFlow, IPFIX nor sFlow, messages not of nProbe's",
            Refusal::Truncated => "datagrams and messages that end before their headers or records do",
            Refusal::BadLength => "sets, samples and messages with an impossible length",
            Refusal::UnknownSet => "sets with a reserved id",
            Refusal::BadTemplate => "templates that are cut, empty, too long, or of an id that data cannot have",
            Refusal::UnknownTemplate => "sets of data whose template did not come in time, or when too many waited",
            Refusal::NoAddress => "records without two addresses",
            Refusal::Empty => "records that count neither packets nor octets",
            Refusal::NotIp => "samples of frames without IP: ARP, LLDP, ...",
            Refusal::BadHeader => "samples whose frame breaks off, is malformed, or of a link layer not understood",
            Refusal::TimeClamped => "records handed over with the time of export in place of an impossible one",
            Refusal::ClockOff => "datagrams from an exporter whose clock is far off; times were moved to this host's",
            Refusal::TemplatesForgotten => "templates forgotten for newer ones",
            Refusal::OptionsForgotten => "sampling rates and sFlow sources forgotten for newer ones",
            Refusal::ExportersForgotten => "exporters forgotten for newer ones",
            Refusal::InterfacesForgotten => "counters and names of interfaces not kept: a sender named too many",
            Refusal::SocketFull => "datagrams that found the collector's socket full; of whom is not known",
            Refusal::BadJson => "payloads or lines of nProbe's that are no JSON, or break off",
            Refusal::BadValue => "values that their elements cannot have; the record is taken without them",
            Refusal::BadCompression => "payloads that zlib did not make, or that become longer than 16 MiB",
            Refusal::Repeated => "datagrams that came twice, and records that tell again what another told",
            Refusal::UnknownSample => "samples of sFlow's of a kind that is not read",
            Refusal::Absurd => "records with more octets a packet, or more of either, than can be",
            Refusal::PayloadOctets => "records taken with the octets of their payload alone, as firewalls count them",
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
            Refusal::BadJson => "bad_json",
            Refusal::BadValue => "bad_value",
            Refusal::BadCompression => "bad_compression",
            Refusal::Repeated => "repeated",
            Refusal::UnknownSample => "unknown_sample",
            Refusal::Absurd => "absurd",
            Refusal::PayloadOctets => "payload_octets",
        }
    }
}
