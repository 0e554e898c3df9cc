//! The topics of a probe, and messages for them.

/// The topics that a probe writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    Flows,
    Counters,
    Alerts,
}

impl Topic {
    /// All, in the order of their discriminants.
    pub const ALL: [Topic; 3] = [Topic::Flows, Topic::Counters, Topic::Alerts];

    /// Its name for this probe.
    pub fn of(self, probe: &str) -> String {
        match self {
            Topic::Flows => format!("weir.flows.{probe}"),
            Topic::Counters => format!("weir.counters.{probe}"),
            Topic::Alerts => format!("weir.alerts.{probe}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicMessage {
    pub topic: Topic,
    pub partition: i32,
    pub payload: Vec<u8>,
}
