//! Directory trees in a store.
//!
//! A file is a record of the family: the key is its path below the root (raw bytes, `/` between names), the value is
//! its content. A second family, `NAME.tree`, holds the other attributes under the same key:
//!
//! ```text
//! f mode      a file          mode: 4 bytes, little-endian, the permission bits
//! d mode      a directory
//! l target    a symbolic link; it has no record in the family itself
//! ```

mod dump;
mod load;

pub(crate) use dump::dump;
pub(crate) use load::{load, read_file};

use serde_json::{Value, json};

use crate::output::Output;

/// The attributes of a path.
#[derive(Clone, PartialEq, Eq, Debug)]
enum PathAttributes {
    File { mode: u32 },
    Directory { mode: u32 },
    Link { target: Vec<u8> },
}

impl PathAttributes {
    fn encode(&self) -> Vec<u8> {
        match self {
            PathAttributes::File { mode } => [b"f", &mode.to_le_bytes()[..]].concat(),
            PathAttributes::Directory { mode } => [b"d", &mode.to_le_bytes()[..]].concat(),
            PathAttributes::Link { target } => [b"l", &target[..]].concat(),
        }
    }

    fn decode(bytes: &[u8]) -> Option<PathAttributes> {
        let (kind, rest) = bytes.split_first()?;
        let mode = || Some(u32::from_le_bytes(rest.try_into().ok()?));
        match kind {
            b'f' => Some(PathAttributes::File { mode: mode()? }),
            b'd' => Some(PathAttributes::Directory { mode: mode()? }),
            b'l' => Some(PathAttributes::Link { target: rest.to_vec() }),
            _ => None,
        }
    }
}

/// Returns the name of the family that holds the `PathAttributes` of a family's paths.
fn meta_family(cf: &str) -> String {
    format!("{cf}.tree")
}

/// An entry that was left out, with the reason.
struct Left {
    path: Vec<u8>,
    reason: String,
}

fn left_json(left: &[Left], output: &Output) -> Value {
    left.iter().map(|entry| json!({ "path": output.to_json(&entry.path), "reason": entry.reason })).collect()
}

/// Prints on standard error how each entry was left out: `skipped`, `not loaded`.
fn say_left(how: &str, left: &[Left], output: &Output) {
    for entry in left {
        eprintln!("{how} {}: {}", output.readable(&entry.path), entry.reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metas_come_back() {
        for meta in [
            PathAttributes::File { mode: 0o755 },
            PathAttributes::Directory { mode: 0 },
            PathAttributes::Link { target: b"../\xff".to_vec() },
        ] {
            assert_eq!(PathAttributes::decode(&meta.encode()), Some(meta));
        }
        for bytes in [&b""[..], b"x", b"f", b"f123", b"d12345"] {
            assert_eq!(PathAttributes::decode(bytes), None);
        }
    }
}
