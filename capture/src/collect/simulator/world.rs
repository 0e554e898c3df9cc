//! A simulated network around the real collector: its time, the messages in flight, and the workers, among which
//! exporters are distributed as the system would. Nothing sleeps, and nothing but the saved states touches the disk.

use super::exporter::Exporter;
use super::reader::Reader;
use super::schedule::{Fate, Part, Plan, Schedule, Speaks, Step};
use crate::collect::ears::{Datagrams, Ears};
use crate::collect::exporter::origin::Session;
use crate::collect::listening::{CollectOptions, Listening, Work};
use crate::collect::metrics::CollectMetrics;
use crate::collect::outcome::CollectOutcome;
use crate::collect::publish::{CollectPublisher, Ends};
use crate::collect::states::States;
use crate::collect::table::Flows;
use crate::line::state::RunState;
use crate::metrics::Metrics;
use crate::packet;
use crate::proto::{self, flow_message::Body};
use crate::publish::metrics::PublishMetrics;
use crate::publish::{Encoded, Identity, Sink};
use crossbeam_channel::{Receiver, Sender, unbounded};
use prost::Message as _;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// When a simulation begins, ms from the Unix epoch.
const START_MS: i64 = 1_700_000_000_000;
pub const INTERVAL_MS: i64 = 10_000;
/// The collector's port.
const PORT: u16 = 2055;

/// A message as it was sent, for the oracle.
pub struct Sent {
    pub exporter: usize,
    pub session: Session,
    /// Number of restarts of its exporter so far.
    pub start: u32,
    pub layout: usize,
    pub sent_ms: i64,
    pub number: u32,
    pub units: u32,
    pub parts: Vec<Part>,
    pub octets: Vec<u8>,
}

/// Events at the collector, in order.
pub enum Heard {
    /// The message of this number arrived at this time by an undisturbed clock.
    Message(usize, i64),
    /// The host's clock is now so far ahead of the undisturbed one, ms.
    Clock(i64),
    /// The collector stopped.
    Stopped,
}

/// A published record of one interval.
#[derive(Debug)]
pub struct Got {
    pub id: u32,
    pub interval_ms: i64,
    pub packets: u64,
    pub octets: u64,
    pub rate: u64,
    pub exporter: Vec<u8>,
}

/// By address, domain and protocol: records, and how many of them without a rate.
pub type ByExporter = BTreeMap<(Vec<u8>, u32, String), (u64, u64)>;

/// Exporters' counts in closing records, and refusals by cause.
#[derive(Default)]
pub struct Closed {
    pub exporters: ByExporter,
    pub refused: BTreeMap<String, u64>,
    /// Reports other than flows in batches, in total, and those that no closing record has counted.
    pub reports: u64,
    pub uncounted: i64,
}

/// The outcome of a simulation.
#[derive(Default)]
pub struct Happened {
    pub closed: Closed,
    pub sent: Vec<Sent>,
    pub heard: Vec<Heard>,
    pub got: Vec<Got>,
    pub outcome: CollectOutcome,
    /// The first contradiction in a worker's messages.
    pub wrong: Option<String>,
}

/// Keeps what is published.
struct Kept<'a>(&'a mut Vec<Got>, &'a mut Closed, &'a mut Reader);

impl Sink for Kept<'_> {
    fn flows(&mut self, message: Encoded<'_>) -> anyhow::Result<()> {
        let message = proto::FlowMessage::decode(message.octets)?;
        self.2.read(&message);
        let batch = match message.body {
            Some(Body::Batch(batch)) => batch,
            Some(Body::Closing(closing)) => {
                self.1.uncounted -= (closing.nat_events + closing.interface_counters + closing.names) as i64;
                for exporter in closing.exporters {
                    let by = (exporter.addr, exporter.domain, exporter.protocol);
                    let sums = self.1.exporters.entry(by).or_default();
                    sums.0 += exporter.records;
                    sums.1 += exporter.without_sampling_rate;
                    exporter.refused.into_iter().for_each(|(cause, count)| {
                        *self.1.refused.entry(cause).or_default() += count;
                    });
                }
                return Ok(());
            }
            None => return Ok(()),
        };
        let reports = batch.nat_events.len() + batch.interface_counters.len() + batch.names.len();
        self.1.reports += reports as u64;
        self.1.uncounted += reports as i64;
        for flow in batch.flows {
            self.0.push(Got {
                id: [&flow.src_addr, &flow.dst_addr].into_iter().find_map(|address| id(address)).unwrap_or(0),
                interval_ms: message.interval_start_ms as i64,
                packets: flow.fwd_packets + flow.rev_packets,
                octets: flow.fwd_octets + flow.rev_octets,
                rate: flow.sampling_rate.into(),
                exporter: flow.exporter_addr,
            });
        }
        Ok(())
    }

    fn counters(&mut self, _: &proto::CounterMessage) -> anyhow::Result<()> {
        Ok(())
    }
}

/// The number of a record, by its source's address.
fn id(address: &[u8]) -> Option<u32> {
    match *address {
        [10, a, b, c] => Some(u32::from_be_bytes([0, a, b, c])),
        [0x20, 1, 0x0d, 0xb8, 0, 0, .., a, b, c, d] => Some(u32::from_be_bytes([a, b, c, d])),
        _ => None,
    }
}

struct Worker {
    listening: Listening<Ears>,
    waiting: Rc<RefCell<Datagrams>>,
    publisher: CollectPublisher,
    work: Receiver<Work>,
    give_back: Sender<Flows>,
    reader: Reader,
}

impl Worker {
    fn start(number: u32, workers: u32, clock: &Ears, states: &States) -> Worker {
        let waiting = Rc::new(RefCell::new(VecDeque::new()));
        let (work, to_publish) = unbounded();
        let (give_back, recycled) = unbounded();
        let metrics = Metrics::default();
        let identity = Identity {
            probe: "simulated".to_owned(),
            worker: number,
            workers,
            interval_ms: INTERVAL_MS as u32,
            ..Identity::default()
        };
        let options = CollectOptions {
            identity: identity.clone(),
            max_entries: 100_000,
            filters: Arc::default(),
            states: states.clone(),
            run: RunState::default(),
            metrics: CollectMetrics::new(&metrics),
            published: PublishMetrics::new(&metrics),
            stop: Arc::default(),
        };
        let ears = Ears { waiting: Rc::clone(&waiting), ..clock.clone() };
        Worker {
            listening: Listening::new(ears, None, options, work, recycled),
            waiting,
            publisher: CollectPublisher::new(identity, Arc::default()),
            work: to_publish,
            give_back,
            reader: Reader::default(),
        }
    }

    fn step(&mut self, Happened { got, closed, .. }: &mut Happened) {
        while self.listening.step(Duration::ZERO).unwrap() {}
        publish(&mut self.publisher, &self.work, &self.give_back, &mut Kept(got, closed, &mut self.reader));
    }

    fn finish(mut self, Happened { got, closed, outcome, wrong, .. }: &mut Happened) {
        outcome.add(&self.listening.finish().unwrap());
        publish(&mut self.publisher, &self.work, &self.give_back, &mut Kept(got, closed, &mut self.reader));
        if let Err(why) = self.reader.end() {
            wrong.get_or_insert(why);
        }
    }
}

fn publish(publisher: &mut CollectPublisher, work: &Receiver<Work>, give_back: &Sender<Flows>, kept: &mut Kept<'_>) {
    while let Ok(work) = work.try_recv() {
        match work {
            Work::Flows(all) => {
                for flows in all {
                    publisher.flows(&flows, kept).unwrap();
                    let _ = give_back.send(flows);
                }
            }
            Work::Close(closing) => {
                let ends = closing.ends;
                publisher.close(closing, kept).unwrap();
                if ends == Ends::Epoch {
                    publisher.begin_epoch(&RunState::default());
                }
            }
            Work::Notices(start_ms, notices) => publisher.notices(start_ms, &notices, kept).unwrap(),
            Work::Taken(_) => {}
        }
    }
}

pub struct World {
    /// The time that passes, and the host's clock.
    now_ms: Rc<Cell<i64>>,
    clock: Ears,
    states: States,
    exporters: Vec<Exporter>,
    workers: Vec<Worker>,
    /// Message numbers by arrival time.
    on_the_way: BTreeMap<i64, Vec<usize>>,
    /// By how much the host's clock steps as the next message arrives, ms.
    steps_as_it_hears_ms: i64,
    happened: Happened,
}

impl World {
    /// Runs a schedule; saves states in this folder, which must be empty.
    pub fn run(schedule: &Schedule, folder: &Path) -> Happened {
        let now_ms = Rc::new(Cell::new(START_MS));
        let exporters = schedule.exporters.iter().map(|plan| Exporter::new(plan.clone(), START_MS)).collect();
        let states = States::open(folder, "simulated").unwrap();
        let mut world = World {
            clock: Ears { now_ms: Rc::clone(&now_ms), ..Ears::default() },
            now_ms,
            states,
            exporters,
            workers: Vec::new(),
            on_the_way: BTreeMap::new(),
            steps_as_it_hears_ms: 0,
            happened: Happened::default(),
        };
        world.start(schedule.workers);
        for step in &schedule.steps {
            world.step(step);
        }
        world.pass(ON_THE_WAY_MS);
        world.stop();
        world.happened
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Wait(seconds) => self.pass(i64::from(*seconds) * 1000),
            Step::Clock(ms) => {
                self.clock.off_ms.set(self.clock.off_ms.get() + self.possible(*ms));
                self.happened.heard.push(Heard::Clock(self.clock.off_ms.get()));
                self.deliver();
            }
            Step::ClockAsItHears(ms) => self.steps_as_it_hears_ms = *ms,
            Step::Send { exporter, parts, fate } => self.send(*exporter, parts, *fate),
            Step::Restart { exporter, port } => {
                self.settle();
                // The collector cannot distinguish an exporter that has just started, or whose uptime wraps, from a
                // restarted one.
                while !self.exporters[*exporter].is_settled(self.now_ms.get()) {
                    self.pass(10_000);
                }
                self.exporters[*exporter].restart(*port, self.now_ms.get());
                self.pass(1000);
            }
            Step::Collector { away_s, workers } => {
                self.settle();
                self.stop();
                self.pass(i64::from(*away_s) * 1000);
                self.start(*workers);
            }
        }
    }

    /// As much of a step of the host's clock as leaves it after 1970: records before it have no intervals of their own.
    fn possible(&self, ms: i64) -> i64 {
        ms.max(86_400_000 - self.now_ms.get() - self.clock.off_ms.get())
    }

    fn send(&mut self, number: usize, parts: &[Part], fate: Fate) {
        let changes = parts.iter().any(|part| matches!(part, Part::NewTemplate(_)));
        if changes {
            self.settle();
        }
        let now_ms = self.now_ms.get();
        let exporter = &mut self.exporters[number];
        let message = exporter.message(parts, now_ms);
        let at = self.happened.sent.len();
        self.happened.sent.push(Sent {
            exporter: number,
            session: session(&exporter.plan, exporter.port),
            start: exporter.start,
            layout: exporter.layout,
            sent_ms: now_ms,
            number: message.number,
            units: message.units,
            parts: parts.to_vec(),
            octets: message.octets,
        });
        let mut comes = |after: u32| self.on_the_way.entry(now_ms + i64::from(after)).or_default().push(at);
        match fate {
            Fate::Comes(after) => comes(after),
            Fate::Twice(after, again) => {
                comes(after);
                comes(again);
            }
            Fate::Lost => {}
        }
        self.deliver();
        if changes {
            self.pass(1000);
        }
    }

    /// Lets time pass until no message is in flight.
    fn settle(&mut self) {
        self.pass(1000);
        while !self.on_the_way.is_empty() {
            self.pass(1000);
        }
    }

    /// Lets time pass; workers look at the clock every second, and before each arrival.
    fn pass(&mut self, ms: i64) {
        let end = self.now_ms.get() + ms;
        while self.now_ms.get() < end {
            let second = (self.now_ms.get() / 1000 + 1) * 1000;
            let next = self.on_the_way.keys().next().copied().unwrap_or(i64::MAX);
            self.now_ms.set(end.min(second).min(next));
            self.deliver();
        }
    }

    /// Passes on the messages due now.
    fn deliver(&mut self) {
        let step_ms = self.possible(self.steps_as_it_hears_ms);
        let (happened, now_ms) = (&mut self.happened, self.now_ms.get());
        self.workers.iter_mut().for_each(|worker| worker.step(happened));
        for at in self.on_the_way.remove(&now_ms).unwrap_or_default() {
            let sent = &happened.sent[at];
            let Some(worker) = share(&sent.session, self.workers.len()) else { continue };
            if std::mem::take(&mut self.steps_as_it_hears_ms) != 0 {
                self.clock.step_ms.set(step_ms);
                happened.heard.push(Heard::Clock(self.clock.off_ms.get() + step_ms));
            }
            happened.heard.push(Heard::Message(at, now_ms));
            self.workers[worker].waiting.borrow_mut().push_back((sent.session, sent.octets.clone()));
            self.workers[worker].step(happened);
        }
    }

    fn start(&mut self, workers: u32) {
        self.workers = (0..workers).map(|number| Worker::start(number, workers, &self.clock, &self.states)).collect();
    }

    fn stop(&mut self) {
        for worker in self.workers.drain(..) {
            worker.finish(&mut self.happened);
        }
        self.happened.heard.push(Heard::Stopped);
    }
}

const ON_THE_WAY_MS: i64 = super::schedule::ON_THE_WAY_S as i64 * 1000;

fn session(plan: &Plan, port: u16) -> Session {
    let address = packet::address(Ipv4Addr::new(192, 0, 2, plan.address).into());
    // A forwarder sends all from one port.
    let port = if plan.speaks == Speaks::Sflow { 6343 } else { port };
    Session { address, port, local_port: PORT, stream: false }
}

/// The worker that a session is assigned to.
fn share(session: &Session, workers: usize) -> Option<usize> {
    let mixed = (u32::from(session.port) << 8 | u32::from(session.address[15])).wrapping_mul(0x9e37_79b1) >> 16;
    (mixed as usize).checked_rem(workers)
}
