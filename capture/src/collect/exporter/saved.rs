//! State of exporters kept across a restart of the agent, as JSON: without it, records would have to wait until the
//! templates are sent again, which some exporters do every half hour.

use crate::collect::element::field::TemplateField;
use crate::collect::element::template::{KnownTemplate, Template};
use crate::collect::exporter::counting::Counting;
use crate::collect::exporter::origin::ExporterInfo;
use crate::collect::exporter::origin::Protocol;
use crate::collect::exporter::origin::Session;
use crate::collect::exporter::sampling::Of;
use crate::collect::exporter::session::Talk;
use crate::collect::exporter::{Exporter, ExporterSource, Exporters};
use crate::collect::limits::DecodeLimits;
use crate::packet::{self, Address};
use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// The name and version of the format, the only one that is read.
const FORM: &str = "weir exporters 2";

/// Maximum octets of a saved state.
pub const MOST_SAVED: usize = 16 << 20;

/// The state of exporters at one time, apart from the exporters, so that another thread can write it.
#[derive(Serialize, Deserialize)]
pub struct Saved {
    form: String,
    exporters: Vec<SavedExporter>,
}

impl Saved {
    /// As JSON, at most `most` octets: of too many exporters, it has the first ones.
    pub fn json(&self, most: usize) -> Vec<u8> {
        // The form is a word of ours.
        let mut text = format!("{{\"form\":\"{}\",\"exporters\":[", self.form).into_bytes();
        for (at, exporter) in self.exporters.iter().enumerate() {
            // Every value in it can be written as JSON.
            let one = serde_json::to_vec(exporter).unwrap_or_default();
            if text.len() + one.len() + 3 > most {
                tracing::warn!(
                    "the saved state has {at} of {} exporters: others send templates again after a restart",
                    self.exporters.len()
                );
                break;
            }
            if at > 0 {
                text.push(b',');
            }
            text.extend(one);
        }
        text.extend(b"]}");
        text
    }
}

#[derive(Serialize, Deserialize)]
struct SavedExporter {
    address: IpAddr,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    agent: Option<IpAddr>,
    protocol: String,
    domain: u32,
    /// Whether it sent data.
    #[serde(default = "yes")]
    data: bool,
    sessions: Vec<SavedSession>,
    /// sFlow's sources of samples, each with its number.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    sources: Vec<(u64, ExporterSource)>,
}

/// Agents up to 0.1.0 do not say whether an exporter sent data.
fn yes() -> bool {
    true
}

/// State of one session.
#[derive(Serialize, Deserialize)]
struct SavedSession {
    port: u16,
    local_port: u16,
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    stream: bool,
    heard_ms: i64,
    #[serde(default)]
    datagrams: u64,
    counting: Counting,
    /// The exporter's uptime, ms, and the time at which it stated that uptime.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    uptime: Option<(u32, i64)>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    boot_ms: Option<i64>,
    /// The earlier session of the same exporter that has these templates, too; else its own.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    templates_of: Option<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    templates: Vec<SavedTemplate>,
    rates: Vec<SavedRate>,
    /// Why rates are unknown, if they are.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    sampling: String,
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

/// One packet in this many, for a sampler, an interface, a template or everything.
#[derive(Serialize, Deserialize)]
struct SavedRate {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    sampler: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    interface: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    template: Option<u16>,
    rate: u32,
}

impl Exporters {
    /// Templates, sampling rates, sequence numbers and uptimes of all exporters; those that sent most first, and of these
    /// the most recently heard.
    pub fn save(&self) -> Saved {
        let mut exporters: Vec<&Exporter> = self.iter().collect();
        exporters.sort_by_key(|exporter| std::cmp::Reverse((exporter.standing(), exporter.heard_ms)));
        Saved { form: FORM.to_owned(), exporters: exporters.into_iter().map(SavedExporter::of).collect() }
    }

    /// Restores the JSON of [`Exporters::save`] within this decoder's limits: of too many exporters, it keeps the
    /// most recently heard. If a session is already known, such as from another worker's state, the more recently heard
    /// one is kept, and of equally recent ones the one restored last.
    ///
    /// # Errors
    /// If `saved` is not the JSON of a saved state; the decoder is then unchanged.
    pub fn restore(&mut self, saved: &[u8], limits: &DecodeLimits) -> anyhow::Result<()> {
        let saved: Saved = serde_json::from_slice(saved).context("the saved state of exporters cannot be read")?;
        ensure!(saved.form == FORM, "the saved state of exporters has the format {:?}, not {FORM:?}", saved.form);
        let mut exporters = saved
            .exporters
            .into_iter()
            .map(|exporter| exporter.restored(limits))
            .collect::<anyhow::Result<Vec<Exporter>>>()?;
        exporters.sort_by_key(|exporter| std::cmp::Reverse((exporter.had_data, exporter.heard_ms)));
        self.is_unsure |= exporters.len() > limits.exporters;
        for restored in exporters.into_iter().take(limits.exporters) {
            let exporter = self.get(&restored.info, limits);
            exporter.is_known = true;
            exporter.had_data |= restored.had_data;
            exporter.heard_ms = exporter.heard_ms.max(restored.heard_ms);
            exporter.talks.splice(..0, restored.talks);
            // The most recently heard sessions first, each once; of equally recent ones, the one restored last.
            exporter.talks.sort_by_key(|talk| std::cmp::Reverse(talk.heard_ms));
            let mut seen = Vec::new();
            exporter.talks.retain(|talk| {
                let is_new = !seen.contains(&talk.session);
                seen.push(talk.session);
                is_new
            });
            exporter.talks.truncate(limits.sessions);
            for (id, source) in restored.sources {
                let known = exporter.sources.get(&id).is_some_and(|known| known.heard_ms > source.heard_ms);
                if !known {
                    let heard_ms = source.heard_ms;
                    *exporter.source(id, heard_ms, limits).0 = source;
                }
            }
        }
        (0..self.slots.len()).for_each(|slot| self.bound_options(slot, limits));
        self.fields = self.slots.iter().map(Exporter::template_fields).sum();
        self.bound_templates(0, limits);
        Ok(())
    }
}

impl SavedExporter {
    fn of(exporter: &Exporter) -> SavedExporter {
        let info = &exporter.info;
        let mut talks: Vec<&Talk> = exporter.talks.iter().collect();
        talks.sort_by_key(|talk| (talk.session.port, talk.session.local_port, talk.session.stream));
        let earlier = |(at, talk): (usize, &&Talk)| {
            talks[..at].iter().position(|other| other.templates.is_shared_with(&talk.templates))
        };
        let sessions = talks.iter().enumerate().map(|(at, talk)| SavedSession::of(talk, earlier((at, talk)))).collect();
        let mut sources: Vec<_> = exporter.sources.iter().map(|(&id, source)| (id, source.clone())).collect();
        sources.sort_by_key(|(id, _)| *id);
        SavedExporter {
            address: packet::readable(&info.address),
            agent: (info.protocol == Protocol::Sflow).then(|| packet::readable(&info.agent)),
            protocol: info.protocol.name().to_owned(),
            domain: info.domain,
            data: exporter.has_data(),
            sessions,
            sources,
        }
    }

    fn restored(self, limits: &DecodeLimits) -> anyhow::Result<Exporter> {
        let protocol = Protocol::ALL.into_iter().find(|protocol| protocol.name() == self.protocol);
        let protocol = protocol.with_context(|| format!("the saved protocol {:?} is unknown", self.protocol))?;
        let agent = self.agent.map_or(Address::default(), packet::address);
        let info = ExporterInfo { address: packet::address(self.address), agent, protocol, domain: self.domain };
        let mut exporter = Exporter { had_data: self.data, ..Exporter::new(info) };
        for session in self.sessions.into_iter().take(limits.sessions) {
            let templates =
                session.templates_of.and_then(|at| exporter.talks.get(at)).map(|talk| talk.templates.clone());
            let mut talk = session.restored(info.address, limits)?;
            if let Some(templates) = templates {
                talk.templates = templates;
            }
            exporter.talks.push(talk);
        }
        exporter.sources = self.sources.into_iter().take(limits.options).collect();
        exporter.heard_ms = exporter.talks.iter().map(|talk| talk.heard_ms).max().unwrap_or(i64::MIN);
        Ok(exporter)
    }
}

impl SavedSession {
    /// `templates_of`: the place of an earlier session that shares its templates.
    fn of(talk: &Talk, templates_of: Option<usize>) -> SavedSession {
        let own = talk.templates.iter().filter(|_| templates_of.is_none());
        let mut templates: Vec<SavedTemplate> = own
            .map(|(&id, KnownTemplate { template, .. })| SavedTemplate {
                id,
                scopes: template.scopes,
                fields: template.fields.clone(),
            })
            .collect();
        templates.sort_by_key(|template| template.id);
        let none = |rate| SavedRate { sampler: None, interface: None, template: None, rate };
        let mut rates: Vec<SavedRate> = talk
            .rates
            .iter()
            .map(|(of, rate)| match of {
                Of::Domain => none(rate),
                Of::Sampler(sampler) => SavedRate { sampler: Some(sampler), ..none(rate) },
                Of::Interface(interface) => SavedRate { interface: Some(interface), ..none(rate) },
                Of::Template(template) => SavedRate { template: Some(template), ..none(rate) },
            })
            .collect();
        rates.sort_by_key(|rate| (rate.sampler, rate.interface, rate.template));
        SavedSession {
            port: talk.session.port,
            local_port: talk.session.local_port,
            stream: talk.session.stream,
            heard_ms: talk.heard_ms,
            datagrams: talk.datagrams,
            counting: talk.counting.clone(),
            uptime: talk.uptime,
            boot_ms: talk.boot_ms,
            templates_of,
            templates,
            rates,
            sampling: talk.rates.state().name().to_owned(),
        }
    }

    fn restored(self, address: Address, limits: &DecodeLimits) -> anyhow::Result<Talk> {
        let SavedSession { port, local_port, stream, heard_ms, .. } = self;
        let mut talk = Talk::new(Session { address, port, local_port, stream });
        talk.heard_ms = heard_ms;
        talk.datagrams = self.datagrams;
        talk.counting = self.counting;
        talk.uptime = self.uptime;
        talk.boot_ms = self.boot_ms;
        for SavedTemplate { id, scopes, fields } in self.templates.into_iter().take(limits.templates) {
            let template = Template::new(fields, scopes, limits).ok().filter(|_| id >= 256);
            let template = template.with_context(|| format!("the saved template {id} is invalid"))?;
            talk.templates.insert(id, KnownTemplate::new(template, heard_ms));
        }
        for SavedRate { sampler, interface, template, rate } in self.rates.into_iter().take(limits.options) {
            let of = match (sampler, interface, template) {
                (Some(sampler), _, _) => Of::Sampler(sampler),
                (None, Some(interface), _) => Of::Interface(interface),
                (None, None, Some(template)) => Of::Template(template),
                (None, None, None) => Of::Domain,
            };
            talk.rates.set(of, rate, heard_ms, limits.options);
        }
        talk.rates.restore_state(&self.sampling);
        Ok(talk)
    }
}
