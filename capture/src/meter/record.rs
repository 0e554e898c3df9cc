//! The records of flows in one interval.
//!
//! [`Records`] keeps the records of an interval in few octets, in the order of their flows' first packets: a table for
//! each IP version, and separately the fields that only some records have. [`Record`] is the public view of one.

use super::key::{Compact, End, Initiator, Key, SYN_ACK, V4, V6};
use super::memory;
use super::tcp::SegmentVerdict;
use crate::app::names::Name;
use crate::app::{AppSlot, NotInspected};
use crate::filter::FilterCounts;
use crate::packet::{IcmpRole, IpPacket, Quoted, protocol, quoted, tcp};
use crate::volume::Volume;

/// The packets that one end of a flow sent in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Layer-3 octets.
    pub octets: u32,
    pub packets: u32,
    /// The class of service of its first packet (IE 5).
    pub class_of_service: u8,
    /// Counts that few flows have.
    pub events: Events,
}

impl Sent {
    /// Its packets and octets.
    pub fn volume(&self) -> Volume {
        Volume { packets: u64::from(self.packets), octets: u64::from(self.octets) }
    }
}

/// Packets of one end that are also counted by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// TCP segments with SYN and without ACK.
    pub syn: u16,
    /// TCP segments with SYN and ACK.
    pub synack: u16,
    /// TCP segments with FIN.
    pub fin: u16,
    /// TCP segments with RST.
    pub rst: u16,
    /// Retransmitted TCP segments.
    pub retransmissions: u16,
    /// Out-of-order TCP segments.
    pub out_of_order: u16,
    pub icmp_errors: u16,
    /// The part of `icmp_errors` that quotes UDP.
    pub icmp_errors_udp: u16,
}

/// The deltas of one biflow in one interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Who.
    pub key: Key,
    /// Which end began.
    pub initiator: Initiator,
    /// First packet ever, ms from the Unix epoch.
    pub start_ms: i64,
    /// First packet in this interval, ms from the Unix epoch.
    pub first_ms: i64,
    /// Last packet in this interval, ms from the Unix epoch.
    pub last_ms: i64,
    /// Counts of the packets that each end of the key sent.
    pub sent: [Sent; 2],
    /// From SYN to the ACK of its SYN-ACK, microseconds; 0 if not seen in this interval.
    pub handshake_rtt_us: u32,
    /// The flow that the first ICMP error quotes.
    pub quoted: Option<Quoted>,
    /// The application, as nDPI's number; 0 if unknown.
    pub application_id: u16,
    /// Why the application may be unknown although there was payload to inspect.
    pub not_inspected: Option<NotInspected>,
    /// The server that the initiator asked for, or the name that it asked DNS for first.
    pub name: Option<&'a Name>,
}

impl Record<'_> {
    pub fn forward(&self) -> &Sent {
        &self.sent[usize::from(self.initiator.end)]
    }

    /// The packets sent to the initiator.
    pub fn reverse(&self) -> &Sent {
        &self.sent[usize::from(1 - self.initiator.end)]
    }

    /// Both directions together.
    pub fn volume(&self) -> Volume {
        self.sent.iter().map(|sent| Volume { packets: u64::from(sent.packets), octets: u64::from(sent.octets) }).sum()
    }
}

/// No number.
pub(super) const NONE: u32 = u32::MAX;

/// Octets per end beyond which a record accepts no more packets, with a margin for one packet and the fragments that
/// waited for it.
const MOST_OCTETS: u32 = u32::MAX - (1 << 22);

/// Times within this distance of the interval's start are exact: 12 days, in ms.
const EXACT_MS: i64 = 1 << 30;
/// Steps in which later and earlier times are kept, ms; 32 bits then hold 139 years.
const STEP_MS: i64 = 1 << 12;

/// A time, ms after the interval's start, in 32 bits and in the same order: a packet may be late by any amount.
#[inline]
pub(super) fn packed_ms(ms: i64) -> i32 {
    let beyond = ms.saturating_sub(ms.clamp(-EXACT_MS, EXACT_MS));
    let packed = if beyond == 0 { ms } else { ms.clamp(-EXACT_MS, EXACT_MS) + beyond / STEP_MS };
    packed.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
}

/// The time that [`packed_ms`] packed.
#[inline]
fn unpacked_ms(packed: i32) -> i64 {
    let ms = i64::from(packed);
    let near = ms.clamp(-EXACT_MS, EXACT_MS);
    near + (ms - near) * STEP_MS
}

/// A record as it is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored<K> {
    key: K,
    /// By end.
    octets: [u32; 2],
    packets: [u32; 2],
    /// As [`packed_ms`].
    first: i32,
    last: i32,
    /// Time of the flow's first packet in ms since the Unix epoch: low 32 bits, then high 32 bits.
    start: [u32; 2],
    /// Index of its [`Extra`].
    extra: u32,
    pub(super) initiator: Initiator,
    not_inspected: Option<NotInspected>,
}

/// Fields that only some records have.
#[derive(Clone, Copy, Debug, Default)]
struct Extra {
    events: [Events; 2],
    rtt_us: u32,
    /// Index of its quoted flow, plus 1.
    quoted: u32,
    /// Index of its name, plus 1.
    name: u32,
    application_id: u16,
    /// By end.
    class_of_service: [u8; 2],
}

/// The extra fields of records that have none.
static NOTHING: Extra = Extra {
    events: [Events {
        syn: 0,
        synack: 0,
        fin: 0,
        rst: 0,
        retransmissions: 0,
        out_of_order: 0,
        icmp_errors: 0,
        icmp_errors_udp: 0,
    }; 2],
    rtt_us: 0,
    quoted: 0,
    name: 0,
    application_id: 0,
    class_of_service: [0; 2],
};

/// The records of one interval.
#[derive(Debug, Default)]
pub struct Records {
    start_ms: i64,
    pub(super) v4: Vec<Stored<V4>>,
    pub(super) v6: Vec<Stored<V6>>,
    extras: Extras,
    /// Octets of each table returned to the system.
    given: [usize; 2],
}

/// The fields that the tables do not hold.
#[derive(Debug, Default)]
pub(super) struct Extras {
    extras: Vec<Extra>,
    quoted: Vec<Quoted>,
    names: Vec<Name>,
}

/// Extras larger than this, in octets, are freed instead of reused.
const MANY: usize = 16 << 20;

impl Extras {
    fn clear(&mut self) {
        if self.extras.capacity() * size_of::<Extra>() > MANY {
            *self = Extras::default();
        }
        self.extras.clear();
        self.quoted.clear();
        self.names.clear();
    }
}

/// Octets that a record of either version may cost.
pub(super) const fn cost<K>() -> usize {
    size_of::<Stored<K>>() + size_of::<Extra>()
}

impl<K: Compact> Stored<K> {
    pub fn new(key: K, initiator: Initiator, start_ms: i64, at_ms: i32) -> Stored<K> {
        Stored {
            key,
            octets: [0; 2],
            packets: [0; 2],
            first: at_ms,
            last: at_ms,
            start: [start_ms as u32, (start_ms >> 32) as u32],
            extra: NONE,
            initiator,
            not_inspected: None,
        }
    }

    /// Counts packets of one end, within [`MOST_OCTETS`]; returns whether the record may be full. Times are those of
    /// [`packed_ms`].
    #[inline]
    pub fn count(&mut self, sender: End, volume: Volume, first: i32, last: i32) -> bool {
        let end = usize::from(sender);
        self.first = self.first.min(first);
        self.last = self.last.max(last);
        self.packets[end] += volume.packets as u32;
        self.octets[end] += volume.octets as u32;
        self.octets[end] > MOST_OCTETS
    }

    /// Stores the class of service of an end's first packet, before counting it.
    #[inline]
    pub fn classify(&mut self, extras: &mut Extras, sender: End, class_of_service: u8) {
        let end = usize::from(sender);
        if class_of_service != 0 && self.packets[end] == 0 {
            self.extra(extras).class_of_service[end] = class_of_service;
        }
    }

    #[inline]
    fn filter(&self, filters: &mut FilterCounts) -> Volume {
        let volume = |end: usize| Volume { packets: u64::from(self.packets[end]), octets: u64::from(self.octets[end]) };
        filters.flow(|| self.key.sent_by(0), volume(0));
        filters.flow(|| self.key.sent_by(1), volume(1));
        volume(0) + volume(1)
    }

    fn extra<'a>(&mut self, extras: &'a mut Extras) -> &'a mut Extra {
        if self.extra == NONE {
            self.extra = extras.extras.len() as u32;
            extras.extras.push(Extra::default());
        }
        &mut extras.extras[self.extra as usize]
    }

    /// Counts a packet's events; returns whether the record has no room for another. `layer3` holds its captured
    /// octets, from the IP header on.
    #[inline(never)]
    pub fn note(
        &mut self,
        extras: &mut Extras,
        ip: &IpPacket,
        sender: End,
        verdict: SegmentVerdict,
        layer3: &[u8],
    ) -> bool {
        let extra = self.extra(extras);
        let events = &mut extra.events[usize::from(sender)];
        if let Some(tcp) = ip.tcp {
            events.flags(tcp.flags);
        }
        let quoted = if ip.icmp == IcmpRole::Error { quoted(ip, layer3) } else { None };
        events.icmp_errors += u16::from(ip.icmp == IcmpRole::Error);
        events.icmp_errors_udp += u16::from(quoted.is_some_and(|quoted| quoted.protocol == protocol::UDP));
        events.retransmissions += u16::from(verdict.retransmission);
        events.out_of_order += u16::from(verdict.out_of_order);
        // No more errors quote UDP than there are errors.
        let Events { syn, synack, fin, rst, retransmissions, out_of_order, icmp_errors, icmp_errors_udp: _ } = *events;
        let full = [syn, synack, fin, rst, retransmissions, out_of_order, icmp_errors].contains(&u16::MAX);
        if verdict.rtt_us > 0 {
            extra.rtt_us = verdict.rtt_us;
        }
        if let Some(quoted) = quoted {
            self.quote(extras, quoted);
        }
        full
    }

    /// Whether it has counted no packet yet.
    pub fn is_new(&self) -> bool {
        self.packets == [0; 2]
    }

    /// Stores the flow's application.
    #[inline]
    pub fn tell(&mut self, extras: &mut Extras, app: &AppSlot) {
        self.not_inspected = app.not_inspected();
        let name = app.server_name().or(app.dns_query());
        if app.application_id() != 0 || name.is_some() {
            self.tell_all(extras, app, name);
        }
    }

    #[inline(never)]
    fn tell_all(&mut self, extras: &mut Extras, app: &AppSlot, name: Option<&Name>) {
        self.extra(extras).application_id = app.application_id();
        if let Some(name) = name {
            self.name(extras, name);
        }
    }

    fn name(&mut self, extras: &mut Extras, name: &Name) {
        let next = extras.names.len() as u32 + 1;
        let number = &mut self.extra(extras).name;
        if *number == 0 {
            *number = next;
            extras.names.push(name.clone());
        }
    }

    /// Keeps the first quoted flow.
    fn quote(&mut self, extras: &mut Extras, quoted: Quoted) {
        if self.extra(extras).quoted == 0 {
            extras.quoted.push(quoted);
            extras.extras[self.extra as usize].quoted = extras.quoted.len() as u32;
        }
    }
}

impl Events {
    /// Counts TCP's flags.
    pub(super) fn flags(&mut self, flags: u8) {
        match flags & SYN_ACK {
            tcp::SYN => self.syn += 1,
            SYN_ACK => self.synack += 1,
            _ => {}
        }
        self.fin += u16::from(flags & tcp::FIN != 0);
        self.rst += u16::from(flags & tcp::RST != 0);
    }
}

/// Whether [`Events`] counts this packet individually.
#[inline]
pub(super) fn is_event(ip: &IpPacket) -> bool {
    ip.tcp.is_some_and(|tcp| tcp.flags & (tcp::SYN | tcp::FIN | tcp::RST) != 0) || ip.icmp == IcmpRole::Error
}

impl Records {
    /// Reserves room for `v4` and `v6` records, so that growing never copies them; memory is committed on use.
    pub(super) fn with_capacity(v4: usize, v6: usize) -> Records {
        Records { v4: memory::reserve(v4), v6: memory::reserve(v6), ..Records::default() }
    }

    /// Begins an interval that starts at this time, ms from the Unix epoch.
    pub fn restart(&mut self, start_ms: i64) {
        self.start_ms = start_ms;
        self.v4.clear();
        self.v6.clear();
        self.given = [0; 2];
        self.extras.clear();
    }

    /// Frees the records before this one, which will not be read again, so that memory returns to the system gradually
    /// while the next interval's records grow.
    pub fn passed(&mut self, number: usize) {
        self.given[0] = memory::give_back(&mut self.v4, number, self.given[0]);
        self.given[1] = memory::give_back(&mut self.v6, number.saturating_sub(self.v4.len()), self.given[1]);
    }

    /// Start of the interval, ms from the Unix epoch.
    pub fn start_ms(&self) -> i64 {
        self.start_ms
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All records, those of IPv4 first.
    pub fn iter(&self) -> impl Iterator<Item = Record<'_>> {
        (0..self.len()).map(|number| self.get(number))
    }

    /// A record, by its number in the order of [`Records::iter`].
    #[inline]
    pub fn get(&self, number: usize) -> Record<'_> {
        match number.checked_sub(self.v4.len()) {
            None => self.record(&self.v4[number]),
            Some(number) => self.record(&self.v6[number]),
        }
    }

    #[inline]
    fn record<K: Compact>(&self, stored: &Stored<K>) -> Record<'_> {
        let extra = self.extras.extras.get(stored.extra as usize).unwrap_or(&NOTHING);
        let sent = |end: usize| Sent {
            octets: stored.octets[end],
            packets: stored.packets[end],
            class_of_service: extra.class_of_service[end],
            events: extra.events[end],
        };
        Record {
            key: stored.key.key(),
            initiator: stored.initiator,
            start_ms: i64::from(stored.start[1]) << 32 | i64::from(stored.start[0]),
            first_ms: self.start_ms + unpacked_ms(stored.first),
            last_ms: self.start_ms + unpacked_ms(stored.last),
            sent: [sent(0), sent(1)],
            handshake_rtt_us: extra.rtt_us,
            quoted: extra.quoted.checked_sub(1).map(|number| self.extras.quoted[number as usize]),
            application_id: extra.application_id,
            not_inspected: stored.not_inspected,
            name: extra.name.checked_sub(1).map(|number| &self.extras.names[number as usize]),
        }
    }

    /// Counts a record, by its number, for the expressions that are constant in flows; returns its volume, both
    /// directions together.
    #[inline]
    pub fn count(&self, number: usize, filters: &mut FilterCounts) -> Volume {
        match number.checked_sub(self.v4.len()) {
            None => self.v4[number].filter(filters),
            Some(number) => self.v6[number].filter(filters),
        }
    }

    /// Adds a complete record.
    pub fn push(&mut self, record: &Record<'_>) {
        match record.key.version {
            4 => {
                let stored = self.stored(record);
                self.v4.push(stored);
            }
            _ => {
                let stored = self.stored(record);
                self.v6.push(stored);
            }
        }
    }

    fn stored<K: Compact>(&mut self, record: &Record<'_>) -> Stored<K> {
        let at = |ms: i64| packed_ms(ms - self.start_ms);
        let mut stored = Stored::new(K::of(&record.key), record.initiator, record.start_ms, at(record.first_ms));
        stored.last = at(record.last_ms);
        stored.packets = record.sent.map(|sent| sent.packets);
        stored.octets = record.sent.map(|sent| sent.octets);
        let extra = stored.extra(&mut self.extras);
        extra.events = record.sent.map(|sent| sent.events);
        extra.rtt_us = record.handshake_rtt_us;
        extra.application_id = record.application_id;
        extra.class_of_service = record.sent.map(|sent| sent.class_of_service);
        if let Some(name) = record.name {
            stored.name(&mut self.extras, name);
        }
        stored.not_inspected = record.not_inspected;
        if let Some(quoted) = record.quoted {
            stored.quote(&mut self.extras, quoted);
        }
        stored
    }

    /// The record table of an IP version, and the fields kept beside it.
    pub(super) fn v4_mut(&mut self) -> (&mut Vec<Stored<V4>>, &mut Extras) {
        (&mut self.v4, &mut self.extras)
    }

    pub(super) fn v6_mut(&mut self) -> (&mut Vec<Stored<V6>>, &mut Extras) {
        (&mut self.v6, &mut self.extras)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_small() {
        assert_eq!((size_of::<Stored<V4>>(), size_of::<Stored<V6>>(), size_of::<Extra>()), (56, 80, 48));
    }
}
