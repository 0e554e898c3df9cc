//! libpcap's compiler, loaded at run time: an agent without filter sets needs no library.

use super::bpf::{Program, RawInstruction};
use anyhow::{anyhow, bail};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::NonNull;

/// The library's file names: Debian's and Ubuntu's, other distributions', and the development package's.
const NAMES: [&str; 3] = ["libpcap.so.0.8", "libpcap.so.1", "libpcap.so"];

/// `DLT_RAW` of Linux: a packet begins with its IP header.
const DLT_RAW: c_int = 12;
/// Maximum packet length that programs are compiled for.
const SNAPLEN: c_int = 262_144;
/// `PCAP_NETMASK_UNKNOWN`.
const NETMASK_UNKNOWN: u32 = u32::MAX;

/// `struct bpf_program`.
#[repr(C)]
struct BpfProgram {
    count: u32,
    instructions: *mut RawInstruction,
}

type OpenDead = unsafe extern "C" fn(c_int, c_int) -> *mut c_void;
type Compile = unsafe extern "C" fn(*mut c_void, *mut BpfProgram, *const c_char, c_int, u32) -> c_int;
type GetErr = unsafe extern "C" fn(*mut c_void) -> *const c_char;
type FreeCode = unsafe extern "C" fn(*mut BpfProgram);
type Close = unsafe extern "C" fn(*mut c_void);

/// libpcap, ready to compile.
pub struct Compiler {
    handle: NonNull<c_void>,
    compile: Compile,
    geterr: GetErr,
    freecode: FreeCode,
    close: Close,
    /// Keeps the library loaded.
    _library: Library,
}

/// libpcap is missing.
#[derive(Debug, thiserror::Error)]
#[error("filter sets need libpcap, which cannot be loaded ({0}): install it (Debian: apt-get install libpcap0.8)")]
pub struct NoLibpcap(String);

impl Compiler {
    /// Loads the library.
    ///
    /// # Errors
    /// If it is missing or is not libpcap.
    pub fn load() -> Result<Compiler, NoLibpcap> {
        let mut first = None;
        for name in NAMES {
            // SAFETY: libpcap's initialisers have no preconditions. Global, because libpfring takes its pcap_* symbols
            // from there.
            match unsafe { Library::open(Some(name), RTLD_NOW | RTLD_GLOBAL) } {
                Ok(library) => return Compiler::bind(library),
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(NoLibpcap(first.map_or_else(String::new, |error| error.to_string())))
    }

    fn bind(library: Library) -> Result<Compiler, NoLibpcap> {
        let missing = |error: libloading::Error| NoLibpcap(error.to_string());
        // SAFETY: the types are those of pcap/pcap.h, unchanged since libpcap 1.0.
        let (open_dead, compile, geterr, freecode, close) = unsafe {
            (
                *library.get::<OpenDead>(b"pcap_open_dead").map_err(missing)?,
                *library.get::<Compile>(b"pcap_compile").map_err(missing)?,
                *library.get::<GetErr>(b"pcap_geterr").map_err(missing)?,
                *library.get::<FreeCode>(b"pcap_freecode").map_err(missing)?,
                *library.get::<Close>(b"pcap_close").map_err(missing)?,
            )
        };
        // SAFETY: takes any link type and length.
        let handle = NonNull::new(unsafe { open_dead(DLT_RAW, SNAPLEN) })
            .ok_or_else(|| NoLibpcap("pcap_open_dead failed".to_owned()))?;
        Ok(Compiler { handle, compile, geterr, freecode, close, _library: library })
    }

    /// Compiles an expression of pcap-filter(7) for packets that begin with their IP header.
    ///
    /// # Errors
    /// libpcap's message.
    pub fn compile(&self, expression: &str) -> anyhow::Result<Program> {
        self.with_compiled(expression, |raw| {
            // SAFETY: libpcap made `count` instructions there, or none.
            let instructions = unsafe { std::slice::from_raw_parts(raw.instructions, raw.count as usize) };
            Program::new(instructions)
        })?
    }

    fn with_compiled<T>(&self, expression: &str, then: impl FnOnce(&BpfProgram) -> T) -> anyhow::Result<T> {
        if expression.trim().is_empty() {
            bail!("it is empty; to match everything, use \"ip or ip6\"");
        }
        let text = CString::new(expression).map_err(|_| anyhow!("it holds a NUL character"))?;
        let mut raw = BpfProgram { count: 0, instructions: std::ptr::null_mut() };
        // SAFETY: the handle is open, `raw` may be written to, the text ends with NUL.
        let status = unsafe { (self.compile)(self.handle.as_ptr(), &raw mut raw, text.as_ptr(), 1, NETMASK_UNKNOWN) };
        if status != 0 {
            // SAFETY: the message belongs to the handle and ends with NUL.
            let message = unsafe { CStr::from_ptr((self.geterr)(self.handle.as_ptr())) };
            bail!("{}{}", message.to_string_lossy(), hint(expression));
        }
        let result = if raw.instructions.is_null() { None } else { Some(then(&raw)) };
        // SAFETY: `raw` was made by pcap_compile and is not used afterwards.
        unsafe { (self.freecode)(&raw mut raw) };
        result.ok_or_else(|| anyhow!("libpcap compiled it to nothing"))
    }
}

impl Drop for Compiler {
    fn drop(&mut self) {
        // SAFETY: the handle is open and not used afterwards.
        unsafe { (self.close)(self.handle.as_ptr()) };
    }
}

/// A hint why libpcap refused an expression.
fn hint(expression: &str) -> &'static str {
    const LINK_LAYER: [&str; 12] =
        ["ether", "vlan", "mpls", "pppoed", "pppoes", "arp", "rarp", "broadcast", "multicast", "fddi", "wlan", "stp"];
    let mut words = expression.split(|character: char| !character.is_ascii_alphanumeric());
    if words.any(|word| LINK_LAYER.contains(&word)) {
        " (filter sets see a packet from its IP header on, nothing of the link layer)"
    } else {
        ""
    }
}

#[cfg(test)]
pub mod oracle {
    //! libpcap's own result, with which tests compare ours.

    use super::*;

    /// `struct pcap_pkthdr`.
    #[repr(C)]
    struct PacketHeader {
        time: libc::timeval,
        captured: u32,
        length: u32,
    }

    type OfflineFilter = unsafe extern "C" fn(*const BpfProgram, *const PacketHeader, *const u8) -> c_int;

    impl Compiler {
        /// The result of `pcap_offline_filter` for each packet.
        pub fn judge(&self, expression: &str, packets: &[(Vec<u8>, u32)]) -> anyhow::Result<Vec<bool>> {
            // SAFETY: the type is that of pcap/pcap.h.
            let filter = unsafe { *self._library.get::<OfflineFilter>(b"pcap_offline_filter")? };
            self.with_compiled(expression, |raw| {
                packets
                    .iter()
                    .map(|(data, length)| {
                        let header = PacketHeader {
                            time: libc::timeval { tv_sec: 0, tv_usec: 0 },
                            captured: data.len() as u32,
                            length: *length,
                        };
                        // SAFETY: program and header are whole, `data` has as many octets as the header says.
                        unsafe { filter(raw, &raw const header, data.as_ptr()) != 0 }
                    })
                    .collect()
            })
        }
    }
}
