//! pcap files (draft-ietf-opsawg-pcap), of either byte order, in micro- or nanoseconds, and Kuznetsov's variant.

use super::raw::{Broken, RawPacket};
use crate::prefetch::prefetch_octets;

/// A longer packet record cannot be a packet: the file is damaged there.
pub(super) const MAX_CAPTURED: u32 = 1 << 24;

/// Prefetch distance ahead of the current packet, octets.
const AHEAD: usize = 2048;

/// Reads the packets of one pcap file; every call takes the file's octets.
#[derive(Clone, Debug)]
pub struct PcapReader {
    offset: usize,
    order: Order,
    unit_ns: i64,
    record_header: usize,
    swapped_lengths: bool,
    /// The link type's number.
    pub link: u32,
}

/// Byte order of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Big,
    Little,
}

impl Order {
    pub(super) fn u16(self, data: &[u8], at: usize) -> Option<u16> {
        let octets = data.get(at..at + 2)?.try_into().ok()?;
        Some(match self {
            Order::Big => u16::from_be_bytes(octets),
            Order::Little => u16::from_le_bytes(octets),
        })
    }

    pub(super) fn u32(self, data: &[u8], at: usize) -> Option<u32> {
        let octets = data.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(match self {
            Order::Big => u32::from_be_bytes(octets),
            Order::Little => u32::from_le_bytes(octets),
        })
    }

    /// The four numbers of a record's header: read in one order and swapped at once, each is a single load.
    fn words(self, octets: &[u8; 16]) -> [u32; 4] {
        let read = |at: usize| u32::from_le_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]]);
        let words = [read(0), read(4), read(8), read(12)];
        match self {
            Order::Little => words,
            Order::Big => words.map(u32::swap_bytes),
        }
    }
}

impl PcapReader {
    /// Reads the file header; `None` if this is not a pcap file.
    pub fn new(file: &[u8]) -> Option<PcapReader> {
        let (order, unit_ns, record_header) = match file.get(..4)? {
            [0xa1, 0xb2, 0xc3, 0xd4] => (Order::Big, 1000, 16),
            [0xd4, 0xc3, 0xb2, 0xa1] => (Order::Little, 1000, 16),
            [0xa1, 0xb2, 0x3c, 0x4d] => (Order::Big, 1, 16),
            [0x4d, 0x3c, 0xb2, 0xa1] => (Order::Little, 1, 16),
            [0xa1, 0xb2, 0xcd, 0x34] => (Order::Big, 1000, 24),
            [0x34, 0xcd, 0xb2, 0xa1] => (Order::Little, 1000, 24),
            _ => return None,
        };
        let (major, minor) = (order.u16(file, 4)?, order.u16(file, 6)?);
        // The upper bits may tell the length of the frame check sequence.
        let link = order.u32(file, 20)? & 0x03ff_ffff;
        // Files older than version 2.3, and those of Digital Unix, store the two lengths in the other order.
        let swapped_lengths = (major, minor) < (2, 3) || major == 543;
        Some(PcapReader { offset: 24, order, unit_ns, record_header, swapped_lengths, link })
    }

    /// The next packet; `Ok(None)` at the end.
    ///
    /// # Errors
    /// If the file ends within a packet, or is malformed.
    #[inline]
    pub fn next<'a>(&mut self, file: &'a [u8]) -> Result<Option<RawPacket<'a>>, Broken> {
        let at = self.offset;
        let rest = file.get(at..).unwrap_or(&[]);
        if rest.is_empty() {
            return Ok(None);
        }
        let header: &[u8; 16] = rest.first_chunk().ok_or(Broken::Cut { at })?;
        let [seconds, fraction, mut captured, mut length] = self.order.words(header);
        if self.swapped_lengths {
            (captured, length) = (length, captured);
        }
        if captured > MAX_CAPTURED {
            return Err(Broken::Nonsense { at, what: "a packet with an impossible length" });
        }
        let end = self.record_header + captured as usize;
        let data = rest.get(self.record_header..end).ok_or(Broken::Cut { at })?;
        self.offset = at + end;
        // Packets are rarely in the cache, so prefetch the memory of a later packet now.
        prefetch_octets(rest.as_ptr().wrapping_add(end + AHEAD));
        let time_ns = i64::from(seconds) * 1_000_000_000 + i64::from(fraction) * self.unit_ns;
        Ok(Some(RawPacket { time_ns, link: self.link, data, length }))
    }

    /// Octets read so far.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Announces that the next call gets the octets without the first `read` ones.
    pub(super) fn rewind(&mut self, octets: usize) {
        self.offset -= octets;
    }
}
