//! Records as lines of JSON, for people and golden files.
//!
//! Keys are the names of `flow.proto`, whose options say when to write a field; addresses and times are text.

use super::{Encoded, Sink};
use crate::proto;
use crate::proto::flow_message::Body;
use crate::time::iso8601;
use prost::Message as _;
use serde_json::{Map, Value, json};
use std::io::{BufWriter, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex};

/// Writes the records of all workers to one stream.
#[derive(Clone)]
pub struct JsonlSink(Arc<Mutex<BufWriter<Box<dyn Write + Send>>>>);

impl JsonlSink {
    /// A sink that writes to `stream`.
    pub fn new(stream: Box<dyn Write + Send>) -> JsonlSink {
        JsonlSink(Arc::new(Mutex::new(BufWriter::with_capacity(1 << 18, stream))))
    }

    /// Writes what is buffered.
    ///
    /// # Errors Those of the stream.
    pub fn flush(&self) -> std::io::Result<()> {
        self.0.lock().map_err(|_| std::io::Error::other("a worker failed while writing"))?.flush()
    }
}

impl Sink for JsonlSink {
    fn flows(&mut self, message: Encoded<'_>) -> anyhow::Result<()> {
        let message = proto::FlowMessage::decode(message.octets)?;
        let Some(Body::Batch(batch)) = &message.body else { return Ok(()) };
        let mut stream = self.0.lock().map_err(|_| anyhow::anyhow!("a worker failed while writing"))?;
        for flow in &batch.flows {
            serde_json::to_writer(&mut *stream, &line(&message, flow))?;
            stream.write_all(b"\n")?;
        }
        Ok(())
    }

    fn counters(&mut self, _: &proto::CounterMessage) -> anyhow::Result<()> {
        Ok(())
    }
}

// `state`: writes a record's fields as the options of `schemas/flow.proto` require.
include!(concat!(env!("OUT_DIR"), "/lines.rs"));

/// One record as JSON.
fn line(message: &proto::FlowMessage, flow: &proto::Flow) -> Value {
    let start = message.interval_start_ms as i64;
    let first = start + flow.first_seen_offset_ms;
    let mut line = Map::new();
    line.insert("probe".into(), json!(message.probe));
    line.insert("worker".into(), json!(message.worker));
    line.insert("interval_start".into(), json!(iso8601(start)));
    line.insert("interval_ms".into(), json!(message.interval_ms));
    // Offsets are stated as times; the direction of overflow, where the key has one.
    let otherwise = |field: &str, line: &mut Map<String, Value>| {
        let (key, value) = match field {
            "first_seen_offset_ms" => ("first_seen", json!(iso8601(first))),
            "last_seen_offset_ms" => {
                ("last_seen", json!(iso8601(first.saturating_add_unsigned(flow.last_seen_offset_ms))))
            }
            "flow_age_ms" => ("flow_start", json!(iso8601(first.saturating_sub_unsigned(flow.flow_age_ms)))),
            "inbound" => match &flow.overflow {
                Some(overflow) if overflow.key() == proto::overflow::Key::ProtocolAndDirection => {
                    ("inbound", json!(overflow.inbound))
                }
                _ => return,
            },
            _ => unreachable!("{field} has no other form"),
        };
        line.insert(key.into(), value);
    };
    state(flow, otherwise, &mut line);
    Value::Object(line)
}

/// A value of an enum without the enum's name, in lowercase.
fn word(name: &str, prefix: &str) -> String {
    name.trim_start_matches(prefix).to_lowercase()
}

/// Octets as text.
fn hexadecimal(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// An address of 4 or 16 octets as text (RFC 5952 for IPv6).
fn text(address: &[u8]) -> String {
    match (<[u8; 4]>::try_from(address), <[u8; 16]>::try_from(address)) {
        (Ok(v4), _) => Ipv4Addr::from(v4).to_string(),
        (_, Ok(v6)) => Ipv6Addr::from(v6).to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_routers_say_is_in_the_line() {
        let message = proto::FlowMessage { probe: "edge".into(), interval_ms: 10_000, ..Default::default() };
        let flow = proto::Flow {
            exporter_addr: vec![192, 0, 2, 1],
            sampling_rate: 100,
            input_interface: 7,
            output_interface: 8,
            application_not_inspected: proto::NotInspected::PoolFull.into(),
            icmp_quoted_flow: Some(proto::QuotedFlow { src_addr: vec![192, 0, 2, 2], ..Default::default() }),
            ..Default::default()
        };
        let line = line(&message, &flow);
        assert_eq!(line["exporter_addr"], "192.0.2.1");
        assert_eq!(["sampling_rate", "input_interface", "output_interface"].map(|key| &line[key]), [100, 7, 8]);
        assert_eq!(line["application_not_inspected"], "pool_full");
        assert_eq!(
            line["icmp_quoted_flow"],
            json!({"src_addr": "192.0.2.2", "dst_addr": "", "src_port": 0, "dst_port": 0, "protocol": 0})
        );
        assert_eq!(line["record_kind"], "flow");
        assert_eq!(line.get("fwd_tcp_fin"), None);
    }
}
