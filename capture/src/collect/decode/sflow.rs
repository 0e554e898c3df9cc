//! sFlow version 5 (sflow.org, "sFlow Version 5", 2004): one record for each sampled packet.

use crate::collect::cause::Refusal;
use crate::collect::element::moment::Moment;
use crate::collect::element::values::{is_mapped, mapped};
use crate::collect::exporter::{Exporter, ExporterInfo, Exporters, Protocol};
use crate::collect::limits::DecodeLimits;
use crate::collect::record::{Imported, SentCounts};
use crate::packet::{self, Address, Frame, LinkType, Packet};

/// Samples of packets, with interfaces and sources in one word or in two.
const FLOW: u32 = 1;
const EXPANDED_FLOW: u32 = 3;
const COUNTERS: [u32; 2] = [2, 4];

/// Flow records within a sample.
const RAW_HEADER: u32 = 1;
const SAMPLED_IPV4: u32 = 3;
const SAMPLED_IPV6: u32 = 4;
const EXTENDED_SWITCH: u32 = 1001;

/// Octets that are read from their start.
#[derive(Clone, Copy)]
struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    fn word(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*word))
    }

    fn octets(&mut self, count: u32) -> Option<&'a [u8]> {
        let (octets, rest) = self.0.split_at_checked(usize::try_from(count).ok()?)?;
        self.0 = rest;
        Some(octets)
    }

    fn address(&mut self) -> Option<Address> {
        match self.word()? {
            1 => Some(mapped(self.octets(4)?.try_into().ok()?)),
            2 => self.octets(16)?.try_into().ok(),
            // An agent that does not know its own address.
            0 => Some(Address::default()),
            _ => None,
        }
    }
}

/// What every sample of packets says.
struct Sample<'a> {
    sequence: u32,
    source: u64,
    rate: u32,
    drops: u32,
    input: u32,
    output: u32,
    records: Words<'a>,
}

/// Reads a datagram that begins with version 5.
pub(super) fn datagram(
    exporters: &mut Exporters,
    limits: &DecodeLimits,
    address: Address,
    received_ms: i64,
    data: &[u8],
    take: &mut impl FnMut(&ExporterInfo, &Imported<'_>),
) -> Result<(), Refusal> {
    let mut words = Words(data.get(4..).unwrap_or(&[]));
    let mut header = || Some((words.address()?, words.word()?, words.word()?, words.word()?, words.word()?));
    let (agent, domain, sequence, uptime, samples) = header().ok_or(Refusal::Truncated)?;
    let info = ExporterInfo { address, agent, protocol: Protocol::Sflow, domain };
    let exporter = exporters.get(&info, limits);
    let moment = Moment { received_ms, export_ms: received_ms, uptime_ms: Some(uptime), boot_ms: None };
    exporter.hear(&moment, data.len(), limits);
    exporter.sequence.hear(sequence, Some(1), &mut exporter.counts.losses);
    for _ in 0..samples {
        let Some((format, octets)) =
            words.word().zip(words.word()).and_then(|(format, length)| Some((format, words.octets(length)?)))
        else {
            exporter.counts.count(Refusal::Truncated);
            break;
        };
        if COUNTERS.contains(&format) {
            exporter.counts.counter_samples += 1;
        } else if format == FLOW || format == EXPANDED_FLOW {
            let Some(sample) = sample(octets, format == EXPANDED_FLOW) else {
                exporter.counts.count(Refusal::BadLength);
                continue;
            };
            follow(exporter, &sample, received_ms, limits);
            match record(&sample, received_ms) {
                Ok(record) => {
                    exporter.counts.records += 1;
                    take(&exporter.info, &record);
                }
                Err(cause) => exporter.counts.count(cause),
            }
        }
    }
    Ok(())
}

fn sample(octets: &[u8], expanded: bool) -> Option<Sample<'_>> {
    let mut words = Words(octets);
    let sequence = words.word()?;
    let source = if expanded {
        u64::from(words.word()?) << 32 | u64::from(words.word()?)
    } else {
        let source = words.word()?;
        u64::from(source >> 24) << 32 | u64::from(source & 0xff_ffff)
    };
    let (rate, _pool, drops) = (words.word()?, words.word()?, words.word()?);
    let mut interface = || {
        let (format, value) = if expanded {
            (words.word()?, words.word()?)
        } else {
            let word = words.word()?;
            (word >> 30, word & 0x3fff_ffff)
        };
        // Other formats: a reason to discard, a number of interfaces.
        Some(if format == 0 { value } else { 0 })
    };
    let (input, output) = (interface()?, interface()?);
    words.word()?;
    Some(Sample { sequence, source, rate, drops, input, output, records: words })
}

/// Keeps the count of samples that were lost, and of packets that the agent could not sample.
fn follow(exporter: &mut Exporter, sample: &Sample<'_>, now_ms: i64, limits: &DecodeLimits) {
    let mut losses = exporter.counts.samples;
    let source = exporter.source(sample.source, now_ms, limits);
    source.sequence.hear(sample.sequence, Some(1), &mut losses);
    let more = source.more(sample.drops);
    exporter.counts.samples = losses;
    exporter.counts.exporter_drops += more;
}

/// The packet of a sample: of its header where it was sent, else as the agent read it.
fn record(sample: &Sample<'_>, received_ms: i64) -> Result<Imported<'static>, Refusal> {
    let mut words = sample.records;
    let mut found = Err(Refusal::NotIp);
    let mut vlan = 0;
    while !words.0.is_empty() {
        let mut next = || {
            let format = words.word()?;
            let length = words.word()?;
            Some((format, words.octets(length)?))
        };
        let (format, octets) = next().ok_or(Refusal::BadLength)?;
        match format {
            RAW_HEADER => {
                let read = raw_header(octets);
                if read.is_ok() || found.is_err() {
                    found = read;
                }
            }
            SAMPLED_IPV4 | SAMPLED_IPV6 if found.is_err() => {
                found = sampled_ip(octets, format == SAMPLED_IPV6).ok_or(Refusal::BadLength);
            }
            EXTENDED_SWITCH => vlan = Words(octets).word().unwrap_or(0) as u16 & 0xfff,
            _ => {}
        }
    }
    let mut record = found?;
    if record.vlan == 0 {
        record.vlan = vlan;
    }
    record.sent[0].packets = 1;
    (record.first_ms, record.last_ms) = (received_ms, received_ms);
    record.sampling = Some(sample.rate).filter(|&rate| rate > 0);
    (record.input_interface, record.output_interface) = (sample.input, sample.output);
    Ok(record)
}

fn raw_header(octets: &[u8]) -> Result<Imported<'static>, Refusal> {
    let mut words = Words(octets);
    let mut fixed = || Some((words.word()?, words.word()?, words.word()?, words.word()?));
    let (protocol, length, stripped, captured) = fixed().ok_or(Refusal::BadLength)?;
    let data = words.octets(captured).ok_or(Refusal::BadLength)?;
    let link = match protocol {
        1 => LinkType::Ethernet,
        6 => LinkType::FrameRelay,
        7 => LinkType::Ppp,
        11 | 12 => LinkType::RawIp,
        _ => return Err(Refusal::BadHeader),
    };
    let mut packet = Packet::default();
    packet.read(&Frame { time_ns: 0, link, data, length: length.saturating_sub(stripped), vlan: None });
    let ip = packet.ip.map_err(|cause| match cause {
        packet::Cause::NotIp => Refusal::NotIp,
        _ => Refusal::BadHeader,
    })?;
    let sent = SentCounts {
        octets: u64::from(packet.octets),
        tcp_flags: ip.tcp.map_or(0, |tcp| tcp.flags),
        class_of_service: ip.class_of_service,
        ..SentCounts::default()
    };
    Ok(Imported {
        addresses: [ip.src, ip.dst],
        ports: [ip.src_port, ip.dst_port],
        version: ip.version,
        protocol: ip.protocol,
        vlan: packet.vlan,
        sent: [sent, SentCounts::default()],
        ..Imported::default()
    })
}

fn sampled_ip(octets: &[u8], six: bool) -> Option<Imported<'static>> {
    let mut words = Words(octets);
    let (length, protocol) = (words.word()?, words.word()? as u8);
    let mut address = || match six {
        true => words.octets(16)?.try_into().ok(),
        false => Some(mapped(words.octets(4)?.try_into().ok()?)),
    };
    let addresses = [address()?, address()?];
    let ports = [words.word()? as u16, words.word()? as u16];
    let sent = SentCounts {
        octets: u64::from(length),
        tcp_flags: words.word()? as u8,
        // Type of service of IPv4, priority of IPv6.
        class_of_service: words.word().map_or(0, |word| word as u8),
        ..SentCounts::default()
    };
    Some(Imported {
        addresses,
        ports,
        version: if addresses.iter().all(is_mapped) { 4 } else { 6 },
        protocol,
        sent: [sent, SentCounts::default()],
        ..Imported::default()
    })
}
