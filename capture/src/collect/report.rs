//! What exporters report beside their flows, on its way to the publisher.

use crate::proto;
use crate::publish::encode::BatchEncoder;

/// One report, as `flow.proto` has it.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// An address was translated, or a firewall decided.
    Nat(proto::NatEvent),
    /// What the counters of an interface went on by.
    Counters(proto::ExporterCounters),
    /// What something is called.
    Name(proto::ExporterName),
}

impl Report {
    /// Adds it to a batch.
    pub(super) fn encode(&self, batch: &mut BatchEncoder) {
        match self {
            Report::Nat(event) => batch.report(2, event),
            Report::Counters(counters) => batch.report(3, counters),
            Report::Name(name) => batch.report(4, name),
        }
    }
}
