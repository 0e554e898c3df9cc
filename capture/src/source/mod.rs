//! Where packets come from: capture files and live interfaces.
//!
//! A [`Source`] belongs to one worker. It passes frames on by reference, and counts packets that the worker never sees.

pub mod af_packet;
pub mod af_xdp;
mod bpf;
pub mod config;
pub mod ethtool;
mod fanout;
pub mod file;
pub mod interface;
pub mod live;
pub mod netdev;
pub mod netns;
pub mod offload;
pub mod pcap;
pub mod pcapng;
pub mod pf_ring;
pub mod raw;
pub mod replay;
mod snap;
pub mod stream;
pub mod xdp;

use crate::packet::{BATCH, Frame};
use crate::prefetch::prefetch_octets;
use arrayvec::ArrayVec;
use std::time::Duration;

/// The result of a call of [`Source::poll`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polled {
    /// It passed packets on; there may be more.
    Packets,
    /// No packets for now.
    Idle,
    /// No further packets, ever.
    End,
}

/// Whether the receiver of frames wants more now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Go on.
    More,
    /// Return from [`Source::poll`] first; nothing is lost.
    Pause,
}

/// Frames that wait to be passed on together.
struct Batch<'a>(ArrayVec<Frame<'a>, BATCH>);

impl<'a> Batch<'a> {
    fn new() -> Batch<'a> {
        Batch(ArrayVec::new())
    }

    /// Adds a frame; returns whether the batch is full.
    #[inline]
    fn push(&mut self, frame: Frame<'a>) -> bool {
        // Headers are read when the batch is full; meanwhile the processor fetches their memory.
        prefetch_octets(frame.data.as_ptr());
        prefetch_octets(frame.data.as_ptr().wrapping_add(64));
        self.0.push(frame);
        self.0.is_full()
    }

    #[inline]
    fn hand_over(&mut self, take: &mut impl FnMut(&[Frame<'_>]) -> Next) -> Next {
        if self.0.is_empty() {
            return Next::More;
        }
        let next = take(&self.0);
        self.0.clear();
        next
    }
}

/// A source's own counters since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Witness {
    /// Packets that the interface offered to this worker, dropped ones included.
    pub offered: u64,
    /// The part of `offered` that the kernel or the network card dropped because the ring was full.
    pub dropped: u64,
}

/// A worker's packets.
#[warn(missing_docs)]
pub trait Source {
    /// Passes waiting packets to `take`, at most [`BATCH`] at a time, up to a limit per call or until `take` pauses.
    /// Waits up to `patience` for the first one.
    ///
    /// # Errors If the source failed, perhaps temporarily; the caller logs it and calls again. `ENODEV`: if its
    /// interface is gone for good; the caller stops it.
    fn poll(&mut self, patience: Duration, take: &mut impl FnMut(&[Frame<'_>]) -> Next) -> std::io::Result<Polled>;

    /// The time up to which every packet had been passed on at the last [`Polled::Idle`], ns from the Unix epoch;
    /// `None` if only packets carry the time.
    fn now_ns(&self) -> Option<i64>;

    /// The source's own counters; `None` if it has none, because it passes on all packets.
    fn witness(&mut self) -> Option<Witness>;

    /// Admits no new packets from now on; `poll` then passes on the waiting ones and returns [`Polled::Idle`] or
    /// [`Polled::End`]. False if new packets may still arrive.
    fn stop(&mut self) -> bool;
}
