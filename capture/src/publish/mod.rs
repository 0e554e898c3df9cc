//! Turns closed intervals into messages: batches of records, then the closing record, then the counters.
//!
//! [`metered::Publisher`] makes the messages of a capturing worker, [`messages::Messages`] numbers and closes those of
//! any worker; a [`Sink`] delivers them.

mod disk;
pub mod encode;
pub mod jsonl;
pub mod kafka;
pub mod messages;
pub mod metered;
pub mod metrics;
pub mod pace;
pub mod spool;
pub mod topic;

use crate::privacy::Privacy;
use crate::proto;
use crate::volume::{Volume, add_fields};
use std::sync::Arc;

/// Major version of the schemas: old readers cannot read messages of a newer one.
pub const MAJOR: u32 = 1;
/// An encoded [`proto::FlowMessage`].
#[derive(Clone, Copy, Debug)]
pub struct Encoded<'a> {
    pub worker: u32,
    /// Whether it is a batch of records, and not a closing record.
    pub is_batch: bool,
    pub records: usize,
    /// Protocol Buffers.
    pub octets: &'a [u8],
}

/// A receiver of messages.
#[warn(missing_docs)]
pub trait Sink: Send {
    /// Accepts a batch or a closing record.
    ///
    /// # Errors If the sink cannot continue at all.
    fn flows(&mut self, message: Encoded<'_>) -> anyhow::Result<()>;

    /// Accepts the counters of an interval.
    ///
    /// # Errors
    /// As above.
    fn counters(&mut self, message: &proto::CounterMessage) -> anyhow::Result<()>;

    /// Whether messages are discarded: records then need no encoding, only sums.
    fn is_nowhere(&self) -> bool {
        false
    }

    /// Octets that wait in memory.
    fn queued_octets(&self) -> u64 {
        0
    }

    /// Octets that wait in memory alone, and would be lost if the agent were killed.
    fn unsaved_octets(&self) -> u64 {
        self.queued_octets()
    }

    /// Octets that wait on disk.
    fn spooled_octets(&self) -> u64 {
        0
    }
}

/// Takes messages nowhere.
pub struct NoSink;

impl Sink for NoSink {
    fn flows(&mut self, _: Encoded<'_>) -> anyhow::Result<()> {
        Ok(())
    }

    fn counters(&mut self, _: &proto::CounterMessage) -> anyhow::Result<()> {
        Ok(())
    }

    fn is_nowhere(&self) -> bool {
        true
    }
}

/// The identity of a worker in its messages.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    pub probe: String,
    pub worker: u32,
    pub workers: u32,
    /// Start of the agent, µs from the Unix epoch.
    pub epoch: u64,
    /// Length of the intervals, ms.
    pub interval_ms: u32,
    /// The source: `af_packet:eth0`, `file:/path`.
    pub source: String,
    /// Shift of packets' times in a replay, ms.
    pub time_shift_ms: i64,
    /// Packets and ms since the previous epoch; zeros if unknown.
    pub gap: (u64, u64),
    /// The key of the pseudonyms that stand for addresses in its messages; absent: addresses are published.
    pub privacy: Option<Arc<Privacy>>,
}

/// Sums published so far, from the records themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// Sum of the records of kind flow.
    pub flow: Volume,
    /// Sum of the records of kind overflow.
    pub overflow: Volume,
    pub flow_records: u64,
    pub overflow_records: u64,
    pub batches: u64,
    pub closings: u64,
    /// Intervals whose sums did not agree. Always 0, or there is a bug.
    pub unbalanced: u64,
    /// The longest that closing an interval kept a worker from its packets, us.
    pub longest_stall_us: u64,
}

impl Published {
    /// Sums published since `earlier`; the longest stall stays that of the whole run.
    pub fn since(&self, earlier: &Published) -> Published {
        Published {
            flow: self.flow - earlier.flow,
            overflow: self.overflow - earlier.overflow,
            flow_records: self.flow_records - earlier.flow_records,
            overflow_records: self.overflow_records - earlier.overflow_records,
            batches: self.batches - earlier.batches,
            closings: self.closings - earlier.closings,
            unbalanced: self.unbalanced - earlier.unbalanced,
            longest_stall_us: self.longest_stall_us,
        }
    }
}

impl std::ops::AddAssign<&Published> for Published {
    fn add_assign(&mut self, other: &Published) {
        add_fields!(self, other: flow, overflow, flow_records, overflow_records, batches, closings, unbalanced);
        self.longest_stall_us = self.longest_stall_us.max(other.longest_stall_us);
    }
}
