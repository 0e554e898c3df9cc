//! How a client logs in to Kafka: the bundle that `weir probe add` prints and `weir-probe enrol` keeps.

use anyhow::{Context as _, bail};
use serde::Deserialize;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Where `weir-probe enrol` keeps the credentials unless told otherwise.
pub const DEFAULT_PATH: &str = "/var/lib/weir-probe/credentials.toml";

/// Address, name and secret: a password (SCRAM-SHA-512 over TLS), or a certificate with its key.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credentials {
    /// The probe that they are for; absent in those of an operator.
    pub probe: Option<String>,
    /// `host:port`, several separated by commas.
    pub brokers: String,
    user: Option<String>,
    password: Option<String>,
    certificate: Option<String>,
    key: Option<String>,
    /// Certificate of the authority that issued the brokers' certificates, in PEM.
    authority: String,
    /// Public key (Ed25519, 32 octets in base 64) of orders to the probe; absent if it takes none.
    pub orders: Option<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "credentials of {} at {}", self.user.as_deref().unwrap_or("a certificate"), self.brokers)
    }
}

impl Credentials {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or is no bundle; no message quotes a secret.
    pub fn read(path: &Path) -> anyhow::Result<Credentials> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Credentials::parse(&text).with_context(|| format!("{} holds no credentials of a probe", path.display()))
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// If it is no bundle; no message quotes a secret.
    pub fn parse(text: &str) -> anyhow::Result<Credentials> {
        let found: Credentials = toml::from_str(text).map_err(|error| anyhow::anyhow!("{}", error.message()))?;
        match (&found.user, &found.password, &found.certificate, &found.key) {
            (Some(_), Some(_), None, None) | (None, None, Some(_), Some(_)) => {}
            _ => bail!("it needs user and password, or certificate and key"),
        }
        if found.brokers.is_empty() {
            bail!("brokers is empty");
        }
        Ok(found)
    }

    /// The properties of librdkafka.
    pub fn properties(&self) -> Vec<(&'static str, &str)> {
        let mut found = vec![("ssl.ca.pem", self.authority.as_str())];
        if let (Some(user), Some(password)) = (&self.user, &self.password) {
            found.extend([
                ("security.protocol", "sasl_ssl"),
                ("sasl.mechanism", "SCRAM-SHA-512"),
                ("sasl.username", user),
                ("sasl.password", password),
            ]);
        }
        if let (Some(certificate), Some(key)) = (&self.certificate, &self.key) {
            found.extend([
                ("security.protocol", "ssl"),
                ("ssl.certificate.pem", certificate.as_str()),
                ("ssl.key.pem", key.as_str()),
            ]);
        }
        found
    }
}

/// A file of credentials, and its state when it was last looked at.
#[derive(Debug)]
pub(super) struct CredentialsFile {
    path: PathBuf,
    seen: Option<(SystemTime, u64)>,
}

impl CredentialsFile {
    pub(super) fn new(path: PathBuf) -> CredentialsFile {
        let seen = stamp(&path);
        CredentialsFile { path, seen }
    }

    /// Whether the file has changed since the last call, and holds credentials now.
    pub(super) fn has_changed(&mut self) -> bool {
        let now = stamp(&self.path);
        if now.is_none() || now == self.seen {
            return false;
        }
        self.seen = now;
        match Credentials::read(&self.path) {
            Ok(_) => true,
            Err(error) => {
                tracing::error!("{error:#}: the earlier credentials stay in use");
                false
            }
        }
    }
}

/// Time of the last change, and octets.
fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let data = std::fs::metadata(path).ok()?;
    Some((data.modified().ok()?, data.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUNDLE: &str = "probe = \"oslo\"\nbrokers = \"kafka.example:9094\"\nuser = \"oslo\"\n\
                          password = \"hush\"\nauthority = '''\nPEM\n'''\n";

    #[test]
    fn a_bundle_becomes_properties() {
        let found = Credentials::parse(BUNDLE).unwrap();
        assert_eq!((found.probe.as_deref(), &found.brokers[..]), (Some("oslo"), "kafka.example:9094"));
        assert_eq!(
            found.properties(),
            [
                ("ssl.ca.pem", "PEM\n"),
                ("security.protocol", "sasl_ssl"),
                ("sasl.mechanism", "SCRAM-SHA-512"),
                ("sasl.username", "oslo"),
                ("sasl.password", "hush"),
            ]
        );
    }

    #[test]
    fn what_is_no_bundle_is_refused_without_its_secrets() {
        for text in [
            "",
            "probe = \"oslo\"",
            &BUNDLE.replace("user = ", "certificate = "),
            &BUNDLE.replace("kafka.example:9094", ""),
            &format!("{BUNDLE}more = \"hush\"\n"),
            &BUNDLE.replace("\"hush\"", "\"hush"),
        ] {
            let error = format!("{:#}", Credentials::parse(text).unwrap_err());
            assert!(!error.contains("hush"), "{error}");
        }
        assert!(!format!("{:?}", Credentials::parse(BUNDLE).unwrap()).contains("hush"));
    }

    #[test]
    fn a_changed_file_is_noticed_once_and_rubbish_never() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("credentials.toml");
        std::fs::write(&path, BUNDLE).unwrap();
        let mut file = CredentialsFile::new(path.clone());
        assert!(!file.has_changed());
        std::fs::write(&path, BUNDLE.replace("hush", "hush-hush")).unwrap();
        assert!(file.has_changed());
        assert!(!file.has_changed());
        std::fs::write(&path, "rubbish").unwrap();
        assert!(!file.has_changed());
        std::fs::remove_file(&path).unwrap();
        assert!(!file.has_changed());
        std::fs::write(&path, BUNDLE).unwrap();
        assert!(file.has_changed());
    }
}
