//! Turns the keys and values of a message into flow records.

use super::keys::{JsonKey, Keys};
use super::left_out::LeftOut;
use crate::collect::cause::Refusal;
use crate::collect::element::moment::Moment;
use crate::collect::element::octets::{is_mapped, mapped, text};
use crate::collect::element::values::{Shape, Values, host};
use crate::collect::element::{ALL, Clock, Meaning};
use crate::collect::exporter::Exporters;
use crate::collect::exporter::origin::ExporterInfo;
use crate::collect::limits::DecodeLimits;
use crate::collect::record::Imported;
use crate::packet::{self, Address};
use std::borrow::Cow;
use std::net::IpAddr;

/// A value, whatever form it came in.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum NprobeValue<'a> {
    Number(u64),
    Float(f64),
    Text(Cow<'a, str>),
    /// A value that no element has: a negative number, a boolean, an object.
    Other,
}

impl NprobeValue<'_> {
    /// The value as a number; a text may contain one.
    fn number(&self) -> Option<u64> {
        let whole = match self {
            NprobeValue::Number(number) => Some(*number),
            NprobeValue::Text(text) => text.trim().parse().ok(),
            NprobeValue::Float(_) | NprobeValue::Other => None,
        };
        whole.or_else(|| self.float().map(|float| float as u64))
    }

    fn float(&self) -> Option<f64> {
        let float = match self {
            NprobeValue::Number(number) => *number as f64,
            NprobeValue::Float(float) => *float,
            NprobeValue::Text(text) => text.trim().parse().ok()?,
            NprobeValue::Other => return None,
        };
        Some(float).filter(|float| float.is_finite() && *float >= 0.0)
    }

    fn address(&self) -> Option<Address> {
        match self {
            NprobeValue::Number(number) => u32::try_from(*number).ok().map(|number| mapped(number.to_be_bytes())),
            NprobeValue::Text(text) => text.parse::<IpAddr>().ok().map(packet::address),
            NprobeValue::Float(_) | NprobeValue::Other => None,
        }
    }

    fn is_empty(&self) -> bool {
        matches!(self, NprobeValue::Text(text) if text.is_empty())
    }
}

/// Number of record fields that more than one element can supply.
const RANKED: usize = 7;

/// One record so far.
#[derive(Clone, Debug)]
pub(super) struct Fields<'a> {
    values: Values<'static>,
    /// The ranks of the elements that apply.
    ranks: [u8; RANKED],
    /// Which addresses are present: IPv4, IPv6.
    four: [bool; 2],
    six: [bool; 2],
    /// Which of the times of first and last packet are present.
    times: [bool; 2],
    /// The record states that the initiator is unknown.
    unknown_initiator: bool,
    server_name: Cow<'a, str>,
    /// The server name, where an element states it as a URL.
    locator: Cow<'a, str>,
    dns_query: Cow<'a, str>,
    exporter: Option<Address>,
    probe: Option<Address>,
    /// Number of values that are invalid for their element.
    bad_values: u64,
}

/// The records of one message, and their receiver.
pub(super) struct NprobeRecords<'m, T> {
    pub(super) exporters: &'m mut Exporters,
    pub(super) limits: &'m DecodeLimits,
    pub(super) left_out: &'m mut LeftOut,
    /// Sender of the message: the exporter of records that name none.
    pub(super) from: ExporterInfo,
    pub(super) moment: Moment,
    pub(super) take: &'m mut T,
}

impl<T: FnMut(&ExporterInfo, &Imported<'_>)> NprobeRecords<'_, T> {
    /// An empty record.
    pub(super) fn begin<'a>(&self) -> Fields<'a> {
        Fields {
            values: Values::default(),
            ranks: [ALL; RANKED],
            four: [false; 2],
            six: [false; 2],
            times: [false; 2],
            unknown_initiator: false,
            server_name: Cow::Borrowed(""),
            locator: Cow::Borrowed(""),
            dns_query: Cow::Borrowed(""),
            exporter: None,
            probe: None,
            bad_values: 0,
        }
    }

    /// The key of this name or number, as text; `None`, counted, if Weir does not use it.
    #[inline]
    pub(super) fn named(&mut self, key: &str) -> Option<JsonKey> {
        let found = Keys::all().find(key);
        self.placed(found, || Cow::Borrowed(key))
    }

    /// The same for a number.
    pub(super) fn numbered(&mut self, key: u64) -> Option<JsonKey> {
        let found = u32::try_from(key).ok().and_then(|key| Keys::all().numbered(key));
        self.placed(found, || Cow::Owned(key.to_string()))
    }

    fn placed<'k>(&mut self, found: Option<JsonKey>, name: impl FnOnce() -> Cow<'k, str>) -> Option<JsonKey> {
        match found {
            Some(JsonKey::Nowhere(place)) => self.left_out.count_known(place),
            None => self.left_out.count(&name()),
            Some(_) => return found,
        }
        None
    }

    /// Takes in a value. Leaves out and counts a value that the element cannot have; empty text is no value.
    #[inline]
    pub(super) fn set<'a>(&self, fields: &mut Fields<'a>, key: JsonKey, value: NprobeValue<'a>) {
        if !value.is_empty() && fields.set(key, value).is_none() {
            fields.bad_values += 1;
        }
    }

    /// Hands a record over.
    pub(super) fn end(&mut self, fields: &mut Fields<'_>) {
        let named = fields.exporter.or(fields.probe).unwrap_or(self.from.address);
        let info = ExporterInfo { address: named, ..self.from };
        let exporter = self.exporters.get(&info, self.limits);
        exporter.heard_ms = exporter.heard_ms.max(self.moment.received_ms);
        exporter.counts.causes[Refusal::BadValue as usize] += fields.bad_values;
        let [first, last] = fields.times.map(|is_there| is_there.then_some(Clock::Milliseconds));
        let shape = Shape {
            four: fields.four == [true; 2],
            six: fields.six == [true; 2],
            first,
            last,
            initiator_known: fields.values.is_answered() && !fields.unknown_initiator,
            frame: None,
        };
        match fields.values.complete(&shape, &self.moment, self.limits) {
            Ok(mended) => {
                let mut record: Imported<'_> = fields.values.record;
                exporter.counts.records += 1;
                exporter.counts.causes[Refusal::TimeClamped as usize] += u64::from(mended);
                record.sampling = fields.values.sampled.rate();
                record.server_name = text(fields.server_name.as_bytes());
                if record.server_name.is_empty() {
                    record.server_name = host(text(fields.locator.as_bytes()));
                }
                record.dns_query = text(fields.dns_query.as_bytes());
                (self.take)(&info, &record);
            }
            Err(cause) => exporter.counts.count(cause),
        }
    }

    /// Counts an error of the message by its cause.
    pub(super) fn count(&mut self, cause: Refusal) {
        self.exporters.get(&self.from, self.limits).counts.count(cause);
    }
}

impl<'a> Fields<'a> {
    /// Sets the value of an element; `None` if the element cannot have this value.
    fn set(&mut self, key: JsonKey, value: NprobeValue<'a>) -> Option<()> {
        let (what, rank) = match key {
            JsonKey::Part(what, rank) => (what, rank),
            JsonKey::Exporter => {
                replace(&mut self.exporter, value.address()?);
                return Some(());
            }
            JsonKey::Probe => {
                replace(&mut self.probe, value.address()?);
                return Some(());
            }
            JsonKey::Nowhere(_) => return Some(()),
        };
        match what {
            Meaning::Source4 | Meaning::Source6 => self.address(0, &value.address()?),
            Meaning::Destination4 | Meaning::Destination6 => self.address(1, &value.address()?),
            Meaning::ServerName => keep(&mut self.server_name, value)?,
            Meaning::ServerLocator => keep(&mut self.locator, value)?,
            Meaning::DnsQuery => keep(&mut self.dns_query, value)?,
            Meaning::Latency => self.values.half_round_trip(value.float()?),
            Meaning::Application => self.values.number(what, application(&value)?),
            _ => self.number(what, rank, value.number()?)?,
        }
        Some(())
    }

    fn address(&mut self, end: usize, address: &Address) {
        let of = if is_mapped(address) { &mut self.four } else { &mut self.six };
        of[end] = true;
        self.values.address(end, address);
    }

    fn number(&mut self, what: Meaning, rank: u8, number: u64) -> Option<()> {
        let most = match what {
            Meaning::SourcePort | Meaning::DestinationPort | Meaning::Icmp => u64::from(u16::MAX),
            Meaning::Protocol
            | Meaning::Version
            | Meaning::ClassOfService
            | Meaning::ReverseClassOfService
            | Meaning::Biflow
            | Meaning::IcmpType
            | Meaning::IcmpCode => u64::from(u8::MAX),
            Meaning::Vlan => 0xfff,
            _ => u64::MAX,
        };
        if number > most {
            return None;
        }
        let time = match what {
            Meaning::First(_) => Some(0),
            Meaning::Last(_) => Some(1),
            _ => None,
        };
        // A time that is not set does not replace those of other elements.
        if time.is_some() && number == 0 {
            return Some(());
        }
        if let Some(slot) = slot(what) {
            if rank >= self.ranks[slot] {
                return Some(());
            }
            self.ranks[slot] = rank;
        }
        let number = match time {
            Some(end) => {
                self.times[end] = true;
                milliseconds(number)
            }
            None => number,
        };
        self.unknown_initiator |= what == Meaning::Biflow && number == 0;
        self.values.number(what, number);
        Some(())
    }
}

/// Parts of a record that several elements can state; an index into [`Fields::ranks`].
fn slot(what: Meaning) -> Option<usize> {
    Some(match what {
        Meaning::Octets => 0,
        Meaning::Packets => 1,
        Meaning::ReverseOctets => 2,
        Meaning::ReversePackets => 3,
        Meaning::Flags => 4,
        Meaning::First(_) => 5,
        Meaning::Last(_) => 6,
        _ => return None,
    })
}

/// Converts a time since 1970 to ms; its size shows the unit: until the year 5138 the ranges of the units do not
/// overlap.
fn milliseconds(time: u64) -> u64 {
    match time {
        0..100_000_000_000 => time * 1000,
        100_000_000_000..100_000_000_000_000 => time,
        100_000_000_000_000..100_000_000_000_000_000 => time / 1000,
        _ => time / 1_000_000,
    }
}

/// nDPI's number of the application: 126 in `7.126`, which is a protocol and the application within it.
fn application(value: &NprobeValue<'_>) -> Option<u64> {
    let parts = match value {
        NprobeValue::Text(text) => text.split_once('.'),
        _ => None,
    };
    let number = match parts {
        Some((protocol, application)) => match application.trim().parse().ok()? {
            0 => protocol.trim().parse().ok()?,
            application => application,
        },
        // A JSON number lacks trailing zeros of the part after the point, so only the protocol is certain.
        None => value.number()?,
    };
    u16::try_from(number).ok().map(u64::from)
}

/// Sets an address that is not set yet, unless the new one is zero.
fn replace(address: &mut Option<Address>, with: Address) {
    if with != mapped([0; 4]) && with != Address::default() {
        address.get_or_insert(with);
    }
}

/// The first name stays.
fn keep<'a>(name: &mut Cow<'a, str>, value: NprobeValue<'a>) -> Option<()> {
    let NprobeValue::Text(text) = value else { return None };
    if name.is_empty() {
        *name = text;
    }
    Some(())
}
