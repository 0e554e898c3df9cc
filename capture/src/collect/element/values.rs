//! The values of one record, collected field by field, and the record built from them.

use crate::collect::cause::Refusal;
use crate::collect::element::frame;
use crate::collect::element::moment::Moment;
use crate::collect::element::octets::{is_mapped, mapped, number, text};
use crate::collect::element::{Clock, Meaning, PEN_NTOP};
use crate::collect::limits::DecodeLimits;
use crate::collect::record::{Imported, SentCounts};
use crate::packet::{Address, LinkType, protocol};

const ICMP: [u8; 2] = [protocol::ICMP, protocol::ICMPV6];
/// nDPI's numbers, in an application tag: classification engine 20 (RFC 6759) with ntop's PEN.
const NDPI_ENGINE: u8 = 20;

/// Sampling data of a record or an option.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sampled {
    interval: u32,
    packet_interval: u32,
    packet_space: Option<u32>,
    size: u32,
    population: u32,
    /// Id of a selector (RFC 5477, section 8.2.1); 0 for none.
    algorithm: u16,
    /// The template that it applies to; 0 for none.
    pub template: u16,
    /// A floating-point number of 64 or 32 bits.
    probability: u64,
    /// The sampler that it names.
    pub sampler: Option<u64>,
}

/// No rate is higher.
const HIGHEST_RATE: u32 = 1 << 24;
/// Selectors: n packets out of N, and each packet with a probability.
const RANDOM_OUT_OF: u16 = 3;
const UNIFORM: u16 = 4;

impl Sampled {
    /// One packet in this many; `None` if not stated.
    #[inline]
    pub fn rate(&self) -> Option<u32> {
        let plain = (self.packet_interval | self.population) == 0 && self.probability == 0;
        let rate = if plain { self.interval } else { self.by_selector() };
        if rate == 0 || rate > HIGHEST_RATE { None } else { Some(rate) }
    }

    #[cold]
    fn by_selector(&self) -> u32 {
        let out_of = self.population.checked_div(self.size).unwrap_or(0);
        let spaced = match (self.packet_interval, self.packet_space) {
            (0, _) | (_, None) => 0,
            (interval, Some(space)) => interval.saturating_add(space) / interval,
        };
        let chosen = match self.algorithm {
            RANDOM_OUT_OF => out_of,
            UNIFORM => self.by_probability(),
            _ => 0,
        };
        // Some exporters state the interval alone, without the space, and mean the rate.
        let all = [chosen, spaced, out_of, self.by_probability(), self.interval, self.packet_interval];
        all.into_iter().find(|&rate| rate > 0).unwrap_or(0)
    }

    fn by_probability(&self) -> u32 {
        let narrow = f64::from(f32::from_bits(self.probability as u32));
        let probability = if self.probability >> 32 == 0 { narrow } else { f64::from_bits(self.probability) };
        if probability > 0.0 && probability <= 1.0 { (1.0 / probability).round() as u32 } else { 0 }
    }

    /// Whether it announces sampling or filtering without a readable rate.
    pub fn is_strange(&self) -> bool {
        let said = self.interval | self.packet_interval | self.population | u32::from(self.algorithm);
        said != 0 || self.probability > 0
    }
}

/// A record's values, collected from its fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Whether both IPv4 addresses are present, and whether both IPv6 addresses are.
    pub four: bool,
    pub six: bool,
    /// Reference points of the times that are present.
    pub first: Option<Clock>,
    pub last: Option<Clock>,
    /// Whether the source is known to be the initiator.
    pub initiator_known: bool,
    /// Whether the record has only the first octets of a frame or IP packet.
    pub frame: Option<LinkType>,
}

/// The values of one record so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Values<'a> {
    /// The record, whole once [`Values::complete`] has run.
    pub record: Imported<'a>,
    four: [[u8; 4]; 2],
    six: [Address; 2],
    first: u64,
    last: u64,
    observed: u64,
    duration_ms: u64,
    icmp: u16,
    /// Whether the record states the type in a field of its own, in which 0 means an echo reply.
    icmp_type: bool,
    biflow: u8,
    rtt_us: u32,
    /// The exporter's boot time, ms from the Unix epoch; 0 if not stated.
    pub boot_ms: u64,
    /// Of sampling.
    pub sampled: Sampled,
    /// Packets and octets where they leave the exporter.
    post: [u64; 2],
    /// A connection's number.
    flow_id: u64,
    frame: &'a [u8],
    frame_size: u32,
}

impl<'a> Values<'a> {
    /// Takes in one field.
    #[inline]
    pub fn set(&mut self, what: Meaning, octets: &'a [u8]) {
        let record = &mut self.record;
        match what {
            Meaning::Source6 => copy(&mut self.six[0], octets),
            Meaning::Destination6 => copy(&mut self.six[1], octets),
            Meaning::ApplicationTag => {
                if let [NDPI_ENGINE, a, b, c, d, selector @ ..] = octets {
                    if u32::from_be_bytes([*a, *b, *c, *d]) == PEN_NTOP && record.application_id == 0 {
                        record.application_id = u16::try_from(number(selector)).unwrap_or(0);
                    }
                }
            }
            Meaning::ServerName => replace(&mut record.server_name, text(octets)),
            Meaning::ServerLocator => replace(&mut record.server_name, host(text(octets))),
            Meaning::DnsQuery => record.dns_query = text(octets),
            Meaning::Frame | Meaning::IpSection => self.frame = octets,
            _ => self.number(what, number(octets)),
        }
    }

    /// Sets the address of an end.
    pub fn address(&mut self, end: usize, address: &Address) {
        match address {
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d] => self.four[end] = [*a, *b, *c, *d],
            _ => self.six[end] = *address,
        }
    }

    /// Adds half a round trip, which is exported for each end and the exporter, ms.
    pub fn half_round_trip(&mut self, ms: f64) {
        // The cast turns NaN and negative values into 0.
        self.rtt_us = self.rtt_us.saturating_add((ms * 2000.0).round() as u32);
    }

    /// Sets a numeric field.
    #[inline]
    pub fn number(&mut self, what: Meaning, number: u64) {
        let record = &mut self.record;
        match what {
            Meaning::SourcePort => record.ports[0] |= number as u16,
            Meaning::DestinationPort => record.ports[1] |= number as u16,
            Meaning::Protocol => record.protocol = number as u8,
            Meaning::Version => record.version = number as u8,
            Meaning::Vlan => record.vlan = number as u16 & 0xfff,
            Meaning::Octets => record.sent[0].octets = number,
            Meaning::ReverseOctets => record.sent[1].octets = number,
            Meaning::Packets => record.sent[0].packets = number,
            Meaning::ReversePackets => record.sent[1].packets = number,
            Meaning::Flags => record.sent[0].tcp_flags |= number as u8,
            Meaning::ReverseFlags => record.sent[1].tcp_flags |= number as u8,
            Meaning::PostPackets => self.post[0] = number,
            Meaning::PostOctets => self.post[1] = number,
            Meaning::FlowId => self.flow_id = number,
            Meaning::FrameSize => self.frame_size = at_most_32(number),
            Meaning::ClassOfService => record.sent[0].class_of_service = number as u8,
            Meaning::ReverseClassOfService => record.sent[1].class_of_service = number as u8,
            Meaning::Retransmissions => record.sent[0].retransmissions = at_most_32(number),
            Meaning::ReverseRetransmissions => record.sent[1].retransmissions = at_most_32(number),
            Meaning::OutOfOrder => record.sent[0].out_of_order = at_most_32(number),
            Meaning::ReverseOutOfOrder => record.sent[1].out_of_order = at_most_32(number),
            Meaning::First(_) => self.first = number,
            Meaning::Last(_) => self.last = number,
            Meaning::DurationMilliseconds => self.duration_ms = number,
            Meaning::DurationMicroseconds => self.duration_ms = number / 1000,
            Meaning::Observed => self.observed = number,
            Meaning::Boot => self.boot_ms = number,
            Meaning::Icmp => self.icmp |= number as u16,
            Meaning::IcmpType => {
                self.icmp |= (number as u16) << 8;
                self.icmp_type = true;
            }
            Meaning::IcmpCode => self.icmp |= number as u16 & 0xff,
            Meaning::InputInterface => record.input_interface = at_most_32(number),
            Meaning::OutputInterface => record.output_interface = at_most_32(number),
            Meaning::Biflow => self.biflow = number as u8,
            Meaning::SamplingInterval => {
                if self.sampled.interval == 0 {
                    self.sampled.interval = at_most_32(number);
                }
            }
            Meaning::Sampler => self.sampled.sampler = Some(number),
            Meaning::PacketInterval => self.sampled.packet_interval = at_most_32(number),
            Meaning::PacketSpace => self.sampled.packet_space = Some(at_most_32(number)),
            Meaning::SamplingSize => self.sampled.size = at_most_32(number),
            Meaning::SamplingPopulation => self.sampled.population = at_most_32(number),
            Meaning::SamplingAlgorithm => self.sampled.algorithm = number as u16,
            Meaning::SamplingProbability => self.sampled.probability = number,
            Meaning::TemplateId => self.sampled.template = u16::try_from(number).unwrap_or(0),
            Meaning::Application => record.application_id = u16::try_from(number).unwrap_or(0),
            Meaning::Latency => self.rtt_us = self.rtt_us.saturating_add(at_most_32(number).saturating_mul(2000)),
            Meaning::Source4 => self.four[0] = (number as u32).to_be_bytes(),
            Meaning::Destination4 => self.four[1] = (number as u32).to_be_bytes(),
            // A template reads it as the destination's class of service, or not at all.
            Meaning::PostClassOfService => {}
            other => debug_assert!(!other.is_number(), "{other:?} is left out"),
        }
    }

    /// Whether the destination is known to have sent packets.
    pub fn is_answered(&self) -> bool {
        self.record.sent[1].packets > 0
    }

    /// The interface that an option describes; `None` if it names none.
    pub fn interface(&self) -> Option<u32> {
        Some(self.record.input_interface).filter(|&interface| interface > 0)
    }

    /// Completes the record, but for its sampling rate; returns whether its times had to be corrected.
    ///
    /// # Errors
    /// The cause, if the values make no record.
    #[inline]
    pub fn complete(&mut self, shape: &Shape, moment: &Moment, limits: &DecodeLimits) -> Result<bool, Refusal> {
        let record = &mut self.record;
        let is_four = match (shape.four, shape.six) {
            (true, false) => true,
            (false, true) => false,
            (true, true) => match record.version {
                4 => true,
                6 => false,
                _ => self.four != [[0; 4]; 2],
            },
            (false, false) => return self.framed(shape, moment, limits),
        };
        record.addresses = if is_four { self.four.map(mapped) } else { self.six };
        record.version = if record.addresses.iter().all(is_mapped) { 4 } else { 6 };
        if record.sent.iter().all(|sent| sent.packets == 0 && sent.octets == 0) {
            // If the exporter counted nothing on arrival, its counts on departure apply.
            [record.sent[0].packets, record.sent[0].octets] = self.post;
            if self.post == [0; 2] {
                return Err(Refusal::Empty);
            }
        }
        if record.sent.iter().any(|sent| is_absurd(sent, None)) {
            return Err(Refusal::Absurd);
        }
        if ICMP.contains(&record.protocol) {
            let message = if self.icmp > 0 || self.icmp_type { self.icmp } else { record.ports[1] };
            record.ports = [0, message];
        }
        record.handshake_rtt_us = self.rtt_us;
        record.initiator_known = shape.initiator_known;
        turn(self.biflow, record);
        let mended;
        (self.record.first_ms, self.record.last_ms, mended) = self.times(shape, moment, limits);
        Ok(mended)
    }

    /// The record of the packet at the start of a frame.
    #[cold]
    fn framed(&mut self, shape: &Shape, moment: &Moment, limits: &DecodeLimits) -> Result<bool, Refusal> {
        let link = shape.frame.ok_or(Refusal::NoAddress)?;
        let mut read = Imported::default();
        frame::read(link, self.frame, self.frame_size, &mut read)?;
        let (first_ms, last_ms, mended) = self.times(shape, moment, limits);
        self.record = Imported {
            vlan: if read.vlan == 0 { self.record.vlan } else { read.vlan },
            first_ms,
            last_ms,
            input_interface: self.record.input_interface,
            output_interface: self.record.output_interface,
            ..read
        };
        Ok(mended)
    }

    /// The identity of a flow besides its addresses and ports: its number, and its start time as sent.
    pub fn flow(&self) -> (u64, i64) {
        (self.flow_id, self.first as i64)
    }

    fn times(&self, shape: &Shape, moment: &Moment, limits: &DecodeLimits) -> (i64, i64, bool) {
        let boot_ms = i64::try_from(self.boot_ms).ok().filter(|&boot| boot > 0).or(moment.boot_ms);
        let moment = Moment { boot_ms, ..*moment };
        let mut first = shape.first.and_then(|clock| moment.ms(clock, self.first));
        let mut last = shape.last.and_then(|clock| moment.ms(clock, self.last));
        let duration = i64::try_from(self.duration_ms).unwrap_or(i64::MAX);
        match (first, last) {
            // The time of an event is that at which the flow ended, or still continued.
            (Some(first), None) if self.observed > 0 && duration == 0 => {
                last = moment.ms(Clock::Milliseconds, self.observed).filter(|&last| last >= first).or(Some(first));
            }
            (Some(first), None) => last = Some(first.saturating_add(duration)),
            (None, Some(last)) => first = Some(last.saturating_sub(duration)),
            (None, None) if self.observed == 0 && shape.first == Some(Clock::Uptime) && shape.last == shape.first => {
                // Without the boot time, the flow keeps its duration and ends at its export.
                last = Some(moment.export_ms);
                let lasted = (self.last as u32).wrapping_sub(self.first as u32) as i32;
                first = Some(moment.export_ms.saturating_sub(i64::from(lasted.max(0))));
            }
            (None, None) => last = moment.ms(Clock::Milliseconds, self.observed),
            (Some(_), Some(_)) => {}
        }
        moment.settle(first, last, limits)
    }
}

/// Applies the direction of a biflow (IE 239): the initiator becomes the source.
fn turn(biflow: u8, record: &mut Imported<'_>) {
    match biflow {
        1 => record.initiator_known = true,
        2 => {
            record.initiator_known = true;
            record.addresses.swap(0, 1);
            record.sent.swap(0, 1);
            if !ICMP.contains(&record.protocol) {
                record.ports.swap(0, 1);
            }
            std::mem::swap(&mut record.input_interface, &mut record.output_interface);
            record.turned = true;
        }
        _ => {}
    }
}

/// Largest plausible octets of a packet, and packets or octets of a record, as powers of 2.
const LONGEST_PACKET: u32 = 20;
const MOST: u32 = 48;

/// Whether counts are impossible: packets of over a megabyte, or of less than an octet; or too many, scaled by the
/// sampling rate.
#[inline]
pub fn is_absurd(sent: &SentCounts, sampling: Option<u32>) -> bool {
    let SentCounts { packets, octets, .. } = *sent;
    let longer = packets > 0 && octets >> LONGEST_PACKET > packets;
    let shorter = octets > 0 && packets > octets;
    let scaled = (packets | octets).saturating_mul(u64::from(sampling.unwrap_or(1).max(1)));
    scaled >> MOST != 0 || longer || shorter
}

#[inline]
fn copy<const N: usize>(to: &mut [u8; N], octets: &[u8]) {
    if let Ok(octets) = octets.try_into() {
        *to = octets;
    }
}

#[inline]
fn at_most_32(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The host in a URL such as `http://host:80/path` or `host/path`; empty if there is none.
pub fn host(locator: &[u8]) -> &[u8] {
    let after = memchr::memmem::find(locator, b"://").map_or(0, |at| at + 3);
    let locator = &locator[after..];
    &locator[..memchr::memchr2(b'/', b':', locator).unwrap_or(locator.len())]
}

/// Sets a name that is not set yet.
fn replace<'a>(name: &mut &'a [u8], with: &'a [u8]) {
    if name.is_empty() {
        *name = with;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::element::{PEN_PROCERA, PEN_REVERSE, PEN_YAF, meaning};

    /// [`Values::number`] asserts that it leaves out no number; the compiler cannot tell which elements are numbers.
    #[test]
    fn every_number_is_taken_in() {
        let enterprises = [0, PEN_NTOP, PEN_PROCERA, PEN_REVERSE, PEN_YAF];
        let known = enterprises.iter().flat_map(|&pen| (0..=u16::MAX).filter_map(move |id| meaning(pen, id)));
        let mut numbers = 0;
        for (what, _) in known.filter(|(what, _)| what.is_number()) {
            Values::default().number(what, 1);
            numbers += 1;
        }
        assert!(numbers > 60, "{numbers}");
    }
}
