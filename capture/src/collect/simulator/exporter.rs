//! A simulated exporter: it builds messages octet by octet from the RFCs, without any code of the collector.

use super::schedule::{self, Announces, Flow, Numbers, Part, Plan, Speaks};

/// Fields of the layouts, with their octets; times and sampling follow.
const LAYOUTS: [&[(u16, u16)]; schedule::LAYOUTS] = [
    &[(8, 4), (12, 4), (7, 2), (11, 2), (4, 1), (2, 4), (1, 4)],
    &[(12, 4), (8, 4), (7, 2), (11, 2), (4, 1), (1, 4), (2, 4)],
    &[(27, 16), (28, 16), (4, 1), (7, 2), (11, 2), (2, 8), (1, 8)],
    &[(5, 1), (8, 4), (10, 2), (12, 4), (2, 2), (1, 8), (4, 1), (11, 2), (7, 2), (61, 1)],
];
pub const SAMPLER: u32 = 3;

pub struct Exporter {
    pub plan: Plan,
    /// When it started, ms of the host's clock.
    pub boot_ms: i64,
    pub number: u32,
    pub layout: usize,
    pub port: u16,
    /// Number of its restarts.
    pub start: u32,
    /// Messages sent since.
    sent: u32,
    samples: u32,
    drops: u32,
}

/// A message, and the units that its sequence number counts.
pub struct Message {
    pub octets: Vec<u8>,
    pub number: u32,
    pub units: u32,
}

impl Exporter {
    pub fn new(plan: Plan, now_ms: i64) -> Exporter {
        Exporter {
            boot_ms: now_ms - plan.up_ms as i64,
            number: plan.first_number,
            layout: plan.layout,
            port: plan.port,
            start: 0,
            sent: 0,
            samples: 0,
            drops: 0,
            plan,
        }
    }

    pub fn restart(&mut self, port: u16, now_ms: i64) {
        (self.boot_ms, self.number, self.port) = (now_ms, 0, port);
        (self.sent, self.samples, self.drops) = (0, 0, 0);
        self.start += 1;
    }

    /// Whether its uptime is not near 0.
    pub fn is_settled(&self, now_ms: i64) -> bool {
        (60_000..u32::MAX - 60_000).contains(&((now_ms - self.boot_ms) as u32))
    }

    /// The message with these parts, sent now; `now_ms` is a whole second.
    pub fn message(&mut self, parts: &[Part], now_ms: i64) -> Message {
        let flows = flows(parts).count() as u32;
        let number = self.number;
        if self.plan.numbers == Numbers::FlowsSoFar {
            self.number = number.wrapping_add(flows);
        }
        let octets = match self.plan.speaks {
            Speaks::V5 => self.v5(parts, now_ms),
            Speaks::V9 | Speaks::Ipfix => self.templated(parts, now_ms),
            Speaks::Sflow => self.sflow(parts, now_ms),
        };
        let options = parts.iter().filter(|part| matches!(part, Part::Rate(_))).count() as u32;
        let units = match self.plan.numbers {
            Numbers::Messages => 1,
            Numbers::Flows | Numbers::FlowsSoFar => flows,
            Numbers::Records => flows + options,
        };
        self.number = number.wrapping_add(units);
        self.sent += 1;
        Message { octets, number, units }
    }

    fn uptime(&self, now_ms: i64) -> u32 {
        // Of two cards the second one is younger, and both send in turn.
        let (up, card) = (now_ms - self.boot_ms, 150_000.min(self.plan.up_ms as i64 / 2));
        let younger = self.plan.cards && self.start == 0 && self.sent % 2 == 1;
        (if younger { up - card } else { up }) as u32
    }

    fn seconds(&self, now_ms: i64) -> u32 {
        (now_ms / 1000 + self.plan.clock_off_s) as u32
    }

    fn v5(&mut self, parts: &[Part], now_ms: i64) -> Vec<u8> {
        let flows: Vec<&Flow> = flows(parts).collect();
        let mut data = Vec::new();
        put(&mut data, 5, 2);
        put(&mut data, flows.len() as u64, 2);
        for word in [self.uptime(now_ms), self.seconds(now_ms), 0, self.number] {
            put(&mut data, u64::from(word), 4);
        }
        put(&mut data, u64::from(self.plan.domain), 2);
        put(&mut data, u64::from(0x4000 | self.plan.rate), 2);
        for flow in flows {
            put(&mut data, source(flow), 4);
            put(&mut data, 0xc633_6401, 4);
            put(&mut data, 0, 8);
            let uptime = self.uptime(now_ms);
            let (first, last) =
                (uptime.wrapping_sub(flow.ended_ms + flow.lasted_ms), uptime.wrapping_sub(flow.ended_ms));
            for word in [flow.packets, flow.packets * flow.size, first, last] {
                put(&mut data, u64::from(word), 4);
            }
            for (value, octets) in [(40_000, 2), (443, 2), (0, 2), (17, 1), (0, 1), (0, 8)] {
                put(&mut data, value, octets);
            }
        }
        data
    }

    /// The fields of its layout: times and sampling come after those of [`LAYOUTS`].
    fn fields(&self) -> Vec<(u16, u16)> {
        let mut fields = LAYOUTS[self.layout].to_vec();
        fields.extend(match self.plan.speaks {
            Speaks::Ipfix => [(152, 8), (153, 8)],
            _ => [(22, 4), (21, 4)],
        });
        match self.plan.announces {
            Announces::InRecords => fields.push((34, 4)),
            Announces::BySampler => fields.push((48, 1)),
            Announces::BySelector => fields.push((302, 4)),
            Announces::Nothing | Announces::ForAll => {}
        }
        fields
    }

    fn value(&self, field: u16, flow: &Flow, now_ms: i64) -> u128 {
        let ahead_ms = now_ms + self.plan.clock_off_s * 1000;
        let uptime = self.uptime(now_ms);
        match field {
            8 => u128::from(source(flow)),
            12 => 0xc633_6401,
            27 => 0x2001_0db8 << 96 | u128::from(flow.id),
            28 => 0x2001_0db8_ffff << 80,
            7 => 40_000,
            11 => 443,
            4 => 17,
            2 => u128::from(flow.packets),
            1 => u128::from(flow.packets * flow.size),
            22 => u128::from(uptime.wrapping_sub(flow.ended_ms + flow.lasted_ms)),
            21 => u128::from(uptime.wrapping_sub(flow.ended_ms)),
            152 => (ahead_ms - i64::from(flow.ended_ms + flow.lasted_ms)) as u128,
            153 => (ahead_ms - i64::from(flow.ended_ms)) as u128,
            34 => u128::from(self.plan.rate),
            48 | 302 => u128::from(SAMPLER),
            _ => 1,
        }
    }

    fn template(&self, sets: &mut Vec<u8>) {
        let mut template = Vec::new();
        let fields = self.fields();
        put(&mut template, u64::from(self.plan.template_id), 2);
        put(&mut template, fields.len() as u64, 2);
        for (field, octets) in fields {
            put(&mut template, u64::from(field), 2);
            put(&mut template, u64::from(octets), 2);
        }
        put_set(sets, if self.plan.speaks == Speaks::Ipfix { 2 } else { 0 }, &template);
    }

    fn templated(&mut self, parts: &[Part], now_ms: i64) -> Vec<u8> {
        let ipfix = self.plan.speaks == Speaks::Ipfix;
        let mut sets = Vec::new();
        let mut records = Vec::new();
        let mut count = 0;
        for part in parts {
            match part {
                Part::Template => self.template(&mut sets),
                Part::NewTemplate(layout) => {
                    // Records that wait for the old template must not be read with the new one.
                    self.template(&mut sets);
                    self.layout = *layout;
                    self.template(&mut sets);
                    count += 1;
                }
                Part::Flow(flow) => {
                    for (field, octets) in self.fields() {
                        let value = self.value(field, flow, now_ms);
                        records.extend(&value.to_be_bytes()[16 - usize::from(octets)..]);
                    }
                    count += 1;
                    continue;
                }
                Part::Rate(rate) => {
                    let (template, option) = self.option(*rate);
                    put_set(&mut sets, if ipfix { 3 } else { 1 }, &template);
                    put_set(&mut sets, 300, &option);
                    count += 2;
                    continue;
                }
                Part::Counters | Part::Dropped => continue,
            }
            count += 1;
        }
        if !records.is_empty() {
            put_set(&mut sets, self.plan.template_id, &records);
        }
        let mut data = Vec::new();
        put(&mut data, if ipfix { 10 } else { 9 }, 2);
        put(&mut data, if ipfix { sets.len() as u64 + 16 } else { count }, 2);
        if !ipfix {
            put(&mut data, u64::from(self.uptime(now_ms)), 4);
        }
        for word in [self.seconds(now_ms), self.number, self.plan.domain] {
            put(&mut data, u64::from(word), 4);
        }
        [data, sets].concat()
    }

    /// An options template by the id 300, and a record of it.
    fn option(&self, rate: u32) -> (Vec<u8>, Vec<u8>) {
        let ipfix = self.plan.speaks == Speaks::Ipfix;
        let scope = if ipfix { (149, 4) } else { (1, 4) };
        let rate = u64::from(rate);
        let fields: Vec<(u16, u16, u64)> = match self.plan.announces {
            Announces::BySampler => vec![(48, 1, u64::from(SAMPLER)), (49, 1, 2), (50, 4, rate)],
            Announces::BySelector => vec![(305, 4, 1), (304, 2, 3), (309, 4, 1), (310, 4, rate)],
            _ if ipfix => vec![(305, 4, 1), (306, 4, rate - 1)],
            _ => vec![(35, 1, 1), (34, 4, rate)],
        };
        let scope = if self.plan.announces == Announces::BySelector { (302, 4) } else { scope };
        let mut template = Vec::new();
        put(&mut template, 300, 2);
        if ipfix {
            put(&mut template, fields.len() as u64 + 1, 2);
            put(&mut template, 1, 2);
        } else {
            put(&mut template, 4, 2);
            put(&mut template, 4 * fields.len() as u64, 2);
        }
        let mut option = Vec::new();
        put(&mut option, u64::from(if scope.0 == 302 { SAMPLER } else { self.plan.domain }), 4);
        for (field, octets) in std::iter::once(scope).chain(fields.iter().map(|field| (field.0, field.1))) {
            put(&mut template, u64::from(field), 2);
            put(&mut template, u64::from(octets), 2);
        }
        for (_, octets, value) in fields {
            put(&mut option, value, usize::from(octets));
        }
        (template, option)
    }

    fn sflow(&mut self, parts: &[Part], now_ms: i64) -> Vec<u8> {
        let mut data = Vec::new();
        let agent = 0xcb00_7100 | u32::from(self.plan.agent);
        for word in [5, 1, agent, self.plan.domain, self.number, self.uptime(now_ms), parts.len() as u32] {
            put(&mut data, u64::from(word), 4);
        }
        for part in parts {
            let mut sample = Vec::new();
            let format = match part {
                Part::Flow(flow) => {
                    self.samples += 1;
                    let frame = frame(flow);
                    let padded = frame.len().next_multiple_of(4);
                    let words = [self.samples, 9, self.plan.rate, self.samples * self.plan.rate, self.drops, 1, 2, 1];
                    let raw = [1, padded as u32 + 16, 1, flow.size + 14 + 4, flow.stripped, frame.len() as u32];
                    for word in words.into_iter().chain(raw) {
                        put(&mut sample, u64::from(word), 4);
                    }
                    sample.extend(&frame);
                    sample.resize(sample.len() + padded - frame.len(), 0);
                    1
                }
                Part::Counters => {
                    // Of an interface, which has counted the samples' packets so far.
                    let count = u64::from(self.samples);
                    [1, 9, 1, 1, 88, 9, 6, 0, 1_000_000, 1, 3].iter().for_each(|&word| put(&mut sample, word, 4));
                    [0, 100 * count, count, 0, 0, 0, 0, 0].iter().for_each(|&word| put(&mut sample, word, 4));
                    [0; 8].iter().for_each(|&word| put(&mut sample, word, 4));
                    2
                }
                _ => {
                    [1, 9, 5, 1, 2, 3, 0].iter().for_each(|&word| put(&mut sample, word, 4));
                    5
                }
            };
            put(&mut data, format, 4);
            put(&mut data, sample.len() as u64, 4);
            data.extend(sample);
        }
        data
    }
}

pub fn flows(parts: &[Part]) -> impl Iterator<Item = &Flow> {
    parts.iter().filter_map(|part| if let Part::Flow(flow) = part { Some(flow) } else { None })
}

/// The address 10.x.y.z, which identifies a record.
fn source(flow: &Flow) -> u64 {
    0x0a00_0000 | u64::from(flow.id)
}

/// The first octets of an Ethernet frame whose IP packet has `size` octets.
fn frame(flow: &Flow) -> Vec<u8> {
    let mut data = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
    put(&mut data, u64::from(flow.size), 2);
    put(&mut data, 0x0001_4000, 4);
    put(&mut data, 0x4011_0000, 4);
    put(&mut data, source(flow), 4);
    put(&mut data, 0xc633_6401, 4);
    for (value, octets) in [(40_000, 2), (443, 2), (u64::from(flow.size) - 20, 2), (0, 2)] {
        put(&mut data, value, octets);
    }
    data
}

fn put_set(sets: &mut Vec<u8>, id: u16, body: &[u8]) {
    put(sets, u64::from(id), 2);
    put(sets, body.len() as u64 + 4, 2);
    sets.extend(body);
}

fn put(data: &mut Vec<u8>, value: u64, octets: usize) {
    data.extend(&value.to_be_bytes()[8 - octets..]);
}
