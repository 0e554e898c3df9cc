//! The sets of NetFlow v9 and IPFIX: templates, options, records.

use super::waiting::{Set, WaitingSet};
use crate::collect::cause::Refusal;
use crate::collect::element::event::{self, Take};
use crate::collect::element::field::TemplateField;
use crate::collect::element::moment::Moment;
use crate::collect::element::routed::Routed;
use crate::collect::element::template::{KnownTemplate, Template};
use crate::collect::element::values::{Values, is_absurd};
use crate::collect::exporter::Exporter;
use crate::collect::exporter::counting::Units;
use crate::collect::exporter::origin::ExporterInfo;
use crate::collect::exporter::origin::Protocol;
use crate::collect::exporter::origin::Session;
use crate::collect::exporter::totals::{Follows, Report, Settled};
use crate::collect::limits::DecodeLimits;
use std::sync::atomic::Ordering;

/// Value of IE 136 in the record of a flow that continues.
const ACTIVE_TIMEOUT: u8 = 2;
/// One message, taken apart.
pub(super) struct Message<'m, T> {
    pub(super) exporter: &'m mut Exporter,
    /// Index of the message's session among the exporter's sessions.
    pub(super) at: usize,
    pub(super) waiting: &'m mut WaitingSet,
    /// The exporters whose sets were dropped; their counts cannot be reached from here.
    pub(super) shed: &'m mut Vec<(ExporterInfo, Session)>,
    pub(super) limits: &'m DecodeLimits,
    pub(super) moment: Moment,
    pub(super) take: &'m mut T,
}

impl<T: Take> Message<'_, T> {
    /// Reads every set; returns the number of their records, `None` if unknown.
    pub(super) fn sets(&mut self, mut data: &[u8]) -> Units {
        let mut sum = Units { flows: Some(0), records: Some(0) };
        let unknown = Units { flows: None, records: None };
        while data.len() >= 4 {
            let id = u16::from_be_bytes([data[0], data[1]]);
            let length = usize::from(u16::from_be_bytes([data[2], data[3]]));
            if length < 4 {
                // Zeros up to the end are padding, which some exporters put after the last set.
                if data.iter().any(|&octet| octet != 0) {
                    self.exporter.counts.count(Refusal::BadLength);
                    return unknown;
                }
                return sum;
            }
            // If a set is cut off, the records before the cut are complete.
            let (set, rest) = data.split_at_checked(length).unwrap_or((data, &[]));
            let is_cut = set.len() < length;
            if is_cut {
                self.exporter.counts.count(Refusal::Truncated);
            }
            let set = &set[4..];
            let ipfix = self.exporter.info.protocol == Protocol::Ipfix;
            let add = |to: &mut Option<u32>, more: Option<u32>| {
                *to = to.zip(more).map(|(sum, more)| sum.saturating_add(more));
            };
            match (id, ipfix) {
                (0, false) | (2, true) if !is_cut => self.templates(set, false),
                (1, false) | (3, true) if !is_cut => self.templates(set, true),
                (256.., _) => {
                    match self.exporter.talks[self.at].templates.get(&id).map(|known| known.template.scopes.is_some()) {
                        Some(false) => {
                            let read = self.data(id, set);
                            add(&mut sum.flows, read);
                            add(&mut sum.records, read);
                        }
                        Some(true) => add(&mut sum.records, self.options(id, set)),
                        None => {
                            self.wait(id, set, is_cut);
                            if !set.is_empty() {
                                sum = unknown;
                            }
                        }
                    }
                }
                (0..=3, _) if is_cut => {}
                _ => self.exporter.counts.count(Refusal::UnknownSet),
            }
            if is_cut {
                return unknown;
            }
            data = rest;
        }
        sum
    }

    /// Queues a set until its template arrives.
    fn wait(&mut self, id: u16, set: &[u8], is_cut: bool) {
        if is_cut {
            self.exporter.counts.count(Refusal::UnknownTemplate);
            return;
        }
        // A set without records has nothing to wait for.
        if set.is_empty() {
            return;
        }
        let of = (self.exporter.info, self.exporter.talks[self.at].session);
        let waiting = Set { of, id, moment: self.moment, records: set.to_vec() };
        self.waiting.push(self.exporter, self.at, self.shed, waiting, self.limits);
    }

    /// Reads the records of a flow set; returns their number, `None` if unknown.
    fn data(&mut self, id: u16, set: &[u8]) -> Option<u32> {
        let Exporter { info, counts, talks, totals, .. } = &mut *self.exporter;
        let talk = talks.get_mut(self.at)?;
        let KnownTemplate { template, records: read_records, .. } = talk.templates.get(&id)?;
        let template: &Template = template;
        let moment = Moment { boot_ms: talk.boot_ms, ..self.moment };
        let mut count = 0;
        let mut data = set;
        let broken = loop {
            if data.len() < template.least_octets() {
                break false;
            }
            let mut values = Values::default();
            let Some(octets) = template.read(data, &mut values) else { break true };
            let (record, rest) = data.split_at(octets);
            data = rest;
            count += 1;
            match values.complete(&template.shape, &moment, self.limits) {
                Ok(mended) => {
                    // It may have counts as well, such as Cisco ASA's event at the end of a connection.
                    if template.event {
                        let (event, _) = event::read(template.present(), record, &moment, self.limits);
                        if event.happened() {
                            counts.events += 1;
                            self.take.event(info, &event);
                        }
                    }
                    if let Some(follows) = template.follows {
                        let flow = values.flow();
                        let read = &mut values.record;
                        let states_beginning = !mended && (flow.1 != 0 || read.first_ms < read.last_ms);
                        let report = Report {
                            follows,
                            session: talk.origin,
                            flow,
                            began_ms: match follows {
                                Follows::Events => read.last_ms,
                                Follows::Totals if states_beginning => read.first_ms,
                                Follows::Totals => read.first_ms.saturating_sub(self.limits.flow_ms),
                            },
                            sent_ms: moment.export_ms,
                            stated_ms: read.last_ms.saturating_sub(moment.correction_ms(self.limits)),
                            ended: !matches!(template.route.end_reason(record), 0 | ACTIVE_TIMEOUT),
                            since_ms: talk.since_ms.unwrap_or(i64::MIN),
                        };
                        counts.causes[Refusal::TotalsForgotten as usize] += totals.make_room(self.limits.flows);
                        match totals.settle(&report, read) {
                            Settled::New => {}
                            Settled::Repeated => {
                                counts.count(Refusal::Repeated);
                                continue;
                            }
                            Settled::MayBeRepeated => {
                                counts.count(Refusal::MayBeRepeated);
                                continue;
                            }
                        }
                    }
                    let read = &mut values.record;
                    read.sampling = talk.rates.of(&values.sampled, read.input_interface, id);
                    if read.sampling.is_some() && read.sent.iter().any(|sent| is_absurd(sent, read.sampling)) {
                        counts.count(Refusal::Absurd);
                        continue;
                    }
                    // Counts about a record that is used.
                    if mended {
                        counts.count(Refusal::TimeClamped);
                    }
                    if template.payload {
                        counts.count(Refusal::PayloadOctets);
                    }
                    if !template.route.is_empty() {
                        read.routed = Some(Routed::Record(&template.route, record));
                    }
                    counts.records += 1;
                    self.take.flow(info, read);
                }
                Err(Refusal::Empty | Refusal::NoAddress) if template.event => {
                    let (event, mended) = event::read(template.present(), record, &moment, self.limits);
                    if mended {
                        counts.count(Refusal::TimeClamped);
                    }
                    counts.events += 1;
                    self.take.event(info, &event);
                }
                Err(cause) => counts.count(cause),
            }
        };
        read_records.fetch_add(u64::from(count), Ordering::Relaxed);
        if broken {
            counts.count(Refusal::BadLength);
            return None;
        }
        Some(count)
    }

    fn options(&mut self, id: u16, set: &[u8]) -> Option<u32> {
        let Exporter { info, counts, talks, .. } = &mut *self.exporter;
        let talk = talks.get_mut(self.at)?;
        let KnownTemplate { template, records: read_records, .. } = talk.templates.get(&id)?;
        let template: &Template = template;
        let mut count = 0;
        let mut data = set;
        while data.len() >= template.least_octets() {
            let mut values = Values::default();
            let Some(octets) = template.read(data, &mut values) else {
                counts.count(Refusal::BadLength);
                return None;
            };
            let (option, rest) = data.split_at(octets);
            data = rest;
            count += 1;
            counts.options += 1;
            if talk.rates.hear(&values, self.moment.received_ms, self.limits.options) {
                counts.count(Refusal::OptionsForgotten);
            }
            talk.boot_ms = i64::try_from(values.boot_ms).ok().filter(|&boot| boot > 0).or(talk.boot_ms);
            let name = if template.named { event::name(template.present(), option) } else { None };
            if name.is_some_and(|name| !self.take.name(info, &name)) {
                counts.count(Refusal::InterfacesForgotten);
            }
        }
        read_records.fetch_add(u64::from(count), Ordering::Relaxed);
        Some(count)
    }

    fn templates(&mut self, mut set: &[u8], options: bool) {
        let ipfix = self.exporter.info.protocol == Protocol::Ipfix;
        while set.len() >= 4 {
            // Padding begins at an id of 0.
            if set[..2] == [0, 0] {
                return;
            }
            let parsed = if ipfix { ipfix_template(set, options) } else { v9_template(set, options) };
            let Some((id, scopes, fields, octets)) = parsed else {
                self.exporter.counts.count(Refusal::BadTemplate);
                return;
            };
            set = &set[octets..];
            self.template(id, scopes, fields, options);
        }
    }

    /// Adds one template, and reads the sets that waited for it.
    fn template(&mut self, id: u16, scopes: u16, fields: Vec<TemplateField>, options: bool) {
        let ipfix = self.exporter.info.protocol == Protocol::Ipfix;
        if fields.is_empty() && ipfix {
            // Withdraws this template, or all of its kind (RFC 7011, section 8.1).
            match id {
                2 => self.withdraw_all(|known| known.template.scopes.is_none()),
                3 => self.withdraw_all(|known| known.template.scopes.is_some()),
                _ => self.withdraw(id),
            }
            return;
        }
        let scopes = options.then_some(scopes);
        let now_ms = self.moment.received_ms;
        if let Some(known) = self.exporter.talks[self.at].templates.get(&id) {
            if known.template.fields == fields && known.template.scopes == scopes {
                known.heard_ms.store(now_ms, Ordering::Relaxed);
                return;
            }
        }
        let made = if id < 256 { Err(Refusal::BadTemplate) } else { Template::new(fields, scopes, self.limits) };
        match made {
            Ok(template) => {
                if options && template.sampled {
                    self.exporter.talks[self.at].rates.announce();
                }
                self.exporter.keep(self.at, id, KnownTemplate::new(template, now_ms), self.limits);
            }
            Err(cause) => {
                // An earlier template with this id must not be used for the new one's records.
                self.withdraw(id);
                self.exporter.counts.count(cause);
                return;
            }
        }
        self.exporter.counts.templates += 1;
        if self.exporter.talks[self.at].waiting == 0 {
            return;
        }
        let now = self.moment;
        let of = (self.exporter.info, self.exporter.talks[self.at].session);
        for set in self.waiting.claim(of, id) {
            let talk = &mut self.exporter.talks[self.at];
            talk.waiting = talk.waiting.saturating_sub(1);
            self.moment = set.moment;
            let _ = if options { self.options(id, &set.records) } else { self.data(id, &set.records) };
        }
        self.moment = now;
    }

    /// Forgets a template, if it is known: a datagram may name thousands.
    fn withdraw(&mut self, id: u16) {
        let Exporter { talks, left_out, .. } = &mut *self.exporter;
        let templates = &mut talks[self.at].templates;
        if templates.contains_key(&id) {
            templates.remove(&id).iter().for_each(|known| left_out.add(known));
        }
    }

    /// Forgets all templates of a kind.
    fn withdraw_all(&mut self, which: impl Fn(&KnownTemplate) -> bool) {
        let Exporter { talks, left_out, .. } = &mut *self.exporter;
        let templates = &mut talks[self.at].templates;
        if !templates.values().any(&which) {
            return;
        }
        templates.retain(|_, known| {
            let gone = which(known);
            if gone {
                left_out.add(known);
            }
            !gone
        });
    }
}

/// A template's id, number of scopes, fields and octets.
type Parsed = Option<(u16, u16, Vec<TemplateField>, usize)>;

fn short(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*data.get(at)?, *data.get(at + 1)?]))
}

/// RFC 7011, sections 3.4.1 and 3.4.2.
fn ipfix_template(data: &[u8], options: bool) -> Parsed {
    let (id, count) = (short(data, 0)?, short(data, 2)?);
    if count == 0 {
        return Some((id, 0, Vec::new(), 4));
    }
    let (scopes, mut at) = if options { (short(data, 4)?, 6) } else { (0, 4) };
    let mut fields = Vec::with_capacity(usize::from(count).min(data.len() / 4));
    for _ in 0..count {
        let (element, length) = (short(data, at)?, short(data, at + 2)?);
        at += 4;
        let pen = if element & 0x8000 == 0 {
            0
        } else {
            at += 4;
            u32::from_be_bytes(data.get(at - 4..at)?.try_into().ok()?)
        };
        fields.push(TemplateField { pen, id: element & 0x7fff, length });
    }
    Some((id, scopes, fields, at))
}

/// RFC 3954, sections 5.2 and 6.1.
fn v9_template(data: &[u8], options: bool) -> Parsed {
    let id = short(data, 0)?;
    let (scopes, count, mut at) = if options {
        let (scopes, others) = (short(data, 2)? / 4, short(data, 4)? / 4);
        (scopes, scopes.checked_add(others)?, 6)
    } else {
        (0, short(data, 2)?, 4)
    };
    let mut fields = Vec::with_capacity(usize::from(count).min(data.len() / 4));
    for number in 0..count {
        let (kind, length) = (short(data, at)?, short(data, at + 2)?);
        at += 4;
        fields.push(if number < scopes {
            TemplateField::v9_scope(kind, length)
        } else {
            TemplateField::v9(kind, length)
        });
    }
    Some((id, scopes, fields, at))
}
