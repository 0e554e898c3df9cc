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
    assert_eq!((apps.counts().names, apps.counts().names_shed), (1, 1));
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
