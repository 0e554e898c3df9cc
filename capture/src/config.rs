//! The agent's configuration: one TOML file in which every key except the interface has a default. Each part declares
//! the type of its own section; this file combines them and divides the memory among them.

#![warn(missing_docs)]

use crate::app::{AppOptions, MAX_BUDGET, STATE_OCTETS};
use crate::collect::allowed::CollectConfig;
use crate::export::config::ExportConfig;
use crate::filter::{self, FilterConfig, FilterSets};
use crate::meter::MeterOptions;
use crate::meter::fragments::{FRAGMENTED_COST, MAX_FRAGMENTED};
use crate::meter::interval::IntervalLength;
use crate::meter::overflow::Network;
use crate::privacy::Privacy;
use crate::privacy::config::PrivacyConfig;
use crate::publish::Identity;
use crate::publish::kafka::KafkaOptions;
use crate::publish::kafka::credentials::{self, Credentials, DEFAULT_PATH};
use crate::publish::spool::SpoolOptions;
use crate::source::af_xdp;
use crate::source::config::SourceConfig;
use crate::units::{duration, octets, parsed, parsed_list};
use anyhow::{Context as _, bail};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The commented example, which `weir-probe config-example` prints.
pub const EXAMPLE: &str = include_str!("../weir-probe.example.toml");

/// Minimum octets of memory for a worker, without rings and queue.
const LEAST_SHARE: u64 = 1 << 20;

/// The flow table keeps the low 16 bits of interval numbers: longer idle times could confuse two intervals.
const MOST_IDLE: Duration = Duration::from_secs(12 * 3600);

/// A spool has room for several of the longest messages.
const LEAST_SPOOL: u64 = 1 << 20;

/// The whole file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Name of the probe: `[a-z0-9][a-z0-9-]{0,62}`.
    pub probe: String,
    /// Length of the intervals.
    #[serde(deserialize_with = "parsed")]
    pub interval: IntervalLength,
    /// Workers; 0: one for each processor, at most 16.
    pub workers: u32,
    /// Directory for state kept across restarts.
    pub state_dir: PathBuf,
    /// Networks for which packets count as incoming.
    #[serde(deserialize_with = "parsed_list")]
    pub local_networks: Vec<Network>,
    /// The source of packets.
    pub source: SourceConfig,
    /// How packets are read.
    pub packets: PacketsConfig,
    /// How applications are detected.
    pub applications: ApplicationsConfig,
    /// The brokers that receive records.
    pub kafka: KafkaConfig,
    /// Additional exports (IPFIX, NetFlow v9, nProbe).
    pub export: Vec<ExportConfig>,
    /// Directory and size of the spool, where records wait while Kafka is away.
    pub spool: SpoolConfig,
    /// Bounds of memory and of records.
    pub limits: Limits,
    /// Filter sets: expressions whose matching packets are counted.
    pub filters: FilterConfig,
    /// The exporters that `collect` listens to.
    pub collect: CollectConfig,
    /// Pseudonyms in place of addresses.
    pub privacy: PrivacyConfig,
    /// The endpoint of the agent's own metrics.
    pub metrics: MetricsConfig,
    /// The key of the pseudonyms, read together with the file, so that no command can publish without it.
    #[serde(skip)]
    pub(crate) pseudonyms: Option<Arc<Privacy>>,
}

/// `[packets]`.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct PacketsConfig {
    /// Which packet of a tunnel the agent meters.
    pub tunnels: Tunnels,
    /// Whether the agent verifies and counts checksums.
    pub checksums: bool,
}

/// Which packet of a tunnel the agent meters.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Tunnels {
    /// The tunnel's own.
    #[default]
    Outer,
    /// The packet inside the tunnel.
    Inner,
}

/// `[applications]`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct ApplicationsConfig {
    /// Whether nDPI detects applications.
    pub ndpi: UseNdpi,
    /// Read server names and DNS names.
    pub names: bool,
    /// Maximum number of packets per flow that nDPI inspects.
    pub packets: u8,
    /// Maximum share of packets that nDPI inspects, in per cent.
    pub max_inspected_percent: u8,
}

/// Whether nDPI detects applications.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum UseNdpi {
    /// On if the agent was built with nDPI.
    Auto,
    /// On; the agent does not start without nDPI.
    On,
    /// No.
    Off,
}

impl Default for ApplicationsConfig {
    fn default() -> Self {
        let AppOptions { tcp_packets, max_inspected_percent, .. } = AppOptions::default();
        ApplicationsConfig { ndpi: UseNdpi::Auto, names: true, packets: tcp_packets, max_inspected_percent }
    }
}

impl ApplicationsConfig {
    /// Settings of application detection for one worker.
    ///
    /// # Errors
    /// If the configuration requires nDPI and the agent was built without it.
    pub fn options(&self) -> anyhow::Result<AppOptions> {
        let ndpi = match self.ndpi {
            UseNdpi::On if !cfg!(ndpi) => {
                bail!(
                    "applications.ndpi = \"on\": this agent was built without nDPI; build it where libndpi-dev is installed"
                )
            }
            UseNdpi::Auto | UseNdpi::On => cfg!(ndpi),
            UseNdpi::Off => false,
        };
        Ok(AppOptions {
            ndpi,
            names: self.names,
            tcp_packets: self.packets,
            udp_packets: self.packets,
            max_inspected_percent: self.max_inspected_percent,
            ..AppOptions::default()
        })
    }
}

/// `[kafka]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KafkaConfig {
    /// `host:port`, several separated by commas; empty: records go to exports alone.
    pub brokers: String,
    /// File of the credentials that `weir-probe enrol` keeps; if it exists, its brokers count.
    pub credentials: PathBuf,
    /// Public key (Ed25519, in base 64) of orders to the probe; empty: that of the credentials, or no orders.
    pub orders: String,
    /// Properties of librdkafka.
    pub properties: BTreeMap<String, String>,
}

/// `[limits]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Memory of rings, flow tables and the queue to Kafka together.
    #[serde(deserialize_with = "octets")]
    pub memory: u64,
    /// Maximum number of flow records in one interval, for all workers together.
    pub max_records_per_interval: usize,
    /// A flow ends after this time without packets.
    #[serde(deserialize_with = "duration")]
    pub idle: Duration,
}

/// `[spool]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SpoolConfig {
    /// The folder of all probes' spools; empty: `spool` in `state_dir`.
    pub dir: PathBuf,
    /// Maximum number of octets on disk; 0: no spool.
    #[serde(deserialize_with = "octets")]
    pub max: u64,
}

impl Default for SpoolConfig {
    fn default() -> Self {
        SpoolConfig { dir: PathBuf::new(), max: 4 << 30 }
    }
}

/// `[metrics]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsConfig {
    /// Address and port of the Prometheus endpoint; absent: none.
    pub listen: Option<SocketAddr>,
}

impl Default for Config {
    fn default() -> Self {
        let private = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "fc00::/7", "fe80::/10"];
        Config {
            probe: "local".to_owned(),
            interval: IntervalLength::default(),
            workers: 0,
            state_dir: PathBuf::from("/var/lib/weir-probe"),
            local_networks: private.iter().filter_map(|text| text.parse().ok()).collect(),
            source: SourceConfig::default(),
            packets: PacketsConfig::default(),
            applications: ApplicationsConfig::default(),
            kafka: KafkaConfig::default(),
            export: Vec::new(),
            spool: SpoolConfig::default(),
            limits: Limits::default(),
            filters: FilterConfig::default(),
            collect: CollectConfig::default(),
            privacy: PrivacyConfig::default(),
            metrics: MetricsConfig::default(),
            pseudonyms: None,
        }
    }
}

impl Default for KafkaConfig {
    fn default() -> Self {
        KafkaConfig {
            brokers: "127.0.0.1:9092".to_owned(),
            credentials: PathBuf::from(credentials::DEFAULT_PATH),
            orders: String::new(),
            properties: BTreeMap::new(),
        }
    }
}

impl KafkaConfig {
    fn logs_in(&self) -> bool {
        !self.brokers.is_empty() && self.credentials.exists()
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits { memory: 1 << 30, max_records_per_interval: 1_000_000, idle: Duration::from_secs(60) }
    }
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or a line is wrong; the message quotes the line.
    pub fn read(path: &Path) -> anyhow::Result<Config> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Config::parse(&text).with_context(|| format!("{} is wrong", path.display()))
    }

    /// Reads the file that the option `--config` names; without the option, uses the defaults.
    ///
    /// # Errors
    /// Those of [`Config::read`].
    pub fn read_or_default(path: Option<&Path>) -> anyhow::Result<Config> {
        path.map_or_else(|| Ok(Config::default()), |path| Config::read(path).context("--config"))
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// If a line of it is wrong.
    pub fn parse(text: &str) -> anyhow::Result<Config> {
        let mut config: Config = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            anyhow::anyhow!("line {line}: {}", error.message())
        })?;
        filter::locate(&mut config.filters.sets, text);
        check_probe(&config.probe)?;
        if config.limits.idle > MOST_IDLE {
            bail!("limits.idle must be at most {}", humantime::format_duration(MOST_IDLE));
        }
        if !(1..=MAX_BUDGET).contains(&config.applications.packets) {
            bail!("applications.packets must be from 1 to {MAX_BUDGET}");
        }
        if config.limits.max_records_per_interval == 0 {
            bail!("limits.max_records_per_interval must be at least 1");
        }
        config.source.check()?;
        if (1..LEAST_SPOOL).contains(&config.spool.max) {
            bail!("spool.max must be 0, for no spool, or at least {} octets", LEAST_SPOOL);
        }
        config.pseudonyms = Privacy::open(&config.privacy, &config.local_networks)?;
        if config.pseudonyms.is_some() {
            config.applications.names &= config.privacy.names;
        }
        Ok(config)
    }

    /// Takes the brokers from the credentials, if there are any, and the probe's name, unless one was chosen.
    ///
    /// # Errors
    /// If they cannot be read, or are another probe's.
    pub fn log_in(&mut self) -> anyhow::Result<()> {
        if !self.kafka.logs_in() {
            if !self.kafka.credentials.as_os_str().is_empty() && self.kafka.credentials != Path::new(DEFAULT_PATH) {
                bail!("kafka.credentials: {} does not exist", self.kafka.credentials.display());
            }
            return Ok(());
        }
        let found = Credentials::read(&self.kafka.credentials).context("kafka.credentials")?;
        self.kafka.brokers = found.brokers;
        if self.kafka.orders.is_empty() {
            self.kafka.orders = found.orders.unwrap_or_default();
        }
        match found.probe {
            Some(probe) if self.probe == Config::default().probe => self.probe = probe,
            Some(probe) if self.probe != probe => bail!(
                "{} are the credentials of {probe}, and this probe is {}",
                self.kafka.credentials.display(),
                self.probe
            ),
            _ => {}
        }
        check_probe(&self.probe)
    }

    /// Workers to start.
    pub fn worker_count(&self) -> u32 {
        match self.workers {
            0 => std::thread::available_parallelism().map_or(1, |count| count.get().min(16) as u32),
            count => count,
        }
    }

    /// Metering options of one worker: an even share of all bounds.
    ///
    /// # Errors
    /// If the memory does not suffice for rings and a flow table, or a filter set is wrong.
    pub fn meter(&self, workers: u32, live: bool) -> anyhow::Result<MeterOptions> {
        let ring = if self.source.interface.starts_with("xdp:") {
            af_xdp::RING_OCTETS
        } else {
            self.source.ring_of_each(workers)
        };
        let rings = if live { u64::from(workers) * ring as u64 } else { 0 };
        let share = self.limits.memory.saturating_sub(rings + self.queue_octets()) / u64::from(workers);
        if share < LEAST_SHARE {
            bail!(
                "limits.memory = {} octets is too little for {workers} workers: set at least {}",
                self.limits.memory,
                (rings + LEAST_SHARE * u64::from(workers)) * 4 / 3 + 1
            );
        }
        // An eighth is for names, nDPI's states and waiting fragments.
        let part = (share / 24) as usize;
        let applications = self.applications.options()?;
        Ok(MeterOptions {
            flow_memory: share as usize - 3 * part,
            applications: AppOptions {
                name_octets: part,
                max_inspected: (part / STATE_OCTETS).clamp(1, applications.max_inspected.into()) as u16,
                ..applications
            },
            datagrams: (part / FRAGMENTED_COST).min(MAX_FRAGMENTED),
            interval: self.interval,
            max_records: (self.limits.max_records_per_interval / workers as usize).max(1),
            idle_ms: self.limits.idle.as_millis() as i64,
            local_networks: self.local_networks.clone(),
            filters: Arc::new(self.filter_sets()?),
        })
    }

    /// The filter sets. Their names are published; with pseudonyms, none may hold an address.
    fn filter_sets(&self) -> anyhow::Result<FilterSets> {
        if self.pseudonyms.is_some() {
            filter::refuse_addresses(&self.filters.sets)?;
        }
        FilterSets::compile(&self.filters)
    }

    /// Where messages wait while Kafka does not accept them; `None`: only in memory.
    pub fn spool(&self) -> Option<SpoolOptions> {
        let SpoolConfig { dir, max } = &self.spool;
        let folder = if dir.as_os_str().is_empty() { self.state_dir.join("spool") } else { dir.clone() };
        (*max > 0).then(|| SpoolOptions { folder: folder.join(&self.probe), max_octets: *max })
    }

    /// The identity that the messages of one of `workers` carry.
    pub fn identity(&self, worker: u32, workers: u32, epoch: u64, source: String) -> Identity {
        let interval_ms = self.interval.ms();
        Identity {
            probe: self.probe.clone(),
            worker,
            workers,
            epoch,
            interval_ms,
            source,
            privacy: self.pseudonyms.clone(),
            ..Identity::default()
        }
    }

    /// How to reach Kafka; a live capture never blocks, and has a spool.
    pub fn kafka_options(&self, workers: u32, live: bool) -> KafkaOptions {
        KafkaOptions {
            brokers: self.kafka.brokers.clone(),
            credentials: self.kafka.logs_in().then(|| self.kafka.credentials.clone()),
            properties: self.kafka.properties.clone(),
            probe: self.probe.clone(),
            workers,
            queue_octets: self.queue_octets(),
            wait: !live,
            spool: if live { self.spool() } else { None },
        }
    }

    /// Octets of messages that may wait for Kafka in memory.
    pub fn queue_octets(&self) -> u64 {
        self.limits.memory / 4
    }
}

/// Checks a probe's name, which is part of its topics' names.
///
/// # Errors
/// If it is invalid.
pub fn check_probe(name: &str) -> anyhow::Result<()> {
    let good = |octet: u8| octet.is_ascii_lowercase() || octet.is_ascii_digit();
    let octets = name.as_bytes();
    match octets {
        [first, rest @ ..]
            if good(*first) && rest.len() <= 62 && rest.iter().all(|&octet| good(octet) || octet == b'-') =>
        {
            Ok(())
        }
        _ => bail!("{name:?} cannot be a probe's name: use 1 to 63 characters a-z, 0-9 and -, not beginning with -"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_states_every_default() {
        let example = Config::parse(EXAMPLE).unwrap();
        let default = Config {
            source: SourceConfig { interface: "eth0".to_owned(), ..SourceConfig::default() },
            ..Config::default()
        };
        let with_metrics =
            Config { metrics: MetricsConfig { listen: Some("127.0.0.1:9110".parse().unwrap()) }, ..default };
        assert_eq!(format!("{example:?}"), format!("{with_metrics:?}"));
        for key in [
            "probe",
            "interval",
            "workers",
            "state_dir",
            "local_networks",
            "interface",
            "netns",
            "promiscuous",
            "receive_offloads",
            "cpus",
            "ring",
            "pf_ring_library",
            "tunnels",
            "checksums",
            "ndpi",
            "names",
            "packets",
            "max_inspected_percent",
            "brokers",
            "credentials",
            "properties",
            "dir",
            "max",
            "memory",
            "max_records_per_interval",
            "idle",
            "default",
            "exporters",
            "mode",
            "key_file",
            "period",
            "addresses",
            "names",
            "listen",
        ] {
            assert!(EXAMPLE.lines().any(|line| line.starts_with(&format!("{key} = "))), "{key}");
        }
    }

    #[test]
    fn a_wrong_line_is_named() {
        let error = |text: &str| format!("{:#}", Config::parse(text).unwrap_err());
        assert!(error("probe = \"a\"\nintervall = \"10s\"").contains("line 2: unknown field `intervall`"));
        assert!(error("probe = \"Site A\"").contains("cannot be a probe's name"));
        assert!(error("interval = \"7s\"").contains("one of 1s, 2s"));
        assert!(error("[limits]\nmemory = \"lots\"").contains("512MiB"));
        assert!(error("local_networks = [\"10.0.0.0/33\"]").contains("not an address prefix"));
        assert!(error("[filters.sets.web]\nhttp = 80").contains("line 2: "));
    }

    #[test]
    fn exports_are_read_and_checked() {
        let config = Config::parse(
            "[[export]]\nto = \"ipfix\"\naddress = \"tcp://c:4739\"\n[[export]]\nto = \"netflow-v9\"\naddress = \"c:2055\"\n\
             template = \"@NTOPNG@\"\nbiflow = true\ndomain = 7",
        );
        assert_eq!(config.unwrap().export.len(), 2);
        let error = |lines: &str| {
            format!(
                "{:#}",
                Config::parse(&format!("[[export]]\n{lines}")).and_then(|config| config.export[0].check()).unwrap_err()
            )
        };
        let to =
            |to: &str, address: &str, more: &str| error(&format!("to = \"{to}\"\naddress = \"{address}\"\n{more}"));
        assert!(error("to = \"sflow\"").contains("line 2: unknown variant `sflow`"));
        assert!(error("to = \"ipfix\"").contains("missing field `address`"));
        assert!(to("ipfix", "c:1", "tepmlate = \"\"").contains("unknown field `tepmlate`"));
        assert!(to("ipfix", "c", "").contains("not an address such as"));
        assert!(to("netflow-v9", "tcp://c:1", "").contains("needs udp://"));
        assert!(to("ipfix", "c:1", "template = \"%IN_PKST\"").contains("did you mean %IN_PKTS?"));
    }

    #[test]
    fn the_ring_is_shared_out_but_none_is_too_short() {
        let source = SourceConfig { ring: 64 << 20, ..SourceConfig::default() };
        let mib = |workers| source.ring_of_each(workers) as f64 / f64::from(1 << 20);
        assert_eq!([1, 2, 3, 16, 17].map(mib), [64.0, 32.0, 21.25, 4.0, 4.0]);
        for wrong in ["3MiB", "2GiB", "4194305B"] {
            let error = Config::parse(&format!("[source]\nring = \"{wrong}\"")).unwrap_err();
            assert!(error.to_string().contains("from 4 MiB to 1 GiB"), "{wrong}: {error}");
        }
    }

    #[test]
    fn bounds_are_shared_out() {
        let config = Config::parse("[limits]\nmemory = \"256MiB\"\nmax_records_per_interval = 10").unwrap();
        let (one, four) = (config.meter(1, false).unwrap(), config.meter(4, false).unwrap());
        assert_eq!(one.flow_memory / 4 / 100, four.flow_memory / 100);
        assert_eq!((one.max_records, four.max_records), (10, 2));
        assert!(Config::parse("[limits]\nmemory = \"1MiB\"").unwrap().meter(2, true).is_err());
    }
}
