//! The flows of one interval, as records for the filters and for the batches that are published.

use super::cell::Cell;
use super::list::Cells;
use super::route::{self, EncodedRoutes, RouteOf, SharedRoutes};
use crate::collect::part::Rare;
use crate::filter::FilterCounts;
use crate::meter::key::{Compact as _, Key, V4, V6};
use crate::packet::{self, Address};
use crate::publish::encode::{BatchEncoder, which};
use crate::volume::Volume;
use std::sync::Arc;

/// Maximum octets of a record without its names: 31 numbers with their keys, three addresses, keys and lengths, the route.
const NUMBERS_ROOM: usize = 31 * 12 + 3 * 19 + 3 * 5 + route::ROOM;

/// The exporter that reported a flow, and its sampling rate. A router's cards, which are observation domains, may each
/// see one direction of the flow; each sFlow sub-agent samples separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Origin {
    pub(super) exporter: Address,
    pub(super) sub_agent: u32,
    pub(super) sampling: u32,
}

pub struct Flows {
    /// Start of the interval, ms.
    pub start_ms: i64,
    pub(super) cells: Cells,
    pub(super) origins: Arc<[Origin]>,
    pub(super) routes: Arc<SharedRoutes>,
}

pub struct CollectedRecord<'a> {
    interval_ms: i64,
    key: Key,
    origin: &'a Origin,
    cell: &'a Cell,
    routes: &'a SharedRoutes,
}

impl Flows {
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    pub fn is_empty(&self) -> bool {
        self.cells.len() == 0
    }

    pub fn records(&self) -> impl Iterator<Item = CollectedRecord<'_>> {
        let four = self.cells.four.flows.iter().map(|(of, cell)| self.record(of.key.key(), of.origin, cell));
        let six = self.cells.six.flows.iter().map(|(of, cell)| self.record(of.key.key(), of.origin, cell));
        four.chain(six)
    }

    fn record<'a>(&'a self, key: Key, origin: u32, cell: &'a Cell) -> CollectedRecord<'a> {
        let origin = &self.origins[origin as usize];
        CollectedRecord { interval_ms: self.start_ms, key, origin, cell, routes: &self.routes }
    }
}

impl CollectedRecord<'_> {
    /// Indexed by the lower and the upper end.
    pub fn sent(&self) -> [Volume; 2] {
        self.cell.sides.each_ref().map(|side| Volume { packets: side.packets, octets: side.octets })
    }

    pub fn count(&self, filters: &mut FilterCounts) {
        for (end, volume) in (0..2).zip(self.sent()) {
            if volume.packets > 0 {
                match self.key.version {
                    4 => filters.flow(|| V4::of(&self.key).sent_by(end), volume),
                    _ => filters.flow(|| V6::of(&self.key).sent_by(end), volume),
                }
            }
        }
    }

    /// Adds it to a batch, as a message of `flow.proto`. `encoded`: the routes of the records encoded so far.
    pub fn encode(&self, batch: &mut BatchEncoder, encoded: &mut EncodedRoutes) {
        let CollectedRecord { interval_ms, key, origin, cell, routes } = self;
        let (end, guess) = cell.initiator(key);
        let (src, dst) = (usize::from(end), usize::from(1 - end));
        let (forward, reverse) = (&cell.sides[src], &cell.sides[dst]);
        let (seen_by, input, output) = cell.interfaces;
        let (input, output) = if seen_by == end { (input, output) } else { (output, input) };
        let text = |name: fn(&Rare) -> &[u8]| cell.rare.as_deref().map(|rare| String::from_utf8_lossy(name(rare)));
        let names = [text(|rare| &rare.server), text(|rare| &rare.query)];
        let lengths = names.iter().flatten().map(|name| name.len());
        let room = NUMBERS_ROOM + lengths.sum::<usize>();
        batch.record(room, |batch| {
            let replaced = batch.ends([&key.addresses[src], &key.addresses[dst]], key.version);
            batch.number::<3>(u64::from(key.source_port(end)));
            batch.number::<4>(u64::from(key.ports[dst]));
            batch.number::<5>(u64::from(key.protocol));
            batch.number::<6>(u64::from(key.version));
            batch.number::<7>(u64::from(key.vlan));
            batch.number::<8>(forward.packets);
            batch.number::<9>(forward.octets);
            batch.number::<10>(reverse.packets);
            batch.number::<11>(reverse.octets);
            batch.signed::<12>(cell.first_ms - interval_ms);
            batch.number::<13>((cell.last_ms - cell.first_ms).max(0) as u64);
            batch.number::<14>((cell.first_ms - cell.start_ms).max(0) as u64);
            batch.number::<15>(u64::from(guess));
            batch.number::<17>(u64::from(forward.class_of_service));
            batch.number::<18>(u64::from(reverse.class_of_service));
            // The answer's SYN is a SYN-ACK.
            batch.number::<20>(u64::from(forward.syn));
            batch.number::<23>(u64::from(reverse.syn));
            batch.number::<24>(u64::from(forward.fin));
            batch.number::<25>(u64::from(reverse.fin));
            batch.number::<26>(u64::from(forward.rst));
            batch.number::<27>(u64::from(reverse.rst));
            if let Some(rare) = &cell.rare {
                batch.number::<28>(rare.retransmissions[src]);
                batch.number::<29>(rare.retransmissions[dst]);
                batch.number::<30>(rare.out_of_order[src]);
                batch.number::<31>(rare.out_of_order[dst]);
            }
            batch.number::<32>(u64::from(cell.rtt_us));
            batch.number::<48>(which(replaced) as u64);
            batch.number::<50>(u64::from(cell.application_id));
            let kept = batch.names();
            let [server, query] = names.each_ref().map(|name| name.as_deref().filter(|name| kept && !name.is_empty()));
            if let Some(server) = server {
                batch.bytes::<51>(server.as_bytes());
            }
            if let Some(query) = query {
                batch.bytes::<52>(query.as_bytes());
            }
            batch.bytes::<60>(packet::shortest(&origin.exporter));
            batch.number::<61>(u64::from(origin.sampling));
            batch.number::<62>(u64::from(input));
            batch.number::<63>(u64::from(output));
            match (cell.routes[src], cell.routes[dst]) {
                (Some(route), _) => encoded.write((routes, route), RouteOf::Source, batch),
                (None, Some(route)) => {
                    let alone = forward.packets == 0;
                    let of = if alone { RouteOf::LoneDestination } else { RouteOf::Destination };
                    encoded.write((routes, route), of, batch);
                }
                (None, None) => {}
            }
        });
    }
}
