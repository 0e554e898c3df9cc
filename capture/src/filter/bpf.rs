//! Classic BPF (McCanne and Jacobson 1993): the programs that libpcap compiles expressions to.

use anyhow::{Context as _, bail};

/// One instruction as libpcap returns it (`struct bpf_insn`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawInstruction {
    /// Class, size, mode and operation.
    pub code: u16,
    /// Instructions to skip if a test holds.
    pub jt: u8,
    /// Instructions to skip if it does not.
    pub jf: u8,
    /// Constant.
    pub k: u32,
}

/// A decoded instruction; jumps have absolute targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// Into the accumulator.
    LoadA(OperandSource),
    /// Into the index register.
    LoadX(OperandSource),
    /// The accumulator into scratch memory.
    StoreA(u8),
    /// The index register into scratch memory.
    StoreX(u8),
    /// On the accumulator.
    Compute(Operation, Operand),
    /// If the test of the accumulator holds, go to the first target, else to the second.
    Jump(Test, Operand, u32, u32),
    /// Go on there.
    Goto(u32),
    /// The verdict: not 0 is a match.
    Return(Operand),
    /// The verdict is the accumulator.
    ReturnA,
    /// A to X.
    Tax,
    /// X to A.
    Txa,
}

/// The source of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperandSource {
    Constant(u32),
    /// The packet's length on the wire.
    Length,
    Memory(u8),
    /// Octets of the packet: offset and size.
    Absolute(u32, u8),
    /// Octets of the packet, the offset counted from the index register.
    Indexed(u32, u8),
    /// Four times the low nibble of the octet at an offset: the length of IPv4's header.
    HeaderLength(u32),
}

/// The second operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    Constant(u32),
    /// The index register.
    X,
}

/// Arithmetic on 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Or,
    And,
    Xor,
    ShiftLeft,
    ShiftRight,
    Negate,
}

/// Tests of unsigned numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Test {
    Equal,
    Greater,
    /// Greater or equal.
    AtLeast,
    AnyBit,
}

impl Test {
    /// Whether it holds.
    pub fn holds(self, value: u32, operand: u32) -> bool {
        match self {
            Test::Equal => value == operand,
            Test::Greater => value > operand,
            Test::AtLeast => value >= operand,
            Test::AnyBit => value & operand != 0,
        }
    }
}

impl Operation {
    /// The result; `None` if a division by zero ends the program.
    pub fn apply(self, a: u32, operand: u32) -> Option<u32> {
        Some(match self {
            Operation::Add => a.wrapping_add(operand),
            Operation::Subtract => a.wrapping_sub(operand),
            Operation::Multiply => a.wrapping_mul(operand),
            Operation::Divide => a.checked_div(operand)?,
            Operation::Modulo => a.checked_rem(operand)?,
            Operation::Or => a | operand,
            Operation::And => a & operand,
            Operation::Xor => a ^ operand,
            Operation::ShiftLeft => a.checked_shl(operand).unwrap_or(0),
            Operation::ShiftRight => a.checked_shr(operand).unwrap_or(0),
            Operation::Negate => a.wrapping_neg(),
        })
    }
}

/// Slots of scratch memory.
pub const MEMORY: usize = 16;

/// Maximum number of instructions per run; only loops (`protochain`) come near it.
const FUEL: u32 = 10_000;

/// Offsets from here on ask Linux for data outside the packet (`SKF_AD_OFF` and below).
const ANCILLARY: u32 = 0xfff0_0000;

/// A checked program: every jump has a target.
#[derive(Clone, Debug)]
pub struct Program {
    instructions: Box<[Instruction]>,
    loops: bool,
}

impl Program {
    /// Checks a program. Where the program asks "not a later fragment?" before it reads ports, this makes it assume
    /// yes, because the meter gives all fragments the ports of their datagram.
    ///
    /// # Errors
    /// If an instruction is unknown, jumps out of the program or asks for data outside the packet.
    pub fn new(raw: &[RawInstruction]) -> anyhow::Result<Program> {
        let count = raw.len();
        let mut loops = false;
        let mut instructions = Vec::with_capacity(count);
        for (at, instruction) in raw.iter().enumerate() {
            let decoded = decode(*instruction, at).context("libpcap compiled it to an unknown instruction")?;
            let targets = match decoded {
                Instruction::Jump(_, _, yes, no) => [yes as usize, no as usize],
                Instruction::Goto(target) => [target as usize; 2],
                Instruction::Return(_) | Instruction::ReturnA => [0; 2],
                _ => [at + 1; 2],
            };
            if targets.iter().any(|&target| target >= count) {
                bail!("libpcap compiled it to a jump out of the program");
            }
            if matches!(decoded, Instruction::LoadA(OperandSource::Absolute(offset, _)) if offset >= ANCILLARY) {
                bail!("it uses data outside the packet, such as the direction or the interface");
            }
            loops |= matches!(decoded, Instruction::Goto(target) if target as usize <= at);
            instructions.push(decoded);
        }
        admit_fragments(&mut instructions);
        Ok(Program { instructions: instructions.into(), loops })
    }

    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// Whether it jumps backwards.
    pub fn loops(&self) -> bool {
        self.loops
    }

    /// Whether it matches a packet of `length` octets, of which `data` was captured, from the IP header on.
    pub fn matches(&self, data: &[u8], length: u32) -> bool {
        self.run(data, length).is_some_and(|verdict| verdict != 0)
    }

    /// The verdict; `None` if it reads octets that were not captured, divides by zero or does not end.
    fn run(&self, data: &[u8], length: u32) -> Option<u32> {
        let (mut a, mut x) = (0_u32, 0_u32);
        let mut memory = [0_u32; MEMORY];
        let mut at = 0;
        for _ in 0..FUEL {
            let load = |source, x, memory: &[u32; MEMORY]| {
                Some(match source {
                    OperandSource::Constant(k) => k,
                    OperandSource::Length => length,
                    OperandSource::Memory(slot) => memory[usize::from(slot) % MEMORY],
                    OperandSource::Absolute(offset, size) => read(data, offset, size)?,
                    OperandSource::Indexed(offset, size) => read(data, offset.checked_add(x)?, size)?,
                    OperandSource::HeaderLength(offset) => (read(data, offset, 1)? & 0x0f) * 4,
                })
            };
            let value = |operand| match operand {
                Operand::Constant(k) => k,
                Operand::X => x,
            };
            let mut next = at + 1;
            match *self.instructions.get(at)? {
                Instruction::LoadA(source) => a = load(source, x, &memory)?,
                Instruction::LoadX(source) => x = load(source, x, &memory)?,
                Instruction::StoreA(slot) => memory[usize::from(slot) % MEMORY] = a,
                Instruction::StoreX(slot) => memory[usize::from(slot) % MEMORY] = x,
                Instruction::Compute(operation, operand) => a = operation.apply(a, value(operand))?,
                Instruction::Jump(test, operand, yes, no) => {
                    next = if test.holds(a, value(operand)) { yes } else { no } as usize;
                }
                Instruction::Goto(target) => next = target as usize,
                Instruction::Return(operand) => return Some(value(operand)),
                Instruction::ReturnA => return Some(a),
                Instruction::Tax => x = a,
                Instruction::Txa => a = x,
            }
            at = next;
        }
        None
    }
}

/// An unsigned number of 1, 2 or 4 octets in network order, if captured.
#[inline]
pub fn read(data: &[u8], offset: u32, size: u8) -> Option<u32> {
    let octets = data.get(offset as usize..)?;
    match size {
        1 => octets.first().map(|&octet| u32::from(octet)),
        2 => octets.first_chunk().map(|&octets| u32::from(u16::from_be_bytes(octets))),
        _ => octets.first_chunk().map(|&octets| u32::from_be_bytes(octets)),
    }
}

/// The classes, sizes, modes and operations are those of `pcap/bpf.h`.
fn decode(raw: RawInstruction, at: usize) -> Option<Instruction> {
    let RawInstruction { code, jt, jf, k } = raw;
    let operand = if code & 0x08 == 0 { Operand::Constant(k) } else { Operand::X };
    let size = || {
        Some(match code & 0x18 {
            0x00 => 4,
            0x08 => 2,
            0x10 => 1,
            _ => return None,
        })
    };
    let slot = || u8::try_from(k).ok().filter(|&slot| usize::from(slot) < MEMORY);
    let source = || {
        Some(match code & 0xe0 {
            0x00 => OperandSource::Constant(k),
            0x20 => OperandSource::Absolute(k, size()?),
            0x40 => OperandSource::Indexed(k, size()?),
            0x60 => OperandSource::Memory(slot()?),
            0x80 => OperandSource::Length,
            0xa0 => OperandSource::HeaderLength(k),
            _ => return None,
        })
    };
    let target = |skip: u32| Some((at as u32).wrapping_add(1).wrapping_add(skip));
    Some(match code & 0x07 {
        0 => Instruction::LoadA(source()?),
        1 => Instruction::LoadX(source()?),
        2 => Instruction::StoreA(slot()?),
        3 => Instruction::StoreX(slot()?),
        4 => {
            let operation = match code & 0xf0 {
                0x00 => Operation::Add,
                0x10 => Operation::Subtract,
                0x20 => Operation::Multiply,
                0x30 => Operation::Divide,
                0x40 => Operation::Or,
                0x50 => Operation::And,
                0x60 => Operation::ShiftLeft,
                0x70 => Operation::ShiftRight,
                0x80 => Operation::Negate,
                0x90 => Operation::Modulo,
                0xa0 => Operation::Xor,
                _ => return None,
            };
            Instruction::Compute(operation, operand)
        }
        5 => {
            let test = match code & 0xf0 {
                // The offset is signed: `protochain` jumps back.
                0x00 => return Some(Instruction::Goto(target(k)?)),
                0x10 => Test::Equal,
                0x20 => Test::Greater,
                0x30 => Test::AtLeast,
                0x40 => Test::AnyBit,
                _ => return None,
            };
            Instruction::Jump(test, operand, target(u32::from(jt))?, target(u32::from(jf))?)
        }
        6 if code & 0x18 == 0x10 => Instruction::ReturnA,
        6 => Instruction::Return(operand),
        7 if code & 0xf8 == 0 => Instruction::Tax,
        7 if code & 0xf8 == 0x80 => Instruction::Txa,
        _ => return None,
    })
}

/// A test of IPv4's fragment offset just before a read of a port becomes "not a later fragment". A test without such a
/// read, or before another read of the transport header, stays.
fn admit_fragments(instructions: &mut [Instruction]) {
    for at in 1..instructions.len() {
        let Instruction::Jump(Test::AnyBit, Operand::Constant(0x1fff), _, no) = instructions[at] else { continue };
        let jumped_to = instructions.iter().any(|other| match *other {
            Instruction::Jump(_, _, yes, no) => yes as usize == at || no as usize == at,
            Instruction::Goto(target) => target as usize == at,
            _ => false,
        });
        let mut then = no as usize;
        if instructions[then] == Instruction::LoadX(OperandSource::HeaderLength(0)) {
            then += 1;
        }
        let port = matches!(instructions.get(then), Some(Instruction::LoadA(OperandSource::Indexed(0 | 2, 2))));
        if port && !jumped_to && instructions[at - 1] == Instruction::LoadA(OperandSource::Absolute(6, 2)) {
            instructions[at - 1] = Instruction::LoadA(OperandSource::Constant(0));
        }
    }
}
