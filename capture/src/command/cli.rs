//! The command line, with the list of commands.

use super::applications::ApplicationsArgs;
use super::collect::{self, CollectArgs};
use super::decode::DecodeArgs;
use super::enrol::{self, EnrolArgs};
use super::interfaces::{self, InterfacesArgs};
use super::nprobe::{self, NprobeArgs};
use super::read::{self, ReadArgs};
use super::run::{self, RunArgs};
use clap::{CommandFactory, Parser, Subcommand};

/// The capture agent of Weir: reads packets, publishes flow and counter records.
#[derive(Debug, Parser)]
#[command(name = "weir-probe", version = VERSION, max_term_width = 110, after_help = EXIT)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT: &str = "\
Exit status: 0 done; 1 something failed on the way; 2 it could not start (a wrong option, configuration or file, no \
permission, a missing topic); 3 a capture file ends in mid-packet; its whole packets were metered.
Logs go to the standard error; WEIR_LOG=debug says more, WEIR_LOG=error less.";

/// The text of `--version`: the agent's version and nDPI's.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("WEIR_NDPI"), ")");

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Capture on a live interface until SIGTERM or Ctrl-C
    #[command(after_help = run::HELP)]
    Run(RunArgs),
    /// Read capture files (pcap or pcapng, optionally compressed with gzip)
    #[command(after_help = read::HELP)]
    Read(ReadArgs),
    /// Collect flow records from other exporters: NetFlow v5 and v9, IPFIX, sFlow v5, nProbe over ZeroMQ or Kafka
    #[command(after_help = collect::HELP)]
    Collect(CollectArgs),
    /// Capture or read, and export, with the common options of nProbe (also when invoked as `nprobe`)
    #[command(after_help = nprobe::HELP)]
    Nprobe(NprobeArgs),
    /// Keep the credentials for Kafka that `weir probe add` printed
    #[command(after_help = enrol::HELP)]
    Enrol(EnrolArgs),
    /// List the interfaces of this host, and the sources that can capture on each
    #[command(after_help = interfaces::HELP)]
    Interfaces(InterfacesArgs),
    /// Print number, name and category of every application that records may state
    #[command(after_help = "Example:\n  weir-probe applications > applications.csv")]
    Applications(ApplicationsArgs),
    /// Print a commented configuration with every key
    #[command(after_help = "Example:\n  weir-probe config-example > weir-probe.toml")]
    ConfigExample,
    /// Print completions for a shell
    #[command(after_help = "Example:\n  weir-probe completions bash > /etc/bash_completion.d/weir-probe")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    #[command(after_help = "Example:\n  weir-probe man | man -l -")]
    Man,
    /// Print the reference of commands, configuration and metrics in Markdown
    #[command(hide = true)]
    Docs,
    /// Print the flow records within captures of NetFlow, IPFIX and sFlow, one JSON object each
    #[command(hide = true, after_help = "Example:\n  weir-probe decode exports.pcap | jq .fwd")]
    Decode(DecodeArgs),
}

/// The command line as a clap `Command`, from which the completions, the manual and the reference are generated.
pub fn command() -> clap::Command {
    Cli::command()
}
