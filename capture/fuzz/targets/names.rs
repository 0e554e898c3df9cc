//! Names in payloads.

use weir_probe::app::names::{Kind, MAX_OCTETS, Name, dns_query, http_server};

/// An input is a payload.
pub fn check(input: &[u8]) {
    printable(http_server(input), Kind::Server);
    printable(dns_query(false, input), Kind::Query);
    printable(dns_query(true, input), Kind::Query);
    printable(Name::server(input), Kind::Server);
}

fn printable(name: Option<Name>, kind: Kind) {
    let Some(name) = name else { return };
    assert_eq!(name.kind(), kind);
    let text = name.as_str();
    assert!((1..=MAX_OCTETS).contains(&text.len()), "{name:?}");
    assert!(text.bytes().all(|octet| octet.is_ascii_graphic() && !octet.is_ascii_uppercase()), "{name:?}");
    assert!(name.heap_octets() >= text.len());
}
