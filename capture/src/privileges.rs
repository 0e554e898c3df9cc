//! Least privilege: once its sources are open, the agent drops the privileges that it no longer needs.

use anyhow::Context as _;
use caps::{CapSet, Capability, CapsHashSet};
use std::io;

/// Puts the capabilities that the calling thread may use into effect. A program that has them from its file alone
/// (`setcap …=p`) begins without; unlike `=ep`, that lets it start where some are withheld, and is then refused only what
/// needs them.
///
/// # Errors
/// Those of the system.
pub fn use_permitted() -> anyhow::Result<()> {
    let what = "cannot use capabilities";
    let permitted = caps::read(None, CapSet::Permitted).context(what)?;
    caps::set(None, CapSet::Effective, &permitted).context(what)
}

/// Restricts the calling thread, and threads it starts later, to these capabilities for good; returns those it keeps.
/// Threads already running do not change.
///
/// # Errors Those of the system.
pub fn keep_only(wanted: &[Capability]) -> anyhow::Result<CapsHashSet> {
    let what = "cannot give up capabilities";
    // SAFETY: plain call without memory of ours.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error()).context("cannot give up new privileges");
    }
    let permitted = caps::read(None, CapSet::Permitted).context(what)?;
    // These sets limit programs started from here. Clearing the bounding set needs CAP_SETPCAP; without it,
    // no_new_privs still prevents any gain.
    if permitted.contains(&Capability::CAP_SETPCAP) {
        caps::clear(None, CapSet::Bounding).context(what)?;
    }
    caps::clear(None, CapSet::Ambient).context(what)?;
    caps::clear(None, CapSet::Inheritable).context(what)?;
    let kept: CapsHashSet = wanted.iter().copied().filter(|capability| permitted.contains(capability)).collect();
    caps::set(None, CapSet::Effective, &kept).context(what)?;
    caps::set(None, CapSet::Permitted, &kept).context(what)?;
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_uses_what_it_may() {
        let (permitted, effective) = std::thread::spawn(|| {
            caps::clear(None, CapSet::Effective).unwrap();
            use_permitted().unwrap();
            (caps::read(None, CapSet::Permitted).unwrap(), caps::read(None, CapSet::Effective).unwrap())
        })
        .join()
        .unwrap();
        assert_eq!(effective, permitted);
    }

    #[test]
    fn a_thread_keeps_what_it_is_told_to_and_others_are_as_before() {
        let before = caps::read(None, CapSet::Effective).unwrap();
        let (kept, effective) = std::thread::spawn(|| {
            let kept = keep_only(&[Capability::CAP_NET_ADMIN]).unwrap();
            (kept, caps::read(None, CapSet::Effective).unwrap())
        })
        .join()
        .unwrap();
        assert_eq!(kept, effective);
        assert!(kept.iter().all(|kept| *kept == Capability::CAP_NET_ADMIN && before.contains(kept)));
        assert_eq!(caps::read(None, CapSet::Effective).unwrap(), before);
    }
}
