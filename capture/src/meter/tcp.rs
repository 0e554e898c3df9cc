//! State of a TCP connection: its handshake, and which segments were retransmitted or out of order.
//!
//! For each direction it keeps the highest sequence number seen, and the holes below it. A segment that begins before
//! that point was *retransmitted*, unless it fills a hole soon after the hole appeared: then later segments had
//! *overtaken* it. "Soon" means within the handshake's round trip, or 3 ms if that is unknown, as in Wireshark; a hole
//! that is filled later was a loss upstream of the probe.
//!
//! A segment far ahead may be out of the window, from an attacker or a broken device. It counts as part of the stream
//! only once another one is near it.

use super::key::{End, SYN_ACK};
use crate::packet::{Tcp, tcp};
use arrayvec::ArrayVec;

/// Holes remembered in each direction; a further one replaces the oldest.
const HOLES: usize = 4;
/// How far ahead of the stream a segment must be for the next one to confirm it, octets.
const FAR: u32 = 1 << 18;
/// How soon a hole must be filled if no round trip is known, µs.
const SOON_US: u32 = 3_000;

#[derive(Clone, Debug)]
pub(super) struct Connection {
    streams: [SegmentStream; 2],
    handshake: Handshake,
    /// Round trip of the handshake, 0 if not seen.
    rtt_us: u32,
}

/// One direction's octets.
#[derive(Clone, Debug, Default)]
struct SegmentStream {
    /// Whether any segment of it was seen.
    known: bool,
    /// The sequence number after the last octet seen.
    next: u32,
    /// Most streams never have any.
    disorder: Option<Box<Disorder>>,
}

/// The holes of a stream, and the segment that lies too far ahead of it.
#[derive(Clone, Debug, Default)]
struct Disorder {
    holes: ArrayVec<Hole, HOLES>,
    /// A segment far ahead, where it begins and ends, until the stream continues elsewhere.
    far: Option<(u32, u32)>,
}

/// A part of a stream that was not seen yet.
#[derive(Clone, Copy, Debug)]
struct Hole {
    from: u32,
    to: u32,
    /// When it appeared, µs.
    since_us: u32,
}

/// How much of the three-way handshake (RFC 9293, section 3.5) was seen.
#[derive(Clone, Copy, Debug)]
enum Handshake {
    None,
    Syn { from: End, at_ns: i64, sequence: u32 },
    SynAck { from: End, syn_at_ns: i64, acknowledges: u32 },
}

/// The verdict on a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SegmentVerdict {
    pub retransmission: bool,
    pub out_of_order: bool,
    /// The handshake ended with this segment: its round trip, µs; 0 if it did not. As an `Option` the compiler took it
    /// apart bit by bit, which cost each segment 450 instructions.
    pub rtt_us: u32,
}

/// The first segment of a connection, the only state until there is a second one.
#[derive(Clone, Copy, Debug)]
pub(super) struct First {
    pub sender: End,
    pub at_ns: i64,
    pub syn: bool,
    /// The sequence number after it.
    pub next: u32,
}

/// Whether `a` is before `b` in sequence space.
fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// The sequence number after a segment: SYN and FIN count as one each.
pub(super) fn end(segment: &Tcp) -> u32 {
    let flags = u32::from(segment.flags & tcp::SYN != 0) + u32::from(segment.flags & tcp::FIN != 0);
    segment.sequence.wrapping_add(segment.payload).wrapping_add(flags)
}

impl Connection {
    /// A connection with one observed segment.
    pub fn new(first: First) -> Connection {
        let mut streams = <[SegmentStream; 2]>::default();
        streams[usize::from(first.sender)] =
            SegmentStream { known: true, next: first.next, ..SegmentStream::default() };
        let handshake = if first.syn {
            Handshake::Syn { from: first.sender, at_ns: first.at_ns, sequence: first.next.wrapping_sub(1) }
        } else {
            Handshake::None
        };
        Connection { streams, handshake, rtt_us: 0 }
    }

    /// Follows a segment.
    pub fn follow(&mut self, segment: &Tcp, sender: End, time_ns: i64) -> SegmentVerdict {
        let mut verdict =
            SegmentVerdict { rtt_us: self.shake(segment, sender, time_ns).unwrap_or(0), ..SegmentVerdict::default() };
        if verdict.rtt_us > 0 {
            self.rtt_us = verdict.rtt_us;
        }
        // A reset has no place in the stream, and a bare acknowledgement takes none.
        let end = end(segment);
        if end != segment.sequence && segment.flags & tcp::RST == 0 {
            let soon_us = if self.rtt_us > 0 { self.rtt_us } else { SOON_US };
            let now_us = (time_ns / 1000) as u32;
            let stream = &mut self.streams[usize::from(sender)];
            match stream.place(segment, end, now_us, soon_us) {
                SegmentPlace::New => {}
                SegmentPlace::Again => verdict.retransmission = true,
                SegmentPlace::Overtaken => verdict.out_of_order = true,
            }
        }
        verdict
    }

    fn shake(&mut self, segment: &Tcp, sender: End, time_ns: i64) -> Option<u32> {
        match segment.flags & SYN_ACK {
            tcp::SYN => {
                // A new connection over the same ports begins a new stream; the same SYN again begins nothing.
                let stream = &self.streams[usize::from(sender)];
                let again = stream.known && stream.next == segment.sequence.wrapping_add(1);
                if stream.known && !again {
                    self.streams = Default::default();
                }
                match &mut self.handshake {
                    // It crossed its answer on the way.
                    Handshake::SynAck { from, syn_at_ns, .. } if again && *from != sender => *syn_at_ns = time_ns,
                    _ => self.handshake = Handshake::Syn { from: sender, at_ns: time_ns, sequence: segment.sequence },
                }
            }
            SYN_ACK => {
                if let Handshake::Syn { from, at_ns, sequence } = self.handshake {
                    if from != sender && self.acknowledges(segment, sequence.wrapping_add(1), from) {
                        let acknowledges = segment.sequence.wrapping_add(1);
                        self.handshake = Handshake::SynAck { from: sender, syn_at_ns: at_ns, acknowledges };
                    }
                }
            }
            tcp::ACK => {
                if let Handshake::SynAck { from, syn_at_ns, acknowledges } = self.handshake {
                    if from != sender && self.acknowledges(segment, acknowledges, from) {
                        self.handshake = Handshake::None;
                        // A handshake within less than a microsecond is still one that was seen.
                        return Some(((time_ns - syn_at_ns) / 1000).clamp(1, i64::from(u32::MAX)) as u32);
                    }
                }
            }
            _ => {}
        }
        None
    }

    /// Whether a segment acknowledges a SYN whose next sequence number is `least`: the SYN alone, or with its data (RFC
    /// 7413).
    fn acknowledges(&self, segment: &Tcp, least: u32, from: End) -> bool {
        let stream = &self.streams[usize::from(from)];
        let most = if stream.known { stream.next } else { least };
        segment.acknowledgement == least
            || !before(segment.acknowledgement, least) && !before(most, segment.acknowledgement)
    }
}

/// The position of a segment in its stream.
enum SegmentPlace {
    New,
    Again,
    Overtaken,
}

impl SegmentStream {
    fn place(&mut self, segment: &Tcp, end: u32, now_us: u32, soon_us: u32) -> SegmentPlace {
        let from = segment.sequence;
        if self.known && !before(from, self.next) && from.wrapping_sub(self.next) > FAR {
            let disorder = self.disorder.get_or_insert_default();
            match disorder.far.take() {
                Some((begins, ends)) if from.wrapping_sub(begins) <= FAR => {
                    self.open(self.next, begins, now_us);
                    self.next = ends;
                }
                _ => {
                    disorder.far = Some((from, end));
                    return SegmentPlace::New;
                }
            }
        }
        if !self.known || !before(from, self.next) {
            if self.known && from != self.next {
                self.open(self.next, from, now_us);
            }
            if let Some(disorder) = &mut self.disorder {
                disorder.far = None;
            }
            self.known = true;
            self.next = end;
            return SegmentPlace::New;
        }
        let keep_alive = segment.payload <= 1
            && from == self.next.wrapping_sub(1)
            && segment.flags & (tcp::SYN | tcp::FIN | tcp::RST) == 0;
        if keep_alive {
            return SegmentPlace::New;
        }
        if before(self.next, end) {
            self.next = end;
        }
        match self.fill(from, end) {
            Some(since_us) if now_us.wrapping_sub(since_us) < soon_us => SegmentPlace::Overtaken,
            _ => SegmentPlace::Again,
        }
    }

    fn open(&mut self, from: u32, to: u32, since_us: u32) {
        let holes = &mut self.disorder.get_or_insert_default().holes;
        if holes.is_full() {
            holes.remove(0);
        }
        holes.push(Hole { from, to, since_us });
    }

    /// Removes a segment's octets from the hole that it lies in; returns when that hole appeared.
    fn fill(&mut self, from: u32, end: u32) -> Option<u32> {
        let holes = &mut self.disorder.as_mut()?.holes;
        let number = holes.iter().position(|hole| !before(from, hole.from) && !before(hole.to, end))?;
        let Hole { from: start, to, since_us } = holes[number];
        match (start == from, to == end) {
            (true, true) => {
                holes.remove(number);
            }
            (true, false) => holes[number].from = end,
            (false, true) => holes[number].to = from,
            (false, false) => {
                holes[number].to = from;
                self.open(end, to, since_us);
            }
        }
        if self.disorder.as_ref().is_some_and(|disorder| disorder.holes.is_empty() && disorder.far.is_none()) {
            self.disorder = None;
        }
        Some(since_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn segment(sequence: u32, payload: u32) -> Tcp {
        Tcp { flags: tcp::ACK, sequence, acknowledgement: 1, payload }
    }

    /// The classes of segments (sequence, payload, time in ms) of one direction: `r`etransmitted, `o`ut of order or
    /// `.`.
    fn verdicts(start: u32, segments: &[(u32, u32, i64)]) -> String {
        let first = First { sender: 0, at_ns: 0, syn: false, next: start };
        let mut connection = Connection::new(first);
        let letter = |&(sequence, payload, at_ms): &(u32, u32, i64)| {
            let verdict = connection.follow(&segment(start.wrapping_add(sequence), payload), 0, at_ms * MS);
            assert!(!(verdict.retransmission && verdict.out_of_order));
            match verdict {
                SegmentVerdict { retransmission: true, .. } => 'r',
                SegmentVerdict { out_of_order: true, .. } => 'o',
                _ => '.',
            }
        };
        segments.iter().map(letter).collect()
    }

    #[test]
    fn what_came_before_came_again_and_what_fills_a_hole_soon_was_overtaken() {
        for start in [0, u32::MAX - 150] {
            assert_eq!(verdicts(start, &[(0, 100, 1), (100, 100, 2), (200, 1, 3)]), "...");
            assert_eq!(verdicts(start, &[(0, 100, 1), (0, 100, 2), (50, 100, 3), (150, 10, 4)]), ".rr.");
            assert_eq!(verdicts(start, &[(0, 100, 1), (200, 100, 2), (100, 100, 3), (100, 100, 4)]), "..or");
            // Filled, but late: it was lost before the probe.
            assert_eq!(verdicts(start, &[(0, 100, 1), (200, 100, 2), (100, 100, 90)]), "..r");
            // A hole filled in pieces, from its middle.
            assert_eq!(verdicts(start, &[(90, 10, 1), (40, 10, 2), (0, 40, 3), (50, 40, 3), (20, 10, 3)]), ".ooor");
        }
    }

    /// A segment fills a hole of the initiator's stream this many µs after it appeared; the handshake's round trip is known.
    fn filled(rtt_us: i64, after_us: i64) -> SegmentVerdict {
        let handshake = |flags, sequence, acknowledgement| Tcp { flags, sequence, acknowledgement, payload: 0 };
        let mut connection = Connection::new(First { sender: 0, at_ns: 0, syn: true, next: 100 });
        connection.follow(&handshake(SYN_ACK, 500, 100), 1, 0);
        let timed = connection.follow(&handshake(tcp::ACK, 100, 501), 0, rtt_us * 1000);
        assert_eq!(timed.rtt_us, rtt_us as u32);
        connection.follow(&segment(200, 100), 0, 50 * MS);
        connection.follow(&segment(100, 100), 0, 50 * MS + after_us * 1000)
    }

    #[test]
    fn soon_is_within_the_round_trip() {
        for (rtt_us, after_us, overtaken) in [(20_000, 10_000, true), (20_000, 21_000, false), (1_000, 2_000, false)] {
            let verdict = filled(rtt_us, after_us);
            assert_eq!((verdict.out_of_order, verdict.retransmission), (overtaken, !overtaken), "{rtt_us} {after_us}");
        }
    }

    #[test]
    fn the_same_syn_again_is_a_retransmission_and_another_one_a_new_stream() {
        let syn = |sequence| Tcp { flags: tcp::SYN, sequence, acknowledgement: 0, payload: 0 };
        for (second, retransmission) in [(99, true), (5_000_000, false), (50, false)] {
            let mut connection = Connection::new(First { sender: 0, at_ns: 0, syn: true, next: 100 });
            let verdict = connection.follow(&syn(second), 0, 1_000 * MS);
            assert_eq!(verdict.retransmission, retransmission, "{second}");
            let data = connection.follow(&segment(second + 1, 10), 0, 1_001 * MS);
            assert_eq!(data, SegmentVerdict::default(), "{second}");
        }
    }

    #[test]
    fn one_segment_out_of_the_window_leaves_the_others_as_they_are() {
        let stream = |number: u32| (number * 100, 100, i64::from(number));
        for start in [0, u32::MAX - 1500] {
            for bogus in [FAR + 3000, 1 << 30, (1 << 31) - 1] {
                let mut segments: Vec<_> = (0..20).map(stream).collect();
                segments.insert(10, (bogus, 100, 10));
                segments.insert(15, (bogus, 100, 15));
                assert_eq!(verdicts(start, &segments), ".".repeat(22), "{start} {bogus}");
            }
            // After a loss that long, the second segment shows that the first one belonged to the stream.
            let far = FAR + 1000;
            let segments = [(0, 100, 1), (far, 100, 2), (far + 100, 100, 3), (far, 100, 4), (100, 100, 90)];
            assert_eq!(verdicts(start, &segments), "...rr");
        }
    }

    #[test]
    fn a_keep_alive_is_no_retransmission() {
        assert_eq!(verdicts(5, &[(0, 100, 1), (99, 1, 2), (99, 0, 3), (98, 1, 4)]), "...r");
    }

    #[test]
    fn many_holes_are_bounded() {
        let mut segments: Vec<_> = (1..9).map(|number| (number * 20, 10, 1)).collect();
        segments.extend((0..8).map(|number| (number * 20 + 10, 10, 2)));
        // Four holes are known at the end; what filled an older one is taken for a retransmission.
        assert_eq!(verdicts(0, &segments), "........rrrroooo");
    }

    /// The round trip of a handshake of segments (sender, flags, sequence, acknowledgement, payload), 1 ms apart.
    fn rtt_ms(segments: &[(End, u8, u32, u32, u32)]) -> Option<u32> {
        let (&(sender, _, sequence, _, payload), others) = segments.split_first().unwrap();
        let next = sequence.wrapping_add(1 + payload);
        let mut connection = Connection::new(First { sender, at_ns: 0, syn: true, next });
        let mut at_ns = 0;
        let verdicts = others.iter().map(|&(sender, flags, sequence, acknowledgement, payload)| {
            at_ns += MS;
            connection.follow(&Tcp { flags, sequence, acknowledgement, payload }, sender, at_ns)
        });
        verdicts.map(|verdict| verdict.rtt_us).find(|&micros| micros > 0).map(|micros| micros / 1000)
    }

    #[test]
    fn a_handshake_may_carry_data_and_come_twice() {
        let (syn, ack) = (tcp::SYN, tcp::ACK);
        assert_eq!(rtt_ms(&[(0, syn, 10, 0, 0), (1, SYN_ACK, 50, 11, 0), (0, ack, 11, 51, 0)]), Some(2));
        assert_eq!(rtt_ms(&[(0, syn, 10, 0, 0), (1, SYN_ACK, 50, 11, 110), (0, ack, 11, 161, 0)]), Some(2));
        assert_eq!(rtt_ms(&[(0, syn, 10, 0, 30), (1, SYN_ACK, 50, 41, 0), (0, ack, 41, 51, 0)]), Some(2));
        // The SYN was sent again just before its answer arrived: the last one counts.
        let crossed = [(0, syn, 10, 0, 0), (1, SYN_ACK, 50, 11, 0), (0, syn, 10, 0, 0), (0, ack, 11, 51, 0)];
        assert_eq!(rtt_ms(&crossed), Some(1));
        assert_eq!(rtt_ms(&[(0, syn, 10, 0, 0), (1, SYN_ACK, 50, 12, 0), (0, ack, 11, 51, 0)]), None);
        assert_eq!(rtt_ms(&[(0, syn, 10, 0, 0), (1, SYN_ACK, 50, 11, 0), (0, ack, 11, 52, 0)]), None);
    }
}
