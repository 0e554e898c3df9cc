//! `weir-bench export`: the cost of exporting, measured over generated records in memory.
//!
//! Like an export's thread, it decodes a batch and writes each record in the export's format. It does
//! not send.

use anyhow::bail;
use clap::Args;
use prost::Message as _;
use serde_json::json;
use std::hint::black_box;
use weir_probe::export::elements::{DEFAULT, ExportTemplate, View};
use weir_probe::export::ipfix::{Encoder, ExportProtocol};
use weir_probe::export::nprobe_json::JsonForm;
use weir_probe::export::nprobe_zmq::{ROOM, compressed};
use weir_probe::proto;
use weir_probe::proto::flow_message::Body;
use weir_probe::publish::encode::BATCH_RECORDS;
use weir_probe::{Exit, Failure, host};

/// Options of `export`.
#[derive(Args, Clone, Debug)]
pub struct ExportArgs {
    /// ipfix, netflow-v9, json or json-compressed
    #[arg(long, value_name = "NAME", default_value = "ipfix")]
    pub form: String,
    /// Records to export, both directions of a flow in each
    #[arg(long, value_name = "N", default_value_t = 5_000_000)]
    pub records: u64,
}

/// Distinct batches, few enough for the processor's caches, so that this does not measure memory.
const BATCHES: u32 = 20;
/// Time of the records, ms from the Unix epoch.
const START_MS: u64 = 1_700_000_000_000;
const INTERVAL_MS: u32 = 10_000;
/// Octets per datagram.
const MOST_OCTETS: usize = 1400;

/// Writes one batch after another, and counts the octets.
type WriteForm = Box<dyn FnMut(&proto::FlowMessage, &[proto::Flow]) -> usize>;

/// Exports generated records and prints one JSON object.
///
/// # Errors
/// [`Exit::CannotStart`] for an unknown form.
pub fn export(args: &ExportArgs) -> Result<Exit, Failure> {
    let mut form = form(&args.form).map_err(Failure::start)?;
    let batches: Vec<Vec<u8>> = (0..BATCHES).map(|number| batch(number).encode_to_vec()).collect();
    let run = |write: &mut dyn FnMut(&proto::FlowMessage, &[proto::Flow]) -> usize| -> anyhow::Result<(u64, f64)> {
        let (mut records, mut octets, cpu_ns) = (0_u64, 0, host::thread_cpu_ns());
        while records < args.records {
            for encoded in &batches {
                let message = proto::FlowMessage::decode(&encoded[..])?;
                let Some(Body::Batch(batch)) = &message.body else { continue };
                records += batch.flows.len() as u64;
                octets += write(&message, black_box(&batch.flows));
            }
        }
        let each = (host::thread_cpu_ns() - cpu_ns) as f64 / records as f64;
        Ok((octets as u64 / records, each))
    };
    let (_, decoding_ns) = run(&mut |_, _| 0).map_err(Failure::start)?;
    let (octets, both_ns) = run(&mut form).map_err(Failure::start)?;
    println!(
        "{}",
        json!({
            "form": args.form,
            "records": args.records,
            "octets_per_record": octets,
            "decoding_ns": decoding_ns.round(),
            "writing_ns": (both_ns - decoding_ns).round(),
            "ns_per_record": both_ns.round(),
        })
    );
    Ok(Exit::Done)
}

fn form(name: &str) -> anyhow::Result<WriteForm> {
    let binary = |protocol: ExportProtocol| -> anyhow::Result<WriteForm> {
        let mut encoder = Encoder::new(protocol, &ExportTemplate::parse(DEFAULT, false)?, 0, MOST_OCTETS);
        Ok(Box::new(move |message, flows| {
            let mut octets = 0;
            let mut out = |ready: weir_probe::export::ipfix::Ready<'_>| octets += black_box(ready.octets).len();
            encoder.interval(message.interval_start_ms, message.interval_ms, &mut out);
            for flow in flows {
                encoder.record(&View::both(flow, message.interval_start_ms), &mut out);
            }
            octets
        }))
    };
    let json = JsonForm::new(ExportTemplate::parse("@NTOPNG@", true)?, false);
    match name {
        "ipfix" => binary(ExportProtocol::Ipfix),
        "netflow-v9" => binary(ExportProtocol::V9),
        "json" => Ok(Box::new(move |message, flows| {
            let mut record = Vec::new();
            let each = flows.iter().map(|flow| {
                record.clear();
                json.write(&View::both(flow, message.interval_start_ms), &mut record);
                black_box(&record).len()
            });
            each.sum()
        })),
        "json-compressed" => Ok(Box::new(move |message, flows| {
            let (mut records, mut octets) = (Vec::new(), 0);
            for flow in flows {
                json.write(&View::both(flow, message.interval_start_ms), &mut records);
                // About as many as a message has.
                if records.len() > ROOM - ROOM / 16 {
                    octets += black_box(compressed(&records)).len();
                    records.clear();
                }
            }
            octets + compressed(&records).len()
        })),
        _ => bail!("{name:?} is not a form: use ipfix, netflow-v9, json or json-compressed"),
    }
}

/// A full batch: of every eight flows, five are TCP and three UDP; every fourth is IPv6.
fn batch(number: u32) -> proto::FlowMessage {
    let flow = |index: u32| {
        let id = number * BATCH_RECORDS as u32 + index;
        let (six, tcp) = (id % 4 == 3, id % 8 < 5);
        let address = |net: u8, host: u32| {
            let mut address = if six { vec![0x20, 1, 0x0d, 0xb8, net, 0, 0, 0, 0, 0, 0, 0] } else { Vec::new() };
            address.extend((u32::from(net) << 24 | host & 0xff_ffff).to_be_bytes());
            address
        };
        let asked = !tcp && id % 8 == 5;
        proto::Flow {
            src_addr: address(10, id.wrapping_mul(2_654_435_761)),
            dst_addr: address(198, id.wrapping_mul(40_503)),
            src_port: 20_000 + id % 40_000,
            dst_port: if tcp { 443 } else { 53 },
            protocol: if tcp { 6 } else { 17 },
            ip_version: if six { 6 } else { 4 },
            fwd_packets: 1 + u64::from(id % 50),
            fwd_octets: 60 + u64::from(id % 50) * 700,
            rev_packets: u64::from(id % 40),
            rev_octets: u64::from(id % 40) * 1100,
            first_seen_offset_ms: i64::from(id % 9000),
            last_seen_offset_ms: u64::from(id % 1000),
            fwd_tcp_syn: u64::from(tcp),
            rev_tcp_synack: u64::from(tcp),
            tcp_handshake_rtt_us: if tcp { 20_000 + id % 9973 } else { 0 },
            application_id: if tcp { 91 } else { 5 },
            server_name: if tcp { format!("host-{}.example.org", id % 1000) } else { String::new() },
            dns_query: if asked { format!("name-{}.example.net", id % 1000) } else { String::new() },
            ..proto::Flow::default()
        }
    };
    proto::FlowMessage {
        interval_start_ms: START_MS,
        interval_ms: INTERVAL_MS,
        body: Some(Body::Batch(proto::FlowBatch {
            flows: (0..BATCH_RECORDS as u32).map(flow).collect(),
            ..Default::default()
        })),
        ..proto::FlowMessage::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_writes_every_record() {
        let message = batch(0);
        let Some(Body::Batch(generated)) = &message.body else { panic!("no batch") };
        assert_eq!(generated.flows.len(), BATCH_RECORDS);
        for (name, least) in [("ipfix", 40), ("netflow-v9", 40), ("json", 200), ("json-compressed", 20)] {
            assert!(form(name).unwrap()(&message, &generated.flows) > least * BATCH_RECORDS, "{name}");
        }
        assert!(form("sflow").is_err());
    }
}
