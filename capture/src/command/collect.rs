//! `weir-probe collect`: workers that listen to exporters.

use super::options::{Instead, SummaryForm};
use crate::collect::allowed::Allowed;
use crate::collect::line::{self, CollectWorker};
use crate::collect::listen::{Listen, Ports, most_streams};
use crate::collect::listening::CollectOptions;
use crate::collect::metrics::CollectMetrics;
use crate::collect::nprobe::kafka::FromTopic;
use crate::collect::nprobe::zmq::Endpoint;
use crate::collect::nprobe::{Inbox, Sources};
use crate::collect::outcome::CollectOutcome;
use crate::collect::states::States;
use crate::config::Config;
use crate::filter::FilterSets;
use crate::line::destination::{Destination, Target};
use crate::line::state::RunState;
use crate::line::watch;
use crate::meter::overflow::Network;
use crate::metrics::Metrics;
use crate::privileges;
use crate::publish::metrics::PublishMetrics;
use crate::signals::Asked;
use crate::syscalls;
use crate::{Exit, Failure};
use anyhow::{Context as _, anyhow};
use clap::Args;
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Examples and notes.
pub const HELP: &str = "\
Examples:
  weir-probe collect --netflow :2055 --ipfix :4739 --sflow :6343 --config weir-probe.toml
  weir-probe collect --netflow :2055 --to jsonl --state-dir /tmp | head
  weir-probe collect --ipfix :4739 --exporter 192.0.2.0/24 --exporter 2001:db8::/32
  weir-probe collect --nprobe-zmq tcp://192.0.2.1:5556 --nprobe-kafka '192.0.2.9:9092;flows' --probe nprobes

Every port takes every protocol; IPFIX comes over UDP and TCP. A flow that lasted longer than an interval is split over \
its intervals, in proportion and with exact sums; parts that belong to closed intervals are still published for these, up \
to an hour back. Sampled counts are scaled up and marked. Templates, sampling rates and sequence numbers are kept in \
state_dir across a restart. `weir ledger` shows which records were lost on the way, and which exporters announce no \
sampling rate.
Without a list of exporters anyone who reaches the port can send it records. SIGHUP applies a changed [collect] exporters. \
Once its ports are open, it gives up all capabilities, and system calls that it does not need.
SIGTERM and Ctrl-C close the open interval and wait up to 30 s for Kafka; a second one does not wait.";

/// Options of `collect`.
#[derive(Args, Debug)]
pub struct CollectArgs {
    /// Listen for NetFlow over UDP: `:2055`, `192.0.2.1:2055`; may be repeated
    #[arg(long, value_name = "[ADDRESS]:PORT")]
    pub netflow: Vec<Listen>,
    /// Listen for IPFIX over UDP and TCP; may be repeated
    #[arg(long, value_name = "[ADDRESS]:PORT")]
    pub ipfix: Vec<Listen>,
    /// Listen for sFlow over UDP; may be repeated
    #[arg(long, value_name = "[ADDRESS]:PORT")]
    pub sflow: Vec<Listen>,
    /// Address prefix of exporters that may send: `192.0.2.0/24`, `192.0.2.7/32`; may be repeated [default: collect.exporters
    /// of the configuration, else every address]
    #[arg(long, value_name = "PREFIX")]
    pub exporter: Vec<Network>,
    /// Topic to which an nProbe writes JSON, in the form of nProbe's --kafka; may be repeated
    #[arg(long, value_name = "BROKERS;TOPIC")]
    pub nprobe_kafka: Vec<FromTopic>,
    /// Property of librdkafka for these topics, for example for TLS; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub nprobe_kafka_conf: Vec<String>,
    /// nProbe to subscribe to, by the endpoint of its --zmq: `tcp://192.0.2.1:5556`; `tcp://*:5556c` listens for nProbes in
    /// probe mode
    #[arg(long, value_name = "ENDPOINT")]
    pub nprobe_zmq: Vec<Endpoint>,
    /// Configuration file: probe, interval, kafka, spool, limits, filters, collect, metrics and export are read
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where records go
    #[arg(long, default_value = "kafka")]
    pub to: Target,
    /// Overrides of the configuration.
    #[command(flatten)]
    pub instead: Instead,
    /// Threads; the system distributes exporters among them
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub workers: u32,
    /// Folder for templates and sampling rates [default: state_dir of the configuration]
    #[arg(long, value_name = "FOLDER")]
    pub state_dir: Option<PathBuf>,
    /// Format of the summary at the end: `text` to standard error, `json` as one object to standard output
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub summary: SummaryForm,
}

/// Collects until it is asked to stop.
///
/// # Errors
/// [`Exit::CannotStart`] with one clear line; [`Exit::Failed`] if a worker failed or Kafka did not take everything.
pub fn collect(args: &CollectArgs) -> Result<Exit, Failure> {
    let mut config = Config::read_or_default(args.config.as_deref()).map_err(Failure::start)?;
    args.instead.put_into(&mut config, args.to).map_err(Failure::start)?;
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
    let mut ports = ports.map_err(Failure::start)?;
    let streams = most_streams(workers as usize);
    let exporters = exporters(args, &config);
    if exporters.is_empty() && !udp.is_empty() {
        tracing::warn!(
            "every address may send records: name the exporters that may with [collect] exporters or --exporter"
        );
    }
    let allowed = Allowed::new(exporters);
    for ports in &mut ports {
        ports.limit_streams(streams);
        ports.allow(&allowed);
    }
    // Threads inherit both from this one.
    privileges::keep_only(&[])?;
    syscalls::restrict(&[]);
    let mut hangups = Signals::new([SIGHUP])?;
    let states = States::open(&config.state_dir, &config.probe).map_err(Failure::start)?;
    let filters = Arc::new(FilterSets::compile(&config.filters).map_err(Failure::start)?);
    let asked = Asked::listen()?;
    let metrics = Metrics::open(&config.probe, config.metrics.listen).map_err(Failure::start)?;
    let target = Destination::open(args.to, workers, true, &config, &metrics, &asked).map_err(Failure::start)?;

    let (collected, published) = (CollectMetrics::new(&metrics), PublishMetrics::new(&metrics));
    let started = Instant::now();
    let (run, _) = RunState::open(&config.state_dir, &config.probe).map_err(Failure::start)?;
    let epoch = run.epoch();
    let addresses = ports[0].addresses()?;
    let listed: Vec<String> = (addresses.iter().map(ToString::to_string))
        .chain(args.nprobe_kafka.iter().map(ToString::to_string))
        .chain(args.nprobe_zmq.iter().map(ToString::to_string))
        .collect();
    let running: Vec<CollectWorker> = (0..)
        .zip(ports.into_iter().zip(sources))
        .map(|(number, (mut ports, sources))| {
            let inbox = (!sources.kafka.is_empty() || !sources.zmq.is_empty())
                .then(|| Inbox::open(&sources, &config.probe, &asked.stop))
                .transpose()?;
            ports.wake_by(inbox.as_ref().map(Inbox::wakes));
            let options = CollectOptions {
                identity: config.identity(number, workers, epoch, format!("collect:{}", listed.join(","))),
                max_entries: (config.limits.max_records_per_interval / workers as usize).max(1),
                filters: Arc::clone(&filters),
                states: states.clone(),
                run: run.clone(),
                metrics: collected.clone(),
                published: published.clone(),
                stop: Arc::clone(&asked.stop),
            };
            line::start(ports, inbox, target.sink(), options)
        })
        .collect::<anyhow::Result<_>>()
        .map_err(Failure::start)?;
    tracing::info!(epoch, workers, interval = %config.interval, probe = config.probe, "listening on {}", listed.join(", "));
    watch(&running, &asked.stop, || {
        if hangups.pending().count() > 0 {
            read_again(args, &allowed);
        }
    });
    let outcomes: Vec<_> = running.into_iter().map(line::join).collect();
    let flushed = target.finish();
    let mut sum = CollectOutcome::default();
    for outcome in outcomes {
        let (outcome, mut uncommitted) = outcome?;
        sum.add(&outcome);
        // The next collector reads again whatever this one did not deliver.
        if flushed.is_ok() {
            uncommitted.commit(true);
        }
    }
    let took = started.elapsed();
    args.summary.write(args.to, || sum.json(epoch, took), || sum.text(took));
    flushed?;
    Ok(Exit::Done)
}

/// The prefixes of the exporters that may send.
fn exporters<'a>(args: &'a CollectArgs, config: &'a Config) -> &'a [Network] {
    if args.exporter.is_empty() { &config.collect.exporters } else { &args.exporter }
}

/// Reads the configuration again, and applies its list of exporters.
fn read_again(args: &CollectArgs, allowed: &Allowed) {
    let Some(path) = &args.config else {
        tracing::info!("SIGHUP changes nothing: there is no --config");
        return;
    };
    match Config::read(path) {
        Ok(config) => {
            let exporters = exporters(args, &config);
            allowed.set(exporters);
            let which = if exporters.is_empty() {
                "every address may send".to_owned()
            } else {
                format!("{} prefixes may send", exporters.len())
            };
            tracing::info!("reloaded {}: {which}; other keys apply after a restart", path.display());
        }
        Err(error) => tracing::error!("{error:#}: the list of exporters is unchanged"),
    }
}

/// The nProbe inputs of each worker: every topic, because Kafka distributes its partitions, but only some publishers,
/// because a publisher sends all messages to every subscriber.
fn sources(args: &CollectArgs) -> anyhow::Result<Vec<Sources>> {
    let mut kafka = args.nprobe_kafka.clone();
    for property in &args.nprobe_kafka_conf {
        let (key, value) = property
            .split_once('=')
            .with_context(|| format!("--nprobe-kafka-conf {property:?} is not of the form key=value"))?;
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
