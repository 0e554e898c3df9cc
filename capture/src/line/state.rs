//! State kept across runs: the interface's counters at the last close, from which the next run computes the gap.

use crate::host;
use crate::host::wall_clock_ns;
use crate::source::interface::Interface;
use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// The state of the last close.
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
    /// The epoch of that run, µs.
    pub epoch: u64,
}

/// The file with a probe's state.
#[derive(Clone, Debug)]
pub struct StateFile {
    path: PathBuf,
    fixed: LastClose,
}

impl StateFile {
    /// Creates the folder if missing, reads the last run's state, and chooses the new epoch: now, but later than the
    /// last one.
    ///
    /// # Errors
    /// If it cannot create the folder or write the file. Invalid content is not an error: it is ignored.
    pub fn open(folder: &Path, probe: &str, interface: &Interface) -> anyhow::Result<(StateFile, LastClose)> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make state_dir {}", folder.display()))?;
        let path = folder.join(format!("{probe}.json"));
        let last: LastClose =
            fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        let fixed = LastClose {
            boot_id: host::boot_id().unwrap_or_default(),
            interface: interface.name.clone(),
            index: interface.index,
            epoch: new_epoch(last.epoch),
            ..LastClose::default()
        };
        let file = StateFile { path, fixed };
        Ok((file, last))
    }

    pub fn epoch(&self) -> u64 {
        self.fixed.epoch
    }

    /// Keeps another epoch from the next [`StateFile::write`] on.
    pub fn set_epoch(&mut self, epoch: u64) {
        self.fixed.epoch = epoch;
    }

    /// Packets and ms between the last run's last close and now, when the interface has counted `packets`; zeros where
    /// its counters cannot be compared.
    pub fn gap(&self, last: &LastClose, packets: u64) -> (u64, u64) {
        let same = !last.boot_id.is_empty()
            && (&last.boot_id, &last.interface, last.index)
                == (&self.fixed.boot_id, &self.fixed.interface, self.fixed.index)
            && last.packets <= packets;
        let now_ms = wall_clock_ns() / 1_000_000;
        if same { (packets - last.packets, now_ms.saturating_sub(last.closed_ms).max(0) as u64) } else { (0, 0) }
    }

    /// Saves the interface's counters at a close, and its time, ms from the Unix epoch.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, packets: u64, closed_ms: i64) -> anyhow::Result<()> {
        let state = LastClose { packets, closed_ms, ..self.fixed.clone() };
        let new = self.path.with_extension("new");
        fs::write(&new, serde_json::to_vec(&state)?)
            .and_then(|()| fs::rename(&new, &self.path))
            .with_context(|| format!("cannot write {}", self.path.display()))
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
        let eth0 = Interface { name: "eth0".to_owned(), index: 2, link: LinkType::Ethernet, loopback: false };
        let (first, none) = StateFile::open(folder.path(), "a", &eth0).unwrap();
        assert_eq!(first.gap(&none, 1000), (0, 0));
        first.write(1000, wall_clock_ns() / 1_000_000 - 5000).unwrap();
        let (second, last) = StateFile::open(folder.path(), "a", &eth0).unwrap();
        assert!(second.epoch() > first.epoch());
        let (packets, ms) = second.gap(&last, 1234);
        assert_eq!(packets, 234);
        assert!(ms >= 5000, "{ms}");
        // Counters that decreased, or a recreated interface, give no information.
        assert_eq!(second.gap(&last, 999), (0, 0));
        let again = Interface { index: 3, ..eth0 };
        assert_eq!(StateFile::open(folder.path(), "a", &again).unwrap().0.gap(&last, 1234), (0, 0));
    }

    #[test]
    fn a_broken_file_is_no_state() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.json"), "{").unwrap();
        let lo = Interface { name: "lo".to_owned(), index: 1, link: LinkType::Ethernet, loopback: true };
        assert_eq!(StateFile::open(folder.path(), "a", &lo).unwrap().1, LastClose::default());
        assert_eq!(new_epoch(u64::MAX / 2), u64::MAX / 2 + 1);
    }
}
