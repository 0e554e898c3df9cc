//! Facts about the host and this process.

use std::fs;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

/// The host's boot id: between two runs with the same id, counters were not reset.
pub fn boot_id() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned())
}

/// The wall clock, ns from the Unix epoch.
pub fn wall_clock_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

/// Resident memory of this process, octets; 0 if unknown.
pub fn resident_octets() -> u64 {
    let pages = || fs::read_to_string("/proc/self/statm").ok()?.split_whitespace().nth(1)?.parse::<u64>().ok();
    // SAFETY: plain call without memory of ours.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    pages().unwrap_or(0) * u64::try_from(page).unwrap_or(0)
}

/// Peak resident memory of this process, octets; 0 if unknown.
pub fn peak_resident_octets() -> u64 {
    let line = |status: &str| status.lines().find_map(|line| line.strip_prefix("VmHWM:").map(str::to_owned));
    let kibibytes = |line: String| line.trim().trim_end_matches(" kB").parse::<u64>().ok();
    fs::read_to_string("/proc/self/status").ok().as_deref().and_then(line).and_then(kibibytes).unwrap_or(0) * 1024
}

/// Processor time of the calling thread, ns; 0 if unknown.
pub fn thread_cpu_ns() -> u64 {
    cpu_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The share of a processor that the calling thread takes.
pub struct ThreadLoad {
    cpu_ns: u64,
}

impl ThreadLoad {
    /// Counts from now on.
    pub fn begin() -> ThreadLoad {
        ThreadLoad { cpu_ns: thread_cpu_ns() }
    }

    /// Per mille of a processor since the last call, over an interval of this length.
    pub fn permille(&mut self, interval_ms: u32) -> u32 {
        let cpu_ns = thread_cpu_ns();
        let used_ns = cpu_ns.saturating_sub(std::mem::replace(&mut self.cpu_ns, cpu_ns));
        (used_ns / (u64::from(interval_ms) * 1000)) as u32
    }
}

/// Processor time of this process, ns; 0 if unknown.
pub fn process_cpu_ns() -> u64 {
    cpu_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn cpu_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec.
    match unsafe { libc::clock_gettime(clock, &raw mut time) } {
        0 => time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64,
        _ => 0,
    }
}

/// The processors that this process may run on, in order.
///
/// # Errors Those of the system.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    // SAFETY: cpu_set_t is plain old data; all zeros is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the call fills one set of the size given.
    if unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: every number is below the set's size.
    Ok((0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect())
}

/// Capabilities that this process may use, one bit each; none where not known.
pub fn effective_capabilities() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    field.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0)
}

/// Pins the calling thread to one processor.
///
/// # Errors
/// If the process may not run on a processor of this number.
pub fn pin_thread(cpu: usize) -> io::Result<()> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: cpu_set_t is plain old data; all zeros is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the number is below the set's size.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the call reads one set of the size given.
    match unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes the calling thread wait for a processor (SCHED_BATCH): when it wakes, it does not preempt the running thread.
///
/// # Errors Those of the system.
pub fn yield_to_others() -> io::Result<()> {
    let priority = libc::sched_param { sched_priority: 0 };
    // SAFETY: the call reads one sched_param.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const priority) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Offset of the clock from true time, µs, where something disciplines it (adjtimex); `None` if nothing does.
pub fn clock_offset_us() -> Option<i64> {
    // SAFETY: timex is plain old data; all zeros asks for nothing to be changed.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the call fills one timex.
    let state = unsafe { libc::adjtimex(&raw mut timex) };
    if state < 0 || state == libc::TIME_ERROR || timex.status & libc::STA_UNSYNC != 0 {
        return None;
    }
    let offset = timex.offset;
    Some(if timex.status & libc::STA_NANO != 0 { offset / 1000 } else { offset })
}
