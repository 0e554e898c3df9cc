//! Templates, compiled into steps that read a record: only the fields that Weir uses, at their offsets.

use crate::collect::cause::Refusal;
use crate::collect::element::event::{gives_name, is_event, tells_event};
use crate::collect::element::field::{TemplateField, VARIABLE, least};
use crate::collect::element::routed::{RouteFields, is_routed};
use crate::collect::element::values::{Shape, Values};
use crate::collect::element::{self, ALL, Clock, Meaning, PEN_NTOP};
use crate::collect::exporter::totals::Follows;
use crate::collect::limits::DecodeLimits;
use crate::packet::LinkType;
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// How one field is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FieldStep {
    /// Octets from the record's start, if every field of variable length before it were empty.
    offset: u16,
    length: u16,
    what: Meaning,
    /// If the field is a number, the bits after it in the eight octets from its offset; else [`NO_NUMBER`].
    beyond: u8,
}

const NO_NUMBER: u8 = u8::MAX;

impl FieldStep {
    fn new(offset: usize, length: u16, what: Meaning) -> FieldStep {
        let beyond = if what.is_number() && (1..=8).contains(&length) { 64 - 8 * length as u8 } else { NO_NUMBER };
        FieldStep { offset: offset as u16, length, what, beyond }
    }
}

/// How records are read.
#[derive(Clone, Debug)]
pub struct Template {
    /// Number of scope fields; `None` for flow records.
    pub scopes: Option<u16>,
    /// The fields as sent.
    pub fields: Vec<TemplateField>,
    pub shape: Shape,
    /// Whether some fields report an event, name interfaces, or state a sampling rate.
    pub event: bool,
    pub named: bool,
    pub sampled: bool,
    /// Octets count only the payload.
    pub payload: bool,
    pub follows: Option<Follows>,
    steps: Vec<FieldStep>,
    /// Number of steps before the first field of variable length.
    fixed: usize,
    /// The fields that have octets, if some have none.
    present: Option<Box<[TemplateField]>>,
    /// The fields that belong to a route.
    pub route: RouteFields,
    /// Least octets of a record.
    octets: usize,
}

impl Template {
    /// Makes the steps.
    ///
    /// # Errors
    /// [`Refusal::BadTemplate`] for a template that no record could follow.
    pub fn new(fields: Vec<TemplateField>, scopes: Option<u16>, limits: &DecodeLimits) -> Result<Template, Refusal> {
        let octets: usize = fields.iter().map(|field| least(field.length)).sum();
        let scoped = usize::from(scopes.unwrap_or(0));
        if octets == 0 || octets > usize::from(u16::MAX) || fields.len() > limits.fields || scoped > fields.len() {
            return Err(Refusal::BadTemplate);
        }
        let chosen = if scopes.is_some() { options(&fields, scoped) } else { choose(&fields) };
        let mut steps = Vec::with_capacity(chosen.iter().flatten().count());
        let mut offset = 0;
        for (field, chosen) in fields.iter().zip(&chosen).filter(|(field, _)| field.length > 0) {
            let what = chosen.or((field.length == VARIABLE).then_some(Meaning::Skip));
            if let Some(what) = what {
                steps.push(FieldStep::new(offset, field.length, what));
            }
            offset += least(field.length);
        }
        let has = |what: Meaning| chosen.contains(&Some(what));
        let clock = |of: Meaning| chosen.iter().flatten().find(|what| what.slot() == of.slot()).copied();
        let is_of = |pen: u32| fields.iter().any(|field| field.pen == pen);
        let any = |of: fn(u32, u16) -> bool| fields.iter().any(|field| of(field.pen, field.id));
        let picked = |ids: &[u16]| {
            let all = fields.iter().zip(&chosen);
            all.into_iter().any(|(field, chosen)| field.pen == 0 && ids.contains(&field.id) && chosen.is_some())
        };
        let payload = picked(&[231, 232]);
        let follows = match () {
            () if picked(&[148]) && payload => Some(Follows::Events),
            // Without a flow number or a start time, flows of the same key cannot be distinguished.
            () if picked(&[85, 86]) && (picked(&[148]) || clock(Meaning::First(Clock::Uptime)).is_some()) => {
                Some(Follows::Totals)
            }
            () => None,
        };
        let two_way = has(Meaning::ReverseOctets) || has(Meaning::ReversePackets);
        let connection = fields.iter().any(|field| field.pen == 0 && matches!(field.id, 231 | 298));
        let shape = Shape {
            four: has(Meaning::Source4) && has(Meaning::Destination4),
            six: has(Meaning::Source6) && has(Meaning::Destination6),
            first: clock(Meaning::First(Clock::Uptime)).and_then(Meaning::clock),
            last: clock(Meaning::Last(Clock::Uptime)).and_then(Meaning::clock),
            initiator_known: two_way && (is_of(PEN_NTOP) || connection) && scopes.is_none(),
            frame: match () {
                () if has(Meaning::Frame) => Some(LinkType::Ethernet),
                () if has(Meaning::IpSection) => Some(LinkType::RawIp),
                () => None,
            },
        };
        let present: Box<[_]> = fields.iter().copied().filter(|field| field.length > 0).collect();
        Ok(Template {
            fixed: steps.iter().position(|step| step.length == VARIABLE).unwrap_or(steps.len()),
            route: RouteFields::new(&present),
            present: (present.len() < fields.len()).then_some(present),
            event: any(tells_event),
            named: any(gives_name),
            sampled: any(|pen, id| pen == 0 && matches!(id, 34 | 50 | 305 | 310 | 311)),
            payload,
            follows,
            scopes,
            fields,
            shape,
            steps,
            octets,
        })
    }

    /// Reads the record at the start of `data`; returns its octets, or `None` if `data` ends within it.
    #[inline]
    pub fn read<'a>(&self, data: &'a [u8], values: &mut Values<'a>) -> Option<usize> {
        if data.len() < self.octets {
            return None;
        }
        let (fixed, after) = self.steps.split_at(self.fixed);
        for step in fixed {
            let at = usize::from(step.offset);
            match data.get(at..).and_then(<[u8]>::first_chunk) {
                Some(octets) if step.beyond != NO_NUMBER => {
                    values.number(step.what, u64::from_be_bytes(*octets) >> step.beyond);
                }
                _ => values.set(step.what, data.get(at..at + usize::from(step.length))?),
            }
        }
        self.read_after(after, data, values)
    }

    /// Reads the fields from the first one of variable length.
    fn read_after<'a>(&self, steps: &[FieldStep], data: &'a [u8], values: &mut Values<'a>) -> Option<usize> {
        let mut end = self.octets;
        for step in steps {
            let at = usize::from(step.offset) + (end - self.octets);
            if step.length != VARIABLE {
                values.set(step.what, data.get(at..at + usize::from(step.length))?);
                continue;
            }
            let (prefix, length) = match *data.get(at..)? {
                [255, a, b, ..] => (3, usize::from(u16::from_be_bytes([a, b]))),
                [length, ..] if length < 255 => (1, usize::from(length)),
                _ => return None,
            };
            let octets = data.get(at + prefix..at + prefix + length)?;
            if step.what.takes(u16::try_from(length).ok()?) {
                values.set(step.what, octets);
            }
            end += prefix + length - 1;
            if data.len() < end {
                return None;
            }
        }
        Some(end)
    }

    /// The fields that have octets in a record.
    pub fn present(&self) -> &[TemplateField] {
        self.present.as_deref().unwrap_or(&self.fields)
    }

    /// The elements that are not read at all, for the record or its route.
    fn left_out(&self) -> impl Iterator<Item = (u32, u16)> + '_ {
        let scoped = usize::from(self.scopes.unwrap_or(0));
        let chosen = if self.scopes.is_some() { options(&self.fields, scoped) } else { choose(&self.fields) };
        let taken = move |(at, field): &(usize, &TemplateField)| {
            let TemplateField { pen, id, .. } = **field;
            let beside = match self.scopes {
                None => is_routed(pen, id) || self.event && is_event(pen, id),
                Some(_) => {
                    *at < scoped || self.named && (gives_name(pen, id) || pen == 0 && matches!(id, 10 | 14 | 234 | 235))
                }
            };
            // 210 is padding, and 0 is a vendor's own element in NetFlow v9.
            field.length == 0
                || beside
                || (pen == 0 && matches!(id, 0 | 210))
                || chosen.get(*at).copied().flatten().is_some()
        };
        let left = self.fields.iter().enumerate().filter(move |field| !taken(field));
        left.map(|(_, field)| (field.pen, field.id))
    }

    /// Minimum octets of a record: fewer at the end of a set are padding.
    pub fn least_octets(&self) -> usize {
        self.octets
    }
}

impl Meaning {
    fn clock(self) -> Option<Clock> {
        match self {
            Meaning::First(clock) | Meaning::Last(clock) => Some(clock),
            _ => None,
        }
    }
}

/// A template of a session.
#[derive(Debug)]
pub struct KnownTemplate {
    pub template: Arc<Template>,
    /// When it was last sent, ms from the Unix epoch.
    pub heard_ms: AtomicI64,
    /// Records read by it.
    pub records: AtomicU64,
}

impl KnownTemplate {
    pub fn new(template: Template, heard_ms: i64) -> KnownTemplate {
        KnownTemplate { template: Arc::new(template), heard_ms: heard_ms.into(), records: AtomicU64::default() }
    }
}

impl Clone for KnownTemplate {
    /// The records stay with the original, so that each counts once.
    fn clone(&self) -> KnownTemplate {
        let heard_ms = self.heard_ms.load(Ordering::Relaxed).into();
        KnownTemplate { template: Arc::clone(&self.template), heard_ms, records: AtomicU64::default() }
    }
}

/// The templates of a session, by their ids. A session that continues another one shares its templates until either
/// changes them: a datagram of few octets may begin a session.
#[derive(Clone, Debug, Default)]
pub struct Templates(Arc<HashMap<u16, KnownTemplate, foldhash::fast::RandomState>>);

impl Deref for Templates {
    type Target = HashMap<u16, KnownTemplate, foldhash::fast::RandomState>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Templates {
    fn deref_mut(&mut self) -> &mut Self::Target {
        Arc::make_mut(&mut self.0)
    }
}

impl Templates {
    pub fn is_shared_with(&self, other: &Templates) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Moves the times when they were heard along with the host's clock.
    pub fn clock_set(&self, by_ms: i64) {
        for known in self.values() {
            known.heard_ms.store(known.heard_ms.load(Ordering::Relaxed).saturating_add(by_ms), Ordering::Relaxed);
        }
    }

    /// Adds the elements left out of their records, unless another session still has these templates.
    pub fn forget(self, left_out: &mut LeftOut) {
        if let Some(templates) = Arc::into_inner(self.0) {
            templates.values().for_each(|known| left_out.add(known));
        }
    }
}

/// Maximum number of elements counted by number.
const MOST_LEFT_OUT: usize = 1024;

/// Elements left out of records, and how often.
#[derive(Clone, Debug, Default)]
pub struct LeftOut {
    known: HashMap<(u32, u16), u64, foldhash::fast::RandomState>,
    others: u64,
}

impl LeftOut {
    /// Adds the elements left out of a template's records.
    pub fn add(&mut self, known: &KnownTemplate) {
        let records = known.records.load(Ordering::Relaxed);
        if records > 0 {
            known.template.left_out().for_each(|element| self.count(element, records));
        }
    }

    pub fn count(&mut self, element: (u32, u16), times: u64) {
        if let Some(count) = self.known.get_mut(&element) {
            *count += times;
        } else if self.known.len() < MOST_LEFT_OUT {
            self.known.insert(element, times);
        } else {
            self.others += times;
        }
    }

    /// Adds the counts of an exporter, and those of its templates.
    pub fn add_all<'a>(&mut self, of: &LeftOut, templates: impl Iterator<Item = &'a KnownTemplate>) {
        of.known.iter().for_each(|(&element, &times)| self.count(element, times));
        self.others += of.others;
        templates.for_each(|known| self.add(known));
    }

    /// The counts by the elements' names.
    pub fn named(&self) -> std::collections::BTreeMap<String, u64> {
        let named =
            self.known.iter().map(|(&(pen, id), &count)| (crate::collect::element::names::name(pen, id), count));
        named.chain(Some(("other".to_owned(), self.others)).filter(|(_, count)| *count > 0)).collect()
    }
}

/// How each field of a flow record is read.
///
/// OUT_BYTES and OUT_PKTS (IE 23, 24) are ambiguous. If they are the only counters, they count the source's packets
/// where these leave the exporter. In addition to other counters they count the destination's packets if the template
/// is plainly nProbe's (it has elements of ntop's) and no other element counts these. Otherwise they count the source's
/// packets a second time, after the exporter changed them, and are read only where the other counters are 0. DST_TOS
/// (IE 55) is the destination's class of service in a template of nProbe's; otherwise it is the one that the exporter
/// gave the packets, and is left out.
///
/// Where a template has a packet's header twice, the outer one first (RFC 7011, section 8), the decoder reads the inner
/// one, which describes the actual traffic of segment routing and other tunnels.
fn choose(fields: &[TemplateField]) -> Vec<Option<Meaning>> {
    let mut chosen = vec![None; fields.len()];
    let mut best: Vec<(Meaning, u8, usize)> = Vec::new();
    let inner = inner(fields);
    for (at, field) in fields.iter().enumerate() {
        let Some((what, rank)) = element::meaning(field.pen, field.id) else { continue };
        if field.length == 0 || field.length != VARIABLE && !what.takes(field.length) {
            continue;
        }
        let is_outer = at < inner && what.is_of_header();
        if is_outer
            && (what.is_address() || fields[inner..].iter().any(|other| (other.pen, other.id) == (field.pen, field.id)))
        {
            continue;
        }
        if rank == ALL {
            chosen[at] = Some(what);
            continue;
        }
        match best.iter_mut().find(|(slot, _, _)| *slot == what.slot()) {
            Some(known) if rank < known.1 => *known = (what.slot(), rank, at),
            Some(_) => continue,
            None => best.push((what.slot(), rank, at)),
        }
    }
    let has = |slot: Meaning| best.iter().any(|known| known.0 == slot);
    let ntop = fields.iter().any(|field| field.pen == PEN_NTOP);
    let reverse = has(Meaning::ReverseOctets) || has(Meaning::ReversePackets);
    let counted = has(Meaning::Octets) || has(Meaning::Packets);
    for &(_, _, at) in &best {
        let meaning = element::meaning(fields[at].pen, fields[at].id);
        let what = meaning.map(|(what, _)| what);
        chosen[at] = match (what, counted, ntop && !reverse) {
            (Some(Meaning::PostOctets), false, _) => Some(Meaning::Octets),
            (Some(Meaning::PostPackets), false, _) => Some(Meaning::Packets),
            (Some(Meaning::PostOctets), true, true) => Some(Meaning::ReverseOctets),
            (Some(Meaning::PostPackets), true, true) => Some(Meaning::ReversePackets),
            // These are used where the other counters are 0.
            (Some(what @ (Meaning::PostOctets | Meaning::PostPackets)), true, false) => (!reverse).then_some(what),
            (Some(Meaning::PostClassOfService), _, _) => {
                (ntop && !has(Meaning::ReverseClassOfService)).then_some(Meaning::ReverseClassOfService)
            }
            (what, _, _) => what,
        };
    }
    chosen
}

/// Index of the first field of the inner header; 0 if there is only one header.
fn inner(fields: &[TemplateField]) -> usize {
    let is = |field: &TemplateField, ids: &[u16]| field.pen == 0 && ids.contains(&field.id);
    let twice = |id: u16| fields.iter().filter(|field| is(field, &[id])).count() > 1;
    if ![4, 7, 11].into_iter().any(twice) {
        return 0;
    }
    let last = |ids: &[u16]| fields.iter().rposition(|field| is(field, ids));
    last(&[8, 27]).zip(last(&[12, 28])).map_or(0, |(source, destination)| source.min(destination))
}

/// How an option's fields are read: sampling and its scope, and the exporter's boot time.
fn options(fields: &[TemplateField], scoped: usize) -> Vec<Option<Meaning>> {
    let mut seen = Vec::new();
    let of = |(at, field): (usize, &TemplateField)| {
        let (what, _) = element::meaning(field.pen, field.id)?;
        let wanted = match what {
            Meaning::SamplingInterval
            | Meaning::Sampler
            | Meaning::PacketInterval
            | Meaning::PacketSpace
            | Meaning::SamplingSize
            | Meaning::SamplingPopulation
            | Meaning::SamplingAlgorithm
            | Meaning::SamplingProbability
            | Meaning::TemplateId
            | Meaning::Boot => true,
            Meaning::InputInterface => at < scoped,
            _ => false,
        };
        let first = !seen.contains(&what) || what == Meaning::SamplingInterval;
        seen.push(what);
        (wanted && first && (field.length == VARIABLE || what.takes(field.length))).then_some(what)
    };
    fields.iter().enumerate().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_without_octets_cost_no_step() {
        let field = |pen, id, length| TemplateField { pen, id, length };
        let empty = [field(PEN_NTOP, 188, 0), field(0, 95, 0), field(0, 16, 0), field(0, 225, 0)];
        let mut fields = vec![field(0, 8, 4), field(0, 12, 4), field(0, 2, 1), field(0, 17, 4)];
        let plain = Template::new(fields.clone(), None, &DecodeLimits::default()).unwrap();
        (0..100).for_each(|_| fields.extend(empty));
        let template = Template::new(fields.clone(), None, &DecodeLimits::default()).unwrap();
        assert_eq!(&template.steps, &plain.steps);
        assert_eq!(template.route.places(), plain.route.places());
        assert_eq!((template.present(), &template.fields), (plain.present(), &fields));
    }
}
