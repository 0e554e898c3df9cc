//! Frames through a packet socket, which every kernel and interface has: about half a million a second.

use super::BlastArgs;
use super::{BlastSent, Frames};
use anyhow::Context as _;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::time::{Duration, Instant};
use weir_probe::Failure;
use weir_probe::source::interface::Interface;

/// Frames per system call.
const BATCH: usize = 64;

/// Sends frames at the configured rate until the time or the number of packets is reached.
pub(super) fn send(interface: &Interface, frames: &Frames, args: &BlastArgs) -> Result<BlastSent, Failure> {
    let socket = open(interface).with_context(|| format!("{}: cannot send", interface.name)).map_err(Failure::start)?;
    let mut octets = frames.template.repeat(BATCH);
    let (started, length) = (Instant::now(), Duration::from_secs_f64(args.seconds));
    let mut sent = BlastSent { packets: 0, elapsed: Duration::ZERO };
    while sent.packets < args.packets && sent.elapsed < length {
        if let Some(rate) = args.rate {
            let due = Duration::from_secs_f64(sent.packets as f64 / rate);
            std::thread::sleep(due.saturating_sub(sent.elapsed));
        }
        let count = usize::try_from(args.packets - sent.packets).unwrap_or(BATCH).min(BATCH);
        for (number, frame) in (sent.packets as u32..).zip(octets.chunks_exact_mut(frames.template.len())).take(count) {
            frames.number(number, frame);
        }
        sent.packets += send_batch(&socket, &mut octets, frames.template.len(), count)? as u64;
        sent.elapsed = started.elapsed();
    }
    Ok(sent)
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

/// Sends the first `count` frames, of `size` octets each; returns how many it sent: at least one, unless the queue is
/// full.
fn send_batch(socket: &OwnedFd, octets: &mut [u8], size: usize, count: usize) -> io::Result<usize> {
    let mut vectors: [libc::iovec; BATCH] =
        std::array::from_fn(|_| libc::iovec { iov_base: std::ptr::null_mut(), iov_len: size });
    for (vector, frame) in vectors.iter_mut().zip(octets.chunks_exact_mut(size)) {
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
