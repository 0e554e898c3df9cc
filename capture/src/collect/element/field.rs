//! The fields of templates.

use crate::collect::element::{PEN_NTOP, V9_NTOP};
use serde::{Deserialize, Serialize};

/// The length that marks a field as variable: its length is in the record (RFC 7011, section 7).
pub const VARIABLE: u16 = u16::MAX;
/// The enterprise number used for NetFlow v9's scopes without an information element.
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
    /// A NetFlow v9 field: ntop's elements are IPFIX's under another number.
    pub fn v9(id: u16, length: u16) -> TemplateField {
        match id.checked_sub(V9_NTOP) {
            Some(id) => TemplateField { pen: PEN_NTOP, id, length },
            None => TemplateField { pen: 0, id, length },
        }
    }

    /// A scope of NetFlow v9 (RFC 3954, section 6.1): 2 is an interface, 5 a template.
    pub fn v9_scope(kind: u16, length: u16) -> TemplateField {
        match kind {
            2 => TemplateField { pen: 0, id: 10, length },
            5 => TemplateField { pen: 0, id: 145, length },
            _ => TemplateField { pen: PEN_SCOPE, id: kind, length },
        }
    }
}

/// The fields of the record at the start of `data`, as far as it reaches.
pub fn walk<'a>(
    fields: &'a [TemplateField],
    mut data: &'a [u8],
) -> impl Iterator<Item = (&'a TemplateField, &'a [u8])> {
    fields.iter().map_while(move |field| {
        let (prefix, length) = match (field.length, data) {
            (VARIABLE, [255, a, b, ..]) => (3, usize::from(u16::from_be_bytes([*a, *b]))),
            (VARIABLE, [length, ..]) => (1, usize::from(*length)),
            (length, _) => (0, usize::from(length)),
        };
        let octets = data.get(prefix..prefix + length)?;
        data = &data[prefix + length..];
        Some((field, octets))
    })
}

/// Minimum octets of a field.
pub fn least(length: u16) -> usize {
    if length == VARIABLE { 1 } else { usize::from(length) }
}
