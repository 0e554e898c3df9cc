//! The destination of records: the target of `--to`, and the exports.

use crate::config::Config;
use crate::export::Exports;
use crate::metrics::Metrics;
use crate::own_traffic::OwnTraffic;
use crate::publish::jsonl::JsonlSink;
use crate::publish::kafka::Kafka;
use crate::publish::kafka::metrics::KafkaMetrics;
use crate::publish::{NoSink, Sink};
use crate::signals::Asked;
use clap::ValueEnum;
use std::time::Duration;

/// How long Kafka and exports may take at the end of a live capture.
const PATIENCE_AT_END: Duration = Duration::from_secs(30);

/// The target that `--to` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Target {
    /// To Kafka
    Kafka,
    /// To the standard output, one JSON object a record
    Jsonl,
    /// Nowhere: the summary alone
    None,
}

/// The receivers of records.
pub struct Destination {
    main: Main,
    exports: Exports,
    /// A slow receiver blocks nothing: Kafka's records go to the spool; exports drop theirs and count them. In a
    /// replay, workers wait instead.
    live: bool,
}

enum Main {
    Kafka(Kafka),
    Jsonl(JsonlSink),
    None,
}

impl Destination {
    /// Opens the destination for this many workers.
    ///
    /// # Errors
    /// One clear line about what to do.
    pub fn open(
        to: Target,
        workers: u32,
        live: bool,
        config: &Config,
        metrics: &Metrics,
        asked: &Asked,
    ) -> anyhow::Result<Destination> {
        let kafka_metrics = KafkaMetrics::new(metrics);
        let main = match to {
            Target::None => Main::None,
            Target::Jsonl => Main::Jsonl(JsonlSink::new(Box::new(std::io::stdout()))),
            Target::Kafka => Main::Kafka(Kafka::start(config.kafka_options(workers, live), kafka_metrics, asked)?),
        };
        let exports = Exports::start(&config.export, !live, metrics, &OwnTraffic::default(), asked)?;
        Ok(Destination { main, exports, live })
    }

    /// A worker's sink.
    pub fn sink(&self) -> Box<dyn Sink> {
        self.exports.sink(match &self.main {
            Main::Kafka(kafka) => Box::new(kafka.sink()),
            Main::Jsonl(sink) => Box::new(sink.clone()),
            Main::None => Box::new(NoSink),
        })
    }

    /// Waits until everything has arrived: in a live capture at most 30 s, else as long as it takes.
    ///
    /// # Errors
    /// If something did not arrive; for exports, only in a replay.
    pub fn finish(self) -> anyhow::Result<()> {
        let patience = self.live.then_some(PATIENCE_AT_END);
        let main = match self.main {
            Main::Kafka(kafka) => kafka.finish(patience),
            Main::Jsonl(sink) => sink.flush().map_err(Into::into),
            Main::None => Ok(()),
        };
        if !self.live {
            main?;
            return self.exports.finish(None);
        }
        // The agent has counted and logged the records that exports dropped; they do not make a live capture fail.
        if let Err(error) = self.exports.finish(patience) {
            tracing::warn!("{error:#}");
        }
        main
    }
}
