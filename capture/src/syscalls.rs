//! The system calls that a collector may make once its ports are open, and an agent once its sources are. The kernel
//! answers any other one with ENOSYS (seccomp, `man 2 seccomp`): code that a stranger's data took over could neither
//! start a program, nor open another source, nor trace processes, mount, load modules or write executable memory.

use anyhow::Context as _;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use std::collections::BTreeMap;

/// Memory, threads, time.
const OF_ANY_PROGRAM: &[i64] = &[
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_restart_syscall,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    // Workers keep to their processors.
    libc::SYS_sched_setaffinity,
    // ZeroMQ asks for its threads' scheduling, and sets it again.
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_setscheduler,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_tgkill,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getrusage,
    libc::SYS_times,
    libc::SYS_prlimit64,
];

/// Files: the state, the spool, the configuration, certificates, standard output.
const OF_FILES: &[i64] = &[
    libc::SYS_openat,
    libc::SYS_close,
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_mkdirat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_pipe2,
];

/// Sockets, which `socket` opens only in the families below.
const OF_SOCKETS: &[i64] = &[
    libc::SYS_socketpair,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
];

/// Older forms of the above, which only some architectures have.
#[cfg(target_arch = "x86_64")]
const OLDER: &[i64] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_mkdir,
    libc::SYS_rename,
    libc::SYS_unlink,
    libc::SYS_rmdir,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_pipe,
    libc::SYS_dup2,
    libc::SYS_time,
    libc::SYS_getrlimit,
    libc::SYS_arch_prctl,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[i64] = &[];

/// Network sockets, local ones (the resolver's), and netlink (with which the resolver lists addresses).
const FAMILIES: &[libc::c_int] = &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Calls that reading an XDP program's maps takes besides.
pub const OF_XDP: &[i64] = &[libc::SYS_bpf];

/// Restricts the calling thread, and threads that it starts later, to these calls and `more` for good; where the kernel
/// or the architecture has no such filters, says so. The thread must have given up new privileges before (see
/// [`crate::privileges::keep_only`]).
pub fn restrict(more: &[i64]) {
    let done = program(more).and_then(|program| Ok(seccompiler::apply_filter(&program)?));
    if let Err(error) = done.context("cannot restrict system calls") {
        tracing::warn!("{error:#}: this process runs without that protection");
    }
}

fn program(more: &[i64]) -> anyhow::Result<BpfProgram> {
    let plain = [OF_ANY_PROGRAM, OF_FILES, OF_SOCKETS, OLDER, more].concat();
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = plain.into_iter().map(|call| (call, Vec::new())).collect();
    let masked = |argument, mask: libc::c_int, value: libc::c_int| {
        let (mask, value) = (u64::from(mask as u32), u64::from(value as u32));
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask), value)?;
        SeccompRule::new(vec![condition])
    };
    // A thread, but no process. glibc takes ENOSYS from clone3, whose flags a filter cannot read, to mean clone.
    rules.insert(libc::SYS_clone, vec![masked(0, libc::CLONE_THREAD, libc::CLONE_THREAD)?]);
    // Memory is writable or executable: modules of the resolver are libraries, and must still be loaded.
    let no_code = || masked(2, libc::PROT_EXEC, 0);
    rules.insert(libc::SYS_mmap, vec![no_code()?, masked(2, libc::PROT_WRITE, 0)?]);
    rules.insert(libc::SYS_mprotect, vec![no_code()?]);
    // A thread names itself.
    rules.insert(libc::SYS_prctl, vec![masked(0, -1, libc::PR_SET_NAME)?]);
    let families = FAMILIES.iter().map(|&family| masked(0, -1, family)).collect::<Result<_, _>>()?;
    rules.insert(libc::SYS_socket, families);
    let refuse = SeccompAction::Errno(libc::ENOSYS as u32);
    let filter = SeccompFilter::new(rules, refuse, SeccompAction::Allow, std::env::consts::ARCH.try_into()?)?;
    Ok(filter.try_into()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::process::Command;

    /// What a thread that is restricted gets from these calls.
    #[test]
    fn a_restricted_thread_works_and_starts_no_program() {
        let errno = |result: libc::c_long| (result < 0).then(|| io::Error::last_os_error().raw_os_error().unwrap());
        let calls = move || {
            // SAFETY: plain calls, without memory of ours except the mapping, which nobody uses.
            unsafe {
                let code = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
                let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                let mapped = libc::mmap(std::ptr::null_mut(), 4096, code, anonymous, -1, 0);
                [
                    errno(if mapped == libc::MAP_FAILED { -1 } else { 0 }),
                    errno(libc::syscall(libc::SYS_unshare, 0)),
                    errno(libc::syscall(libc::SYS_ptrace, 9999, 0, 0, 0)),
                    errno(libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM | 0x7000_0000, 0).into()),
                    errno(libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0).into()),
                ]
            }
        };
        let program = || Command::new("true").spawn().map(|mut child| child.wait().unwrap().success());
        let outcome = std::thread::spawn(move || {
            let before = (calls()[..2].to_vec(), program().unwrap());
            crate::privileges::keep_only(&[]).unwrap();
            restrict(&[]);
            let thread = std::thread::spawn(calls).join().unwrap();
            (before, calls(), thread, program().is_err(), std::fs::read("/proc/self/status").is_ok())
        })
        .join()
        .unwrap();
        let denied = Some(libc::ENOSYS);
        assert_eq!(outcome.0, (vec![None, None], true), "without the restriction they work");
        assert_eq!(outcome.1, [denied, denied, denied, denied, None]);
        assert_eq!(outcome.2, outcome.1, "threads that it starts are restricted, too");
        assert!(outcome.3 && outcome.4, "it starts no program, and reads files");
    }
}
