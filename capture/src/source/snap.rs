//! How many octets of a packet a ring keeps: all of those that may carry a name or tell an application, else the
//! headers.
//!
//! A classic BPF program has no memory, so it cannot know which packets are the first of their flow. It decides by
//! ports and by the first octets of the payload. A packet's own length stays known, whatever is kept of it.

use super::bpf::{Assembler, ETHERNET_HEADER, PACKET_TYPE, Scratch};
use crate::packet::protocol::{DNS_PORTS, TCP, TLS_PORTS, UDP};
use crate::packet::{LinkType, ether_type};

/// Octets kept of every packet: enough for every header that the agent reads.
const HEADERS: u32 = 512;
/// Octets kept of a packet that may carry a name: a ClientHello of the longest record, which a host that leaves
/// segmentation to its card sends as one packet.
pub const WHOLE: u32 = 17 << 10;

/// The versions of QUIC 1 (RFC 9000) and 2 (RFC 9369).
const QUIC: [u32; 2] = [1, 0x6b33_43cf];
/// The first 24 bits of the versions of QUIC's drafts and of Facebook's, and the first 16 of Google's: `Q0`.
const QUIC_DRAFTS: [u32; 2] = [0xff_0000, 0xfa_ceb0];
const GOOGLE_QUIC: u32 = 0x5130;
/// The form of versions by which a client asks for those that the server knows (RFC 9000, section 15), and its mask.
const UNKNOWN: [u32; 2] = [0x0a0a_0a0a, 0x0f0f_0f0f];

/// The program for a packet socket, which sees packets from the link layer on, without the tag that the kernel removed.
/// With `sent` it admits those that the host sends, too.
pub fn lengths(link: LinkType, sent: bool) -> Vec<libc::sock_filter> {
    let mut asm = Assembler::default();
    let [whole, headers, ipv4, ipv6, tcp, udp] = std::array::from_fn(|_| asm.label());
    if !sent {
        let (none, others) = (asm.label(), asm.label());
        asm.push(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, PACKET_TYPE);
        asm.jump_if(libc::PACKET_OUTGOING, none);
        asm.jump(others);
        asm.place(none);
        asm.push(libc::BPF_RET | libc::BPF_K, 0);
        asm.place(others);
    }
    // A load past the packet's end would end the program and drop the packet. All that follow are of packets longer
    // than this, and of headers that end before it.
    asm.push(libc::BPF_LD | libc::BPF_W | libc::BPF_LEN, 0);
    let long = asm.label();
    asm.jump_if_above(HEADERS, long);
    asm.push(libc::BPF_RET | libc::BPF_K, HEADERS);
    asm.place(long);

    asm.push(libc::BPF_LD | libc::BPF_IMM, 0);
    asm.store(Scratch::Base);
    if link == LinkType::Ethernet {
        let pppoe = asm.label();
        asm.advance(ETHERNET_HEADER);
        asm.push(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, ETHERNET_HEADER - 2);
        asm.skip_tags();
        asm.jump_if(ether_type::IPV4, ipv4);
        asm.jump_if(ether_type::IPV6, ipv6);
        asm.jump_if(ether_type::PPPOE_SESSION, pppoe);
        asm.jump(headers);
        asm.place(pppoe);
        asm.enter_ppp([ipv4, ipv6]);
        asm.jump(headers);
    } else {
        asm.by_version([ipv4, ipv6]);
    }
    asm.place(headers);
    asm.push(libc::BPF_RET | libc::BPF_K, HEADERS);

    asm.place(ipv4);
    // Later fragments have no ports.
    let unfragmented = asm.label();
    asm.load(libc::BPF_H, 6);
    asm.push(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0x1fff);
    asm.jump_if(0u8, unfragmented);
    asm.push(libc::BPF_RET | libc::BPF_K, HEADERS);
    asm.place(unfragmented);
    asm.load(libc::BPF_B, 9);
    asm.store(Scratch::Kind);
    asm.load(libc::BPF_B, 0);
    asm.push(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 15);
    asm.push(libc::BPF_ALU | libc::BPF_LSH | libc::BPF_K, 2);
    asm.advance_by_accumulator();
    by_protocol(&mut asm, [tcp, udp]);

    asm.place(ipv6);
    asm.load(libc::BPF_B, 6);
    asm.skip(40);
    by_protocol(&mut asm, [tcp, udp]);

    asm.place(udp);
    for offset in [0, 2] {
        asm.load(libc::BPF_H, offset);
        DNS_PORTS.into_iter().for_each(|port| asm.jump_if(port, whole));
    }
    // The version after the first octet of a long header.
    asm.load(libc::BPF_W, 9);
    QUIC.into_iter().for_each(|version| asm.jump_if(version, whole));
    asm.push(libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K, 8);
    QUIC_DRAFTS.into_iter().for_each(|version| asm.jump_if(version, whole));
    asm.load(libc::BPF_W, 9);
    asm.push(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, UNKNOWN[1]);
    asm.jump_if(UNKNOWN[0], whole);
    // Google's, also where it was at first: after a connection id.
    for offset in [9, 17] {
        asm.load(libc::BPF_H, offset);
        asm.jump_if(GOOGLE_QUIC, whole);
    }
    asm.push(libc::BPF_RET | libc::BPF_K, HEADERS);

    asm.place(tcp);
    asm.load(libc::BPF_H, 0);
    asm.jump_if(DNS_PORTS[0], whole);
    asm.load(libc::BPF_H, 2);
    asm.jump_if(DNS_PORTS[0], whole);
    TLS_PORTS.into_iter().for_each(|port| asm.jump_if(port, whole));
    asm.load(libc::BPF_B, 12);
    asm.push(libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K, 2);
    asm.push(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0x3c);
    asm.advance_by_accumulator();
    // A TLS handshake; or a word in capitals, such as a method of HTTP.
    asm.load(libc::BPF_H, 0);
    asm.jump_if(0x1603u16, whole);
    let other = asm.label();
    for offset in 0..3 {
        asm.load(libc::BPF_B, offset);
        asm.jump_unless_within(u32::from(b'A')..=u32::from(b'Z'), other);
    }
    asm.place(whole);
    asm.push(libc::BPF_RET | libc::BPF_K, WHOLE);
    asm.place(other);
    asm.push(libc::BPF_RET | libc::BPF_K, HEADERS);
    asm.finish()
}

/// Goes on by the protocol in [`Scratch::Kind`], or returns.
fn by_protocol(asm: &mut Assembler, [tcp, udp]: [super::bpf::JumpLabel; 2]) {
    asm.recall(Scratch::Kind);
    asm.jump_if(TCP, tcp);
    asm.jump_if(UDP, udp);
    asm.push(libc::BPF_RET | libc::BPF_K, HEADERS);
}

#[cfg(test)]
mod tests {
    use super::super::bpf::run;
    use super::*;
    use crate::testing as t;

    const A: [u8; 4] = [192, 0, 2, 1];
    const B: [u8; 4] = [198, 51, 100, 1];

    fn kept(frame: &[u8]) -> u32 {
        run(&lengths(LinkType::Ethernet, true), frame, 0, false)
    }

    fn tcp(ports: (u16, u16), start: &[u8]) -> Vec<u8> {
        t::tcp(ports, t::ACK, 1, 1, &[start, &[b'a'; 1300]].concat())
    }

    fn udp(ports: (u16, u16), start: &[u8]) -> Vec<u8> {
        t::udp(ports, &[start, &[0; 1180]].concat())
    }

    #[test]
    fn what_may_carry_a_name_is_kept_whole_behind_every_header() {
        let hello: &[u8] = &[0x16, 3, 1, 6, 0, 1];
        let named = [
            (6, tcp((40_000, 4433), hello)),
            (6, tcp((40_000, 443), b"the rest of one")),
            (6, tcp((40_000, 8080), b"GET / HTTP/1.1\r\n")),
            (6, tcp((80, 40_000), b"HTTP/1.1 200 OK\r\n")),
            (6, tcp((40_000, 53), b"\x05\x14")),
            (6, tcp((53, 40_000), b"\x05\x14")),
            (17, udp((40_000, 4433), &[0xc3, 0, 0, 0, 1, 8])),
            (17, udp((4433, 40_000), &[0xd3, 0x6b, 0x33, 0x43, 0xcf, 8])),
            (17, udp((40_000, 443), &[0xc3, 0xff, 0, 0, 29, 8])),
            (17, udp((40_000, 443), &[0xc3, 0xfa, 0xce, 0xb0, 1, 8])),
            (17, udp((40_000, 443), &[0xc3, 0x1a, 0x2a, 0x3a, 0x4a, 8])),
            (17, udp((40_000, 443), b"\x0d12345678Q043")),
            (17, udp((53, 40_000), b"answer")),
            (17, udp((5353, 5353), b"answer")),
        ];
        for (protocol, transport) in &named {
            let v4 = t::ipv4(A, B, *protocol, transport);
            let frames = [
                t::frame(0x0800, &v4),
                t::frame(0x86dd, &t::ipv6(1, 2, *protocol, transport)),
                t::frame(0x8100, &t::tagged(7, 0x0800, &v4)),
                t::frame(0x8864, &[&[0x11, 0, 0, 1, 6, 0, 0, 0x21], &v4[..]].concat()),
            ];
            for frame in frames {
                assert_eq!(kept(&frame), WHOLE, "{:02x?}", &frame[..80]);
            }
            assert_eq!(run(&lengths(LinkType::RawIp, true), &v4, 0, false), WHOLE);
        }
    }

    #[test]
    fn of_others_the_headers_are_kept() {
        let others = [
            (6, tcp((443, 40_000), &[0x17, 3, 3])),
            (6, tcp((80, 40_000), b"GEt")),
            (6, tcp((80, 40_000), b"@ET")),
            (6, tcp((80, 40_000), b"G[T")),
            (17, udp((40_000, 443), &[0x43, 0, 0, 1, 0, 8])),
            (1, vec![0; 1400]),
        ];
        for (protocol, transport) in &others {
            let v4 = t::ipv4(A, B, *protocol, transport);
            assert_eq!(kept(&t::frame(0x0800, &v4)), HEADERS, "{:02x?}", &transport[..40]);
            assert_eq!(kept(&t::frame(0x86dd, &t::ipv6(1, 2, *protocol, transport))), HEADERS);
            assert_eq!(run(&lengths(LinkType::RawIp, true), &v4, 0, false), HEADERS);
        }
        let fragment = t::ipv4_with(A, B, 17, &[1; 8], 0x0010, &udp((53, 53), b""));
        assert_eq!(kept(&t::frame(0x0800, &fragment)), HEADERS, "a later fragment has no ports");
        assert_eq!(kept(&t::frame(0x0806, &[0; 1400])), HEADERS);
    }

    #[test]
    fn no_length_drops_a_packet() {
        let whole = t::frame(0x8100, &t::tagged(7, 0x0800, &t::ipv4(A, B, 6, &tcp((1, 2), b"GET"))));
        for length in 0..whole.len() {
            assert!(kept(&whole[..length]) >= HEADERS, "{length}");
        }
        // Whatever lengths the headers claim.
        for octet in 0..160 {
            for value in [0, 0x0f, 0x4f, 0x60, 0xf0, 0xff] {
                let mut frame = whole.clone();
                frame[octet] = value;
                assert!(kept(&frame[..HEADERS as usize + 1]) >= HEADERS, "{octet} {value}");
            }
        }
    }

    #[test]
    fn on_the_loopback_what_is_sent_is_left_out() {
        let frame = t::frame(0x0800, &t::ipv4(A, B, 6, &tcp((1, 2), b"")));
        let program = lengths(LinkType::Ethernet, false);
        assert_eq!((run(&program, &frame, 0, true), run(&program, &frame, 0, false)), (0, HEADERS));
    }
}
