//! `weir-bench generate`: writes synthetic records straight into Kafka, for benchmarks of the jobs and the store.
//!
//! Records go through the same [`Publisher`] and Kafka client as captured ones: batches, closing records that balance,
//! counters. Few sources have many flows and most have few; services likewise; sizes have a heavy tail.

use anyhow::anyhow;
use clap::Args;
use fastrand::Rng;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weir_probe::config::check_probe;
use weir_probe::host::wall_clock_ns;
use weir_probe::line::state::new_epoch;
use weir_probe::meter::interval::IntervalLength;
use weir_probe::meter::key::{End, Initiator, Key};
use weir_probe::meter::record::{Events, Record, Sent};
use weir_probe::meter::{ClosedInterval, Tally};
use weir_probe::metrics::Metrics;
use weir_probe::packet::IpPacket;
use weir_probe::publish::kafka::metrics::KafkaMetrics;
use weir_probe::publish::kafka::{Kafka, KafkaOptions, KafkaSink};
use weir_probe::publish::metered::{Closing, Publisher};
use weir_probe::publish::pace::Pace;
use weir_probe::publish::{Identity, Published};
use weir_probe::signals::Asked;
use weir_probe::volume::Volume;
use weir_probe::{Exit, Failure};

pub const HELP: &str = "\
Example:
  weir-bench generate --records 20000000 --probes bench-a,bench-b --workers 2";

/// Options of `generate`.
#[derive(Args, Clone, Debug)]
pub struct GenerateArgs {
    /// Flow records in all
    #[arg(long, value_name = "N")]
    pub records: u64,
    /// Kafka's brokers
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9092")]
    pub brokers: String,
    /// File of the credentials for Kafka, with its brokers, which may write to the topics of all these probes
    #[arg(long, value_name = "FILE")]
    pub credentials: Option<PathBuf>,
    /// Names of the probes, separated by commas; their topics must exist
    #[arg(long, value_delimiter = ',', default_value = "bench")]
    pub probes: Vec<String>,
    /// Workers, and so partitions, of each probe
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub workers: u32,
    /// Records per second in total, or `max`
    #[arg(long, value_name = "RATE", default_value = "max")]
    pub rate: String,
    /// Flow records of one probe in one interval
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub per_interval: u64,
    /// Approximate number of different sources of all probes in 30 s
    #[arg(long, value_name = "N", default_value_t = 96_000)]
    pub sources: u32,
    /// Number of distinct flows per worker, through which records cycle; without this option each record is a flow of
    /// its own
    #[arg(long, value_name = "N")]
    pub flows: Option<u64>,
    /// Percentage of records that belong to a flood: each a SYN from any address to a single address
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub flood: u32,
    /// Length of the intervals
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub interval: IntervalLength,
    /// Start of the first interval, ms from the Unix epoch [default: so that the last interval ends now]
    #[arg(long, value_name = "MS")]
    pub start_ms: Option<u64>,
    /// The last interval ends now (the default; excludes --start-ms)
    #[arg(long, conflicts_with = "start_ms")]
    pub end_now: bool,
}

/// Octets that may wait for Kafka, for all probes together.
const QUEUE_OCTETS: u64 = 256 << 20;

/// Services with their protocol and their share of flows, in percent.
const SERVICES: [(u16, u8, u32); 8] =
    [(443, 6, 45), (53, 17, 25), (443, 17, 10), (80, 6, 8), (123, 17, 4), (22, 6, 3), (25, 6, 3), (5060, 17, 2)];

/// Writes the records and prints exactly what was written.
///
/// # Errors
/// [`Exit::CannotStart`] for wrong options or missing topics; [`Exit::Failed`] if Kafka did not take everything.
pub fn generate(args: &GenerateArgs) -> Result<Exit, Failure> {
    for probe in &args.probes {
        check_probe(probe).map_err(Failure::start)?;
    }
    let rate = match args.rate.as_str() {
        "max" => f64::INFINITY,
        text => text.parse().ok().filter(|rate| *rate > 0.0).ok_or_else(|| {
            Failure::start(anyhow!("--rate {text:?} is neither a number of records a second nor `max`"))
        })?,
    };
    let asked = Asked::listen()?;
    let probes = args.probes.len() as u64;
    let interval_ms = u64::from(args.interval.ms());
    let intervals = args.records.div_ceil(args.per_interval.max(1) * probes).max(1);
    let now_ms = (wall_clock_ns() / 1_000_000) as u64;
    let start_ms = args.start_ms.unwrap_or(now_ms).saturating_sub(args.start_ms.map_or(intervals * interval_ms, |_| 0))
        / interval_ms
        * interval_ms;
    let epoch = new_epoch(0);
    let started = Instant::now();

    let mut connections = Vec::new();
    for probe in &args.probes {
        let options = KafkaOptions {
            brokers: args.brokers.clone(),
            credentials: args.credentials.clone(),
            properties: BTreeMap::new(),
            probe: probe.clone(),
            workers: args.workers,
            queue_octets: QUEUE_OCTETS / probes,
            wait: true,
            spool: None,
        };
        connections
            .push(Kafka::start(options, KafkaMetrics::new(&Metrics::default()), &asked).map_err(Failure::start)?);
    }
    let lines = probes * u64::from(args.workers);
    let mut threads = Vec::new();
    for (index, (probe, kafka)) in args.probes.iter().zip(&connections).enumerate() {
        for worker in 0..args.workers {
            let number = index as u64 * u64::from(args.workers) + u64::from(worker);
            let line = Line {
                identity: Identity {
                    probe: probe.clone(),
                    worker,
                    workers: args.workers,
                    epoch,
                    interval_ms: args.interval.ms(),
                    source: "generate".to_owned(),
                    ..Identity::default()
                },
                records: share(args.records, lines, number),
                intervals,
                start_ms,
                rate: rate / lines as f64,
                sources: args.sources,
                flows: args.flows,
                flood: args.flood,
                random: Rng::with_seed(number),
            };
            let (mut sink, asked) = (kafka.sink(), asked.clone());
            threads.push((probe, std::thread::spawn(move || line.write(&mut sink, &asked))));
        }
    }
    let mut written: BTreeMap<&str, Published> = BTreeMap::new();
    for (probe, thread) in threads {
        let published = thread.join().map_err(|_| anyhow!("a thread failed"))??;
        *written.entry(probe).or_default() += &published;
    }
    for kafka in connections {
        kafka.finish(None)?;
    }
    let seconds = started.elapsed().as_secs_f64();
    let probes: Map<String, Value> = written
        .iter()
        .map(|(probe, of)| {
            let totals = json!({
                "records": of.flow_records,
                "batches": of.batches,
                "closing_records": of.closings,
                "packets": of.flow.packets,
                "octets": of.flow.octets,
            });
            ((*probe).to_owned(), totals)
        })
        .collect();
    let records: u64 = written.values().map(|of| of.flow_records).sum();
    let last_ms = start_ms + (intervals - 1) * interval_ms;
    println!(
        "{}",
        json!({
            "probes": probes,
            "records": records,
            "epoch": epoch,
            "workers": args.workers,
            "intervals": intervals,
            "interval_ms": interval_ms,
            "first_interval_ms": start_ms,
            "last_interval_ms": last_ms,
            "seconds": seconds,
            "records_per_second": (records as f64 / seconds).round(),
        })
    );
    Ok(Exit::Done)
}

/// The share of `total` that goes to line `number` of `lines`; the shares add up to `total`.
fn share(total: u64, lines: u64, number: u64) -> u64 {
    total / lines + u64::from(number < total % lines)
}

/// The records of one worker of one probe.
struct Line {
    identity: Identity,
    records: u64,
    intervals: u64,
    start_ms: u64,
    rate: f64,
    sources: u32,
    flows: Option<u64>,
    flood: u32,
    random: Rng,
}

impl Line {
    fn write(mut self, sink: &mut KafkaSink, asked: &Asked) -> anyhow::Result<Published> {
        let interval_ms = u64::from(self.identity.interval_ms);
        let mut publisher = Publisher::new(self.identity.clone(), Arc::default());
        let started = Instant::now();
        let mut done = 0;
        let mut closing = Closing::default();
        for number in 0..self.intervals {
            let count = share(self.records, self.intervals, number);
            let start_ms = self.start_ms + number * interval_ms;
            let mut records = std::mem::take(&mut closing.interval.records);
            records.restart(start_ms as i64);
            let mut captured = Volume::default();
            for _ in 0..count {
                let record = self.record(start_ms, interval_ms);
                captured += record.volume();
                records.push(&record);
            }
            let tally = Tally { captured, flows: count, ..Tally::default() };
            closing.interval = ClosedInterval { start_ms, records, tally, ..ClosedInterval::default() };
            let stop = asked.stop.load(Ordering::Relaxed);
            closing.last = stop || number + 1 == self.intervals;
            publisher.publish(&mut closing, &Pace::Unpaced, sink)?;
            if stop {
                break;
            }
            done += count;
            let due = Duration::from_secs_f64(if self.rate.is_finite() { done as f64 / self.rate } else { 0.0 });
            std::thread::sleep(due.saturating_sub(started.elapsed()));
        }
        Ok(*publisher.published())
    }

    /// One flow of one interval.
    fn record(&mut self, interval_start_ms: u64, interval_ms: u64) -> Record<'static> {
        if self.random.u32(0..100) < self.flood {
            return self.syn(interval_start_ms, interval_ms);
        }
        let random = &mut self.random;
        // With recurring flows, the flow's number determines its fields.
        let number = random.u64(0..self.flows.unwrap_or(u64::MAX).max(1));
        let of_flow = &mut Rng::with_seed(number);
        let skewed = |random: &mut Rng, count: u32, power: i32| (random.f64().powi(power) * f64::from(count)) as u32;
        let source = skewed(of_flow, self.sources, 2);
        let (port, protocol) = {
            let mut roll = of_flow.u32(0..100);
            let service = SERVICES.iter().find(|(_, _, percent)| {
                let found = roll < *percent;
                roll = roll.saturating_sub(*percent);
                found
            });
            service.map_or((443, 6), |(port, protocol, _)| (*port, *protocol))
        };
        let address = |base: u32, number: u32| Ipv4Addr::from(base + number).to_ipv6_mapped().octets();
        let ip = IpPacket {
            src: address(0x0a00_0001, source),
            dst: address(0xc612_0001, skewed(of_flow, 20_000, 3)),
            src_port: of_flow.u16(1024..),
            dst_port: port,
            protocol,
            version: 4,
            ..IpPacket::default()
        };
        let (key, sender) = Key::of(&ip, 0);
        // Packets with a heavy tail (Pareto, index 1.2), at most 10,000.
        let tail = |random: &mut Rng| (1.0 - random.f64()).powf(-1.0 / 1.2).min(10_000.0) as u32;
        let first_ms = (interval_start_ms + random.u64(0..interval_ms)) as i64;
        let (there, back) = (tail(random), tail(random));
        let size = random.u32(52..200);
        let answer = random.u32(60..1500);
        let syn = u16::from(protocol == 6);
        let last_ms = (first_ms + random.i64(0..2000)).min((interval_start_ms + interval_ms) as i64 - 1);
        let asks = Events { syn, fin: syn, ..Events::default() };
        let answers = Events { synack: syn, fin: syn, ..Events::default() };
        let sent = [
            Sent { packets: there, octets: there * size, events: asks, ..Sent::default() },
            Sent { packets: back, octets: back * answer, events: answers, ..Sent::default() },
        ];
        biflow(key, sender, [first_ms, last_ms], sent)
    }

    /// A SYN of a flood.
    fn syn(&mut self, interval_start_ms: u64, interval_ms: u64) -> Record<'static> {
        let random = &mut self.random;
        let ip = IpPacket {
            src: Ipv4Addr::from(random.u32(..)).to_ipv6_mapped().octets(),
            dst: Ipv4Addr::new(198, 51, 100, 1).to_ipv6_mapped().octets(),
            src_port: random.u16(1024..),
            dst_port: 80,
            protocol: 6,
            version: 4,
            ..IpPacket::default()
        };
        let (key, sender) = Key::of(&ip, 0);
        let at_ms = (interval_start_ms + random.u64(0..interval_ms)) as i64;
        let sent = [
            Sent { packets: 1, octets: 40, events: Events { syn: 1, ..Events::default() }, ..Sent::default() },
            Sent::default(),
        ];
        biflow(key, sender, [at_ms; 2], sent)
    }
}

/// A record of a flow that `sender` began, from its first to its last packet; `sent`: packets forward and back.
fn biflow(key: Key, sender: End, [first_ms, last_ms]: [i64; 2], mut sent: [Sent; 2]) -> Record<'static> {
    sent.rotate_right(usize::from(sender));
    Record {
        key,
        initiator: Initiator { end: sender, guess: false },
        start_ms: first_ms,
        first_ms,
        last_ms,
        sent,
        handshake_rtt_us: 0,
        quoted: None,
        application_id: 0,
        not_inspected: None,
        name: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        for (total, lines) in [(10, 3), (0, 4), (7, 7), (1_000_003, 16)] {
            assert_eq!((0..lines).map(|number| share(total, lines, number)).sum::<u64>(), total);
        }
        assert_eq!(SERVICES.iter().map(|(_, _, percent)| percent).sum::<u32>(), 100);
    }
}
