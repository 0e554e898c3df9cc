//! The listening half of a collector's line: what comes is decoded and added up, and intervals are closed by the clock.

use super::decode::{
    Counts, DecodeLimits, Decoder, ExporterInfo, Heard, Losses, Protocol, Refusal, Session, Take, Unit, ZmqTopic,
};
use super::listen::Input;
use super::metrics::CollectMetrics;
use super::nprobe::Inbox;
use super::nprobe::kafka::Taken;
use super::outcome::CollectOutcome;
use super::publish::CollectClosing;
use super::record::Imported;
use super::states::States;
use super::table::{Clamped, Flows, Table, TableOptions};
use crate::filter::FilterSets;
use crate::host::ThreadLoad;
use crate::packet;
use crate::proto;
use crate::publish::metrics::PublishMetrics;
use crate::publish::{Identity, Published};
use crate::throttle::Throttle;
use anyhow::anyhow;
use crossbeam_channel::{Receiver, Sender};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a worker waits for datagrams before it looks at the clock.
const PATIENCE: Duration = Duration::from_millis(50);
/// How long after its end an interval stays open, as with packets.
const GRACE_MS: i64 = 200;
/// Intervals that time may jump by before the empty ones get no closing records.
const MOST_BEHIND: i64 = 60;
/// How far before the open interval records may reach, ms: as long as the ledger keeps intervals in detail.
const OLDEST_MS: i64 = 3_600_000;
/// How long it takes in what had come when it was asked to stop.
const DRAIN: Duration = Duration::from_secs(1);

/// What a worker is made of beside its ports and its sink.
#[derive(Clone)]
pub struct CollectOptions {
    pub identity: Identity,
    /// Records that may wait in an interval.
    pub max_entries: usize,
    pub filters: Arc<FilterSets>,
    pub states: States,
    pub metrics: CollectMetrics,
    pub published: PublishMetrics,
    /// Set when the worker is to end in order.
    pub stop: Arc<AtomicBool>,
}

/// On its way to the publisher.
pub enum Work {
    Flows(Vec<Flows>),
    Close(CollectClosing),
    /// All that came of nProbe's topics up to there was sent before.
    Taken(Taken),
}

/// Exporter counts already reported in closing records.
#[derive(Clone, Copy, Default)]
struct Reported {
    records: u64,
    lost: u64,
    causes: [u64; Refusal::ALL.len()],
}

/// Decodes what an input hears, adds it up, and closes intervals by the input's clock.
pub struct Listening<I> {
    input: I,
    inbox: Option<Inbox>,
    /// What of nProbes the metrics know.
    heard: Heard,
    options: CollectOptions,
    decoder: Decoder,
    table: Table,
    work: Sender<Work>,
    recycled: Receiver<Flows>,
    /// Records without a sampling rate since the last close.
    unsampled: HashMap<ExporterInfo, u64>,
    without_sampling_rate: u64,
    reported: HashMap<ExporterInfo, Reported>,
    reported_strange: [u64; Refusal::ALL.len()],
    clamped: Clamped,
    /// Intervals that time jumped over and no closing record has reported yet.
    skipped: u64,
    load: ThreadLoad,
    throttle: Throttle,
}

impl<I: Input> Listening<I> {
    pub fn new(
        input: I,
        inbox: Option<Inbox>,
        options: CollectOptions,
        work: Sender<Work>,
        recycled: Receiver<Flows>,
    ) -> Listening<I> {
        let mut decoder = Decoder::new(DecodeLimits::default());
        options.states.restore(options.identity.worker, &mut decoder);
        let interval_ms = i64::from(options.identity.interval_ms);
        let now_ms = input.now_ns() / 1_000_000;
        let keeps = TableOptions { interval_ms, max_entries: options.max_entries, oldest_ms: OLDEST_MS };
        let mut listening = Listening {
            input,
            inbox,
            heard: Heard::default(),
            table: Table::new(keeps, now_ms.div_euclid(interval_ms) * interval_ms),
            options,
            decoder,
            work,
            recycled,
            unsampled: HashMap::new(),
            without_sampling_rate: 0,
            reported: HashMap::new(),
            reported_strange: [0; Refusal::ALL.len()],
            clamped: Clamped::default(),
            skipped: 0,
            load: ThreadLoad::begin(),
            throttle: Throttle::default(),
        };
        // Closing records report this run alone.
        listening.exporters();
        listening
    }

    /// Listens until it is to stop.
    ///
    /// # Errors
    /// Where publishing has ended.
    pub fn run(mut self) -> anyhow::Result<CollectOutcome> {
        let mut asked = None;
        loop {
            let stopping = self.options.stop.load(Ordering::Relaxed);
            let patience = if stopping { Duration::ZERO } else { PATIENCE };
            let since = stopping.then(|| *asked.get_or_insert_with(Instant::now));
            let more = self.step(patience)?;
            // What waits in the sockets is taken, but exporters that never pause do not keep it from its end.
            let ended = !more && self.inbox.as_ref().is_none_or(Inbox::has_ended);
            if since.is_some_and(|since| ended || since.elapsed() > DRAIN) {
                return self.finish();
            }
        }
    }

    /// Takes in what has come, and closes the intervals that are over; true where more may have come.
    ///
    /// # Errors
    /// Where publishing has ended.
    pub fn step(&mut self, patience: Duration) -> anyhow::Result<bool> {
        let interval_ms = i64::from(self.options.identity.interval_ms);
        let more = self.hear(patience);
        if self.table.is_full() {
            self.hand_over()?;
        }
        let now_ms = self.input.now_ns() / 1_000_000;
        while now_ms >= self.table.open_ms() + interval_ms + GRACE_MS {
            let open = self.table.open_ms();
            self.close(false)?;
            let next = now_ms.div_euclid(interval_ms) * interval_ms;
            let behind = (next - open) / interval_ms;
            if behind > MOST_BEHIND {
                self.skipped = (behind - 1) as u64;
                self.table.open(next);
            } else {
                self.table.open(open + interval_ms);
            }
        }
        Ok(more)
    }

    /// Closes the open interval, and nothing follows.
    ///
    /// # Errors
    /// Where publishing has ended.
    pub fn finish(mut self) -> anyhow::Result<CollectOutcome> {
        self.decoder.end();
        self.close(true)?;
        if let Some(inbox) = self.inbox.take() {
            inbox.close();
        }
        let Heard { topics, left_out } = self.decoder.nprobes();
        let elements = self.decoder.left_out();
        let topics = ZmqTopic::ALL.into_iter().map(|topic| (topic.name(), topics[topic as usize]));
        Ok(CollectOutcome {
            nprobe_messages: topics.filter(|(_, count)| *count > 0).collect(),
            left_out: left_out.into_iter().collect(),
            elements,
            published: Published::default(),
            counts: self.counts(),
            clamped: self.table.clamped(),
            without_sampling_rate: self.without_sampling_rate,
            exporters: self.decoder.exporters().count(),
        })
    }

    /// Takes in what has come; true where more may be there.
    fn hear(&mut self, patience: Duration) -> bool {
        let Listening { input, inbox, decoder, table, unsampled, .. } = self;
        let mut adding = Adding { table, unsampled, last: None };
        let patience = if inbox.as_ref().is_some_and(Inbox::has_more) { Duration::ZERO } else { patience };
        let heard = input.poll(patience, &mut |from: Session, now_ns: i64, data: &[u8]| {
            decoder.datagram_to(from, now_ns, data, &mut adding);
        });
        let mut more = false;
        if let Some(inbox) = inbox {
            inbox.hear(decoder, &mut |info, record| adding.flow(info, record));
            more = inbox.has_more();
        }
        adding.end();
        more | heard.unwrap_or_else(|error| {
            if self.throttle.allow(&error.to_string()) {
                tracing::warn!("cannot listen: {error}; tried again");
            }
            std::thread::sleep(PATIENCE);
            false
        })
    }

    /// Sends what is there to the publisher.
    fn hand_over(&mut self) -> anyhow::Result<()> {
        while let Ok(flows) = self.recycled.try_recv() {
            self.table.recycle(flows);
        }
        let flows = self.table.take();
        if flows.is_empty() { Ok(()) } else { self.send(Work::Flows(flows)) }
    }

    fn send(&self, work: Work) -> anyhow::Result<()> {
        self.work.send(work).map_err(|_| anyhow!("publishing has ended"))
    }

    fn close(&mut self, last: bool) -> anyhow::Result<()> {
        self.decoder.expire(self.input.now_ns() / 1_000_000);
        self.hand_over()?;
        if let Some(inbox) = &mut self.inbox {
            let taken = inbox.taken();
            let heard = self.decoder.nprobes();
            self.options.metrics.nprobes(&heard, &std::mem::replace(&mut self.heard, heard.clone()));
            if !taken.is_empty() {
                self.send(Work::Taken(taken))?;
            }
        }
        let exporters = self.exporters();
        let clamped = self.table.clamped();
        let before = std::mem::replace(&mut self.clamped, clamped);
        let load = proto::Load {
            cpu_permille: self.load.permille(self.options.identity.interval_ms),
            ..proto::Load::default()
        };
        let clamped = clamped.future + clamped.old - before.future - before.old;
        let skipped = std::mem::take(&mut self.skipped);
        let closing = CollectClosing { start_ms: self.table.open_ms(), last, skipped, clamped, exporters, load };
        self.send(Work::Close(closing))?;
        if let Err(error) = self.options.states.save(self.options.identity.worker, &self.decoder)
            && self.throttle.allow("state")
        {
            tracing::warn!("{error:#}: after a restart exporters would have to send their templates again");
        }
        Ok(())
    }

    /// What came of all, and what did not even come to the decoder.
    fn counts(&mut self) -> Counts {
        let mut counts = self.decoder.counts();
        counts.causes[Refusal::SocketFull as usize] = self.input.dropped();
        counts
    }

    /// What came of each exporter since this was last asked.
    fn exporters(&mut self) -> Vec<proto::Exporter> {
        let mut all = Vec::new();
        let mut sum = [0; Refusal::ALL.len()];
        for known in self.decoder.exporters() {
            let (info, counts) = (known.info, known.counts);
            let reported = self.reported.entry(*info).or_default();
            let lost = losses(info, counts).lost;
            let since = proto::Exporter {
                addr: packet::shortest(info.speaker()).to_vec(),
                domain: info.domain,
                protocol: info.protocol.name().to_owned(),
                records: counts.records.saturating_sub(reported.records),
                // What came late after all was not lost: it is set off against what is lost next.
                lost: lost.saturating_sub(reported.lost),
                lost_unit: unit(info.protocol, known.unit).to_owned(),
                without_sampling_rate: self.unsampled.remove(info).unwrap_or_default(),
                refused: refused(&counts.causes, &reported.causes),
                sampling: known.sampling_state.name().to_owned(),
            };
            sum.iter_mut().zip(&counts.causes).for_each(|(sum, count)| *sum += count);
            self.without_sampling_rate += since.without_sampling_rate;
            *reported = Reported { records: counts.records, lost: lost.max(reported.lost), causes: counts.causes };
            if since.records + since.lost > 0 || !since.refused.is_empty() {
                all.push(since);
            }
        }
        // Of nobody in particular: what is in the sum of all and of no exporter.
        let mut strange = self.counts().causes;
        strange.iter_mut().zip(&sum).for_each(|(all, known)| *all = all.saturating_sub(*known));
        let of_nobody = refused(&strange, &self.reported_strange);
        self.reported_strange = strange;
        if !of_nobody.is_empty() {
            all.push(proto::Exporter { protocol: "unknown".to_owned(), refused: of_nobody, ..Default::default() });
        }
        self.unsampled.clear();
        all
    }
}

/// Adds records to the table, and counts those without a sampling rate by exporter.
struct Adding<'a> {
    table: &'a mut Table,
    unsampled: &'a mut HashMap<ExporterInfo, u64>,
    /// Whose came last, and how many: most come of one.
    last: Option<(ExporterInfo, u64)>,
}

impl Take for Adding<'_> {
    #[inline]
    fn flow(&mut self, info: &ExporterInfo, record: &Imported<'_>) {
        self.table.add(info.speaker(), record);
        if record.sampling.is_none() {
            match &mut self.last {
                Some((of, count)) if of == info => *count += 1,
                _ => {
                    self.end();
                    self.last = Some((*info, 1));
                }
            }
        }
    }
}

impl Adding<'_> {
    fn end(&mut self) {
        if let Some((of, count)) = self.last.take() {
            *self.unsampled.entry(of).or_default() += count;
        }
    }
}

/// What is lost of an exporter, in its own unit.
fn losses<'a>(info: &ExporterInfo, counts: &'a Counts) -> &'a Losses {
    if info.protocol == Protocol::Sflow { &counts.samples } else { &counts.losses }
}

/// What an exporter's sequence numbers count.
fn unit(protocol: Protocol, counts: Unit) -> &'static str {
    match (protocol, counts) {
        (Protocol::Sflow, _) => "samples",
        (Protocol::Nprobe, _) => "messages",
        (_, Unit::Messages) => "datagrams",
        (_, Unit::Flows | Unit::Records | Unit::FlowsSoFar) => "records",
    }
}

fn refused(now: &[u64], said: &[u64]) -> HashMap<String, u64> {
    let since =
        Refusal::ALL.iter().zip(now.iter().zip(said)).map(|(cause, (now, said))| (cause, now.saturating_sub(*said)));
    since.filter(|(_, count)| *count > 0).map(|(cause, count)| (cause.name().to_owned(), count)).collect()
}
