//! Why something of an exporter's is in no record, or in one that differs from what was sent.

/// What was left out, or mended, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Cause {
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
    /// Records that count neither packets nor octets, such as events of address translation.
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
    /// Datagrams that came while the collector's socket was full: counted by the kernel, of whom is not known.
    SocketFull,
    /// Payloads, or lines, that are no JSON, or break off.
    BadJson,
    /// Values that their elements cannot have: left out, the record is taken without them.
    BadValue,
    /// Payloads that zlib did not make, or that become longer than 16 MiB.
    BadCompression,
}

impl Cause {
    /// Every cause, in the order of its discriminants.
    pub const ALL: [Cause; 19] = [
        Cause::UnknownVersion,
        Cause::Truncated,
        Cause::BadLength,
        Cause::UnknownSet,
        Cause::BadTemplate,
        Cause::UnknownTemplate,
        Cause::NoAddress,
        Cause::Empty,
        Cause::NotIp,
        Cause::BadHeader,
        Cause::TimeClamped,
        Cause::ClockOff,
        Cause::TemplatesForgotten,
        Cause::OptionsForgotten,
        Cause::ExportersForgotten,
        Cause::SocketFull,
        Cause::BadJson,
        Cause::BadValue,
        Cause::BadCompression,
    ];

    /// What the cause means, and what is counted, for a person.
    pub fn meaning(self) -> &'static str {
        match self {
            Cause::UnknownVersion => "datagrams that are neither NetFlow, IPFIX nor sFlow, messages not of nProbe's",
            Cause::Truncated => "datagrams and messages that end before their headers or records do",
            Cause::BadLength => "sets, samples and messages with an impossible length",
            Cause::UnknownSet => "sets with a reserved id",
            Cause::BadTemplate => "templates that are cut, empty, too long, or of an id that data cannot have",
            Cause::UnknownTemplate => "sets of data whose template did not come in time, or when too many waited",
            Cause::NoAddress => "records without two addresses",
            Cause::Empty => "records that count neither packets nor octets",
            Cause::NotIp => "samples of frames without IP: ARP, LLDP, ...",
            Cause::BadHeader => "samples whose frame breaks off, is malformed, or of a link layer not understood",
            Cause::TimeClamped => "records handed over with the time of export in place of an impossible one",
            Cause::ClockOff => "datagrams from an exporter whose clock is far off; times were moved to this host's",
            Cause::TemplatesForgotten => "templates forgotten for newer ones",
            Cause::OptionsForgotten => "sampling rates and sFlow sources forgotten for newer ones",
            Cause::ExportersForgotten => "exporters forgotten for newer ones",
            Cause::SocketFull => "datagrams that found the collector's socket full; of whom is not known",
            Cause::BadJson => "payloads or lines of nProbe's that are no JSON, or break off",
            Cause::BadValue => "values that their elements cannot have; the record is taken without them",
            Cause::BadCompression => "payloads that zlib did not make, or that become longer than 16 MiB",
        }
    }

    /// The cause as metrics and the summary name it.
    pub fn name(self) -> &'static str {
        match self {
            Cause::UnknownVersion => "unknown_version",
            Cause::Truncated => "truncated",
            Cause::BadLength => "bad_length",
            Cause::UnknownSet => "unknown_set",
            Cause::BadTemplate => "bad_template",
            Cause::UnknownTemplate => "unknown_template",
            Cause::NoAddress => "no_address",
            Cause::Empty => "empty",
            Cause::NotIp => "not_ip",
            Cause::BadHeader => "bad_header",
            Cause::TimeClamped => "time_clamped",
            Cause::ClockOff => "clock_off",
            Cause::TemplatesForgotten => "templates_forgotten",
            Cause::OptionsForgotten => "options_forgotten",
            Cause::ExportersForgotten => "exporters_forgotten",
            Cause::SocketFull => "socket_full",
            Cause::BadJson => "bad_json",
            Cause::BadValue => "bad_value",
            Cause::BadCompression => "bad_compression",
        }
    }
}
