//! The script of one simulation, drawn from a seed: messages, and the state of brokers and disk.

use super::brokers::Brokers;
use crate::publish::disk::faults::Disk;
use fastrand::Rng;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Schedule {
    pub seed: u64,
    pub workers: u32,
    pub queue_octets: u64,
    /// Size of the spool; without one, messages wait only in memory.
    pub spool: Option<u64>,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Step {
    /// A worker publishes an interval: this many batches of this many octets, a closing record and counters.
    Publish {
        worker: u32,
        batches: u32,
        octets: u32,
    },
    /// The sending thread runs this many times, this many ms apart.
    Send {
        times: u32,
        ms: u32,
    },
    Brokers(Brokers),
    Disk(Disk),
    /// The agent is killed, and starts again.
    Kill,
    /// The agent stops in an orderly way, and starts again; with true, a second signal tells it not to wait.
    Restart(bool),
}

impl Schedule {
    pub fn draw(seed: u64) -> Schedule {
        let mut rng = Rng::with_seed(seed);
        let mut schedule = Schedule {
            seed,
            workers: rng.u32(1..=3),
            queue_octets: [3_000, 20_000, 1 << 20][rng.usize(0..3)],
            spool: [None, Some(30_000), Some(200_000), Some(200_000), Some(1 << 24)][rng.usize(0..5)],
            steps: Vec::new(),
        };
        for _ in 0..rng.usize(5..60) {
            let step = match rng.u8(0..100) {
                0..40 => Step::Publish {
                    worker: rng.u32(0..schedule.workers),
                    batches: rng.u32(0..8),
                    octets: rng.u32(1..2000),
                },
                40..70 => Step::Send { times: rng.u32(1..30), ms: [1, 5, 100, 2000][rng.usize(0..4)] },
                70..86 => Step::Brokers(match rng.u8(0..9) {
                    0..3 => Brokers::There,
                    3 => Brokers::Slow(rng.u8(1..5)),
                    4 => Brokers::Away,
                    5 => Brokers::Late,
                    6 => Brokers::Refusing(rng.u8(0..5)),
                    7 => Brokers::WithoutTopics,
                    _ => Brokers::Fatal,
                }),
                86..93 => Step::Disk(match rng.u8(0..5) {
                    0 | 1 => Disk::Works,
                    2 => Disk::Full,
                    3 => Disk::Broken,
                    _ => Disk::KillsAfter(rng.u32(0..20)),
                }),
                93..96 => Step::Kill,
                _ => Step::Restart(rng.bool()),
            };
            schedule.steps.push(step);
        }
        schedule
    }
}
