//! `weir-probe bench`: what metering costs, over captures that are wholly in memory.
//!
//! Packets go through the same source, worker and publisher as those of `weir-probe read`; only nothing is sent.

use crate::cli::BenchArgs;
use crate::config::Config;
use crate::host;
use crate::metrics::Metrics;
use crate::proto;
use crate::publish::pace::Pace;
use crate::publish::{Encoded, Identity, NoSink, Sink};
use crate::reload::Reload;
use crate::source::file::CaptureFile;
use crate::source::replay::{Plan, Replay, Speed};
use crate::summary::Summary;
use crate::worker::{Worker, WorkerOptions};
use crate::{Exit, Failure};
use prost::Message as _;
use serde_json::json;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

/// Has messages encoded as Kafka would get them, and keeps nothing.
pub(crate) struct Encode;

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

/// Meters the captures several times over, each time from nothing, and prints one JSON object.
///
/// # Errors
/// [`Exit::CannotStart`] where a capture cannot be read.
pub fn bench(args: &BenchArgs) -> Result<Exit, Failure> {
    let mut config = Config::read_or_default(args.config.as_deref()).map_err(Failure::start)?;
    config.interval = args.interval.unwrap_or(config.interval);
    let meter = config.meter(1, false).map_err(Failure::start)?;
    let files: Vec<CaptureFile> =
        args.files.iter().map(|path| CaptureFile::open(path)).collect::<Result<_, _>>().map_err(Failure::start)?;
    let plan = Arc::new(Plan::new(files, true, Speed::Max, 0));
    let mut runs = Vec::new();
    let mut summary = Summary::default();
    for _ in 0..args.repeat {
        let options = WorkerOptions {
            identity: Identity {
                probe: "bench".to_owned(),
                workers: 1,
                interval_ms: config.interval.ms(),
                ..Identity::default()
            },
            packets: config.packets,
            meter: meter.clone(),
            pace: Pace::Unpaced,
            share: false,
            open_at_ns: Some(plan.span_ns.0),
            cpu: None,
            brokers: None,
            interface: None,
            reload: Reload::default(),
            stop: Arc::default(),
            metrics: Metrics::default(),
        };
        let sink: Box<dyn Sink> = if args.encode { Box::new(Encode) } else { Box::new(NoSink) };
        let source = Replay::new(Arc::clone(&plan), Arc::default(), Arc::default());
        let (started, cpu_ns) = (Instant::now(), host::process_cpu_ns());
        let outcome = Worker::start(source, sink, options)?.join()?;
        let cpu_seconds = (host::process_cpu_ns() - cpu_ns) as f64 / 1e9;
        runs.push(json!({"seconds": started.elapsed().as_secs_f64(), "cpu_seconds": cpu_seconds}));
        summary = Summary::default();
        summary.add(&outcome);
    }
    println!("{}", json!({"runs": runs, "summary": summary.json(), "peak_rss_octets": host::peak_resident_octets()}));
    Ok(Exit::Done)
}
