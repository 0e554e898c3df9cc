//! A capture that is read once, as it arrives: standard input. Memory is bounded, however long it is.
//!
//! One thread reads and cuts the input at packet boundaries; every worker gets every piece, and keeps its share.

use super::file::{OpenError, Reader};
use super::raw::Broken;
use super::replay::{Speed, shift_ns};
use super::{Batch, Next, Polled, Source, Witness};
use crate::packet::{Frame, LinkType};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use flate2::read::MultiGzDecoder;
use std::io::{self, Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Octets that are read in one go.
const READ: usize = 256 << 10;
/// Number of pieces that may wait for a worker before reading waits, too.
const WAITING: usize = 4;
/// Octets that suffice to detect the format of a capture.
const ENOUGH: usize = 32;
/// Packets handed over in one go.
const FAIR: usize = 1024;

/// Whole packets of a stream.
struct Piece {
    octets: Vec<u8>,
    /// A reader at the first packet.
    reader: Reader,
}

/// A capture whose first packets have arrived.
pub struct Stream {
    input: Box<dyn Read + Send>,
    compressed: bool,
    /// Read buffer, allocated once.
    scratch: Box<[u8]>,
    buffer: Vec<u8>,
    reader: Reader,
    /// Octets before the buffer.
    before: usize,
    /// The buffer holds the end of the input.
    ended: bool,
    packets: u64,
    broken: Option<Broken>,
    first: Option<Piece>,
    /// Time of the first packet, ns.
    first_ns: Option<i64>,
    understood: bool,
    strange: Option<u32>,
}

/// The outcome of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    pub packets: u64,
    /// Why the packets end early, if they do.
    pub broken: Option<Broken>,
}

impl Stream {
    /// Reads the input until the first packets have arrived.
    ///
    /// # Errors
    /// If this is not a capture, or its first packets have an unsupported link type.
    pub fn open(mut input: Box<dyn Read + Send>) -> Result<Stream, OpenError> {
        let path = Path::new("-").to_owned();
        let unreadable = |error| OpenError::Unreadable { path: path.clone(), error };
        let mut scratch = vec![0; READ].into_boxed_slice();
        let mut buffer = Vec::new();
        let mut ended = fill(&mut input, &mut scratch, &mut buffer, 2).map_err(unreadable)?;
        if buffer.is_empty() {
            return Err(OpenError::Empty(path));
        }
        let compressed = buffer.starts_with(&[0x1f, 0x8b]);
        if compressed {
            let head = Cursor::new(std::mem::take(&mut buffer));
            input = Box::new(MultiGzDecoder::new(head.chain(input)));
        }
        if compressed || !ended {
            ended = fill(&mut input, &mut scratch, &mut buffer, ENOUGH).map_err(unreadable)?;
        }
        let reader = Reader::new(&buffer).ok_or_else(|| OpenError::Format(path.clone()))?;
        let mut stream = Stream {
            input,
            compressed,
            scratch,
            buffer,
            reader,
            before: 0,
            ended,
            packets: 0,
            broken: None,
            first: None,
            first_ns: None,
            understood: false,
            strange: None,
        };
        // The header of a pcap file applies to all packets: no need to wait for one.
        if let Reader::Pcap(reader) = &stream.reader {
            if LinkType::from_number(reader.link).is_none() {
                return Err(OpenError::LinkType { path, name: LinkType::name(reader.link) });
            }
        }
        stream.first = stream.piece();
        if stream.packets == 0 {
            if let Reader::Pcapng(reader) = &stream.reader {
                stream.strange = reader.links().find(|&link| LinkType::from_number(link).is_none());
            }
        }
        match stream.strange {
            Some(link) if !stream.understood => Err(OpenError::LinkType { path, name: LinkType::name(link) }),
            _ => Ok(stream),
        }
    }

    /// The next whole packets, as soon as there are any; `None` at the end.
    fn piece(&mut self) -> Option<Piece> {
        loop {
            let reader = self.reader.clone();
            let before = self.packets;
            let done = self.cut();
            let end = self.reader.offset().min(self.buffer.len());
            let rest = self.buffer.split_off(end);
            let octets = std::mem::replace(&mut self.buffer, rest);
            self.reader.rewind(end);
            self.before += end;
            if self.packets > before {
                return Some(Piece { octets, reader });
            }
            if done {
                return None;
            }
            let least = self.buffer.len() + 1;
            match fill(&mut self.input, &mut self.scratch, &mut self.buffer, least) {
                Ok(ended) => self.ended |= ended,
                Err(error) => {
                    let at = self.before + self.buffer.len();
                    self.broken = Some(match self.compressed {
                        true => Broken::Compression { at },
                        false => Broken::Unreadable { at, kind: error.kind() },
                    });
                    self.ended = true;
                }
            }
        }
    }

    /// Advances to the end of the last whole packet in the buffer; returns whether nothing can follow.
    fn cut(&mut self) -> bool {
        loop {
            match self.reader.next(&self.buffer) {
                Ok(Some(packet)) => {
                    self.packets += 1;
                    self.first_ns.get_or_insert(packet.time_ns);
                    match LinkType::from_number(packet.link) {
                        Some(_) => self.understood = true,
                        None => self.strange = Some(packet.link),
                    }
                }
                Ok(None) => return self.ended,
                Err(Broken::Cut { .. }) if !self.ended => return false,
                Err(broken) => {
                    // The earlier read error is the reason for the end.
                    self.broken = self.broken.or(Some(broken.after(self.before)));
                    self.ended = true;
                    return true;
                }
            }
        }
    }

    /// The shift of packets' times, and the shifted start, ns: a multiple of 30 s, so that the *first* packet is at
    /// most 30 s before `now_ns`; the last one is not known yet. With `keep_time` nothing is shifted.
    pub fn moved(&self, keep_time: bool, now_ns: i64) -> (i64, i64) {
        let begin = self.first_ns.unwrap_or(now_ns);
        let shift = if keep_time { 0 } else { shift_ns(now_ns, begin) };
        (shift, begin.saturating_add(shift))
    }

    /// Starts reading the rest. `progress` is set to the octets read; reading ends early once `stop` is set.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(
        mut self,
        workers: u32,
        (shift_ns, begin_ns): (i64, i64),
        speed: Speed,
        progress: Arc<AtomicU64>,
        stop: &Arc<AtomicBool>,
    ) -> io::Result<(Vec<StreamReplay>, JoinHandle<Ended>)> {
        let (mut senders, sources): (Vec<Sender<Arc<Piece>>>, Vec<StreamReplay>) = (0..workers)
            .map(|_| {
                let (sender, pieces) = crossbeam_channel::bounded(WAITING);
                let source = StreamReplay {
                    pieces,
                    current: None,
                    shift_ns,
                    begin_ns,
                    speed,
                    stop: Arc::clone(stop),
                    stopped: false,
                    started: Instant::now(),
                };
                (sender, source)
            })
            .unzip();
        let spawn = std::thread::Builder::new().name("read".to_owned());
        let thread = spawn.spawn(move || {
            let mut piece = self.first.take();
            while let Some(next) = piece {
                let next = Arc::new(next);
                senders.retain(|sender| sender.send(Arc::clone(&next)).is_ok());
                if senders.is_empty() {
                    break;
                }
                progress.store(self.before as u64, Ordering::Relaxed);
                piece = self.piece();
            }
            Ended { packets: self.packets, broken: self.broken }
        })?;
        Ok((sources, thread))
    }
}

/// Appends input until there are `least` octets in all; returns whether the input ended.
fn fill(input: &mut impl Read, scratch: &mut [u8], buffer: &mut Vec<u8>, least: usize) -> io::Result<bool> {
    while buffer.len() < least {
        match input.read(scratch) {
            Ok(0) => return Ok(true),
            Ok(got) => buffer.extend_from_slice(&scratch[..got]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// One worker's view of a stream.
pub struct StreamReplay {
    pieces: Receiver<Arc<Piece>>,
    current: Option<(Arc<Piece>, Reader)>,
    shift_ns: i64,
    begin_ns: i64,
    speed: Speed,
    stop: Arc<AtomicBool>,
    stopped: bool,
    started: Instant,
}

impl StreamReplay {
    fn replay_ns(&self) -> i64 {
        self.begin_ns.saturating_add(i64::try_from(self.started.elapsed().as_nanos()).unwrap_or(i64::MAX))
    }
}

impl Source for StreamReplay {
    fn poll(&mut self, patience: Duration, take: &mut impl FnMut(&[Frame<'_>]) -> Next) -> io::Result<Polled> {
        if self.stopped || self.stop.load(Ordering::Relaxed) {
            return Ok(Polled::End);
        }
        let (piece, mut reader) = match self.current.take() {
            Some(current) => current,
            None => match self.pieces.recv_timeout(patience) {
                Ok(piece) => {
                    let reader = piece.reader.clone();
                    (piece, reader)
                }
                Err(RecvTimeoutError::Timeout) => return Ok(Polled::Idle),
                Err(RecvTimeoutError::Disconnected) => return Ok(Polled::End),
            },
        };
        let held = Arc::clone(&piece);
        let mut batch = Batch::new();
        let mut count = 0;
        while count < FAIR {
            let before = (self.speed == Speed::Real).then(|| reader.clone());
            let Ok(Some(packet)) = reader.next(&held.octets) else {
                batch.hand_over(take);
                return Ok(Polled::Packets);
            };
            let time_ns = packet.time_ns.saturating_add(self.shift_ns);
            if let Some(before) = before {
                let wait = time_ns.saturating_sub(self.replay_ns());
                if wait > 0 {
                    // Not due yet: read it again when it is.
                    batch.hand_over(take);
                    self.current = Some((piece, before));
                    if count > 0 {
                        return Ok(Polled::Packets);
                    }
                    std::thread::sleep(patience.min(Duration::from_nanos(wait as u64)));
                    return Ok(Polled::Idle);
                }
            }
            count += 1;
            if batch.push(packet.frame(time_ns)) && batch.hand_over(take) == Next::Pause {
                break;
            }
        }
        batch.hand_over(take);
        self.current = Some((piece, reader));
        Ok(Polled::Packets)
    }

    fn now_ns(&self) -> Option<i64> {
        (self.speed == Speed::Real).then(|| self.replay_ns())
    }

    fn witness(&mut self) -> Option<Witness> {
        None
    }

    fn stop(&mut self) -> bool {
        self.stopped = true;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing as t;
    use std::io::Write as _;

    /// Returns this many octets at a time.
    struct Dribble(Cursor<Vec<u8>>, usize);

    impl Read for Dribble {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let most = buffer.len().min(self.1);
            self.0.read(&mut buffer[..most])
        }
    }

    /// Packets' times and octets.
    type Packets = Vec<(i64, Vec<u8>)>;

    fn read(file: &[u8], step: usize) -> Result<(Packets, Ended), OpenError> {
        let stream = Stream::open(Box::new(Dribble(Cursor::new(file.to_vec()), step)))?;
        let stop = Arc::new(AtomicBool::new(false));
        let (mut sources, thread) = stream.start(1, (0, 0), Speed::Max, Arc::default(), &stop).unwrap();
        let mut packets = Vec::new();
        while sources[0]
            .poll(Duration::from_secs(1), &mut |frames| {
                packets.extend(frames.iter().map(|frame| (frame.time_ns, frame.data.to_vec())));
                Next::Pause
            })
            .unwrap()
            != Polled::End
        {}
        drop(sources);
        Ok((packets, thread.join().unwrap()))
    }

    fn packets() -> Vec<t::Captured> {
        (0..50u64)
            .map(|number| t::whole(1_600_000_000_000_000_000 + number * 1000, vec![7; number as usize * 3]))
            .collect()
    }

    fn pcapng(big_endian: bool) -> Vec<u8> {
        let mut file = [t::section(big_endian), t::interface(big_endian, 1, Some(9))].concat();
        for packet in packets() {
            file.extend(t::enhanced(big_endian, 0, packet.time_ns, &packet.data));
            file.extend(t::block(big_endian, 5, &[1; 12]));
        }
        file.extend([t::section(!big_endian), t::interface(!big_endian, 1, Some(9))].concat());
        file.extend(t::enhanced(!big_endian, 0, 5, b"other order"));
        file
    }

    fn gzip(file: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(file).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_stream_gives_the_same_however_it_comes() {
        let pcap = t::pcap(t::Form { nanoseconds: true, ..t::Form::default() }, &packets());
        for file in [pcap.clone(), gzip(&pcap), pcapng(false), pcapng(true), gzip(&pcapng(true))] {
            let (whole, ended) = read(&file, usize::MAX).unwrap();
            assert_eq!(ended, Ended { packets: whole.len() as u64, broken: None });
            assert!(whole.len() >= 50 && whole[49].1 == packets()[49].data);
            for step in [1, 2, 3, 13, 64, 1000] {
                let (dribbled, how) = read(&file, step).unwrap();
                assert_eq!(how, ended, "{step} octets at a time");
                assert!(dribbled == whole, "{step} octets at a time");
            }
        }
    }

    #[test]
    fn where_a_stream_breaks_off_is_told() {
        let pcap = t::pcap(t::Form::default(), &packets());
        for step in [1, usize::MAX] {
            let (whole, ended) = read(&pcap[..pcap.len() - 1], step).unwrap();
            assert_eq!((whole.len(), ended.broken), (49, Some(Broken::Cut { at: pcap.len() - 147 - 16 })));
            let (_, ended) = read(&[&pcap[..], &[0xff; 64]].concat(), step).unwrap();
            assert_eq!(ended.packets, 50);
            assert!(matches!(ended.broken, Some(Broken::Nonsense { at, .. }) if at == pcap.len()), "{ended:?}");
            let packed = gzip(&pcap);
            let (_, ended) = read(&packed[..packed.len() - 9], step).unwrap();
            assert!(matches!(ended.broken, Some(Broken::Compression { .. })), "{ended:?}");
        }
    }

    #[test]
    fn what_is_no_capture_is_refused_before_anything_is_metered() {
        let fails = |file: &[u8]| read(file, 5).err().unwrap().to_string();
        assert!(fails(b"").contains("- is empty"));
        assert!(fails(b"GIF89a, and more of it than any header has").contains("neither a pcap nor a pcapng"));
        assert!(fails(b"\n").contains("neither a pcap nor a pcapng"));
        assert!(fails(&t::pcap(t::Form { link: 195, ..t::Form::default() }, &[])).contains("link type 195"));
        assert!(fails(&[t::section(false), t::interface(false, 8, None)].concat()).contains("link type 8 (SLIP)"));
        assert!(fails(&[0x1f, 0x8b, 1, 2, 3]).contains("cannot read -"));
    }
}
