//! What is kept of exporters over a restart of the agent, as JSON: without their templates, records would have to wait for
//! the next time they are sent, which some exporters do every half hour.

use super::sampling::Of;
use super::sequence::Sequence;
use super::{Exporter, ExporterInfo, Exporters, Protocol};
use crate::collect::element::template::{Template, TemplateField};
use crate::collect::limits::DecodeLimits;
use crate::packet::{self, Address, readable};
use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// The form's name and version: another one is not read.
const FORM: &str = "weir exporters 1";

#[derive(Serialize, Deserialize)]
struct Saved {
    form: String,
    exporters: Vec<SavedExporter>,
}

#[derive(Serialize, Deserialize)]
struct SavedExporter {
    address: IpAddr,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    agent: Option<IpAddr>,
    protocol: String,
    domain: u32,
    heard_ms: i64,
    sequence: Sequence,
    /// ms since its boot, and when it said so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    uptime: Option<(u32, i64)>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    boot_ms: Option<i64>,
    templates: Vec<SavedTemplate>,
    rates: Vec<SavedRate>,
}

#[derive(Serialize, Deserialize)]
struct SavedTemplate {
    id: u16,
    /// Of options alone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    scopes: Option<u16>,
    /// [enterprise, element, octets] each.
    fields: Vec<TemplateField>,
}

/// One packet in so many, of a sampler, of an interface or of all.
#[derive(Serialize, Deserialize)]
struct SavedRate {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    sampler: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    interface: Option<u32>,
    rate: u32,
}

impl Exporters {
    /// All of them as JSON; those heard last first.
    pub(in crate::collect) fn save(&self) -> Vec<u8> {
        let mut exporters: Vec<&Exporter> = self.iter().collect();
        exporters.sort_by_key(|exporter| std::cmp::Reverse(exporter.heard_ms));
        let saved = Saved { form: FORM.to_owned(), exporters: exporters.into_iter().map(SavedExporter::of).collect() };
        // Nothing in it can fail to be JSON.
        serde_json::to_vec_pretty(&saved).unwrap_or_default()
    }

    /// Takes in what [`Exporters::save`] gave, within these limits: of more exporters, those heard last.
    ///
    /// # Errors
    /// Where it is not what `save` gave; nothing is taken in then.
    pub(in crate::collect) fn restore(&mut self, saved: &[u8], limits: &DecodeLimits) -> anyhow::Result<()> {
        let saved: Saved = serde_json::from_slice(saved).context("the saved state of exporters cannot be read")?;
        ensure!(saved.form == FORM, "the saved state of exporters is of the form {:?}, not {FORM:?}", saved.form);
        let mut exporters = saved
            .exporters
            .into_iter()
            .map(|exporter| exporter.restored(limits))
            .collect::<anyhow::Result<Vec<Exporter>>>()?;
        exporters.sort_by_key(|exporter| std::cmp::Reverse(exporter.heard_ms));
        for exporter in exporters.into_iter().take(limits.exporters) {
            let info = exporter.info;
            *self.get(&info, limits) = exporter;
        }
        Ok(())
    }
}

impl SavedExporter {
    fn of(exporter: &Exporter) -> SavedExporter {
        let info = &exporter.info;
        let mut templates: Vec<SavedTemplate> = exporter
            .templates
            .iter()
            .map(|(&id, template)| SavedTemplate { id, scopes: template.scopes, fields: template.fields.clone() })
            .collect();
        templates.sort_by_key(|template| template.id);
        let mut rates: Vec<SavedRate> = exporter
            .rates
            .iter()
            .map(|(of, rate)| match of {
                Of::Domain => SavedRate { sampler: None, interface: None, rate },
                Of::Sampler(sampler) => SavedRate { sampler: Some(sampler), interface: None, rate },
                Of::Interface(interface) => SavedRate { sampler: None, interface: Some(interface), rate },
            })
            .collect();
        rates.sort_by_key(|rate| (rate.sampler, rate.interface));
        SavedExporter {
            address: readable(&info.address),
            agent: (info.protocol == Protocol::Sflow).then(|| readable(&info.agent)),
            protocol: info.protocol.name().to_owned(),
            domain: info.domain,
            heard_ms: exporter.heard_ms,
            sequence: exporter.sequence.clone(),
            uptime: exporter.uptime,
            boot_ms: exporter.boot_ms,
            templates,
            rates,
        }
    }

    fn restored(self, limits: &DecodeLimits) -> anyhow::Result<Exporter> {
        let protocol = Protocol::ALL.into_iter().find(|protocol| protocol.name() == self.protocol);
        let protocol = protocol.with_context(|| format!("the saved protocol {:?} is not known", self.protocol))?;
        let agent = self.agent.map_or(Address::default(), packet::address);
        let info = ExporterInfo { address: packet::address(self.address), agent, protocol, domain: self.domain };
        let mut exporter = Exporter::new(info);
        exporter.heard_ms = self.heard_ms;
        exporter.sequence = self.sequence;
        exporter.uptime = self.uptime;
        exporter.boot_ms = self.boot_ms;
        for SavedTemplate { id, scopes, fields } in self.templates.into_iter().take(limits.templates) {
            let template = Template::new(fields, scopes, self.heard_ms, limits).ok().filter(|_| id >= 256);
            exporter.templates.insert(id, template.with_context(|| format!("the saved template {id} is none"))?);
        }
        for SavedRate { sampler, interface, rate } in self.rates.into_iter().take(limits.options) {
            let of = match (sampler, interface) {
                (Some(sampler), _) => Of::Sampler(sampler),
                (None, Some(interface)) => Of::Interface(interface),
                (None, None) => Of::Domain,
            };
            exporter.rates.set(of, rate, self.heard_ms, limits.options);
        }
        Ok(exporter)
    }
}
