//! `weir-probe run`: workers on a live interface.

use super::options::SummaryForm;
use super::summary::Summary;
use crate::config::Config;
use crate::export::Exports;
use crate::export::config::ExportConfig;
use crate::host::wall_clock_ns;
use crate::line::capture::{self, CaptureOptions, CaptureWorker, InterfaceWitness, Outcome};
use crate::line::control::Control;
use crate::line::destination::Target;
use crate::line::metrics::{CaptureMetrics, ControlMetrics};
use crate::line::orders::Orders;
use crate::line::reload::{self, Reload, Settings};
use crate::line::state::{LastClose, RunState, WatchedInterface};
use crate::line::watch;
use crate::meter::MeterOptions;
use crate::metrics::Metrics;
use crate::own_traffic::OwnTraffic;
use crate::privileges;
use crate::publish::kafka::control::read_control;
use crate::publish::kafka::metrics::KafkaMetrics;
use crate::publish::kafka::{Kafka, KafkaSink};
use crate::publish::metrics::PublishMetrics;
use crate::publish::pace::Pace;
use crate::publish::{Identity, NoSink, Sink};
use crate::signals::Asked;
use crate::source::config::ReceiveOffloads;
use crate::source::interface::InterfaceCounters;
use crate::source::live::{Closed, Device, Live, Opened, placement};
use crate::source::netns;
use crate::source::offload::Offloads;
use crate::{Exit, Failure, syscalls};
use anyhow::{Context as _, anyhow};
use caps::{Capability, CapsHashSet};
use clap::Args;
use crossbeam_channel::Sender;
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Examples and notes.
pub const HELP: &str = "\
Example:
  weir-probe run --config weir-probe.toml
Needs CAP_NET_RAW (and CAP_NET_ADMIN to switch receive offloads off): run it as root, by its systemd unit, or after
  setcap cap_net_raw,cap_net_admin+p weir-probe
`weir-probe interfaces` lists what source.interface may say.
SIGTERM and Ctrl-C close the open interval and wait up to 30 s for Kafka; a second one does not wait.";

/// Options of `run`.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// File of the credentials for Kafka, with its brokers [default: that of the configuration]
    #[arg(long, value_name = "FILE")]
    pub credentials: Option<PathBuf>,
    /// Format of the summary at the end: `text` to standard error, `json` as one object to standard output
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub summary: SummaryForm,
}

/// How long Kafka may take at the end.
const PATIENCE_AT_END: Duration = Duration::from_secs(30);

/// How long exports may take at the end.
const PATIENCE_OF_EXPORTS: Duration = Duration::from_secs(5);

/// Captures until it is asked to stop.
///
/// # Errors
/// [`Exit::CannotStart`] with one clear line; [`Exit::Failed`] if a worker failed or Kafka did not take everything.
pub fn run(args: &RunArgs) -> Result<Exit, Failure> {
    run_with(args, read(args).map_err(Failure::start)?)
}

/// The configuration of the file, with the options of the command line.
fn read(args: &RunArgs) -> anyhow::Result<Config> {
    let mut config = Config::read(&args.config)?;
    if let Some(credentials) = &args.credentials {
        config.kafka.credentials.clone_from(credentials);
    }
    Ok(config)
}

/// Captures with a configuration, read from `file` if given.
///
/// # Errors
/// Those of [`run`].
pub fn run_with(args: &RunArgs, mut config: Config) -> Result<Exit, Failure> {
    config.log_in().with_context(|| args.config.display().to_string()).map_err(Failure::start)?;
    let name = &config.source.interface;
    if name.is_empty() {
        return Err(Failure::start(anyhow!("{}: source.interface is not set", args.config.display())));
    }
    if config.kafka.brokers.is_empty() && config.export.is_empty() {
        return Err(Failure::start(anyhow!(
            "{}: records go nowhere: set kafka.brokers or add an [[export]]",
            args.config.display()
        )));
    }
    config.export.iter().try_for_each(ExportConfig::check).map_err(Failure::start)?;
    privileges::use_permitted().map_err(Failure::start)?;
    let inside = netns::enter(&config.source.netns).map_err(Failure::start)?;
    let device: Device = name.parse().map_err(Failure::start)?;
    let (workers, cpus) =
        placement(&device, config.workers, config.worker_count(), &config.source.cpus).map_err(Failure::start)?;
    let orders = open_orders(&config).map_err(Failure::start)?;
    let meter = meter_options(&config, orders.as_ref(), workers).or_else(|error| {
        // Nobody's order keeps an agent from starting.
        let configured = config.meter(workers, true)?;
        tracing::error!("{error:#}: the filter sets of the configuration count");
        anyhow::Ok(configured)
    });
    let meter = meter.map_err(Failure::start)?;
    let Opened { rings, interface } = device.open(&config.source, workers).map_err(Failure::start)?;
    let counters = interface.as_ref().map(|interface| InterfaceCounters::open(&interface.name)).transpose();
    let mut counters = counters.map_err(Failure::start)?;
    let base = counters.as_mut().map(InterfaceCounters::read).transpose().map_err(Failure::start)?.unwrap_or_default();
    // Taken before the first packet can arrive, and before anything slow, so that no packet is older than its interval.
    let opened_ns = wall_clock_ns();
    let rings: Vec<Live> =
        rings.into_iter().map(Closed::admit).collect::<anyhow::Result<_>>().map_err(Failure::start)?;

    let offloads: Vec<Offloads> = match config.source.receive_offloads {
        ReceiveOffloads::Keep => Vec::new(),
        ReceiveOffloads::Off => device.interfaces().into_iter().filter_map(switch_off).collect(),
    };
    drop(inside); // Kafka is reached, and metrics are asked for, from where the agent was started.
    let kept = needed(&device, offloads.iter().any(Offloads::changed));
    // Threads inherit capabilities from their parent, so the workers' parent enters the namespace while it still may.
    let starter = Starter::new(&config.source.netns, kept.clone())?;
    let kept = privileges::keep_only(&kept)?;
    syscalls::restrict(calls_with(&kept));
    let asked = Asked::listen()?;
    let mut hangups = Signals::new([SIGHUP])?;
    let listed: Vec<String> = kept.iter().map(ToString::to_string).collect();
    tracing::info!("capabilities kept: {}", if listed.is_empty() { "none".to_owned() } else { listed.join(", ") });
    let loopback = interface.as_ref().is_some_and(|interface| interface.loopback);
    let (state, last) = RunState::open(&config.state_dir, &config.probe).unwrap_or_else(|error| {
        tracing::warn!("{error:#}: gaps between runs will be unknown");
        (RunState::default(), LastClose::default())
    });
    let epoch = state.epoch();
    let watched = interface.as_ref().map(WatchedInterface::new).unwrap_or_default();
    let gap = watched.gap(&last, base.packets(loopback));
    let metrics = Metrics::open(&config.probe, config.metrics.listen).map_err(Failure::start)?;
    let (captured, published) = (CaptureMetrics::new(&metrics), PublishMetrics::new(&metrics));
    let kafka_metrics = KafkaMetrics::new(&metrics);
    let options = config.kafka_options(workers, true);
    let kafka = match &config.kafka.brokers[..] {
        "" => None,
        _ => Some(Kafka::start(options, kafka_metrics, &asked).map_err(Failure::start)?),
    };
    let own = kafka.as_ref().map_or_else(OwnTraffic::default, Kafka::brokers);
    let mut control = match (orders, &kafka) {
        (Some(orders), Some(kafka)) => Some(start_control(orders, &config, kafka.sink(), &metrics, &asked)?),
        _ => None,
    };
    let exports = Exports::start(&config.export, false, &metrics, &own, &asked).map_err(Failure::start)?;

    let started = Instant::now();
    let mut witness = counters.map(|counters| InterfaceWitness { counters, watched, loopback, base });
    let reload = Reload::default();
    let parts = (0..).zip(rings).map(|(number, ring)| {
        let options = CaptureOptions {
            identity: Identity {
                gap: if number == 0 { gap } else { (0, 0) },
                ..config.identity(number, workers, epoch, device.source())
            },
            packets: config.packets,
            meter: meter.clone(),
            pace: Pace::live(config.interval.ms()),
            share: false,
            open_at_ns: Some(opened_ns),
            cpu: cpus.as_ref().map(|cpus| cpus[number as usize]),
            brokers: Some(own.clone()),
            interface: witness.take(),
            reload: reload.clone(),
            stop: Arc::clone(&asked.stop),
            run: state.clone(),
            metrics: captured.clone(),
            published: published.clone(),
        };
        let main: Box<dyn Sink> = match &kafka {
            Some(kafka) => Box::new(kafka.sink()),
            None => Box::new(NoSink),
        };
        (ring, exports.sink(main), options)
    });
    let running = starter.start(parts.collect())?;
    tracing::info!(epoch, workers, interval = %config.interval, probe = config.probe, "capturing on {name}");

    let mut newest = config.clone();
    watch(&running, &asked.stop, || {
        if hangups.pending().count() > 0 {
            let orders = control.as_ref().map(Control::orders);
            if let Some(read) = read_again(args, &config, orders, workers, &reload) {
                if let Some(control) = &mut control {
                    control.trust(&read.kafka.orders);
                }
                newest = read;
            }
        }
        if let Some(control) = &mut control {
            control.look(|orders| {
                let meter = meter_options(&newest, Some(orders), workers)?;
                reload.set(Settings { meter, packets: newest.packets });
                Ok(())
            });
        }
    });
    drop(control);
    let outcomes: Vec<anyhow::Result<Outcome>> = running.into_iter().map(capture::join).collect();
    let flushed = kafka.map_or(Ok(()), |kafka| kafka.finish(Some(PATIENCE_AT_END)));
    // The agent has counted and logged the records that exports dropped; the capture has not failed.
    if let Err(error) = exports.finish(Some(PATIENCE_OF_EXPORTS)) {
        tracing::warn!("{error:#}");
    }
    let mut summary = Summary { seconds: started.elapsed().as_secs_f64(), epoch, ..Summary::default() };
    if flushed.is_ok() {
        if let Err(error) = state.keep() {
            tracing::warn!("{error:#}: the next run will not know how much it missed");
        }
    }
    let mut failed = flushed.err();
    for outcome in outcomes {
        match outcome {
            Ok(outcome) => {
                if outcome.gone {
                    failed = Some(anyhow!("{name}: the interface is gone"));
                }
                summary.add(&outcome);
            }
            Err(error) => failed = Some(error),
        }
    }
    let unbalanced = summary.outcome.published.unbalanced;
    if unbalanced > 0 {
        failed = Some(anyhow!("{unbalanced} intervals do not balance: this is a bug"));
    }
    args.summary.write(Target::Kafka, || summary.json(), || summary.text());
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(Exit::Done),
    }
}

/// Capabilities that are needed once the sources are open.
fn needed(device: &Device, offloads_changed: bool) -> Vec<Capability> {
    let mut needed = Vec::new();
    // The agent switches offloads back on at the end; libpfring restores its interface, too.
    if offloads_changed || matches!(device, Device::PfRing(_)) {
        needed.push(Capability::CAP_NET_ADMIN);
    }
    // Kernels may require it for every change of a map, and stopping capture changes one.
    if matches!(device, Device::AfXdp(_)) {
        needed.push(Capability::CAP_BPF);
    }
    needed
}

type Parts = Vec<(Live, Box<dyn Sink>, CaptureOptions)>;

/// A thread that starts the workers in the interface's network namespace, where they read its counters, and without the
/// capability that was needed to enter it.
struct Starter {
    parts: Sender<Parts>,
    thread: JoinHandle<anyhow::Result<Vec<CaptureWorker>>>,
}

/// System calls that a process with these capabilities needs besides those of any agent.
fn calls_with(kept: &CapsHashSet) -> &'static [i64] {
    if kept.contains(&Capability::CAP_BPF) { syscalls::OF_XDP } else { &[] }
}

impl Starter {
    fn new(netns: &str, kept: Vec<Capability>) -> io::Result<Starter> {
        let (parts, receiver) = crossbeam_channel::bounded::<Parts>(1);
        let netns = netns.to_owned();
        let thread = std::thread::Builder::new().name("starter".to_owned()).spawn(move || {
            netns::enter(&netns)?.stay();
            syscalls::restrict(calls_with(&privileges::keep_only(&kept)?));
            let Ok(parts) = receiver.recv() else { return Ok(Vec::new()) };
            parts.into_iter().map(|(ring, sink, options)| capture::start(ring, sink, options)).collect()
        })?;
        Ok(Starter { parts, thread })
    }

    fn start(self, parts: Parts) -> anyhow::Result<Vec<CaptureWorker>> {
        // If the thread has already ended, its result gives the reason.
        let _ = self.parts.send(parts);
        self.thread.join().map_err(|_| anyhow!("the workers could not be started"))?
    }
}

/// The orders to this probe, if it has a key to check them with.
fn open_orders(config: &Config) -> anyhow::Result<Option<Orders>> {
    let takes_orders = !config.kafka.brokers.is_empty() && !config.kafka.orders.is_empty();
    takes_orders.then(|| Orders::open(&config.state_dir, &config.probe, &config.kafka.orders)).transpose()
}

/// Begins to read orders.
fn start_control(
    orders: Orders,
    config: &Config,
    alerts: KafkaSink,
    metrics: &Metrics,
    asked: &Asked,
) -> io::Result<Control> {
    let waiting = read_control(config.kafka_options(1, true), Arc::clone(&asked.stop))?;
    let discreet = config.pseudonyms.is_some();
    Ok(Control::new(orders, waiting, alerts, ControlMetrics::new(metrics), discreet))
}

/// Options of the workers' meters, with the filter sets of the last order in place of the configuration's.
fn meter_options(config: &Config, orders: Option<&Orders>, workers: u32) -> anyhow::Result<MeterOptions> {
    let Some(orders) = orders else { return config.meter(workers, true) };
    Config { filters: orders.filters(&config.filters), ..config.clone() }.meter(workers, true)
}

/// Reads the configuration again and passes to the workers the settings that they can change while running. Returns it,
/// unless it is wrong.
fn read_again(
    args: &RunArgs,
    running: &Config,
    orders: Option<&Orders>,
    workers: u32,
    reload: &Reload,
) -> Option<Config> {
    let path = &args.config;
    let read = read(args).and_then(|mut config| {
        config.log_in()?;
        Ok((meter_options(&config, orders, workers)?, config))
    });
    match read {
        Ok((meter, config)) => {
            for key in reload::needs_restart(running, &config) {
                tracing::warn!("{key} changed in {}: the new value applies after a restart", path.display());
            }
            reload.set(Settings { meter, packets: config.packets });
            tracing::info!("reloaded {}: it applies from the next interval on", path.display());
            Some(config)
        }
        Err(error) => {
            tracing::error!("{error:#}: the configuration is unchanged");
            None
        }
    }
}

/// Switches an interface's receive offloads off, or logs the consequence of leaving them on.
fn switch_off(name: &str) -> Option<Offloads> {
    Offloads::switch_off(name)
        .inspect_err(|error| {
            tracing::warn!("{name}: receive offloads stay on ({error}): several packets may be counted as one; CAP_NET_ADMIN switches them off");
        })
        .ok()
}
