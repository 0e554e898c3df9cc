//! The sums of a collector's run, for people and for programs.

use super::cause::Refusal;
use super::exporter::Counts;
use super::table::Clamped;
use crate::publish::Published;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Default)]
pub struct CollectOutcome {
    pub published: Published,
    pub counts: Counts,
    pub clamped: Clamped,
    pub without_sampling_rate: u64,
    pub exporters: usize,
    /// Messages by ZeroMQ topic, and values left out by element name.
    pub nprobe_messages: BTreeMap<&'static str, u64>,
    pub left_out: BTreeMap<String, u64>,
    /// Elements of NetFlow and IPFIX, and sFlow records, that Weir's record has no field for.
    pub elements: BTreeMap<String, u64>,
}

impl CollectOutcome {
    pub fn add(&mut self, other: &CollectOutcome) {
        self.published += &other.published;
        self.counts.add(&other.counts);
        self.clamped.future += other.clamped.future;
        self.clamped.old += other.clamped.old;
        self.without_sampling_rate += other.without_sampling_rate;
        self.exporters += other.exporters;
        other
            .nprobe_messages
            .iter()
            .for_each(|(topic, count)| *self.nprobe_messages.entry(topic).or_default() += count);
        for (to, from) in [(&mut self.left_out, &other.left_out), (&mut self.elements, &other.elements)] {
            from.iter().for_each(|(name, count)| *to.entry(name.clone()).or_default() += count);
        }
    }

    fn causes(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let counted = Refusal::ALL.into_iter().map(|cause| (cause.name(), self.counts.of(cause)));
        counted.filter(|(_, count)| *count > 0)
    }

    pub fn json(&self, epoch: u64, took: Duration) -> Value {
        let causes: serde_json::Map<String, Value> =
            self.causes().map(|(name, count)| (name.to_owned(), json!(count))).collect();
        json!({
            "exporters": self.exporters,
            "datagrams": self.counts.datagrams,
            "octets_received": self.counts.octets,
            "records_received": self.counts.records,
            "events": self.counts.events,
            "counter_samples": self.counts.counter_samples,
            "without_sampling_rate": self.without_sampling_rate,
            "elements_left_out": self.elements,
            "nprobe": {"messages": self.nprobe_messages, "elements_left_out": self.left_out},
            "dropped_by_exporters":
                {"packets": self.counts.exporter_drops, "records": self.counts.exporter_records_dropped},
            "lost": {"records_or_datagrams": self.counts.losses.lost, "samples": self.counts.samples.lost},
            "refused": causes,
            "packets": self.published.flow.packets,
            "octets": self.published.flow.octets,
            "records": self.published.flow_records,
            "batches": self.published.batches,
            "closing_records": self.published.closings,
            "times_moved": {"future": self.clamped.future, "old": self.clamped.old},
            "epoch": epoch,
            "seconds": took.as_secs_f64(),
        })
    }

    pub fn text(&self, took: Duration) -> String {
        let mut text = format!(
            "{} records of {} exporters in {} datagrams, in {:.1} s\n  published: {} records, {} packets, {} octets, {} closing records\n",
            self.counts.records,
            self.exporters,
            self.counts.datagrams,
            took.as_secs_f64(),
            self.published.flow_records,
            self.published.flow.packets,
            self.published.flow.octets,
            self.published.closings,
        );
        if self.counts.events + self.counts.counter_samples > 0 {
            text += &format!(
                "  besides flows: {} events of translation, {} samples of interfaces' counters\n",
                self.counts.events, self.counts.counter_samples
            );
        }
        let lost = self.counts.losses.lost + self.counts.samples.lost;
        if lost > 0 {
            text += &format!("  lost before arrival, by sequence numbers: {lost}\n");
        }
        let (packets, records) = (self.counts.exporter_drops, self.counts.exporter_records_dropped);
        if packets + records > 0 {
            text += &format!("  dropped by exporters, as reported: {packets} packets, {records} records\n");
        }
        if self.without_sampling_rate > 0 {
            text += &format!("  without a sampling rate, counted unscaled: {} records\n", self.without_sampling_rate);
        }
        for (name, count) in self.causes() {
            text += &format!("  {name}: {count}\n");
        }
        if !self.nprobe_messages.is_empty() {
            let messages: Vec<String> =
                self.nprobe_messages.iter().map(|(topic, count)| format!("{count} {topic}")).collect();
            text += &format!("  nProbe's messages: {}\n", messages.join(", "));
        }
        for (what, all) in [("values", &self.elements), ("values of nProbe's", &self.left_out)] {
            if !all.is_empty() {
                let names: Vec<String> = all.iter().map(|(name, count)| format!("{name} {count}")).collect();
                text += &format!("  {what} without a place in a record, by element: {}\n", names.join(", "));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_names_what_was_left_out() {
        let elements = |name: &str, count| BTreeMap::from([(name.to_owned(), count)]);
        let one = CollectOutcome {
            elements: elements("isMulticast", 2),
            left_out: elements("SRC_AS", 3),
            ..CollectOutcome::default()
        };
        let mut both = CollectOutcome::default();
        [&one, &one].into_iter().for_each(|one| both.add(one));
        let text = both.text(Duration::ZERO);
        assert!(text.contains("by element: isMulticast 4") && text.contains("by element: SRC_AS 6"), "{text}");
        let json = both.json(1, Duration::ZERO);
        assert_eq!(json["elements_left_out"], json!({"isMulticast": 4}));
        assert_eq!(json["nprobe"]["elements_left_out"], json!({"SRC_AS": 6}));
    }

    #[test]
    fn the_summary_has_a_line_for_what_there_was_and_none_else() {
        let lines = |outcome: &CollectOutcome| -> Vec<String> {
            outcome.text(Duration::ZERO).lines().skip(2).map(|line| line.trim().to_owned()).collect()
        };
        let mut outcome = CollectOutcome::default();
        assert_eq!(lines(&outcome), [""; 0]);
        outcome.counts.counter_samples = 3;
        outcome.counts.losses.lost = 2;
        outcome.counts.samples.lost = 5;
        outcome.counts.exporter_drops = 1;
        outcome.counts.exporter_records_dropped = 4;
        outcome.without_sampling_rate = 6;
        outcome.nprobe_messages = BTreeMap::from([("flow", 8), ("hello", 9)]);
        let expected = [
            "besides flows: 0 events of translation, 3 samples of interfaces' counters",
            "lost before arrival, by sequence numbers: 7",
            "dropped by exporters, as reported: 1 packets, 4 records",
            "without a sampling rate, counted unscaled: 6 records",
            "nProbe's messages: 8 flow, 9 hello",
        ];
        assert_eq!(lines(&outcome), expected);
        let mut twice = CollectOutcome::default();
        [&outcome, &outcome].into_iter().for_each(|one| twice.add(one));
        assert!(lines(&twice).contains(&"nProbe's messages: 16 flow, 18 hello".to_owned()));
    }
}
