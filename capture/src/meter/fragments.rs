//! Determines the flow of a fragment.
//!
//! Only a datagram's first fragment has ports. The cache keeps these for the other fragments; fragments that arrive
//! before the first one wait for it, as sums. The cache returns fragments that waited too long, or had to make room,
//! without ports, so that the meter still counts them between their two hosts.

use super::index::Index;
use super::memory::place;
use crate::packet::{Address, IcmpRole, IpPacket};
use crate::volume::Volume;
use foldhash::fast::RandomState;
use std::collections::VecDeque;
use std::hash::BuildHasher;

/// Maximum number of datagrams known at the same time: fragments come in milliseconds, so this is enough for 10 Gb/s of
/// them.
pub const MAX_FRAGMENTED: usize = 1 << 16;
/// Octets per datagram.
pub const FRAGMENTED_COST: usize = size_of::<Entry>() + Index::COST + 2 * size_of::<u32>();
/// How long to remember a datagram after its first fragment arrived, ms (as long as Linux does).
const PATIENCE_MS: i64 = 30_000;
/// How long to remember a complete datagram, for repeated fragments, ms: its id may soon be reused.
const LINGER_MS: i64 = 1_000;

/// Maximum octets of one datagram's waiting fragments: far more than a datagram has.
const MOST_WAITING: u64 = 1 << 19;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Datagram {
    src: Address,
    dst: Address,
    id: u32,
    vlan: u16,
    /// 0 for IPv6, whose later fragments may name an extension header.
    protocol: u8,
}

/// The ports from the first fragment.
#[derive(Clone, Copy, Debug)]
struct Said {
    src_port: u16,
    dst_port: u16,
    protocol: u8,
    icmp: IcmpRole,
}

/// Later fragments that wait for the first one: the latest packet, and the sum of all.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// The latest of them.
    pub ip: IpPacket,
    /// Its outer VLAN id.
    pub vlan: u16,
    /// All of them.
    pub volume: Volume,
    /// When the first came, ms.
    pub first_ms: i64,
    /// When the last came, ms.
    pub last_ms: i64,
    /// Number of the newest interval in which one of them arrived.
    pub interval: i64,
}

struct Entry {
    datagram: Datagram,
    said: Option<Said>,
    waiting: Option<Waiting>,
    /// Layer-4 octets received, and those of the whole datagram, known from its last fragment.
    came: u32,
    whole: u32,
    since_ms: i64,
    /// When it came whole.
    done_ms: Option<i64>,
    hash: u64,
}

/// How to meter a fragment.
#[derive(Debug)]
pub enum FragmentPlace {
    /// Immediately, with the ports filled in, together with the fragments that waited for it.
    Flow(Option<Waiting>),
    /// Later, when its first fragment arrives.
    Waits,
}

/// Outcomes of fragments other than the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FragmentCounts {
    /// Counted in their flow, immediately or later.
    pub joined: Volume,
    /// The part of `joined` that waited for its first fragment.
    pub waited: Volume,
    /// Metered without ports because their first fragment did not arrive in time.
    pub timed_out: Volume,
    /// Metered without ports because too many waited.
    pub shed: Volume,
}

impl FragmentCounts {
    /// Every count with its name.
    pub fn named(&self) -> [(&'static str, Volume); 4] {
        let FragmentCounts { joined, waited, timed_out, shed } = *self;
        [("joined", joined), ("waited", waited), ("timed_out", timed_out), ("shed", shed)]
    }
}

/// The datagrams with observed fragments.
pub struct Fragments {
    entries: Vec<Entry>,
    free: Vec<u32>,
    index: Index,
    hasher: RandomState,
    /// Their numbers, oldest first.
    queue: VecDeque<u32>,
    capacity: usize,
    /// The fragments that wait now.
    held: Volume,
}

impl Fragments {
    /// Room for this many datagrams.
    pub fn new(capacity: usize) -> Fragments {
        Fragments {
            entries: Vec::new(),
            free: Vec::new(),
            index: Index::default(),
            hasher: RandomState::default(),
            queue: VecDeque::new(),
            capacity,
            held: Volume::default(),
        }
    }

    /// Volume that waits for its first fragment now.
    pub fn held(&self) -> Volume {
        self.held
    }

    /// Finds a fragment's place, with its flow's ports filled in if known.
    /// `interval` is the number of the interval in which the fragment arrived. Call [`Fragments::make_room`] first.
    pub fn place(
        &mut self,
        ip: &mut IpPacket,
        octets: u32,
        vlan: u16,
        (now_ms, interval): (i64, i64),
        counts: &mut FragmentCounts,
    ) -> FragmentPlace {
        let Some(fragment) = ip.fragment else { return FragmentPlace::Flow(None) };
        let protocol = if ip.version == 4 { ip.protocol } else { 0 };
        let datagram = Datagram { src: ip.src, dst: ip.dst, id: fragment.id, vlan, protocol };
        let hash = self.hasher.hash_one(datagram);
        let entries = &self.entries;
        let number = match self.index.find(hash, |number| entries[number as usize].datagram == datagram) {
            Some(number) => number,
            None => self.add(datagram, hash, now_ms),
        };
        let entry = &mut self.entries[number as usize];
        if entry.done_ms.is_some_and(|done_ms| now_ms - done_ms > LINGER_MS) {
            // Another datagram reused the id.
            (entry.said, entry.came, entry.whole, entry.done_ms) = (None, 0, 0, None);
        }
        entry.came = entry.came.saturating_add(ip.payload);
        if !fragment.more {
            entry.whole = (u32::from(fragment.offset) * 8).saturating_add(ip.payload);
        }
        if entry.whole > 0 && entry.came >= entry.whole && entry.done_ms.is_none() {
            entry.done_ms = Some(now_ms);
        }
        let one = Volume::one(octets);
        if fragment.offset == 0 {
            let said = Said { src_port: ip.src_port, dst_port: ip.dst_port, protocol: ip.protocol, icmp: ip.icmp };
            entry.said = Some(said);
            let mut waiting = entry.waiting.take();
            if let Some(waiting) = &mut waiting {
                self.held = self.held - waiting.volume;
                counts.joined += waiting.volume;
                counts.waited += waiting.volume;
                said.fill(&mut waiting.ip);
            }
            return FragmentPlace::Flow(waiting);
        }
        if let Some(said) = entry.said {
            said.fill(ip);
            counts.joined += one;
            return FragmentPlace::Flow(None);
        }
        let waiting = entry.waiting.get_or_insert(Waiting {
            ip: *ip,
            vlan,
            volume: Volume::default(),
            first_ms: now_ms,
            last_ms: now_ms,
            interval,
        });
        if waiting.volume.octets > MOST_WAITING {
            counts.shed += one;
            return FragmentPlace::Flow(None);
        }
        waiting.ip = *ip;
        waiting.interval = waiting.interval.max(interval);
        waiting.volume += one;
        waiting.first_ms = waiting.first_ms.min(now_ms);
        waiting.last_ms = waiting.last_ms.max(now_ms);
        self.held += one;
        FragmentPlace::Waits
    }

    fn add(&mut self, datagram: Datagram, hash: u64, now_ms: i64) -> u32 {
        let entry =
            Entry { datagram, said: None, waiting: None, came: 0, whole: 0, since_ms: now_ms, done_ms: None, hash };
        let number = place(&mut self.entries, &mut self.free, entry);
        self.index.insert(hash, number);
        self.queue.push_back(number);
        number
    }

    /// Forgets one expired datagram; returns the fragments that waited for it. Call until `None`.
    pub fn expired(&mut self, now_ms: i64, counts: &mut FragmentCounts) -> Option<Waiting> {
        while let Some(&number) = self.queue.front() {
            if now_ms - self.entries[number as usize].since_ms <= PATIENCE_MS {
                return None;
            }
            if let Some(waiting) = self.forget_oldest() {
                counts.timed_out += waiting.volume;
                return Some(waiting);
            }
        }
        None
    }

    /// Forgets the oldest datagram if there is no room for another one; returns the fragments that waited for it.
    pub fn make_room(&mut self, counts: &mut FragmentCounts) -> Option<Waiting> {
        if self.index.len() < self.capacity {
            return None;
        }
        let waiting = self.forget_oldest()?;
        counts.shed += waiting.volume;
        Some(waiting)
    }

    /// Forgets all datagrams, one per call; returns the fragments that waited. Call until `None`.
    pub fn drain(&mut self, counts: &mut FragmentCounts) -> Option<Waiting> {
        while !self.queue.is_empty() {
            if let Some(waiting) = self.forget_oldest() {
                counts.timed_out += waiting.volume;
                return Some(waiting);
            }
        }
        None
    }

    fn forget_oldest(&mut self) -> Option<Waiting> {
        let number = self.queue.pop_front()?;
        let entry = &mut self.entries[number as usize];
        let waiting = entry.waiting.take();
        self.index.remove(entry.hash, number);
        self.free.push(number);
        if let Some(waiting) = &waiting {
            self.held = self.held - waiting.volume;
        }
        waiting
    }
}

impl Said {
    fn fill(&self, ip: &mut IpPacket) {
        ip.src_port = self.src_port;
        ip.dst_port = self.dst_port;
        ip.protocol = self.protocol;
        ip.icmp = self.icmp;
    }
}
