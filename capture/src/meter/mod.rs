//! Metering: packets in, closed intervals out.
//!
//! [`Meter`] is what one worker owns. It shares nothing, does no input or output, and knows the time only from packets
//! and from [`Meter::clock`].

pub mod counters;
pub mod interval;
pub mod key;
pub mod overflow;
pub mod record;
pub mod sketch;
pub mod table;
pub mod tally;

use crate::packet::{Cause, Packet};
use counters::FixedCounters;
use interval::IntervalLength;
use key::Key;
use overflow::{Network, Overflow, OverflowRecord};
use record::Record;
use table::FlowTable;
pub use tally::{Tally, Volume};

/// How long an interval waits for packets of its own after its end, ns.
pub const GRACE_NS: i64 = 200_000_000;

/// Intervals without packets that get closing records of their own; where time jumps further they are passed over.
pub const MAX_EMPTY: i64 = 60;

/// What a meter keeps to.
#[derive(Clone, Debug)]
pub struct MeterOptions {
    /// Length of the intervals.
    pub interval: IntervalLength,
    /// Flows alive at once.
    pub max_flows: usize,
    /// Flow records of one interval.
    pub max_records: usize,
    /// A flow ends after this time without packets, ms.
    pub idle_ms: i64,
    /// The networks that packets come *in* to.
    pub local_networks: Vec<Network>,
}

/// An interval that is over.
#[derive(Debug, Default)]
pub struct ClosedInterval {
    /// Start, ms from the Unix epoch.
    pub start_ms: u64,
    /// One record for every flow that had packets, in the order of their first ones.
    pub records: Vec<Record>,
    /// Coarse records.
    pub overflow: Vec<OverflowRecord>,
    /// What came in.
    pub tally: Tally,
    /// The fixed counter sets.
    pub counters: FixedCounters,
    /// Empty intervals just before, passed over.
    pub skipped: u64,
}

/// An interval that packets are still counted in.
struct OpenInterval {
    records: Vec<Record>,
    overflow: Overflow,
    tally: Tally,
    counters: FixedCounters,
}

/// Meters the packets of one worker.
pub struct Meter {
    options: MeterOptions,
    table: FlowTable,
    /// The open interval and the one after it, by parity of their numbers.
    open: [OpenInterval; 2],
    /// Number of the open interval, once known.
    current: Option<i64>,
    /// When the open interval closes, ns.
    closes_ns: i64,
    /// Intervals passed over just before the open one.
    skipped: u64,
    closed: Vec<ClosedInterval>,
    /// Vectors of records that were published, to be filled again.
    spare: Vec<Vec<Record>>,
    since_sweep: u32,
    newest_ms: i64,
}

/// Packets between two looks at some flows for idleness, and how many are looked at.
const SWEEP_EVERY: u32 = 64;
const SWEEP_FLOWS: usize = 64;

impl Meter {
    /// A meter that has seen nothing yet.
    pub fn new(options: MeterOptions) -> Meter {
        let open = || OpenInterval {
            records: Vec::new(),
            overflow: Overflow::new(options.local_networks.clone()),
            tally: Tally::default(),
            counters: FixedCounters::default(),
        };
        Meter {
            table: FlowTable::new(options.max_flows, options.idle_ms),
            open: [open(), open()],
            current: None,
            closes_ns: i64::MIN,
            skipped: 0,
            closed: Vec::new(),
            spare: Vec::new(),
            since_sweep: 0,
            newest_ms: 0,
            options,
        }
    }

    /// Opens the interval that holds `now_ns`, where none is open yet.
    pub fn open_at(&mut self, now_ns: i64) {
        if self.current.is_none() {
            self.set_current(self.options.interval.number(now_ns));
        }
    }

    /// Says that it is `now_ns` and that every older packet was handed over: closes what is over.
    /// True where something was closed.
    pub fn clock(&mut self, now_ns: i64) -> bool {
        if now_ns < self.closes_ns {
            return false;
        }
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
            // The interval after the open one may have packets already: it is never passed over.
            if target - next > MAX_EMPTY && self.open[(next & 1) as usize].tally.captured.packets == 0 {
                self.skipped = (target - next) as u64;
                next = target;
            }
            self.set_current(next);
        }
        !self.closed.is_empty()
    }

    /// Counts a packet that came at `time_ns`; `exclude` says why it is not to be metered, if so.
    /// Call [`Meter::clock`] with the same time first.
    pub fn packet(&mut self, packet: &Packet, time_ns: i64, exclude: Option<Cause>) {
        let current = self.current.expect("clock() opened an interval");
        let number = self.options.interval.number(time_ns);
        let late = number < current;
        // At most one interval ahead: anything later has closed the open one.
        let number = number.clamp(current, current + 1);
        let open = &mut self.open[(number & 1) as usize];
        let volume = Volume::one(packet.octets);
        open.tally.captured += volume;
        if late {
            open.tally.late += volume;
        }
        open.counters.add(packet);
        let ip = match (packet.ip, exclude) {
            (Ok(ip), None) => ip,
            (Err(cause), _) | (Ok(_), Some(cause)) => {
                open.tally.not_metered[cause as usize] += volume;
                return;
            }
        };
        let now_ms = time_ns.div_euclid(1_000_000);
        self.newest_ms = self.newest_ms.max(now_ms);
        let (key, sender) = Key::of(&ip, packet.vlan);
        let record = match self.table.find(&key, &ip, sender, now_ms) {
            Ok((flow, new)) => {
                open.tally.flows += u64::from(new);
                let limit = self.options.max_records;
                self.table.record(flow, number, &mut open.records, limit, now_ms).map(|record| (flow, record))
            }
            Err(table::Full) => None,
        };
        match record {
            Some((flow, record)) => {
                record.add(&ip, packet.octets, sender, now_ms);
                self.table.follow(flow, &ip, sender, time_ns, record);
            }
            None => open.overflow.add(&ip, packet.octets, now_ms),
        }
        self.since_sweep += 1;
        if self.since_sweep >= SWEEP_EVERY {
            self.since_sweep = 0;
            self.table.sweep(SWEEP_FLOWS, self.newest_ms);
        }
    }

    /// Closes whatever is open: the source has ended. Opens and closes the interval of `now_ns` where none was, so that
    /// there is always one.
    pub fn finish(&mut self, now_ns: i64) {
        self.open_at(now_ns);
        let number = self.current.unwrap_or(0);
        self.close(number);
        if self.open[((number + 1) & 1) as usize].tally.captured.packets > 0 {
            self.close(number + 1);
        }
        self.current = None;
        self.closes_ns = i64::MIN;
    }

    /// The closed intervals, oldest first.
    pub fn take_closed(&mut self) -> Vec<ClosedInterval> {
        std::mem::take(&mut self.closed)
    }

    /// Gives back the vector of an interval whose records were published.
    pub fn recycle(&mut self, mut records: Vec<Record>) {
        if self.spare.len() < 2 {
            records.clear();
            self.spare.push(records);
        }
    }

    /// Flows alive and flows that fit.
    pub fn load(&self) -> (usize, usize) {
        (self.table.entries(), self.table.capacity())
    }

    /// Start of the open interval, ns; `None` before the first packet.
    pub fn open_start_ns(&self) -> Option<i64> {
        self.current.map(|number| self.options.interval.start_ns(number))
    }

    fn set_current(&mut self, number: i64) {
        self.current = Some(number);
        self.closes_ns = self.options.interval.start_ns(number + 1).saturating_add(GRACE_NS);
    }

    fn close(&mut self, number: i64) {
        let fresh = self.spare.pop().unwrap_or_default();
        let open = &mut self.open[(number & 1) as usize];
        self.closed.push(ClosedInterval {
            start_ms: (self.options.interval.start_ns(number) / 1_000_000) as u64,
            records: std::mem::replace(&mut open.records, fresh),
            overflow: open.overflow.take(),
            tally: std::mem::take(&mut open.tally),
            counters: std::mem::take(&mut open.counters),
            skipped: std::mem::take(&mut self.skipped),
        });
        // Idle flows are looked for at every close too, so that a quiet worker forgets them as well.
        self.table.sweep(SWEEP_FLOWS * 16, self.newest_ms.max(self.options.interval.start_ns(number + 1) / 1_000_000));
    }
}

#[cfg(test)]
mod tests;
