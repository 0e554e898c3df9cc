//! Records as lines of JSON, for people and golden files.
//!
//! Keys are the names of `flow.proto`; addresses and times are text; counts of what did not occur are left out.

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
    /// # Errors
    /// What the stream says.
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

/// One record as JSON.
fn line(message: &proto::FlowMessage, flow: &proto::Flow) -> Value {
    let start = message.interval_start_ms as i64;
    let first = start + flow.first_seen_offset_ms;
    let mut line = Map::new();
    let mut put = |key: &str, value: Value| line.insert(key.to_owned(), value);
    put("probe", json!(message.probe));
    put("worker", json!(message.worker));
    put("interval_start", json!(iso8601(start)));
    put("interval_ms", json!(message.interval_ms));
    let kind = if flow.overflow.is_some() { "overflow" } else { "flow" };
    put("record_kind", json!(kind));
    if let Some(overflow) = &flow.overflow {
        put("overflow_key", json!(overflow.key().as_str_name().trim_start_matches("KEY_").to_lowercase()));
        put(
            "distinct_sketch",
            json!(overflow.distinct_sketch.iter().map(|octet| format!("{octet:02x}")).collect::<String>()),
        );
        if overflow.key() == proto::overflow::Key::ProtocolAndDirection {
            put("inbound", json!(overflow.inbound));
        }
    }
    for (name, address) in [("src_addr", &flow.src_addr), ("dst_addr", &flow.dst_addr)] {
        if !address.is_empty() {
            put(name, json!(text(address)));
        }
    }
    put("src_port", json!(flow.src_port));
    put("dst_port", json!(flow.dst_port));
    put("protocol", json!(flow.protocol));
    put("ip_version", json!(flow.ip_version));
    put("vlan", json!(flow.vlan));
    put("first_seen", json!(iso8601(first)));
    put("last_seen", json!(iso8601(first.saturating_add_unsigned(flow.last_seen_offset_ms))));
    put("flow_start", json!(iso8601(first.saturating_sub_unsigned(flow.flow_age_ms))));
    put("initiator_guess", json!(flow.initiator_guess));
    put("fwd_packets", json!(flow.fwd_packets));
    put("fwd_octets", json!(flow.fwd_octets));
    put("rev_packets", json!(flow.rev_packets));
    put("rev_octets", json!(flow.rev_octets));
    for (name, count) in [
        ("fwd_tcp_syn", flow.fwd_tcp_syn),
        ("rev_tcp_syn", flow.rev_tcp_syn),
        ("fwd_tcp_synack", flow.fwd_tcp_synack),
        ("rev_tcp_synack", flow.rev_tcp_synack),
        ("fwd_tcp_fin", flow.fwd_tcp_fin),
        ("rev_tcp_fin", flow.rev_tcp_fin),
        ("fwd_tcp_rst", flow.fwd_tcp_rst),
        ("rev_tcp_rst", flow.rev_tcp_rst),
        ("tcp_handshake_rtt_us", u64::from(flow.tcp_handshake_rtt_us)),
        ("fwd_tcp_retransmissions", flow.fwd_tcp_retransmissions),
        ("rev_tcp_retransmissions", flow.rev_tcp_retransmissions),
        ("fwd_tcp_out_of_order", flow.fwd_tcp_out_of_order),
        ("rev_tcp_out_of_order", flow.rev_tcp_out_of_order),
        ("fwd_icmp_errors", flow.fwd_icmp_errors),
        ("rev_icmp_errors", flow.rev_icmp_errors),
        ("application_id", u64::from(flow.application_id)),
    ] {
        if count > 0 {
            put(name, json!(count));
        }
    }
    for (name, stated) in [("server_name", &flow.server_name), ("dns_query", &flow.dns_query)] {
        if !stated.is_empty() {
            put(name, json!(stated));
        }
    }
    if flow.application_not_inspected != 0 {
        let cause = flow.application_not_inspected().as_str_name();
        put("application_not_inspected", json!(cause.trim_start_matches("NOT_INSPECTED_").to_lowercase()));
    }
    if let Some(quoted) = &flow.icmp_quoted_flow {
        let of = json!({
            "src_addr": text(&quoted.src_addr),
            "dst_addr": text(&quoted.dst_addr),
            "src_port": quoted.src_port,
            "dst_port": quoted.dst_port,
            "protocol": quoted.protocol,
        });
        put("icmp_quoted_flow", of);
    }
    Value::Object(line)
}

/// An address of 4 or 16 octets as text (RFC 5952 for IPv6).
fn text(address: &[u8]) -> String {
    match (<[u8; 4]>::try_from(address), <[u8; 16]>::try_from(address)) {
        (Ok(v4), _) => Ipv4Addr::from(v4).to_string(),
        (_, Ok(v6)) => Ipv6Addr::from(v6).to_string(),
        _ => String::new(),
    }
}
