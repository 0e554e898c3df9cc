//! `weir-probe run`: workers on a live interface.

use crate::cli::{RunArgs, SummaryForm};
use crate::config::{Config, ReceiveOffloads};
use crate::metrics::Metrics;
use crate::publish::Identity;
use crate::publish::kafka::{Kafka, KafkaOptions};
use crate::publish::pace::Pace;
use crate::source::af_packet::{AfPacket, Closed};
use crate::source::interface::{Interface, InterfaceStatistics};
use crate::source::netns;
use crate::source::offload::Offloads;
use crate::source::wall_clock_ns;
use crate::state::{self, StateFile};
use crate::summary::Summary;
use crate::worker::{InterfaceWitness, Outcome, Worker, WorkerOptions};
use crate::{Exit, Failure};
use anyhow::{Context as _, anyhow};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long Kafka may take at the end.
const PATIENCE_AT_END: Duration = Duration::from_secs(30);

/// Flags that signals set: the first SIGTERM or SIGINT asks to stop, the next one not to wait.
#[derive(Clone, Default)]
pub struct Asked {
    /// To stop in order.
    pub stop: Arc<AtomicBool>,
    /// To wait for nothing.
    pub give_up: Arc<AtomicBool>,
}

impl Asked {
    /// Begins to listen for signals.
    ///
    /// # Errors
    /// What the system says.
    pub fn listen() -> io::Result<Asked> {
        let asked = Asked::default();
        let mut signals = Signals::new([SIGTERM, SIGINT])?;
        let flags = asked.clone();
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for _ in signals.forever() {
                let again = flags.stop.swap(true, Ordering::SeqCst);
                flags.give_up.fetch_or(again, Ordering::SeqCst);
            }
        })?;
        Ok(asked)
    }
}

/// Captures until it is asked to stop.
///
/// # Errors
/// [`Exit::CannotStart`] with one clear line; [`Exit::Failed`] where a worker failed or Kafka did not take everything.
pub fn run(args: &RunArgs) -> Result<Exit, Failure> {
    let config = Config::read(&args.config).map_err(Failure::start)?;
    let asked = Asked::listen()?;
    let name = &config.source.interface;
    if name.is_empty() {
        return Err(Failure::start(anyhow!("{}: source.interface is not set", args.config.display())));
    }
    let inside = netns::enter(&config.source.netns).map_err(Failure::start)?;
    let interface = Interface::find(name).map_err(Failure::start)?;
    let workers = config.worker_count();
    let meter = config.meter(workers, true).map_err(Failure::start)?;
    let rings = open_rings(&interface, &config, workers).map_err(Failure::start)?;
    let base = InterfaceStatistics::read(name).map_err(Failure::start)?;
    // Taken before the first packet can come, and before whatever may take long: no packet is older than its interval.
    let opened_ns = wall_clock_ns();
    let rings: Vec<AfPacket> = rings
        .into_iter()
        .map(AfPacket::admit)
        .collect::<io::Result<_>>()
        .map_err(|error| refused(name, &error))
        .map_err(Failure::start)?;

    let _offloads = match config.source.receive_offloads {
        ReceiveOffloads::Keep => None,
        ReceiveOffloads::Off => Offloads::switch_off(name)
            .inspect_err(|error| {
                tracing::warn!("{name}: receive offloads stay on ({error}): several packets may be counted as one; CAP_NET_ADMIN switches them off");
            })
            .ok(),
    };
    drop(inside); // Kafka is reached, and metrics are asked for, from where the agent was started.
    let kept = StateFile::open(&config.state_dir, &config.probe, &interface)
        .inspect_err(|error| tracing::warn!("{error:#}: gaps between runs will not be known"))
        .ok();
    let (epoch, gap, state) = match kept {
        Some((file, last)) => (file.epoch(), file.gap(&last, base.packets(interface.loopback)), Some(file)),
        None => (state::new_epoch(0), (0, 0), None),
    };
    let metrics = Metrics::new(&config.probe);
    if let Some(listen) = config.metrics.listen {
        let bound = metrics.serve(listen).map_err(Failure::start)?;
        tracing::info!("metrics on http://{bound}/metrics");
    }
    let kafka = Kafka::start(
        KafkaOptions {
            brokers: config.kafka.brokers.clone(),
            properties: config.kafka.properties.clone(),
            probe: config.probe.clone(),
            workers,
            queue_octets: config.queue_octets(),
            wait: false,
        },
        metrics.clone(),
        &asked,
    )
    .map_err(Failure::start)?;

    let started = Instant::now();
    tracing::info!(epoch, workers, interval = %config.interval, probe = config.probe, "capturing on {name}");
    let mut witness = Some(InterfaceWitness { name: name.clone(), loopback: interface.loopback, base, state });
    let inside = netns::enter(&config.source.netns).map_err(Failure::start)?;
    let running: Vec<Worker> = (0..)
        .zip(rings)
        .map(|(number, ring)| {
            let options = WorkerOptions {
                identity: Identity {
                    probe: config.probe.clone(),
                    worker: number,
                    workers,
                    epoch,
                    interval_ms: config.interval.ms(),
                    source: format!("af_packet:{name}"),
                    time_shift_ms: 0,
                    gap: if number == 0 { gap } else { (0, 0) },
                },
                packets: config.packets,
                meter: meter.clone(),
                pace: Pace::live(config.interval.ms()),
                share: false,
                open_at_ns: Some(opened_ns),
                brokers: Some(kafka.brokers()),
                interface: witness.take(),
                stop: Arc::clone(&asked.stop),
                metrics: metrics.clone(),
            };
            Worker::start(ring, Box::new(kafka.sink()), options)
        })
        .collect::<anyhow::Result<_>>()?;
    drop(inside);

    // A worker that fails takes the others with it: half a capture must not look like a whole one.
    while !running.iter().any(Worker::is_finished) {
        std::thread::sleep(Duration::from_millis(20));
    }
    asked.stop.store(true, Ordering::SeqCst);
    let outcomes: Vec<anyhow::Result<Outcome>> = running.into_iter().map(Worker::join).collect();
    let flushed = kafka.finish(Some(PATIENCE_AT_END));
    let mut summary = Summary { seconds: started.elapsed().as_secs_f64(), epoch, ..Summary::default() };
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
    match args.summary {
        SummaryForm::Json => println!("{}", summary.json()),
        SummaryForm::Text => eprint!("{}", summary.text()),
    }
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(Exit::Done),
    }
}

/// Rings of all workers, bound but letting nothing in yet.
fn open_rings(interface: &Interface, config: &Config, workers: u32) -> anyhow::Result<Vec<Closed>> {
    let open = || {
        let mut group = None;
        (0..workers)
            .map(|_| {
                let ring = AfPacket::open(interface, config.source.promiscuous)?;
                if workers > 1 {
                    group = Some(ring.join(group)?);
                }
                Ok(ring)
            })
            .collect::<io::Result<_>>()
    };
    open().map_err(|error| refused(&interface.name, &error))
}

/// One clear line about what to do.
fn refused(name: &str, error: &io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied => anyhow!(
            "no permission to capture on {name}: give CAP_NET_RAW (run as root, by the systemd unit, or after \
             `setcap cap_net_raw,cap_net_admin+ep weir-probe`)"
        ),
        _ => anyhow!("cannot capture on {name}: {error}"),
    }
}

/// Reads what `read` has from a configuration, or the defaults.
pub(crate) fn config_or_default(path: Option<&std::path::Path>) -> anyhow::Result<Config> {
    path.map_or_else(|| Ok(Config::default()), |path| Config::read(path).context("--config"))
}
