//! Imported records added up by interval, exporter and biflow, from which Weir's own records are made.
//!
//! A one-way record and its answer meet here, whichever comes first. The table decides which end is the source when
//! the interval is published: the end known to have begun the flow, else the sender of a SYN alone, else the end whose record
//! begins earlier, else the end that does not speak from the service's port.

mod cell;
mod flows;
mod indexed;
mod list;
mod route;
mod routes;

pub use flows::{CollectedRecord, Flows};
pub use route::EncodedRoutes;

use super::element::routed::Route;
use super::part::FlowPart;
use super::record::Imported;
use crate::meter::key::{Compact as _, End, Key, V4, V6, is_icmp};
use crate::packet::Address;
use crate::volume::Volume;
use arrayvec::ArrayVec;
use flows::Origin;
use foldhash::fast::RandomState;
use indexed::Indexed;
use list::{Cells, FlowKey};
use route::SharedRoutes;
use routes::Routes;
use std::hash::BuildHasher as _;
use std::sync::Arc;

/// Parts of records added as a group, so that the memory of all is fetched while the first waits.
const TOGETHER: usize = 16;

#[derive(Clone, Copy, Debug)]
pub struct TableOptions {
    /// Length of the intervals, ms.
    pub interval_ms: i64,
    /// Maximum entries of all intervals together; see [`Table::is_full`].
    pub max_entries: usize,
    /// How far before the open interval records may reach, ms.
    pub oldest_ms: i64,
}

/// Records whose times had to be changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clamped {
    /// Ended after the open interval: counted at its end.
    pub future: u64,
    /// Began before the oldest interval that can be published: the earlier part is counted in that interval.
    pub old: u64,
}

/// The open interval, and earlier ones that have data.
pub struct Table {
    options: TableOptions,
    open_ms: i64,
    /// The flows of each interval, by its start.
    flows: Vec<(i64, Cells)>,
    pending: ArrayVec<Pending, TOGETHER>,
    entries: usize,
    clamped: Clamped,
    /// The exporters of the flows in the table, and the routes.
    origins: Indexed<Origin>,
    routes: Routes,
    hasher: RandomState,
    /// Emptied lists for further intervals, the largest last. Their memory stays, up to twice the bound of entries, because lists
    /// grow by doubling.
    spare: Vec<Cells>,
}

/// A part of a record that is yet to be added to its flow.
struct Pending {
    /// Index of its interval in the table.
    interval: usize,
    key: FlowKey<Key>,
    hash: u64,
    part: FlowPart,
}

impl Table {
    pub fn new(options: TableOptions, open_ms: i64) -> Table {
        Table {
            options,
            open_ms,
            flows: Vec::new(),
            pending: ArrayVec::new(),
            entries: 0,
            clamped: Clamped::default(),
            origins: Indexed::default(),
            routes: Routes::default(),
            hasher: RandomState::default(),
            spare: Vec::new(),
        }
    }

    pub fn open_ms(&self) -> i64 {
        self.open_ms
    }

    pub fn open(&mut self, start_ms: i64) {
        self.open_ms = start_ms;
    }

    /// Entries of all intervals, at most.
    pub fn entries(&self) -> usize {
        self.entries + self.pending.len()
    }

    /// Whether flows must be published before more records arrive: each may state another rate or route.
    pub fn is_full(&self) -> bool {
        self.entries().max(self.origins.len()).max(self.routes.len()) >= self.options.max_entries
    }

    pub fn clamped(&self) -> Clamped {
        self.clamped
    }

    /// Takes all flows, the oldest interval first.
    pub fn take(&mut self) -> Vec<Flows> {
        self.settle();
        self.entries = 0;
        let (origins, routes) = (self.origins.take(), self.routes.take());
        together(self.flows.drain(..), &origins.into(), routes)
    }

    /// If routes alone fill the table: forgets those that no flow states, since a flow keeps the first one of each end.
    /// Returns whether that freed half of the room.
    pub fn forget_routes(&mut self) -> bool {
        let most = self.options.max_entries;
        if self.routes.len() < most || self.entries().max(self.origins.len()) >= most {
            return false;
        }
        self.settle();
        let mut is_used = vec![false; self.routes.len()];
        let mut indices = |to: &mut dyn FnMut(&mut u32)| {
            self.flows.iter_mut().flat_map(|(_, cells)| cells.routes()).for_each(to);
        };
        indices(&mut |index| is_used[*index as usize] = true);
        let new = self.routes.retain(&is_used);
        indices(&mut |index| *index = new[*index as usize]);
        2 * self.routes.len() <= most
    }

    /// Takes flows of a full table: those of closed intervals alone, which have been published before in part, if the
    /// flows of the open one fill at most half of the table; else all.
    pub fn take_full(&mut self) -> Vec<Flows> {
        self.settle();
        let most = self.options.max_entries;
        let open = self.flows.last().filter(|(start_ms, _)| *start_ms == self.open_ms);
        let (intervals, kept) = open.map_or((0, 0), |(_, cells)| (1, cells.len()));
        if 2 * kept > most || self.origins.len().max(self.routes.len()) >= most {
            return self.take();
        }
        self.entries = kept;
        let closed = ..self.flows.len() - intervals;
        together(self.flows.drain(closed), &self.origins.all().into(), self.routes.all().to_vec())
    }

    /// Returns the memory of published flows.
    pub fn recycle(&mut self, flows: Flows) {
        let mut cells = flows.cells;
        cells.clear();
        let at = self.spare.partition_point(|spare| spare.capacity() < cells.capacity());
        self.spare.insert(at, cells);
        // Drop the smallest lists: they are the least loss.
        let mut kept = 0;
        let all = self.spare.iter().rev();
        let most = all.take_while(|spare| {
            kept += spare.capacity();
            kept <= 2 * self.options.max_entries
        });
        let most = most.count().max(1);
        self.spare.drain(..self.spare.len() - most);
    }

    /// Adds a record of an exporter, or of a sub-agent of one; returns its packets and octets, multiplied by the
    /// sampling rate.
    pub fn add(&mut self, (exporter, sub_agent): (&Address, u32), record: &Imported<'_>) -> Volume {
        let TableOptions { interval_ms, oldest_ms, .. } = self.options;
        let newest = self.open_ms + interval_ms - 1;
        let oldest = self.open_ms - oldest_ms;
        let (mut first, mut last) = (record.first_ms, record.last_ms.max(record.first_ms));
        if last > newest {
            self.clamped.future += 1;
            // The exporter's clock is ahead: keep the duration, but end the record now.
            first = newest.saturating_sub(last.saturating_sub(first));
            last = newest;
        }
        if first < oldest {
            self.clamped.old += 1;
            first = oldest;
            last = last.max(first);
        }
        let (key, sender) = key_of(record);
        let scale = u64::from(record.sampling.unwrap_or(1).max(1));
        let scaled = record.sent.map(|sent| (sent.packets.saturating_mul(scale), sent.octets.saturating_mul(scale)));
        let origin =
            self.origins.index(Origin { exporter: *exporter, sub_agent, sampling: record.sampling.unwrap_or(0) });
        let key = FlowKey { key, origin };
        let hash = match key.key.version {
            4 => self.hasher.hash_one(FlowKey { key: V4::of(&key.key), origin }),
            _ => self.hasher.hash_one(FlowKey { key: V6::of(&key.key), origin }),
        };
        let route = record.routed.as_ref().and_then(|routed| self.routes.index(routed));
        let route = route.map(|route| (sender ^ End::from(record.turned), route));
        let whole = FlowPart::whole(record, sender, scaled, first, last, route);
        let start = first.div_euclid(interval_ms) * interval_ms;
        if last < start + interval_ms {
            self.put(key, hash, start, whole);
        } else {
            whole.split(start, interval_ms, |start, part| self.put(key, hash, start, part));
        }
        Volume { packets: scaled[0].0.saturating_add(scaled[1].0), octets: scaled[0].1.saturating_add(scaled[1].1) }
    }

    #[inline]
    fn put(&mut self, key: FlowKey<Key>, hash: u64, start: i64, part: FlowPart) {
        if part.sent == [(0, 0); 2] {
            return;
        }
        let interval = self.flows.partition_point(|(other, _)| *other < start);
        if self.flows.get(interval).is_none_or(|(other, _)| *other != start) {
            // Pending parts refer to intervals by their index, which is about to change.
            self.settle();
            let cells = match self.spare.len() {
                0 => Cells::default(),
                // Most records belong to the open interval.
                all => self.spare.remove(if start == self.open_ms { all - 1 } else { 0 }),
            };
            self.flows.insert(interval, (start, cells));
        }
        let (_, cells) = &self.flows[interval];
        if key.key.version == 4 {
            cells.four.places.prefetch(hash)
        } else {
            cells.six.places.prefetch(hash)
        }
        self.pending.push(Pending { interval, key, hash, part });
        if self.pending.is_full() {
            self.settle();
        }
    }

    fn settle(&mut self) {
        for Pending { interval, key, hash, .. } in &self.pending {
            let (_, cells) = &self.flows[*interval];
            if key.key.version == 4 { cells.four.prefetch(*hash) } else { cells.six.prefetch(*hash) }
        }
        for Pending { interval, key: FlowKey { key, origin }, hash, part } in &mut self.pending {
            let (_, cells) = &mut self.flows[*interval];
            let is_new = match key.version {
                4 => cells.four.add(FlowKey { key: V4::of(key), origin: *origin }, *hash, part),
                _ => cells.six.add(FlowKey { key: V6::of(key), origin: *origin }, *hash, part),
            };
            self.entries += usize::from(is_new);
        }
        self.pending.clear();
    }
}

/// The flows of intervals, with the lists that their indices refer to.
fn together(flows: impl Iterator<Item = (i64, Cells)>, origins: &Arc<[Origin]>, routes: Vec<Route>) -> Vec<Flows> {
    let routes = Arc::new(SharedRoutes::new(routes));
    let of = |(start_ms, cells)| Flows { start_ms, cells, origins: Arc::clone(origins), routes: Arc::clone(&routes) };
    flows.map(of).collect()
}

/// The key of a record, and the end that is its source.
fn key_of(record: &Imported<'_>) -> (Key, End) {
    let ports = if is_icmp(record.protocol) { [record.ports[1]; 2] } else { record.ports };
    let [src, dst] = record.addresses;
    let upper = (src, ports[0]) > (dst, ports[1]);
    let key = Key {
        addresses: if upper { [dst, src] } else { [src, dst] },
        ports: if upper { [ports[1], ports[0]] } else { ports },
        vlan: record.vlan,
        protocol: record.protocol,
        version: record.version,
    };
    (key, End::from(upper))
}

#[cfg(test)]
mod tests;
