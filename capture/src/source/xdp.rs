//! Loads and attaches XDP programs through `bpf(2)` (`linux/bpf.h`).

use super::interface::Interface;
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

/// Return values by which a program drops a packet, or passes it on.
pub const XDP_DROP: i32 = 1;
pub const XDP_PASS: i32 = 2;
/// Octets of `union bpf_attr` passed; the kernel takes the rest as 0.
const ATTRIBUTES: usize = 80;

/// A command of `bpf(2)`.
pub fn bpf(command: c_int, attributes: &[u8; ATTRIBUTES]) -> io::Result<c_int> {
    // SAFETY: the attributes are of the length given; what they point to outlives the call, which the callers
    // guarantee.
    let done = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), ATTRIBUTES) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done as c_int) }
}

/// A command of `bpf(2)` that returns a descriptor.
fn bpf_descriptor(command: c_int, attributes: &[u8; ATTRIBUTES]) -> io::Result<OwnedFd> {
    // SAFETY: these commands return a descriptor that is ours alone.
    bpf(command, attributes).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Fields of `union bpf_attr`, each with its offset.
pub fn attributes(words: &[(usize, u32)], pointers: &[(usize, u64)]) -> [u8; ATTRIBUTES] {
    let mut octets = [0; ATTRIBUTES];
    words.iter().for_each(|&(at, word)| octets[at..at + 4].copy_from_slice(&word.to_ne_bytes()));
    pointers.iter().for_each(|&(at, pointer)| octets[at..at + 8].copy_from_slice(&pointer.to_ne_bytes()));
    octets
}

/// The address of a value, as in `union bpf_attr`.
pub fn address<T>(of: &T) -> u64 {
    std::ptr::from_ref(of).addr() as u64
}

/// Types of maps.
#[derive(Clone, Copy, Debug)]
pub enum MapType {
    Array = 2,
    /// Sockets of AF_XDP.
    Sockets = 17,
}

/// Creates a map whose keys are numbers of 4 octets.
pub fn create_map(kind: MapType, value_octets: u32, entries: u32) -> io::Result<OwnedFd> {
    const MAP_CREATE: c_int = 0;
    bpf_descriptor(MAP_CREATE, &attributes(&[(0, kind as u32), (4, 4), (8, value_octets), (12, entries)], &[]))
}

/// Loads a program.
pub fn load(code: &[XdpInstruction]) -> io::Result<OwnedFd> {
    const PROGRAM_LOAD: c_int = 5;
    const TYPE_XDP: u32 = 6;
    let license = c"Apache-2.0";
    let words = [(0, TYPE_XDP), (4, code.len() as u32)];
    let pointers = [(8, code.as_ptr().addr() as u64), (16, license.as_ptr().addr() as u64)];
    bpf_descriptor(PROGRAM_LOAD, &attributes(&words, &pointers))
}

/// Attaches a loaded program to an interface, until the descriptor returned is closed.
pub fn attach(program: &OwnedFd, interface: &Interface) -> io::Result<OwnedFd> {
    const LINK_CREATE: c_int = 28;
    const TYPE_XDP: u32 = 37;
    let words = [(0, program.as_raw_fd() as u32), (4, interface.index as u32), (8, TYPE_XDP)];
    bpf_descriptor(LINK_CREATE, &attributes(&words, &[]))
}

/// `struct bpf_insn`.
#[repr(C)]
pub struct XdpInstruction {
    /// Class, size or source, and operation.
    pub code: u8,
    /// Destination in the low half, source in the high one.
    pub registers: u8,
    /// Offset of a field or a jump.
    pub offset: i16,
    /// The constant.
    pub value: i32,
}

/// An instruction.
pub fn step(code: u8, registers: u8, offset: i16, value: i32) -> XdpInstruction {
    XdpInstruction { code, registers, offset, value }
}
