//! The values of a record as information elements, and templates.

pub use super::element_list::{ELEMENTS, Element, NTOP, NTOP_IN_V9, REVERSE, What, Width};

use super::element_list::is_known;
use crate::app::list;
use crate::proto;
use anyhow::bail;
use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::OnceLock;

/// FIN, SYN, RST and ACK in a TCP header.
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// One record as exports state it: a biflow, or one direction of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct View<'a> {
    /// 4 or 6.
    pub version: u8,
    /// Source and destination; an IPv4 address is the first four octets. Zeros where an overflow record has none.
    pub addresses: [[u8; 16]; 2],
    /// Source and destination port. ICMP: 0 and type * 256 + code.
    pub ports: [u16; 2],
    /// Protocol above IP.
    pub protocol: u8,
    /// Outer VLAN id, 0 for none.
    pub vlan: u16,
    /// Packets that the source sent and received; the latter 0 in a one-way record.
    pub packets: [u64; 2],
    /// Layer-3 octets of these packets.
    pub octets: [u64; 2],
    /// TCP flags of these packets.
    pub flags: [u8; 2],
    /// Type of service or traffic class of these packets.
    pub class_of_service: [u8; 2],
    /// Retransmissions among these packets.
    pub retransmissions: [u64; 2],
    /// Out-of-order segments among these packets.
    pub out_of_order: [u64; 2],
    /// First and last packet, ms from the Unix epoch.
    pub seen_ms: [u64; 2],
    /// From the SYN to the ACK of the SYN-ACK, µs; 0 unknown.
    pub rtt_us: u32,
    /// Application as nDPI numbers them.
    pub application: u16,
    /// Server name, empty for none.
    pub server_name: &'a str,
    /// Name asked in DNS, empty for none.
    pub dns_query: &'a str,
    /// Interfaces at the exporter that the record was imported from.
    pub interfaces: [u32; 2],
    /// That exporter, 4 or 16 octets; empty if this agent captured the packets itself.
    pub exporter: &'a [u8],
    /// 1: the source began the flow, 2: the destination did, 0: not known (IE 239).
    pub initiator: u8,
}

impl<'a> View<'a> {
    /// The whole record: both directions.
    pub fn both(flow: &'a proto::Flow, interval_start_ms: u64) -> View<'a> {
        let first = (interval_start_ms as i64 + flow.first_seen_offset_ms).max(0) as u64;
        View {
            version: if flow.ip_version == 6 { 6 } else { 4 },
            addresses: [address(&flow.src_addr), address(&flow.dst_addr)],
            ports: [flow.src_port as u16, flow.dst_port as u16],
            protocol: flow.protocol as u8,
            vlan: flow.vlan as u16,
            packets: [flow.fwd_packets, flow.rev_packets],
            octets: [flow.fwd_octets, flow.rev_octets],
            flags: flags(flow),
            class_of_service: [flow.fwd_class_of_service as u8, flow.rev_class_of_service as u8],
            retransmissions: [flow.fwd_tcp_retransmissions, flow.rev_tcp_retransmissions],
            out_of_order: [flow.fwd_tcp_out_of_order, flow.rev_tcp_out_of_order],
            seen_ms: [first, first.saturating_add(flow.last_seen_offset_ms)],
            rtt_us: flow.tcp_handshake_rtt_us,
            application: flow.application_id as u16,
            server_name: &flow.server_name,
            dns_query: &flow.dns_query,
            interfaces: [flow.input_interface, flow.output_interface],
            exporter: &flow.exporter_addr,
            initiator: u8::from(!flow.initiator_guess),
        }
    }

    /// The forward direction and the reverse one, each only if it had packets.
    pub fn one_way(&self) -> impl Iterator<Item = View<'a>> {
        let there = View {
            packets: [self.packets[0], 0],
            octets: [self.octets[0], 0],
            flags: [self.flags[0], 0],
            class_of_service: [self.class_of_service[0], 0],
            retransmissions: [self.retransmissions[0], 0],
            out_of_order: [self.out_of_order[0], 0],
            ..*self
        };
        let swap = |pair: [u64; 2]| [pair[1], 0];
        let back = View {
            addresses: [self.addresses[1], self.addresses[0]],
            ports: if is_icmp(self.protocol) {
                [0, answer(self.protocol, self.ports[1])]
            } else {
                [self.ports[1], self.ports[0]]
            },
            packets: swap(self.packets),
            octets: swap(self.octets),
            flags: [self.flags[1], 0],
            class_of_service: [self.class_of_service[1], 0],
            retransmissions: swap(self.retransmissions),
            out_of_order: swap(self.out_of_order),
            interfaces: [self.interfaces[1], self.interfaces[0]],
            initiator: self.initiator * 2,
            ..*self
        };
        [there, back].into_iter().filter(|view| view.packets[0] > 0)
    }
}

fn address(octets: &[u8]) -> [u8; 16] {
    let mut address = [0; 16];
    let length = octets.len().min(16);
    address[..length].copy_from_slice(&octets[..length]);
    address
}

fn is_icmp(protocol: u8) -> bool {
    matches!(protocol, 1 | 58)
}

/// Type * 256 + code of the reply to an ICMP request, derived from the request because the record does not contain the
/// other side's messages; 0 if the type has no reply.
fn answer(protocol: u8, type_and_code: u16) -> u16 {
    match (protocol, type_and_code >> 8) {
        (1, 13) => 14 << 8,
        (1, 15) => 16 << 8,
        (1, 17) => 18 << 8,
        (58, 128) => 129 << 8,
        (58, 133) => 134 << 8,
        (58, 135) => 136 << 8,
        _ => 0,
    }
}

/// TCP flags that packets of each direction had. Records count SYN, SYN-ACK, FIN and RST; any other segment has an ACK
/// (RFC 9293, 3.1). Records do not state PSH, URG and the others.
fn flags(flow: &proto::Flow) -> [u8; 2] {
    if flow.protocol != 6 {
        return [0; 2];
    }
    let of = |packets: u64, syn: u64, synack: u64, fin: u64, rst: u64| {
        let set = |count: u64, flag: u8| if count > 0 { flag } else { 0 };
        set(syn + synack, SYN) | set(fin, FIN) | set(rst, RST) | set(packets.saturating_sub(syn + rst), ACK)
    };
    [
        of(flow.fwd_packets, flow.fwd_tcp_syn, flow.fwd_tcp_synack, flow.fwd_tcp_fin, flow.fwd_tcp_rst),
        of(flow.rev_packets, flow.rev_tcp_syn, flow.rev_tcp_synack, flow.rev_tcp_fin, flow.rev_tcp_rst),
    ]
}

/// The value of an element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ElementValue<'a> {
    Number(u64),
    /// Milliseconds with their fraction, which binary forms round to whole ones.
    Milliseconds(f64),
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// An IPv6 address.
    V6(Ipv6Addr),
    Text(&'a str),
}

/// `@NTOPNG@`: the elements that ntopng reads, as far as records have them.
const NTOPNG: &str = "%INPUT_SNMP %OUTPUT_SNMP %SRC_VLAN %IPV4_SRC_ADDR %IPV4_DST_ADDR %L4_SRC_PORT %L4_DST_PORT \
    %IPV6_SRC_ADDR %IPV6_DST_ADDR %IP_PROTOCOL_VERSION %PROTOCOL %L7_PROTO %IN_BYTES %IN_PKTS %OUT_BYTES %OUT_PKTS \
    %FIRST_SWITCHED %LAST_SWITCHED %CLIENT_TCP_FLAGS %SERVER_TCP_FLAGS %ICMP_TYPE %EXPORTER_IPV4_ADDRESS %DIRECTION \
    %SAMPLING_INTERVAL %FLOW_SOURCE %SERVER_NW_LATENCY_MS %OOORDER_IN_PKTS %OOORDER_OUT_PKTS %RETRANSMITTED_IN_PKTS \
    %RETRANSMITTED_OUT_PKTS %DNS_QUERY %TLS_SERVER_NAME";

/// The default template: elements that every collector knows.
pub const DEFAULT: &str = "%IPV4_SRC_ADDR %IPV4_DST_ADDR %L4_SRC_PORT %L4_DST_PORT %PROTOCOL %TCP_FLAGS \
    %SRC_VLAN %INPUT_SNMP %OUTPUT_SNMP %IN_PKTS %IN_BYTES %FIRST_SWITCHED %LAST_SWITCHED";

impl Element {
    /// Its value for a record; times of [`What::Switched`] in s from the Unix epoch, as in nProbe's JSON.
    pub fn value<'a>(&self, view: &View<'a>) -> ElementValue<'a> {
        let icmp = if is_icmp(view.protocol) { view.ports[1] } else { 0 };
        ElementValue::Number(match self.what {
            What::V4(end) => return ElementValue::V4(v4(&view.addresses[end])),
            What::V6(end) => return ElementValue::V6(Ipv6Addr::from(view.addresses[end])),
            What::Packets(way) => view.packets[way],
            What::Octets(way) => view.octets[way],
            What::Flags => u64::from(view.flags[0] | view.flags[1]),
            What::FlagsOf(way) => u64::from(view.flags[way]),
            What::ClassOfService(way) => u64::from(view.class_of_service[way]),
            What::Port(end) => u64::from(view.ports[end]),
            What::Icmp => u64::from(icmp),
            What::IcmpType => u64::from(icmp >> 8),
            What::IcmpCode => u64::from(icmp & 0xff),
            What::Protocol => u64::from(view.protocol),
            What::Version => u64::from(view.version),
            What::Vlan => u64::from(view.vlan),
            What::Switched(end) | What::Seconds(end) => view.seen_ms[end] / 1000,
            What::Millis(end) => view.seen_ms[end],
            What::Duration => view.seen_ms[1].saturating_sub(view.seen_ms[0]),
            What::Interface(way) => u64::from(view.interfaces[way]),
            What::Zero => 0,
            // Counts are already scaled up: a receiver that multiplies them by the rate, as ntopng does, would scale
            // them twice.
            What::Sampling => 1,
            What::ExporterV4 => {
                let octets = <[u8; 4]>::try_from(view.exporter).unwrap_or_default();
                return ElementValue::V4(Ipv4Addr::from(octets));
            }
            What::ExporterV6 => {
                let octets = <[u8; 16]>::try_from(view.exporter).unwrap_or_default();
                return ElementValue::V6(Ipv6Addr::from(octets));
            }
            What::Initiator => u64::from(view.initiator),
            What::EndReason => 2,
            What::Retransmissions(way) => view.retransmissions[way],
            What::OutOfOrder(way) => view.out_of_order[way],
            What::Latency => return ElementValue::Milliseconds(f64::from(view.rtt_us) / 2000.0),
            What::Application => u64::from(view.application),
            What::ApplicationName => return ElementValue::Text(names(view.application).0),
            What::Category => return ElementValue::Text(names(view.application).1),
            What::ServerName => return ElementValue::Text(view.server_name),
            What::DnsQuery => return ElementValue::Text(view.dns_query),
        })
    }
}

fn v4(address: &[u8; 16]) -> Ipv4Addr {
    Ipv4Addr::new(address[0], address[1], address[2], address[3])
}

/// Name and category of an application; empty if the agent was built without nDPI.
fn names(application: u16) -> (&'static str, &'static str) {
    static LIST: OnceLock<HashMap<u16, (String, String)>> = OnceLock::new();
    let list = LIST.get_or_init(|| {
        let all = list::applications().unwrap_or_default();
        all.into_iter().map(|one| (one.id, (one.name, one.category))).collect()
    });
    list.get(&application).map_or(("", ""), |(name, category)| (name, category))
}

/// The elements of a record, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportTemplate {
    /// For IPv4 flows.
    pub v4: Vec<&'static Element>,
    /// For IPv6 flows.
    pub v6: Vec<&'static Element>,
    /// nProbe names of elements that this agent does not measure.
    pub left_out: Vec<String>,
}

impl ExportTemplate {
    /// Reads a template as nProbe's `-T` has it: names after `%`, in any order, and `@NTOPNG@`. With `biflow` it
    /// includes the counts of the other direction, named or not. An address element stands for addresses of both IP
    /// versions, and a repeated name counts once.
    ///
    /// # Errors
    /// If nProbe has no element of a given name (the error suggests the nearest one), or if no element remains.
    pub fn parse(text: &str, biflow: bool) -> anyhow::Result<ExportTemplate> {
        let text = text.replace("@NTOPNG@", NTOPNG);
        let mut named: Vec<&'static Element> = Vec::new();
        let mut left_out = Vec::new();
        let separated = |letter: char| letter.is_whitespace() || letter == ',' || letter == '%';
        for name in text.split(separated).filter(|name| !name.is_empty()) {
            match Element::named(name) {
                Some(element) if named.contains(&element) => {}
                Some(element) => named.push(element),
                None if is_known(name) => left_out.push(name.to_owned()),
                None => bail!("nProbe has no element %{name}: did you mean %{}?", nearest(name)),
            }
        }
        if biflow {
            let missing = ["OUT_PKTS", "OUT_BYTES"].into_iter().filter_map(Element::named);
            let missing: Vec<_> = missing.filter(|element| !named.contains(element)).collect();
            named.extend(missing);
        }
        if named.is_empty() {
            bail!("the template {text:?} names no element that this agent measures: try \"@NTOPNG@\"");
        }
        let of = |version: u8| {
            let mut elements: Vec<&'static Element> = Vec::with_capacity(named.len());
            for &element in &named {
                let own = match (element.what, version) {
                    (What::V4(0), 6) => "IPV6_SRC_ADDR",
                    (What::V4(_), 6) => "IPV6_DST_ADDR",
                    (What::V6(0), 4) => "IPV4_SRC_ADDR",
                    (What::V6(_), 4) => "IPV4_DST_ADDR",
                    _ => element.name,
                };
                elements.extend(Element::named(own).filter(|own| !elements.contains(own)));
            }
            elements
        };
        Ok(ExportTemplate { v4: of(4), v6: of(6), left_out })
    }

    /// Whether a record of it holds both directions.
    pub fn is_biflow(&self) -> bool {
        let reverse = |element: &&Element| matches!(element.what, What::Packets(1) | What::Octets(1));
        self.v4.iter().any(reverse)
    }

    /// The elements for a record of this version.
    pub fn of(&self, version: u8) -> &[&'static Element] {
        if version == 6 { &self.v6 } else { &self.v4 }
    }
}

/// The name with the smallest edit distance from the given one.
fn nearest(name: &str) -> &'static str {
    let upper = name.to_uppercase();
    let known = ELEMENTS.iter().map(|element| element.name);
    known.min_by_key(|known| distance(known, &upper)).unwrap_or_default()
}

/// Number of letters to insert, remove or change to turn one text into the other (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (number, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], number + 1);
        for at in 0..other.len() {
            let changed = diagonal + usize::from(letter != other[at]);
            diagonal = row[at + 1];
            row[at + 1] = changed.min(diagonal + 1).min(row[at] + 1);
        }
    }
    row[other.len()]
}

/// A flow for tests: the ends of an HTTPS connection, without packets.
#[cfg(test)]
pub(super) fn https() -> proto::Flow {
    proto::Flow {
        src_addr: vec![192, 0, 2, 1],
        dst_addr: vec![198, 51, 100, 2],
        src_port: 40_000,
        dst_port: 443,
        protocol: 6,
        ip_version: 4,
        ..proto::Flow::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(template: &str) -> Vec<&'static str> {
        ExportTemplate::parse(template, false).unwrap().v4.iter().map(|element| element.name).collect()
    }

    #[test]
    fn templates_are_read_as_nprobe_has_them() {
        assert_eq!(of("%IPV4_SRC_ADDR%L4_DST_PORT, %IN_PKTS"), ["IPV4_SRC_ADDR", "L4_DST_PORT", "IN_PKTS"]);
        assert_eq!(of("%octetDeltaCount %SRC_TO_DST_BYTES"), ["IN_BYTES"]);
        let ntopng = ExportTemplate::parse("@NTOPNG@ %L7_PROTO_NAME", false).unwrap();
        assert!(ntopng.is_biflow() && ntopng.left_out.is_empty());
        assert_eq!(ntopng.v4.last().unwrap().name, "L7_PROTO_NAME");
        assert!(!ExportTemplate::parse(DEFAULT, false).unwrap().is_biflow());
        assert!(ExportTemplate::parse(DEFAULT, true).unwrap().is_biflow());
    }

    #[test]
    fn each_version_has_its_own_addresses_once() {
        let template = ExportTemplate::parse("%IPV4_SRC_ADDR %IPV6_SRC_ADDR %IPV4_DST_ADDR %PROTOCOL", false).unwrap();
        let names = |version| template.of(version).iter().map(|element| element.name).collect::<Vec<_>>();
        assert_eq!(names(4), ["IPV4_SRC_ADDR", "IPV4_DST_ADDR", "PROTOCOL"]);
        assert_eq!(names(6), ["IPV6_SRC_ADDR", "IPV6_DST_ADDR", "PROTOCOL"]);
    }

    #[test]
    fn what_is_unknown_is_named_with_the_nearest_name() {
        let error = |text: &str| ExportTemplate::parse(text, false).unwrap_err().to_string();
        assert_eq!(error("%IN_PKTS %IN_OCTETS"), "nProbe has no element %IN_OCTETS: did you mean %IN_BYTES?");
        assert!(error("%L4_SRC_PROT").ends_with("did you mean %L4_SRC_PORT?"));
        assert!(error("").contains("@NTOPNG@"));
        assert_eq!(ExportTemplate::parse("%IN_PKTS %SRC_AS", false).unwrap().left_out, ["SRC_AS"]);
    }

    #[test]
    fn names_and_numbers_are_told_apart() {
        for (number, element) in ELEMENTS.iter().enumerate() {
            assert!(
                ELEMENTS[..number].iter().all(|other| other.name != element.name
                    && (other.enterprise, other.id) != (element.enterprise, element.id))
            );
            assert!(!is_known(element.name), "{}", element.name);
        }
    }

    #[test]
    fn a_biflow_is_two_ways_or_one() {
        let flow = proto::Flow {
            fwd_packets: 4,
            fwd_octets: 400,
            rev_packets: 3,
            rev_octets: 3000,
            fwd_tcp_syn: 1,
            rev_tcp_synack: 1,
            rev_tcp_rst: 1,
            first_seen_offset_ms: -5,
            last_seen_offset_ms: 10,
            ..https()
        };
        let both = View::both(&flow, 1000);
        assert_eq!((both.seen_ms, both.flags, both.initiator), ([995, 1005], [SYN | ACK, SYN | RST | ACK], 1));
        let ways: Vec<View<'_>> = both.one_way().collect();
        assert_eq!(ways.iter().map(|way| way.packets).collect::<Vec<_>>(), [[4, 0], [3, 0]]);
        assert_eq!((ways[1].ports, ways[1].octets, ways[1].initiator), ([443, 40_000], [3000, 0], 2));
        assert_eq!(ways[1].addresses, [both.addresses[1], both.addresses[0]]);
        let lone = proto::Flow { rev_packets: 0, rev_octets: 0, ..flow };
        assert_eq!(View::both(&lone, 1000).one_way().count(), 1);
    }

    #[test]
    fn an_echo_is_answered_by_its_reply() {
        let flow = |protocol, kind: u32| proto::Flow {
            protocol,
            dst_port: kind << 8,
            fwd_packets: 1,
            rev_packets: 1,
            ..proto::Flow::default()
        };
        let back = |protocol, kind| View::both(&flow(protocol, kind), 0).one_way().nth(1).unwrap().ports;
        assert_eq!((back(1, 8), back(58, 128)), ([0, 0], [0, 129 << 8]));
    }
}
