//! The mutants that cargo-mutants lists, and the random choice among them.

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use xxhash_rust::xxh64::xxh64;

/// A place in a file, from 1; columns are characters.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Span {
    pub start: Place,
    pub end: Place,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub enum Genre {
    FnValue,
    BinaryOperator,
    UnaryOperator,
    MatchArm,
    MatchArmGuard,
    StructField,
}

/// A mutant as cargo-mutants lists it.
#[derive(Clone, Debug, Deserialize)]
pub struct Mutant {
    /// Its number among the chosen mutants, from 1.
    #[serde(skip)]
    pub number: u32,
    pub file: String,
    pub genre: Genre,
    /// `file:line:column: change`.
    name: String,
    pub replacement: String,
    pub span: Span,
    /// The line that it begins in, without blanks around it.
    #[serde(skip)]
    pub line: String,
    /// Its number among the mutants with the same file, change and line.
    #[serde(skip)]
    nth: usize,
    /// Whether it joins named flags by another operator with the same effect.
    #[serde(skip)]
    pub joins_flags: bool,
}

/// A mutant that no test can notice, as `equivalent.toml` lists it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Equivalent {
    file: String,
    change: String,
    /// The line of the source, without blanks around it.
    line: String,
    #[allow(dead_code)]
    reason: String,
}

#[derive(Deserialize)]
struct Equivalents {
    #[serde(default)]
    mutant: Vec<Equivalent>,
}

impl Mutant {
    /// Its place and its change.
    pub fn says(&self) -> String {
        self.name.replace('\n', " ")
    }

    /// Its change alone: `replace < with <= in Table::add`.
    pub fn change(&self) -> &str {
        let place = format!("{}:{}:{}: ", self.file, self.span.start.line, self.span.start.column);
        self.name.strip_prefix(&place).unwrap_or(&self.name)
    }

    /// A key that stays the same after changes elsewhere in the file.
    pub fn key(&self) -> String {
        format!("{}: {}: {}: {}", self.file, self.change(), self.line, self.nth)
    }

    /// The folder of its file below `src`.
    pub fn folder(&self) -> String {
        let below = self.file.trim_start_matches("src/");
        below.rsplit_once('/').map_or_else(|| ".".to_owned(), |(folder, _)| folder.to_owned())
    }
}

/// All mutants of the agent in files below `src/<folder>`, without its test helpers and the benchmarks' program.
pub fn all(capture: &Path, folder: &str) -> Result<Vec<Mutant>> {
    let output = Command::new("cargo")
        .args(["mutants", "--list", "--json", "--dir"])
        .arg(capture)
        .output()
        .context("cargo mutants cannot be run")?;
    if !output.status.success() {
        bail!("cargo mutants: {}", String::from_utf8_lossy(&output.stderr));
    }
    let mut mutants: Vec<Mutant> = serde_json::from_slice(&output.stdout)?;
    let wanted = format!("src/{folder}");
    mutants.retain(|mutant| {
        mutant.file.starts_with(&wanted) && !mutant.file.starts_with("src/bin/") && mutant.file != "src/main.rs"
    });
    let mut sources: HashMap<String, Vec<String>> = HashMap::new();
    let mut seen: HashMap<String, usize> = HashMap::new();
    for mutant in &mut mutants {
        if !sources.contains_key(&mutant.file) {
            let text = std::fs::read_to_string(capture.join(&mutant.file))?;
            sources.insert(mutant.file.clone(), text.lines().map(str::to_owned).collect());
        }
        let line = &sources[&mutant.file][mutant.span.start.line - 1];
        mutant.line = line.trim().to_owned();
        mutant.joins_flags =
            mutant.change().starts_with("replace | with ^ ") && joins_flags(line, mutant.span.start.column);
        let nth = seen.entry(mutant.key()).or_default();
        mutant.nth = *nth;
        *nth += 1;
    }
    Ok(mutants)
}

/// Whether the operator at this column, from 1, stands between two named constants: the bits of such flags differ, so that
/// OR and exclusive OR give the same.
fn joins_flags(line: &str, column: usize) -> bool {
    let of_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let is_constant = |path: &str| {
        let name = path.rsplit("::").next().unwrap_or_default();
        name.len() > 1 && !name.chars().any(char::is_lowercase) && name.starts_with(char::is_alphabetic)
    };
    let (before, after): (String, String) =
        (line.chars().take(column - 1).collect(), line.chars().skip(column).collect());
    let left = before.trim_end();
    let left = &left[left.rfind(|c| !of_path(c)).map_or(0, |at| at + 1)..];
    let right = after.trim_start();
    let right = &right[..right.find(|c| !of_path(c)).unwrap_or(right.len())];
    is_constant(left) && is_constant(right)
}

/// Chooses `count` of them: those whose keys have the smallest hashes, so that a change of the sources does not affect
/// the choice of the others.
pub fn drawn(mut mutants: Vec<Mutant>, count: usize, seed: u64) -> Vec<Mutant> {
    mutants.sort_by_cached_key(|mutant| xxh64(mutant.key().as_bytes(), seed));
    mutants.truncate(count);
    mutants.sort_by(|one, other| {
        let place = |mutant: &Mutant| (mutant.file.clone(), mutant.span.start.line, mutant.span.start.column);
        place(one).cmp(&place(other))
    });
    (1..).zip(&mut mutants).for_each(|(number, mutant)| mutant.number = number);
    mutants
}

/// The content of the list of equivalent mutants.
pub fn equivalents(path: &Path) -> Result<Vec<Equivalent>> {
    let text = std::fs::read_to_string(path)?;
    Ok(toml::from_str::<Equivalents>(&text).with_context(|| path.display().to_string())?.mutant)
}

impl Equivalent {
    pub fn is(&self, mutant: &Mutant) -> bool {
        self.file == mutant.file && self.change == mutant.change() && self.line == mutant.line
    }

    pub fn says(&self) -> String {
        format!("{}: {}: {}", self.file, self.change, self.line)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn mutant(number: u32, genre: Genre, from: (usize, usize), to: (usize, usize), replacement: &str) -> Mutant {
        let place = |(line, column)| Place { line, column };
        Mutant {
            number,
            file: "src/a/b.rs".to_owned(),
            genre,
            name: format!("src/a/b.rs:{}:{}: change {number}", from.0, from.1),
            replacement: replacement.to_owned(),
            span: Span { start: place(from), end: place(to) },
            line: String::new(),
            nth: 0,
            joins_flags: false,
        }
    }

    #[test]
    fn the_draw_is_the_same_after_a_change_elsewhere() {
        let of = |range: std::ops::Range<u32>| -> Vec<Mutant> {
            range.map(|number| mutant(number, Genre::FnValue, (number as usize, 1), (number as usize, 2), "")).collect()
        };
        let changes = |drawn: Vec<Mutant>| -> Vec<String> { drawn.iter().map(|one| one.change().to_owned()).collect() };
        let (all, fewer) = (changes(drawn(of(1..101), 20, 7)), changes(drawn(of(2..101), 20, 7)));
        assert!(fewer.iter().filter(|one| all.contains(one)).count() >= 19);
        assert_ne!(all, changes(drawn(of(1..101), 20, 8)));
    }

    #[test]
    fn only_named_constants_are_flags() {
        let column = |line: &str| line.find('|').expect("an operator") + 1;
        for line in ["let a = libc::O_RDONLY | libc::O_CLOEXEC;", "f(tcp::SYN | ACK, 1)"] {
            assert!(joins_flags(line, column(line)), "{line}");
        }
        for line in ["number << 8 | u64::from(octet)", "flags |= tcp::SYN", "a(B) | C", "FLAG | other", "A | B"] {
            assert!(!joins_flags(line, column(line)), "{line}");
        }
    }
}
