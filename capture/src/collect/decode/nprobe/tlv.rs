//! Records as nDPI's serializer writes them: items with a type, a key and a value each, then an end mark.
//!
//! Derived from nDPI's public deserializer: the first octet is the version, 1, the second one the form, 1. An item
//! begins with the key's type and the value's, four bits each; numbers are in network byte order, except floating-point
//! ones, which are in that of the publisher's processor; a text follows its length, which has two octets.

use super::record::{NprobeRecords, NprobeValue};
use crate::collect::cause::Refusal;
use crate::collect::exporter::origin::ExporterInfo;
use crate::collect::record::Imported;
use crate::cursor::Cursor;
use std::borrow::Cow;

const END_OF_RECORD: u8 = 1;
const TEXT: u8 = 11;

/// The value of an item of this type.
fn read_value<'a>(octets: &mut Cursor<'a>, kind: u8) -> Option<NprobeValue<'a>> {
    Some(match kind {
        2..=5 => NprobeValue::Number(octets.number(1 << (kind - 2))?),
        6..=9 => {
            let count = 1 << (kind - 6);
            let unused = 64 - 8 * count as u32;
            signed(((octets.number(count)? << unused) as i64) >> unused)
        }
        10 => {
            let float = octets.take(4)?.try_into().ok()?;
            NprobeValue::Float(f64::from(f32::from_le_bytes(float)))
        }
        TEXT => NprobeValue::Text(Cow::Borrowed(std::str::from_utf8(octets.block(2)?).unwrap_or_default())),
        // Blocks and lists have a key and no value; a record has none.
        0 | 12..=15 => NprobeValue::Other,
        _ => return None,
    })
}

/// A signed number. Elements are unsigned, so a negative value is invalid.
fn signed(number: i64) -> NprobeValue<'static> {
    u64::try_from(number).map_or(NprobeValue::Other, NprobeValue::Number)
}

/// Reads the records of a payload.
///
/// # Errors
/// [`Refusal::UnknownVersion`] for another form, [`Refusal::Truncated`] if it ends within an item,
/// [`Refusal::BadLength`] for an unknown type; earlier records have been passed on.
pub(super) fn read<T: FnMut(&ExporterInfo, &Imported<'_>)>(
    data: &[u8],
    records: &mut NprobeRecords<'_, T>,
) -> Result<(), Refusal> {
    let [1, 1, items @ ..] = data else {
        return Err(if data.len() < 2 { Refusal::Truncated } else { Refusal::UnknownVersion });
    };
    let mut octets = Cursor(items);
    let mut begun = false;
    let mut fields = records.begin();
    while let [types, rest @ ..] = octets.0 {
        octets.0 = rest;
        let (key, value) = (types >> 4, types & 15);
        if value == END_OF_RECORD {
            records.end(&mut fields);
            fields = records.begin();
            begun = false;
            continue;
        }
        begun = true;
        let key = match key {
            2..=4 => records.numbered(octets.number(1 << (key - 2)).ok_or(Refusal::Truncated)?),
            TEXT => records.named(&String::from_utf8_lossy(octets.block(2).ok_or(Refusal::Truncated)?)),
            0 => None,
            _ => return Err(Refusal::BadLength),
        };
        let value = read_value(&mut octets, value).ok_or(Refusal::Truncated)?;
        if let Some(key) = key {
            records.set(&mut fields, key, value);
        }
    }
    // A record without an end mark is incomplete.
    if begun { Err(Refusal::Truncated) } else { Ok(()) }
}
