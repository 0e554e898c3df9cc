//! Queries a network card's driver (`linux/ethtool.h`).

use super::interface::{control_socket, request};
use std::io;
use std::os::fd::AsRawFd as _;

const GET_SETTINGS: u32 = 0x01;
const GET_DRIVER: u32 = 0x03;
const GET_TSO: u32 = 0x1e;
const GET_GSO: u32 = 0x23;
const GET_FLAGS: u32 = 0x25;
const GET_GRO: u32 = 0x2b;
const GET_CHANNELS: u32 = 0x3c;
const FLAG_LRO: u32 = 1 << 15;
/// An unknown speed.
const UNKNOWN_SPEED: u32 = u32::MAX;

/// The words that a command fills, the command first.
type CommandWords<const N: usize> = [u32; N];

fn call<const N: usize>(interface: &str, command: u32) -> io::Result<CommandWords<N>> {
    let mut words = [0u32; N];
    words[0] = command;
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
    let words: CommandWords<11> = call(interface, GET_SETTINGS).ok()?;
    let octets: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let half = |at: usize| u32::from(u16::from_ne_bytes([octets[at], octets[at + 1]]));
    let speed = half(28) << 16 | half(12);
    (speed != UNKNOWN_SPEED && speed != 0 && speed != 0xffff).then_some(speed)
}

/// The driver's name.
pub fn driver(interface: &str) -> Option<String> {
    let words: CommandWords<49> = call(interface, GET_DRIVER).ok()?;
    let octets: Vec<u8> =
        words[1..9].iter().flat_map(|word| word.to_ne_bytes()).take_while(|&octet| octet != 0).collect();
    String::from_utf8(octets).ok().filter(|name| !name.is_empty())
}

/// Receive queues; 1 if the driver does not tell.
pub fn receive_queues(interface: &str) -> u32 {
    // `struct ethtool_channels`: four maxima, then the counts of rx, tx, other and combined.
    call(interface, GET_CHANNELS).map_or(1, |words: CommandWords<9>| words[5].saturating_add(words[8]).max(1))
}

/// Active offloads that make several packets look like one: those of receiving, then those of sending.
pub fn joining_offloads(interface: &str) -> Vec<&'static str> {
    let on = |command| call(interface, command).is_ok_and(|words: CommandWords<2>| words[1] != 0);
    let lro = call(interface, GET_FLAGS).is_ok_and(|words: CommandWords<2>| words[1] & FLAG_LRO != 0);
    [(on(GET_GRO), "gro"), (lro, "lro"), (on(GET_TSO), "tso"), (on(GET_GSO), "gso")]
        .into_iter()
        .filter_map(|(on, name)| on.then_some(name))
        .collect()
}
