//! The receiver of an export, and the counts of an export.

use super::metrics::ExportMetrics;
use crate::proto;
use crate::throttle::Throttle;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Sends messages in a form of its own, from a thread of its own.
#[warn(missing_docs)]
pub trait ExportTarget: Send {
    /// Connects to the receiver if it is not connected; with `wait`, it fails if there is no receiver.
    fn connect(&mut self, wait: bool) -> anyhow::Result<()>;

    /// Endpoints whose traffic is the agent's own: host and port, and the protocol above IP.
    fn endpoints(&self) -> Vec<(String, u8)>;

    /// Whether it is connected, as far as it knows.
    fn is_connected(&self) -> bool;

    /// Sends a batch or a closing record.
    fn send(&mut self, message: &proto::FlowMessage, account: &Account);

    /// Sends its pending messages.
    fn flush(&mut self, account: &Account);

    /// Sends its pending messages, and waits until they are gone or `_give_up` is set.
    fn finish(&mut self, account: &Account, _give_up: &AtomicBool) {
        self.flush(account);
    }
}

/// Counts what one export does.
pub struct Account {
    name: String,
    metrics: ExportMetrics,
    throttle: Throttle,
    shed: AtomicU64,
}

impl Account {
    pub fn new(name: String, metrics: ExportMetrics) -> Account {
        Account { name, metrics, throttle: Throttle::default(), shed: AtomicU64::new(0) }
    }

    /// The export's name in logs and metrics.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Records how many octets wait for the export.
    pub fn queue(&self, octets: u64) {
        self.metrics.queue(&self.name, octets);
    }

    /// Counts messages that went out.
    pub fn sent(&self, messages: u64, records: u64, octets: usize) {
        self.metrics.sent(&self.name, messages, records, octets as u64);
    }

    /// Records dropped so far.
    pub fn lost(&self) -> u64 {
        self.shed.load(Ordering::Relaxed)
    }

    /// Counts records that were dropped.
    pub fn shed(&self, cause: &'static str, records: u64) {
        if records == 0 {
            return;
        }
        self.shed.fetch_add(records, Ordering::Relaxed);
        self.metrics.shed(&self.name, cause, records);
        if self.throttle.allow(cause) {
            tracing::error!(
                "export {:?}: records are shed ({cause}; weir_probe_export_records_shed_total counts them)",
                self.name
            );
        }
    }

    /// Counts a failure, and logs it at most once per period.
    pub fn failed(&self, error: &anyhow::Error) {
        self.metrics.error(&self.name);
        if self.throttle.allow("failed") {
            tracing::warn!("export {:?}: {error:#}", self.name);
        }
    }
}
