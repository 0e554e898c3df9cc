//! The state of each exporter, within bounds: counts, and by session sequence numbers, templates, sampling rates.

pub mod counting;
pub mod origin;
mod places;
pub mod pool;
mod recent;
pub mod sampling;
pub mod saved;
pub mod sequence;
pub mod session;
pub mod totals;

use crate::collect::cause::{Causes, Refusal};
use crate::collect::element::moment::Moment;
use crate::collect::element::template::{KnownTemplate, LeftOut, Templates};
use crate::collect::exporter::counting::Counting;
use crate::collect::exporter::origin::{ExporterInfo, Protocol, Session};
use crate::collect::exporter::places::Places;
use crate::collect::exporter::pool::Pool;
use crate::collect::exporter::sequence::{Losses, Sequence};
use crate::collect::exporter::session::Talk;
use crate::collect::exporter::totals::Totals;
use crate::collect::limits::DecodeLimits;
use crate::packet::Address;
use foldhash::fast::RandomState;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;

/// A session that is silent so much longer than another one of its exporter may be forgotten for a new one, ms.
const SILENT_MS: i64 = 600_000;

/// Counts of one exporter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub datagrams: u64,
    pub octets: u64,
    /// Records handed over.
    pub records: u64,
    pub options: u64,
    /// New or changed templates, including options templates.
    pub templates: u64,
    /// sFlow's samples of counters.
    pub counter_samples: u64,
    /// Address-translation and firewall events. One that carries traffic counts may also be in `records`.
    pub events: u64,
    /// Packets that an sFlow agent reports as not sampled, or an nProbe as not captured.
    pub exporter_drops: u64,
    /// Records that an nProbe reports as dropped.
    pub exporter_records_dropped: u64,
    /// Losses by sequence numbers: records of v5 and IPFIX, datagrams of v9 and sFlow, messages of nProbe.
    pub losses: Losses,
    /// Losses by sequence numbers: flow samples of sFlow.
    pub samples: Losses,
    /// Data left out or corrected, indexed by [`Refusal`].
    pub causes: Causes,
}

impl Counts {
    /// Counts one for this cause.
    #[inline]
    pub fn count(&mut self, cause: Refusal) {
        self.causes[cause as usize] += 1;
    }

    /// The count of this cause.
    pub fn of(&self, cause: Refusal) -> u64 {
        self.causes[cause as usize]
    }

    /// Losses by sequence numbers, in the unit that exporters of this protocol are reported in.
    pub fn lost(&self, protocol: Protocol) -> u64 {
        if protocol == Protocol::Sflow { self.samples.lost } else { self.losses.lost }
    }

    /// Adds the counts of another decoder.
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
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ExporterSource {
    pub sequence: Sequence,
    drops: Option<u32>,
    #[serde(skip)]
    pub pool: Pool,
    pub heard_ms: i64,
}

impl ExporterSource {
    /// Drops beyond those reported before; 0 if the exporter's counter restarted.
    pub fn more(&mut self, drops: u32) -> u64 {
        let before = self.drops.replace(drops).unwrap_or(drops);
        let more = drops.wrapping_sub(before);
        if more < 1 << 31 { more.into() } else { 0 }
    }
}

/// State of one exporter.
#[derive(Clone, Debug)]
pub struct Exporter {
    pub info: ExporterInfo,
    pub counts: Counts,
    pub heard_ms: i64,
    pub talks: Vec<Talk>,
    pub sources: HashMap<u64, ExporterSource, RandomState>,
    /// Counts of templates that the exporter no longer has.
    pub left_out: LeftOut,
    pub totals: Totals,
    /// Whether it may have been heard before, such as by an earlier run: its flows' earlier totals are unknown then.
    pub is_known: bool,
    /// Whether an earlier run received data of it.
    pub had_data: bool,
    /// Its turn to become known; `None` once it is.
    turn: Option<u64>,
    /// Its options in the sum of all exporters.
    counted_options: usize,
}

/// How much speaks for an exporter; whoever has less makes room first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It sent no data: anyone can make it up with a header.
    Stranger,
    /// It sent data, but few datagrams.
    New,
    /// It sent data in many datagrams.
    Established,
}

impl Exporter {
    /// How much speaks for it.
    pub fn standing(&self) -> Standing {
        // An nProbe's exporters are named by a broker or publisher that the operator chose.
        match self.has_data() {
            false => Standing::Stranger,
            true if self.is_frequent() || self.info.protocol == Protocol::Nprobe => Standing::Established,
            true => Standing::New,
        }
    }

    /// Whether it ever sent a valid record, event or sample.
    pub fn has_data(&self) -> bool {
        let Counts { records, events, counter_samples, .. } = self.counts;
        self.had_data || records + events + counter_samples > 0
    }

    fn is_frequent(&self) -> bool {
        let before: u64 = self.talks.iter().map(|talk| talk.datagrams).sum();
        self.counts.datagrams.max(before) > FEW
    }

    /// Its sampling rates and sources of samples, as [`DecodeLimits::all_options`] counts them.
    fn options(&self) -> usize {
        self.sources.len() + self.talks.iter().map(|talk| talk.rates.count()).sum::<usize>()
    }

    /// Counts options that make room for others.
    fn forget_options(&mut self) {
        self.counts.causes[Refusal::OptionsForgotten as usize] += self.options() as u64;
        self.sources.clear();
        self.talks.iter_mut().for_each(|talk| talk.rates.forget());
    }

    /// Adds the elements that were left out of its records.
    pub fn add_left_out(&self, sum: &mut LeftOut) {
        sum.add_all(&self.left_out, self.distinct_templates().flat_map(|templates| templates.values()));
    }

    /// Fields of its templates, as [`DecodeLimits::all_fields`] counts them.
    fn template_fields(&self) -> usize {
        let templates = self.distinct_templates().flat_map(|templates| templates.values());
        templates.map(|known| 8 + known.template.fields.len()).sum()
    }

    /// Counts templates that make room for others.
    fn forget(&mut self, templates: Templates) {
        self.counts.causes[Refusal::TemplatesForgotten as usize] += templates.len() as u64;
        templates.forget(&mut self.left_out);
    }

    fn forget_all_templates(&mut self) {
        for at in 0..self.talks.len() {
            let gone = std::mem::take(&mut self.talks[at].templates);
            self.forget(gone);
        }
    }

    /// The templates of its sessions, those that several share once.
    fn distinct_templates(&self) -> impl Iterator<Item = &Templates> {
        self.talks.iter().enumerate().filter_map(|(at, Talk { templates, .. })| {
            self.talks[..at].iter().all(|talk| !talk.templates.is_shared_with(templates)).then_some(templates)
        })
    }

    pub fn new(info: ExporterInfo) -> Exporter {
        Exporter {
            info,
            counts: Counts::default(),
            heard_ms: i64::MIN,
            talks: Vec::new(),
            sources: HashMap::default(),
            left_out: LeftOut::default(),
            totals: Totals::default(),
            is_known: false,
            had_data: false,
            turn: None,
            counted_options: 0,
        }
    }

    /// Returns the index of a session, and adds the session if it is unknown; `number`: the sequence number of its
    /// message. If the numbers of a known exporter continue from another port, its templates and rates move with it.
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
        let before = self.talks.iter().filter(same).max_by_key(|talk| talk.heard_ms);
        let talk = match before.filter(|_| !session.stream) {
            Some(known) => known.moved(session),
            None => {
                let mut talk = Talk::new(session);
                // A new connection of the same exporter continues the old one.
                let last = self.talks.iter().rfind(|last| last.origin == talk.origin);
                talk.since_ms = last.and_then(|last| last.since_ms);
                talk
            }
        };
        if self.talks.len() < limits.sessions.max(1) {
            self.talks.push(talk);
            return self.talks.len() - 1;
        }
        let least = self.least();
        let gone = std::mem::replace(&mut self.talks[least], talk);
        self.forget(gone.templates);
        least
    }

    /// The session to forget for another one: of those silent for long, the longest silent; else the one with the
    /// fewest datagrams, the newest of several. Anyone may begin a session with one datagram, so no number of new ones
    /// displaces those that continue; and if more than the bound continue, few of them displace each other.
    fn least(&self) -> usize {
        let newest_ms = self.talks.iter().map(|talk| talk.heard_ms).max().unwrap_or(0);
        let of = |talk: &Talk| match newest_ms.saturating_sub(talk.heard_ms) {
            silent_ms if silent_ms > SILENT_MS => (false, talk.heard_ms, Reverse(0)),
            _ => (true, talk.datagrams as i64, Reverse(talk.heard_ms)),
        };
        (0..self.talks.len()).min_by_key(|&at| of(&self.talks[at])).unwrap_or(0)
    }

    /// Counts a datagram of the session with this index; returns whether the exporter restarted.
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
        let is_known = self.is_known || self.heard_ms != i64::MIN;
        self.heard_ms = self.heard_ms.max(moment.received_ms);
        if moment.correction_ms(limits) != 0 {
            self.counts.count(Refusal::ClockOff);
        }
        let Exporter { talks, left_out, counts, sources, .. } = self;
        let Some(talk) = talks.get_mut(at) else { return false };
        talk.since_ms.get_or_insert_with(|| match is_known {
            // Headers state whole seconds, so the time may be up to a second later.
            true => moment.export_ms.saturating_add(moment.correction_ms(limits)).saturating_add(1000),
            false => i64::MIN,
        });
        talk.behind_ms = moment.behind_ms();
        talk.datagrams += 1;
        let anew = talk.hear(moment, may_hold, left_out);
        if anew {
            counts.losses.restarts += 1;
            sources.clear();
        }
        anew
    }

    /// Whether a datagram repeats a recent one; counts a repeat, and remembers any other datagram. `share`: the number
    /// of datagrams to remember of one exporter.
    #[inline]
    pub fn is_repeated(&mut self, at: usize, number: u32, content: u64, share: usize) -> bool {
        let share = share / self.talks.len().max(1);
        let talk = &mut self.talks[at];
        if !talk.counting.is_new(self.info.protocol, number) && talk.recent.contains(content) {
            self.counts.losses.repeated += 1;
            self.counts.count(Refusal::Repeated);
            return true;
        }
        talk.recent.add(content, share);
        false
    }

    /// Keeps a template; if there are too many, drops the one not sent for the longest time.
    pub fn keep(&mut self, at: usize, id: u16, known: KnownTemplate, limits: &DecodeLimits) {
        let templates = &mut self.talks[at].templates;
        if !templates.contains_key(&id) && templates.len() >= limits.templates {
            let heard_ms = |known: &KnownTemplate| known.heard_ms.load(Ordering::Relaxed);
            let oldest = templates.iter().min_by_key(|(_, known)| heard_ms(known)).map(|(&id, _)| id);
            if let Some(gone) = oldest.and_then(|oldest| templates.remove(&oldest)) {
                self.left_out.add(&gone);
                self.counts.count(Refusal::TemplatesForgotten);
            }
        }
        if let Some(gone) = templates.insert(id, known) {
            self.left_out.add(&gone);
        }
    }

    /// The state of one of its sources of samples; and the exporter's counts.
    pub fn source(&mut self, id: u64, now_ms: i64, limits: &DecodeLimits) -> (&mut ExporterSource, &mut Counts) {
        if self.sources.len() >= limits.options && !self.sources.contains_key(&id) {
            let oldest = self.sources.iter().min_by_key(|(_, known)| known.heard_ms).map(|(&id, _)| id);
            if let Some(oldest) = oldest {
                self.sources.remove(&oldest);
                self.counts.count(Refusal::OptionsForgotten);
            }
        }
        let source = self.sources.entry(id).or_default();
        source.heard_ms = now_ms;
        (source, &mut self.counts)
    }
}

/// An exporter with so few datagrams is forgotten before others.
const FEW: u64 = 8;

/// What became of a stranger whose turn it was.
enum Promoted {
    /// It is known.
    Known,
    /// It is known, in place of the exporter in this slot.
    For(usize),
    /// It makes room itself.
    Not,
}

/// The exporters, within a bound.
#[derive(Debug, Default)]
pub struct Exporters {
    slots: Vec<Exporter>,
    by_info: HashMap<ExporterInfo, usize, RandomState>,
    places: Places,
    /// Flows whose last totals are kept.
    flows: usize,
    /// Sampling rates and sources of samples.
    options: usize,
    /// No fewer than the fields of all templates that arrived since they were last counted.
    fields: usize,
    /// Whether totals of forgotten exporters, or of those left out of a saved state, are unknown.
    pub is_unsure: bool,
    /// Counts of forgotten exporters, and their losses, each in its unit.
    pub forgotten: Counts,
    forgotten_lost: u64,
    pub left_out: LeftOut,
}

impl Exporters {
    /// The exporter, which is added if unknown. If there are too many, another one makes room, as `places` says.
    pub fn get(&mut self, info: &ExporterInfo, limits: &DecodeLimits) -> &mut Exporter {
        let slot = self.place(info, limits);
        &mut self.slots[slot]
    }

    /// As [`Exporters::get`], but returns the exporter's index, which is valid until the next call.
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
        let free = loop {
            match self.places.due(&info.address, limits, self.slots.len()) {
                None => break None,
                Some(slot) => match self.promote(slot, limits) {
                    Promoted::Known => {}
                    Promoted::For(gone) => break Some(gone),
                    Promoted::Not => break Some(slot),
                },
            }
        };
        let mut added = Exporter { is_known: self.is_unsure, ..Exporter::new(info) };
        let slot = free.unwrap_or(self.slots.len());
        added.turn = Some(self.places.add(info.address, slot));
        match free {
            None => self.slots.push(added),
            Some(slot) => self.replace(slot, added),
        }
        self.by_info.insert(info, slot);
        slot
    }

    /// Makes a stranger known if it sent data, or sent often, and if there is room, or one for which less speaks.
    fn promote(&mut self, slot: usize, limits: &DecodeLimits) -> Promoted {
        let Exporter { info: ExporterInfo { address, .. }, heard_ms, turn, .. } = self.slots[slot];
        let standing = self.slots[slot].standing();
        let Some(turn) = turn.filter(|_| standing > Standing::Stranger || self.slots[slot].is_frequent()) else {
            return Promoted::Not;
        };
        let mut gone = None;
        if let Some(candidates) = self.places.candidates(&address, limits) {
            let rank = |exporter: &Exporter| (exporter.standing(), exporter.heard_ms);
            let makes_room = |&slot: &usize| {
                let (other, other_ms) = rank(&self.slots[slot]);
                let is_silent = standing > Standing::Stranger && heard_ms.saturating_sub(other_ms) > SILENT_MS;
                other < standing || other == standing && other < Standing::Established || is_silent
            };
            let least = candidates.into_iter().min_by_key(|&slot| rank(&self.slots[slot])).filter(makes_room);
            if least.is_none() {
                return Promoted::Not;
            }
            gone = least;
        }
        self.places.know(address, turn, slot);
        self.slots[slot].turn = None;
        gone.map_or(Promoted::Known, Promoted::For)
    }

    /// Forgets the exporter of a slot, which another one takes.
    fn replace(&mut self, slot: usize, added: Exporter) {
        let gone = std::mem::replace(&mut self.slots[slot], added);
        self.by_info.remove(&gone.info);
        self.places.remove(&gone.info.address, gone.turn, slot);
        self.options -= gone.counted_options;
        let flows = gone.totals.flows();
        self.flows -= flows;
        self.is_unsure |= flows > 0 || gone.is_known;
        self.forgotten.causes[Refusal::TotalsForgotten as usize] += flows as u64;
        self.forgotten.add(&gone.counts);
        self.forgotten_lost += gone.counts.lost(gone.info.protocol);
        gone.add_left_out(&mut self.left_out);
        self.forgotten.count(Refusal::ExportersForgotten);
    }

    /// After a datagram: if too many flows' totals are kept, exporters drop the older half of theirs. `before`: how many
    /// of this exporter's were kept.
    pub fn bound_flows(&mut self, slot: usize, before: usize, limits: &DecodeLimits) {
        self.flows = self.flows + self.slots[slot].totals.flows() - before;
        if self.flows > limits.all_flows {
            let drop_oldest = |exporter: &mut Exporter| {
                // The older half may be empty.
                let before = exporter.totals.flows();
                while before > 0 && exporter.totals.flows() == before {
                    exporter.counts.causes[Refusal::TotalsForgotten as usize] += exporter.totals.drop_oldest();
                }
            };
            self.flows = self.reduce(limits.all_flows, |exporter| exporter.totals.flows(), drop_oldest);
        }
    }

    /// After a datagram with new templates, in this many octets: if there are too many fields, exporters forget their
    /// templates.
    pub fn bound_templates(&mut self, octets: usize, limits: &DecodeLimits) {
        // The shortest template has one field, and 8 octets.
        self.fields += octets * 9 / 8;
        if self.fields > limits.all_fields {
            self.fields = self.reduce(limits.all_fields, Exporter::template_fields, Exporter::forget_all_templates);
        }
    }

    /// After a datagram: if there are too many sampling rates and sources, exporters forget theirs.
    pub fn bound_options(&mut self, slot: usize, limits: &DecodeLimits) {
        let now = self.slots[slot].options();
        self.options = self.options + now - std::mem::replace(&mut self.slots[slot].counted_options, now);
        if self.options > limits.all_options {
            self.options = self.reduce(limits.all_options, Exporter::options, Exporter::forget_options);
            self.slots.iter_mut().for_each(|exporter| exporter.counted_options = exporter.options());
        }
    }

    /// Lets exporters forget until seven eighths of `most` are left, so that the next datagram does not count all of them
    /// again: strangers first, then those with few datagrams, and of these the ones of the address that has most.
    /// Returns what is left.
    fn reduce(&mut self, most: usize, weigh: impl Fn(&Exporter) -> usize, forget: impl Fn(&mut Exporter)) -> usize {
        let each: Vec<usize> = self.slots.iter().map(&weigh).collect();
        let mut by_address: HashMap<Address, usize, RandomState> = HashMap::default();
        for (exporter, weight) in self.slots.iter().zip(&each) {
            *by_address.entry(exporter.info.address).or_default() += weight;
        }
        let mut order: Vec<usize> = (0..each.len()).filter(|&slot| each[slot] > 0).collect();
        order.sort_by_cached_key(|&slot| {
            let exporter = &self.slots[slot];
            (exporter.standing(), Reverse((by_address[&exporter.info.address], each[slot])))
        });
        let (mut left, enough) = (each.iter().sum::<usize>(), most / 8 * 7);
        while left > enough {
            let before = left;
            for &slot in &order {
                if left <= enough {
                    break;
                }
                let exporter = &mut self.slots[slot];
                left -= weigh(exporter);
                forget(exporter);
                left += weigh(exporter);
            }
            if left == before {
                break;
            }
        }
        left
    }

    /// Losses of all exporters, known or forgotten, each in its unit.
    pub fn lost(&self) -> u64 {
        let known = self.slots.iter().map(|exporter| exporter.counts.lost(exporter.info.protocol));
        self.forgotten_lost + known.sum::<u64>()
    }

    /// Number of datagrams to remember of each exporter.
    pub fn share(&self, limits: &DecodeLimits) -> usize {
        limits.datagrams / self.slots.len().max(1)
    }

    /// Moves the times when exporters were heard along with the host's clock.
    pub fn clock_set(&mut self, by_ms: i64, limits: &DecodeLimits) {
        for exporter in &mut self.slots {
            if exporter.heard_ms != i64::MIN {
                exporter.heard_ms = exporter.heard_ms.saturating_add(by_ms);
            }
            let later = exporter.talks.iter_mut().map(|talk| (talk.heard_ms, talk.clock_set(by_ms, limits)));
            let later_ms = later.max().map_or(0, |(_, later_ms)| later_ms);
            exporter.totals.clock_set(later_ms);
            exporter.distinct_templates().for_each(|templates| templates.clock_set(by_ms));
            for source in exporter.sources.values_mut() {
                source.heard_ms = source.heard_ms.saturating_add(by_ms);
                source.pool.clock_set(by_ms);
            }
        }
    }

    /// The exporter, if known.
    pub fn known(&mut self, info: &ExporterInfo) -> Option<&mut Exporter> {
        self.by_info.get(info).map(|&slot| &mut self.slots[slot])
    }

    /// Addresses of established exporters.
    pub fn established(&self) -> HashSet<Address, RandomState> {
        let established = self.slots.iter().filter(|exporter| exporter.standing() == Standing::Established);
        established.map(|exporter| exporter.info.address).collect()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Exporter> {
        self.slots.iter()
    }
}
