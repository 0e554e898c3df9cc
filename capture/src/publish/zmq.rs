//! Records to ntopng over ZeroMQ, as nProbe publishes them.
//!
//! A message is two frames: a header of 24 octets (topic in 16, version 2, source, length of the payload, number of the
//! message), then JSON, or a 0 and JSON compressed with zlib. Messages of all topics are numbered together without gaps:
//! a gap is what ntopng counts as lost. Topics: `flow` (an array of records), `event` (sums of the agent, each interval),
//! `counter` (counters of interfaces), `template` (what records say).

use super::elements::{Template, View};
use super::export::{Account, Exporter};
use super::nprobe_json::JsonForm;
use crate::proto;
use crate::proto::flow_message::Body;
use anyhow::{Context as _, bail};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Octets of JSON in a message of records, about: a header can state 65,535 of a payload.
const FLOWS_OCTETS: usize = 32_768;
/// How often the template is told again: who subscribes late is to know it too.
const TEMPLATE_EVERY: Duration = Duration::from_secs(60);
/// How long a replay waits for someone to subscribe.
const SUBSCRIBED_WITHIN: Duration = Duration::from_secs(30);
/// Messages that wait for a subscriber that is slow; past them ZeroMQ drops, and ntopng sees the gap.
const WAITING: i32 = 10_000;
/// How long messages may take to leave at the end, ms.
const LINGER_MS: i32 = 2000;

/// Captured by a worker since the epoch's start.
#[derive(Clone, Copy, Default)]
struct Sums {
    packets: u64,
    octets: u64,
    dropped: u64,
}

/// A publisher of ZeroMQ.
pub(super) struct Publisher {
    form: JsonForm,
    address: String,
    connect: bool,
    compress: bool,
    socket: Option<zmq::Socket>,
    subscribers: usize,
    next_id: u32,
    template_sent: Option<Instant>,
    /// Records that wait, as JSON after `[` and between commas, and how many.
    flows: (Vec<u8>, u64),
    exported: u64,
    workers: BTreeMap<u32, Sums>,
    probe: String,
}

/// The frame that goes before a payload.
fn header(topic: &str, octets: u16, id: u32) -> [u8; 24] {
    let mut header = [0; 24];
    header[..topic.len()].copy_from_slice(topic.as_bytes());
    header[16] = 2;
    header[18..20].copy_from_slice(&octets.to_be_bytes());
    header[20..].copy_from_slice(&id.to_be_bytes());
    header
}

impl Publisher {
    pub(super) fn new(
        address: &str,
        connect: bool,
        compress: bool,
        template: Template,
        labels: bool,
    ) -> anyhow::Result<Publisher> {
        let port = address.strip_prefix("tcp://").and_then(|rest| rest.rsplit_once(':'));
        if !port.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0))
            && !address.starts_with("ipc://")
        {
            bail!("{address:?} is no endpoint such as \"tcp://*:5556\"");
        }
        Ok(Publisher {
            form: JsonForm::new(template, labels),
            address: address.to_owned(),
            connect,
            compress,
            socket: None,
            subscribers: 0,
            next_id: 0,
            template_sent: None,
            flows: (Vec::new(), 0),
            exported: 0,
            workers: BTreeMap::new(),
            probe: String::new(),
        })
    }

    /// Takes note of who subscribed or left.
    fn listen(&mut self) {
        let Some(socket) = &self.socket else { return };
        while let Ok(message) = socket.recv_bytes(zmq::DONTWAIT) {
            match message.first() {
                Some(1) => {
                    self.subscribers += 1;
                    self.template_sent = None;
                }
                Some(0) => self.subscribers = self.subscribers.saturating_sub(1),
                _ => {}
            }
        }
    }

    /// Publishes a payload that tells of so many records.
    fn publish(&mut self, topic: &str, json: &[u8], records: u64, account: &Account) {
        let Some(socket) = &self.socket else { return account.shed("not_connected", records) };
        if self.subscribers == 0 {
            return account.shed("no_subscriber", records);
        }
        let payload = if self.compress { compressed(json) } else { json.to_vec() };
        let Ok(octets) = u16::try_from(payload.len()) else { return account.shed("too_long", records) };
        let frames = [header(topic, octets, self.next_id).to_vec(), payload];
        match socket.send_multipart(&frames, zmq::DONTWAIT) {
            Ok(()) => {
                self.next_id = self.next_id.wrapping_add(1);
                self.exported += records;
                account.sent(1, records, usize::from(octets) + frames[0].len());
            }
            Err(error) => {
                account.failed(&anyhow::Error::from(error).context("cannot publish"));
                account.shed("not_sent", records);
            }
        }
    }

    fn publish_flows(&mut self, account: &Account) {
        let (mut json, records) = std::mem::take(&mut self.flows);
        if records > 0 {
            json.push(b']');
            self.publish("flow", &json, records, account);
        }
    }

    fn tell_template(&mut self, account: &Account) {
        if self.subscribers > 0 && self.template_sent.is_none_or(|sent| sent.elapsed() > TEMPLATE_EVERY) {
            self.template_sent = Some(Instant::now());
            let template = self.form.describe().to_string();
            self.publish("template", template.as_bytes(), 0, account);
        }
    }

    /// What the agent came to, at the end of a worker's interval.
    fn tell_sums(&mut self, message: &proto::FlowMessage, closing: &proto::ClosingRecord, account: &Account) {
        let before = self.workers.values().fold(Sums::default(), Sums::plus);
        let total = closing.epoch_total.clone().unwrap_or_default();
        let captured = total.captured.unwrap_or_default();
        let dropped = total.dropped.iter().map(|drop| drop.packets).sum();
        self.workers.insert(message.worker, Sums { packets: captured.packets, octets: captured.octets, dropped });
        let now = self.workers.values().fold(Sums::default(), Sums::plus);
        let seconds = f64::from(message.interval_ms) / 1000.0;
        let source = closing.source.split_once(':').map_or(&closing.source[..], |(_, name)| name);
        let interval_s = message.interval_ms / 1000;
        let event = json!({
            "bytes": now.octets,
            "packets": now.packets,
            "packet_drops": now.dropped,
            "iface": {"name": source, "speed": 0, "ip": ""},
            "probe": {"ip": "", "public_ip": "", "version": closing.agent_version, "osname": "", "instance": self.probe},
            "time": (message.interval_start_ms + u64::from(message.interval_ms)) / 1000,
            "avg": {
                "bps": ((now.octets - before.octets.min(now.octets)) as f64 * 8.0 / seconds) as u64,
                "pps": ((now.packets - before.packets.min(now.packets)) as f64 / seconds) as u64,
            },
            "timeout": {"lifetime": interval_s, "idle": interval_s, "collected_lifetime": 0},
            "drops": {
                "export_queue_full": account.lost(),
                "too_many_flows": 0,
                "elk_flow_drops": 0,
                "sflow_pkt_sample_drops": 0,
                "flow_collection_drops": 0,
                "flow_collection_udp_socket_drops": 0,
            },
            "zmq": {"num_flow_exports": self.exported, "num_exporters": 1},
        });
        self.publish("event", event.to_string().as_bytes(), 0, account);
        for (number, interface) in (1..).zip(&closing.interfaces) {
            let counter = json!({
                "deviceIP": "0.0.0.0",
                "ifIndex": number,
                "ifName": interface.name,
                "ifInOctets": interface.rx_octets,
                "ifInPackets": interface.rx_packets,
                "ifInErrors": interface.rx_dropped,
                "ifOutOctets": interface.tx_octets,
                "ifOutPackets": interface.tx_packets,
                "ifOutErrors": 0,
            });
            self.publish("counter", counter.to_string().as_bytes(), 0, account);
        }
    }
}

impl Sums {
    fn plus(self, other: &Sums) -> Sums {
        Sums {
            packets: self.packets + other.packets,
            octets: self.octets + other.octets,
            dropped: self.dropped + other.dropped,
        }
    }
}

/// A 0 and what zlib makes of it.
fn compressed(json: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(vec![0], Compression::fast());
    let written = encoder.write_all(json);
    debug_assert!(written.is_ok(), "memory takes whatever is written");
    encoder.finish().unwrap_or_default()
}

impl Exporter for Publisher {
    fn connect(&mut self, wait: bool) -> anyhow::Result<()> {
        let socket = zmq::Context::new().socket(zmq::XPUB)?;
        socket.set_sndhwm(WAITING)?;
        socket.set_linger(LINGER_MS)?;
        socket.set_ipv6(true)?;
        let reached = if self.connect { socket.connect(&self.address) } else { socket.bind(&self.address) };
        let what = if self.connect { "connect to" } else { "listen on" };
        reached.with_context(|| format!("cannot {what} {}", self.address))?;
        self.socket = Some(socket);
        let until = Instant::now() + SUBSCRIBED_WITHIN;
        while wait && self.subscribers == 0 {
            if Instant::now() > until {
                bail!("nobody subscribed to {} within {} s", self.address, SUBSCRIBED_WITHIN.as_secs());
            }
            std::thread::sleep(Duration::from_millis(10));
            self.listen();
        }
        Ok(())
    }

    fn endpoints(&self) -> Vec<(String, u8)> {
        // Where it listens, nobody knows beforehand by which address it is reached.
        let to = self.address.strip_prefix("tcp://").filter(|to| !to.starts_with('*'));
        to.map(|to| (to.to_owned(), 6)).into_iter().collect()
    }

    fn is_connected(&self) -> bool {
        self.socket.is_some()
    }

    fn send(&mut self, message: &proto::FlowMessage, account: &Account) {
        self.listen();
        self.tell_template(account);
        match &message.body {
            Some(Body::Batch(batch)) => {
                for flow in &batch.flows {
                    self.flows.0.push(if self.flows.1 == 0 { b'[' } else { b',' });
                    self.form.write(&View::both(flow, message.interval_start_ms), &mut self.flows.0);
                    self.flows.1 += 1;
                    if self.flows.0.len() > FLOWS_OCTETS {
                        self.publish_flows(account);
                    }
                }
            }
            Some(Body::Closing(closing)) => {
                self.probe.clone_from(&message.probe);
                self.publish_flows(account);
                self.tell_sums(message, closing, account);
            }
            None => {}
        }
    }

    fn flush(&mut self, account: &Account) {
        self.listen();
        self.publish_flows(account);
    }

    fn finish(&mut self, account: &Account, _: &AtomicBool) {
        self.flush(account);
        // Closing it waits for what is still to leave.
        self.socket = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::ZlibDecoder;
    use std::io::Read as _;

    #[test]
    fn a_header_has_24_octets_in_network_order() {
        let expected = b"flow\0\0\0\0\0\0\0\0\0\0\0\0\x02\0\x01\x02\0\x01\0\x02";
        assert_eq!(&header("flow", 0x0102, 0x0001_0002), expected);
    }

    #[test]
    fn a_compressed_payload_begins_with_a_zero() {
        let payload = compressed(b"[{\"8\":\"192.0.2.1\"}]");
        let mut json = String::new();
        ZlibDecoder::new(&payload[1..]).read_to_string(&mut json).unwrap();
        assert_eq!((payload[0], &json[..]), (0, "[{\"8\":\"192.0.2.1\"}]"));
    }

    #[test]
    fn endpoints_are_checked() {
        let new =
            |address: &str| Publisher::new(address, false, false, Template::parse("@NTOPNG@", true).unwrap(), false);
        assert!(new("tcp://*:5556").is_ok() && new("ipc:///run/weir").is_ok());
        assert!(new("5556").is_err() && new("tcp://*").is_err() && new("tcp://:5556").is_err());
    }
}
