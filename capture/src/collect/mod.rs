//! `weir-probe collect`: converts flow records of other exporters (NetFlow, IPFIX, sFlow, nProbe) into Weir's.
//!
//! The path of a record: [`listen`] or [`nprobe`] → [`decode`], which turns it into [`record::Imported`] → `part`,
//! which splits it over intervals → [`table`], which adds it up by interval and biflow → [`publish`]. [`exporter`]
//! holds the decoders' state about an exporter, `element` the meaning of its records' fields. [`listening`] is the
//! thread of the first part; [`mod@line`] combines it with the publishing thread.

pub mod allowed;
pub mod cause;
pub mod decode;
#[cfg(test)]
mod ears;
mod element;
pub mod exporter;
pub mod limits;
pub mod line;
pub mod listen;
pub mod listening;
pub mod metrics;
pub mod notice;
pub mod nprobe;
pub mod outcome;
mod part;
pub mod publish;
pub mod record;
mod remembered;
mod report;
#[cfg(test)]
mod simulator;
pub mod split;
pub mod states;
pub mod table;
