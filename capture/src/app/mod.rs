//! Application detection, from a flow's first packets.
//!
//! Each worker owns one [`Apps`]. A flow keeps an [`AppSlot`] of 16 octets and passes every packet to [`Apps::packet`],
//! which soon needs no more of them. Two detectors work independently: [`names`] reads server and DNS names; nDPI, if
//! the agent was built with it, detects the application. A flow is inspected from its first payload on, for a budget of
//! packets; its state in nDPI lives in a pool of fixed size meanwhile.

mod gate;
pub mod list;
pub mod names;
#[cfg(ndpi)]
mod ndpi;
#[cfg(not(ndpi))]
#[path = "without.rs"]
mod ndpi;

use crate::packet::IpPacket;
use crate::packet::protocol::{TCP, UDP};
use gate::Gate;
use names::{Kind, Name};
use ndpi::Ndpi;

/// The nDPI that the agent was built with, as `nDPI 4.2.0`, or `no nDPI`.
pub const NDPI: &str = env!("WEIR_NDPI");

/// Number of the initiator's packets with payload that are searched for a name.
const NAME_LOOKS: u8 = 3;

fn is_dns(ip: &IpPacket) -> bool {
    names::is_dns_port(ip.dst_port) || names::is_dns_port(ip.src_port)
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
    /// Octets of memory for the names of live flows.
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
    /// Names found but dropped for lack of memory.
    pub names_shed: u64,
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
            names_shed: self.names_shed - earlier.names_shed,
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
    counts: AppCounts,
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
        if !self.options.ndpi && ip.protocol == UDP && !is_dns(ip) {
            slot.settle_name();
            slot.inspection = Inspection::Done;
            return false;
        }
        let l3 = without_padding(l3);
        let payload = payload(ip.protocol, l3.get(l4..).unwrap_or(&[]));
        if payload.is_empty() {
            return false;
        }
        let named = from_initiator && !slot.is_name_settled() && self.look_for_name(slot, ip, payload);
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
        if let Some(name) = &slot.name {
            self.name_octets -= name.heap_octets();
        }
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

    fn look_for_name(&mut self, slot: &mut AppSlot, ip: &IpPacket, payload: &[u8]) -> bool {
        let tcp = ip.protocol == TCP;
        let dns = is_dns(ip);
        if !self.options.names || !(tcp || dns) {
            slot.settle_name();
            return false;
        }
        slot.looks += NAME_LOOK;
        let name = if dns { names::dns_query(tcp, payload) } else { names::server_name(payload) };
        name.is_some_and(|name| self.keep(slot, name))
    }

    /// Keeps the name of a flow that has none, if there is room.
    fn keep(&mut self, slot: &mut AppSlot, name: Name) -> bool {
        slot.settle_name();
        let octets = self.name_octets + name.heap_octets();
        if octets > self.options.name_octets {
            self.counts.names_shed += 1;
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
            Some(name) if self.options.names && slot.name.is_none() => self.keep(slot, name),
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
