//! A simulator of the agent from messages to Kafka: simulated brokers and a disk that fails around the real sink, sending
//! thread and spool. One seed is one schedule; an oracle states the expected result.
//!
//! `cargo test` runs a few hundred seeds, `make simulate-agent SEEDS=20000` more. A failing seed prints how to repeat it
//! and the smallest schedule that still fails; add that to `tests/golden/agent/messages`, where it stays as a regression
//! test.

mod brokers;
mod schedule;
mod world;

use crate::simulator;
use schedule::{Schedule, Step};

simulator::simulated!(Schedule, Step, "agent/messages", world::run);

#[test]
fn every_message_is_in_kafka_in_the_spool_or_counted_as_shed() {
    simulator::run_seeds::<Schedule>(150, "make simulate-agent");
}
