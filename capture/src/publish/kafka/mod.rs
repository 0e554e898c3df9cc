//! Messages to Kafka, kept until they are acknowledged.
//!
//! Workers encode their messages and put them into a queue whose octets are bounded; one thread passes them to
//! librdkafka, handles its answers and takes back messages that it could not deliver. The queue counts a message until
//! Kafka has acknowledged it. No message expires: a live capture sheds one only when the queue is full (a replay waits
//! instead), and the gap in the sequence numbers shows it.
//!
//! A live capture has a [`spool`](super::spool) on disk behind that queue. While Kafka is away the spool holds all
//! messages; while Kafka is slow, it holds those that arrived after the queue was half full. All messages stay in one
//! order: librdkafka's are older than the spool's, and new ones go behind the spool's.

mod client;
pub mod control;
pub mod credentials;
pub mod metrics;
mod options;
mod sending;
mod shared;

pub use client::{Reached, reach};
pub use options::KafkaOptions;
pub use shared::Refused;

use super::spool::{Spool, SpoolOptions};
use super::topic::{Topic, TopicMessage};
use super::{Encoded, Sink};
use crate::own_traffic::OwnTraffic;
use crate::proto;
use crate::signals::Asked;
use anyhow::bail;
use client::{Client as _, KafkaClient, Look};
use crossbeam_channel::Sender;
use metrics::KafkaMetrics;
use prost::Message as _;
use sending::Sending;
use shared::KafkaShared;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Octets reserved for an interval's last messages: at first, only batches are dropped.
const RESERVE: u64 = 1 << 20;

/// How long a replay waits for a broker before it ends.
const PATIENCE: Duration = Duration::from_secs(60);

/// One client of Kafka for all workers.
pub struct Kafka {
    shared: Arc<KafkaShared>,
    queue: Option<Sender<TopicMessage>>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

/// One worker's handle to the client.
pub struct KafkaSink {
    shared: Arc<KafkaShared>,
    queue: Sender<TopicMessage>,
}

impl Kafka {
    /// Starts the client and its thread. With `wait` it first waits for Kafka and requires the topics; otherwise it looks for
    /// both while messages queue.
    ///
    /// # Errors
    /// If a property is wrong, or (with `wait`) a topic is missing or no broker answers within a minute.
    pub fn start(options: KafkaOptions, metrics: KafkaMetrics, asked: &Asked) -> anyhow::Result<Kafka> {
        Kafka::start_within(PATIENCE, options, metrics, asked)
    }

    fn start_within(
        patience: Duration,
        options: KafkaOptions,
        metrics: KafkaMetrics,
        asked: &Asked,
    ) -> anyhow::Result<Kafka> {
        let began = Instant::now();
        let shared = Arc::new(KafkaShared::new(options, metrics, asked));
        let mut client = KafkaClient::new(&shared)?;
        let spool = shared.options.spool.clone().and_then(|options| open_spool(options, &shared));
        if shared.options.wait {
            while !shared.ready.load(Ordering::Acquire) {
                match client.look_for_topics() {
                    Look::Found => {}
                    Look::Missing(text) => bail!(text),
                    Look::Away(text) if began.elapsed() > patience => bail!(
                        "no Kafka answers at {} ({text}); nothing was sent. Is the stack up (`weir status`), and the address right?",
                        shared.options.brokers
                    ),
                    Look::Away(text) => shared.say_away(&text),
                }
                if asked.stop.load(Ordering::Relaxed) {
                    bail!("stopped while waiting for Kafka at {}", shared.options.brokers);
                }
            }
        }
        // `queued` bounds the octets; the channel needs no bound of its own.
        let (queue, receiver) = crossbeam_channel::unbounded();
        let thread = {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new()
                .name("kafka".to_owned())
                .spawn(move || Sending::new(client, shared, spool).run(&receiver))?
        };
        Ok(Kafka { shared, queue: Some(queue), thread: Some(thread) })
    }

    pub fn sink(&self) -> KafkaSink {
        KafkaSink { shared: Arc::clone(&self.shared), queue: self.queue.clone().expect("not finished") }
    }

    pub fn brokers(&self) -> OwnTraffic {
        self.shared.brokers.clone()
    }

    /// Waits until Kafka has acknowledged all messages, at most `patience` or until a signal says to give up. Sinks
    /// must be dropped before.
    ///
    /// # Errors
    /// If messages remain, with their number; [`Refused`] if Kafka will never accept them.
    pub fn finish(mut self, patience: Option<Duration>) -> anyhow::Result<()> {
        drop(self.queue.take());
        let deadline = patience.map(|patience| Instant::now() + patience);
        let Some(thread) = self.thread.take() else { return Ok(()) };
        while !thread.is_finished() {
            if deadline.is_some_and(|deadline| Instant::now() > deadline) {
                self.shared.give_up.store(true, Ordering::Relaxed);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        thread.join().map_err(|_| anyhow::anyhow!("the thread that sends to Kafka failed"))?
    }
}

fn open_spool(options: SpoolOptions, shared: &KafkaShared) -> Option<Spool> {
    let spool = Spool::open(options)
        .inspect_err(|error| {
            shared.metrics.spool_error();
            tracing::error!("{error:#}: messages that Kafka does not accept wait only in memory");
        })
        .ok()?;
    if !spool.is_empty() {
        let (messages, octets) = (spool.unread(), spool.octets());
        tracing::info!("{messages} messages ({octets} octets) of an earlier run are in the spool, and are sent first");
    }
    shared.shed("spool_broken", spool.broken());
    shared.spooled(spool.octets());
    Some(spool)
}

impl KafkaSink {
    /// Publishes an alert of the agent. Without a topic for it, it is shed.
    ///
    /// # Errors
    /// If the sink cannot continue.
    pub fn alert(&mut self, alert: &proto::Alert) -> anyhow::Result<()> {
        let shared = &self.shared;
        if !shared.takes_alerts.load(Ordering::Acquire) {
            shared.metrics.shed("no_topic", 1, alert.encoded_len() as u64);
            if shared.throttle.allow("no_topic") {
                let (topic, probe) = (Topic::Alerts.of(&shared.options.probe), &shared.options.probe);
                tracing::warn!("an alert goes nowhere: there is no topic {topic} (`weir probe add {probe}`)");
            }
            return Ok(());
        }
        let bound = shared.options.queue_octets + RESERVE;
        self.put(Topic::Alerts, 0, alert.encode_to_vec(), bound)
    }

    /// Puts a message into the queue, which then holds at most `bound` octets.
    fn put(&mut self, topic: Topic, partition: u32, payload: Vec<u8>, bound: u64) -> anyhow::Result<()> {
        let shared = &self.shared;
        let octets = payload.len() as u64;
        while shared.queued.load(Ordering::Acquire) + octets > bound {
            if !shared.options.wait || shared.give_up.load(Ordering::Relaxed) {
                let fails = shared.spool_fails.load(Ordering::Relaxed);
                let cause = if fails { "spool_unwritable" } else { "queue_full" };
                shared.metrics.shed(cause, 1, octets);
                if shared.throttle.allow("shed") {
                    tracing::error!(
                        "Kafka does not accept messages and the queue of {bound} octets is full ({cause}): messages are \
                         shed (weir_probe_messages_shed_total counts them, gaps in their sequence show which)"
                    );
                }
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        shared.queued.fetch_add(octets, Ordering::AcqRel);
        shared.unsaved.fetch_add(octets, Ordering::AcqRel);
        shared.outstanding.fetch_add(1, Ordering::AcqRel);
        self.queue
            .send(TopicMessage { topic, partition: partition as i32, payload })
            .map_err(|_| anyhow::anyhow!("the thread that sends to Kafka has ended"))
    }
}

impl Sink for KafkaSink {
    fn flows(&mut self, message: Encoded<'_>) -> anyhow::Result<()> {
        let bound = self.shared.options.queue_octets;
        let bound = if message.is_batch { bound } else { bound + RESERVE };
        self.put(Topic::Flows, message.worker, message.octets.to_vec(), bound)
    }

    fn counters(&mut self, message: &proto::CounterMessage) -> anyhow::Result<()> {
        let bound = self.shared.options.queue_octets + RESERVE;
        self.put(Topic::Counters, message.worker, message.encode_to_vec(), bound)
    }

    fn queued_octets(&self) -> u64 {
        self.shared.queued.load(Ordering::Relaxed)
    }

    fn unsaved_octets(&self) -> u64 {
        self.shared.unsaved.load(Ordering::Acquire)
    }

    fn spooled_octets(&self) -> u64 {
        self.shared.spooled.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod simulator;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;
    use std::collections::BTreeMap;

    #[test]
    fn a_replay_does_not_wait_for_ever_for_a_broker() {
        let options = KafkaOptions {
            brokers: "127.0.0.1:1".to_owned(),
            credentials: None,
            properties: BTreeMap::new(),
            probe: "lab".to_owned(),
            workers: 1,
            queue_octets: 1 << 20,
            wait: true,
            spool: None,
        };
        let metrics = KafkaMetrics::new(&Metrics::default());
        let error = Kafka::start_within(Duration::from_millis(1), options, metrics, &Asked::default()).err().unwrap();
        let said = error.to_string();
        assert!(said.starts_with("no Kafka answers at 127.0.0.1:1 (") && said.contains("nothing was sent"), "{said}");
    }
}
