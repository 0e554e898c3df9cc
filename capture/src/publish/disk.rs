//! Changes of the disk that the spool makes. Its simulator lets any of them fail.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

pub(super) fn create(path: &Path) -> io::Result<File> {
    #[cfg(test)]
    faults::before(true)?;
    File::create(path)
}

pub(super) fn remove(path: &Path) -> io::Result<()> {
    #[cfg(test)]
    faults::before(false)?;
    fs::remove_file(path)
}

pub(super) fn write(file: &File, octets: &[u8], at: u64) -> io::Result<()> {
    #[cfg(test)]
    if let Err(error) = faults::check(true) {
        // Some of it is on the disk.
        file.write_all_at(&octets[..octets.len() / 2], at)?;
        return faults::happen(error);
    }
    file.write_all_at(octets, at)
}

pub(super) fn truncate(file: &File, octets: u64) -> io::Result<()> {
    #[cfg(test)]
    faults::before(false)?;
    file.set_len(octets)
}

/// Makes the system write a file's octets to the disk.
pub(super) fn sync(file: &File) -> io::Result<()> {
    #[cfg(test)]
    faults::before(false)?;
    file.sync_data()
}

/// The same for a folder's names.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    #[cfg(test)]
    faults::before(false)?;
    File::open(folder)?.sync_all()
}

/// Faults of the simulated disk of this thread.
#[cfg(test)]
pub(super) mod faults {
    use std::cell::Cell;
    use std::io;

    #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
    pub enum Disk {
        Works,
        /// Nothing can be added.
        Full,
        /// Nothing can be changed.
        Broken,
        /// The process is killed in the middle of a change, after this many others.
        KillsAfter(u32),
        /// The process is dead, and changes nothing.
        Killed,
    }

    /// The payload of the panic that simulates the death of the process.
    pub struct Killed;

    thread_local! {
        static DISK: Cell<Disk> = const { Cell::new(Disk::Works) };
    }

    pub fn set(disk: Disk) {
        DISK.set(disk);
    }

    /// Whether a change works; `adds` if it needs room.
    pub(in super::super) fn check(adds: bool) -> io::Result<()> {
        match DISK.get() {
            Disk::Works => Ok(()),
            Disk::Full if !adds => Ok(()),
            Disk::Full => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
            Disk::KillsAfter(0) => {
                DISK.set(Disk::Killed);
                Err(io::Error::other("killed"))
            }
            Disk::KillsAfter(more) => {
                DISK.set(Disk::KillsAfter(more - 1));
                Ok(())
            }
            Disk::Broken | Disk::Killed => Err(io::Error::from_raw_os_error(libc::EIO)),
        }
    }

    pub(super) fn happen(error: io::Error) -> io::Result<()> {
        if error.to_string() == "killed" {
            std::panic::resume_unwind(Box::new(Killed));
        }
        Err(error)
    }

    pub(super) fn before(adds: bool) -> io::Result<()> {
        check(adds).or_else(happen)
    }
}
