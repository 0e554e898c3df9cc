//! Helpers for tests of the whole agent.

#![allow(dead_code)]

pub mod agent;
pub mod cluster;

use std::path::{Path, PathBuf};
use std::process::Command;

/// The program under test, with logs as users see them.
pub fn probe() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-probe"));
    command.env_remove("WEIR_LOG");
    command
}

/// A file or folder beside the tests.
pub fn own(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests").join(path)
}

/// The files in a folder and in those below it.
pub fn captures(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { captures(&path, found) } else { found.push(path) }
    }
}

/// The conservation law in a summary: captured = in records + not metered, for packets and octets.
pub fn assert_balanced(summary: &serde_json::Value, what: &str) {
    for unit in ["packets", "octets"] {
        let terms = &summary[unit];
        let of = |name: &str| terms[name].as_u64().unwrap_or_else(|| panic!("{what}: no {unit}.{name}"));
        let causes: u64 = terms["not_metered"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
        let sum = of("in_flow_records") + of("in_overflow_records") + causes;
        assert_eq!(of("captured"), sum, "{what}: {unit} of {summary}");
        assert!(of("late") <= of("captured"), "{what}");
    }
}
