//! `weir-probe interfaces`: lists the interfaces of this host, and the sources that can capture on each.

use crate::packet::LinkType;
use crate::source::interface::{Interface, Listed, list};
use crate::source::netdev::{XdpSupport, xdp_support};
use crate::source::{ethtool, pf_ring};
use crate::{Exit, Failure, host};
use clap::Args;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

/// Examples and notes.
pub const HELP: &str = "\
Examples:
  weir-probe interfaces
  weir-probe interfaces --json | jq -r '.interfaces[].sources[].interface'
The last column is what source.interface may say. Of another network namespace:
  nsenter --net=/run/netns/NAME weir-probe interfaces";

/// Options of `interfaces`.
#[derive(Args, Debug)]
pub struct InterfacesArgs {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// One interface.
struct InterfaceRow {
    listed: Listed,
    /// Its link type, or why the agent cannot capture on it.
    link: Result<LinkType, String>,
    speed: Option<u32>,
    driver: Option<String>,
    queues: u32,
    offloads: Vec<&'static str>,
    xdp: XdpSupport,
}

/// Linux capabilities that capturing requires, each with its purpose.
const CAPABILITIES: [(&str, u32, &str); 4] = [
    ("CAP_NET_RAW", 13, "any capture"),
    ("CAP_NET_ADMIN", 12, "switching receive offloads off, AF_XDP"),
    ("CAP_BPF", 39, "AF_XDP"),
    ("CAP_SYS_ADMIN", 21, "source.netns"),
];

/// Prints the list.
///
/// # Errors
/// If reading the system's list of interfaces or writing the output fails.
pub fn interfaces(args: &InterfacesArgs) -> Result<Exit, Failure> {
    let rows: Vec<InterfaceRow> = list()?.into_iter().map(InterfaceRow::of).collect();
    let pf_ring = pf_ring_state();
    let held = host::effective_capabilities();
    let text =
        if args.json { format!("{:#}\n", as_json(&rows, &pf_ring, held)) } else { as_text(&rows, &pf_ring, held) };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(Exit::Done)
}

impl InterfaceRow {
    fn of(listed: Listed) -> InterfaceRow {
        let name = listed.name.as_str();
        InterfaceRow {
            link: Interface::find(name).map(|interface| interface.link).map_err(|error| error.to_string()),
            speed: ethtool::speed(name),
            driver: ethtool::driver(name),
            queues: ethtool::receive_queues(name),
            offloads: ethtool::joining_offloads(name),
            xdp: xdp_support(listed.index),
            listed,
        }
    }

    /// Values of `source.interface` that capture on it, with a remark.
    fn sources(&self, pf_ring: &Result<(), String>) -> Vec<(String, &'static str)> {
        let name = &self.listed.name;
        let Ok(link) = self.link else { return Vec::new() };
        let mut sources = vec![(name.clone(), "AF_PACKET")];
        if link == LinkType::Ethernet && pf_ring.is_ok() {
            sources.push((format!("pfring:{name}"), "PF_RING"));
        }
        if link == LinkType::Ethernet && !self.listed.loopback {
            let by = match self.xdp {
                XdpSupport::ZeroCopy => "AF_XDP, zero copy",
                XdpSupport::Copy => "AF_XDP, copying",
                XdpSupport::Generic => "AF_XDP, copying, no gain",
                XdpSupport::Unknown => "AF_XDP",
            };
            sources.push((format!("xdp:{name}"), by));
        }
        sources
    }

    fn link_name(&self) -> &'static str {
        match self.link {
            Ok(LinkType::Ethernet) if self.listed.loopback => "loopback",
            Ok(LinkType::Ethernet) => "Ethernet",
            Ok(_) => "IP",
            Err(_) => "other",
        }
    }
}

/// Whether PF_RING can be used, or why not.
fn pf_ring_state() -> Result<(), String> {
    let path = pf_ring::library_path(Path::new(""));
    pf_ring::Library::load(path.as_deref()).map_err(|error| format!("{error:#}"))?;
    if Path::new("/proc/net/pf_ring").exists() {
        Ok(())
    } else {
        Err("the pf_ring kernel module is not loaded (modprobe pf_ring)".to_owned())
    }
}

fn xdp_name(xdp: XdpSupport) -> &'static str {
    match xdp {
        XdpSupport::ZeroCopy => "zero_copy",
        XdpSupport::Copy => "copy",
        XdpSupport::Generic => "generic",
        XdpSupport::Unknown => "unknown",
    }
}

fn as_json(rows: &[InterfaceRow], pf_ring: &Result<(), String>, held: u64) -> Value {
    let interfaces: Vec<Value> = rows
        .iter()
        .map(|row| {
            let sources = row.sources(pf_ring);
            json!({
                "name": row.listed.name,
                "link": row.link_name(),
                "not_captured": row.link.as_ref().err(),
                "up": row.listed.up,
                "carrier": row.listed.carrier,
                "speed_mbit": row.speed,
                "mtu": row.listed.mtu,
                "driver": row.driver,
                "receive_queues": row.queues,
                "xdp": xdp_name(row.xdp),
                "offloads": row.offloads,
                "sources": sources.iter().map(|(name, by)| json!({"interface": name, "by": by})).collect::<Vec<_>>(),
            })
        })
        .collect();
    let capabilities: serde_json::Map<String, Value> =
        CAPABILITIES.iter().map(|(name, bit, _)| ((*name).to_owned(), (held >> bit & 1 == 1).into())).collect();
    json!({
        "interfaces": interfaces,
        "pf_ring": {"available": pf_ring.is_ok(), "why_not": pf_ring.as_ref().err()},
        "capabilities": capabilities,
    })
}

fn as_text(rows: &[InterfaceRow], pf_ring: &Result<(), String>, held: u64) -> String {
    let head = ["INTERFACE", "LINK", "STATE", "SPEED", "MTU", "QUEUES", "XDP", "OFFLOADS", "SOURCE.INTERFACE"];
    let mut table = vec![head.map(str::to_owned)];
    for row in rows {
        let state = match (row.listed.up, row.listed.carrier) {
            (false, _) => "down",
            (true, false) => "no carrier",
            (true, true) => "up",
        };
        let sources: Vec<String> =
            row.sources(pf_ring).into_iter().map(|(name, by)| format!("{name} ({by})")).collect();
        let dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
        table.push([
            row.listed.name.clone(),
            row.link_name().to_owned(),
            state.to_owned(),
            row.speed.map_or_else(|| "-".to_owned(), |speed| format!("{speed} Mbit/s")),
            row.listed.mtu.to_string(),
            row.queues.to_string(),
            xdp_name(row.xdp).replace('_', " "),
            dash(row.offloads.join(" ")),
            dash(sources.join(", ")),
        ]);
    }
    let mut text = String::new();
    let widths: Vec<usize> =
        (0..head.len()).map(|column| table.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect();
    for row in &table {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        let _ = writeln!(text, "{}", cells.join("  ").trim_end());
    }
    text.push('\n');
    for row in rows {
        if let Err(error) = &row.link {
            let _ = writeln!(text, "{error}");
        }
    }
    if rows.iter().any(|row| !row.offloads.is_empty()) {
        text += "Offloads join packets before they are seen: the agent switches gro and lro off while it runs \
                 (source.receive_offloads);\n  tso and gso concern what this host itself sends (ethtool -K NAME tso off \
                 gso off).\n";
    }
    if rows.iter().any(|row| row.link.is_ok() && !row.listed.loopback) {
        text += "AF_XDP takes packets away from the host: use xdp:NAME on a port that does nothing but capture.\n";
    }
    if let Err(error) = pf_ring {
        let _ = writeln!(text, "No PF_RING: {error}");
    }
    text += "This process has:\n";
    for (name, bit, purpose) in CAPABILITIES {
        let _ = writeln!(text, "  {name:<13}  {:<3}  for {purpose}", if held >> bit & 1 == 1 { "yes" } else { "no" });
    }
    text
}
