//! Capturing in a network namespace other than the one from which the agent reaches Kafka.

use anyhow::{Context as _, anyhow};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Keeps the calling thread in another network namespace until dropped; threads that it starts meanwhile stay there.
pub struct Entered {
    home: Option<File>,
}

/// Enters the namespace of this name (as `ip netns` knows it) or path; with an empty name, the thread stays where it
/// is.
///
/// # Errors
/// If there is none, or entering is not allowed: it needs CAP_SYS_ADMIN.
pub fn enter(name: &str) -> anyhow::Result<Entered> {
    if name.is_empty() {
        return Ok(Entered { home: None });
    }
    let path = if name.contains('/') { PathBuf::from(name) } else { Path::new("/run/netns").join(name) };
    let home = File::open("/proc/thread-self/ns/net").context("this thread's network namespace")?;
    let target = File::open(&path).with_context(|| format!("there is no network namespace {}", path.display()))?;
    set(&target)
        .map_err(|error| anyhow!("cannot enter the network namespace {name}: {error} (it needs CAP_SYS_ADMIN)"))?;
    Ok(Entered { home: Some(home) })
}

impl Entered {
    /// Stays in the namespace for good: a thread that lacks the capability to return must.
    pub fn stay(mut self) {
        self.home = None;
    }
}

fn set(namespace: &File) -> std::io::Result<()> {
    // SAFETY: plain call on a descriptor that is open.
    match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(home) = &self.home {
            // A thread that could enter can return; if it cannot, it must not continue in the wrong network.
            set(home).expect("return to the network namespace this thread came from");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_is_missing() {
        assert!(enter("").is_ok());
        let error = enter("no-such-namespace").err().map(|error| format!("{error:#}")).unwrap_or_default();
        assert!(error.contains("there is no network namespace /run/netns/no-such-namespace"), "{error}");
    }
}
