//! A closing record's report on each exporter: records received, lost and unreadable since the previous closing record.

use super::cause::Refusal;
use super::decode::Known;
use super::exporter::counting::Unit;
use super::exporter::sequence::Losses;
use super::exporter::{Counts, ExporterInfo, Protocol};
use crate::packet;
use crate::proto;
use std::collections::HashMap;

/// Exporter counts already reported in closing records.
#[derive(Clone, Copy, Default)]
struct Reported {
    records: u64,
    lost: u64,
    causes: [u64; Refusal::ALL.len()],
}

/// Counts of exporters, and the part that closing records have already reported.
#[derive(Default)]
pub struct ExporterReports {
    /// Records without a sampling rate since the last closing record.
    unsampled: HashMap<ExporterInfo, u64>,
    without_sampling_rate: u64,
    reported: HashMap<ExporterInfo, Reported>,
    reported_strange: [u64; Refusal::ALL.len()],
}

impl ExporterReports {
    pub fn unsampled(&mut self, of: ExporterInfo, records: u64) {
        *self.unsampled.entry(of).or_default() += records;
    }

    pub fn without_sampling_rate(&self) -> u64 {
        self.without_sampling_rate
    }

    /// Counts of each exporter since the previous call; `counts`: over all, including data of no known exporter.
    pub fn since<'a>(&mut self, exporters: impl Iterator<Item = Known<'a>>, counts: &Counts) -> Vec<proto::Exporter> {
        let mut all = Vec::new();
        let mut sum = [0; Refusal::ALL.len()];
        for known in exporters {
            let (unit, sampling) = (known.unit, known.sampling_state.name());
            let (info, known) = (known.info, known.counts);
            let reported = self.reported.entry(*info).or_default();
            let lost = losses(info, known).lost;
            let since = proto::Exporter {
                addr: packet::shortest(info.speaker()).to_vec(),
                domain: info.domain,
                protocol: info.protocol.name().to_owned(),
                records: known.records.saturating_sub(reported.records),
                // What came late after all was not lost: it is set off against what is lost next.
                lost: lost.saturating_sub(reported.lost),
                lost_unit: named(info.protocol, unit).to_owned(),
                without_sampling_rate: self.unsampled.remove(info).unwrap_or_default(),
                refused: refused(&known.causes, &reported.causes),
                sampling: sampling.to_owned(),
            };
            sum.iter_mut().zip(&known.causes).for_each(|(sum, count)| *sum += count);
            self.without_sampling_rate += since.without_sampling_rate;
            *reported = Reported { records: known.records, lost: lost.max(reported.lost), causes: known.causes };
            if since.records + since.lost > 0 || !since.refused.is_empty() {
                all.push(since);
            }
        }
        // Of nobody in particular: what is in the sum of all and of no exporter.
        let mut strange = counts.causes;
        strange.iter_mut().zip(&sum).for_each(|(all, known)| *all = all.saturating_sub(*known));
        let of_nobody = refused(&strange, &self.reported_strange);
        self.reported_strange = strange;
        if !of_nobody.is_empty() {
            all.push(proto::Exporter { protocol: "unknown".to_owned(), refused: of_nobody, ..Default::default() });
        }
        self.unsampled.clear();
        all
    }
}

/// Losses of an exporter, in its own unit.
fn losses<'a>(info: &ExporterInfo, counts: &'a Counts) -> &'a Losses {
    if info.protocol == Protocol::Sflow { &counts.samples } else { &counts.losses }
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

fn refused(now: &[u64], said: &[u64]) -> HashMap<String, u64> {
    let since =
        Refusal::ALL.iter().zip(now.iter().zip(said)).map(|(cause, (now, said))| (cause, now.saturating_sub(*said)));
    since.filter(|(_, count)| *count > 0).map(|(cause, count)| (cause.name().to_owned(), count)).collect()
}
