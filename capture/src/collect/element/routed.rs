//! The routing data that a router exports with a flow. It is decoded only when a caller reads it, so other records cost
//! nothing more.

use crate::collect::decode::sample;
use crate::collect::element::field::{TemplateField, VARIABLE, least, walk};
use crate::collect::element::octets::{mapped, number};
use crate::packet::Address;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

/// The router's routing data on the packets; zero where it states none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// Autonomous systems of source and destination: origin or peer, as the router is configured (IE 16, 17).
    pub autonomous_systems: [u32; 2],
    /// The neighbours that packets came from and go to (IE 129, 128).
    pub adjacent: [u32; 2],
    /// IE 15, 62; BGP's: 18, 63.
    pub next_hop: Address,
    pub bgp_next_hop: Address,
    /// IE 9 and 13, 29 and 30.
    pub prefix_lengths: [u8; 2],
    /// Ingress and egress (IE 234, 235).
    pub vrf: [u32; 2],
    /// 0 ingress, 1 egress (IE 61).
    pub direction: Option<u8>,
    /// IE 136.
    pub end_reason: u8,
    /// IE 89.
    pub forwarding_status: u8,
    /// The label, without experimental bits and bottom of stack (IE 70).
    pub mpls_top_label: u32,
    /// Lowest and highest TTL (IE 52, 53; 192 for both).
    pub ttl: [u8; 2],
    /// MAC addresses of source and destination, before the router (IE 56, 80) or after it (81, 57).
    pub macs: [[u8; 6]; 2],
    /// Source and destination after translation (IE 225, 226, 281, 282), and their ports (227, 228).
    pub translated: [Address; 2],
    pub translated_ports: [u16; 2],
    /// IE 138.
    pub observation_point: u32,
}

/// The record that holds a route.
#[derive(Clone, Copy)]
pub enum Routed<'a> {
    Netflow5(&'a [u8; 48]),
    /// The flow records of a sample.
    Sflow(&'a [u8]),
    /// A record of NetFlow v9 or IPFIX.
    Record(&'a RouteFields, &'a [u8]),
}

/// Maximum words of a [`RawRoute`].
const RAW_WORDS: usize = 14;

/// The octets of a record that state a route; equal octets state equal routes.
#[derive(Clone, Copy, Debug, Default, Eq)]
pub struct RawRoute {
    /// The fields that the octets belong to: NetFlow v5's, or a template's by the number of its layout; 0 for none.
    layout: u64,
    words: [u64; RAW_WORDS],
    count: u8,
}

impl RawRoute {
    #[inline]
    fn stated(&self) -> impl Iterator<Item = u64> + '_ {
        self.words.iter().copied().take(usize::from(self.count))
    }
}

impl PartialEq for RawRoute {
    /// Word by word, since most have few: of equal layouts the numbers of words are equal.
    #[inline]
    fn eq(&self, other: &RawRoute) -> bool {
        self.layout == other.layout && self.stated().zip(&other.words).all(|(word, &other)| word == other)
    }
}

impl Hash for RawRoute {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.layout);
        self.stated().for_each(|word| state.write_u64(word));
    }
}

/// The fields of a template that belong to a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteFields {
    /// Element, offset (without fields of variable length before it), octets.
    places: Vec<(u16, u16, u16)>,
    /// The places as octet ranges, if no field of variable length moves them.
    layout: Option<RouteLayout>,
    /// All fields that have octets, if the length of one varies.
    varying: Option<Box<[TemplateField]>>,
}

impl RouteFields {
    /// Finds the fields of a route among the fields of a template that have octets.
    pub fn new(present: &[TemplateField]) -> RouteFields {
        let mut places = Vec::new();
        let mut offset = 0;
        for field in present {
            if is_routed(field.pen, field.id) {
                places.push((field.id, offset as u16, field.length));
            }
            offset += least(field.length);
        }
        let varies = present.iter().any(|field| field.length == VARIABLE);
        RouteFields {
            layout: if varies { None } else { RouteLayout::new(&places) },
            varying: varies.then(|| present.into()),
            places,
        }
    }

    /// Whether the template has no fields of a route.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    #[cfg(test)]
    pub fn places(&self) -> &[(u16, u16, u16)] {
        &self.places
    }

    /// Whether the fields are at the same places in every record, and few enough to be read as octets.
    #[cfg(test)]
    pub fn has_layout(&self) -> bool {
        self.layout.is_some()
    }

    /// Passes these fields of a record to `take`, with their elements.
    fn each(&self, record: &[u8], mut take: impl FnMut(u16, &[u8])) {
        if let Some(fields) = &self.varying {
            let fields = walk(fields, record).filter(|(field, _)| is_routed(field.pen, field.id));
            return fields.for_each(|(field, octets)| take(field.id, octets));
        }
        for &(id, at, length) in &self.places {
            let at = usize::from(at);
            if let Some(octets) = record.get(at..at + usize::from(length)) {
                take(id, octets);
            }
        }
    }

    /// Why the exporter ended the record (IE 136), 0 where it does not say.
    pub fn end_reason(&self, record: &[u8]) -> u8 {
        let mut reason = 0;
        self.each(record, |id, octets| {
            if id == 136 {
                reason = number(octets) as u8;
            }
        });
        reason
    }
}

/// The offsets of these fields' octets, the same in every record, in pieces of at most eight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteLayout {
    number: u64,
    pieces: Box<[(u16, u8)]>,
}

const NETFLOW5_LAYOUT: u64 = 1;
static NEXT_LAYOUT: AtomicU64 = AtomicU64::new(NETFLOW5_LAYOUT + 1);

impl RouteLayout {
    /// The layout of fields, each with its offset and octets, in the order of their offsets; `None` if they are too many.
    pub fn new(fields: &[(u16, u16, u16)]) -> Option<RouteLayout> {
        let mut ranges: Vec<(u16, u16)> = Vec::new();
        for &(_, at, octets) in fields {
            match ranges.last_mut() {
                Some((_, end)) if *end == at => *end += octets,
                _ => ranges.push((at, at + octets)),
            }
        }
        let pieces = |&(from, end): &(u16, u16)| (from..end).step_by(8).map(move |at| (at, (end - at).min(8) as u8));
        let pieces: Box<[_]> = ranges.iter().flat_map(pieces).take(RAW_WORDS + 1).collect();
        let fits = (1..=RAW_WORDS).contains(&pieces.len());
        fits.then(|| RouteLayout { number: NEXT_LAYOUT.fetch_add(1, Ordering::Relaxed), pieces })
    }

    #[inline]
    fn raw(&self, record: &[u8]) -> Option<RawRoute> {
        let mut words = [0; RAW_WORDS];
        for (word, &(at, octets)) in words.iter_mut().zip(&self.pieces) {
            let at = usize::from(at);
            *word = match record.get(at..)?.first_chunk() {
                Some(eight) => u64::from_be_bytes(*eight) >> (64 - 8 * u32::from(octets)),
                None => number(record.get(at..at + usize::from(octets))?),
            };
        }
        Some(RawRoute { layout: self.number, words, count: self.pieces.len() as u8 })
    }
}

impl Routed<'_> {
    /// The octets that state the route, if they are few enough and at fixed places.
    #[inline]
    pub fn raw(&self) -> Option<RawRoute> {
        match self {
            Routed::Netflow5(record) => {
                // The next hop; autonomous systems and prefix lengths, before two octets of padding.
                let mut words = [0; RAW_WORDS];
                words[0] = number(&record[8..12]);
                words[1] = number(&record[40..48]) >> 16;
                Some(RawRoute { layout: NETFLOW5_LAYOUT, words, count: 2 })
            }
            Routed::Sflow(_) => None,
            Routed::Record(fields, record) => fields.layout.as_ref()?.raw(record),
        }
    }

    /// Reads the route; `None` if the router left every field at zero.
    pub fn read(&self) -> Option<Route> {
        let mut route = Route::default();
        match self {
            Routed::Netflow5(record) => {
                let fields = [(15, 8..12), (16, 40..42), (17, 42..44), (9, 44..45), (13, 45..46)];
                fields.into_iter().for_each(|(id, at)| route.field(id, &record[at]));
            }
            Routed::Sflow(records) => sample::route(records, &mut route),
            Routed::Record(fields, record) => fields.each(record, |id, octets| route.field(id, octets)),
        }
        (route != Route::default()).then_some(route)
    }
}

/// Whether an element is part of a route.
pub fn is_routed(pen: u32, id: u16) -> bool {
    pen == 0
        && matches!(
            id,
            9 | 13 | 15..=18 | 29 | 30 | 52 | 53 | 56 | 57 | 61..=63 | 70 | 80 | 81 | 89 | 128 | 129 | 136 | 138 | 192 | 225..=228 | 234 | 235 | 281 | 282
        )
}

impl Hash for Route {
    /// Hashes every field, since routes may differ in any single one; packs several into a word, to take fewer steps.
    fn hash<H: Hasher>(&self, state: &mut H) {
        for [source, destination] in [self.autonomous_systems, self.adjacent, self.vrf] {
            state.write_u64(u64::from(source) << 32 | u64::from(destination));
        }
        for address in [self.next_hop, self.bgp_next_hop, self.translated[0], self.translated[1]] {
            state.write_u128(u128::from_ne_bytes(address));
        }
        for ([a, b, c, d, e, f], port) in self.macs.into_iter().zip(self.translated_ports) {
            let [g, h] = port.to_ne_bytes();
            state.write_u64(u64::from_ne_bytes([a, b, c, d, e, f, g, h]));
        }
        let ([a, b], [c, d]) = (self.prefix_lengths, self.ttl);
        let direction = self.direction.map_or(u8::MAX, |direction| direction);
        state.write_u64(u64::from_ne_bytes([a, b, c, d, direction, self.end_reason, self.forwarding_status, 0]));
        state.write_u64(u64::from(self.mpls_top_label) << 32 | u64::from(self.observation_point));
    }
}

impl Route {
    /// The same route from the other end: the destination becomes the source. Next hops, direction, status, label and
    /// TTL describe the packets, and are left out unless `packets`.
    pub fn turned(&self, packets: bool) -> Route {
        let mut turned = if packets {
            *self
        } else {
            Route {
                next_hop: Address::default(),
                bgp_next_hop: Address::default(),
                direction: None,
                forwarding_status: 0,
                mpls_top_label: 0,
                ttl: [0; 2],
                ..*self
            }
        };
        turned.autonomous_systems.swap(0, 1);
        turned.adjacent.swap(0, 1);
        turned.prefix_lengths.swap(0, 1);
        turned.vrf.swap(0, 1);
        turned.macs.swap(0, 1);
        turned.translated.swap(0, 1);
        turned.translated_ports.swap(0, 1);
        turned
    }

    fn field(&mut self, id: u16, octets: &[u8]) {
        let value = number(octets) as u32;
        let address = || match *octets {
            [a, b, c, d] => mapped([a, b, c, d]),
            _ => octets.try_into().unwrap_or_default(),
        };
        // The addresses of the other IP version may be present but empty.
        let set = |to: &mut Address| {
            if octets.iter().any(|&octet| octet != 0) {
                *to = address();
            }
        };
        let station = |to: &mut [u8; 6], before: bool| match octets.try_into() {
            Ok(mac) if mac != [0; 6] && (before || *to == [0; 6]) => *to = mac,
            _ => {}
        };
        let longer = |to: &mut u8| *to = (*to).max(value as u8);
        match id {
            16 => self.autonomous_systems[0] = value,
            17 => self.autonomous_systems[1] = value,
            129 => self.adjacent[0] = value,
            128 => self.adjacent[1] = value,
            15 | 62 => set(&mut self.next_hop),
            18 | 63 => set(&mut self.bgp_next_hop),
            9 | 29 => longer(&mut self.prefix_lengths[0]),
            13 | 30 => longer(&mut self.prefix_lengths[1]),
            234 => self.vrf[0] = value,
            235 => self.vrf[1] = value,
            61 => self.direction = Some(value as u8),
            136 => self.end_reason = value as u8,
            // One octet in NetFlow v9, four in IPFIX.
            89 => self.forwarding_status = value as u8,
            70 => self.mpls_top_label = value >> 4,
            52 => self.ttl[0] = value as u8,
            53 => self.ttl[1] = value as u8,
            192 => self.ttl = [value as u8; 2],
            // The address before the router; if there is none, the one after it.
            56 => station(&mut self.macs[0], true),
            80 => station(&mut self.macs[1], true),
            81 => station(&mut self.macs[0], false),
            57 => station(&mut self.macs[1], false),
            225 | 281 => set(&mut self.translated[0]),
            226 | 282 => set(&mut self.translated[1]),
            227 => self.translated_ports[0] = value as u16,
            228 => self.translated_ports[1] = value as u16,
            138 => self.observation_point = value,
            _ => {}
        }
    }
}

impl PartialEq for Routed<'_> {
    fn eq(&self, other: &Routed<'_>) -> bool {
        self.read() == other.read()
    }
}

impl Eq for Routed<'_> {}

impl fmt::Debug for Routed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.read().fmt(f)
    }
}
