//! The line of a capture: one thread takes packets from its source and meters them, the other publishes closed intervals.
//!
//! Workers share nothing but the metrics and the sink's queue.

use super::Worker;
use super::metrics::CaptureMetrics;
use super::reload::Reload;
use super::state::{RunState, WatchedInterface};
use crate::config::{PacketsConfig, Tunnels};
use crate::host::{self, ThreadLoad, wall_clock_ns};
use crate::meter::record::Records;
use crate::meter::{Arrival, ClosedInterval, Meter, MeterOptions, Tally};
use crate::own_traffic::{OwnEndpoint, OwnTraffic};
use crate::packet::{BATCH, Cause, Checksum, Packet};
use crate::proto;
use crate::publish::messages::complete_load;
use crate::publish::metered::{Closing, Publisher};
use crate::publish::metrics::PublishMetrics;
use crate::publish::pace::Pace;
use crate::publish::{Identity, Published, Sink};
use crate::source::interface::{InterfaceCounters, InterfaceStatistics};
use crate::source::{Next, Polled, Source, Witness};
use crate::throttle::Throttle;
use anyhow::Context as _;
use arrayvec::ArrayVec;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Maximum time that a worker waits for packets before it checks the clock, or for closed intervals before it checks
/// whether published ones are safe.
const PATIENCE: Duration = Duration::from_millis(50);

/// The parts of a worker other than its source and sink.
pub struct CaptureOptions {
    /// Its identity in messages.
    pub identity: Identity,
    /// How it reads packets.
    pub packets: PacketsConfig,
    pub meter: MeterOptions,
    /// Pace of publishing its records.
    pub pace: Pace,
    /// Keeps only its share of packets, by a hash of the two addresses: for sources that give every worker everything.
    pub share: bool,
    /// Opens the interval of this time at the start, ns; if absent, the first packet opens one.
    pub open_at_ns: Option<i64>,
    /// The processor that capture is pinned to.
    pub cpu: Option<usize>,
    /// Brokers whose traffic is the agent's own.
    pub brokers: Option<OwnTraffic>,
    /// The interface's own counters (worker 0 of a live capture).
    pub interface: Option<InterfaceWitness>,
    /// Source of changed settings.
    pub reload: Reload,
    /// Set to end the worker in an orderly way.
    pub stop: Arc<AtomicBool>,
    /// The state that it shares with the other workers.
    pub run: RunState,
    /// Metrics of its packets.
    pub metrics: CaptureMetrics,
    pub published: PublishMetrics,
}

/// The interface's own counters, as worker 0 reports them.
pub struct InterfaceWitness {
    pub counters: InterfaceCounters,
    /// Its name for the next run, which learns of its counters at the last published close.
    pub watched: WatchedInterface,
    /// Whether it is the loopback.
    pub loopback: bool,
    /// Their values at the start of the epoch.
    pub base: InterfaceStatistics,
}

/// The outcome of a worker.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    pub tally: Tally,
    /// Sums of its records.
    pub published: Published,
    /// The source's count.
    pub witness: Witness,
    /// Whether it ended because its interface disappeared.
    pub gone: bool,
}

/// A running worker, which returns whether its interface disappeared, and the outcome.
pub type CaptureWorker = Worker<bool, Outcome>;

/// Starts a worker.
///
/// # Errors
/// If a thread cannot be started.
pub fn start<S>(source: S, sink: Box<dyn Sink>, options: CaptureOptions) -> anyhow::Result<CaptureWorker>
where
    S: Source + Send + 'static,
{
    let number = options.identity.worker;
    let publishing = CapturePublishing {
        worker: number,
        publisher: Publisher::new(options.identity.clone(), Arc::clone(&options.meter.filters)),
        pace: options.pace,
        metrics: options.metrics.clone(),
        published: options.published.clone(),
        sink,
        run: options.run.clone(),
        interface: options.interface.as_ref().map(|witness| witness.watched.clone()),
        throttle: Throttle::default(),
    };
    let capture = move |closings, recycled| {
        // First, so that the kernel places the tables' memory near that processor.
        if let Some(cpu) = options.cpu {
            host::pin_thread(cpu).with_context(|| format!("cannot pin a worker to processor {cpu}"))?;
        }
        Capture::new(source, options, closings, recycled)?.run()
    };
    let publish = move |closed: &_, give_back: &_| {
        // Publishing an interval must not preempt capture. This saves microseconds, so an error is ignored.
        let _ = host::yield_to_others();
        publishing.run(closed, give_back)
    };
    Ok(Worker::start(("capture", number), capture, publish)?)
}

/// Waits for the end of a worker.
///
/// # Errors
/// If the sink failed, or a thread did.
pub fn join(worker: CaptureWorker) -> anyhow::Result<Outcome> {
    let (gone, outcome) = worker.join()?;
    Ok(Outcome { gone, ..outcome })
}

/// A closed interval that waits for its publisher.
struct HandedOver {
    closing: Closing,
    /// The interface's counters, if the next epoch needs them.
    counted: Option<InterfaceCount>,
}

/// An interface's counters at some time.
#[derive(Clone, Copy)]
struct InterfaceCount {
    statistics: InterfaceStatistics,
    /// Packets that a capture sees.
    packets: u64,
    /// When, ms from the Unix epoch.
    at_ms: i64,
}

impl InterfaceWitness {
    fn count(&mut self) -> Option<InterfaceCount> {
        let statistics = self.counters.read().ok()?;
        let packets = statistics.packets(self.loopback);
        Some(InterfaceCount { statistics, packets, at_ms: wall_clock_ns() / 1_000_000 })
    }
}

/// The capturing half.
struct Capture<S> {
    source: S,
    options: CaptureOptions,
    meter: Meter,
    closings: Sender<HandedOver>,
    recycled: Receiver<Records>,
    throttle: Throttle,
    own: Own,
    load: ThreadLoad,
    /// Version of the settings that the worker uses.
    settings: u64,
    /// The interface's counters when capture stopped.
    final_count: Option<InterfaceCount>,
    /// Time during which closing intervals kept the worker from reading packets, not yet reported in a closing record.
    stalled: Duration,
    /// Whether the source admits no new packets and the worker has taken every admitted one.
    drained: bool,
}

/// The agent's own connections.
#[derive(Default)]
struct Own {
    version: u64,
    endpoints: Vec<OwnEndpoint>,
}

impl Own {
    fn refresh(&mut self, brokers: Option<&OwnTraffic>) {
        if let Some(brokers) = brokers.filter(|brokers| brokers.version() != self.version) {
            self.version = brokers.version();
            self.endpoints = brokers.endpoints();
        }
    }

    fn cause(&self, packet: &Packet) -> Option<Cause> {
        if self.endpoints.is_empty() {
            return None;
        }
        let ip = packet.ip.as_ref().ok()?;
        let (from, to) = ((ip.src, ip.src_port, ip.protocol), (ip.dst, ip.dst_port, ip.protocol));
        self.endpoints.iter().any(|endpoint| *endpoint == from || *endpoint == to).then_some(Cause::OwnExport)
    }
}

impl<S: Source> Capture<S> {
    fn new(
        source: S,
        options: CaptureOptions,
        closings: Sender<HandedOver>,
        recycled: Receiver<Records>,
    ) -> anyhow::Result<Self> {
        Ok(Capture {
            source,
            meter: Meter::new(options.meter.clone())?,
            throttle: Throttle::default(),
            own: Own::default(),
            load: ThreadLoad::begin(),
            settings: 0,
            final_count: None,
            stalled: Duration::ZERO,
            drained: false,
            options,
            closings,
            recycled,
        })
    }

    /// Captures to the end; returns true if the interface disappeared.
    fn run(mut self) -> anyhow::Result<bool> {
        if let Some(now_ns) = self.options.open_at_ns {
            self.meter.open_at(now_ns);
        }
        let share = self.options.share.then_some((self.options.identity.worker, self.options.identity.workers));
        let mut newest_ns = self.options.open_at_ns.unwrap_or(i64::MIN);
        let mut parsed = vec![Packet::default(); BATCH];
        let (mut stopping, mut shut, mut gone) = (false, false, false);
        loop {
            if !stopping && (gone || self.options.stop.load(Ordering::Relaxed)) {
                stopping = true;
                shut = self.source.stop();
                self.final_count = self.options.interface.as_mut().and_then(InterfaceWitness::count);
            }
            self.own.refresh(self.options.brokers.as_ref());
            let (meter, own, packets) = (&mut self.meter, &self.own, self.options.packets);
            let stalled = &mut self.stalled;
            let polled = self.source.poll(PATIENCE, &mut |frames| {
                assert!(frames.len() <= parsed.len(), "a source hands over at most a batch at once");
                let mut closed = false;
                let mut arrivals = ArrayVec::<Arrival<'_>, BATCH>::new();
                for (frame, packet) in frames.iter().zip(&mut *parsed) {
                    if meter.is_over(frame.time_ns) {
                        meter.packets(&mut arrivals);
                        arrivals.clear();
                        let started = Instant::now();
                        if meter.clock(frame.time_ns) {
                            closed = true;
                            newest_ns = frame.time_ns;
                        }
                        *stalled += started.elapsed();
                    }
                    newest_ns = newest_ns.max(frame.time_ns);
                    packet.read(frame);
                    if packets.tunnels == Tunnels::Inner {
                        packet.enter_tunnel(frame);
                    }
                    if share.is_none_or(|(number, of)| shard(packet, of) == number) {
                        let layer3 = frame.data.get(packet.layer3 as usize..).unwrap_or(&[]);
                        let exclude = own.cause(packet);
                        let checksum = match &packet.ip {
                            Ok(ip) if packets.checksums => Some(Checksum::of(ip, layer3)),
                            _ => None,
                        };
                        arrivals.push(Arrival { packet, time_ns: frame.time_ns, exclude, layer3, checksum });
                    }
                }
                meter.packets(&mut arrivals);
                if closed { Next::Pause } else { Next::More }
            });
            match polled {
                Ok(Polled::Packets) => {}
                Ok(Polled::End) => {
                    self.drained = shut;
                    break;
                }
                Ok(Polled::Idle) => self.look_at_the_clock(),
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) && !stopping => {
                    tracing::error!("{}: the interface is gone", self.options.identity.source);
                    gone = true;
                }
                Err(error) => {
                    self.options.metrics.source_error(self.options.identity.worker);
                    if self.throttle.allow(&error.to_string()) {
                        tracing::warn!("{}: {error}; capture resumes when possible", self.options.identity.source);
                    }
                    self.look_at_the_clock();
                    if stopping {
                        break;
                    }
                }
            }
            self.hand_over(false)?;
        }
        let now_ns = self
            .source
            .now_ns()
            .or((newest_ns > i64::MIN).then_some(newest_ns))
            .unwrap_or_else(crate::host::wall_clock_ns);
        self.meter.clock(now_ns);
        self.meter.finish(now_ns);
        self.hand_over(true)?;
        Ok(gone)
    }

    fn look_at_the_clock(&mut self) {
        if let Some(now_ns) = self.source.now_ns() {
            let started = Instant::now();
            if self.meter.clock(now_ns) {
                self.stalled += started.elapsed();
            }
            self.meter.tick(now_ns);
        }
    }

    /// Sends closed intervals to the publisher.
    fn hand_over(&mut self, last: bool) -> anyhow::Result<()> {
        let closed = self.meter.take_closed();
        let count = closed.len();
        if count > 0 {
            let mut since = Instant::now();
            for (index, interval) in closed.into_iter().enumerate() {
                let mut handed_over = self.closing(interval, last && index + 1 == count);
                let now = Instant::now();
                self.stalled += now - since;
                since = now;
                // The next record reports the time spent waiting for the publisher.
                let stalled = std::mem::take(&mut self.stalled);
                handed_over.closing.load.close_stall_us = stalled.as_micros() as u64;
                self.closings.send(handed_over).context("publishing has ended")?;
            }
            if let Some(new) = self.options.reload.newer_than(&mut self.settings) {
                self.meter.reconfigure(&new.meter);
                self.options.packets = new.packets;
            }
            self.stalled += since.elapsed();
        }
        while let Ok(records) = self.recycled.try_recv() {
            self.meter.recycle(records);
        }
        Ok(())
    }

    /// The part of a closing record that only the capturing half knows; the publisher adds the rest.
    fn closing(&mut self, interval: ClosedInterval, last: bool) -> HandedOver {
        let counted = self.final_count.or_else(|| self.options.interface.as_mut()?.count());
        let mut interfaces = Vec::new();
        if let (Some(witness), Some(counted)) = (&self.options.interface, &counted) {
            let since = counted.statistics.since(&witness.base);
            interfaces.push(proto::InterfaceCounters {
                name: witness.counters.name().to_owned(),
                rx_packets: since.rx_packets,
                tx_packets: since.tx_packets,
                rx_octets: since.rx_octets,
                tx_octets: since.tx_octets,
                rx_dropped: since.rx_dropped,
            });
        }
        let (entries, capacity) = self.meter.load();
        let load = proto::Load {
            cpu_permille: self.load.permille(self.options.identity.interval_ms),
            flow_table_entries: entries as u64,
            flow_table_capacity: capacity as u64,
            ..proto::Load::default()
        };
        if let (true, Some(witness), Some(counted)) = (interval.ends_epoch, &mut self.options.interface, &counted) {
            witness.base = counted.statistics;
        }
        let drained = last && self.drained;
        let closing = Closing { interval, witness: self.source.witness(), interfaces, load, last, drained };
        HandedOver { closing, counted }
    }
}

/// The worker that a packet belongs to: the same for both directions, and for all fragments.
fn shard(packet: &Packet, workers: u32) -> u32 {
    let Ok(ip) = &packet.ip else { return 0 };
    let both = u128::from_ne_bytes(ip.src) ^ u128::from_ne_bytes(ip.dst);
    // The finaliser of MurmurHash3: every bit of the addresses reaches every bit of the result.
    let mut mixed = both as u64 ^ (both >> 64) as u64;
    mixed = (mixed ^ mixed >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed = (mixed ^ mixed >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    ((mixed >> 33) % u64::from(workers)) as u32
}

struct CapturePublishing {
    worker: u32,
    publisher: Publisher,
    pace: Pace,
    metrics: CaptureMetrics,
    published: PublishMetrics,
    sink: Box<dyn Sink>,
    run: RunState,
    /// The interface whose counters are kept for the next run.
    interface: Option<WatchedInterface>,
    throttle: Throttle,
}

impl CapturePublishing {
    /// Publishes intervals until the worker ends.
    fn run(mut self, closed: &Receiver<HandedOver>, give_back: &Sender<Records>) -> anyhow::Result<Outcome> {
        while let Some(handed_over) = self.next(closed) {
            self.publish(handed_over, give_back)?;
        }
        Ok(self.outcome())
    }

    /// The next closed interval; keeps the last close meanwhile.
    fn next(&self, closed: &Receiver<HandedOver>) -> Option<HandedOver> {
        self.keep();
        while self.interface.is_some() && self.run.has_closed() {
            match closed.recv_timeout(PATIENCE) {
                Err(RecvTimeoutError::Timeout) => self.keep(),
                handed_over => return handed_over.ok(),
            }
        }
        closed.recv().ok()
    }

    fn publish(&mut self, handed_over: HandedOver, give_back: &Sender<Records>) -> anyhow::Result<()> {
        let HandedOver { mut closing, counted } = handed_over;
        complete_load(&mut closing.load, self.sink.as_ref());
        let before = (*self.publisher.published(), *self.publisher.witness());
        self.publisher.publish(&mut closing, &self.pace, self.sink.as_mut())?;
        if closing.interval.ends_epoch {
            self.publisher.begin_epoch(self.run.epoch_after(self.publisher.epoch()));
        }
        if let (Some(interface), Some(counted)) = (&self.interface, counted) {
            self.run.closed(interface, counted.packets, counted.at_ms);
        }
        let worker = self.worker;
        let (published, witness) = (self.publisher.published(), self.publisher.witness());
        let here = published.since(&before.0);
        let (offered, dropped) = (witness.offered - before.1.offered, witness.dropped - before.1.dropped);
        self.metrics.closed(worker, &closing, &here, offered, dropped);
        self.published.published(worker, &here, closing.interval.tally.late.packets);
        self.published.overflow(worker, here.overflow_records);
        if dropped > 0 {
            tracing::warn!(worker, dropped, "the kernel dropped packets: the agent was too slow for its interface");
        }
        // Emptied here rather than by the worker, because names are freed one by one.
        closing.interval.records.restart(0);
        // After the worker has ended, nobody receives it.
        let _ = give_back.send(closing.interval.records);
        Ok(())
    }

    fn outcome(&self) -> Outcome {
        Outcome {
            tally: *self.publisher.tally(),
            published: *self.publisher.published(),
            witness: *self.publisher.witness(),
            gone: false,
        }
    }

    /// Keeps the last close once all messages are in Kafka or in the spool: after a crash, packets are missing from there
    /// on.
    fn keep(&self) {
        if self.interface.is_none() || self.sink.unsaved_octets() > 0 {
            return;
        }
        if let Err(error) = self.run.keep() {
            if self.throttle.allow("state") {
                tracing::warn!("{error:#}: the next run will not know how much it missed");
            }
        }
    }
}

#[cfg(test)]
mod simulator;
#[cfg(test)]
mod tests;
