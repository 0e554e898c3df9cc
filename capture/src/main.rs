//! The command `weir-probe`.

use clap::Parser as _;
use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;
use weir_probe::app::list;
use weir_probe::cli::{Cli, Command, ListForm};
use weir_probe::{
    Exit, Failure, bench, blast, collect, config, generate, interfaces, nprobe, publish, read, reference, run,
};

fn main() -> ExitCode {
    let arguments = nprobe::arguments(std::env::args_os().map(|one| one.to_string_lossy().into_owned()));
    if let Some(error) = nprobe::not_supported(&arguments) {
        eprintln!("weir-probe: {error}");
        return ExitCode::from(Exit::CannotStart as u8);
    }
    let cli = Cli::parse_from(arguments);
    let filter = EnvFilter::try_from_env("WEIR_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
    let done = match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Read(args) => read::read(&args),
        Command::Collect(args) => collect::run::collect(&args),
        Command::Nprobe(args) => nprobe::nprobe(&args),
        Command::Interfaces(args) => interfaces::interfaces(&args),
        Command::Generate(args) => generate::generate(&args),
        Command::Bench(args) => bench::bench(&args),
        Command::Blast(args) => blast::blast(&args),
        Command::Decode { files, ports } => collect::print::decode(&files, &ports),
        Command::BenchDecode(args) => collect::bench::bench(&args),
        Command::BenchExport(args) => publish::bench::bench(&args),
        Command::Applications { to } => applications(to),
        Command::ConfigExample => print(config::EXAMPLE.as_bytes()),
        Command::Docs => print(reference::markdown().as_bytes()),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut weir_probe::cli::command(), "weir-probe", &mut script);
            print(&script)
        }
        Command::Man => {
            let mut page = Vec::new();
            match clap_mangen::Man::new(weir_probe::cli::command()).render(&mut page) {
                Ok(()) => print(&page),
                Err(error) => Err(error.into()),
            }
        }
    };
    match done {
        Ok(exit) => ExitCode::from(exit as u8),
        Err(Failure { error, exit }) => {
            if !is_broken_pipe(&error) {
                eprintln!("weir-probe: {error:#}");
            }
            ExitCode::from(exit as u8)
        }
    }
}

fn applications(to: ListForm) -> Result<Exit, Failure> {
    let applications = list::applications().map_err(Failure::start)?;
    let text = match to {
        ListForm::Csv => list::csv(&applications),
        ListForm::Json => list::json(&applications)?,
    };
    print(text.as_bytes())
}

/// Writes to the standard output; whoever closes it early has read enough.
fn print(text: &[u8]) -> Result<Exit, Failure> {
    match std::io::stdout().write_all(text) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(Exit::Done),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        let json = cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
        io.or(json) == Some(std::io::ErrorKind::BrokenPipe)
    })
}
