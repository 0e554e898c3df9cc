//! The script of one simulation: settings of the agent, and the events at its source, drawn from a seed.

use fastrand::Rng;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Schedule {
    pub seed: u64,
    pub workers: u32,
    /// The source has a clock and counters of its own, as an interface does; else only packets carry the time.
    pub live: bool,
    /// Every worker receives all packets and keeps its share.
    pub share: bool,
    pub interval_s: u32,
    /// Bounds of each worker: records of an interval, live flows, fragmented datagrams.
    pub records: usize,
    pub flows: usize,
    pub datagrams: usize,
    pub idle_ms: i64,
    pub inner: bool,
    pub checksums: bool,
    /// Closed intervals wait until the source was polled this many times.
    pub publish_every: u32,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Step {
    /// Packets that one poll passes on.
    Packets(Vec<Sent>),
    /// No packets for this many ms.
    Wait(u32),
    /// The clock steps by this many ms.
    Clock(i64),
    /// The source fails for a moment.
    Fail,
    /// The ring is full: this many packets are dropped.
    Drop(u32),
    /// The agent reads this configuration ([`super::world::SETTINGS`]).
    Reload(usize),
    /// The interface disappears.
    Gone,
}

/// A packet, and when it is sent.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Sent {
    pub flow: u16,
    pub form: Form,
    /// From the flow's responder.
    pub back: bool,
    /// Octets of payload.
    pub size: u16,
    /// Time since the packet before it, us.
    pub after_us: u32,
    /// How far its time differs from the clock, ms.
    pub off_ms: i64,
    /// Identification of a datagram, or the sequence number of a segment.
    pub number: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Form {
    Tcp(u8),
    Udp,
    Icmp,
    V6,
    /// A fragment of a UDP datagram by its number: the first, a middle one, the last.
    Fragment(u8),
    /// UDP of the flow in IPv4 in IPv4.
    Tunnel,
    Malformed,
    Truncated,
    NotIp,
    OtherLink,
    /// To a broker of the agent.
    Own,
}

const YEAR_MS: i64 = 365 * 86_400_000;

impl Schedule {
    pub fn draw(seed: u64) -> Schedule {
        let mut rng = Rng::with_seed(seed);
        let live = rng.u8(0..4) > 0;
        let flood = rng.u8(0..4) == 0;
        let mut schedule = Schedule {
            seed,
            workers: rng.u32(1..=3),
            live,
            share: !live && rng.bool(),
            interval_s: [1, 2, 10, 10, 30][rng.usize(0..5)],
            records: if flood { rng.usize(1..12) } else { 1000 },
            flows: if flood && rng.bool() { rng.usize(1..12) } else { 1000 },
            datagrams: [2, 100][rng.usize(0..2)],
            idle_ms: [0, 1000, 60_000, 60_000][rng.usize(0..4)],
            inner: rng.bool(),
            checksums: rng.bool(),
            publish_every: [1, 1, 3, 1000][rng.usize(0..4)],
            steps: Vec::new(),
        };
        let (steady, tidy) = (rng.u8(0..3) == 0, rng.bool());
        let flows = if flood { 60 } else { rng.u16(1..10) };
        for _ in 0..rng.usize(3..50) {
            let step = match rng.u8(0..100) {
                0..60 => {
                    let most = if flood { 70 } else { 12 };
                    Step::Packets((0..rng.usize(1..=most)).map(|_| Sent::draw(&mut rng, flows, steady, tidy)).collect())
                }
                60..80 => Step::Wait([rng.u32(1..300), rng.u32(1..12_000), rng.u32(1..70_000)][rng.usize(0..3)]),
                80 => Step::Wait(rng.u32(1..40 * 60_000)),
                81..88 if !steady && live => Step::Clock(step(&mut rng)),
                88..91 => Step::Fail,
                91..95 => Step::Drop(rng.u32(1..9)),
                95..98 => Step::Reload(rng.usize(0..super::world::SETTINGS)),
                98 if rng.u8(0..4) == 0 => Step::Gone,
                _ => Step::Wait(rng.u32(1..1500)),
            };
            schedule.steps.push(step);
        }
        schedule
    }
}

/// A step of a clock, or an error of a time: from ms to years in both directions.
fn step(rng: &mut Rng) -> i64 {
    let most = [50, 2000, 15_000, 120_000, 3_600_000, 30 * YEAR_MS][rng.usize(0..6)];
    rng.i64(-most..=most)
}

impl Sent {
    fn draw(rng: &mut Rng, flows: u16, steady: bool, tidy: bool) -> Sent {
        let form = match rng.u8(0..100) {
            0..40 => Form::Tcp([0x02, 0x12, 0x10, 0x10, 0x18, 0x11, 0x04][rng.usize(0..7)]),
            40..60 => Form::Udp,
            60..65 => Form::Icmp,
            65..73 => Form::V6,
            73..85 => Form::Fragment(rng.u8(0..3)),
            85..90 => Form::Tunnel,
            90..92 => Form::Malformed,
            92..94 => Form::Truncated,
            94..96 => Form::NotIp,
            96..98 => Form::OtherLink,
            _ => Form::Own,
        };
        let off_ms = match rng.u16(0..1000) {
            0..100 if !tidy => -rng.i64(0..3000),
            100..105 if !steady => step(rng),
            _ => 0,
        };
        Sent {
            flow: rng.u16(0..flows),
            form,
            back: rng.bool(),
            size: rng.u16(0..1400),
            after_us: [0, rng.u32(0..1000), rng.u32(0..400_000)][rng.usize(0..3)],
            off_ms,
            number: rng.u16(0..6),
        }
    }
}
