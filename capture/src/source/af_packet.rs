//! A live interface through AF_PACKET with a TPACKET_V3 ring (Linux, `Documentation/networking/packet_mmap.rst`).
//!
//! The kernel fills blocks of a ring that is mapped into this process and passes each one over when it is full or
//! after [`RETIRE_MS`]. Workers share an interface through PACKET_FANOUT with the program of [`super::fanout`].

use super::bpf::instruction;
use super::fanout::by_address_pair;
use super::interface::Interface;
use super::snap::lengths;
use super::{Batch, Next, Polled, Source, Witness};
use crate::host::wall_clock_ns;
use crate::packet::{Frame, LinkType};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Octets of a block of the ring. A ring of many small blocks bridges a longer absence of its worker, since at a low
/// rate each block takes up to [`RETIRE_MS`]; traffic of a gigabit per second fills some hundred blocks per second.
pub const BLOCK_OCTETS: usize = 256 << 10;
/// The kernel passes on a partly filled block after this time, ms: well below the interval's grace.
const RETIRE_MS: u32 = 20;
/// How often to check, while no packets arrive, that the interface still exists.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long the last packets may take from the filter to a block once the filter blocks new ones.
const DRAIN: Duration = Duration::from_secs(1);
/// Socket options of `linux/if_packet.h`: distribute packets by a classic BPF program, and set that program.
const PACKET_FANOUT_CBPF: u32 = 6;
const PACKET_FANOUT_DATA: libc::c_int = 22;

/// One worker's ring on an interface.
pub struct AfPacket {
    socket: OwnedFd,
    map: NonNull<u8>,
    link: LinkType,
    loopback: bool,
    blocks: usize,
    block: usize,
    /// Packets left in the block, and where the next one is.
    rest: Option<(u32, usize)>,
    witness: Witness,
    /// Packets handed over.
    handed: u64,
    /// When the interface was last known to exist.
    looked: Instant,
    /// When the filter was closed.
    stopped: Option<Instant>,
}

// SAFETY: the map is owned by this value alone and is not bound to a thread.
unsafe impl Send for AfPacket {}

/// A ring on its interface that admits no packets yet: all workers' rings are opened first, then admit packets
/// together.
pub struct ClosedPacketRing(AfPacket);

impl AfPacket {
    /// Makes a ring of this many octets on `interface`.
    ///
    /// # Errors
    /// The error of the system call: without CAP_NET_RAW, [`io::ErrorKind::PermissionDenied`].
    pub fn open(interface: &Interface, promiscuous: bool, octets: usize) -> io::Result<ClosedPacketRing> {
        let blocks = (octets / BLOCK_OCTETS).max(2);
        let octets = blocks * BLOCK_OCTETS;
        let socket = packet_socket()?;
        set(&socket, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V3 as libc::c_int))?;
        set_filter(&socket, &[keep(0)])?;
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK_OCTETS as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: 2048,
            tp_frame_nr: (octets / 2048) as u32,
            tp_retire_blk_tov: RETIRE_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set(&socket, libc::PACKET_RX_RING, &request)?;
        // SAFETY: a shared map of the socket's ring, of the size just asked for.
        let map = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                octets,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                socket.as_raw_fd(),
                0,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let map = NonNull::new(map.cast()).ok_or_else(|| io::Error::other("the ring was mapped at address 0"))?;
        if promiscuous {
            add_promiscuous(&socket, interface)?;
        }
        let ring = AfPacket {
            socket,
            map,
            link: interface.link,
            loopback: interface.loopback,
            blocks,
            block: 0,
            rest: None,
            witness: Witness::default(),
            handed: 0,
            looked: Instant::now(),
            stopped: None,
        };
        ring.bind(interface)?;
        Ok(ClosedPacketRing(ring))
    }

    /// Lets packets in.
    ///
    /// # Errors Those of the system.
    pub fn admit(ClosedPacketRing(ring): ClosedPacketRing) -> io::Result<AfPacket> {
        // Everything sent on the loopback is received there too: once is enough.
        set_filter(&ring.socket, &lengths(ring.link, !ring.loopback))?;
        Ok(ring)
    }

    fn bind(&self, interface: &Interface) -> io::Result<()> {
        // SAFETY: sockaddr_ll is plain old data; all zeros is a valid one.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = interface.index;
        // SAFETY: a valid address of the length given.
        let bound = unsafe {
            libc::bind(
                self.socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        if bound == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// The status word of the current block, which the kernel writes too.
    fn status(&self) -> &AtomicU32 {
        // SAFETY: the block lies within the map; the word is aligned, as blocks are, and both sides access it
        // atomically.
        unsafe {
            let block = self.map.as_ptr().add(self.block * BLOCK_OCTETS).cast::<libc::tpacket_block_desc>();
            AtomicU32::from_ptr(&raw mut (*block).hdr.bh1.block_status)
        }
    }

    fn is_ready(&self) -> bool {
        self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// Passes on the packets of the current block; returns whether the block is finished.
    fn walk(&mut self, take: &mut impl FnMut(&[Frame<'_>]) -> Next) -> bool {
        let base = self.block * BLOCK_OCTETS;
        // SAFETY: the kernel has passed this block over (`is_ready`) and does not write to it until it is given back.
        let block = unsafe { std::slice::from_raw_parts(self.map.as_ptr().add(base), BLOCK_OCTETS) };
        let (mut left, mut at) = self.rest.take().unwrap_or_else(|| {
            // SAFETY: the block begins with its descriptor.
            let header = unsafe { &(*block.as_ptr().cast::<libc::tpacket_block_desc>()).hdr.bh1 };
            (header.num_pkts, header.offset_to_first_pkt as usize)
        });
        let mut batch = Batch::new();
        while left > 0 {
            // SAFETY: the kernel wrote `num_pkts` headers into the block, each aligned and telling where the next is.
            let header = unsafe { &*block.as_ptr().add(at).cast::<libc::tpacket3_hdr>() };
            let start = at + usize::from(header.tp_mac);
            let data = block.get(start..start + header.tp_snaplen as usize).unwrap_or(&[]);
            let vlan =
                (header.tp_status & libc::TP_STATUS_VLAN_VALID != 0).then_some(header.hv1.tp_vlan_tci as u16 & 0x0fff);
            let frame = Frame {
                time_ns: i64::from(header.tp_sec) * 1_000_000_000 + i64::from(header.tp_nsec),
                link: self.link,
                data,
                length: header.tp_len,
                vlan,
            };
            left -= 1;
            self.handed += 1;
            at += header.tp_next_offset as usize;
            let full = batch.push(frame);
            if (full || left == 0) && batch.hand_over(take) == Next::Pause && left > 0 {
                self.rest = Some((left, at));
                return false;
            }
        }
        true
    }

    /// Whether the interface was deleted: the kernel then unbinds its sockets.
    fn is_gone(&self) -> bool {
        // SAFETY: sockaddr_ll is plain old data; all zeros is a valid one.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        let mut length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the address has room for what `length` says.
        let got = unsafe { libc::getsockname(self.socket.as_raw_fd(), (&raw mut address).cast(), &raw mut length) };
        got == 0 && address.sll_ifindex < 0
    }

    /// Whether the ring is drained: every packet that the filter admitted has been passed on or dropped.
    fn is_drained(&mut self) -> bool {
        let Witness { offered, dropped } = self.count();
        offered <= dropped + self.handed
    }

    /// The kernel's count since the ring was opened.
    fn count(&mut self) -> Witness {
        // SAFETY: tpacket_stats_v3 is plain old data.
        let got = unsafe { get::<libc::tpacket_stats_v3>(&self.socket, libc::SOL_PACKET, libc::PACKET_STATISTICS) };
        if let Ok(statistics) = got {
            // Reading resets the kernel's counters; its packets include its drops.
            self.witness.offered += u64::from(statistics.tp_packets);
            self.witness.dropped += u64::from(statistics.tp_drops);
        }
        self.witness
    }

    /// Waits until the kernel passes a block over, or `patience` is over.
    fn wait(&self, patience: Duration) -> io::Result<()> {
        let mut poll = libc::pollfd { fd: self.socket.as_raw_fd(), events: libc::POLLIN | libc::POLLERR, revents: 0 };
        // SAFETY: one valid pollfd.
        while unsafe { libc::poll(&raw mut poll, 1, patience.as_millis().min(1000) as libc::c_int) } < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        if poll.revents & libc::POLLERR != 0 {
            // SAFETY: SO_ERROR is an int.
            let code = unsafe { get::<i32>(&self.socket, libc::SOL_SOCKET, libc::SO_ERROR) }.unwrap_or(0);
            if code != 0 {
                // Polling an interface that is down returns at once every time: do not spin.
                std::thread::sleep(patience);
                return Err(io::Error::from_raw_os_error(code));
            }
        }
        Ok(())
    }
}

impl ClosedPacketRing {
    /// Joins the fanout group `group`, or a new one that no other program has; returns its number.
    ///
    /// # Errors Those of the system.
    pub fn join(&self, group: Option<u16>) -> io::Result<u16> {
        let ClosedPacketRing(AfPacket { socket, link, .. }) = self;
        // Not PACKET_FANOUT_FLAG_DEFRAG: three fragments are three packets.
        let flags = if group.is_none() { libc::PACKET_FANOUT_FLAG_UNIQUEID } else { 0 };
        let wish = u32::from(group.unwrap_or(0)) | (PACKET_FANOUT_CBPF | flags) << 16;
        set(socket, libc::PACKET_FANOUT, &wish)?;
        if group.is_none() {
            let program = by_address_pair(*link);
            set(socket, PACKET_FANOUT_DATA, &program_of(&program))?;
        }
        // SAFETY: PACKET_FANOUT is an int.
        let joined = unsafe { get::<u32>(socket, libc::SOL_PACKET, libc::PACKET_FANOUT) }?;
        Ok(joined as u16)
    }
}

impl Source for AfPacket {
    fn poll(&mut self, patience: Duration, take: &mut impl FnMut(&[Frame<'_>]) -> Next) -> io::Result<Polled> {
        if !self.is_ready() {
            let waited = self.wait(patience);
            if let Some(stopped) = self.stopped {
                if !self.is_ready() {
                    let done = self.is_drained() || stopped.elapsed() > DRAIN;
                    return Ok(if done { Polled::End } else { Polled::Idle });
                }
            } else if !self.is_ready() && (waited.is_err() || self.looked.elapsed() >= LOOK_EVERY) {
                self.looked = Instant::now();
                if self.is_gone() {
                    return Err(io::Error::from_raw_os_error(libc::ENODEV));
                }
                waited?;
                return Ok(Polled::Idle);
            } else {
                waited?;
                if !self.is_ready() {
                    return Ok(Polled::Idle);
                }
            }
        }
        if self.walk(take) {
            self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.block = (self.block + 1) % self.blocks;
        }
        Ok(Polled::Packets)
    }

    fn now_ns(&self) -> Option<i64> {
        Some(wall_clock_ns())
    }

    fn witness(&mut self) -> Option<Witness> {
        Some(self.count())
    }

    fn stop(&mut self) -> bool {
        // Nothing passes a filter that keeps 0 octets. If setting it fails, packets that arrive while the ring is
        // drained stay in the ring, and the closing record reports them there.
        self.stopped = Some(Instant::now());
        set_filter(&self.socket, &[keep(0)]).is_ok()
    }
}

impl Drop for AfPacket {
    fn drop(&mut self) {
        // SAFETY: the map was made with this length and nothing refers to it any more.
        unsafe { libc::munmap(self.map.as_ptr().cast(), self.blocks * BLOCK_OCTETS) };
    }
}

/// A packet socket of protocol 0: no packet comes before it is bound.
fn packet_socket() -> io::Result<OwnedFd> {
    // SAFETY: plain call; a descriptor that is not negative is ours alone.
    unsafe {
        let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

/// Keeps the interface in promiscuous mode until the socket is closed.
fn add_promiscuous(socket: &OwnedFd, interface: &Interface) -> io::Result<()> {
    // SAFETY: packet_mreq is plain old data; all zeros is a valid one.
    let mut membership: libc::packet_mreq = unsafe { std::mem::zeroed() };
    membership.mr_ifindex = interface.index;
    membership.mr_type = libc::PACKET_MR_PROMISC as u16;
    set(socket, libc::PACKET_ADD_MEMBERSHIP, &membership)
}

/// A socket that only keeps the interface in promiscuous mode until it is closed.
///
/// # Errors Those of the system.
pub(super) fn join_promiscuous(interface: &Interface) -> io::Result<OwnedFd> {
    let socket = packet_socket()?;
    add_promiscuous(&socket, interface)?;
    Ok(socket)
}

fn set<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    set_level(socket, libc::SOL_PACKET, option, value)
}

pub(super) fn set_level<T>(socket: &OwnedFd, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the value is plain data of the length given and is only read.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A socket option's value; fields that an older kernel does not know stay 0.
///
/// # Safety
/// `T` is plain old data, of which all zeros is a valid value.
pub(super) unsafe fn get<T>(socket: &OwnedFd, level: libc::c_int, option: libc::c_int) -> io::Result<T> {
    // SAFETY: all zeros is a valid value, which the caller guarantees.
    let mut value: T = unsafe { std::mem::zeroed() };
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value has room for what `length` says.
    let got = unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, (&raw mut value).cast(), &raw mut length) };
    if got == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// Attaches a classic BPF program; it returns how many octets of a packet the ring gets, 0 for none of it.
fn set_filter(socket: &OwnedFd, program: &[libc::sock_filter]) -> io::Result<()> {
    set_level(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program_of(program))
}

/// A program as socket options take it: the kernel only reads it.
fn program_of(program: &[libc::sock_filter]) -> libc::sock_fprog {
    libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() }
}

/// The end of a program: keep this many octets.
fn keep(octets: u32) -> libc::sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, octets, 0, 0)
}
