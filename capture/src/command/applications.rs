//! `weir-probe applications`: number, name and category of every application that records may state.

use super::print;
use crate::app::list;
use crate::{Exit, Failure};
use clap::{Args, ValueEnum};

/// Options of `applications`.
#[derive(Args, Debug)]
pub struct ApplicationsArgs {
    /// CSV with a header, or JSON with one object a line
    #[arg(long, value_name = "FORM", default_value = "csv")]
    to: ListForm,
}

/// How a list is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListForm {
    /// Values separated by commas
    Csv,
    /// JSON lines
    Json,
}

/// Prints the list.
///
/// # Errors
/// [`Exit::CannotStart`] if there is none.
pub fn applications(args: &ApplicationsArgs) -> Result<Exit, Failure> {
    let applications = list::applications().map_err(Failure::start)?;
    let text = match args.to {
        ListForm::Csv => list::csv(&applications),
        ListForm::Json => list::json(&applications)?,
    };
    print(text.as_bytes())
}
