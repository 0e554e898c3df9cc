//! Frames made in the kernel by an XDP program, run without an incoming packet: `BPF_PROG_TEST_RUN` with live frames
//! (Linux 5.18, `Documentation/bpf/bpf_prog_run.rst`). The program numbers the frames, keeps the rate, and redirects
//! them to the interface.
//!
//! The interface's driver must take redirected frames. One end of a veth pair does so while the other end receives by
//! NAPI; an XDP program there, which lets everything pass, ensures that.

use super::BlastArgs;
use super::{BlastSent, DESTINATION, DESTINATIONS, Frames, SOURCE, SOURCE_PORT, SOURCES, SPREAD};
use anyhow::{Context as _, bail};
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::thread::JoinHandleExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weir_probe::source::interface::{Interface, InterfaceCounters, InterfaceStatistics};
use weir_probe::source::netns;
use weir_probe::source::xdp::{self, MapType, XDP_DROP, XDP_PASS, XdpInstruction, address, attributes, bpf, step};

/// Commands of `bpf(2)` and their arguments (`linux/bpf.h`).
const MAP_LOOKUP: c_int = 1;
pub const PROGRAM_RUN: c_int = 10;
const LIVE_FRAMES: u32 = 1 << 1;
/// Functions of the kernel that the program calls.
const KTIME_GET_NS: i32 = 5;
const REDIRECT: i32 = 23;
/// Here a 64-bit constant is the address of a map's first value.
const MAP_VALUE: u8 = 2;

/// Number of runs after which frames are handed over. With more frames, their pages, which the kernel reuses, no longer
/// fit into the processor's cache; with fewer, handing over costs more. The ring of a veth pair's end holds 256.
const BATCH: u32 = 32;
/// Frames per reading of the clock, which takes a tenth of a frame's time. A power of two.
pub const BURST: i32 = 16;
/// Bits of a frame's time behind the nanosecond.
pub const FRACTION: i32 = 16;
/// How often to check whether all frames are sent.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// How long an interface may take to count the first frame, and the last.
const FIRST_COUNTED: Duration = Duration::from_millis(50);
const LAST_COUNTED: Duration = Duration::from_secs(1);

/// The other end of a veth pair, which receives by NAPI while this value lives.
pub struct Peer {
    name: String,
    /// The program that lets everything pass, if attached.
    link: io::Result<OwnedFd>,
}

impl Peer {
    /// Of the form `NETNS/INTERFACE`, or `INTERFACE` alone in this namespace.
    ///
    /// # Errors
    /// If there is no such interface.
    pub fn find(name: &str) -> anyhow::Result<Peer> {
        let (netns, interface) = name.rsplit_once('/').unwrap_or(("", name));
        let _inside = netns::enter(netns)?;
        let interface = Interface::find(interface)?;
        Ok(Peer { name: name.to_owned(), link: pass(&interface) })
    }
}

fn pass(interface: &Interface) -> io::Result<OwnedFd> {
    let program = xdp::load(&[step(0xb7, 0, 0, XDP_PASS), step(0x95, 0, 0, 0)])?;
    xdp::attach(&program, interface)
}

/// The program and its parameters.
pub struct Generator {
    counters: InterfaceCounters,
    before: InterfaceStatistics,
    template: Vec<u8>,
    plan: BlastPlan,
    program: Arc<XdpProgram>,
    /// Kept until the last frame has arrived.
    _peer: Option<Peer>,
}

/// When frames are due.
#[derive(Clone, Copy)]
pub struct BlastPlan {
    /// Sending stops this long after the start, ns.
    pub length: u64,
    /// Frames at most.
    pub packets: u64,
    /// Time between two frames, ns, with [`FRACTION`] fractional bits; 0: as fast as possible.
    pub period: u64,
}

impl Generator {
    /// Sends the first frame, to see whether that works.
    ///
    /// # Errors
    /// If the kernel, or the interface's driver, cannot.
    pub fn start(
        interface: &Interface,
        peer: Option<Peer>,
        frames: &Frames,
        args: &BlastArgs,
    ) -> anyhow::Result<Generator> {
        if let Some(Peer { name, link: Err(error) }) = &peer {
            bail!("{name} accepts no XDP program: {error}");
        }
        let period = args.rate.map_or(0, |rate| (1e9 / rate * f64::from(1 << FRACTION)) as u64);
        let length = Duration::from_secs_f64(args.seconds).as_nanos() as u64;
        let plan = BlastPlan { length, packets: args.packets, period };
        let program = XdpProgram::new(interface, frames, plan).context("the kernel refuses the program")?;
        let mut counters = InterfaceCounters::open(&interface.name)?;
        let before = counters.read()?;
        let mut generator = Generator {
            counters,
            before,
            template: frames.template.clone(),
            plan,
            program: Arc::new(program),
            _peer: peer,
        };
        generator.program.run(&generator.template, 1).context("the program cannot be run with live frames")?;
        if counted(&mut generator.counters, &generator.before, 1, FIRST_COUNTED)? == 0 {
            bail!("{} accepts no redirected frames (for a veth pair, name the other end with --peer)", interface.name);
        }
        Ok(generator)
    }

    /// Sends the other frames.
    ///
    /// # Errors
    /// If the kernel ends it early.
    pub fn send(mut self) -> anyhow::Result<BlastSent> {
        // Every call waits for RCU twice, some 10 ms, so there is only one call, which a signal ends.
        signal_hook::flag::register(libc::SIGUSR1, Arc::new(AtomicBool::new(false)))?;
        let stop = Arc::new(AtomicBool::new(false));
        let thread = thread::spawn({
            let (program, stop) = (Arc::clone(&self.program), Arc::clone(&stop));
            move || {
                while !stop.load(Ordering::Relaxed) {
                    match program.run(&self.template, u32::MAX) {
                        Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                        _ => (),
                    }
                }
                Ok(())
            }
        });
        let elapsed = loop {
            let state = self.program.state()?;
            let elapsed = monotonic_ns() - state.start;
            if elapsed >= self.plan.length || state.number >= self.plan.packets || thread.is_finished() {
                break elapsed.min(self.plan.length);
            }
            thread::sleep(LOOK_EVERY);
        };
        stop.store(true, Ordering::Relaxed);
        while !thread.is_finished() {
            // SAFETY: the thread was not joined yet, so that this still names it.
            unsafe { libc::pthread_kill(thread.as_pthread_t(), libc::SIGUSR1) };
            thread::sleep(LOOK_EVERY);
        }
        thread.join().expect("the thread does not panic")?;

        let redirected = self.program.state()?.number;
        let packets = counted(&mut self.counters, &self.before, redirected, LAST_COUNTED)?;
        if packets < redirected {
            let name = self.counters.name();
            tracing::warn!("{name}: no room for {} frames, which are not counted", redirected - packets);
        }
        Ok(BlastSent { packets, elapsed: Duration::from_nanos(elapsed) })
    }
}

/// How many of `count` frames the interface's own counter has seen since `before`, after a short wait.
fn counted(
    interface: &mut InterfaceCounters,
    before: &InterfaceStatistics,
    frames: u64,
    within: Duration,
) -> io::Result<u64> {
    let asked = Instant::now();
    loop {
        let counted = interface.read()?.since(before).tx_packets.min(frames);
        if counted == frames || asked.elapsed() >= within {
            return Ok(counted);
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// The time that `bpf_ktime_get_ns` returns.
fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec; this clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The program's state, the single value of its map.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct ProgramState {
    /// Index of the next frame.
    pub number: u64,
    /// Time of the second burst (until then, of the first), ns of the monotonic clock.
    start: u64,
}

/// The loaded program and its map.
pub struct XdpProgram {
    map: OwnedFd,
    pub program: OwnedFd,
}

impl XdpProgram {
    pub fn new(interface: &Interface, frames: &Frames, plan: BlastPlan) -> io::Result<XdpProgram> {
        let map = xdp::create_map(MapType::Array, size_of::<ProgramState>() as u32, 1)?;
        let program = xdp::load(&code(map.as_raw_fd(), interface.index, frames, plan))?;
        Ok(XdpProgram { map, program })
    }

    /// Runs it `times` times with live frames.
    fn run(&self, template: &[u8], times: u32) -> io::Result<()> {
        let (program, octets) = (self.program.as_raw_fd() as u32, template.len() as u32);
        let words = [(0, program), (8, octets), (32, times), (64, LIVE_FRAMES), (72, BATCH)];
        bpf(PROGRAM_RUN, &attributes(&words, &[(16, template.as_ptr().addr() as u64)])).map(|_| ())
    }

    /// Its progress.
    pub fn state(&self) -> io::Result<ProgramState> {
        let (key, mut state) = (0_u32, ProgramState::default());
        let into = (&raw mut state).expose_provenance() as u64;
        bpf(MAP_LOOKUP, &attributes(&[(0, self.map.as_raw_fd() as u32)], &[(8, address(&key)), (16, into)]))?;
        Ok(state)
    }
}

/// A constant of 64 bits.
fn constant(register: u8, value: u64) -> [XdpInstruction; 2] {
    [step(0x18, register, 0, value as i32), step(0, 0, 0, (value >> 32) as i32)]
}

/// The program: redirects the next frame if it is due; otherwise drops the frame with which it was run. Registers: r6
/// the context, r7 its state, r8 the number, r2 the frame.
fn code(map: c_int, interface: i32, frames: &Frames, plan: BlastPlan) -> Vec<XdpInstruction> {
    let mut code = vec![step(0xbf, 0x16, 0, 0)]; // r6 = r1
    let mut to_drop = Vec::new();
    let mut drop_if = |code: &mut Vec<XdpInstruction>, jump, registers| {
        to_drop.push(code.len());
        code.push(step(jump, registers, 0, 0));
    };
    let wide = |field: usize| field as i16;

    code.extend([step(0x18, MAP_VALUE << 4 | 7, 0, map), step(0, 0, 0, 0)]);
    code.push(step(0x79, 0x78, 0, 0)); // r8 = r7->number
    code.extend(constant(1, plan.packets));
    drop_if(&mut code, 0x3d, 0x18); // r8 >= r1

    // Whether a burst is due; the second one restarts the clock, because there was a pause after the test frame.
    code.push(step(0xbf, 0x81, 0, 0)); // r1 = r8
    code.push(step(0x57, 0x01, 0, BURST - 1)); // r1 &= BURST - 1
    let burst = code.len();
    code.push(step(0x55, 0x01, 0, 0)); // if r1 != 0 skip all of this
    code.push(step(0x85, 0, 0, KTIME_GET_NS));
    code.push(step(0x25, 0x08, 2, BURST)); // if r8 > BURST skip the next two
    code.push(step(0x7b, 0x07, 8, 0)); // r7->start = r0
    code.push(step(0x05, 0, 10, 0)); // skip the rest of this
    code.push(step(0x79, 0x71, 8, 0)); // r1 = r7->start
    code.push(step(0x1f, 0x10, 0, 0)); // r0 -= r1
    code.extend(constant(1, plan.length));
    drop_if(&mut code, 0x3d, 0x10); // r0 >= r1
    code.extend(constant(1, plan.period));
    code.push(step(0x2f, 0x81, 0, 0)); // r1 *= r8
    code.push(step(0x77, 0x01, 0, FRACTION)); // r1 >>= FRACTION
    drop_if(&mut code, 0xad, 0x10); // r0 < r1
    code[burst].offset = (code.len() - burst - 1) as i16;

    code.push(step(0x61, 0x62, 0, 0)); // r2 = r6->data
    code.push(step(0x61, 0x63, 4, 0)); // r3 = r6->data_end
    code.push(step(0xbf, 0x21, 0, 0)); // r1 = r2
    code.push(step(0x07, 0x01, 0, SOURCE_PORT as i32 + 2)); // r1 += ...
    drop_if(&mut code, 0x2d, 0x31); // r1 > r3

    // As `Frames::number` does; numbers beyond 32 bits begin again.
    code.push(step(0xbc, 0x81, 0, 0)); // w1 = w8
    if frames.sources == 0 {
        code.push(step(0x24, 0x01, 0, SPREAD as i32)); // w1 *= SPREAD
    } else {
        code.push(step(0x94, 0x01, 0, frames.sources as i32)); // w1 %= sources
        code.push(step(0x64, 0x01, 0, 8)); // w1 <<= 8
    }
    code.push(step(0x73, 0x12, wide(SOURCE_PORT + 1), 0)); // *(u8 *)(r2 + ...) = r1
    code.push(step(0x74, 0x01, 0, 8)); // w1 >>= 8
    code.push(step(0x44, 0x01, 0, SOURCES as i32)); // w1 |= SOURCES
    code.push(step(0xdc, 0x01, 0, 32)); // r1 = be32(r1)
    code.push(step(0x63, 0x12, wide(SOURCE), 0)); // *(u32 *)(r2 + ...) = r1
    code.push(step(0xbc, 0x81, 0, 0)); // w1 = w8
    code.push(step(0x94, 0x01, 0, frames.destinations as i32)); // w1 %= destinations
    code.push(step(0x04, 0x01, 0, DESTINATIONS as i32)); // w1 += DESTINATIONS
    code.push(step(0xdc, 0x01, 0, 32)); // r1 = be32(r1)
    code.push(step(0x63, 0x12, wide(DESTINATION), 0)); // *(u32 *)(r2 + ...) = r1

    code.push(step(0x07, 0x08, 0, 1)); // r8 += 1
    code.push(step(0x7b, 0x87, 0, 0)); // r7->number = r8
    code.push(step(0xb7, 0x01, 0, interface)); // r1 = interface
    code.push(step(0xb7, 0x02, 0, 0)); // r2 = 0
    code.push(step(0x85, 0, 0, REDIRECT));
    code.push(step(0x95, 0, 0, 0)); // return r0

    let drop = code.len();
    code.extend([step(0xb7, 0, 0, XDP_DROP), step(0x95, 0, 0, 0)]);
    for from in to_drop {
        code[from].offset = (drop - from - 1) as i16;
    }
    code
}
