//! Which fields a program reads: abstract interpretation over every path it can take.
//!
//! A program is explored for packets of one IP version and protocol ([`Row`]) at a time, whose header layout is then
//! known. A loaded value is a [`Field`], or a shifted and masked part of one ([`Part`]); an [`Oracle`] answers
//! comparisons, or leaves them open, and then the analysis follows both branches.

use super::bpf::{Instruction, MEMORY, Operand, OperandSource, Operation, Program, Test};
use crate::packet::IpPacket;

/// Packets of one IP version and of one protocol above IP (and IPv6's extension headers).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Fragments other than the first.
    pub later_fragment: bool,
    /// 4 or 6.
    pub version: u8,
    /// IANA's protocol number.
    pub protocol: u8,
}

impl Row {
    /// Number of rows.
    pub const COUNT: usize = 1024;

    /// The row of a packet.
    #[inline]
    pub fn of(ip: &IpPacket) -> Row {
        Row { later_fragment: ip.is_later_fragment(), version: ip.version, protocol: ip.protocol }
    }

    /// All rows, in the order of their numbers.
    pub fn all() -> impl Iterator<Item = Row> {
        [false, true].into_iter().flat_map(|later_fragment| {
            [4, 6]
                .into_iter()
                .flat_map(move |version| (0..=255).map(move |protocol| Row { later_fragment, version, protocol }))
        })
    }

    /// Number below [`Row::COUNT`].
    #[inline]
    pub fn number(self) -> usize {
        usize::from(self.later_fragment) << 9 | usize::from(self.version == 6) << 8 | usize::from(self.protocol)
    }

    /// Whether the transport header begins with ports: TCP, UDP, DCCP, SCTP and UDP-Lite.
    pub fn has_ports(self) -> bool {
        matches!(self.protocol, 6 | 17 | 33 | 132 | 136)
    }

    /// Whether a field is certainly absent.
    fn lacks(self, field: Field) -> bool {
        let ports = self.has_ports() && field.offset.saturating_add(field.size) <= 4;
        field.anchor == Anchor::Transport && (self.breaks_off() || self.later_fragment && !ports)
    }

    /// Whether the protocol is an extension header of IPv6; this happens only if a packet is truncated before its
    /// transport header.
    pub fn breaks_off(self) -> bool {
        self.version == 6 && matches!(self.protocol, 0 | 43 | 44 | 51 | 60 | 135 | 139 | 140)
    }

    /// The field that a load reads, its offset counted from the transport header on where `transport`.
    fn field(self, transport: bool, offset: u32, size: u8) -> Option<Field> {
        let (anchor, fixed) = if self.version == 4 { (Anchor::Ipv4, 20) } else { (Anchor::Ipv6, 40) };
        let end = offset.checked_add(u32::from(size))?;
        let (anchor, offset) = match anchor {
            _ if transport => (Anchor::Transport, offset),
            _ if end <= fixed => (anchor, offset),
            // Extension headers are skipped: the transport header follows the fixed header.
            Anchor::Ipv6 if offset >= fixed => (Anchor::Transport, offset - fixed),
            // IPv4 options, or octets across the end of a header.
            _ => return None,
        };
        // IPv6's next header is the protocol, which the octet on the wire need not be.
        let next_header = anchor == Anchor::Ipv6 && (offset..offset + u32::from(size)).contains(&6);
        if next_header {
            return None;
        }
        Some(Field { anchor, offset: u8::try_from(offset).ok()?, size })
    }

    /// Whether all packets that one end of a flow sends have the same value in this field.
    pub fn constant(self, field: Field) -> bool {
        let Field { anchor, offset, size } = field;
        let within = |range: std::ops::Range<u8>| range.start <= offset && offset.saturating_add(size) <= range.end;
        match anchor {
            Anchor::Ipv4 => within(12..16) || within(16..20),
            Anchor::Ipv6 => within(8..24) || within(24..40),
            Anchor::Transport => self.has_ports() && within(0..4),
            Anchor::Length => false,
        }
    }
}

/// The header from whose beginning a field's offset counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Anchor {
    /// IPv4's header.
    Ipv4,
    /// IPv6's header.
    Ipv6,
    Transport,
    /// No octets: the layer-3 octets of the packet.
    Length,
}

/// Some octets of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Field {
    /// From where.
    pub anchor: Anchor,
    /// Offset from the anchor.
    pub offset: u8,
    /// 1, 2 or 4 octets.
    pub size: u8,
}

/// The layer-3 octets of a packet.
pub const LENGTH: Field = Field { anchor: Anchor::Length, offset: 0, size: 4 };

/// `(field >> shift) & mask`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Of what.
    pub field: Field,
    /// Bits to the right.
    pub shift: u8,
    /// Bits left over.
    pub mask: u32,
}

/// The bits of IPv4's fragment offset, and the field that holds them.
const FRAGMENT: u32 = 0x1fff;
const FRAGMENT_OFFSET: Part =
    Part { field: Field { anchor: Anchor::Ipv4, offset: 6, size: 2 }, shift: 0, mask: 0xffff };

/// A comparison of a part of some field with a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Predicate {
    /// Of the part.
    pub shift: u8,
    /// Of the part.
    pub mask: u32,
    /// How it is compared.
    pub test: Test,
    /// With what.
    pub operand: u32,
}

impl Predicate {
    /// Whether the comparison holds for a value of the field.
    pub fn holds(self, value: u32) -> bool {
        self.test.holds(value >> self.shift & self.mask, self.operand)
    }
}

/// Answers a program's questions about a packet.
#[warn(missing_docs)]
pub trait Oracle {
    /// Whether a load of a field (`None`: of no field) succeeds; failing ends the program. Returns `None` if this is
    /// undetermined.
    fn load(&mut self, field: Option<Field>) -> Option<bool>;
    /// The result of a comparison of a field (`None`: of a computed value). Returns `None` if this is undetermined.
    fn compare(&mut self, predicate: Option<(Field, Predicate)>) -> Option<bool>;
    /// The program tests whether the packet is a later fragment, which its row answers.
    fn fragment(&mut self) {}
}

/// The ways a program may end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathOutcome {
    /// Some path ends with a match.
    pub matches: bool,
    /// Some path ends without a match.
    pub misses: bool,
}

impl PathOutcome {
    /// The verdict, if there is only one.
    pub fn decided(self) -> Option<bool> {
        (self.matches != self.misses).then_some(self.matches)
    }
}

/// The content of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SymbolicValue {
    Known(u32),
    Part(Part),
    /// The length of IPv4's header.
    HeaderLength,
    /// Anything else.
    Vague,
}

#[derive(Clone, Copy)]
struct MachineState {
    a: SymbolicValue,
    x: SymbolicValue,
    memory: [SymbolicValue; MEMORY],
}

impl MachineState {
    const START: MachineState = MachineState {
        a: SymbolicValue::Known(0),
        x: SymbolicValue::Known(0),
        memory: [SymbolicValue::Known(0); MEMORY],
    };

    fn join(&mut self, other: &MachineState) {
        let join = |into: &mut SymbolicValue, value: SymbolicValue| {
            if *into != value {
                *into = SymbolicValue::Vague;
            }
        };
        join(&mut self.a, other.a);
        join(&mut self.x, other.x);
        for (into, value) in self.memory.iter_mut().zip(other.memory) {
            join(into, value);
        }
    }
}

/// Explores a program; `states` is reusable scratch memory.
#[derive(Default)]
pub struct Explorer {
    states: Vec<Option<MachineState>>,
}

impl Explorer {
    /// The ways a program may end for packets of a row, given an oracle's answers.
    pub fn explore(&mut self, program: &Program, row: Row, oracle: &mut impl Oracle) -> PathOutcome {
        let mut outcome = PathOutcome::default();
        if program.loops() {
            oracle.load(None);
            oracle.compare(None);
            return PathOutcome { matches: true, misses: true };
        }
        let instructions = program.instructions();
        // The loop below takes every state out again.
        self.states.resize(self.states.len().max(instructions.len()), None);
        self.states[0] = Some(MachineState::START);
        // Jumps go forward: when an instruction's turn comes, every path to it has been followed.
        for at in 0..instructions.len() {
            let Some(mut state) = self.states[at].take() else { continue };
            match instructions[at] {
                Instruction::LoadA(source) => {
                    // A read whose value the row determines does not count as reading the packet.
                    let known = match (source, instructions[at + 1]) {
                        (
                            OperandSource::Absolute(0, 1),
                            Instruction::Compute(Operation::And, Operand::Constant(mask)),
                        ) => mask & !0xf0 == 0,
                        (
                            OperandSource::Absolute(6, 2),
                            Instruction::Jump(Test::AnyBit, Operand::Constant(FRAGMENT), ..),
                        ) => row.version == 4,
                        _ => false,
                    };
                    match load(source, &state, row, known, oracle, &mut outcome) {
                        Some(value) => state.a = value,
                        None => continue,
                    }
                    self.reach(at + 1, &state);
                }
                Instruction::LoadX(source) => {
                    match load(source, &state, row, false, oracle, &mut outcome) {
                        Some(value) => state.x = value,
                        None => continue,
                    }
                    self.reach(at + 1, &state);
                }
                Instruction::StoreA(slot) => {
                    state.memory[usize::from(slot)] = state.a;
                    self.reach(at + 1, &state);
                }
                Instruction::StoreX(slot) => {
                    state.memory[usize::from(slot)] = state.x;
                    self.reach(at + 1, &state);
                }
                Instruction::Compute(operation, operand) => {
                    let operand = value(operand, &state);
                    // The header length counts as read here if the program uses it for more than skipping the header.
                    if state.a == SymbolicValue::HeaderLength || operand == SymbolicValue::HeaderLength {
                        oracle.load(None);
                    }
                    let divides = matches!(operation, Operation::Divide | Operation::Modulo);
                    if divides && !matches!(operand, SymbolicValue::Known(divisor) if divisor != 0) {
                        // It may be a division by zero, which ends the program: a comparison whose result no class
                        // determines.
                        outcome.misses = true;
                        oracle.compare(None);
                    }
                    match compute(operation, state.a, operand, row) {
                        Some(value) => state.a = value,
                        None => continue,
                    }
                    self.reach(at + 1, &state);
                }
                Instruction::Jump(test, operand, yes, no) => {
                    let answer = match (state.a, value(operand, &state)) {
                        (SymbolicValue::Known(a), SymbolicValue::Known(k)) => Some(test.holds(a, k)),
                        (SymbolicValue::Part(part), SymbolicValue::Known(FRAGMENT))
                            if test == Test::AnyBit && part == FRAGMENT_OFFSET && row.version == 4 =>
                        {
                            oracle.fragment();
                            Some(row.later_fragment)
                        }
                        (SymbolicValue::Part(part), SymbolicValue::Known(operand)) => oracle.compare(Some((
                            part.field,
                            Predicate { shift: part.shift, mask: part.mask, test, operand },
                        ))),
                        (a, x) => {
                            if a == SymbolicValue::HeaderLength || x == SymbolicValue::HeaderLength {
                                oracle.load(None);
                            }
                            oracle.compare(None)
                        }
                    };
                    if answer != Some(false) {
                        self.reach(yes as usize, &state);
                    }
                    if answer != Some(true) {
                        self.reach(no as usize, &state);
                    }
                }
                Instruction::Goto(target) => self.reach(target as usize, &state),
                Instruction::Return(operand) => end(value(operand, &state), &mut outcome, oracle),
                Instruction::ReturnA => end(state.a, &mut outcome, oracle),
                Instruction::Tax => {
                    state.x = state.a;
                    self.reach(at + 1, &state);
                }
                Instruction::Txa => {
                    state.a = state.x;
                    self.reach(at + 1, &state);
                }
            }
        }
        outcome
    }

    fn reach(&mut self, at: usize, state: &MachineState) {
        match &mut self.states[at] {
            Some(there) => there.join(state),
            none => *none = Some(*state),
        }
    }
}

fn value(operand: Operand, state: &MachineState) -> SymbolicValue {
    match operand {
        Operand::Constant(k) => SymbolicValue::Known(k),
        Operand::X => state.x,
    }
}

fn end(verdict: SymbolicValue, outcome: &mut PathOutcome, oracle: &mut impl Oracle) {
    match verdict {
        SymbolicValue::Known(0) => outcome.misses = true,
        SymbolicValue::Known(_) => outcome.matches = true,
        _ => {
            oracle.load(None);
            oracle.compare(None);
            *outcome = PathOutcome { matches: true, misses: true };
        }
    }
}

/// The value of a load; `None` if it ends the program.
fn load(
    source: OperandSource,
    state: &MachineState,
    row: Row,
    known: bool,
    oracle: &mut impl Oracle,
    outcome: &mut PathOutcome,
) -> Option<SymbolicValue> {
    let field = match source {
        OperandSource::Constant(k) => return Some(SymbolicValue::Known(k)),
        OperandSource::Memory(slot) => return Some(state.memory[usize::from(slot)]),
        OperandSource::HeaderLength(0) if row.version == 4 => return Some(SymbolicValue::HeaderLength),
        OperandSource::Absolute(9, 1) if row.version == 4 => {
            return Some(SymbolicValue::Known(u32::from(row.protocol)));
        }
        OperandSource::Absolute(6, 1) if row.version == 6 => {
            return Some(SymbolicValue::Known(u32::from(row.protocol)));
        }
        OperandSource::Length => Some(LENGTH),
        OperandSource::Absolute(offset, size) => row.field(false, offset, size),
        OperandSource::Indexed(offset, size) => match state.x {
            SymbolicValue::HeaderLength => row.field(true, offset, size),
            SymbolicValue::Known(x) => offset.checked_add(x).and_then(|offset| row.field(false, offset, size)),
            _ => None,
        },
        OperandSource::HeaderLength(_) => None,
    };
    if known {
        if field == Some(FRAGMENT_OFFSET.field) {
            oracle.fragment();
        }
    } else {
        let succeeds = if field.is_some_and(|field| row.lacks(field)) { Some(false) } else { oracle.load(field) };
        outcome.misses |= succeeds != Some(true);
        if succeeds == Some(false) {
            return None;
        }
    }
    Some(field.map_or(SymbolicValue::Vague, |field| {
        let mask = u32::MAX >> (32 - 8 * u32::from(field.size));
        SymbolicValue::Part(Part { field, shift: 0, mask })
    }))
}

/// The value of a computation; `None` if it ends the program.
fn compute(operation: Operation, a: SymbolicValue, operand: SymbolicValue, row: Row) -> Option<SymbolicValue> {
    Some(match (a, operand) {
        (SymbolicValue::Known(a), SymbolicValue::Known(k)) => SymbolicValue::Known(operation.apply(a, k)?),
        (SymbolicValue::Part(part), SymbolicValue::Known(k)) => {
            let part = match operation {
                Operation::And => Part { mask: part.mask & k, ..part },
                Operation::ShiftRight if k < 32 && part.shift < 32 - k as u8 => {
                    Part { shift: part.shift + k as u8, mask: part.mask >> k, ..part }
                }
                _ => return Some(SymbolicValue::Vague),
            };
            let version_nibble = part.field.offset == 0
                && part.field.size == 1
                && matches!(part.field.anchor, Anchor::Ipv4 | Anchor::Ipv6)
                && (part.mask << part.shift) & !0xf0 == 0;
            if version_nibble {
                SymbolicValue::Known((u32::from(row.version) << 4 >> part.shift) & part.mask)
            } else if part.mask == 0 {
                SymbolicValue::Known(0)
            } else {
                SymbolicValue::Part(part)
            }
        }
        _ => SymbolicValue::Vague,
    })
}
