//! The topics of a probe, and messages for them.

/// The two topics of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    Flows,
    Counters,
}

impl Topic {
    /// Both, in the order of their discriminants.
    pub const ALL: [Topic; 2] = [Topic::Flows, Topic::Counters];
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicMessage {
    pub topic: Topic,
    pub partition: i32,
    pub payload: Vec<u8>,
}
