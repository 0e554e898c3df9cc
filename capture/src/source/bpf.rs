//! Classic BPF programs (Linux, `Documentation/networking/filter.rst`): an assembler for those that run in the kernel.

use crate::packet::ether_type::{QINQ1, QINQ2, QINQ3, SERVICE_VLAN, VLAN};
use crate::packet::ppp;
use std::ops::RangeInclusive;

/// Maximum number of VLAN tags skipped, besides one that the kernel removed.
const TAGS: usize = 3;

pub const ETHERNET_HEADER: u32 = 14;

/// The program's scratch memory, by index.
#[derive(Clone, Copy)]
#[repr(u32)]
pub enum Scratch {
    /// Offset of the layer that is read.
    Base,
    /// Type of the layer that follows.
    Kind,
    /// The two addresses combined.
    Both,
}

/// Offsets at which a classic BPF program reads the kernel's metadata of a packet.
pub const PACKET_TYPE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;
pub const PROTOCOL: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PROTOCOL) as u32;

/// A target of jumps in a program.
#[derive(Clone, Copy)]
pub struct JumpLabel(usize);

/// A classic BPF program under construction: every jump leads forward, to a label that is placed later.
#[derive(Default)]
pub struct Assembler {
    code: Vec<libc::sock_filter>,
    /// The position of each label, once placed.
    places: Vec<Option<usize>>,
    /// Jumps: the position of each, and the label that it leads to.
    jumps: Vec<(usize, JumpLabel)>,
}

impl Assembler {
    pub fn label(&mut self) -> JumpLabel {
        self.places.push(None);
        JumpLabel(self.places.len() - 1)
    }

    pub fn place(&mut self, label: JumpLabel) {
        self.places[label.0] = Some(self.code.len());
    }

    pub fn push(&mut self, code: u32, k: u32) {
        self.code.push(instruction(code, k, 0, 0));
    }

    pub fn jump(&mut self, to: JumpLabel) {
        self.jumps.push((self.code.len(), to));
        self.push(libc::BPF_JMP | libc::BPF_JA, 0);
    }

    /// Jumps if the accumulator is `value`. The leap is an unconditional one, whose reach is not limited to 255.
    pub fn jump_if(&mut self, value: impl Into<u32>, to: JumpLabel) {
        self.code.push(instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value.into(), 0, 1));
        self.jump(to);
    }

    /// Jumps if the accumulator is above `value`.
    pub fn jump_if_above(&mut self, value: u32, to: JumpLabel) {
        self.code.push(instruction(libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K, value, 0, 1));
        self.jump(to);
    }

    /// Jumps unless the accumulator is in the range.
    pub fn jump_unless_within(&mut self, range: RangeInclusive<u32>, to: JumpLabel) {
        self.code.push(instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, *range.start(), 1, 0));
        self.jump(to);
        self.code.push(instruction(libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K, *range.end(), 0, 1));
        self.jump(to);
    }

    pub fn store(&mut self, place: Scratch) {
        self.push(libc::BPF_ST, place as u32);
    }

    /// Loads a value of the given size at `offset` from the layer in [`Scratch::Base`].
    pub fn load(&mut self, size: u32, offset: u32) {
        self.push(libc::BPF_LDX | libc::BPF_MEM, Scratch::Base as u32);
        self.push(libc::BPF_LD | size | libc::BPF_IND, offset);
    }

    pub fn recall(&mut self, place: Scratch) {
        self.push(libc::BPF_LD | libc::BPF_MEM, place as u32);
    }

    /// Moves [`Scratch::Base`] on.
    pub fn advance(&mut self, octets: u32) {
        self.recall(Scratch::Base);
        self.push(libc::BPF_ALU | libc::BPF_ADD | libc::BPF_K, octets);
        self.store(Scratch::Base);
    }

    /// Moves [`Scratch::Base`] on by what is in the accumulator.
    pub fn advance_by_accumulator(&mut self) {
        self.push(libc::BPF_LDX | libc::BPF_MEM, Scratch::Base as u32);
        self.push(libc::BPF_ALU | libc::BPF_ADD | libc::BPF_X, 0);
        self.store(Scratch::Base);
    }

    /// Moves [`Scratch::Base`] on by this many octets, leaving the accumulator as it is.
    pub fn skip(&mut self, octets: u32) {
        self.store(Scratch::Kind);
        self.advance(octets);
        self.recall(Scratch::Kind);
    }

    /// Combines the words at these offsets, the order of which does not matter, into [`Scratch::Both`].
    pub fn combine(&mut self, offsets: impl Iterator<Item = u32>) {
        self.push(libc::BPF_LD | libc::BPF_IMM, 0);
        self.store(Scratch::Both);
        for offset in offsets {
            self.load(libc::BPF_W, offset);
            self.push(libc::BPF_LDX | libc::BPF_MEM, Scratch::Both as u32);
            self.push(libc::BPF_ALU | libc::BPF_XOR | libc::BPF_X, 0);
            self.store(Scratch::Both);
        }
    }

    /// Skips VLAN tags; before and after, the accumulator is the type of what [`Scratch::Base`] points at.
    pub fn skip_tags(&mut self) {
        for _ in 0..TAGS {
            let (tag, done) = (self.label(), self.label());
            [VLAN, SERVICE_VLAN, QINQ1, QINQ2, QINQ3].into_iter().for_each(|kind| self.jump_if(kind, tag));
            self.jump(done);
            self.place(tag);
            self.load(libc::BPF_H, 2);
            self.skip(4);
            self.place(done);
        }
    }

    /// Skips a header of PPPoE and PPP, and jumps if IP follows.
    pub fn enter_ppp(&mut self, [ipv4, ipv6]: [JumpLabel; 2]) {
        self.load(libc::BPF_H, 6);
        self.skip(8);
        self.jump_if(ppp::IPV4, ipv4);
        self.jump_if(ppp::IPV6, ipv6);
    }

    /// Jumps by the version of the IP header at [`Scratch::Base`].
    pub fn by_version(&mut self, [ipv4, ipv6]: [JumpLabel; 2]) {
        self.load(libc::BPF_B, 0);
        self.push(libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K, 4);
        self.jump_if(4u8, ipv4);
        self.jump_if(6u8, ipv6);
    }

    pub fn finish(mut self) -> Vec<libc::sock_filter> {
        for (at, JumpLabel(label)) in self.jumps {
            let place = self.places[label].expect("every label is placed before the program is finished");
            self.code[at].k = (place - at - 1) as u32;
        }
        self.code
    }
}

/// An instruction of a classic BPF program.
pub fn instruction(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// Runs a program as the kernel does; `protocol` and `sent` are the kernel's metadata.
#[cfg(test)]
pub fn run(program: &[libc::sock_filter], data: &[u8], protocol: u16, sent: bool) -> u32 {
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
            0x80 => a = data.len() as u32,
            0x00 => a = k,
            0x60 => a = memory[k as usize],
            0x61 => x = memory[k as usize],
            0x02 => memory[k as usize] = a,
            0x04 => a = a.wrapping_add(k),
            0x0c => a = a.wrapping_add(x),
            0x24 => a = a.wrapping_mul(k),
            0x54 => a &= k,
            0x64 => a <<= k,
            0x74 => a >>= k,
            0xac => a ^= x,
            0x07 => x = a,
            0x05 => at += k as usize,
            0x15 => at += usize::from(if a == k { jt } else { jf }),
            0x25 => at += usize::from(if a > k { jt } else { jf }),
            0x35 => at += usize::from(if a >= k { jt } else { jf }),
            0x06 => return k,
            0x16 => return a,
            other => panic!("instruction {other:#x}"),
        }
    }
}
