//! Records as nDPI's serializer writes them: items of a type, a key and a value each, and an end of the record.
//!
//! Settled from nDPI's public deserializer: the first octet is the version, 1, the second one the form, 1. An item begins
//! with the key's type and the value's, four bits each; numbers are in network order, but for floating ones, which are in
//! that of the publisher's processor; text has its length before it, in two octets.

use super::record::{Records, Value};
use crate::collect::decode::{Cause, ExporterInfo};
use crate::collect::record::Imported;
use std::borrow::Cow;

const END_OF_RECORD: u8 = 1;
const TEXT: u8 = 11;

/// Octets that are read from their start.
struct Octets<'a>(&'a [u8]);

impl<'a> Octets<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (octets, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(octets)
    }

    fn number(&mut self, count: usize) -> Option<u64> {
        Some(self.take(count)?.iter().fold(0, |number, &octet| number << 8 | u64::from(octet)))
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let octets = self.number(2)?;
        self.take(octets as usize)
    }

    /// A value of this type.
    fn value(&mut self, kind: u8) -> Option<Value<'a>> {
        Some(match kind {
            2..=5 => Value::Number(self.number(1 << (kind - 2))?),
            6..=9 => {
                let octets = 1 << (kind - 6);
                let unused = 64 - 8 * octets as u32;
                signed(((self.number(octets)? << unused) as i64) >> unused)
            }
            10 => {
                let octets = self.take(4)?.try_into().ok()?;
                Value::Float(f64::from(f32::from_le_bytes(octets)))
            }
            TEXT => Value::Text(Cow::Borrowed(str::from_utf8(self.text()?).unwrap_or_default())),
            // Blocks and lists have a key and no value; a record has none.
            0 | 12..=15 => Value::Other,
            _ => return None,
        })
    }
}

/// A number that may be negative, which no element is.
fn signed(number: i64) -> Value<'static> {
    u64::try_from(number).map_or(Value::Other, Value::Number)
}

/// Reads the records of a payload.
///
/// # Errors
/// [`Cause::UnknownVersion`] for another form, [`Cause::Truncated`] where it ends within an item, [`Cause::BadLength`] for
/// a type that there is not; records before that are handed over.
pub(super) fn read<T: FnMut(&ExporterInfo, &Imported<'_>)>(
    data: &[u8],
    records: &mut Records<'_, T>,
) -> Result<(), Cause> {
    let [1, 1, items @ ..] = data else {
        return Err(if data.len() < 2 { Cause::Truncated } else { Cause::UnknownVersion });
    };
    let mut octets = Octets(items);
    let mut begun = false;
    let mut fields = records.begin();
    while let [types, rest @ ..] = octets.0 {
        octets.0 = rest;
        let (key, value) = (types >> 4, types & 15);
        if value == END_OF_RECORD {
            records.end(&fields);
            fields = records.begin();
            begun = false;
            continue;
        }
        begun = true;
        let key = match key {
            2..=4 => records.numbered(octets.number(1 << (key - 2)).ok_or(Cause::Truncated)?),
            TEXT => records.named(&String::from_utf8_lossy(octets.text().ok_or(Cause::Truncated)?)),
            0 => None,
            _ => return Err(Cause::BadLength),
        };
        let value = octets.value(value).ok_or(Cause::Truncated)?;
        if let Some(key) = key {
            records.set(&mut fields, key, value);
        }
    }
    // What has no end is no record.
    if begun { Err(Cause::Truncated) } else { Ok(()) }
}
