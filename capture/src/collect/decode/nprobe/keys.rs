//! Keys of nProbe's records: numbers of elements, or their names.

use crate::collect::element::{Clock, Meaning, PEN_NTOP, V9_NTOP, meaning};
use crate::export::element_list::{numbered, without_number};
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::sync::OnceLock;

/// Destination of an element's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JsonKey {
    /// A part of the record; of several elements for the same part, the one with the lowest rank applies.
    Part(Meaning, u8),
    /// The exporter's address (IE 130, 131).
    Exporter,
    /// The nProbe's address; the nProbe is the exporter if the record names no other (ntop 35632.471).
    Probe,
    /// Nowhere: a known element, by its place in [`Keys::name`].
    Nowhere(u16),
}

pub(super) struct Keys {
    by_name: HashMap<&'static str, JsonKey, RandomState>,
    /// By number: IANA's elements, ntop's.
    by_number: [Vec<Option<JsonKey>>; 2],
    nowhere: Vec<&'static str>,
}

/// One more than the highest element number that Weir looks up in any list.
const NUMBERS: u16 = 1024;

impl Keys {
    /// The keys, made once.
    pub(super) fn all() -> &'static Keys {
        static KEYS: OnceLock<Keys> = OnceLock::new();
        KEYS.get_or_init(Keys::new)
    }

    fn new() -> Keys {
        let by_number =
            [0, PEN_NTOP].map(|pen| (0..NUMBERS).map(|id| place(pen, id)).collect::<Vec<Option<JsonKey>>>());
        let mut keys = Keys { by_name: HashMap::default(), by_number, nowhere: Vec::new() };
        for (name, pen, id) in numbered() {
            let slot = &mut keys.by_number[usize::from(pen == PEN_NTOP)][usize::from(id)];
            let key = *slot.get_or_insert_with(|| {
                keys.nowhere.push(name);
                JsonKey::Nowhere(keys.nowhere.len() as u16 - 1)
            });
            keys.by_name.insert(name, key);
        }
        for name in without_number() {
            keys.by_name.insert(name, JsonKey::Nowhere(keys.nowhere.len() as u16));
            keys.nowhere.push(name);
        }
        keys
    }

    /// The key with this spelling: `8`, `35632.118`, `57590` (NetFlow v9's number of an element of ntop's), or a name.
    pub(super) fn find(&self, key: &str) -> Option<JsonKey> {
        if !key.as_bytes().first().is_some_and(u8::is_ascii_digit) {
            return self.by_name.get(key).copied();
        }
        match key.split_once('.') {
            None => self.numbered(key.parse().ok()?),
            Some((pen, id)) if pen.parse() == Ok(PEN_NTOP) => self.of(true, id.parse().ok()?),
            Some((pen, id)) if pen.parse() == Ok(0) => self.of(false, id.parse().ok()?),
            Some(_) => None,
        }
    }

    /// The key for this number of an element in NetFlow v9.
    pub(super) fn numbered(&self, number: u32) -> Option<JsonKey> {
        let number = u16::try_from(number).ok()?;
        match number.checked_sub(V9_NTOP) {
            Some(id) => self.of(true, id),
            None => self.of(false, number),
        }
    }

    fn of(&self, ntop: bool, id: u16) -> Option<JsonKey> {
        self.by_number[usize::from(ntop)].get(usize::from(id)).copied().flatten()
    }

    /// The name of a known element that Weir does not use.
    pub(super) fn name(&self, place: u16) -> &'static str {
        self.nowhere[usize::from(place)]
    }

    /// Number of such elements.
    pub(super) fn nowhere(&self) -> usize {
        self.nowhere.len()
    }
}

fn place(pen: u32, id: u16) -> Option<JsonKey> {
    match (pen, id) {
        (0, 130 | 131) => return Some(JsonKey::Exporter),
        (PEN_NTOP, 471) => return Some(JsonKey::Probe),
        // A record has both directions, so these count the destination's packets.
        (0, 23) => return Some(JsonKey::Part(Meaning::ReverseOctets, 0)),
        (0, 24) => return Some(JsonKey::Part(Meaning::ReversePackets, 0)),
        (0, 55) => return Some(JsonKey::Part(Meaning::ReverseClassOfService, 0)),
        // The flags of both directions together have a lower rank than those of one.
        (0, 6) => return Some(JsonKey::Part(Meaning::Flags, 2)),
        _ => {}
    }
    match meaning(pen, id)? {
        // Only formats with templates, or binary ones, have these.
        (
            Meaning::PostOctets
            | Meaning::PostPackets
            | Meaning::PostClassOfService
            | Meaning::Boot
            | Meaning::ApplicationTag
            | Meaning::Skip,
            _,
        )
        | (Meaning::First(Clock::MicrosecondsBefore) | Meaning::Last(Clock::MicrosecondsBefore), _) => None,
        (what, rank) => Some(JsonKey::Part(what, rank)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_the_same_keys() {
        let keys = Keys::all();
        for same in [
            ["8", "IPV4_SRC_ADDR", "sourceIPv4Address", "0.8"],
            ["35632.118", "57590", "L7_PROTO", "L7_PROTO"],
            ["1", "IN_BYTES", "SRC_TO_DST_BYTES", "octetDeltaCount"],
            ["34", "SAMPLING_INTERVAL", "SAMPLING_RATE", "samplingInterval"],
        ] {
            assert!(
                same.iter().all(|key| keys.find(key) == keys.find(same[0]) && keys.find(key).is_some()),
                "{same:?}"
            );
        }
        assert_eq!(keys.find("22"), Some(JsonKey::Part(Meaning::First(Clock::Uptime), 4)));
        assert_eq!(keys.find("OUT_PKTS"), Some(JsonKey::Part(Meaning::ReversePackets, 0)));
        assert_eq!(
            (keys.find("130"), keys.find("NPROBE_IPV4_ADDRESS")),
            (Some(JsonKey::Exporter), Some(JsonKey::Probe))
        );
        for unknown in
            ["", "5000000000", "99999.118", "8.", ".8", "35632.70000", "9.8", "29305.1", "NOT_AN_ELEMENT", "-1"]
        {
            assert_eq!(keys.find(unknown), None, "{unknown}");
        }
        assert_eq!(keys.find("DST_TOS"), Some(JsonKey::Part(Meaning::ReverseClassOfService, 0)));
        let Some(JsonKey::Nowhere(place)) = keys.find("SRC_AS") else { panic!("SRC_AS has a place") };
        assert_eq!(keys.name(place), "SRC_AS");
    }

    #[test]
    fn what_ntopng_is_told_has_a_place_or_is_named() {
        let template = crate::export::elements::ExportTemplate::parse("@NTOPNG@", true).unwrap();
        let left: Vec<_> = [&template.v4, &template.v6]
            .into_iter()
            .flatten()
            .filter(|element| matches!(Keys::all().find(element.name), None | Some(JsonKey::Nowhere(_))))
            .map(|element| element.name)
            .collect();
        assert_eq!(left, ["DIRECTION", "FLOW_SOURCE", "DIRECTION", "FLOW_SOURCE"]);
    }
}
