//! The command `weir-bench`: tools that benchmarks and tests of the agent need. The agent contains none of them.

mod blast;
mod decode;
mod export;
mod generate;
mod meter;
mod privacy;
mod strangers;

use clap::{CommandFactory as _, Parser, Subcommand};
use std::process::ExitCode;
use weir_probe::command::{docs, end, log, print};

/// Benchmarks of Weir's agent, and load generators for benchmarks of the jobs and the store
#[derive(Debug, Parser)]
#[command(name = "weir-bench", version, max_term_width = 110)]
struct Bench {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Write synthetic records straight into Kafka
    #[command(after_help = generate::HELP)]
    Generate(generate::GenerateArgs),
    /// Send packets on an interface, to measure capture
    #[command(after_help = blast::HELP)]
    Blast(blast::BlastArgs),
    /// Measure what metering costs, over captures in memory
    #[command(after_help = meter::HELP)]
    Meter(meter::MeterArgs),
    /// Measure what decoding costs, over generated datagrams in memory
    #[command(after_help = "Example:\n  weir-bench decode --protocol ipfix --metered --flows 100000")]
    Decode(decode::BenchDecodeArgs),
    /// Measure what exporting costs, over generated records in memory
    #[command(after_help = "Example:\n  weir-bench export --form ipfix")]
    Export(export::ExportArgs),
    /// Measure what pseudonyms cost, over the records of captures and over new addresses
    #[command(after_help = privacy::HELP)]
    Privacy(privacy::PrivacyArgs),
    /// Flood a collector from very many addresses while one exporter sends
    #[command(after_help = strangers::HELP)]
    Strangers(strangers::StrangersArgs),
    /// Print the reference of these commands in Markdown
    #[command(hide = true)]
    Docs,
}

fn main() -> ExitCode {
    let bench = Bench::parse();
    log();
    let done = match bench.command {
        BenchCommand::Generate(args) => generate::generate(&args),
        BenchCommand::Blast(args) => blast::blast(&args),
        BenchCommand::Meter(args) => meter::meter(&args),
        BenchCommand::Decode(args) => decode::decode(&args),
        BenchCommand::Export(args) => export::export(&args),
        BenchCommand::Privacy(args) => privacy::privacy(&args),
        BenchCommand::Strangers(args) => strangers::strangers(&args),
        BenchCommand::Docs => print(docs::commands(Bench::command()).as_bytes()),
    };
    end("weir-bench", done)
}
