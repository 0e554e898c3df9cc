//! Encodes a router's data on a flow as the message `Routed` of `flow.proto`. Many records state the same route: those of
//! one flow in several intervals, and those of many flows; each route is encoded once and then copied.

use crate::collect::element::routed::Route;
use crate::publish::encode::BatchEncoder;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum octets of the fields: 19 numbers with their keys, four addresses.
pub(super) const ROOM: usize = 19 * 12 + 4 * 19;

/// Maximum octets of encoded routes kept; further routes are encoded for each record.
const KEPT: usize = 4 << 20;

static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

/// The routes of the flows that a table handed over together, in the order of their indices.
pub(super) struct SharedRoutes {
    /// No other routes have this number.
    number: u64,
    all: Vec<Route>,
}

impl SharedRoutes {
    pub(super) fn new(all: Vec<Route>) -> SharedRoutes {
        SharedRoutes { number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed), all }
    }
}

/// The end whose packets' route a record states.
#[derive(Clone, Copy)]
pub(super) enum RouteOf {
    Source,
    Destination,
    /// The destination of a flow whose source sent no packets.
    LoneDestination,
}

/// Number of [`RouteOf`]'s values.
const ENDS: usize = 3;

/// Where the octets of a route are; none if it was not encoded yet.
#[derive(Clone, Copy, Default)]
struct Place {
    start: u32,
    octets: u16,
}

/// Encoded routes, for further records that state them.
#[derive(Default)]
pub struct EncodedRoutes {
    /// The number of the [`SharedRoutes`] that they belong to, and the period of their pseudonyms.
    encoded: (u64, u64),
    octets: Vec<u8>,
    /// By a route's index, and [`RouteOf`].
    places: Vec<[Place; ENDS]>,
}

impl EncodedRoutes {
    /// Writes a route as a field of a record.
    #[inline]
    pub(super) fn write(&mut self, (routes, index): (&SharedRoutes, u32), of: RouteOf, batch: &mut BatchEncoder) {
        let encoded = (routes.number, batch.period());
        if self.encoded != encoded {
            self.begin(routes, encoded);
        }
        let Place { start, octets } = self.places[index as usize][of as usize];
        if octets == 0 {
            self.encode((routes, index), of, batch);
        } else {
            let start = start as usize;
            batch.raw(&self.octets[start..start + usize::from(octets)]);
        }
    }

    #[cold]
    fn begin(&mut self, routes: &SharedRoutes, encoded: (u64, u64)) {
        self.encoded = encoded;
        self.octets.clear();
        self.places.clear();
        self.places.resize(routes.all.len(), [Place::default(); ENDS]);
    }

    #[inline(never)]
    fn encode(&mut self, (routes, index): (&SharedRoutes, u32), of: RouteOf, batch: &mut BatchEncoder) {
        let route = &routes.all[index as usize];
        let turned;
        let route = match of {
            RouteOf::Source => route,
            RouteOf::Destination | RouteOf::LoneDestination => {
                turned = route.turned(matches!(of, RouteOf::LoneDestination));
                &turned
            }
        };
        let octets = batch.written(|batch| batch.nested::<66>(|batch| fields(route, batch)));
        if self.octets.len() + octets.len() <= KEPT {
            let place = Place { start: self.octets.len() as u32, octets: octets.len() as u16 };
            self.places[index as usize][of as usize] = place;
            self.octets.extend_from_slice(octets);
        }
    }
}

/// Writes the fields of a route.
pub(super) fn fields(route: &Route, batch: &mut BatchEncoder) {
    let names = batch.names();
    let mac = |mac: [u8; 6]| mac.into_iter().filter(|_| names).fold(0, |number, octet| number << 8 | u64::from(octet));
    batch.number::<1>(u64::from(route.autonomous_systems[0]));
    batch.number::<2>(u64::from(route.autonomous_systems[1]));
    batch.other::<3>(&route.next_hop);
    batch.other::<4>(&route.bgp_next_hop);
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
    batch.other::<17>(&route.translated[0]);
    batch.other::<18>(&route.translated[1]);
    batch.number::<19>(u64::from(route.translated_ports[0]));
    batch.number::<20>(u64::from(route.translated_ports[1]));
    batch.number::<21>(u64::from(route.observation_point));
    batch.number::<22>(u64::from(route.adjacent[0]));
    batch.number::<23>(u64::from(route.adjacent[1]));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto;

    #[test]
    fn routes_past_the_bound_are_encoded_for_each_record() {
        let six = |last: u16| {
            let mut address = [0x20; 16];
            address[14..].copy_from_slice(&last.to_be_bytes());
            address
        };
        // 77 octets each, too many together.
        let route = |number: u16| Route {
            next_hop: six(number),
            bgp_next_hop: six(number),
            translated: [six(number); 2],
            ..Route::default()
        };
        let shared = SharedRoutes::new((0..u16::MAX).map(route).collect());
        let (mut encoded, mut batch) = (EncodedRoutes::default(), BatchEncoder::default());
        for number in (0..u16::MAX).chain(0..u16::MAX) {
            let octets = batch.written(|batch| encoded.write((&shared, u32::from(number)), RouteOf::Source, batch));
            let octets = octets.to_vec();
            let expected = batch.written(|batch| batch.nested::<66>(|batch| fields(&route(number), batch)));
            assert_eq!(octets, expected);
            batch.message(&proto::FlowMessage::default());
        }
        assert!(encoded.octets.len() <= KEPT && encoded.octets.len() > KEPT - 100);
    }
}
