//! Application detection, from a flow's first packets.
//!
//! Each worker owns one [`Apps`]. A flow keeps an [`AppSlot`] of 16 octets and passes every packet to [`Apps::packet`],
//! which soon needs no more of them. Two detectors work independently: [`names`], [`hello`] and [`quic`] read server and
//! DNS names; nDPI, if the agent was built with it, detects the application. A flow is inspected from its first payload
//! on, for a budget of packets; its state in nDPI lives in a pool of fixed size meanwhile, and so does a ClientHello of
//! which a part is missing ([`awaited`]).

pub mod awaited;
mod gate;
pub mod hello;
pub mod list;
pub mod names;
#[cfg(ndpi)]
mod ndpi;
#[cfg(not(ndpi))]
#[path = "without.rs"]
mod ndpi;
pub mod quic;

use crate::packet::IpPacket;
use crate::packet::protocol::{DNS_PORTS, TCP, TLS_PORTS, UDP};
use awaited::{Awaited, Beginning, NotRead, Ticket, Waiting};
use gate::Gate;
use hello::Hello;
use names::{Kind, Name};
use ndpi::Ndpi;

/// The nDPI that the agent was built with, as `nDPI 4.2.0`, or `no nDPI`.
pub const NDPI: &str = env!("WEIR_NDPI");

/// Number of the initiator's packets with payload that are searched for a name.
const NAME_LOOKS: u8 = 3;

/// Packets as inspected as which an Initial of QUIC counts: deriving its keys and decrypting it costs as much.
const INITIAL_COSTS: u32 = 4;

/// The part of the memory for names that unfinished ClientHellos may take.
const AWAITED_PART: usize = 8;

fn is_dns(ip: &IpPacket) -> bool {
    DNS_PORTS.contains(&ip.dst_port) || DNS_PORTS.contains(&ip.src_port)
}

/// Approximate octets that a flow under inspection costs.
pub const STATE_OCTETS: usize = 1024;

/// Settings of [`Apps`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppOptions {
    /// Inspect flows with nDPI.
    pub ndpi: bool,
    /// Read server names and DNS names.
    pub names: bool,
    /// Maximum number of payload-carrying packets of a TCP flow shown to nDPI.
    pub tcp_packets: u8,
    /// Maximum number of packets of a UDP flow shown to nDPI.
    pub udp_packets: u8,
    /// Flows inspected at once.
    pub max_inspected: u16,
    /// No inspection begins while more than this percentage of packets is, or would be, inspected; 100: no limit.
    pub max_inspected_percent: u8,
    /// Octets of memory for the names of live flows; unfinished ClientHellos take up to an eighth as much beside them.
    pub name_octets: usize,
}

impl Default for AppOptions {
    fn default() -> Self {
        AppOptions {
            ndpi: cfg!(ndpi),
            names: true,
            tcp_packets: 8,
            udp_packets: 8,
            max_inspected: 8192,
            max_inspected_percent: 40,
            name_octets: 32 << 20,
        }
    }
}

/// Why a flow was not inspected, or not to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NotInspected {
    /// Too large a share of packets would have been inspected, as when each packet begins a flow.
    Overload,
    /// The maximum number of flows was already being inspected.
    PoolFull,
    /// The flow was idle, and a waiting flow took its state.
    Displaced,
}

impl NotInspected {
    /// Every cause, in the order of its discriminants.
    pub const ALL: [NotInspected; 3] = [NotInspected::Overload, NotInspected::PoolFull, NotInspected::Displaced];

    /// The cause as metrics and counters name it.
    pub fn name(self) -> &'static str {
        match self {
            NotInspected::Overload => "overload",
            NotInspected::PoolFull => "pool_full",
            NotInspected::Displaced => "displaced",
        }
    }

    /// The cause in plain words.
    pub fn meaning(self) -> &'static str {
        match self {
            NotInspected::Overload => {
                "too large a share of packets would have been inspected, as when each begins a flow"
            }
            NotInspected::PoolFull => "the maximum number of flows was already being inspected",
            NotInspected::Displaced => "the flow was idle while others waited, and lost its place to one of them",
        }
    }
}

/// nDPI's result for a flow, as nDPI's numbers; 0 if unknown.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct NdpiVerdict {
    /// The protocol that carries the application, such as TLS; 0 if it is the application itself.
    master: u16,
    app: u16,
}

impl NdpiVerdict {
    /// The id that goes into a record: the application if known, else the protocol that carries it.
    fn id(self) -> u16 {
        if self.app != 0 { self.app } else { self.master }
    }
}

/// Identifies a flow's state in nDPI. It becomes invalid when another flow takes the state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Handle {
    entry: u16,
    /// Number of times that the state was freed before, modulo 65,536.
    generation: u16,
}

/// How far the inspection of a flow has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Inspection {
    /// No payload was seen yet.
    #[default]
    Waiting,
    /// The flow has a state in nDPI.
    Open,
    /// The inspection is complete.
    Done,
    /// The flow was not inspected, or not completely.
    Not(NotInspected),
}

/// Detection state kept with each flow: 16 octets. A flow that ends returns it through [`Apps::end`].
#[derive(Debug, Default)]
pub struct AppSlot {
    name: Option<Name>,
    handle: Handle,
    application_id: u16,
    inspection: Inspection,
    /// Number of packets searched for a name, in the two highest bits; number of packets shown to nDPI, in the others.
    looks: u8,
}

/// One search for a name, in [`AppSlot::looks`].
const NAME_LOOK: u8 = 64;

/// Maximum number of packets of one flow shown to nDPI.
pub const MAX_BUDGET: u8 = NAME_LOOK - 1;

impl AppSlot {
    /// The application, as nDPI's number; 0 if unknown.
    pub fn application_id(&self) -> u16 {
        self.application_id
    }

    /// The server that the initiator asked for by TLS, HTTP or QUIC.
    pub fn server_name(&self) -> Option<&Name> {
        self.name.as_ref().filter(|name| name.kind() == Kind::Server)
    }

    /// The name that the initiator asked DNS about first.
    pub fn dns_query(&self) -> Option<&Name> {
        self.name.as_ref().filter(|name| name.kind() == Kind::Query)
    }

    /// Why the application may be unknown although there was payload to inspect.
    pub fn not_inspected(&self) -> Option<NotInspected> {
        match self.inspection {
            Inspection::Not(cause) => Some(cause),
            _ => None,
        }
    }

    /// The place of its ClientHello, if a part of that is missing.
    fn ticket(&self) -> Option<Ticket> {
        self.name.as_ref()?.ticket()
    }

    #[inline]
    fn is_name_settled(&self) -> bool {
        self.looks >= NAME_LOOKS * NAME_LOOK
    }

    fn settle_name(&mut self) {
        self.looks |= NAME_LOOKS * NAME_LOOK;
    }
}

/// Flows and their packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Affected {
    pub flows: u64,
    pub packets: u64,
}

/// Counts of [`Apps`] since its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppCounts {
    /// Flows whose inspection began, and packets shown to nDPI.
    pub inspected: Affected,
    /// Flows that were not inspected (to the end), and their packets from then on, by [`NotInspected`].
    pub not_inspected: [Affected; NotInspected::ALL.len()],
    /// Names found and kept.
    pub names: u64,
    /// Flows whose name was not read, by [`NotRead`].
    pub not_read: [u64; NotRead::NAMES.len()],
}

impl AppCounts {
    /// The counts since `earlier`.
    pub fn since(&self, earlier: &AppCounts) -> AppCounts {
        let affected = |now: Affected, then: Affected| Affected {
            flows: now.flows - then.flows,
            packets: now.packets - then.packets,
        };
        AppCounts {
            inspected: affected(self.inspected, earlier.inspected),
            not_inspected: std::array::from_fn(|cause| {
                affected(self.not_inspected[cause], earlier.not_inspected[cause])
            }),
            names: self.names - earlier.names,
            not_read: std::array::from_fn(|cause| self.not_read[cause] - earlier.not_read[cause]),
        }
    }
}

/// nDPI takes 6 MB and 20 ms to initialise, so it is initialised for the first flow to inspect, and an idle agent never
/// initialises it. Packets that arrive meanwhile wait in the ring.
enum Inspector {
    /// Disabled.
    Off,
    /// Enabled, but no flow to inspect yet.
    Asked,
    Made(Box<Ndpi>),
    /// Initialisation failed.
    Failed,
}

impl Inspector {
    /// nDPI, initialised on first use; `None` if it is disabled or failed to initialise.
    fn get(&mut self, flows: u16) -> Option<&mut Ndpi> {
        if matches!(self, Inspector::Asked) {
            *self = match Ndpi::new(flows) {
                Ok(ndpi) => Inspector::Made(Box::new(ndpi)),
                Err(error) => {
                    tracing::error!("{error:#}: application detection is disabled until restart");
                    Inspector::Failed
                }
            };
        }
        self.made()
    }

    fn made(&mut self) -> Option<&mut Ndpi> {
        match self {
            Inspector::Made(ndpi) => Some(&mut **ndpi),
            _ => None,
        }
    }
}

/// A packet of a flow.
#[derive(Clone, Copy)]
pub struct AppPacket<'a> {
    pub ip: &'a IpPacket,
    /// Its captured octets from the IP header on.
    pub l3: &'a [u8],
    /// Offset of the transport header in them.
    pub l4: usize,
    pub from_initiator: bool,
    /// Its time, ms from the Unix epoch.
    pub time_ms: u64,
}

/// Detects the applications and names of a worker's flows.
pub struct Apps {
    options: AppOptions,
    ndpi: Inspector,
    gate: Gate,
    /// Octets of memory that the names of live flows take.
    name_octets: usize,
    waiting: Waiting,
    /// For a decrypted packet, or a message of several records.
    room: Vec<u8>,
    counts: AppCounts,
}

/// How far a ClientHello has come.
enum Progress {
    Named(Name),
    /// It has no name.
    Nothing,
    Unfinished,
}

impl Apps {
    /// An instance for one worker.
    ///
    /// # Errors
    /// If nDPI is required and the agent was built without it, or for another version of it. If initialisation fails
    /// later, the agent logs it and inspects no flows.
    pub fn new(options: &AppOptions) -> anyhow::Result<Apps> {
        if options.ndpi {
            Ndpi::check()?;
        }
        Ok(Apps {
            ndpi: if options.ndpi { Inspector::Asked } else { Inspector::Off },
            gate: Gate::new(options.max_inspected_percent),
            name_octets: 0,
            waiting: Waiting::default(),
            room: Vec::new(),
            counts: AppCounts::default(),
            options: AppOptions {
                tcp_packets: options.tcp_packets.clamp(1, MAX_BUDGET),
                udp_packets: options.udp_packets.clamp(1, MAX_BUDGET),
                ..options.clone()
            },
        })
    }

    /// Applies changed names, budgets and shares; whether nDPI runs, and for how many flows at once, stays as it is.
    pub fn reconfigure(&mut self, options: &AppOptions) {
        if options.max_inspected_percent != self.options.max_inspected_percent {
            self.gate = Gate::new(options.max_inspected_percent);
        }
        self.options = AppOptions {
            ndpi: self.options.ndpi,
            max_inspected: self.options.max_inspected,
            tcp_packets: options.tcp_packets.clamp(1, MAX_BUDGET),
            udp_packets: options.udp_packets.clamp(1, MAX_BUDGET),
            ..options.clone()
        };
    }

    /// Processes a packet of the flow to which `slot` belongs. Call it for every metered IP packet, even when detection is
    /// complete, because overload is measured over all packets.
    ///
    /// True if `slot` changed, so the flow's record must be updated.
    #[inline]
    pub fn packet(&mut self, slot: &mut AppSlot, packet: &AppPacket<'_>) -> bool {
        if !(self.options.names || self.options.ndpi) {
            return false;
        }
        self.gate.packet();
        match slot.inspection {
            Inspection::Done if slot.is_name_settled() => return false,
            Inspection::Not(cause) => {
                self.counts.not_inspected[cause as usize].packets += 1;
                if slot.is_name_settled() {
                    return false;
                }
            }
            _ => {}
        }
        self.look(slot, packet)
    }

    fn look(&mut self, slot: &mut AppSlot, packet: &AppPacket<'_>) -> bool {
        let AppPacket { ip, l3, l4, from_initiator, time_ms } = *packet;
        if ip.is_later_fragment() {
            return false;
        }
        if ip.protocol != TCP && ip.protocol != UDP {
            slot.settle_name();
            slot.inspection = Inspection::Done;
            if self.options.ndpi {
                match self.ndpi.get(self.options.max_inspected) {
                    Some(ndpi) => slot.application_id = ndpi.by_protocol(ip.protocol),
                    None => self.refuse(slot, NotInspected::PoolFull),
                }
            }
            return slot.application_id != 0;
        }
        let l3 = without_padding(l3);
        let payload = payload(ip.protocol, l3.get(l4..).unwrap_or(&[]));
        if payload.is_empty() {
            return false;
        }
        let named = from_initiator && !slot.is_name_settled() && self.look_for_name(slot, packet, payload);
        let told = match slot.inspection {
            Inspection::Waiting => self.begin(slot, time_ms) && self.inspect(slot, ip, l3, time_ms),
            Inspection::Open => {
                self.gate.go_on();
                self.inspect(slot, ip, l3, time_ms)
            }
            Inspection::Done | Inspection::Not(_) => false,
        };
        named || told
    }

    /// Releases the resources of a flow that ends or restarts, and resets its slot.
    pub fn end(&mut self, slot: &mut AppSlot) {
        if let (Inspection::Open, Some(ndpi)) = (slot.inspection, self.ndpi.made()) {
            ndpi.end(slot.handle);
        }
        let awaited = slot.ticket().and_then(|ticket| self.waiting.give_up(ticket));
        if awaited.is_some_and(|awaited| awaited.start().is_some()) {
            self.counts.not_read[NotRead::Unfinished as usize] += 1;
        }
        self.drop_name(slot);
        *slot = AppSlot::default();
    }

    /// The counts since the start.
    pub fn counts(&self) -> &AppCounts {
        &self.counts
    }

    /// Whether no inspection begins for now because there would be too many.
    pub fn is_overloaded(&self) -> bool {
        self.gate.is_closed()
    }

    /// Number of flows being inspected, and its maximum.
    pub fn load(&self) -> (usize, usize) {
        match &self.ndpi {
            Inspector::Made(ndpi) => ndpi.load(),
            Inspector::Asked => (0, self.options.max_inspected.into()),
            Inspector::Off | Inspector::Failed => (0, 0),
        }
    }

    fn look_for_name(&mut self, slot: &mut AppSlot, packet: &AppPacket<'_>, payload: &[u8]) -> bool {
        let ip = packet.ip;
        if !self.options.names {
            slot.settle_name();
            return false;
        }
        if let Some(ticket) = slot.ticket() {
            return self.go_on(slot, ticket, packet, payload);
        }
        slot.looks += NAME_LOOK;
        if is_dns(ip) {
            return names::dns_query(ip.protocol == TCP, payload).is_some_and(|name| self.keep(slot, name));
        }
        if ip.protocol == TCP {
            return self.look_for_server(slot, packet, payload);
        }
        if quic::is_initial(payload) {
            let awaited = Awaited::new(Beginning::Quic(None), packet.time_ms);
            return self.begin_hello(slot, awaited, packet, payload);
        }
        if !quic::is_long(payload) {
            slot.settle_name();
        }
        false
    }

    fn look_for_server(&mut self, slot: &mut AppSlot, packet: &AppPacket<'_>, payload: &[u8]) -> bool {
        let Some(tcp) = packet.ip.tcp else { return false };
        let begins = hello::begins(payload);
        if begins {
            match hello::of_records(payload, &mut self.room) {
                Hello::Server(name) => return Name::server(name).is_some_and(|name| self.keep(slot, name)),
                Hello::Nothing => return false,
                Hello::Unfinished => {}
            }
        } else if let Some(name) = names::http_server(payload) {
            return self.keep(slot, name);
        } else if slot.looks >= 2 * NAME_LOOK || hello::is_record(payload) || !TLS_PORTS.contains(&packet.ip.dst_port) {
            return false;
        }
        // The rest of a packet that was cut does not come.
        if packet.l3.len().saturating_sub(packet.l4) < packet.ip.payload as usize {
            return false;
        }
        let beginning = Beginning::Tcp { sequence: tcp.sequence, known: begins };
        self.begin_hello(slot, Awaited::new(beginning, packet.time_ms), packet, payload)
    }

    /// Reads the first octets of a ClientHello, and keeps it if a part is missing; returns whether there is a name.
    fn begin_hello(
        &mut self,
        slot: &mut AppSlot,
        mut awaited: Awaited,
        packet: &AppPacket<'_>,
        payload: &[u8],
    ) -> bool {
        let begun = match self.read_on(&mut awaited, packet, payload) {
            Ok(Progress::Unfinished) => self.waiting.keep(awaited, self.options.name_octets / AWAITED_PART),
            Ok(Progress::Named(name)) => return self.keep(slot, name),
            Ok(Progress::Nothing) => {
                slot.settle_name();
                return false;
            }
            Err(cause) => Err(cause),
        };
        self.count_displaced();
        match begun {
            Ok(ticket) => {
                let name = Name::awaited(ticket);
                self.name_octets += name.heap_octets();
                slot.name = Some(name);
            }
            Err(cause) => self.give_up_name(slot, cause),
        }
        false
    }

    /// Reads further octets of a ClientHello; returns whether there is a name.
    fn go_on(&mut self, slot: &mut AppSlot, ticket: Ticket, packet: &AppPacket<'_>, payload: &[u8]) -> bool {
        let Some(mut awaited) = self.waiting.take(ticket) else {
            // It was counted when it lost its place.
            self.drop_name(slot);
            slot.settle_name();
            return false;
        };
        let mut named = None;
        let done = match self.read_on(&mut awaited, packet, payload) {
            Ok(Progress::Unfinished) => {
                let back = self.waiting.put_back(ticket, awaited, self.options.name_octets / AWAITED_PART);
                self.count_displaced();
                if back.is_ok() {
                    return false;
                }
                back
            }
            Ok(Progress::Named(name)) => {
                named = Some(name);
                Ok(())
            }
            Ok(Progress::Nothing) => Ok(()),
            Err(cause) => Err(cause),
        };
        self.waiting.free(ticket);
        self.drop_name(slot);
        slot.settle_name();
        if let Err(cause) = done {
            self.give_up_name(slot, cause);
        }
        named.is_some_and(|name| self.keep(slot, name))
    }

    fn read_on(&mut self, awaited: &mut Awaited, packet: &AppPacket<'_>, payload: &[u8]) -> Result<Progress, NotRead> {
        awaited.packet(packet.time_ms)?;
        let Awaited { beginning, stream, .. } = awaited;
        let hello = match (beginning, &packet.ip.tcp) {
            (Beginning::Quic(origin), _) => {
                if quic::is_initial(payload) && !self.gate.begin_costly(INITIAL_COSTS) {
                    return Err(NotRead::Overload);
                }
                let mut refused = Ok(());
                let opened = quic::open(payload, origin.as_ref(), &mut self.room, &mut |offset, part| {
                    refused = refused.and(stream.add(offset, part));
                });
                refused?;
                if opened.is_some() {
                    *origin = opened;
                } else if origin.is_none() {
                    return Err(NotRead::Undecryptable);
                }
                hello::of_message(stream.start())
            }
            (Beginning::Tcp { .. }, Some(tcp)) => {
                awaited.segment(tcp.sequence, payload, hello::begins(payload))?;
                match awaited.start() {
                    Some(start) => hello::of_records(start, &mut self.room),
                    None if awaited.packets() < NAME_LOOKS => Hello::Unfinished,
                    None => Hello::Nothing,
                }
            }
            (Beginning::Tcp { .. }, None) => Hello::Unfinished,
        };
        Ok(match hello {
            Hello::Server(name) => Name::server(name).map_or(Progress::Nothing, Progress::Named),
            Hello::Nothing => Progress::Nothing,
            Hello::Unfinished => Progress::Unfinished,
        })
    }

    fn give_up_name(&mut self, slot: &mut AppSlot, cause: NotRead) {
        self.counts.not_read[cause as usize] += 1;
        slot.settle_name();
    }

    fn count_displaced(&mut self) {
        self.counts.not_read[NotRead::Displaced as usize] += std::mem::take(&mut self.waiting.displaced);
    }

    /// Drops a flow's name, or what stands for one that is awaited.
    fn drop_name(&mut self, slot: &mut AppSlot) {
        if let Some(name) = slot.name.take() {
            self.name_octets -= name.heap_octets();
        }
    }

    /// Keeps the name of a flow that has none, if there is room.
    fn keep(&mut self, slot: &mut AppSlot, name: Name) -> bool {
        slot.settle_name();
        let octets = self.name_octets + name.heap_octets();
        if octets > self.options.name_octets {
            self.counts.not_read[NotRead::NoMemory as usize] += 1;
            return false;
        }
        self.name_octets = octets;
        self.counts.names += 1;
        slot.name = Some(name);
        true
    }

    /// Assigns a state in nDPI to a flow, if nDPI runs, there is no overload and a state is free.
    fn begin(&mut self, slot: &mut AppSlot, time_ms: u64) -> bool {
        if !self.options.ndpi {
            slot.inspection = Inspection::Done;
            return false;
        }
        let begun = if self.gate.begin() {
            // If nDPI failed to initialise, no flow has room.
            self.ndpi.get(self.options.max_inspected).map_or(Err(NotInspected::PoolFull), |ndpi| ndpi.begin(time_ms))
        } else {
            Err(NotInspected::Overload)
        };
        match begun {
            Ok(handle) => {
                slot.handle = handle;
                slot.inspection = Inspection::Open;
                self.counts.inspected.flows += 1;
                true
            }
            Err(cause) => {
                self.refuse(slot, cause);
                false
            }
        }
    }

    fn refuse(&mut self, slot: &mut AppSlot, cause: NotInspected) {
        slot.inspection = Inspection::Not(cause);
        let affected = &mut self.counts.not_inspected[cause as usize];
        affected.flows += 1;
        affected.packets += 1;
    }

    /// Shows a packet to nDPI; returns whether the application changed.
    fn inspect(&mut self, slot: &mut AppSlot, ip: &IpPacket, l3: &[u8], time_ms: u64) -> bool {
        let Some(ndpi) = self.ndpi.made() else { return false };
        let (mut verdict, more) = match ndpi.packet(slot.handle, l3, time_ms) {
            Ok(seen) => seen,
            Err(cause) => {
                self.refuse(slot, cause);
                return false;
            }
        };
        self.counts.inspected.packets += 1;
        slot.looks += 1;
        let budget = if ip.protocol == TCP { self.options.tcp_packets } else { self.options.udp_packets };
        let before = slot.application_id;
        if more && slot.looks % NAME_LOOK < budget {
            // Most flows that stay unknown are short: a guess by port is in their record before they end.
            if verdict.id() == 0 && slot.looks % NAME_LOOK == 1 {
                verdict = ndpi.guess(slot.handle, ip);
            }
            if verdict.id() != 0 {
                slot.application_id = verdict.id();
            }
            return slot.application_id != before;
        }
        if verdict.id() == 0 {
            verdict = ndpi.give_up(slot.handle);
        }
        if verdict.id() != 0 {
            slot.application_id = verdict.id();
        }
        let server = ndpi.quic_server(slot.handle, verdict, Name::server).flatten();
        ndpi.end(slot.handle);
        slot.inspection = Inspection::Done;
        let named = match server {
            Some(name) if self.options.names && slot.server_name().is_none() => {
                if let Some(ticket) = slot.ticket() {
                    self.waiting.give_up(ticket);
                }
                self.drop_name(slot);
                self.keep(slot, name)
            }
            _ => false,
        };
        named || slot.application_id != before
    }
}

/// An IP packet without its frame's padding; all of it if its length field is 0 or too large.
fn without_padding(l3: &[u8]) -> &[u8] {
    let octets = match l3 {
        [first, _, high, low, ..] if first >> 4 == 4 => usize::from(u16::from_be_bytes([*high, *low])),
        [first, _, _, _, high, low, ..] if first >> 4 == 6 => match u16::from_be_bytes([*high, *low]) {
            0 => 0,
            payload => 40 + usize::from(payload),
        },
        _ => 0,
    };
    match octets {
        0 => l3,
        octets => &l3[..octets.min(l3.len())],
    }
}

/// The payload of a TCP segment or UDP datagram.
fn payload(protocol: u8, l4: &[u8]) -> &[u8] {
    let header = match protocol {
        TCP => l4.get(12).map_or(usize::MAX, |offset| usize::from(offset >> 4).max(5) * 4),
        _ => 8,
    };
    l4.get(header..).unwrap_or(&[])
}

#[cfg(test)]
mod tests;
