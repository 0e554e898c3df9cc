//! `weir-probe enrol`: keeps the credentials that `weir probe add` printed, and tries them.

use crate::publish::kafka::credentials::{Credentials, DEFAULT_PATH};
use crate::publish::kafka::{Reached, reach};
use crate::{Exit, Failure};
use anyhow::Context as _;
use clap::Args;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
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
    /// Where to keep it, readable for its owner alone; the agent's configuration names it as kafka.credentials
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

/// Replaces a file in one step, so that a running agent never sees half of it.
fn write(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let context = || format!("cannot write {}", path.display());
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists()) {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).with_context(context)?;
    }
    let new = path.with_extension("new");
    // A file that an interrupted command left might have other rights.
    let _ = fs::remove_file(&new);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new).with_context(context)?;
    file.write_all(content).and_then(|()| file.sync_all()).with_context(context)?;
    fs::rename(&new, path).with_context(context)
}
