//! Properties of a network interface, from the operating system.

use crate::packet::LinkType;
use arrayvec::ArrayVec;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;

/// Hardware type of devices that carry IP alone (`linux/if_arp.h`).
const ARPHRD_RAWIP: u16 = 519;

/// An interface's own counters, since it came up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceStatistics {
    pub rx_packets: u64,
    pub tx_packets: u64,
    /// Layer-2 octets received.
    pub rx_octets: u64,
    /// Layer-2 octets sent.
    pub tx_octets: u64,
    /// Packets dropped on receipt.
    pub rx_dropped: u64,
}

/// An interface whose counters are read repeatedly, in some µs, since `/proc` takes no contended lock.
#[derive(Debug)]
pub struct InterfaceCounters {
    name: String,
    table: File,
    /// The part of the table read so far.
    text: Vec<u8>,
}

impl InterfaceCounters {
    /// The counters of the interface of this name in the calling thread's network namespace: `/proc` follows it as
    /// `/sys` does not. They stay bound to that namespace, whichever thread reads them.
    ///
    /// # Errors Those of the system.
    pub fn open(name: &str) -> io::Result<InterfaceCounters> {
        Ok(InterfaceCounters {
            name: name.to_owned(),
            table: File::open("/proc/thread-self/net/dev")?,
            text: Vec::new(),
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its current counters.
    ///
    /// # Errors
    /// If there is no such interface.
    pub fn read(&mut self) -> io::Result<InterfaceStatistics> {
        self.text.clear();
        loop {
            let at = self.text.len();
            self.text.resize(at + PIECE, 0);
            let octets = self.table.read_at(&mut self.text[at..], at as u64)?;
            self.text.truncate(at + octets);
            // The last line may continue in the next piece.
            let whole = self.text.iter().rposition(|&octet| octet == b'\n').unwrap_or(0);
            if let Some(statistics) = parse(&self.text[..whole], &self.name) {
                return Ok(statistics);
            }
            if octets == 0 {
                return Err(io::Error::new(io::ErrorKind::NotFound, format!("no interface {}", self.name)));
            }
        }
    }
}

/// Octets of the table read in one call: a page, as the kernel provides it.
const PIECE: usize = 4096;

impl InterfaceStatistics {
    /// The difference since `earlier`; for a counter that decreased (a recreated interface), its value.
    pub fn since(&self, earlier: &InterfaceStatistics) -> InterfaceStatistics {
        let since = |now: u64, then: u64| now.checked_sub(then).unwrap_or(now);
        InterfaceStatistics {
            rx_packets: since(self.rx_packets, earlier.rx_packets),
            tx_packets: since(self.tx_packets, earlier.tx_packets),
            rx_octets: since(self.rx_octets, earlier.rx_octets),
            tx_octets: since(self.tx_octets, earlier.tx_octets),
            rx_dropped: since(self.rx_dropped, earlier.rx_dropped),
        }
    }

    /// Packets that a capture sees: received plus sent; on `lo` only those received, because every packet sent there is
    /// also received.
    pub fn packets(&self, loopback: bool) -> u64 {
        if loopback { self.rx_packets } else { self.rx_packets.wrapping_add(self.tx_packets) }
    }
}

fn parse(table: &[u8], name: &str) -> Option<InterfaceStatistics> {
    let mut lines = table.split(|&octet| octet == b'\n');
    let line = lines.find_map(|line| line.trim_ascii_start().strip_prefix(name.as_bytes())?.strip_prefix(b":"))?;
    let fields: ArrayVec<u64, 10> =
        std::str::from_utf8(line).ok()?.split_whitespace().map_while(|field| field.parse().ok()).take(10).collect();
    let field = |index: usize| fields.get(index).copied();
    Some(InterfaceStatistics {
        rx_octets: field(0)?,
        rx_packets: field(1)?,
        rx_dropped: field(3)?,
        tx_octets: field(8)?,
        tx_packets: field(9)?,
    })
}

/// An interface as the system lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Its number.
    pub index: i32,
    /// Whether it is the loopback.
    pub loopback: bool,
    /// Whether it is up.
    pub up: bool,
    /// Whether it has a carrier.
    pub carrier: bool,
    /// Octets of the largest packet, layer 3.
    pub mtu: u32,
}

/// Every interface of the calling thread's network namespace, in the system's order.
///
/// # Errors Those of the system.
pub fn list() -> io::Result<Vec<Listed>> {
    let table = fs::read_to_string("/proc/thread-self/net/dev")?;
    let names = table.lines().filter_map(|line| Some(line.split_once(':')?.0.trim()));
    let socket = control_socket()?;
    let mut listed = Vec::new();
    for name in names {
        // Skips one that disappears between two calls.
        let ask = |what| {
            let mut request = request(name).ok()?;
            // SAFETY: `request` is a valid ifreq and the call writes into it alone.
            let done = unsafe { libc::ioctl(socket.as_raw_fd(), what, &raw mut request) };
            (done == 0).then_some(request.ifr_ifru)
        };
        let (Some(index), Some(flags), Some(mtu)) =
            (ask(libc::SIOCGIFINDEX), ask(libc::SIOCGIFFLAGS), ask(libc::SIOCGIFMTU))
        else {
            continue;
        };
        // SAFETY: each call has filled its member of its union.
        let (index, flags, mtu) = unsafe { (index.ifru_ifindex, libc::c_int::from(flags.ifru_flags), mtu.ifru_mtu) };
        listed.push(Listed {
            name: name.to_owned(),
            index,
            loopback: flags & libc::IFF_LOOPBACK != 0,
            up: flags & libc::IFF_UP != 0,
            carrier: flags & libc::IFF_RUNNING != 0,
            mtu: u32::try_from(mtu).unwrap_or(0),
        });
    }
    Ok(listed)
}

/// An interface that can be captured on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its number.
    pub index: i32,
    /// Its link type.
    pub link: LinkType,
    /// Whether it is the loopback.
    pub loopback: bool,
}

impl Interface {
    /// Finds an interface by name.
    ///
    /// # Errors
    /// If there is none, or its link type is not supported.
    pub fn find(name: &str) -> io::Result<Interface> {
        let no = |text: String| io::Error::new(io::ErrorKind::NotFound, text);
        let mut request = request(name)?;
        let socket = control_socket()?;
        // SAFETY: `request` is a valid ifreq and the call writes into it alone.
        if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFINDEX, &raw mut request) } != 0 {
            return Err(no(format!("there is no interface {name:?}{}", others())));
        }
        // SAFETY: SIOCGIFINDEX has filled this member of the union.
        let index = unsafe { request.ifr_ifru.ifru_ifindex };
        // SAFETY: as above.
        if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFHWADDR, &raw mut request) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: SIOCGIFHWADDR has filled this member of the union.
        let hardware = unsafe { request.ifr_ifru.ifru_hwaddr.sa_family };
        let link = match hardware {
            libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => LinkType::Ethernet,
            libc::ARPHRD_NONE | ARPHRD_RAWIP | libc::ARPHRD_TUNNEL | libc::ARPHRD_TUNNEL6 | libc::ARPHRD_SIT => {
                LinkType::RawIp
            }
            other => {
                return Err(io::Error::new(
                    io::ErrorKind::Unsupported,
                    format!(
                        "interface {name} has the unsupported hardware type {other} (Ethernet and IP tunnels are \
                         supported)"
                    ),
                ));
            }
        };
        Ok(Interface { name: name.to_owned(), index, link, loopback: hardware == libc::ARPHRD_LOOPBACK })
    }
}

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A socket for requests about interfaces.
pub(super) fn control_socket() -> io::Result<OwnedFd> {
    // SAFETY: plain call; a descriptor that is not negative is ours alone.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

/// A request about the interface of this name.
pub(super) fn request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: ifreq is plain old data; all zeros is a valid one.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() || name.contains('\0') {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("{name:?} cannot be an interface's name")));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

/// The existing names, for a message about an unknown one.
fn others() -> String {
    let table = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let names: Vec<&str> = table.lines().filter_map(|line| Some(line.split_once(':')?.0.trim())).collect();
    if names.is_empty() { String::new() } else { format!("; there are: {}", names.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:  100       2    0    0    0     0          0         0      100       2    0    0    0     0       0          0
  eth0: 5000      50    1    3    0     0          0         0     7000      70    0    0    0     0       0          0
";

    #[test]
    fn reads_the_line_of_an_interface() {
        let eth0 = parse(TABLE, "eth0").unwrap();
        assert_eq!(
            (eth0.rx_packets, eth0.tx_packets, eth0.rx_octets, eth0.tx_octets, eth0.rx_dropped),
            (50, 70, 5000, 7000, 3)
        );
        assert_eq!(eth0.packets(false), 120);
        assert_eq!(parse(TABLE, "lo").unwrap().packets(true), 2);
        assert_eq!(parse(TABLE, "eth"), None);
    }

    #[test]
    fn counters_are_read_again_and_again() {
        let mut lo = InterfaceCounters::open("lo").unwrap();
        let first = lo.read().unwrap();
        // The loopback is in every namespace, but need not be up; others may use it at the same time.
        let sent = std::net::UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.send_to(b"x", "127.0.0.1:9"));
        let then = lo.read().unwrap();
        assert!(then.rx_packets >= first.rx_packets + u64::from(sent.is_ok()), "{first:?}, {then:?}");
        let none = InterfaceCounters::open("no such").unwrap().read().unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_counter_that_went_back_counts_from_zero() {
        let before = InterfaceStatistics { rx_packets: 50, tx_packets: 70, ..InterfaceStatistics::default() };
        let now = InterfaceStatistics { rx_packets: 3, tx_packets: 75, ..InterfaceStatistics::default() };
        assert_eq!((now.since(&before).rx_packets, now.since(&before).tx_packets), (3, 5));
    }
}
