//! The agent's commands, one per file: their options, and how they assemble the parts.

pub mod applications;
pub mod cli;
pub mod collect;
pub mod decode;
pub mod docs;
pub mod enrol;
pub mod interfaces;
pub mod nprobe;
pub mod options;
pub mod read;
pub mod run;
pub mod summary;

use crate::{Exit, Failure};
use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// Writes logs to standard error, at the level that WEIR_LOG sets.
pub fn log() {
    let filter = EnvFilter::try_from_env("WEIR_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
}

/// If `program` ends early, prints the reason; returns its exit status.
pub fn end(program: &str, done: Result<Exit, Failure>) -> ExitCode {
    match done {
        Ok(exit) => ExitCode::from(exit as u8),
        Err(Failure { error, exit }) => {
            if !is_broken_pipe(&error) {
                eprintln!("{program}: {error:#}");
            }
            ExitCode::from(exit as u8)
        }
    }
}

/// Writes to standard output; a reader may close it early.
///
/// # Errors
/// If it cannot be written to.
pub fn print(text: &[u8]) -> Result<Exit, Failure> {
    match std::io::stdout().write_all(text) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(Exit::Done),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        let json = cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
        io.or(json) == Some(std::io::ErrorKind::BrokenPipe)
    })
}
