//! The file `EXCHANGE` of an export: the form, number and guarantees of its tables. docs/format.md, section 8.3.
//!
//! It is written last: a directory without this file is not an export. It lists uid, length and digest of each table,
//! so that a missing, foreign or older table is detected.

use std::ops::Bound;

use waxseal_lsm::checksum::{Uid, hash};
use waxseal_lsm::codec::{Reader, put_bytes, put_varint};
use waxseal_lsm::db::CursorBounds;
use waxseal_lsm::error::{Error, ErrorKind, Result};
use waxseal_lsm::header::{FileHeader, FileKind, HEADER_BYTES};

use super::{Form, Versions};

/// The name of the description file.
pub const NAME: &str = "EXCHANGE";

/// The description of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Unique id of this export.
    pub uid: Uid,
    /// The metadata that the tables store with the records.
    pub form: Form,
    /// The name of the key order.
    pub comparator: String,
    /// The exported key ranges.
    pub bounds: Vec<CursorBounds>,
    /// Whether the tables have several versions of a key.
    pub versions: Versions,
    /// Number of user records in all tables.
    pub records: u64,
    /// Number of rows for them.
    pub rows: u64,
    /// Σ of their seals, modulo 2^64; 0 if no metadata is exported.
    pub sum: u64,
    /// The algorithm of the seals; 0 without seals.
    pub algorithm: u64,
    /// True if every record has a seal.
    pub complete: bool,
    /// The tables.
    pub files: Vec<File>,
}

/// One table of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its file name in the directory.
    pub name: String,
    /// The file's unique id.
    pub uid: Uid,
    /// Its length in bytes.
    pub size: u64,
    /// Its digest.
    pub digest: u64,
    /// Number of user records in it.
    pub records: u64,
    /// Number of rows for records.
    pub rows: u64,
}

const FORM: u64 = 2;
const COMPARATOR: u64 = 4;
const BOUNDS: u64 = 6;
const VERSIONS: u64 = 8;
const COUNTS: u64 = 10;
const SEALS: u64 = 12;
const FILE: u64 = 14;

impl Manifest {
    /// Encodes the whole file.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = FileHeader::new(FileKind::Exchange, self.uid).encode().to_vec();
        let mut body = Vec::new();
        let mut put = |tag: u64, fill: &dyn Fn(&mut Vec<u8>)| {
            body.clear();
            fill(&mut body);
            put_varint(&mut out, tag);
            put_bytes(&mut out, &body);
        };
        put(FORM, &|body| body.push(self.form as u8));
        put(COMPARATOR, &|body| body.extend_from_slice(self.comparator.as_bytes()));
        for (low, high) in &self.bounds {
            put(BOUNDS, &|body| [low, high].into_iter().for_each(|bound| put_bound(body, bound)));
        }
        put(VERSIONS, &|body| body.push(self.versions as u8));
        put(COUNTS, &|body| {
            put_varint(body, self.records);
            put_varint(body, self.rows);
        });
        put(SEALS, &|body| {
            put_varint(body, self.algorithm);
            body.push(self.complete.into());
            body.extend_from_slice(&self.sum.to_le_bytes());
        });
        for file in &self.files {
            put(FILE, &|body| {
                put_bytes(body, file.name.as_bytes());
                body.extend_from_slice(&file.uid.0);
                put_varint(body, file.size);
                body.extend_from_slice(&file.digest.to_le_bytes());
                put_varint(body, file.records);
                put_varint(body, file.rows);
            });
        }
        let sum = hash(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    /// Decodes the whole file. Errors: `Corruption` at an offset in `EXCHANGE`, `FormatTooNew`.
    pub fn decode(bytes: &[u8]) -> Result<Manifest> {
        let at = |offset: usize| move |error: Error| error.in_file(NAME, offset as u64);
        let Some(end) = bytes.len().checked_sub(8).filter(|end| *end >= HEADER_BYTES) else {
            return Err(Error::structural("too short to describe an export")).map_err(at(0));
        };
        let header = FileHeader::decode(&bytes[..HEADER_BYTES], FileKind::Exchange).map_err(at(0))?;
        let (found, expected) = (hash(&bytes[..end]), Reader::starting_at(bytes, end).u64().map_err(at(end))?);
        if found != expected {
            return Err(Error::mismatch(expected, found, "the description of an export")).map_err(at(end));
        }
        let mut manifest = Manifest { uid: header.uid, ..Manifest::empty() };
        let mut reader = Reader::starting_at(&bytes[..end], HEADER_BYTES);
        let mut seen = 0u32;
        while !reader.is_empty() {
            let offset = reader.position();
            let tag = reader.varint().map_err(at(offset))?;
            let body = reader.length_prefixed().map_err(at(offset))?;
            if tag < 32 {
                seen |= 1 << tag;
            }
            manifest.set(tag, body).map_err(at(offset))?;
        }
        const NEEDED: u32 = 1 << FORM | 1 << COMPARATOR | 1 << VERSIONS | 1 << COUNTS | 1 << SEALS;
        if seen & NEEDED != NEEDED {
            return Err(Error::structural("something that every export says is missing")).map_err(at(HEADER_BYTES));
        }
        manifest.adds_up().map_err(at(HEADER_BYTES))?;
        Ok(manifest)
    }

    fn empty() -> Manifest {
        Manifest {
            uid: Uid::default(),
            form: Form::Plain,
            comparator: String::new(),
            bounds: Vec::new(),
            versions: Versions::Newest,
            records: 0,
            rows: 0,
            sum: 0,
            algorithm: 0,
            complete: false,
            files: Vec::new(),
        }
    }

    fn set(&mut self, tag: u64, body: &[u8]) -> Result<()> {
        let mut reader = Reader::new(body);
        let text =
            |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| Error::structural("a name that is not text"));
        match tag {
            FORM => self.form = Form::from_byte(reader.u8()?)?,
            COMPARATOR => self.comparator = text(body)?,
            BOUNDS => self.bounds.push((take_bound(&mut reader)?, take_bound(&mut reader)?)),
            VERSIONS => {
                self.versions = match reader.u8()? {
                    0 => Versions::Newest,
                    1 => Versions::All,
                    _ => return Err(unknown("a choice of versions")),
                }
            }
            COUNTS => (self.records, self.rows) = (reader.varint()?, reader.varint()?),
            SEALS => {
                self.algorithm = reader.varint()?;
                self.complete = reader.u8()? == 1;
                self.sum = reader.u64()?;
            }
            FILE => self.files.push(File {
                name: text(reader.length_prefixed()?)?,
                uid: Uid(reader.array()?),
                size: reader.varint()?,
                digest: reader.u64()?,
                records: reader.varint()?,
                rows: reader.varint()?,
            }),
            tag if tag % 2 == 0 => return Err(unknown("something of an export")),
            _ => {}
        }
        Ok(())
    }

    /// Checks that the tables' counts add up, and that every name is a file in the directory itself.
    fn adds_up(&self) -> Result<()> {
        let sum = |count: fn(&File) -> u64| self.files.iter().try_fold(0u64, |sum, file| sum.checked_add(count(file)));
        if sum(|file| file.records) != Some(self.records) || sum(|file| file.rows) != Some(self.rows) {
            return Err(Error::structural("the tables of an export do not add up to it"));
        }
        let leads_away =
            |file: &File| file.name.is_empty() || file.name.starts_with('.') || file.name.contains(['/', '\\']);
        if let Some(File { name, .. }) = self.files.iter().find(|file| leads_away(file)) {
            let why = "is not a file in the directory of the export; the export was changed, take a new one";
            return Err(Error::structural(&format!("the table name {name:?} {why}")));
        }
        Ok(())
    }
}

#[cold]
fn unknown(what: &str) -> Error {
    Error::of(ErrorKind::FormatTooNew, format!("{what} that this version does not know"))
}

fn put_bound(out: &mut Vec<u8>, bound: &Bound<Vec<u8>>) {
    let (kind, key): (u8, &[u8]) = match bound {
        Bound::Unbounded => (0, &[]),
        Bound::Included(key) => (1, key),
        Bound::Excluded(key) => (2, key),
    };
    out.push(kind);
    put_bytes(out, key);
}

fn take_bound(reader: &mut Reader<'_>) -> Result<Bound<Vec<u8>>> {
    let (kind, key) = (reader.u8()?, reader.length_prefixed()?.to_vec());
    match kind {
        0 => Ok(Bound::Unbounded),
        1 => Ok(Bound::Included(key)),
        2 => Ok(Bound::Excluded(key)),
        _ => Err(Error::structural("a bound of no known kind")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
        (0..3u8, any::<Vec<u8>>()).prop_map(|(kind, key)| match kind {
            0 => Bound::Unbounded,
            1 => Bound::Included(key),
            _ => Bound::Excluded(key),
        })
    }

    fn manifests() -> impl Strategy<Value = Manifest> {
        let file = ("[a-z0-9]{1,9}", any::<[u8; 16]>(), any::<u64>(), any::<u64>(), 0..1000u64, 0..1000u64);
        let file = file.prop_map(|(name, uid, size, digest, records, rows)| File {
            name: format!("{name}.tbl"),
            uid: Uid(uid),
            size,
            digest,
            records,
            rows,
        });
        let form = select(vec![Form::Plain, Form::Sealed, Form::PaperSafe, Form::PaperLiteral]);
        let versions = select(vec![Versions::Newest, Versions::All]);
        let parts = (any::<[u8; 16]>(), form, "[a-z.]{0,9}", vec((bound(), bound()), 0..3), versions, vec(file, 0..4));
        (parts, any::<u64>(), any::<u64>(), any::<bool>()).prop_map(|(parts, sum, algorithm, complete)| {
            let (uid, form, comparator, bounds, versions, files) = parts;
            let records = files.iter().map(|file| file.records).sum();
            let rows = files.iter().map(|file| file.rows).sum();
            let uid = Uid(uid);
            Manifest { uid, form, comparator, bounds, versions, records, rows, sum, algorithm, complete, files }
        })
    }

    proptest! {
        #[test]
        fn descriptions_come_back(manifest in manifests(), bit: usize) {
            let bytes = manifest.encode();
            prop_assert_eq!(Manifest::decode(&bytes).unwrap(), manifest);
            let mut damaged = bytes.clone();
            let bit = bit % (8 * bytes.len());
            damaged[bit / 8] ^= 1 << (bit % 8);
            let error = Manifest::decode(&damaged).unwrap_err();
            prop_assert_eq!(&error.damage().unwrap().file, NAME);
            prop_assert!(Manifest::decode(&bytes[..bit / 8]).is_err());
        }

        #[test]
        fn any_bytes_describe_an_export_or_are_refused(mut bytes in vec(any::<u8>(), 0..200)) {
            let _ = Manifest::decode(&bytes);
            let mut whole = FileHeader::new(FileKind::Exchange, Uid::default()).encode().to_vec();
            whole.append(&mut bytes);
            whole.extend_from_slice(&hash(&whole).to_le_bytes());
            let _ = Manifest::decode(&whole);
        }
    }

    #[test]
    fn a_table_outside_of_its_export_is_refused() {
        for name in ["../000001.tbl", "/etc/passwd", "a\\b", "", ".hidden"] {
            let file = File { name: name.into(), uid: Uid::default(), size: 0, digest: 0, records: 0, rows: 0 };
            let manifest = Manifest { files: vec![file], ..Manifest::empty() };
            let error = Manifest::decode(&manifest.encode()).unwrap_err();
            assert!(error.is_corruption() && error.to_string().contains(&format!("{name:?}")), "{error}");
        }
    }
}
