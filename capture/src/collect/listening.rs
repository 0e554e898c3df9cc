//! The listening half of a collector's line: decodes messages, adds up their records, and closes intervals by the
//! clock.

use super::cause::Refusal;
use super::decode::{Decoder, Heard, ZmqTopic};
use super::element::event::Take;
use super::exporter::{Counts, ExporterInfo, Session};
use super::limits::DecodeLimits;
use super::listen::Input;
use super::metrics::CollectMetrics;
use super::notice::{Notice, Notices};
use super::nprobe::Inbox;
use super::nprobe::kafka::Taken;
use super::outcome::CollectOutcome;
use super::publish::CollectClosing;
use super::record::{GivenName, Imported, InterfaceCounters, NatEvent};
use super::report::ExporterReports;
use super::states::States;
use super::table::{Clamped, Flows, Table, TableOptions};
use crate::filter::FilterSets;
use crate::host::ThreadLoad;
use crate::proto;
use crate::publish::metrics::PublishMetrics;
use crate::publish::{Identity, Published};
use crate::throttle::Throttle;
use anyhow::anyhow;
use crossbeam_channel::{Receiver, Sender};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a worker waits for datagrams before it looks at the clock.
const PATIENCE: Duration = Duration::from_millis(50);
/// How long after its end an interval stays open, as with packets.
const GRACE_MS: i64 = 200;
/// Number of empty intervals that get closing records; after a larger jump in time, the empty ones get none.
const MOST_BEHIND: i64 = 60;
/// How far before the open interval records may reach, ms: as long as the ledger keeps intervals in detail.
const OLDEST_MS: i64 = 3_600_000;
/// How long a stopping worker still reads datagrams that had arrived.
const DRAIN: Duration = Duration::from_secs(1);

/// The parts of a worker other than its ports and its sink.
#[derive(Clone)]
pub struct CollectOptions {
    pub identity: Identity,
    /// Records that may wait in an interval.
    pub max_entries: usize,
    pub filters: Arc<FilterSets>,
    pub states: States,
    pub metrics: CollectMetrics,
    pub published: PublishMetrics,
    pub stop: Arc<AtomicBool>,
}

/// Work for the publisher.
pub enum Work {
    Flows(Vec<Flows>),
    /// Notices of the interval with this start, ms.
    Notices(i64, Vec<Notice>),
    Close(CollectClosing),
    /// Everything read from nProbe's topics up to these offsets has been sent before.
    Taken(Taken),
}

/// Decodes an input's messages, adds up their records, and closes intervals by the input's clock.
pub struct Listening<I> {
    input: I,
    inbox: Option<Inbox>,
    /// Counts of nProbes already added to the metrics.
    heard: Heard,
    options: CollectOptions,
    decoder: Decoder,
    table: Table,
    notices: Notices,
    work: Sender<Work>,
    recycled: Receiver<Flows>,
    reports: ExporterReports,
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
            notices: Notices::default(),
            options,
            decoder,
            work,
            recycled,
            reports: ExporterReports::default(),
            clamped: Clamped::default(),
            skipped: 0,
            load: ThreadLoad::begin(),
            throttle: Throttle::default(),
        };
        // Closing records report this run alone.
        listening.exporters();
        listening
    }

    /// Listens until `stop` is set.
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

    /// Reads the waiting messages, and closes the intervals that are over; true if more may be waiting.
    ///
    /// # Errors
    /// Where publishing has ended.
    pub fn step(&mut self, patience: Duration) -> anyhow::Result<bool> {
        let interval_ms = i64::from(self.options.identity.interval_ms);
        let more = self.hear(patience);
        if self.table.is_full() || self.notices.is_full() {
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

    /// Closes the open interval as the last one.
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
            without_sampling_rate: self.reports.without_sampling_rate(),
            exporters: self.decoder.exporters().count(),
        })
    }

    /// Reads the waiting messages; true if more may be waiting.
    fn hear(&mut self, patience: Duration) -> bool {
        let Listening { input, inbox, decoder, table, notices, reports, .. } = self;
        let mut adding = Adding { table, notices, reports, last: None, now_ms: 0 };
        let patience = if inbox.as_ref().is_some_and(Inbox::has_more) { Duration::ZERO } else { patience };
        let heard = input.poll(patience, &mut |from: Session, now_ns: i64, data: &[u8]| {
            adding.now_ms = now_ns / 1_000_000;
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

    fn hand_over(&mut self) -> anyhow::Result<()> {
        while let Ok(flows) = self.recycled.try_recv() {
            self.table.recycle(flows);
        }
        let (flows, notices) = (self.table.take(), self.notices.take());
        if !flows.is_empty() {
            self.send(Work::Flows(flows))?;
        }
        if !notices.is_empty() {
            self.send(Work::Notices(self.table.open_ms(), notices))?;
        }
        Ok(())
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
        if let Err(error) = self.options.states.save(self.options.identity.worker, &self.decoder) {
            if self.throttle.allow("state") {
                tracing::warn!(
                    "{error:#}: after a restart, records will wait until exporters send their templates again"
                );
            }
        }
        Ok(())
    }

    /// Counts of each exporter since the previous call.
    fn exporters(&mut self) -> Vec<proto::Exporter> {
        let all = self.counts();
        self.reports.since(self.decoder.exporters(), &all)
    }

    /// Counts over all exporters, and of datagrams that never reached the decoder.
    fn counts(&mut self) -> Counts {
        let mut counts = self.decoder.counts();
        counts.causes[Refusal::SocketFull as usize] = self.input.dropped();
        counts.causes[Refusal::InterfacesForgotten as usize] += self.notices.forgotten();
        counts
    }
}

/// Adds records to the table, keeps notices, and counts records without a sampling rate by exporter.
struct Adding<'a> {
    table: &'a mut Table,
    notices: &'a mut Notices,
    reports: &'a mut ExporterReports,
    /// The exporter of the latest records, and their number: most runs of records are one exporter's.
    last: Option<(ExporterInfo, u64)>,
    /// Arrival time of the records being taken, ms.
    now_ms: i64,
}

impl Take for Adding<'_> {
    fn event(&mut self, info: &ExporterInfo, event: &NatEvent<'_>) {
        self.notices.event(info, event);
    }

    fn name(&mut self, info: &ExporterInfo, name: &GivenName<'_>) -> bool {
        self.notices.name(info, name, self.now_ms)
    }

    fn counters(&mut self, info: &ExporterInfo, counters: &InterfaceCounters) -> bool {
        self.notices.counters(info, counters, self.now_ms)
    }

    #[inline]
    fn flow(&mut self, info: &ExporterInfo, record: &Imported<'_>) {
        self.table.add((info.speaker(), info.sub_agent()), record);
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
            self.reports.unsampled(of, count);
        }
    }
}

#[cfg(test)]
mod tests;
