//! The body of an upload that keeps holes and extended attributes: parts of a kind, a length and content.
//!
//! A part is a byte for its kind, the length as 8 bytes in little-endian order, and that many bytes; a hole has a length
//! alone. An extended attribute is the length of the name (2 bytes, little-endian), name and value.

pub(crate) const DATA: u8 = 0;
pub(crate) const HOLE: u8 = 1;
pub(crate) const XATTR: u8 = 2;

/// Bytes before the content of a part.
pub(crate) const HEAD_BYTES: usize = 9;

/// Returns the head of a part.
pub(crate) fn head(kind: u8, length: u64) -> [u8; HEAD_BYTES] {
    let mut head = [kind; HEAD_BYTES];
    head[1..].copy_from_slice(&length.to_le_bytes());
    head
}

/// Returns an extended attribute as a part; `None` if the name exceeds 64 KiB.
pub(crate) fn xattr(name: &[u8], value: &[u8]) -> Option<Vec<u8>> {
    let length = u16::try_from(name.len()).ok()?.to_le_bytes();
    let bytes = [&length[..], name, value].concat();
    Some([&head(XATTR, bytes.len() as u64)[..], &bytes].concat())
}

/// Most bytes of an extended attribute, with its name.
#[cfg(feature = "server")]
const MAX_XATTR_BYTES: u64 = 128 * 1024;

/// A part, or a piece of one.
#[cfg(feature = "server")]
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Part<'a> {
    Data(&'a [u8]),
    Hole(u64),
    Xattr(&'a [u8], &'a [u8]),
}

/// Decodes the parts of a body that comes in pieces.
#[cfg(feature = "server")]
#[derive(Default)]
pub(crate) struct Decoder {
    /// The beginning of a head, or of an extended attribute.
    begun: Vec<u8>,
    /// Bytes of data that the current part still has.
    data_left: u64,
    /// Length of the extended attribute that `begun` is for.
    xattr: Option<usize>,
}

#[cfg(feature = "server")]
impl Decoder {
    /// Decodes the next piece of a body and passes its parts to `take`. Errors: a malformed part; errors of `take`.
    pub(crate) fn feed<E: From<&'static str>>(
        &mut self,
        mut bytes: &[u8],
        mut take: impl FnMut(Part<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while !bytes.is_empty() {
            if self.data_left > 0 {
                let now = self.data_left.min(bytes.len() as u64) as usize;
                take(Part::Data(&bytes[..now]))?;
                self.data_left -= now as u64;
                bytes = &bytes[now..];
                continue;
            }
            let wanted = self.xattr.unwrap_or(HEAD_BYTES);
            let now = (wanted - self.begun.len()).min(bytes.len());
            self.begun.extend_from_slice(&bytes[..now]);
            bytes = &bytes[now..];
            if self.begun.len() < wanted {
                break;
            }
            let begun = std::mem::take(&mut self.begun);
            match self.xattr.take() {
                Some(_) => {
                    let (length, rest) = begun.split_first_chunk::<2>().ok_or("an attribute is too short")?;
                    let name = usize::from(u16::from_le_bytes(*length));
                    let (name, value) = rest.split_at_checked(name).ok_or("an attribute is too short")?;
                    take(Part::Xattr(name, value))?;
                }
                None => self.begin(&begun, &mut take)?,
            }
        }
        Ok(())
    }

    fn begin<E: From<&'static str>>(
        &mut self,
        head: &[u8],
        take: &mut impl FnMut(Part<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let length = head.last_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        match head.first() {
            Some(&DATA) => self.data_left = length,
            Some(&HOLE) => take(Part::Hole(length))?,
            Some(&XATTR) if (2..=MAX_XATTR_BYTES).contains(&length) => self.xattr = Some(length as usize),
            _ => return Err("the body is not of parts".into()),
        }
        Ok(())
    }

    /// Returns true between two parts, where a body may end.
    pub(crate) fn is_between_parts(&self) -> bool {
        self.begun.is_empty() && self.data_left == 0 && self.xattr.is_none()
    }
}

#[cfg(all(test, feature = "server"))]
mod tests {
    use super::*;

    /// Returns what a body decodes to, in pieces of a length.
    fn decoded(body: &[u8], piece: usize) -> Result<(String, bool), String> {
        let (mut decoder, mut found) = (Decoder::default(), String::new());
        for piece in body.chunks(piece) {
            decoder.feed(piece, |part| -> Result<(), String> {
                match part {
                    Part::Data(bytes) => found += &String::from_utf8_lossy(bytes),
                    Part::Hole(length) => found += &format!("[{length}]"),
                    Part::Xattr(name, value) => {
                        found += &format!("<{}={}>", name.escape_ascii(), value.escape_ascii());
                    }
                }
                Ok(())
            })?;
        }
        Ok((found, decoder.is_between_parts()))
    }

    #[test]
    fn parts_are_decoded_in_pieces_of_any_length() {
        let body = [
            &head(DATA, 3)[..],
            b"abc",
            &head(HOLE, 7),
            &xattr(b"user.x", b"1").unwrap(),
            &head(DATA, 0),
            &head(DATA, 1),
            b"d",
        ]
        .concat();
        for piece in 1..=body.len() {
            assert_eq!(decoded(&body, piece).unwrap(), ("abc[7]<user.x=1>d".to_owned(), true), "{piece}");
        }
        for end in 1..body.len() {
            let is_boundary = [12, 21, 39, 48].contains(&end);
            assert_eq!(decoded(&body[..end], 4).unwrap().1, is_boundary, "{end}");
        }
        for wrong in
            [&head(3, 0)[..], &head(XATTR, 1), &head(XATTR, u64::MAX), &[&head(XATTR, 2)[..], b"\x01\0"].concat()]
        {
            assert!(decoded(wrong, 64).is_err(), "{wrong:?}");
        }
        assert!(xattr(&[b'x'; 70_000], b"").is_none());
    }
}
