//! Exports of pmacct's own tests, against the values that those tests expect, field by field.

use super::exports_tests::{captured, vendors};
use super::*;
use crate::collect::element::octets::mapped;
use crate::collect::record::{GivenName, Named, SentCounts};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::path::Path;

/// pmacct's values that a record of ours has no counterpart of, and why.
const NOT_COMPARED: [(&str, &str); 8] = [
    ("peer_ip_src", "pmacct's tests replay the capture from an address of their own"),
    ("label", "from pmacct's configuration"),
    ("writer_id", "from pmacct's configuration"),
    ("flows", "always null"),
    ("mpls_vpn_rd", "mplsVpnRouteDistinguisher (IE 90) is left out and named in the summary"),
    ("mpls_vpn_rd_origin", "where pmacct found mpls_vpn_rd"),
    ("vrf_name", "pmacct's choice of ingress_vrf_name and egress_vrf_name, which are compared"),
    (
        "custom_primitives mpls_tl",
        "mplsTopLabelType, mplsTopLabelIPv4Address and mplsTopLabelPrefixLength are left out and named",
    ),
];

/// One record: pmacct's key and the value as text.
type Row = BTreeMap<String, String>;

/// Our records under pmacct's keys.
#[derive(Default)]
struct Rows {
    rows: Vec<Row>,
    names: HashMap<(bool, u32), String>,
}

impl Rows {
    fn name_of(&self, of: Named, number: u32) -> String {
        self.names.get(&(of == Named::Vrf, number)).cloned().unwrap_or_default()
    }
}

impl Take for Rows {
    fn flow(&mut self, _: &ExporterInfo, record: &Imported<'_>) {
        let route = record.routed.and_then(|routed| routed.read()).unwrap_or_default();
        let rate = u64::from(record.sampling.unwrap_or(1));
        let SentCounts { packets, octets, tcp_flags, class_of_service, .. } = record.sent[0];
        let [ingress, egress] = route.vrf;
        let (input, output) = (record.input_interface, record.output_interface);
        let mut row = vec![
            ("iface_in", input.to_string()),
            ("iface_out", output.to_string()),
            ("iface_name_in", self.name_of(Named::Interface, input)),
            ("iface_name_out", self.name_of(Named::Interface, output)),
            ("ip_proto", record.protocol.to_string()),
            ("tos", class_of_service.to_string()),
            ("tcp_flags", tcp_flags.to_string()),
            ("packets", (packets * rate).to_string()),
            ("bytes", (octets * rate).to_string()),
            ("timestamp_start", record.first_ms.to_string()),
            ("timestamp_end", record.last_ms.to_string()),
            ("fwd_status", route.forwarding_status.to_string()),
            ("mpls_label_stack", route.mpls_top_label.to_string()),
            ("vrf_id_ingress", ingress.to_string()),
            ("vrf_id_egress", egress.to_string()),
            ("ingress_vrf_name", self.name_of(Named::Vrf, ingress)),
            ("egress_vrf_name", self.name_of(Named::Vrf, egress)),
        ];
        for (end, keys) in
            [["ip_src", "port_src", "mask_src", "net_src"], ["ip_dst", "port_dst", "mask_dst", "net_dst"]]
                .into_iter()
                .enumerate()
        {
            let (address, length) = (record.addresses[end], route.prefix_lengths[end]);
            let values = [
                packet_text(&address),
                record.ports[end].to_string(),
                length.to_string(),
                packet_text(&network(&address, record.version, length)),
            ];
            row.extend(keys.into_iter().zip(values));
        }
        self.rows.push(row.into_iter().map(|(key, value)| (key.to_owned(), value)).collect());
    }

    fn name(&mut self, _: &ExporterInfo, given: &GivenName<'_>) -> bool {
        let name = String::from_utf8_lossy(given.name).into_owned();
        self.names.insert((given.of == Named::Vrf, given.number), name);
        true
    }
}

fn packet_text(address: &Address) -> String {
    crate::packet::readable(address).to_string()
}

/// The prefix of this length that contains the address.
fn network(address: &Address, version: u8, length: u8) -> Address {
    if length == 0 {
        return if version == 4 { mapped([0; 4]) } else { Address::default() };
    }
    let bits = if version == 4 { 96 } else { 0 } + u32::from(length);
    (u128::from_be_bytes(*address) & (u128::MAX << (128 - bits))).to_be_bytes()
}

/// pmacct's value, in the form of [`Rows`].
fn number_of(key: &str, value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let bits = |names: &[(&str, u32)]| {
        let stated = value.as_array().into_iter().flatten().filter_map(Value::as_str);
        stated.map(|name| names.iter().find(|known| known.0 == name).unwrap().1).sum::<u32>().to_string()
    };
    match key {
        "ip_proto" => match &*text {
            "udp" => "17",
            "tcp" => "6",
            "ipv6-icmp" => "58",
            "vrrp" => "112",
            other => panic!("{other}"),
        }
        .to_owned(),
        "tcp_flags" => bits(&[("FIN", 1), ("SYN", 2), ("RST", 4), ("PSH", 8), ("ACK", 16), ("URG", 32)]),
        // RFC 7270: two bits of status, six of reason.
        "fwd_status" => match &*text {
            "UNKNOWN Unclassified" => "0",
            "FORWARDED Unknown" => "64",
            "CONSUMED For us" => "195",
            other => panic!("{other}"),
        }
        .to_owned(),
        // `position-label`; Weir keeps the top label, and names the others among the elements left out.
        "mpls_label_stack" => {
            let top = value.get(0).and_then(Value::as_str).map(|top| top.strip_prefix("0-").unwrap());
            top.unwrap_or("0").to_owned()
        }
        // Seconds and microseconds.
        "timestamp_start" | "timestamp_end" => {
            let (seconds, micros) = text.split_once('.').unwrap();
            (seconds.parse::<i64>().unwrap() * 1000 + micros.parse::<i64>().unwrap() / 1000).to_string()
        }
        "ip_src" | "ip_dst" | "net_src" | "net_dst" => text.parse::<IpAddr>().unwrap().to_string(),
        _ => text,
    }
}

fn expected(path: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let row = |line: &str| {
        let Value::Object(mut stated) = serde_json::from_str(line).unwrap() else { panic!("{line}") };
        if let Some(Value::Object(more)) = stated.remove("custom_primitives") {
            stated.extend(more);
        }
        let compared = |key: &str| {
            let key = if key.starts_with("mpls_tl_") { "custom_primitives mpls_tl" } else { key };
            NOT_COMPARED.iter().all(|(other, _)| *other != key)
        };
        let stated = stated.into_iter().filter(|(key, _)| compared(key));
        stated.map(|(key, value)| (key.clone(), number_of(&key, &value))).collect()
    };
    lines.map(row).collect()
}

#[test]
fn what_pmacct_expects_of_its_exports_is_decoded() {
    let Some(folder) = vendors("what_pmacct_expects_of_its_exports_is_decoded") else { return };
    for (name, records) in [
        ("pmacct-100-IPFIXv10-CISCO", 12),
        ("pmacct-104-IPFIXv10-IPv6-CISCO-sampling_option", 3),
        ("pmacct-106-IPFIXv10-HUAWEI-vrf_name", 3),
        ("pmacct-112-IPFIXv10-CISCO-options-map-reassignment", 9),
    ] {
        let mut decoder = Decoder::default();
        let mut read = Rows::default();
        for (session, _, data) in captured(&folder.join(format!("{name}-traffic-00.pcap"))) {
            // pmacct keeps templates by address and domain, Weir by session (RFC 7011, section 8): the router of 112 sent
            // the template from a different port from its records, so that Weir refuses them as `unknown_template`.
            let session = Session { port: 0, ..session };
            // The captures were made long after the exports: these arrive when they were sent.
            let sent_ns = i64::from(word(&data, 4)) * 1_000_000_000;
            decoder.datagram_to(session, sent_ns, &data, &mut read);
        }
        let mut expected = expected(&folder.join(format!("{name}-expected.json")));
        assert_eq!(expected.len(), records, "{name}");
        // pmacct states other fields in each of its tests, and the same ones in all rows of a test.
        let keys: Vec<String> = expected[0].keys().cloned().collect();
        let mut rows = read.rows;
        rows.iter_mut().for_each(|row| row.retain(|key, _| keys.contains(key)));
        assert!(keys.len() >= 12 && rows.iter().all(|row| row.len() == keys.len()), "{name} {keys:?}");
        expected.sort();
        rows.sort();
        assert_eq!(rows, expected, "{name}");
    }
}
