//! Chooses the worker for a packet: a classic BPF program for PACKET_FANOUT (Linux, `packet(7)`).
//!
//! The choice depends on the unordered pair of addresses alone, so that both directions, all fragments and all sessions
//! of two hosts meet in one worker. Non-IP packets go to worker 0.

use crate::packet::ether_type::{QINQ1, QINQ2, QINQ3, SERVICE_VLAN, VLAN};
use crate::packet::{LinkType, ether_type, ppp};

/// Maximum number of VLAN tags skipped, besides one that the kernel removed.
const TAGS: usize = 3;
/// Maximum number of MPLS labels skipped.
const LABELS: usize = 4;

/// The program's scratch memory, by index.
#[derive(Clone, Copy)]
#[repr(u32)]
enum Scratch {
    /// Offset of the layer that is read.
    Base,
    /// Type of the layer that follows.
    Kind,
    /// The two addresses combined.
    Both,
}

const ETHERNET_HEADER: u32 = 14;

/// Offsets at which a classic BPF program reads the kernel's metadata of a packet.
pub(super) const PACKET_TYPE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;
const PROTOCOL: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PROTOCOL) as u32;

/// A target of jumps in a program.
#[derive(Clone, Copy)]
struct JumpLabel(usize);

/// A classic BPF program under construction: every jump leads forward, to a label that is placed later.
#[derive(Default)]
struct Assembler {
    code: Vec<libc::sock_filter>,
    /// The position of each label, once placed.
    places: Vec<Option<usize>>,
    /// Jumps: the position of each, and the label that it leads to.
    jumps: Vec<(usize, JumpLabel)>,
}

impl Assembler {
    fn label(&mut self) -> JumpLabel {
        self.places.push(None);
        JumpLabel(self.places.len() - 1)
    }

    fn place(&mut self, label: JumpLabel) {
        self.places[label.0] = Some(self.code.len());
    }

    fn push(&mut self, code: u32, k: u32) {
        self.code.push(instruction(code, k, 0, 0));
    }

    fn jump(&mut self, to: JumpLabel) {
        self.jumps.push((self.code.len(), to));
        self.push(libc::BPF_JMP | libc::BPF_JA, 0);
    }

    /// Jumps if the accumulator is `value`. The leap is an unconditional one, whose reach is not limited to 255.
    fn jump_if(&mut self, value: u16, to: JumpLabel) {
        self.code.push(instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value.into(), 0, 1));
        self.jump(to);
    }

    fn store(&mut self, place: Scratch) {
        self.push(libc::BPF_ST, place as u32);
    }

    /// Loads a value of the given size at `offset` from the layer in [`Scratch::Base`].
    fn load(&mut self, size: u32, offset: u32) {
        self.push(libc::BPF_LDX | libc::BPF_MEM, Scratch::Base as u32);
        self.push(libc::BPF_LD | size | libc::BPF_IND, offset);
    }

    fn recall(&mut self, place: Scratch) {
        self.push(libc::BPF_LD | libc::BPF_MEM, place as u32);
    }

    /// Moves [`Scratch::Base`] on.
    fn advance(&mut self, octets: u32) {
        self.recall(Scratch::Base);
        self.push(libc::BPF_ALU | libc::BPF_ADD | libc::BPF_K, octets);
        self.store(Scratch::Base);
    }

    /// The same, leaving the accumulator as it is.
    fn skip(&mut self, octets: u32) {
        self.store(Scratch::Kind);
        self.advance(octets);
        self.recall(Scratch::Kind);
    }

    /// Combines the words at these offsets, the order of which does not matter, into [`Scratch::Both`].
    fn combine(&mut self, offsets: impl Iterator<Item = u32>) {
        self.push(libc::BPF_LD | libc::BPF_IMM, 0);
        self.store(Scratch::Both);
        for offset in offsets {
            self.load(libc::BPF_W, offset);
            self.push(libc::BPF_LDX | libc::BPF_MEM, Scratch::Both as u32);
            self.push(libc::BPF_ALU | libc::BPF_XOR | libc::BPF_X, 0);
            self.store(Scratch::Both);
        }
    }

    fn finish(mut self) -> Vec<libc::sock_filter> {
        for (at, JumpLabel(label)) in self.jumps {
            let place = self.places[label].expect("every label is placed before the program is finished");
            self.code[at].k = (place - at - 1) as u32;
        }
        self.code
    }
}

/// An instruction of a classic BPF program.
pub(super) fn instruction(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

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
        asm.jump_if(libc::PACKET_OUTGOING.into(), sent);
        asm.push(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, PROTOCOL);
        asm.jump(known);
        asm.place(sent);
        asm.advance(ETHERNET_HEADER);
        asm.push(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, ETHERNET_HEADER - 2);
        asm.place(known);
        for _ in 0..TAGS {
            let (tag, done) = (asm.label(), asm.label());
            [VLAN, SERVICE_VLAN, QINQ1, QINQ2, QINQ3].into_iter().for_each(|kind| asm.jump_if(kind, tag));
            asm.jump(done);
            asm.place(tag);
            asm.load(libc::BPF_H, 2);
            asm.skip(4);
            asm.place(done);
        }
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
            asm.jump_if(0, above);
            asm.jump(by_version);
            asm.place(above);
        }
        asm.jump(other);

        asm.place(pppoe);
        asm.load(libc::BPF_H, 6);
        asm.skip(8);
        asm.jump_if(ppp::IPV4, ipv4);
        asm.jump_if(ppp::IPV6, ipv6);
        asm.jump(other);
    }
    asm.place(by_version);
    asm.load(libc::BPF_B, 0);
    asm.push(libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K, 4);
    asm.jump_if(4, ipv4);
    asm.jump_if(6, ipv6);

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
    use super::*;
    use crate::testing as t;

    /// Runs a program as the kernel does; `protocol` and `sent` are the kernel's metadata.
    fn run(program: &[libc::sock_filter], data: &[u8], protocol: u16, sent: bool) -> u32 {
        let (mut a, mut x, mut at, mut memory) = (0u32, 0u32, 0usize, [0u32; 16]);
        let value = |octets: &[u8]| octets.iter().fold(0, |sum, &octet| sum << 8 | u32::from(octet));
        loop {
            let libc::sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            match u32::from(code) {
                0x20 if k == PACKET_TYPE => a = if sent { libc::PACKET_OUTGOING.into() } else { 0 },
                0x28 if k == PROTOCOL => a = protocol.into(),
                load @ (0x20 | 0x28 | 0x30 | 0x40 | 0x48 | 0x50) => {
                    let size = match load & 0x18 {
                        libc::BPF_W => 4,
                        libc::BPF_H => 2,
                        _ => 1,
                    };
                    let from = k as usize + if load & 0x40 == 0 { 0 } else { x as usize };
                    let Some(octets) = data.get(from..from + size) else { return 0 };
                    a = value(octets);
                }
                0x00 => a = k,
                0x60 => a = memory[k as usize],
                0x61 => x = memory[k as usize],
                0x02 => memory[k as usize] = a,
                0x04 => a = a.wrapping_add(k),
                0x24 => a = a.wrapping_mul(k),
                0x54 => a &= k,
                0x74 => a >>= k,
                0xac => a ^= x,
                0x07 => x = a,
                0x05 => at += k as usize,
                0x15 => at += usize::from(if a == k { jt } else { jf }),
                0x06 => return k,
                0x16 => return a,
                other => panic!("instruction {other:#x}"),
            }
        }
    }

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
