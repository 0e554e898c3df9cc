//! Loads and attaches XDP programs through `bpf(2)`.

use std::ffi::c_int;
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};

/// Commands of `bpf(2)` and their arguments (`linux/bpf.h`).
pub const MAP_CREATE: c_int = 0;
pub const MAP_UPDATE: c_int = 2;
pub const MAP_DELETE: c_int = 3;
pub const PROGRAM_LOAD: c_int = 5;
pub const LINK_CREATE: c_int = 28;
pub const MAP_TYPE_XSK: u32 = 17;
pub const PROGRAM_TYPE_XDP: u32 = 6;
pub const ATTACH_TYPE_XDP: u32 = 37;
pub const XDP_PASS: i32 = 2;
pub const REDIRECT_MAP: i32 = 51;
/// Octets of `union bpf_attr` passed; the kernel takes the rest as 0.
const ATTRIBUTES: usize = 80;

/// `bpf(2)`.
pub fn bpf(command: c_int, attributes: &[u8; ATTRIBUTES]) -> io::Result<c_int> {
    // SAFETY: the attributes are of the length given; what they point to outlives the call, as the callers see to.
    let done = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), ATTRIBUTES) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done as c_int) }
}

/// A command of `bpf(2)` that returns a descriptor.
pub fn bpf_descriptor(command: c_int, attributes: &[u8; ATTRIBUTES]) -> io::Result<OwnedFd> {
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
