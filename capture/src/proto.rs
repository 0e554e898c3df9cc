//! The wire format: types generated from `../schemas/*.proto`, which document every field.

#![allow(missing_docs, clippy::doc_markdown, clippy::large_enum_variant)]

include!(concat!(env!("OUT_DIR"), "/weir.v1.rs"));
