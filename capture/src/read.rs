//! `weir-probe read`: workers on capture files.

use crate::cli::{ReadArgs, SummaryForm, Target};
use crate::config::{Config, check_probe};
use crate::metrics::Metrics;
use crate::publish::jsonl::JsonlSink;
use crate::publish::kafka::{Kafka, KafkaOptions, Refused};
use crate::publish::pace::Pace;
use crate::publish::{Identity, NoSink, Sink};
use crate::run::{Asked, config_or_default};
use crate::source::file::CaptureFile;
use crate::source::replay::{Plan, Replay, Speed};
use crate::source::wall_clock_ns;
use crate::state::new_epoch;
use crate::summary::Summary;
use crate::worker::{Outcome, Worker, WorkerOptions};
use crate::{Exit, Failure};
use anyhow::anyhow;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Reads files from the first to the last packet.
///
/// # Errors
/// [`Exit::CannotStart`] where a file cannot be read at all, before anything is metered; [`Exit::Failed`] where records
/// could not be brought to their target. A file that breaks off is none: [`Exit::BrokenFile`].
pub fn read(args: &ReadArgs) -> Result<Exit, Failure> {
    let mut config = config_or_default(args.config.as_deref()).map_err(Failure::start)?;
    if let Some(probe) = &args.probe {
        check_probe(probe).map_err(Failure::start)?;
        config.probe.clone_from(probe);
    }
    if let Some(brokers) = &args.brokers {
        config.kafka.brokers.clone_from(brokers);
    }
    config.interval = args.interval.unwrap_or(config.interval);
    let asked = Asked::listen()?;
    let started = Instant::now();
    let files: Vec<CaptureFile> =
        args.files.iter().map(|path| CaptureFile::open(path)).collect::<Result<_, _>>().map_err(Failure::start)?;
    let mut exit = Exit::Done;
    for file in &files {
        if let Some(broken) = file.survey.broken {
            tracing::warn!(
                "{} breaks off: {broken}; its {} whole packets are metered",
                file.path.display(),
                file.survey.packets
            );
            exit = Exit::BrokenFile;
        }
    }
    let plan = Arc::new(Plan::new(files, args.keep_time, args.speed, wall_clock_ns()));
    let epoch = new_epoch(0);

    let metrics = Metrics::new(&config.probe);
    let target = Destination::open(args, &config, &metrics, &asked)?;
    let outcomes = replay(args, &config, &plan, epoch, &metrics, &target, &asked);
    // Where both failed, the target knows why.
    target.finish().map_err(|error| if error.is::<Refused>() { Failure::start(error) } else { error.into() })?;
    let outcomes = outcomes?;

    let mut summary = Summary { epoch, time_shift_ms: plan.shift_ms, ..Summary::default() };
    outcomes.iter().for_each(|outcome| summary.add(outcome));
    summary.seconds = started.elapsed().as_secs_f64();
    match (args.summary, args.to) {
        (SummaryForm::Json, Target::Jsonl) => eprintln!("{}", summary.json()),
        (SummaryForm::Json, _) => println!("{}", summary.json()),
        (SummaryForm::Text, _) => eprint!("{}", summary.text()),
    }
    if summary.outcome.published.unbalanced > 0 {
        return Err(anyhow!("{} intervals do not balance: this is a bug", summary.outcome.published.unbalanced).into());
    }
    if asked.stop.load(Ordering::Relaxed) {
        return Err(anyhow!("stopped before the end").into());
    }
    let (expected, captured) = (plan.packets(), summary.outcome.tally.captured.packets);
    if expected != captured {
        return Err(anyhow!("the files hold {expected} packets, {captured} were captured: this is a bug").into());
    }
    Ok(exit)
}

/// Runs the workers to the end of the files, with a progress bar on a terminal.
fn replay(
    args: &ReadArgs,
    config: &Config,
    plan: &Arc<Plan>,
    epoch: u64,
    metrics: &Metrics,
    target: &Destination,
    asked: &Asked,
) -> Result<Vec<Outcome>, Failure> {
    let meter = config.meter(args.workers, false).map_err(Failure::start)?;
    let pace = if args.speed == Speed::Real { Pace::live(config.interval.ms()) } else { Pace::Unpaced };
    let source = match &plan.files[..] {
        [file] => format!("file:{}", file.path.display()),
        [first, rest @ ..] => format!("file:{} and {} more", first.path.display(), rest.len()),
        [] => String::new(),
    };
    let progress = Arc::new(AtomicU64::new(0));
    let running: Vec<Worker> = (0..args.workers)
        .map(|number| {
            let options = WorkerOptions {
                identity: Identity {
                    probe: config.probe.clone(),
                    worker: number,
                    workers: args.workers,
                    epoch,
                    interval_ms: config.interval.ms(),
                    source: source.clone(),
                    time_shift_ms: plan.shift_ms,
                    gap: (0, 0),
                },
                meter: meter.clone(),
                pace,
                share: args.workers > 1,
                open_at_ns: Some(plan.span_ns.0),
                cpu: None,
                brokers: None,
                interface: None,
                stop: Arc::default(),
                metrics: metrics.clone(),
            };
            let source = Replay::new(Arc::clone(plan), Arc::clone(&progress), Arc::clone(&asked.stop));
            Worker::start(source, target.sink(), options)
        })
        .collect::<anyhow::Result<_>>()?;

    let bar = if std::io::stderr().is_terminal() { ProgressBar::new(plan.octets) } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta}") {
        bar.set_style(style);
    }
    while !running.iter().all(Worker::is_finished) {
        bar.set_position(progress.load(Ordering::Relaxed));
        std::thread::sleep(Duration::from_millis(if started_recently(&bar) { 1 } else { 50 }));
    }
    bar.finish_and_clear();
    Ok(running.into_iter().map(Worker::join).collect::<anyhow::Result<_>>()?)
}

/// Small files are done at once: they are not to wait for a slow look.
fn started_recently(bar: &ProgressBar) -> bool {
    bar.elapsed() < Duration::from_millis(100)
}

/// Where records go.
enum Destination {
    Kafka(Kafka),
    Jsonl(JsonlSink),
    None,
}

impl Destination {
    fn open(args: &ReadArgs, config: &Config, metrics: &Metrics, asked: &Asked) -> Result<Destination, Failure> {
        Ok(match args.to {
            Target::None => Destination::None,
            Target::Jsonl => Destination::Jsonl(JsonlSink::new(Box::new(std::io::stdout()))),
            Target::Kafka => {
                let options = KafkaOptions {
                    brokers: config.kafka.brokers.clone(),
                    properties: config.kafka.properties.clone(),
                    probe: config.probe.clone(),
                    workers: args.workers,
                    queue_octets: config.queue_octets(),
                    wait: true,
                };
                Destination::Kafka(Kafka::start(options, metrics.clone(), asked).map_err(Failure::start)?)
            }
        })
    }

    fn sink(&self) -> Box<dyn Sink> {
        match self {
            Destination::Kafka(kafka) => Box::new(kafka.sink()),
            Destination::Jsonl(sink) => Box::new(sink.clone()),
            Destination::None => Box::new(NoSink),
        }
    }

    fn finish(self) -> anyhow::Result<()> {
        match self {
            Destination::Kafka(kafka) => kafka.finish(None),
            Destination::Jsonl(sink) => Ok(sink.flush()?),
            Destination::None => Ok(()),
        }
    }
}
