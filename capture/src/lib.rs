//! `weir-probe`, the capture agent of Weir.
//!
//! A packet's path: [`source`] → [`packet`] → [`meter`] → [`publish`], and to other systems [`export`]. A [`mod@line`]
//! is one such path; the [`command`]s assemble lines.

pub mod app;
pub mod collect;
pub mod command;
pub mod config;
pub mod cursor;
pub mod export;
pub mod filter;
pub mod host;
pub mod line;
pub mod meter;
pub mod metrics;
pub mod own_traffic;
pub mod packet;
pub mod prefetch;
pub mod privacy;
pub mod privileges;
pub mod proto;
pub mod publish;
pub mod signals;
#[cfg(test)]
mod simulator;
pub mod source;
mod syscalls;
#[cfg(test)]
mod testing;
pub mod throttle;
pub mod time;
pub mod units;
pub mod volume;

pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Why a command ends, as its exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Done = 0,
    /// Something failed while running.
    Failed = 1,
    /// The command could not start.
    CannotStart = 2,
    /// A capture file is truncated; the agent metered its whole packets.
    BrokenFile = 3,
}

/// The message for a person when a command ends early, and the exit status.
#[derive(Debug)]
pub struct Failure {
    pub error: anyhow::Error,
    pub exit: Exit,
}

impl Failure {
    /// A command that cannot start.
    pub fn start(error: impl Into<anyhow::Error>) -> Failure {
        Failure { error: error.into(), exit: Exit::CannotStart }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure { error: error.into(), exit: Exit::Failed }
    }
}
