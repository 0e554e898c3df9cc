use super::*;
use crate::packet::{Frame, LinkType, parse};
use crate::testing as t;

const CLIENT: [u8; 4] = [192, 0, 2, 1];
const SERVER: [u8; 4] = [198, 51, 100, 1];
const QUESTION: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x07example\x03org\0\0\x01\0\x01";
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: www.example.org\r\nUser-Agent: test\r\n\r\n";

/// Shows a packet from its IP header on, IPv4 without options.
fn show(apps: &mut Apps, slot: &mut AppSlot, l3: &[u8], from_initiator: bool, time_ms: u64) -> bool {
    let data = t::frame(0x0800, l3);
    let length = data.len() as u32;
    let packet = parse(&Frame { time_ns: 0, link: LinkType::Ethernet, data: &data, length, vlan: None });
    apps.packet(slot, &AppPacket { ip: &packet.ip.unwrap(), l3, l4: 20, from_initiator, time_ms })
}

fn dns(port: u16) -> Vec<u8> {
    t::ipv4(CLIENT, SERVER, 17, &t::udp((port, 53), QUESTION))
}

fn http(payload: &[u8]) -> Vec<u8> {
    t::ipv4(CLIENT, SERVER, 6, &t::tcp((40_000, 80), t::ACK, 1, 1, payload))
}

fn names_only() -> AppOptions {
    AppOptions { ndpi: false, ..AppOptions::default() }
}

#[test]
fn a_flow_pays_sixteen_octets() {
    assert_eq!(size_of::<AppSlot>(), 16);
}

#[test]
fn names_need_no_ndpi() {
    let mut apps = Apps::new(&names_only()).unwrap();
    let mut slot = AppSlot::default();
    assert!(!show(
        &mut apps,
        &mut slot,
        &t::ipv4(CLIENT, SERVER, 6, &t::tcp((40_000, 80), t::SYN, 0, 0, b"")),
        true,
        0
    ));
    assert!(show(&mut apps, &mut slot, &http(REQUEST), true, 0));
    assert_eq!(slot.server_name().unwrap().as_str(), "www.example.org");
    assert!(slot.dns_query().is_none());
    assert!(!show(&mut apps, &mut slot, &http(REQUEST), true, 0), "nothing new");

    let mut slot = AppSlot::default();
    assert!(show(&mut apps, &mut slot, &dns(40_000), true, 0));
    assert_eq!(slot.dns_query().unwrap().as_str(), "example.org");
    assert!(slot.server_name().is_none());
    assert_eq!(slot.application_id(), 0);
    assert_eq!(apps.counts().names, 2);
}

#[test]
fn names_are_the_initiators_and_in_its_first_packets() {
    let mut apps = Apps::new(&names_only()).unwrap();
    let mut slot = AppSlot::default();
    assert!(!show(&mut apps, &mut slot, &http(REQUEST), false, 0), "the responder's");
    for _ in 0..NAME_LOOKS {
        assert!(!show(&mut apps, &mut slot, &http(b"something else"), true, 0));
    }
    assert!(!show(&mut apps, &mut slot, &http(REQUEST), true, 0), "too late");
    let mut options = names_only();
    options.names = false;
    assert!(!show(&mut Apps::new(&options).unwrap(), &mut AppSlot::default(), &http(REQUEST), true, 0), "not wanted");
}

#[test]
fn padding_is_no_payload() {
    let mut apps = Apps::new(&names_only()).unwrap();
    let mut slot = AppSlot::default();
    let mut acknowledgement = http(b"");
    acknowledgement.extend(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert!(!show(&mut apps, &mut slot, &acknowledgement, true, 0));
    assert_eq!(slot.looks, 0);
}

#[test]
fn the_memory_of_names_is_bounded_and_given_back() {
    let room = Name::server(b"www.example.org").unwrap().heap_octets();
    let mut apps = Apps::new(&AppOptions { name_octets: room, ..names_only() }).unwrap();
    let (mut first, mut second) = (AppSlot::default(), AppSlot::default());
    assert!(show(&mut apps, &mut first, &http(REQUEST), true, 0));
    assert!(!show(&mut apps, &mut second, &http(REQUEST), true, 0));
    assert_eq!((apps.counts().names, not_read(&apps, NotRead::NoMemory)), (1, 1));
    apps.end(&mut first);
    apps.end(&mut second);
    assert!(first.server_name().is_none());
    assert!(show(&mut apps, &mut second, &http(REQUEST), true, 0));
}

#[test]
fn payloads_begin_after_the_header_that_is_there() {
    assert_eq!(payload(TCP, &t::tcp((1, 2), 0, 0, 0, b"abc")), b"abc");
    let mut options = t::tcp((1, 2), 0, 0, 0, b"\x01\x01\x01\x01abc");
    options[12] = 0x60;
    assert_eq!(payload(TCP, &options), b"abc");
    options[12] = 0xf0;
    assert_eq!(payload(TCP, &options), b"");
    assert_eq!(payload(UDP, &t::udp((1, 2), b"abc")), b"abc");
    assert_eq!(payload(UDP, b"\0"), b"");
}

fn not_read(apps: &Apps, cause: NotRead) -> u64 {
    apps.counts().not_read[cause as usize]
}

/// A ClientHello of some 2 kB in a TLS record, as browsers send it: a large key share before the name.
fn large_hello() -> Vec<u8> {
    let extensions = [hello::tests::extension(51, &[7; 1700]), hello::tests::server_name_extension(b"pq.example")];
    hello::tests::message(&extensions.concat())
}

/// A segment from the client to this port.
fn segment(port: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
    t::ipv4(CLIENT, SERVER, 6, &t::tcp((40_000, port), t::ACK, sequence, 1, payload))
}

fn datagram(payload: &[u8]) -> Vec<u8> {
    t::ipv4(CLIENT, SERVER, 17, &t::udp((40_000, 4433), payload))
}

/// The name after the packets, and what the flow leaves behind when it ends: places, octets of names.
fn named(apps: &mut Apps, packets: &[Vec<u8>]) -> Option<String> {
    let mut slot = AppSlot::default();
    for (number, packet) in packets.iter().enumerate() {
        show(apps, &mut slot, packet, true, number as u64);
    }
    let name = slot.server_name().map(|name| name.as_str().to_owned());
    apps.end(&mut slot);
    assert_eq!((apps.waiting.load(), apps.name_octets), ((0, 0), 0));
    name
}

#[test]
fn a_client_hello_of_several_segments_is_read_in_any_order() {
    let hello = hello::tests::record(&large_hello());
    let parts = |port, start: u32| -> Vec<Vec<u8>> {
        let cut = |from: usize, to: usize| segment(port, start.wrapping_add(from as u32), &hello[from..to]);
        vec![cut(0, 700), cut(700, 1400), cut(1300, hello.len())]
    };
    let mut apps = Apps::new(&names_only()).unwrap();
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]] {
        let parts = parts(443, u32::MAX - 800);
        let packets = order.map(|part| parts[part].clone());
        assert_eq!(named(&mut apps, &packets).as_deref(), Some("pq.example"), "{order:?}");
    }
    let parts = parts(4433, 1);
    assert_eq!(named(&mut apps, &parts).as_deref(), Some("pq.example"), "on any port, if it comes in order");
    assert_eq!(named(&mut apps, &[parts[0].clone(), parts[0].clone()]), None);
    assert_eq!(not_read(&apps, NotRead::Unfinished), 1);
    assert_eq!(apps.counts().not_read.iter().sum::<u64>(), 1, "{:?}", apps.counts());
}

#[test]
fn the_rest_of_a_segment_that_was_cut_is_not_awaited() {
    let hello = hello::tests::record(&large_hello());
    let mut apps = Apps::new(&names_only()).unwrap();
    let mut slot = AppSlot::default();
    let l3 = segment(443, 1, &hello[..1400]);
    let data = t::frame(0x0800, &l3);
    for (captured, waiting) in [(512, 0), (l3.len(), 1)] {
        let frame = Frame {
            time_ns: 0,
            link: LinkType::Ethernet,
            data: &data[..14 + captured],
            length: data.len() as u32,
            vlan: None,
        };
        let ip = parse(&frame).ip.unwrap();
        let packet = AppPacket { ip: &ip, l3: &l3[..captured], l4: 20, from_initiator: true, time_ms: 0 };
        apps.packet(&mut slot, &packet);
        assert_eq!(apps.waiting.load().0, waiting);
    }
}

#[test]
fn other_payloads_on_a_port_of_tls_are_not_kept() {
    let mut apps = Apps::new(&names_only()).unwrap();
    let mut slot = AppSlot::default();
    for number in 0..u32::from(NAME_LOOKS) {
        show(&mut apps, &mut slot, &segment(443, 10 * number, b"no TLS at "), true, 0);
    }
    assert!(slot.is_name_settled());
    assert_eq!((apps.waiting.load(), apps.counts().not_read), ((0, 0), [0; NotRead::NAMES.len()]));
    let mut slot = AppSlot::default();
    show(&mut apps, &mut slot, &segment(443, 1, b"\x17\x03\x03\x00\x04"), true, 0);
    assert_eq!(apps.waiting.load().0, 0, "a record of TLS begins no ClientHello");
}

#[test]
fn awaited_client_hellos_are_bounded_and_counted() {
    let start = hello::tests::record(&large_hello());
    let start = segment(443, 1, &start[..700]);
    let mut apps = Apps::new(&AppOptions { name_octets: 16_000, ..names_only() }).unwrap();
    let mut slots: Vec<AppSlot> = (0..5).map(|_| AppSlot::default()).collect();
    for slot in &mut slots {
        show(&mut apps, slot, &start, true, 0);
    }
    assert_eq!((apps.waiting.load().0, not_read(&apps, NotRead::NoMemory)), (2, 3));
    assert!(slots[2].is_name_settled());
    show(&mut apps, &mut slots[3], &start, true, 10_000);
    let mut late = AppSlot::default();
    show(&mut apps, &mut late, &start, true, 10_000);
    assert_eq!((apps.waiting.load().0, not_read(&apps, NotRead::Displaced)), (1, 2));
    show(&mut apps, &mut slots[0], &start, true, 10_000);
    assert!(slots[0].is_name_settled(), "it has lost its place");
    slots.iter_mut().for_each(|slot| apps.end(slot));
    assert_eq!(apps.waiting.load().0, 1, "a flow that lost its place takes nobody else's along");
    apps.end(&mut late);
    assert_eq!((apps.waiting.load(), apps.name_octets), ((0, 0), 0));
    assert_eq!(not_read(&apps, NotRead::Unfinished), 1);
}

#[test]
fn a_client_hello_that_never_ends_is_given_up() {
    let mut apps = Apps::new(&names_only()).unwrap();
    let start = hello::tests::record(&large_hello());
    let mut slot = AppSlot::default();
    show(&mut apps, &mut slot, &segment(443, 1, &start[..700]), true, 0);
    for number in 0..100u32 {
        show(&mut apps, &mut slot, &segment(443, 5000 + 2 * number, b"x"), true, 0);
    }
    assert_eq!((apps.waiting.load(), not_read(&apps, NotRead::TooLong)), ((0, 0), 1));
    assert!(slot.is_name_settled());
}

#[test]
fn quic_says_its_server_from_several_packets_in_any_order() {
    let hello = large_hello();
    let id = b"8 octets";
    let part = |version, number, from: usize, to: usize| {
        let frame = quic::tests::crypto_frame(from as u16, &hello[from..to]);
        datagram(&quic::tests::initial(version, id, id, number, &[&frame[..], &[0; 40]].concat()))
    };
    for ndpi in [false, cfg!(ndpi)] {
        let mut apps = Apps::new(&AppOptions { ndpi, ..names_only() }).unwrap();
        for version in [1, 0x6b33_43cf] {
            let parts = [part(version, 0, 0, 900), part(version, 1, 900, hello.len())];
            assert_eq!(named(&mut apps, &parts).as_deref(), Some("pq.example"));
            let [first, second] = parts;
            assert_eq!(named(&mut apps, &[second, first]).as_deref(), Some("pq.example"));
        }
        assert_eq!(apps.counts().not_read, [0; NotRead::NAMES.len()]);
    }
}

#[test]
fn initials_that_cannot_be_decrypted_are_counted() {
    let mut apps = Apps::new(&names_only()).unwrap();
    let mut forged = quic::tests::initial(1, b"id", b"id", 0, &[0; 40]);
    *forged.last_mut().unwrap() ^= 1;
    assert_eq!(named(&mut apps, &[datagram(&forged)]), None);
    assert_eq!(not_read(&apps, NotRead::Undecryptable), 1);
    // A version that is not known comes before a known one.
    let unknown = [&[0xc0, 0x1a, 0x2a, 0x3a, 0x4a][..], &[0; 40]].concat();
    let frame = quic::tests::crypto_frame(0, &large_hello());
    let packets = [datagram(&unknown), datagram(&quic::tests::initial(1, b"id", b"id", 0, &frame))];
    assert_eq!(named(&mut apps, &packets).as_deref(), Some("pq.example"));
}

#[test]
fn a_flood_of_initials_is_not_decrypted() {
    let mut apps = Apps::new(&names_only()).unwrap();
    let frame = quic::tests::crypto_frame(0, &large_hello());
    let packet = datagram(&quic::tests::initial(1, b"id", b"id", 0, &frame));
    for _ in 0..3000 {
        let mut slot = AppSlot::default();
        show(&mut apps, &mut slot, &packet, true, 0);
        apps.end(&mut slot);
    }
    let AppCounts { names, not_read, .. } = *apps.counts();
    assert_eq!(names + not_read[NotRead::Overload as usize], 3000);
    assert!((400..500).contains(&names), "{names}");
}

#[cfg(not(ndpi))]
#[test]
fn ndpi_that_is_not_there_is_an_error_that_says_what_to_do() {
    let error = Apps::new(&AppOptions { ndpi: true, ..AppOptions::default() }).err().unwrap();
    assert_eq!(error.to_string(), "this weir-probe was built without nDPI: install libndpi-dev and build it again");
    assert_eq!(NDPI, "no nDPI");
}

#[cfg(ndpi)]
mod with_ndpi {
    use super::*;
    use proptest::prelude::*;

    const DNS: u16 = 5;
    const HTTP: u16 = 7;

    #[test]
    fn a_flow_is_told_from_its_first_payload() {
        let mut apps = Apps::new(&AppOptions::default()).unwrap();
        let mut slot = AppSlot::default();
        assert!(show(&mut apps, &mut slot, &dns(40_000), true, 0));
        assert_eq!(slot.application_id(), DNS);
        let mut slot = AppSlot::default();
        let syn = t::ipv4(CLIENT, SERVER, 6, &t::tcp((40_000, 80), t::SYN, 0, 0, b""));
        assert!(!show(&mut apps, &mut slot, &syn, true, 0));
        assert_eq!(apps.counts().inspected.flows, 1, "nothing to inspect in a SYN");
        assert!(show(&mut apps, &mut slot, &http(REQUEST), true, 0));
        assert_eq!((slot.application_id(), slot.server_name().unwrap().as_str()), (HTTP, "www.example.org"));
        assert!(NDPI.starts_with("nDPI "));
    }

    #[test]
    fn protocols_without_ports_are_told_by_their_number() {
        let mut apps = Apps::new(&AppOptions::default()).unwrap();
        let mut slot = AppSlot::default();
        assert!(show(&mut apps, &mut slot, &t::ipv4(CLIENT, SERVER, 1, &t::icmp(8, 0, b"")), true, 0));
        assert_eq!((slot.application_id(), apps.counts().inspected.flows), (81, 0));
    }

    #[test]
    fn ndpi_is_made_for_the_first_flow_to_inspect() {
        let mut apps = Apps::new(&AppOptions { max_inspected: 7, ..AppOptions::default() }).unwrap();
        show(&mut apps, &mut AppSlot::default(), &http(b""), true, 0);
        assert!(matches!(apps.ndpi, Inspector::Asked));
        assert_eq!(apps.load(), (0, 7));
        show(&mut apps, &mut AppSlot::default(), &dns(40_000), true, 0);
        assert!(matches!(apps.ndpi, Inspector::Made(_)));
        assert_eq!(apps.load().1, 7);
    }

    #[test]
    fn without_an_ndpi_that_could_be_made_flows_say_so_and_names_go_on() {
        let mut apps = Apps::new(&AppOptions::default()).unwrap();
        apps.ndpi = Inspector::Failed;
        let mut slot = AppSlot::default();
        assert!(show(&mut apps, &mut slot, &dns(40_000), true, 0));
        assert_eq!(slot.dns_query().unwrap().as_str(), "example.org");
        assert_eq!((slot.application_id(), slot.not_inspected()), (0, Some(NotInspected::PoolFull)));
        let refused = apps.counts().not_inspected[NotInspected::PoolFull as usize];
        assert_eq!(refused, Affected { flows: 1, packets: 1 });
        let mut ping = AppSlot::default();
        assert!(!show(&mut apps, &mut ping, &t::ipv4(CLIENT, SERVER, 1, &t::icmp(8, 0, b"")), true, 0));
        assert_eq!(ping.not_inspected(), Some(NotInspected::PoolFull));
        apps.end(&mut slot);
        assert_eq!(apps.load(), (0, 0));
    }

    #[test]
    fn the_budget_is_kept_and_the_state_given_back() {
        let mut apps = Apps::new(&AppOptions { tcp_packets: 3, ..AppOptions::default() }).unwrap();
        let mut slot = AppSlot::default();
        let unknown = |packet: u8| t::ipv4(CLIENT, SERVER, 6, &t::tcp((40_000, 40_001), t::ACK, 1, 1, &[packet; 9]));
        for packet in 0..20 {
            show(&mut apps, &mut slot, &unknown(packet), packet % 2 == 0, 0);
        }
        assert_eq!(apps.counts().inspected, Affected { flows: 1, packets: 3 });
        assert_eq!((slot.inspection, apps.load().0), (Inspection::Done, 0));
        let mut slot = AppSlot::default();
        show(&mut apps, &mut slot, &unknown(0), true, 0);
        assert_eq!(apps.load().0, 1);
        apps.end(&mut slot);
        assert_eq!(apps.load().0, 0);
    }

    #[test]
    fn a_full_pool_turns_away_or_displaces_who_is_idle() {
        let mut apps = Apps::new(&AppOptions { max_inspected: 1, ..AppOptions::default() }).unwrap();
        let [mut first, mut second, mut third] = std::array::from_fn(|_| AppSlot::default());
        let unknown = t::ipv4(CLIENT, SERVER, 6, &t::tcp((40_000, 40_001), t::ACK, 1, 1, &[0; 9]));
        show(&mut apps, &mut first, &unknown, true, 1_000);
        show(&mut apps, &mut second, &unknown, true, 2_000);
        assert_eq!(second.not_inspected(), Some(NotInspected::PoolFull));
        show(&mut apps, &mut third, &unknown, true, 4_000);
        assert_eq!(third.inspection, Inspection::Open);
        show(&mut apps, &mut first, &unknown, true, 4_000);
        show(&mut apps, &mut first, &unknown, true, 4_000);
        assert_eq!(first.not_inspected(), Some(NotInspected::Displaced));
        let of = |cause: NotInspected| apps.counts().not_inspected[cause as usize];
        assert_eq!(of(NotInspected::PoolFull), Affected { flows: 1, packets: 1 });
        assert_eq!(of(NotInspected::Displaced), Affected { flows: 1, packets: 2 });
        apps.end(&mut first);
        assert_eq!(apps.load().0, 1, "a flow that lost its state takes nobody else's along");
    }

    #[test]
    fn a_flood_of_new_flows_switches_it_off_and_names_go_on() {
        let mut apps = Apps::new(&AppOptions::default()).unwrap();
        for port in 0..10_000 {
            let mut slot = AppSlot::default();
            show(&mut apps, &mut slot, &dns(port), true, 0);
            assert!(slot.dns_query().is_some());
            apps.end(&mut slot);
        }
        assert!(apps.is_overloaded());
        let counts = apps.counts();
        let refused = counts.not_inspected[NotInspected::Overload as usize];
        assert_eq!(counts.inspected.flows + refused.flows, 10_000);
        assert!(counts.inspected.flows < 1_700, "{counts:?}");
    }

    proptest! {
        // Each case creates a module of nDPI.
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Arbitrary octets after the IP header, cut anywhere, cause no crash, and every state is freed.
        #[test]
        fn any_octets_are_survived(
            packets in proptest::collection::vec(
                (prop_oneof![Just(6u8), Just(17), any::<u8>()], any::<[u16; 2]>(), proptest::collection::vec(any::<u8>(), 0..200), 20usize..220),
                1..20,
            ),
        ) {
            let mut apps = Apps::new(&AppOptions { max_inspected: 4, ..AppOptions::default() }).unwrap();
            let mut slots: [AppSlot; 3] = std::array::from_fn(|_| AppSlot::default());
            for (number, (protocol, ports, octets, keep)) in packets.into_iter().enumerate() {
                // One slot for each protocol, because the packets of a flow have the same protocol.
                let slot = &mut slots[match protocol {
                    6 => 0,
                    17 => 1,
                    _ => 2,
                }];
                let transport = if protocol == 6 { t::tcp((ports[0], ports[1]), t::ACK, 1, 1, &octets) } else { t::udp((ports[0], ports[1]), &octets) };
                let mut l3 = t::ipv4(CLIENT, SERVER, protocol, &transport);
                l3.truncate(keep);
                show(&mut apps, slot, &l3, number % 2 == 0, number as u64);
            }
            slots.iter_mut().for_each(|slot| apps.end(slot));
            prop_assert_eq!(apps.load().0, 0);
            prop_assert_eq!(apps.name_octets, 0);
        }
    }
}
