//! Records to ntopng over ZeroMQ, as nProbe publishes them.
//!
//! A message is two frames: a header of 24 octets (topic in 16, version 2, source, length of the payload, number of the
//! message), then JSON, or a 0 and JSON compressed with zlib. Messages of all topics are numbered together without gaps:
//! ntopng counts a gap as lost messages. Topics: `flow` (an array of records), `event` (sums of the agent, each
//! interval), `counter` (counters of interfaces), `template` (the elements of records).
//!
//! The agent leaves out two topics of nProbe, for reasons that ntopng's receiver shows. `hello` comes from an nProbe
//! that blocks traffic: ntopng ignores its content and answers with blocking rules. An agent that accepts no rules need
//! not send it, and an ntopng that does not subscribe to `hello` would count each such message as a gap. `option` gives
//! names to values of a field, one value a message, for applications that an exporter numbered itself. Applications
//! here have nDPI's numbers, which ntopng names by itself.

use super::elements::{ExportTemplate, View};

use super::nprobe_json::JsonForm;
use super::target::{Account, ExportTarget};
use crate::proto;
use crate::proto::flow_message::Body;
use anyhow::{Context as _, anyhow, bail};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::io::Write as _;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// ntopng decompresses a payload into a buffer of this size or of five times the payload, whichever is larger, and
/// drops longer ones. Records shrink more than fivefold, so longer JSON is sent uncompressed.
pub const ROOM: usize = 8192;
/// Octets of an interface's name that ntopng keeps.
const NAME: usize = 31;
/// How often the template is sent again, for late subscribers.
const TEMPLATE_EVERY: Duration = Duration::from_secs(60);
/// How long a replay waits for someone to subscribe.
const SUBSCRIBED_WITHIN: Duration = Duration::from_secs(30);
/// Time after a subscriber's first subscription within which its others arrive.
const ALL_TOPICS_WITHIN: Duration = Duration::from_millis(100);
/// Maximum number of messages that wait for a slow subscriber, at most 80 MiB. Beyond that, a live capture drops
/// messages for that subscriber alone, and ntopng sees the gap; a replay waits.
const WAITING: i32 = 10_000;
/// How long messages of a live capture may take to leave at the end.
const LINGER: Duration = Duration::from_secs(2);
/// How long a replay waits for a subscriber that reads nothing, within the capture and at its end.
const PATIENCE: Duration = Duration::from_secs(60);

/// An ntopng, and the form of the records for it.
#[warn(missing_docs)]
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct ToNtopng {
    /// Endpoint of ZeroMQ.
    pub address: String,
    /// Connect to it instead of listening on it.
    #[serde(default)]
    pub connect: bool,
    /// Compress with zlib.
    #[serde(default)]
    pub compress: bool,
    /// Distinguishes agents that connect to one ntopng, which counts the messages of each separately.
    #[serde(default)]
    pub source: u8,
    /// Template; empty: `@NTOPNG@`.
    #[serde(default)]
    pub template: String,
    /// Use names as JSON keys, not numbers.
    #[serde(default)]
    pub json_labels: bool,
}

/// Captured by a worker since the epoch's start.
#[derive(Clone, Copy, Default)]
struct WorkerSums {
    packets: u64,
    octets: u64,
    dropped: u64,
}

/// A publisher of ZeroMQ.
pub struct Ntopng {
    form: JsonForm,
    address: String,
    connect: bool,
    compress: bool,
    source: u8,
    /// Wait for slow subscribers.
    wait: bool,
    socket: Option<zmq::Socket>,
    subscribers: usize,
    next_id: u32,
    template_sent: Option<Instant>,
    /// Records that wait, as JSON after `[` and between commas, and how many.
    flows: (Vec<u8>, u64),
    exported: u64,
    workers: BTreeMap<u32, WorkerSums>,
}

/// The frame before a payload.
fn header(topic: &str, source: u8, octets: u16, id: u32) -> [u8; 24] {
    let mut header = [0; 24];
    header[..topic.len()].copy_from_slice(topic.as_bytes());
    header[16] = 2;
    header[17] = source;
    header[18..20].copy_from_slice(&octets.to_be_bytes());
    header[20..].copy_from_slice(&id.to_be_bytes());
    header
}

impl Ntopng {
    pub fn new(to: &ToNtopng, template: ExportTemplate) -> anyhow::Result<Ntopng> {
        let address = &to.address[..];
        let port = address.strip_prefix("tcp://").and_then(|rest| rest.rsplit_once(':'));
        if !port.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0))
            && !address.starts_with("ipc://")
        {
            bail!("{address:?} is not an endpoint such as \"tcp://*:5556\"");
        }
        Ok(Ntopng {
            form: JsonForm::new(template, to.json_labels),
            address: address.to_owned(),
            connect: to.connect,
            compress: to.compress,
            source: to.source,
            wait: false,
            socket: None,
            subscribers: 0,
            next_id: 0,
            template_sent: None,
            flows: (Vec::new(), 0),
            exported: 0,
            workers: BTreeMap::new(),
        })
    }

    /// Updates the list of subscribers.
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

    /// Publishes a payload with this many records.
    fn publish(&mut self, topic: &str, json: &[u8], records: u64, account: &Account) {
        let Some(socket) = &self.socket else { return account.shed("not_connected", records) };
        if self.subscribers == 0 {
            return account.shed("no_subscriber", records);
        }
        let payload = if self.compress && json.len() <= ROOM { compressed(json) } else { json.to_vec() };
        let Ok(octets) = u16::try_from(payload.len()) else { return account.shed("too_long", records) };
        let frames = [header(topic, self.source, octets, self.next_id).to_vec(), payload];
        let deadline = Instant::now() + PATIENCE;
        let sent = loop {
            match socket.send_multipart(&frames, zmq::DONTWAIT) {
                Err(zmq::Error::EAGAIN) if self.wait && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                sent => break sent,
            }
        };
        match sent {
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

    /// How long messages may take to leave at the end.
    fn linger(&self) -> Duration {
        if self.wait { PATIENCE } else { LINGER }
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

    /// The agent's sums at the end of a worker's interval.
    fn tell_sums(&mut self, message: &proto::FlowMessage, closing: &proto::ClosingRecord, account: &Account) {
        let before = self.workers.values().fold(WorkerSums::default(), WorkerSums::plus);
        let total = closing.epoch_total.clone().unwrap_or_default();
        let captured = total.captured.unwrap_or_default();
        let dropped = total.dropped.iter().map(|drop| drop.packets).sum();
        self.workers.insert(message.worker, WorkerSums { packets: captured.packets, octets: captured.octets, dropped });
        let now = self.workers.values().fold(WorkerSums::default(), WorkerSums::plus);
        let seconds = f64::from(message.interval_ms) / 1000.0;
        let source = interface(&closing.source);
        let interval_s = message.interval_ms / 1000;
        let event = json!({
            "bytes": now.octets,
            "packets": now.packets,
            "packet_drops": now.dropped,
            "iface": {"name": source, "speed": 0, "ip": ""},
            "probe": {"ip": "", "public_ip": "", "version": closing.agent_version, "osname": std::env::consts::OS},
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

impl WorkerSums {
    fn plus(self, other: &WorkerSums) -> WorkerSums {
        WorkerSums {
            packets: self.packets + other.packets,
            octets: self.octets + other.octets,
            dropped: self.dropped + other.dropped,
        }
    }
}

/// Makes sending fail, instead of dropping the message, when a subscriber's queue is full; the library's wrapper lacks
/// this option.
fn never_drop(socket: &mut zmq::Socket) -> anyhow::Result<()> {
    let on: c_int = 1;
    let option = zmq_sys::ZMQ_XPUB_NODROP as c_int;
    // SAFETY: the socket is open, and the option's value is an int of the length that is given.
    let status =
        unsafe { zmq_sys::zmq_setsockopt(socket.as_mut_ptr(), option, (&raw const on).cast(), size_of::<c_int>()) };
    if status != 0 {
        bail!("ZeroMQ cannot wait for subscribers: it is older than 4.1");
    }
    Ok(())
}

/// The name of the interface or file, truncated to the length that ntopng keeps.
fn interface(source: &str) -> &str {
    let name = source.split_once(':').map_or(source, |(_, name)| name);
    let name = name.rsplit('/').next().unwrap_or(name);
    let end = (0..=name.len().min(NAME)).rev().find(|&end| name.is_char_boundary(end));
    &name[..end.unwrap_or(0)]
}

/// A 0, then the text compressed with zlib.
pub fn compressed(json: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(vec![0], Compression::fast());
    let written = encoder.write_all(json);
    debug_assert!(written.is_ok(), "memory takes whatever is written");
    encoder.finish().unwrap_or_default()
}

impl ExportTarget for Ntopng {
    fn connect(&mut self, wait: bool) -> anyhow::Result<()> {
        if wait && self.address.starts_with("ipc://") {
            // When the publisher closes, a subscriber that has stopped reading a Unix socket drops the unread octets.
            bail!("subscribers to {} could lose the last records of a replay: use tcp:// instead", self.address);
        }
        let mut socket = zmq::Context::new().socket(zmq::XPUB)?;
        self.wait = wait;
        if wait {
            never_drop(&mut socket)?;
        }
        socket.set_sndhwm(WAITING)?;
        socket.set_linger(self.linger().as_millis() as i32)?;
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
            if self.subscribers > 0 {
                std::thread::sleep(ALL_TOPICS_WITHIN);
            }
        }
        Ok(())
    }

    fn endpoints(&self) -> Vec<(String, u8)> {
        // A listener does not know beforehand by which address others reach it.
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
                let mut record = Vec::new();
                for flow in &batch.flows {
                    record.clear();
                    self.form.write(&View::both(flow, message.interval_start_ms), &mut record);
                    // With the brackets or comma around it.
                    if self.flows.0.len() + record.len() + 2 > ROOM {
                        self.publish_flows(account);
                    }
                    self.flows.0.push(if self.flows.1 == 0 { b'[' } else { b',' });
                    self.flows.0.append(&mut record);
                    self.flows.1 += 1;
                }
            }
            Some(Body::Closing(closing)) => {
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
        // Closing it waits until pending messages are sent.
        let began = Instant::now();
        self.socket = None;
        if began.elapsed() >= self.linger() {
            account.failed(&anyhow!("subscribers had not read everything after {} s", self.linger().as_secs()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::metrics::ExportMetrics;
    use crate::metrics::Metrics;
    use flate2::read::ZlibDecoder;
    use std::io::Read as _;
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_header_has_24_octets_in_network_order() {
        let expected = b"flow\0\0\0\0\0\0\0\0\0\0\0\0\x02\x03\x01\x02\0\x01\0\x02";
        assert_eq!(&header("flow", 3, 0x0102, 0x0001_0002), expected);
    }

    #[test]
    fn a_compressed_payload_begins_with_a_zero() {
        let payload = compressed(b"[{\"8\":\"192.0.2.1\"}]");
        let mut json = String::new();
        ZlibDecoder::new(&payload[1..]).read_to_string(&mut json).unwrap();
        assert_eq!((payload[0], &json[..]), (0, "[{\"8\":\"192.0.2.1\"}]"));
    }

    #[test]
    fn an_interface_is_named_as_far_as_there_is_room() {
        assert_eq!((interface("af_packet:eth0"), interface("file:/data/monday.pcap")), ("eth0", "monday.pcap"));
        assert_eq!(interface(&format!("file:{}é.pcap", "x".repeat(30))), "x".repeat(30));
    }

    #[test]
    fn a_replay_loses_nothing_to_a_subscriber_that_does_not_read() {
        const SENT: u32 = 4 * WAITING as u32;
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let to = ToNtopng { address: format!("tcp://127.0.0.1:{port}"), ..ToNtopng::default() };
        let payload = [b' '; 1000];
        let mut publisher = Ntopng::new(&to, ExportTemplate::parse("@NTOPNG@", true).unwrap()).unwrap();
        let account = Account::new("slow".to_owned(), ExportMetrics::new(&Metrics::default()));
        let sent = AtomicU32::new(0);
        let received = std::thread::scope(|scope| {
            let subscriber = scope.spawn(|| {
                let socket = zmq::Context::new().socket(zmq::SUB).unwrap();
                socket.set_rcvhwm(1).unwrap();
                socket.set_rcvtimeo(20_000).unwrap();
                socket.set_subscribe(b"").unwrap();
                socket.connect(&to.address).unwrap();
                // Reads nothing as long as the publisher continues.
                let mut before = 0;
                loop {
                    std::thread::sleep(Duration::from_millis(100));
                    let now = sent.load(Ordering::Relaxed);
                    if now > 0 && now == before {
                        break;
                    }
                    before = now;
                }
                let next = || Some(u32::from_be_bytes(*socket.recv_multipart(0).ok()?[0].last_chunk()?));
                std::iter::from_fn(next).take(SENT as usize).collect::<Vec<_>>()
            });
            publisher.connect(true).unwrap();
            for _ in 0..SENT {
                publisher.publish("flow", &payload, 1, &account);
                sent.fetch_add(1, Ordering::Relaxed);
            }
            publisher.finish(&account, &AtomicBool::new(false));
            subscriber.join().unwrap()
        });
        let gap = received.windows(2).find(|pair| pair[0] + 1 != pair[1]);
        let ends = (received.first().copied(), received.last().copied());
        assert_eq!((ends, gap, account.lost()), ((Some(0), Some(SENT - 1)), None, 0));
    }

    #[test]
    fn a_replay_needs_an_endpoint_that_loses_no_tail() {
        let to = ToNtopng { address: "ipc:///tmp/weir-never-made".to_owned(), ..ToNtopng::default() };
        let mut publisher = Ntopng::new(&to, ExportTemplate::parse("@NTOPNG@", true).unwrap()).unwrap();
        assert!(publisher.connect(true).unwrap_err().to_string().contains("use tcp://"));
        assert!(!publisher.is_connected());
    }

    #[test]
    fn endpoints_are_checked() {
        let new = |address: &str| {
            let to = ToNtopng { address: address.to_owned(), ..ToNtopng::default() };
            Ntopng::new(&to, ExportTemplate::parse("@NTOPNG@", true).unwrap())
        };
        assert!(new("tcp://*:5556").is_ok() && new("ipc:///run/weir").is_ok());
        assert!(new("5556").is_err() && new("tcp://*").is_err() && new("tcp://:5556").is_err());
    }
}
