//! `weir-probe blast`: UDP packets or SYNs on an interface, as fast as one thread sends or at a rate, to measure capture.
//!
//! Frames go to a station that is nobody, so that the receiver's own stack answers none of them.

use crate::cli::BlastArgs;
use crate::source::interface::Interface;
use crate::source::netns;
use crate::{Exit, Failure};
use anyhow::Context as _;
use serde_json::json;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

/// Frames of one system call.
const BATCH: usize = 64;
/// Octets of the frame check sequence, which counts in a frame's length but is not sent.
const FCS: u16 = 4;
/// Where the fields are that differ from frame to frame: Ethernet 14, IPv4 20 octets.
const SOURCE: usize = 14 + 12;
const DESTINATION: usize = 14 + 16;
const SOURCE_PORT: usize = 14 + 20;
/// Networks of the addresses: 10.0.0.0/8, and 198.18.0.0/15, which RFC 2544 sets aside for benchmarks.
const SOURCES: u32 = 0x0a00_0000;
const DESTINATIONS: u32 = 0xc612_0000;

/// Sends, and prints one JSON object: how many packets in how many seconds.
///
/// # Errors
/// [`Exit::CannotStart`] where the interface cannot be sent on, [`Exit::Failed`] where sending ends early.
pub fn blast(args: &BlastArgs) -> Result<Exit, Failure> {
    let inside = netns::enter(&args.netns).map_err(Failure::start)?;
    let interface = Interface::find(&args.interface).map_err(Failure::start)?;
    let socket =
        open(&interface).with_context(|| format!("{}: cannot send", args.interface)).map_err(Failure::start)?;
    drop(inside);
    let mut frames = Frames::new(args);
    let (started, length) = (Instant::now(), Duration::from_secs_f64(args.seconds));
    let mut sent = 0;
    let mut elapsed = Duration::ZERO;
    while sent < args.packets && elapsed < length {
        if let Some(rate) = args.rate {
            let due = Duration::from_secs_f64(sent as f64 / rate);
            std::thread::sleep(due.saturating_sub(elapsed));
        }
        let count = usize::try_from(args.packets - sent).unwrap_or(BATCH).min(BATCH);
        sent += frames.send(&socket, sent, count)? as u64;
        elapsed = started.elapsed();
    }
    let seconds = elapsed.as_secs_f64();
    println!("{}", json!({"packets": sent, "seconds": seconds, "packets_per_second": sent as f64 / seconds}));
    Ok(Exit::Done)
}

/// A packet socket that is bound to the interface, receives nothing, and sends past the queueing discipline.
fn open(interface: &Interface) -> io::Result<OwnedFd> {
    // SAFETY: plain call; a descriptor that is not negative is ours alone.
    let socket = unsafe {
        match libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) {
            fd if fd < 0 => return Err(io::Error::last_os_error()),
            fd => OwnedFd::from_raw_fd(fd),
        }
    };
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: 0,
        sll_ifindex: interface.index,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let bypass: libc::c_int = 1;
    // SAFETY: both calls read one value of the size given.
    let done = unsafe {
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size_of_val(&address) as u32) == 0
            && libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_QDISC_BYPASS,
                (&raw const bypass).cast(),
                size_of_val(&bypass) as u32,
            ) == 0
    };
    if done { Ok(socket) } else { Err(io::Error::last_os_error()) }
}

/// The frames of one system call, made once; only addresses and port change.
struct Frames {
    octets: Vec<u8>,
    size: usize,
    sources: u32,
    destinations: u32,
}

impl Frames {
    fn new(args: &BlastArgs) -> Frames {
        let size = usize::from(args.octets - FCS);
        let ip_length = (size - 14) as u16;
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0, 0x45, 0];
        frame.extend(ip_length.to_be_bytes());
        frame.extend([0, 1, 0x40, 0, 64, if args.syn { 6 } else { 17 }, 0, 0]);
        frame.extend([0; 8]);
        frame.extend([4, 0, 0, 80]);
        if args.syn {
            frame.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0]);
        } else {
            frame.extend((ip_length - 20).to_be_bytes());
            frame.extend([0, 0]);
        }
        frame.resize(size, 0);
        Frames { octets: frame.repeat(BATCH), size, sources: args.sources, destinations: args.destinations }
    }

    /// Sends the frames from number `first` on; how many were sent: at least one, except where the queue is full.
    fn send(&mut self, socket: &OwnedFd, first: u64, count: usize) -> io::Result<usize> {
        for (number, frame) in (first as u32..).zip(self.octets.chunks_exact_mut(self.size)).take(count) {
            // Odd factors spread the numbers without two becoming one. The low octet is the port's.
            let source =
                if self.sources == 0 { number.wrapping_mul(0x9e37_79b1) } else { (number % self.sources) << 8 };
            let destination = DESTINATIONS + number % self.destinations;
            frame[SOURCE..SOURCE + 4].copy_from_slice(&(SOURCES | source >> 8).to_be_bytes());
            frame[DESTINATION..DESTINATION + 4].copy_from_slice(&destination.to_be_bytes());
            frame[SOURCE_PORT + 1] = source as u8;
        }
        let mut vectors: [libc::iovec; BATCH] =
            std::array::from_fn(|_| libc::iovec { iov_base: std::ptr::null_mut(), iov_len: self.size });
        for (vector, frame) in vectors.iter_mut().zip(self.octets.chunks_exact_mut(self.size)) {
            vector.iov_base = frame.as_mut_ptr().cast();
        }
        let mut messages: [libc::mmsghdr; BATCH] = std::array::from_fn(|number| {
            // SAFETY: mmsghdr is plain old data; all zeros is an empty message.
            let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
            message.msg_hdr.msg_iov = &raw mut vectors[number];
            message.msg_hdr.msg_iovlen = 1;
            message
        });
        // SAFETY: `count` messages, each of one frame; all of them outlive the call.
        let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), count as u32, 0) };
        usize::try_from(sent).or_else(|_| match io::Error::last_os_error() {
            error if matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::EAGAIN | libc::EINTR)) => Ok(0),
            error => Err(error),
        })
    }
}
