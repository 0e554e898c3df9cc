//! The command `weir-probe`.

use clap::Parser as _;
use std::process::ExitCode;
use weir_probe::command::cli::{self, Cli, Command};
use weir_probe::command::{applications, collect, decode, docs, end, enrol, interfaces, log, nprobe, print, read, run};
use weir_probe::{Exit, config};

fn main() -> ExitCode {
    let arguments = nprobe::arguments(std::env::args_os().map(|one| one.to_string_lossy().into_owned()));
    if let Some(error) = nprobe::not_supported(&arguments) {
        eprintln!("weir-probe: {error}");
        return ExitCode::from(Exit::CannotStart as u8);
    }
    let cli = Cli::parse_from(arguments);
    log();
    let done = match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Read(args) => read::read(&args),
        Command::Collect(args) => collect::collect(&args),
        Command::Nprobe(args) => nprobe::nprobe(&args),
        Command::Enrol(args) => enrol::enrol(&args),
        Command::Interfaces(args) => interfaces::interfaces(&args),
        Command::Decode(args) => decode::decode(&args),
        Command::Applications(args) => applications::applications(&args),
        Command::ConfigExample => print(config::EXAMPLE.as_bytes()),
        Command::Docs => print(docs::markdown().as_bytes()),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut cli::command(), "weir-probe", &mut script);
            print(&script)
        }
        Command::Man => {
            let mut page = Vec::new();
            match clap_mangen::Man::new(cli::command()).render(&mut page) {
                Ok(()) => print(&page),
                Err(error) => Err(error.into()),
            }
        }
    };
    end("weir-probe", done)
}
