//! Frames and capture files for tests, made octet by octet. Integration tests include this file too.

#![allow(dead_code, missing_docs)]

/// An Ethernet frame (no frame check sequence).
pub fn ethernet(dst: [u8; 6], kind: u16, payload: &[u8]) -> Vec<u8> {
    [&dst[..], &[2, 0, 0, 0, 0, 9], &kind.to_be_bytes(), payload].concat()
}

/// An Ethernet frame to one station.
pub fn frame(kind: u16, payload: &[u8]) -> Vec<u8> {
    ethernet([2, 0, 0, 0, 0, 1], kind, payload)
}

/// The octets after EtherType 0x8100 or 0x88a8.
pub fn tagged(vlan: u16, kind: u16, payload: &[u8]) -> Vec<u8> {
    [&vlan.to_be_bytes()[..], &kind.to_be_bytes(), payload].concat()
}

/// An IPv4 packet; `fragment` is the header field with the fragmentation flags and the fragment offset.
pub fn ipv4_with(src: [u8; 4], dst: [u8; 4], protocol: u8, options: &[u8], fragment: u16, payload: &[u8]) -> Vec<u8> {
    assert_eq!(options.len() % 4, 0);
    let header = 20 + options.len();
    let total = (header + payload.len()) as u16;
    let mut packet = vec![0x40 | (header / 4) as u8, 0];
    packet.extend(total.to_be_bytes());
    packet.extend([0, 1]);
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0]);
    packet.extend(src);
    packet.extend(dst);
    packet.extend(options);
    packet.extend(payload);
    packet
}

/// An IPv4 packet without options, not fragmented.
pub fn ipv4(src: [u8; 4], dst: [u8; 4], protocol: u8, payload: &[u8]) -> Vec<u8> {
    ipv4_with(src, dst, protocol, &[], 0x4000, payload)
}

/// An IPv6 packet between `2001:db8::src` and `2001:db8::dst`; `next` and `payload` may begin with extension headers.
pub fn ipv6(src: u8, dst: u8, next: u8, payload: &[u8]) -> Vec<u8> {
    let address = |last: u8| [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([next, 64]);
    packet.extend(address(src));
    packet.extend(address(dst));
    packet.extend(payload);
    packet
}

/// An IP packet of either version with this type of service or traffic class.
pub fn classified(class_of_service: u8, mut packet: Vec<u8>) -> Vec<u8> {
    if packet[0] >> 4 == 4 {
        packet[1] = class_of_service;
    } else {
        packet[0] = 0x60 | class_of_service >> 4;
        packet[1] = class_of_service << 4 | packet[1] & 0x0f;
    }
    packet
}

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;

/// A TCP segment.
pub fn tcp(ports: (u16, u16), flags: u8, sequence: u32, acknowledgement: u32, payload: &[u8]) -> Vec<u8> {
    let mut segment = [ports.0.to_be_bytes(), ports.1.to_be_bytes()].concat();
    segment.extend(sequence.to_be_bytes());
    segment.extend(acknowledgement.to_be_bytes());
    segment.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    segment.extend(payload);
    segment
}

/// A UDP datagram.
pub fn udp(ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len()) as u16;
    [&ports.0.to_be_bytes()[..], &ports.1.to_be_bytes(), &length.to_be_bytes(), &[0, 0], payload].concat()
}

/// An ICMP or ICMPv6 message.
pub fn icmp(kind: u8, code: u8, payload: &[u8]) -> Vec<u8> {
    [&[kind, code, 0, 0, 0, 1, 0, 1], payload].concat()
}

/// A packet of a capture file.
#[derive(Clone)]
pub struct Captured {
    pub time_ns: u64,
    pub data: Vec<u8>,
    pub length: u32,
}

/// A packet captured whole.
pub fn whole(time_ns: u64, data: Vec<u8>) -> Captured {
    Captured { time_ns, length: data.len() as u32, data }
}

/// The forms of a pcap file.
#[derive(Clone, Copy)]
pub struct Form {
    pub big_endian: bool,
    pub nanoseconds: bool,
    pub modified: bool,
    pub link: u32,
}

impl Default for Form {
    fn default() -> Self {
        Form { big_endian: false, nanoseconds: false, modified: false, link: 1 }
    }
}

fn u32s(big_endian: bool, values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() }).collect()
}

fn u16s(big_endian: bool, values: &[u16]) -> Vec<u8> {
    values.iter().flat_map(|value| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() }).collect()
}

/// A pcap file.
pub fn pcap(form: Form, packets: &[Captured]) -> Vec<u8> {
    let order = form.big_endian;
    let magic = match (form.nanoseconds, form.modified) {
        (true, _) => 0xa1b2_3c4d,
        (_, true) => 0xa1b2_cd34,
        _ => 0xa1b2_c3d4,
    };
    let mut file = u32s(order, &[magic]);
    file.extend(u16s(order, &[2, 4]));
    file.extend(u32s(order, &[0, 0, 262_144, form.link]));
    for packet in packets {
        let fraction = packet.time_ns % 1_000_000_000 / if form.nanoseconds { 1 } else { 1000 };
        let seconds = packet.time_ns / 1_000_000_000;
        file.extend(u32s(order, &[seconds as u32, fraction as u32, packet.data.len() as u32, packet.length]));
        if form.modified {
            file.extend([0; 8]);
        }
        file.extend(&packet.data);
    }
    file
}

/// One block of a pcapng file.
pub fn block(big_endian: bool, kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let total = (padded + 12) as u32;
    let mut block = u32s(big_endian, &[kind, total]);
    block.extend(body);
    block.resize(8 + padded, 0);
    block.extend(u32s(big_endian, &[total]));
    block
}

/// A section header block.
pub fn section(big_endian: bool) -> Vec<u8> {
    let mut body = u32s(big_endian, &[0x1a2b_3c4d]);
    body.extend(u16s(big_endian, &[1, 0]));
    body.extend([0xff; 8]);
    block(big_endian, 0x0a0d_0d0a, &body)
}

/// An interface description block; `resolution` is the option if_tsresol.
pub fn interface(big_endian: bool, link: u16, resolution: Option<u8>) -> Vec<u8> {
    let mut body = u16s(big_endian, &[link, 0]);
    body.extend(u32s(big_endian, &[0]));
    if let Some(resolution) = resolution {
        body.extend(u16s(big_endian, &[9, 1]));
        body.extend([resolution, 0, 0, 0]);
        body.extend([0; 4]);
    }
    block(big_endian, 1, &body)
}

/// An enhanced packet block with a time in the interface's units.
pub fn enhanced(big_endian: bool, number: u32, units: u64, data: &[u8]) -> Vec<u8> {
    let length = data.len() as u32;
    let mut body = u32s(big_endian, &[number, (units >> 32) as u32, units as u32, length, length]);
    body.extend(data);
    block(big_endian, 6, &body)
}

/// An old packet block with a time in the interface's units.
pub fn old_packet(big_endian: bool, number: u16, units: u64, data: &[u8]) -> Vec<u8> {
    let length = data.len() as u32;
    let mut body = u16s(big_endian, &[number, 0]);
    body.extend(u32s(big_endian, &[(units >> 32) as u32, units as u32, length, length]));
    body.extend(data);
    block(big_endian, 2, &body)
}

/// A simple packet block.
pub fn simple(big_endian: bool, data: &[u8]) -> Vec<u8> {
    let mut body = u32s(big_endian, &[data.len() as u32]);
    body.extend(data);
    block(big_endian, 3, &body)
}
