//! `weir-probe nprobe`, or this program called by the name `nprobe`: nProbe's common options, mapped to this agent's own.

use super::options::{Instead, SummaryForm};
use super::read::{self, ReadArgs};
use super::run::{self, RunArgs};
use crate::config::Config;
use crate::export::collector::ToCollector;
use crate::export::config::ExportConfig;
use crate::export::nprobe_kafka::{self, ToKafka};
use crate::export::nprobe_zmq::ToNtopng;
use crate::line::destination::Target;
use crate::source::replay::Speed;
use crate::{Exit, Failure};
use anyhow::{Context as _, bail};
use clap::Args;
use std::path::{Path, PathBuf};

/// Examples and notes.
pub const HELP: &str = "\
Examples:
  weir-probe nprobe -i eth0 -n 192.0.2.7:2055
  weir-probe nprobe -i eth0 -n none --zmq tcp://*:5556 -T @NTOPNG@
  weir-probe nprobe -i trace.pcap -n none --kafka '192.0.2.9:9092;flows' --json-labels
  ln -s weir-probe nprobe; ./nprobe -i eth0 -V 10 -n tcp://192.0.2.7:4739 -T '%IPV4_SRC_ADDR %IPV4_DST_ADDR %IN_PKTS %IN_BYTES'
Nothing goes to this project's own Kafka topics: use `weir-probe run` and [[export]] for both.";

/// Options of `nprobe`.
#[derive(Args, Debug)]
pub struct NprobeArgs {
    /// Interface to capture on, or a capture file to read
    #[arg(short = 'i', long, value_name = "INTERFACE|FILE")]
    pub interface: String,
    /// Collector, by UDP or (`tcp://`, IPFIX) TCP, or `none`; may be repeated
    #[arg(short = 'n', long = "collector", value_name = "HOST:PORT")]
    pub collectors: Vec<String>,
    /// Protocol to collectors: 9 is NetFlow v9, 10 is IPFIX
    #[arg(short = 'V', long = "flow-version", value_name = "VERSION", default_value_t = 9)]
    pub version: u32,
    /// Fields of the records: `%NAME %NAME ...` or `@NTOPNG@`
    #[arg(short = 'T', long = "flow-templ", value_name = "TEMPLATE", default_value = "", hide_default_value = true)]
    pub template: String,
    /// Publish JSON for ntopng; may be repeated
    #[arg(long, value_name = "ENDPOINT")]
    pub zmq: Vec<String>,
    /// Connect to the endpoint instead of listening on it
    #[arg(long)]
    pub zmq_probe_mode: bool,
    /// Send JSON to a topic: `brokers;topic[;acks;compression]` or `brokers;topic;options-topic;acks;compression`
    #[arg(long, value_name = "BROKERS;TOPIC")]
    pub kafka: Vec<String>,
    /// Property of librdkafka; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub kafka_conf: Vec<String>,
    /// Use names as keys of JSON, not numbers
    #[arg(long)]
    pub json_labels: bool,
    /// Accepted but ignored: a long flow is reported every 10 s anyway
    #[arg(short = 't', long = "lifetime-timeout", value_name = "SECONDS")]
    pub lifetime: Option<u32>,
    /// A flow ends after this time without packets; later packets begin a new one
    #[arg(short = 'd', long = "idle-timeout", value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=43_200))]
    pub idle: u32,
    /// Accepted but ignored: records are not held back
    #[arg(short = 'l', long = "queue-timeout", value_name = "SECONDS")]
    pub queue: Option<u32>,
    /// Accepted but ignored: the agent captures as much of each packet as it needs
    #[arg(short = 's', long, value_name = "OCTETS")]
    pub snaplen: Option<u32>,
    /// Accepted but ignored: WEIR_LOG=debug logs more
    #[arg(short = 'b', long, value_name = "LEVEL")]
    pub verbose: Option<u32>,
}

/// nProbe options without a counterpart in this agent, with their replacements.
const NOT_SUPPORTED: &[(&str, &str)] = &[
    ("-3", "this command collects no flows from exporters: use `weir-probe collect`"),
    ("--collector-port", "this command collects no flows from exporters: use `weir-probe collect`"),
    ("-f", "use [filters] in weir-probe.toml, which count matching packets and drop none"),
    ("--bpf-filter", "use [filters] in weir-probe.toml, which count matching packets and drop none"),
    ("-P", "to write records to files, use `weir-probe read --to jsonl`"),
    ("-S", "every packet is metered: leave it out"),
    ("--sample-rate", "every packet is metered: leave it out"),
    ("-G", "run it as a systemd unit: see docs/how-to/run-as-a-service.md"),
    ("--daemon-mode", "run it as a systemd unit: see docs/how-to/run-as-a-service.md"),
    ("--ntopng", "use --zmq tcp://*:5556"),
    ("--elastic", "send to Kafka (--kafka) and read from there"),
    ("--mysql", "send to Kafka (--kafka) and read from there"),
    ("--clickhouse", "the stack stores records in ClickHouse: see the tutorial"),
    ("--tcp", "send to Kafka (--kafka) and read from there"),
];

/// The arguments for `weir-probe`; a program named `nprobe` runs the command `nprobe`.
pub fn arguments(given: impl Iterator<Item = String>) -> Vec<String> {
    let mut arguments: Vec<String> = given.collect();
    let called = arguments.first().and_then(|first| Path::new(first).file_name()).is_some_and(|name| name == "nprobe");
    if called {
        arguments.insert(1, "nprobe".to_owned());
    }
    arguments
}

/// An error if an argument is an nProbe option without a counterpart.
pub fn not_supported(arguments: &[String]) -> Option<String> {
    if arguments.get(1).map(String::as_str) != Some("nprobe") {
        return None;
    }
    let name = |argument: &String| argument.split('=').next().unwrap_or_default().to_owned();
    let given: Vec<String> = arguments[2..].iter().map(name).collect();
    let (option, instead) = NOT_SUPPORTED.iter().find(|(option, _)| given.iter().any(|given| given == option))?;
    Some(format!("nprobe's {option} is not supported: {instead}"))
}

/// Captures or reads, and exports.
///
/// # Errors
/// [`Exit::CannotStart`] if an option is wrong; otherwise the errors of [`run::run`] and [`read::read`].
pub fn nprobe(args: &NprobeArgs) -> Result<Exit, Failure> {
    let mut config = Config { export: exports(args).map_err(Failure::start)?, ..Config::default() };
    config.kafka.brokers = String::new();
    config.source.interface.clone_from(&args.interface);
    config.limits.idle = std::time::Duration::from_secs(args.idle.into());
    config.metrics.listen = None;
    if !Path::new(&args.interface).is_file() {
        let run = RunArgs { config: PathBuf::from("nprobe"), credentials: None, summary: SummaryForm::Text };
        return run::run_with(&run, config);
    }
    let read = ReadArgs {
        files: vec![PathBuf::from(&args.interface)],
        to: Target::None,
        export: Vec::new(),
        kafka_conf: Vec::new(),
        template: String::new(),
        biflow: false,
        json_labels: false,
        instead: Instead::default(),
        workers: 1,
        speed: Speed::Max,
        keep_time: true,
        summary: SummaryForm::Text,
        config: None,
    };
    read::read_with(&read, config)
}

/// The receivers of records.
fn exports(args: &NprobeArgs) -> anyhow::Result<Vec<ExportConfig>> {
    let template = args.template.clone();
    let mut exports = Vec::new();
    for collector in args.collectors.iter().filter(|collector| *collector != "none") {
        let (address, biflow) = (collector.clone(), false);
        let to = ToCollector { address, template: template.clone(), biflow, domain: 0 };
        exports.push(match args.version {
            9 => ExportConfig::NetflowV9(to),
            10 => ExportConfig::Ipfix(to),
            other => bail!("-V {other} is not supported: 9 is NetFlow v9, 10 is IPFIX"),
        });
    }
    for address in &args.zmq {
        let (address, connect) = (address.clone(), args.zmq_probe_mode);
        let json_labels = args.json_labels;
        let to = ToNtopng { address, connect, template: template.clone(), json_labels, ..ToNtopng::default() };
        exports.push(ExportConfig::NprobeZmq(to));
    }
    for kafka in &args.kafka {
        let (brokers, topic, mut properties) = nprobe_kafka::parse(kafka).context("--kafka")?;
        nprobe_kafka::add(&mut properties, &args.kafka_conf)?;
        let (template, json_labels) = (template.clone(), args.json_labels);
        exports.push(ExportConfig::NprobeKafka(ToKafka { brokers, topic, properties, template, json_labels }));
    }
    if exports.is_empty() {
        bail!("records go nowhere: give -n HOST:PORT, --zmq ENDPOINT or --kafka \"BROKERS;TOPIC\"");
    }
    exports.iter().try_for_each(ExportConfig::check)?;
    Ok(exports)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    enum Parsed {
        Nprobe(NprobeArgs),
    }

    fn of(line: &str) -> anyhow::Result<Vec<ExportConfig>> {
        let given = line.split(' ').map(str::to_owned);
        let Parsed::Nprobe(args) = Parsed::try_parse_from(arguments(given))?;
        exports(&args)
    }

    #[test]
    fn options_are_mapped() {
        let named = |line: &str| of(line).unwrap().iter().map(ExportConfig::name).collect::<Vec<_>>();
        assert_eq!(named("/usr/bin/nprobe -i eth0 -n 192.0.2.7:2055"), ["netflow-v9 192.0.2.7:2055"]);
        assert_eq!(named("weir-probe nprobe -i eth0 -n tcp://c:4739 -V 10"), ["ipfix tcp://c:4739"]);
        let both = "nprobe -i eth0 -n none --zmq tcp://*:5556 --kafka b:9092;flows;1;none --kafka-conf linger.ms=5 --json-labels";
        assert_eq!(named(both), ["nprobe-zmq tcp://*:5556", "nprobe-kafka b:9092 flows"]);
        assert_eq!(named("nprobe -i eth0 -n c:1 -t 60 -d 30 -l 30 -s 128 -b 1 -T %IN_PKTS").len(), 1);
    }

    #[test]
    fn what_cannot_be_is_said_in_a_line() {
        let error = |line: &str| of(line).unwrap_err().to_string();
        assert!(error("nprobe -i eth0 -n none").contains("records go nowhere"));
        assert!(error("nprobe -i eth0 -n c:1 -V 5").contains("9 is NetFlow v9"));
        let given = |line: &str| not_supported(&arguments(line.split(' ').map(str::to_owned)));
        assert!(given("nprobe -i eth0 --collector-port=2055").unwrap().contains("--collector-port is not supported"));
        assert!(given("weir-probe read -f").is_none() && given("nprobe -i eth0 -n c:1").is_none());
    }
}
