//! Where packets come from: capture files and live interfaces.
//!
//! A [`Source`] belongs to one worker. It hands over frames by reference and counts what the worker never sees.

pub mod af_packet;
pub mod af_xdp;
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
pub mod stream;
pub mod xdp;

use crate::packet::{BATCH, Frame};
use crate::prefetch::prefetch_octets;
use arrayvec::ArrayVec;
use std::time::Duration;

/// What a call of [`Source::poll`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polled {
    /// Some packets were handed over; there may be more.
    Packets,
    /// There are none for now.
    Idle,
    /// There will be none any more.
    End,
}

/// Whether the receiver of frames wants more at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Go on.
    More,
    /// Return from [`Source::poll`] first; nothing is lost.
    Pause,
}

/// Frames that wait to be handed over together.
struct Batch<'a>(ArrayVec<Frame<'a>, BATCH>);

impl<'a> Batch<'a> {
    fn new() -> Batch<'a> {
        Batch(ArrayVec::new())
    }

    /// Adds a frame; true where there is no room for another one.
    #[inline]
    fn push(&mut self, frame: Frame<'a>) -> bool {
        // Headers are read when the batch is full: their memory comes meanwhile.
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

/// What a source knows beside the packets it handed over, since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Witness {
    /// Packets that the interface offered to this worker, dropped ones included.
    pub offered: u64,
    /// Of those, packets that the kernel or the network card dropped because the ring was full.
    pub dropped: u64,
}

/// A worker's packets.
#[warn(missing_docs)]
pub trait Source {
    /// Hands packets to `take`, at most [`BATCH`] at once: those that are there, up to a fair number, or until `take`
    /// pauses. Waits up to `patience` for the first one.
    ///
    /// # Errors
    /// Where the source broke in a way that time may mend; the caller says so and calls again. `ENODEV`: where its
    /// interface is gone for good; the caller stops it.
    fn poll(&mut self, patience: Duration, take: &mut impl FnMut(&[Frame<'_>]) -> Next) -> std::io::Result<Polled>;

    /// The time up to which every packet was handed over when [`Polled::Idle`] was said, ns from the Unix epoch; `None`
    /// where only packets tell the time.
    fn now_ns(&self) -> Option<i64>;

    /// The source's own count; `None` where it has none and what was handed over is all there was.
    fn witness(&mut self) -> Option<Witness>;

    /// Takes no new packets from now on; those that wait are still handed over, then [`Polled::Idle`] or
    /// [`Polled::End`] is said. False where new packets may come all the same.
    fn stop(&mut self) -> bool;
}
