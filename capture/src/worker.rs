//! A worker: one thread that takes packets from its source and meters them, and one that publishes what is closed.
//!
//! Workers share nothing but the metrics and the sink's queue.

use crate::config::{PacketsConfig, Tunnels};
use crate::host;
use crate::meter::record::Records;
use crate::meter::{Arrival, BATCH, ClosedInterval, Meter, MeterOptions, Tally};
use crate::metrics::Metrics;
use crate::packet::{Address, Cause, Checksum, Packet};
use crate::proto;
use crate::publish::kafka::Brokers;
use crate::publish::pace::Pace;
use crate::publish::{Closing, Identity, Published, Publisher, Sink};
use crate::reload::Reload;
use crate::source::interface::InterfaceStatistics;
use crate::source::{Next, Polled, Source, Witness};
use crate::state::StateFile;
use crate::throttle::Throttle;
use anyhow::Context as _;
use arrayvec::ArrayVec;
use crossbeam_channel::{Receiver, Sender};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a worker waits for packets before it looks at the clock.
const PATIENCE: Duration = Duration::from_millis(50);

/// Closed intervals that may wait for their publisher before the worker waits too.
const WAITING_INTERVALS: usize = 4;

/// What a worker is made of beside its source and its sink.
pub struct WorkerOptions {
    /// What its messages say of it.
    pub identity: Identity,
    /// How it reads packets.
    pub packets: PacketsConfig,
    /// How it meters.
    pub meter: MeterOptions,
    /// How fast its records go out.
    pub pace: Pace,
    /// Keeps only its share of packets, by a hash of the two addresses: for sources that give every worker everything.
    pub share: bool,
    /// Opens the interval of this time at the start, ns; else the first packet does.
    pub open_at_ns: Option<i64>,
    /// The processor that capture is kept on.
    pub cpu: Option<usize>,
    /// Brokers whose traffic is the agent's own.
    pub brokers: Option<Brokers>,
    /// The interface's own counters (worker 0 of a live capture).
    pub interface: Option<InterfaceWitness>,
    /// Where changed settings come from.
    pub reload: Reload,
    /// Set when the worker is to end in order.
    pub stop: Arc<AtomicBool>,
    /// Where it counts.
    pub metrics: Metrics,
}

/// The interface's own counters, as worker 0 reports them.
pub struct InterfaceWitness {
    /// Name of the interface.
    pub name: String,
    /// Whether it is the loopback.
    pub loopback: bool,
    /// Its counters at the start of the epoch.
    pub base: InterfaceStatistics,
    /// Where the last close is kept for the next epoch.
    pub state: Option<StateFile>,
}

/// What a worker came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// What it took in.
    pub tally: Tally,
    /// What its records add up to.
    pub published: Published,
    /// The source's count.
    pub witness: Witness,
    /// Whether it ended because its interface did.
    pub gone: bool,
}

/// A running worker.
pub struct Worker {
    capture: JoinHandle<anyhow::Result<bool>>,
    publish: JoinHandle<anyhow::Result<Outcome>>,
}

impl Worker {
    /// Starts the two threads.
    ///
    /// # Errors
    /// Where a thread cannot be started.
    pub fn start<S>(source: S, sink: Box<dyn Sink>, options: WorkerOptions) -> anyhow::Result<Worker>
    where
        S: Source + Send + 'static,
    {
        let number = options.identity.worker;
        let (closings, closed) = crossbeam_channel::bounded(WAITING_INTERVALS);
        let (give_back, recycled) = crossbeam_channel::unbounded();
        let publish = {
            let publisher = Publisher::new(options.identity.clone(), Arc::clone(&options.meter.filters));
            let (pace, metrics) = (options.pace, options.metrics.clone());
            let spawn = std::thread::Builder::new().name(format!("publish-{number}"));
            spawn.spawn(move || publish(number, publisher, &pace, &metrics, sink, &closed, &give_back))?
        };
        let capture = {
            let spawn = std::thread::Builder::new().name(format!("capture-{number}"));
            spawn.spawn(move || {
                // First of all, so that the tables' memory is near that processor.
                if let Some(cpu) = options.cpu {
                    host::pin_thread(cpu).with_context(|| format!("cannot keep a worker on processor {cpu}"))?;
                }
                Capture::new(source, options, closings, recycled)?.run()
            })?
        };
        Ok(Worker { capture, publish })
    }

    /// Whether the worker has ended.
    pub fn is_finished(&self) -> bool {
        self.capture.is_finished()
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// Where the sink failed, or a thread did.
    pub fn join(self) -> anyhow::Result<Outcome> {
        let failed = |_| anyhow::anyhow!("a worker failed; the message above says where");
        let captured = self.capture.join().map_err(failed)?;
        // The publisher knows better why capture could not hand over.
        let outcome = self.publish.join().map_err(failed)??;
        Ok(Outcome { gone: captured?, ..outcome })
    }
}

/// The capturing half.
struct Capture<S> {
    source: S,
    options: WorkerOptions,
    meter: Meter,
    closings: Sender<Closing>,
    recycled: Receiver<Records>,
    throttle: Throttle,
    own: Own,
    cpu_ns: u64,
    /// The version of the settings that it keeps to.
    settings: u64,
    /// The interface's counters when capture stopped.
    final_statistics: Option<InterfaceStatistics>,
    /// Whether nothing new can come and all that came was taken.
    drained: bool,
}

/// The agent's own connections.
#[derive(Default)]
struct Own {
    version: u64,
    endpoints: Vec<(Address, u16)>,
}

impl Own {
    fn refresh(&mut self, brokers: Option<&Brokers>) {
        if let Some(brokers) = brokers
            && brokers.version() != self.version
        {
            self.version = brokers.version();
            self.endpoints = brokers.endpoints();
        }
    }

    fn cause(&self, packet: &Packet) -> Option<Cause> {
        if self.endpoints.is_empty() {
            return None;
        }
        let ip = packet.ip.as_ref().ok()?;
        ip.tcp?;
        let own = |endpoint: &(Address, u16)| *endpoint == (ip.src, ip.src_port) || *endpoint == (ip.dst, ip.dst_port);
        self.endpoints.iter().any(own).then_some(Cause::OwnExport)
    }
}

impl<S: Source> Capture<S> {
    fn new(
        source: S,
        options: WorkerOptions,
        closings: Sender<Closing>,
        recycled: Receiver<Records>,
    ) -> anyhow::Result<Self> {
        Ok(Capture {
            source,
            meter: Meter::new(options.meter.clone())?,
            throttle: Throttle::default(),
            own: Own::default(),
            cpu_ns: host::thread_cpu_ns(),
            settings: 0,
            final_statistics: None,
            drained: false,
            options,
            closings,
            recycled,
        })
    }

    /// Captures to the end; true where that was the interface's.
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
                self.final_statistics = self.statistics();
            }
            self.own.refresh(self.options.brokers.as_ref());
            let (meter, own, packets) = (&mut self.meter, &self.own, self.options.packets);
            let polled = self.source.poll(PATIENCE, &mut |frames| {
                assert!(frames.len() <= parsed.len(), "a source hands over at most a batch at once");
                let mut closed = false;
                let mut arrivals = ArrayVec::<Arrival<'_>, BATCH>::new();
                for (frame, packet) in frames.iter().zip(&mut *parsed) {
                    if meter.is_over(frame.time_ns) {
                        meter.packets(&mut arrivals);
                        arrivals.clear();
                        closed |= meter.clock(frame.time_ns);
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
                        tracing::warn!("{}: {error}; capture goes on when it can", self.options.identity.source);
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
            .unwrap_or_else(crate::source::wall_clock_ns);
        self.meter.clock(now_ns);
        self.meter.finish(now_ns);
        self.hand_over(true)?;
        Ok(gone)
    }

    fn look_at_the_clock(&mut self) {
        if let Some(now_ns) = self.source.now_ns() {
            self.meter.clock(now_ns);
            self.meter.tick(now_ns);
        }
    }

    fn statistics(&self) -> Option<InterfaceStatistics> {
        InterfaceStatistics::read(&self.options.interface.as_ref()?.name).ok()
    }

    /// Sends what was closed to the publisher.
    fn hand_over(&mut self, last: bool) -> anyhow::Result<()> {
        let started = Instant::now();
        let closed = self.meter.take_closed();
        let count = closed.len();
        for (index, interval) in closed.into_iter().enumerate() {
            let closing = self.closing(interval, started, last && index + 1 == count);
            self.closings.send(closing).context("publishing has ended")?;
        }
        if count > 0
            && let Some(new) = self.options.reload.newer_than(&mut self.settings)
        {
            self.meter.reconfigure(&new.meter);
            self.options.packets = new.packets;
        }
        while let Ok(records) = self.recycled.try_recv() {
            self.meter.recycle(records);
        }
        Ok(())
    }

    fn closing(&mut self, interval: ClosedInterval, started: Instant, last: bool) -> Closing {
        let statistics = self.final_statistics.or_else(|| self.statistics());
        let mut interfaces = Vec::new();
        if let (Some(witness), Some(statistics)) = (&self.options.interface, statistics) {
            let since = statistics.since(&witness.base);
            interfaces.push(proto::InterfaceCounters {
                name: witness.name.clone(),
                rx_packets: since.rx_packets,
                tx_packets: since.tx_packets,
                rx_octets: since.rx_octets,
                tx_octets: since.tx_octets,
                rx_dropped: since.rx_dropped,
            });
            if let Some(state) = &witness.state
                && let Err(error) = state.write(statistics.packets(witness.loopback))
                && self.throttle.allow("state")
            {
                tracing::warn!("{error:#}: the next run will not know how much it missed");
            }
        }
        let cpu_ns = host::thread_cpu_ns();
        let used_ns = cpu_ns.saturating_sub(std::mem::replace(&mut self.cpu_ns, cpu_ns));
        let (entries, capacity) = self.meter.load();
        let load = proto::Load {
            cpu_permille: (used_ns / (u64::from(self.options.identity.interval_ms) * 1000)) as u32,
            rss_octets: host::resident_octets(),
            flow_table_entries: entries as u64,
            flow_table_capacity: capacity as u64,
            publish_queue_octets: 0,
            spool_octets: 0,
            close_stall_us: started.elapsed().as_micros() as u64,
        };
        let drained = last && self.drained;
        Closing { interval, witness: self.source.witness(), interfaces, load, last, drained }
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

/// The publishing half: until the worker ends.
fn publish(
    worker: u32,
    mut publisher: Publisher,
    pace: &Pace,
    metrics: &Metrics,
    mut sink: Box<dyn Sink>,
    closed: &Receiver<Closing>,
    give_back: &Sender<Records>,
) -> anyhow::Result<Outcome> {
    for mut closing in closed {
        closing.load.publish_queue_octets = sink.queued_octets();
        closing.load.spool_octets = sink.spooled_octets();
        let before = (*publisher.published(), *publisher.witness());
        publisher.publish(&mut closing, pace, sink.as_mut())?;
        let (published, witness) = (publisher.published(), publisher.witness());
        let here = published.since(&before.0);
        let (offered, dropped) = (witness.offered - before.1.offered, witness.dropped - before.1.dropped);
        metrics.closed(worker, &closing, &here, offered, dropped);
        if dropped > 0 {
            tracing::warn!(worker, dropped, "the kernel dropped packets: the agent was too slow for its interface");
        }
        // Emptied here, not by the worker: names are given back one by one.
        closing.interval.records.restart(0);
        // Where the worker has ended there is nobody to give it to.
        let _ = give_back.send(closing.interval.records);
    }
    Ok(Outcome {
        tally: *publisher.tally(),
        published: *publisher.published(),
        witness: *publisher.witness(),
        gone: false,
    })
}
