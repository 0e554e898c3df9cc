//! Exports of records, in addition to Kafka or instead of it: each export has a form, a bounded queue and a thread of
//! its own.
//!
//! Workers put every message into the queue of each export; its thread decodes it and sends it in its form. A slow or
//! absent collector delays nothing else: a live capture drops messages that find its queue full, and counts them; a
//! replay waits.

pub mod collector;
pub mod config;
pub mod element_list;
pub mod elements;
pub mod ipfix;
pub mod metrics;
pub mod nprobe_json;
pub mod nprobe_kafka;
pub mod nprobe_zmq;
pub mod target;

use crate::metrics::Metrics;
use crate::own_traffic::OwnTraffic;
use crate::proto;
use crate::publish::{Encoded, Sink};
use crate::signals::Asked;
use anyhow::{Context as _, bail};
use config::{Built, ExportConfig};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use metrics::ExportMetrics;
use prost::Message as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use target::{Account, ExportTarget};

/// Octets of messages that may wait for one export, encoded as for Kafka: some 200,000 records.
const QUEUE_OCTETS: u64 = 16 << 20;
/// How long to wait for a message before flushing finished ones.
const QUIET: Duration = Duration::from_millis(100);
/// Delay before retrying an unreachable collector: doubles from the first to the second.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

struct QueuedMessage {
    octets: Arc<[u8]>,
    records: u64,
}

/// State shared by workers and an export's thread.
struct ExportShared {
    account: Account,
    queued: AtomicU64,
    /// A full queue blocks workers instead of dropping messages.
    wait: bool,
    give_up: Arc<AtomicBool>,
}

#[derive(Default)]
pub struct Exports {
    running: Vec<Running>,
}

struct Running {
    shared: Arc<ExportShared>,
    queue: Sender<QueuedMessage>,
    thread: JoinHandle<()>,
}

impl Exports {
    /// Starts the exports. With `wait`, as for replays, every receiver must be reachable at the start.
    ///
    /// # Errors
    /// If an export is wrong, or (with `wait`) cannot be reached.
    pub fn start(
        configs: &[ExportConfig],
        wait: bool,
        metrics: &Metrics,
        own: &OwnTraffic,
        asked: &Asked,
    ) -> anyhow::Result<Exports> {
        let metrics = ExportMetrics::new(metrics);
        let mut running = Vec::with_capacity(configs.len());
        for (number, config) in configs.iter().enumerate() {
            let name = config.name();
            let Built { mut target, left_out } = config.build().with_context(|| format!("export {name:?}"))?;
            if !left_out.is_empty() {
                tracing::warn!("export {name:?}: not measured, and left out: %{}", left_out.join(" %"));
            }
            if wait {
                target.connect(true).with_context(|| format!("export {name:?}"))?;
            }
            for (endpoint, protocol) in target.endpoints() {
                own.add(&endpoint[..], protocol);
            }
            let account = Account::new(name, metrics.clone());
            let shared = Arc::new(ExportShared {
                account,
                queued: AtomicU64::new(0),
                wait,
                give_up: Arc::clone(&asked.give_up),
            });
            let (queue, receiver) = crossbeam_channel::unbounded();
            let thread = {
                let shared = Arc::clone(&shared);
                let spawn = std::thread::Builder::new().name(format!("export-{number}"));
                spawn.spawn(move || export(target.as_mut(), &receiver, &shared))?
            };
            running.push(Running { shared, queue, thread });
        }
        Ok(Exports { running })
    }

    /// A sink for one worker that has these exports in addition to `main`.
    pub fn sink(&self, main: Box<dyn Sink>) -> Box<dyn Sink> {
        if self.running.is_empty() {
            return main;
        }
        let queues = self.running.iter().map(|one| (Arc::clone(&one.shared), one.queue.clone())).collect();
        Box::new(ExportSink { main, queues })
    }

    /// Waits until all queued messages are sent, at most `patience` or until a signal says to give up. Sinks must be
    /// dropped before.
    ///
    /// # Errors
    /// If records were dropped, with their number.
    pub fn finish(self, patience: Option<Duration>) -> anyhow::Result<()> {
        let deadline = patience.map(|patience| Instant::now() + patience);
        let mut lost = Vec::new();
        for Running { shared, queue, thread } in self.running {
            drop(queue);
            while !thread.is_finished() {
                if deadline.is_some_and(|deadline| Instant::now() > deadline) {
                    shared.give_up.store(true, Ordering::Relaxed);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            let name = shared.account.name();
            if thread.join().is_err() {
                lost.push(format!("export {name:?} failed; the message above says where"));
            }
            match shared.account.lost() {
                0 => {}
                shed => lost.push(format!("export {name:?}: {shed} records were not sent")),
            }
        }
        if !lost.is_empty() {
            bail!(lost.join("; "));
        }
        Ok(())
    }
}

/// Sends messages until the last sink of the queue is dropped.
fn export(target: &mut dyn ExportTarget, queue: &Receiver<QueuedMessage>, shared: &ExportShared) {
    let ExportShared { account, queued, give_up, .. } = shared;
    let mut retry = RETRY.0;
    let mut next_try = Instant::now();
    loop {
        if !target.is_connected() {
            if give_up.load(Ordering::Relaxed) {
                return account.shed("not_connected", queue.iter().map(|waiting| waiting.records).sum());
            }
            if Instant::now() < next_try {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            }
            if let Err(error) = target.connect(false) {
                account.failed(&error.context("trying again"));
                next_try = Instant::now() + retry;
                retry = (retry * 2).min(RETRY.1);
                continue;
            }
            retry = RETRY.0;
        }
        match queue.recv_timeout(QUIET) {
            Ok(QueuedMessage { octets, records }) => {
                match proto::FlowMessage::decode(&octets[..]) {
                    Ok(message) => target.send(&message, account),
                    // Cannot fail: the agent encoded it.
                    Err(_) => account.shed("undecodable", records),
                }
                let left = queued.fetch_sub(octets.len() as u64, Ordering::AcqRel) - octets.len() as u64;
                account.queue(left);
            }
            Err(RecvTimeoutError::Timeout) => target.flush(account),
            Err(RecvTimeoutError::Disconnected) => return target.finish(account, give_up),
        }
    }
}

/// One worker's sink: sends to its main sink and to every export.
struct ExportSink {
    main: Box<dyn Sink>,
    queues: Vec<(Arc<ExportShared>, Sender<QueuedMessage>)>,
}

impl Sink for ExportSink {
    fn flows(&mut self, message: Encoded<'_>) -> anyhow::Result<()> {
        let (octets, records) = (Arc::<[u8]>::from(message.octets), message.records as u64);
        for (shared, queue) in &self.queues {
            let length = octets.len() as u64;
            while message.is_batch && shared.wait && shared.queued.load(Ordering::Acquire) > QUEUE_OCTETS {
                if shared.give_up.load(Ordering::Relaxed) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            if message.is_batch && shared.queued.load(Ordering::Acquire) > QUEUE_OCTETS {
                shared.account.shed("queue_full", records);
                continue;
            }
            shared.queued.fetch_add(length, Ordering::AcqRel);
            let waiting = QueuedMessage { octets: Arc::clone(&octets), records };
            queue.send(waiting).map_err(|_| anyhow::anyhow!("the thread of an export has ended"))?;
        }
        self.main.flows(message)
    }

    fn counters(&mut self, message: &proto::CounterMessage) -> anyhow::Result<()> {
        self.main.counters(message)
    }

    fn queued_octets(&self) -> u64 {
        self.main.queued_octets()
    }

    fn unsaved_octets(&self) -> u64 {
        self.main.unsaved_octets()
    }

    fn spooled_octets(&self) -> u64 {
        self.main.spooled_octets()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::flow_message::Body;
    use crate::publish::NoSink;
    use config::ExportOptions;
    use std::net::TcpListener;

    const RECORDS: usize = 500;

    /// Sends more than a queue holds; returns the number of records.
    fn flood(exports: &Exports) -> u64 {
        let flow = proto::Flow { fwd_packets: 1, server_name: "x".repeat(200), ..proto::Flow::default() };
        let body = Body::Batch(proto::FlowBatch { flows: vec![flow; RECORDS], ..Default::default() });
        let octets = proto::FlowMessage { body: Some(body), ..proto::FlowMessage::default() }.encode_to_vec();
        let mut sink = exports.sink(Box::new(NoSink));
        let batches = 3 * QUEUE_OCTETS / octets.len() as u64;
        for _ in 0..batches {
            let message = Encoded { worker: 0, is_batch: true, records: RECORDS, octets: &octets };
            sink.flows(message).unwrap();
        }
        batches * RECORDS as u64
    }

    fn started(address: &str, metrics: &Metrics) -> Exports {
        let options = ExportOptions { template: "%IN_PKTS %TLS_SERVER_NAME", ..ExportOptions::default() };
        let config = ExportConfig::parse(&format!("ipfix={address}"), options).unwrap();
        Exports::start(&[config], false, metrics, &OwnTraffic::default(), &Asked::default()).unwrap()
    }

    /// The sum of a metric over its labels.
    fn counted(metrics: &Metrics, name: &str) -> u64 {
        let text = metrics.text();
        let lines = text.lines().filter(|line| line.starts_with(&format!("weir_probe_{name}_total")));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    #[test]
    fn a_collector_that_is_away_holds_up_nobody_and_what_is_shed_is_counted() {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let metrics = Metrics::new("test");
        let exports = started(&format!("tcp://{closed}"), &metrics);
        let records = flood(&exports);
        assert!(counted(&metrics, "export_records_shed") > 0, "past the bound, at once");
        let error = exports.finish(Some(Duration::ZERO)).unwrap_err().to_string();
        assert_eq!(counted(&metrics, "export_records_shed"), records, "{}", metrics.text());
        assert!(error.contains(&format!("{records} records were not sent")), "{error}");
    }

    #[test]
    fn a_collector_that_does_not_read_holds_up_nobody() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let metrics = Metrics::new("test");
        let exports = started(&format!("tcp://{}", listener.local_addr().unwrap()), &metrics);
        let records = flood(&exports);
        drop(listener);
        exports.finish(Some(Duration::ZERO)).unwrap_err();
        let both = counted(&metrics, "export_records_shed") + counted(&metrics, "export_records");
        assert_eq!(both, records, "{}", metrics.text());
    }
}
