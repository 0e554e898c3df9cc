//! The names that clients ask for: HTTP Host (RFC 9110, section 7.2) and the first question of a DNS message (RFC 1035,
//! section 4.1); [`super::hello`] reads those of TLS.
//!
//! The parsers look at one packet's payload as it was captured, allocate nothing before they have a whole name, and
//! return `None` for everything else. General parsers do not fit: they expect whole messages, and a request is often
//! cut, by the snapshot length or by the end of its first segment, after the name.

use super::awaited::Ticket;
use std::fmt;
use triomphe::ThinArc;

/// Maximum octets of a name; longer names are truncated.
pub const MAX_OCTETS: usize = 255;

/// Octets of an HTTP request that are searched for the Host field.
const HTTP_SEARCH: usize = 4096;

/// Octets of the longest method of an HTTP request; the longest registered one is `UPDATEREDIRECTREF`.
const HTTP_METHOD: usize = 17;

/// Octets of a domain name in a message (RFC 1035, section 2.3.4).
const DNS_NAME: usize = 255;

/// Questions of a DNS message: one, except in mDNS. A message with more is not treated as DNS.
const DNS_QUESTIONS: u16 = 64;

/// The kind of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// TLS, HTTP or QUIC: the server that the client wants to speak to.
    Server,
    /// DNS, mDNS or LLMNR: the name that the client wants to know about.
    Query,
    /// No name yet: the place of a ClientHello of which a part is missing.
    Awaited,
}

/// What stands beside the text of a name.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Header {
    kind: Kind,
    /// Of a name that is awaited, its [`Ticket`].
    place: u16,
    generation: u16,
}

/// A name: 1 to 255 printable ASCII characters in lower case; other octets are `\ddd` (RFC 1035, section 5.1).
///
/// One pointer wide, also as an `Option`; a clone shares the text, between threads too.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Name(ThinArc<Header, u8>);

impl Name {
    /// The name of the server in `octets`, a host name without its port; `None` if that leaves nothing.
    pub fn server(octets: &[u8]) -> Option<Name> {
        let mut draft = Draft::default();
        octets.strip_suffix(b".").unwrap_or(octets).iter().for_each(|&octet| draft.push(octet, b""));
        draft.finish(Kind::Server)
    }

    /// Stands for a name that is awaited; its text is empty.
    pub(super) fn awaited(Ticket { place, generation }: Ticket) -> Name {
        Name(ThinArc::from_header_and_slice(Header { kind: Kind::Awaited, place, generation }, &[]))
    }

    /// The place of a name that is awaited.
    pub(super) fn ticket(&self) -> Option<Ticket> {
        let Header { kind, place, generation } = self.0.header.header;
        (kind == Kind::Awaited).then_some(Ticket { place, generation })
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0.slice).unwrap_or_default()
    }

    /// The kind of name that the flow asked for.
    pub fn kind(&self) -> Kind {
        self.0.header.header.kind
    }

    /// Octets of memory that the text takes on the heap: a count, the kind, the length and the text.
    pub fn heap_octets(&self) -> usize {
        3 * size_of::<usize>() + self.0.slice.len().next_multiple_of(size_of::<usize>())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?}", self.kind(), self.as_str())
    }
}

/// A name being put together.
struct Draft {
    octets: [u8; MAX_OCTETS],
    length: usize,
    /// A character did not fit.
    full: bool,
}

impl Default for Draft {
    fn default() -> Draft {
        Draft { octets: [0; MAX_OCTETS], length: 0, full: false }
    }
}

impl Draft {
    /// Adds an octet in lower case, escaped if it is not printable, a backslash, or one of `special`.
    fn push(&mut self, octet: u8, special: &[u8]) {
        match octet {
            b'\\' => self.text(b"\\\\"),
            _ if special.contains(&octet) => self.text(&[b'\\', octet]),
            b'!'..=b'~' => self.text(&[octet.to_ascii_lowercase()]),
            _ => self.text(&[b'\\', b'0' + octet / 100, b'0' + octet / 10 % 10, b'0' + octet % 10]),
        }
    }

    /// Adds characters that belong together; if they do not all fit, the name is complete.
    fn text(&mut self, characters: &[u8]) {
        match self.octets.get_mut(self.length..self.length + characters.len()) {
            Some(room) if !self.full => {
                room.copy_from_slice(characters);
                self.length += characters.len();
            }
            _ => self.full = true,
        }
    }

    fn finish(self, kind: Kind) -> Option<Name> {
        let text = self.octets.get(..self.length).filter(|text| !text.is_empty())?;
        Some(Name(ThinArc::from_header_and_slice(Header { kind, place: 0, generation: 0 }, text)))
    }
}

/// The server that a TCP payload asks for, if it begins a request of HTTP/1.
#[inline]
pub fn http_server(payload: &[u8]) -> Option<Name> {
    match payload {
        [b'A'..=b'Z', ..] => Name::server(http_host(payload)?),
        _ => None,
    }
}

/// The Host of an HTTP/1 request, without its port.
fn http_host(payload: &[u8]) -> Option<&[u8]> {
    let search = &payload[..payload.len().min(HTTP_SEARCH)];
    let method = memchr::memchr(b' ', &search[..search.len().min(HTTP_METHOD + 1)])?;
    if !search[..method].iter().all(|&octet| octet.is_ascii_uppercase() || octet == b'-' || octet == b'_') {
        return None;
    }
    let mut rest = search;
    let request = line(&mut rest)?;
    let version = &request[memchr::memrchr(b' ', request)? + 1..];
    if !version.starts_with(b"HTTP/1.") {
        return None;
    }
    loop {
        let field = line(&mut rest)?;
        if field.is_empty() {
            return None;
        }
        if let Some((name, value)) = field.split_at_checked(5) {
            if name.eq_ignore_ascii_case(b"host:") {
                return Some(without_port(value.trim_ascii()));
            }
        }
    }
}

/// Takes a whole line, without its line ending.
fn line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = memchr::memchr(b'\n', rest)?;
    let line = &rest[..end];
    *rest = &rest[end + 1..];
    Some(line.strip_suffix(b"\r").unwrap_or(line))
}

/// `host` of `host[:port]`; an IPv6 address keeps its brackets.
fn without_port(host: &[u8]) -> &[u8] {
    let address = if host.starts_with(b"[") { memchr::memchr(b']', host).unwrap_or(0) } else { 0 };
    match memchr::memchr(b':', &host[address..]) {
        Some(colon) => &host[..address + colon],
        None => host,
    }
}

/// The first name asked in the DNS message of a payload, without the final dot; the root is `.`.
///
/// Over TCP (`tcp`) a message has its length in front (RFC 1035, section 4.2.2).
pub fn dns_query(tcp: bool, payload: &[u8]) -> Option<Name> {
    let message = if tcp { payload.get(2..)? } else { payload };
    let header: &[u8; 12] = message.first_chunk()?;
    let questions = u16::from_be_bytes([header[4], header[5]]);
    let opcode = header[2] >> 3 & 0x0f;
    if questions == 0 || questions > DNS_QUESTIONS || opcode > 6 {
        return None;
    }
    let mut draft = Draft::default();
    let mut octets = 1;
    let mut at = header.len();
    // Where the labels being read begin: a pointer must lead before that (RFC 1035, section 4.1.4), so that it ends.
    let mut begin = at;
    let mut after = None;
    loop {
        let length = *message.get(at)?;
        match length >> 6 {
            0 if length == 0 => break,
            0 => {
                let label = message.get(at + 1..at + 1 + usize::from(length))?;
                octets += 1 + label.len();
                if octets > DNS_NAME {
                    return None;
                }
                if draft.length > 0 {
                    draft.text(b".");
                }
                label.iter().for_each(|&octet| draft.push(octet, b"."));
                at += 1 + label.len();
            }
            3 => {
                let target = usize::from(length & 0x3f) << 8 | usize::from(*message.get(at + 1)?);
                if target >= begin {
                    return None;
                }
                after.get_or_insert(at + 2);
                begin = target;
                at = target;
            }
            _ => return None,
        }
    }
    // The class, if captured, distinguishes DNS from other traffic on its port; mDNS uses the highest bit.
    if let Some(&[high, low]) = message.get(after.unwrap_or(at + 1) + 2..).and_then(|rest| rest.first_chunk()) {
        if !matches!(u16::from_be_bytes([high & 0x7f, low]), 1 | 3 | 4 | 254 | 255) {
            return None;
        }
    }
    if octets == 1 {
        draft.text(b".");
    }
    draft.finish(Kind::Query)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block16(content: &[u8]) -> Vec<u8> {
        [&(content.len() as u16).to_be_bytes()[..], content].concat()
    }

    fn text(name: Option<Name>) -> Option<String> {
        name.map(|name| name.as_str().to_owned())
    }

    fn server(payload: &[u8]) -> Option<String> {
        text(http_server(payload))
    }

    #[test]
    fn a_request_says_its_host() {
        let host = |request: &str| server(request.as_bytes());
        assert_eq!(host("GET / HTTP/1.1\r\nHost: Example.ORG\r\n\r\n").as_deref(), Some("example.org"));
        assert_eq!(host("POST /a HTTP/1.0\nAccept: *\nhOsT:\texample.org:8080 \n").as_deref(), Some("example.org"));
        assert_eq!(host("GET / HTTP/1.1\r\nHost: [2001:db8::1]:80\r\n").as_deref(), Some("[2001:db8::1]"));
        assert_eq!(host("VERSION-CONTROL /a HTTP/1.1\r\nHOST: 192.0.2.1:80\r\n").as_deref(), Some("192.0.2.1"));
        assert_eq!(host("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example.:443\r\n").as_deref(), Some("a.example"));
        assert_eq!(host("GET / HTTP/1.1\r\nHost: example.o"), None, "cut within the name");
        assert_eq!(host("GET / HTTP/1.1\r\nAccept: *\r\n\r\nHost: not.a.field\r\n"), None, "in the body");
        assert_eq!(host("GET / HTTP/1.1\r\nHost:\r\n\r\n"), None);
        assert_eq!(host("SSH-2.0-OpenSSH_9.2\r\n"), None);
        assert_eq!(host("GET no version\r\nHost: a.example\r\n"), None);
    }

    #[test]
    fn what_cannot_be_printed_is_escaped() {
        let host = b"GET / HTTP/1.1\r\nHost: m\xc3\xbcller\\x .example\r\n";
        assert_eq!(server(host).as_deref(), Some("m\\195\\188ller\\\\x\\032.example"));
        let long = format!("GET / HTTP/1.1\r\nHost: {}\r\n", "\u{fc}".repeat(300));
        let name = server(long.as_bytes()).unwrap();
        assert_eq!(name.len(), 252, "no half escape at the end");
        assert!(name.ends_with("\\188") || name.ends_with("\\195"), "{name}");
    }

    /// A DNS message with these octets after its header.
    fn dns(flags: [u8; 2], questions: u16, rest: &[u8]) -> Vec<u8> {
        [&[0x12, 0x34][..], &flags, &questions.to_be_bytes(), &[0; 6], rest].concat()
    }

    fn query(rest: &[u8]) -> Option<String> {
        text(dns_query(false, &dns([1, 0], 1, rest)))
    }

    #[test]
    fn a_question_says_its_name() {
        assert_eq!(query(b"\x03WWW\x07example\x03org\0\0\x01\0\x01").as_deref(), Some("www.example.org"));
        assert_eq!(query(b"\x07example\0\0\x1c\0\x01").as_deref(), Some("example"));
        assert_eq!(query(b"\0\0\x02\0\x01").as_deref(), Some("."), "the root");
        assert_eq!(query(b"\x05a.b\\c\x01\xff\0\0\x01\0\x01").as_deref(), Some("a\\.b\\\\c.\\255"));
        assert_eq!(query(b"\x05_http\x04_tcp\x05local\0\0\x0c\x80\x01").as_deref(), Some("_http._tcp.local"), "mDNS");
        assert_eq!(query(b"\x01a\0").as_deref(), Some("a"), "cut after the name");
        assert_eq!(query(b"\x07exam"), None, "cut within it");
        let framed = block16(&dns([1, 0], 1, b"\x01a\0\0\x01\0\x01"));
        assert_eq!(text(dns_query(true, &framed)).as_deref(), Some("a"));
        assert_eq!(dns_query(false, &dns([1, 0], 1, b"\x01a\0\0\x01\0\x01")).unwrap().kind(), Kind::Query);
    }

    #[test]
    fn what_is_no_question_says_none() {
        assert_eq!(text(dns_query(false, &dns([0x84, 0], 0, b"\x01a\0\0\x01\0\x01"))), None, "an answer without one");
        assert_eq!(text(dns_query(false, &dns([0x7d, 0], 1, b"\x01a\0\0\x01\0\x01"))), None, "an unknown opcode");
        assert_eq!(query(b"\x01a\0\0\x01\x12\x34"), None, "an unknown class");
        assert_eq!(query(b"\x41a\0\0\x01\0\x01"), None, "a label of an unknown type");
        assert_eq!(
            query(&b"\x3faaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".repeat(5)),
            None,
            "long"
        );
        assert_eq!(text(dns_query(false, b"")), None);
    }

    #[test]
    fn pointers_lead_backwards_and_end() {
        assert_eq!(query(b"\xc0\x0c\0\x01\0\x01"), None, "to itself");
        assert_eq!(query(b"\x01a\xc0\x0c\0\x01\0\x01"), None, "to its own beginning");
        assert_eq!(query(b"\xc0\x20\0\x01\0\x01"), None, "forwards");
        // Into the header: the two octets of the identifier read as a label, then the flags' high octet as its end.
        let message = [&[1, b'x', 0, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], b"\x01a\xc0\x00\0\x01\0\x01"].concat();
        assert_eq!(text(dns_query(false, &message)).as_deref(), Some("a.x"));
    }

    #[test]
    fn a_flow_without_a_name_pays_eight_octets() {
        assert_eq!(size_of::<Option<Name>>(), 8);
    }

    proptest! {
        #[test]
        fn whatever_the_octets_a_name_is_printable_and_bounded(
            start in prop_oneof![
                Just(Vec::new()),
                Just(b"GET / HTTP/1.1\r\nHost: ".to_vec()),
                Just(dns([1, 0], 1, b"")),
            ],
            keep in 0usize..80,
            rest in proptest::collection::vec(any::<u8>(), 0..700),
            ends in any::<bool>(),
        ) {
            let end: &[u8] = if ends { b"\r\n" } else { b"" };
            let payload = [&start[..keep.min(start.len())], &rest, end].concat();
            let whole = [&start[..], &rest, end].concat();
            for payload in [payload, whole] {
                for name in [http_server(&payload), dns_query(false, &payload), dns_query(true, &payload)] {
                    let Some(name) = name else { continue };
                    let text = name.as_str();
                    prop_assert!(!text.is_empty() && text.len() <= MAX_OCTETS, "{}", text);
                    prop_assert!(text.bytes().all(|octet| octet.is_ascii_graphic() && !octet.is_ascii_uppercase()), "{}", text);
                }
            }
        }

        #[test]
        fn a_name_of_labels_comes_out_as_it_went_in(labels in proptest::collection::vec("[a-z0-9_-]{1,20}", 1..8)) {
            let mut wire: Vec<u8> = labels.iter().flat_map(|label| [&[label.len() as u8][..], label.as_bytes()].concat()).collect();
            wire.extend(b"\0\0\x01\0\x01");
            prop_assert_eq!(query(&wire), Some(labels.join(".")));
        }
    }
}
