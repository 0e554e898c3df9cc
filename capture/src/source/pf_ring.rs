//! PF_RING: ntop's capture through a kernel module or zero-copy drivers (libpfring 8, `pfring.h`).
//!
//! libpfring is loaded at run time, so the agent needs it only for this source. One ring belongs to one worker: no call
//! to a ring is ever made by two threads.

use super::{Next, Polled, Source, Witness};
use crate::host::wall_clock_ns;
use crate::packet::{Frame, LinkType};
use anyhow::{Context as _, anyhow, bail};
use libloading::os::unix::{Library as Handle, RTLD_GLOBAL, RTLD_LAZY, RTLD_LOCAL};
use std::ffi::{CString, c_char, c_int, c_uint};
use std::io;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// File names of libpfring.
const NAMES: [&str; 3] = ["libpfring.so", "libpfring.so.8", "libpfring.so.1"];
/// Names of libpcap, whose functions libpfring calls without being linked to it.
const PCAP_NAMES: [&str; 3] = ["libpcap.so.1", "libpcap.so.0.8", "libpcap.so"];
/// Environment variable that names the library, before the configuration does.
pub const LIBRARY_VARIABLE: &str = "WEIR_PF_RING_LIBRARY";

/// Captured octets per packet: PF_RING has one length for all, which must suffice for a QUIC Initial and for a segment of
/// a ClientHello.
const SNAPLEN: u32 = 2048;
/// Packets handed over in one go.
const FAIR: usize = 1024;
/// Shortest and longest pause between polls of a quiet ring, if the library cannot wait for it.
const NAP: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(4));
/// If a wait ends before this time without packets, the library did not really wait.
const NO_WAIT: Duration = Duration::from_millis(1);
/// How often to check, while no packets arrive, that the interfaces still exist.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long to keep taking packets when capture stops, because PF_RING cannot block new ones.
const DRAIN: Duration = Duration::from_secs(1);
/// A packet's own time is ignored if it differs from the wall clock by more than this: nobody may have set the network
/// card's clock.
const CLOCK_TRUST_NS: i64 = 1_000_000_000;

/// `pfring_open`'s flags.
const ZC_SYMMETRIC_RSS: u32 = 1 << 0;
const PROMISC: u32 = 1 << 3;
const TIMESTAMP: u32 = 1 << 4;
const DO_NOT_PARSE: u32 = 1 << 9;
/// `pfring_set_cluster`'s type: by the two addresses.
const CLUSTER_TWO_TUPLE: c_int = 2;
/// The result of a function that this kind of device does not support.
const NOT_SUPPORTED: c_int = -7;
/// The result of `pfring_recv` at the end of a finite device.
const AT_END: c_int = -2;

/// `struct pfring`, opaque outside the library.
#[repr(C)]
struct RawRing {
    _opaque: [u8; 0],
}

/// `struct pfring_pkthdr` up to the last field that is read. The library's own is packed and 209 octets long.
#[repr(C)]
struct PfRingHeader {
    seconds: i64,
    microseconds: i64,
    captured: u32,
    length: u32,
    /// First field of the extension; 0 if the device has no such time.
    timestamp_ns: u64,
    _rest: [u8; 224],
}

/// `pfring_stat` (`recv`, `drop`, `shunt`), with room for fields of later versions.
#[repr(C)]
#[derive(Default)]
struct Statistics {
    received: u64,
    dropped: u64,
    _rest: [u64; 14],
}

type Open = unsafe extern "C" fn(*const c_char, u32, u32) -> *mut RawRing;
type Receive = unsafe extern "C" fn(*mut RawRing, *mut *mut u8, c_uint, *mut PfRingHeader, u8) -> c_int;
type ReadStatistics = unsafe extern "C" fn(*mut RawRing, *mut Statistics) -> c_int;
type SetCluster = unsafe extern "C" fn(*mut RawRing, c_uint, c_int) -> c_int;
type Enable = unsafe extern "C" fn(*mut RawRing) -> c_int;
type Poll = unsafe extern "C" fn(*mut RawRing, c_uint) -> c_int;
type CloseRing = unsafe extern "C" fn(*mut RawRing);

/// libpfring, bound.
pub struct Library {
    open: Open,
    receive: Receive,
    statistics: ReadStatistics,
    set_cluster: SetCluster,
    enable: Enable,
    poll: Poll,
    close: CloseRing,
    /// Keeps the library of the functions above loaded.
    _handle: Handle,
}

impl Library {
    /// Loads the library at `path`, or else the one that is installed.
    ///
    /// # Errors
    /// If the library is missing or is not libpfring: the error says in one line what to do.
    pub fn load(path: Option<&Path>) -> anyhow::Result<Library> {
        for name in PCAP_NAMES {
            // SAFETY: libpcap has no initialisation that could go wrong for us.
            if let Ok(pcap) = unsafe { Handle::open(Some(name), RTLD_LAZY | RTLD_GLOBAL) } {
                // Libraries loaded later may have been bound to it.
                std::mem::forget(pcap);
                break;
            }
        }
        // SAFETY: the administrator, who installed the library or named it in the configuration, answers for it.
        let load = |name: &Path| unsafe { Handle::open(Some(name), RTLD_LAZY | RTLD_LOCAL) };
        let handle = match path {
            Some(path) => load(path).map_err(|error| anyhow!("cannot load libpfring: {}", one_line(&error)))?,
            None => NAMES.iter().find_map(|name| load(Path::new(name)).ok()).ok_or_else(|| {
                anyhow!(
                    "libpfring is not installed (looked for {}): install PF_RING, or name the library by \
                     source.pf_ring_library",
                    NAMES.join(", ")
                )
            })?,
        };
        Library::bind(handle)
    }

    fn bind(handle: Handle) -> anyhow::Result<Library> {
        /// The function of this name, for as long as the library stays loaded.
        ///
        /// # Safety
        /// `F` must be the function's type.
        unsafe fn function<F: Copy>(handle: &Handle, name: &str) -> anyhow::Result<F> {
            // SAFETY: the caller's.
            unsafe { handle.get::<F>(name.as_bytes()) }
                .map(|symbol| *symbol)
                .with_context(|| format!("the library has no {name}: it is not libpfring, or one older than version 6"))
        }
        // SAFETY: the types are those that `pfring.h` declares.
        unsafe {
            Ok(Library {
                open: function(&handle, "pfring_open")?,
                receive: function(&handle, "pfring_recv")?,
                statistics: function(&handle, "pfring_stats")?,
                set_cluster: function(&handle, "pfring_set_cluster")?,
                enable: function(&handle, "pfring_enable_ring")?,
                poll: function(&handle, "pfring_poll")?,
                close: function(&handle, "pfring_close")?,
                _handle: handle,
            })
        }
    }
}

/// The library that the environment or else the configuration names.
pub fn library_path(configured: &Path) -> Option<std::path::PathBuf> {
    let named = std::env::var_os(LIBRARY_VARIABLE).filter(|path| !path.is_empty());
    named.map(Into::into).or_else(|| (!configured.as_os_str().is_empty()).then(|| configured.to_owned()))
}

fn one_line(error: &dyn std::error::Error) -> String {
    let text = std::iter::successors(error.source().or(Some(error)), |error| error.source()).last();
    text.map(ToString::to_string).unwrap_or_default().replace('\n', " ")
}

/// A PF_RING device as users name it, and the rings of its workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PfRingDevice {
    /// `eth0`, `eth0,eth1`, `zc:eth1@0`, `stack:eth0`, `nt:0`, ...
    pub name: String,
    queue: Option<u32>,
}

impl PfRingDevice {
    /// The device of this name, as libpfring takes it.
    ///
    /// # Errors
    /// If its queue number is invalid.
    pub fn new(name: &str) -> anyhow::Result<PfRingDevice> {
        if name.is_empty() {
            bail!("source.interface names no PF_RING device, such as pfring:eth0 or zc:eth1");
        }
        let queue = match name.rsplit_once('@') {
            Some((_, queue)) => Some(
                queue.parse().map_err(|_| anyhow!("source.interface = {name:?}: {queue:?} is not a queue number"))?,
            ),
            None => None,
        };
        Ok(PfRingDevice { name: name.to_owned(), queue })
    }

    /// Whether the name selects a queue, so that the default is one worker.
    pub fn has_queue(&self) -> bool {
        self.queue.is_some()
    }

    /// The kernel's interfaces beneath; none where a driver has taken them from the kernel.
    pub fn interfaces(&self) -> Vec<&str> {
        if self.name.contains(':') {
            return Vec::new();
        }
        self.name.split(',').map(|name| name.split_once('@').map_or(name, |(name, _)| name)).collect()
    }

    fn is_zero_copy(&self) -> bool {
        self.name.starts_with("zc:")
    }

    /// The name that a worker opens: each worker opens its own queue of a device with queues.
    fn of_worker(&self, worker: u32, workers: u32) -> String {
        match (self.queue, self.name.rsplit_once('@')) {
            (Some(first), Some((device, _))) => format!("{device}@{}", first.saturating_add(worker)),
            _ if self.is_zero_copy() && workers > 1 => format!("{}@{worker}", self.name),
            _ => self.name.clone(),
        }
    }

    /// Opens the rings of all workers. Workers without a queue of their own divide the packets by address.
    ///
    /// # Errors
    /// If PF_RING refuses: the error says in one line what to do.
    pub fn open(&self, library: &Arc<Library>, promiscuous: bool, workers: u32) -> anyhow::Result<Vec<ClosedPfRing>> {
        let shared = workers > 1 && !self.has_queue() && !self.is_zero_copy();
        let mut flags = TIMESTAMP;
        flags |= if promiscuous { PROMISC } else { 0 };
        flags |= if self.is_zero_copy() { ZC_SYMMETRIC_RSS } else { 0 };
        // The module distributes packets by the headers that it parses; nothing else uses them.
        flags |= if shared { 0 } else { DO_NOT_PARSE };
        let mut rings = Vec::new();
        for worker in 0..workers {
            let name = self.of_worker(worker, workers);
            let ring = PfRing::open(library, &name, flags, &self.interfaces())?;
            if shared {
                // The process's number: two agents on one interface must not share its packets.
                // SAFETY: the ring is open.
                let set = unsafe { (library.set_cluster)(ring.ring.as_ptr(), std::process::id(), CLUSTER_TWO_TUPLE) };
                if set < 0 {
                    bail!(
                        "PF_RING cannot share {name} between {workers} workers (pfring_set_cluster returned {set}): set \
                         workers = 1"
                    );
                }
            }
            rings.push(ClosedPfRing(ring));
        }
        Ok(rings)
    }
}

/// One worker's ring.
pub struct PfRing {
    ring: NonNull<RawRing>,
    library: Arc<Library>,
    header: Box<PfRingHeader>,
    name: String,
    /// The interfaces beneath, with their numbers.
    interfaces: Vec<(CString, c_uint)>,
    looked: Instant,
    nap: Duration,
    /// Whether the library can wait for this device.
    waits: bool,
    stopped: Option<Instant>,
    /// The device's count at the last reading; `None` if it has none.
    last: Option<(u64, u64)>,
    received: u64,
    dropped: u64,
    handed: u64,
    /// Whether the agent has logged that the device's clock is wrong.
    distrusted: bool,
}

// SAFETY: only the thread that owns this value uses the ring, one at a time; libpfring binds it to none.
unsafe impl Send for PfRing {}

/// A ring that takes no packets yet.
pub struct ClosedPfRing(PfRing);

impl ClosedPfRing {
    /// Lets packets in.
    ///
    /// # Errors
    /// If PF_RING refuses.
    pub fn admit(self) -> anyhow::Result<PfRing> {
        let ClosedPfRing(mut ring) = self;
        // Excludes packets that the device counted before.
        ring.last = ring.read_statistics();
        // SAFETY: the ring is open.
        match unsafe { (ring.library.enable)(ring.ring.as_ptr()) } {
            // A device without this function is already enabled.
            0.. | NOT_SUPPORTED => Ok(ring),
            code => bail!("PF_RING cannot start on {} (pfring_enable_ring returned {code})", ring.name),
        }
    }
}

impl PfRing {
    fn open(library: &Arc<Library>, name: &str, flags: u32, interfaces: &[&str]) -> anyhow::Result<PfRing> {
        let device = CString::new(name).context("source.interface")?;
        // SAFETY: errno is this thread's own; the library does not set it for every failure.
        unsafe { *libc::__errno_location() = 0 };
        // SAFETY: the name ends with a zero octet, and the library copies it.
        let ring = unsafe { (library.open)(device.as_ptr(), SNAPLEN, flags) };
        let Some(ring) = NonNull::new(ring) else { return Err(refused(name, &io::Error::last_os_error())) };
        let numbered = |name: &&str| {
            let name = CString::new(*name).ok()?;
            // SAFETY: the name ends with a zero octet.
            let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
            (index != 0).then_some((name, index))
        };
        Ok(PfRing {
            ring,
            library: Arc::clone(library),
            // SAFETY: plain old data; all zeros is a valid one.
            header: Box::new(unsafe { std::mem::zeroed() }),
            name: name.to_owned(),
            interfaces: interfaces.iter().filter_map(numbered).collect(),
            looked: Instant::now(),
            nap: NAP.0,
            waits: true,
            stopped: None,
            last: None,
            received: 0,
            dropped: 0,
            handed: 0,
            distrusted: false,
        })
    }

    /// Passes on waiting packets, up to a fair number; returns how many, and whether the device has ended.
    fn walk(&mut self, take: &mut impl FnMut(&[Frame<'_>]) -> Next) -> io::Result<(usize, bool)> {
        let now_ns = wall_clock_ns();
        for count in 0..FAIR {
            (self.header.seconds, self.header.microseconds, self.header.timestamp_ns) = (0, 0, 0);
            let mut octets: *mut u8 = std::ptr::null_mut();
            // SAFETY: the ring is open; a length of 0 asks the library to point at its own buffer, which stays as it is
            // until the next call. The header has more room than any version of the library writes.
            let got =
                unsafe { (self.library.receive)(self.ring.as_ptr(), &raw mut octets, 0, &raw mut *self.header, 0) };
            match got {
                1.. if !octets.is_null() => {}
                1.. | 0 => return Ok((count, false)),
                AT_END => return Ok((count, true)),
                // Packets before the failure are whole; the next call will report it again.
                _ if count > 0 => return Ok((count, false)),
                code => return Err(io::Error::other(format!("pfring_recv says {code}"))),
            }
            let captured = self.header.captured.min(SNAPLEN) as usize;
            let (time_ns, trusted) = stamp(&self.header, now_ns);
            if !trusted && !self.distrusted {
                self.distrusted = true;
                tracing::warn!("{}: its packets' times differ from the wall clock: using arrival times", self.name);
            }
            self.handed += 1;
            let frame = Frame {
                time_ns,
                link: LinkType::Ethernet,
                // SAFETY: the library guarantees that many octets there.
                data: unsafe { std::slice::from_raw_parts(octets, captured) },
                length: self.header.length,
                vlan: None,
            };
            if take(&[frame]) == Next::Pause {
                return Ok((count + 1, false));
            }
        }
        Ok((FAIR, false))
    }

    /// Waits for packets; returns false if it could not wait.
    fn wait(&mut self, patience: Duration) -> bool {
        if !self.waits {
            return false;
        }
        let started = Instant::now();
        // SAFETY: the ring is open.
        let ready = unsafe { (self.library.poll)(self.ring.as_ptr(), patience.as_millis().min(1000) as c_uint) };
        self.waits = ready >= 0 || io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
        ready >= 0 && started.elapsed() >= NO_WAIT
    }

    /// The device's count: packets received (without those dropped) and dropped.
    fn read_statistics(&self) -> Option<(u64, u64)> {
        let mut statistics = Statistics::default();
        // SAFETY: the ring is open; there is more room than the library fills.
        let got = unsafe { (self.library.statistics)(self.ring.as_ptr(), &raw mut statistics) };
        (got >= 0).then_some((statistics.received, statistics.dropped))
    }

    /// Whether an interface beneath was deleted.
    fn is_gone(&self) -> bool {
        // SAFETY: the name ends with a zero octet.
        self.interfaces.iter().any(|(name, index)| unsafe { libc::if_nametoindex(name.as_ptr()) } != *index)
    }
}

/// A packet's time: the device's time in ns, else its time in µs; the wall clock's if there is neither or if they
/// cannot be right. Also returns false if they cannot be right.
fn stamp(header: &PfRingHeader, now_ns: i64) -> (i64, bool) {
    let in_us = header.seconds.saturating_mul(1_000_000_000).saturating_add(header.microseconds.saturating_mul(1000));
    let time_ns = i64::try_from(header.timestamp_ns).ok().filter(|&time_ns| time_ns > 0).unwrap_or(in_us);
    match time_ns {
        0 => (now_ns, true),
        time_ns if time_ns.abs_diff(now_ns) <= CLOCK_TRUST_NS as u64 => (time_ns, true),
        _ => (now_ns, false),
    }
}

/// One clear line about what to do.
fn refused(name: &str, error: &io::Error) -> anyhow::Error {
    match error.raw_os_error() {
        Some(libc::EAFNOSUPPORT) => anyhow!(
            "PF_RING cannot capture on {name}: the pf_ring kernel module is not loaded (modprobe pf_ring); \
             source.interface without pfring: captures without it"
        ),
        Some(libc::EPERM | libc::EACCES) => {
            anyhow!(
                "no permission to capture on {name} with PF_RING: run as root, or grant CAP_NET_RAW and \
                 CAP_NET_ADMIN"
            )
        }
        Some(libc::ENODEV | libc::ENXIO) => anyhow!("PF_RING has no device {name:?}"),
        None | Some(0) => anyhow!(
            "PF_RING cannot open {name}, and gives no reason: is that the name of a device, and is its driver loaded?"
        ),
        Some(_) => anyhow!("PF_RING cannot open {name}: {error}"),
    }
}

impl Source for PfRing {
    fn poll(&mut self, patience: Duration, take: &mut impl FnMut(&[Frame<'_>]) -> Next) -> io::Result<Polled> {
        if self.stopped.is_some_and(|stopped| stopped.elapsed() > DRAIN) {
            return Ok(Polled::End);
        }
        let mut walked = self.walk(take);
        let nothing = |walked: &io::Result<(usize, bool)>| matches!(walked, Ok((0, false)));
        let started = Instant::now();
        while nothing(&walked) && self.stopped.is_none() && started.elapsed() < patience {
            let waited = self.wait(patience.saturating_sub(started.elapsed()));
            walked = self.walk(take);
            if nothing(&walked) && !waited {
                std::thread::sleep(self.nap);
                self.nap = (self.nap * 2).min(NAP.1);
                walked = self.walk(take);
            }
        }
        match walked {
            Ok((1.., _)) => {
                self.nap = NAP.0;
                return Ok(Polled::Packets);
            }
            Ok((0, end)) if end || self.stopped.is_some() => return Ok(Polled::End),
            _ => {}
        }
        if self.looked.elapsed() >= LOOK_EVERY {
            self.looked = Instant::now();
            if self.is_gone() {
                return Err(io::Error::from_raw_os_error(libc::ENODEV));
            }
        }
        walked.map(|_| Polled::Idle).inspect_err(|_| std::thread::sleep(patience))
    }

    fn now_ns(&self) -> Option<i64> {
        Some(wall_clock_ns())
    }

    fn witness(&mut self) -> Option<Witness> {
        let last = self.last?;
        if let Some(now) = self.read_statistics() {
            // A count that decreased was reset.
            let since = |now: u64, last: u64| now.checked_sub(last).unwrap_or(now);
            self.received += since(now.0, last.0);
            self.dropped += since(now.1, last.1);
            self.last = Some(now);
        }
        // Drivers update their counts only now and then, but every packet handed over was received.
        self.received = self.received.max(self.handed);
        Some(Witness { offered: self.received + self.dropped, dropped: self.dropped })
    }

    fn stop(&mut self) -> bool {
        self.stopped = Some(Instant::now());
        false
    }
}

impl Drop for PfRing {
    fn drop(&mut self) {
        // SAFETY: the ring is open and not used any more.
        unsafe { (self.library.close)(self.ring.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_has_the_best_time_that_can_be_right() {
        const NOW: i64 = 1_700_000_000_000_000_000;
        let header = |us: i64, timestamp_ns: u64| PfRingHeader {
            seconds: us / 1_000_000,
            microseconds: us % 1_000_000,
            captured: 0,
            length: 0,
            timestamp_ns,
            _rest: [0; 224],
        };
        let us = NOW / 1000 - 250_000;
        assert_eq!(stamp(&header(us, NOW as u64 - 7), NOW), (NOW - 7, true));
        assert_eq!(stamp(&header(us, 0), NOW), (NOW - 250_000_000, true));
        assert_eq!(stamp(&header(0, 0), NOW), (NOW, true));
        assert_eq!(stamp(&header(us, 5), NOW), (NOW, false), "a clock that nobody set");
        assert_eq!(stamp(&header(i64::MAX, u64::MAX), NOW), (NOW, false));
        assert_eq!(size_of::<PfRingHeader>(), 256);
        assert_eq!(std::mem::offset_of!(PfRingHeader, timestamp_ns), 24);
    }

    #[test]
    fn devices_and_what_their_workers_open() {
        let opened = |name: &str, workers| {
            let device = PfRingDevice::new(name).unwrap();
            (0..workers).map(|worker| device.of_worker(worker, workers)).collect::<Vec<_>>()
        };
        assert_eq!(opened("eth0", 2), ["eth0", "eth0"]);
        assert_eq!(opened("zc:eth1", 1), ["zc:eth1"]);
        assert_eq!(opened("zc:eth1", 2), ["zc:eth1@0", "zc:eth1@1"]);
        assert_eq!(opened("zc:99@4", 2), ["zc:99@4", "zc:99@5"]);
        assert_eq!(
            PfRingDevice::new("eth0@1,eth1").unwrap_err().to_string().matches("is not a queue number").count(),
            1
        );
        assert!(PfRingDevice::new("").is_err());
        assert_eq!(PfRingDevice::new("eth0,eth1").unwrap().interfaces(), ["eth0", "eth1"]);
        assert_eq!(PfRingDevice::new("eth0@2").unwrap().interfaces(), ["eth0"]);
        assert!(PfRingDevice::new("zc:eth1@0").unwrap().interfaces().is_empty());
    }

    #[test]
    fn what_is_no_libpfring_is_said_in_one_line() {
        let error = |path| format!("{:#}", Library::load(Some(Path::new(path))).err().unwrap());
        let missing = error("/no/such/libpfring.so");
        assert!(
            missing.starts_with("cannot load libpfring: /no/such/libpfring.so: ") && !missing.contains('\n'),
            "{missing}"
        );
        let other = error("libc.so.6");
        assert!(other.contains("has no pfring_open") && !other.contains('\n'), "{other}");
    }
}
