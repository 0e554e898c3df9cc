//! Queries a network card's driver (`linux/ethtool.h`).

use super::interface::{control_socket, request};
use std::io;
use std::os::fd::AsRawFd as _;

/// A query to the driver.
#[derive(Clone, Copy)]
#[repr(u32)]
enum Query {
    Settings = 0x01,
    Driver = 0x03,
    Tso = 0x1e,
    Gso = 0x23,
    Flags = 0x25,
    Gro = 0x2b,
    Channels = 0x3c,
}

/// The bit of [`Query::Flags`] for LRO.
const FLAG_LRO: u32 = 1 << 15;
/// An unknown speed.
const UNKNOWN_SPEED: u32 = u32::MAX;

/// The words that a command fills, the command first.
type CommandWords<const N: usize> = [u32; N];

fn call<const N: usize>(interface: &str, query: Query) -> io::Result<CommandWords<N>> {
    let mut words = [0u32; N];
    words[0] = query as u32;
    let mut request = request(interface)?;
    request.ifr_ifru.ifru_data = (&raw mut words).cast();
    // SAFETY: the request names an interface and points to as many octets as the command fills.
    match unsafe { libc::ioctl(control_socket()?.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) } {
        0 => Ok(words),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Speed in Mbit/s, if known.
pub fn speed(interface: &str) -> Option<u32> {
    // `struct ethtool_cmd`: the speed's lower half follows three words, its upper half six.
    let words: CommandWords<11> = call(interface, Query::Settings).ok()?;
    let octets: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let half = |at: usize| u32::from(u16::from_ne_bytes([octets[at], octets[at + 1]]));
    let speed = half(28) << 16 | half(12);
    (speed != UNKNOWN_SPEED && speed != 0 && speed != 0xffff).then_some(speed)
}

/// The driver's name.
pub fn driver(interface: &str) -> Option<String> {
    let words: CommandWords<49> = call(interface, Query::Driver).ok()?;
    let octets: Vec<u8> =
        words[1..9].iter().flat_map(|word| word.to_ne_bytes()).take_while(|&octet| octet != 0).collect();
    String::from_utf8(octets).ok().filter(|name| !name.is_empty())
}

/// Receive queues; 1 if the driver does not report them.
pub fn receive_queues(interface: &str) -> u32 {
    // `struct ethtool_channels`: four maxima, then the counts of rx, tx, other and combined.
    call(interface, Query::Channels).map_or(1, |words: CommandWords<9>| words[5].saturating_add(words[8]).max(1))
}

/// Active offloads that make several packets look like one: those of receiving, then those of sending.
pub fn joining_offloads(interface: &str) -> Vec<&'static str> {
    let on = |query| call(interface, query).is_ok_and(|words: CommandWords<2>| words[1] != 0);
    let lro = call(interface, Query::Flags).is_ok_and(|words: CommandWords<2>| words[1] & FLAG_LRO != 0);
    [(on(Query::Gro), "gro"), (lro, "lro"), (on(Query::Tso), "tso"), (on(Query::Gso), "gso")]
        .into_iter()
        .filter_map(|(on, name)| on.then_some(name))
        .collect()
}
