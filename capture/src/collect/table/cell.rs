//! One flow in one interval: what its ends sent, added up from the parts of records.

use crate::collect::part::{FlowPart, Rare};
use crate::meter::key::{End, Key};
use crate::packet::tcp;

/// Counts of one end in one interval.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Side {
    pub(super) packets: u64,
    pub(super) octets: u64,
    /// Number of flows whose record has the flag from this end: a SYN counts in the first interval, FIN and RST in the
    /// last one.
    pub(super) syn: u32,
    pub(super) lone_syn: bool,
    pub(super) fin: u32,
    pub(super) rst: u32,
    /// As the first record of this end states it.
    pub(super) class_of_service: u8,
    /// Start of the earliest flow in which this end sent, ms; 0 if it sent nothing.
    pub(super) began_ms: i64,
}

#[derive(Debug)]
pub(super) struct Cell {
    pub(super) sides: [Side; 2],
    pub(super) start_ms: i64,
    pub(super) first_ms: i64,
    pub(super) last_ms: i64,
    /// The end known to be the initiator.
    pub(super) known: Option<End>,
    /// The end whose packets crossed the interfaces, and the interfaces.
    pub(super) interfaces: (End, u32, u32),
    pub(super) rtt_us: u32,
    pub(super) application_id: u16,
    pub(super) rare: Option<Box<Rare>>,
    /// The index of the first routing data seen from each end.
    pub(super) routes: [Option<u32>; 2],
}

impl Cell {
    pub(super) fn new(part: &FlowPart) -> Cell {
        let (input, output) = part.interfaces;
        Cell {
            sides: [Side::default(); 2],
            start_ms: i64::MAX,
            first_ms: i64::MAX,
            last_ms: i64::MIN,
            known: None,
            interfaces: (part.sender, input, output),
            rtt_us: 0,
            application_id: 0,
            rare: None,
            routes: [None; 2],
        }
    }

    /// Adds a part of a record, and takes its rare values.
    pub(super) fn add(&mut self, part: &mut FlowPart) {
        for (direction, (packets, octets)) in part.sent.into_iter().enumerate() {
            if packets == 0 && octets == 0 {
                continue;
            }
            let side = &mut self.sides[usize::from(part.sender) ^ direction];
            if side.began_ms == 0 || part.start_ms < side.began_ms {
                side.began_ms = part.start_ms;
            }
            if side.packets == 0 && side.octets == 0 {
                side.class_of_service = part.class_of_service[direction];
            }
            side.packets = side.packets.saturating_add(packets);
            side.octets = side.octets.saturating_add(octets);
            let flags = part.flags[direction];
            if part.begins {
                side.syn = side.syn.saturating_add(u32::from(flags & tcp::SYN != 0));
                side.lone_syn |= flags & (tcp::SYN | tcp::ACK) == tcp::SYN;
            }
            if part.ends {
                side.fin = side.fin.saturating_add(u32::from(flags & tcp::FIN != 0));
                side.rst = side.rst.saturating_add(u32::from(flags & tcp::RST != 0));
            }
        }
        self.start_ms = self.start_ms.min(part.start_ms);
        self.first_ms = self.first_ms.min(part.first_ms);
        self.last_ms = self.last_ms.max(part.last_ms);
        if part.initiator_known {
            self.known = Some(part.sender);
        }
        self.rtt_us = self.rtt_us.max(part.rtt_us);
        if part.application_id != 0 {
            self.application_id = part.application_id;
        }
        if let Some((end, route)) = part.route {
            self.routes[usize::from(end)].get_or_insert(route);
        }
        if let Some(rare) = part.rare.take() {
            match &mut self.rare {
                Some(all) => all.add(*rare),
                none => *none = Some(rare),
            }
        }
    }

    /// The initiator, and whether that is a guess.
    pub(super) fn initiator(&self, key: &Key) -> (End, bool) {
        let [lower, upper] = &self.sides;
        if let Some(end) = self.known {
            return (end, false);
        }
        if lower.lone_syn != upper.lone_syn {
            return (End::from(upper.lone_syn), false);
        }
        let answered = lower.packets > 0 && upper.packets > 0;
        if answered && lower.began_ms != upper.began_ms {
            return (End::from(upper.began_ms < lower.began_ms), true);
        }
        // The end with a port below 1024 is the server. If both ends have such a port, or neither has, the higher port
        // is the client's; in a one-way record the sender is the initiator.
        let service = |port: u16| (1..1024).contains(&port);
        match (service(key.ports[0]), service(key.ports[1])) {
            (true, false) => (1, true),
            (false, true) => (0, true),
            _ if answered => (End::from(key.ports[0] < key.ports[1]), true),
            _ => (End::from(lower.packets == 0), true),
        }
    }
}
