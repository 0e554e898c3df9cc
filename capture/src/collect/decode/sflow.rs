//! sFlow version 5 (sflow.org, "sFlow Version 5", 2004): one record for each sampled packet.

use crate::collect::cause::Refusal;
use crate::collect::decode::sample::{FlowRecord, Words};
use crate::collect::element::PEN_SFLOW;
use crate::collect::element::event::Take;
use crate::collect::element::frame;
use crate::collect::element::moment::Moment;
use crate::collect::element::octets::{is_mapped, mapped};
use crate::collect::element::routed::Routed;
use crate::collect::element::values::is_absurd;
use crate::collect::exporter::counting::{Counting, Units};
use crate::collect::exporter::origin::ExporterInfo;
use crate::collect::exporter::origin::Protocol;
use crate::collect::exporter::origin::Session;
use crate::collect::exporter::pool::Stated;
use crate::collect::exporter::sequence::Numbered;
use crate::collect::exporter::{Exporter, Exporters};
use crate::collect::limits::DecodeLimits;
use crate::collect::record::{Imported, InterfaceCounters, SentCounts};
use crate::packet::{Address, LinkType};

/// Gaps in the numbers of one source that late samples may still fill.
const GAPS: usize = 16;
/// Samples of packets, with interfaces and sources in one word or in two.
const FLOW: u32 = 1;
const EXPANDED_FLOW: u32 = 3;
const COUNTERS: [u32; 2] = [2, 4];

/// A counter record within a sample: of an interface.
const IF_COUNTERS: u32 = 1;
/// The value for a VLAN or an interface that the agent does not know.
const UNKNOWN: u32 = u32::MAX;
const UNKNOWN_COMPACT: u32 = 0x3fff_ffff;

/// Fields of every packet sample.
struct Sample<'a> {
    sequence: u32,
    source: u64,
    rate: u32,
    pool: u32,
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
    (received_ms, content): (i64, u64),
    data: &[u8],
    take: &mut impl Take,
) -> Result<(), Refusal> {
    let mut words = Words(data.get(4..).unwrap_or(&[]));
    let mut header = || Some((words.address()?, words.word()?, words.word()?, words.word()?, words.word()?));
    let (agent, domain, sequence, uptime, samples) = header().ok_or(Refusal::Truncated)?;
    let info = ExporterInfo { address, agent, protocol: Protocol::Sflow, domain };
    let share = exporters.share(limits);
    let slot = exporters.place(&info, limits);
    let exporter = exporters.slot(slot);
    let moment = Moment { received_ms, export_ms: received_ms, uptime_ms: Some(uptime), boot_ms: None };
    // The port does not matter: the agent names itself.
    let at = exporter.talk(Session::from(address), sequence, limits);
    let sent_ms = i64::from(uptime);
    let holds = |counting: &Counting, uptime_runs_on: bool| {
        uptime_runs_on && counting.may_hold(Protocol::Sflow, sequence, sent_ms)
    };
    exporter.hear(at, &moment, data.len(), limits, holds);
    if exporter.is_repeated(at, sequence, content, share) {
        return Ok(());
    }
    let units = Units { flows: None, records: None };
    let losses = &mut exporter.counts.losses;
    exporter.talks[at].counting.hear(Protocol::Sflow, sequence, units, sent_ms, losses);
    for _ in 0..samples {
        let Some((format, octets)) =
            words.word().zip(words.word()).and_then(|(format, length)| Some((format, words.octets(length)?)))
        else {
            exporter.counts.count(Refusal::Truncated);
            break;
        };
        if COUNTERS.contains(&format) {
            exporter.counts.counter_samples += 1;
            counters(exporter, octets, format == COUNTERS[1], take);
        } else if format == FLOW || format == EXPANDED_FLOW {
            let Some(mut sample) = sample(octets, format == EXPANDED_FLOW) else {
                exporter.counts.count(Refusal::BadLength);
                continue;
            };
            sample.rate = follow(exporter, &sample, (received_ms, sent_ms), limits);
            let mut read = Imported::default();
            match record(exporter, &sample, received_ms, &mut read) {
                Ok(()) => {
                    exporter.counts.records += 1;
                    take.flow(&exporter.info, &read);
                }
                Err(cause) => exporter.counts.count(cause),
            }
        } else {
            exporter.counts.count(Refusal::UnknownSample);
        }
    }
    exporters.bound_options(slot, limits);
    Ok(())
}

/// Hands over the counters of an interface; other records of the sample are left out.
fn counters(exporter: &mut Exporter, octets: &[u8], expanded: bool, take: &mut impl Take) {
    let mut words = Words(octets);
    // Sequence number, source, and number of records; without the records they are useless.
    let head = if expanded { 16 } else { 12 };
    if words.octets(head).is_none() {
        exporter.counts.count(Refusal::BadLength);
        return;
    }
    while !words.0.is_empty() {
        let Some((format, octets)) = words.record() else {
            exporter.counts.count(Refusal::BadLength);
            return;
        };
        match (format, interface_counters(octets)) {
            (IF_COUNTERS, Some(read)) if take.counters(&exporter.info, &read) => {}
            (IF_COUNTERS, Some(_)) => exporter.counts.count(Refusal::InterfacesForgotten),
            (IF_COUNTERS, None) => exporter.counts.count(Refusal::BadLength),
            _ => exporter.left_out.count((PEN_SFLOW, format as u16), 1),
        }
    }
}

fn interface_counters(octets: &[u8]) -> Option<InterfaceCounters> {
    let mut words = Words(octets);
    let mut word = || words.word();
    let index = word()?;
    word()?;
    let long = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
    let speed = long(word()?, word()?);
    let (_direction, status) = (word()?, word()?);
    let octets_in = long(word()?, word()?);
    let packets_in = u64::from(word()?) + u64::from(word()?) + u64::from(word()?);
    let (discards_in, errors_in, _unknown_protocols) = (word()?, word()?, word()?);
    let octets_out = long(word()?, word()?);
    let packets_out = u64::from(word()?) + u64::from(word()?) + u64::from(word()?);
    let (discards_out, errors_out) = (word()?, word()?);
    Some(InterfaceCounters {
        index,
        speed,
        status: status & 3,
        octets: [octets_in, octets_out],
        packets: [packets_in, packets_out],
        discards: [discards_in, discards_out],
        errors: [errors_in, errors_out],
    })
}

fn sample(octets: &[u8], expanded: bool) -> Option<Sample<'_>> {
    let (sequence, source, [rate, pool, drops], interfaces, records) = if expanded {
        let ([sequence, kind, index, rate, pool, drops, in_format, input, out_format, output, _], records) =
            words(octets)?;
        (sequence, (kind, index), [rate, pool, drops], [(in_format, input), (out_format, output)], records)
    } else {
        let ([sequence, source, rate, pool, drops, input, output, _], records) = words(octets)?;
        let interfaces = [input, output].map(|word| (word >> 30, word & 0x3fff_ffff));
        (sequence, (source >> 24, source & 0xff_ffff), [rate, pool, drops], interfaces, records)
    };
    let source = u64::from(source.0) << 32 | u64::from(source.1);
    let [input, output] = interfaces.map(|(format, value)| {
        // Other formats state a reason for discarding, or a number of interfaces.
        let known = format == 0 && value != UNKNOWN && value != UNKNOWN_COMPACT;
        if known { value } else { 0 }
    });
    Some(Sample { sequence, source, rate, pool, drops, input, output, records })
}

/// The first words, and what follows them.
#[inline]
fn words<const N: usize>(octets: &[u8]) -> Option<([u32; N], Words<'_>)> {
    let (first, rest) = octets.split_at_checked(4 * N)?;
    let mut words = [0; N];
    for (word, octets) in words.iter_mut().zip(first.chunks_exact(4)) {
        *word = u32::from_be_bytes([octets[0], octets[1], octets[2], octets[3]]);
    }
    Some((words, Words(rest)))
}

/// Counts lost samples and packets that the agent could not sample; returns the effective rate.
fn follow(exporter: &mut Exporter, sample: &Sample<'_>, (now_ms, sent_ms): (i64, i64), limits: &DecodeLimits) -> u32 {
    let (source, counts) = exporter.source(sample.source, now_ms, limits);
    let numbered = Numbered { number: sample.sequence, units: Some(1), sent_ms };
    source.sequence.hear(numbered, GAPS, &mut counts.samples);
    counts.exporter_drops += source.more(sample.drops);
    let Sample { sequence, rate, pool, drops, .. } = *sample;
    source.pool.rate(Stated { at_ms: now_ms, sequence, rate, pool, drops })
}

/// Reads the packet of a sample into an empty record: parsed from its header if that was sent, else as the agent parsed it.
fn record<'a>(
    exporter: &mut Exporter,
    sample: &Sample<'a>,
    received_ms: i64,
    record: &mut Imported<'a>,
) -> Result<(), Refusal> {
    let mut words = sample.records;
    let mut found = Err(Refusal::NotIp);
    let mut vlan = 0;
    let mut routed = false;
    while !words.0.is_empty() {
        let (format, octets) = words.record().ok_or(Refusal::BadLength)?;
        match FlowRecord::from_number(format) {
            Some(FlowRecord::RawHeader) => {
                let read = raw_header(octets, record);
                if read.is_ok() || found.is_err() {
                    found = read;
                }
            }
            Some(version @ (FlowRecord::SampledIpv4 | FlowRecord::SampledIpv6)) => {
                if found.is_err() {
                    let six = version == FlowRecord::SampledIpv6;
                    found = sampled_ip(octets, six, record).ok_or(Refusal::BadLength);
                }
            }
            Some(FlowRecord::ExtendedSwitch) => {
                let mut words = Words(octets);
                let (source, _, destination) = (words.word(), words.word(), words.word());
                let known = |vlan: &u32| (1..0xfff).contains(vlan);
                vlan = [source, destination].into_iter().flatten().find(known).unwrap_or(0) as u16;
            }
            Some(FlowRecord::ExtendedRouter | FlowRecord::ExtendedGateway) => routed = true,
            None => exporter.left_out.count((PEN_SFLOW, format as u16), 1),
        }
    }
    found?;
    if record.vlan == 0 {
        record.vlan = vlan;
    }
    record.sent[0].packets = 1;
    (record.first_ms, record.last_ms) = (received_ms, received_ms);
    record.sampling = Some(sample.rate).filter(|&rate| rate > 0);
    if is_absurd(&record.sent[0], record.sampling) {
        return Err(Refusal::Absurd);
    }
    (record.input_interface, record.output_interface) = (sample.input, sample.output);
    if routed {
        record.routed = Some(Routed::Sflow(sample.records.0));
    }
    Ok(())
}

fn raw_header(octets: &[u8], record: &mut Imported<'_>) -> Result<(), Refusal> {
    let mut words = Words(octets);
    let mut fixed = || Some((words.word()?, words.word()?, words.word()?, words.word()?));
    let (protocol, length, _stripped, captured) = fixed().ok_or(Refusal::BadLength)?;
    let data = words.octets(captured).ok_or(Refusal::BadLength)?;
    let link = link(protocol).ok_or(Refusal::BadHeader)?;
    frame::read(link, data, length, record)
}

/// The link layer of a sampled header (sFlow version 5, `header_protocol`).
fn link(protocol: u32) -> Option<LinkType> {
    Some(match protocol {
        1 => LinkType::Ethernet,
        4 => LinkType::Fddi,
        5 => LinkType::FrameRelay,
        // PPP over SONET frames it as HDLC (RFC 1662, RFC 2615).
        7 | 14 => LinkType::Ppp,
        11 | 12 => LinkType::RawIp,
        13 => LinkType::Mpls,
        _ => return None,
    })
}

/// Takes over the packet's headers as the agent parsed them.
fn sampled_ip(octets: &[u8], six: bool, record: &mut Imported<'_>) -> Option<()> {
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
    (record.addresses, record.ports, record.protocol) = (addresses, ports, protocol);
    record.version = if addresses.iter().all(is_mapped) { 4 } else { 6 };
    record.sent = [sent, SentCounts::default()];
    Some(())
}
