//! All captures of `../shared/pcaps`, if present: no crash, no hang, and conservation in every summary.

use crate::common::{assert_balanced, captures, probe};
use crate::needs::{Need, live};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

live! {
    [Need::SharedCaptures] => every_shared_capture_is_read;
}

/// Far longer than any of them takes.
const HANGS_AFTER: Duration = Duration::from_secs(120);

/// The folder of the captures.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/pcaps")
}

fn every_shared_capture_is_read() {
    let folder = folder();
    let mut files = Vec::new();
    captures(&folder, &mut files);
    let next = AtomicUsize::new(0);
    let statuses: Vec<AtomicUsize> = (0..4).map(|_| AtomicUsize::new(0)).collect();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let status = read(path);
                    statuses[status].fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let count = |status: usize| statuses[status].load(Ordering::Relaxed);
    eprintln!("{} captures: {} whole, {} refused, {} breaking off", files.len(), count(0), count(2), count(3));
    assert_eq!(count(1), 0, "none fails");
    assert!(count(0) > files.len() * 9 / 10, "most are of a kind that is understood");
}

/// Reads one capture and returns the exit status.
fn read(path: &Path) -> usize {
    let name = path.display();
    let mut child = probe()
        .arg("read")
        .arg(path)
        .args(["--summary", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > HANGS_AFTER {
            child.kill().unwrap();
            panic!("{name} hangs");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let status = output.status.code().unwrap_or_else(|| panic!("{name} was killed by a signal: {error}"));
    assert!(!error.contains("panicked"), "{name}: {error}");
    match status {
        0 | 3 => {
            let summary = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{name}: no summary"));
            assert_balanced(&summary, &name.to_string());
            assert_eq!(summary["packets"]["seen"], summary["packets"]["captured"], "{name}");
        }
        2 => assert_eq!(error.lines().count(), 1, "{name}: {error}"),
        _ => panic!("{name} ends with {status}: {error}"),
    }
    status as usize
}
