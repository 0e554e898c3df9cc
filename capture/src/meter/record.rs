//! What one flow did in one interval.

use super::Volume;
use super::key::{End, Initiator, Key, SYN_ACK};
use crate::packet::{IcmpRole, IpPacket, tcp};

/// What one end of a flow sent in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Layer-3 octets.
    pub octets: u64,
    /// Packets.
    pub packets: u32,
    /// TCP segments with SYN and without ACK.
    pub syn: u32,
    /// TCP segments with SYN and ACK.
    pub synack: u32,
    /// TCP segments with FIN.
    pub fin: u32,
    /// TCP segments with RST.
    pub rst: u32,
    /// ICMP error messages.
    pub icmp_errors: u32,
}

/// The deltas of one biflow in one interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Who.
    pub key: Key,
    /// Which end began.
    pub initiator: Initiator,
    /// From SYN to the ACK of its SYN-ACK, microseconds; 0 where not seen in this interval.
    pub handshake_rtt_us: u32,
    /// First packet ever, ms from the Unix epoch.
    pub start_ms: i64,
    /// First packet in this interval, ms from the Unix epoch.
    pub first_ms: i64,
    /// Last packet in this interval, ms from the Unix epoch.
    pub last_ms: i64,
    /// What each end of the key sent.
    pub sent: [Sent; 2],
}

impl Record {
    /// A record without packets yet.
    pub fn new(key: Key, initiator: Initiator, start_ms: i64, now_ms: i64) -> Record {
        Record {
            key,
            initiator,
            handshake_rtt_us: 0,
            start_ms,
            first_ms: now_ms,
            last_ms: now_ms,
            sent: [Sent::default(); 2],
        }
    }

    /// Counts a packet that `sender` sent.
    pub fn add(&mut self, ip: &IpPacket, octets: u32, sender: End, now_ms: i64) {
        self.first_ms = self.first_ms.min(now_ms);
        self.last_ms = self.last_ms.max(now_ms);
        let sent = &mut self.sent[usize::from(sender)];
        sent.packets += 1;
        sent.octets += u64::from(octets);
        if let Some(tcp) = ip.tcp {
            if tcp.flags & (tcp::SYN | tcp::FIN | tcp::RST) != 0 {
                match tcp.flags & SYN_ACK {
                    tcp::SYN => sent.syn += 1,
                    SYN_ACK => sent.synack += 1,
                    _ => {}
                }
                sent.fin += u32::from(tcp.flags & tcp::FIN != 0);
                sent.rst += u32::from(tcp.flags & tcp::RST != 0);
            }
        } else if ip.icmp == IcmpRole::Error {
            sent.icmp_errors += 1;
        }
    }

    /// What the initiator sent.
    pub fn forward(&self) -> &Sent {
        &self.sent[usize::from(self.initiator.end)]
    }

    /// What the initiator was sent.
    pub fn reverse(&self) -> &Sent {
        &self.sent[usize::from(1 - self.initiator.end)]
    }

    /// Both directions together.
    pub fn volume(&self) -> Volume {
        let [a, b] = &self.sent;
        Volume { packets: u64::from(a.packets) + u64::from(b.packets), octets: a.octets + b.octets }
    }
}
