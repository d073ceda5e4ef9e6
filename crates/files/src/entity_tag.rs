//! Entity tags: a file's content in one word.

use std::fmt;
use std::str::FromStr;

use crate::digest::Digest;
use crate::error::{Error, Result};

/// Identifies the content of a file: its digest and size. Displayed as the entity tag of HTTP, without quotes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EntityTag {
    /// The digest.
    pub digest: Digest,
    /// The length in bytes.
    pub size: u64,
}

impl fmt::Display for EntityTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:x}", self.digest, self.size)
    }
}

impl FromStr for EntityTag {
    type Err = Error;

    /// Parses what `Display` writes. Errors: `Invalid`.
    fn from_str(text: &str) -> Result<EntityTag> {
        let parsed = text.split_once('-').and_then(|(digest, size)| {
            let digest = Digest::from_number(u128::from_str_radix(digest, 16).ok()?);
            Some(EntityTag { digest, size: u64::from_str_radix(size, 16).ok()? })
        });
        parsed.filter(|tag| tag.to_string() == text).ok_or_else(|| Error::invalid(format!("{text:?} is no entity tag")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_tag_has_one_text() {
        let tag = EntityTag { digest: Digest::from_number(0xab), size: 0x1f };
        let text = "000000000000000000000000000000ab-1f";
        assert_eq!((tag.to_string(), text.parse::<EntityTag>().unwrap()), (text.to_owned(), tag));
        for wrong in ["", "-", "ab-1f", "000000000000000000000000000000AB-1f", "000000000000000000000000000000ab-+1f"] {
            assert_eq!(wrong.parse::<EntityTag>().unwrap_err().kind(), ErrorKind::Invalid, "{wrong:?}");
        }
    }
}
