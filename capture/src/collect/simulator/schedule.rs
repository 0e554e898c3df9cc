//! The script of one simulation: exporters and a list of steps, all drawn from a seed. Any step can be removed, and the
//! schedule stays valid.

use fastrand::Rng;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Schedule {
    pub seed: u64,
    pub workers: u32,
    pub exporters: Vec<Plan>,
    pub steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Speaks {
    V5,
    V9,
    Ipfix,
    Sflow,
}

/// How an exporter announces its sampling rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Announces {
    /// Not at all.
    Nothing,
    /// In each record (IE 34), in v5's header, in sFlow's samples.
    InRecords,
    /// By an option for all it exports: IE 34, or 305 and 306 in IPFIX.
    ForAll,
    /// By an option for a sampler, which records name: IE 48 and 50.
    BySampler,
    /// As IOS-XR does in IPFIX: selector 302, algorithm 304 = 3, 305 = 1, 309 = 1, 310 = rate.
    BySelector,
}

/// The unit that sequence numbers count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Numbers {
    Messages,
    /// Records of flows.
    Flows,
    /// Records of flows and of options.
    Records,
    /// Records of flows, with those of the message itself.
    FlowsSoFar,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    pub speaks: Speaks,
    /// Last octet of its address, or of its forwarder's.
    pub address: u8,
    /// Last octet of the address by which an sFlow agent names itself.
    pub agent: u8,
    pub domain: u32,
    pub port: u16,
    /// How far its clock is ahead, s.
    pub clock_off_s: i64,
    /// How long before the simulation it started, ms.
    pub up_ms: u64,
    /// Two line cards that started at different times share its domain.
    pub cards: bool,
    pub numbers: Numbers,
    pub first_number: u32,
    pub announces: Announces,
    pub rate: u32,
    pub layout: usize,
    pub template_id: u16,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Step {
    /// Time passes, s.
    Wait(u32),
    /// The host's clock steps by this many ms.
    Clock(i64),
    /// It does so as the next message arrives, between two looks at it.
    ClockAsItHears(i64),
    Send {
        exporter: usize,
        parts: Vec<Part>,
        fate: Fate,
    },
    /// An exporter restarts and sends from this port; no message is in flight then.
    Restart {
        exporter: usize,
        port: u16,
    },
    /// The collector stops, is down for this many seconds, and starts with this many workers; no message is in flight
    /// then.
    Collector {
        away_s: u32,
        workers: u32,
    },
}

/// One part of a message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Part {
    /// Its template, and its options template if it announces its rate in an option.
    Template,
    /// Another layout under the same id; no message is in flight then.
    NewTemplate(usize),
    /// The option that announces this rate.
    Rate(u32),
    Flow(Flow),
    /// sFlow: a sample of counters, and a sample of dropped packets (format 5).
    Counters,
    Dropped,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Flow {
    pub id: u32,
    pub packets: u32,
    /// Octets of a packet.
    pub size: u32,
    /// How long before its record is sent the flow ended, and how long it lasted, ms.
    pub ended_ms: u32,
    pub lasted_ms: u32,
    /// sFlow: octets of the frame that were not captured, but are declared as stripped.
    pub stripped: u32,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Fate {
    /// Arrives after this many ms.
    Comes(u32),
    Lost,
    Twice(u32, u32),
}

const YEAR_MS: i64 = 365 * 86_400_000;
/// Layouts that a template may have; see [`super::exporter`].
pub const LAYOUTS: usize = 4;
/// Maximum time in flight of a datagram, s.
pub const ON_THE_WAY_S: u32 = 3;

impl Schedule {
    pub fn draw(seed: u64) -> Schedule {
        let mut rng = Rng::with_seed(seed);
        let count = rng.usize(1..=4);
        let exporters: Vec<Plan> = (0..count).map(|number| Plan::draw(&mut rng, number)).collect();
        let mut schedule = Schedule { seed, workers: rng.u32(1..=3), exporters, steps: Vec::new() };
        let lossy = [0.0, 0.02, 0.2][rng.usize(0..3)];
        let twice = [0.0, 0.05][rng.usize(0..2)];
        let delays = [0, 0, 700, ON_THE_WAY_S * 1000 - 1][rng.usize(0..4)];
        let mut next_id = 0;
        // Exporters begin one by one, some after a while, some with data before their template.
        for exporter in 0..count {
            if rng.u8(0..4) > 0 {
                schedule.announce(&mut rng, exporter, Fate::Comes(0));
            }
        }
        for _ in 0..rng.usize(5..60) {
            match rng.u32(0..100) {
                0..55 => {
                    let exporter = rng.usize(0..count);
                    let fate = draw_fate(&mut rng, lossy, twice, delays);
                    let flows = rng.usize(1..=4);
                    let mut parts: Vec<Part> =
                        (0..flows).map(|_| Part::Flow(draw_flow(&mut rng, &mut next_id))).collect();
                    if schedule.exporters[exporter].speaks == Speaks::Sflow {
                        match rng.u8(0..12) {
                            0 => parts.push(Part::Counters),
                            1 => parts.push(Part::Dropped),
                            _ => {}
                        }
                    }
                    schedule.steps.push(Step::Send { exporter, parts, fate });
                }
                55..67 => {
                    let exporter = rng.usize(0..count);
                    let fate = draw_fate(&mut rng, lossy, twice, delays);
                    schedule.announce(&mut rng, exporter, fate);
                }
                67..88 => schedule.steps.push(Step::Wait(rng.u32(1..=12))),
                88..90 => schedule.steps.push(Step::Wait(rng.u32(20..=80))),
                90..94 => {
                    let exporter = rng.usize(0..count);
                    let port = schedule.port_after_restart(&mut rng, exporter);
                    schedule.steps.push(Step::Restart { exporter, port });
                    schedule.steps.push(Step::Wait(rng.u32(1..20)));
                    if rng.u8(0..3) > 0 {
                        schedule.announce(&mut rng, exporter, Fate::Comes(0));
                    }
                }
                94..97 => {
                    let exporter = rng.usize(0..count);
                    if matches!(schedule.exporters[exporter].speaks, Speaks::V9 | Speaks::Ipfix) {
                        let parts = vec![Part::NewTemplate(rng.usize(0..LAYOUTS))];
                        schedule.steps.push(Step::Send { exporter, parts, fate: Fate::Comes(0) });
                    }
                }
                _ => {
                    let (away_s, workers) = (rng.u32(1..=20), rng.u32(1..=3));
                    schedule.steps.push(Step::Collector { away_s, workers });
                }
            }
        }
        schedule.step_clock(Rng::with_seed(seed.reverse_bits()));
        schedule
    }

    /// Lets the host's clock step a few times in every third schedule: from ms to years, in both directions. The
    /// collector takes smaller steps for a difference between two readings.
    fn step_clock(&mut self, mut rng: Rng) {
        if rng.u8(0..3) > 0 {
            return;
        }
        for _ in 0..rng.usize(1..5) {
            let most = [50, 2000, 15_000, 120_000, 7_200_000, 30 * YEAR_MS][rng.usize(0..6)];
            let at = rng.usize(0..=self.steps.len());
            let ms = rng.i64(21..=most);
            let ms = if rng.bool() { ms } else { -ms };
            self.steps.insert(at, if rng.bool() { Step::Clock(ms) } else { Step::ClockAsItHears(ms) });
        }
    }

    /// Makes an exporter send its templates and its sampling rate in one message.
    fn announce(&mut self, rng: &mut Rng, exporter: usize, fate: Fate) {
        let plan = &self.exporters[exporter];
        if !matches!(plan.speaks, Speaks::V9 | Speaks::Ipfix) {
            return;
        }
        let mut parts = vec![Part::Template];
        if matches!(plan.announces, Announces::ForAll | Announces::BySampler | Announces::BySelector)
            && rng.u8(0..4) > 0
        {
            parts.push(Part::Rate(plan.rate));
        }
        self.steps.push(Step::Send { exporter, parts, fate });
    }

    /// Without an uptime, only a new port shows that IPFIX restarted.
    fn port_after_restart(&self, rng: &mut Rng, exporter: usize) -> u16 {
        let plan = &self.exporters[exporter];
        if plan.speaks == Speaks::Ipfix || rng.bool() { rng.u16(20_000..60_000) } else { plan.port }
    }
}

impl Plan {
    fn draw(rng: &mut Rng, number: usize) -> Plan {
        let speaks = [Speaks::V5, Speaks::V9, Speaks::V9, Speaks::Ipfix, Speaks::Ipfix, Speaks::Sflow][rng.usize(0..6)];
        let numbers = match speaks {
            Speaks::V5 => Numbers::Flows,
            Speaks::V9 => [Numbers::Messages, Numbers::Messages, Numbers::Flows][rng.usize(0..3)],
            Speaks::Ipfix => {
                [Numbers::Records, Numbers::Records, Numbers::Flows, Numbers::Messages, Numbers::FlowsSoFar]
                    [rng.usize(0..5)]
            }
            Speaks::Sflow => Numbers::Messages,
        };
        let announces = match speaks {
            Speaks::V5 | Speaks::Sflow => Announces::InRecords,
            Speaks::V9 => {
                [Announces::Nothing, Announces::InRecords, Announces::ForAll, Announces::BySampler][rng.usize(0..4)]
            }
            Speaks::Ipfix => [
                Announces::Nothing,
                Announces::InRecords,
                Announces::ForAll,
                Announces::BySampler,
                Announces::BySelector,
            ][rng.usize(0..5)],
        };
        let year = YEAR_MS / 1000;
        let cards = speaks == Speaks::V9 && rng.u8(0..5) == 0;
        // With the last value the uptime soon wraps; if only one of two cards wrapped, it would look like a restart.
        let up_ms = [200_000, 3_600_000, 40 * 86_400_000, u64::from(u32::MAX) - 30_000];
        let up_ms = up_ms[rng.usize(0..if cards { 3 } else { 4 })];
        // Low numbers may be close by chance, high ones are not. They do not wrap together with the uptime.
        let first_number = [0, 1, 70_000 << number, rng.u32(1 << 24..1 << 31), u32::MAX - 9 - 100_000 * number as u32];
        let first_number = first_number[rng.usize(0..if up_ms > 1 << 31 && up_ms != 40 * 86_400_000 { 4 } else { 5 })];
        Plan {
            speaks,
            // Some share an address, as behind a translator or a forwarder.
            address: rng.u8(1..=2),
            agent: 100 + number as u8,
            domain: if rng.bool() { 7 } else { number as u32 },
            port: 10_000 + number as u16,
            clock_off_s: [0, 0, -20, 2 * year, -20 * year][rng.usize(0..5)],
            up_ms,
            cards,
            numbers,
            first_number,
            announces,
            rate: [1, 10, 256, 1000][rng.usize(0..4)],
            layout: rng.usize(0..LAYOUTS),
            template_id: rng.u16(256..=257),
        }
    }
}

fn draw_flow(rng: &mut Rng, next_id: &mut u32) -> Flow {
    *next_id += 1;
    Flow {
        id: *next_id,
        packets: rng.u32(1..40),
        size: rng.u32(46..1400),
        ended_ms: rng.u32(300..8000),
        lasted_ms: [0, rng.u32(0..9000), rng.u32(0..90_000)][rng.usize(0..3)],
        stripped: if rng.bool() { 4 } else { 4 + rng.u32(0..1000) },
    }
}

fn draw_fate(rng: &mut Rng, lossy: f64, twice: f64, delays: u32) -> Fate {
    if rng.f64() < lossy {
        Fate::Lost
    } else if rng.f64() < twice {
        Fate::Twice(rng.u32(0..=delays), rng.u32(0..=delays))
    } else {
        Fate::Comes(rng.u32(0..=delays))
    }
}
