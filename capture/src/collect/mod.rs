//! `weir-probe collect`: flow records of others (NetFlow, IPFIX, sFlow, nProbe) into Weir's own.
//!
//! A record's way: [`listen`] or [`nprobe`] → [`decode`], which makes [`record::Imported`] of it → [`table`], where it is added up by
//! interval and biflow → [`publish`]. [`run`] puts them together.

pub mod bench;
pub mod decode;
pub mod listen;
pub mod nprobe;
pub mod print;
pub mod publish;
pub mod record;
pub mod run;
pub mod split;
pub mod table;
