//! `weir-probe decode`: prints the exports within capture files, one JSON object per record. For tests, and to see what
//! an exporter really sends.

use crate::collect::cause::Refusal;
use crate::collect::decode::Decoder;
use crate::collect::exporter::origin::ExporterInfo;
use crate::collect::record::{Imported, SentCounts};
use crate::packet::{Frame, LinkType, parse, protocol, readable};
use crate::source::file::CaptureFile;
use crate::{Exit, Failure};
use clap::Args;
use serde_json::{Map, Value, json};
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;

/// Options of `decode`.
#[derive(Args, Debug)]
pub struct DecodeArgs {
    /// Capture files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// UDP ports to which exporters send, separated by commas [default: the customary ports]
    #[arg(long, value_name = "PORT", value_delimiter = ',')]
    ports: Vec<u16>,
}

/// Customary ports of exports.
const PORTS: [u16; 7] = [2055, 2056, 4739, 6343, 9555, 9995, 9996];
const UDP_HEADER: usize = 8;

/// Decodes UDP datagrams to the customary or given ports and prints their records; the counts follow as one object on
/// standard error.
///
/// # Errors
/// [`Exit::CannotStart`] if a file cannot be read.
pub fn decode(args: &DecodeArgs) -> Result<Exit, Failure> {
    let DecodeArgs { files, ports } = args;
    let files: Vec<CaptureFile> =
        files.iter().map(|path| CaptureFile::open(path)).collect::<Result<_, _>>().map_err(Failure::start)?;
    let ports = if ports.is_empty() { &PORTS[..] } else { ports };
    let mut decoder = Decoder::default();
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut exit = Exit::Done;
    for file in &files {
        let mut reader = file.reader();
        loop {
            let raw = match reader.next(file.octets()) {
                Ok(Some(raw)) => raw,
                Ok(None) => break,
                Err(_) => {
                    exit = Exit::BrokenFile;
                    break;
                }
            };
            let link = LinkType::from_number(raw.link).unwrap_or(LinkType::Unknown);
            let frame = Frame { time_ns: raw.time_ns, link, data: raw.data, length: raw.length, vlan: None };
            let packet = parse(&frame);
            let Ok(ip) = packet.ip else { continue };
            if ip.protocol != protocol::UDP || ip.is_later_fragment() || !ports.contains(&ip.dst_port) {
                continue;
            }
            let start = packet.layer3 as usize + usize::from(ip.transport);
            let end = raw.data.len().min(start + ip.payload as usize);
            let Some(payload) = raw.data.get(start + UDP_HEADER..end) else { continue };
            let mut written = Ok(());
            decoder.datagram(ip.src, raw.time_ns, payload, &mut |info, record| {
                if written.is_ok() {
                    written = writeln!(out, "{}", object(info, record));
                }
            });
            written?;
        }
    }
    out.flush()?;
    eprintln!("{}", counts(&decoder));
    Ok(exit)
}

fn object(info: &ExporterInfo, record: &Imported<'_>) -> Value {
    let sent = |sent: &SentCounts| {
        json!({
            "packets": sent.packets,
            "octets": sent.octets,
            "tcp_flags": sent.tcp_flags,
            "class_of_service": sent.class_of_service,
            "retransmissions": sent.retransmissions,
            "out_of_order": sent.out_of_order,
        })
    };
    json!({
        "exporter": readable(&info.address),
        "agent": readable(&info.agent),
        "protocol": info.protocol.name(),
        "domain": info.domain,
        "src_addr": readable(&record.addresses[0]),
        "dst_addr": readable(&record.addresses[1]),
        "src_port": record.ports[0],
        "dst_port": record.ports[1],
        "ip_version": record.version,
        "ip_protocol": record.protocol,
        "vlan": record.vlan,
        "fwd": sent(&record.sent[0]),
        "rev": sent(&record.sent[1]),
        "first_ms": record.first_ms,
        "last_ms": record.last_ms,
        "sampling": record.sampling,
        "input_interface": record.input_interface,
        "output_interface": record.output_interface,
        "initiator_known": record.initiator_known,
        "application_id": record.application_id,
        "handshake_rtt_us": record.handshake_rtt_us,
        "server_name": String::from_utf8_lossy(record.server_name),
        "dns_query": String::from_utf8_lossy(record.dns_query),
    })
}

fn counts(decoder: &Decoder) -> Value {
    let counts = decoder.counts();
    let causes: Map<String, Value> =
        Refusal::ALL.into_iter().map(|cause| (cause.name().to_owned(), counts.of(cause).into())).collect();
    json!({
        "exporters": decoder.exporters().count(),
        "datagrams": counts.datagrams,
        "records": counts.records,
        "options": counts.options,
        "templates": counts.templates,
        "counter_samples": counts.counter_samples,
        "lost": counts.losses.lost,
        "samples_lost": counts.samples.lost,
        "restarts": counts.losses.restarts,
        "causes": causes,
    })
}
