//! `[privacy]`: which addresses become pseudonyms, and by which key.

#![warn(missing_docs)]

use super::cryptopan::KEY_OCTETS;
use crate::units::duration;
use anyhow::{Context as _, bail};
use serde::Deserialize;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Shortest period: a longer one than every interval, so that each interval has one key.
const LEAST_PERIOD: Duration = Duration::from_secs(60);

/// `[privacy]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PrivacyConfig {
    /// How addresses are replaced.
    pub mode: PrivacyMode,
    /// File of the master key.
    pub key_file: PathBuf,
    /// How long one key is used; 0: for ever, and then it is the master key itself.
    #[serde(deserialize_with = "duration")]
    pub period: Duration,
    /// Which addresses are replaced.
    pub addresses: Replaced,
    /// Whether records keep names (of servers, of DNS questions, of subscribers, of interfaces) and MAC addresses.
    pub names: bool,
}

/// How addresses are replaced.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum PrivacyMode {
    /// They are not.
    #[default]
    Off,
    /// By prefix-preserving pseudonyms.
    CryptoPan,
}

/// Which addresses are replaced.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Replaced {
    /// All.
    #[default]
    All,
    /// Those of `local_networks`.
    Local,
}

impl Default for PrivacyConfig {
    fn default() -> Self {
        PrivacyConfig {
            mode: PrivacyMode::Off,
            key_file: PathBuf::from("/etc/weir-probe/privacy.key"),
            period: Duration::from_secs(7 * 86_400),
            addresses: Replaced::All,
            names: false,
        }
    }
}

impl PrivacyConfig {
    /// Checks the keys that a configuration may state.
    ///
    /// # Errors
    /// If the period cannot be used.
    pub fn check(&self) -> anyhow::Result<()> {
        if !self.period.is_zero() && (self.period < LEAST_PERIOD || self.period.subsec_nanos() > 0) {
            bail!("privacy.period must be 0s, for one key for ever, or whole seconds and at least 1m");
        }
        Ok(())
    }
}

/// Reads a master key: a line of 32 characters, or of 0x and 64 hexadecimal digits, as `nfanon -K` takes it.
///
/// # Errors
/// If the file cannot be read, others than its owner can read it, or it holds no key. No message quotes it.
pub fn master(path: &Path) -> anyhow::Result<[u8; KEY_OCTETS]> {
    let context = || format!("privacy.key_file: {}", path.display());
    let metadata = std::fs::metadata(path).with_context(context)?;
    if metadata.mode() & 0o077 != 0 {
        bail!("{}: only its owner may read it: chmod 600", context());
    }
    let text = std::fs::read(path).with_context(context)?;
    key(text.trim_ascii_end())
        .with_context(|| format!("{} holds no key: 32 characters, or 0x and 64 hexadecimal digits", context()))
}

/// The key that a text means; `None`: none.
fn key(text: &[u8]) -> Option<[u8; KEY_OCTETS]> {
    if let Ok(key) = <[u8; KEY_OCTETS]>::try_from(text) {
        return Some(key);
    }
    let digits = text.strip_prefix(b"0x").filter(|digits| digits.len() == 2 * KEY_OCTETS)?;
    let mut key = [0; KEY_OCTETS];
    for (octet, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *octet = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_key_is_read_as_nfanon_reads_it_and_from_its_owners_file_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let read = |text: &str, mode: u32| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            master(&path).map_err(|error| format!("{error:#}"))
        };
        let letters = "abcdefghijklmnopqrstuvwxyz012345";
        assert_eq!(read(letters, 0o600).unwrap(), letters.as_bytes());
        assert_eq!(read(&format!("0x{}\n", "0aF0".repeat(16)), 0o400).unwrap(), [[0x0a, 0xf0]; 16].concat()[..]);
        for wrong in ["", "secret", "0x00", &format!("0x{}", "0g".repeat(32)), &"é".repeat(17)] {
            let error = read(wrong, 0o600).unwrap_err();
            assert!(error.contains("holds no key") && (wrong.is_empty() || !error.contains(wrong)), "{error}");
        }
        for mode in [0o640, 0o604] {
            assert!(read(letters, mode).unwrap_err().contains("chmod 600"));
        }
    }

    #[test]
    fn a_period_that_splits_intervals_is_refused() {
        let with = |period| PrivacyConfig { period, ..PrivacyConfig::default() }.check();
        for good in [0, 60, 86_400] {
            with(Duration::from_secs(good)).unwrap();
        }
        for bad in [Duration::from_secs(59), Duration::from_millis(60_500)] {
            assert!(with(bad).unwrap_err().to_string().contains("privacy.period"));
        }
    }
}
