//! Encodes a router's data on a flow as a message.

use crate::collect::element::routed::Route;
use crate::packet::stated;
use crate::proto;

/// The route as a message of `flow.proto`.
pub(super) fn message(route: &Route) -> proto::Routed {
    let mac = |mac: [u8; 6]| mac.into_iter().fold(0, |number, octet| number << 8 | u64::from(octet));
    proto::Routed {
        src_as: route.autonomous_systems[0],
        dst_as: route.autonomous_systems[1],
        next_hop: stated(&route.next_hop),
        bgp_next_hop: stated(&route.bgp_next_hop),
        src_prefix_length: u32::from(route.prefix_lengths[0]),
        dst_prefix_length: u32::from(route.prefix_lengths[1]),
        ingress_vrf: route.vrf[0],
        egress_vrf: route.vrf[1],
        flow_direction: route.direction.filter(|&way| way < 2).map_or(0, |way| i32::from(way) + 1),
        flow_end_reason: u32::from(route.end_reason),
        forwarding_status: u32::from(route.forwarding_status),
        mpls_top_label: route.mpls_top_label,
        min_ttl: u32::from(route.ttl[0]),
        max_ttl: u32::from(route.ttl[1]),
        src_mac: mac(route.macs[0]),
        dst_mac: mac(route.macs[1]),
        post_nat_src_addr: stated(&route.translated[0]),
        post_nat_dst_addr: stated(&route.translated[1]),
        post_nat_src_port: u32::from(route.translated_ports[0]),
        post_nat_dst_port: u32::from(route.translated_ports[1]),
        observation_point: route.observation_point,
        src_adjacent_as: route.adjacent[0],
        dst_adjacent_as: route.adjacent[1],
    }
}
