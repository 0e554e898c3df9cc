//! Headers: frames of every link layer, then some of them metered within narrow bounds.

use super::{Bounds, Input, Metering, START_NS, names};
use std::sync::{Arc, LazyLock};
use weir_probe::filter::{FilterConfig, FilterSets};
use weir_probe::packet::{Checksum, Frame, LinkType, parse, parse_inner, quoted};

/// Numbers of the supported link layers, and of one unsupported.
pub const LINKS: [u32; 13] = [1, 101, 0, 113, 276, 9, 104, 107, 105, 127, 10, 239, 147];

/// The default filter sets; none if libpcap, which compiles them, is not installed.
static FILTERS: LazyLock<Arc<FilterSets>> =
    LazyLock::new(|| Arc::new(FilterSets::compile(&FilterConfig::default()).unwrap_or_default()));

/// Packets of one input at most.
const MOST: usize = 64;

/// An input consists of five octets (index in [`LINKS`]; flows; records; idle seconds; 1 for packets within tunnels, 2
/// for few datagrams) and frames: length, time since the previous one in units of 8 ms, octets not captured and VLAN id
/// (two octets each), then the content.
pub fn check(input: &[u8]) {
    let mut input = Input(input);
    let link = LinkType::from_number(LINKS[usize::from(input.octet()) % LINKS.len()]).unwrap_or(LinkType::Unknown);
    let [flows, records] = [input.octet(), input.octet()].map(|number| usize::from(number % 16) + 1);
    let idle_ms = i64::from(input.octet()) * 1000;
    let how = input.octet();
    let datagrams = if how & 2 == 0 { 64 } else { 2 };
    let mut frames = Vec::new();
    let mut time_ns = START_NS;
    while !input.is_empty() && frames.len() < MOST {
        let length = input.number();
        time_ns += i64::from(input.number() as i16) * 8_000_000;
        let uncaptured = match input.number() {
            u16::MAX => u32::MAX - (1 << 16),
            number => u32::from(number),
        };
        let vlan = Some(input.number()).filter(|&vlan| vlan > 0);
        let data = input.octets(usize::from(length));
        frames.push(Frame { time_ns, link, data, length: data.len() as u32 + uncaptured, vlan });
    }
    frames.iter().for_each(parsed);
    let mut metering = Metering::new(Bounds { flows, records, datagrams, idle_ms }, how & 1 != 0, Arc::clone(&FILTERS));
    metering.frames(&frames);
    metering.finish();
}

/// The frame's octets as a frame of every link layer.
fn parsed(frame: &Frame<'_>) {
    for number in LINKS {
        let frame = Frame { link: LinkType::from_number(number).unwrap_or(LinkType::Unknown), ..*frame };
        let (outer, inner) = (parse(&frame), parse_inner(&frame));
        assert!(outer.octets <= 1 << 19, "no packet is that long");
        assert!(inner.octets <= outer.octets && inner.layer3 >= outer.layer3, "{inner:?} in {outer:?}");
        for packet in [outer, inner] {
            let Ok(ip) = packet.ip else { continue };
            let least = if ip.version == 4 { 20 } else { 40 };
            assert!(packet.octets >= least && packet.octets >= ip.payload, "{packet:?}");
            assert!(!ip.is_later_fragment() || (ip.src_port, ip.dst_port, ip.tcp) == (0, 0, None), "{packet:?}");
            assert!(ip.tcp.is_none_or(|tcp| tcp.payload <= ip.payload), "{packet:?}");
            let layer3 = frame.data.get(packet.layer3 as usize..).unwrap_or(&[]);
            Checksum::of(&ip, layer3);
            quoted(&ip, layer3);
            names::check(layer3.get(usize::from(ip.transport)..).unwrap_or(&[]));
        }
    }
}
