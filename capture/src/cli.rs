//! The command line.

use crate::collect::listen::Listen;
use crate::collect::nprobe::kafka::FromTopic;
use crate::collect::nprobe::zmq::Endpoint;
use crate::config::{Config, check_probe};
use crate::meter::interval::IntervalLength;
use crate::source::replay::Speed;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// The capture agent of Weir: packets in, flow and counter records out.
#[derive(Debug, Parser)]
#[command(name = "weir-probe", version = VERSION, max_term_width = 110, after_help = EXIT)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT: &str = "\
Exit status: 0 done; 1 something failed on the way; 2 it could not start (a wrong option, configuration or file, no \
permission, a missing topic); 3 a capture file breaks off, and what is whole was metered.
Logs go to the standard error; WEIR_LOG=debug says more, WEIR_LOG=error less.";

/// What `--version` says: the agent's version and nDPI's.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("WEIR_NDPI"), ")");

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Capture on a live interface until SIGTERM or Ctrl-C
    #[command(after_help = RUN_HELP)]
    Run(RunArgs),
    /// Read capture files (pcap, pcapng, both also compressed with gzip)
    #[command(after_help = READ_HELP)]
    Read(ReadArgs),
    /// Take in flow records of others: NetFlow v5 and v9, IPFIX, sFlow v5, nProbe over ZeroMQ or Kafka
    #[command(after_help = COLLECT_HELP)]
    Collect(CollectArgs),
    /// Capture or read, and export, by the common options of nProbe (also where this program is called `nprobe`)
    #[command(after_help = NPROBE_HELP)]
    Nprobe(NprobeArgs),
    /// List what can be captured here, and by which source
    #[command(after_help = INTERFACES_HELP)]
    Interfaces(InterfacesArgs),
    /// Print number, name and category of every application that records may state
    #[command(after_help = "Example:\n  weir-probe applications > applications.csv")]
    Applications {
        /// CSV with a header, or JSON with one object a line
        #[arg(long, value_name = "FORM", default_value = "csv")]
        to: ListForm,
    },
    /// Print a commented configuration with every key
    #[command(after_help = "Example:\n  weir-probe config-example > weir-probe.toml")]
    ConfigExample,
    /// Print completions for a shell
    #[command(after_help = "Example:\n  weir-probe completions bash > /etc/bash_completion.d/weir-probe")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    #[command(after_help = "Example:\n  weir-probe man | man -l -")]
    Man,
    /// Print the reference of commands, configuration and metrics in Markdown
    #[command(hide = true)]
    Docs,
    /// Write synthetic records straight into Kafka, for benchmarks
    #[command(hide = true, after_help = GENERATE_HELP)]
    Generate(GenerateArgs),
    /// Measure what metering costs, over captures in memory
    #[command(hide = true, after_help = BENCH_HELP)]
    Bench(BenchArgs),
    /// Send packets on an interface, to measure capture
    #[command(hide = true, after_help = BLAST_HELP)]
    Blast(BlastArgs),
    /// Print the flow records within captures of NetFlow, IPFIX and sFlow, one JSON object each
    #[command(hide = true, after_help = "Example:\n  weir-probe decode exports.pcap | jq .fwd")]
    Decode {
        /// Capture files
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// UDP ports that exports are sent to, separated by commas [default: those of custom]
        #[arg(long, value_name = "PORT", value_delimiter = ',')]
        ports: Vec<u16>,
    },
    /// Measure what decoding costs, over generated datagrams in memory
    #[command(
        hide = true,
        after_help = "Example:\n  weir-probe bench-decode --protocol ipfix --metered --flows 100000"
    )]
    BenchDecode(BenchDecodeArgs),
    /// Measure what exporting costs, over generated records in memory
    #[command(hide = true, after_help = "Example:\n  weir-probe bench-export --form ipfix")]
    BenchExport(BenchExportArgs),
}

const RUN_HELP: &str = "\
Example:
  weir-probe run --config weir-probe.toml
Needs CAP_NET_RAW (and CAP_NET_ADMIN to switch receive offloads off): run it as root, by its systemd unit, or after
  setcap cap_net_raw,cap_net_admin+ep weir-probe
`weir-probe interfaces` lists what source.interface may say.
SIGTERM and Ctrl-C close the open interval and wait up to 30 s for Kafka; a second one does not wait.";

/// Options of `run`.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// How the summary at the end is written: `text` to the standard error, `json` as one object to the standard output
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub summary: SummaryForm,
}

const COLLECT_HELP: &str = "\
Examples:
  weir-probe collect --netflow :2055 --ipfix :4739 --sflow :6343 --config weir-probe.toml
  weir-probe collect --netflow :2055 --to jsonl --state-dir /tmp | head
  weir-probe collect --nprobe-zmq tcp://192.0.2.1:5556 --nprobe-kafka '192.0.2.9:9092;flows' --probe nprobes

Every port takes every protocol; IPFIX comes over UDP and TCP. A flow that lasted longer than an interval is split over \
the intervals that it lasted, in proportion and exact in its sums; what belongs to intervals that are closed already is \
published for these, up to an hour back. Sampled counts are scaled up and say so. Templates, sampling rates and sequence \
numbers are kept in state_dir across a restart. `weir ledger` tells what exporters sent and did not come, and who does not \
say a sampling rate.
SIGTERM and Ctrl-C close the open interval and wait up to 30 s for Kafka; a second one does not wait.";

/// Options of `collect`.
#[derive(Args, Debug)]
pub struct CollectArgs {
    /// Where NetFlow comes in by UDP: `:2055`, `192.0.2.1:2055`; several times for several
    #[arg(long, value_name = "[ADDRESS]:PORT")]
    pub netflow: Vec<Listen>,
    /// Where IPFIX comes in, by UDP and TCP
    #[arg(long, value_name = "[ADDRESS]:PORT")]
    pub ipfix: Vec<Listen>,
    /// Where sFlow comes in by UDP
    #[arg(long, value_name = "[ADDRESS]:PORT")]
    pub sflow: Vec<Listen>,
    /// Topic that an nProbe writes JSON to, as its --kafka has it; may be repeated
    #[arg(long, value_name = "BROKERS;TOPIC")]
    pub nprobe_kafka: Vec<FromTopic>,
    /// Property of librdkafka for those, such as of TLS; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub nprobe_kafka_conf: Vec<String>,
    /// Publisher that an nProbe is with --zmq: `tcp://192.0.2.1:5556`; `tcp://*:5556c` listens for those in probe mode
    #[arg(long, value_name = "ENDPOINT")]
    pub nprobe_zmq: Vec<Endpoint>,
    /// Configuration file: probe, interval, kafka, spool, limits, filters, metrics and export are read
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where records go
    #[arg(long, default_value = "kafka")]
    pub to: Target,
    /// What holds instead of the configuration's.
    #[command(flatten)]
    pub instead: Instead,
    /// Threads, among which the system shares exporters out
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub workers: u32,
    /// Folder where templates and sampling rates are kept [default: state_dir of the configuration]
    #[arg(long, value_name = "FOLDER")]
    pub state_dir: Option<PathBuf>,
    /// How the summary at the end is written: `text` to the standard error, `json` as one object to the standard output
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub summary: SummaryForm,
}

/// What holds instead of what a configuration says.
#[derive(Args, Debug, Default)]
pub struct Instead {
    /// Name of the probe [default: that of the configuration, else `local`]
    #[arg(long, value_name = "NAME")]
    pub probe: Option<String>,
    /// Kafka's brokers, separated by commas [default: those of the configuration, else 127.0.0.1:9092]
    #[arg(long, value_name = "HOST:PORT")]
    pub brokers: Option<String>,
    /// Length of the intervals: 1s, 2s, 5s, 10s, 15s or 30s [default: that of the configuration, else 10s]
    #[arg(long, value_name = "TIME")]
    pub interval: Option<IntervalLength>,
}

impl Instead {
    /// Puts it into a configuration.
    ///
    /// # Errors
    /// Where the probe's name is none.
    pub fn put_into(&self, config: &mut Config) -> anyhow::Result<()> {
        if let Some(probe) = &self.probe {
            check_probe(probe)?;
            config.probe.clone_from(probe);
        }
        if let Some(brokers) = &self.brokers {
            config.kafka.brokers.clone_from(brokers);
        }
        config.interval = self.interval.unwrap_or(config.interval);
        Ok(())
    }
}

const READ_HELP: &str = "\
Examples:
  weir-probe read trace.pcap --to jsonl | head
  weir-probe read monday.pcapng tuesday.pcap.gz --to kafka --probe lab --brokers 127.0.0.1:9092
  weir-probe read trace.pcap --export ipfix=udp://127.0.0.1:4739 --export netflow-v9=udp://127.0.0.1:2055
  tcpdump -w - -c 1000 | weir-probe read - --to none --summary json

Times: packet times are moved by one multiple of 30 s, so that the last packet is at most 30 s old (with --speed real: \
the first one). Several files are sorted by their first packets; one that begins before the last one ended follows it \
directly. --keep-time moves nothing.

`-` is the standard input, read as it comes and in bounded memory, alone. Its last packet is not known beforehand: \
times are moved so that the first packet is at most 30 s old, which moves nothing in a capture that is being made now, \
but brings a long old one, read as fast as it goes, into the future: give --keep-time or --speed real, or its file.";

/// Options of `read`.
#[derive(Args, Debug)]
pub struct ReadArgs {
    /// Capture files; `-`, alone, is the standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Where records go
    #[arg(long, default_value = "none")]
    pub to: Target,
    /// Also export records: `ipfix=` or `netflow-v9=` and an address such as `udp://127.0.0.1:2055`,
    /// `nprobe-kafka=brokers;topic`, or `nprobe-zmq=tcp://*:5556`; may be repeated
    #[arg(long, value_name = "FORM=ADDRESS")]
    pub export: Vec<String>,
    /// What exported records say, as nProbe's -T: `%NAME %NAME ...` or `@NTOPNG@` [default: what every collector knows]
    #[arg(long, value_name = "TEMPLATE", default_value = "", hide_default_value = true)]
    pub template: String,
    /// Export both directions of a flow in one record, as nProbe's JSON always does
    #[arg(long)]
    pub biflow: bool,
    /// Export JSON with names for keys, not numbers
    #[arg(long)]
    pub json_labels: bool,
    /// What holds instead of the configuration's.
    #[command(flatten)]
    pub instead: Instead,
    /// Workers that share the packets
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub workers: u32,
    /// As fast as it goes, or as the packets' times say
    #[arg(long, default_value = "max")]
    pub speed: Speed,
    /// Leave packet times as they are
    #[arg(long)]
    pub keep_time: bool,
    /// How the summary at the end is written: `text` to the standard error, `json` as one object to the standard
    /// output (with `--to jsonl` to the standard error)
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub summary: SummaryForm,
    /// Configuration file, for everything that has no option here
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Where the records of `read` go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Target {
    /// To Kafka
    Kafka,
    /// To the standard output, one JSON object a record
    Jsonl,
    /// Nowhere: the summary alone
    None,
}

/// How a summary is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SummaryForm {
    /// For people
    Text,
    /// For programs
    Json,
}

const NPROBE_HELP: &str = "\
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
    /// What collectors are sent: 9 NetFlow v9, 10 IPFIX
    #[arg(short = 'V', long = "flow-version", value_name = "VERSION", default_value_t = 9)]
    pub version: u32,
    /// What records say: `%NAME %NAME ...` or `@NTOPNG@`
    #[arg(short = 'T', long = "flow-templ", value_name = "TEMPLATE", default_value = "", hide_default_value = true)]
    pub template: String,
    /// Publish JSON for ntopng; may be repeated
    #[arg(long, value_name = "ENDPOINT")]
    pub zmq: Vec<String>,
    /// Connect to that endpoint, and not listen on it
    #[arg(long)]
    pub zmq_probe_mode: bool,
    /// Send JSON to a topic: `brokers;topic[;acks;compression]` or `brokers;topic;options-topic;acks;compression`
    #[arg(long, value_name = "BROKERS;TOPIC")]
    pub kafka: Vec<String>,
    /// Property of librdkafka; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub kafka_conf: Vec<String>,
    /// Names for keys of JSON, not numbers
    #[arg(long)]
    pub json_labels: bool,
    /// Taken and not used: a record is what a flow did in 10 s, so that a long flow is told of every 10 s
    #[arg(short = 't', long = "lifetime-timeout", value_name = "SECONDS")]
    pub lifetime: Option<u32>,
    /// A flow without packets for so long has ended: further ones begin another
    #[arg(short = 'd', long = "idle-timeout", value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=43_200))]
    pub idle: u32,
    /// Taken and not used: records wait for no others
    #[arg(short = 'l', long = "queue-timeout", value_name = "SECONDS")]
    pub queue: Option<u32>,
    /// Taken and not used: of each packet so much is captured as is needed
    #[arg(short = 's', long, value_name = "OCTETS")]
    pub snaplen: Option<u32>,
    /// Taken and not used: WEIR_LOG=debug says more
    #[arg(short = 'b', long, value_name = "LEVEL")]
    pub verbose: Option<u32>,
}

const INTERFACES_HELP: &str = "\
Examples:
  weir-probe interfaces
  weir-probe interfaces --json | jq -r '.interfaces[].sources[].interface'
The last column is what source.interface may say. Of another network namespace:
  nsenter --net=/run/netns/NAME weir-probe interfaces";

/// Options of `interfaces`.
#[derive(Args, Debug)]
pub struct InterfacesArgs {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// How a list is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListForm {
    /// Values separated by commas
    Csv,
    /// JSON lines
    Json,
}

const GENERATE_HELP: &str = "\
Example:
  weir-probe generate --records 20000000 --probes bench-a,bench-b --workers 2";

/// Options of `generate`.
#[derive(Args, Clone, Debug)]
pub struct GenerateArgs {
    /// Flow records in all
    #[arg(long, value_name = "N")]
    pub records: u64,
    /// Kafka's brokers
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9092")]
    pub brokers: String,
    /// Names of the probes, separated by commas; their topics must be there
    #[arg(long, value_delimiter = ',', default_value = "bench")]
    pub probes: Vec<String>,
    /// Workers, and so partitions, of each probe
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub workers: u32,
    /// Records a second in all, or `max`
    #[arg(long, value_name = "RATE", default_value = "max")]
    pub rate: String,
    /// Flow records of one probe in one interval
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub per_interval: u64,
    /// Different sources of all probes in 30 s, about
    #[arg(long, value_name = "N", default_value_t = 96_000)]
    pub sources: u32,
    /// Different flows of one worker, of which each record is of one; without it each record is a flow of its own
    #[arg(long, value_name = "N")]
    pub flows: Option<u64>,
    /// Percentage of records that are a flood: a SYN each, from any address to one
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

const BENCH_HELP: &str = "\
Example:
  weir-probe bench trace.pcap --repeat 5 --encode";

/// Options of `bench`.
#[derive(Args, Clone, Debug)]
pub struct BenchArgs {
    /// Capture files
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// How often to meter them
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

/// Options of `bench-decode`.
#[derive(Args, Clone, Debug)]
pub struct BenchDecodeArgs {
    /// netflow5, netflow9, ipfix, sflow or nprobe
    #[arg(long, value_name = "NAME", default_value = "ipfix")]
    pub protocol: String,
    /// Records to decode, or a few more
    #[arg(long, value_name = "N", default_value_t = 20_000_000)]
    pub records: u64,
    /// Flows, of each of which an interval has two records, one for each direction
    #[arg(long, value_name = "N", default_value_t = 12_000, value_parser = clap::value_parser!(u32).range(12..=10_000_000))]
    pub flows: u32,
    /// How long the flows of records lasted, ms; more than 9000 reaches into further intervals
    #[arg(long, value_name = "MS", default_value_t = 8000, value_parser = clap::value_parser!(u32).range(..=86_000_000))]
    pub lasting: u32,
    /// Also add the records up and encode what is published
    #[arg(long)]
    pub metered: bool,
    /// Write the datagrams to a file instead, each after its length in two octets, higher one first
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
}

/// Options of `bench-export`.
#[derive(Args, Clone, Debug)]
pub struct BenchExportArgs {
    /// ipfix, netflow-v9, json or json-compressed
    #[arg(long, value_name = "NAME", default_value = "ipfix")]
    pub form: String,
    /// Records to export, both directions of a flow in each
    #[arg(long, value_name = "N", default_value_t = 5_000_000)]
    pub records: u64,
}

const BLAST_HELP: &str = "\
Examples:
  weir-probe blast veth1 --sources 0 --syn --seconds 5
  weir-probe blast veth1 --netns there --peer here/veth0 --octets 64 --destinations 1000 --rate 1488095
Needs CAP_NET_RAW. An XDP program makes the frames, some four times as fast, where Linux is 5.18 or later, the
interface's driver takes redirected frames, and CAP_BPF and CAP_NET_ADMIN are given.
Sends from 10.0.0.0/8 to port 80 of 198.18.0.0/15: only on links of your own.";

/// Options of `blast`.
#[derive(Args, Clone, Debug)]
pub struct BlastArgs {
    /// Interface to send on
    pub interface: String,
    /// Network namespace it is in, as `ip netns` names it
    #[arg(long, value_name = "NAME", default_value = "")]
    pub netns: String,
    /// Other end of a veth pair, which is made to take frames from an XDP program as long as this runs
    #[arg(long, value_name = "NETNS/INTERFACE")]
    pub peer: Option<String>,
    /// Octets of a frame, with its frame check sequence
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(64..=1518))]
    pub octets: u16,
    /// Addresses that are sent to, in turn
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=131_072))]
    pub destinations: u32,
    /// Addresses that are sent from, in turn; 0: every packet is a flow of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=65_536))]
    pub sources: u32,
    /// TCP SYNs, not UDP
    #[arg(long)]
    pub syn: bool,
    /// Packets a second at most [default: as many as one thread sends]
    #[arg(long, value_name = "RATE")]
    pub rate: Option<f64>,
    /// Ends after this time, s
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0)]
    pub seconds: f64,
    /// Ends after this many packets
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    pub packets: u64,
}

/// The command as clap builds it, for completions, manual and reference.
pub fn command() -> clap::Command {
    Cli::command()
}
