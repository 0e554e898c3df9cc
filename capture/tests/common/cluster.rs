//! librdkafka's own mock of a cluster.

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::Message as _;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::{Offset, TopicPartitionList};
use std::time::{Duration, Instant};

pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn cluster(partitions: i32) -> MockCluster<'static, DefaultProducerContext> {
    let cluster = MockCluster::new(1).unwrap();
    for topic in ["weir.flows.lab", "weir.counters.lab"] {
        cluster.create_topic(topic, partitions, 1).unwrap();
    }
    cluster
}

/// The values of a topic's partition, oldest first, until `enough` of them are there.
pub fn consume(brokers: &str, topic: &str, partition: i32, enough: impl Fn(&[Vec<u8>]) -> bool) -> Vec<Vec<u8>> {
    let consumer: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", brokers).set("group.id", "test").create().unwrap();
    let mut partitions = TopicPartitionList::new();
    partitions.add_partition_offset(topic, partition, Offset::Beginning).unwrap();
    consumer.assign(&partitions).unwrap();
    let mut values: Vec<Vec<u8>> = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    while !enough(&values) {
        assert!(Instant::now() < deadline, "{} messages in {topic}/{partition}", values.len());
        if let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) {
            values.push(message.payload().unwrap().to_vec());
        }
    }
    values
}
