//! Chooses the worker for a packet: a classic BPF program for PACKET_FANOUT (Linux, `packet(7)`).
//!
//! The choice depends on the unordered pair of addresses alone, so that both directions, all fragments and all sessions
//! of two hosts meet in one worker. Non-IP packets go to worker 0.

use super::bpf::{Assembler, ETHERNET_HEADER, PACKET_TYPE, PROTOCOL, Scratch};
use crate::packet::{LinkType, ether_type};

/// Maximum number of MPLS labels skipped.
const LABELS: usize = 4;

/// The program. The kernel takes its result modulo the number of workers; a load past the packet's end returns 0.
///
/// It runs before the kernel normalises the packet for filters: offset 0 is the network layer of a received packet, but
/// the link layer of a sent one. Offsets relative to either layer (`SKF_NET_OFF`) reach only the linear part of a
/// packet, which need not hold its IP header; hence the base computed here.
pub(super) fn by_address_pair(link: LinkType) -> Vec<libc::sock_filter> {
    let mut asm = Assembler::default();
    let (ipv4, ipv6, mix, other) = (asm.label(), asm.label(), asm.label(), asm.label());
    let by_version = asm.label();

    asm.push(libc::BPF_LD | libc::BPF_IMM, 0);
    asm.store(Scratch::Base);
    if link == LinkType::Ethernet {
        let (known, sent, mpls, pppoe) = (asm.label(), asm.label(), asm.label(), asm.label());
        asm.push(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, PACKET_TYPE);
        asm.jump_if(libc::PACKET_OUTGOING, sent);
        asm.push(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, PROTOCOL);
        asm.jump(known);
        asm.place(sent);
        asm.advance(ETHERNET_HEADER);
        asm.push(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, ETHERNET_HEADER - 2);
        asm.place(known);
        asm.skip_tags();
        asm.jump_if(ether_type::IPV4, ipv4);
        asm.jump_if(ether_type::IPV6, ipv6);
        [ether_type::MPLS, ether_type::MPLS_MULTICAST].into_iter().for_each(|kind| asm.jump_if(kind, mpls));
        asm.jump_if(ether_type::PPPOE_SESSION, pppoe);
        asm.jump(other);

        asm.place(mpls);
        for _ in 0..LABELS {
            let above = asm.label();
            asm.load(libc::BPF_B, 2);
            asm.push(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 1);
            asm.skip(4);
            asm.jump_if(0u8, above);
            asm.jump(by_version);
            asm.place(above);
        }
        asm.jump(other);

        asm.place(pppoe);
        asm.enter_ppp([ipv4, ipv6]);
        asm.jump(other);
    }
    asm.place(by_version);
    asm.by_version([ipv4, ipv6]);

    asm.place(other);
    asm.push(libc::BPF_RET | libc::BPF_K, 0);

    asm.place(ipv4);
    asm.combine([12, 16].into_iter());
    asm.jump(mix);
    asm.place(ipv6);
    asm.combine((8..40).step_by(4));

    // Mixes every bit into the lower ones, so that neighbouring pairs do not go to the same worker.
    asm.place(mix);
    asm.recall(Scratch::Both);
    for (factor, shift) in [(0x85eb_ca6b, 13), (0xc2b2_ae35, 16)] {
        asm.push(libc::BPF_ALU | libc::BPF_MUL | libc::BPF_K, factor);
        asm.push(libc::BPF_MISC | libc::BPF_TAX, 0);
        asm.push(libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K, shift);
        asm.push(libc::BPF_ALU | libc::BPF_XOR | libc::BPF_X, 0);
    }
    asm.push(libc::BPF_RET | libc::BPF_A, 0);
    asm.finish()
}

#[cfg(test)]
mod tests {
    use super::super::bpf::run;
    use super::*;
    use crate::testing as t;

    /// The program's result for a received frame, from which the kernel has removed the first VLAN tag.
    fn received(frame: &[u8]) -> u32 {
        let program = by_address_pair(LinkType::Ethernet);
        let kind = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        let at = if matches!(kind(12), 0x8100 | 0x88a8) { 18 } else { 14 };
        run(&program, &frame[at..], kind(at - 2), false)
    }

    fn sent(frame: &[u8]) -> u32 {
        run(&by_address_pair(LinkType::Ethernet), frame, 0, true)
    }

    #[test]
    fn a_pair_of_addresses_has_one_place_whatever_stands_before_it() {
        let (a, b) = ([192, 0, 2, 1], [198, 51, 100, 7]);
        let there = t::ipv4(a, b, 17, &t::udp((1000, 53), b"question"));
        let back = t::ipv4(b, a, 6, &t::tcp((80, 4242), t::ACK, 1, 1, b""));
        let fragment = t::ipv4_with(a, b, 17, &[1; 8], 0x0010, &[0; 40]);
        let place = received(&t::frame(0x0800, &there));
        assert_ne!(place, 0);
        for packet in [&there, &back, &fragment] {
            let frames = [
                t::frame(0x0800, packet),
                t::frame(0x8100, &t::tagged(7, 0x0800, packet)),
                t::frame(0x88a8, &t::tagged(7, 0x8100, &t::tagged(8, 0x0800, packet))),
                t::frame(0x8847, &[&[0, 1, 0, 64, 0, 2, 1, 64], &packet[..]].concat()),
                t::frame(0x8864, &[&[0x11, 0, 0, 1, 0, 100, 0, 0x21], &packet[..]].concat()),
                t::frame(0x8100, &t::tagged(7, 0x8864, &[&[0x11, 0, 0, 1, 0, 100, 0, 0x21], &packet[..]].concat())),
            ];
            for frame in frames {
                assert_eq!((received(&frame), sent(&frame)), (place, place), "{frame:02x?}");
            }
            assert_eq!(run(&by_address_pair(LinkType::RawIp), packet, 0x0800, false), place);
        }
        let (there, back) = (t::ipv6(1, 2, 17, &t::udp((1, 2), b"")), t::ipv6(2, 1, 44, &[17, 0, 0, 8, 0, 0, 0, 1]));
        let place = received(&t::frame(0x86dd, &there));
        assert_ne!(place, 0);
        assert_eq!((received(&t::frame(0x86dd, &back)), sent(&t::frame(0x86dd, &back))), (place, place));
    }

    #[test]
    fn what_is_not_ip_or_cut_goes_to_worker_0() {
        let whole = t::frame(0x0800, &t::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 17, b""));
        let labels = [0u8, 1, 0, 64].repeat(40);
        for frame in [&t::frame(0x0806, &[0; 28])[..], &whole[..33], &t::frame(0x8847, &labels), &whole[..14]] {
            assert_eq!((received(frame), sent(frame)), (0, 0));
        }
    }

    #[test]
    fn pairs_are_spread_evenly() {
        for workers in [2, 3, 8] {
            let mut counts = vec![0u32; workers as usize];
            for number in 0..8000u16 {
                let [high, low] = number.to_be_bytes();
                let packet = t::ipv4([10, 0, high, low], [192, 0, 2, 1], 17, b"");
                counts[(received(&t::frame(0x0800, &packet)) % workers) as usize] += 1;
            }
            let fair = 8000 / workers;
            assert!(counts.iter().all(|&count| count.abs_diff(fair) < fair / 5), "{counts:?}");
        }
    }
}
