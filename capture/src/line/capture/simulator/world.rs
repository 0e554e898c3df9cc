//! A simulated source around a real worker.

use super::schedule::{Form, Schedule, Sent, Step};
use crate::app::AppOptions;
use crate::config::{PacketsConfig, Tunnels};
use crate::filter::{FilterConfig, FilterSets};
use crate::line::capture::{Capture, CaptureOptions, CapturePublishing, HandedOver, Outcome, shard};
use crate::line::metrics::CaptureMetrics;
use crate::line::reload::{Reload, Settings};
use crate::line::state::RunState;
use crate::meter::interval::IntervalLength;
use crate::meter::record::Records;
use crate::meter::{FLOW_COST, MeterOptions};
use crate::metrics::Metrics;
use crate::own_traffic::OwnTraffic;
use crate::packet::protocol::TCP;
use crate::packet::{BATCH, Cause, Frame, LinkType, Packet};
use crate::proto;
use crate::publish::metered::Publisher;
use crate::publish::metrics::PublishMetrics;
use crate::publish::pace::Pace;
use crate::publish::{Encoded, Identity, Sink};
use crate::source::{Next, Polled, Source, Witness};
use crate::testing as t;
use crate::throttle::Throttle;
use crossbeam_channel::{Receiver, Sender, unbounded};
use prost::Message as _;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// When a simulation begins, ns from the Unix epoch.
pub const START_NS: i64 = 1_700_000_003_000_000_000;
/// How often an idle worker looks at the clock, ns.
const LOOK_NS: i64 = 500_000_000;
/// Configurations that a schedule can load.
pub const SETTINGS: usize = 3;
const BROKER: ([u8; 4], u16) = ([192, 0, 2, 99], 9092);

/// An event at the source, for the oracle.
pub enum Seen {
    /// A packet that the worker must count.
    Packet { time_ns: i64, octets: u64, fate: Result<Flow, Cause> },
    /// A time that the worker learns otherwise: from the source's clock, or from a packet of another worker.
    Time(i64),
    /// Packets were dropped.
    Dropped(u64),
}

/// The hosts of a packet, the lower one first, and its protocol.
pub type Flow = (Vec<u8>, Vec<u8>, u32);

/// A message that a worker published.
pub enum Said {
    Flows(Box<proto::FlowMessage>),
    Counters(proto::CounterMessage),
}

pub struct Happened {
    /// With the time that had passed by an undisturbed clock, ns.
    pub seen: Vec<(i64, Seen)>,
    pub said: Vec<Said>,
    pub outcome: Outcome,
}

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<Said>>>);

impl Sink for Kept {
    fn flows(&mut self, message: Encoded<'_>) -> anyhow::Result<()> {
        self.0.lock().unwrap().push(Said::Flows(Box::new(proto::FlowMessage::decode(message.octets)?)));
        Ok(())
    }

    fn counters(&mut self, message: &proto::CounterMessage) -> anyhow::Result<()> {
        self.0.lock().unwrap().push(Said::Counters(message.clone()));
        Ok(())
    }
}

/// The publishing half, which the source runs between polls.
struct Publishing {
    half: CapturePublishing,
    closed: Receiver<HandedOver>,
    give_back: Sender<Records>,
}

impl Publishing {
    fn publish(&mut self) {
        while let Ok(handed_over) = self.closed.try_recv() {
            self.half.publish(handed_over, &self.give_back).unwrap();
        }
    }
}

struct Simulated<'a> {
    schedule: &'a Schedule,
    worker: u32,
    steps: VecDeque<&'a Step>,
    /// How long the source has no packets, ns.
    idle_ns: i64,
    /// The clock, and the time that has passed, ns.
    now_ns: i64,
    passed_ns: i64,
    seen: Rc<RefCell<Vec<(i64, Seen)>>>,
    witness: Witness,
    publishing: Rc<RefCell<Publishing>>,
    polls: u32,
    reload: Reload,
    stop: Arc<AtomicBool>,
    stopped: bool,
}

impl Simulated<'_> {
    fn pass(&mut self, ns: i64) {
        self.now_ns = self.now_ns.saturating_add(ns);
        self.passed_ns += ns;
    }

    fn note(&self, seen: Seen) {
        self.seen.borrow_mut().push((self.passed_ns, seen));
    }

    /// The worker looks at the clock, if there is one.
    fn look(&self) {
        if self.schedule.live {
            self.note(Seen::Time(self.now_ns));
        }
    }

    fn packets(&mut self, all: &[Sent], take: &mut impl FnMut(&[Frame<'_>]) -> Next) {
        let mut frames = Vec::new();
        for sent in all {
            self.pass(i64::from(sent.after_us) * 1000);
            let (data, length, link) = frame(sent);
            let time_ns = self.now_ns.saturating_add(sent.off_ms * 1_000_000);
            let frame = Frame { time_ns, link, data: &data, length, vlan: None };
            let mine = if self.schedule.share {
                let mut packet = Packet::default();
                packet.read(&frame);
                if self.schedule.inner {
                    packet.enter_tunnel(&frame);
                }
                shard(&packet, self.schedule.workers) == self.worker
            } else {
                u32::from(sent.flow) % self.schedule.workers == self.worker
            };
            if mine {
                let (octets, fate) = expected(sent, self.schedule.inner, data.len());
                self.note(Seen::Packet { time_ns, octets, fate });
            } else if self.schedule.share {
                self.note(Seen::Time(time_ns));
            }
            if mine || self.schedule.share {
                self.witness.offered += 1;
                frames.push((time_ns, link, data, length));
            }
        }
        for batch in frames.chunks(BATCH) {
            let batch: Vec<Frame<'_>> = batch
                .iter()
                .map(|(time_ns, link, data, length)| Frame {
                    time_ns: *time_ns,
                    link: *link,
                    data,
                    length: *length,
                    vlan: None,
                })
                .collect();
            // The answer is ignored: a real source that is asked to pause delivers the rest at its next poll, and no time passes
            // in between here.
            take(&batch);
        }
    }
}

impl Source for Simulated<'_> {
    fn poll(&mut self, _: Duration, take: &mut impl FnMut(&[Frame<'_>]) -> Next) -> io::Result<Polled> {
        self.polls += 1;
        if self.polls % self.schedule.publish_every == 0 {
            self.publishing.borrow_mut().publish();
        }
        if self.idle_ns > 0 {
            let ns = self.idle_ns.min(LOOK_NS);
            self.idle_ns -= ns;
            self.pass(ns);
            self.look();
            return Ok(Polled::Idle);
        }
        let Some(step) = self.steps.pop_front() else {
            self.stop.store(true, Ordering::Relaxed);
            return Ok(if self.stopped || !self.schedule.live { Polled::End } else { Polled::Idle });
        };
        match step {
            Step::Packets(all) => {
                self.packets(all, take);
                return Ok(Polled::Packets);
            }
            Step::Wait(ms) => self.idle_ns = i64::from(*ms) * 1_000_000,
            Step::Clock(ms) => self.now_ns = self.now_ns.saturating_add(ms * 1_000_000).max(0),
            Step::Fail => {
                self.look();
                return Err(io::Error::from_raw_os_error(libc::EIO));
            }
            Step::Drop(packets) if self.schedule.live => {
                self.witness.offered += u64::from(*packets);
                self.witness.dropped += u64::from(*packets);
                self.note(Seen::Dropped(u64::from(*packets)));
            }
            Step::Drop(_) => {}
            Step::Reload(number) => self.reload.set(settings(self.schedule, *number)),
            Step::Gone => {
                if self.schedule.live {
                    self.steps.clear();
                    return Err(io::Error::from_raw_os_error(libc::ENODEV));
                }
            }
        }
        self.look();
        Ok(Polled::Idle)
    }

    fn now_ns(&self) -> Option<i64> {
        self.schedule.live.then_some(self.now_ns)
    }

    fn witness(&mut self) -> Option<Witness> {
        self.schedule.live.then_some(self.witness)
    }

    fn stop(&mut self) -> bool {
        self.stopped = true;
        true
    }
}

/// The settings of this number; 0 are those of the start.
fn settings(schedule: &Schedule, number: usize) -> Settings {
    static FILTERS: OnceLock<Arc<FilterSets>> = OnceLock::new();
    let compiled = || Arc::new(FilterSets::compile(&FilterConfig::default()).unwrap());
    let filters = if number == 1 { Arc::clone(FILTERS.get_or_init(compiled)) } else { Arc::default() };
    let meter = MeterOptions {
        interval: IntervalLength::from_seconds(schedule.interval_s).unwrap(),
        flow_memory: schedule.flows * FLOW_COST,
        max_records: schedule.records,
        idle_ms: if number == 2 { 500 } else { schedule.idle_ms },
        datagrams: schedule.datagrams,
        local_networks: if number == 2 { Vec::new() } else { vec!["10.0.0.0/8".parse().unwrap()] },
        filters,
        applications: AppOptions::default(),
    };
    let tunnels = if schedule.inner { Tunnels::Inner } else { Tunnels::Outer };
    Settings { meter, packets: PacketsConfig { tunnels, checksums: schedule.checksums } }
}

/// Runs one worker through a schedule.
pub fn run(schedule: &Schedule, worker: u32, run: &RunState) -> Happened {
    let (closings, closed) = unbounded();
    let (give_back, recycled) = unbounded();
    let (kept, metrics) = (Kept::default(), Metrics::default());
    let Settings { meter, packets } = settings(schedule, 0);
    let identity = Identity {
        probe: "simulated".to_owned(),
        worker,
        workers: schedule.workers,
        epoch: (START_NS / 1000) as u64,
        interval_ms: schedule.interval_s * 1000,
        ..Identity::default()
    };
    let brokers = OwnTraffic::default();
    brokers.add((std::net::IpAddr::from(BROKER.0), BROKER.1), TCP);
    let half = CapturePublishing {
        worker,
        publisher: Publisher::new(identity.clone(), Arc::clone(&meter.filters)),
        pace: Pace::Unpaced,
        metrics: CaptureMetrics::new(&metrics),
        published: PublishMetrics::new(&metrics),
        sink: Box::new(kept.clone()),
        run: run.clone(),
        interface: None,
        throttle: Throttle::default(),
    };
    let options = CaptureOptions {
        identity,
        packets,
        meter,
        pace: Pace::Unpaced,
        share: schedule.share,
        open_at_ns: schedule.live.then_some(START_NS),
        cpu: None,
        brokers: Some(brokers),
        interface: None,
        reload: Reload::default(),
        stop: Arc::default(),
        run: run.clone(),
        metrics: CaptureMetrics::new(&metrics),
        published: PublishMetrics::new(&metrics),
    };
    let publishing = Rc::new(RefCell::new(Publishing { half, closed, give_back }));
    let seen = Rc::default();
    let source = Simulated {
        schedule,
        worker,
        steps: schedule.steps.iter().collect(),
        idle_ns: 0,
        now_ns: START_NS,
        passed_ns: 0,
        seen: Rc::clone(&seen),
        witness: Witness::default(),
        publishing: Rc::clone(&publishing),
        polls: 0,
        reload: options.reload.clone(),
        stop: Arc::clone(&options.stop),
        stopped: false,
    };
    Capture::new(source, options, closings, recycled).unwrap().run().unwrap();
    publishing.borrow_mut().publish();
    let outcome = publishing.borrow().half.outcome();
    let said = std::mem::take(&mut *kept.0.lock().unwrap());
    Happened { seen: seen.take(), said, outcome }
}

fn hosts(sent: &Sent) -> ([u8; 4], [u8; 4]) {
    let hosts = ([10, 0, (sent.flow / 256) as u8, sent.flow as u8], [198, 51, 100, (sent.flow % 7) as u8]);
    if sent.back { (hosts.1, hosts.0) } else { hosts }
}

fn hosts_v6(sent: &Sent) -> (u8, u8) {
    let hosts = (sent.flow as u8, 200 + (sent.flow % 7) as u8);
    if sent.back { (hosts.1, hosts.0) } else { hosts }
}

/// A frame's captured octets, its length on the wire and its link layer.
fn frame(sent: &Sent) -> (Vec<u8>, u32, LinkType) {
    let (src, dst) = hosts(sent);
    let ports = if sent.back { (443, 40_000 + sent.flow) } else { (40_000 + sent.flow, 443) };
    let payload = vec![0x55; usize::from(sent.size)];
    let udp = || t::udp(ports, &payload);
    let mut link = LinkType::RawIp;
    let data = match sent.form {
        Form::Tcp(flags) => {
            let sequence = u32::from(sent.number) * 1000;
            t::ipv4(src, dst, 6, &t::tcp(ports, flags, sequence, u32::from(sent.size), &payload))
        }
        Form::Udp => t::ipv4(src, dst, 17, &udp()),
        Form::Icmp => t::ipv4(src, dst, 1, &t::icmp(if sent.back { 0 } else { 8 }, 0, &payload)),
        Form::V6 => {
            let (src, dst) = hosts_v6(sent);
            t::ipv6(src, dst, 17, &udp())
        }
        Form::Fragment(part) => {
            // Offsets of 8 octets, and the flag that more follow.
            let place = [0x2000, 0x2000 | 100, 200][usize::from(part)];
            let body = if part == 0 { udp() } else { payload };
            let mut packet = t::ipv4_with(src, dst, 17, &[], place, &body);
            packet[4..6].copy_from_slice(&sent.number.to_be_bytes());
            packet
        }
        Form::Tunnel => t::ipv4([192, 0, 2, 1], [192, 0, 2, 2], 4, &t::ipv4(src, dst, 17, &udp())),
        Form::Malformed => {
            let mut packet = t::ipv4(src, dst, 17, &udp());
            packet[0] = 0x42;
            packet
        }
        Form::Truncated => {
            let packet = t::ipv4(src, dst, 17, &udp());
            let length = packet.len() as u32;
            return (packet[..12].to_vec(), length, link);
        }
        Form::NotIp => {
            link = LinkType::Ethernet;
            t::frame(0x0806, &payload)
        }
        Form::OtherLink => {
            link = LinkType::Unknown;
            payload
        }
        Form::Own => {
            let ((src, dst), ports) =
                if sent.back { ((BROKER.0, src), (BROKER.1, 50_000)) } else { ((src, BROKER.0), (50_000, BROKER.1)) };
            t::ipv4(src, dst, 6, &t::tcp(ports, 0x18, 1, 1, &payload))
        }
    };
    let length = data.len() as u32;
    (data, length, link)
}

/// A packet's layer-3 octets, and its flow or the cause why it has none.
fn expected(sent: &Sent, inner: bool, captured: usize) -> (u64, Result<Flow, Cause>) {
    let (a, b) = hosts(sent);
    let flow = |a: &[u8], b: &[u8], protocol| Ok((a.min(b).to_vec(), a.max(b).to_vec(), protocol));
    let whole = captured as u64;
    match sent.form {
        Form::Tcp(_) => (whole, flow(&a, &b, 6)),
        Form::Udp | Form::Fragment(_) => (whole, flow(&a, &b, 17)),
        Form::Icmp => (whole, flow(&a, &b, 1)),
        Form::V6 => {
            let (a, b) = hosts_v6(sent);
            let address = |last| [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
            (whole, flow(&address(a), &address(b), 17))
        }
        Form::Tunnel if inner => (whole - 20, flow(&a, &b, 17)),
        Form::Tunnel => (whole, flow(&[192, 0, 2, 1], &[192, 0, 2, 2], 4)),
        Form::Malformed => (whole, Err(Cause::Malformed)),
        Form::Truncated => (u64::from(sent.size) + 28, Err(Cause::Truncated)),
        Form::NotIp => (u64::from(sent.size), Err(Cause::NotIp)),
        Form::OtherLink => (u64::from(sent.size), Err(Cause::LinkType)),
        Form::Own => (whole, Err(Cause::OwnExport)),
    }
}
