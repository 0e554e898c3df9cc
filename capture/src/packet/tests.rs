use super::*;
use crate::testing as t;

const A: [u8; 4] = [192, 0, 2, 1];
const B: [u8; 4] = [198, 51, 100, 7];

fn read(link: LinkType, data: &[u8]) -> Packet {
    parse(&Frame { time_ns: 0, link, data, length: data.len() as u32, vlan: None })
}

fn eth(data: &[u8]) -> Packet {
    read(LinkType::Ethernet, data)
}

fn mapped(v4: [u8; 4]) -> Address {
    std::net::Ipv4Addr::from(v4).to_ipv6_mapped().octets()
}

#[test]
fn tcp_over_ipv4() {
    let ip = t::ipv4(A, B, 6, &t::tcp((40000, 443), t::SYN, 7, 0, b""));
    let packet = eth(&t::frame(0x0800, &ip));
    let found = packet.ip.unwrap();
    assert_eq!((found.src, found.dst, found.src_port, found.dst_port), (mapped(A), mapped(B), 40000, 443));
    assert_eq!((found.protocol, found.version), (6, 4));
    assert_eq!(found.tcp, Some(Tcp { flags: tcp::SYN, sequence: 7, acknowledgement: 0, payload: 0 }));
    assert_eq!((packet.octets, packet.frame_octets, packet.vlan, packet.cast), (40, 54, 0, Cast::Unicast));
}

#[test]
fn ethernet_padding_is_not_counted() {
    let mut data = t::frame(0x0800, &t::ipv4(A, B, 17, &t::udp((1, 2), b"")));
    data.resize(60, 0);
    assert_eq!(eth(&data).octets, 28);
}

#[test]
fn options_and_tags_are_passed_over() {
    let ip = t::ipv4_with(A, B, 17, &[1; 8], 0, &t::udp((53, 5353), b"xx"));
    let one = t::frame(0x8100, &t::tagged(0x2005, 0x0800, &ip));
    let two = t::frame(0x88a8, &t::tagged(100, 0x8100, &t::tagged(200, 0x0800, &ip)));
    for (data, vlan, header) in [(one, 5, 18), (two, 100, 22)] {
        let packet = eth(&data);
        let found = packet.ip.unwrap();
        assert_eq!((found.src_port, found.dst_port, packet.vlan, packet.octets), (53, 5353, vlan, 38));
        assert_eq!(packet.frame_octets, header + 38);
    }
}

#[test]
fn a_tag_that_the_kernel_took_out_is_the_outer_one() {
    let data = t::frame(0x8100, &t::tagged(200, 0x0800, &t::ipv4(A, B, 17, &t::udp((1, 2), b""))));
    let frame = Frame { time_ns: 0, link: LinkType::Ethernet, data: &data, length: data.len() as u32, vlan: Some(100) };
    let packet = parse(&frame);
    assert_eq!((packet.vlan, packet.octets, packet.frame_octets), (100, 28, data.len() as u32 + 4));
}

#[test]
fn other_ways_to_ip() {
    let ip = t::ipv4(A, B, 17, &t::udp((9, 10), b""));
    let v6 = t::ipv6(1, 2, 17, &t::udp((9, 10), b""));
    let cat = |parts: &[&[u8]]| parts.concat();
    let snap = cat(&[&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0], &ip]);
    let ways: Vec<(LinkType, Vec<u8>)> = vec![
        (LinkType::Ethernet, t::frame(0x8847, &cat(&[&[0, 1, 0, 64, 0, 2, 1, 64], &ip]))),
        (LinkType::Ethernet, t::frame(0x8864, &cat(&[&[0x11, 0, 0, 1, 0, 30, 0, 0x21], &ip]))),
        (LinkType::Ethernet, t::frame(0x8864, &cat(&[&[0x11, 0, 0, 1, 0, 50, 0, 0x57], &v6]))),
        (LinkType::Ethernet, t::frame(snap.len() as u16, &snap)),
        (LinkType::Ethernet, t::frame(0x88a8, &t::tagged(7, 0x88e7, &cat(&[&[0, 0, 0, 9], &t::frame(0x0800, &ip)])))),
        (LinkType::Ethernet, t::frame(0x8903, &cat(&[&[0, 0x41], &t::frame(0x0800, &ip)]))),
        (LinkType::Ethernet, t::frame(0x8926, &cat(&[&[0, 0, 0, 1, 8, 0], &ip]))),
        (LinkType::Mpls, cat(&[&[0, 1, 0, 64, 0, 2, 1, 64], &ip])),
        (LinkType::Ethernet, t::frame(0x893f, &cat(&[&[0, 0, 0, 1, 0, 0, 8, 0], &ip]))),
        (LinkType::Ethernet, t::frame(0x893f, &cat(&[&[0, 0, 0, 1, 0, 0, 0x81, 0], &t::tagged(7, 0x86dd, &v6)]))),
        (LinkType::Ethernet, t::frame(0x8909, &cat(&[&[1, 1, 0, 1, 0, 9, 8, 0], &ip]))),
        (LinkType::Ethernet, t::frame(0x8909, &cat(&[&[1, 2, 0, 1, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8, 8, 0], &ip]))),
        (LinkType::Ethernet, t::frame(0x894f, &cat(&[&[0x0f, 0xc2, 2, 1, 0, 0, 1, 255], &ip]))),
        (LinkType::Ethernet, t::frame(0x894f, &cat(&[&[0x0f, 0xc6, 1, 2], &[9; 20], &v6]))),
        (LinkType::Ethernet, t::frame(0x894f, &cat(&[&[0x0f, 0xc2, 2, 3, 0, 0, 1, 255], &t::frame(0x0800, &ip)]))),
        (LinkType::Ethernet, t::frame(0x8864, &cat(&[&[0x11, 0, 0, 1, 0, 29, 0x21], &ip]))),
        (LinkType::Ethernet, t::frame(0x8864, &cat(&[&[0x11, 0, 0, 1, 0, 49, 0x57], &v6]))),
        (LinkType::Fddi, cat(&[&[0x57], &[2; 12][..], &snap])),
        (LinkType::NetfilterLog, cat(&[&[2, 0, 0, 0, 5, 0, 10, 0, 0, 0, 0, 0, 32, 0, 9, 0], &ip])),
        (LinkType::RawIp, ip.clone()),
        (LinkType::RawIp, v6.clone()),
        (LinkType::Loopback, cat(&[&[2, 0, 0, 0], &ip])),
        (LinkType::Loopback, cat(&[&[0, 0, 0, 30], &v6])),
        (LinkType::LinuxCooked, cat(&[&[0, 0, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0, 8, 0], &ip])),
        (LinkType::LinuxCooked2, cat(&[&[0x86, 0xdd, 0, 0, 0, 0, 0, 1, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0], &v6])),
        (LinkType::Ppp, cat(&[&[0xff, 3, 0, 0x21], &ip])),
        (LinkType::Ppp, cat(&[&[0x21], &ip])),
        (LinkType::Ppp, cat(&[&[0xff, 3, 0x02, 0x81, 0, 1, 1, 64], &ip])),
        (LinkType::Ppp, cat(&[&[0x02, 0x83, 0, 1, 1, 64], &v6])),
        (LinkType::Ethernet, t::frame(0x8864, &cat(&[&[0x11, 0, 0, 1, 0, 34, 0x02, 0x81, 0, 1, 1, 64], &ip]))),
        (LinkType::CiscoHdlc, cat(&[&[0x0f, 0, 8, 0], &ip])),
        (LinkType::FrameRelay, cat(&[&[0x18, 0x41, 3, 0xcc], &ip])),
        (LinkType::Wifi, cat(&[&[8, 0, 0, 0], &[0x10; 20][..], &snap])),
        (
            LinkType::WifiRadiotap,
            cat(&[&[0, 0, 8, 0, 0, 0, 0, 0], &[0x88, 1, 0, 0], &[2; 18][..], &[0x10, 0, 0, 0], &snap]),
        ),
    ];
    for (link, data) in ways {
        let found = read(link, &data).ip.unwrap_or_else(|cause| panic!("{link:?} {data:02x?}: {cause:?}"));
        assert_eq!((found.src_port, found.dst_port), (9, 10), "{link:?}");
        let octets = if found.version == 4 { 28 } else { 48 };
        assert_eq!(read(link, &data).octets, octets, "{link:?}");
    }
}

/// An IPv4 packet with its header's checksum.
fn with_checksum(mut packet: Vec<u8>) -> Vec<u8> {
    let sum: u32 = packet[..20].chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let folded = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&folded.to_be_bytes());
    packet
}

#[test]
fn an_ethernet_pseudowire_is_followed_to_ip() {
    let (four, six) = (t::ipv4(A, B, 17, &t::udp((9, 10), b"")), t::ipv6(1, 2, 17, &t::udp((9, 10), b"")));
    let four = with_checksum(four);
    let tagged = t::tagged(7, 0x0800, &four);
    for control in [&[][..], &[0, 0, 0, 0], &[0, 0, 0x12, 0x34]] {
        // MAC addresses that begin like IPv4, IPv6 or a control word.
        for first in [0x45, 0x60, 0x00, 0xa4] {
            for (kind, payload, vlan) in [(0x0800, &four, 0), (0x86dd, &six, 0), (0x8100, &tagged, 7)] {
                let mut frame = t::frame(kind, payload);
                frame[0] = first;
                let data = t::frame(0x8847, &[&[0, 1, 0, 64, 0, 2, 1, 64][..], control, &frame].concat());
                let packet = eth(&data);
                let found = packet.ip.unwrap_or_else(|cause| panic!("{control:?} {first:x} {kind:x}: {cause:?}"));
                assert_eq!(
                    (found.src_port, found.dst_port, packet.vlan),
                    (9, 10, vlan),
                    "{control:?} {first:x} {kind:x}"
                );
            }
        }
    }
    // Four zeros are not read as a control word unless a frame with IP follows.
    let data = t::frame(0x8847, &[&[0, 1, 1, 64, 0, 0, 0, 0][..], &t::frame(0x0806, &[0; 28])].concat());
    assert_eq!(eth(&data).ip.unwrap_err(), Cause::NotIp);
    // An IPv4 packet whose source address looks like an EtherType.
    let source = with_checksum(t::ipv4([8, 0, 0x45, 0], B, 17, &t::udp((9, 10), b"")));
    let data = t::frame(0x8847, &[&[0, 1, 1, 64][..], &source].concat());
    assert_eq!(eth(&data).ip.unwrap().src[12..], [8, 0, 0x45, 0]);
}

#[test]
fn ipv6_extension_headers_lead_to_the_ports() {
    let hop_by_hop = [60, 0, 1, 4, 0, 0, 0, 0];
    let options = [51, 0, 1, 4, 0, 0, 0, 0];
    let authentication = [6, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1];
    let segment = t::tcp((1000, 80), t::ACK, 1, 2, b"hello");
    let payload = [&hop_by_hop[..], &options, &authentication, &segment].concat();
    let packet = eth(&t::frame(0x86dd, &t::ipv6(1, 2, 0, &payload)));
    let found = packet.ip.unwrap();
    assert_eq!((found.src_port, found.dst_port, found.protocol), (1000, 80, 6));
    assert_eq!(packet.octets as usize, 40 + payload.len());
}

#[test]
fn later_fragments_have_no_ports_but_are_there() {
    let v4 = t::ipv4_with(A, B, 17, &[], 0x2001, &t::udp((1, 2), b"not a header"));
    let v6 = t::ipv6(1, 2, 44, &[&[17, 0, 0, 9, 0, 0, 0, 1][..], &t::udp((1, 2), b"xxxx")].concat());
    for data in [t::frame(0x0800, &v4), t::frame(0x86dd, &v6)] {
        let found = eth(&data).ip.unwrap();
        assert!(found.is_later_fragment());
        assert_eq!((found.src_port, found.dst_port, found.protocol), (0, 0, 17));
    }
    let first = t::ipv6(1, 2, 44, &[&[17, 0, 0, 1, 0, 0, 0, 1][..], &t::udp((1, 2), b"xxxx")].concat());
    assert_eq!(eth(&t::frame(0x86dd, &first)).ip.unwrap().src_port, 1);
}

#[test]
fn ipv6_fragments_of_one_datagram_have_its_identification() {
    let fragment = |place: u16, id: u32, options: &[u8]| {
        let (next, first) = if options.is_empty() { (44, &[][..]) } else { (60, options) };
        let header = [&[17, 0][..], &place.to_be_bytes(), &id.to_be_bytes()].concat();
        eth(&t::frame(0x86dd, &t::ipv6(1, 2, next, &[first, &header, &[7; 16]].concat()))).ip.unwrap().fragment
    };
    for options in [&[][..], &[44, 0, 1, 4, 0, 0, 0, 0]] {
        assert_eq!(fragment(0x0001, 0x0102_0304, options), Some(Fragment { id: 0x0102_0304, offset: 0, more: true }));
        assert_eq!(fragment(0x0010, 0x0102_0304, options), Some(Fragment { id: 0x0102_0304, offset: 2, more: false }));
    }
    assert_eq!(fragment(0, 5, &[]), None, "the whole datagram");
}

#[test]
fn icmp_answers_have_their_requests_type() {
    let of = |version: u8, kind: u8| {
        let found = if version == 4 {
            eth(&t::frame(0x0800, &t::ipv4(A, B, 1, &t::icmp(kind, 3, b""))))
        } else {
            eth(&t::frame(0x86dd, &t::ipv6(1, 2, 58, &t::icmp(kind, 3, b""))))
        };
        let ip = found.ip.unwrap();
        (ip.dst_port, ip.icmp)
    };
    assert_eq!(of(4, 8), (8 * 256 + 3, IcmpRole::Request));
    assert_eq!(of(4, 0), (8 * 256 + 3, IcmpRole::Reply));
    assert_eq!(of(4, 14), (13 * 256 + 3, IcmpRole::Reply));
    assert_eq!(of(4, 3), (3 * 256 + 3, IcmpRole::Error));
    assert_eq!(of(6, 129), (128 * 256 + 3, IcmpRole::Reply));
    assert_eq!(of(6, 1), (256 + 3, IcmpRole::Error));
    assert_eq!(of(6, 135), (135 * 256 + 3, IcmpRole::None));
}

#[test]
fn lengths_that_cannot_be_are_clamped() {
    let with_total = |total: u16, length: u32| {
        let mut ip = t::ipv4(A, B, 17, &t::udp((1, 2), &[0; 72]));
        ip[2..4].copy_from_slice(&total.to_be_bytes());
        let data = t::frame(0x0800, &ip);
        parse(&Frame { time_ns: 0, link: LinkType::Ethernet, data: &data, length, vlan: None }).octets
    };
    assert_eq!(with_total(100, 114), 100);
    assert_eq!(with_total(65535, 114), 100, "more than there was on the wire");
    assert_eq!(with_total(3, 114), 20, "less than its own header");
    assert_eq!(with_total(0, 114), 100, "a segment handed over whole");
    assert_eq!(with_total(0, 60_014), 60_000);
    assert_eq!(with_total(0, u32::MAX), (1 << 19) - 14, "an absurd frame");
    assert_eq!(with_total(100, 0), 100, "a frame shorter than what was captured of it");
    assert_eq!(with_total(1400, 1414), 1400, "a capture that was cut short");
}

#[test]
fn ipv6_lengths() {
    let plain = |stated: u16, next: u8, payload: &[u8]| {
        let mut ip = t::ipv6(1, 2, next, payload);
        ip[4..6].copy_from_slice(&stated.to_be_bytes());
        eth(&t::frame(0x86dd, &ip)).octets
    };
    assert_eq!(plain(20, 6, &[0; 20]), 60);
    assert_eq!(plain(0, 6, &[0; 20]), 60, "a segment handed over whole");
    assert_eq!(plain(0, 59, &[0; 6]), 40, "no next header: padding follows");
    assert_eq!(plain(0, 6, &[0; 6]), 40, "the padding of the shortest frame, in which no segment fits");
    let jumbo = [&[6, 0, 0xc2, 4, 0, 0, 0, 24][..], &[0; 20]].concat();
    assert_eq!(plain(0, 0, &jumbo), 64);
}

#[test]
fn what_cannot_be_metered_has_a_cause() {
    let ip = t::ipv4(A, B, 17, &t::udp((1, 2), b""));
    let cause = |data: &[u8]| eth(data).ip.unwrap_err();
    assert_eq!(cause(&t::frame(0x0806, &[0; 28])), Cause::NotIp);
    assert_eq!(eth(&t::frame(0x0806, &[0; 28])).octets, 28);
    assert_eq!(cause(&t::frame(0x0800, &ip[..19])), Cause::Truncated);
    assert_eq!(cause(&t::frame(0x0800, &[])), Cause::Truncated);
    assert_eq!(cause(&[1, 2, 3]), Cause::Truncated);
    assert_eq!(cause(&[]), Cause::Truncated);
    assert_eq!(cause(&t::frame(0x0800, &[&[0x44][..], &ip[1..]].concat())), Cause::Malformed);
    assert_eq!(cause(&t::frame(0x0800, &[&[0x15][..], &ip[1..]].concat())), Cause::Malformed);
    assert_eq!(read(LinkType::Unknown, &ip).ip.unwrap_err(), Cause::LinkType);
    let mut tags = ip.clone();
    for _ in 0..100 {
        tags = t::tagged(1, 0x8100, &tags);
    }
    assert_eq!(cause(&t::frame(0x8100, &tags)), Cause::Malformed);
}

#[test]
fn casts() {
    let ip = t::ipv4(A, [255; 4], 17, &t::udp((68, 67), b""));
    assert_eq!(eth(&t::ethernet([0xff; 6], 0x0800, &ip)).cast, Cast::Broadcast);
    assert_eq!(eth(&t::ethernet([1, 0, 0x5e, 0, 0, 1], 0x0800, &ip)).cast, Cast::Multicast);
    assert_eq!(read(LinkType::RawIp, &ip).cast, Cast::Broadcast);
    assert_eq!(read(LinkType::RawIp, &t::ipv4(A, [224, 0, 0, 1], 2, b"")).cast, Cast::Multicast);
    assert_eq!(read(LinkType::RawIp, &t::ipv4(A, B, 2, b"")).cast, Cast::Unicast);
}

#[test]
fn frames_within_frames_do_not_exhaust_the_stack() {
    let fabric_path = t::frame(0x8903, &[0, 1]).repeat(100_000);
    let snap_in_tags =
        [&t::frame(0x8100, &[])[..], &[0, 1, 0, 40, 0xaa, 0xaa, 3, 0, 0, 0, 0x81, 0].repeat(100_000)].concat();
    for data in [fabric_path, snap_in_tags] {
        assert!(eth(&data).ip.is_err());
    }
}

fn inner(data: &[u8]) -> Packet {
    let length = data.len() as u32;
    parse_inner(&Frame { time_ns: 0, link: LinkType::RawIp, data, length, vlan: None })
}

#[test]
fn the_packet_within_a_tunnel_is_found() {
    let carried = t::ipv4([192, 168, 0, 1], [192, 168, 0, 2], 6, &t::tcp((1234, 80), t::SYN, 7, 0, b""));
    let framed = t::frame(0x0800, &carried);
    let v6 = t::ipv6(1, 2, 6, &t::tcp((1234, 80), t::SYN, 7, 0, b""));
    let udp = |port, payload: &[u8]| t::ipv4(A, B, 17, &t::udp((5, port), payload));
    let gre = |payload: &[u8]| t::ipv4(A, B, 47, payload);
    for (name, data, version) in [
        ("IP in IP", t::ipv4(A, B, 4, &carried), 4),
        ("6in4", t::ipv4(A, B, 41, &v6), 6),
        ("4in6", t::ipv6(3, 4, 4, &carried), 4),
        ("GRE", gre(&[&[0, 0, 8, 0][..], &carried].concat()), 4),
        ("GRE with everything", gre(&[&[0xb0, 0, 0x86, 0xdd][..], &[9; 12], &v6].concat()), 6),
        ("GRE with Ethernet", gre(&[&[0, 0, 0x65, 0x58][..], &framed].concat()), 4),
        ("ERSPAN I", gre(&[&[0, 0, 0x88, 0xbe][..], &framed].concat()), 4),
        (
            "ERSPAN II",
            gre(&[&[0x10, 0, 0x88, 0xbe, 0, 0, 0, 1][..], &[0x10, 1, 0, 9, 0, 0, 0, 0], &framed].concat()),
            4,
        ),
        ("ERSPAN III", gre(&[&[0x10, 0, 0x22, 0xeb, 0, 0, 0, 1][..], &[0x20; 12], &framed].concat()), 4),
        (
            "ERSPAN III with a platform's header",
            gre(&[&[0x10, 0, 0x22, 0xeb, 0, 0, 0, 1][..], &[0x21; 20], &framed].concat()),
            4,
        ),
        ("PPTP", gre(&[&[0x30, 0x81, 0x88, 0x0b][..], &[9; 12], &[0xff, 3, 0, 0x21], &carried].concat()), 4),
        ("VXLAN", udp(4789, &[&[8, 0, 0, 0, 0, 0, 7, 0][..], &framed].concat()), 4),
        ("VXLAN-GPE", udp(4790, &[&[0x0c, 0, 0, 1, 0, 0, 7, 0][..], &carried].concat()), 4),
        ("VXLAN-GPE with IPv6", udp(4790, &[&[0x0c, 0, 0, 2, 0, 0, 7, 0][..], &v6].concat()), 6),
        ("VXLAN-GPE with Ethernet", udp(4790, &[&[0x0c, 0, 0, 3, 0, 0, 7, 0][..], &framed].concat()), 4),
        (
            "VXLAN-GPE with a service header",
            udp(4790, &[&[0x0c, 0, 0, 4, 0, 0, 7, 0][..], &[0x0f, 0xc2, 1, 2, 0, 0, 1, 255], &v6].concat()),
            6,
        ),
        (
            "VXLAN-GPE with MPLS",
            udp(4790, &[&[0x0c, 0, 0, 5, 0, 0, 7, 0][..], &[0, 1, 0x01, 64], &carried].concat()),
            4,
        ),
        ("VXLAN-GPE without a protocol", udp(4790, &[&[8, 0, 0, 0, 0, 0, 7, 0][..], &framed].concat()), 4),
        ("GRE in UDP", udp(4754, &[&[0x20, 0, 8, 0][..], &[9; 4], &carried].concat()), 4),
        ("GRE in UDP with Ethernet", udp(4754, &[&[0, 0, 0x65, 0x58][..], &framed].concat()), 4),
        ("MPLS in GRE", gre(&[&[0, 0, 0x88, 0x47][..], &[0, 1, 0, 64], &[0, 2, 0x01, 64], &carried].concat()), 4),
        ("Teredo", udp(3544, &v6), 6),
        ("Teredo's answer", t::ipv4(A, B, 17, &t::udp((3544, 5), &[&[0, 0, 1, 2, 3, 4, 5, 6][..], &v6].concat())), 6),
        (
            "Teredo with an authentication and an origin",
            udp(3544, &[&[0, 1, 2, 3][..], &[9; 5], &[9; 9], &[0, 0, 1, 2, 3, 4, 5, 6], &v6].concat()),
            6,
        ),
        ("AYIYA", udp(5072, &[&[0x41, 0x52, 0x11, 41, 0, 0, 0, 9][..], &[9; 36], &v6].concat()), 6),
        (
            "AYIYA's answer, with IPv4",
            t::ipv4(
                A,
                B,
                17,
                &t::udp((5072, 5), &[&[0x20, 0x02, 0x13, 4, 0, 0, 0, 9][..], &[9; 4], &carried].concat()),
            ),
            4,
        ),
        ("Geneve with an option", udp(6081, &[&[1, 0, 0x65, 0x58, 0, 0, 7, 0][..], &[9; 4], &framed].concat()), 4),
        ("GTP-U", udp(2152, &[&[0x30, 255, 0, 40, 0, 0, 0, 1][..], &carried].concat()), 4),
        (
            "GTP-U with an extension",
            udp(2152, &[&[0x34, 255, 0, 48, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 9, 9, 0][..], &v6].concat()),
            6,
        ),
        ("in another", t::ipv4(A, B, 4, &gre(&[&[0, 0, 8, 0][..], &carried].concat())), 4),
    ] {
        let packet = inner(&data);
        let ip = packet.ip.unwrap();
        assert_eq!((ip.version, ip.src_port, ip.dst_port, ip.tcp.is_some()), (version, 1234, 80, true), "{name}");
        assert_eq!(packet.octets as usize, if version == 4 { carried.len() } else { v6.len() }, "{name}");
        assert_eq!(data[packet.layer3 as usize] >> 4, version, "{name}");
    }
}

#[test]
fn what_carries_no_packet_stays_as_it_is() {
    let udp = |port, payload: &[u8]| t::ipv4(A, B, 17, &t::udp((5, port), payload));
    for data in [
        t::ipv4(A, B, 4, b"nothing"),
        t::ipv4(A, B, 47, &[0x40, 0, 8, 0, 0x45]),
        udp(4789, &[0; 8]),
        udp(4790, &[&[0x0d, 0, 0, 1, 0, 0, 7, 0][..], &t::ipv4(A, B, 17, b"maintenance")].concat()),
        udp(4790, &[&[0x1c, 0, 0, 1, 0, 0, 7, 0][..], &t::ipv4(A, B, 17, b"version 1")].concat()),
        udp(4790, &[&[0, 0, 0, 0, 0, 0, 7, 0][..], &t::frame(0x0800, &t::ipv4(A, B, 17, b""))].concat()),
        udp(4790, &[&[0x0c, 0, 0, 9, 0, 0, 7, 0][..], &t::ipv4(A, B, 17, b"unknown")].concat()),
        udp(4754, &[0, 0, 8, 0]),
        udp(3544, &t::ipv4(A, B, 17, b"no IPv6")),
        udp(3544, &[0, 1, 255, 255, 0x60]),
        udp(5072, &[&[0x00, 0x00, 0x12, 41, 0, 0, 0, 9, 9][..], &t::ipv6(1, 2, 17, b"an echo alone")].concat()),
        udp(5072, &[0xf0, 0xf0, 0x11, 41, 0, 0, 0, 9]),
        udp(2152, &[0x30, 1, 0, 0, 0, 0, 0, 0]),
        udp(2152, &[0x34, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x85, 0, 0, 0, 0]),
        t::ipv4_with(A, B, 4, &[], 0x2000, &t::ipv4(A, B, 17, b"")),
    ] {
        let length = data.len() as u32;
        assert_eq!(inner(&data), parse(&Frame { time_ns: 0, link: LinkType::RawIp, data: &data, length, vlan: None }));
    }
}

/// The Internet checksum, word by word as in RFC 1071.
fn internet_checksum(data: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in data.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !sum as u16
}

#[test]
fn checksums_are_checked() {
    let of = |data: &[u8], captured: usize| {
        let data = &data[..captured];
        let length = 1500.min(data.len() as u32 + 7);
        let packet = parse(&Frame { time_ns: 0, link: LinkType::RawIp, data, length, vlan: None });
        Checksum::of(&packet.ip.unwrap(), data)
    };
    let mut v4 = t::ipv4(A, B, 17, &t::udp((5, 53), b"odd"));
    let pseudo = [&A[..], &B, &[0, 17, 0, 11], &v4[20..]].concat();
    assert_eq!(of(&v4, v4.len()), Checksum::BadIp);
    let header = internet_checksum(&v4[..20]).to_be_bytes();
    v4[10..12].copy_from_slice(&header);
    assert_eq!(of(&v4, v4.len()), Checksum::Unchecked, "UDP without one");
    v4[26..28].copy_from_slice(&internet_checksum(&pseudo).to_be_bytes());
    assert_eq!(of(&v4, v4.len()), Checksum::Good);
    assert_eq!(of(&v4, v4.len() - 1), Checksum::Unchecked, "cut");
    v4[30] ^= 1;
    assert_eq!(of(&v4, v4.len()), Checksum::BadLayer4);

    let mut v6 = t::ipv6(1, 2, 58, &t::icmp(128, 0, b"ping"));
    v6[42..44].fill(0);
    let length = (v6.len() - 40) as u8;
    let pseudo = [&v6[8..40], &[0, 0, 0, length, 0, 0, 0, 58], &v6[40..]].concat();
    v6[42..44].copy_from_slice(&internet_checksum(&pseudo).to_be_bytes());
    assert_eq!(of(&v6, v6.len()), Checksum::Good);
    v6[9] ^= 1;
    assert_eq!(of(&v6, v6.len()), Checksum::BadLayer4);
}

#[test]
fn an_icmp_error_quotes_a_flow() {
    let lost = t::ipv4(A, B, 6, &t::tcp((1234, 80), t::SYN, 7, 0, b""));
    for (error, at) in [
        (t::ipv4(B, A, 1, &t::icmp(3, 1, &lost[..28])), "unreachable, 8 octets of layer 4 quoted"),
        (t::ipv4(B, A, 1, &t::icmp(11, 0, &lost)), "time exceeded"),
    ] {
        let length = error.len() as u32;
        let packet = parse(&Frame { time_ns: 0, link: LinkType::RawIp, data: &error, length, vlan: None });
        let found = quoted(&packet.ip.unwrap(), &error).unwrap();
        assert_eq!((found.addresses, found.ports), ([mapped(A), mapped(B)], [1234, 80]), "{at}");
    }
    let nothing = t::ipv4(B, A, 1, &t::icmp(3, 1, b""));
    let packet = parse(&Frame { time_ns: 0, link: LinkType::RawIp, data: &nothing, length: 28, vlan: None });
    assert_eq!(quoted(&packet.ip.unwrap(), &nothing), None);
}

#[test]
fn a_packet_in_a_tunnel_ends_with_it() {
    let mut inner = t::ipv4_with([10, 0, 0, 1], [10, 0, 0, 2], 17, &[0; 36], 0, &[]);
    assert_eq!(inner.len(), 56);
    let whole = t::frame(0x0800, &t::ipv4([1, 1, 1, 1], [2, 2, 2, 2], 4, &inner));
    let of = |data: &[u8]| {
        parse_inner(&Frame { time_ns: 0, link: LinkType::Ethernet, data, length: data.len() as u32, vlan: None })
    };
    assert_eq!((of(&whole).octets, of(&whole).layer3), (56, 34));
    // The tunnel carries only 32 octets of the inner packet; the frame is longer, as with padding.
    let rest = inner.split_off(32);
    let cut = [t::frame(0x0800, &t::ipv4([1, 1, 1, 1], [2, 2, 2, 2], 4, &inner)), rest].concat();
    assert_eq!((of(&cut).octets, of(&cut).layer3), (52, 14));
}
