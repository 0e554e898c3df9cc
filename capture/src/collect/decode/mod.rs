//! NetFlow v5 and v9, IPFIX, sFlow v5, nProbe: datagrams and messages in, [`Imported`] records out.
//!
//! Our own, and no library's: netflow_parser 1.0.6 makes 0.8 million (v9) and 1.5 million (IPFIX) records of 18 fields a
//! second of lists of generic fields, before anything is looked up in them; here a template becomes a list of steps once.
//!
//! What an exporter sends is bounded in everything that it makes be kept ([`DecodeLimits`]), and whatever is left out or mended
//! is counted by [`Refusal`]. A [`Decoder`] is of one thread; one exporter's datagrams must all come to the same one.

mod netflow5;
mod nprobe;
mod sets;
pub(super) mod sflow;

pub use super::element::event::Take;
pub use super::element::routed::{Route, Routed};
pub use super::exporter::counting::Unit;
pub use super::exporter::sampling::SamplingState;
pub use nprobe::{Heard, ZmqTopic};

use super::cause::Refusal;
use super::element::event::FlowsAlone;
use super::element::moment::Moment;
use super::exporter::counting::Counting;
use super::exporter::totals::Totals;
use super::exporter::{Counts, Exporter, ExporterInfo, Exporters, Protocol, Session};
use super::limits::DecodeLimits;
use super::record::Imported;
use crate::packet::Address;
use foldhash::fast::RandomState;
use sets::{Message, WaitingSet};
use std::collections::BTreeMap;
use std::hash::BuildHasher as _;

/// One exporter, as the decoder knows it.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    pub info: &'a ExporterInfo,
    pub counts: &'a Counts,
    /// When it was last heard, ms from the Unix epoch.
    pub heard_ms: i64,
    /// Templates that it has now, in all sessions.
    pub templates: usize,
    /// Its only sampling rate: one packet in this many; `None` where it announced none or several.
    pub sampling: Option<u32>,
    /// What else is known of its sampling.
    pub sampling_state: SamplingState,
    /// What its sequence numbers count.
    pub unit: Unit,
}

/// Decodes what exporters send; see the module's documentation.
#[derive(Debug, Default)]
pub struct Decoder {
    limits: DecodeLimits,
    exporters: Exporters,
    waiting: WaitingSet,
    totals: Totals,
    /// What came of datagrams that are of no exporter.
    strange: Counts,
    /// Whose sets were shed by the datagram at hand.
    shed: Vec<(ExporterInfo, Session)>,
    hasher: RandomState,
    nprobe: nprobe::Nprobe,
}

/// Octets of a header.
const V9_HEADER: usize = 20;
const IPFIX_HEADER: usize = 16;
/// Octets of the beginning and of the end by which a datagram is known again.
const ENDS: usize = 96;

impl Decoder {
    /// A decoder that knows no exporters.
    pub fn new(limits: DecodeLimits) -> Decoder {
        Decoder { limits, ..Decoder::default() }
    }

    /// Reads a datagram as [`Decoder::datagram_to`] does, and hands over its records of flows alone.
    pub fn datagram(
        &mut self,
        from: impl Into<Session>,
        received_ns: i64,
        data: &[u8],
        take: &mut impl FnMut(&ExporterInfo, &Imported<'_>),
    ) {
        self.datagram_to(from, received_ns, data, &mut FlowsAlone(take));
    }

    /// Reads a datagram, or one IPFIX message of a stream or file, and hands over what it has. `from`: the session it came
    /// by; `received_ns`: when, ns from the Unix epoch. Never fails: what cannot be read is counted.
    pub fn datagram_to(&mut self, from: impl Into<Session>, received_ns: i64, data: &[u8], take: &mut impl Take) {
        let from = from.into();
        let received_ms = received_ns.div_euclid(1_000_000);
        self.expire(received_ms);
        let read = match data {
            [0, 5, ..] => self.netflow5(from, received_ms, data, take),
            [0, 9 | 10, ..] => self.templated(from, received_ms, data, take),
            [0, 0, 0, 5, ..] => {
                let when = (received_ms, self.content(data));
                sflow::datagram(&mut self.exporters, &self.limits, from.address, when, data, take)
            }
            [] | [0] | [0, 0] | [0, 0, 0] => Err(Refusal::Truncated),
            _ => Err(Refusal::UnknownVersion),
        };
        if let Err(cause) = read {
            self.strange.datagrams += 1;
            self.strange.octets += data.len() as u64;
            self.strange.count(cause);
        }
        for of in self.shed.drain(..) {
            sets::shed(&of, &mut self.exporters);
        }
    }

    /// Sheds the sets whose template did not come in time.
    #[inline]
    pub fn expire(&mut self, now_ms: i64) {
        self.waiting.expire(now_ms, &mut self.exporters, &self.limits);
    }

    /// Nothing follows: sheds all sets that wait.
    pub fn end(&mut self) {
        self.waiting.end(&mut self.exporters);
    }

    fn netflow5(&mut self, from: Session, received_ms: i64, data: &[u8], take: &mut impl Take) -> Result<(), Refusal> {
        let (header, records) = data.split_first_chunk::<{ netflow5::HEADER }>().ok_or(Refusal::Truncated)?;
        let info = ExporterInfo {
            address: from.address,
            agent: Address::default(),
            protocol: Protocol::NetflowV5,
            domain: u32::from(header[20]) << 8 | u32::from(header[21]),
        };
        let moment = Moment {
            received_ms,
            export_ms: i64::from(word(header, 8)) * 1000 + i64::from(word(header, 12) / 1_000_000),
            uptime_ms: Some(word(header, 4)),
            boot_ms: None,
        };
        let Some((exporter, at)) = self.hear(&info, from, &moment, netflow5::sequence(header), data) else {
            return Ok(());
        };
        let limits = &self.limits;
        netflow5::records(self.exporters.slot(exporter), at, &moment, limits, header, records, take);
        Ok(())
    }

    /// A number that stands for what a datagram says: of a long one its beginning, with number and times, and its end.
    #[inline]
    fn content(&self, data: &[u8]) -> u64 {
        match data.split_first_chunk::<ENDS>().zip(data.split_last_chunk::<ENDS>()) {
            Some(((first, _), (_, last))) => self.hasher.hash_one((data.len(), first, last)),
            None => self.hasher.hash_one(data),
        }
    }

    /// A datagram came: the places of its exporter and session; `None` where it came before.
    fn hear(
        &mut self,
        info: &ExporterInfo,
        session: Session,
        moment: &Moment,
        number: u32,
        data: &[u8],
    ) -> Option<(usize, usize)> {
        let content = self.content(data);
        let slot = self.exporters.place(info, &self.limits);
        let exporter = self.exporters.slot(slot);
        let at = exporter.talk(session, number, &self.limits);
        let holds = |counting: &Counting, uptime_runs_on: bool| {
            uptime_runs_on && counting.may_hold(info.protocol, number, moment.export_ms)
                || counting.runs_on(info.protocol, number)
        };
        let anew = exporter.hear(at, moment, data.len(), &self.limits, holds);
        if anew && exporter.talks[at].waiting > 0 {
            // What waits was sent before, and is not of the templates that come now.
            exporter.talks[at].waiting = 0;
            let gone = self.waiting.claim(&(*info, session), None).len();
            self.exporters.slot(slot).counts.causes[Refusal::UnknownTemplate as usize] += gone as u64;
        }
        (!self.exporters.slot(slot).is_repeated(at, number, content)).then_some((slot, at))
    }

    /// NetFlow v9 and IPFIX.
    fn templated(&mut self, from: Session, received_ms: i64, data: &[u8], take: &mut impl Take) -> Result<(), Refusal> {
        let ipfix = data[1] == 10;
        let header = if ipfix { IPFIX_HEADER } else { V9_HEADER };
        let (header, mut sets) = data.split_at_checked(header).ok_or(Refusal::Truncated)?;
        let (protocol, seconds, sequence, domain, uptime_ms) = match ipfix {
            true => (Protocol::Ipfix, word(header, 4), word(header, 8), word(header, 12), None),
            false => (Protocol::NetflowV9, word(header, 8), word(header, 12), word(header, 16), Some(word(header, 4))),
        };
        let info = ExporterInfo { address: from.address, agent: Address::default(), protocol, domain };
        let moment = Moment { received_ms, export_ms: i64::from(seconds) * 1000, uptime_ms, boot_ms: None };
        let Some((slot, at)) = self.hear(&info, from, &moment, sequence, data) else { return Ok(()) };
        let exporter = self.exporters.slot(slot);
        if ipfix {
            let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
            match length.checked_sub(IPFIX_HEADER).map(|length| sets.get(..length)) {
                Some(Some(whole)) => {
                    if whole.len() < sets.len() {
                        exporter.counts.count(Refusal::BadLength);
                    }
                    sets = whole;
                }
                Some(None) => exporter.counts.count(Refusal::Truncated),
                None => {
                    exporter.counts.count(Refusal::BadLength);
                    return Ok(());
                }
            }
        }
        let Decoder { waiting, totals, shed, limits, .. } = self;
        let mut message = Message { exporter, at, waiting, totals, shed, limits, moment, take };
        let units = message.sets(sets);
        let Exporter { talks, counts, .. } = message.exporter;
        talks[at].counting.hear(protocol, sequence, units, moment.export_ms, &mut counts.losses);
        Ok(())
    }

    /// Reads a message of nProbe's in Kafka: JSON. `from`: the broker; `sent_ns`: when it was written, ns from the Unix
    /// epoch. Never fails: what cannot be read is counted.
    pub fn nprobe_json(
        &mut self,
        from: Address,
        sent_ns: i64,
        data: &[u8],
        take: &mut impl FnMut(&ExporterInfo, &Imported<'_>),
    ) {
        self.nprobe.json((&mut self.exporters, &self.limits), from, sent_ns, data, take);
    }

    /// Reads a message of nProbe's over ZeroMQ, in its two frames. `from`: its publisher; `received_ns`: when it came, ns
    /// from the Unix epoch. Never fails: what cannot be read is counted.
    pub fn nprobe_zmq(
        &mut self,
        from: Address,
        received_ns: i64,
        frames: [&[u8]; 2],
        take: &mut impl FnMut(&ExporterInfo, &Imported<'_>),
    ) {
        self.nprobe.zmq((&mut self.exporters, &self.limits), from, received_ns, frames, take);
    }

    /// What came of nProbes so far.
    pub fn nprobes(&self) -> Heard {
        self.nprobe.heard()
    }

    /// Templates, sampling rates, sequence numbers and uptimes of all exporters, as JSON; those heard last first.
    pub fn save(&self) -> Vec<u8> {
        self.exporters.save()
    }

    /// Takes in what [`Decoder::save`] gave, within this decoder's limits: of more exporters, those heard last.
    ///
    /// # Errors
    /// Where it is not what `save` gave; the decoder is as it was then.
    pub fn restore(&mut self, saved: &[u8]) -> anyhow::Result<()> {
        self.exporters.restore(saved, &self.limits)
    }

    /// The exporters that are known now, in no order.
    pub fn exporters(&self) -> impl Iterator<Item = Known<'_>> {
        self.exporters.iter().map(|exporter| {
            let talks = || exporter.talks.iter();
            let mut rates = talks().flat_map(|talk| talk.rates.iter()).map(|(_, rate)| rate);
            let first = rates.next();
            let states = talks().map(|talk| talk.rates.state());
            let newest = talks().max_by_key(|talk| talk.heard_ms);
            Known {
                info: &exporter.info,
                counts: &exporter.counts,
                heard_ms: exporter.heard_ms,
                templates: talks().map(|talk| talk.templates.len()).sum(),
                sampling: first.filter(|&first| rates.all(|rate| rate == first)),
                sampling_state: states.max_by_key(|&state| state as u8).unwrap_or_default(),
                unit: newest.map_or(Unit::Messages, |talk| talk.counting.unit(exporter.info.protocol)),
            }
        })
    }

    /// What came of everything, exporters that were forgotten and datagrams of none included.
    pub fn counts(&self) -> Counts {
        let mut sum = self.strange;
        sum.add(&self.exporters.forgotten);
        self.exporters.iter().for_each(|exporter| sum.add(&exporter.counts));
        sum
    }

    /// Elements that have no place in a record, by name, and how often they came: those of templates, and sFlow's records.
    pub fn left_out(&self) -> BTreeMap<String, u64> {
        let mut all = self.exporters.left_out.clone();
        self.exporters.iter().for_each(|exporter| all.add_all(exporter));
        all.named()
    }

    /// Octets of records that wait for their template.
    pub fn waiting_octets(&self) -> usize {
        self.waiting.octets
    }
}

/// A number that stands for a session of an exporter's.
fn digest(info: &ExporterInfo, session: &Session) -> u64 {
    use std::hash::{Hash as _, Hasher as _};
    let mut hasher = std::hash::DefaultHasher::new();
    (info, session).hash(&mut hasher);
    hasher.finish()
}

fn word(data: &[u8], at: usize) -> u32 {
    data.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_be_bytes)
}

/// How long the IPFIX message is that a stream (RFC 7011, section 10.4) or file (RFC 5655) goes on with; `None` where more
/// must be read first: 4 octets, or the message, which is never longer than 65,535.
///
/// # Errors
/// [`Refusal::UnknownVersion`] or [`Refusal::BadLength`] where no message begins here: there is no way to find the next one,
/// and a connection is to be closed.
pub fn message_octets(stream: &[u8]) -> Result<Option<usize>, Refusal> {
    let &[a, b, c, d, ..] = stream else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes([c, d]));
    match [a, b] {
        [0, 10] if length >= IPFIX_HEADER => Ok(Some(length).filter(|&length| length <= stream.len())),
        [0, 10] => Err(Refusal::BadLength),
        _ => Err(Refusal::UnknownVersion),
    }
}

#[cfg(test)]
mod exports_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod vendor_tests;
