//! State kept across runs: the epoch, after which the next run's comes, and the interface's counters at the last close,
//! from which the next run computes the gap.

use crate::host;
use crate::host::wall_clock_ns;
use crate::source::interface::Interface;
use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The state of a run at its last close.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct LastClose {
    /// The host's boot.
    pub boot_id: String,
    /// The interface.
    pub interface: String,
    /// Index of the interface; a recreated interface has another one.
    pub index: i32,
    /// Its counters.
    pub packets: u64,
    /// When, ms from the Unix epoch.
    pub closed_ms: i64,
    /// The run's last epoch, µs.
    pub epoch: u64,
}

/// The state of a run, which its workers share: its epoch, and the file from which the next run learns of it. The
/// default has no file.
///
/// The epoch is in the file before any message states it, so no later run can use it again, whatever the clock says.
#[derive(Clone, Debug)]
pub struct RunState(Arc<Mutex<Kept>>);

#[derive(Debug)]
struct Kept {
    path: Option<PathBuf>,
    now: LastClose,
    /// The last close, until all that was published before it is safe.
    closed: Option<LastClose>,
}

impl Default for RunState {
    fn default() -> RunState {
        let now = LastClose { epoch: new_epoch(0), ..LastClose::default() };
        RunState(Arc::new(Mutex::new(Kept { path: None, now, closed: None })))
    }
}

impl RunState {
    /// Creates the folder if missing, reads the last run's state, and chooses and keeps the new epoch: now, but later
    /// than the last one. Returns the last run's state, too.
    ///
    /// # Errors
    /// If it cannot create the folder or write the file. Invalid content is not an error: it is ignored.
    pub fn open(folder: &Path, probe: &str) -> anyhow::Result<(RunState, LastClose)> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make state_dir {}", folder.display()))?;
        let path = folder.join(format!("{probe}.json"));
        let last: LastClose =
            fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        // Until the first close, packets are missing from the last run's last close on.
        let now = LastClose { epoch: new_epoch(last.epoch), ..last.clone() };
        let kept = Kept { path: Some(path), now, closed: None };
        kept.write()?;
        Ok((RunState(Arc::new(Mutex::new(kept))), last))
    }

    pub fn epoch(&self) -> u64 {
        self.lock().now.epoch
    }

    /// The epoch that a worker enters when it ends `epoch` because the clock was set back: the first worker begins it,
    /// the others join it.
    pub fn epoch_after(&self, epoch: u64) -> u64 {
        let mut kept = self.lock();
        if kept.now.epoch <= epoch {
            kept.now.epoch = new_epoch(epoch);
            tracing::warn!(epoch = kept.now.epoch, "the clock was set back: beginning a new epoch");
            if let Err(error) = kept.write() {
                tracing::warn!("{error:#}: if the clock is set back again, the next run may use this epoch again");
            }
        }
        kept.now.epoch
    }

    /// Notes the interface's counters at a published close, and its time, ms from the Unix epoch.
    pub fn closed(&self, interface: &WatchedInterface, packets: u64, closed_ms: i64) {
        let WatchedInterface { boot_id, name, index } = interface.clone();
        self.lock().closed = Some(LastClose { boot_id, interface: name, index, packets, closed_ms, epoch: 0 });
    }

    /// Keeps the last close, now that no kill of the agent can lose what was published before it: the next run counts its
    /// gap from there.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn keep(&self) -> anyhow::Result<()> {
        let mut kept = self.lock();
        let Some(closed) = kept.closed.take() else { return Ok(()) };
        kept.now = LastClose { epoch: kept.now.epoch, ..closed };
        kept.write()
    }

    /// Whether a close waits to be kept.
    pub fn has_closed(&self) -> bool {
        self.lock().closed.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn write(&self) -> anyhow::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let new = path.with_extension("new");
        fs::write(&new, serde_json::to_vec(&self.now)?)
            .and_then(|()| fs::rename(&new, path))
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

/// An interface whose counters one run can compare with those of another.
#[derive(Clone, Debug, Default)]
pub struct WatchedInterface {
    boot_id: String,
    name: String,
    index: i32,
}

impl WatchedInterface {
    pub fn new(interface: &Interface) -> WatchedInterface {
        let boot_id = host::boot_id().unwrap_or_default();
        WatchedInterface { boot_id, name: interface.name.clone(), index: interface.index }
    }

    /// Packets and ms between the last run's last close and now, when the interface has counted `packets`; zeros where
    /// its counters cannot be compared.
    pub fn gap(&self, last: &LastClose, packets: u64) -> (u64, u64) {
        let same = !last.boot_id.is_empty()
            && (&last.boot_id, &last.interface, last.index) == (&self.boot_id, &self.name, self.index)
            && last.packets <= packets;
        let now_ms = wall_clock_ns() / 1_000_000;
        if same { (packets - last.packets, now_ms.saturating_sub(last.closed_ms).max(0) as u64) } else { (0, 0) }
    }
}

/// The epoch of a run that begins now, µs from the Unix epoch: later than `last`, whatever the clock says.
pub fn new_epoch(last: u64) -> u64 {
    (wall_clock_ns() / 1000).unsigned_abs().max(last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::LinkType;

    #[test]
    fn the_next_run_knows_the_gap_and_has_a_later_epoch() {
        let folder = tempfile::tempdir().unwrap();
        let interface = |index| {
            WatchedInterface::new(&Interface {
                name: "eth0".to_owned(),
                index,
                link: LinkType::Ethernet,
                loopback: false,
            })
        };
        let eth0 = interface(2);
        let (first, none) = RunState::open(folder.path(), "a").unwrap();
        assert_eq!(eth0.gap(&none, 1000), (0, 0));
        first.closed(&eth0, 1000, wall_clock_ns() / 1_000_000 - 5000);
        assert_eq!(RunState::open(folder.path(), "a").unwrap().1, LastClose { epoch: first.epoch(), ..none });
        first.keep().unwrap();
        let (second, last) = RunState::open(folder.path(), "a").unwrap();
        assert!(second.epoch() > first.epoch());
        let (packets, ms) = eth0.gap(&last, 1234);
        assert_eq!(packets, 234);
        assert!(ms >= 5000, "{ms}");
        // Counters that decreased, or a recreated interface, give no information.
        assert_eq!(eth0.gap(&last, 999), (0, 0));
        assert_eq!(interface(3).gap(&last, 1234), (0, 0));
        // A run that ended before its first close leaves what it found.
        assert_eq!(eth0.gap(&RunState::open(folder.path(), "a").unwrap().1, 1234).0, 234);
    }

    #[test]
    fn no_run_uses_an_epoch_of_another_though_the_clock_was_set_back() {
        let folder = tempfile::tempdir().unwrap();
        let ahead = LastClose { epoch: new_epoch(0) + 3_600_000_000, ..LastClose::default() };
        fs::write(folder.path().join("a.json"), serde_json::to_vec(&ahead).unwrap()).unwrap();
        let open = || RunState::open(folder.path(), "a").unwrap().0;
        let first = open();
        assert_eq!(first.epoch(), ahead.epoch + 1);
        // Both workers join the next epoch; one of them begins another.
        let second = first.epoch_after(first.epoch());
        assert_eq!((second, first.epoch_after(ahead.epoch + 1)), (ahead.epoch + 2, second));
        assert_eq!(first.epoch_after(second), ahead.epoch + 3);
        assert_eq!(first.epoch_after(first.epoch() - 2), ahead.epoch + 3, "one that missed an epoch");
        assert_eq!(open().epoch(), ahead.epoch + 4, "a run that never closed an interval");
        assert_eq!(open().epoch(), ahead.epoch + 5);
    }

    #[test]
    fn a_broken_file_is_no_state() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.json"), "{").unwrap();
        assert_eq!(RunState::open(folder.path(), "a").unwrap().1, LastClose::default());
        assert_eq!(new_epoch(u64::MAX / 2), u64::MAX / 2 + 1);
    }
}
