//! Reads a probe's orders from Kafka, as they are; who follows them checks them.

use super::client::consumer;
use super::credentials::CredentialsFile;
use super::options::KafkaOptions;
use crossbeam_channel::{Receiver, Sender};
use rdkafka::consumer::{BaseConsumer, Consumer as _, DefaultConsumerContext};
use rdkafka::message::Message as _;
use rdkafka::{Offset, TopicPartitionList};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Orders that may wait to be followed.
const WAITING: usize = 16;

const PATIENCE: Duration = Duration::from_millis(500);

/// How long to wait before another client is set up.
const RETRY: Duration = Duration::from_secs(5);

/// A message of the topic of orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlMessage {
    /// Its place in the topic, from 0.
    pub offset: i64,
    /// Its value.
    pub octets: Vec<u8>,
}

/// Begins to read the orders, from the oldest on. The thread ends with `stop`.
///
/// # Errors
/// If the thread cannot be started.
pub fn read_control(options: KafkaOptions, stop: Arc<AtomicBool>) -> io::Result<Receiver<ControlMessage>> {
    let (orders, waiting) = crossbeam_channel::bounded(WAITING);
    std::thread::Builder::new().name("orders".to_owned()).spawn(move || {
        let credentials = options.credentials.clone().map(CredentialsFile::new);
        Reader { options, credentials, offset: 0, stop, orders }.run();
    })?;
    Ok(waiting)
}

struct Reader {
    options: KafkaOptions,
    credentials: Option<CredentialsFile>,
    /// The next message to read.
    offset: i64,
    stop: Arc<AtomicBool>,
    orders: Sender<ControlMessage>,
}

impl Reader {
    /// Reads until the agent stops, with a new client whenever there are new credentials.
    fn run(mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            match self.client() {
                Ok(client) => self.read(&client),
                Err(error) => {
                    tracing::warn!("orders cannot be read ({error:#}): trying again");
                    std::thread::sleep(RETRY);
                }
            }
        }
    }

    fn client(&self) -> anyhow::Result<BaseConsumer<DefaultConsumerContext>> {
        let client: BaseConsumer = consumer(&self.options)?;
        let mut places = TopicPartitionList::new();
        let topic = format!("weir.control.{}", self.options.probe);
        places.add_partition_offset(&topic, 0, Offset::Offset(self.offset))?;
        client.assign(&places)?;
        Ok(client)
    }

    fn read(&mut self, client: &BaseConsumer<DefaultConsumerContext>) {
        while !self.stop.load(Ordering::Relaxed) && !self.has_new_credentials() {
            match client.poll(PATIENCE) {
                Some(Ok(message)) => {
                    self.offset = message.offset() + 1;
                    let octets = message.payload().unwrap_or_default().to_vec();
                    if self.orders.send(ControlMessage { offset: message.offset(), octets }).is_err() {
                        return;
                    }
                }
                // The sending client says that Kafka is away; this one goes on by itself.
                Some(Err(error)) => {
                    tracing::debug!("reading orders: {error}");
                    std::thread::sleep(PATIENCE);
                }
                None => {}
            }
        }
    }

    fn has_new_credentials(&mut self) -> bool {
        self.credentials.as_mut().is_some_and(CredentialsFile::has_changed)
    }
}
