//! The state of each exporter, within bounds: counts, sequence numbers, templates, sampling rates.

pub mod sampling;
mod saved;
pub mod sequence;

use super::cause::Refusal;
use super::element::moment::Moment;
use super::element::template::Template;
use super::limits::DecodeLimits;
use crate::packet::Address;
use foldhash::fast::RandomState;
use sampling::Rates;
use sequence::{Losses, Sequence};
use std::collections::HashMap;
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    NetflowV5,
    /// RFC 3954.
    NetflowV9,
    /// RFC 7011.
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

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Who sent a record. The port it was sent from is no part of it: an exporter that starts anew has another one.
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
    /// sFlow's samples of counters: read over.
    pub counter_samples: u64,
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
    #[inline]
    pub(in crate::collect) fn count(&mut self, cause: Refusal) {
        self.causes[cause as usize] += 1;
    }

    pub fn of(&self, cause: Refusal) -> u64 {
        self.causes[cause as usize]
    }

    pub fn add(&mut self, other: &Counts) {
        self.datagrams += other.datagrams;
        self.octets += other.octets;
        self.records += other.records;
        self.options += other.options;
        self.templates += other.templates;
        self.counter_samples += other.counter_samples;
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

/// An uptime that goes back by less is that of a datagram that came late, ms.
const LATE_MS: i64 = 60_000;
/// An uptime that goes on by so much more than time does is another one's, which wrapped, ms.
const AHEAD_MS: i64 = 3_600_000;
/// Templates are not forgotten twice within this time, ms: two exporters behind one address are no restarts.
const FORGET_AGAIN_MS: i64 = 600_000;

/// One source of samples in sFlow.
#[derive(Clone, Debug, Default)]
pub(in crate::collect) struct ExporterSource {
    pub(in crate::collect) sequence: Sequence,
    drops: Option<u32>,
    pub(in crate::collect) heard_ms: i64,
}

impl ExporterSource {
    /// How many more drops there are than before; none where the exporter began to count anew.
    pub(in crate::collect) fn more(&mut self, drops: u32) -> u64 {
        let before = self.drops.replace(drops).unwrap_or(drops);
        let more = drops.wrapping_sub(before);
        if more < 1 << 31 { more.into() } else { 0 }
    }
}

#[derive(Clone, Debug)]
pub(in crate::collect) struct Exporter {
    pub(in crate::collect) info: ExporterInfo,
    pub(in crate::collect) counts: Counts,
    pub(in crate::collect) heard_ms: i64,
    pub(in crate::collect) sequence: Sequence,
    /// Last uptime in order, and when it came, ms.
    pub(in crate::collect) uptime: Option<(u32, i64)>,
    /// When it booted, by an option, ms from the Unix epoch.
    pub(in crate::collect) boot_ms: Option<i64>,
    pub(in crate::collect) templates: HashMap<u16, Template, RandomState>,
    pub(in crate::collect) rates: Rates,
    pub(in crate::collect) sources: HashMap<u64, ExporterSource, RandomState>,
    /// Sets that wait for a template.
    pub(in crate::collect) waiting: u32,
    forgot_ms: Option<i64>,
}

impl Exporter {
    pub(in crate::collect) fn new(info: ExporterInfo) -> Exporter {
        Exporter {
            info,
            counts: Counts::default(),
            heard_ms: i64::MIN,
            sequence: Sequence::default(),
            uptime: None,
            boot_ms: None,
            templates: HashMap::default(),
            rates: Rates::default(),
            sources: HashMap::default(),
            waiting: 0,
            forgot_ms: None,
        }
    }

    /// A datagram came: counts it, and sees by the uptime whether the exporter started anew. Then sequence numbers start
    /// anew too, and templates are worth nothing (RFC 3954, section 9).
    pub(in crate::collect) fn hear(&mut self, moment: &Moment, octets: usize, limits: &DecodeLimits) {
        self.counts.datagrams += 1;
        self.counts.octets += octets as u64;
        self.heard_ms = self.heard_ms.max(moment.received_ms);
        if moment.correction_ms(limits) != 0 {
            self.counts.count(Refusal::ClockOff);
        }
        let Some(uptime) = moment.uptime_ms else { return };
        if let Some((before, at_ms)) = self.uptime {
            let on = i64::from(uptime.wrapping_sub(before) as i32);
            let elapsed = moment.received_ms.saturating_sub(at_ms);
            if on < -LATE_MS || on.saturating_sub(elapsed.max(0)) > AHEAD_MS {
                self.restart(moment.received_ms);
            } else if on < 0 {
                return;
            }
        }
        self.uptime = Some((uptime, moment.received_ms));
    }

    fn restart(&mut self, now_ms: i64) {
        self.counts.losses.restarts += 1;
        self.sequence.restart();
        self.sources.clear();
        if self.forgot_ms.is_none_or(|then| now_ms.saturating_sub(then).saturating_abs() > FORGET_AGAIN_MS) {
            self.templates.clear();
            self.forgot_ms = Some(now_ms);
        }
    }

    /// Keeps a template; the one that was not sent for the longest time goes for it where there are too many.
    pub(in crate::collect) fn keep(&mut self, id: u16, template: Template, limits: &DecodeLimits) {
        if !self.templates.contains_key(&id) && self.templates.len() >= limits.templates {
            let oldest = self.templates.iter().min_by_key(|(_, known)| known.heard_ms).map(|(&id, _)| id);
            if let Some(oldest) = oldest {
                self.templates.remove(&oldest);
                self.counts.count(Refusal::TemplatesForgotten);
            }
        }
        self.templates.insert(id, template);
    }

    /// The state of one of its sources of samples.
    pub(in crate::collect) fn source(&mut self, id: u64, now_ms: i64, limits: &DecodeLimits) -> &mut ExporterSource {
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

/// An exporter that has sent so few datagrams may be forged: it is forgotten before others.
const STRANGER: u64 = 8;
/// How many exporters to look at for one to forget.
const LOOKED_AT: usize = 32;

#[derive(Debug, Default)]
pub(in crate::collect) struct Exporters {
    slots: Vec<Exporter>,
    by_info: HashMap<ExporterInfo, usize, RandomState>,
    hand: usize,
    /// What came of those that were forgotten.
    pub(in crate::collect) forgotten: Counts,
}

impl Exporters {
    /// The exporter, a new one where it is not known. Where there are too many, another one is forgotten: of the next few,
    /// the one that was silent for the longest time, strangers first.
    pub(in crate::collect) fn get(&mut self, info: &ExporterInfo, limits: &DecodeLimits) -> &mut Exporter {
        let slot = match self.by_info.get(info) {
            Some(&slot) => slot,
            None => self.add(*info, limits),
        };
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
            self.forgotten.count(Refusal::ExportersForgotten);
            slot
        };
        self.by_info.insert(info, slot);
        slot
    }

    pub(in crate::collect) fn known(&mut self, info: &ExporterInfo) -> Option<&mut Exporter> {
        self.by_info.get(info).map(|&slot| &mut self.slots[slot])
    }

    pub(in crate::collect) fn iter(&self) -> impl Iterator<Item = &Exporter> {
        self.slots.iter()
    }
}
