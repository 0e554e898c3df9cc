//! Options that several commands have.

use crate::config::{Config, check_probe};
use crate::line::destination::Target;
use crate::meter::interval::IntervalLength;
use clap::{Args, ValueEnum};
use serde_json::Value;
use std::path::PathBuf;

/// Options that override the configuration.
#[derive(Args, Debug, Default)]
pub struct Instead {
    /// Name of the probe [default: that of the configuration, else `local`]
    #[arg(long, value_name = "NAME")]
    pub probe: Option<String>,
    /// Kafka's brokers, separated by commas [default: those of the configuration, else 127.0.0.1:9092]
    #[arg(long, value_name = "HOST:PORT")]
    pub brokers: Option<String>,
    /// File of the credentials for Kafka, with its brokers [default: that of the configuration, else none with --brokers,
    /// else /var/lib/weir-probe/credentials.toml if it exists]
    #[arg(long, value_name = "FILE")]
    pub credentials: Option<PathBuf>,
    /// Length of the intervals: 1s, 2s, 5s, 10s, 15s or 30s [default: that of the configuration, else 10s]
    #[arg(long, value_name = "TIME")]
    pub interval: Option<IntervalLength>,
}

impl Instead {
    /// Applies them to a configuration, whose records go to `to`.
    ///
    /// # Errors
    /// If the probe's name is invalid, or credentials for Kafka cannot be used.
    pub fn put_into(&self, config: &mut Config, to: Target) -> anyhow::Result<()> {
        if let Some(probe) = &self.probe {
            check_probe(probe)?;
            config.probe.clone_from(probe);
        }
        if let Some(brokers) = &self.brokers {
            config.kafka.brokers.clone_from(brokers);
            config.kafka.credentials = PathBuf::new();
        }
        if let Some(credentials) = &self.credentials {
            config.kafka.credentials.clone_from(credentials);
        }
        if to == Target::Kafka {
            config.log_in()?;
        }
        config.interval = self.interval.unwrap_or(config.interval);
        Ok(())
    }
}

/// How a summary is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SummaryForm {
    /// For people
    Text,
    /// For programs
    Json,
}

impl SummaryForm {
    /// Writes a summary at the end; on standard output, JSON never mixes with records.
    pub fn write(self, to: Target, json: impl FnOnce() -> Value, text: impl FnOnce() -> String) {
        match self {
            SummaryForm::Json if to == Target::Jsonl => eprintln!("{}", json()),
            SummaryForm::Json => println!("{}", json()),
            SummaryForm::Text => eprint!("{}", text()),
        }
    }
}
