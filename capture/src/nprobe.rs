//! `weir-probe nprobe`, or this program called by the name `nprobe`: nProbe's common options, mapped to this agent's own.

use crate::cli::{Instead, NprobeArgs, ReadArgs, RunArgs, SummaryForm, Target};
use crate::config::Config;
use crate::export::collector::ToCollector;
use crate::export::config::ExportConfig;
use crate::export::nprobe_kafka::{self, ToKafka};
use crate::export::nprobe_zmq::ToNtopng;
use crate::source::replay::Speed;
use crate::{Exit, Failure, read, run};
use anyhow::{Context as _, bail};
use std::path::{Path, PathBuf};

/// Options of nProbe's that this agent has no counterpart for, and what to do instead.
const NOT_SUPPORTED: &[(&str, &str)] = &[
    ("-3", "collecting other exporters' flows is not this command's: leave it out"),
    ("--collector-port", "collecting other exporters' flows is not this command's: leave it out"),
    ("-f", "filter what is captured by [filters] in weir-probe.toml, which counts and drops nothing"),
    ("--bpf-filter", "filter what is captured by [filters] in weir-probe.toml, which counts and drops nothing"),
    ("-P", "records go to files by `weir-probe read --to jsonl`"),
    ("-S", "every packet is metered: leave it out"),
    ("--sample-rate", "every packet is metered: leave it out"),
    ("-G", "run it by its systemd unit: see docs/how-to/run-as-a-service.md"),
    ("--daemon-mode", "run it by its systemd unit: see docs/how-to/run-as-a-service.md"),
    ("--ntopng", "use --zmq tcp://*:5556"),
    ("--elastic", "send to Kafka (--kafka) and read from there"),
    ("--mysql", "send to Kafka (--kafka) and read from there"),
    ("--clickhouse", "the stack stores in ClickHouse: see the tutorial"),
    ("--tcp", "send to Kafka (--kafka) and read from there"),
];

/// Arguments as `weir-probe` takes them: where the program's name is `nprobe`, those of its command `nprobe`.
pub fn arguments(given: impl Iterator<Item = String>) -> Vec<String> {
    let mut arguments: Vec<String> = given.collect();
    let called = arguments.first().and_then(|first| Path::new(first).file_name()).is_some_and(|name| name == "nprobe");
    if called {
        arguments.insert(1, "nprobe".to_owned());
    }
    arguments
}

/// Why the arguments cannot be used, where one is an option of nProbe's that has no counterpart.
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
/// [`Exit::CannotStart`] where an option is wrong; else those of [`run::run`] and [`read::read`].
pub fn nprobe(args: &NprobeArgs) -> Result<Exit, Failure> {
    let mut config = Config { export: exports(args).map_err(Failure::start)?, ..Config::default() };
    config.kafka.brokers = String::new();
    config.source.interface.clone_from(&args.interface);
    config.limits.idle = std::time::Duration::from_secs(args.idle.into());
    config.metrics.listen = None;
    if !Path::new(&args.interface).is_file() {
        let run = RunArgs { config: PathBuf::from("nprobe"), summary: SummaryForm::Text };
        return run::run_with(&run, config);
    }
    let read = ReadArgs {
        files: vec![PathBuf::from(&args.interface)],
        to: Target::None,
        export: Vec::new(),
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

/// Who is sent records.
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
        for property in &args.kafka_conf {
            let (key, value) =
                property.split_once('=').with_context(|| format!("--kafka-conf {property:?} is no key=value"))?;
            properties.insert(key.to_owned(), value.to_owned());
        }
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
    use crate::cli::{Cli, Command};
    use clap::Parser as _;

    fn of(line: &str) -> anyhow::Result<Vec<ExportConfig>> {
        let given = line.split(' ').map(str::to_owned);
        let Command::Nprobe(args) = Cli::try_parse_from(arguments(given))?.command else { panic!("not nprobe") };
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
