//! Capture files: reading them as a file, as a stream and as a replay must give the same packets.

use super::{Bounds, Metering, NO_FILTERS, START_NS};
use std::io::{Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use weir_probe::source::file::{CaptureFile, OpenError};
use weir_probe::source::raw::Broken;
use weir_probe::source::replay::{Plan, Replay, Speed};
use weir_probe::source::stream::{Ended, Stream};
use weir_probe::source::{Next, Polled, Source};

/// Times and octets of packets.
type Packets = Vec<(i64, Vec<u8>)>;

/// An input is a file: pcap or pcapng, compressed or not.
pub fn check(input: &[u8]) {
    // The size of each read is arbitrary, but the same for the same input.
    let step = input.iter().fold(0, |sum: usize, &octet| sum.wrapping_mul(31) + usize::from(octet)) % 100 + 1;
    let stream = Stream::open(Box::new(Dribble(Cursor::new(input.to_vec()), step)));
    let file = match CaptureFile::from_octets(Path::new("-"), input.to_vec()) {
        Ok(file) => file,
        Err(error) => {
            // A stream is not searched for later link types, since it may never end; and the amount decompressed before
            // damage is noticed depends on the size of the reads.
            let may_differ = matches!(error, OpenError::LinkType { .. } | OpenError::Unreadable { .. });
            assert!(stream.is_err() || may_differ, "only a stream: {error}");
            return;
        }
    };
    let (packets, survey) = (whole(&file), file.survey);
    assert_eq!(packets.len() as u64, survey.packets);
    assert!(packets.iter().all(|(time_ns, _)| *time_ns <= survey.last_ns));
    match stream {
        Ok(stream) => {
            let (streamed, ended) = read(stream);
            let damaged = |broken| matches!(broken, Some(Broken::Compression { .. }));
            if damaged(survey.broken) || damaged(ended.broken) {
                assert!(survey.broken.is_some() && ended.broken.is_some(), "{survey:?} {ended:?}");
                assert!(streamed.starts_with(&packets) || packets.starts_with(&streamed), "{step} octets at a time");
            } else {
                assert!(streamed == packets, "{step} octets at a time give other packets");
                assert_eq!(ended, Ended { packets: survey.packets, broken: survey.broken }, "{step} octets at a time");
            }
        }
        Err(error) => {
            let may_differ = matches!(error, OpenError::LinkType { .. } | OpenError::Unreadable { .. });
            assert!(may_differ, "only a file: {error}");
        }
    }
    // Twice, so that one file follows another.
    let again = CaptureFile::from_octets(Path::new("-"), input.to_vec()).expect("it was read before");
    replay(Plan::new(vec![file, again], step % 2 == 0, Speed::Max, START_NS));
}

/// The packets of a file.
fn whole(file: &CaptureFile) -> Packets {
    let mut reader = file.reader();
    let mut packets = Packets::new();
    while let Ok(Some(packet)) = reader.next(file.octets()) {
        packets.push((packet.time_ns, packet.data.to_vec()));
    }
    packets
}

/// The packets of a stream.
fn read(stream: Stream) -> (Packets, Ended) {
    let stop = Arc::new(AtomicBool::new(false));
    let started = stream.start(1, (0, 0), Speed::Max, Arc::default(), &stop);
    let (mut sources, thread) = started.expect("a thread can be started");
    let mut packets = Packets::new();
    let mut take = |frames: &[weir_probe::packet::Frame<'_>]| {
        packets.extend(frames.iter().map(|frame| (frame.time_ns, frame.data.to_vec())));
        Next::More
    };
    while sources[0].poll(Duration::from_secs(10), &mut take).expect("it does not fail") != Polled::End {}
    drop(sources);
    (packets, thread.join().expect("reading does not panic"))
}

/// Meters all packets of a plan.
fn replay(plan: Plan) {
    let packets = plan.packets();
    let mut source = Replay::new(Arc::new(plan), Arc::default(), Arc::default());
    let mut metering =
        Metering::new(Bounds { flows: 8, records: 8, datagrams: 8, idle_ms: 5000 }, false, Arc::clone(&NO_FILTERS));
    let mut take = |frames: &[weir_probe::packet::Frame<'_>]| {
        metering.frames(frames);
        Next::More
    };
    while source.poll(Duration::ZERO, &mut take).expect("it does not fail") != Polled::End {}
    let closed = metering.finish();
    assert_eq!(closed.iter().map(|interval| interval.tally.captured.packets).sum::<u64>(), packets);
}

/// A reader that returns a fixed number of octets at a time.
struct Dribble(Cursor<Vec<u8>>, usize);

impl Read for Dribble {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = buffer.len().min(self.1);
        self.0.read(&mut buffer[..most])
    }
}
