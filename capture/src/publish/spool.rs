//! Messages on disk, in order, while Kafka does not accept them.
//!
//! A spool is a folder of segments: files named by rising numbers, each of a header and of frames. A frame is the
//! length of its body and the CRC-32 (ISO 3309) of it, both 32 bits, little endian; the body is the topic (8 bits), the
//! partition (32 bits) and the message. A segment whose messages are all acknowledged is deleted. Messages that were
//! read but not acknowledged survive a crash and are read again: readers drop repeats by their sequence.
//!
//! Beyond its bound a spool drops its oldest segment: the rest has no gap up to now, and closing records, which state
//! sums since the start of an epoch, still show how much is missing.
//!
//! If the process is killed, no message that [`Spool::push`] accepted is lost: the system has it by then. If the host
//! itself fails, messages since the last [`Spool::sync`] may be missing, and the checksum exposes a frame that was cut
//! off. Recovery keeps every whole frame, counts the broken ones between them, and deletes no file that may hold any.

use super::disk;
use super::topic::{Topic, TopicMessage};
use anyhow::{Context as _, bail};
use flate2::Crc;
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// The head of a segment: the format and its version.
const HEADER: [u8; 8] = *b"WEIRSPL1";
/// Length of a frame's header, which precedes the body, in octets.
const FRAME_HEADER: usize = 8;
/// Length of a body's header, which precedes the message, in octets.
const BODY_HEADER: usize = 5;
/// Maximum length of a body: Kafka accepts no longer message either.
const MAX_BODY: usize = 64 << 20;
/// Maximum octets of a segment; then a new one begins.
const SEGMENT_OCTETS: u64 = 16 << 20;
/// Minimum number of segments in a full spool, so that it drops little at a time.
const LEAST_SEGMENTS: u64 = 8;
/// Number of a spool's first segment: there is room for others before it.
const FIRST: u64 = 1 << 32;
const EXTENSION: &str = "spool";

/// The directory of a spool and its maximum size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolOptions {
    /// The folder, which no other agent uses.
    pub folder: PathBuf,
    /// Octets of all segments together.
    pub max_octets: u64,
}

/// The position of a message in a spool. Positions are ordered as the messages are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SpoolPlace {
    segment: u64,
    index: u64,
}

/// Messages, and octets of their segments' frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) messages: u64,
    pub(super) octets: u64,
}

impl std::ops::AddAssign for Amount {
    fn add_assign(&mut self, other: Amount) {
        self.messages += other.messages;
        self.octets += other.octets;
    }
}

struct Segment {
    number: u64,
    /// Octets of whole frames and of the header.
    octets: u64,
    messages: u64,
    /// Number of messages read, and the offset of the next one.
    read: u64,
    read_at: u64,
    acknowledged: u64,
    /// Where stretches without a whole frame begin and end, between whole frames.
    holes: Vec<(u64, u64)>,
}

impl Segment {
    fn new(number: u64) -> Segment {
        let start = HEADER.len() as u64;
        Segment { number, octets: start, messages: 0, read: 0, read_at: start, acknowledged: 0, holes: Vec::new() }
    }

    /// Advances to the next whole frame.
    fn pass_hole(&mut self) {
        let hole = self.holes.iter().find(|(begin, _)| *begin == self.read_at);
        self.read_at = hole.map_or(self.read_at, |(_, end)| *end);
    }

    /// The loss when this segment is dropped: messages not yet acknowledged.
    fn left(&self) -> Amount {
        Amount { messages: self.messages - self.acknowledged, octets: self.octets - HEADER.len() as u64 }
    }
}

/// A queue of messages on disk.
pub(super) struct Spool {
    options: SpoolOptions,
    /// The lock, held while the spool is open.
    _lock: File,
    segments: VecDeque<Segment>,
    /// Number of the next segment: none is used twice.
    next_number: u64,
    /// The last segment, if it may still grow.
    writer: Option<File>,
    reader: Option<(u64, File)>,
    octets: u64,
    unread: u64,
    dirty: bool,
    frame: Vec<u8>,
    /// Frames of an earlier run that were broken when the spool was opened.
    broken: Amount,
}

impl Spool {
    /// Opens a folder, creating it if missing, with the messages that an earlier run left in it; it truncates torn
    /// tails.
    ///
    /// # Errors
    /// If the folder cannot be used, or another process uses it.
    pub(super) fn open(options: SpoolOptions) -> anyhow::Result<Spool> {
        let folder = &options.folder;
        fs::create_dir_all(folder).with_context(|| format!("cannot create the spool's folder {}", folder.display()))?;
        let path = folder.join("lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let lock = lock.with_context(|| format!("cannot write {}", path.display()))?;
        // SAFETY: the file is open while the call lasts.
        if unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::WouldBlock {
                bail!("another agent uses the spool {}", folder.display());
            }
            return Err(error).context(format!("cannot lock {}", path.display()));
        }
        let mut spool = Spool {
            _lock: lock,
            segments: VecDeque::new(),
            next_number: FIRST,
            writer: None,
            reader: None,
            octets: 0,
            unread: 0,
            dirty: false,
            frame: Vec::new(),
            broken: Amount::default(),
            options,
        };
        spool.recover().with_context(|| format!("cannot read the spool {}", spool.options.folder.display()))?;
        Ok(spool)
    }

    fn recover(&mut self) -> io::Result<()> {
        let mut numbers: Vec<u64> =
            fs::read_dir(&self.options.folder)?.filter_map(|entry| number_of(&entry.ok()?.path())).collect();
        numbers.sort_unstable();
        for number in numbers {
            let path = self.path(number);
            self.next_number = self.next_number.max(number + 1);
            let Scanned { segment, broken, length, known } = match scan(&path, number) {
                Ok(scanned) => scanned,
                Err(error) => {
                    tracing::error!("{}: {error}: left as it is, for a run that can read it", path.display());
                    continue;
                }
            };
            self.broken += broken;
            if segment.messages == 0 && (broken.messages > 0 || !known) {
                let kept = path.with_extension("broken");
                tracing::error!("{}: contains no whole message; renamed to {}", path.display(), kept.display());
                fs::rename(&path, &kept)?;
                continue;
            }
            if segment.messages == 0 {
                tracing::warn!("{}: deleted, because its {length} octets contain no whole message", path.display());
                disk::remove(&path)?;
                continue;
            }
            if segment.octets < length {
                let torn = length - segment.octets;
                tracing::warn!("{}: truncated, because its last {torn} octets are not a whole message", path.display());
                disk::truncate(&OpenOptions::new().write(true).open(&path)?, segment.octets)?;
            }
            self.octets += segment.octets;
            self.unread += segment.messages;
            self.segments.push_back(segment);
        }
        Ok(())
    }

    pub(super) fn octets(&self) -> u64 {
        self.octets
    }

    /// Messages of an earlier run that could not be read.
    pub(super) fn broken(&self) -> Amount {
        self.broken
    }

    /// Messages not read yet.
    pub(super) fn unread(&self) -> u64 {
        self.unread
    }

    /// Whether every message was acknowledged.
    pub(super) fn is_empty(&self) -> bool {
        self.segments.iter().all(|segment| segment.acknowledged == segment.messages)
    }

    /// Appends a message; adds the messages dropped to make room to `shed`.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn push(&mut self, message: &TopicMessage, shed: &mut Amount) -> io::Result<()> {
        encode(message, &mut self.frame)?;
        self.make_room(self.frame.len() as u64, shed)?;
        let segment_octets = SEGMENT_OCTETS.min(self.options.max_octets / LEAST_SEGMENTS);
        if self.writer.is_none() || self.segments.back().is_none_or(|last| last.octets >= segment_octets) {
            self.begin()?;
        }
        let (Some(file), Some(last)) = (&self.writer, self.segments.back_mut()) else {
            return Err(io::Error::other("no segment is open"));
        };
        if let Err(error) = disk::write(file, &self.frame, last.octets) {
            // Cut off the part that was written; if that fails, the next message overwrites it.
            let _ = disk::truncate(file, last.octets);
            return Err(error);
        }
        last.octets += self.frame.len() as u64;
        last.messages += 1;
        self.octets += self.frame.len() as u64;
        self.unread += 1;
        self.dirty = true;
        Ok(())
    }

    /// Puts messages before all others, in their order.
    ///
    /// # Errors
    /// If they cannot be written; the spool then keeps none.
    pub(super) fn prepend<'a>(&mut self, messages: impl Iterator<Item = &'a TopicMessage>) -> io::Result<()> {
        let number = self.segments.front().map_or(self.next_number, |first| first.number) - 1;
        let path = self.path(number);
        let write = |frame: &mut Vec<u8>| {
            let file = disk::create(&path)?;
            disk::write(&file, &HEADER, 0)?;
            let mut segment = Segment::new(number);
            for message in messages {
                encode(message, frame)?;
                disk::write(&file, frame, segment.octets)?;
                segment.octets += frame.len() as u64;
                segment.messages += 1;
            }
            disk::sync(&file)?;
            Ok(segment)
        };
        let segment = write(&mut self.frame).inspect_err(|_: &io::Error| {
            let _ = disk::remove(&path);
        })?;
        self.octets += segment.octets;
        self.unread += segment.messages;
        self.segments.push_front(segment);
        self.sync_folder()
    }

    /// Drops the oldest segments that are not being read until `more` octets fit.
    fn make_room(&mut self, more: u64, shed: &mut Amount) -> io::Result<()> {
        while self.octets + more > self.options.max_octets {
            let idle = self.segments.iter().position(|segment| segment.read == segment.acknowledged);
            let Some(oldest) = idle else { break };
            if oldest + 1 == self.segments.len() {
                self.writer = None;
            }
            disk::remove(&self.path(self.segments[oldest].number))?;
            self.reader = None;
            let Some(segment) = self.segments.remove(oldest) else { break };
            self.octets -= segment.octets;
            self.unread -= segment.messages - segment.read;
            *shed += segment.left();
        }
        Ok(())
    }

    /// Begins a segment.
    fn begin(&mut self) -> io::Result<()> {
        self.sync()?;
        let number = self.next_number;
        let path = self.path(number);
        let file = disk::create(&path)?;
        if let Err(error) = disk::write(&file, &HEADER, 0) {
            let _ = disk::remove(&path);
            return Err(error);
        }
        self.next_number += 1;
        self.writer = Some(file);
        let segment = Segment::new(number);
        self.octets += segment.octets;
        self.segments.push_back(segment);
        self.sync_folder()
    }

    /// The oldest unread message; `None` if all were read. Passes over frames that have become broken, and over the rest
    /// of a segment that it cannot read; adds both to `shed`.
    pub(super) fn next(&mut self, shed: &mut Amount) -> Option<(SpoolPlace, TopicMessage)> {
        while let Some(at) = self.segments.iter().position(|segment| segment.read < segment.messages) {
            match self.read(at) {
                Ok(found) => return Some(found),
                Err(error) => {
                    let number = self.segments[at].number;
                    let path = self.path(number);
                    let known = &mut self.segments[at];
                    if let Ok(Scanned { segment, .. }) = scan(&path, number) {
                        if segment.holes.len() > known.holes.len() && segment.octets == known.octets {
                            tracing::error!("{}: {error}: passing over broken messages", path.display());
                            let lost = known.messages - segment.messages;
                            let octets = |of: &Segment| of.holes.iter().map(|(begin, end)| end - begin).sum::<u64>();
                            *shed += Amount { messages: lost, octets: octets(&segment) - octets(known) };
                            known.messages = segment.messages;
                            known.holes = segment.holes;
                            self.unread -= lost;
                            continue;
                        }
                    }
                    tracing::error!("{}: {error}: dropping the rest of the segment", path.display());
                    if at + 1 == self.segments.len() {
                        self.writer = None;
                    }
                    let segment = &mut self.segments[at];
                    let lost = segment.messages - segment.read;
                    *shed += Amount { messages: lost, octets: segment.octets - segment.read_at };
                    segment.messages = segment.read;
                    self.unread -= lost;
                    self.delete_acknowledged();
                }
            }
        }
        None
    }

    fn read(&mut self, at: usize) -> io::Result<(SpoolPlace, TopicMessage)> {
        let number = self.segments[at].number;
        if self.reader.as_ref().is_none_or(|(open, _)| *open != number) {
            self.reader = Some((number, File::open(self.path(number))?));
        }
        let Some((_, file)) = &self.reader else { return Err(io::Error::other("no segment is open")) };
        let segment = &mut self.segments[at];
        segment.pass_hole();
        let mut header = [0; FRAME_HEADER];
        file.read_exact_at(&mut header, segment.read_at)?;
        let (length, checksum) = frame_header(header)?;
        let mut body = vec![0; length];
        file.read_exact_at(&mut body, segment.read_at + FRAME_HEADER as u64)?;
        let message = decode(body, checksum)?;
        let place = SpoolPlace { segment: number, index: segment.read };
        segment.read += 1;
        segment.read_at += (FRAME_HEADER + length) as u64;
        self.unread -= 1;
        Ok((place, message))
    }

    /// Notes that Kafka has a message; deletes finished segments.
    pub(super) fn acknowledge(&mut self, place: SpoolPlace) {
        // A message read twice is acknowledged twice.
        let segment = self.segments.iter_mut().find(|segment| segment.number == place.segment);
        if let Some(segment) = segment.filter(|segment| segment.acknowledged < segment.read) {
            segment.acknowledged += 1;
            self.delete_acknowledged();
        }
    }

    fn delete_acknowledged(&mut self) {
        while let Some(first) = self.segments.front().filter(|first| first.acknowledged == first.messages) {
            // The last one is still written to; a new one begins with the next message.
            let path = self.path(first.number);
            if self.segments.len() == 1 {
                self.writer = None;
                self.dirty = false;
            }
            self.reader = None;
            if let Err(error) = disk::remove(&path) {
                tracing::warn!(
                    "cannot delete {}: {error}; its messages are sent again by the next run",
                    path.display()
                );
            }
            if let Some(segment) = self.segments.pop_front() {
                self.octets -= segment.octets;
            }
        }
    }

    /// Rewinds reading to a message. All messages before it must have been acknowledged; neither it nor a later one may
    /// be in flight.
    pub(super) fn rewind(&mut self, to: SpoolPlace) {
        for segment in &mut self.segments {
            if segment.number < to.segment {
                continue;
            }
            let keep = if segment.number == to.segment { to.index } else { 0 };
            self.unread += segment.read - keep.min(segment.read);
            segment.read = keep.min(segment.read);
            segment.acknowledged = segment.read;
            segment.read_at = HEADER.len() as u64;
        }
        self.reader = None;
        let Some(first) = self.segments.iter().position(|segment| segment.number == to.segment) else { return };
        if let Err(error) = self.skip(first) {
            // Reading hits the same error, logs it and continues after it.
            tracing::debug!("{}: {error}", self.path(to.segment).display());
        }
    }

    /// Finds the start of the next message to read.
    fn skip(&mut self, at: usize) -> io::Result<()> {
        let file = File::open(self.path(self.segments[at].number))?;
        let segment = &mut self.segments[at];
        for _ in 0..segment.read {
            segment.pass_hole();
            let mut header = [0; FRAME_HEADER];
            file.read_exact_at(&mut header, segment.read_at)?;
            segment.read_at += (FRAME_HEADER + frame_header(header)?.0) as u64;
        }
        Ok(())
    }

    /// Makes the system write all messages to the disk.
    ///
    /// # Errors Those of the system.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        if self.dirty {
            if let Some(file) = &self.writer {
                disk::sync(file)?;
            }
            self.dirty = false;
        }
        Ok(())
    }

    fn sync_folder(&self) -> io::Result<()> {
        disk::sync_folder(&self.options.folder)
    }

    fn path(&self, number: u64) -> PathBuf {
        self.options.folder.join(format!("{number:020}.{EXTENSION}"))
    }
}

/// The number of a segment; `None` for another file.
fn number_of(path: &Path) -> Option<u64> {
    (path.extension()? == EXTENSION).then_some(())?;
    path.file_stem()?.to_str()?.parse().ok()
}

/// A segment as it was found on the disk.
struct Scanned {
    segment: Segment,
    /// Messages that are not whole, at least, and their octets.
    broken: Amount,
    /// Length of its file, and whether its header is not one of another format.
    length: u64,
    known: bool,
}

/// Finds a segment's whole frames. The octets after the last one are a torn frame, unless they are as long as their
/// header says.
fn scan(path: &Path, number: u64) -> io::Result<Scanned> {
    let octets = fs::read(path)?;
    let mut segment = Segment::new(number);
    let mut broken = Amount::default();
    let mut at = HEADER.len();
    while at < octets.len() {
        if let Some(end) = whole_frame(&octets, at) {
            (segment.octets, segment.messages) = (end as u64, segment.messages + 1);
            at = end;
            continue;
        }
        let next = (at + 1..octets.len()).find(|&next| whole_frame(&octets, next).is_some());
        let hole = (at as u64, next.unwrap_or(octets.len()) as u64);
        if next.is_some() || frame_end(&octets, at).is_some() {
            broken += Amount { messages: 1, octets: hole.1 - hole.0 };
        }
        let Some(next) = next else { break };
        segment.holes.push(hole);
        at = next;
    }
    let known = octets.len() <= HEADER.len() || octets.starts_with(&HEADER);
    Ok(Scanned { segment, broken, length: octets.len() as u64, known })
}

/// Where the frame at this place ends, if its length is possible.
fn frame_end(octets: &[u8], at: usize) -> Option<usize> {
    let (length, _) = frame_header(*octets.get(at..)?.first_chunk()?).ok()?;
    Some(at + FRAME_HEADER + length).filter(|end| *end <= octets.len())
}

/// The same if the frame is whole.
fn whole_frame(octets: &[u8], at: usize) -> Option<usize> {
    let end = frame_end(octets, at)?;
    let (_, checksum) = frame_header(*octets[at..].first_chunk()?).ok()?;
    let body = &octets[at + FRAME_HEADER..end];
    let known = Topic::ALL.into_iter().any(|topic| topic as u8 == body[0]);
    (known && crc32(body) == checksum).then_some(end)
}

fn encode(message: &TopicMessage, frame: &mut Vec<u8>) -> io::Result<()> {
    let length = BODY_HEADER + message.payload.len();
    if length > MAX_BODY {
        return Err(io::Error::other(format!("a message of {length} octets is too long")));
    }
    frame.clear();
    frame.extend((length as u32).to_le_bytes());
    frame.extend([0; 4]);
    frame.push(message.topic as u8);
    frame.extend(message.partition.to_le_bytes());
    frame.extend(&message.payload);
    let checksum = crc32(&frame[FRAME_HEADER..]);
    frame[4..FRAME_HEADER].copy_from_slice(&checksum.to_le_bytes());
    Ok(())
}

/// Length and checksum of a body.
fn frame_header(header: [u8; FRAME_HEADER]) -> io::Result<(usize, u32)> {
    let [l0, l1, l2, l3, c0, c1, c2, c3] = header;
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    if !(BODY_HEADER..=MAX_BODY).contains(&length) {
        return Err(broken());
    }
    Ok((length, u32::from_le_bytes([c0, c1, c2, c3])))
}

fn decode(mut body: Vec<u8>, checksum: u32) -> io::Result<TopicMessage> {
    if crc32(&body) != checksum {
        return Err(broken());
    }
    let [tag, p0, p1, p2, p3, ..] = body[..] else { return Err(broken()) };
    let topic = Topic::ALL.into_iter().find(|topic| *topic as u8 == tag).ok_or_else(broken)?;
    body.drain(..BODY_HEADER);
    Ok(TopicMessage { topic, partition: i32::from_le_bytes([p0, p1, p2, p3]), payload: body })
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a frame's length or checksum is wrong")
}

fn crc32(octets: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(octets);
    crc.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Another test may just have forked: until its child starts a program, that child holds the locks of this process,
    /// too.
    fn open(folder: &Path, max_octets: u64) -> Spool {
        for _ in 0..500 {
            match Spool::open(SpoolOptions { folder: folder.to_owned(), max_octets }) {
                Err(error) if error.to_string().contains("another agent") => {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                opened => return opened.unwrap(),
            }
        }
        panic!("the spool in {} stays locked", folder.display());
    }

    fn message(number: u64, octets: usize) -> TopicMessage {
        let mut payload = number.to_le_bytes().to_vec();
        payload.resize(8 + octets, number as u8);
        TopicMessage { topic: Topic::ALL[(number % 3) as usize], partition: (number % 5) as i32, payload }
    }

    fn push(spool: &mut Spool, message: &TopicMessage) -> Amount {
        let mut shed = Amount::default();
        spool.push(message, &mut shed).unwrap();
        shed
    }

    fn number(message: &TopicMessage) -> u64 {
        u64::from_le_bytes(message.payload[..8].try_into().unwrap())
    }

    /// Reads all remaining messages.
    fn drain(spool: &mut Spool) -> Vec<(SpoolPlace, TopicMessage)> {
        std::iter::from_fn(|| spool.next(&mut Amount::default())).collect()
    }

    fn numbers(spool: &mut Spool) -> Vec<u64> {
        drain(spool).iter().map(|(_, message)| number(message)).collect()
    }

    fn segments(folder: &Path) -> Vec<PathBuf> {
        let mut found: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| number_of(path).is_some())
            .collect();
        found.sort();
        found
    }

    #[test]
    fn messages_come_back_in_order_and_acknowledged_segments_go() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = open(folder.path(), 64_000);
        (0..20).for_each(|n| assert_eq!(push(&mut spool, &message(n, 1000)), Amount::default()));
        assert!(segments(folder.path()).len() > 2);
        let read = drain(&mut spool);
        assert!(read.iter().zip(0..).all(|((_, found), n)| *found == message(n, 1000)));
        assert_eq!((read.len(), spool.unread(), spool.is_empty()), (20, 0, false));
        read.iter().take(10).for_each(|(place, _)| spool.acknowledge(*place));
        // A later message follows, whatever is in flight.
        push(&mut spool, &message(20, 10));
        assert_eq!(numbers(&mut spool), [20]);
        spool.rewind(read[10].0);
        let again = drain(&mut spool);
        assert_eq!(again.iter().map(|(_, message)| number(message)).collect::<Vec<_>>(), (10..=20).collect::<Vec<_>>());
        again.iter().for_each(|(place, _)| spool.acknowledge(*place));
        assert!(spool.is_empty() && segments(folder.path()).is_empty());
        assert_eq!(spool.octets(), 0);
    }

    #[test]
    fn a_full_spool_gives_up_its_oldest_and_says_how_much() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = open(folder.path(), 64_000);
        let mut shed = Amount::default();
        let on_disk = || segments(folder.path()).iter().map(|path| path.metadata().unwrap().len()).sum::<u64>();
        for n in 0..200 {
            shed += push(&mut spool, &message(n, 1000));
            assert!(spool.octets() == on_disk() && on_disk() <= 64_000, "{} {}", spool.octets(), on_disk());
        }
        let left = numbers(&mut spool);
        assert_eq!(left, (shed.messages..200).collect::<Vec<_>>());
        assert!(left.len() > 40, "{left:?}");
        assert_eq!(shed.octets, shed.messages * 1021);
        assert_eq!(spool.unread(), 0);
    }

    #[test]
    fn what_is_on_its_way_is_not_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = open(folder.path(), 64_000);
        (0..60).for_each(|n| assert_eq!(push(&mut spool, &message(n, 1000)), Amount::default()));
        let (place, _) = spool.next(&mut Amount::default()).unwrap();
        let mut shed = Amount::default();
        (60..90).for_each(|n| shed += push(&mut spool, &message(n, 1000)));
        assert!(shed.messages > 0);
        spool.acknowledge(place);
        let left = numbers(&mut spool);
        assert_eq!(left[0], 1);
        assert!(left.is_sorted() && left.len() as u64 == 89 - shed.messages);
    }

    #[test]
    fn older_messages_go_before_those_that_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = open(folder.path(), 1 << 20);
        (10..20).for_each(|n| assert_eq!(push(&mut spool, &message(n, 100)), Amount::default()));
        let older: Vec<TopicMessage> = (0..10).map(|n| message(n, 100)).collect();
        spool.prepend(older.iter()).unwrap();
        drop(spool);
        let mut spool = open(folder.path(), 1 << 20);
        push(&mut spool, &message(20, 100));
        assert_eq!(numbers(&mut spool), (0..=20).collect::<Vec<_>>());
    }

    #[test]
    fn a_folder_belongs_to_one_agent() {
        let folder = tempfile::tempdir().unwrap();
        let options = || SpoolOptions { folder: folder.path().to_owned(), max_octets: 1 << 20 };
        let first = Spool::open(options()).unwrap();
        let error = Spool::open(options()).err().unwrap().to_string();
        assert!(error.contains("another agent uses the spool"), "{error}");
        drop(first);
        assert!(Spool::open(options()).is_ok());
    }

    #[test]
    fn a_broken_segment_is_left_at_its_first_broken_frame_and_the_next_one_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = open(folder.path(), 64_000);
        (0..20).for_each(|n| assert_eq!(push(&mut spool, &message(n, 1000)), Amount::default()));
        let first = &segments(folder.path())[0];
        OpenOptions::new().write(true).open(first).unwrap().write_all_at(b"x", 8 + 1021 + 500).unwrap();
        let mut shed = Amount::default();
        let mut left = Vec::new();
        while let Some((place, message)) = spool.next(&mut shed) {
            left.push(number(&message));
            spool.acknowledge(place);
        }
        assert_eq!(left.len() as u64 + shed.messages, 20);
        assert_eq!(left[0], 0);
        assert!(shed.messages > 0 && left[1..].iter().eq((shed.messages + 1..20).collect::<Vec<_>>().iter()));
        assert!(spool.is_empty());
    }

    #[test]
    fn recovery_keeps_all_whole_frames_and_counts_the_broken_ones() {
        // In a frame's body, in its length, in the segment's header.
        for (at, missing) in [(8 + 3 * 121 + 50, Some(3)), (8 + 3 * 121 + 2, Some(3)), (3, None)] {
            let folder = tempfile::tempdir().unwrap();
            let mut spool = open(folder.path(), 1 << 20);
            (0..50).for_each(|n| assert_eq!(push(&mut spool, &message(n, 100)), Amount::default()));
            drop(spool);
            let file = OpenOptions::new().write(true).open(&segments(folder.path())[0]).unwrap();
            file.write_all_at(&[0x7e], at).unwrap();
            let mut spool = open(folder.path(), 1 << 20);
            assert_eq!(spool.broken().messages, u64::from(missing.is_some()));
            let expected: Vec<u64> = (0..50).filter(|n| Some(*n) != missing).collect();
            let read = drain(&mut spool);
            assert_eq!(read.iter().map(|(_, message)| number(message)).collect::<Vec<_>>(), expected, "at {at}");
            // After the rewind the same messages come again, behind the hole.
            spool.rewind(read[10].0);
            assert_eq!(numbers(&mut spool), expected[10..]);
        }
    }

    #[test]
    fn a_file_of_another_format_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let octets = [&b"WEIRSPL2"[..], &[7; 40]].concat();
        fs::write(folder.path().join(format!("{FIRST:020}.spool")), &octets).unwrap();
        let mut spool = open(folder.path(), 1 << 20);
        assert_eq!(spool.unread(), 0);
        push(&mut spool, &message(1, 1));
        assert_eq!(fs::read(folder.path().join(format!("{FIRST:020}.broken"))).unwrap(), octets);
    }

    proptest! {
        /// Wherever the last segment is cut off, the spool reads back the oldest messages without a gap, and appends
        /// new ones after them.
        #[test]
        fn a_cut_off_spool_is_a_prefix(sizes in prop::collection::vec(0usize..3000, 1..60), cut in 0.0..1.0f64) {
            let folder = tempfile::tempdir().unwrap();
            let mut spool = open(folder.path(), 400_000);
            for (n, &octets) in (0..).zip(&sizes) {
                push(&mut spool, &message(n, octets));
            }
            drop(spool);
            let last = segments(folder.path()).pop().unwrap();
            let length = fs::metadata(&last).unwrap().len();
            OpenOptions::new().write(true).open(&last).unwrap().set_len((length as f64 * cut) as u64).unwrap();
            let mut spool = open(folder.path(), 400_000);
            let left = spool.unread();
            prop_assert!(left <= sizes.len() as u64);
            push(&mut spool, &message(left, 5));
            for n in 0..=left {
                let (_, found) = spool.next(&mut Amount::default()).unwrap();
                let octets = if n == left { 5 } else { sizes[n as usize] };
                prop_assert_eq!(found, message(n, octets));
            }
            prop_assert!(spool.next(&mut Amount::default()).is_none());
        }

        /// Pushes, reads, acknowledgements, rewinds and crashes in any order: each message is read, in order, and again
        /// only if it had not been acknowledged.
        #[test]
        fn whatever_happens_nothing_unacknowledged_is_missing(steps in prop::collection::vec((0u8..6, 1u8..20), 1..80)) {
            let folder = tempfile::tempdir().unwrap();
            let mut spool = open(folder.path(), 400_000);
            let (mut pushed, mut acknowledged) = (0, 0);
            let mut on_the_way = VecDeque::new();
            for (step, count) in steps {
                match step {
                    0 | 1 => for _ in 0..count {
                        push(&mut spool, &message(pushed, 700));
                        pushed += 1;
                    },
                    2 => for _ in 0..count {
                        let Some((place, found)) = spool.next(&mut Amount::default()) else { break };
                        prop_assert_eq!(number(&found), acknowledged + on_the_way.len() as u64);
                        on_the_way.push_back(place);
                    },
                    3 => for _ in 0..count {
                        let Some(place) = on_the_way.pop_front() else { break };
                        spool.acknowledge(place);
                        acknowledged += 1;
                    },
                    4 => if let Some(place) = on_the_way.front() {
                        spool.rewind(*place);
                        on_the_way.clear();
                    },
                    _ => {
                        drop(spool);
                        spool = open(folder.path(), 400_000);
                        on_the_way.clear();
                        // Segments are deleted whole: acknowledged messages of a remaining segment come again.
                        let again = pushed - spool.unread();
                        prop_assert!(again <= acknowledged);
                        acknowledged = again;
                    }
                }
            }
            while let Some(place) = on_the_way.pop_front() {
                spool.acknowledge(place);
                acknowledged += 1;
            }
            prop_assert_eq!(numbers(&mut spool), (acknowledged..pushed).collect::<Vec<_>>());
        }
    }
}
