//! The typed fields of an event, in addition to its key. docs/format.md, section 9.6.
//!
//! The writer of an event chooses its fields; this module defines each field's number, type and limit. Fields are in
//! ascending order of their numbers; fields with the same number keep their order. A field with an unknown number is
//! preserved, so an older store can pass on events of a newer one.

use waxseal_lsm::checksum::Uid;
use waxseal_lsm::codec::{Reader, put_bytes, put_varint};
use waxseal_lsm::error::{Error, Result};
use waxseal_meta::Seal;

use crate::target::TargetPath;

/// Longest field except images, in bytes.
pub const MAX_FIELD_BYTES: usize = 64 * 1024;
/// Longest value kept as an image; a longer one is represented by its seal.
pub const MAX_IMAGE_BYTES: usize = 1024 * 1024;
/// Longest payload, in bytes.
pub const MAX_PAYLOAD_BYTES: usize = 16 * 1024 * 1024;

/// The image of a value in an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Image {
    /// There was no value.
    Absent,
    /// The whole value.
    Value(Vec<u8>),
    /// Its seal, which identifies it.
    Seal(Seal),
}

impl Image {
    /// Returns the value, or its seal if it is too long.
    pub fn of(key: &[u8], value: &[u8]) -> Image {
        match value.len() <= MAX_IMAGE_BYTES {
            true => Image::Value(value.to_vec()),
            false => Image::Seal(Seal::of(key, value)),
        }
    }
}

/// A borrowed image of a value.
#[derive(Clone, Copy)]
pub(crate) enum ValueImage<'a> {
    Absent,
    Value(&'a [u8]),
    Seal(Seal),
}

impl<'a> ValueImage<'a> {
    /// The counterpart of `Image::of`.
    pub(crate) fn of(key: &[u8], value: &'a [u8]) -> ValueImage<'a> {
        match value.len() <= MAX_IMAGE_BYTES {
            true => ValueImage::Value(value),
            false => ValueImage::Seal(Seal::of(key, value)),
        }
    }

    /// Appends it as the new value.
    pub(crate) fn put_new(self, out: &mut Vec<u8>) {
        self.put_as(NEW_VALUE, out);
    }

    fn put_as(self, number: u64, out: &mut Vec<u8>) {
        let (length, seal);
        let bytes: (u8, &[u8]) = match self {
            ValueImage::Absent => (ABSENT, &[]),
            ValueImage::Value(value) => (VALUE, value),
            ValueImage::Seal(of) => {
                seal = of.to_bytes();
                (SEAL, &seal)
            }
        };
        length = 1 + bytes.1.len();
        put_varint(out, number);
        put_varint(out, length as u64);
        out.push(bytes.0);
        out.extend_from_slice(bytes.1);
    }
}

impl Image {
    /// Appends it as the old value.
    pub(crate) fn put_old(&self, out: &mut Vec<u8>) {
        self.shown().put_as(OLD_VALUE, out);
    }

    fn shown(&self) -> ValueImage<'_> {
        match self {
            Image::Absent => ValueImage::Absent,
            Image::Value(value) => ValueImage::Value(value),
            Image::Seal(seal) => ValueImage::Seal(*seal),
        }
    }
}

/// Numbers of fields that are encoded without a `Field`.
const OLD_VALUE: u64 = 17;
const NEW_VALUE: u64 = 18;
pub(crate) const AUTHENTICATED: u64 = 31;
pub(crate) const VIA: u64 = 32;

/// The first byte of an image: its kind.
const ABSENT: u8 = 0;
const VALUE: u8 = 1;
const SEAL: u8 = 2;

/// Appends one field of a payload. The caller ensures that its bytes are within the limit.
pub(crate) fn put_field(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    debug_assert!(bytes.len() <= limit(number), "a field beyond its limit");
    put_varint(out, number);
    put_bytes(out, bytes);
}

/// A range of tokens and its destination.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenRange {
    /// The keyspace it belongs to.
    pub keyspace: String,
    /// First token.
    pub start: u64,
    /// Last token.
    pub end: u64,
    /// Nodes that hold it afterwards.
    pub replicas: Vec<String>,
    /// Records in it.
    pub records: u64,
    /// Bytes in it.
    pub bytes: u64,
    /// Sum of the seals of its records.
    pub sum: u64,
}

/// A table file that an operation read or wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileRef {
    /// Its uid.
    pub uid: Uid,
    /// Its digest.
    pub digest: u64,
    /// Records in it.
    pub records: u64,
}

macro_rules! fields {
    ($($(#[$doc:meta])* $number:literal $name:ident($kind:ty);)*) => {
        /// One field.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub enum Field {
            $($(#[$doc])* $name($kind),)*
            /// A field of a later version: its number and bytes.
            Other(u64, Vec<u8>),
        }

        impl Field {
            /// The field's number.
            pub fn number(&self) -> u64 {
                match self {
                    $(Field::$name(_) => $number,)*
                    Field::Other(number, _) => *number,
                }
            }

            fn encode(&self, out: &mut Vec<u8>) {
                match self {
                    $(Field::$name(value) => value.put(out),)*
                    Field::Other(_, bytes) => out.extend_from_slice(bytes),
                }
            }

            fn decode(number: u64, bytes: &[u8]) -> Result<Field> {
                let mut reader = Reader::new(bytes);
                let field = match number {
                    $($number => Field::$name(<$kind as Encoded>::take(&mut reader)?),)*
                    _ => return Ok(Field::Other(number, bytes.to_vec())),
                };
                match reader.is_empty() {
                    true => Ok(field),
                    false => Err(Error::structural("bytes behind the value of a field")),
                }
            }
        }
    };
}

fields! {
    /// The text of a caller of `Log::add`.
    1 Text(Vec<u8>);
    /// The old name.
    2 OldName(String);
    /// The new name.
    3 NewName(String);
    /// A setting by name and value: replication, compaction, compression, ..
    4 Setting((String, String));
    /// The name of the column concerned.
    5 Column(String);
    /// The type of the column.
    6 ColumnType(String);
    /// The number of the column.
    7 ColumnId(u64);
    /// The new state of the column.
    8 ColumnState(u64);
    /// When a state ends by itself: a `Time`.
    9 Deadline(u64);
    /// A seqno up to which the event applies.
    10 SeqnoBound(u64);
    /// A certificate that something was removed.
    11 Certificate(Vec<u8>);
    /// Approximate number of records concerned.
    12 Records(u64);
    /// Approximate number of bytes concerned.
    13 Bytes(u64);
    /// Sum of the seals of the records concerned.
    14 Sum(u64);
    /// Time to live, in seconds.
    15 Ttl(u64);
    /// The time that the caller assigned to the write.
    16 UserTime(u64);
    /// The old value.
    17 OldValue(Image);
    /// The new value.
    18 NewValue(Image);
    /// First key of a range.
    19 RangeStart(Vec<u8>);
    /// End of a range: its last key for a lost range, otherwise exclusive; absent: unbounded.
    20 RangeEnd(Vec<u8>);
    /// A range of tokens that changes owners.
    21 Tokens(TokenRange);
    /// A table file that was read.
    22 Input(FileRef);
    /// A table file that was written.
    23 Output(FileRef);
    /// Duration in nanoseconds.
    24 Nanos(u64);
    /// First and last logical log offset concerned.
    25 LogRange((u64, u64));
    /// The defect that was found, or the result.
    26 Verdict(String);
    /// The method used.
    27 Method(String);
    /// Number of bits corrected.
    28 BitsFixed(u64);
    /// The source of the data used for the repair.
    29 Helper(String);
    /// Number of attempts.
    30 Retries(u64);
    /// The session's authentication method; absent: unauthenticated.
    31 Authenticated(String);
    /// The registration's target, if it differs from the event's target.
    32 Via(TargetPath);
    /// The options of a registration, encoded as in its row.
    33 Options(Vec<u8>);
    /// The hash of the previous event, where events are chained.
    34 Previous(Vec<u8>);
    /// The name of a key column.
    35 KeyColumn(String);
    /// The location of a key in the engine.
    36 EngineKey(Vec<u8>);
    /// The old value is kept as the previous version in the family: 0 shows the value, 1 its seal. Queries replace this
    /// field by the value. If they return the field itself, that version no longer exists, or was never copied.
    37 OldKept(u64);
}

impl Field {
    /// Appends the field, with its number, to an encoded payload.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        put_field(out, self.number(), &bytes);
    }
}

/// The fields of one event.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Payload {
    fields: Vec<Field>,
}

impl Payload {
    /// Returns a payload without fields.
    pub fn new() -> Payload {
        Payload::default()
    }

    /// Returns the payload of a caller's text for `Log::add`.
    pub fn text(text: impl Into<Vec<u8>>) -> Payload {
        Payload::new().with(Field::Text(text.into()))
    }

    /// Returns the payload with one more field.
    #[must_use]
    pub fn with(mut self, field: Field) -> Payload {
        self.push(field);
        self
    }

    /// Adds a field.
    pub fn push(&mut self, field: Field) {
        let number = field.number();
        let at = self.fields.partition_point(|other| other.number() <= number);
        self.fields.insert(at, field);
    }

    /// Returns the first field that `is` accepts.
    pub fn find<T>(&self, is: impl Fn(&Field) -> Option<T>) -> Option<T> {
        self.fields.iter().find_map(is)
    }

    /// Removes the fields with a number.
    pub(crate) fn remove(&mut self, number: u64) {
        self.fields.retain(|field| field.number() != number);
    }

    /// Returns the fields, by number.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Returns true if there are no fields.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Appends the payload: `number varint, bytes` per field. Errors: `Invalid` beyond a limit, or for `Other` with a
    /// known number; nothing is appended then.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        let outcome = self.put_fields(out).and_then(|()| match out.len() - start {
            length if length > MAX_PAYLOAD_BYTES => Err(too_long("a payload", length, MAX_PAYLOAD_BYTES)),
            _ => Ok(()),
        });
        outcome.inspect_err(|_| out.truncate(start))
    }

    fn put_fields(&self, out: &mut Vec<u8>) -> Result<()> {
        let mut bytes = Vec::new();
        for field in &self.fields {
            bytes.clear();
            field.encode(&mut bytes);
            let limit = limit(field.number());
            if bytes.len() > limit {
                return Err(too_long("a field of a payload", bytes.len(), limit));
            }
            if let Field::Other(number, _) = field
                && !matches!(Field::decode(*number, &[]), Ok(Field::Other(..)))
            {
                return Err(Error::invalid(format!("field {number} of a payload has a type of its own")));
            }
            put_varint(out, field.number());
            put_bytes(out, &bytes);
        }
        Ok(())
    }

    /// Decodes the rest of `reader`. Malformed or oversized payloads are refused.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Payload> {
        if reader.remaining() > MAX_PAYLOAD_BYTES {
            return Err(Error::structural("a payload longer than the limit"));
        }
        let (mut fields, mut last) = (Vec::new(), 0);
        while !reader.is_empty() {
            let number = reader.varint()?;
            let bytes = reader.length_prefixed()?;
            if number < last {
                return Err(Error::structural("fields of a payload out of order"));
            }
            if bytes.len() > limit(number) {
                return Err(Error::structural("a field of a payload longer than the limit"));
            }
            fields.push(Field::decode(number, bytes)?);
            last = number;
        }
        Ok(Payload { fields })
    }
}

fn limit(number: u64) -> usize {
    match number {
        17 | 18 => MAX_IMAGE_BYTES + 1, // plus the kind byte of the image
        _ => MAX_FIELD_BYTES,
    }
}

#[cold]
fn too_long(what: &str, length: usize, limit: usize) -> Error {
    Error::invalid(format!("{what} of {length} bytes; the limit is {limit}"))
}

/// The type of a field's value.
trait Encoded: Sized {
    fn put(&self, out: &mut Vec<u8>);
    /// Decodes a value. A field's last part extends to the end, so `reader` must end with the field.
    fn take(reader: &mut Reader<'_>) -> Result<Self>;
}

impl Encoded for u64 {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, *self);
    }
    fn take(reader: &mut Reader<'_>) -> Result<u64> {
        reader.varint()
    }
}

impl Encoded for Vec<u8> {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
    fn take(reader: &mut Reader<'_>) -> Result<Vec<u8>> {
        reader.bytes(reader.remaining()).map(<[u8]>::to_vec)
    }
}

impl Encoded for TargetPath {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.bytes());
    }
    fn take(reader: &mut Reader<'_>) -> Result<TargetPath> {
        <Vec<u8>>::take(reader).map(TargetPath::from)
    }
}

impl Encoded for String {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
    fn take(reader: &mut Reader<'_>) -> Result<String> {
        Vec::take(reader).and_then(text)
    }
}

impl Encoded for (String, String) {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.0.as_bytes());
        self.1.put(out);
    }
    fn take(reader: &mut Reader<'_>) -> Result<(String, String)> {
        Ok((text(reader.length_prefixed()?.to_vec())?, String::take(reader)?))
    }
}

impl Encoded for (u64, u64) {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.0);
        put_varint(out, self.1);
    }
    fn take(reader: &mut Reader<'_>) -> Result<(u64, u64)> {
        Ok((reader.varint()?, reader.varint()?))
    }
}

impl Encoded for Image {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Image::Absent => out.push(ABSENT),
            Image::Value(value) => {
                out.push(VALUE);
                out.extend_from_slice(value);
            }
            Image::Seal(seal) => {
                out.push(SEAL);
                out.extend_from_slice(&seal.to_bytes());
            }
        }
    }
    fn take(reader: &mut Reader<'_>) -> Result<Image> {
        match reader.u8()? {
            ABSENT => Ok(Image::Absent),
            VALUE => Vec::take(reader).map(Image::Value),
            SEAL => reader.array().map(|bytes| Image::Seal(Seal::from_bytes(bytes))),
            _ => Err(Error::structural("an image of no known kind")),
        }
    }
}

impl Encoded for TokenRange {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.keyspace.as_bytes());
        for number in [self.start, self.end, self.records, self.bytes, self.sum] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        self.replicas.iter().for_each(|replica| put_bytes(out, replica.as_bytes()));
    }
    fn take(reader: &mut Reader<'_>) -> Result<TokenRange> {
        let keyspace = text(reader.length_prefixed()?.to_vec())?;
        let (start, end) = (reader.u64()?, reader.u64()?);
        let (records, bytes, sum) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let mut replicas = Vec::new();
        while !reader.is_empty() {
            replicas.push(text(reader.length_prefixed()?.to_vec())?);
        }
        Ok(TokenRange { keyspace, start, end, replicas, records, bytes, sum })
    }
}

impl Encoded for FileRef {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.uid.0);
        out.extend_from_slice(&self.digest.to_le_bytes());
        put_varint(out, self.records);
    }
    fn take(reader: &mut Reader<'_>) -> Result<FileRef> {
        Ok(FileRef { uid: Uid(reader.array()?), digest: reader.u64()?, records: reader.varint()? })
    }
}

fn text(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|_| Error::structural("a name in a payload that is no text"))
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn field() -> impl Strategy<Value = Field> {
        let image = prop_oneof![
            Just(Image::Absent),
            any::<Vec<u8>>().prop_map(Image::Value),
            any::<[u8; 8]>().prop_map(|seal| Image::Seal(Seal::from_bytes(seal))),
        ];
        let tokens = ("[a-z]{0,4}", any::<[u64; 5]>(), vec("[a-z]{0,4}", 0..3));
        prop_oneof![
            any::<Vec<u8>>().prop_map(Field::Text),
            (".{0,4}", ".{0,4}").prop_map(Field::Setting),
            any::<String>().prop_map(Field::Column),
            any::<u64>().prop_map(Field::Ttl),
            image.prop_map(Field::NewValue),
            any::<(u64, u64)>().prop_map(Field::LogRange),
            (any::<[u8; 16]>(), any::<u64>(), any::<u64>()).prop_map(|(uid, digest, records)| Field::Input(FileRef {
                uid: Uid(uid),
                digest,
                records
            })),
            tokens.prop_map(|(keyspace, [start, end, records, bytes, sum], replicas)| {
                Field::Tokens(TokenRange { keyspace, start, end, replicas, records, bytes, sum })
            }),
            (38u64.., any::<Vec<u8>>()).prop_map(|(number, bytes)| Field::Other(number, bytes)),
        ]
    }

    /// Any fields.
    pub(crate) fn payload() -> impl Strategy<Value = Payload> {
        vec(field(), 0..6).prop_map(|fields| fields.into_iter().fold(Payload::new(), Payload::with))
    }
}

#[cfg(test)]
mod tests {
    use super::testing::payload;
    use super::*;
    use proptest::prelude::*;
    use waxseal_lsm::error::ErrorKind;

    fn encoded(payload: &Payload) -> Vec<u8> {
        let mut out = Vec::new();
        payload.encode(&mut out).unwrap();
        out
    }

    #[test]
    fn golden_payload() {
        // docs/format.md, section 9.6.
        let payload = Payload::new()
            .with(Field::NewValue(Image::Value(b"Urbana,IL".to_vec())))
            .with(Field::OldValue(Image::Absent))
            .with(Field::Ttl(432_000))
            .with(Field::Column("address".to_owned()));
        assert_eq!(encoded(&payload), b"\x05\x07address\x0F\x03\x80\xAF\x1A\x11\x01\x00\x12\x0A\x01Urbana,IL");
        assert_eq!(payload.fields()[0], Field::Column("address".to_owned()));
    }

    #[test]
    fn what_is_too_long_or_wrong_is_refused_and_nothing_is_appended() {
        let image = Image::of(b"k", &vec![7; MAX_IMAGE_BYTES]);
        assert!(matches!(&image, Image::Value(value) if value.len() == MAX_IMAGE_BYTES));
        let whole = Payload::new().with(Field::OldValue(image.clone()));
        assert_eq!(Payload::decode(&mut Reader::new(&encoded(&whole))).unwrap(), whole);
        assert!(matches!(Image::of(b"k", &vec![7; MAX_IMAGE_BYTES + 1]), Image::Seal(_)));
        let mut many = Payload::new();
        (0..17).for_each(|_| many.push(Field::OldValue(image.clone())));
        for wrong in [
            Payload::text(vec![0; MAX_FIELD_BYTES + 1]),
            Payload::new().with(Field::NewValue(Image::Value(vec![0; MAX_IMAGE_BYTES + 1]))),
            Payload::new().with(Field::Other(1, Vec::new())),
            Payload::new().with(Field::Other(7, vec![1])),
            many,
        ] {
            let mut out = vec![9];
            assert_eq!(*wrong.encode(&mut out).unwrap_err().kind(), ErrorKind::Invalid);
            assert_eq!(out, [9]);
        }
        // An oversized field, an oversized payload, fields out of order, and trailing bytes.
        let mut long = vec![1];
        put_bytes(&mut long, &vec![0; MAX_FIELD_BYTES + 1]);
        for wrong in [long, vec![0; MAX_PAYLOAD_BYTES + 1], vec![5, 1, b'a', 3, 1, b'b'], vec![15, 2, 1, 1]] {
            assert!(Payload::decode(&mut Reader::new(&wrong)).unwrap_err().is_corruption());
        }
    }

    proptest! {
        #[test]
        fn payloads_come_back(payload in payload()) {
            let bytes = encoded(&payload);
            prop_assert_eq!(Payload::decode(&mut Reader::new(&bytes)).unwrap(), payload);
        }

        #[test]
        fn any_bytes_are_a_payload_or_refused(bytes: Vec<u8>, payload in payload(), at: prop::sample::Index, flip: u8) {
            let mut likely = encoded(&payload);
            if !likely.is_empty() {
                let at = at.index(likely.len());
                likely[at] ^= flip;
            }
            for bytes in [bytes, likely] {
                if let Ok(payload) = Payload::decode(&mut Reader::new(&bytes)) {
                    prop_assert_eq!(Payload::decode(&mut Reader::new(&encoded(&payload))).unwrap(), payload);
                }
            }
        }
    }
}
