//! `weir-probe enrol`: keeps the credentials that `weir probe add` printed, and tries them.

use crate::publish::kafka::credentials::{Credentials, DEFAULT_PATH};
use crate::publish::kafka::{Reached, reach};
use crate::{Exit, Failure};
use anyhow::Context as _;
use clap::Args;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};

/// Examples and notes.
pub const HELP: &str = "\
Examples:
  weir-probe enrol oslo.bundle
  ssh collector weir probe add oslo | sudo weir-probe enrol -
`weir probe add` prints the bundle, and `weir probe rotate` prints another with a new password. An agent that runs takes
new credentials within seconds, without a restart; meanwhile its records wait in the spool.";

/// Options of `enrol`.
#[derive(Args, Debug)]
pub struct EnrolArgs {
    /// The bundle; `-`: standard input
    pub bundle: PathBuf,
    /// Where to keep it, for the owner of that folder alone; the agent's configuration names it as kafka.credentials
    #[arg(long, value_name = "FILE", default_value = DEFAULT_PATH)]
    pub to: PathBuf,
    /// Do not try to log in to Kafka
    #[arg(long)]
    pub offline: bool,
}

/// Keeps a bundle.
///
/// # Errors
/// [`Exit::CannotStart`] if it is none, or Kafka does not accept it; nothing is written then.
pub fn enrol(args: &EnrolArgs) -> Result<Exit, Failure> {
    let text = read(&args.bundle).map_err(Failure::start)?;
    let from = args.bundle.display();
    let credentials =
        Credentials::parse(&text).with_context(|| format!("{from} is no bundle")).map_err(Failure::start)?;
    let probe = credentials.probe.clone().with_context(|| format!("{from} names no probe")).map_err(Failure::start)?;
    if !args.offline {
        match reach(&credentials, &probe).map_err(Failure::start)? {
            Reached::Topics => {}
            Reached::NoTopics => {
                return Err(Failure::start(anyhow::anyhow!(
                    "Kafka at {} accepts these credentials, and has no topics of {probe} for them: run `weir probe add \
                     {probe}`",
                    credentials.brokers
                )));
            }
        }
    }
    write(&args.to, text.as_bytes()).map_err(Failure::start)?;
    println!("{probe} is enrolled at {}: {}", credentials.brokers, args.to.display());
    Ok(Exit::Done)
}

fn read(bundle: &Path) -> anyhow::Result<String> {
    if bundle != Path::new("-") {
        return fs::read_to_string(bundle).with_context(|| format!("cannot read {}", bundle.display()));
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("cannot read the bundle from standard input")?;
    Ok(text)
}

/// Replaces a file in one step, so that a running agent never sees half of it; it belongs to the owner of its folder.
fn write(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let context = || format!("cannot write {}", path.display());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.exists() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).with_context(context)?;
    }
    let new = path.with_extension("new");
    // A file that an interrupted command left might have other rights.
    let _ = fs::remove_file(&new);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new).with_context(context)?;
    // An agent that runs as a user of its own must be able to read it.
    let owner = fs::metadata(folder).with_context(context)?;
    if owner.uid() != file.metadata().with_context(context)?.uid() {
        fchown(&file, Some(owner.uid()), Some(owner.gid())).with_context(context)?;
    }
    file.write_all(content).and_then(|()| file.sync_all()).with_context(context)?;
    fs::rename(&new, path).with_context(context)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, chown};

    #[test]
    fn credentials_belong_to_the_owner_of_their_folder_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("inner/credentials.toml");
        write(&path, b"first").unwrap();
        // Only root can give files away.
        let root = fs::metadata(folder.path()).unwrap().uid() == 0;
        if root {
            chown(path.parent().unwrap(), Some(12_345), Some(12_346)).unwrap();
        }
        fs::write(path.with_extension("new"), b"left by an interrupted command").unwrap();
        write(&path, b"second").unwrap();
        let found = fs::metadata(&path).unwrap();
        assert_eq!((fs::read(&path).unwrap(), found.permissions().mode() & 0o777), (b"second".to_vec(), 0o600));
        if root {
            assert_eq!((found.uid(), found.gid()), (12_345, 12_346));
        }
    }
}
