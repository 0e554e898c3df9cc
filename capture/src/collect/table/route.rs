//! Encodes a router's data on a flow as the message `Routed` of `flow.proto`.

use crate::collect::element::routed::Route;
use crate::packet::{Address, shortest};
use crate::publish::encode::BatchEncoder;

/// Maximum octets of the fields: 19 numbers with their keys, four addresses.
pub(super) const ROOM: usize = 19 * 12 + 4 * 19;

/// Writes the fields of a route.
pub(super) fn fields(route: &Route, batch: &mut BatchEncoder) {
    let mac = |mac: [u8; 6]| mac.into_iter().fold(0, |number, octet| number << 8 | u64::from(octet));
    batch.number::<1>(u64::from(route.autonomous_systems[0]));
    batch.number::<2>(u64::from(route.autonomous_systems[1]));
    address::<3>(&route.next_hop, batch);
    address::<4>(&route.bgp_next_hop, batch);
    batch.number::<5>(u64::from(route.prefix_lengths[0]));
    batch.number::<6>(u64::from(route.prefix_lengths[1]));
    batch.number::<7>(u64::from(route.vrf[0]));
    batch.number::<8>(u64::from(route.vrf[1]));
    batch.number::<9>(route.direction.filter(|&way| way < 2).map_or(0, |way| u64::from(way) + 1));
    batch.number::<10>(u64::from(route.end_reason));
    batch.number::<11>(u64::from(route.forwarding_status));
    batch.number::<12>(u64::from(route.mpls_top_label));
    batch.number::<13>(u64::from(route.ttl[0]));
    batch.number::<14>(u64::from(route.ttl[1]));
    batch.number::<15>(mac(route.macs[0]));
    batch.number::<16>(mac(route.macs[1]));
    address::<17>(&route.translated[0], batch);
    address::<18>(&route.translated[1], batch);
    batch.number::<19>(u64::from(route.translated_ports[0]));
    batch.number::<20>(u64::from(route.translated_ports[1]));
    batch.number::<21>(u64::from(route.observation_point));
    batch.number::<22>(u64::from(route.adjacent[0]));
    batch.number::<23>(u64::from(route.adjacent[1]));
}

/// An address, left out where it is unspecified.
fn address<const FIELD: u32>(address: &Address, batch: &mut BatchEncoder) {
    if *address != Address::default() {
        batch.bytes::<FIELD>(shortest(address));
    }
}
