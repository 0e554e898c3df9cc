//! `[[export]]` of the configuration, and the targets that it names.

#![warn(missing_docs)]

use super::collector::{Collector, CollectorAddress, ToCollector};
use super::elements::{DEFAULT, ExportTemplate};
use super::ipfix::ExportProtocol;
use super::nprobe_kafka::{self, ToKafka, ToTopic};
use super::nprobe_zmq::{Ntopng, ToNtopng};
use super::target::ExportTarget;
use anyhow::{Context as _, bail};
use serde::Deserialize;

/// One `[[export]]`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(tag = "to", rename_all = "kebab-case")]
pub enum ExportConfig {
    /// IPFIX to a collector.
    Ipfix(ToCollector),
    /// NetFlow v9 to a collector.
    NetflowV9(ToCollector),
    /// nProbe's JSON to a topic of Kafka.
    NprobeKafka(ToKafka),
    /// nProbe's JSON to ntopng.
    NprobeZmq(ToNtopng),
}

/// Settings of `--export` other than form and address.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExportOptions<'a> {
    /// Template; empty: the form's own.
    pub template: &'a str,
    /// Both directions in one record.
    pub biflow: bool,
    /// Names for keys of JSON.
    pub json_labels: bool,
    /// Properties of librdkafka, each `key=value`.
    pub kafka_conf: &'a [String],
}

impl ExportConfig {
    /// Its name in logs and metrics.
    pub fn name(&self) -> String {
        match self {
            ExportConfig::Ipfix(to) => format!("ipfix {}", to.address),
            ExportConfig::NetflowV9(to) => format!("netflow-v9 {}", to.address),
            ExportConfig::NprobeKafka(to) => format!("nprobe-kafka {} {}", to.brokers, to.topic),
            ExportConfig::NprobeZmq(to) => format!("nprobe-zmq {}", to.address),
        }
    }

    /// Checks everything that needs no connection.
    ///
    /// # Errors
    /// If an address or template is wrong.
    pub fn check(&self) -> anyhow::Result<()> {
        self.build().map(drop).with_context(|| format!("export {:?}", self.name()))
    }

    /// The sender for this form.
    pub(super) fn build(&self) -> anyhow::Result<Built> {
        match self {
            ExportConfig::Ipfix(to) => to.build(ExportProtocol::Ipfix),
            ExportConfig::NetflowV9(to) => to.build(ExportProtocol::V9),
            ExportConfig::NprobeKafka(to) => {
                let (template, left_out) = json_template(&to.template)?;
                let target = ToTopic::new(&to.brokers, &to.topic, &to.properties, template, to.json_labels)?;
                Ok(Built { target: Box::new(target), left_out })
            }
            ExportConfig::NprobeZmq(to) => {
                let (template, left_out) = json_template(&to.template)?;
                let target = Ntopng::new(to, template)?;
                Ok(Built { target: Box::new(target), left_out })
            }
        }
    }

    /// Parses the value of `--export`: form, `=`, address.
    ///
    /// # Errors
    /// If it has another form.
    pub fn parse(text: &str, options: ExportOptions<'_>) -> anyhow::Result<ExportConfig> {
        let Some((form, address)) = text.split_once('=') else {
            bail!("{text:?} is not an export such as \"ipfix=udp://192.0.2.7:4739\"");
        };
        let (address, template) = (address.to_owned(), options.template.to_owned());
        let ExportOptions { biflow, json_labels, .. } = options;
        let config = match form {
            "ipfix" => ExportConfig::Ipfix(ToCollector { address, template, biflow, domain: 0 }),
            "netflow-v9" => ExportConfig::NetflowV9(ToCollector { address, template, biflow, domain: 0 }),
            "nprobe-kafka" => {
                let (brokers, topic, mut properties) = nprobe_kafka::parse(&address)?;
                nprobe_kafka::add(&mut properties, options.kafka_conf)?;
                ExportConfig::NprobeKafka(ToKafka { brokers, topic, properties, template, json_labels })
            }
            "nprobe-zmq" => ExportConfig::NprobeZmq(ToNtopng { address, template, json_labels, ..ToNtopng::default() }),
            _ => bail!("{form:?} is not a form of export: use ipfix, netflow-v9, nprobe-kafka or nprobe-zmq"),
        };
        config.check()?;
        Ok(config)
    }
}

impl ToCollector {
    fn build(&self, protocol: ExportProtocol) -> anyhow::Result<Built> {
        let address: CollectorAddress = self.address.parse()?;
        if let (ExportProtocol::V9, CollectorAddress::Tcp(_)) = (protocol, &address) {
            bail!("NetFlow v9 needs udp://; ipfix can also use tcp://");
        }
        let template = if self.template.is_empty() { DEFAULT } else { &self.template };
        let template = ExportTemplate::parse(template, self.biflow)?;
        let left_out = template.left_out.clone();
        Ok(Built { target: Box::new(Collector::new(protocol, address, &template, self.domain)), left_out })
    }
}

/// The template of a form with both directions in one record, and the elements of it that the agent does not measure.
fn json_template(text: &str) -> anyhow::Result<(ExportTemplate, Vec<String>)> {
    let template = ExportTemplate::parse(if text.is_empty() { "@NTOPNG@" } else { text }, true)?;
    let left_out = template.left_out.clone();
    Ok((template, left_out))
}

/// The sender, and the elements of its template that it leaves out.
pub(super) struct Built {
    pub(super) target: Box<dyn ExportTarget>,
    pub(super) left_out: Vec<String>,
}
