//! `weir-bench meter`: the cost of metering, measured over captures in memory.
//!
//! Packets go through the same source, worker and publisher as those of `weir-probe read`; nothing is sent.

use clap::Args;
use prost::Message as _;
use serde_json::json;
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use weir_probe::command::summary::Summary;
use weir_probe::config::Config;
use weir_probe::host;
use weir_probe::line::capture::{self, CaptureOptions, Outcome};
use weir_probe::line::metrics::CaptureMetrics;
use weir_probe::line::reload::Reload;
use weir_probe::line::state::RunState;
use weir_probe::meter::MeterOptions;
use weir_probe::meter::interval::IntervalLength;
use weir_probe::metrics::Metrics;
use weir_probe::proto;
use weir_probe::publish::metrics::PublishMetrics;
use weir_probe::publish::pace::Pace;
use weir_probe::publish::{Encoded, Identity, NoSink, Sink};
use weir_probe::source::file::CaptureFile;
use weir_probe::source::replay::{Plan, Replay, Speed};
use weir_probe::{Exit, Failure};

pub const HELP: &str = "\
Example:
  weir-bench meter trace.pcap --repeat 5 --encode";

/// Options of `meter`.
#[derive(Args, Clone, Debug)]
pub struct MeterArgs {
    /// Capture files
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Number of times to meter the captures
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub repeat: u32,
    /// Encode every record as a FlowBatch
    #[arg(long)]
    pub encode: bool,
    /// Length of the intervals [default: that of the configuration, else 10s]
    #[arg(long, value_name = "TIME")]
    pub interval: Option<IntervalLength>,
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// A sink for which messages are encoded as for Kafka, and which discards them.
pub struct Encode;

impl Sink for Encode {
    fn flows(&mut self, message: Encoded<'_>) -> anyhow::Result<()> {
        black_box(message.octets);
        Ok(())
    }

    fn counters(&mut self, message: &proto::CounterMessage) -> anyhow::Result<()> {
        black_box(message.encode_to_vec());
        Ok(())
    }
}

/// Meters the captures several times, each time with a fresh meter, and prints one JSON object.
///
/// # Errors
/// [`Exit::CannotStart`] if a capture cannot be read.
pub fn meter(args: &MeterArgs) -> Result<Exit, Failure> {
    let mut config = Config::read_or_default(args.config.as_deref()).map_err(Failure::start)?;
    config.interval = args.interval.unwrap_or(config.interval);
    let options_of_meter = config.meter(1, false).map_err(Failure::start)?;
    let plan = plan(&args.files)?;
    let mut runs = Vec::new();
    let mut summary = Summary::default();
    for _ in 0..args.repeat {
        let sink: Box<dyn Sink> = if args.encode { Box::new(Encode) } else { Box::new(NoSink) };
        let (started, cpu_ns) = (Instant::now(), host::process_cpu_ns());
        let outcome = run(&plan, &config, options_of_meter.clone(), sink)?;
        let cpu_seconds = (host::process_cpu_ns() - cpu_ns) as f64 / 1e9;
        runs.push(json!({"seconds": started.elapsed().as_secs_f64(), "cpu_seconds": cpu_seconds}));
        summary = Summary::default();
        summary.add(&outcome);
    }
    println!("{}", json!({"runs": runs, "summary": summary.json(), "peak_rss_octets": host::peak_resident_octets()}));
    Ok(Exit::Done)
}

/// Meters captures once; `sink` takes the messages.
///
/// # Errors
/// [`Exit::CannotStart`] if a capture cannot be read.
pub fn captured(files: &[PathBuf], sink: Box<dyn Sink>) -> Result<(), Failure> {
    let config = Config::default();
    let meter = config.meter(1, false).map_err(Failure::start)?;
    run(&plan(files)?, &config, meter, sink).map(|_| ())
}

fn plan(files: &[PathBuf]) -> Result<Arc<Plan>, Failure> {
    let files = files.iter().map(|path| CaptureFile::open(path)).collect::<Result<_, _>>().map_err(Failure::start)?;
    Ok(Arc::new(Plan::new(files, true, Speed::Max, 0)))
}

fn run(plan: &Arc<Plan>, config: &Config, meter: MeterOptions, sink: Box<dyn Sink>) -> Result<Outcome, Failure> {
    let metrics = Metrics::default();
    let options = CaptureOptions {
        identity: Identity {
            probe: "bench".to_owned(),
            workers: 1,
            interval_ms: config.interval.ms(),
            ..Identity::default()
        },
        packets: config.packets,
        meter,
        pace: Pace::Unpaced,
        share: false,
        open_at_ns: Some(plan.span_ns.0),
        cpu: None,
        brokers: None,
        interface: None,
        reload: Reload::default(),
        stop: Arc::default(),
        run: RunState::default(),
        metrics: CaptureMetrics::new(&metrics),
        published: PublishMetrics::new(&metrics),
    };
    let source = Replay::new(Arc::clone(plan), Arc::default(), Arc::default());
    Ok(capture::join(capture::start(source, sink, options)?)?)
}
