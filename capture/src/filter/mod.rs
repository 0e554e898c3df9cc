//! Filter sets: named sets of labelled BPF expressions, each label of which counts packets and octets (the BPF graphs
//! of Ourmon, Binkley and Massey 2005).
//!
//! libpcap compiles the expressions. An expression that reads only fields constant in a flow is evaluated once for each
//! record and direction, when the interval closes ([`FilterCounts::flow`]); the others are evaluated for each packet
//! ([`FilterCounts::packet`]). Either way most answers come from a memory of verdicts: [`decide`].

pub mod analysis;
pub mod bpf;
pub mod classes;
pub mod decide;
pub mod pcap;
pub mod subject;

use crate::packet::IpPacket;
use crate::volume::Volume;
use analysis::{Explorer, Row};
use anyhow::{Context as _, bail};
use bpf::Program;
use decide::{Decider, Memory};
use pcap::Compiler;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::ops::AddAssign;
use std::sync::Arc;
use subject::{FlowSubject, Subject};
use toml::Spanned;

/// The shipped sets, in the form of the configuration.
pub const DEFAULT_SETS: &str = include_str!("../../filters.default.toml");

/// Counter sets that `counters.proto` fixes.
const FIXED_SETS: [&str; 9] =
    ["cast", "ip_version", "protocol", "size", "drops", "fragments", "checksums", "applications", "exporters"];

/// Expressions by label by set.
pub type Sets = BTreeMap<String, BTreeMap<String, Expression>>;

/// `[filters]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[warn(missing_docs)]
pub struct FilterConfig {
    /// Also use the shipped sets; a configured set replaces a shipped one of the same name.
    pub default: bool,
    /// Configured sets.
    pub sets: Sets,
    /// Number of the order that the sets come from; 0: the configuration.
    #[serde(skip)]
    pub order: u64,
}

impl Default for FilterConfig {
    fn default() -> Self {
        FilterConfig { default: true, sets: Sets::new(), order: 0 }
    }
}

/// An expression of pcap-filter(7), and its line in the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Spanned<String>")]
#[warn(missing_docs)]
pub struct Expression {
    /// The expression.
    pub text: String,
    /// Line in its file, from 1, set by [`locate`].
    pub line: Option<usize>,
    offset: usize,
}

impl From<Spanned<String>> for Expression {
    fn from(text: Spanned<String>) -> Expression {
        Expression { offset: text.span().start, line: None, text: text.into_inner() }
    }
}

/// Notes the lines of expressions that were read from `file`.
pub fn locate(sets: &mut Sets, file: &str) {
    for expression in sets.values_mut().flat_map(BTreeMap::values_mut) {
        let before = &file.as_bytes()[..expression.offset.min(file.len())];
        expression.line = Some(before.iter().filter(|&&octet| octet == b'\n').count() + 1);
    }
}

/// Checks that no counter names an address: names of sets and labels are published as they are.
///
/// # Errors
/// If one does.
pub fn refuse_addresses(sets: &Sets) -> anyhow::Result<()> {
    for (set, labels) in sets {
        for name in std::iter::once(set).chain(labels.keys()) {
            if names_address(name) {
                bail!("filters.sets.{set}: {name:?} names an address, which [privacy] must not publish");
            }
        }
    }
    Ok(())
}

/// Whether a name has an address in it: `2001:db8::7`, `192.0.2.7:443`, and with other separators, `host-192-0-2-7`,
/// `2001_db8__7`.
fn names_address(name: &str) -> bool {
    let v4 = |separator: char| {
        let parts: Vec<&str> = name.split(separator).collect();
        parts.windows(4).any(|four| {
            // What is beside the first and the last number is no part of them.
            let first = four[0].rsplit(|letter: char| !letter.is_ascii_digit()).next().unwrap_or_default();
            let last = four[3].split(|letter: char| !letter.is_ascii_digit()).next().unwrap_or_default();
            [first, four[1], four[2], last].iter().all(|number| {
                number.len() <= 3 && number.bytes().all(|digit| digit.is_ascii_digit()) && number.parse::<u8>().is_ok()
            })
        })
    };
    let v6 = |separator: char| {
        name.replace(separator, ":").split(|letter: char| !(letter.is_ascii_hexdigit() || ".:".contains(letter))).any(
            |word| {
                let word = word.trim_end_matches('.');
                [word, word.strip_suffix(':').unwrap_or(word)].iter().any(|word| word.parse::<Ipv6Addr>().is_ok())
            },
        )
    };
    ['.', '-', '_'].into_iter().any(v4) || [':', '-', '_'].into_iter().any(v6)
}

/// The shipped sets.
///
/// # Errors
/// If they are not valid configuration, which a test rules out.
pub fn default_sets() -> anyhow::Result<Sets> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        filters: Filters,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Filters {
        sets: Sets,
    }
    Ok(toml::from_str::<File>(DEFAULT_SETS).context("the shipped filter sets are wrong")?.filters.sets)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    pub set: String,
    /// Name within the set.
    pub label: String,
}

/// All sets, compiled. Does not change: workers share it.
#[derive(Debug)]
pub struct FilterSets {
    labels: Arc<[Label]>,
    programs: Vec<Program>,
    flows: Decider,
    packets: Decider,
    /// Labels that are counted per packet.
    per_packet: Vec<u32>,
    order: u64,
}

impl Default for FilterSets {
    /// No sets.
    fn default() -> FilterSets {
        FilterSets::decided(Vec::new(), Vec::new(), 0)
    }
}

impl FilterSets {
    /// Compiles the sets of a configuration. Without libpcap, it leaves out only the shipped sets, with a warning.
    ///
    /// # Errors
    /// One line: an invalid name or expression, with its line; libpcap missing ([`pcap::NoLibpcap`]).
    pub fn compile(config: &FilterConfig) -> anyhow::Result<FilterSets> {
        let mut sets = if config.default { default_sets()? } else { Sets::new() };
        sets.extend(config.sets.clone());
        if sets.values().all(BTreeMap::is_empty) {
            return Ok(FilterSets::decided(Vec::new(), Vec::new(), config.order));
        }
        let compiler = match Compiler::load() {
            Ok(compiler) => compiler,
            Err(error) if config.sets.is_empty() => {
                tracing::warn!(
                    "the shipped filter sets are off: {error}; filters.default = false silences this message"
                );
                return Ok(FilterSets::decided(Vec::new(), Vec::new(), config.order));
            }
            Err(error) => return Err(error.into()),
        };
        let (mut labels, mut programs) = (Vec::new(), Vec::new());
        for (set, expressions) in &sets {
            check_name(set).with_context(|| format!("filters.sets.{set:?}"))?;
            if FIXED_SETS.contains(&set.as_str()) {
                bail!("filters.sets.{set}: every agent already counts a set of this name; choose another");
            }
            for (label, expression) in expressions {
                let line = expression.line.map_or_else(String::new, |line| format!("line {line}: "));
                let place = || format!("{line}filters.sets.{set}.{label} = {:?}", expression.text);
                check_name(label).with_context(place)?;
                programs.push(compiler.compile(&expression.text).with_context(place)?);
                labels.push(Label { set: set.clone(), label: label.clone() });
            }
        }
        Ok(FilterSets::decided(labels, programs, config.order))
    }

    fn decided(labels: Vec<Label>, programs: Vec<Program>, order: u64) -> FilterSets {
        let mut explorer = Explorer::default();
        let (constant, per_packet): (Vec<u32>, Vec<u32>) = (0..programs.len() as u32)
            .partition(|&number| decide::constant_in_flows(&programs[number as usize], &mut explorer));
        FilterSets {
            labels: labels.into(),
            flows: Decider::new(&programs, &constant, false, &mut explorer),
            packets: Decider::new(&programs, &per_packet, true, &mut explorer),
            programs,
            per_packet,
            order,
        }
    }

    /// Number of the order that they come from; 0: the configuration.
    pub fn order(&self) -> u64 {
        self.order
    }

    /// The labels, set by set.
    pub fn labels(&self) -> &[Label] {
        &self.labels
    }

    /// The labels that must be counted per packet; the others are constant in flows.
    pub fn per_packet(&self) -> impl Iterator<Item = &Label> {
        self.per_packet.iter().map(|&number| &self.labels[number as usize])
    }

    /// Whether [`FilterCounts::flow`] may count anything.
    pub fn counts_flows(&self) -> bool {
        !self.flows.is_empty()
    }

    /// Whether [`FilterCounts::packet`] may count anything.
    pub fn counts_packets(&self) -> bool {
        !self.packets.is_empty()
    }
}

/// Checks the name of a set or a label, which become strings of the counters topic.
fn check_name(name: &str) -> anyhow::Result<()> {
    let good = |octet: u8| octet.is_ascii_lowercase() || octet.is_ascii_digit() || b"_.-".contains(&octet);
    if (1..=63).contains(&name.len()) && name.bytes().all(good) {
        return Ok(());
    }
    bail!("{name:?} cannot be the name of a set or label: use 1 to 63 characters a-z, 0-9, _, . and -");
}

/// Counts the labels, interval by interval. Remembered verdicts outlast an interval.
#[derive(Debug)]
pub struct FilterCounts {
    sets: Arc<FilterSets>,
    flows: Memory,
    packets: Memory,
    volumes: Vec<Volume>,
    /// Buffer for synthesised packets on which programs run.
    scratch: Vec<u8>,
}

impl FilterCounts {
    /// Nothing counted yet.
    pub fn new(sets: Arc<FilterSets>) -> FilterCounts {
        FilterCounts {
            flows: Memory::new(&sets.flows),
            packets: Memory::new(&sets.packets),
            volumes: vec![Volume::default(); sets.labels.len()],
            scratch: Vec::new(),
            sets,
        }
    }

    /// The counted sets.
    pub fn sets(&self) -> &Arc<FilterSets> {
        &self.sets
    }

    /// Counts the volume that one end of a flow sent in the interval, for the expressions that are constant in flows.
    /// Calls `flow` only if there is something to count.
    #[inline]
    pub fn flow(&mut self, flow: impl FnOnce() -> FlowSubject, volume: Volume) {
        if volume.packets > 0 {
            self.constant(&flow(), volume);
        }
    }

    #[inline]
    fn constant(&mut self, flow: &FlowSubject, volume: Volume) {
        let FilterCounts { sets, flows, volumes, .. } = self;
        let plans = sets.flows.plans(flow.row);
        if !plans.is_empty() {
            flows.count(&sets.flows, plans, &sets.programs, flow, volume, volumes);
        }
    }

    /// Counts a packet of `octets` layer-3 octets, of which `data` was captured from the IP header on, for the
    /// expressions that are not constant in flows.
    #[inline]
    pub fn packet(&mut self, ip: &IpPacket, data: &[u8], octets: u32) {
        if !self.sets.per_packet.is_empty() && !self.sets.packets.plans(Row::of(ip)).is_empty() {
            self.ask(ip, data, octets);
        }
    }

    fn ask(&mut self, ip: &IpPacket, data: &[u8], octets: u32) {
        let FilterCounts { sets, packets, volumes, scratch, .. } = self;
        let plans = sets.packets.plans(Row::of(ip));
        let subject = Subject::packet(ip, data, octets, scratch);
        packets.count(&sets.packets, plans, &sets.programs, &subject, Volume::one(octets), volumes);
    }

    /// Counts packets that are in no flow record, for the expressions that are constant in flows.
    pub fn unrecorded(&mut self, ip: &IpPacket, volume: Volume) {
        self.constant(&FlowSubject::of_packet(ip), volume);
    }

    /// Returns the counts and resets them.
    pub fn take(&mut self) -> FilterVolumes {
        self.flows.settle(&mut self.volumes);
        self.packets.settle(&mut self.volumes);
        let empty = vec![Volume::default(); self.volumes.len()];
        FilterVolumes { names: self.sets.labels.clone(), volumes: std::mem::replace(&mut self.volumes, empty) }
    }
}

/// The counts of all labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterVolumes {
    names: Arc<[Label]>,
    volumes: Vec<Volume>,
}

impl FilterVolumes {
    /// Every label that counted something, as (set, label, volume).
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str, Volume)> {
        self.names
            .iter()
            .zip(&self.volumes)
            .filter(|(_, volume)| volume.packets > 0)
            .map(|(name, &volume)| (name.set.as_str(), name.label.as_str(), volume))
    }
}

impl AddAssign<&FilterVolumes> for FilterVolumes {
    /// Adds the counts of the same sets from elsewhere; to the default value, the counts of any sets.
    fn add_assign(&mut self, other: &FilterVolumes) {
        if self.volumes.is_empty() {
            *self = other.clone();
            return;
        }
        for (sum, &more) in self.volumes.iter_mut().zip(&other.volumes) {
            *sum += more;
        }
    }
}

#[cfg(test)]
mod tests;
