//! Two rings on one interface, in namespaces of the test's own: which packets go to which ring.

use crate::common::agent::Net;
use crate::needs::{Need, live};
use crate::testing as t;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::time::{Duration, Instant};
use weir_probe::packet::{Frame, parse};
use weir_probe::source::af_packet::{AfPacket, BLOCK_OCTETS};
use weir_probe::source::interface::Interface;
use weir_probe::source::{Next, Polled, Source as _, netns};

live! {
    [Need::Namespaces] => both_directions_and_all_fragments_of_a_pair_meet_in_one_ring;
    [Need::RawSockets] => each_capture_has_a_group_of_its_own;
}

/// A socket that sends whole frames on an interface of the calling thread's namespace.
pub(crate) struct Sender(OwnedFd);

impl Sender {
    pub(crate) fn on(interface: &str) -> Sender {
        let index = Interface::find(interface).unwrap().index;
        // SAFETY: plain call; a descriptor that is not negative is ours alone.
        let socket = unsafe {
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            assert!(fd >= 0, "{}", io::Error::last_os_error());
            OwnedFd::from_raw_fd(fd)
        };
        // SAFETY: sockaddr_ll is plain old data; all zeros is a valid one.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = index;
        // SAFETY: a valid address of the length given.
        let bound = unsafe {
            libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size_of::<libc::sockaddr_ll>() as u32)
        };
        assert_eq!(bound, 0, "{}", io::Error::last_os_error());
        Sender(socket)
    }

    pub(crate) fn send(&self, frame: &[u8]) {
        // SAFETY: the frame is only read.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(sent, frame.len() as isize, "{}", io::Error::last_os_error());
    }
}

/// Number of the pair to which a frame belongs, from its addresses.
fn pair(frame: &Frame<'_>) -> Option<Vec<[u8; 16]>> {
    let ip = parse(frame).ip.ok()?;
    let mut pair = vec![ip.src, ip.dst];
    pair.sort_unstable();
    Some(pair)
}

fn both_directions_and_all_fragments_of_a_pair_meet_in_one_ring() {
    const PAIRS: u8 = 200;
    let net = Net::new("fanout");
    let far = {
        let _inside = netns::enter(&net.names[1]).unwrap();
        Sender::on("wire1")
    };
    let _inside = netns::enter(&net.names[0]).unwrap();
    let near = Sender::on("wire0");
    let wire = Interface::find("wire0").unwrap();
    let closed: Vec<_> = (0..2).map(|_| AfPacket::open(&wire, true, 16 << 20).unwrap()).collect();
    let group = closed[0].join(None).unwrap();
    closed[1].join(Some(group)).unwrap();
    let mut rings: Vec<AfPacket> = closed.into_iter().map(|ring| AfPacket::admit(ring).unwrap()).collect();

    let mut sent = 0;
    for number in 0..PAIRS {
        let (a, b) = ([10, 1, 0, number], [10, 2, number, 1]);
        let payload = vec![number; 40];
        let there = [
            t::ipv4(a, b, 17, &t::udp((1000, 53), &payload)),
            t::ipv4_with(a, b, 17, &[], 0x2000, &t::udp((1001, 53), &payload)),
            t::ipv4_with(a, b, 17, &[], 0x0006, &payload),
        ];
        let back = t::ipv4(b, a, 6, &t::tcp((80, 4000 + u16::from(number)), t::ACK, 1, 1, &payload));
        let six =
            [t::ipv6(number, 255, 17, &t::udp((5, 6), b"")), t::ipv6(255, number, 44, &[17, 0, 0, 8, 0, 0, 0, 1])];
        let untagged = |packet: &[u8]| t::frame(if packet[0] >> 4 == 4 { 0x0800 } else { 0x86dd }, packet);
        let tagged = |packet: &[u8]| t::frame(0x8100, &t::tagged(5, 0x0800, packet));
        let twice = |packet: &[u8]| t::frame(0x88a8, &t::tagged(5, 0x8100, &t::tagged(6, 0x0800, packet)));
        // The interface receives packets of the far side; packets of the near side are captured on their way out.
        for frame in there.iter().map(|packet| untagged(packet)).chain([untagged(&six[0])]) {
            far.send(&frame);
            sent += 1;
        }
        for frame in [untagged(&back), tagged(&back), twice(&back), untagged(&six[1])] {
            near.send(&frame);
            sent += 1;
        }
        for frame in [tagged(&there[1]), twice(&there[2])] {
            far.send(&frame);
            sent += 1;
        }
        far.send(&t::frame(0x0806, &[0; 28]));
        sent += 1;
    }

    let mut places: HashMap<Vec<[u8; 16]>, usize> = HashMap::new();
    let mut handed = [0u64; 2];
    for (number, ring) in rings.iter_mut().enumerate() {
        assert!(ring.stop());
        while ring
            .poll(Duration::from_millis(50), &mut |frames| {
                handed[number] += frames.len() as u64;
                for frame in frames {
                    match pair(frame) {
                        Some(pair) => {
                            let place = *places.entry(pair.clone()).or_insert(number);
                            assert_eq!(place, number, "{pair:?} is in both rings");
                        }
                        None => assert_eq!(number, 0, "what is not IP is in ring 0"),
                    }
                }
                Next::More
            })
            .unwrap()
            != Polled::End
        {}
    }
    let count = |number| places.values().filter(|&&place| place == number).count();
    // All PAIRS of both IP versions, including the IPv6 pair of the host with itself.
    assert_eq!(places.len(), 2 * usize::from(PAIRS));
    assert!(count(0) > 150 && count(1) > 150, "{} {}", count(0), count(1));
    let (mut offered, mut dropped) = (0, 0);
    for (ring, handed) in rings.iter_mut().zip(handed) {
        let witness = ring.witness().unwrap();
        assert_eq!(witness.offered, witness.dropped + handed);
        offered += witness.offered;
        dropped += witness.dropped;
    }
    // The namespace may send an ARP or two of its own.
    assert!(dropped == 0 && (sent..sent + 10).contains(&offered), "sent {sent}, offered {offered}, dropped {dropped}");
}

fn each_capture_has_a_group_of_its_own() {
    let lo = Interface::find("lo").unwrap();
    let open = || AfPacket::open(&lo, false, 2 * BLOCK_OCTETS).unwrap();
    let first = open();
    let group = first.join(None).unwrap();
    assert_eq!(open().join(Some(group)).unwrap(), group);
    assert_ne!(open().join(None).unwrap(), group);
    // The interface still exists, so the ring must not report that it is gone, however often it checks.
    let (mut ring, since) = (AfPacket::admit(first).unwrap(), Instant::now());
    while since.elapsed() < Duration::from_millis(1500) {
        ring.poll(Duration::from_millis(50), &mut |_| Next::More).unwrap();
    }
}
