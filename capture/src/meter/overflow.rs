//! Coarser, one-way records for flows that do not fit, in a table of fixed size.
//!
//! Every packet climbs a ladder. A packet counts in the record of (source, destination port) or of (destination,
//! destination port), whichever key has more packets in this interval, provided that these are a fair share of all
//! packets; otherwise it counts in the record of (protocol, direction), a key with so few values that they always fit.
//! Two count-min sketches estimate the packets of a key (Cormode and Muthukrishnan 2005), which never estimate too low:
//! an estimate decides which record a packet is counted in, never how much is counted.

use super::sketch::Sketch;
use crate::packet::{Address, IpPacket, tcp};
use crate::volume::Volume;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv6Addr};

/// The key of an overflow record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OverflowKey {
    /// All packets from the source at this address to one port.
    Source(Address, OverflowKind, u16),
    /// All packets to one port of the destination at this address.
    Destination(Address, OverflowKind, u16),
    /// All other packets of a protocol; true if they enter a local network.
    Direction(OverflowKind, bool),
}

/// Fields that records of every rung of the ladder have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OverflowKind {
    /// Protocol above IP.
    pub protocol: u8,
    /// 4 or 6.
    pub version: u8,
}

/// One coarse record of an interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverflowRecord {
    /// Over what.
    pub key: OverflowKey,
    /// How much, one-way.
    pub volume: Volume,
    /// SYNs without ACK.
    pub syn: u64,
    /// The distinct counterparts.
    pub distinct: Sketch,
    /// First packet, ms from the Unix epoch.
    pub first_ms: i64,
    /// Last packet, ms from the Unix epoch.
    pub last_ms: i64,
}

/// Maximum records with an address per worker and interval.
const MAX_ADDRESSED: usize = 4096;
/// A key gets a record of its own once it has this fraction of all overflow packets of the interval.
const SHARE: u64 = 1024;
/// Minimum packets of such a key.
const LEAST: u64 = 2;
/// Counters in each of a sketch's two rows.
const WIDTH: usize = 1 << 14;

/// The overflow records of one worker's interval.
pub struct Overflow {
    records: Vec<OverflowRecord>,
    index: HashTable<u32>,
    hasher: RandomState,
    addressed: usize,
    packets: u64,
    sources: Gathered,
    destinations: Gathered,
    local: Vec<Network>,
}

impl Overflow {
    /// An empty table; `local` says which destinations are inbound.
    pub fn new(local: Vec<Network>) -> Overflow {
        Overflow {
            records: Vec::new(),
            index: HashTable::new(),
            hasher: RandomState::default(),
            addressed: 0,
            packets: 0,
            sources: Gathered::default(),
            destinations: Gathered::default(),
            local,
        }
    }

    /// Counts a packet, or fragments that waited together.
    pub fn add(&mut self, ip: &IpPacket, volume: Volume, now_ms: i64) {
        self.packets += volume.packets;
        let kind = OverflowKind { protocol: ip.protocol, version: ip.version };
        let source = OverflowKey::Source(ip.src, kind, ip.dst_port);
        let destination = OverflowKey::Destination(ip.dst, kind, ip.dst_port);
        let (source_hash, destination_hash) = (self.hasher.hash_one(source), self.hasher.hash_one(destination));
        let of_source = self.sources.add(source_hash);
        let of_destination = self.destinations.add(destination_hash);
        let (key, hash, gathered) = if of_source >= of_destination {
            (source, source_hash, of_source)
        } else {
            (destination, destination_hash, of_destination)
        };
        let earned = gathered >= LEAST.max(self.packets / SHARE);
        let number = self.number(key, hash, earned && self.addressed < MAX_ADDRESSED, now_ms).unwrap_or_else(|| {
            let key = OverflowKey::Direction(kind, self.inbound(&ip.dst));
            let hash = self.hasher.hash_one(key);
            self.number(key, hash, true, now_ms).expect("the last rung has room for all")
        });
        let record = &mut self.records[number];
        record.volume += volume;
        record.syn += u64::from(ip.tcp.is_some_and(|tcp| tcp.flags & (tcp::SYN | tcp::ACK) == tcp::SYN));
        record.first_ms = record.first_ms.min(now_ms);
        record.last_ms = record.last_ms.max(now_ms);
        match record.key {
            OverflowKey::Source(..) => record.distinct.insert(&ip.dst),
            OverflowKey::Destination(..) => record.distinct.insert(&ip.src),
            OverflowKey::Direction(..) => record.distinct.insert(&[ip.src, ip.dst].concat()),
        }
    }

    /// Returns the records and resets the table.
    pub fn take(&mut self) -> Vec<OverflowRecord> {
        if self.packets > 0 {
            self.index.clear();
            self.addressed = 0;
            self.packets = 0;
            self.sources.clear();
            self.destinations.clear();
        }
        std::mem::take(&mut self.records)
    }

    /// The index of a key's record, created if `make` allows.
    fn number(&mut self, key: OverflowKey, hash: u64, make: bool, now_ms: i64) -> Option<usize> {
        let records = &mut self.records;
        if let Some(&number) = self.index.find(hash, |&number| records[number as usize].key == key) {
            return Some(number as usize);
        }
        if !make {
            return None;
        }
        let number = records.len();
        records.push(OverflowRecord {
            key,
            volume: Volume::default(),
            syn: 0,
            distinct: Sketch::default(),
            first_ms: now_ms,
            last_ms: now_ms,
        });
        self.addressed += usize::from(!matches!(key, OverflowKey::Direction(..)));
        let hasher = &self.hasher;
        self.index.insert_unique(hash, number as u32, |&number| hasher.hash_one(records[number as usize].key));
        Some(number)
    }

    fn inbound(&self, dst: &Address) -> bool {
        self.local.iter().any(|network| network.contains(dst))
    }
}

/// Upper estimates of packets per key: two rows of counters, of which the smaller value counts.
#[derive(Default)]
struct Gathered {
    rows: Vec<[u32; 2]>,
}

impl Gathered {
    fn add(&mut self, hash: u64) -> u64 {
        if self.rows.is_empty() {
            self.rows = vec![[0; 2]; WIDTH];
        }
        let mut least = u32::MAX;
        for (row, bits) in [hash as usize, (hash >> 32) as usize].into_iter().enumerate() {
            let counter = &mut self.rows[bits % WIDTH][row];
            *counter = counter.saturating_add(1);
            least = least.min(*counter);
        }
        u64::from(least)
    }

    fn clear(&mut self) {
        self.rows.fill([0; 2]);
    }
}

/// An address prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    bits: u128,
    mask: u128,
}

impl Network {
    /// Whether an address lies within.
    pub fn contains(&self, address: &Address) -> bool {
        u128::from_be_bytes(*address) & self.mask == self.bits
    }

    /// Its first and its last address.
    pub fn range(&self) -> (u128, u128) {
        (self.bits, self.bits | !self.mask)
    }
}

/// A text that is neither an address nor an address prefix.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not an address prefix such as \"192.0.2.0/24\" or \"2001:db8::/32\", nor an address")]
pub struct BadNetwork(String);

impl std::str::FromStr for Network {
    type Err = BadNetwork;

    fn from_str(text: &str) -> Result<Network, BadNetwork> {
        let bad = || BadNetwork(text.to_owned());
        let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let length: u32 = match length {
            Some(length) => length.parse().map_err(|_| bad())?,
            None if address.is_ipv4() => 32,
            None => 128,
        };
        let (address, length): (Ipv6Addr, u32) = match address {
            IpAddr::V4(v4) if length <= 32 => (v4.to_ipv6_mapped(), length + 96),
            IpAddr::V6(v6) if length <= 128 => (v6, length),
            _ => return Err(bad()),
        };
        let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
        Ok(Network { bits: u128::from_be_bytes(address.octets()) & mask, mask })
    }
}
