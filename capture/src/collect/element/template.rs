//! Templates, made into the steps that read a record: only what means something, where it lies in the record.

use super::values::{Shape, Values};
use super::{ALL, Clock, Meaning, PEN_NTOP, V9_NTOP, meaning};
use crate::collect::cause::Refusal;
use crate::collect::limits::DecodeLimits;
use serde::{Deserialize, Serialize};

/// The length of a field whose length is in the record (RFC 7011, section 7).
pub const VARIABLE: u16 = u16::MAX;
/// The enterprise of NetFlow v9's scopes that no element stands for.
const PEN_SCOPE: u32 = u32::MAX;

/// One field of a template: enterprise (0: IANA's elements), element, octets; as [pen, id, length] where it is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u32, u16, u16)", into = "(u32, u16, u16)")]
pub struct TemplateField {
    pub pen: u32,
    pub id: u16,
    pub length: u16,
}

impl From<(u32, u16, u16)> for TemplateField {
    fn from((pen, id, length): (u32, u16, u16)) -> TemplateField {
        TemplateField { pen, id, length }
    }
}

impl From<TemplateField> for (u32, u16, u16) {
    fn from(field: TemplateField) -> (u32, u16, u16) {
        (field.pen, field.id, field.length)
    }
}

impl TemplateField {
    /// A field of NetFlow v9: ntop's elements are those of IPFIX with another number.
    pub fn v9(id: u16, length: u16) -> TemplateField {
        match id.checked_sub(V9_NTOP) {
            Some(id) => TemplateField { pen: PEN_NTOP, id, length },
            None => TemplateField { pen: 0, id, length },
        }
    }

    /// A scope of NetFlow v9 (RFC 3954, section 6.1): 2 is an interface.
    pub fn v9_scope(kind: u16, length: u16) -> TemplateField {
        match kind {
            2 => TemplateField { pen: 0, id: 10, length },
            _ => TemplateField { pen: PEN_SCOPE, id: kind, length },
        }
    }
}

/// How one field is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FieldStep {
    /// Octets from the record's start, if every field of variable length before it were empty.
    offset: u16,
    length: u16,
    what: Meaning,
}

/// How records are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// How many of the fields are scopes; `None` for records of flows.
    pub scopes: Option<u16>,
    /// The fields as they were sent.
    pub fields: Vec<TemplateField>,
    pub shape: Shape,
    /// When it was last sent, ms from the Unix epoch.
    pub heard_ms: i64,
    steps: Vec<FieldStep>,
    /// Least octets of a record.
    octets: usize,
}

impl Template {
    /// Makes the steps.
    ///
    /// # Errors
    /// [`Refusal::BadTemplate`] for one that no record could have.
    pub fn new(
        fields: Vec<TemplateField>,
        scopes: Option<u16>,
        heard_ms: i64,
        limits: &DecodeLimits,
    ) -> Result<Template, Refusal> {
        let octets: usize = fields.iter().map(|field| least(field.length)).sum();
        let scoped = usize::from(scopes.unwrap_or(0));
        if octets == 0 || octets > usize::from(u16::MAX) || fields.len() > limits.fields || scoped > fields.len() {
            return Err(Refusal::BadTemplate);
        }
        let chosen = if scopes.is_some() { options(&fields, scoped) } else { choose(&fields) };
        let mut steps = Vec::with_capacity(chosen.iter().flatten().count());
        let mut offset = 0;
        for (field, chosen) in fields.iter().zip(&chosen) {
            let what = chosen.or((field.length == VARIABLE).then_some(Meaning::Skip));
            if let Some(what) = what {
                steps.push(FieldStep { offset: offset as u16, length: field.length, what });
            }
            offset += least(field.length);
        }
        let has = |what: Meaning| chosen.contains(&Some(what));
        let clock = |of: Meaning| chosen.iter().flatten().find(|what| what.slot() == of.slot()).copied();
        let is_of = |pen: u32| fields.iter().any(|field| field.pen == pen);
        let two_way = has(Meaning::ReverseOctets) || has(Meaning::ReversePackets);
        let connection = fields.iter().any(|field| field.pen == 0 && matches!(field.id, 231 | 298));
        let shape = Shape {
            four: has(Meaning::Source4) && has(Meaning::Destination4),
            six: has(Meaning::Source6) && has(Meaning::Destination6),
            first: clock(Meaning::First(Clock::Uptime)).and_then(Meaning::clock),
            last: clock(Meaning::Last(Clock::Uptime)).and_then(Meaning::clock),
            initiator_known: two_way && (is_of(PEN_NTOP) || connection) && scopes.is_none(),
        };
        Ok(Template { scopes, fields, shape, heard_ms, steps, octets })
    }

    /// Reads the records of a set; how many there are, or `None` where the last one ends before its fields do. Fewer octets
    /// than a record has at least are padding.
    #[inline]
    pub fn records<'a>(&self, mut set: &'a [u8], mut take: impl FnMut(&Values<'a>)) -> Option<u32> {
        let mut count = 0;
        while set.len() >= self.octets {
            let mut values = Values::default();
            set = &set[self.read(set, &mut values)?..];
            count += 1;
            take(&values);
        }
        Some(count)
    }

    /// Reads the record that `data` begins with; its octets, or `None` where it ends before the record does.
    #[inline]
    fn read<'a>(&self, data: &'a [u8], values: &mut Values<'a>) -> Option<usize> {
        let mut end = self.octets;
        if data.len() < end {
            return None;
        }
        for step in &self.steps {
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
}

impl Meaning {
    fn clock(self) -> Option<Clock> {
        match self {
            Meaning::First(clock) | Meaning::Last(clock) => Some(clock),
            _ => None,
        }
    }
}

/// Octets that a field has at least.
fn least(length: u16) -> usize {
    if length == VARIABLE { 1 } else { usize::from(length) }
}

/// What of the fields of a flow's record is read, field by field.
///
/// OUT_BYTES and OUT_PKTS (IE 23, 24) are ambiguous. Where they are the only counters they are the source's, counted where
/// it leaves the exporter. Beside other counters they are what the destination sent, where the template is plainly
/// nProbe's (it has elements of ntop's) and no other element says what the destination sent. Else they count the same
/// packets a second time, after the exporter changed them, and are left out. DST_TOS (IE 55) is what the destination sent in
/// a template of nProbe's; else it is the class of service that the exporter gave the packets, and is left out.
fn choose(fields: &[TemplateField]) -> Vec<Option<Meaning>> {
    let mut chosen = vec![None; fields.len()];
    let mut best: Vec<(Meaning, u8, usize)> = Vec::new();
    for (at, field) in fields.iter().enumerate() {
        let Some((what, rank)) = meaning(field.pen, field.id) else { continue };
        if field.length != VARIABLE && !what.takes(field.length) {
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
        let what = meaning(fields[at].pen, fields[at].id).map(|(what, _)| what);
        chosen[at] = match (what, counted, ntop && !reverse) {
            (Some(Meaning::PostOctets), false, _) => Some(Meaning::Octets),
            (Some(Meaning::PostPackets), false, _) => Some(Meaning::Packets),
            (Some(Meaning::PostOctets), true, true) => Some(Meaning::ReverseOctets),
            (Some(Meaning::PostPackets), true, true) => Some(Meaning::ReversePackets),
            (Some(Meaning::PostOctets | Meaning::PostPackets), true, false) => None,
            (Some(Meaning::PostClassOfService), _, _) => {
                (ntop && !has(Meaning::ReverseClassOfService)).then_some(Meaning::ReverseClassOfService)
            }
            (what, _, _) => what,
        };
    }
    chosen
}

/// What of an option's fields is read: sampling, of what, and the exporter's boot.
fn options(fields: &[TemplateField], scoped: usize) -> Vec<Option<Meaning>> {
    let mut seen = Vec::new();
    let of = |(at, field): (usize, &TemplateField)| {
        let (what, _) = meaning(field.pen, field.id)?;
        let wanted = match what {
            Meaning::SamplingInterval
            | Meaning::Sampler
            | Meaning::PacketInterval
            | Meaning::PacketSpace
            | Meaning::SamplingSize
            | Meaning::SamplingPopulation
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
