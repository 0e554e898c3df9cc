//! Runs the tests: each alone to learn which mutants it reaches, then each mutant with those that reach it.

use crate::build::{Built, Program};
use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The longest that a test may take without a mutant.
const LONGEST: Duration = Duration::from_secs(300);
/// With a mutant, tests may take `SLOWER` times as long as without, and `PATIENCE` more.
const SLOWER: u32 = 5;
const PATIENCE: Duration = Duration::from_secs(20);
/// Tests that take less than this together are run in one process.
const AT_ONCE: Duration = Duration::from_millis(500);
/// Memory limit of a test, because a mutant may request all memory.
const MEMORY: u64 = 8 << 30;

/// A test that passes without mutants.
#[derive(Debug, Serialize, Deserialize)]
pub struct Test {
    /// The index of its program.
    program: usize,
    pub name: String,
    time: Duration,
    /// The numbers of the mutants that it reaches.
    pub reaches: BTreeSet<u32>,
}

/// How a mutant fared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    Killed,
    Survived,
    NotReached,
}

struct Ended {
    /// `None` if the time limit ended it.
    status: Option<ExitStatus>,
    said: String,
}

impl Ended {
    fn passed(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// The tests that failed, as the harness names them.
    fn failed(&self) -> Vec<&str> {
        let failed = |line: &str| line.starts_with("test ") && line.ends_with("... FAILED");
        let lines = self.said.lines().filter(|line| failed(line));
        lines.filter_map(|line| line.split_whitespace().nth(1)).collect()
    }
}

/// The tests of all programs whose names contain `only`: the tests that pass, and the names of those that do not.
pub fn tests(
    built: &Built,
    only: &str,
    mutants: usize,
    cwd: &Path,
    lanes: usize,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<(Vec<Test>, Vec<String>)> {
    let mut named = Vec::new();
    for (index, program) in built.programs.iter().enumerate() {
        let output = Command::new(&program.path).args(["--list", "--format", "terse"]).current_dir(cwd).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        named.extend(text.lines().filter_map(|line| Some((index, line.strip_suffix(": test")?.to_owned()))));
        named.retain(|(_, name)| name.contains(only));
    }
    let all = named.len();
    let (todo, done) = (Mutex::new(named.into_iter()), Mutex::new((Vec::new(), Vec::new())));
    in_lanes(lanes, || {
        while let Some((index, name)) = next(&todo) {
            let program = &built.programs[index];
            let folder = tempfile::tempdir()?;
            let reached = folder.path().join("reached");
            // Tests may run the agent as another user.
            fs::write(&reached, "")?;
            fs::set_permissions(&reached, fs::Permissions::from_mode(0o666))?;
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777))?;
            let mut command = command(program, &[&name], cwd);
            command.env("WEIR_MUTANTS", mutants.to_string()).env("WEIR_MUTANTS_REACHED", &reached);
            let began = Instant::now();
            let ended = ended(command, LONGEST)?;
            let time = began.elapsed();
            let mut done = done.lock().expect("no lane panics");
            if ended.passed() {
                let reaches = fs::read_to_string(&reached)?.lines().filter_map(|line| line.parse().ok()).collect();
                done.0.push(Test { program: index, name, time, reaches });
            } else {
                done.1.push(format!("{}: {name}", program.name));
            }
            progress(done.0.len() + done.1.len(), all);
        }
        Ok(())
    })?;
    let (mut tests, failed) = done.into_inner().expect("no lane panics");
    tests.sort_by_key(|test| (test.program, test.time));
    Ok((tests, failed))
}

/// Runs the mutant with the tests that reach it, the quick ones first; returns the test that failed.
pub fn fate(built: &Built, tests: &[Test], mutant: u32, cwd: &Path) -> Result<(Fate, Option<String>)> {
    let mut left: Vec<&Test> = tests.iter().filter(|test| test.reaches.contains(&mutant)).collect();
    if left.is_empty() {
        return Ok((Fate::NotReached, None));
    }
    left.sort_by_key(|test| (test.time > AT_ONCE, test.program, test.time));
    while !left.is_empty() {
        let together = if built.programs[left[0].program].alone() { 1 } else { at_once(&left) };
        let tests: Vec<&Test> = left.drain(..together).collect();
        if let Some(by) = failure(built, &tests, mutant, cwd)? {
            return Ok((Fate::Killed, Some(by)));
        }
    }
    Ok((Fate::Survived, None))
}

/// Number of tests, from the first on, to run in one process.
fn at_once(tests: &[&Test]) -> usize {
    let program = tests[0].program;
    let mut time = Duration::ZERO;
    let fits = |test: &&&Test| {
        time += test.time;
        test.program == program && time < AT_ONCE
    };
    tests.iter().take_while(fits).count().max(1)
}

/// The test that detects the mutant, among `tests`, which are all of one program.
fn failure(built: &Built, tests: &[&Test], mutant: u32, cwd: &Path) -> Result<Option<String>> {
    let program = &built.programs[tests[0].program];
    let run = |names: &[&str], time: Duration| {
        let mut command = command(program, names, cwd);
        command.env("WEIR_MUTANT", mutant.to_string());
        ended(command, time * SLOWER + PATIENCE)
    };
    let names: Vec<&str> = tests.iter().map(|test| test.name.as_str()).collect();
    let time = tests.iter().map(|test| test.time).sum();
    let first = run(&names, time)?;
    if first.passed() {
        return Ok(None);
    }
    let failed = first.failed();
    if first.status.is_none() || failed.is_empty() {
        let how = if first.status.is_none() { "time limit" } else { "crash" };
        return Ok(Some(format!("{how} in {}", names.join(" "))));
    }
    // A test that the load of the host made fail passes when it is run again.
    for name in failed {
        if !run(&[name], time)?.passed() {
            return Ok(Some(name.to_owned()));
        }
    }
    Ok(None)
}

fn command(program: &Program, names: &[&str], cwd: &Path) -> Command {
    let mut command = Command::new(&program.path);
    command.args(["--exact", "--test-threads=1"]).args(names).current_dir(cwd);
    command
}

/// Runs a program to its end or the time limit, and then ends the processes that it started.
fn ended(mut command: Command, limit: Duration) -> Result<Ended> {
    let folder = tempfile::tempdir()?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777))?;
    let said = folder.path().join("said");
    command.env("TMPDIR", folder.path()).stdin(Stdio::null()).stdout(File::create(&said)?).stderr(Stdio::null());
    command.process_group(0);
    // SAFETY: setrlimit is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            limited(libc::RLIMIT_AS, MEMORY)?;
            limited(libc::RLIMIT_CORE, 0)
        });
    }
    let mut child = command.spawn().context("a test program cannot be run")?;
    let began = Instant::now();
    let mut status = child.try_wait()?;
    while status.is_none() && began.elapsed() < limit {
        std::thread::sleep(Duration::from_millis(3));
        status = child.try_wait()?;
    }
    // SAFETY: ends the processes of the group that this child leads.
    unsafe { libc::kill(-(child.id() as libc::pid_t), libc::SIGKILL) };
    if status.is_none() {
        child.wait()?;
    }
    let said = String::from_utf8_lossy(&fs::read(&said)?).into_owned();
    Ok(Ended { status, said })
}

fn limited(resource: libc::__rlimit_resource_t, most: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: reads a valid structure.
    if unsafe { libc::setrlimit(resource, &raw const limit) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The next item that several lanes share.
pub fn next<T>(todo: &Mutex<impl Iterator<Item = T>>) -> Option<T> {
    todo.lock().expect("no lane panics").next()
}

/// Runs `work` in several threads.
pub fn in_lanes(lanes: usize, work: impl Fn() -> Result<()> + Sync) -> Result<()> {
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..lanes).map(|_| scope.spawn(&work)).collect();
        lanes.into_iter().try_for_each(|lane| lane.join().expect("a lane does not panic"))
    })
}
