//! Where exporters send to: UDP sockets, and connections that carry IPFIX (RFC 7011, section 10.4).

use super::allowed::{Allowed, Gate};
use super::cause::{Causes, Refusal};
use super::decode::message_octets;
use super::exporter::origin::Session;
use crate::host::wall_clock_ns;
use crate::packet::{self, Address};
use crate::throttle::Throttle;
use anyhow::Context as _;
use foldhash::fast::RandomState;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::io::{self, ErrorKind, Read as _};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd as _, RawFd};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Octets to ask for as a socket's buffer; the system may give less (net.core.rmem_max).
const BUFFER: usize = 32 << 20;
/// Maximum datagrams, or reads of connections, between two looks at the clock.
const AT_ONCE: usize = 256;
/// The longest datagram or message.
const LONGEST: usize = 65_535;
/// Connections of a worker at once, and of one address.
const MOST_STREAMS: usize = 1024;
const STREAMS_OF_ONE: usize = 64;
/// Connections accepted between two looks at the sockets.
const ACCEPTED_AT_ONCE: usize = 32;
/// How long a connection may take for a whole message, from its beginning or from the message's.
const MESSAGE_WITHIN: Duration = Duration::from_secs(60);
/// How often to look for connections that took longer.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Files and sockets that the process may have open besides connections of exporters.
const OTHER_FILES: usize = 256;
/// How long new connections wait when the system could not open one, for want of descriptors or memory.
const PAUSE: Duration = Duration::from_secs(1);
/// Number of the system's statistics on a socket, and the index of its drop counter (linux/sock_diag.h).
const MEMINFO: usize = 9;
const MEMINFO_DROPS: usize = 8;
/// Those of the octets that wait, and of the most that may.
const MEMINFO_WAITING: usize = 0;
const MEMINFO_MOST: usize = 1;

/// An address to listen on: `:2055`, `2055` (all addresses, IPv4 and IPv6), `192.0.2.1:2055`, `[2001:db8::1]:2055`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen(pub SocketAddr);

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Listen, String> {
        let port = text.strip_prefix(':').unwrap_or(text);
        if let Ok(port) = port.parse() {
            return Ok(Listen(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)));
        }
        text.parse().map(Listen).map_err(|_| {
            format!("'{text}' is not an address to listen on: write :2055, 192.0.2.1:2055 or [2001:db8::1]:2055")
        })
    }
}

/// A worker's inputs and clock: sockets and the host's clock, or those of a simulation.
pub trait Input {
    /// The host's clock, ns from the Unix epoch.
    fn now_ns(&self) -> i64;

    /// Time by a clock that nobody sets, ns from any beginning.
    fn steady_ns(&self) -> i64;

    /// Waits for messages, and passes each on with its session and arrival time, ns from the Unix epoch, while `take`
    /// wants more. True if more may be waiting already.
    ///
    /// # Errors
    /// Errors of the system call that waits.
    fn poll(&mut self, patience: Duration, take: &mut dyn FnMut(Session, i64, &[u8]) -> bool) -> io::Result<bool>;

    /// Names the addresses whose datagrams are read first when there are too many.
    fn prefer(&mut self, _established: HashSet<Address, RandomState>) {}

    /// What was dropped before it was passed on, by cause, since the inputs were opened.
    fn refused(&mut self) -> Causes;
}

struct ExporterStream {
    stream: TcpStream,
    from: Session,
    /// The beginning of a message.
    begun: Vec<u8>,
    /// When octets came last.
    heard: Instant,
    /// Since when a whole message is due.
    due_since: Option<Instant>,
}

/// The inputs of one worker.
pub struct Ports {
    opened: Instant,
    sockets: Vec<UdpSocket>,
    /// The port of each socket, as the system gave it.
    ports: Vec<u16>,
    /// Each socket's drop counter at the last reading; the system counts in 32 bits.
    dropped: Vec<(u32, u64)>,
    listeners: Vec<TcpListener>,
    /// Until when new connections wait.
    paused_until: Option<Instant>,
    streams: Vec<ExporterStream>,
    most_streams: usize,
    /// How long a connection may take for a message, and when it was last checked.
    message_within: Duration,
    looked: Instant,
    /// The exporters that may send.
    gate: Gate,
    established: HashSet<Address, RandomState>,
    /// Whether the list changed since connections were checked against it.
    list_changed: bool,
    throttle: Throttle,
    /// Descriptors that become readable when another input has data.
    wake: Option<RawFd>,
    buffer: Box<[u8]>,
    /// Connections that were lost or closed, by cause.
    refused: Causes,
}

impl Ports {
    /// Several workers may open the same ports: the system distributes exporters among them.
    ///
    /// # Errors
    /// One clear line about what to do.
    pub fn open(udp: &[Listen], tcp: &[Listen]) -> anyhow::Result<Ports> {
        let udp = udp.iter().map(|listen| {
            let socket = bound(listen.0, Type::DGRAM).with_context(|| cannot(listen.0, "UDP"))?;
            // The system may grant less, which is not an error.
            if !force_buffer(&socket) {
                let _ = socket.set_recv_buffer_size(BUFFER);
            }
            Ok(UdpSocket::from(socket))
        });
        let sockets = udp.collect::<anyhow::Result<Vec<_>>>()?;
        let tcp = tcp.iter().map(|listen| {
            let listener = bound(listen.0, Type::STREAM).and_then(|socket| socket.listen(128).map(|()| socket));
            Ok(TcpListener::from(listener.with_context(|| cannot(listen.0, "TCP"))?))
        });
        let listeners = tcp.collect::<anyhow::Result<_>>()?;
        let buffer = vec![0; LONGEST].into_boxed_slice();
        let dropped = vec![(0, 0); sockets.len()];
        let port = |socket: &UdpSocket| socket.local_addr().map_or(0, |local| local.port());
        let ports = sockets.iter().map(port).collect();
        Ok(Ports {
            opened: Instant::now(),
            sockets,
            ports,
            dropped,
            listeners,
            paused_until: None,
            streams: Vec::new(),
            most_streams: MOST_STREAMS,
            message_within: MESSAGE_WITHIN,
            looked: Instant::now(),
            gate: Allowed::default().gate(),
            established: HashSet::default(),
            list_changed: false,
            throttle: Throttle::default(),
            wake: None,
            buffer,
            refused: Causes::default(),
        })
    }

    /// The UDP ports that it listens on, as the system gave them.
    ///
    /// # Errors
    /// The system's error.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.sockets.iter().map(UdpSocket::local_addr).collect()
    }

    /// Also ends waiting when this descriptor is readable; it must stay open while these ports are polled.
    pub fn wake_by(&mut self, wake: Option<RawFd>) {
        self.wake = wake;
    }

    /// Accepts at most this many connections.
    pub fn limit_streams(&mut self, most: usize) {
        self.most_streams = most;
    }

    /// Listens to these exporters alone.
    pub fn allow(&mut self, allowed: &Allowed) {
        self.gate = allowed.gate();
    }

    /// Makes room for another connection of this address: closes the longest silent one of the same address if that has
    /// too many, else of the address that has the most.
    fn make_room(&mut self, address: &Address) {
        let mut by_address = HashMap::<Address, usize>::new();
        self.streams.iter().for_each(|stream| *by_address.entry(stream.from.address).or_default() += 1);
        let is_own = by_address.get(address).is_some_and(|&count| count >= STREAMS_OF_ONE);
        if !is_own && self.streams.len() < self.most_streams {
            return;
        }
        let silent = |stream: &ExporterStream| (by_address[&stream.from.address], Reverse(stream.heard));
        let gone = (0..self.streams.len())
            .filter(|&at| !is_own || self.streams[at].from.address == *address)
            .max_by_key(|&at| silent(&self.streams[at]));
        let Some(gone) = gone else { return };
        self.refused[Refusal::ConnectionsClosed as usize] += 1;
        self.streams.remove(gone).end(&mut self.refused);
    }

    /// Closes connections that took too long for a message, and once the list changed those of exporters that may no
    /// longer send.
    fn close_streams(&mut self) {
        let list_changed = self.gate.refresh() | std::mem::take(&mut self.list_changed);
        if !list_changed && self.looked.elapsed() < LOOK_EVERY.min(self.message_within) {
            return;
        }
        self.looked = Instant::now();
        let Ports { streams, gate, refused, message_within, .. } = self;
        streams.retain(|stream| {
            let cause = if !gate.admits(&stream.from.address) {
                Refusal::ExporterNotAllowed
            } else if stream.due_since.is_some_and(|since| since.elapsed() > *message_within) {
                Refusal::ConnectionsSilent
            } else {
                return true;
            };
            refused[cause as usize] += 1;
            false
        });
    }

    /// Accepts waiting connections; false if the system cannot open more.
    fn accept(&mut self, listener: usize) -> bool {
        for _ in 0..ACCEPTED_AT_ONCE {
            let (stream, from) = match self.listeners[listener].accept() {
                Ok(accepted) => accepted,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return true,
                    ErrorKind::Interrupted | ErrorKind::ConnectionAborted => continue,
                    _ => {
                        if self.throttle.allow("accept") {
                            tracing::warn!("cannot accept a connection: {error}");
                        }
                        return false;
                    }
                },
            };
            let address = packet::address(from.ip());
            if !self.gate.admits(&address) {
                self.refused[Refusal::ExporterNotAllowed as usize] += 1;
                continue;
            }
            self.make_room(&address);
            let asks = TcpKeepalive::new().with_time(ASK_AFTER).with_interval(ASK_EVERY).with_retries(ASK_TIMES);
            let _ = SockRef::from(&stream).set_tcp_keepalive(&asks);
            if stream.set_nonblocking(true).is_ok() {
                let local_port = stream.local_addr().map_or(0, |local| local.port());
                let from = Session { address, port: from.port(), local_port, stream: true };
                let now = Instant::now();
                self.streams.push(ExporterStream { stream, from, begun: Vec::new(), heard: now, due_since: Some(now) });
            }
        }
        true
    }
}

impl Input for Ports {
    fn now_ns(&self) -> i64 {
        wall_clock_ns()
    }

    fn steady_ns(&self) -> i64 {
        self.opened.elapsed().as_nanos() as i64
    }

    fn prefer(&mut self, established: HashSet<Address, RandomState>) {
        self.established = established;
    }

    /// Must be called before the system drops 2^32 more datagrams.
    fn refused(&mut self) -> Causes {
        for (socket, (told, sum)) in self.sockets.iter().zip(&mut self.dropped) {
            let now = drops(socket).unwrap_or(*told);
            *sum += u64::from(now.wrapping_sub(*told));
            *told = now;
        }
        let dropped = self.dropped.iter().map(|(_, sum)| sum).sum();
        let mut refused = self.refused;
        refused[Refusal::SocketFull as usize] = dropped;
        refused
    }

    fn poll(&mut self, patience: Duration, take: &mut dyn FnMut(Session, i64, &[u8]) -> bool) -> io::Result<bool> {
        self.close_streams();
        self.paused_until = self.paused_until.filter(|until| Instant::now() < *until);
        let accepts = self.paused_until.is_none();
        let listening = |fd: RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut polled: Vec<libc::pollfd> = (self.sockets.iter().map(|socket| socket.as_raw_fd()))
            // poll() ignores negative descriptors.
            .chain(self.listeners.iter().map(|listener| if accepts { listener.as_raw_fd() } else { -1 }))
            .chain(self.streams.iter().map(|stream| stream.stream.as_raw_fd()))
            .chain(self.wake)
            .map(listening)
            .collect();
        let timeout = patience.as_millis().min(1000) as libc::c_int;
        // SAFETY: as many valid entries as are said.
        if unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout) } < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == ErrorKind::Interrupted { Ok(false) } else { Err(error) };
        }
        // It may have changed while this waited.
        self.list_changed |= self.gate.refresh();
        let ready: Vec<bool> = polled.iter().map(|polled| polled.revents != 0).collect();
        let (sockets, rest) = ready.split_at(self.sockets.len());
        let (listeners, streams) = rest.split_at(self.listeners.len());
        let take = &mut |from: Session, data: &[u8]| take(from, wall_clock_ns(), data);
        let mut more = false;
        for ((socket, port), _) in self.sockets.iter().zip(&self.ports).zip(sockets).filter(|(_, ready)| **ready) {
            more |= drain(socket, *port, &mut self.buffer, (&self.gate, &self.established, &mut self.refused), take);
        }
        let mut ready = streams.iter();
        let Ports { buffer, refused, throttle, .. } = self;
        self.streams.retain_mut(|stream| match ready.next() {
            Some(true) => {
                let goes_on = stream.read(buffer, (refused, throttle), &mut more, take);
                if !goes_on {
                    stream.end(refused);
                }
                goes_on
            }
            _ => true,
        });
        for at in (0..self.listeners.len()).filter(|&at| listeners[at]) {
            if !self.accept(at) {
                self.paused_until = Some(Instant::now() + PAUSE);
            }
        }
        Ok(more)
    }
}

/// Raises the process's limit of open files as far as the system allows; returns how many connections of exporters each of
/// the workers may keep within it, so that files and other sockets can still be opened.
pub fn most_streams(workers: usize) -> usize {
    let mut files = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is valid while the calls last.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut files) < 0 {
            return MOST_STREAMS;
        }
        let raised = libc::rlimit { rlim_cur: files.rlim_max, ..files };
        if libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) == 0 {
            files = raised;
        }
    }
    let most = streams_within(usize::try_from(files.rlim_cur).unwrap_or(usize::MAX), workers);
    if most < MOST_STREAMS {
        tracing::warn!(
            "the limit of {} open files (ulimit -n) leaves room for {most} connections of exporters in each worker, not {MOST_STREAMS}",
            files.rlim_cur
        );
    }
    most
}

fn streams_within(files: usize, workers: usize) -> usize {
    let others = OTHER_FILES.min(files / 2);
    ((files - others) / workers).clamp(1, MOST_STREAMS)
}

/// The system's 32-bit count of datagrams dropped at a socket; `None` if the system does not report it.
fn drops(socket: &UdpSocket) -> Option<u32> {
    Some(meminfo(socket)?[MEMINFO_DROPS])
}

/// The system's statistics on a socket; `None` if it reports none.
fn meminfo(socket: &UdpSocket) -> Option<[u32; MEMINFO]> {
    let mut told = [0_u32; MEMINFO];
    let mut octets = size_of_val(&told) as libc::socklen_t;
    let to = told.as_mut_ptr().cast::<libc::c_void>();
    // SAFETY: as many octets as are said, at an address that is valid while the call lasts.
    let done = unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO, to, &raw mut octets) };
    (done == 0 && octets as usize == size_of_val(&told)).then_some(told)
}

/// A socket fills up once a quarter of its buffer is in use. Then one of so many strangers' datagrams is still read, so
/// that a new exporter becomes known some time.
const FILLING: u32 = 4;
const STILL_READ: u64 = 16;

/// Passes on a socket's datagrams, up to a fair number and while `take` wants more; true if more may be waiting.
fn drain(
    socket: &UdpSocket,
    local_port: u16,
    buffer: &mut [u8],
    (gate, established, refused): (&Gate, &HashSet<Address, RandomState>, &mut Causes),
    take: &mut impl FnMut(Session, &[u8]) -> bool,
) -> bool {
    let is_filling = !established.is_empty()
        && meminfo(socket).is_some_and(|told| told[MEMINFO_WAITING] > told[MEMINFO_MOST] / FILLING);
    let mut strangers = 0_u64;
    for _ in 0..AT_ONCE {
        match socket.recv_from(buffer) {
            Ok((octets, from)) => {
                let (address, port) = (packet::address(from.ip()), from.port());
                if !gate.admits(&address) {
                    refused[Refusal::ExporterNotAllowed as usize] += 1;
                    continue;
                }
                if is_filling && !established.contains(&address) {
                    strangers += 1;
                    if strangers % STILL_READ != 0 {
                        refused[Refusal::StrangersShed as usize] += 1;
                        continue;
                    }
                }
                if !take(Session { address, port, local_port, stream: false }, &buffer[..octets]) {
                    return true;
                }
            }
            // A socket that only receives can ignore that a peer is unreachable.
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::Interrupted) => {}
            Err(_) => return false,
        }
    }
    true
}

impl ExporterStream {
    /// Reads from the connection and passes on whole messages, those of one read at least and while `take` wants more;
    /// false if it has ended. Sets `more` if more may be waiting.
    fn read(
        &mut self,
        buffer: &mut [u8],
        (refused, throttle): (&mut Causes, &Throttle),
        more: &mut bool,
        take: &mut impl FnMut(Session, &[u8]) -> bool,
    ) -> bool {
        let mut wants_more = true;
        for _ in 0..AT_ONCE {
            // No more than the longest message, so that a connection holds no more.
            let room = buffer.len().saturating_sub(self.begun.len()).max(1);
            let octets = match self.stream.read(&mut buffer[..room]) {
                Ok(0) => return false,
                Ok(octets) => octets,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return false,
            };
            self.heard = Instant::now();
            self.begun.extend_from_slice(&buffer[..octets]);
            match messages(&self.begun, |message| wants_more &= take(self.from, message)) {
                Ok(0) => _ = self.due_since.get_or_insert(self.heard),
                Ok(done) => {
                    self.begun.drain(..done);
                    self.due_since = (!self.begun.is_empty()).then_some(self.heard);
                    if self.begun.is_empty() {
                        self.begun = Vec::new();
                    }
                }
                Err(cause) => {
                    refused[cause as usize] += 1;
                    self.begun.clear();
                    if throttle.allow("not IPFIX") {
                        tracing::warn!("closed a connection that does not carry IPFIX: {}", cause.meaning());
                    }
                    return false;
                }
            }
            if !wants_more {
                break;
            }
        }
        *more = true;
        true
    }

    /// Counts a message that the connection's end cuts off.
    fn end(&self, refused: &mut Causes) {
        refused[Refusal::Truncated as usize] += u64::from(!self.begun.is_empty());
    }
}

/// A silent peer is asked after this time, this often, and this many times, whether it is still there.
const ASK_AFTER: Duration = Duration::from_secs(60);
const ASK_EVERY: Duration = Duration::from_secs(10);
const ASK_TIMES: u32 = 6;

/// Gives a socket its buffer even if the system's limit for others is lower, which takes CAP_NET_ADMIN; false without.
fn force_buffer(socket: &Socket) -> bool {
    let octets = BUFFER as libc::c_int;
    let (from, length) = ((&raw const octets).cast::<libc::c_void>(), size_of_val(&octets) as libc::socklen_t);
    // SAFETY: as many octets as are said, at an address that is valid while the call lasts.
    unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, from, length) == 0 }
}

/// Passes on whole messages; returns their octets.
fn messages(stream: &[u8], mut take: impl FnMut(&[u8])) -> Result<usize, Refusal> {
    let mut done = 0;
    while let Some(octets) = message_octets(&stream[done..])? {
        take(&stream[done..done + octets]);
        done += octets;
    }
    Ok(done)
}

/// A socket that does not block, on an address that several workers share.
fn bound(address: SocketAddr, kind: Type) -> io::Result<Socket> {
    let protocol = if kind == Type::DGRAM { Protocol::UDP } else { Protocol::TCP };
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    if kind == Type::STREAM {
        socket.set_reuse_address(true)?;
    }
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

fn cannot(address: SocketAddr, protocol: &str) -> String {
    format!("cannot listen on {address} ({protocol})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn local() -> Listen {
        "127.0.0.1:0".parse().unwrap()
    }

    /// Polls until this many arrived.
    fn heard(ports: &mut Ports, count: usize) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let end = Instant::now() + Duration::from_secs(20);
        while all.len() < count && Instant::now() < end {
            ports
                .poll(Duration::from_millis(100), &mut |_, _, data| {
                    all.push(data.to_vec());
                    true
                })
                .unwrap();
        }
        all
    }

    /// Whether more may be waiting after a poll, and how many messages it passed on.
    fn polled(ports: &mut Ports, wants_more: bool) -> (bool, usize) {
        let mut count = 0;
        let more = ports.poll(Duration::from_secs(1), &mut |_, _, _| {
            count += 1;
            wants_more
        });
        (more.unwrap(), count)
    }

    #[test]
    fn addresses_are_written_as_people_do() {
        let parsed = |text: &str| text.parse::<Listen>().map(|listen| listen.0.to_string());
        assert_eq!(parsed(":2055").unwrap(), "[::]:2055");
        assert_eq!(parsed("2055").unwrap(), "[::]:2055");
        assert_eq!(parsed("192.0.2.1:9").unwrap(), "192.0.2.1:9");
        assert_eq!(parsed("[2001:db8::1]:9").unwrap(), "[2001:db8::1]:9");
        assert!(parsed("eth0").unwrap_err().contains("write :2055"));
    }

    #[test]
    fn what_a_full_socket_drops_is_counted() {
        let mut ports = Ports::open(&[local()], &[]).unwrap();
        let dropped = |ports: &mut Ports| ports.refused()[Refusal::SocketFull as usize];
        assert_eq!(dropped(&mut ports), 0);
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let udp = ports.addresses().unwrap()[0];
        let sent = 2 * BUFFER / 50_000;
        for _ in 0..sent {
            sender.send_to(&[0; 50_000], udp).unwrap();
        }
        let lost = dropped(&mut ports);
        assert!(lost > 0 && dropped(&mut ports) == lost);
        assert_eq!(heard(&mut ports, sent - lost as usize).len() as u64 + lost, sent as u64);
    }

    #[test]
    fn datagrams_and_messages_of_connections_are_handed_over_whole() {
        let mut ports = Ports::open(&[local()], &[local()]).unwrap();
        let udp = ports.addresses().unwrap()[0];
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.send_to(b"one", udp).unwrap();
        sender.send_to(b"two", udp).unwrap();
        assert_eq!(heard(&mut ports, 2), [b"one", b"two"]);
        let message = |length: u16| {
            let mut message = vec![0, 10];
            message.extend(length.to_be_bytes());
            message.resize(usize::from(length), 7);
            message
        };
        let mut stream = TcpStream::connect(ports.listeners[0].local_addr().unwrap()).unwrap();
        let both = [message(16), message(60_000)].concat();
        for piece in both.chunks(7_000) {
            stream.write_all(piece).unwrap();
        }
        assert_eq!(heard(&mut ports, 2), [message(16), message(60_000)]);
        assert_eq!((ports.streams.len(), ports.refused()), (1, Causes::default()));
        stream.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        let end = Instant::now() + Duration::from_secs(20);
        while !ports.streams.is_empty() && Instant::now() < end {
            assert!(heard(&mut ports, 0).is_empty());
            ports.poll(Duration::from_millis(100), &mut |_, _, _| panic!("nothing is whole")).unwrap();
        }
        assert_eq!(ports.refused()[Refusal::UnknownVersion as usize], 1);
    }

    #[test]
    fn more_datagrams_than_are_taken_in_one_go_are_said_to_wait() {
        let mut ports = Ports::open(&[local()], &[]).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let udp = ports.addresses().unwrap()[0];
        for _ in 0..AT_ONCE + 9 {
            sender.send_to(b"one", udp).unwrap();
        }
        assert_eq!([0; 2].map(|_| polled(&mut ports, true)), [(true, AT_ONCE), (false, 9)]);
    }

    #[test]
    fn messages_wait_while_no_more_are_wanted() {
        let mut ports = Ports::open(&[local()], &[local()]).unwrap();
        let udp = ports.addresses().unwrap()[0];
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        (0..3).for_each(|_| _ = sender.send_to(b"one", udp).unwrap());
        assert_eq!([0; 3].map(|_| polled(&mut ports, false)), [(true, 1); 3]);
        let mut stream = TcpStream::connect(ports.listeners[0].local_addr().unwrap()).unwrap();
        assert!(!ports.poll(Duration::from_secs(1), &mut |_, _, _| panic!()).unwrap());
        let mut message = vec![0, 10, 0xea, 0x60];
        message.resize(60_000, 7);
        (0..4).for_each(|_| stream.write_all(&message).unwrap());
        let (mut all, mut polls) = (0, 0);
        let end = Instant::now() + Duration::from_secs(20);
        while all < 4 && Instant::now() < end {
            let mut here = 0;
            let more = ports.poll(Duration::from_secs(1), &mut |_, _, data| {
                assert_eq!(data, message);
                here += 1;
                false
            });
            assert!(more.unwrap() || here == 0);
            all += here;
            polls += 1;
        }
        assert!(all == 4 && polls > 2, "{all} messages in {polls} polls");
    }

    /// Polls until this holds.
    fn poll_until(ports: &mut Ports, holds: impl Fn(&mut Ports) -> bool) {
        let end = Instant::now() + Duration::from_secs(20);
        while !holds(ports) && Instant::now() < end {
            ports.poll(Duration::from_millis(10), &mut |_, _, _| true).unwrap();
        }
        assert!(holds(ports));
    }

    #[test]
    fn a_message_that_its_connection_cuts_off_is_counted() {
        let mut ports = Ports::open(&[], &[local()]).unwrap();
        let mut stream = TcpStream::connect(ports.listeners[0].local_addr().unwrap()).unwrap();
        stream.write_all(&[0, 10, 0, 20, 1, 2, 3]).unwrap();
        poll_until(&mut ports, |ports| ports.streams.iter().any(|stream| stream.begun.len() == 7));
        assert_eq!(ports.refused(), Causes::default());
        drop(stream);
        poll_until(&mut ports, |ports| ports.streams.is_empty());
        assert_eq!(ports.refused()[Refusal::Truncated as usize], 1);
    }

    #[test]
    fn an_address_of_very_many_connections_costs_itself_alone() {
        let mut ports = Ports::open(&[], &[local()]).unwrap();
        ports.limit_streams(5);
        let to = ports.listeners[0].local_addr().unwrap();
        let connected = |ports: &mut Ports, last: u8| {
            let stream = TcpStream::connect(to).unwrap();
            let from = stream.local_addr().unwrap().port();
            let place = |ports: &Ports| ports.streams.iter().position(|stream| stream.from.port == from);
            poll_until(ports, |ports| place(ports).is_some());
            // All come from this host.
            let at = place(ports).unwrap();
            ports.streams[at].from.address = packet::address(std::net::Ipv4Addr::new(192, 0, 2, last).into());
            stream
        };
        let mut rightful = connected(&mut ports, 1);
        let silent: Vec<TcpStream> = (0..8).map(|_| connected(&mut ports, 2)).collect();
        assert_eq!((ports.streams.len(), ports.refused()[Refusal::ConnectionsClosed as usize]), (5, 4));
        rightful.write_all(&[&[0, 10, 0, 16][..], &[0; 12]].concat()).unwrap();
        assert_eq!((heard(&mut ports, 1).len(), silent.len()), (1, 8));
    }

    #[test]
    fn connections_leave_descriptors_for_files() {
        assert_eq!(streams_within(524_288, 8), MOST_STREAMS);
        assert_eq!([streams_within(1024, 1), streams_within(1024, 2), streams_within(256, 2)], [768, 384, 64]);
        assert_eq!(streams_within(2, 16), 1);
        assert!(most_streams(1) > 1);
    }

    #[test]
    fn exporters_that_are_not_on_the_list_are_counted_and_not_read() {
        let mut ports = Ports::open(&[local()], &[local()]).unwrap();
        let allowed = Allowed::new(&["127.0.0.2/32".parse().unwrap()]);
        ports.allow(&allowed);
        let udp = ports.addresses().unwrap()[0];
        let tcp = ports.listeners[0].local_addr().unwrap();
        let [allowed_one, stranger] = ["127.0.0.2:0", "127.0.0.3:0"].map(|from| UdpSocket::bind(from).unwrap());
        (0..5).for_each(|_| _ = stranger.send_to(b"no", udp).unwrap());
        allowed_one.send_to(b"yes", udp).unwrap();
        let connection = TcpStream::connect(tcp).unwrap();
        assert_eq!(heard(&mut ports, 1), [b"yes"]);
        poll_until(&mut ports, |ports| ports.refused()[Refusal::ExporterNotAllowed as usize] == 6);
        assert!(ports.streams.is_empty());
        drop(connection);
        // A changed list applies to connections, too.
        allowed.set(&["127.0.0.0/30".parse().unwrap()]);
        stranger.send_to(b"now", udp).unwrap();
        assert_eq!(heard(&mut ports, 1), [b"now"]);
        let _connection = TcpStream::connect(tcp).unwrap();
        poll_until(&mut ports, |ports| ports.streams.len() == 1);
        allowed.set(&["127.0.0.2/32".parse().unwrap()]);
        poll_until(&mut ports, |ports| ports.streams.is_empty());
        assert_eq!(ports.refused()[Refusal::ExporterNotAllowed as usize], 7);
    }

    #[test]
    fn connections_that_send_no_message_end() {
        let mut ports = Ports::open(&[], &[local()]).unwrap();
        ports.message_within = Duration::from_millis(300);
        let to = ports.listeners[0].local_addr().unwrap();
        let mut whole = TcpStream::connect(to).unwrap();
        whole.write_all(&[&[0, 10, 0, 16][..], &[0; 12]].concat()).unwrap();
        assert_eq!(heard(&mut ports, 1).len(), 1);
        let _silent = TcpStream::connect(to).unwrap();
        let mut begun = TcpStream::connect(to).unwrap();
        begun.write_all(&[0, 10, 0, 20]).unwrap();
        poll_until(&mut ports, |ports| ports.streams.len() == 3);
        // An octet now and then is no message.
        let drips = |ports: &mut Ports| {
            let _ = begun.write_all(&[0]);
            ports.streams.len() == 1
        };
        let end = Instant::now() + Duration::from_secs(20);
        let mut drips = drips;
        while !drips(&mut ports) && Instant::now() < end {
            ports.poll(Duration::from_millis(50), &mut |_, _, _| panic!("nothing is whole")).unwrap();
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(ports.refused()[Refusal::ConnectionsSilent as usize], 2);
        std::thread::sleep(Duration::from_millis(400));
        whole.write_all(&[&[0, 10, 0, 16][..], &[0; 12]].concat()).unwrap();
        assert_eq!(heard(&mut ports, 1).len(), 1, "one that sent a message may be silent");
    }

    #[test]
    fn one_address_has_a_bounded_number_of_connections() {
        let mut ports = Ports::open(&[], &[local()]).unwrap();
        let to = ports.listeners[0].local_addr().unwrap();
        let all: Vec<TcpStream> = (0..STREAMS_OF_ONE + 10).map(|_| TcpStream::connect(to).unwrap()).collect();
        poll_until(&mut ports, |ports| ports.refused()[Refusal::ConnectionsClosed as usize] == 10);
        assert_eq!((ports.streams.len(), all.len()), (STREAMS_OF_ONE, STREAMS_OF_ONE + 10));
    }

    #[test]
    fn strangers_make_room_for_established_exporters_in_a_socket_that_fills_up() {
        let mut ports = Ports::open(&[local()], &[]).unwrap();
        SockRef::from(&ports.sockets[0]).set_recv_buffer_size(1 << 17).unwrap();
        let udp = ports.addresses().unwrap()[0];
        let [established, stranger] = ["127.0.0.2:0", "127.0.0.3:0"].map(|from| UdpSocket::bind(from).unwrap());
        let flood = || {
            for at in 0..200 {
                let sender = if at % 10 == 0 { &established } else { &stranger };
                sender.send_to(&[at], udp).unwrap();
            }
        };
        let preferred = packet::address(std::net::Ipv4Addr::new(127, 0, 0, 2).into());
        ports.prefer([preferred].into_iter().collect());
        flood();
        let mut heard = [0, 0];
        let mut take = |from: Session, _: i64, _: &[u8]| {
            heard[usize::from(from.address != preferred)] += 1;
            true
        };
        while ports.poll(Duration::from_millis(100), &mut take).unwrap() {}
        let shed = ports.refused()[Refusal::StrangersShed as usize];
        assert_eq!((heard[0], heard[1] + shed, ports.refused()[Refusal::SocketFull as usize]), (20, 180, 0));
        assert_eq!(heard[1], 180 / STILL_READ, "few are read");
        // A socket that does not fill up is read whole.
        stranger.send_to(b"one", udp).unwrap();
        assert_eq!(self::heard(&mut ports, 1), [b"one"]);
    }
}
