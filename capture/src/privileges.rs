//! Least privilege: once its sources are open, the agent gives up what it does not need to go on.

use anyhow::Context as _;
use caps::{CapSet, Capability, CapsHashSet};
use std::io;

/// Has the calling thread, and those it starts from now on, keep none but these capabilities, of those it has, and never
/// gain others; what it keeps. Threads that run already are as before.
///
/// # Errors
/// What the system says.
pub fn keep_only(wanted: &[Capability]) -> anyhow::Result<CapsHashSet> {
    let what = "cannot give up capabilities";
    // SAFETY: plain call without memory of ours.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error()).context("cannot give up new privileges");
    }
    let permitted = caps::read(None, CapSet::Permitted).context(what)?;
    // These sets say what programs started from here could gain. The bounding set needs CAP_SETPCAP; without it, there is
    // nothing to be gained all the same, as no new privileges are.
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
