//! The messages of one worker: numbered without gaps, and closed by records that state their sums.

use super::encode::BatchEncoder;
use super::{Encoded, Identity, MAJOR, Sink};
use crate::host;
use crate::proto;
use crate::proto::flow_message::Body;
use crate::volume::Volume;
use prost::Message as _;

/// Numbers, fills and sends the messages of one worker.
pub struct Messages {
    identity: Identity,
    /// The fields common to all messages; only closing records use its body.
    message: proto::FlowMessage,
    /// The batch under construction.
    pub batch: BatchEncoder,
    sequence: u64,
    /// The number of the first message since the last closing record.
    first_sequence: u64,
    counters_sequence: u64,
    /// Number of the order whose filter sets are in force; 0: those of the configuration.
    pub order: u64,
}

impl Messages {
    /// Begins at sequence 0.
    pub fn new(identity: Identity) -> Messages {
        let message = proto::FlowMessage {
            major: MAJOR,
            probe: identity.probe.clone(),
            worker: identity.worker,
            epoch: identity.epoch,
            interval_ms: identity.interval_ms,
            ..proto::FlowMessage::default()
        };
        let batch = BatchEncoder::new(identity.privacy.as_ref());
        Messages { identity, message, batch, sequence: 0, first_sequence: 0, counters_sequence: 0, order: 0 }
    }

    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Begins a later epoch, at sequence 0.
    pub fn begin_epoch(&mut self, epoch: u64) {
        *self = Messages::new(Identity { epoch, gap: (0, 0), ..self.identity.clone() });
    }

    /// Batches sent since the last closing record.
    pub fn batches(&self) -> u64 {
        self.sequence - self.first_sequence
    }

    /// Sends the batch, whose records belong to the interval with this start.
    ///
    /// # Errors
    /// If the sink cannot continue.
    pub fn send_batch(&mut self, start_ms: u64, sink: &mut dyn Sink) -> anyhow::Result<()> {
        self.number(start_ms);
        let records = self.batch.len();
        let octets = self.batch.message(&self.message);
        sink.flows(Encoded { worker: self.message.worker, is_batch: true, records, octets })
    }

    /// Sends the closing record of the interval that starts then, and its counters. The caller fills in its part of the
    /// record; this adds the sums of the messages and the worker's identity.
    ///
    /// # Errors
    /// If the sink cannot continue.
    pub fn close(
        &mut self,
        start_ms: u64,
        stated: proto::ClosingRecord,
        counters: Vec<proto::Counter>,
        sink: &mut dyn Sink,
    ) -> anyhow::Result<()> {
        let first = self.counters_sequence == 0;
        let (gap_packets, gap_ms) = if first { self.identity.gap } else { (0, 0) };
        let closing = proto::ClosingRecord {
            first_sequence: self.first_sequence,
            batches: self.batches() as u32,
            workers: self.identity.workers,
            first,
            gap_packets,
            gap_ms,
            agent_version: crate::VERSION.to_owned(),
            source: self.identity.source.clone(),
            clock_offset_us: host::clock_offset_us(),
            time_shift_ms: self.identity.time_shift_ms,
            ..stated
        };
        self.number(start_ms);
        self.first_sequence = self.sequence;
        self.message.body = Some(Body::Closing(closing));
        let octets = self.message.encode_to_vec();
        self.message.body = None;
        sink.flows(Encoded { worker: self.message.worker, is_batch: false, records: 0, octets: &octets })?;
        let counters = self.counters(start_ms, counters);
        sink.counters(&counters)
    }

    /// Numbers the message that is sent next.
    fn number(&mut self, start_ms: u64) {
        self.message.interval_start_ms = start_ms;
        self.message.sequence = self.sequence;
        self.sequence += 1;
    }

    fn counters(&mut self, interval_start_ms: u64, counters: Vec<proto::Counter>) -> proto::CounterMessage {
        let sequence = self.counters_sequence;
        self.counters_sequence += 1;
        proto::CounterMessage {
            major: MAJOR,
            minor: 0,
            probe: self.identity.probe.clone(),
            worker: self.identity.worker,
            epoch: self.identity.epoch,
            sequence,
            interval_start_ms,
            interval_ms: self.identity.interval_ms,
            order: self.order,
            counters,
        }
    }
}

/// Adds the publisher's part to a worker's load.
pub fn complete_load(load: &mut proto::Load, sink: &dyn Sink) {
    load.rss_octets = host::resident_octets();
    load.publish_queue_octets = sink.queued_octets();
    load.spool_octets = sink.spooled_octets();
}

/// A volume as in messages.
pub fn volume(volume: Volume) -> Option<proto::Volume> {
    Some(proto::Volume { packets: volume.packets, octets: volume.octets })
}

pub fn counter(set: &str, label: &str, volume: Volume) -> proto::Counter {
    proto::Counter { set: set.to_owned(), label: label.to_owned(), packets: volume.packets, octets: volume.octets }
}
