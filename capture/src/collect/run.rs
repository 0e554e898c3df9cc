//! `weir-probe collect`: workers that listen to exporters.

use super::decode::{Cause, Counts, Decoder, ExporterInfo, Heard, Limits, Losses, Protocol, Topic};
use super::listen::Ports;
use super::nprobe::kafka::{Committer, Taken};
use super::nprobe::{Inbox, Sources};
use super::publish::{Closing, Publisher};
use super::record::Imported;
use super::table::{Clamped, Flows, Table, TableOptions};
use crate::cli::{CollectArgs, SummaryForm, Target};
use crate::config::Config;
use crate::filter::FilterSets;
use crate::host;
use crate::host::wall_clock_ns;
use crate::metrics::Metrics;
use crate::packet::{self, Address};
use crate::proto;
use crate::publish::destination::Destination;
use crate::publish::{Identity, Published, Sink};
use crate::signals::Asked;
use crate::state::new_epoch;
use crate::throttle::Throttle;
use crate::{Exit, Failure};
use anyhow::{Context as _, anyhow};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a worker waits for datagrams before it looks at the clock.
const PATIENCE: Duration = Duration::from_millis(50);
/// How long after its end an interval stays open, as with packets.
const GRACE_MS: i64 = 200;
/// Intervals that time may jump by before the empty ones get no closing records.
const MOST_BEHIND: i64 = 60;
/// How far before the open interval records may reach, ms: as long as the ledger keeps intervals in detail.
const OLDEST_MS: i64 = 3_600_000;
/// Batches of flows that may wait for their publisher before the worker waits too.
const WAITING: usize = 4;
/// How long it takes in what had come when it was asked to stop.
const DRAIN: Duration = Duration::from_secs(1);
/// How often it is looked whether Kafka may be told how far nProbe's topics were read.
const COMMIT_EVERY: Duration = Duration::from_millis(200);
/// How often the workers are looked after.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Collects until it is asked to stop.
///
/// # Errors
/// [`Exit::CannotStart`] with one clear line; [`Exit::Failed`] where a worker failed or Kafka did not take everything.
pub fn collect(args: &CollectArgs) -> Result<Exit, Failure> {
    let mut config = Config::read_or_default(args.config.as_deref()).map_err(Failure::start)?;
    args.instead.put_into(&mut config).map_err(Failure::start)?;
    if let Some(state_dir) = &args.state_dir {
        config.state_dir.clone_from(state_dir);
    }
    let udp = [&args.netflow[..], &args.ipfix, &args.sflow].concat();
    if udp.is_empty() && args.nprobe_kafka.is_empty() && args.nprobe_zmq.is_empty() {
        let inputs = "--netflow, --ipfix, --sflow, --nprobe-kafka or --nprobe-zmq";
        return Err(Failure::start(anyhow!("nothing to listen on: give {inputs}")));
    }
    let workers = args.workers;
    let sources = sources(args).map_err(Failure::start)?;
    let ports = (0..workers).map(|_| Ports::open(&udp, &args.ipfix)).collect::<anyhow::Result<Vec<_>>>();
    let ports = ports.map_err(Failure::start)?;
    let states = States::open(&config.state_dir, &config.probe).map_err(Failure::start)?;
    let filters = Arc::new(FilterSets::compile(&config.filters).map_err(Failure::start)?);
    let asked = Asked::listen()?;
    let metrics = Metrics::new(&config.probe);
    if let Some(listen) = config.metrics.listen {
        let bound = metrics.serve(listen).map_err(Failure::start)?;
        tracing::info!("metrics on http://{bound}/metrics");
    }
    let target = Destination::open(args.to, workers, true, &config, &metrics, &asked).map_err(Failure::start)?;

    let started = Instant::now();
    let epoch = new_epoch(0);
    let addresses = ports[0].addresses()?;
    let listed: Vec<String> = (addresses.iter().map(ToString::to_string))
        .chain(args.nprobe_kafka.iter().map(ToString::to_string))
        .chain(args.nprobe_zmq.iter().map(ToString::to_string))
        .collect();
    let running: Vec<Worker> = (0..)
        .zip(ports.into_iter().zip(sources))
        .map(|(number, (mut ports, sources))| {
            let inbox = (!sources.kafka.is_empty() || !sources.zmq.is_empty())
                .then(|| Inbox::open(&sources, &config.probe, &asked.stop))
                .transpose()?;
            ports.wake_by(inbox.as_ref().map(Inbox::wakes));
            let options = Options {
                identity: Identity {
                    probe: config.probe.clone(),
                    worker: number,
                    workers,
                    epoch,
                    interval_ms: config.interval.ms(),
                    source: format!("collect:{}", listed.join(",")),
                    ..Identity::default()
                },
                max_entries: (config.limits.max_records_per_interval / workers as usize).max(1),
                filters: Arc::clone(&filters),
                states: states.clone(),
                metrics: metrics.clone(),
                stop: Arc::clone(&asked.stop),
            };
            Worker::start(ports, inbox, target.sink(), options)
        })
        .collect::<anyhow::Result<_>>()
        .map_err(Failure::start)?;
    tracing::info!(epoch, workers, interval = %config.interval, probe = config.probe, "listening on {}", listed.join(", "));
    // A worker that fails takes the others with it: half of the exporters must not look like all.
    while !running.iter().any(Worker::is_finished) {
        std::thread::sleep(LOOK_EVERY);
    }
    asked.stop.store(true, Ordering::SeqCst);
    let outcomes: Vec<anyhow::Result<(Outcome, Uncommitted)>> = running.into_iter().map(Worker::join).collect();
    let flushed = target.finish();
    let mut sum = Outcome::default();
    for outcome in outcomes {
        let (outcome, mut uncommitted) = outcome?;
        sum.add(&outcome);
        // What did not arrive is read again by the next collector.
        if flushed.is_ok() {
            uncommitted.commit(true);
        }
    }
    match args.summary {
        SummaryForm::Json if args.to == Target::Jsonl => eprintln!("{}", sum.json(epoch, started.elapsed())),
        SummaryForm::Json => println!("{}", sum.json(epoch, started.elapsed())),
        SummaryForm::Text => eprint!("{}", sum.text(started.elapsed())),
    }
    flushed?;
    Ok(Exit::Done)
}

/// What each worker reads of nProbes: every topic, which Kafka shares out by partition, and some of the publishers, each of
/// which sends everything to whoever subscribes.
fn sources(args: &CollectArgs) -> anyhow::Result<Vec<Sources>> {
    let mut kafka = args.nprobe_kafka.clone();
    for property in &args.nprobe_kafka_conf {
        let (key, value) =
            property.split_once('=').with_context(|| format!("--nprobe-kafka-conf {property:?} is no key=value"))?;
        for from in &mut kafka {
            from.properties.insert(key.to_owned(), value.to_owned());
        }
    }
    let workers = args.workers as usize;
    let mut all = vec![Sources { kafka, zmq: Vec::new() }; workers];
    for (number, endpoint) in args.nprobe_zmq.iter().enumerate() {
        all[number % workers].zmq.push(endpoint.clone());
    }
    Ok(all)
}

/// Where templates, sampling rates and sequence numbers outlast a run: a file for each worker.
#[derive(Clone, Debug)]
struct States {
    folder: PathBuf,
    probe: String,
}

impl States {
    fn open(folder: &Path, probe: &str) -> anyhow::Result<States> {
        fs::create_dir_all(folder).with_context(|| {
            format!("cannot make {} (state_dir or --state-dir), where templates are kept", folder.display())
        })?;
        Ok(States { folder: folder.to_owned(), probe: probe.to_owned() })
    }

    fn path(&self, worker: u32) -> PathBuf {
        self.folder.join(format!("{}-exporters-{worker}.json", self.probe))
    }

    /// What any worker kept: exporters may now be another's. Its own comes last, and holds.
    fn restore(&self, worker: u32, decoder: &mut Decoder) {
        let others = (0..256).filter(|&other| other != worker);
        for path in others.chain([worker]).map(|number| self.path(number)) {
            let Ok(saved) = fs::read(&path) else { continue };
            if let Err(error) = decoder.restore(&saved) {
                tracing::warn!(
                    "{} is not understood ({error:#}): exporters have to send their templates again",
                    path.display()
                );
            }
        }
    }

    fn save(&self, worker: u32, decoder: &Decoder) -> anyhow::Result<()> {
        let path = self.path(worker);
        let beside = path.with_extension("new");
        fs::write(&beside, decoder.save())
            .and_then(|()| fs::rename(&beside, &path))
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

/// What a worker is made of beside its ports and its sink.
struct Options {
    identity: Identity,
    max_entries: usize,
    filters: Arc<FilterSets>,
    states: States,
    metrics: Metrics,
    stop: Arc<AtomicBool>,
}

/// On its way to the publisher.
enum Work {
    Flows(Vec<Flows>),
    Close(Closing),
    /// All that came of nProbe's topics up to there was sent before.
    Taken(Taken),
}

/// How far topics were read that Kafka was not told of yet.
#[derive(Default)]
struct Uncommitted {
    committer: Committer,
    taken: Taken,
}

impl Uncommitted {
    /// Tells it, and waits for the answer where `wait` says so.
    fn commit(&mut self, wait: bool) {
        if self.taken.is_empty() {
            return;
        }
        if let Err(error) = self.committer.commit(std::mem::take(&mut self.taken), wait) {
            tracing::warn!("{error:#}: after a restart it is read again");
        }
    }
}

/// What a worker came to.
#[derive(Default)]
struct Outcome {
    published: Published,
    counts: Counts,
    clamped: Clamped,
    without_sampling_rate: u64,
    exporters: usize,
    /// By topic of ZeroMQ, and by name of the element.
    nprobe_messages: BTreeMap<&'static str, u64>,
    left_out: BTreeMap<String, u64>,
}

/// A running worker: a thread that listens, and one that publishes.
struct Worker {
    listening: JoinHandle<anyhow::Result<Outcome>>,
    publishing: JoinHandle<anyhow::Result<(Published, Uncommitted)>>,
}

impl Worker {
    fn start(ports: Ports, inbox: Option<Inbox>, sink: Box<dyn Sink>, options: Options) -> anyhow::Result<Worker> {
        let number = options.identity.worker;
        let (work, waiting) = crossbeam_channel::bounded(WAITING);
        let (give_back, recycled) = crossbeam_channel::unbounded();
        let publishing = {
            let publisher = Publisher::new(options.identity.clone(), Arc::clone(&options.filters));
            let metrics = options.metrics.clone();
            let committer = inbox.as_ref().map(Inbox::committer).unwrap_or_default();
            let uncommitted = Uncommitted { committer, taken: Taken::default() };
            let spawn = std::thread::Builder::new().name(format!("publish-{number}"));
            spawn.spawn(move || publish(publisher, sink, &metrics, uncommitted, &waiting, &give_back))?
        };
        let spawn = std::thread::Builder::new().name(format!("collect-{number}"));
        let listening = spawn.spawn(move || Listening::new(ports, inbox, options, work, recycled).run())?;
        Ok(Worker { listening, publishing })
    }

    fn is_finished(&self) -> bool {
        self.listening.is_finished()
    }

    fn join(self) -> anyhow::Result<(Outcome, Uncommitted)> {
        let failed = |_| anyhow!("a worker failed; the message above says where");
        let outcome = self.listening.join().map_err(failed)?;
        // The publisher knows better why there was nobody to take what came.
        let (published, uncommitted) = self.publishing.join().map_err(failed)??;
        Ok((Outcome { published, ..outcome? }, uncommitted))
    }
}

fn publish(
    mut publisher: Publisher,
    mut sink: Box<dyn Sink>,
    metrics: &Metrics,
    mut uncommitted: Uncommitted,
    waiting: &Receiver<Work>,
    give_back: &Sender<Flows>,
) -> anyhow::Result<(Published, Uncommitted)> {
    let worker = publisher.worker();
    loop {
        // What waits in memory alone would be lost with it.
        if sink.queued_octets() == 0 {
            uncommitted.commit(false);
        }
        let work = match waiting.recv_timeout(COMMIT_EVERY) {
            Ok(work) => work,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        match work {
            Work::Taken(taken) => uncommitted.taken.extend(taken),
            Work::Flows(all) => {
                for flows in all {
                    publisher.flows(&flows, sink.as_mut())?;
                    // Where the worker has ended there is nobody to give it to.
                    let _ = give_back.send(flows);
                }
            }
            Work::Close(mut closing) => {
                closing.load.rss_octets = host::resident_octets();
                closing.load.publish_queue_octets = sink.queued_octets();
                closing.load.spool_octets = sink.spooled_octets();
                metrics.collected(worker, &closing.exporters, closing.clamped);
                let before = *publisher.published();
                publisher.close(closing, sink.as_mut())?;
                metrics.published(worker, &publisher.published().since(&before));
            }
        }
    }
    Ok((*publisher.published(), uncommitted))
}

/// What of an exporter closing records have said.
#[derive(Clone, Copy, Default)]
struct Said {
    records: u64,
    lost: u64,
    causes: [u64; Cause::ALL.len()],
}

/// The listening half.
struct Listening {
    ports: Ports,
    inbox: Option<Inbox>,
    /// What of nProbes the metrics know.
    heard: Heard,
    options: Options,
    decoder: Decoder,
    table: Table,
    work: Sender<Work>,
    recycled: Receiver<Flows>,
    /// Records without a sampling rate since the last close.
    unsampled: HashMap<ExporterInfo, u64>,
    without_sampling_rate: u64,
    said: HashMap<ExporterInfo, Said>,
    said_strange: [u64; Cause::ALL.len()],
    clamped: Clamped,
    /// Intervals that time jumped over and no closing record tells of yet.
    skipped: u64,
    cpu_ns: u64,
    throttle: Throttle,
}

impl Listening {
    fn new(
        ports: Ports,
        inbox: Option<Inbox>,
        options: Options,
        work: Sender<Work>,
        recycled: Receiver<Flows>,
    ) -> Listening {
        let mut decoder = Decoder::new(Limits::default());
        options.states.restore(options.identity.worker, &mut decoder);
        let interval_ms = i64::from(options.identity.interval_ms);
        let now_ms = wall_clock_ns() / 1_000_000;
        let keeps = TableOptions { interval_ms, max_entries: options.max_entries, oldest_ms: OLDEST_MS };
        let mut listening = Listening {
            ports,
            inbox,
            heard: Heard::default(),
            table: Table::new(keeps, now_ms.div_euclid(interval_ms) * interval_ms),
            options,
            decoder,
            work,
            recycled,
            unsampled: HashMap::new(),
            without_sampling_rate: 0,
            said: HashMap::new(),
            said_strange: [0; Cause::ALL.len()],
            clamped: Clamped::default(),
            skipped: 0,
            cpu_ns: host::thread_cpu_ns(),
            throttle: Throttle::default(),
        };
        // Closing records tell of this run alone.
        listening.exporters();
        listening
    }

    fn run(mut self) -> anyhow::Result<Outcome> {
        let interval_ms = i64::from(self.options.identity.interval_ms);
        let mut asked = None;
        loop {
            let stopping = self.options.stop.load(Ordering::Relaxed);
            let patience = if stopping { Duration::ZERO } else { PATIENCE };
            let since = stopping.then(|| *asked.get_or_insert_with(Instant::now));
            let more = self.hear(patience);
            if self.table.is_full() {
                self.hand_over()?;
            }
            let now_ms = wall_clock_ns() / 1_000_000;
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
            // What waits in the sockets is taken, but exporters that never pause do not keep it from its end.
            let ended = !more && self.inbox.as_ref().is_none_or(Inbox::has_ended);
            if since.is_some_and(|since| ended || since.elapsed() > DRAIN) {
                break;
            }
        }
        self.close(true)?;
        if let Some(inbox) = self.inbox.take() {
            inbox.close();
        }
        let Heard { topics, left_out } = self.decoder.nprobes();
        let topics = Topic::ALL.into_iter().map(|topic| (topic.name(), topics[topic as usize]));
        Ok(Outcome {
            nprobe_messages: topics.filter(|(_, count)| *count > 0).collect(),
            left_out: left_out.into_iter().collect(),
            published: Published::default(),
            counts: self.counts(),
            clamped: self.table.clamped(),
            without_sampling_rate: self.without_sampling_rate,
            exporters: self.decoder.exporters().count(),
        })
    }

    /// Takes in what has come; true where more may be there.
    fn hear(&mut self, patience: Duration) -> bool {
        let Listening { ports, inbox, decoder, table, unsampled, .. } = self;
        let mut adding = Adding { table, unsampled, last: None };
        let patience = if inbox.as_ref().is_some_and(Inbox::has_more) { Duration::ZERO } else { patience };
        let heard = ports.poll(patience, &mut |from: Address, data: &[u8]| {
            decoder.datagram(from, wall_clock_ns(), data, &mut |info, record| adding.add(info, record));
        });
        let mut more = false;
        if let Some(inbox) = inbox {
            inbox.hear(decoder, &mut |info, record| adding.add(info, record));
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
        let cpu_ns = host::thread_cpu_ns();
        let used_ns = cpu_ns.saturating_sub(std::mem::replace(&mut self.cpu_ns, cpu_ns));
        let load = proto::Load {
            cpu_permille: (used_ns / (u64::from(self.options.identity.interval_ms) * 1000)) as u32,
            ..proto::Load::default()
        };
        let clamped = clamped.future + clamped.old - before.future - before.old;
        let skipped = std::mem::take(&mut self.skipped);
        let closing = Closing { start_ms: self.table.open_ms(), last, skipped, clamped, exporters, load };
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
        counts.causes[Cause::SocketFull as usize] = self.ports.dropped();
        counts
    }

    /// What came of each exporter since this was last asked.
    fn exporters(&mut self) -> Vec<proto::Exporter> {
        let mut all = Vec::new();
        let mut sum = [0; Cause::ALL.len()];
        for known in self.decoder.exporters() {
            let (info, counts) = (known.info, known.counts);
            let said = self.said.entry(*info).or_default();
            let lost = losses(info, counts).lost;
            let since = proto::Exporter {
                addr: packet::shortest(&info.address).to_vec(),
                domain: info.domain,
                protocol: info.protocol.name().to_owned(),
                records: counts.records.saturating_sub(said.records),
                // What came late after all was not lost: it is set off against what is lost next.
                lost: lost.saturating_sub(said.lost),
                lost_unit: unit(info.protocol).to_owned(),
                without_sampling_rate: self.unsampled.remove(info).unwrap_or_default(),
                refused: refused(&counts.causes, &said.causes),
            };
            sum.iter_mut().zip(&counts.causes).for_each(|(sum, count)| *sum += count);
            self.without_sampling_rate += since.without_sampling_rate;
            *said = Said { records: counts.records, lost: lost.max(said.lost), causes: counts.causes };
            if since.records + since.lost > 0 || !since.refused.is_empty() {
                all.push(since);
            }
        }
        // Of nobody in particular: what is in the sum of all and of no exporter.
        let mut strange = self.counts().causes;
        strange.iter_mut().zip(&sum).for_each(|(all, known)| *all = all.saturating_sub(*known));
        let of_nobody = refused(&strange, &self.said_strange);
        self.said_strange = strange;
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

impl Adding<'_> {
    #[inline]
    fn add(&mut self, info: &ExporterInfo, record: &Imported<'_>) {
        self.table.add(&info.address, record);
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
fn unit(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::NetflowV5 | Protocol::Ipfix => "records",
        Protocol::NetflowV9 => "datagrams",
        Protocol::Sflow => "samples",
        Protocol::Nprobe => "messages",
    }
}

fn refused(now: &[u64], said: &[u64]) -> HashMap<String, u64> {
    let since =
        Cause::ALL.iter().zip(now.iter().zip(said)).map(|(cause, (now, said))| (cause, now.saturating_sub(*said)));
    since.filter(|(_, count)| *count > 0).map(|(cause, count)| (cause.name().to_owned(), count)).collect()
}

impl Outcome {
    fn add(&mut self, other: &Outcome) {
        self.published += &other.published;
        self.counts.add(&other.counts);
        self.clamped.future += other.clamped.future;
        self.clamped.old += other.clamped.old;
        self.without_sampling_rate += other.without_sampling_rate;
        self.exporters += other.exporters;
        other
            .nprobe_messages
            .iter()
            .for_each(|(topic, count)| *self.nprobe_messages.entry(topic).or_default() += count);
        other.left_out.iter().for_each(|(name, count)| *self.left_out.entry(name.clone()).or_default() += count);
    }

    fn causes(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let counted = Cause::ALL.into_iter().map(|cause| (cause.name(), self.counts.of(cause)));
        counted.filter(|(_, count)| *count > 0)
    }

    fn json(&self, epoch: u64, took: Duration) -> Value {
        let causes: serde_json::Map<String, Value> =
            self.causes().map(|(name, count)| (name.to_owned(), json!(count))).collect();
        json!({
            "exporters": self.exporters,
            "datagrams": self.counts.datagrams,
            "octets_received": self.counts.octets,
            "records_received": self.counts.records,
            "without_sampling_rate": self.without_sampling_rate,
            "nprobe": {"messages": self.nprobe_messages, "elements_left_out": self.left_out},
            "dropped_by_exporters":
                {"packets": self.counts.exporter_drops, "records": self.counts.exporter_records_dropped},
            "lost": {"records_or_datagrams": self.counts.losses.lost, "samples": self.counts.samples.lost},
            "refused": causes,
            "packets": self.published.flow.packets,
            "octets": self.published.flow.octets,
            "records": self.published.flow_records,
            "batches": self.published.batches,
            "closing_records": self.published.closings,
            "times_moved": {"future": self.clamped.future, "old": self.clamped.old},
            "epoch": epoch,
            "seconds": took.as_secs_f64(),
        })
    }

    fn text(&self, took: Duration) -> String {
        let mut text = format!(
            "{} records of {} exporters in {} datagrams, in {:.1} s\n  published: {} records, {} packets, {} octets, {} closing records\n",
            self.counts.records,
            self.exporters,
            self.counts.datagrams,
            took.as_secs_f64(),
            self.published.flow_records,
            self.published.flow.packets,
            self.published.flow.octets,
            self.published.closings,
        );
        let lost = self.counts.losses.lost + self.counts.samples.lost;
        if lost > 0 {
            text += &format!("  lost before they came, by sequence numbers: {lost}\n");
        }
        let (packets, records) = (self.counts.exporter_drops, self.counts.exporter_records_dropped);
        if packets + records > 0 {
            text += &format!("  dropped by exporters, as they say: {packets} packets, {records} records\n");
        }
        if self.without_sampling_rate > 0 {
            text +=
                &format!("  without a sampling rate, counted as they came: {} records\n", self.without_sampling_rate);
        }
        for (name, count) in self.causes() {
            text += &format!("  {name}: {count}\n");
        }
        if !self.nprobe_messages.is_empty() {
            let messages: Vec<String> =
                self.nprobe_messages.iter().map(|(topic, count)| format!("{count} {topic}")).collect();
            text += &format!("  nProbe's messages: {}\n", messages.join(", "));
        }
        if !self.left_out.is_empty() {
            let names: Vec<String> = self.left_out.iter().map(|(name, count)| format!("{name} {count}")).collect();
            text += &format!("  values without a place in a record, by element: {}\n", names.join(", "));
        }
        text
    }
}
