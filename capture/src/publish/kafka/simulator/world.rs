//! A simulated probe around the real sink, sending thread and spool, and the expected outcome in plain sums: a message is
//! in Kafka in its order, or counted as shed, or was in memory alone when the agent was killed.

use super::super::metrics::KafkaMetrics;
use super::super::options::KafkaOptions;
use super::super::sending::Sending;
use super::super::shared::KafkaShared;
use super::super::{KafkaSink, open_spool};
use super::brokers::{Brokers, Cluster, SimulatedClient};
use super::schedule::{Schedule, Step};
use crate::metrics::Metrics;
use crate::proto;
use crate::publish::disk::faults::{self, Disk, Killed};
use crate::publish::spool::SpoolOptions;
use crate::publish::topic::{Topic, TopicMessage};
use crate::publish::{Encoded, Sink as _};
use crate::signals::Asked;
use crate::simulator;
use crossbeam_channel::{Receiver, unbounded};
use prost::Message as _;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often the sending thread may run until all is sent, or has to stop.
const PATIENCE: u32 = 3000;

/// A message: whether it has flows, its worker, its epoch and its number in that.
type Id = (bool, i32, u64, u64);

struct Agent {
    sending: Sending<SimulatedClient>,
    sinks: Vec<KafkaSink>,
    queue: Receiver<TopicMessage>,
    shared: Arc<KafkaShared>,
    metrics: Metrics,
}

struct World<'a> {
    schedule: &'a Schedule,
    cluster: Rc<Cluster>,
    folder: tempfile::TempDir,
    agent: Option<Agent>,
    epoch: u64,
    /// The next numbers of this epoch, by kind and worker.
    numbers: BTreeMap<(bool, u32), u64>,
    published: BTreeSet<Id>,
    shed: u64,
    /// Messages that were only in memory when the agent ended.
    lost: u64,
    /// Whether the agent was killed while a small spool may have been making room: its count of that died with it.
    uncounted: bool,
    /// Whether a message may come again: what is shed may be in Kafka, too.
    repeats: bool,
}

/// Runs a schedule, and compares the outcome with the expected one.
pub fn run(schedule: &Schedule) -> Result<(), String> {
    faults::set(Disk::Works);
    let cluster =
        Cluster { brokers: Cell::new(Brokers::There), now: Cell::new(Instant::now()), log: RefCell::new(Vec::new()) };
    let mut world = World {
        schedule,
        cluster: Rc::new(cluster),
        folder: tempfile::tempdir_in(simulator::memory()).unwrap(),
        agent: None,
        epoch: 0,
        numbers: BTreeMap::new(),
        published: BTreeSet::new(),
        shed: 0,
        lost: 0,
        uncounted: false,
        repeats: false,
    };
    world.start();
    let steps = schedule.steps.iter().try_for_each(|step| world.step(step));
    let ended = steps.and_then(|()| world.end());
    faults::set(Disk::Works);
    ended.and_then(|()| world.judge())
}

impl World<'_> {
    fn start(&mut self) {
        self.epoch += 1;
        self.numbers.clear();
        let metrics = Metrics::default();
        let options = KafkaOptions {
            brokers: "127.0.0.1:9092".to_owned(),
            credentials: None,
            properties: BTreeMap::new(),
            probe: "simulated".to_owned(),
            workers: self.schedule.workers,
            queue_octets: self.schedule.queue_octets,
            wait: false,
            spool: self
                .schedule
                .spool
                .map(|max_octets| SpoolOptions { folder: self.folder.path().to_owned(), max_octets }),
        };
        let shared = Arc::new(KafkaShared::new(options, KafkaMetrics::new(&metrics), &Asked::default()));
        let spool = shared.options.spool.clone().and_then(|options| open_spool(options, &shared));
        let client = SimulatedClient::new(&self.cluster, &shared);
        let (sender, queue) = unbounded();
        let sinks = (0..self.schedule.workers)
            .map(|_| KafkaSink { shared: Arc::clone(&shared), queue: sender.clone() })
            .collect();
        let sending = Sending::new(client, Arc::clone(&shared), spool);
        self.agent = Some(Agent { sending, sinks, queue, shared, metrics });
    }

    /// The agent is gone, and its memory with it.
    fn die(&mut self) {
        let Some(agent) = self.agent.take() else { return };
        let text = agent.metrics.text();
        let shed = text.lines().filter(|line| line.starts_with("weir_probe_messages_shed_total{"));
        self.shed += shed.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum::<u64>();
        let outstanding = agent.shared.outstanding.load(Ordering::Acquire);
        if agent.shared.unsaved.load(Ordering::Acquire) > 0 {
            self.lost += outstanding;
        }
        self.repeats |= outstanding > 0;
        drop(agent);
        faults::set(Disk::Works);
    }

    /// Does something that may kill the agent; then another one starts.
    fn alive<T>(&mut self, act: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<Option<T>, String> {
        match catch_unwind(AssertUnwindSafe(|| act(self))) {
            Ok(done) => done.map(Some),
            Err(panic) if panic.is::<Killed>() => {
                self.repeats = true;
                self.uncounted |= self.schedule.spool.is_some_and(|octets| octets <= 200_000);
                self.die();
                self.start();
                Ok(None)
            }
            Err(panic) => resume_unwind(panic),
        }
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Publish { worker, batches, octets } => self.publish(*worker, *batches, *octets),
            Step::Send { times, ms } => {
                self.alive(|world| {
                    for _ in 0..*times {
                        world.send(false)?;
                        world.pass(u64::from(*ms));
                    }
                    Ok(())
                })?;
            }
            Step::Brokers(brokers) => {
                self.repeats |= !matches!(brokers, Brokers::There | Brokers::Slow(_));
                self.cluster.brokers.set(*brokers);
            }
            Step::Disk(disk) => faults::set(*disk),
            Step::Kill => {
                self.repeats = true;
                self.die();
                self.start();
            }
            Step::Restart(at_once) => self.restart(*at_once)?,
        }
        Ok(())
    }

    fn pass(&self, ms: u64) {
        self.cluster.now.set(self.cluster.now.get() + Duration::from_millis(ms));
    }

    /// Runs the sending thread once. Returns whether it has ended.
    fn send(&mut self, finished: bool) -> Result<bool, String> {
        let Some(agent) = &mut self.agent else { return Ok(true) };
        agent.sending.take(agent.queue.try_iter().take(1001));
        agent.sending.step(finished && agent.queue.is_empty()).map_err(|error| format!("ended: {error}"))
    }

    fn number(&mut self, flows: bool, worker: u32) -> u64 {
        let next = self.numbers.entry((flows, worker)).or_default();
        let number = *next;
        *next += 1;
        self.published.insert((flows, worker as i32, self.epoch, number));
        number
    }

    fn publish(&mut self, worker: u32, batches: u32, octets: u32) {
        for batch in 0..=batches {
            let number = self.number(true, worker);
            let message = proto::FlowMessage {
                worker,
                epoch: self.epoch,
                sequence: number,
                probe: "x".repeat(octets as usize),
                ..proto::FlowMessage::default()
            };
            let octets = message.encode_to_vec();
            let is_batch = batch < batches;
            let Some(agent) = &mut self.agent else { return };
            agent.sinks[worker as usize].flows(Encoded { worker, is_batch, records: 1, octets: &octets }).unwrap();
        }
        let sequence = self.number(false, worker);
        let counters =
            proto::CounterMessage { worker, epoch: self.epoch, sequence, ..proto::CounterMessage::default() };
        let Some(agent) = &mut self.agent else { return };
        agent.sinks[worker as usize].counters(&counters).unwrap();
    }

    fn restart(&mut self, at_once: bool) -> Result<(), String> {
        // Segments of the spool are deleted whole: what Kafka acknowledged of one that is left comes again.
        self.repeats = true;
        let stopped = self.alive(|world| {
            let give_up = |world: &World<'_>| {
                world.agent.iter().for_each(|agent| agent.shared.give_up.store(true, Ordering::Relaxed));
            };
            if at_once {
                give_up(world);
            }
            for time in 0..PATIENCE {
                // The messages that it then reports as outstanding stay behind, and count as lost.
                if world.send(true).unwrap_or(true) {
                    return Ok(());
                }
                world.pass(5);
                if time == PATIENCE / 2 {
                    give_up(world);
                }
            }
            Err("blocked: the agent does not stop".to_owned())
        })?;
        if stopped.is_some() {
            self.die();
            self.start();
        }
        Ok(())
    }

    /// All is well again: the rest is sent.
    fn end(&mut self) -> Result<(), String> {
        self.cluster.brokers.set(Brokers::There);
        faults::set(Disk::Works);
        // The last one reads what was left by one that could not open the spool.
        for _ in 0..2 {
            let done = |world: &World<'_>| {
                world.agent.as_ref().is_some_and(|agent| {
                    agent.shared.outstanding.load(Ordering::Acquire) == 0 && agent.sending.has_sent_all()
                })
            };
            for time in 0.. {
                self.send(false)?;
                self.pass(5);
                if done(self) {
                    break;
                }
                if time > PATIENCE {
                    return Err("blocked: messages are not sent".to_owned());
                }
            }
            self.die();
            self.start();
        }
        self.die();
        Ok(())
    }

    fn judge(&self) -> Result<(), String> {
        let mut came: BTreeSet<Id> = BTreeSet::new();
        let mut newest: BTreeMap<(bool, i32, u64), u64> = BTreeMap::new();
        for message in self.cluster.log.borrow().iter() {
            let flows = message.topic == Topic::Flows;
            let (epoch, number) = if flows {
                let message = proto::FlowMessage::decode(&message.payload[..]).map_err(|error| error.to_string())?;
                (message.epoch, message.sequence)
            } else {
                let message = proto::CounterMessage::decode(&message.payload[..]).map_err(|error| error.to_string())?;
                (message.epoch, message.sequence)
            };
            let id = (flows, message.partition, epoch, number);
            if !self.published.contains(&id) {
                return Err(format!("invented: {id:?}"));
            }
            let again = !came.insert(id);
            let last = newest.entry((flows, message.partition, epoch)).or_default();
            if !again && number < *last {
                return Err(format!("overtaken: {id:?} after {last}"));
            }
            *last = number.max(*last);
            if again && !self.repeats {
                return Err(format!("repeated: {id:?}"));
            }
        }
        let missing = (self.published.len() - came.len()) as u64;
        if missing > self.shed + self.lost && !self.uncounted {
            let first = self.published.difference(&came).take(5).collect::<Vec<_>>();
            return Err(format!(
                "lost: {missing} messages are missing, {} were shed and {} in memory at an end; {first:?}",
                self.shed, self.lost
            ));
        }
        if !self.repeats && missing < self.shed {
            return Err(format!("miscounted: {} shed, {missing} missing", self.shed));
        }
        Ok(())
    }
}
