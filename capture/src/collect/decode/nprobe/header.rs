//! The first frame of a ZeroMQ message, which describes the second.
//!
//! Derived from public sources: ntopng's structures and its receiver (headers of 40, 24 and 28 octets, versions 0 to
//! 3), ntop's ipt_geofence (the 28 octets' order) and netflow2ng, which publishes to ntopng (36 octets, version 4: its
//! flags, and the byte order of each number). 24 octets are: topic (16), version, source, length of the payload (2),
//! number of the message (4). 28: the same, but the source comes last, in 4 octets. 36: topic, version, flags, 2 of
//! padding, length before and after compression, number, source.

use crate::collect::cause::Refusal;

/// The topic of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum ZmqTopic {
    Flow,
    /// The nProbe's totals.
    Event,
    Counter,
    /// The templates of records.
    Template,
    Option,
    /// An nProbe that began.
    Hello,
    /// Ports that the nProbe listens on.
    ListeningPorts,
    SnmpInterfaces,
    /// Any other topic.
    Other,
}

impl ZmqTopic {
    /// Every topic, in the order of its discriminants.
    pub const ALL: [ZmqTopic; 9] = [
        ZmqTopic::Flow,
        ZmqTopic::Event,
        ZmqTopic::Counter,
        ZmqTopic::Template,
        ZmqTopic::Option,
        ZmqTopic::Hello,
        ZmqTopic::ListeningPorts,
        ZmqTopic::SnmpInterfaces,
        ZmqTopic::Other,
    ];

    /// The topic as messages, metrics and the summary name it.
    pub fn name(self) -> &'static str {
        match self {
            ZmqTopic::Flow => "flow",
            ZmqTopic::Event => "event",
            ZmqTopic::Counter => "counter",
            ZmqTopic::Template => "template",
            ZmqTopic::Option => "option",
            ZmqTopic::Hello => "hello",
            ZmqTopic::ListeningPorts => "listening-ports",
            ZmqTopic::SnmpInterfaces => "snmp-ifaces",
            ZmqTopic::Other => "other",
        }
    }
}

/// How a payload is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Tlv,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) topic: ZmqTopic,
    pub(super) form: Form,
    /// Whether the payload is declared as compressed, whatever it begins with.
    pub(super) compressed: bool,
    /// The publisher's number for itself.
    pub(super) source: u32,
    /// The message's number among all messages of its publisher; `None` in version 0, which has none.
    pub(super) number: Option<u32>,
}

/// The layouts of headers, by their octets.
#[derive(Clone, Copy)]
enum Layout {
    Legacy = 40,
    Short = 24,
    Long = 28,
    WithFlags = 36,
}

impl Layout {
    const ALL: [Layout; 4] = [Layout::Legacy, Layout::Short, Layout::Long, Layout::WithFlags];
}

/// Flags of version 4.
const TLV: u8 = 2;
const COMPRESSED: u8 = 4;

impl Header {
    /// Reads a header. The payload's length in the header is not needed: ZeroMQ delimits frames, and an agent of
    /// version 2 states a wrong length for more than 65,535 octets.
    ///
    /// # Errors
    /// [`Refusal::BadLength`] for a frame of another size, [`Refusal::UnknownVersion`] for a version that its size cannot have.
    pub(super) fn read(frame: &[u8]) -> Result<Header, Refusal> {
        let layout = Layout::ALL.into_iter().find(|&layout| layout as usize == frame.len());
        let layout = layout.ok_or(Refusal::BadLength)?;
        let (topic, rest) = frame.split_at(if matches!(layout, Layout::Legacy) { 32 } else { 16 });
        let word = |at: usize| <[u8; 4]>::try_from(&rest[at..at + 4]).unwrap_or_default();
        let json = Header { topic: topic_of(topic), form: Form::Json, compressed: false, source: 0, number: None };
        match (layout, rest[0]) {
            (Layout::Legacy, 0) => Ok(json),
            // The publisher writes the number in its own byte order, which is little-endian on nearly all machines.
            (Layout::Short, 1) => Ok(Header { number: Some(u32::from_le_bytes(word(4))), ..json }),
            (Layout::Short, version @ (2 | 3)) => {
                let number = Some(u32::from_be_bytes(word(4)));
                Ok(Header { form: form(version == 3), source: u32::from(rest[1]), number, ..json })
            }
            (Layout::Long, version @ (2 | 3)) => {
                let (number, source) = (Some(u32::from_be_bytes(word(4))), u32::from_le_bytes(word(8)));
                Ok(Header { form: form(version == 3), source, number, ..json })
            }
            (Layout::WithFlags, 4) => {
                let (number, source) = (Some(u32::from_be_bytes(word(12))), u32::from_be_bytes(word(16)));
                let flags = rest[1];
                Ok(Header { form: form(flags & TLV != 0), compressed: flags & COMPRESSED != 0, source, number, ..json })
            }
            _ => Err(Refusal::UnknownVersion),
        }
    }
}

fn form(tlv: bool) -> Form {
    if tlv { Form::Tlv } else { Form::Json }
}

/// Recognises the topic by its first letter, as ntopng does.
fn topic_of(topic: &[u8]) -> ZmqTopic {
    let letter = topic.first().copied();
    let known = ZmqTopic::ALL.into_iter().find(|topic| letter == topic.name().bytes().next());
    known.unwrap_or(ZmqTopic::Other)
}
