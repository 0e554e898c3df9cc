//! `make mutants PART=capture`: finds changes of the agent that its tests would not detect.
//!
//! cargo-mutants lists the changes, and a seed chooses some of them ([`list`]); all of these are compiled into one
//! build, each behind a switch ([`switch`], [`build`]); then each is switched on for the tests that reach it ([`run`]).

mod build;
mod list;
mod run;
mod switch;

use anyhow::{Context as _, Result};
use clap::Parser;
use list::Mutant;
use run::{Fate, Test};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Tests the agent's tests with randomly chosen mutants
#[derive(Parser)]
struct Options {
    /// Only files below this folder of `src`, or of this name: `collect/`
    #[arg(long, default_value = "")]
    only: String,
    /// Only tests whose names contain this
    #[arg(long, default_value = "")]
    tests: String,
    /// How many to draw
    #[arg(long, default_value_t = 600)]
    drawn: usize,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Trust an earlier run on the mutants that it killed, and run the others again
    #[arg(long)]
    again: bool,
    /// Tests at once [default: one for each core]
    #[arg(long)]
    lanes: Option<usize>,
    /// The agent's folder
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/.."))]
    capture: PathBuf,
}

/// The result for one mutant, as in the JSON file.
#[derive(Clone, Serialize, Deserialize)]
struct Outcome {
    key: String,
    mutant: String,
    folder: String,
    fate: Fate,
    /// The test that detected it.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
}

/// The data kept between runs.
#[derive(Default, Serialize, Deserialize)]
struct Results {
    /// Identifies the build that the fates belong to.
    fingerprint: u64,
    outcomes: Vec<Outcome>,
    /// Keys of mutants that do not compile behind a switch.
    unfit: BTreeSet<String>,
    equivalent: BTreeMap<String, usize>,
}

/// The mutants that each test reaches, for one build.
#[derive(Serialize, Deserialize)]
struct Reached {
    fingerprint: u64,
    /// Text that their names contain.
    only: String,
    tests: Vec<Test>,
    failed: Vec<String>,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let capture = options.capture.canonicalize()?;
    let checkout = capture.parent().context("the agent's folder is in the checkout")?;
    let folder = checkout.join(".weir/mutants");
    let (results_path, reached_path) = (folder.join("results.json"), folder.join("reached.json"));
    let lanes = options.lanes.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));

    let equivalents = list::equivalents(&capture.join("mutants/equivalent.toml"))?;
    let all = list::all(&capture, &options.only)?;
    if options.only.is_empty() {
        for stale in equivalents.iter().filter(|one| !all.iter().any(|mutant| one.is(mutant))) {
            println!("equivalent.toml lists changes that are not mutants: {}", stale.says());
        }
    }
    println!("{} mutants; {} drawn with seed {}", all.len(), options.drawn.min(all.len()), options.seed);
    let mut before: Results = read(&results_path).unwrap_or_default();
    let mut results = Results { unfit: std::mem::take(&mut before.unfit), ..Results::default() };
    let (equivalent, mut mutants): (Vec<Mutant>, Vec<Mutant>) = list::drawn(all, options.drawn, options.seed)
        .into_iter()
        .partition(|mutant| mutant.joins_flags || equivalents.iter().any(|one| one.is(mutant)));
    for mutant in equivalent {
        *results.equivalent.entry(mutant.folder()).or_default() += 1;
    }
    let mut unfit = Vec::new();
    mutants.retain(|mutant| {
        let fits = !results.unfit.contains(&mutant.key());
        if !fits {
            unfit.push(mutant.clone());
        }
        fits
    });

    println!("▸ building (.weir/mutants; some minutes the first time)");
    let copy = build::Copy::make(folder.clone(), &capture, &mutants)?;
    let built = copy.build(&capture, &mut mutants, &mut unfit)?;
    results.unfit.extend(unfit.iter().map(Mutant::key));
    results.fingerprint = built.fingerprint;
    println!("{} mutants compiled in; {} do not compile behind a switch", mutants.len(), unfit.len());

    let progress = Progress::new("tests run alone");
    let reached = match read::<Reached>(&reached_path) {
        Some(reached) if reached.fingerprint == built.fingerprint && reached.only == options.tests => reached,
        _ => {
            let most = mutants.iter().map(|mutant| mutant.number).max().unwrap_or(0);
            let (tests, failed) =
                run::tests(&built, &options.tests, most as usize, copy.capture(), lanes, &|done, all| {
                    progress.say(done, all, "")
                })?;
            let reached = Reached { fingerprint: built.fingerprint, only: options.tests.clone(), tests, failed };
            write(&reached_path, &reached)?;
            reached
        }
    };
    for test in &reached.failed {
        println!("left out, it fails without a mutant: {test}");
    }

    let known = |mutant: &Mutant| {
        let key = mutant.key();
        let outcome = before.outcomes.iter().find(|outcome| outcome.key == key)?;
        let trusted = options.again && outcome.fate == Fate::Killed;
        (before.fingerprint == built.fingerprint && !options.again || trusted)
            .then(|| Outcome { mutant: mutant.says(), ..outcome.clone() })
    };
    let (mut todo, all) = (Vec::new(), mutants.len());
    for mutant in mutants {
        match known(&mutant) {
            Some(outcome) => results.outcomes.push(outcome),
            None => todo.push(mutant),
        }
    }
    let (todo, results) = (Mutex::new(todo.into_iter()), Mutex::new(results));
    let progress = Progress::new("mutants");
    run::in_lanes(lanes, || {
        while let Some(mutant) = run::next(&todo) {
            let (fate, by) = run::fate(&built, &reached.tests, mutant.number, copy.capture())?;
            let mut results = results.lock().expect("no lane panics");
            let (key, folder) = (mutant.key(), mutant.folder());
            results.outcomes.push(Outcome { key, mutant: mutant.says(), folder, fate, by });
            write(&results_path, &*results)?;
            let killed = results.outcomes.iter().filter(|outcome| outcome.fate == Fate::Killed).count();
            progress.say(results.outcomes.len(), all, &format!(", {killed} killed"));
        }
        Ok(())
    })?;
    let results = results.into_inner().expect("no lane panics");
    write(&results_path, &results)?;
    report(&results, unfit.len(), &folder)
}

/// Writes the list of survivors, and prints the table; its last row is that of all.
fn report(results: &Results, unfit: usize, folder: &Path) -> Result<()> {
    let mut rows: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
    for outcome in &results.outcomes {
        for row in [outcome.folder.as_str(), "~all"] {
            rows.entry(row).or_default()[outcome.fate as usize] += 1;
        }
    }
    for (folder, count) in &results.equivalent {
        for row in [folder.as_str(), "~all"] {
            rows.entry(row).or_default()[3] += count;
        }
    }
    println!("\nBesides, {unfit} drawn mutants do not compile behind a switch.");
    let mut left: Vec<&Outcome> = results.outcomes.iter().filter(|outcome| outcome.fate != Fate::Killed).collect();
    left.sort_by_key(|outcome| &outcome.mutant);
    let path = folder.join("survivors.txt");
    let line = |outcome: &&Outcome| {
        let reached = if outcome.fate == Fate::NotReached { " (not reached)" } else { "" };
        format!("{}{reached}\n", outcome.mutant)
    };
    std::fs::write(&path, left.iter().map(line).collect::<String>())?;
    println!("Survivors: {}; all: {}", path.display(), folder.join("results.json").display());
    println!(
        "\n| folder | drawn | killed | survived | not reached | equivalent | killed, % |\n|---|---:|---:|---:|---:|---:|---:|"
    );
    for (folder, [killed, survived, not_reached, equivalent]) in rows {
        let of = killed + survived + not_reached;
        let percent = if of == 0 { "".to_owned() } else { format!("{:.1}", 100.0 * killed as f64 / of as f64) };
        let folder = folder.trim_start_matches('~');
        let drawn = of + equivalent;
        println!("| {folder} | {drawn} | {killed} | {survived} | {not_reached} | {equivalent} | {percent} |");
    }
    Ok(())
}

/// Prints the progress of a stage every few seconds.
struct Progress {
    what: &'static str,
    began: Instant,
    said: Mutex<Instant>,
}

impl Progress {
    fn new(what: &'static str) -> Progress {
        Progress { what, began: Instant::now(), said: Mutex::new(Instant::now()) }
    }

    fn say(&self, done: usize, all: usize, more: &str) {
        let mut said = self.said.lock().expect("no lane panics");
        if done == all || said.elapsed() > Duration::from_secs(10) {
            *said = Instant::now();
            let minutes = self.began.elapsed().as_secs() / 60;
            println!("  {done} of {all} {}{more}; {minutes} min", self.what);
            let _ = std::io::stdout().flush();
        }
    }
}

fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> Option<T> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// Writes a file completely or not at all.
fn write(path: &Path, value: &impl Serialize) -> Result<()> {
    let beside = path.with_extension("new");
    std::fs::write(&beside, serde_json::to_vec_pretty(value)?)?;
    Ok(std::fs::rename(beside, path)?)
}
