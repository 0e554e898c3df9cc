//! The part of a record that falls into one interval.

use super::record::Imported;
use super::split::Spread;
use crate::meter::key::End;

/// Maximum kept octets of a server name or DNS name.
const MAX_NAME: usize = 255;

pub(super) struct FlowPart {
    /// Packets and octets of the record's source and of its destination, scaled.
    pub(super) sent: [(u64, u64); 2],
    /// When the flow began, if the collector accepts the stated time, ms.
    pub(super) start_ms: i64,
    /// First and last packet of this part, ms.
    pub(super) first_ms: i64,
    pub(super) last_ms: i64,
    /// Whether the record's first packet, and its last one, are in this part.
    pub(super) begins: bool,
    pub(super) ends: bool,
    /// The flow's end that is the record's source.
    pub(super) sender: End,
    pub(super) flags: [u8; 2],
    pub(super) class_of_service: [u8; 2],
    pub(super) initiator_known: bool,
    pub(super) interfaces: (u32, u32),
    pub(super) rtt_us: u32,
    pub(super) application_id: u16,
    pub(super) rare: Option<Box<Rare>>,
    /// The end from whose side the router's data describes the flow, and the index of that data.
    pub(super) route: Option<(End, u32)>,
}

/// Values that few exporters report.
#[derive(Clone, Debug, Default)]
pub(super) struct Rare {
    pub(super) retransmissions: [u64; 2],
    pub(super) out_of_order: [u64; 2],
    pub(super) server: Box<[u8]>,
    pub(super) query: Box<[u8]>,
}

impl FlowPart {
    /// A whole record, whose packets came from `first_ms` to `last_ms`.
    pub(super) fn whole(
        record: &Imported<'_>,
        sender: End,
        sent: [(u64, u64); 2],
        first_ms: i64,
        last_ms: i64,
        route: Option<(End, u32)>,
    ) -> FlowPart {
        FlowPart {
            sent,
            start_ms: first_ms,
            first_ms,
            last_ms,
            begins: true,
            ends: true,
            sender,
            flags: record.sent.map(|sent| sent.tcp_flags),
            class_of_service: record.sent.map(|sent| sent.class_of_service),
            initiator_known: record.initiator_known,
            interfaces: (record.input_interface, record.output_interface),
            rtt_us: record.handshake_rtt_us,
            application_id: record.application_id,
            rare: Rare::of(record, sender),
            route,
        }
    }

    /// Splits a whole record over intervals of `length` ms, the first of which begins at `start`.
    pub(super) fn split(&self, mut start: i64, length: i64, mut take: impl FnMut(i64, FlowPart)) {
        let spreads = self.sent.map(|(packets, octets)| Spread::new(packets, octets, self.first_ms, self.last_ms));
        let mut before = [(0, 0); 2];
        while start <= self.last_ms {
            let end = start + length;
            let now = spreads.map(|spread| spread.before(end));
            let sent = [0, 1].map(|side| (now[side].0 - before[side].0, now[side].1 - before[side].1));
            let (begins, ends) = (start <= self.first_ms, end > self.last_ms);
            let mut rare = self.rare.clone();
            if !begins {
                if let Some(rare) = &mut rare {
                    rare.retransmissions = [0; 2];
                    rare.out_of_order = [0; 2];
                }
            }
            let (first_ms, last_ms) = (self.first_ms.max(start), self.last_ms.min(end - 1));
            let rtt_us = if begins { self.rtt_us } else { 0 };
            take(start, FlowPart { sent, first_ms, last_ms, begins, ends, rtt_us, rare, ..*self });
            before = now;
            start = end;
        }
    }
}

impl Rare {
    fn of(record: &Imported<'_>, sender: End) -> Option<Box<Rare>> {
        let mut counts = record.sent.map(|sent| [sent.retransmissions, sent.out_of_order]);
        if counts == [[0; 2]; 2] && record.server_name.is_empty() && record.dns_query.is_empty() {
            return None;
        }
        if sender == 1 {
            counts.swap(0, 1);
        }
        let kept = |name: &[u8]| name[..name.len().min(MAX_NAME)].into();
        Some(Box::new(Rare {
            retransmissions: counts.map(|[retransmissions, _]| u64::from(retransmissions)),
            out_of_order: counts.map(|[_, out_of_order]| u64::from(out_of_order)),
            server: kept(record.server_name),
            query: kept(record.dns_query),
        }))
    }

    /// Adds a further record's values; the first names stay.
    pub(super) fn add(&mut self, other: Rare) {
        for end in 0..2 {
            self.retransmissions[end] += other.retransmissions[end];
            self.out_of_order[end] += other.out_of_order[end];
        }
        for (name, other) in [(&mut self.server, other.server), (&mut self.query, other.query)] {
            if name.is_empty() {
                *name = other;
            }
        }
    }
}
