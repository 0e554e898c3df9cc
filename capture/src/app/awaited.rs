//! ClientHellos of which some octets are still to come: the parts of each, in any order, in bounded memory.

use super::hello::LONGEST;
use super::quic::Origin;
use arrayvec::ArrayVec;

/// ClientHellos awaited at once.
pub const PLACES: usize = 1024;
/// Octets beyond a ClientHello that its TLS records may add.
const LONGEST_STREAM: usize = LONGEST + 1024;
/// Packets of a flow that may bring its ClientHello.
const PACKETS: u8 = 64;
/// Gaps in a ClientHello at once, plus 1: Chromium shuffles it within a packet.
const PARTS: usize = 32;
/// After this time without a packet a flow may lose its place to another, ms.
const IDLE_MS: u32 = 2_000;
/// Places checked for an idle one when room is short.
const LOOKS: usize = 8;

/// Why a name that a flow may have was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NotRead {
    /// Too many flows waited for the rest of their ClientHello.
    NoPlace,
    /// The memory for unfinished ClientHellos, or for names, was full.
    NoMemory,
    /// The flow waited long for the rest of its ClientHello, and lost its place to another.
    Displaced,
    /// The ClientHello is longer than 16 kB, or in too many parts.
    TooLong,
    /// The flow ended before its ClientHello did.
    Unfinished,
    /// A QUIC Initial could not be decrypted.
    Undecryptable,
    /// Too large a share of packets were QUIC Initials.
    Overload,
}

impl NotRead {
    /// The causes as counters name them, in the order of the discriminants.
    pub const NAMES: [&str; 7] = [
        "name_no_place",
        "name_no_memory",
        "name_displaced",
        "name_too_long",
        "name_unfinished",
        "name_undecryptable",
        "name_overload",
    ];
}

/// A stream of which parts are known.
#[derive(Debug, Default)]
pub struct Stream {
    octets: Vec<u8>,
    /// The known parts, from and to, in order and apart.
    parts: ArrayVec<(u32, u32), PARTS>,
}

impl Stream {
    /// The octets known without a gap from the start on.
    pub fn start(&self) -> &[u8] {
        match self.parts.first() {
            Some(&(0, to)) => &self.octets[..to as usize],
            _ => &[],
        }
    }

    /// Adds a part; what comes again is taken as it was at first.
    ///
    /// # Errors
    /// If the stream becomes too long, or has too many gaps.
    pub fn add(&mut self, offset: u64, part: &[u8]) -> Result<(), NotRead> {
        let end = offset.saturating_add(part.len() as u64);
        if end > LONGEST_STREAM as u64 {
            return Err(NotRead::TooLong);
        }
        if part.is_empty() {
            return Ok(());
        }
        let (from, to) = (offset as u32, end as u32);
        if self.octets.len() < end as usize {
            self.octets.resize(end as usize, 0);
        }
        // The parts that the new one touches become one with it.
        let first = self.parts.iter().position(|&(_, known)| known >= from).unwrap_or(self.parts.len());
        let touched = self.parts[first..].iter().take_while(|&&(known, _)| known <= to).count();
        let mut at = from;
        for &(known, known_to) in &self.parts[first..first + touched] {
            if at < known {
                let gap = at as usize..known as usize;
                self.octets[gap].copy_from_slice(&part[(at - from) as usize..(known - from) as usize]);
            }
            at = at.max(known_to);
        }
        if at < to {
            self.octets[at as usize..to as usize].copy_from_slice(&part[(at - from) as usize..]);
        }
        let whole = match touched {
            0 => (from, to),
            _ => (from.min(self.parts[first].0), to.max(self.parts[first + touched - 1].1)),
        };
        self.parts.drain(first..first + touched);
        self.parts.try_insert(first, whole).map_err(|_| NotRead::TooLong)
    }

    /// Makes room for octets before the first ones.
    ///
    /// # Errors
    /// If the stream becomes too long.
    fn prepend(&mut self, count: u32) -> Result<(), NotRead> {
        if self.octets.len() + count as usize > LONGEST_STREAM {
            return Err(NotRead::TooLong);
        }
        self.octets.splice(0..0, std::iter::repeat_n(0, count as usize));
        for part in &mut self.parts {
            *part = (part.0 + count, part.1 + count);
        }
        Ok(())
    }
}

/// Where a stream begins.
#[derive(Debug)]
pub enum Beginning {
    /// TCP: the sequence number of its first octet; whether that is the ClientHello's.
    Tcp { sequence: u32, known: bool },
    /// QUIC: what its keys derive from, once an Initial was decrypted.
    Quic(Option<Origin>),
}

/// A ClientHello that is awaited.
#[derive(Debug)]
pub struct Awaited {
    pub beginning: Beginning,
    pub stream: Stream,
    packets: u8,
    /// Low 32 bits of the last packet's time, in ms.
    last_ms: u32,
}

impl Awaited {
    /// Nothing has arrived yet.
    pub fn new(beginning: Beginning, time_ms: u64) -> Awaited {
        Awaited { beginning, stream: Stream::default(), packets: 0, last_ms: time_ms as u32 }
    }

    /// Counts a packet.
    ///
    /// # Errors
    /// If there were too many.
    pub fn packet(&mut self, time_ms: u64) -> Result<(), NotRead> {
        self.last_ms = time_ms as u32;
        self.packets += 1;
        if self.packets > PACKETS { Err(NotRead::TooLong) } else { Ok(()) }
    }

    /// Number of packets that brought parts.
    pub fn packets(&self) -> u8 {
        self.packets
    }

    /// Adds a TCP segment's payload; `begins` says that it begins the ClientHello.
    ///
    /// # Errors
    /// As [`Stream::add`].
    pub fn segment(&mut self, number: u32, payload: &[u8], begins: bool) -> Result<(), NotRead> {
        let Beginning::Tcp { sequence, known } = &mut self.beginning else { return Ok(()) };
        let offset = number.wrapping_sub(*sequence) as i32;
        let before = offset.min(0).unsigned_abs();
        if *known {
            // A segment sent again, or one that keeps the connection alive.
            let payload = payload.get(before as usize..).unwrap_or(&[]);
            return self.stream.add(offset.max(0) as u64, payload);
        }
        *known = begins;
        if before > 0 {
            self.stream.prepend(before)?;
            *sequence = number;
        } else if begins {
            // What came before it was something else.
            self.stream = Stream::default();
            *sequence = number;
            return self.stream.add(0, payload);
        }
        self.stream.add(offset.max(0) as u64, payload)
    }

    /// The ClientHello's octets so far; `None` if its start is not known.
    pub fn start(&self) -> Option<&[u8]> {
        match self.beginning {
            Beginning::Tcp { known: false, .. } => None,
            _ => Some(self.stream.start()),
        }
    }
}

/// Identifies a place. It becomes invalid when another flow takes the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    pub place: u16,
    /// Number of times that the place was freed before, modulo 65,536.
    pub generation: u16,
}

/// The ClientHellos that a worker awaits.
#[derive(Debug, Default)]
pub struct Waiting {
    places: Vec<(u16, Option<Awaited>)>,
    free: Vec<u16>,
    octets: usize,
    /// Where the search for an idle place continues.
    hand: usize,
    /// Flows that lost their place since this was last read.
    pub displaced: u64,
}

impl Waiting {
    /// Keeps a ClientHello in a place of its own; another that is idle may lose its place.
    ///
    /// # Errors
    /// If all places are taken, or the memory of `limit` octets, by flows that are not idle.
    pub fn keep(&mut self, awaited: Awaited, limit: usize) -> Result<Ticket, NotRead> {
        if self.free.is_empty() && self.places.len() == PLACES {
            self.displace(awaited.last_ms);
        }
        let place = match self.free.pop() {
            Some(place) => place,
            None if self.places.len() < PLACES => {
                self.places.push((0, None));
                (self.places.len() - 1) as u16
            }
            None => return Err(NotRead::NoPlace),
        };
        let ticket = Ticket { place, generation: self.places[usize::from(place)].0 };
        self.put_back(ticket, awaited, limit).inspect_err(|_| self.free.push(place))?;
        Ok(ticket)
    }

    /// Takes a ClientHello out of its place, which stays reserved for [`Waiting::put_back`] or [`Waiting::free`]; `None`
    /// if the flow has lost it.
    pub fn take(&mut self, ticket: Ticket) -> Option<Awaited> {
        let (generation, place) = self.places.get_mut(usize::from(ticket.place))?;
        let awaited = if *generation == ticket.generation { place.take() } else { None }?;
        self.octets -= awaited.stream.octets.capacity();
        Some(awaited)
    }

    /// Puts a ClientHello into its place.
    ///
    /// # Errors
    /// If the memory does not suffice. The place is then still to be freed.
    pub fn put_back(&mut self, ticket: Ticket, awaited: Awaited, limit: usize) -> Result<(), NotRead> {
        let octets = awaited.stream.octets.capacity();
        if self.octets + octets > limit {
            self.displace(awaited.last_ms);
        }
        if self.octets + octets > limit {
            return Err(NotRead::NoMemory);
        }
        self.octets += octets;
        self.places[usize::from(ticket.place)].1 = Some(awaited);
        Ok(())
    }

    /// Frees a place from which the ClientHello was taken.
    pub fn free(&mut self, ticket: Ticket) {
        let (generation, _) = &mut self.places[usize::from(ticket.place)];
        *generation = generation.wrapping_add(1);
        self.free.push(ticket.place);
    }

    /// Frees a place; returns what was in it, if the flow still had it.
    pub fn give_up(&mut self, ticket: Ticket) -> Option<Awaited> {
        let awaited = self.take(ticket)?;
        self.free(ticket);
        Some(awaited)
    }

    /// Number of ClientHellos that wait, and their octets.
    pub fn load(&self) -> (usize, usize) {
        (self.places.len() - self.free.len(), self.octets)
    }

    /// Frees the places of idle flows, of a few that are looked at.
    fn displace(&mut self, now_ms: u32) {
        for _ in 0..LOOKS.min(self.places.len()) {
            self.hand = (self.hand + 1) % self.places.len();
            let (generation, place) = &self.places[self.hand];
            let ticket = Ticket { place: self.hand as u16, generation: *generation };
            // A last packet slightly after `now_ms` does not make a place idle.
            let is_idle = |awaited: &Awaited| now_ms.wrapping_sub(awaited.last_ms) as i32 > IDLE_MS as i32;
            if place.as_ref().is_some_and(is_idle) {
                self.give_up(ticket);
                self.displaced += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tcp(sequence: u32, known: bool) -> Awaited {
        Awaited::new(Beginning::Tcp { sequence, known }, 0)
    }

    #[test]
    fn parts_in_any_order_are_one_in_the_end() {
        let mut stream = Stream::default();
        for (offset, part, start) in
            [(6, "6789", ""), (0, "01", "01"), (4, "45", "01"), (1, "12", "012"), (3, "3", "0123456789")]
        {
            stream.add(offset, part.as_bytes()).unwrap();
            assert_eq!(stream.start(), start.as_bytes());
        }
        stream.add(2, b"????").unwrap();
        assert_eq!(stream.start(), b"0123456789", "what comes again changes nothing");
    }

    #[test]
    fn length_gaps_and_packets_are_bounded() {
        let mut stream = Stream::default();
        assert_eq!(stream.add(LONGEST_STREAM as u64, b"1"), Err(NotRead::TooLong));
        assert_eq!(stream.add(u64::MAX, b"1"), Err(NotRead::TooLong));
        for part in 0..PARTS as u64 {
            stream.add(2 * part, b"1").unwrap();
        }
        assert_eq!(stream.add(2 * PARTS as u64, b"1"), Err(NotRead::TooLong));
        let mut awaited = tcp(0, true);
        let packets = (0..100).take_while(|_| awaited.packet(0).is_ok()).count();
        assert_eq!(packets, usize::from(PACKETS));
    }

    #[test]
    fn segments_before_the_first_one_come_first() {
        let mut awaited = tcp(u32::MAX - 1, false);
        awaited.segment(u32::MAX - 1, b"3456", false).unwrap();
        assert_eq!(awaited.start(), None);
        awaited.segment(u32::MAX - 4, b"012", true).unwrap();
        assert_eq!(awaited.start(), Some(&b"0123456"[..]));
        awaited.segment(1, b"?789", false).unwrap();
        awaited.segment(u32::MAX - 6, b"????0", false).unwrap();
        assert_eq!(awaited.start(), Some(&b"0123456789"[..]));
        assert_eq!(tcp(0, false).segment(u32::MAX / 2, b"far behind", false), Err(NotRead::TooLong));
        let mut far = tcp(1 << 20, false);
        assert_eq!(far.segment(0, b"far before", true), Err(NotRead::TooLong));
    }

    #[test]
    fn places_and_memory_are_bounded_and_given_back() {
        let mut waiting = Waiting::default();
        let filled = |octets: usize, time_ms| {
            let mut awaited = Awaited::new(Beginning::Tcp { sequence: 0, known: true }, time_ms);
            awaited.stream.add(0, &vec![1; octets]).unwrap();
            awaited
        };
        let tickets: Vec<Ticket> = (0..PLACES).map(|_| waiting.keep(filled(10, 0), 1 << 20).unwrap()).collect();
        assert_eq!(waiting.keep(filled(10, 100), 1 << 20), Err(NotRead::NoPlace));
        assert_eq!(waiting.load().0, PLACES);
        let newer = waiting.keep(filled(10, 3_000), 1 << 20).unwrap();
        assert_eq!(waiting.displaced, LOOKS as u64);
        assert!(tickets.iter().filter(|&&ticket| waiting.take(ticket).is_none()).count() == LOOKS);
        assert!(waiting.take(newer).is_some());
        assert_eq!(waiting.load().1, 0);

        let mut waiting = Waiting::default();
        let ticket = waiting.keep(filled(600, 0), 1000).unwrap();
        assert_eq!(waiting.keep(filled(600, 0), 1000), Err(NotRead::NoMemory));
        assert_eq!(waiting.load().0, 1, "no place is lost");
        let taken = waiting.take(ticket).unwrap();
        assert!(waiting.take(ticket).is_none());
        waiting.put_back(ticket, taken, 1000).unwrap();
        waiting.take(ticket).unwrap();
        waiting.free(ticket);
        assert_eq!(waiting.load(), (0, 0));
        assert_ne!(waiting.keep(filled(1, 0), 1000).unwrap(), ticket);
    }

    proptest! {
        #[test]
        fn a_stream_is_what_was_cut(
            whole in proptest::collection::vec(any::<u8>(), 1..300),
            cuts in proptest::collection::vec((any::<prop::sample::Index>(), 1usize..40), 1..60),
        ) {
            let mut stream = Stream::default();
            let mut known = vec![false; whole.len()];
            for (from, length) in cuts {
                let from = from.index(whole.len());
                let to = (from + length).min(whole.len());
                if stream.add(from as u64, &whole[from..to]).is_err() {
                    break;
                }
                known[from..to].fill(true);
                let start = known.iter().take_while(|&&known| known).count();
                prop_assert_eq!(stream.start(), &whole[..start]);
            }
        }
    }
}
