//! The XDP programs of `weir-bench blast`, frame by frame.

use crate::blast::xdp::{BURST, BlastPlan, FRACTION, PROGRAM_RUN, XdpProgram};
use crate::blast::{BlastArgs, Frames};
use crate::needs::{Need, live};
use clap::Parser;
use std::io;
use std::os::fd::AsRawFd as _;
use weir_probe::source::interface::Interface;
use weir_probe::source::xdp::{XDP_DROP, attributes};

live! {
    [Need::XdpPrograms] => makes_the_frames_that_the_socket_sends, waits_until_a_burst_is_due;
}

#[derive(Parser)]
struct Parsed {
    #[command(flatten)]
    args: BlastArgs,
}

fn arguments(words: &str) -> BlastArgs {
    Parsed::parse_from(["blast", "lo"].into_iter().chain(words.split_whitespace())).args
}

/// Runs it once on a copy of the template, which is not sent; returns its result, and the frame as it left it.
fn try_out(program: &XdpProgram, template: &[u8]) -> (u32, Vec<u8>) {
    let mut frame = vec![0; template.len()];
    let size = template.len() as u32;
    let mut told = attributes(
        &[(0, program.program.as_raw_fd() as u32), (8, size), (12, size), (32, 1)],
        &[(16, template.as_ptr().addr() as u64), (24, frame.as_mut_ptr().expose_provenance() as u64)],
    );
    // SAFETY: as in `bpf`; the kernel writes the frame, and the returned value into the attributes.
    let done = unsafe { libc::syscall(libc::SYS_bpf, PROGRAM_RUN, told.as_mut_ptr(), told.len()) };
    assert_eq!(done, 0, "{}", io::Error::last_os_error());
    (u32::from_ne_bytes(told[4..8].try_into().unwrap()), frame)
}

fn makes_the_frames_that_the_socket_sends() {
    const XDP_REDIRECT: u32 = 4;
    let lo = Interface::find("lo").unwrap();
    for words in
        ["--sources 0", "--sources 3 --destinations 10000", "--octets 1518 --destinations 7", "--syn --sources 0"]
    {
        let frames = Frames::new(&arguments(words));
        let plan = BlastPlan { length: u64::MAX, packets: 50, period: 0 };
        let program = XdpProgram::new(&lo, &frames, plan).unwrap();
        for number in 0..50 {
            let mut expected = frames.template.clone();
            frames.number(number, &mut expected);
            assert_eq!(try_out(&program, &frames.template), (XDP_REDIRECT, expected), "{words}, frame {number}");
        }
        assert_eq!(try_out(&program, &frames.template), (XDP_DROP as u32, frames.template.clone()), "{words}");
        assert_eq!(program.state().unwrap().number, 50);
    }
}

fn waits_until_a_burst_is_due() {
    let lo = Interface::find("lo").unwrap();
    let frames = Frames::new(&arguments(""));
    // An hour between two frames: after the burst that starts the clock, none is due for a long time.
    let plan = BlastPlan { length: u64::MAX, packets: u64::MAX, period: 3_600_000_000_000 << FRACTION };
    let program = XdpProgram::new(&lo, &frames, plan).unwrap();
    (0..100).for_each(|_| drop(try_out(&program, &frames.template)));
    assert_eq!(program.state().unwrap().number, 2 * BURST as u64);
}
