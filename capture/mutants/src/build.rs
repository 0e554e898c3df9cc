//! Builds a copy of the checkout with switches in it, and its test programs.

use crate::list::Mutant;
use crate::switch;
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use xxhash_rust::xxh64::Xxh64;

/// Folders of `capture/` that are not copied: build results, and this program.
const NOT_COPIED: [&str; 3] = ["target", "mutants", "corpus"];
/// Files that are written instead: the one that declares the module of the switches, and the module itself.
const LIB: &str = "src/lib.rs";
const SWITCHES: &str = "src/mutant_switches.rs";
/// The test program whose harness takes the name of one test only.
const LIVE: &str = "live";

/// The copy, and the files kept beside it.
pub struct Copy {
    pub folder: PathBuf,
    capture: PathBuf,
}

/// The test programs of the copy.
pub struct Built {
    pub programs: Vec<Program>,
    /// Fingerprint of everything that was compiled.
    pub fingerprint: u64,
}

pub struct Program {
    pub name: String,
    pub path: PathBuf,
}

impl Program {
    /// Whether each of its tests is run by itself.
    pub fn alone(&self) -> bool {
        self.name == LIVE
    }
}

impl Copy {
    /// Copies all files that have changed since the last copy, except the mutants' files; `capture` is the agent's
    /// folder in the checkout.
    pub fn make(folder: PathBuf, capture: &Path, mutants: &[Mutant]) -> Result<Copy> {
        let checkout = capture.parent().context("the agent's folder is in the checkout")?;
        let copy = Copy { capture: folder.join("checkout/capture"), folder };
        fs::create_dir_all(&copy.capture)?;
        linked(&checkout.join("schemas"), &copy.folder.join("checkout/schemas"))?;
        let shared = checkout.with_file_name("shared");
        if shared.is_dir() {
            linked(&shared, &copy.folder.join("shared"))?;
        }
        let mut written: BTreeSet<PathBuf> = mutants.iter().map(|mutant| copy.capture.join(&mutant.file)).collect();
        written.extend([LIB, SWITCHES].map(|file| copy.capture.join(file)));
        copied(capture, &copy.capture, &written)?;
        Ok(copy)
    }

    /// The folder in which test programs run.
    pub fn capture(&self) -> &Path {
        &self.capture
    }

    /// Writes the switches into it and compiles it; removes mutants that do not compile.
    pub fn build(&self, capture: &Path, mutants: &mut Vec<Mutant>, unfit: &mut Vec<Mutant>) -> Result<Built> {
        let files: BTreeSet<String> = mutants.iter().map(|mutant| mutant.file.clone()).collect();
        written(&self.capture.join(SWITCHES), include_str!("switches.rs.txt"))?;
        let lib = fs::read_to_string(capture.join(LIB))? + "\npub mod mutant_switches;\n";
        written(&self.capture.join(LIB), &lib)?;
        let mut changed: BTreeMap<String, String> = BTreeMap::new();
        let mut again = files;
        loop {
            for file in &again {
                let of: Vec<&Mutant> = mutants.iter().filter(|mutant| &mutant.file == file).collect();
                let source = if file == LIB { lib.clone() } else { fs::read_to_string(capture.join(file))? };
                let switched = switch::switched(&source, &of)?;
                written(&self.capture.join(file), &switched)?;
                changed.insert(file.clone(), switched);
            }
            let blamed = blamed(&self.cargo(&["check", "--lib"])?, &changed)?;
            if blamed.is_empty() {
                break;
            }
            let (kept, bad) = mutants.drain(..).partition(|mutant| !blamed.contains(&mutant.number));
            *mutants = kept;
            again = bad.iter().map(|mutant: &Mutant| mutant.file.clone()).collect();
            unfit.extend(bad);
        }
        self.programs()
    }

    /// The programs of the tests; those of tests/live need root.
    fn programs(&self) -> Result<Built> {
        let mut words = vec!["test", "--no-run", "--lib", "--test", "it"];
        // SAFETY: only asks.
        if unsafe { libc::geteuid() } == 0 {
            words.extend(["--test", LIVE]);
        }
        let messages = self.cargo(&words)?;
        let mut programs = Vec::new();
        for message in messages {
            let test = message["profile"]["test"].as_bool() == Some(true);
            if let (true, Some(path)) = (test, message["executable"].as_str()) {
                let name = message["target"]["name"].as_str().unwrap_or_default().to_owned();
                programs.push(Program { name, path: path.into() });
            } else if message["message"]["level"] == "error" {
                bail!("the copy does not compile: {}", message["message"]["rendered"].as_str().unwrap_or_default());
            }
        }
        let mut all = Xxh64::new(0);
        fingerprint(&self.capture, &mut all)?;
        Ok(Built { programs, fingerprint: all.digest() })
    }

    /// Cargo's messages about the copy.
    fn cargo(&self, words: &[&str]) -> Result<Vec<Value>> {
        let output = Command::new("cargo")
            .args(words)
            .args(["--locked", "--quiet", "--message-format=json", "--target-dir"])
            .arg(self.folder.join("target"))
            .current_dir(&self.capture)
            .stderr(Stdio::null())
            .output()?;
        let lines = output.stdout.split(|octet| *octet == b'\n').filter(|line| line.starts_with(b"{"));
        lines.map(|line| Ok(serde_json::from_slice(line)?)).collect()
    }
}

/// The mutants in which the compiler found errors.
fn blamed(messages: &[Value], changed: &BTreeMap<String, String>) -> Result<BTreeSet<u32>> {
    let mut all = BTreeSet::new();
    let mut unknown = None;
    for message in messages.iter().map(|message| &message["message"]) {
        let spans = message["spans"].as_array().map_or(&[][..], Vec::as_slice);
        if message["level"] != "error" || spans.is_empty() {
            continue;
        }
        let place = |span: &&Value| {
            let (file, octet) = (span["file_name"].as_str()?, span["byte_start"].as_u64()?);
            Some((changed.get(file)?, octet as usize))
        };
        let (first, rest): (Vec<&Value>, Vec<&Value>) = spans.iter().partition(|span| span["is_primary"] == true);
        let places: Vec<_> = first.iter().chain(&rest).filter_map(place).collect();
        let within =
            places.iter().map(|(source, octet)| switch::blamed(source, *octet)).find(|found| !found.is_empty());
        let beside =
            |blame: fn(&str, usize) -> Option<u32>| places.iter().find_map(|(source, octet)| blame(source, *octet));
        match within {
            Some(found) => all.extend(found),
            None => match beside(switch::blamed_before).or_else(|| beside(switch::blamed_after)) {
                Some(found) => _ = all.insert(found),
                None => unknown = message["rendered"].as_str(),
            },
        }
    }
    match unknown {
        Some(error) if all.is_empty() => bail!("an error in no mutant: {error}"),
        _ => Ok(all),
    }
}

fn linked(to: &Path, at: &Path) -> Result<()> {
    match std::os::unix::fs::symlink(to, at) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error.into()),
        _ => Ok(()),
    }
}

/// Writes a file if its content differs, so that cargo builds only changed files.
fn written(path: &Path, text: &str) -> Result<()> {
    if fs::read(path).ok().as_deref() != Some(text.as_bytes()) {
        fs::write(path, text)?;
    }
    Ok(())
}

/// Copies a folder except these files, and deletes files that the original lacks.
fn copied(from: &Path, to: &Path, except: &BTreeSet<PathBuf>) -> Result<()> {
    fs::create_dir_all(to)?;
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, copy) = (entry.path(), to.join(entry.file_name()));
        if NOT_COPIED.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        names.insert(entry.file_name());
        if path.is_dir() {
            copied(&path, &copy, except)?;
        } else if !except.contains(&copy) && fs::read(&copy).ok() != Some(fs::read(&path)?) {
            fs::copy(&path, &copy)?;
        }
    }
    for entry in fs::read_dir(to)? {
        let entry = entry?;
        if !names.contains(&entry.file_name()) && !except.contains(&entry.path()) {
            if entry.path().is_dir() { fs::remove_dir_all(entry.path())? } else { fs::remove_file(entry.path())? }
        }
    }
    Ok(())
}

fn fingerprint(folder: &Path, all: &mut Xxh64) -> Result<()> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            fingerprint(&path, all)?;
        } else {
            all.update(path.as_os_str().as_encoded_bytes());
            all.update(&fs::read(&path)?);
        }
    }
    Ok(())
}
