//! `[source]` of the configuration: the interface, and how to capture on it.

#![warn(missing_docs)]

use super::af_packet::BLOCK_OCTETS;
use crate::units::octets;
use anyhow::bail;
use serde::Deserialize;
use std::path::PathBuf;

/// Minimum octets of one worker's AF_PACKET ring, and maximum octets of all workers' rings.
const LEAST_RING: u64 = 4 << 20;
const MOST_RING: u64 = 1 << 30;

/// `[source]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SourceConfig {
    /// Name of the interface, or of a device of PF_RING.
    pub interface: String,
    /// Network namespace of the interface; empty: the agent's own.
    pub netns: String,
    /// Also capture packets that are addressed to other hosts.
    pub promiscuous: bool,
    /// GRO and LRO.
    pub receive_offloads: ReceiveOffloads,
    /// Processors to pin the capture threads to, one each; empty: the system chooses.
    pub cpus: Vec<usize>,
    /// Octets of the AF_PACKET rings of all workers together.
    #[serde(deserialize_with = "octets")]
    pub ring: u64,
    /// Path of libpfring; empty: wherever it is installed.
    pub pf_ring_library: PathBuf,
}

/// Treatment of GRO and LRO while the agent runs.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum ReceiveOffloads {
    /// The agent switches them off.
    Off,
    /// The agent leaves them as they are.
    Keep,
}

impl Default for SourceConfig {
    fn default() -> Self {
        SourceConfig {
            interface: String::new(),
            netns: String::new(),
            promiscuous: true,
            receive_offloads: ReceiveOffloads::Off,
            cpus: Vec::new(),
            ring: 12 << 20,
            pf_ring_library: PathBuf::new(),
        }
    }
}

impl SourceConfig {
    /// Octets of each worker's AF_PACKET ring: its share, in whole blocks, with a minimum that gives a worker enough
    /// time.
    pub fn ring_of_each(&self, workers: u32) -> usize {
        let share = (self.ring / u64::from(workers)).max(LEAST_RING) as usize;
        share - share % BLOCK_OCTETS
    }

    /// Checks values beyond their syntax.
    ///
    /// # Errors
    /// If a value is out of its range.
    pub fn check(&self) -> anyhow::Result<()> {
        if !(LEAST_RING..=MOST_RING).contains(&self.ring) || self.ring % (1 << 20) != 0 {
            bail!("source.ring must be whole MiB, from 4 MiB to 1 GiB");
        }
        Ok(())
    }
}
