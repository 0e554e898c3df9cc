//! Who sent a datagram or a record, and in which protocol.

use crate::packet::Address;
use std::fmt;

/// The protocol of an exporter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// NetFlow version 5.
    NetflowV5,
    /// NetFlow version 9 (RFC 3954).
    NetflowV9,
    /// IPFIX (RFC 7011).
    Ipfix,
    /// sFlow version 5.
    Sflow,
    /// nProbe's records, over ZeroMQ or Kafka.
    Nprobe,
}

impl Protocol {
    pub const ALL: [Protocol; 5] =
        [Protocol::NetflowV5, Protocol::NetflowV9, Protocol::Ipfix, Protocol::Sflow, Protocol::Nprobe];

    /// The protocol as metrics and saved states name it.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::NetflowV5 => "netflow5",
            Protocol::NetflowV9 => "netflow9",
            Protocol::Ipfix => "ipfix",
            Protocol::Sflow => "sflow",
            Protocol::Nprobe => "nprobe",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The transport session of a message (RFC 7011, section 2), without the collector's own address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Session {
    /// Address of the exporter, or of the host that forwards its datagrams.
    pub address: Address,
    pub port: u16,
    /// The collector's port.
    pub local_port: u16,
    /// TCP; else UDP.
    pub stream: bool,
}

impl From<Address> for Session {
    fn from(address: Address) -> Session {
        Session { address, ..Session::default() }
    }
}

/// Who sent a record. The source port is not part of it: an exporter that restarts sends from another port and is still
/// the same exporter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExporterInfo {
    /// Source address of its datagrams, or the exporter that nProbe's records name.
    pub address: Address,
    /// In sFlow its own name for itself, which forwarders preserve; else zeros.
    pub agent: Address,
    pub protocol: Protocol,
    /// Observation domain (IPFIX), source id (v9), engine type * 256 + id (v5), sub-agent id (sFlow), source id
    /// (nProbe over ZeroMQ).
    pub domain: u32,
}

impl ExporterInfo {
    /// The exporter's address: the sFlow agent's if it names itself, else the datagram's sender.
    pub fn speaker(&self) -> &Address {
        if self.agent == Address::default() { &self.address } else { &self.agent }
    }

    /// The sub-agent of an sFlow agent; 0 for a whole exporter.
    pub fn sub_agent(&self) -> u32 {
        if self.protocol == Protocol::Sflow { self.domain } else { 0 }
    }
}
