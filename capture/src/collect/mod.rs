//! `weir-probe collect`: converts flow records of other exporters (NetFlow, IPFIX, sFlow, nProbe) into Weir's.
//!
//! A record's way: [`listen`] or [`nprobe`] → [`decode`], which makes [`record::Imported`] of it → [`table`], where it is added up by
//! interval and biflow → [`publish`]. [`listening`] is the thread that does the first part, [`mod@line`] puts it
//! together with the one that publishes.

pub mod decode;
pub mod line;
pub mod listen;
pub mod listening;
pub mod metrics;
pub mod nprobe;
pub mod outcome;
mod part;
pub mod publish;
pub mod record;
pub mod split;
pub mod states;
pub mod table;
