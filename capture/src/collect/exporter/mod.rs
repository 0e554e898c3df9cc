//! The state of each exporter, within bounds: counts, and by session sequence numbers, templates, sampling rates.

pub mod counting;
pub mod pool;
pub mod sampling;
mod saved;
pub mod sequence;
pub mod session;
pub mod totals;

use crate::collect::cause::Refusal;
use crate::collect::element::moment::Moment;
use crate::collect::element::template::{LeftOut, Template};
use crate::collect::exporter::counting::Counting;
use crate::collect::exporter::pool::Pool;
use crate::collect::exporter::sequence::{Losses, Sequence};
use crate::collect::exporter::session::Talk;
use crate::collect::limits::DecodeLimits;
use crate::packet::Address;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::fmt;

/// What an exporter speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// NetFlow version 5.
    NetflowV5,
    /// NetFlow version 9 (RFC 3954).
    NetflowV9,
    /// IPFIX (RFC 7011).
    Ipfix,
    /// sFlow version 5.
    Sflow,
    /// nProbe's records, over ZeroMQ or Kafka.
    Nprobe,
}

impl Protocol {
    pub const ALL: [Protocol; 5] =
        [Protocol::NetflowV5, Protocol::NetflowV9, Protocol::Ipfix, Protocol::Sflow, Protocol::Nprobe];

    /// The protocol as metrics and saved states name it.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::NetflowV5 => "netflow5",
            Protocol::NetflowV9 => "netflow9",
            Protocol::Ipfix => "ipfix",
            Protocol::Sflow => "sflow",
            Protocol::Nprobe => "nprobe",
        }
    }
}

impl ExporterInfo {
    /// Whose records they are: the sFlow agent where it names itself, else who sent the datagram.
    pub fn speaker(&self) -> &Address {
        if self.agent == Address::default() { &self.address } else { &self.agent }
    }

    /// The part of an sFlow agent that samples on its own; 0 for all of an exporter.
    pub fn sub_agent(&self) -> u32 {
        if self.protocol == Protocol::Sflow { self.domain } else { 0 }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The transport session that a message came by (RFC 7011, section 2), but for the collector's own address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Session {
    /// Of the exporter, or of who forwards its datagrams.
    pub address: Address,
    pub port: u16,
    /// The collector's port.
    pub local_port: u16,
    /// TCP; else UDP.
    pub stream: bool,
}

impl From<Address> for Session {
    fn from(address: Address) -> Session {
        Session { address, ..Session::default() }
    }
}

/// Who sent a record. The port it was sent from is no part of it: an exporter that starts anew has another one, and is the
/// same exporter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExporterInfo {
    /// Where its datagrams came from, or what records of nProbe's name as their exporter.
    pub address: Address,
    /// What it calls itself, in sFlow, which forwarders pass on; else zeros.
    pub agent: Address,
    pub protocol: Protocol,
    /// Observation domain (IPFIX), source id (v9), engine type * 256 + id (v5), sub-agent id (sFlow), source id
    /// (nProbe over ZeroMQ).
    pub domain: u32,
}

/// What came of an exporter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub datagrams: u64,
    pub octets: u64,
    /// Records handed over.
    pub records: u64,
    pub options: u64,
    /// Templates that were new or changed, options templates among them.
    pub templates: u64,
    /// sFlow's samples of counters.
    pub counter_samples: u64,
    /// Events of address translation and of firewalls, which count nothing.
    pub events: u64,
    /// Packets that an sFlow agent says it could not sample, or an nProbe that it could not capture.
    pub exporter_drops: u64,
    /// Records that an nProbe says it gave up.
    pub exporter_records_dropped: u64,
    /// By sequence numbers: records of v5 and IPFIX, datagrams of v9 and sFlow, messages of nProbe.
    pub losses: Losses,
    /// By sequence numbers: flow samples of sFlow.
    pub samples: Losses,
    /// What was left out or mended, by [`Refusal`] as index.
    pub causes: [u64; Refusal::ALL.len()],
}

impl Counts {
    /// One more by this cause.
    #[inline]
    pub fn count(&mut self, cause: Refusal) {
        self.causes[cause as usize] += 1;
    }

    /// How many by this cause.
    pub fn of(&self, cause: Refusal) -> u64 {
        self.causes[cause as usize]
    }

    /// Adds those of another decoder.
    pub fn add(&mut self, other: &Counts) {
        self.datagrams += other.datagrams;
        self.octets += other.octets;
        self.records += other.records;
        self.options += other.options;
        self.templates += other.templates;
        self.counter_samples += other.counter_samples;
        self.events += other.events;
        self.exporter_drops += other.exporter_drops;
        self.exporter_records_dropped += other.exporter_records_dropped;
        for (to, from) in [(&mut self.losses, &other.losses), (&mut self.samples, &other.samples)] {
            to.lost += from.lost;
            to.late += from.late;
            to.repeated += from.repeated;
            to.restarts += from.restarts;
        }
        for (to, from) in self.causes.iter_mut().zip(&other.causes) {
            *to += from;
        }
    }
}

/// One source of samples in sFlow.
#[derive(Clone, Debug, Default)]
pub struct ExporterSource {
    pub sequence: Sequence,
    drops: Option<u32>,
    pub pool: Pool,
    pub heard_ms: i64,
}

impl ExporterSource {
    /// How many more drops there are than were told before; none where the exporter began to count anew.
    pub fn more(&mut self, drops: u32) -> u64 {
        let before = self.drops.replace(drops).unwrap_or(drops);
        let more = drops.wrapping_sub(before);
        if more < 1 << 31 { more.into() } else { 0 }
    }
}

/// What is kept of one exporter.
#[derive(Clone, Debug)]
pub struct Exporter {
    pub info: ExporterInfo,
    pub counts: Counts,
    pub heard_ms: i64,
    pub talks: Vec<Talk>,
    pub sources: HashMap<u64, ExporterSource, RandomState>,
    /// Of templates that it has no more.
    pub left_out: LeftOut,
}

impl Exporter {
    pub fn new(info: ExporterInfo) -> Exporter {
        Exporter {
            info,
            counts: Counts::default(),
            heard_ms: i64::MIN,
            talks: Vec::new(),
            sources: HashMap::default(),
            left_out: LeftOut::default(),
        }
    }

    /// The place of a session, a new one where it is not known; `number`: of the message that came by it. A known exporter
    /// whose numbers run on by another port takes its templates and rates with it.
    #[inline]
    pub fn talk(&mut self, session: Session, number: u32, limits: &DecodeLimits) -> usize {
        match self.talks.iter().position(|talk| talk.session == session) {
            Some(at) => at,
            None => self.begin(session, number, limits),
        }
    }

    #[cold]
    fn begin(&mut self, session: Session, number: u32, limits: &DecodeLimits) -> usize {
        let protocol = self.info.protocol;
        let same = |talk: &&Talk| !talk.session.stream && talk.counting.runs_on(protocol, number);
        let before = self.talks.iter().filter(same).max_by_key(|talk| talk.heard_ms).cloned();
        let talk = match before.filter(|_| !session.stream) {
            Some(known) => known.moved(session),
            None => Talk::new(session),
        };
        if self.talks.len() < limits.sessions.max(1) {
            self.talks.push(talk);
            return self.talks.len() - 1;
        }
        let oldest = (0..self.talks.len()).min_by_key(|&at| self.talks[at].heard_ms).unwrap_or(0);
        let gone = std::mem::replace(&mut self.talks[oldest], talk);
        self.counts.causes[Refusal::TemplatesForgotten as usize] += gone.templates.len() as u64;
        gone.templates.values().for_each(|template| self.left_out.add(template));
        oldest
    }

    /// A datagram came by the session at this place: counts it, and sees whether the exporter started anew; true where it did.
    pub fn hear(
        &mut self,
        at: usize,
        moment: &Moment,
        octets: usize,
        limits: &DecodeLimits,
        may_hold: impl Fn(&Counting, bool) -> bool,
    ) -> bool {
        self.counts.datagrams += 1;
        self.counts.octets += octets as u64;
        self.heard_ms = self.heard_ms.max(moment.received_ms);
        if moment.correction_ms(limits) != 0 {
            self.counts.count(Refusal::ClockOff);
        }
        let Exporter { talks, left_out, counts, sources, .. } = self;
        let Some(talk) = talks.get_mut(at) else { return false };
        let anew = talk.hear(moment, may_hold, |template| left_out.add(template));
        if anew {
            counts.losses.restarts += 1;
            sources.clear();
        }
        anew
    }

    /// Whether a datagram came before, not long ago: counts it then, and remembers it else.
    #[inline]
    pub fn is_repeated(&mut self, at: usize, number: u32, content: u64) -> bool {
        let talk = &mut self.talks[at];
        if !talk.counting.is_new(self.info.protocol, number) && talk.is_known(content) {
            self.counts.losses.repeated += 1;
            self.counts.count(Refusal::Repeated);
            return true;
        }
        talk.remember(content);
        false
    }

    /// Keeps a template; the one that was not sent for the longest time goes for it where there are too many.
    pub fn keep(&mut self, at: usize, id: u16, template: Template, limits: &DecodeLimits) {
        let templates = &mut self.talks[at].templates;
        if !templates.contains_key(&id) && templates.len() >= limits.templates {
            let oldest = templates.iter().min_by_key(|(_, known)| known.heard_ms).map(|(&id, _)| id);
            if let Some(gone) = oldest.and_then(|oldest| templates.remove(&oldest)) {
                self.left_out.add(&gone);
                self.counts.count(Refusal::TemplatesForgotten);
            }
        }
        if let Some(gone) = templates.insert(id, template) {
            self.left_out.add(&gone);
        }
    }

    /// The state of one of its sources of samples.
    pub fn source(&mut self, id: u64, now_ms: i64, limits: &DecodeLimits) -> &mut ExporterSource {
        if !self.sources.contains_key(&id) && self.sources.len() >= limits.options {
            let oldest = self.sources.iter().min_by_key(|(_, known)| known.heard_ms).map(|(&id, _)| id);
            if let Some(oldest) = oldest {
                self.sources.remove(&oldest);
                self.counts.count(Refusal::OptionsForgotten);
            }
        }
        let source = self.sources.entry(id).or_default();
        source.heard_ms = now_ms;
        source
    }
}

/// Who has sent so few datagrams may be anyone: he is forgotten before others.
const STRANGER: u64 = 8;
/// How many are looked at to find who is forgotten.
const LOOKED_AT: usize = 32;

/// The exporters, within a bound.
#[derive(Debug, Default)]
pub struct Exporters {
    slots: Vec<Exporter>,
    by_info: HashMap<ExporterInfo, usize, RandomState>,
    hand: usize,
    /// What came of those that were forgotten.
    pub forgotten: Counts,
    pub left_out: LeftOut,
}

impl Exporters {
    /// The exporter, a new one where it is not known. Where there are too many, another one is forgotten: of the next few,
    /// the one that was silent for the longest time, strangers first.
    pub fn get(&mut self, info: &ExporterInfo, limits: &DecodeLimits) -> &mut Exporter {
        let slot = self.place(info, limits);
        &mut self.slots[slot]
    }

    /// As [`Exporters::get`], but returns the exporter's place, which is valid until the next call.
    pub fn place(&mut self, info: &ExporterInfo, limits: &DecodeLimits) -> usize {
        match self.by_info.get(info) {
            Some(&slot) => slot,
            None => self.add(*info, limits),
        }
    }

    pub fn slot(&mut self, slot: usize) -> &mut Exporter {
        &mut self.slots[slot]
    }

    #[cold]
    fn add(&mut self, info: ExporterInfo, limits: &DecodeLimits) -> usize {
        let slot = if self.slots.len() < limits.exporters.max(1) {
            self.slots.push(Exporter::new(info));
            self.slots.len() - 1
        } else {
            let count = self.slots.len();
            let next = (self.hand..self.hand + LOOKED_AT.min(count)).map(|at| at % count);
            let slot = next
                .min_by_key(|&at| (self.slots[at].counts.datagrams > STRANGER, self.slots[at].heard_ms))
                .unwrap_or(0);
            self.hand = (self.hand + LOOKED_AT) % count;
            let gone = std::mem::replace(&mut self.slots[slot], Exporter::new(info));
            self.by_info.remove(&gone.info);
            self.forgotten.add(&gone.counts);
            self.left_out.add_all(&gone);
            self.forgotten.count(Refusal::ExportersForgotten);
            slot
        };
        self.by_info.insert(info, slot);
        slot
    }

    /// The exporter, where it is known.
    pub fn known(&mut self, info: &ExporterInfo) -> Option<&mut Exporter> {
        self.by_info.get(info).map(|&slot| &mut self.slots[slot])
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Exporter> {
        self.slots.iter()
    }
}
