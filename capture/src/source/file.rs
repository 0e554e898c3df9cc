//! Capture files: opens them, detects their format, and surveys them once.

use super::pcap::PcapReader;
use super::pcapng::PcapngReader;
use super::raw::{Broken, RawPacket};
use crate::packet::LinkType;
use flate2::read::MultiGzDecoder;
use memmap2::Mmap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Maximum octets of a decompressed file, which stays in memory.
const MAX_DECOMPRESSED: u64 = 16 << 30;

/// Why a file cannot be read at all: one clear line.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The operating system refuses.
    #[error("cannot read {path}: {error}")]
    Unreadable {
        path: PathBuf,
        /// The error of the system call.
        error: std::io::Error,
    },
    #[error("{0} is empty: no capture file")]
    Empty(PathBuf),
    /// Neither pcap nor pcapng.
    #[error("{0} is neither a pcap nor a pcapng file (nor such a file compressed with gzip)")]
    Format(PathBuf),
    /// Packets of an unsupported link type.
    #[error("{path} contains packets of the unsupported link type {name}")]
    LinkType {
        path: PathBuf,
        /// The link type's number, with its name where known.
        name: String,
    },
}

enum Octets {
    Mapped(Mmap),
    Owned(Vec<u8>),
}

/// A surveyed capture file.
pub struct CaptureFile {
    /// Its path.
    pub path: PathBuf,
    octets: Octets,
    pub survey: Survey,
    /// The compressed file ends early.
    reader: Reader,
}

/// The survey of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    pub packets: u64,
    /// Time of the first one in the file, ns.
    pub first_ns: i64,
    /// The latest time, ns.
    pub last_ns: i64,
    /// Why the packets end early, if they do.
    pub broken: Option<Broken>,
}

/// Reads packets in the order of the file.
#[derive(Clone, Debug)]
pub enum Reader {
    /// A pcap file.
    Pcap(PcapReader),
    /// A pcapng file.
    Pcapng(PcapngReader),
}

impl Reader {
    pub(super) fn new(octets: &[u8]) -> Option<Reader> {
        PcapReader::new(octets).map(Reader::Pcap).or_else(|| PcapngReader::new(octets).map(Reader::Pcapng))
    }

    /// The next packet; `Ok(None)` at the end.
    ///
    /// # Errors
    /// If the file ends within a packet, or is malformed.
    #[inline]
    pub fn next<'a>(&mut self, octets: &'a [u8]) -> Result<Option<RawPacket<'a>>, Broken> {
        match self {
            Reader::Pcap(reader) => reader.next(octets),
            Reader::Pcapng(reader) => reader.next(octets),
        }
    }

    /// Octets read so far.
    pub fn offset(&self) -> usize {
        match self {
            Reader::Pcap(reader) => reader.offset(),
            Reader::Pcapng(reader) => reader.offset(),
        }
    }

    /// Announces that the next call gets the octets without the first `read` ones.
    pub(super) fn rewind(&mut self, octets: usize) {
        match self {
            Reader::Pcap(reader) => reader.rewind(octets),
            Reader::Pcapng(reader) => reader.rewind(octets),
        }
    }
}

impl CaptureFile {
    /// Opens and surveys a file.
    ///
    /// # Errors
    /// If it cannot be read at all. A truncated file is not an error: see [`Survey::broken`].
    pub fn open(path: &Path) -> Result<CaptureFile, OpenError> {
        let unreadable = |error| OpenError::Unreadable { path: path.to_owned(), error };
        let octets = load(path).map_err(unreadable)?;
        CaptureFile::look_through(path, octets)
    }

    /// Surveys a file in memory; `path` is for messages.
    ///
    /// # Errors
    /// As [`CaptureFile::open`].
    pub fn from_octets(path: &Path, octets: Vec<u8>) -> Result<CaptureFile, OpenError> {
        CaptureFile::look_through(path, Octets::Owned(octets))
    }

    fn look_through(path: &Path, octets: Octets) -> Result<CaptureFile, OpenError> {
        if octets.is_empty() {
            return Err(OpenError::Empty(path.to_owned()));
        }
        let (octets, damage) = match octets.starts_with(&[0x1f, 0x8b]) {
            true => {
                let (plain, damage) = decompress(&octets, MAX_DECOMPRESSED)
                    .map_err(|error| OpenError::Unreadable { path: path.to_owned(), error })?;
                (Octets::Owned(plain), damage)
            }
            false => (octets, None),
        };
        let reader = Reader::new(&octets).ok_or_else(|| OpenError::Format(path.to_owned()))?;
        let mut survey = survey(path, reader.clone(), &octets)?;
        survey.broken = damage.or(survey.broken);
        Ok(CaptureFile { path: path.to_owned(), octets, survey, reader })
    }

    /// A reader at the file's first packet, for [`CaptureFile::octets`].
    pub fn reader(&self) -> Reader {
        self.reader.clone()
    }

    /// The file's octets, decompressed.
    pub fn octets(&self) -> &[u8] {
        &self.octets
    }
}

impl std::ops::Deref for Octets {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Octets::Mapped(map) => map,
            Octets::Owned(octets) => octets,
        }
    }
}

fn load(path: &Path) -> std::io::Result<Octets> {
    let mut file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() && metadata.len() > 0 {
        // SAFETY: the map is only read. A process that truncates a file while it is read causes the SIGBUS that any reader of
        // mapped files gets; no memory of ours is aliased.
        let map = unsafe { Mmap::map(&file)? };
        // Advice only: reading works without it.
        let _ = map.advise(memmap2::Advice::Sequential);
        return Ok(Octets::Mapped(map));
    }
    let mut octets = Vec::new();
    file.read_to_end(&mut octets)?;
    Ok(Octets::Owned(octets))
}

/// The content of a compressed file, and why it ends early, if it does; the content before that point is kept.
fn decompress(octets: &[u8], limit: u64) -> std::io::Result<(Vec<u8>, Option<Broken>)> {
    let mut plain = Vec::new();
    let mut decoder = MultiGzDecoder::new(octets);
    let damage = match decoder.by_ref().take(limit).read_to_end(&mut plain) {
        Err(error) if plain.is_empty() => return Err(error),
        Err(_) => Some(Broken::Compression { at: plain.len() }),
        // The checksum follows the last octet, so reading must go past it in any case.
        Ok(_) => match decoder.read(&mut [0]) {
            Ok(0) => None,
            Ok(_) => Some(Broken::TooLong { at: plain.len() }),
            Err(_) => Some(Broken::Compression { at: plain.len() }),
        },
    };
    Ok((plain, damage))
}

/// Counts the packets, finds the first and the latest time and whether any packet can be understood.
fn survey(path: &Path, mut reader: Reader, octets: &[u8]) -> Result<Survey, OpenError> {
    let mut survey = Survey { last_ns: i64::MIN, ..Survey::default() };
    let mut strange = None;
    let mut understood = false;
    loop {
        match reader.next(octets) {
            Ok(Some(packet)) => {
                if survey.packets == 0 {
                    survey.first_ns = packet.time_ns;
                }
                survey.packets += 1;
                survey.last_ns = survey.last_ns.max(packet.time_ns);
                match LinkType::from_number(packet.link) {
                    Some(_) => understood = true,
                    None => strange = Some(packet.link),
                }
            }
            Ok(None) => break,
            Err(broken) => {
                survey.broken = Some(broken);
                break;
            }
        }
    }
    if survey.packets == 0 {
        survey.last_ns = 0;
        strange = match &reader {
            Reader::Pcap(reader) => Some(reader.link).filter(|&link| LinkType::from_number(link).is_none()),
            Reader::Pcapng(reader) => reader.links().find(|&link| LinkType::from_number(link).is_none()),
        };
    }
    match strange {
        Some(link) if !understood => Err(OpenError::LinkType { path: path.to_owned(), name: LinkType::name(link) }),
        _ => Ok(survey),
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
