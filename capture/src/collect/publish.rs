//! From imported flows to messages: batches, each of one interval, and the closing record of the open one.

use super::notice::Notice;
use super::table::{EncodedRoutes, Flows};
use crate::filter::{FilterCounts, FilterSets};
use crate::line::state::RunState;
use crate::proto;
use crate::publish::messages::{Messages, counter, volume};
use crate::publish::{Identity, Published, Sink};
use crate::volume::Volume;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The period that a closing record ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ends {
    #[default]
    Interval,
    /// The epoch, too: the clock was set back.
    Epoch,
    /// The run, too: nothing follows.
    Run,
}

/// Inputs of a closing record other than the flows.
#[derive(Clone, Debug, Default)]
pub struct CollectClosing {
    pub start_ms: i64,
    pub ends: Ends,
    /// Empty intervals before this one that get no closing record, because time jumped.
    pub skipped: u64,
    /// Records whose times were not accepted.
    pub clamped: u64,
    pub exporters: Vec<proto::Exporter>,
    pub load: proto::Load,
}

/// Batches of one interval since the previous closing record.
#[derive(Clone, Copy, Debug, Default)]
struct Since {
    batches: u64,
    records: u64,
    volume: Volume,
}

/// Reports other than flows since the previous closing record.
#[derive(Clone, Copy, Debug, Default)]
struct Notified {
    nat_events: u64,
    interface_counters: u64,
    names: u64,
}

pub struct CollectPublisher {
    messages: Messages,
    since: BTreeMap<i64, Since>,
    notified: Notified,
    published: Published,
    /// Packets and octets, and records whose times were not accepted, since the epoch's start.
    epoch: (Volume, u64),
    filters: FilterCounts,
    routes: EncodedRoutes,
}

impl CollectPublisher {
    /// A publisher at sequence 0.
    pub fn new(identity: Identity, filters: Arc<FilterSets>) -> CollectPublisher {
        CollectPublisher {
            messages: Messages::new(identity),
            since: BTreeMap::new(),
            notified: Notified::default(),
            published: Published::default(),
            epoch: Default::default(),
            filters: FilterCounts::new(filters),
            routes: EncodedRoutes::default(),
        }
    }

    pub fn worker(&self) -> u32 {
        self.messages.identity().worker
    }

    /// Enters the run's next epoch, whose messages are numbered from 0 and whose sums begin at 0.
    pub fn begin_epoch(&mut self, run: &RunState) {
        let before = self.messages.identity().epoch;
        self.messages.begin_epoch(run.epoch_after(before));
        self.epoch = Default::default();
    }

    /// Since the start.
    pub fn published(&self) -> &Published {
        &self.published
    }

    /// Publishes the flows of one interval: the open one or an earlier one.
    ///
    /// # Errors
    /// If the sink cannot continue.
    pub fn flows(&mut self, flows: &Flows, sink: &mut dyn Sink) -> anyhow::Result<()> {
        let start_ms = flows.start_ms.max(0) as u64;
        let mut here = Since::default();
        self.messages.batch.begin_interval(start_ms);
        for record in flows.records() {
            record.count(&mut self.filters);
            let [lower, upper] = record.sent();
            here.volume += lower + upper;
            here.records += 1;
            record.encode(&mut self.messages.batch, &mut self.routes);
            if self.messages.batch.is_full() {
                here.batches += 1;
                self.messages.send_batch(start_ms, sink)?;
            }
        }
        if !self.messages.batch.is_empty() {
            here.batches += 1;
            self.messages.send_batch(start_ms, sink)?;
        }
        let since = self.since.entry(flows.start_ms).or_default();
        since.batches += here.batches;
        since.records += here.records;
        since.volume += here.volume;
        self.published.flow += here.volume;
        self.epoch.0 += here.volume;
        self.published.flow_records += here.records;
        self.published.batches += here.batches;
        Ok(())
    }

    /// Publishes exporters' reports other than flows, in batches of the open interval.
    ///
    /// # Errors
    /// If the sink cannot continue.
    pub fn notices(&mut self, start_ms: i64, notices: &[Notice], sink: &mut dyn Sink) -> anyhow::Result<()> {
        let mut batches = 0;
        self.messages.batch.begin_interval(start_ms.max(0) as u64);
        for (at, notice) in notices.iter().enumerate() {
            notice.encode(&mut self.messages.batch);
            match notice {
                Notice::Nat(_) => self.notified.nat_events += 1,
                Notice::Counters(_) => self.notified.interface_counters += 1,
                Notice::Name(_) => self.notified.names += 1,
            }
            if self.messages.batch.is_full() || at + 1 == notices.len() {
                batches += 1;
                self.messages.send_batch(start_ms.max(0) as u64, sink)?;
            }
        }
        self.since.entry(start_ms).or_default().batches += batches;
        self.published.batches += batches;
        Ok(())
    }

    /// Publishes the counters and the closing record of the open interval; all its flows and all late ones must have
    /// been published.
    ///
    /// # Errors
    /// If the sink cannot continue.
    pub fn close(&mut self, closing: CollectClosing, sink: &mut dyn Sink) -> anyhow::Result<()> {
        let mut since = std::mem::take(&mut self.since);
        let own = since.remove(&closing.start_ms).unwrap_or_default();
        let Notified { nat_events, interface_counters, names } = std::mem::take(&mut self.notified);
        self.epoch.1 += closing.clamped;
        self.published.closings += 1;
        // All imported packets are in records: a collector drops none in between.
        let conservation = |of: Volume, clamped: u64| proto::Conservation {
            on_interface: volume(of),
            captured: volume(of),
            in_flow_records: volume(of),
            late_packets: clamped,
            ..proto::Conservation::default()
        };
        let late = since.iter().filter(|(_, late)| late.batches > 0).map(|(&start_ms, late)| proto::LateInterval {
            interval_start_ms: start_ms.max(0) as u64,
            batches: late.batches as u32,
            records: late.records,
            volume: volume(late.volume),
        });
        let late: Vec<_> = late.collect();
        let counters = self.counters(&closing.exporters);
        let stated = proto::ClosingRecord {
            records: own.records + late.iter().map(|late| late.records).sum::<u64>(),
            interval: Some(conservation(own.volume, closing.clamped)),
            epoch_total: Some(conservation(self.epoch.0, self.epoch.1)),
            last: closing.ends == Ends::Run,
            load: Some(closing.load),
            skipped_intervals: closing.skipped,
            late,
            exporters: closing.exporters,
            nat_events,
            interface_counters,
            names,
            ..proto::ClosingRecord::default()
        };
        self.messages.close(closing.start_ms.max(0) as u64, stated, counters, sink)
    }

    /// Counts of filters since the previous closing record, whichever interval they belong to; and for each exporter
    /// its records, its losses and its unreadable data (these count records, packets or datagrams as packets).
    fn counters(&mut self, exporters: &[proto::Exporter]) -> Vec<proto::Counter> {
        let filters = self.filters.take();
        let mut counters: Vec<_> = filters.labels().map(|(set, label, volume)| counter(set, label, volume)).collect();
        let mut causes = BTreeMap::<&str, u64>::new();
        for exporter in exporters {
            *causes.entry("records").or_default() += exporter.records;
            *causes.entry("lost").or_default() += exporter.lost;
            *causes.entry("without_sampling_rate").or_default() += exporter.without_sampling_rate;
            for (cause, count) in &exporter.refused {
                *causes.entry(cause).or_default() += count;
            }
        }
        let counted = causes.into_iter().filter(|(_, count)| *count > 0);
        counters.extend(counted.map(|(label, packets)| counter("exporters", label, Volume { packets, octets: 0 })));
        counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::record::{Imported, SentCounts};
    use crate::collect::table::{Table, TableOptions};
    use crate::proto::flow_message::Body;
    use crate::publish::Encoded;
    use prost::Message as _;

    #[derive(Default)]
    struct Kept(Vec<proto::FlowMessage>, Vec<proto::CounterMessage>);

    impl Sink for Kept {
        fn flows(&mut self, message: Encoded<'_>) -> anyhow::Result<()> {
            self.0.push(proto::FlowMessage::decode(message.octets)?);
            Ok(())
        }

        fn counters(&mut self, message: &proto::CounterMessage) -> anyhow::Result<()> {
            self.1.push(message.clone());
            Ok(())
        }
    }

    const OPEN: i64 = 1_700_000_000_000;

    fn flow(port: u16, packets: u64, first_ms: i64, last_ms: i64) -> Imported<'static> {
        let sent = [SentCounts { packets, octets: packets * 100, ..SentCounts::default() }, SentCounts::default()];
        let addresses = [1, 2].map(|last| std::net::Ipv4Addr::new(192, 0, 2, last).to_ipv6_mapped().octets());
        Imported {
            addresses,
            ports: [port, 53],
            version: 4,
            protocol: 17,
            sent,
            first_ms,
            last_ms,
            ..Imported::default()
        }
    }

    #[test]
    fn filters_count_what_records_stand_for() {
        let config =
            toml::from_str("default = false\n[sets.ports]\ndns = \"udp port 53\"\nweb = \"tcp port 80\"\n[sets.hosts]\nfour = \"src net 192.0.2.0/24\"")
                .unwrap();
        let filters = Arc::new(FilterSets::compile(&config).unwrap());
        let identity = Identity { probe: "p".to_owned(), workers: 1, interval_ms: 10_000, ..Identity::default() };
        let mut publisher = CollectPublisher::new(identity, filters);
        let mut table = Table::new(TableOptions { interval_ms: 10_000, max_entries: 9, oldest_ms: 60_000 }, OPEN);
        let mut kept = Kept::default();
        table.add((&[0; 16], 0), &Imported { sampling: Some(10), ..flow(9, 3, OPEN, OPEN) });
        table.take().iter().for_each(|flows| publisher.flows(flows, &mut kept).unwrap());
        publisher.close(CollectClosing { start_ms: OPEN, ..CollectClosing::default() }, &mut kept).unwrap();
        for label in ["dns", "four"] {
            let counted = kept.1[0].counters.iter().find(|counter| counter.label == label).unwrap();
            assert_eq!((counted.packets, counted.octets), (30, 3000), "{label}");
        }
    }

    #[test]
    fn late_batches_are_of_their_own_intervals_and_the_closing_record_tells_them_apart() {
        let identity =
            Identity { probe: "p".to_owned(), workers: 1, epoch: 7, interval_ms: 10_000, ..Identity::default() };
        let mut publisher = CollectPublisher::new(identity, Arc::default());
        let mut table = Table::new(TableOptions { interval_ms: 10_000, max_entries: 9, oldest_ms: 60_000 }, OPEN);
        let mut kept = Kept::default();
        let exporter = proto::Exporter { records: 501, lost: 3, lost_unit: "records".to_owned(), ..Default::default() };
        (0..501).for_each(|port| _ = table.add((&[0; 16], 0), &flow(port, 1, OPEN + 1, OPEN + 1)));
        table.add((&[0; 16], 0), &flow(9, 30, OPEN - 20_000, OPEN - 1));
        assert!(table.is_full());
        table.take().iter().for_each(|flows| publisher.flows(flows, &mut kept).unwrap());
        table.add((&[0; 16], 0), &flow(9, 8, OPEN, OPEN));
        table.take().iter().for_each(|flows| publisher.flows(flows, &mut kept).unwrap());
        publisher
            .close(
                CollectClosing {
                    start_ms: OPEN,
                    exporters: vec![exporter],
                    clamped: 5,
                    load: proto::Load { cpu_permille: 250, ..proto::Load::default() },
                    ..CollectClosing::default()
                },
                &mut kept,
            )
            .unwrap();
        publisher
            .close(CollectClosing { start_ms: OPEN + 10_000, ends: Ends::Run, ..CollectClosing::default() }, &mut kept)
            .unwrap();

        let sequences: Vec<_> = kept.0.iter().map(|message| message.sequence).collect();
        assert_eq!(sequences, (0..7).collect::<Vec<_>>());
        let sizes: Vec<_> = kept
            .0
            .iter()
            .map(|message| match message.body.as_ref().unwrap() {
                Body::Batch(batch) => (message.interval_start_ms as i64 - OPEN, batch.flows.len()),
                Body::Closing(_) => (message.interval_start_ms as i64 - OPEN, 0),
            })
            .collect();
        assert_eq!(sizes, [(-20_000, 1), (-10_000, 1), (0, 500), (0, 1), (0, 1), (0, 0), (10_000, 0)]);
        let closings: Vec<_> = kept
            .0
            .iter()
            .filter_map(|message| match message.body.as_ref().unwrap() {
                Body::Closing(closing) => Some(closing),
                Body::Batch(_) => None,
            })
            .collect();
        let [first, second] = closings[..] else { panic!() };
        assert_eq!((first.first_sequence, first.batches, first.records, first.first), (0, 5, 504, true));
        assert_eq!((second.first_sequence, second.batches, second.first, second.last), (6, 0, false, true));
        let interval = first.interval.as_ref().unwrap();
        let packets_of = |volume: &Option<proto::Volume>| volume.unwrap().packets;
        assert_eq!([&interval.on_interface, &interval.captured].map(packets_of), [509; 2], "nothing is lost between");
        assert_eq!((interval.late_packets, first.load.unwrap().cpu_permille), (5, 250));
        let late_of = |of: &Option<proto::Conservation>| of.as_ref().unwrap().late_packets;
        assert_eq!((late_of(&second.interval), late_of(&second.epoch_total)), (0, 5));
        let packets = |of: &Option<proto::Conservation>| of.as_ref().unwrap().in_flow_records.unwrap().packets;
        assert_eq!((packets(&first.interval), packets(&first.epoch_total)), (509, 539));
        assert_eq!((packets(&second.interval), packets(&second.epoch_total)), (0, 539));
        let late: Vec<_> = first
            .late
            .iter()
            .map(|late| {
                (late.interval_start_ms as i64 - OPEN, late.batches, late.records, late.volume.unwrap().packets)
            })
            .collect();
        assert_eq!(late, [(-20_000, 1, 1, 15), (-10_000, 1, 1, 15)]);
        let exporters: Vec<_> = kept.1[0]
            .counters
            .iter()
            .filter(|counter| counter.set == "exporters")
            .map(|counter| (&*counter.label, counter.packets))
            .collect();
        assert_eq!(exporters, [("lost", 3), ("records", 501)]);
    }

    #[test]
    fn what_could_not_be_read_of_all_exporters_is_counted_by_cause() {
        let mut publisher = CollectPublisher::new(Identity::default(), Arc::default());
        let mut kept = Kept::default();
        let exporter =
            |count| proto::Exporter { refused: [("bad_length".to_owned(), count)].into(), ..Default::default() };
        let closing = CollectClosing { exporters: vec![exporter(2), exporter(3)], ..CollectClosing::default() };
        publisher.close(closing, &mut kept).unwrap();
        let counted = kept.1[0].counters.iter().find(|counter| counter.label == "bad_length").unwrap();
        assert_eq!((&*counted.set, counted.packets), ("exporters", 5));
    }

    #[test]
    fn notices_are_published_all_in_batches_of_the_open_interval() {
        let identity = Identity { probe: "p".to_owned(), workers: 1, interval_ms: 10_000, ..Identity::default() };
        let mut publisher = CollectPublisher::new(identity, Arc::default());
        let mut kept = Kept::default();
        let event = |port| proto::NatEvent { src_port: port, user_name: "u".repeat(200), ..Default::default() };
        let mut notices: Vec<Notice> = (0..3000).map(|port| Notice::Nat(event(port))).collect();
        notices.push(Notice::Name(proto::ExporterName { number: 7, ..Default::default() }));
        notices.push(Notice::Counters(proto::ExporterCounters { interface: 8, ..Default::default() }));
        publisher.notices(OPEN, &notices, &mut kept).unwrap();
        publisher.close(CollectClosing { start_ms: OPEN, ..CollectClosing::default() }, &mut kept).unwrap();
        let batches: Vec<_> = kept
            .0
            .iter()
            .filter_map(|message| match message.body.as_ref().unwrap() {
                Body::Batch(batch) => Some((message.interval_start_ms as i64, batch)),
                Body::Closing(_) => None,
            })
            .collect();
        assert!(batches.len() > 1 && batches.iter().all(|(start_ms, _)| *start_ms == OPEN));
        let ports: Vec<u32> =
            batches.iter().flat_map(|(_, batch)| batch.nat_events.iter().map(|event| event.src_port)).collect();
        assert_eq!(ports, (0..3000).collect::<Vec<_>>());
        let (_, last) = batches.last().unwrap();
        assert_eq!((last.names[0].number, last.interface_counters[0].interface), (7, 8));
        let Some(Body::Closing(closing)) = &kept.0.last().unwrap().body else { panic!() };
        assert_eq!(
            (u64::from(closing.batches), publisher.published().batches),
            (batches.len() as u64, batches.len() as u64)
        );
        assert_eq!((closing.nat_events, closing.interface_counters, closing.names), (3000, 1, 1));
        let next = CollectClosing { start_ms: OPEN + 10_000, ..CollectClosing::default() };
        publisher.close(next, &mut kept).unwrap();
        let Some(Body::Closing(closing)) = &kept.0.last().unwrap().body else { panic!() };
        assert_eq!((closing.nat_events, closing.interface_counters, closing.names), (0, 0, 0));
    }
}
