//! The output of readers of capture files: a packet as in the file, or why the packets end.

use crate::packet::{Frame, LinkType};
use thiserror::Error;

/// A packet as it is in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawPacket<'a> {
    /// Time, ns from the Unix epoch.
    pub time_ns: i64,
    /// The link type's number.
    pub link: u32,
    /// The octets captured.
    pub data: &'a [u8],
    /// Octets on the wire, as the file states them.
    pub length: u32,
}

impl<'a> RawPacket<'a> {
    /// The packet as a frame that arrived at `time_ns`, ns from the Unix epoch.
    #[inline]
    pub(super) fn frame(self, time_ns: i64) -> Frame<'a> {
        Frame {
            time_ns,
            link: LinkType::from_number(self.link).unwrap_or(LinkType::Unknown),
            data: self.data,
            length: self.length,
            vlan: None,
        }
    }
}

/// Where and why the packets of a file end early.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Broken {
    /// The file ends within a packet.
    #[error("it is cut in mid-packet at octet {at}")]
    Cut {
        /// Where that packet begins.
        at: usize,
    },
    /// The file is malformed.
    #[error("it holds {what} at octet {at}")]
    Nonsense { at: usize, what: &'static str },
    /// The compressed file ends early, or is damaged.
    #[error("its compressed data is cut short or damaged, after {at} octets of content")]
    Compression {
        /// Octets decompressed.
        at: usize,
    },
    /// Reading fails.
    #[error("reading it fails after {at} octets: {kind}")]
    Unreadable {
        /// Octets read.
        at: usize,
        /// The system's error.
        kind: std::io::ErrorKind,
    },
    /// The compressed file contains more than the agent reads.
    #[error("it holds more than {at} octets, the maximum for a compressed file")]
    TooLong {
        /// Octets decompressed.
        at: usize,
    },
}

impl Broken {
    /// The same error, shifted by the octets before this part.
    pub(super) fn after(self, octets: usize) -> Broken {
        let mut moved = self;
        match &mut moved {
            Broken::Cut { at }
            | Broken::Nonsense { at, .. }
            | Broken::Compression { at }
            | Broken::Unreadable { at, .. }
            | Broken::TooLong { at } => *at += octets,
        }
        moved
    }
}
