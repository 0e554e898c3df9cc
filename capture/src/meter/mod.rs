//! Metering: packets in, closed intervals out.
//!
//! Each worker owns one [`Meter`]. It shares no state, does no input or output, and learns the time only from
//! packets and [`Meter::clock`].

pub mod counters;
pub mod fragments;
pub(crate) mod index;
pub mod interval;
pub mod key;
pub(crate) mod memory;
pub mod overflow;
pub mod record;
pub mod sketch;
mod table;
pub mod tally;
mod tcp;

use crate::app::{AppCounts, AppOptions, Apps};
use crate::filter::{FilterCounts, FilterSets, FilterVolumes};
use crate::packet::{BATCH, Cause, Checksum, IpPacket, Packet};
use crate::volume::Volume;
use counters::FixedCounters;
use fragments::{FragmentCounts, FragmentPlace, Fragments, Waiting};
use interval::IntervalLength;
use key::{Compact, End, V4, V6};
use overflow::{Network, Overflow, OverflowRecord};
use record::Records;
use std::sync::Arc;
use table::{Arriving, Counted, FlowTable, Room, flow_cost};
pub use tally::Tally;

/// How long an interval waits for packets of its own after its end, ns.
pub const GRACE_NS: i64 = 200_000_000;

/// Maximum number of consecutive empty intervals that get closing records; after a larger jump in time they are
/// skipped.
pub const MAX_EMPTY: i64 = 60;

/// Octets that an IPv4 flow may cost; an IPv6 flow costs a third more.
pub const FLOW_COST: usize = flow_cost::<V4>();

#[derive(Clone, Debug)]
pub struct MeterOptions {
    pub interval: IntervalLength,
    /// Octets for live flows and their records; see [`FLOW_COST`].
    pub flow_memory: usize,
    /// Flow records of one interval.
    pub max_records: usize,
    /// A flow ends after this time without packets, ms.
    pub idle_ms: i64,
    /// Fragmented datagrams known at once.
    pub datagrams: usize,
    /// The networks for which packets count as incoming.
    pub local_networks: Vec<Network>,
    /// Filter sets, which count packets independently of flows.
    pub filters: Arc<FilterSets>,
    /// How applications are detected.
    pub applications: AppOptions,
}

impl MeterOptions {
    /// Memory for the flows of one IP version and their records, in addition to those of the other version.
    #[inline]
    fn room_beside<K: Compact>(&self, other: &FlowTable<K>, records: usize) -> Room<impl Fn() -> usize> {
        let flow_memory = self.flow_memory;
        Room {
            flows: move || flow_memory.saturating_sub(other.octets()),
            records: self.max_records.saturating_sub(records),
        }
    }
}

#[derive(Debug, Default)]
pub struct ClosedInterval {
    /// Start, ms from the Unix epoch.
    pub start_ms: u64,
    /// One record for every flow that had packets.
    pub records: Records,
    /// Coarse records.
    pub overflow: Vec<OverflowRecord>,
    pub tally: Tally,
    pub counters: FixedCounters,
    pub fragments: FragmentCounts,
    /// Volume by result of the checksum test ([`Checksum`]).
    pub checksums: [Volume; Checksum::NAMES.len()],
    /// Counts of application detection.
    pub applications: AppCounts,
    /// Counts of filter sets, except per-flow counts of flows in records.
    pub filters: FilterVolumes,
    /// The filter sets of these counts; `None`: unchanged since the previous interval.
    pub filter_sets: Option<Arc<FilterSets>>,
    /// Empty intervals just before it that were skipped.
    pub skipped: u64,
    /// The clock stepped back after it: the next interval belongs to a new epoch, in which times may repeat.
    pub ends_epoch: bool,
}

/// A packet that arrived.
#[derive(Debug)]
pub struct Arrival<'a> {
    /// Its headers. The meter fills the datagram's ports into a later fragment.
    pub packet: &'a mut Packet,
    /// Its time, ns from the Unix epoch.
    pub time_ns: i64,
    /// Why it is not metered, if so.
    pub exclude: Option<Cause>,
    /// Its captured octets, from its IP header on.
    pub layer3: &'a [u8],
    /// The result of checking its checksums, if requested.
    pub checksum: Option<Checksum>,
}

/// An interval that still accepts packets.
struct OpenInterval {
    records: Records,
    overflow: Overflow,
    tally: Tally,
    counters: FixedCounters,
    fragments: FragmentCounts,
    checksums: [Volume; Checksum::NAMES.len()],
    filters: FilterCounts,
    /// Fragments that arrived in this interval and had to wait, and those that had waited and were counted in it.
    held: Volume,
    released: Volume,
    /// The version of the meter's options that this interval uses.
    configured: u32,
}

impl OpenInterval {
    /// Applies these options to an interval that is still empty.
    fn configure(&mut self, options: &MeterOptions, configured: u32) {
        self.filters = FilterCounts::new(Arc::clone(&options.filters));
        self.overflow = Overflow::new(options.local_networks.clone());
        self.configured = configured;
    }
}

/// Meters the packets of one worker.
pub struct Meter {
    options: MeterOptions,
    /// Number of times that it was reconfigured.
    configured: u32,
    v4: FlowTable<V4>,
    v6: FlowTable<V6>,
    fragments: Fragments,
    apps: Apps,
    /// Counts of application detection at the last close.
    told: AppCounts,
    /// The open interval and the one after it, by parity of their numbers.
    open: [OpenInterval; 2],
    /// Number of the open interval, once known.
    current: Option<i64>,
    /// When the open interval starts, ends and closes, ns.
    starts_ns: i64,
    ends_ns: i64,
    closes_ns: i64,
    /// From its start to its close; 0 if none is open.
    open_for_ns: u64,
    /// Since when all times are before the open interval: the first of them, and the number of timely packets then.
    behind: Option<(i64, u64)>,
    /// Intervals skipped just before the open one.
    skipped: u64,
    closed: Vec<ClosedInterval>,
    /// Published record buffers, for reuse.
    spare: Vec<Records>,
    /// When the tables last advanced their time, ms.
    ticked_ms: i64,
    newest_ms: i64,
    /// Fragments that waited at the last close.
    carried: Volume,
    /// Buffer for the current batch, reused.
    steps: Vec<Step>,
}

/// The destination of a packet in a batch.
#[derive(Clone, Copy)]
enum Going {
    /// No flow: the packet is not metered, or waits for its first fragment.
    Nowhere,
    /// To a flow of IPv4 or IPv6, by its key and hash.
    V4(V4, u64),
    V6(V6, u64),
}

/// A packet in a batch; or fragments that waited together and are metered as one.
#[derive(Clone)]
struct Step {
    sender: End,
    going: Going,
    /// The flow that it most likely belongs to.
    likely: Option<u32>,
    interval: i64,
    last_ms: i64,
    waiting: Option<Box<Waiting>>,
}

impl Meter {
    /// A meter that has seen nothing yet.
    ///
    /// # Errors
    /// If nDPI is required and not available.
    pub fn new(options: MeterOptions) -> anyhow::Result<Meter> {
        let records = || {
            let most = |cost: usize| options.max_records.min(options.flow_memory / cost + 1);
            Records::with_capacity(most(flow_cost::<V4>()), most(flow_cost::<V6>()))
        };
        let open = || OpenInterval {
            records: records(),
            overflow: Overflow::new(options.local_networks.clone()),
            tally: Tally::default(),
            counters: FixedCounters::default(),
            fragments: FragmentCounts::default(),
            checksums: Default::default(),
            filters: FilterCounts::new(Arc::clone(&options.filters)),
            held: Volume::default(),
            released: Volume::default(),
            configured: 0,
        };
        Ok(Meter {
            configured: 0,
            apps: Apps::new(&options.applications)?,
            told: AppCounts::default(),
            v4: FlowTable::new(options.flow_memory / flow_cost::<V4>(), options.idle_ms),
            v6: FlowTable::new(options.flow_memory / flow_cost::<V6>(), options.idle_ms),
            fragments: Fragments::new(options.datagrams),
            open: [open(), open()],
            current: None,
            starts_ns: 0,
            ends_ns: 0,
            closes_ns: i64::MIN,
            open_for_ns: 0,
            behind: None,
            skipped: 0,
            closed: Vec::new(),
            spare: vec![records(), records()],
            ticked_ms: i64::MAX,
            newest_ms: 0,
            carried: Volume::default(),
            steps: vec![Step::default(); BATCH],
            options,
        })
    }

    /// Applies changed options, except the interval and the memory. Filter sets and local networks take effect at the
    /// next interval that is still empty; an interval never mixes two configurations.
    pub fn reconfigure(&mut self, options: &MeterOptions) {
        let MeterOptions { interval, flow_memory, .. } = self.options;
        self.options = MeterOptions { interval, flow_memory, ..options.clone() };
        self.configured += 1;
        self.v4.set_idle(options.idle_ms);
        self.v6.set_idle(options.idle_ms);
        self.apps.reconfigure(&options.applications);
        for open in &mut self.open {
            if open.tally.captured.packets == 0 && open.released.packets == 0 {
                open.configure(&self.options, self.configured);
            }
        }
    }

    /// Opens the interval that contains `now_ns`, if none is open yet.
    pub fn open_at(&mut self, now_ns: i64) {
        if self.current.is_none() {
            self.set_current(self.options.interval.number(now_ns));
        }
    }

    /// Advances the time to `now_ns`; the caller must have passed in every older packet. Closes intervals that are
    /// over; returns whether it closed any.
    ///
    /// If all times of one interval's length are before the open interval, the clock has stepped back, or had been ahead
    /// for a moment. An epoch ends then, and the next one begins with the interval of `now_ns`.
    pub fn clock(&mut self, now_ns: i64) -> bool {
        if !self.is_over(now_ns) {
            self.behind = None;
            return false;
        }
        if self.current.is_some() && now_ns < self.starts_ns {
            if !self.is_behind(now_ns) {
                return false;
            }
            self.step_back(now_ns);
        }
        self.behind = None;
        self.open_at(now_ns);
        while now_ns >= self.closes_ns {
            let number = self.current.unwrap_or(0);
            // The newest interval that is still open at this time.
            let target = self.options.interval.number(now_ns.saturating_sub(GRACE_NS));
            if target <= number {
                break;
            }
            self.close(number);
            let mut next = number + 1;
            // The interval after the open one may already have packets, so it is never skipped.
            if target - next > MAX_EMPTY && self.open[(next & 1) as usize].tally.captured.packets == 0 {
                self.skipped = (target - next) as u64;
                next = target;
            }
            self.set_current(next);
        }
        // No flow may be older than its times can express, and its next packet may have any time.
        let start_ns = self.open_start_ns().unwrap_or(now_ns);
        self.tick(start_ns);
        !self.closed.is_empty()
    }

    /// Whether [`Meter::clock`] must be called with this time, because an interval may close.
    #[inline]
    pub fn is_over(&self, now_ns: i64) -> bool {
        now_ns.wrapping_sub(self.starts_ns) as u64 >= self.open_for_ns
    }

    /// Whether all times were before the open interval for an interval's length; `now_ns` is.
    fn is_behind(&mut self, now_ns: i64) -> bool {
        let timely: u64 = self.open.iter().map(|open| open.tally.captured.packets - open.tally.late.packets).sum();
        match self.behind {
            Some((since_ns, then)) if then == timely && since_ns <= now_ns => {
                now_ns.saturating_sub(since_ns) >= self.options.interval.ns()
            }
            _ => {
                self.behind = Some((now_ns, timely));
                false
            }
        }
    }

    /// Ends the epoch: closes all intervals, and forgets all flows, whose times are those of another clock.
    #[cold]
    fn step_back(&mut self, now_ns: i64) {
        self.finish(now_ns);
        if let Some(last) = self.closed.last_mut() {
            last.ends_epoch = true;
        }
        self.v4.tick(i64::MAX, self.newest_ms, &mut self.apps);
        self.v6.tick(i64::MAX, self.newest_ms, &mut self.apps);
        (self.newest_ms, self.ticked_ms) = (0, i64::MAX);
    }

    /// Advances the tables' time: they forget idle flows, a few per call.
    pub fn tick(&mut self, now_ns: i64) {
        let now_ms = now_ns.div_euclid(1_000_000).max(self.newest_ms);
        self.newest_ms = now_ms;
        let elapsed_ms = now_ms.saturating_sub(self.ticked_ms);
        if elapsed_ms == 0 {
            return;
        }
        self.ticked_ms = now_ms;
        self.v4.tick(elapsed_ms, now_ms, &mut self.apps);
        self.v6.tick(elapsed_ms, now_ms, &mut self.apps);
        let Some(current) = self.current else { return };
        loop {
            let counts = &mut self.open[(current & 1) as usize].fragments;
            let Some(waiting) = self.fragments.expired(now_ms, counts) else { break };
            self.give_up(&waiting, current);
        }
    }

    /// Counts packets, in order of arrival. No interval may close at any of their times ([`Meter::is_over`]).
    pub fn packets(&mut self, arrivals: &mut [Arrival<'_>]) {
        for batch in arrivals.chunks_mut(BATCH) {
            if let Some(last) = batch.last() {
                self.tick(last.time_ns);
            }
            let mut all = std::mem::take(&mut self.steps);
            let steps = &mut all[..batch.len()];
            for (arrival, step) in batch.iter_mut().zip(&mut *steps) {
                self.receive(arrival, step);
            }
            for step in &mut *steps {
                step.likely = match step.going {
                    Going::Nowhere => None,
                    Going::V4(_, hash) => self.v4.prefetch_flow(hash),
                    Going::V6(_, hash) => self.v6.prefetch_flow(hash),
                };
            }
            for step in &*steps {
                let records = &self.open[(step.interval & 1) as usize].records;
                match (step.likely, &step.going) {
                    (Some(flow), Going::V4(..)) => self.v4.prefetch_record(flow, step.interval, &records.v4),
                    (Some(flow), Going::V6(..)) => self.v6.prefetch_record(flow, step.interval, &records.v6),
                    _ => {}
                }
            }
            for (arrival, step) in batch.iter().zip(steps) {
                if let Ok(ip) = &arrival.packet.ip {
                    let first_ms = step.last_ms;
                    let volume = Volume::one(arrival.packet.octets);
                    self.count(step, ip, volume, (first_ms, arrival.time_ns), arrival.layer3);
                }
            }
            self.steps = all;
        }
    }

    /// Processes a packet: updates the counters of all packets, and finds its flow.
    #[inline]
    fn receive(&mut self, arrival: &mut Arrival<'_>, step: &mut Step) {
        let packet = &mut *arrival.packet;
        let current = self.current.expect("clock() opened an interval");
        // At most one interval ahead: anything later has closed the open one.
        step.interval = current + i64::from(arrival.time_ns >= self.ends_ns);
        let late = arrival.time_ns.max(0) < self.starts_ns;
        let open = &mut self.open[(step.interval & 1) as usize];
        let octets = packet.octets;
        open.tally.captured.count(octets);
        if late {
            open.tally.late.count(octets);
        }
        open.counters.add(packet);
        step.going = Going::Nowhere;
        let ip = match (&mut packet.ip, arrival.exclude) {
            (Ok(ip), None) => ip,
            (&mut Err(cause), _) | (Ok(_), Some(cause)) => {
                open.tally.not_metered[cause as usize].count(octets);
                return;
            }
        };
        if let Some(checksum) = arrival.checksum {
            open.checksums[checksum as usize].count(octets);
        }
        step.last_ms = arrival.time_ns.div_euclid(1_000_000);
        open.tally.layer4_octets += u64::from(ip.payload);
        let goes = if ip.fragment.is_none() {
            open.tally.datagrams += 1;
            true
        } else {
            open.tally.datagrams += u64::from(!ip.is_later_fragment());
            self.join(ip, (packet.vlan, packet.octets), step)
        };
        // Filters see waiting fragments without ports.
        self.open[(step.interval & 1) as usize].filters.packet(ip, arrival.layer3, packet.octets);
        if goes {
            step.go(ip, packet.vlan, &self.v4, &self.v6);
        }
    }

    /// Finds the flow of a fragment; false if it has to wait.
    fn join(&mut self, ip: &mut IpPacket, (vlan, octets): (u16, u32), step: &mut Step) -> bool {
        let parity = (step.interval & 1) as usize;
        if let Some(waiting) = self.fragments.make_room(&mut self.open[parity].fragments) {
            self.give_up(&waiting, step.interval);
        }
        let open = &mut self.open[parity];
        let time = (step.last_ms, step.interval);
        match self.fragments.place(ip, octets, vlan, time, &mut open.fragments) {
            FragmentPlace::Flow(None) => true,
            FragmentPlace::Flow(Some(waiting)) => {
                // Waiting fragments go into the interval of the latest one, if that is newer; then this packet goes
                // there, too.
                if waiting.interval > step.interval {
                    open.held.count(octets);
                    step.interval = waiting.interval;
                    self.open[(step.interval & 1) as usize].released.count(octets);
                }
                self.open[(step.interval & 1) as usize].released += waiting.volume;
                step.waiting = Some(Box::new(waiting));
                true
            }
            FragmentPlace::Waits => {
                open.held.count(octets);
                false
            }
        }
    }

    /// Meters fragments whose first fragment did not arrive: between their hosts, without ports.
    #[cold]
    fn give_up(&mut self, waiting: &Waiting, interval: i64) {
        let interval = interval.max(waiting.interval);
        self.open[(interval & 1) as usize].released += waiting.volume;
        let mut step = Step { interval, last_ms: waiting.last_ms, ..Step::default() };
        step.go(&waiting.ip, waiting.vlan, &self.v4, &self.v6);
        self.count(&mut step, &waiting.ip, waiting.volume, (waiting.first_ms, waiting.last_ms * 1_000_000), &[]);
    }

    /// Counts a packet, or fragments that waited together, in their flow. The times are those of the first packet in ms
    /// and of the last packet in ns, both since the Unix epoch.
    #[inline]
    fn count(
        &mut self,
        step: &mut Step,
        ip: &IpPacket,
        volume: Volume,
        (first_ms, last_ns): (i64, i64),
        layer3: &[u8],
    ) {
        let open = &mut self.open[(step.interval & 1) as usize];
        let arriving = Arriving {
            ip,
            sender: step.sender,
            volume,
            first_ms,
            last_ms: step.last_ms,
            last_ns,
            more: step.waiting.as_deref().map(|waiting| (waiting.volume, waiting.first_ms)),
            interval: step.interval,
            start_ms: open.records.start_ms(),
            layer3,
        };
        let counted = match &step.going {
            Going::Nowhere => return,
            Going::V4(key, hash) => {
                let room = self.options.room_beside(&self.v6, open.records.v6.len());
                self.v4.count((key, *hash, step.likely), &arriving, open.records.v4_mut(), room, &mut self.apps)
            }
            Going::V6(key, hash) => {
                let room = self.options.room_beside(&self.v4, open.records.v4.len());
                self.v6.count((key, *hash, step.likely), &arriving, open.records.v6_mut(), room, &mut self.apps)
            }
        };
        let (Counted::Flow(new) | Counted::NoRoom(new)) = counted;
        open.tally.flows += u64::from(new);
        if let Counted::NoRoom(_) = counted {
            let waited = arriving.more.map_or(Volume::default(), |(volume, _)| volume);
            open.overflow.add(ip, volume + waited, step.last_ms);
            open.filters.unrecorded(ip, volume + waited);
        }
        step.waiting = None;
    }

    /// Closes all open intervals at the end of the source. If none was open, opens and closes that of `now_ns`, so that
    /// there is always one.
    pub fn finish(&mut self, now_ns: i64) {
        self.open_at(now_ns);
        let number = self.current.unwrap_or(0);
        let ahead = self.open[((number + 1) & 1) as usize].tally.captured.packets > 0;
        let last = number + i64::from(ahead);
        while let Some(waiting) = self.fragments.drain(&mut self.open[(last & 1) as usize].fragments) {
            self.give_up(&waiting, last);
        }
        (number..=last).for_each(|number| self.close(number));
        self.current = None;
        self.closes_ns = i64::MIN;
        self.open_for_ns = 0;
    }

    /// The closed intervals, oldest first.
    pub fn take_closed(&mut self) -> Vec<ClosedInterval> {
        std::mem::take(&mut self.closed)
    }

    /// Returns an interval's published records for reuse.
    pub fn recycle(&mut self, records: Records) {
        if self.spare.len() < 2 {
            self.spare.push(records);
        }
    }

    /// Live flows, and the approximate capacity.
    pub fn load(&self) -> (usize, usize) {
        let entries = self.v4.entries() + self.v6.entries();
        let octets = self.v4.octets() + self.v6.octets();
        (entries, entries + self.options.flow_memory.saturating_sub(octets) / FLOW_COST)
    }

    /// Start of the open interval, ns; `None` before the first packet.
    pub fn open_start_ns(&self) -> Option<i64> {
        self.current.map(|number| self.options.interval.start_ns(number))
    }

    fn set_current(&mut self, number: i64) {
        self.current = Some(number);
        self.starts_ns = self.options.interval.start_ns(number);
        self.ends_ns = self.options.interval.start_ns(number + 1);
        self.closes_ns = self.ends_ns.saturating_add(GRACE_NS);
        self.open_for_ns = self.closes_ns.wrapping_sub(self.starts_ns) as u64;
        for number in [number, number + 1] {
            let open = &mut self.open[(number & 1) as usize];
            if open.records.is_empty() {
                open.records.restart(self.options.interval.start_ns(number) / 1_000_000);
            }
        }
    }

    fn close(&mut self, number: i64) {
        let fresh = self.spare.pop().unwrap_or_default();
        let open = &mut self.open[(number & 1) as usize];
        let mut tally = std::mem::take(&mut open.tally);
        tally.carried_in = self.carried;
        self.carried = self.carried + std::mem::take(&mut open.held) - std::mem::take(&mut open.released);
        tally.carried_out = self.carried;
        let records = std::mem::replace(&mut open.records, fresh);
        open.records.restart(0);
        self.closed.push(ClosedInterval {
            start_ms: (self.options.interval.start_ns(number) / 1_000_000) as u64,
            records,
            overflow: open.overflow.take(),
            tally,
            counters: std::mem::take(&mut open.counters),
            fragments: std::mem::take(&mut open.fragments),
            checksums: std::mem::take(&mut open.checksums),
            filters: open.filters.take(),
            filter_sets: Some(Arc::clone(open.filters.sets())),
            applications: self.apps.counts().since(&std::mem::replace(&mut self.told, *self.apps.counts())),
            skipped: std::mem::take(&mut self.skipped),
            ends_epoch: false,
        });
        if open.configured != self.configured {
            open.configure(&self.options, self.configured);
        }
    }
}

impl Default for Step {
    fn default() -> Step {
        Step { sender: 0, going: Going::Nowhere, likely: None, interval: 0, last_ms: 0, waiting: None }
    }
}

impl Step {
    /// Starts the lookup of the packet's flow.
    #[inline]
    fn go(&mut self, ip: &IpPacket, vlan: u16, v4: &FlowTable<V4>, v6: &FlowTable<V6>) {
        (self.going, self.sender) = match ip.version {
            4 => {
                let (key, sender) = V4::of_packet(ip, vlan);
                (Going::V4(key, v4.hash(&key)), sender)
            }
            _ => {
                let (key, sender) = V6::of_packet(ip, vlan);
                (Going::V6(key, v6.hash(&key)), sender)
            }
        };
    }
}

#[cfg(test)]
mod tests;
