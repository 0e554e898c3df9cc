//! `weir-probe collect`: converts flow records of other exporters (NetFlow, IPFIX, sFlow, nProbe) into Weir's.
//!
//! A record's way: [`listen`] or [`nprobe`] → [`decode`], which makes [`record::Imported`] of it → `part`, which splits it over
//! intervals → [`table`], which adds it up by interval and biflow → [`publish`]. [`exporter`] is what decoders keep of an
//! exporter, `element` what the fields of its records mean. [`listening`] is the thread that does the first part, [`mod@line`]
//! puts it together with the one that publishes.

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
