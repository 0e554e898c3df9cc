//! Events of address translation and of firewalls (RFC 8158; Cisco's NSEL), and names of interfaces, by template.

use crate::collect::element::field::{TemplateField, walk};
use crate::collect::element::moment::Moment;
use crate::collect::element::octets::{mapped, number, text};
use crate::collect::exporter::origin::ExporterInfo;
use crate::collect::limits::DecodeLimits;
use crate::collect::record::{GivenName, Imported, InterfaceCounters, Named, NatEvent};
use crate::packet::Address;

/// Receiver of decoded records.
pub trait Take {
    fn flow(&mut self, from: &ExporterInfo, record: &Imported<'_>);

    /// An address-translation or firewall event. If it carries traffic counts, `flow` may get them, too.
    fn event(&mut self, _from: &ExporterInfo, _event: &NatEvent<'_>) {}

    /// The name of an interface or a VRF, from an option; false if there is no room for it.
    fn name(&mut self, _from: &ExporterInfo, _name: &GivenName<'_>) -> bool {
        true
    }

    /// The counters of an interface, from an sFlow sample; false if there is no room for them.
    fn counters(&mut self, _from: &ExporterInfo, _counters: &InterfaceCounters) -> bool {
        true
    }
}

/// Takes flows alone.
pub struct FlowsAlone<'t, T>(pub &'t mut T);

impl<T: FnMut(&ExporterInfo, &Imported<'_>)> Take for FlowsAlone<'_, T> {
    fn flow(&mut self, from: &ExporterInfo, record: &Imported<'_>) {
        (self.0)(from, record);
    }
}

/// Whether an element occurs only in events. Cisco ASAs before version 8.4 used other numbers for translated addresses.
pub fn is_event(pen: u32, id: u16) -> bool {
    pen == 0 && matches!(id, 225..=228 | 230 | 233 | 281 | 282 | 361..=364 | 371 | 40_000..=40_005)
}

/// Whether the element marks a template as one of events.
pub fn tells_event(pen: u32, id: u16) -> bool {
    pen == 0 && matches!(id, 225..=228 | 230 | 233 | 281 | 282 | 40_001..=40_005)
}

/// Reads a record as an event; returns it and whether its time had to be corrected: like flow times, it is moved to
/// this host's clock if the exporter's is far off, and replaced if it is impossible.
pub fn read<'a>(
    fields: &'a [TemplateField],
    record: &'a [u8],
    moment: &Moment,
    limits: &DecodeLimits,
) -> (NatEvent<'a>, bool) {
    let mut event = NatEvent::default();
    let (mut time_ms, mut began_ms, mut ended_ms) = (None, None, None);
    for (field, octets) in walk(fields, record).filter(|(field, _)| field.pen == 0) {
        let value = number(octets);
        // The addresses of the other IP version may be present but empty.
        let set = |to: &mut Address| {
            if octets.iter().any(|&octet| octet != 0) {
                *to = match *octets {
                    [a, b, c, d] => mapped([a, b, c, d]),
                    _ => octets.try_into().unwrap_or_default(),
                };
            }
        };
        match field.id {
            230 => event.nat_event = value as u8,
            233 | 40_005 => event.firewall_event = value as u8,
            4 => event.protocol = value as u8,
            8 | 27 => set(&mut event.addresses[0]),
            12 | 28 => set(&mut event.addresses[1]),
            225 | 281 | 40_001 => set(&mut event.translated[0]),
            226 | 282 | 40_002 => set(&mut event.translated[1]),
            7 => event.ports[0] = value as u16,
            11 => event.ports[1] = value as u16,
            227 | 40_003 => event.translated_ports[0] = value as u16,
            228 | 40_004 => event.translated_ports[1] = value as u16,
            361 => event.port_block[0] = value as u16,
            362 => event.port_block[1] = value as u16,
            363 => event.port_step = value as u16,
            364 => event.port_count = value as u16,
            234 => event.vrf[0] = value as u32,
            235 => event.vrf[1] = value as u32,
            148 => event.connection = value,
            323 => time_ms = i64::try_from(value).ok(),
            // The end of a connection takes precedence over its beginning.
            153 if value > 0 => ended_ms = i64::try_from(value).ok(),
            152 => began_ms = i64::try_from(value).ok(),
            371 | 40_000 => event.user = text(octets),
            _ => {}
        }
    }
    let is_end = matches!(event.nat_event, 2 | 5 | 7 | 9 | 11 | 15 | 17) || event.firewall_event == 2;
    let by_flow = if is_end { ended_ms.or(began_ms) } else { began_ms };
    let time_ms = time_ms.filter(|&ms| ms > 0).or(by_flow.filter(|&ms| ms > 0));
    let (_, last_ms, mended) = moment.settle(None, time_ms, limits);
    event.time_ms = last_ms;
    (event, mended)
}

impl NatEvent<'_> {
    /// Whether the event is the beginning, end or refusal of a translation or connection; false for an update in
    /// between.
    pub fn happened(&self) -> bool {
        self.nat_event != 0 || matches!(self.firewall_event, 1..=4)
    }
}

/// Whether the element marks an options template that names interfaces or VRFs.
pub fn gives_name(pen: u32, id: u16) -> bool {
    pen == 0 && matches!(id, 82 | 83 | 236)
}

/// Reads an option as the name of an interface or a VRF; `None` if it names none.
pub fn name<'a>(fields: &'a [TemplateField], option: &'a [u8]) -> Option<GivenName<'a>> {
    let mut given = GivenName::default();
    for (field, octets) in walk(fields, option).filter(|(field, _)| field.pen == 0) {
        match field.id {
            10 | 14 | 252 | 253 if given.number == 0 => given.number = number(octets) as u32,
            234 | 235 if given.number == 0 => given.number = number(octets) as u32,
            82 => given.name = text(octets),
            83 => given.description = text(octets),
            236 => (given.of, given.name) = (Named::Vrf, text(octets)),
            _ => {}
        }
    }
    Some(given).filter(|given| given.number > 0 && !(given.name.is_empty() && given.description.is_empty()))
}
