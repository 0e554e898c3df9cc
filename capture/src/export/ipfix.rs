//! Records as messages of IPFIX (RFC 7011, RFC 5103) and NetFlow v9 (RFC 3954).
//!
//! An [`Encoder`] fills messages up to a size and emits each full one. Records of IPv4 and IPv6 have separate
//! templates; an options template with one record states the sampling rate (every packet) and the length of intervals.
//!
//! The time of a message is the end of the newest interval that it reports: a replay that keeps its packets' times
//! stays consistent, and a live capture is at most one interval behind.

use super::elements::{Element, ElementValue, ExportTemplate, NTOP, NTOP_IN_V9, REVERSE, View, What, Width};
use std::ops::Range;

/// Numbers of the templates.
const OF_V4: u16 = 256;
const OF_V6: u16 = 257;
const OF_OPTIONS: u16 = 258;

/// Uptime that NetFlow v9 states at the start, because records may begin earlier.
const UPTIME_AT_START_MS: u64 = 3_600_000;
/// Uptime in ms has 32 bits: at this value it restarts.
const LONGEST_UPTIME_MS: u64 = 1 << 31;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportProtocol {
    Ipfix,
    /// NetFlow v9.
    V9,
}

impl ExportProtocol {
    fn header_octets(self) -> usize {
        match self {
            ExportProtocol::Ipfix => 16,
            ExportProtocol::V9 => 20,
        }
    }

    /// Numbers of the sets of templates and of options templates.
    fn template_sets(self) -> (u16, u16) {
        match self {
            ExportProtocol::Ipfix => (2, 3),
            ExportProtocol::V9 => (0, 1),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct EncodedField {
    element: &'static Element,
    what: What,
    id: u16,
    /// Enterprise number where the template states one.
    enterprise: Option<u32>,
    width: Width,
}

impl EncodedField {
    fn new(element: &'static Element, protocol: ExportProtocol) -> EncodedField {
        let Element { what, id, enterprise, width, .. } = *element;
        let plain = EncodedField { element, what, id, enterprise: None, width };
        match (protocol, what) {
            // IPFIX has no uptime to count from, and another meaning for 23 and 24.
            (ExportProtocol::Ipfix, What::Switched(0)) => {
                EncodedField { what: What::Millis(0), id: 152, width: Width::Octets(8), ..plain }
            }
            (ExportProtocol::Ipfix, What::Switched(_)) => {
                EncodedField { what: What::Millis(1), id: 153, width: Width::Octets(8), ..plain }
            }
            (ExportProtocol::Ipfix, What::Octets(1)) => EncodedField { id: 1, enterprise: Some(REVERSE), ..plain },
            (ExportProtocol::Ipfix, What::Packets(1)) => EncodedField { id: 2, enterprise: Some(REVERSE), ..plain },
            (ExportProtocol::Ipfix, What::ClassOfService(1)) => {
                EncodedField { id: 5, enterprise: Some(REVERSE), ..plain }
            }
            (ExportProtocol::Ipfix, _) if enterprise == NTOP => EncodedField { enterprise: Some(NTOP), ..plain },
            (ExportProtocol::V9, _) if enterprise == NTOP => EncodedField { id: NTOP_IN_V9 + id, ..plain },
            _ => plain,
        }
    }

    /// Its octets in a record; 65535 for text of any length (RFC 7011, 7).
    fn length(&self, protocol: ExportProtocol) -> u16 {
        match (self.width, protocol) {
            (Width::Octets(octets), _) => u16::from(octets),
            (Width::Text(octets), ExportProtocol::V9) => octets,
            (Width::Text(_), ExportProtocol::Ipfix) => u16::MAX,
        }
    }
}

/// Builds messages; its functions pass each finished one to `out`.
pub struct Encoder {
    protocol: ExportProtocol,
    domain: u32,
    most_octets: usize,
    fields: [Vec<EncodedField>; 2],
    biflow: bool,
    message: Vec<u8>,
    /// The open set: its number and offset.
    open: Option<(u16, usize)>,
    /// Records in the message that NetFlow v9 counts, and that IPFIX does.
    counted: [u32; 2],
    sequence: u32,
    /// Flow records in the message.
    flows: u64,
    /// Length of the interval in which packets and octets are counted, ms.
    interval_ms: u32,
    now_ms: u64,
    boot_ms: u64,
    templates_due: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct Ready<'a> {
    /// The whole message.
    pub octets: &'a [u8],
    pub records: u64,
}

impl Encoder {
    /// An encoder of messages up to this size, for this observation domain (source id in NetFlow v9). The first message
    /// begins with the templates.
    pub fn new(protocol: ExportProtocol, template: &ExportTemplate, domain: u32, most_octets: usize) -> Encoder {
        let fields = |elements: &[&'static Element]| {
            elements.iter().map(|element| EncodedField::new(element, protocol)).collect()
        };
        Encoder {
            protocol,
            domain,
            most_octets,
            fields: [fields(&template.v4), fields(&template.v6)],
            biflow: template.is_biflow(),
            message: Vec::with_capacity(most_octets),
            open: None,
            counted: [0; 2],
            sequence: 0,
            flows: 0,
            interval_ms: 0,
            now_ms: 0,
            boot_ms: 0,
            templates_due: true,
        }
    }

    /// Sets the interval of the records that follow.
    pub fn interval(&mut self, start_ms: u64, interval_ms: u32, out: &mut impl FnMut(Ready<'_>)) {
        let end = start_ms + u64::from(interval_ms);
        if end > self.now_ms || interval_ms != self.interval_ms {
            self.finish(out);
            self.now_ms = self.now_ms.max(end);
            self.interval_ms = interval_ms;
            if self.now_ms.saturating_sub(self.boot_ms) > LONGEST_UPTIME_MS {
                self.boot_ms = self.now_ms.saturating_sub(UPTIME_AT_START_MS) / 1000 * 1000;
            }
        }
    }

    /// Makes the next message begin with the templates.
    pub fn send_templates(&mut self, out: &mut impl FnMut(Ready<'_>)) {
        self.finish(out);
        self.templates_due = true;
    }

    /// Restarts, as for a new collector; discards the message in progress.
    pub fn restart(&mut self) {
        self.message.clear();
        self.open = None;
        self.counted = [0; 2];
        self.flows = 0;
        self.sequence = 0;
        self.templates_due = true;
    }

    /// Adds a record unchanged, or as one record for each direction that had packets.
    pub fn record(&mut self, view: &View<'_>, out: &mut impl FnMut(Ready<'_>)) {
        if self.biflow {
            self.add(view, out);
        } else {
            view.one_way().for_each(|way| self.add(&way, out));
        }
    }

    fn add(&mut self, view: &View<'_>, out: &mut impl FnMut(Ready<'_>)) {
        loop {
            self.begin_message();
            let undo = (self.message.len(), self.open);
            let set = if view.version == 6 { OF_V6 } else { OF_V4 };
            self.begin_set(set);
            self.put_record(view);
            let fits = self.message.len() + 3 <= self.most_octets;
            // A record alone in its message may exceed the size.
            if fits || self.flows == 0 && self.counted == [0; 2] {
                self.counted = self.counted.map(|count| count + 1);
                self.flows += 1;
                return;
            }
            self.message.truncate(undo.0);
            self.open = undo.1;
            self.finish(out);
        }
    }

    /// Emits the message, if there is one.
    pub fn finish(&mut self, out: &mut impl FnMut(Ready<'_>)) {
        if self.message.is_empty() {
            return;
        }
        self.end_set();
        let (octets, sequence, seconds) = (self.message.len(), self.sequence, (self.now_ms / 1000) as u32);
        match self.protocol {
            ExportProtocol::Ipfix => {
                self.at16(0, 10);
                self.at16(2, octets as u16);
                self.at32(4, seconds);
                self.at32(8, sequence);
                self.at32(12, self.domain);
                self.sequence = sequence.wrapping_add(self.counted[1]);
            }
            ExportProtocol::V9 => {
                // A collector computes the exact start time from these two.
                let uptime = (u64::from(seconds) * 1000).saturating_sub(self.boot_ms);
                self.at16(0, 9);
                self.at16(2, self.counted[0] as u16);
                self.at32(4, uptime as u32);
                self.at32(8, seconds);
                self.at32(12, sequence);
                self.at32(16, self.domain);
                self.sequence = sequence.wrapping_add(1);
            }
        }
        out(Ready { octets: &self.message, records: self.flows });
        self.message.clear();
        self.counted = [0; 2];
        self.flows = 0;
    }

    fn begin_message(&mut self) {
        if !self.message.is_empty() {
            return;
        }
        self.message.resize(self.protocol.header_octets(), 0);
        if std::mem::take(&mut self.templates_due) {
            self.put_templates();
        }
    }

    fn put_templates(&mut self) {
        let (template_set, options_set) = self.protocol.template_sets();
        for (number, fields) in [(OF_V4, 0), (OF_V6, 1)] {
            self.begin_set(template_set);
            let fields = self.fields[fields].clone();
            self.put16(number);
            self.put16(fields.len() as u16);
            for field in fields {
                let enterprise = if field.enterprise.is_some() { 0x8000 } else { 0 };
                self.put16(field.id | enterprise);
                self.put16(field.length(self.protocol));
                field.enterprise.inspect(|&enterprise| self.put32(enterprise));
            }
            self.counted[0] += 1;
        }
        // Scope: the observation domain; then sampling interval and algorithm, active and idle timeout (s).
        let options = [(34, 4), (35, 1), (36, 2), (37, 2)];
        self.begin_set(options_set);
        self.put16(OF_OPTIONS);
        match self.protocol {
            ExportProtocol::Ipfix => {
                self.put16(options.len() as u16 + 1);
                self.put16(1);
                self.put16(149);
            }
            ExportProtocol::V9 => {
                self.put16(4);
                self.put16(options.len() as u16 * 4);
                self.put16(1);
            }
        }
        self.put16(4);
        for (id, octets) in options {
            self.put16(id);
            self.put16(octets);
        }
        self.begin_set(OF_OPTIONS);
        let seconds = (self.interval_ms / 1000) as u16;
        self.put32(self.domain);
        self.put32(1);
        self.message.push(1);
        self.put16(seconds);
        self.put16(seconds);
        self.counted[0] += 2;
        self.counted[1] += 1;
    }

    /// Opens a set with this number for the next records, unless it is open.
    fn begin_set(&mut self, set: u16) {
        if self.open.is_some_and(|(open, _)| open == set) {
            return;
        }
        self.end_set();
        self.open = Some((set, self.message.len()));
        self.put16(set);
        self.put16(0);
    }

    fn end_set(&mut self) {
        let Some((set, begins)) = self.open.take() else { return };
        // NetFlow v9 pads to four octets. A collector would take padding for a record if records were that short.
        let pads = self.protocol == ExportProtocol::V9 && (set < OF_V4 || self.shortest(set) > 3);
        while pads && (self.message.len() - begins) % 4 != 0 {
            self.message.push(0);
        }
        self.at16(begins + 2, (self.message.len() - begins) as u16);
    }

    fn shortest(&self, set: u16) -> usize {
        let fields: &[EncodedField] = match set {
            OF_V4 => &self.fields[0],
            OF_V6 => &self.fields[1],
            _ => return usize::MAX,
        };
        fields.iter().map(|field| usize::from(field.length(self.protocol))).sum()
    }

    fn put_record(&mut self, view: &View<'_>) {
        let fields = usize::from(view.version == 6);
        for number in 0..self.fields[fields].len() {
            let field = self.fields[fields][number];
            self.put_value(&field, view);
        }
    }

    fn put_value(&mut self, field: &EncodedField, view: &View<'_>) {
        let number = match (field.what, self.protocol) {
            (What::Switched(end), ExportProtocol::V9) => view.seen_ms[end].saturating_sub(self.boot_ms),
            (What::Millis(end), _) => view.seen_ms[end],
            _ => match field.element.value(view) {
                ElementValue::Number(number) => number,
                ElementValue::Milliseconds(ms) => ms.round() as u64,
                ElementValue::V4(address) => return self.message.extend_from_slice(&address.octets()),
                ElementValue::V6(address) => return self.message.extend_from_slice(&address.octets()),
                ElementValue::Text(text) => return self.put_text(text.as_bytes(), field.width),
            },
        };
        let Width::Octets(octets) = field.width else { return };
        let octets = usize::from(octets);
        // A number too large for its field becomes the field's maximum instead of being truncated.
        let number = if octets < 8 { number.min((1 << (8 * octets)) - 1) } else { number };
        self.message.extend_from_slice(&number.to_be_bytes()[8 - octets..]);
    }

    fn put_text(&mut self, text: &[u8], width: Width) {
        match (self.protocol, width) {
            (ExportProtocol::V9, Width::Text(octets)) => {
                let end = self.message.len() + usize::from(octets);
                self.message.extend_from_slice(&text[..text.len().min(usize::from(octets))]);
                self.message.resize(end, 0);
            }
            _ => {
                match u8::try_from(text.len()) {
                    Ok(length @ ..=254) => self.message.push(length),
                    _ => {
                        self.message.push(255);
                        self.put16(text.len() as u16);
                    }
                }
                self.message.extend_from_slice(text);
            }
        }
    }

    fn put16(&mut self, number: u16) {
        self.message.extend_from_slice(&number.to_be_bytes());
    }

    fn put32(&mut self, number: u32) {
        self.message.extend_from_slice(&number.to_be_bytes());
    }

    fn at16(&mut self, at: usize, number: u16) {
        self.at(at..at + 2, &number.to_be_bytes());
    }

    fn at32(&mut self, at: usize, number: u32) {
        self.at(at..at + 4, &number.to_be_bytes());
    }

    fn at(&mut self, range: Range<usize>, octets: &[u8]) {
        self.message[range].copy_from_slice(octets);
    }
}

#[cfg(test)]
#[path = "ipfix_tests.rs"]
mod tests;
