//! A closing record's report on each exporter: records received, lost and unreadable since the previous closing record.

use super::cause::{Causes, Refusal};
use super::decode::Known;
use super::exporter::Counts;
use super::exporter::counting::Unit;
use super::exporter::origin::{ExporterInfo, Protocol};
use crate::packet;
use crate::proto;
use std::collections::HashMap;

/// Number of exporters that never sent data and are reported one by one; others are reported together.
const MOST_STRANGERS: usize = 64;
/// Number of exporters whose records without a sampling rate are counted apart within an interval.
const MOST_UNSAMPLED: usize = 16_384;

/// Exporter counts already reported in closing records.
#[derive(Clone, Copy, Default)]
struct Reported {
    datagrams: u64,
    records: u64,
    lost: u64,
    causes: Causes,
}

/// Counts of exporters, and the part that closing records have already reported.
#[derive(Default)]
pub struct ExporterReports {
    /// Records without a sampling rate since the last closing record.
    unsampled: HashMap<ExporterInfo, u64>,
    unsampled_of_others: u64,
    without_sampling_rate: u64,
    reported: HashMap<ExporterInfo, Reported>,
    /// Counts over all exporters, known or not, that closing records have reported.
    reported_in_all: Reported,
}

impl ExporterReports {
    pub fn unsampled(&mut self, of: ExporterInfo, records: u64) {
        if self.unsampled.len() >= MOST_UNSAMPLED && !self.unsampled.contains_key(&of) {
            self.unsampled_of_others += records;
        } else {
            *self.unsampled.entry(of).or_default() += records;
        }
    }

    pub fn without_sampling_rate(&self) -> u64 {
        self.without_sampling_rate
    }

    /// Counts of each exporter since the previous call; `counts` and `lost`: over all, including data of no known
    /// exporter, and each exporter's losses in its own unit.
    pub fn since<'a>(
        &mut self,
        exporters: impl Iterator<Item = Known<'a>>,
        counts: &Counts,
        lost: u64,
    ) -> Vec<proto::Exporter> {
        let mut all = Vec::new();
        // Counts of exporters that are no longer known, and of data of no known exporter.
        let now = Reported { records: counts.records, lost, causes: counts.causes, ..Reported::default() };
        let before = std::mem::replace(&mut self.reported_in_all, now);
        let mut strange = Reported {
            records: counts.records.saturating_sub(before.records),
            lost: lost.saturating_sub(before.lost),
            causes: less(&counts.causes, &before.causes),
            ..Reported::default()
        };
        let mut said = std::mem::take(&mut self.reported);
        let mut strangers = 0;
        for known in exporters {
            let (unit, sampling) = (known.unit, known.sampling_state.name());
            let (info, has_data, known) = (known.info, known.has_data, known.counts);
            // An exporter that was forgotten meanwhile counts from 0 again.
            let reported = said.remove(info).filter(|reported| reported.datagrams <= known.datagrams);
            let reported = reported.unwrap_or_default();
            let causes = less(&known.causes, &reported.causes);
            let lost = known.lost(info.protocol);
            let since = proto::Exporter {
                addr: packet::shortest(info.speaker()).to_vec(),
                domain: info.domain,
                protocol: info.protocol.name().to_owned(),
                records: known.records.saturating_sub(reported.records),
                // Late arrivals reduce the losses; they are offset against later ones.
                lost: lost.saturating_sub(reported.lost),
                lost_unit: named(info.protocol, unit).to_owned(),
                without_sampling_rate: self.unsampled.remove(info).unwrap_or_default(),
                refused: refused(&causes),
                sampling: sampling.to_owned(),
            };
            let now = Reported {
                datagrams: known.datagrams,
                records: known.records,
                lost: lost.max(reported.lost),
                causes: known.causes,
            };
            self.reported.insert(*info, now);
            strangers += usize::from(!has_data);
            if !has_data && strangers > MOST_STRANGERS {
                continue;
            }
            strange.records = strange.records.saturating_sub(since.records);
            strange.lost = strange.lost.saturating_sub(since.lost);
            strange.causes = less(&strange.causes, &causes);
            self.without_sampling_rate += since.without_sampling_rate;
            if since.records + since.lost > 0 || !since.refused.is_empty() {
                all.push(since);
            }
        }
        let of_nobody = proto::Exporter {
            protocol: "unknown".to_owned(),
            records: strange.records,
            lost: strange.lost,
            // Of several exporters, each in its own.
            lost_unit: if strange.lost > 0 { "units".to_owned() } else { String::new() },
            without_sampling_rate: self.unsampled.drain().map(|(_, records)| records).sum::<u64>()
                + std::mem::take(&mut self.unsampled_of_others),
            refused: refused(&strange.causes),
            ..Default::default()
        };
        self.without_sampling_rate += of_nobody.without_sampling_rate;
        if of_nobody.records + of_nobody.lost > 0 || !of_nobody.refused.is_empty() {
            all.push(of_nobody);
        }
        all
    }
}

/// The unit that an exporter's sequence numbers count.
fn named(protocol: Protocol, counts: Unit) -> &'static str {
    match (protocol, counts) {
        (Protocol::Sflow, _) => "samples",
        (Protocol::Nprobe, _) => "messages",
        (_, Unit::Messages) => "datagrams",
        (_, Unit::Flows | Unit::Records | Unit::FlowsSoFar) => "records",
    }
}

/// The increase of each cause's count.
fn less(now: &Causes, before: &Causes) -> Causes {
    std::array::from_fn(|cause| now[cause].saturating_sub(before[cause]))
}

fn refused(causes: &[u64]) -> HashMap<String, u64> {
    let counted = Refusal::ALL.iter().zip(causes).filter(|(_, count)| **count > 0);
    counted.map(|(cause, count)| (cause.name().to_owned(), *count)).collect()
}
