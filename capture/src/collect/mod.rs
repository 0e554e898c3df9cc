//! `weir-probe collect`: flow records of others (NetFlow, IPFIX, sFlow, nProbe) into Weir's own.
//!
//! A record's way: a decoder makes [`record::Imported`] of it, whatever it came by.

pub mod bench;
pub mod decode;
pub mod print;
pub mod record;
