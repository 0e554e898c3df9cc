//! Arbitrary fragments, and complete datagrams whose fragments arrive in any order.

use super::{Bounds, Input, Metering, NO_FILTERS, START_NS};
use std::collections::BTreeSet;
use std::sync::Arc;
use weir_probe::meter::ClosedInterval;
use weir_probe::packet::{Frame, LinkType};

/// Packets of one input at most.
const MOST: usize = 256;
/// Maximum number of datagrams in one input, so that all their fragments may wait at once.
const DATAGRAMS: usize = 16;

/// The first octet of an input chooses between [`any`] and [`whole`].
pub fn check(input: &[u8]) {
    let mut input = Input(input);
    match input.octet() {
        0 => any(input),
        _ => whole(input),
    }
}

/// The fields from which a fragment is built.
#[derive(Clone, Copy, Debug)]
struct Piece {
    version: u8,
    src: u8,
    dst: u8,
    protocol: u8,
    id: u16,
    /// In units of 8 octets.
    offset: u16,
    more: bool,
}

/// A packet's octets: a fragment, unless its offset is 0 and no more follow.
fn packet(piece: Piece, payload: &[u8]) -> Vec<u8> {
    let Piece { version, src, dst, protocol, id, offset, more } = piece;
    let mut packet = Vec::new();
    if version == 4 {
        packet.extend([0x45, 0]);
        packet.extend((20 + payload.len() as u16).to_be_bytes());
        packet.extend(id.to_be_bytes());
        packet.extend((u16::from(more) << 13 | offset & 0x1fff).to_be_bytes());
        packet.extend([64, protocol, 0, 0, 10, 0, 0, src, 10, 0, 0, dst]);
    } else {
        packet.extend([0x60, 0, 0, 0]);
        packet.extend((8 + payload.len() as u16).to_be_bytes());
        packet.extend([44, 64]);
        for last in [src, dst] {
            packet.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
        }
        packet.extend([protocol, 0]);
        packet.extend((offset << 3 | u16::from(more)).to_be_bytes());
        packet.extend([0, 0]);
        packet.extend(id.to_be_bytes());
    }
    packet.extend(payload);
    packet
}

/// Meters packets that arrive at these times, ns.
fn meter(packets: &[(i64, Vec<u8>)], bounds: Bounds) -> Vec<ClosedInterval> {
    let frames: Vec<Frame<'_>> = packets
        .iter()
        .map(|(time_ns, data)| Frame {
            time_ns: *time_ns,
            link: LinkType::RawIp,
            data,
            length: data.len() as u32,
            vlan: None,
        })
        .collect();
    let mut metering = Metering::new(bounds, false, Arc::clone(&NO_FILTERS));
    metering.frames(&frames);
    metering.finish()
}

/// Two octets of bounds, then seven for each fragment: hosts and version; protocol, more, low bits of the id; offset,
/// two; payload, in units of 2; time since the previous one, in units of 8 ms, two, signed. A small cache drops some
/// fragments; the sums still agree.
fn any(mut input: Input<'_>) {
    let bounds = Bounds {
        flows: usize::from(input.octet() % 8) + 1,
        records: 8,
        datagrams: usize::from(input.octet() % 8) + 1,
        idle_ms: 10_000,
    };
    let mut packets = Vec::new();
    let mut time_ns = START_NS;
    while !input.is_empty() && packets.len() < MOST {
        let (who, what, offset) = (input.octet(), input.octet(), input.number());
        let payload = vec![who; usize::from(input.octet()) * 2];
        time_ns += i64::from(input.number() as i16) * 8_000_000;
        let piece = Piece {
            version: if who & 0x80 == 0 { 4 } else { 6 },
            src: who & 3,
            dst: who >> 2 & 3,
            protocol: [6, 17, 1, 58, 132, 47, 51, 0][usize::from(what & 7)],
            id: u16::from(what >> 4),
            offset,
            more: what & 8 != 0,
        };
        packets.push((time_ns, packet(piece, &payload)));
    }
    meter(&packets, bounds);
}

/// Datagrams: one octet for their number, four for each (hosts and version, source port, payload length, fragment
/// length); then an octet for each step of a shuffle. Whole, fragmented or shuffled, they must give the same flows.
fn whole(mut input: Input<'_>) {
    let count = usize::from(input.octet()) % DATAGRAMS + 1;
    let (mut ordinary, mut pieces) = (Vec::new(), Vec::new());
    for number in 0..count {
        let (who, port) = (input.octet(), input.octet());
        let (octets, most) = (usize::from(input.octet()) * 8, usize::from(input.octet() % 64) * 8 + 8);
        let piece = Piece {
            version: if who & 0x80 == 0 { 4 } else { 6 },
            src: who & 3,
            dst: who >> 2 & 3,
            protocol: 17,
            id: number as u16,
            offset: 0,
            more: false,
        };
        let mut datagram = vec![0x40, port, 0, 53];
        datagram.extend((8 + octets as u16).to_be_bytes());
        datagram.resize(8 + octets, 0);
        ordinary.push((START_NS, packet(piece, &datagram)));
        let last = (datagram.len() - 1) / most;
        for (place, part) in datagram.chunks(most).enumerate() {
            let piece = Piece { offset: (place * most / 8) as u16, more: place < last, ..piece };
            pieces.push(packet(piece, part));
        }
    }
    for at in (1..pieces.len()).rev() {
        let other = usize::from(input.number()) % (at + 1);
        pieces.swap(at, other);
    }
    // All within one interval, and 1 ms apart.
    let shuffled: Vec<_> = (0..).map(|number| START_NS + number * 1_000_000).zip(pieces).collect();
    // Room for one more is kept free.
    let bounds = || Bounds { flows: 64, records: 64, datagrams: DATAGRAMS + 1, idle_ms: 60_000 };
    let came = summary(&meter(&shuffled, bounds()));
    assert_eq!(came, summary(&meter(&ordinary, bounds())), "{count} datagrams in {} fragments", shuffled.len());
}

/// Flows, datagrams, layer-4 octets, and addresses.
fn summary(closed: &[ClosedInterval]) -> (u64, u64, u64, BTreeSet<String>) {
    let sum = |of: fn(&ClosedInterval) -> u64| closed.iter().map(of).sum();
    assert_eq!(sum(|interval| interval.overflow.len() as u64), 0, "there is room");
    (
        sum(|interval| interval.tally.flows),
        sum(|interval| interval.tally.datagrams),
        sum(|interval| interval.tally.layer4_octets),
        closed.iter().flat_map(|interval| interval.records.iter()).map(|record| format!("{:?}", record.key)).collect(),
    )
}
