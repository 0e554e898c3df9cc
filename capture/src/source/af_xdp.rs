//! AF_XDP: packets taken from a network card's queues before the kernel's network stack (Linux 5.9,
//! `Documentation/networking/af_xdp.rst`).
//!
//! A small XDP program sends the packets of a queue to that queue's worker; the host's own stack no longer sees them.
//! The program disappears with this process, however it ends. Packets that the host sends are not captured.

use super::af_packet::join_promiscuous;
use super::interface::Interface;
use super::xdp::{self, MapType, XDP_PASS, address, attributes, bpf, step};
use super::{Batch, Next, Polled, Source, Witness, ethtool};
use crate::host::wall_clock_ns;
use crate::packet::Frame;
use anyhow::{Context as _, anyhow, bail};
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Octets of memory that one worker's ring takes.
pub const RING_OCTETS: usize = 32 << 20;
/// Octets of memory per packet: a page, which every driver accepts.
const FRAME_OCTETS: usize = 4096;
/// Packets that fit into a worker's memory; the length of its rings.
const FRAMES: u32 = (RING_OCTETS / FRAME_OCTETS) as u32;
/// Length of the completion ring, which the kernel requires although nothing is sent.
const COMPLETIONS: u32 = 64;
/// Packets handed over in one go, which share one time.
const FAIR: u32 = 256;
/// How often to check, while no packets arrive, that the interface still exists.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long packets may still be in transit to the ring after no new ones are sent there.
const DRAIN: Duration = Duration::from_millis(50);
/// How long a start waits for a predecessor that has just ended, since the kernel releases its sockets and program
/// later.
const LET_GO: Duration = Duration::from_secs(5);

/// The program that sends each queue's packets to its socket; the interface gets it once, for all workers.
struct Redirect {
    interface: Interface,
    map: OwnedFd,
    program: OwnedFd,
    /// The attached program; closing this detaches it.
    link: OnceLock<OwnedFd>,
    /// Keeps the interface in promiscuous mode.
    _promiscuous: Option<OwnedFd>,
}

impl Redirect {
    fn new(interface: &Interface, queues: u32, promiscuous: bool) -> io::Result<Redirect> {
        const REDIRECT_MAP: i32 = 51;
        let map = xdp::create_map(MapType::Sockets, 4, queues)?;
        // return bpf_redirect_map(&map, ctx->rx_queue_index, XDP_PASS), the last being for queues without a socket.
        let code = [
            step(0x61, 0x12, 16, 0),
            step(0x18, 0x11, 0, map.as_raw_fd()),
            step(0, 0, 0, 0),
            step(0xb7, 0x03, 0, XDP_PASS),
            step(0x85, 0, 0, REDIRECT_MAP),
            step(0x95, 0, 0, 0),
        ];
        let program = xdp::load(&code)?;
        let promiscuous = promiscuous.then(|| join_promiscuous(interface)).transpose()?;
        Ok(Redirect { interface: interface.clone(), map, program, link: OnceLock::new(), _promiscuous: promiscuous })
    }

    fn set(&self, queue: u32, socket: &OwnedFd) -> io::Result<()> {
        const MAP_UPDATE: c_int = 2;
        let value = socket.as_raw_fd();
        let told = attributes(&[(0, self.map.as_raw_fd() as u32)], &[(8, address(&queue)), (16, address(&value))]);
        bpf(MAP_UPDATE, &told).map(|_| ())
    }

    fn clear(&self, queue: u32) -> io::Result<()> {
        const MAP_DELETE: c_int = 3;
        bpf(MAP_DELETE, &attributes(&[(0, self.map.as_raw_fd() as u32)], &[(8, address(&queue))])).map(|_| ())
    }

    fn attach(&self) -> io::Result<()> {
        if self.link.get().is_none() {
            // One thread registers the rings one by one.
            let _ = self.link.set(xdp::attach(&self.program, &self.interface)?);
        }
        Ok(())
    }
}

/// A ring that is shared with the kernel.
struct XdpRing {
    map: NonNull<u8>,
    octets: usize,
    offsets: libc::xdp_ring_offset,
    length: u32,
}

impl XdpRing {
    fn map(
        socket: &OwnedFd,
        offsets: libc::xdp_ring_offset,
        length: u32,
        entry: usize,
        at: libc::off_t,
    ) -> io::Result<XdpRing> {
        let octets = offsets.desc as usize + length as usize * entry;
        Ok(XdpRing {
            map: shared(octets, socket.as_raw_fd(), libc::MAP_SHARED | libc::MAP_POPULATE, at)?,
            octets,
            offsets,
            length,
        })
    }

    fn word(&self, at: u64) -> &AtomicU32 {
        // SAFETY: the kernel states the word's offset in the map; it is aligned, and both sides access it atomically.
        unsafe { AtomicU32::from_ptr(self.map.as_ptr().add(at as usize).cast()) }
    }

    fn producer(&self) -> &AtomicU32 {
        self.word(self.offsets.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.word(self.offsets.consumer)
    }

    /// The index of the entry with this number; numbers never restart.
    fn entry<T>(&self, number: u32) -> *mut T {
        let index = (number & (self.length - 1)) as usize;
        // SAFETY: the index is below the ring's length, for which the map has room.
        unsafe { self.map.as_ptr().add(self.offsets.desc as usize).cast::<T>().add(index) }
    }
}

impl Drop for XdpRing {
    fn drop(&mut self) {
        // SAFETY: the map was made with this length and nothing refers to it any more.
        unsafe { libc::munmap(self.map.as_ptr().cast(), self.octets) };
    }
}

fn shared(octets: usize, fd: c_int, flags: c_int, at: libc::off_t) -> io::Result<NonNull<u8>> {
    // SAFETY: a new map, which nothing refers to yet.
    let map = unsafe { libc::mmap(std::ptr::null_mut(), octets, libc::PROT_READ | libc::PROT_WRITE, flags, fd, at) };
    if map == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(map.cast()).ok_or_else(|| io::Error::other("memory was mapped at address 0"))
}

/// The packets that the kernel has put into a ring since it was opened: the ring's producer, without its overflow.
#[derive(Default)]
struct Produced(u64);

impl Produced {
    /// The count when the producer has this value. Call it at least once in 2^32 packets.
    fn at(&mut self, producer: u32) -> u64 {
        self.0 += u64::from(producer.wrapping_sub(self.0 as u32));
        self.0
    }
}

/// The memory for packets.
struct FrameMemory(NonNull<u8>);

impl Drop for FrameMemory {
    fn drop(&mut self) {
        // SAFETY: the map was made with this length and nothing refers to it any more.
        unsafe { libc::munmap(self.0.as_ptr().cast(), RING_OCTETS) };
    }
}

/// One worker's queue.
pub struct AfXdp {
    redirect: Arc<Redirect>,
    queue: u32,
    // The socket is closed before the memory goes: the kernel writes there until then.
    socket: OwnedFd,
    received: XdpRing,
    fill: XdpRing,
    _completions: XdpRing,
    frames: FrameMemory,
    produced: Produced,
    dropped: u64,
    looked: Instant,
    stopped: Option<Instant>,
}

// SAFETY: the maps are owned by this value alone and are not bound to a thread.
unsafe impl Send for AfXdp {}

/// A queue whose packets still go to the host's stack.
pub struct ClosedXdpRing(AfXdp);

/// Opens all queues of an interface, one for each worker.
///
/// # Errors
/// One clear line about what to do.
pub fn open(interface: &Interface, promiscuous: bool, workers: u32) -> anyhow::Result<Vec<ClosedXdpRing>> {
    let name = &interface.name;
    let queues = ethtool::receive_queues(name);
    if workers != queues {
        bail!(
            "xdp:{name} has {queues} receive queues and takes one worker for each, not {workers}: set workers = {queues}, \
             or change the queues (ethtool -L {name} combined N)"
        );
    }
    if interface.loopback {
        bail!("xdp:{name}: the loopback has no queues of its own; source.interface = \"{name}\" captures there");
    }
    let redirect = Redirect::new(interface, queues, promiscuous).map_err(|error| refused(name, &error))?;
    let redirect = Arc::new(redirect);
    let one =
        |queue| patiently(|| AfXdp::open(&redirect, queue)).map(ClosedXdpRing).map_err(|error| refused(name, &error));
    (0..queues).map(one).collect()
}

/// Retries while another process holds the interface, as long as an ended one may still do so.
fn patiently<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let start = Instant::now();
    loop {
        match attempt() {
            Err(error)
                if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST)) && start.elapsed() < LET_GO =>
            {
                std::thread::sleep(Duration::from_millis(50));
            }
            done => return done,
        }
    }
}

fn refused(name: &str, error: &io::Error) -> anyhow::Error {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => anyhow!(
            "no permission to capture on {name} with AF_XDP: grant CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF, or run as \
             root"
        ),
        Some(libc::EBUSY | libc::EEXIST) => {
            anyhow!(
                "cannot capture on {name} with AF_XDP: another XDP program or AF_XDP socket uses it (ip link show \
                 {name})"
            )
        }
        Some(libc::ENOBUFS) => anyhow!(
            "cannot capture on {name} with AF_XDP: the limit on locked memory is below the {} MiB that a queue needs; \
             raise LimitMEMLOCK",
            RING_OCTETS >> 20
        ),
        Some(libc::EAFNOSUPPORT) => {
            anyhow!("this kernel lacks AF_XDP: source.interface = \"{name}\" captures without it")
        }
        _ => anyhow!("cannot capture on {name} with AF_XDP: {error}"),
    }
}

impl ClosedXdpRing {
    /// Lets packets in.
    ///
    /// # Errors
    /// If the interface does not take the program.
    pub fn admit(self) -> anyhow::Result<AfXdp> {
        let ClosedXdpRing(ring) = self;
        let name = &ring.redirect.interface.name;
        ring.redirect.set(ring.queue, &ring.socket).with_context(|| format!("xdp:{name}, queue {}", ring.queue))?;
        patiently(|| ring.redirect.attach()).map_err(|error| refused(name, &error))?;
        Ok(ring)
    }
}

impl AfXdp {
    fn open(redirect: &Arc<Redirect>, queue: u32) -> io::Result<AfXdp> {
        // SAFETY: plain call; a descriptor that is not negative is ours alone.
        let socket = unsafe {
            let fd = libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        let frames = FrameMemory(shared(RING_OCTETS, -1, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, 0)?);
        // SAFETY: plain old data; all zeros is a valid one.
        let mut memory: libc::xdp_umem_reg = unsafe { std::mem::zeroed() };
        memory.addr = frames.0.as_ptr().addr() as u64;
        memory.len = RING_OCTETS as u64;
        memory.chunk_size = FRAME_OCTETS as u32;
        set(&socket, libc::XDP_UMEM_REG, &memory)?;
        set(&socket, libc::XDP_UMEM_FILL_RING, &FRAMES)?;
        set(&socket, libc::XDP_UMEM_COMPLETION_RING, &COMPLETIONS)?;
        set(&socket, libc::XDP_RX_RING, &FRAMES)?;
        let offsets: libc::xdp_mmap_offsets = get(&socket, libc::XDP_MMAP_OFFSETS)?;
        let descriptor = size_of::<libc::xdp_desc>();
        let received = XdpRing::map(&socket, offsets.rx, FRAMES, descriptor, libc::XDP_PGOFF_RX_RING)?;
        let fill = XdpRing::map(&socket, offsets.fr, FRAMES, 8, libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t)?;
        let at = libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t;
        let completions = XdpRing::map(&socket, offsets.cr, COMPLETIONS, 8, at)?;
        for number in 0..FRAMES {
            // SAFETY: the entry lies within the ring, and the kernel does not read it before the producer is moved.
            unsafe { fill.entry::<u64>(number).write(u64::from(number) * FRAME_OCTETS as u64) };
        }
        fill.producer().store(FRAMES, Ordering::Release);
        // SAFETY: plain old data; all zeros is a valid one.
        let mut to: libc::sockaddr_xdp = unsafe { std::mem::zeroed() };
        to.sxdp_family = libc::AF_XDP as u16;
        to.sxdp_ifindex = redirect.interface.index as u32;
        to.sxdp_queue_id = queue;
        // Without flags the kernel reads in place where the driver can, and copies elsewhere.
        // SAFETY: a valid address of the length given.
        let bound = unsafe {
            libc::bind(socket.as_raw_fd(), (&raw const to).cast(), size_of::<libc::sockaddr_xdp>() as libc::socklen_t)
        };
        if bound != 0 {
            return Err(io::Error::last_os_error());
        }
        let options: libc::xdp_options = get(&socket, libc::XDP_OPTIONS)?;
        let how = if options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0 { "zero copy" } else { "copying" };
        tracing::info!("xdp:{}, queue {queue}: {how}", redirect.interface.name);
        Ok(AfXdp {
            redirect: Arc::clone(redirect),
            queue,
            socket,
            received,
            fill,
            _completions: completions,
            frames,
            produced: Produced::default(),
            dropped: 0,
            looked: Instant::now(),
            stopped: None,
        })
    }

    /// Packets that wait.
    fn waiting(&self) -> u32 {
        let produced = self.received.producer().load(Ordering::Acquire);
        produced.wrapping_sub(self.received.consumer().load(Ordering::Relaxed)).min(FRAMES)
    }

    /// Passes on waiting packets, up to a fair number, and returns their memory.
    fn walk(&mut self, take: &mut impl FnMut(&[Frame<'_>]) -> Next) -> u32 {
        let waiting = self.waiting().min(FAIR);
        let first = self.received.consumer().load(Ordering::Relaxed);
        let free = self.fill.producer().load(Ordering::Relaxed);
        let time_ns = wall_clock_ns();
        let mut batch = Batch::new();
        let mut done = 0;
        while done < waiting {
            // SAFETY: the kernel has written this entry, as its producer says, and leaves it until the consumer is moved.
            let entry = unsafe { self.received.entry::<libc::xdp_desc>(first.wrapping_add(done)).read() };
            let start = (entry.addr as usize).min(RING_OCTETS);
            let captured = (entry.len as usize).min(RING_OCTETS - start);
            let frame = Frame {
                time_ns,
                link: self.redirect.interface.link,
                // SAFETY: within the memory, which the kernel does not write to until it is given back.
                data: unsafe { std::slice::from_raw_parts(self.frames.0.as_ptr().add(start), captured) },
                length: entry.len,
                vlan: None,
            };
            let full = batch.push(frame);
            let frame = entry.addr & !(FRAME_OCTETS as u64 - 1);
            // SAFETY: there are as many entries as frames, so one is free; the kernel does not read it yet.
            unsafe { self.fill.entry::<u64>(free.wrapping_add(done)).write(frame) };
            done += 1;
            if full && batch.hand_over(take) == Next::Pause {
                break;
            }
        }
        batch.hand_over(take);
        self.fill.producer().store(free.wrapping_add(done), Ordering::Release);
        self.received.consumer().store(first.wrapping_add(done), Ordering::Release);
        done
    }

    fn wait(&self, patience: Duration) -> io::Result<()> {
        let mut poll = libc::pollfd { fd: self.socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd.
        if unsafe { libc::poll(&raw mut poll, 1, patience.as_millis().min(1000) as c_int) } < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) };
        }
        if poll.revents & libc::POLLERR != 0 {
            // Polling an interface that is down returns at once every time: do not spin.
            std::thread::sleep(patience);
        }
        Ok(())
    }
}

fn set<T>(socket: &OwnedFd, option: c_int, value: &T) -> io::Result<()> {
    super::af_packet::set_level(socket, libc::SOL_XDP, option, value)
}

fn get<T: Copy>(socket: &OwnedFd, option: c_int) -> io::Result<T> {
    // SAFETY: the callers ask for plain old data.
    unsafe { super::af_packet::get(socket, libc::SOL_XDP, option) }
}

impl Source for AfXdp {
    fn poll(&mut self, patience: Duration, take: &mut impl FnMut(&[Frame<'_>]) -> Next) -> io::Result<Polled> {
        if self.walk(take) > 0 {
            return Ok(Polled::Packets);
        }
        if let Some(stopped) = self.stopped {
            if stopped.elapsed() > DRAIN {
                return Ok(Polled::End);
            }
            std::thread::sleep(DRAIN / 10);
            return Ok(Polled::Idle);
        }
        self.wait(patience)?;
        if self.walk(take) > 0 {
            return Ok(Polled::Packets);
        }
        if self.looked.elapsed() >= LOOK_EVERY {
            self.looked = Instant::now();
            let Interface { name, index, .. } = &self.redirect.interface;
            if !Interface::find(name).is_ok_and(|found| found.index == *index) {
                return Err(io::Error::from_raw_os_error(libc::ENODEV));
            }
        }
        Ok(Polled::Idle)
    }

    fn now_ns(&self) -> Option<i64> {
        Some(wall_clock_ns())
    }

    fn witness(&mut self) -> Option<Witness> {
        if let Ok(counted) = get::<libc::xdp_statistics>(&self.socket, libc::XDP_STATISTICS) {
            // An empty fill ring is not a separate cause: the packet that found it so is in `rx_dropped`.
            self.dropped = counted.rx_dropped + counted.rx_ring_full;
        }
        let dropped = self.dropped;
        // The kernel's own counts alone, so that a packet that this side loses does not count as captured.
        let produced = self.produced.at(self.received.producer().load(Ordering::Acquire));
        Some(Witness { offered: produced + dropped, dropped })
    }

    fn stop(&mut self) -> bool {
        self.stopped = Some(Instant::now());
        self.redirect.clear(self.queue).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_of_packets_goes_on_where_the_kernels_overflows() {
        let mut produced = Produced::default();
        let counts = [0, 5, u32::MAX, 2, 2].map(|producer| produced.at(producer));
        assert_eq!(counts, [0, 5, (1 << 32) - 1, (1 << 32) + 2, (1 << 32) + 2]);
    }
}
