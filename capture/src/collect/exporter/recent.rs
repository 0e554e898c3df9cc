//! Datagrams that arrived recently, by a hash of their content: a copy is not read again.

use foldhash::fast::RandomState;
use std::collections::HashSet;

/// Minimum and maximum number of a session's datagrams in each of the two remembered generations.
const LEAST: usize = 64;
const MOST: usize = 7 << 9;

#[derive(Clone, Debug, Default)]
pub struct Recent {
    now: HashSet<u64, RandomState>,
    before: HashSet<u64, RandomState>,
}

impl Recent {
    pub fn contains(&self, content: u64) -> bool {
        self.now.contains(&content) || self.before.contains(&content)
    }

    /// Remembers a datagram, and at least `share` before it, within bounds.
    #[inline]
    pub fn add(&mut self, content: u64, share: usize) {
        let most = share.clamp(LEAST, MOST);
        if self.now.len() >= most {
            std::mem::swap(&mut self.now, &mut self.before);
            self.now.clear();
            self.now.shrink_to(most);
        }
        self.now.insert(content);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_remembers_its_share_within_bounds() {
        for (share, kept) in [(0, LEAST), (500, 500), (usize::MAX, MOST)] {
            let mut recent = Recent::default();
            for content in 0..20_000 {
                recent.add(content, share);
                assert!(recent.contains(content.saturating_sub(kept as u64)));
                assert!(recent.now.len() + recent.before.len() <= 2 * kept);
            }
        }
    }
}
