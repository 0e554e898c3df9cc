//! The sets of NetFlow v9 and IPFIX: templates, options, records.

use crate::collect::cause::Refusal;
use crate::collect::element::moment::Moment;
use crate::collect::element::template::{Template, TemplateField};
use crate::collect::exporter::{Exporter, ExporterInfo, Exporters, Protocol};
use crate::collect::limits::DecodeLimits;
use crate::collect::record::Imported;
use std::collections::VecDeque;

/// Sets that wait at most, whatever their length.
const MOST_WAITING: usize = 4096;

/// A set of records that came before its template.
#[derive(Debug)]
struct Set {
    of: ExporterInfo,
    id: u16,
    moment: Moment,
    records: Vec<u8>,
}

/// The sets that wait for their template, in the order they came.
#[derive(Debug, Default)]
pub(super) struct WaitingSet {
    sets: VecDeque<Set>,
    pub(super) octets: usize,
}

impl WaitingSet {
    /// Has a set wait; the oldest ones go where too many wait.
    fn push(&mut self, exporter: &mut Exporter, others: &mut Vec<ExporterInfo>, set: Set, limits: &DecodeLimits) {
        if set.records.len() > limits.waiting_octets {
            exporter.counts.count(Refusal::UnknownTemplate);
            return;
        }
        while self.octets + set.records.len() > limits.waiting_octets || self.sets.len() >= MOST_WAITING {
            let Some(gone) = self.pop() else { break };
            others.push(gone);
        }
        exporter.waiting += 1;
        self.octets += set.records.len();
        self.sets.push_back(set);
    }

    fn pop(&mut self) -> Option<ExporterInfo> {
        let set = self.sets.pop_front()?;
        self.octets -= set.records.len();
        Some(set.of)
    }

    /// Sheds those whose template did not come in time.
    #[inline]
    pub(super) fn expire(&mut self, now_ms: i64, exporters: &mut Exporters, limits: &DecodeLimits) {
        while let Some(set) = self.sets.front()
            && now_ms.saturating_sub(set.moment.received_ms).saturating_abs() > limits.waiting_ms
        {
            if let Some(of) = self.pop() {
                shed(&of, exporters);
            }
        }
    }

    /// The sets that waited for this template.
    fn claim(&mut self, of: &ExporterInfo, id: u16) -> Vec<Set> {
        let mut claimed = Vec::new();
        for set in std::mem::take(&mut self.sets) {
            if set.of == *of && set.id == id {
                self.octets -= set.records.len();
                claimed.push(set);
            } else {
                self.sets.push_back(set);
            }
        }
        claimed
    }
}

/// Counts a set that waited in vain.
pub(super) fn shed(of: &ExporterInfo, exporters: &mut Exporters) {
    match exporters.known(of) {
        Some(exporter) => {
            exporter.waiting = exporter.waiting.saturating_sub(1);
            exporter.counts.count(Refusal::UnknownTemplate);
        }
        None => exporters.forgotten.count(Refusal::UnknownTemplate),
    }
}

/// One message, taken apart.
pub(super) struct Message<'m, T> {
    pub(super) exporter: &'m mut Exporter,
    pub(super) waiting: &'m mut WaitingSet,
    /// Whose sets were shed, for others than this exporter are out of reach here.
    pub(super) shed: &'m mut Vec<ExporterInfo>,
    pub(super) limits: &'m DecodeLimits,
    pub(super) moment: Moment,
    pub(super) take: &'m mut T,
}

impl<T: FnMut(&ExporterInfo, &Imported<'_>)> Message<'_, T> {
    /// Reads every set; how many records they have, `None` where that is unknown.
    pub(super) fn sets(&mut self, mut data: &[u8]) -> Option<u32> {
        let mut records = Some(0u32);
        while data.len() >= 4 {
            let id = u16::from_be_bytes([data[0], data[1]]);
            let length = usize::from(u16::from_be_bytes([data[2], data[3]]));
            if length < 4 {
                // Zeros up to the end are padding, which some exporters put after the last set.
                if data.iter().any(|&octet| octet != 0) {
                    self.exporter.counts.count(Refusal::BadLength);
                    return None;
                }
                return records;
            }
            let Some((set, rest)) = data.split_at_checked(length) else {
                self.exporter.counts.count(Refusal::Truncated);
                return None;
            };
            let set = &set[4..];
            let ipfix = self.exporter.info.protocol == Protocol::Ipfix;
            match (id, ipfix) {
                (0, false) | (2, true) => self.templates(set, false),
                (1, false) | (3, true) => self.templates(set, true),
                (256.., _) => {
                    let read = self.data(id, set);
                    records = records.zip(read).map(|(sum, more)| sum.saturating_add(more));
                }
                _ => self.exporter.counts.count(Refusal::UnknownSet),
            }
            data = rest;
        }
        records
    }

    /// Reads the records of a set, or has it wait; how many there are, `None` where that is unknown.
    fn data(&mut self, id: u16, set: &[u8]) -> Option<u32> {
        let Exporter { info, counts, rates, boot_ms, templates, .. } = &mut *self.exporter;
        let Some(template) = templates.get(&id) else {
            let waiting = Set { of: *info, id, moment: self.moment, records: set.to_vec() };
            self.waiting.push(self.exporter, self.shed, waiting, self.limits);
            return None;
        };
        if template.scopes.is_some() {
            return self.options(id, set);
        }
        let moment = Moment { boot_ms: *boot_ms, ..self.moment };
        let read = template.records(set, |values| match values.record(&template.shape, &moment, self.limits) {
            Ok((mut record, mended)) => {
                if mended {
                    counts.count(Refusal::TimeClamped);
                }
                record.sampling = rates.of(&values.sampled, record.input_interface);
                counts.records += 1;
                (self.take)(info, &record);
            }
            Err(cause) => counts.count(cause),
        });
        if read.is_none() {
            counts.count(Refusal::BadLength);
        }
        read
    }

    fn options(&mut self, id: u16, set: &[u8]) -> Option<u32> {
        let Exporter { counts, rates, boot_ms, templates, .. } = &mut *self.exporter;
        let template = templates.get(&id)?;
        let read = template.records(set, |values| {
            counts.options += 1;
            if rates.hear(values, self.moment.received_ms, self.limits.options) {
                counts.count(Refusal::OptionsForgotten);
            }
            *boot_ms = i64::try_from(values.boot_ms).ok().filter(|&boot| boot > 0).or(*boot_ms);
        });
        if read.is_none() {
            counts.count(Refusal::BadLength);
        }
        read
    }

    fn templates(&mut self, mut set: &[u8], options: bool) {
        let ipfix = self.exporter.info.protocol == Protocol::Ipfix;
        while set.len() >= 4 {
            // An id of 0 is where padding begins.
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

    /// Takes in one template, and reads what waited for it.
    fn template(&mut self, id: u16, scopes: u16, fields: Vec<TemplateField>, options: bool) {
        let ipfix = self.exporter.info.protocol == Protocol::Ipfix;
        if fields.is_empty() && ipfix {
            // Withdrawn (RFC 7011, section 8.1): this one, or all of the kind.
            match id {
                2 => self.exporter.templates.retain(|_, known| known.scopes.is_some()),
                3 => self.exporter.templates.retain(|_, known| known.scopes.is_none()),
                _ => drop(self.exporter.templates.remove(&id)),
            }
            return;
        }
        let scopes = options.then_some(scopes);
        let now_ms = self.moment.received_ms;
        if let Some(known) = self.exporter.templates.get_mut(&id)
            && known.fields == fields
            && known.scopes == scopes
        {
            known.heard_ms = now_ms;
            return;
        }
        let made =
            if id < 256 { Err(Refusal::BadTemplate) } else { Template::new(fields, scopes, now_ms, self.limits) };
        match made {
            Ok(template) => self.exporter.keep(id, template, self.limits),
            Err(cause) => {
                // Whatever had this id before, its records are not to be read by it.
                self.exporter.templates.remove(&id);
                self.exporter.counts.count(cause);
                return;
            }
        }
        self.exporter.counts.templates += 1;
        if self.exporter.waiting == 0 {
            return;
        }
        let now = self.moment;
        for set in self.waiting.claim(&self.exporter.info, id) {
            self.exporter.waiting = self.exporter.waiting.saturating_sub(1);
            self.moment = set.moment;
            self.data(id, &set.records);
        }
        self.moment = now;
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
