//! The listening half of a collector's line: decodes messages, adds up their records, and closes intervals by the
//! clock.

mod hand_over;

use super::cause::Refusal;
use super::decode::{Decoder, Heard, ZmqTopic};
use super::element::event::Take;
use super::exporter::Counts;
use super::exporter::origin::{ExporterInfo, Session};
use super::limits::DecodeLimits;
use super::listen::Input;
use super::metrics::CollectMetrics;
use super::notice::{Notice, Notices};
use super::nprobe::Inbox;
use super::nprobe::kafka::Taken;
use super::outcome::CollectOutcome;
use super::publish::{CollectClosing, Ends};
use super::record::{GivenName, Imported, InterfaceCounters, NatEvent};
use super::report::ExporterReports;
use super::states::{Saver, States};
use super::table::{Clamped, Flows, Table, TableOptions};
use crate::filter::FilterSets;
use crate::host::ThreadLoad;
use crate::line::state::RunState;
use crate::proto;
use crate::publish::metrics::PublishMetrics;
use crate::publish::{Identity, Published};
use crate::throttle::Throttle;
use crossbeam_channel::{Receiver, Sender};
use hand_over::HandOver;
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
/// A clock that deviates by more from the steady one was set, ms. A datagram that arrives later than that after the
/// latest look at the clock, or before it, waits for another look.
const CLOCK_SET_MS: i64 = 20;
/// How long a stopping worker still reads datagrams that had arrived.
const DRAIN: Duration = Duration::from_secs(1);

/// The parts of a worker other than its ports and its sink.
#[derive(Clone)]
pub struct CollectOptions {
    pub identity: Identity,
    pub filters: Arc<FilterSets>,
    /// Records that may wait in an interval.
    pub max_entries: usize,
    pub states: States,
    /// The state that it shares with the other workers.
    pub run: RunState,
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
    /// All records read from nProbe's topics up to these offsets were sent to the publisher before this.
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
    hand_over: HandOver,
    reports: ExporterReports,
    clamped: Clamped,
    /// Intervals that time jumped over and no closing record has reported yet.
    skipped: u64,
    /// How far the host's clock is ahead of the steady one, ms.
    ahead_ms: i64,
    /// Datagrams to be decoded after a look at the clock, with their session and arrival time, ns.
    held: Vec<(Session, i64, Vec<u8>)>,
    load: ThreadLoad,
    throttle: Throttle,
    saver: Option<Saver>,
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
        let Identity { worker, workers, .. } = options.identity;
        let saver = options.states.saver((worker, workers));
        let saver = saver.inspect_err(|error| tracing::warn!("cannot save templates: {error}")).ok();
        let interval_ms = i64::from(options.identity.interval_ms);
        let now_ms = input.now_ns() / 1_000_000;
        let keeps = TableOptions { interval_ms, max_entries: options.max_entries, oldest_ms: OLDEST_MS };
        let early = options.metrics.handed_over_early(options.identity.worker);
        let mut listening = Listening {
            input,
            inbox,
            heard: Heard::default(),
            table: Table::new(keeps, now_ms.div_euclid(interval_ms) * interval_ms),
            notices: Notices::default(),
            options,
            decoder,
            hand_over: HandOver::new(work, recycled, early),
            reports: ExporterReports::default(),
            clamped: Clamped::default(),
            skipped: 0,
            ahead_ms: 0,
            held: Vec::new(),
            load: ThreadLoad::begin(),
            throttle: Throttle::default(),
            saver,
        };
        listening.input.prefer(listening.decoder.established());
        listening.ahead_ms = listening.clocks().1;
        // Closing records report this run alone.
        listening.exporters();
        listening
    }

    /// Listens until `stop` is set.
    ///
    /// # Errors
    /// If publishing has ended.
    pub fn run(mut self) -> anyhow::Result<CollectOutcome> {
        let mut asked = None;
        loop {
            let stopping = self.options.stop.load(Ordering::Relaxed);
            let patience = if stopping { Duration::ZERO } else { PATIENCE };
            let since = stopping.then(|| *asked.get_or_insert_with(Instant::now));
            let more = self.step(patience)?;
            // Datagrams that wait in the sockets are still read, but exporters that never pause must not delay the end.
            let ended = !more && self.inbox.as_ref().is_none_or(Inbox::has_ended);
            if since.is_some_and(|since| ended || since.elapsed() > DRAIN) {
                return self.finish();
            }
        }
    }

    /// Reads the waiting messages, and closes the intervals that are over; true if more may be waiting.
    ///
    /// # Errors
    /// If publishing has ended.
    pub fn step(&mut self, patience: Duration) -> anyhow::Result<bool> {
        let interval_ms = i64::from(self.options.identity.interval_ms);
        let now_ms = self.follow_clock()?;
        let more = self.hear(patience, now_ms)?;
        let now_ms = self.follow_clock()?;
        while now_ms >= self.table.open_ms() + interval_ms + GRACE_MS {
            let open = self.table.open_ms();
            self.close(Ends::Interval)?;
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

    /// The host's clock, and how far it is ahead of the steady one, ms.
    fn clocks(&self) -> (i64, i64) {
        let now_ms = self.input.now_ns() / 1_000_000;
        (now_ms, now_ms - self.input.steady_ns() / 1_000_000)
    }

    /// Returns the host's clock, ms. Where it was set, moves remembered times with it; where it was set back before the
    /// open interval, closes that, and begins a new epoch, in which times may repeat.
    fn follow_clock(&mut self) -> anyhow::Result<i64> {
        let (now_ms, ahead_ms) = self.clocks();
        let by_ms = ahead_ms - self.ahead_ms;
        if by_ms.abs() > CLOCK_SET_MS {
            self.ahead_ms = ahead_ms;
            self.decoder.clock_set(by_ms);
            self.notices.clock_set(by_ms);
        }
        if now_ms < self.table.open_ms() {
            self.close(Ends::Epoch)?;
            let interval_ms = i64::from(self.options.identity.interval_ms);
            self.table.open(now_ms.div_euclid(interval_ms) * interval_ms);
        }
        Ok(now_ms)
    }

    /// Closes the open interval as the last one.
    ///
    /// # Errors
    /// If publishing has ended.
    pub fn finish(mut self) -> anyhow::Result<CollectOutcome> {
        self.follow_clock()?;
        self.hear_held()?;
        self.decoder.end();
        self.close(Ends::Run)?;
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

    /// Reads the datagrams that were held back for a look at the clock.
    fn hear_held(&mut self) -> anyhow::Result<()> {
        let held = std::mem::take(&mut self.held);
        let Listening { decoder, table, notices, hand_over, reports, .. } = self;
        let mut adding = Adding { table, notices, hand_over, reports, last: None, now_ms: 0, handed_over: None };
        for (from, now_ns, data) in held {
            adding.now_ms = now_ns / 1_000_000;
            decoder.datagram_to(from, now_ns, &data, &mut adding);
        }
        adding.end();
        adding.handed_over.unwrap_or(Ok(()))
    }

    /// Reads the waiting messages, until something is full or the clock, which was last looked at at `now_ms`, may have been
    /// set; true if more may be waiting.
    fn hear(&mut self, patience: Duration, now_ms: i64) -> anyhow::Result<bool> {
        self.hear_held()?;
        let Listening { input, inbox, decoder, table, notices, hand_over, reports, held, .. } = self;
        let mut adding = Adding { table, notices, hand_over, reports, last: None, now_ms, handed_over: None };
        let patience = if inbox.as_ref().is_some_and(Inbox::has_more) { Duration::ZERO } else { patience };
        let heard = input.poll(patience, &mut |from: Session, now_ns: i64, data: &[u8]| {
            let now_ms = now_ns / 1_000_000;
            if !held.is_empty() || now_ms.abs_diff(adding.now_ms) > CLOCK_SET_MS as u64 {
                held.push((from, now_ns, data.to_vec()));
                return false;
            }
            adding.now_ms = now_ms;
            decoder.datagram_to(from, now_ns, data, &mut adding);
            adding.handed_over.is_none()
        });
        let mut more = false;
        if let Some(inbox) = inbox {
            inbox.hear(decoder, &mut |info, record| adding.flow(info, record));
            more = inbox.has_more();
        }
        adding.end();
        adding.handed_over.transpose()?;
        more |= !held.is_empty();
        Ok(more
            | heard.unwrap_or_else(|error| {
                if self.throttle.allow(&error.to_string()) {
                    tracing::warn!("cannot listen: {error}; trying again");
                }
                std::thread::sleep(PATIENCE);
                false
            }))
    }

    fn close(&mut self, ends: Ends) -> anyhow::Result<()> {
        self.decoder.expire(self.input.now_ns() / 1_000_000);
        self.hand_over.flows(&mut self.table)?;
        self.hand_over.notices(self.table.open_ms(), &mut self.notices)?;
        if let Some(inbox) = &mut self.inbox {
            let taken = inbox.taken();
            let heard = self.decoder.nprobes();
            self.options.metrics.nprobes(&heard, &std::mem::replace(&mut self.heard, heard.clone()));
            if !taken.is_empty() {
                self.hand_over.send(Work::Taken(taken))?;
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
        let closing = CollectClosing { start_ms: self.table.open_ms(), ends, skipped, clamped, exporters, load };
        self.hand_over.send(Work::Close(closing))?;
        self.input.prefer(self.decoder.established());
        if let Some(saver) = &self.saver {
            saver.save(self.decoder.saved());
        }
        Ok(())
    }

    /// Counts of each exporter since the previous call.
    fn exporters(&mut self) -> Vec<proto::Exporter> {
        let all = self.counts();
        self.reports.since(self.decoder.exporters(), &all, self.decoder.lost())
    }

    /// Counts over all exporters, and of datagrams that never reached the decoder.
    fn counts(&mut self) -> Counts {
        let mut counts = self.decoder.counts();
        counts.causes.iter_mut().zip(self.input.refused()).for_each(|(sum, refused)| *sum += refused);
        counts.causes[Refusal::InterfacesForgotten as usize] += self.notices.forgotten();
        counts
    }
}

/// Adds records to the table, keeps notices, hands either over when it is full, and counts records without a sampling
/// rate by exporter.
struct Adding<'a> {
    table: &'a mut Table,
    notices: &'a mut Notices,
    hand_over: &'a mut HandOver,
    reports: &'a mut ExporterReports,
    /// The exporter of the latest records, and their number: most runs of records are one exporter's.
    last: Option<(ExporterInfo, u64)>,
    /// Arrival time of the records being taken, ms.
    now_ms: i64,
    /// Set if the table or the notices were full and were handed over, with the first error.
    handed_over: Option<anyhow::Result<()>>,
}

impl Take for Adding<'_> {
    fn event(&mut self, info: &ExporterInfo, event: &NatEvent<'_>) {
        self.notices.event(info, event);
        self.noticed();
    }

    fn name(&mut self, info: &ExporterInfo, name: &GivenName<'_>) -> bool {
        let has_room = self.notices.name(info, name, self.now_ms);
        self.noticed();
        has_room
    }

    fn counters(&mut self, info: &ExporterInfo, counters: &InterfaceCounters) -> bool {
        let has_room = self.notices.counters(info, counters, self.now_ms);
        self.noticed();
        has_room
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
        if self.table.is_full() {
            let handed_over = self.hand_over.full(self.table);
            self.remember(handed_over);
        }
    }
}

impl Adding<'_> {
    /// Hands the notices over if they are full. The flows stay: an interval's flows are whole only together.
    fn noticed(&mut self) {
        if self.notices.is_full() {
            let handed_over = self.hand_over.notices(self.table.open_ms(), self.notices);
            self.remember(handed_over);
        }
    }

    fn remember(&mut self, handed_over: anyhow::Result<()>) {
        if !matches!(self.handed_over, Some(Err(_))) {
            self.handed_over = Some(handed_over);
        }
    }

    fn end(&mut self) {
        if let Some((of, count)) = self.last.take() {
            self.reports.unsampled(of, count);
        }
    }
}

#[cfg(test)]
mod tests;
