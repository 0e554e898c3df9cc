use super::*;

use crate::meter::key::{Compact as _, End, Key, V4, V6};
use crate::packet::{Frame, LinkType, parse};
use crate::testing as t;
use proptest::prelude::*;
use std::collections::HashMap;

/// Sets of one's own, without the shipped ones.
fn config(text: &str) -> FilterConfig {
    let mut config: FilterConfig = toml::from_str(text).unwrap();
    locate(&mut config.sets, text);
    FilterConfig { default: false, ..config }
}

/// Counts a packet for all expressions.
fn whole(counts: &mut FilterCounts, ip: &IpPacket, data: &[u8], octets: u32) {
    counts.packet(ip, data, octets);
    counts.unrecorded(ip, Volume::one(octets));
}

#[test]
fn the_configuration_knows_the_lines() {
    let text = "probe = \"a\"\n[filters]\ndefault = false\n[filters.sets.ports]\nssh = \"tcp port 22\"\n";
    let config = crate::config::Config::parse(text).unwrap().filters;
    assert!(!config.default);
    assert_eq!(config.sets["ports"]["ssh"].line, Some(5));
    assert_eq!(config.sets["ports"]["ssh"].text, "tcp port 22");
}

#[test]
fn the_shipped_sets_read_as_a_configuration() {
    let config = crate::config::Config::parse(DEFAULT_SETS).unwrap().filters;
    assert_eq!(config.sets.len(), default_sets().unwrap().len());
}

/// One set `s` of expressions, labelled by their numbers.
fn numbered(expressions: &[String]) -> FilterConfig {
    let expression = |text: &String| Expression { text: text.clone(), line: None, offset: 0 };
    let labels = expressions.iter().enumerate().map(|(number, text)| (format!("{number:03}"), expression(text)));
    FilterConfig { default: false, sets: [("s".to_owned(), labels.collect())].into(), order: 0 }
}

/// A packet as the meter sees it: as parsed, and its layer-3 octets.
fn parsed(l3: &[u8]) -> (IpPacket, u32) {
    let packet = parse(&Frame { time_ns: 0, link: LinkType::RawIp, data: l3, length: l3.len() as u32, vlan: None });
    (packet.ip.unwrap(), packet.octets)
}

fn packets_of(counts: &mut FilterCounts) -> HashMap<String, u64> {
    counts.take().labels().map(|(_, label, volume)| (label.to_owned(), volume.packets)).collect()
}

#[test]
fn the_shipped_sets_compile_and_leave_little_to_do_per_packet() {
    let sets = FilterSets::compile(&FilterConfig::default()).unwrap();
    let per_packet: Vec<String> = sets.per_packet().map(|label| format!("{}.{}", label.set, label.label)).collect();
    assert_eq!(
        per_packet,
        [
            "icmp_kinds.echo",
            "icmp_kinds.echo-reply",
            "icmp_kinds.redirect",
            "icmp_kinds.time-exceeded",
            "icmp_kinds.unreachable",
            "tcp_flags.fin",
            "tcp_flags.rst",
            "tcp_flags.syn",
            "tcp_flags.synack"
        ]
    );
    assert!((40..60).contains(&sets.labels().len()), "{}", sets.labels().len());
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let error = |text: &str| format!("{:#}", FilterSets::compile(&config(text)).unwrap_err());
    let wrong = error("[sets.ports]\nssh = \"tcp port 22\"\nweb = \"tcp prt 80\"");
    assert!(wrong.starts_with("line 3: filters.sets.ports.web = \"tcp prt 80\": "), "{wrong}");
    assert!(wrong.contains("syntax error"), "{wrong}");
    for link in ["ether host 02:00:00:00:00:01", "vlan 5", "mpls", "pppoes", "arp", "broadcast"] {
        let wrong = error(&format!("[sets.a]\nb = {link:?}"));
        assert!(wrong.contains("from its IP header on"), "{wrong}");
    }
    assert!(error("[sets.a]\nb = \"inbound\"").contains("outside the packet"));
    assert!(error("[sets.a]\nb = \" \"").contains("it is empty"));
    assert!(error("[sets.a]\nB = \"ip\"").contains("cannot be the name"));
    assert!(error("[sets.\"\"]\nb = \"ip\"").contains("cannot be the name"));
    for fixed in FIXED_SETS {
        assert!(error(&format!("[sets.{fixed}]\nb = \"ip\"")).contains("already"));
    }
    assert!(!error("[sets.a]\nb = \"tcp prt 80\"").contains('\n'));
}

#[test]
fn the_fixed_sets_are_those_of_the_schema() {
    let schema = include_str!("../../../schemas/counters.proto").lines();
    let names = schema.filter_map(|line| line.strip_prefix("//   ")?.split_once("  ")).map(|(name, _)| name);
    assert_eq!(names.filter(|name| !name.is_empty()).collect::<Vec<_>>(), FIXED_SETS);
}

#[test]
fn a_set_of_ones_own_takes_the_place_of_a_shipped_one() {
    let own = FilterConfig { default: true, ..config("[sets.mail]\nall = \"port 25\"") };
    let sets = FilterSets::compile(&own).unwrap();
    let mail: Vec<&str> =
        sets.labels().iter().filter(|label| label.set == "mail").map(|label| label.label.as_str()).collect();
    assert_eq!(mail, ["all"]);
}

#[test]
fn no_sets_need_no_libpcap_and_count_nothing() {
    let sets = FilterSets::compile(&config("")).unwrap();
    assert!(!sets.counts_flows() && !sets.counts_packets());
    let mut counts = FilterCounts::new(Arc::new(sets));
    let (ip, octets) = parsed(&t::ipv4([192, 0, 2, 1], [192, 0, 2, 2], 17, &t::udp((1, 2), b"")));
    whole(&mut counts, &ip, &[], octets);
    assert_eq!(counts.take().labels().count(), 0);
}

#[test]
fn what_is_constant_in_flows_is_told_from_what_is_not() {
    let constant = |expression: &str| {
        FilterSets::compile(&numbered(&[expression.to_owned()])).unwrap().per_packet().next().is_none()
    };
    for expression in [
        "ip",
        "tcp port 22",
        "not port 22",
        "src port 80 and dst net 10.0.0.0/8",
        "portrange 6881-6889",
        "host 192.0.2.1 or ip6 host 2001:db8::1",
        "net 10.0.0.0 mask 255.0.255.0",
        "ip multicast or ip6 multicast",
        "ip[16] & 0xf0 = 0xe0",
        "ip proto 47",
        "tcp[0:2] = tcp[2:2]",
        "ip[12:4] = ip[16:4]",
    ] {
        assert!(constant(expression), "{expression}");
    }
    for expression in [
        "tcp[13] & 2 != 0",
        "tcp port 80 and tcp[tcpflags] = tcp-syn",
        "greater 1000",
        "len = 40",
        "ip[2:2] > 100",
        "ip[8] < 5",
        "udp[1] = 53",
        "ip6[7] < 5",
        "icmp",
        "icmp[icmptype] = 3",
        "ip[6:2] & 0x1fff != 0",
        "ip[6:2] & 0x2000 != 0 and port 53",
        "ip[0] & 0xf != 5",
        "ip6 protochain 6",
        "ip[20:2] = 80",
        "port 53 and udp[10] & 0x80 != 0",
    ] {
        // The answer to `icmp` is constant for a flow; only tests of its payload are not.
        assert_eq!(constant(expression), expression == "icmp", "{expression}");
    }
}

#[test]
fn fragments_count_with_their_flow() {
    let expressions = ["udp port 53", "udp port 53 and greater 30", "udp[4:2] > 0", "ip[6:2] & 0x1fff != 0"];
    let sets = FilterSets::compile(&numbered(&expressions.map(str::to_owned))).unwrap();
    let mut counts = FilterCounts::new(Arc::new(sets));
    let fragment = t::ipv4_with([192, 0, 2, 1], [192, 0, 2, 2], 17, &[], 0x0010, &[0xff; 24]);
    let (ip, octets) = parsed(&fragment);
    // The meter takes the ports from the first fragment.
    let ip = IpPacket { src_port: 50_000, dst_port: 53, ..ip };
    for _ in 0..2 {
        whole(&mut counts, &ip, &fragment, octets);
    }
    let counted = packets_of(&mut counts);
    assert_eq!(counted, [("000", 2), ("001", 2), ("003", 2)].map(|(label, n)| (label.to_owned(), n)).into());
}

#[test]
fn extension_headers_are_passed_over() {
    let expressions = ["ip6 and tcp port 80", "ip6[53] & 2 != 0", "ip6 proto 6", "ip6[54:2] = 0xffff and tcp"];
    let sets = FilterSets::compile(&numbered(&expressions.map(str::to_owned))).unwrap();
    let mut counts = FilterCounts::new(Arc::new(sets));
    let segment = t::tcp((50_000, 80), t::SYN, 1, 0, b"");
    let options = [&[6, 0, 1, 4, 0, 0, 0, 0][..], &segment].concat();
    let fragmented = [&[6, 0, 0x00, 0x08, 0, 0, 0, 1][..], &[0; 16]].concat();
    for (next, payload) in [(6, &segment), (60, &options)] {
        let packet = t::ipv6(1, 2, next, payload);
        let (ip, octets) = parsed(&packet);
        whole(&mut counts, &ip, &packet, octets);
    }
    let later = t::ipv6(1, 2, 44, &fragmented);
    let (ip, octets) = parsed(&later);
    assert!(ip.is_later_fragment());
    whole(&mut counts, &IpPacket { src_port: 50_000, dst_port: 80, ..ip }, &later, octets);
    let counted = packets_of(&mut counts);
    let expected = [("000", 3), ("001", 2), ("002", 3), ("003", 2)];
    assert_eq!(counted, expected.map(|(label, n)| (label.to_owned(), n)).into());
}

fn flow(counts: &mut FilterCounts, key: &Key, sender: End, volume: Volume) {
    match key.version {
        4 => counts.flow(|| V4::of(key).sent_by(sender), volume),
        _ => counts.flow(|| V6::of(key).sent_by(sender), volume),
    }
}

#[test]
fn counting_begins_anew_and_adds_up() {
    let sets = FilterSets::compile(&config("[sets.a]\nto = \"dst port 80\"\nfrom = \"src port 80\"")).unwrap();
    let mut counts = FilterCounts::new(Arc::new(sets));
    let (ip, _) = parsed(&t::ipv4([192, 0, 2, 1], [192, 0, 2, 2], 6, &t::tcp((50_000, 80), 0, 0, 0, b"")));
    let (key, sender) = Key::of(&ip, 0);
    let mut sum = FilterVolumes::default();
    for _ in 0..2 {
        flow(&mut counts, &key, sender, Volume { packets: 3, octets: 300 });
        flow(&mut counts, &key, 1 - sender, Volume { packets: 2, octets: 2000 });
        sum += &counts.take();
    }
    let labels: Vec<_> = sum.labels().collect();
    let volume = |packets, octets| Volume { packets, octets };
    assert_eq!(labels, [("a", "from", volume(4, 4000)), ("a", "to", volume(6, 600))]);
    assert_eq!(counts.take().labels().count(), 0);
}

#[test]
fn broken_packets_are_no_danger() {
    let mut config = FilterConfig::default();
    let odd = ["tcp[((tcp[12] & 0xf0) >> 2):4] = 0x47455420", "ip6 protochain 6", "ip[0] / ip[1] = 1", "ip6[255] = 1"];
    config.sets = numbered(&odd.map(str::to_owned)).sets;
    let mut counts = FilterCounts::new(Arc::new(FilterSets::compile(&config).unwrap()));
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..20_000 {
        let mut packet = vec![0; random.usize(20..120)];
        random.fill(&mut packet);
        packet[0] = if random.bool() { 0x45 + random.u8(..11) } else { 0x60 };
        packet[6] = random.choice([0, 6, 17, 43, 44, 51, 58, 60]).unwrap();
        packet[9] = random.choice([1, 6, 17, 132]).unwrap();
        let frame = Frame { time_ns: 0, link: LinkType::RawIp, data: &packet, length: packet.len() as u32, vlan: None };
        let parsed = parse(&frame);
        if let Ok(ip) = parsed.ip {
            whole(&mut counts, &ip, &packet, parsed.octets);
            whole(&mut counts, &ip, &packet[..random.usize(..20)], parsed.octets);
        }
    }
    assert!(counts.take().labels().count() > 10);
}

#[test]
fn more_verdicts_than_are_remembered_still_count_right() {
    // More classes than a field may have, and more verdicts than the cache keeps.
    let bits: Vec<String> = (0..14).map(|bit| format!("udp[0:2] & {} != 0", 1 << bit)).collect();
    let sets = FilterSets::compile(&numbered(&bits)).unwrap();
    assert_eq!(sets.per_packet().count(), 0);
    let mut counts = FilterCounts::new(Arc::new(sets));
    let (ip, _) = parsed(&t::ipv4([192, 0, 2, 1], [192, 0, 2, 2], 17, &t::udp((0, 53), b"")));
    let mut expected = HashMap::new();
    for src_port in (0..=u16::MAX).step_by(5) {
        let (key, sender) = Key::of(&IpPacket { src_port, ..ip }, 0);
        flow(&mut counts, &key, sender, Volume::one(28));
        for bit in (0..14).filter(|bit| src_port >> bit & 1 == 1) {
            *expected.entry(format!("{bit:03}")).or_insert(0) += 1;
        }
    }
    assert_eq!(packets_of(&mut counts), expected);
}

/// A division by zero ends the program, and packets that classes do not tell apart need not all divide by zero.
#[test]
fn a_division_by_zero_is_no_verdict_on_other_packets() {
    let sets = FilterSets::compile(&numbered(&["((100 / ip[1] > 3) and (icmp)) or (net 0.0.0.0/0)".to_owned()]));
    let mut counts = FilterCounts::new(Arc::new(sets.unwrap()));
    for tos in [0, 4, 8] {
        let mut packet = t::ipv4([192, 0, 2, 1], [192, 0, 2, 2], 1, &[8; 8]);
        packet[1] = tos;
        let (ip, octets) = parsed(&packet);
        whole(&mut counts, &ip, &packet, octets);
    }
    assert_eq!(packets_of(&mut counts), [("000".to_owned(), 2)].into());
}

/// Addresses, ports and numbers that meet often.
const PORTS: [u16; 8] = [22, 53, 80, 443, 6881, 6885, 40_000, 65_535];

fn port() -> impl Strategy<Value = u16> {
    prop_oneof![4 => prop::sample::select(&PORTS[..]), 1 => any::<u16>()]
}

fn ipv4() -> impl Strategy<Value = [u8; 4]> {
    prop_oneof![
        4 => prop::sample::select(&[[10, 0, 0, 1], [10, 1, 2, 3], [192, 0, 2, 1], [224, 0, 0, 5], [255; 4]][..]),
        1 => any::<[u8; 4]>(),
    ]
}

fn ipv6() -> impl Strategy<Value = [u8; 16]> {
    let texts = ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "fe80::1", "ff02::fb"];
    prop_oneof![
        4 => prop::sample::select(texts.map(|text| text.parse::<std::net::Ipv6Addr>().unwrap().octets()).to_vec()),
        1 => any::<[u8; 16]>(),
    ]
}

fn expression() -> impl Strategy<Value = String> {
    let side = || prop::sample::select(&["", "src ", "dst "][..]);
    let compare = || prop::sample::select(&["=", "!=", ">", ">=", "<", "<="][..]);
    let words = prop::sample::select(
        &["tcp", "udp", "sctp", "icmp", "ip", "ip6", "icmp6", "ip multicast", "ip6 multicast", "igmp"][..],
    )
    .prop_map(str::to_owned);
    let ports = (prop::sample::select(&["", "tcp ", "udp "][..]), side(), port())
        .prop_map(|(protocol, side, port)| format!("{protocol}{side}port {port}"));
    let range = (side(), port(), port()).prop_map(|(side, a, b)| format!("{side}portrange {}-{}", a.min(b), a.max(b)));
    let net4 = (side(), ipv4(), 0..33_u32).prop_map(|(side, address, length)| {
        let bits = u32::from_be_bytes(address) & u32::MAX.checked_shl(32 - length).unwrap_or(0);
        format!("{side}net {}/{length}", std::net::Ipv4Addr::from(bits))
    });
    let net6 = (side(), ipv6(), 0..129_u32).prop_map(|(side, address, length)| {
        let bits = u128::from_be_bytes(address) & u128::MAX.checked_shl(128 - length).unwrap_or(0);
        format!("{side}net {}/{length}", std::net::Ipv6Addr::from(bits))
    });
    let octet = (
        prop::sample::select(
            &[
                "ip[8]", "ip[1]", "ip[0]", "ip[9]", "ip[19]", "ip[16]", "ip6[7]", "ip6[6]", "ip6[24]", "ip6[53]",
                "tcp[13]", "tcp[12]", "tcp[1]", "icmp[0]", "icmp[1]", "icmp6[0]", "udp[7]",
            ][..],
        ),
        prop_oneof![Just(0xff_u8), Just(0xf0), Just(0x0f), Just(0x12), Just(2), any::<u8>()],
        compare(),
        prop_oneof![0..20_u8, any::<u8>()],
    )
        .prop_map(|(field, mask, compare, value)| format!("{field} & {mask} {compare} {value}"));
    let half = (
        prop::sample::select(
            &["ip[2:2]", "ip[6:2]", "ip[14:2]", "ip6[4:2]", "tcp[0:2]", "tcp[14:2]", "udp[4:2]", "udp[2:2]", "len"][..],
        ),
        compare(),
        prop_oneof![port(), 0..200_u16],
    )
        .prop_map(|(field, compare, value)| format!("{field} {compare} {value}"));
    let word = (
        prop::sample::select(&["ip[12:4]", "ip[16:4]", "ip6[8:4]", "ip6[36:4]", "tcp[4:4]", "ip6[4:4]"][..]),
        any::<u32>(),
        compare(),
        ipv4(),
    )
        .prop_map(|(field, mask, compare, value)| {
            format!("{field} & {mask} {compare} {}", u32::from_be_bytes(value) & mask)
        });
    let computed = prop::sample::select(
        &[
            "tcp[0:2] = tcp[2:2]",
            "ip[12:4] = ip[16:4]",
            "ip[2:2] = len",
            "tcp[((tcp[12] & 0xf0) >> 2):2] = 0x4745",
            "ip[12] + ip[16] > 200",
            "ip[2:2] - ((ip[0] & 0xf) << 2) > 20",
            "udp[0:2] / 2 = 26",
            "100 / ip[1] > 3",
        ][..],
    )
    .prop_map(str::to_owned);
    let leaf = prop_oneof![
        2 => words, 4 => ports, 2 => range, 2 => net4, 2 => net6, 3 => octet, 2 => half, 1 => word, 1 => computed
    ];
    leaf.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) and ({b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) or ({b})")),
            inner.prop_map(|a| format!("not ({a})")),
        ]
    })
}

/// An IP packet without extension headers that is not a later fragment, so that we and libpcap see the same.
fn packet() -> impl Strategy<Value = Vec<u8>> {
    let protocol = prop::sample::select(&[6_u8, 6, 6, 17, 17, 1, 58, 132, 2, 47, 33, 99][..]);
    let octets = prop::collection::vec(any::<u8>(), 20..90);
    let flags = prop::sample::select(&[2_u8, 0x12, 0x10, 0x11, 0x18, 4, 0x14, 0xff, 0][..]);
    let ends4 = (ipv4(), ipv4(), any::<bool>(), prop::sample::select(&[0_u16, 0x4000, 0x2000][..]));
    let ends = prop_oneof![ends4.prop_map(Ok), (ipv6(), ipv6()).prop_map(Err)];
    (ends, protocol, (port(), port()), octets, flags, any::<[u8; 4]>()).prop_map(
        |(ends, protocol, (src, dst), mut body, flags, odd)| {
            if [6, 17, 132, 33].contains(&protocol) {
                body[..2].copy_from_slice(&src.to_be_bytes());
                body[2..4].copy_from_slice(&dst.to_be_bytes());
            }
            match protocol {
                6 => body[13] = flags,
                1 | 58 => body[0] = [0, 3, 5, 8, 11, 128, 1, 129][usize::from(body[0] & 7)],
                _ => {}
            }
            match ends {
                Ok((from, to, options, fragment)) => {
                    let options: &[u8] = if options { &[1; 8] } else { &[] };
                    let mut packet = t::ipv4_with(from, to, protocol, options, fragment, &body);
                    packet[1] = odd[0] & 0x2e;
                    packet[8] = odd[1] & 7;
                    packet
                }
                Err((from, to)) => {
                    let mut packet = t::ipv6(1, 2, protocol, &body);
                    packet[7] = odd[1] & 7;
                    packet[8..24].copy_from_slice(&from);
                    packet[24..40].copy_from_slice(&to);
                    packet
                }
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 60 } else { 300 }))]

    /// The result by classes and memory, per flow and per packet, equals libpcap's own.
    #[test]
    fn every_label_counts_what_libpcap_matches(
        expressions in prop::collection::vec(expression(), 1..40),
        packets in prop::collection::vec((packet(), prop_oneof![3 => Just(usize::MAX), 1 => 20..80_usize]), 1..60),
    ) {
        let compiler = Compiler::load().expect("libpcap");
        // libpcap refuses an expression that it proves never to match, and a division by a constant zero.
        let refused = |expression: &str| {
            let error = compiler.judge(expression, &[]).err()?.to_string();
            assert!(error.contains("rejects all packets") || error.contains("division by zero"), "{expression}: {error}");
            Some(error)
        };
        let expressions: Vec<String> =
            expressions.into_iter().filter(|expression| refused(expression).is_none()).collect();
        let sets = Arc::new(FilterSets::compile(&numbered(&expressions)).unwrap());
        let mut counts = FilterCounts::new(sets.clone());
        let cut = |(packet, snap): &(Vec<u8>, usize)| {
            let least = if packet[0] >> 4 == 4 { 20 } else { 40 };
            packet[..packet.len().min(least.max(*snap))].to_vec()
        };
        // Each packet twice: the second verdict comes from the cache.
        for captured in packets.iter().chain(&packets) {
            let (ip, octets) = parsed(&captured.0);
            let (key, sender) = Key::of(&ip, 0);
            flow(&mut counts, &key, sender, Volume::one(octets));
            let data = cut(captured);
            // The parser sees only the captured octets.
            let ip = parse(&Frame {
                time_ns: 0, link: LinkType::RawIp, data: &data, length: octets, vlan: None,
            }).ip.unwrap();
            counts.packet(&ip, &data, octets);
        }
        let counted = packets_of(&mut counts);
        let per_packet: Vec<&str> = sets.per_packet().map(|label| label.label.as_str()).collect();
        let with_length = |data: Vec<u8>, whole: &[u8]| (data, whole.len() as u32);
        let whole: Vec<_> = packets.iter().map(|(packet, _)| with_length(packet.clone(), packet)).collect();
        let cut: Vec<_> = packets.iter().map(|captured| with_length(cut(captured), &captured.0)).collect();
        for (number, expression) in expressions.iter().enumerate() {
            let label = format!("{number:03}");
            let seen = if per_packet.contains(&label.as_str()) { &cut } else { &whole };
            let verdicts = compiler.judge(expression, seen).unwrap();
            let expected = 2 * verdicts.iter().filter(|&&verdict| verdict).count() as u64;
            prop_assert_eq!(counted.get(&label).copied().unwrap_or(0), expected, "{}", expression);
        }
    }
}

#[test]
fn a_name_with_an_address_in_any_notation_is_refused() {
    let refused = |name: &str| {
        let sets = Sets::from([(name.to_owned(), BTreeMap::new())]);
        refuse_addresses(&sets).is_err()
    };
    for name in [
        "192.0.2.7",
        "to 10.1.2.3/32",
        "a192.0.2.7.",
        "192.0.2.7:443",
        "host-3-192-0-2-7",
        "ip_192_0_2_7_in",
        "::ffff:192.0.2.7",
        "2001:db8::7.",
        "[2001:db8::7]:443",
        "2001-db8--7.ipv6-literal.net",
        "2001_db8_0_0_0_0_0_7",
    ] {
        assert!(refused(name), "{name}");
    }
    for name in ["dns", "top-10", "1.2.3", "v1.2.300.4", "80-443-8080-22", "a-b-c-d", "2026-11-27", "port 53: dns"] {
        assert!(!refused(name), "{name}");
    }
    refuse_addresses(&default_sets().unwrap()).unwrap();
}
