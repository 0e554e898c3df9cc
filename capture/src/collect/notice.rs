//! Reports of exporters other than flows, on their way to the publisher: events of translation, counters of interfaces
//! and names.

use super::exporter::origin::ExporterInfo;
use super::record::{GivenName, InterfaceCounters, Named, NatEvent};
use super::remembered::Remembered;
use crate::packet::{Address, stated};
use crate::privacy::Pseudonyms;
use crate::proto;
use crate::proto::exporter_name::Kind;
use crate::proto::nat_event::Event;
use crate::publish::encode::BatchEncoder;
use foldhash::fast::RandomState;
use std::hash::BuildHasher as _;

/// Notices that wait before they are published.
const QUEUE: usize = 10_000;
/// The collector publishes an unchanged name again after this time, ms.
const NAME_AGAIN_MS: i64 = 3_600_000;
/// Samples of counters further apart than this have no delta, ms.
const LONGEST_SPAN_MS: i64 = 3_600_000;
/// Maximum kept octets of a user name, interface name or description.
const MAX_NAME: usize = 255;

/// One notice, as a message of `flow.proto`.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// An address translation, or a firewall's decision.
    Nat(proto::NatEvent),
    /// The increase of an interface's counters.
    Counters(proto::ExporterCounters),
    /// The name of an interface or a VRF.
    Name(proto::ExporterName),
}

impl Notice {
    /// Adds it to a batch, with pseudonyms if the batch has any.
    pub(super) fn encode(&self, batch: &mut BatchEncoder) {
        let hidden = batch.pseudonyms().map(|pseudonyms| self.hidden(pseudonyms));
        match hidden.as_ref().unwrap_or(self) {
            Notice::Nat(event) => batch.report(2, event),
            Notice::Counters(counters) => batch.report(3, counters),
            Notice::Name(name) => batch.report(4, name),
        }
    }

    /// The same with pseudonyms, and without names unless they are kept. Exporters keep their addresses.
    fn hidden(&self, pseudonyms: &mut Pseudonyms) -> Notice {
        let mut hidden = self.clone();
        let names = pseudonyms.names();
        match &mut hidden {
            Notice::Nat(event) => {
                for address in
                    [&mut event.src_addr, &mut event.dst_addr, &mut event.post_src_addr, &mut event.post_dst_addr]
                {
                    pseudonyms.replace_stated(address);
                }
                if !names {
                    event.user_name.clear();
                }
            }
            Notice::Name(name) if !names => {
                name.name.clear();
                name.description.clear();
            }
            Notice::Counters(_) | Notice::Name(_) => {}
        }
        hidden
    }
}

/// An interface of an exporter.
type Interface = (Address, u32, u32);

/// Counters of an interface.
#[derive(Clone, Copy, Debug)]
struct Counted {
    newest: InterfaceCounters,
    /// A later sample with lower counters, and its arrival time.
    lower: Option<(i64, InterfaceCounters)>,
}

/// The waiting notices, and the state of earlier reports.
#[derive(Debug, Default)]
pub struct Notices {
    queue: Vec<Notice>,
    counters: Remembered<Interface, Counted>,
    /// A hash of each name.
    names: Remembered<(Kind, Interface), u64>,
    hasher: RandomState,
}

impl Notices {
    /// Whether the waiting notices must be published before more are added.
    pub fn is_full(&self) -> bool {
        self.queue.len() >= QUEUE
    }

    /// Counters and names forgotten to make room for other senders.
    pub fn forgotten(&self) -> u64 {
        self.counters.forgotten() + self.names.forgotten()
    }

    /// Moves all times along with the host's clock.
    pub fn clock_set(&mut self, by_ms: i64) {
        self.counters.clock_set(by_ms, |counted| {
            if let Some((at_ms, _)) = &mut counted.lower {
                *at_ms = at_ms.saturating_add(by_ms);
            }
        });
        self.names.clock_set(by_ms, |_| {});
    }

    /// Takes those that wait.
    pub fn take(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.queue)
    }

    /// Adds an event of address translation or of a firewall. A part that was not translated is the same on both sides.
    pub fn event(&mut self, from: &ExporterInfo, event: &NatEvent<'_>) {
        let either =
            |after: &Address, before: &Address| stated(if *after == Address::default() { before } else { after });
        let [src, dst] = &event.addresses;
        let [post_src, post_dst] = &event.translated;
        let port = |after: u16, before: u16| u32::from(if after == 0 { before } else { after });
        let [first, last] = event.port_block;
        let last = match (last, event.port_count) {
            (0, count) if count > 1 => first.saturating_add((count - 1).saturating_mul(event.port_step.max(1))),
            (last, _) => last,
        };
        // An event about one port may name the block to which the port belongs.
        let of_blocks = matches!(event.nat_event, 16 | 17);
        // Exporters name a block of one port by its start alone; some also name a freed block of any size this way.
        let last = if event.nat_event == 16 && last == 0 { first } else { last };
        let is_block = of_blocks || (first > 0 && last > 0 && event.translated_ports[0] == 0);
        self.queue.push(Notice::Nat(proto::NatEvent {
            event_at_ms: event.time_ms.max(0) as u64,
            event: what(event) as i32,
            nat_event: u32::from(event.nat_event),
            firewall_event: u32::from(event.firewall_event),
            exporter_addr: stated(from.speaker()),
            protocol: u32::from(event.protocol),
            src_addr: stated(src),
            src_port: u32::from(event.ports[0]),
            dst_addr: stated(dst),
            dst_port: u32::from(event.ports[1]),
            post_src_addr: either(post_src, src),
            post_src_port: if is_block { u32::from(first) } else { port(event.translated_ports[0], event.ports[0]) },
            post_dst_addr: either(post_dst, dst),
            post_dst_port: port(event.translated_ports[1], event.ports[1]),
            port_block_end: if is_block { u32::from(last) } else { 0 },
            port_block_step: u32::from(event.port_step),
            ingress_vrf: event.vrf[0],
            egress_vrf: event.vrf[1],
            connection: event.connection,
            user_name: text(event.user),
        }));
    }

    /// Adds the increase of an interface's counters since the previous sample; the first one adds nothing. A single
    /// lower sample arrived late; two lower ones that rise mean that the device's counters restarted. False where there
    /// is no room for them.
    pub fn counters(&mut self, from: &ExporterInfo, now: &InterfaceCounters, now_ms: i64) -> bool {
        let interface = (*from.speaker(), from.domain, now.index);
        let Some((base_ms, base)) = self.counters.get(&from.address, &interface).copied() else {
            let first = Counted { newest: *now, lower: None };
            return self.counters.keep(&from.address, interface, now_ms, first).is_ok();
        };
        let follows = |before: &InterfaceCounters| (0..2).all(|way| now.octets[way] >= before.octets[way]);
        let (before_ms, before) = match base.lower {
            _ if follows(&base.newest) => (base_ms, base.newest),
            Some(lower) if follows(&lower.1) => lower,
            _ => {
                let kept = Counted { lower: Some((now_ms, *now)), ..base };
                return self.counters.keep(&from.address, interface, base_ms, kept).is_ok();
            }
        };
        if self.counters.keep(&from.address, interface, now_ms, Counted { newest: *now, lower: None }).is_err() {
            return false;
        }
        let span_ms = now_ms - before_ms;
        if !(1..=LONGEST_SPAN_MS).contains(&span_ms) {
            return true;
        }
        // Octets are of 64 bits; the others wrap at 32, packets as a sum of three.
        let octets_of = |way: usize| now.octets[way] - before.octets[way];
        let packets = |way: usize| now.packets[way].wrapping_sub(before.packets[way]) & 0xffff_ffff;
        let rare = |now: u32, before: u32| u64::from(now.wrapping_sub(before));
        self.queue.push(Notice::Counters(proto::ExporterCounters {
            exporter_addr: stated(from.speaker()),
            domain: from.domain,
            interface: now.index,
            speed: now.speed,
            status: now.status,
            span_ms: span_ms as u64,
            in_octets: octets_of(0),
            in_packets: packets(0),
            in_errors: rare(now.errors[0], before.errors[0]),
            in_discards: rare(now.discards[0], before.discards[0]),
            out_octets: octets_of(1),
            out_packets: packets(1),
            out_errors: rare(now.errors[1], before.errors[1]),
            out_discards: rare(now.discards[1], before.discards[1]),
        }));
        true
    }

    /// Reports a name that is new, or that was not reported for long. False if there is no room for it.
    pub fn name(&mut self, from: &ExporterInfo, name: &GivenName<'_>, now_ms: i64) -> bool {
        let kind = match name.of {
            Named::Interface => Kind::Interface,
            Named::Vrf => Kind::Vrf,
        };
        let named = (kind, (*from.speaker(), from.domain, name.number));
        let hash = self.hasher.hash_one((name.name, name.description));
        let known = self.names.get(&from.address, &named);
        if known.is_some_and(|&(at, known)| known == hash && now_ms - at < NAME_AGAIN_MS) {
            return true;
        }
        if self.names.keep(&from.address, named, now_ms, hash).is_err() {
            return false;
        }
        self.queue.push(Notice::Name(proto::ExporterName {
            exporter_addr: stated(from.speaker()),
            kind: kind as i32,
            number: name.number,
            name: text(name.name),
            description: text(name.description),
        }));
        true
    }
}

/// The kind of event, combined from both numberings (IE 230, RFC 8158; IE 233).
fn what(event: &NatEvent<'_>) -> Event {
    match (event.nat_event, event.firewall_event) {
        (1 | 4 | 6 | 8 | 10, _) => Event::Create,
        (2 | 5 | 7 | 9 | 11, _) => Event::Delete,
        (14, _) => Event::AddressBind,
        (15, _) => Event::AddressUnbind,
        (16, _) => Event::PortBlockAllocate,
        (17, _) => Event::PortBlockFree,
        (3 | 12 | 13 | 18, _) => Event::Exhausted,
        (0, 1) => Event::Create,
        (0, 2) => Event::Delete,
        (0, 3) => Event::Deny,
        (0, 0) => Event::Unspecified,
        _ => Event::Other,
    }
}

fn text(octets: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(octets).into_owned();
    let end = (0..=text.len().min(MAX_NAME)).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    text.truncate(end);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::exporter::origin::Protocol;
    use std::net::Ipv4Addr;

    fn exporter() -> ExporterInfo {
        let address = Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped().octets();
        ExporterInfo { address, agent: Address::default(), protocol: Protocol::Ipfix, domain: 7 }
    }

    fn four(last: u8) -> Address {
        Ipv4Addr::new(100, 64, 0, last).to_ipv6_mapped().octets()
    }

    fn nat(of: &NatEvent<'_>) -> proto::NatEvent {
        let mut notices = Notices::default();
        notices.event(&exporter(), of);
        match &notices.take()[..] {
            [Notice::Nat(event)] => event.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_was_not_translated_is_seen_as_it_is() {
        let event =
            NatEvent { addresses: [four(1), four(2)], ports: [5, 80], firewall_event: 1, ..NatEvent::default() };
        let told = nat(&event);
        assert_eq!((told.event(), told.post_src_addr, told.post_src_port), (Event::Create, vec![100, 64, 0, 1], 5));
        assert_eq!((told.post_dst_addr, told.post_dst_port), (vec![100, 64, 0, 2], 80));
        let translated = NatEvent { translated: [four(9), Address::default()], translated_ports: [4000, 0], ..event };
        let told = nat(&translated);
        assert_eq!((told.src_port, told.post_src_addr, told.post_src_port), (5, vec![100, 64, 0, 9], 4000));
    }

    #[test]
    fn blocks_of_ports_have_a_first_and_a_last_one() {
        let block = NatEvent { nat_event: 16, port_block: [1024, 2047], ..NatEvent::default() };
        let told = nat(&block);
        assert_eq!((told.event(), told.post_src_port, told.port_block_end), (Event::PortBlockAllocate, 1024, 2047));
        let counted = NatEvent { port_block: [1024, 0], port_count: 64, port_step: 2, ..block };
        assert_eq!(nat(&counted).port_block_end, 1024 + 63 * 2);
        let one = nat(&NatEvent { port_block: [1500, 0], ..block });
        assert_eq!((one.post_src_port, one.port_block_end), (1500, 1500));
        let freed = nat(&NatEvent { nat_event: 17, port_block: [1024, 0], ..block });
        assert_eq!((freed.post_src_port, freed.port_block_end), (1024, 0));
        let absurd = NatEvent { port_block: [65_000, 0], port_count: 60_000, port_step: 9, ..block };
        assert_eq!(nat(&absurd).port_block_end, 65_535);
        let session = NatEvent { nat_event: 4, translated_ports: [1500, 0], ..block };
        assert_eq!((nat(&session).post_src_port, nat(&session).port_block_end), (1500, 0));
        // Some report a block with the event of a session, and name no port.
        let of_session = NatEvent { nat_event: 1, ports: [5, 80], translated_ports: [0, 0], ..block };
        assert_eq!((nat(&of_session).post_src_port, nat(&of_session).port_block_end), (1024, 2047));
        let no_block = NatEvent { port_block: [0, 2047], ..of_session };
        assert_eq!((nat(&no_block).post_src_port, nat(&no_block).port_block_end), (5, 0));
    }

    #[test]
    fn every_event_of_the_registry_is_one_of_ours() {
        let of = |nat_event, firewall_event| what(&NatEvent { nat_event, firewall_event, ..NatEvent::default() });
        let by_nat: Vec<Event> = (1..=18).map(|event| of(event, 0)).collect();
        use Event::{AddressBind, AddressUnbind, Create, Delete, Exhausted, PortBlockAllocate, PortBlockFree};
        let expected = [
            Create,
            Delete,
            Exhausted,
            Create,
            Delete,
            Create,
            Delete,
            Create,
            Delete,
            Create,
            Delete,
            Exhausted,
            Exhausted,
            AddressBind,
            AddressUnbind,
            PortBlockAllocate,
            PortBlockFree,
            Exhausted,
        ];
        assert_eq!(by_nat, expected);
        let by_firewall: Vec<Event> = (0..=5).map(|event| of(0, event)).collect();
        assert_eq!(by_firewall, [Event::Unspecified, Create, Delete, Event::Deny, Event::Other, Event::Other]);
    }

    #[test]
    fn counters_are_told_by_what_they_went_on_by() {
        let mut notices = Notices::default();
        let first =
            InterfaceCounters { index: 3, octets: [u64::MAX - 9, 5], packets: [0xffff_fff0, 1], ..Default::default() };
        notices.counters(&exporter(), &first, 1000);
        assert_eq!(notices.take(), []);
        let next = InterfaceCounters { octets: [u64::MAX, 505], packets: [0x1_0000_0005, 3], errors: [1, 0], ..first };
        notices.counters(&exporter(), &next, 31_000);
        let [Notice::Counters(told)] = &notices.take()[..] else { panic!() };
        assert_eq!((told.in_octets, told.out_octets, told.in_packets, told.out_packets), (9, 500, 21, 2));
        assert_eq!((told.span_ms, told.in_errors, told.interface), (30_000, 1, 3));
        // The device restarted, and then continued.
        let anew = InterfaceCounters { octets: [10, 10], packets: [1, 1], ..first };
        notices.counters(&exporter(), &anew, 61_000);
        assert_eq!(notices.take(), []);
        notices.counters(&exporter(), &InterfaceCounters { octets: [30, 10], ..anew }, 91_000);
        assert!(matches!(&notices.take()[..], [Notice::Counters(told)] if told.in_octets == 20));
    }

    /// Takes the notices, which are all of counters.
    fn counted<T>(notices: &mut Notices, of: impl Fn(&proto::ExporterCounters) -> T) -> Vec<T> {
        let counters = |notice: &Notice| match notice {
            Notice::Counters(told) => of(told),
            _ => panic!("not counters"),
        };
        notices.take().iter().map(counters).collect()
    }

    #[test]
    fn sub_agents_that_count_the_same_interface_are_told_apart() {
        let mut notices = Notices::default();
        for (domain, octets, at_ms) in [(0, 1000, 0), (1, 50, 10_000), (0, 1500, 30_000), (1, 70, 40_000)] {
            let sub_agent = ExporterInfo { protocol: Protocol::Sflow, domain, ..exporter() };
            let sample = InterfaceCounters { index: 3, octets: [octets, 0], ..Default::default() };
            notices.counters(&sub_agent, &sample, at_ms);
        }
        assert_eq!(counted(&mut notices, |told| (told.domain, told.in_octets)), [(0, 500), (1, 20)]);
    }

    #[test]
    fn a_sample_that_comes_late_counts_nothing_twice() {
        let mut notices = Notices::default();
        let sample = |octets| InterfaceCounters { index: 3, octets: [octets, octets], ..Default::default() };
        for (octets, at_ms) in [(1000, 0), (1100, 30_000), (1300, 90_000), (1200, 90_500), (1400, 120_000)] {
            notices.counters(&exporter(), &sample(octets), at_ms);
        }
        let told = counted(&mut notices, |told| (told.in_octets, told.span_ms));
        assert_eq!(told, [(100, 30_000), (200, 60_000), (100, 30_000)]);
    }

    #[test]
    fn names_are_told_when_they_change_and_every_hour() {
        let mut notices = Notices::default();
        let name = GivenName { number: 3, name: b"xe-0/0/1", description: b"north", ..GivenName::default() };
        for (ms, name, told) in [
            (0, name, 1),
            (1000, name, 0),
            (2000, GivenName { description: b"south", ..name }, 1),
            (3000, GivenName { number: 4, ..name }, 1),
            (3000, GivenName { of: Named::Vrf, ..name }, 1),
            (2000 + NAME_AGAIN_MS, GivenName { description: b"south", ..name }, 1),
        ] {
            notices.name(&exporter(), &name, 1_700_000_000_000 + ms);
            assert_eq!(notices.take().len(), told, "{ms}");
        }
        let long = "ü".repeat(200);
        notices.name(&exporter(), &GivenName { name: long.as_bytes(), ..name }, 0);
        assert!(matches!(&notices.take()[..], [Notice::Name(told)] if told.name == "ü".repeat(127)));
    }

    #[test]
    fn a_sender_of_very_many_interfaces_costs_no_other_one_a_delta() {
        let mut notices = Notices::default();
        // Whatever agent and domain a datagram names, its sender is one.
        let hostile = |index| ExporterInfo { address: four(9), agent: four(index as u8), domain: index, ..exporter() };
        let counters = |index| InterfaceCounters { index, ..Default::default() };
        assert!(notices.counters(&exporter(), &counters(3), 0));
        let mut refused = [0, 0];
        for index in 0..131_072 {
            refused[0] += u32::from(!notices.counters(&hostile(index), &counters(index), 0));
            refused[1] +=
                u32::from(!notices.name(&hostile(index), &GivenName { number: index, ..Default::default() }, 0));
            if notices.is_full() {
                notices.take();
            }
        }
        assert_eq!(refused, [98_304; 2]);
        notices.take();
        assert!(notices.counters(&exporter(), &InterfaceCounters { octets: [500, 0], ..counters(3) }, 1000));
        assert!(matches!(&notices.take()[..], [Notice::Counters(told)] if told.in_octets == 500));
        assert_eq!(notices.forgotten(), 0);
    }
}
