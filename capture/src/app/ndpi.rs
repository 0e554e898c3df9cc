//! nDPI, through the shim in `ndpi/shim.c`: a detection module and a bounded pool of flow states.

use super::list::Application;
use super::{Handle, NdpiVerdict, NotInspected};
use crate::packet::IpPacket;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::{CStr, c_char, c_int};
use std::marker::{PhantomData, PhantomPinned};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

/// A detection module of the library.
#[repr(C)]
struct RawModule {
    _opaque: [u8; 0],
    _not_send: PhantomData<(*mut u8, PhantomPinned)>,
}

/// A flow's state in the library.
#[repr(C)]
struct RawFlow {
    _opaque: [u8; 0],
    _not_send: PhantomData<(*mut u8, PhantomPinned)>,
}

unsafe extern "C" {
    fn weir_ndpi_matches() -> c_int;
    fn weir_ndpi_version() -> *const c_char;
    fn weir_ndpi_new() -> *mut RawModule;
    fn weir_ndpi_free(module: *mut RawModule);
    fn weir_ndpi_flow_size() -> usize;
    fn weir_ndpi_flow_reset(flow: *mut RawFlow);
    fn weir_ndpi_packet(
        module: *mut RawModule,
        flow: *mut RawFlow,
        packet: *const u8,
        length: u16,
        time_ms: u64,
    ) -> NdpiVerdict;
    fn weir_ndpi_wants_more(module: *mut RawModule, flow: *mut RawFlow) -> c_int;
    fn weir_ndpi_guess(
        module: *mut RawModule,
        flow: *mut RawFlow,
        protocol: u8,
        src: u32,
        src_port: u16,
        dst: u32,
        dst_port: u16,
    ) -> NdpiVerdict;
    fn weir_ndpi_give_up(module: *mut RawModule, flow: *mut RawFlow) -> NdpiVerdict;
    fn weir_ndpi_quic_server(flow: *const RawFlow, verdict: NdpiVerdict, length: *mut usize) -> *const c_char;
    fn weir_ndpi_protocols(module: *mut RawModule) -> u32;
    fn weir_ndpi_name(module: *mut RawModule, id: u16) -> *const c_char;
    fn weir_ndpi_category_id(module: *mut RawModule, id: u16) -> u16;
    fn weir_ndpi_category(module: *mut RawModule, category: u16) -> *const c_char;
}

pub struct Module(NonNull<RawModule>);

// SAFETY: the library keeps what belongs to a module in the module, and nothing for each thread.
unsafe impl Send for Module {}

/// The library cannot create or free two modules at once.
static MODULES: Mutex<()> = Mutex::new(());

impl Module {
    /// A module that knows every protocol.
    ///
    /// # Errors
    /// As [`Ndpi::check`], or if memory runs out.
    pub fn new() -> anyhow::Result<Module> {
        Ndpi::check()?;
        let _one = MODULES.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the lock keeps other threads from making modules meanwhile.
        match NonNull::new(unsafe { weir_ndpi_new() }) {
            Some(module) => Ok(Module(module)),
            None => anyhow::bail!("nDPI could not be started: is there enough memory?"),
        }
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        let _one = MODULES.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the module is alive and nobody uses it any more.
        unsafe { weir_ndpi_free(self.0.as_ptr()) }
    }
}

/// The version of the library that was loaded.
pub fn version() -> String {
    // SAFETY: takes nothing and gives a static string.
    unsafe { text(weir_ndpi_version()) }
}

/// # Safety
/// `text` is null or ends with a zero.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Alignment of flow states. With a larger alignment than the allocator's own, all pages would be touched at once,
/// because aligned memory is zeroed by writing to it.
const ALIGNMENT: usize = 16;

/// After this time without a packet a flow may lose its state to another, ms.
const IDLE_MS: u32 = 2_000;

/// States checked for an idle one when all are taken.
const LOOKS: usize = 8;

/// Flow states, side by side; the kernel allocates a page when a flow first needs it.
struct Pool {
    memory: NonNull<u8>,
    layout: Layout,
    /// Octets from one state to the next.
    stride: usize,
    entries: Vec<NdpiEntry>,
    free: Vec<u16>,
    /// Where the search for an idle state continues.
    hand: usize,
}

#[derive(Clone, Copy, Default)]
struct NdpiEntry {
    generation: u16,
    taken: bool,
    /// Low 32 bits of the last packet's time, in ms.
    last_ms: u32,
}

// SAFETY: the memory belongs to the pool alone.
unsafe impl Send for Pool {}

impl Pool {
    fn new(flows: u16) -> anyhow::Result<Pool> {
        // SAFETY: takes nothing and gives a constant of the library.
        let stride = unsafe { weir_ndpi_flow_size() }.next_multiple_of(ALIGNMENT);
        let layout =
            Layout::from_size_align(stride * usize::from(flows.max(1)), ALIGNMENT).expect("65,535 flow states");
        // SAFETY: the layout is not empty.
        let Some(memory) = NonNull::new(unsafe { alloc_zeroed(layout) }) else {
            anyhow::bail!("nDPI could not be started: there is not enough memory for {flows} flows");
        };
        Ok(Pool {
            memory,
            layout,
            stride,
            entries: vec![NdpiEntry::default(); usize::from(flows.max(1))],
            free: (0..flows.max(1)).rev().collect(),
            hand: 0,
        })
    }

    fn state(&mut self, entry: u16) -> *mut RawFlow {
        assert!(usize::from(entry) < self.entries.len());
        // SAFETY: an entry's number is below the number of states that the memory was made for.
        unsafe { self.memory.as_ptr().add(usize::from(entry) * self.stride).cast() }
    }

    /// A zeroed state; `None` if flows that are not idle hold all of them.
    fn take(&mut self, now_ms: u32) -> Option<Handle> {
        if self.free.is_empty() {
            let idle = (0..LOOKS).map(|look| (self.hand + look) % self.entries.len()).find(|&entry| {
                // A last packet slightly after `now_ms` does not make the entry old.
                (now_ms.wrapping_sub(self.entries[entry].last_ms) as i32) > IDLE_MS as i32
            });
            self.hand = (self.hand + LOOKS) % self.entries.len();
            self.release_entry(idle? as u16);
        }
        let number = self.free.pop()?;
        let entry = &mut self.entries[usize::from(number)];
        entry.taken = true;
        entry.last_ms = now_ms;
        Some(Handle { entry: number, generation: entry.generation })
    }

    fn is_current(&self, handle: Handle) -> bool {
        self.entries
            .get(usize::from(handle.entry))
            .is_some_and(|entry| entry.taken && entry.generation == handle.generation)
    }

    fn release(&mut self, handle: Handle) {
        if self.is_current(handle) {
            self.release_entry(handle.entry);
        }
    }

    fn release_entry(&mut self, number: u16) {
        let state = self.state(number);
        // SAFETY: the state is zeros or was filled by the library, and points to nothing that was freed.
        unsafe { weir_ndpi_flow_reset(state) };
        let entry = &mut self.entries[usize::from(number)];
        entry.taken = false;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(number);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for number in 0..self.entries.len() {
            if self.entries[number].taken {
                self.release_entry(number as u16);
            }
        }
        // SAFETY: allocated by `new` with this layout; no state points to anything any more.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) }
    }
}

/// A module and the flows that it looks at.
pub struct Ndpi {
    // States are freed before the module.
    pool: Pool,
    module: Module,
    /// The application of every IP protocol without ports.
    by_protocol: [u16; 256],
}

impl Ndpi {
    /// Checks that nDPI can be used, without creating a module.
    ///
    /// # Errors
    /// If the loaded library has a different version from the one that the agent was built for.
    pub fn check() -> anyhow::Result<()> {
        // SAFETY: takes nothing and reads constants of the library.
        if unsafe { weir_ndpi_matches() } == 0 {
            anyhow::bail!(
                "the nDPI library found is version {}, but weir-probe was built with {}: install that one or build again",
                version(),
                env!("WEIR_NDPI")
            );
        }
        Ok(())
    }

    /// A module of its own, with room for `flows` flows.
    ///
    /// # Errors
    /// As [`Module::new`], or if memory does not suffice for this many flows.
    pub fn new(flows: u16) -> anyhow::Result<Ndpi> {
        let mut ndpi = Ndpi { module: Module::new()?, pool: Pool::new(flows)?, by_protocol: [0; 256] };
        ndpi.by_protocol = std::array::from_fn(|protocol| ndpi.ask_of_protocol(protocol as u8));
        Ok(ndpi)
    }

    /// A state for a flow; another that is idle may lose it.
    ///
    /// # Errors
    /// If every state is taken by a flow that is not idle.
    pub fn begin(&mut self, time_ms: u64) -> Result<Handle, NotInspected> {
        self.pool.take(time_ms as u32).ok_or(NotInspected::PoolFull)
    }

    /// Inspects a packet, from its IP header on; returns the verdict and whether more packets may refine it.
    ///
    /// # Errors
    /// If the flow lost its state to another flow.
    pub fn packet(&mut self, handle: Handle, l3: &[u8], time_ms: u64) -> Result<(NdpiVerdict, bool), NotInspected> {
        if !self.pool.is_current(handle) {
            return Err(NotInspected::Displaced);
        }
        self.pool.entries[usize::from(handle.entry)].last_ms = time_ms as u32;
        let (module, flow) = (self.module.0.as_ptr(), self.pool.state(handle.entry));
        let length = l3.len().min(usize::from(u16::MAX)) as u16;
        // SAFETY: module and state are alive and this thread's; the library reads `length` octets of the packet.
        unsafe {
            let verdict = weir_ndpi_packet(module, flow, l3.as_ptr(), length, time_ms);
            let more = verdict.id() == 0 || (verdict.master == 0 && weir_ndpi_wants_more(module, flow) != 0);
            Ok((verdict, more))
        }
    }

    /// The application that ports and IPv4 addresses suggest, for a flow that nDPI has seen at least one packet of.
    pub fn guess(&mut self, handle: Handle, ip: &IpPacket) -> NdpiVerdict {
        let v4 = |address: &[u8; 16]| match address {
            [.., a, b, c, d] if ip.version == 4 => u32::from_be_bytes([*a, *b, *c, *d]),
            _ => 0,
        };
        let (module, flow) = (self.module.0.as_ptr(), self.pool.state(handle.entry));
        // SAFETY: module and state are alive and this thread's.
        unsafe { weir_ndpi_guess(module, flow, ip.protocol, v4(&ip.src), ip.src_port, v4(&ip.dst), ip.dst_port) }
    }

    /// The final verdict on a flow, after its last packet.
    pub fn give_up(&mut self, handle: Handle) -> NdpiVerdict {
        let (module, flow) = (self.module.0.as_ptr(), self.pool.state(handle.entry));
        // SAFETY: module and state are alive and this thread's.
        unsafe { weir_ndpi_give_up(module, flow) }
    }

    /// Passes to `take` the server that a QUIC client asks for, if nDPI read it.
    pub fn quic_server<T>(&mut self, handle: Handle, verdict: NdpiVerdict, take: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let mut length = 0;
        let flow = self.pool.state(handle.entry);
        // SAFETY: the state is alive; the text is `length` octets of it, and is read before it changes.
        unsafe {
            let server = weir_ndpi_quic_server(flow, verdict, &mut length);
            (!server.is_null()).then(|| take(std::slice::from_raw_parts(server.cast(), length)))
        }
    }

    /// Frees a flow's state.
    pub fn end(&mut self, handle: Handle) {
        self.pool.release(handle);
    }

    /// Number of flows under inspection, and its maximum.
    pub fn load(&self) -> (usize, usize) {
        (self.pool.entries.len() - self.pool.free.len(), self.pool.entries.len())
    }

    /// The application of an IP protocol without ports.
    pub fn by_protocol(&self, protocol: u8) -> u16 {
        self.by_protocol[usize::from(protocol)]
    }

    fn ask_of_protocol(&mut self, protocol: u8) -> u16 {
        let Ok(handle) = self.begin(0) else { return 0 };
        // An IPv4 header between two addresses for documentation (RFC 5737), and 8 octets of zeros.
        let mut packet = [0; 28];
        packet[..12].copy_from_slice(&[0x45, 0, 0, 28, 0, 0, 0, 0, 64, protocol, 0, 0]);
        packet[12..20].copy_from_slice(&[192, 0, 2, 1, 198, 51, 100, 1]);
        let verdict = match self.packet(handle, &packet, 0) {
            Ok((verdict, _)) if verdict.id() == 0 => self.give_up(handle),
            Ok((verdict, _)) => verdict,
            Err(_) => NdpiVerdict::default(),
        };
        self.end(handle);
        verdict.id()
    }

    /// Every protocol, by number.
    pub fn protocols(&mut self) -> Vec<Application> {
        let module = self.module.0.as_ptr();
        // SAFETY: the module is alive; the texts are read before anything else is done with it.
        unsafe {
            (0..weir_ndpi_protocols(module).min(u32::from(u16::MAX)) as u16)
                .map(|id| {
                    let category_id = weir_ndpi_category_id(module, id);
                    let category = text(weir_ndpi_category(module, category_id));
                    Application { id, name: text(weir_ndpi_name(module, id)), category, category_id }
                })
                .collect()
        }
    }
}
