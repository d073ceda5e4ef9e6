//! Paths in URLs: percent-encoded names, separated by `/`.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};

/// Bytes of a name that are encoded: all but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Returns a path as a URL has it, beginning with one `/`.
pub(crate) fn encode(path: &[u8]) -> String {
    let mut url = String::with_capacity(path.len() + 1);
    for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        url.push('/');
        url += &encode_name(name);
    }
    if url.is_empty() {
        url.push('/');
    }
    url
}

/// Returns one name as a URL has it, or a text as a header has it.
pub(crate) fn encode_name(name: &[u8]) -> String {
    percent_encoding::percent_encode(name, RESERVED).to_string()
}

/// Returns the path of a URL. `None` for an incomplete escape, and for a name that would contain a `/`.
#[cfg(feature = "server")]
pub(crate) fn decode(url: &str) -> Option<Vec<u8>> {
    let mut path = Vec::with_capacity(url.len());
    let mut rest = url.bytes();
    while let Some(byte) = rest.next() {
        let decoded = match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                (digit(rest.next())? * 16 + digit(rest.next())?) as u8
            }
            byte => byte,
        };
        if decoded == b'/' && byte == b'%' {
            return None;
        }
        path.push(decoded);
    }
    Some(path)
}

#[cfg(all(test, feature = "server"))]
mod tests {
    use super::*;

    #[test]
    fn a_path_comes_back_from_its_url() {
        for path in [&b"a/b"[..], b"a b/%41", b"\xff\x01?#&<>\"'", b"...", b"javascript:x"] {
            let url = encode(path);
            assert!(url.is_ascii() && !url.contains(['<', '"', '\'', ':', '?', '#', ' ']), "{url}");
            assert_eq!(decode(&url).unwrap()[1..], *path);
        }
        assert_eq!((encode(b""), encode(b"//a//b/")), ("/".to_owned(), "/a/b".to_owned()));
        for wrong in ["/%", "/%4", "/%zz", "/a%2fb", "/%+1"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
        assert_eq!(decode("/%2e%2e/%00"), Some(b"/../\0".to_vec()), "the store refuses them");
    }
}
