//! NetFlow v5 and v9, IPFIX, sFlow v5, nProbe: datagrams and messages in, [`Imported`] records out.
//!
//! A decoder of our own rather than a library: netflow_parser 1.0.6 decodes 0.8 million (v9) and 1.5 million (IPFIX)
//! records of 18 fields a second into lists of generic fields, before any lookup in them; here each template is
//! compiled once into a list of steps.
//!
//! [`DecodeLimits`] bounds the memory that one exporter's data may take; [`Refusal`] counts everything that is left out
//! or corrected, by cause. Each [`Decoder`] belongs to one thread; all datagrams of an exporter must reach the same
//! decoder.

mod netflow5;
mod nprobe;
pub mod sample;
mod sets;
pub(super) mod sflow;
mod waiting;

pub use super::element::event::Take;
pub use super::element::routed::{Route, Routed};
pub use super::exporter::counting::Unit;
pub use super::exporter::sampling::SamplingState;
pub use nprobe::{Heard, ZmqTopic};

use super::cause::Refusal;
use super::element::event::FlowsAlone;
use super::element::moment::Moment;
use super::exporter::counting::Counting;
use super::exporter::origin::{ExporterInfo, Protocol, Session};
use super::exporter::saved::{MOST_SAVED, Saved};
use super::exporter::{Counts, Exporter, Exporters};
use super::limits::DecodeLimits;
use super::record::Imported;
use crate::packet::Address;
use foldhash::fast::RandomState;
use sets::Message;
use std::collections::{BTreeMap, HashSet};
use std::hash::BuildHasher as _;
use waiting::WaitingSet;

/// One exporter, as the decoder knows it.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    pub info: &'a ExporterInfo,
    pub counts: &'a Counts,
    /// Arrival time of its last datagram, in ms since the Unix epoch.
    pub heard_ms: i64,
    /// Templates currently known, over all its sessions.
    pub templates: usize,
    /// Its only sampling rate: one packet in this many; `None` where it announced none or several.
    pub sampling: Option<u32>,
    /// Whether its sampling rate is known, and if not, why.
    pub sampling_state: SamplingState,
    /// The unit that its sequence numbers count.
    pub unit: Unit,
    /// Whether it ever sent data; anyone can make up an exporter that did not.
    pub has_data: bool,
}

/// Decodes what exporters send; see the module's documentation.
#[derive(Debug, Default)]
pub struct Decoder {
    limits: DecodeLimits,
    exporters: Exporters,
    waiting: WaitingSet,
    /// Counts of datagrams that belong to no known exporter.
    strange: Counts,
    /// The exporters and sessions whose waiting sets the current datagram displaced.
    shed: Vec<(ExporterInfo, Session)>,
    hasher: RandomState,
    nprobe: nprobe::Nprobe,
}

/// Octets of a header.
const V9_HEADER: usize = 20;
const IPFIX_HEADER: usize = 16;
/// Octets at the beginning and at the end by which a repeated datagram is recognised.
const ENDS: usize = 96;

impl Decoder {
    /// A decoder that knows no exporters.
    pub fn new(limits: DecodeLimits) -> Decoder {
        Decoder { limits, ..Decoder::default() }
    }

    /// Reads a datagram as [`Decoder::datagram_to`] does, but passes on only its flow records.
    pub fn datagram(
        &mut self,
        from: impl Into<Session>,
        received_ns: i64,
        data: &[u8],
        take: &mut impl FnMut(&ExporterInfo, &Imported<'_>),
    ) {
        self.datagram_to(from, received_ns, data, &mut FlowsAlone(take));
    }

    /// Reads a datagram, or one IPFIX message of a stream or file, and passes on its content. `from`: its session;
    /// `received_ns`: its arrival time, ns from the Unix epoch. Never fails: it counts unreadable data.
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
            waiting::shed(&of, &mut self.exporters);
        }
    }

    /// Drops the sets whose template did not arrive in time.
    #[inline]
    pub fn expire(&mut self, now_ms: i64) {
        self.waiting.expire(now_ms, &mut self.exporters, &self.limits);
    }

    /// Moves all remembered times along with the host's clock, which was set by this many ms.
    pub fn clock_set(&mut self, by_ms: i64) {
        self.waiting.clock_set(by_ms);
        self.exporters.clock_set(by_ms, &self.limits);
    }

    /// At the end of the input: drops all waiting sets.
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

    /// A hash of a datagram's content; of a long one only the beginning, with number and times, and the end.
    #[inline]
    fn content(&self, data: &[u8]) -> u64 {
        match data.split_first_chunk::<ENDS>().zip(data.split_last_chunk::<ENDS>()) {
            Some(((first, _), (_, last))) => self.hasher.hash_one((data.len(), first, last)),
            None => self.hasher.hash_one(data),
        }
    }

    /// Registers a datagram; returns the indices of its exporter and session, or `None` if it is a repeat.
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
            // The waiting sets were sent before the restart and do not belong to the new templates.
            exporter.talks[at].waiting = 0;
            let gone = self.waiting.forget((*info, session));
            self.exporters.slot(slot).counts.causes[Refusal::UnknownTemplate as usize] += gone as u64;
        }
        let share = self.exporters.share(&self.limits);
        (!self.exporters.slot(slot).is_repeated(at, number, content, share)).then_some((slot, at))
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
        let flows = exporter.totals.flows();
        let templates = exporter.counts.templates;
        let Decoder { waiting, shed, limits, .. } = self;
        let mut message = Message { exporter, at, waiting, shed, limits, moment, take };
        let units = message.sets(sets);
        let Exporter { talks, counts, .. } = message.exporter;
        talks[at].counting.hear(protocol, sequence, units, moment.export_ms, &mut counts.losses);
        let new_templates = counts.templates - templates;
        self.exporters.bound_flows(slot, flows, &self.limits);
        self.exporters.bound_options(slot, &self.limits);
        if new_templates > 0 {
            self.exporters.bound_templates(sets.len(), &self.limits);
        }
        Ok(())
    }

    /// Reads an nProbe message from Kafka: JSON. `from`: the broker; `sent_ns`: when it was written, ns from the Unix
    /// epoch. Never fails: it counts unreadable data.
    pub fn nprobe_json(
        &mut self,
        from: Address,
        sent_ns: i64,
        data: &[u8],
        take: &mut impl FnMut(&ExporterInfo, &Imported<'_>),
    ) {
        self.nprobe.json((&mut self.exporters, &self.limits), from, sent_ns, data, take);
    }

    /// Reads an nProbe message from ZeroMQ, in its two frames. `from`: its publisher; `received_ns`: its arrival time,
    /// ns from the Unix epoch. Never fails: it counts unreadable data.
    pub fn nprobe_zmq(
        &mut self,
        from: Address,
        received_ns: i64,
        frames: [&[u8]; 2],
        take: &mut impl FnMut(&ExporterInfo, &Imported<'_>),
    ) {
        self.nprobe.zmq((&mut self.exporters, &self.limits), from, received_ns, frames, take);
    }

    /// Counts of all nProbes' messages so far.
    pub fn nprobes(&self) -> Heard {
        self.nprobe.heard()
    }

    /// Templates, sampling rates, sequence numbers and uptimes of all exporters: established ones first, and of these the
    /// most recently heard.
    pub fn saved(&self) -> Saved {
        self.exporters.save()
    }

    /// The same, as JSON of at most [`MOST_SAVED`] octets.
    pub fn save(&self) -> Vec<u8> {
        self.saved().json(MOST_SAVED)
    }

    /// Restores the output of [`Decoder::save`] within this decoder's limits: of too many exporters, it keeps the most
    /// recently heard.
    ///
    /// # Errors
    /// If `saved` is not an output of `save`; the decoder is then unchanged.
    pub fn restore(&mut self, saved: &[u8]) -> anyhow::Result<()> {
        self.exporters.restore(saved, &self.limits)
    }

    /// All known exporters, in no particular order.
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
                has_data: exporter.has_data(),
            }
        })
    }

    /// Addresses of exporters that sent data in many datagrams.
    pub fn established(&self) -> HashSet<Address, RandomState> {
        self.exporters.established()
    }

    /// Counts over all exporters, including forgotten ones, and over datagrams of no exporter.
    pub fn counts(&self) -> Counts {
        let mut sum = self.strange;
        sum.add(&self.exporters.forgotten);
        self.exporters.iter().for_each(|exporter| sum.add(&exporter.counts));
        sum
    }

    /// Losses of all exporters, known or forgotten, each in its unit.
    pub fn lost(&self) -> u64 {
        self.exporters.lost()
    }

    /// Number of values received of each template element, and of each kind of sFlow record, that Weir's record has no
    /// field for; by name.
    pub fn left_out(&self) -> BTreeMap<String, u64> {
        let mut all = self.exporters.left_out.clone();
        self.exporters.iter().for_each(|exporter| exporter.add_left_out(&mut all));
        all.named()
    }

    /// Octets of the records that wait for their template.
    pub fn waiting_octets(&self) -> usize {
        self.waiting.octets
    }
}

fn word(data: &[u8], at: usize) -> u32 {
    data.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_be_bytes)
}

/// Length of the next IPFIX message of a stream (RFC 7011, section 10.4) or file (RFC 5655); `None` if more must be
/// read first: 4 octets, or the whole message, at most 65,535 octets.
///
/// # Errors
/// [`Refusal::UnknownVersion`] or [`Refusal::BadLength`] if no message begins here: the next one cannot be found, so
/// the caller must close the connection.
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
mod bounds_tests;
#[cfg(test)]
mod edge_tests;
#[cfg(test)]
mod exports_tests;
#[cfg(test)]
mod frame_tests;
#[cfg(test)]
mod pmacct_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod totals_tests;
#[cfg(test)]
mod vendor_tests;
