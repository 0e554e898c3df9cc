//! A spoofed flood, each packet a flow of its own, against an agent with little memory: it loses detail, but no counts.

use crate::common::agent::{Agent, Net};
use crate::common::probe;
use crate::needs::{Need, live};
use prost::Message as _;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::Message as _;
use rdkafka::mocking::MockCluster;
use rdkafka::{Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};
use weir_probe::proto::flow_message::Body;
use weir_probe::proto::overflow::Key;
use weir_probe::proto::{Conservation, Flow, FlowMessage, RecordKind, Volume};

live! {
    [Need::Namespaces] => a_spoofed_flood_is_counted_to_the_packet_in_bounded_room;
}

/// Packets of the flood: several times the agent's capacity.
const PACKETS: u64 = 1_000_000;
/// Flow records of one interval.
const MOST_RECORDS: u64 = 100_000;
/// Overflow records of one interval: those with an address, and some kinds of the last rung.
const MOST_OVERFLOW: u64 = 4096 + 16;
/// The agent's memory limit. The flow table gets 0.75 * 128 MiB - 32 MiB of ring = 64 MiB.
const MEMORY: &str = "128MiB";

/// Every message of the flows topic, as it arrives, until the agent marks one as the last.
fn messages(brokers: &str) -> Vec<FlowMessage> {
    let consumer: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", brokers).set("group.id", "test").create().unwrap();
    let mut partitions = TopicPartitionList::new();
    partitions.add_partition_offset("weir.flows.flood", 0, Offset::Beginning).unwrap();
    consumer.assign(&partitions).unwrap();
    let mut messages = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        assert!(Instant::now() < deadline, "no last closing record among {} messages", messages.len());
        let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) else { continue };
        let message = FlowMessage::decode(message.payload().unwrap()).unwrap();
        let last = matches!(&message.body, Some(Body::Closing(closing)) if closing.last);
        messages.push(message);
        if last {
            return messages;
        }
    }
}

fn add(sum: &mut (u64, u64), volume: (u64, u64)) {
    *sum = (sum.0 + volume.0, sum.1 + volume.1);
}

fn pair(volume: &Option<Volume>) -> (u64, u64) {
    volume.as_ref().map_or((0, 0), |volume| (volume.packets, volume.octets))
}

/// Packets and octets: captured + carried in = in flow records + in overflow records + not metered + carried out.
fn assert_balanced(sums: &Conservation) {
    let (mut came, mut went) = ((0, 0), (0, 0));
    [&sums.captured, &sums.carried_in].into_iter().for_each(|volume| add(&mut came, pair(volume)));
    let records = [&sums.in_flow_records, &sums.in_overflow_records, &sums.carried_out];
    let causes = sums.not_metered.iter().map(|cause| &cause.volume);
    records.into_iter().chain(causes).for_each(|volume| add(&mut went, pair(volume)));
    assert_eq!(came, went, "{sums:?}");
}

fn a_spoofed_flood_is_counted_to_the_packet_in_bounded_room() {
    let net = Net::new("flood");
    let cluster = MockCluster::new(1).unwrap();
    for topic in ["weir.flows.flood", "weir.counters.flood"] {
        cluster.create_topic(topic, 1, 1).unwrap();
    }
    let brokers = cluster.bootstrap_servers();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("weir-probe.toml");
    let text = format!(
        "probe = \"flood\"\ninterval = \"1s\"\nworkers = 1\nstate_dir = {:?}\n[source]\ninterface = \"wire0\"\nnetns = \"{}\"\n\
         [limits]\nmemory = \"{MEMORY}\"\nmax_records_per_interval = {MOST_RECORDS}\n[kafka]\nbrokers = \"{brokers}\"\n",
        folder.path(),
        net.names[0]
    );
    std::fs::write(&config, text).unwrap();
    let mut command = probe();
    command.args(["run", "--summary", "json", "--config"]).arg(&config);
    let agent = Agent::spawn(command);
    let reader = std::thread::spawn(move || messages(&brokers));

    let packets = PACKETS.to_string();
    let sent = Command::new(env!("CARGO_BIN_EXE_weir-bench"))
        .args(["blast", "wire1", "--netns", &net.names[1], "--syn", "--sources", "0"])
        .args(["--packets", &packets, "--rate", "250000", "--seconds", "60"])
        .output()
        .unwrap();
    assert!(sent.status.success(), "{sent:?}");
    let sent: serde_json::Value = serde_json::from_slice(&sent.stdout).unwrap();
    let sent = sent["packets"].as_u64().unwrap();
    let summary = agent.finish();
    let messages = reader.join().unwrap();

    // In each interval, the records add up to the sums of the closing record, and these balance.
    let (mut flows, mut overflow): ((u64, u64), (u64, u64)) = ((0, 0), (0, 0));
    let (mut flow_records, mut overflow_records) = (0, 0);
    let (mut most_flow, mut most_overflow) = (0, 0);
    let mut gathered: BTreeMap<Rung, (u64, u64)> = BTreeMap::new();
    let mut last = None;
    for (number, message) in messages.into_iter().enumerate() {
        assert_eq!(message.sequence, number as u64, "a message is missing");
        match message.body.unwrap() {
            Body::Batch(batch) => {
                for flow in &batch.flows {
                    let volume = (flow.fwd_packets + flow.rev_packets, flow.fwd_octets + flow.rev_octets);
                    if flow.record_kind() == RecordKind::Flow {
                        add(&mut flows, volume);
                        flow_records += 1;
                    } else {
                        add(&mut overflow, volume);
                        overflow_records += 1;
                        let sum = gathered.entry(identity(flow)).or_default();
                        add(sum, (flow.fwd_packets, flow.fwd_tcp_syn));
                    }
                }
            }
            Body::Closing(closing) => {
                let sums = closing.interval.as_ref().unwrap();
                assert_balanced(sums);
                assert_eq!((pair(&sums.in_flow_records), pair(&sums.in_overflow_records)), (flows, overflow));
                assert_eq!(closing.records, flow_records + overflow_records);
                assert!(flow_records <= MOST_RECORDS, "{flow_records} flow records in an interval");
                assert!(overflow_records <= MOST_OVERFLOW, "{overflow_records} overflow records in an interval");
                (most_flow, most_overflow) = (most_flow.max(flow_records), most_overflow.max(overflow_records));
                (flows, overflow, flow_records, overflow_records) = ((0, 0), (0, 0), 0, 0);
                last = Some(closing);
            }
        }
    }
    // Compares the whole run with the interface's own counters and with the sender.
    let last = last.unwrap();
    let total = last.epoch_total.as_ref().unwrap();
    assert_balanced(total);
    let dropped: u64 = total.dropped.iter().map(|drop| drop.packets).sum();
    let offered = pair(&total.captured).0 + dropped + total.in_ring_packets;
    assert_eq!(pair(&total.on_interface).0, offered);
    let interface = &last.interfaces[0];
    assert_eq!((interface.rx_packets + interface.tx_packets, interface.rx_dropped), (offered, 0));
    assert_eq!(summary["packets"]["captured"].as_u64().unwrap(), pair(&total.captured).0);
    // The namespace may send an ARP or two of its own.
    assert!((sent..sent + 10).contains(&offered), "sent {sent}, on the interface {offered}");

    // The victim's overflow record has the most packets.
    assert!(pair(&total.in_overflow_records).0 > 0, "everything found room");
    let (victim, (packets, syns)) = gathered.iter().max_by_key(|(_, (packets, _))| *packets).unwrap();
    let expected = (Key::DestinationAndPort as i32, vec![198, 18, 0, 0], 80, 6);
    assert_eq!(victim, &expected);
    assert_eq!(packets, syns);
    println!(
        "sent {sent}, captured {}, dropped {dropped}; in flow records {}, in overflow records {}, of these {packets} of the \
         victim; at most {most_flow} + {most_overflow} records in an interval",
        pair(&total.captured).0,
        pair(&total.in_flow_records).0,
        pair(&total.in_overflow_records).0
    );
}

/// Key, address, port and protocol of an overflow record.
type Rung = (i32, Vec<u8>, u32, u32);

fn identity(flow: &Flow) -> Rung {
    let key = flow.overflow.as_ref().unwrap().key;
    (key, [&flow.src_addr[..], &flow.dst_addr[..]].concat(), flow.dst_port, flow.protocol)
}
