//! Records as JSON: an object, an array of objects, or an object a line. The parser builds no tree of them.

use super::record::{Fields, NprobeRecords, NprobeValue};
use crate::collect::cause::Refusal;
use crate::collect::exporter::origin::ExporterInfo;
use crate::collect::record::Imported;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// Reads the records of a payload up to the first invalid JSON, which it counts.
pub(super) fn read<T: FnMut(&ExporterInfo, &Imported<'_>)>(data: &[u8], records: &mut NprobeRecords<'_, T>) {
    let data = data.trim_ascii();
    // A program in C may send the zero at the end of its text.
    let data = data.strip_suffix(b"\0").unwrap_or(data).trim_ascii_end();
    if !is_lines(data) {
        document(data, records);
        return;
    }
    let mut rest = data;
    while !rest.is_empty() {
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let line = rest[..end].trim_ascii();
        if !line.is_empty() {
            document(line, records);
        }
        rest = rest.get(end + 1..).unwrap_or_default();
    }
}

/// Whether every line is an object of its own, judged by the beginning of the second line.
fn is_lines(data: &[u8]) -> bool {
    let second = memchr::memchr(b'\n', data).map(|end| data[end + 1..].trim_ascii_start());
    data.first() == Some(&b'{') && second.is_some_and(|second| second.first() == Some(&b'{'))
}

fn document<T: FnMut(&ExporterInfo, &Imported<'_>)>(data: &[u8], records: &mut NprobeRecords<'_, T>) {
    let mut deserializer = serde_json::Deserializer::from_slice(data);
    let read = Document { records, nested: false }.deserialize(&mut deserializer).and_then(|()| deserializer.end());
    if read.is_err() {
        records.count(Refusal::BadJson);
    }
}

/// A record, which is an object, or an array of records.
struct Document<'r, 'm, T> {
    records: &'r mut NprobeRecords<'m, T>,
    /// Whether it is within an array; an array nested there is not a list of records.
    nested: bool,
}

impl<'de, T: FnMut(&ExporterInfo, &Imported<'_>)> DeserializeSeed<'de> for Document<'_, '_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: FnMut(&ExporterInfo, &Imported<'_>)> Visitor<'de> for Document<'_, '_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a record or an array of records")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<(), A::Error> {
        if self.nested {
            return Err(A::Error::custom("an array within an array"));
        }
        while array.next_element_seed(Document { records: self.records, nested: true })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        let mut fields: Fields<'de> = self.records.begin();
        while let Some(key) = object.next_key_seed(FieldName { records: self.records })? {
            match key {
                Some(key) => {
                    let value = object.next_value_seed(AnyValue)?;
                    self.records.set(&mut fields, key, value);
                }
                None => _ = object.next_value::<IgnoredAny>()?,
            }
        }
        self.records.end(&mut fields);
        Ok(())
    }
}

struct FieldName<'r, 'm, T> {
    records: &'r mut NprobeRecords<'m, T>,
}

impl<'de, T: FnMut(&ExporterInfo, &Imported<'_>)> DeserializeSeed<'de> for FieldName<'_, '_, T> {
    type Value = Option<super::keys::JsonKey>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<T: FnMut(&ExporterInfo, &Imported<'_>)> Visitor<'_> for FieldName<'_, '_, T> {
    type Value = Option<super::keys::JsonKey>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.records.named(key))
    }
}

struct AnyValue;

impl<'de> DeserializeSeed<'de> for AnyValue {
    type Value = NprobeValue<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<NprobeValue<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AnyValue {
    type Value = NprobeValue<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_u64<E>(self, number: u64) -> Result<NprobeValue<'de>, E> {
        Ok(NprobeValue::Number(number))
    }

    fn visit_i64<E>(self, _: i64) -> Result<NprobeValue<'de>, E> {
        Ok(NprobeValue::Other)
    }

    fn visit_f64<E>(self, number: f64) -> Result<NprobeValue<'de>, E> {
        Ok(NprobeValue::Float(number))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<NprobeValue<'de>, E> {
        Ok(NprobeValue::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<NprobeValue<'de>, E> {
        Ok(NprobeValue::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_bool<E>(self, _: bool) -> Result<NprobeValue<'de>, E> {
        Ok(NprobeValue::Other)
    }

    fn visit_unit<E>(self) -> Result<NprobeValue<'de>, E> {
        Ok(NprobeValue::Text(Cow::Borrowed("")))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<NprobeValue<'de>, A::Error> {
        while array.next_element::<IgnoredAny>()?.is_some() {}
        Ok(NprobeValue::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<NprobeValue<'de>, A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(NprobeValue::Other)
    }
}
