//! `weir-probe read`: workers on capture files.

use super::options::{Instead, SummaryForm};
use super::summary::Summary;
use crate::config::Config;
use crate::export::config::{ExportConfig, ExportOptions};
use crate::host::wall_clock_ns;
use crate::line::capture::{self, CaptureOptions, CaptureWorker, Outcome};
use crate::line::destination::{Destination, Target};
use crate::line::metrics::CaptureMetrics;
use crate::line::reload::Reload;
use crate::line::state::RunState;
use crate::metrics::Metrics;
use crate::publish::Identity;
use crate::publish::kafka::Refused;
use crate::publish::metrics::PublishMetrics;
use crate::publish::pace::Pace;
use crate::signals::Asked;
use crate::source::Source;
use crate::source::file::CaptureFile;
use crate::source::raw::Broken;
use crate::source::replay::{Plan, Replay, Speed};
use crate::source::stream::Stream;
use crate::{Exit, Failure};
use anyhow::anyhow;
use clap::Args;
use crossbeam_channel::RecvTimeoutError;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Examples and notes.
pub const HELP: &str = "\
Examples:
  weir-probe read trace.pcap --to jsonl | head
  weir-probe read monday.pcapng tuesday.pcap.gz --to kafka --probe lab --brokers 127.0.0.1:9092
  weir-probe read trace.pcap --export ipfix=udp://127.0.0.1:4739 --export netflow-v9=udp://127.0.0.1:2055
  tcpdump -w - -c 1000 | weir-probe read - --to none --summary json

Times: packet times are moved by one multiple of 30 s, so that the last packet is at most 30 s old (with --speed real: \
the first one). Several files are sorted by their first packets; one that begins before the last one ended follows it \
directly. --keep-time moves nothing.

`-` is the standard input, read as it comes and in bounded memory, alone. Its last packet is not known beforehand: \
times are moved so that the first packet is at most 30 s old. That moves nothing in a capture that is being made now. A \
long old capture, read at full speed, would end in the future: give --keep-time or --speed real, or name its file.";

/// Options of `read`.
#[derive(Args, Debug)]
pub struct ReadArgs {
    /// Capture files; a single `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Where records go
    #[arg(long, default_value = "none")]
    pub to: Target,
    /// Also export records: `ipfix=` or `netflow-v9=` and an address such as `udp://127.0.0.1:2055`,
    /// `nprobe-kafka=brokers;topic`, or `nprobe-zmq=tcp://*:5556`; may be repeated
    #[arg(long, value_name = "FORM=ADDRESS")]
    pub export: Vec<String>,
    /// Fields of exported records, as in nProbe's -T: `%NAME %NAME ...` or `@NTOPNG@` [default: those that every collector
    /// knows]
    #[arg(long, value_name = "TEMPLATE", default_value = "", hide_default_value = true)]
    pub template: String,
    /// Export both directions of a flow in one record, as nProbe's JSON always does
    #[arg(long)]
    pub biflow: bool,
    /// Use names as keys of exported JSON, not numbers
    #[arg(long)]
    pub json_labels: bool,
    /// Property of librdkafka for exports to Kafka, for example for TLS; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub kafka_conf: Vec<String>,
    /// Overrides of the configuration.
    #[command(flatten)]
    pub instead: Instead,
    /// Workers that share the packets
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub workers: u32,
    /// Pace of the replay
    #[arg(long, default_value = "max")]
    pub speed: Speed,
    /// Do not shift packet times
    #[arg(long)]
    pub keep_time: bool,
    /// Format of the summary at the end: `text` to standard error, `json` as one object to standard output (with `--to
    /// jsonl` to standard error)
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub summary: SummaryForm,
    /// Configuration file, for everything that has no option here
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Reads files, or the standard input, from the first to the last packet.
///
/// # Errors
/// [`Exit::CannotStart`] if a file cannot be read at all, before anything is metered; [`Exit::Failed`] if records could
/// not be delivered to their target. A truncated file is not such a failure: [`Exit::BrokenFile`].
pub fn read(args: &ReadArgs) -> Result<Exit, Failure> {
    let mut config = Config::read_or_default(args.config.as_deref()).map_err(Failure::start)?;
    args.instead.put_into(&mut config, args.to).map_err(Failure::start)?;
    let ReadArgs { template, biflow, json_labels, .. } = args;
    let options = ExportOptions { template, biflow: *biflow, json_labels: *json_labels, kafka_conf: &args.kafka_conf };
    let exported = args.export.iter().map(|text| ExportConfig::parse(text, options));
    config.export = exported.collect::<anyhow::Result<_>>().map_err(Failure::start)?;
    read_with(args, config)
}

/// Reads files with a configuration, and sends to its exports.
///
/// # Errors
/// Those of [`read`].
pub fn read_with(args: &ReadArgs, config: Config) -> Result<Exit, Failure> {
    let asked = Asked::listen()?;
    let started = Instant::now();
    let input = Input::open(args, &asked)?;
    let time_shift_ms = input.shift_ms();
    let run = RunState::default();
    let epoch = run.epoch();

    let metrics = Metrics::new(&config.probe);
    let target = Destination::open(args.to, args.workers, false, &config, &metrics, &asked).map_err(Failure::start)?;
    let (captured, published) = (CaptureMetrics::new(&metrics), PublishMetrics::new(&metrics));
    let replaying = Replaying { args, config: &config, run, captured, published, target: &target, asked: &asked };
    let done = input.replay(&replaying);
    // If both failed, the target's error gives the reason.
    target.finish().map_err(|error| if error.is::<Refused>() { Failure::start(error) } else { error.into() })?;
    let Done { outcomes, packets: expected, broken } = done?;

    let mut summary = Summary { epoch, time_shift_ms, ..Summary::default() };
    outcomes.iter().for_each(|outcome| summary.add(outcome));
    summary.seconds = started.elapsed().as_secs_f64();
    args.summary.write(args.to, || summary.json(), || summary.text());
    if summary.outcome.published.unbalanced > 0 {
        return Err(anyhow!("{} intervals do not balance: this is a bug", summary.outcome.published.unbalanced).into());
    }
    if asked.stop.load(Ordering::Relaxed) {
        return Err(anyhow!("stopped before the end").into());
    }
    let captured = summary.outcome.tally.captured.packets;
    if let Some(expected) = expected.filter(|&expected| expected != captured) {
        return Err(anyhow!("the files hold {expected} packets, {captured} were captured: this is a bug").into());
    }
    Ok(if broken { Exit::BrokenFile } else { Exit::Done })
}

/// The packets' origin.
enum Input {
    /// Files, already surveyed.
    Files(Plan),
    /// Standard input, with the shift of its packets' times and the shifted start, ns.
    Stream(Stream, (i64, i64)),
}

/// The outcome of reading.
struct Done {
    outcomes: Vec<Outcome>,
    /// Packets in the input; `None` if reading stopped before that was known.
    packets: Option<u64>,
    /// Whether a file breaks off.
    broken: bool,
}

impl Input {
    fn open(args: &ReadArgs, asked: &Asked) -> Result<Input, Failure> {
        if args.files.iter().any(|path| path == Path::new("-")) {
            if args.files.len() > 1 {
                return Err(Failure::start(anyhow!("the standard input (-) cannot be combined with other files")));
            }
            let stream = first_of_stdin(asked)?;
            // Its first packets may take long to arrive, so take the time now.
            let moved = stream.moved(args.keep_time, wall_clock_ns());
            return Ok(Input::Stream(stream, moved));
        }
        let files: Vec<CaptureFile> =
            args.files.iter().map(|path| CaptureFile::open(path)).collect::<Result<_, _>>().map_err(Failure::start)?;
        for file in &files {
            warn_if_broken(&file.path, file.survey.broken, file.survey.packets);
        }
        let plan = Plan::new(files, args.keep_time, args.speed, wall_clock_ns());
        plan.notes.iter().for_each(|note| tracing::warn!("{note}"));
        Ok(Input::Files(plan))
    }

    /// Shift added to the packets' times, in ms.
    fn shift_ms(&self) -> i64 {
        match self {
            Input::Files(plan) => plan.shift_ms,
            Input::Stream(_, (shift_ns, _)) => shift_ns / 1_000_000,
        }
    }

    fn replay(self, with: &Replaying<'_>) -> Result<Done, Failure> {
        let (args, shift_ms) = (with.args, self.shift_ms());
        let progress = Arc::new(AtomicU64::new(0));
        match self {
            Input::Files(plan) => {
                let plan = Arc::new(plan);
                let name = match &plan.files[..] {
                    [file] => format!("file:{}", file.path.display()),
                    [first, rest @ ..] => format!("file:{} and {} more", first.path.display(), rest.len()),
                    [] => String::new(),
                };
                let source = || Replay::new(Arc::clone(&plan), Arc::clone(&progress), Arc::clone(&with.asked.stop));
                let sources = (0..args.workers).map(|_| source()).collect();
                let feed = Feed {
                    sources,
                    name,
                    shift_ms,
                    begin_ns: plan.span_ns.0,
                    octets: Some(plan.octets),
                    progress: &progress,
                };
                let outcomes = with.run(feed)?;
                let broken = plan.files.iter().any(|file| file.survey.broken.is_some());
                Ok(Done { outcomes, packets: Some(plan.packets()), broken })
            }
            Input::Stream(stream, moved) => {
                let stop = &with.asked.stop;
                let (sources, reading) = stream.start(args.workers, moved, args.speed, Arc::clone(&progress), stop)?;
                let feed = Feed {
                    sources,
                    name: "file:-".to_owned(),
                    shift_ms,
                    begin_ns: moved.1,
                    octets: None,
                    progress: &progress,
                };
                let outcomes = with.run(feed)?;
                if stop.load(Ordering::Relaxed) {
                    // More input may never arrive, so do not wait for the reader.
                    return Ok(Done { outcomes, packets: None, broken: false });
                }
                let ended = reading.join().map_err(|_| anyhow!("reading failed; the message above says where"))?;
                warn_if_broken(Path::new("-"), ended.broken, ended.packets);
                Ok(Done { outcomes, packets: Some(ended.packets), broken: ended.broken.is_some() })
            }
        }
    }
}

/// Waits in a thread of its own for the first packets of standard input, so that a signal can end the wait.
fn first_of_stdin(asked: &Asked) -> Result<Stream, Failure> {
    let (sender, opened) = crossbeam_channel::bounded(1);
    std::thread::Builder::new().name("read".to_owned()).spawn(move || {
        // If nobody waits any longer, the process is ending.
        let _ = sender.send(Stream::open(Box::new(std::io::stdin())));
    })?;
    loop {
        match opened.recv_timeout(Duration::from_millis(20)) {
            Ok(stream) => return stream.map_err(Failure::start),
            Err(RecvTimeoutError::Timeout) if asked.stop.load(Ordering::Relaxed) => {
                return Err(anyhow!("stopped before the first packet").into());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(anyhow!("reading failed; the message above says where").into());
            }
        }
    }
}

fn warn_if_broken(path: &Path, broken: Option<Broken>, packets: u64) {
    if let Some(broken) = broken {
        tracing::warn!("{} ends early: {broken}; its {packets} whole packets are metered", path.display());
    }
}

/// The packets of all workers.
struct Feed<'a, S> {
    /// One for each worker.
    sources: Vec<S>,
    /// Its name in closing records.
    name: String,
    /// Shift of packets' times, ms.
    shift_ms: i64,
    /// The first packet's time, ns.
    begin_ns: i64,
    /// Total octets, if known.
    octets: Option<u64>,
    /// Octets read.
    progress: &'a AtomicU64,
}

/// The parts of workers other than their packets.
struct Replaying<'a> {
    args: &'a ReadArgs,
    config: &'a Config,
    run: RunState,
    captured: CaptureMetrics,
    published: PublishMetrics,
    target: &'a Destination,
    asked: &'a Asked,
}

impl Replaying<'_> {
    /// Runs the workers to the end, with a progress bar on a terminal.
    fn run<S: Source + Send + 'static>(&self, feed: Feed<'_, S>) -> Result<Vec<Outcome>, Failure> {
        let Replaying { args, config, .. } = self;
        let meter = config.meter(args.workers, false).map_err(Failure::start)?;
        let pace = if args.speed == Speed::Real { Pace::live(config.interval.ms()) } else { Pace::Unpaced };
        let running: Vec<CaptureWorker> = (0..)
            .zip(feed.sources)
            .map(|(number, source)| {
                let options = CaptureOptions {
                    identity: Identity {
                        time_shift_ms: feed.shift_ms,
                        ..config.identity(number, args.workers, self.run.epoch(), feed.name.clone())
                    },
                    packets: config.packets,
                    meter: meter.clone(),
                    pace,
                    share: args.workers > 1,
                    open_at_ns: Some(feed.begin_ns),
                    cpu: None,
                    brokers: None,
                    interface: None,
                    reload: Reload::default(),
                    stop: Arc::default(),
                    run: self.run.clone(),
                    metrics: self.captured.clone(),
                    published: self.published.clone(),
                };
                capture::start(source, self.target.sink(), options)
            })
            .collect::<anyhow::Result<_>>()?;

        let (bar, form) = match feed.octets {
            Some(octets) => (ProgressBar::new(octets), "{bar:40} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta}"),
            None => (ProgressBar::no_length(), "{bytes} {binary_bytes_per_sec} {elapsed}"),
        };
        let bar = if std::io::stderr().is_terminal() { bar } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template(form) {
            bar.set_style(style);
        }
        while !running.iter().all(CaptureWorker::is_finished) {
            bar.set_position(feed.progress.load(Ordering::Relaxed));
            std::thread::sleep(Duration::from_millis(if started_recently(&bar) { 1 } else { 50 }));
        }
        bar.finish_and_clear();
        Ok(running.into_iter().map(capture::join).collect::<anyhow::Result<_>>()?)
    }
}

/// Small files finish immediately and must not wait for the next check.
fn started_recently(bar: &ProgressBar) -> bool {
    bar.elapsed() < Duration::from_millis(100)
}
