//! Merge operators: functions that make a value of a key's base and of the operands merged into it.
//!
//! An operand is a record of kind `Merge`. A read collects the operands of its key, newest first, down to the base: a
//! value, a tombstone, or nothing. It verifies each of them, and calls the operator. Without a base, an associative
//! operator makes the value of the operands alone.
//!
//! Holds:  an operator depends on nothing but its arguments. An associative operator gives the same value in whatever
//!         groups its inputs are combined, as long as their order is kept.
//! Errors: an operator that returns an error or panics fails the read, never a compaction.
//! Disk:   the name of a family's operator is in the manifest (docs/format.md, section 6). The engine's own operators
//!         are found by their names; a custom one must be given again when the store is opened.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::codec::{Reader, put_bytes};
use crate::error::{Error, Result};
use crate::record::MAX_VALUE_BYTES;

/// The reason for the failure of a custom operator; made of a text, or of any error by `?`.
pub type MergeFailure = Box<dyn std::error::Error + Send + Sync>;

/// The result of a custom operator: the merged value, or the reason for a failure.
pub type Merged = std::result::Result<Vec<u8>, MergeFailure>;

/// An associative function: key, older value or operand, newer operand.
type Associative = Arc<dyn Fn(&[u8], &[u8], &[u8]) -> Merged + Send + Sync>;

/// A full function: key, base, and operands in the order of their commits.
type Full = Arc<dyn Fn(&[u8], Option<&[u8]>, &[&[u8]]) -> Merged + Send + Sync>;

/// The merge operator of a column family: how operands change a value. Clones are cheap.
///
/// The name is stored with the family. A family whose stored operator has another name cannot be opened with this one.
#[derive(Clone)]
pub struct MergeOperator {
    name: Arc<str>,
    function: Function,
}

#[derive(Clone)]
enum Function {
    Add,
    /// Joined with a separator.
    Append(Arc<[u8]>),
    Min,
    Max,
    BitOr,
    Union,
    Associative(Associative),
    Full(Full),
    /// A stored name without a function.
    Missing,
}

const ADD_I64: &str = "wax.add_i64";
const ADD_U64: &str = "wax.add_u64";
const APPEND: &str = "wax.append:";
const MIN: &str = "wax.min";
const MAX: &str = "wax.max";
const BIT_OR: &str = "wax.bit_or";
const UNION: &str = "wax.union";

/// Beginning of the names of the engine's own operators.
const OWN: &str = "wax.";

/// Maximum length of an operator's name, in bytes.
const MAX_NAME_BYTES: usize = 255;

/// Maximum length of the separator of `append`, in bytes: the operator's name holds it in hexadecimal digits.
const MAX_SEPARATOR_BYTES: usize = (MAX_NAME_BYTES - APPEND.len()) / 2;

impl MergeOperator {
    fn new(name: impl Into<Arc<str>>, function: Function) -> MergeOperator {
        MergeOperator { name: name.into(), function }
    }

    /// Adds signed integers of 64 bits: values and operands are 8 bytes, little-endian. An absent key counts as 0. The
    /// sum wraps around on overflow. An operand of another length is refused; a value of another length is an error of
    /// the read.
    pub fn add_i64() -> MergeOperator {
        MergeOperator::new(ADD_I64, Function::Add)
    }

    /// Adds unsigned integers of 64 bits, like [`add_i64`](MergeOperator::add_i64).
    pub fn add_u64() -> MergeOperator {
        MergeOperator::new(ADD_U64, Function::Add)
    }

    /// Appends operands to the value, each after a separator. The first operand of an absent key becomes its value.
    /// `separator` must have at most 122 bytes; families refuse a longer one.
    pub fn append(separator: impl AsRef<[u8]>) -> MergeOperator {
        let separator = separator.as_ref();
        MergeOperator::new(format!("{APPEND}{}", to_hex(separator)), Function::Append(separator.into()))
    }

    /// Keeps the least of value and operands, compared as bytes.
    pub fn min() -> MergeOperator {
        MergeOperator::new(MIN, Function::Min)
    }

    /// Keeps the greatest of value and operands, compared as bytes.
    pub fn max() -> MergeOperator {
        MergeOperator::new(MAX, Function::Max)
    }

    /// Computes the bitwise or of value and operands. The shorter one counts as filled up with zero bytes at its end.
    pub fn bit_or() -> MergeOperator {
        MergeOperator::new(BIT_OR, Function::BitOr)
    }

    /// Computes the union of sets. A set is a list of its elements in ascending order of their bytes, without
    /// duplicates; each is preceded by its length as a varint (LEB128): [`encode_set`] makes one. An operand in
    /// another format is refused; a value in another format is an error of the read.
    pub fn union() -> MergeOperator {
        MergeOperator::new(UNION, Function::Union)
    }

    /// Returns an operator by an associative function of key, older value or operand, and newer operand. The first
    /// operand of an absent key becomes its value. An error holds the reason for a failed merge, and becomes a
    /// source of the read's error.
    ///
    /// The function must give the same result in whatever groups operands are combined, and must depend on its
    /// arguments alone. `name` must be 1 to 255 bytes and must not begin with `wax.`; families refuse other names.
    pub fn custom(name: &str, merge: impl Fn(&[u8], &[u8], &[u8]) -> Merged + Send + Sync + 'static) -> MergeOperator {
        MergeOperator::new(name, Function::Associative(Arc::new(merge)))
    }

    /// Returns an operator by a function of key, base (`None` if the key is absent) and all operands, oldest first.
    /// Operands are kept until they are merged into a value, so the function may treat a base unlike an operand. As for
    /// [`custom`](MergeOperator::custom) otherwise.
    pub fn custom_full(
        name: &str,
        merge: impl Fn(&[u8], Option<&[u8]>, &[&[u8]]) -> Merged + Send + Sync + 'static,
    ) -> MergeOperator {
        MergeOperator::new(name, Function::Full(Arc::new(merge)))
    }

    /// Returns the operator with a stored name. A custom operator has no function then.
    pub(crate) fn of_name(name: &str) -> MergeOperator {
        let function = match name {
            ADD_I64 | ADD_U64 => Function::Add,
            MIN => Function::Min,
            MAX => Function::Max,
            BIT_OR => Function::BitOr,
            UNION => Function::Union,
            _ => match name.strip_prefix(APPEND).and_then(from_hex) {
                Some(separator) => Function::Append(separator.into()),
                None => Function::Missing,
            },
        };
        MergeOperator::new(name, function)
    }

    /// Returns the stored name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns false if only the operator's name is known: its operands cannot be read, and none can be written.
    pub fn is_known(&self) -> bool {
        !matches!(self.function, Function::Missing)
    }

    /// Returns false for `append` with a separator that is too long.
    pub(crate) fn has_valid_separator(&self) -> bool {
        !matches!(&self.function, Function::Append(separator) if separator.len() > MAX_SEPARATOR_BYTES)
    }

    /// Returns true if an operator may have this name.
    pub(crate) fn has_valid_name(&self) -> bool {
        let is_custom = matches!(self.function, Function::Associative(_) | Function::Full(_));
        if let Function::Append(_) = self.function {
            return true; // as long as its separator: see `has_valid_separator`
        }
        (1..=MAX_NAME_BYTES).contains(&self.name.len()) && !(is_custom && self.name.starts_with(OWN))
    }

    /// Checks an operand before it is written. Errors: `Invalid` for an operand that the operator cannot read, and for
    /// any operand if the operator is not known.
    pub(crate) fn check(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        let checked = match &self.function {
            Function::Missing => return Err(self.missing(key)),
            Function::Add => number(operand).map(drop),
            Function::Union => elements(operand).map(drop),
            _ => Ok(()),
        };
        checked.map_err(|reason| self.failed(key, reason))
    }

    /// Returns true if operands may be combined before their base is known.
    pub(crate) fn is_associative(&self) -> bool {
        !matches!(self.function, Function::Full(_) | Function::Missing)
    }

    /// Combines a value or operand with the operand after it, for an associative operator. Errors: `Invalid` if the
    /// operator fails or panics.
    pub(crate) fn combine(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Result<Vec<u8>> {
        self.call(key, || match &self.function {
            Function::Add => Ok(number(older)?.wrapping_add(number(newer)?).to_le_bytes().to_vec()),
            Function::Append(separator) => Ok([older, separator, newer].concat()),
            Function::Min => Ok(older.min(newer).to_vec()),
            Function::Max => Ok(older.max(newer).to_vec()),
            Function::BitOr => Ok(bit_or(older, newer)),
            Function::Union => Ok(encode_set(elements(older)?.into_iter().chain(elements(newer)?))),
            Function::Associative(merge) => merge(key, older, newer),
            Function::Full(_) | Function::Missing => Err("it is not associative".into()),
        })
    }

    /// Makes the value of a key from its base and its operands, oldest first. Errors: `Invalid` if the operator is not
    /// known, fails or panics, or if the value is longer than a value may be.
    pub(crate) fn merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        if let Function::Full(merge) = &self.function {
            return self.call(key, || merge(key, base, operands));
        }
        if !self.is_known() {
            return Err(self.missing(key));
        }
        let mut stack = OperandStack::default();
        for operand in operands.iter().rev() {
            stack.push((self, key), ((), operand.to_vec(), false), &mut |()| ())?;
        }
        stack.combine((self, key), &mut |()| ())?;
        match (base, stack.take().pop()) {
            (Some(base), Some(combined)) => self.combine(key, base, &combined.value),
            (base, combined) => Ok(combined.map_or_else(|| base.unwrap_or_default().to_vec(), |one| one.value)),
        }
    }

    /// Calls a function of the application. Its panic becomes an error, and so does a panic of its error's `Display`.
    fn call(&self, key: &[u8], merge: impl FnOnce() -> Merged) -> Result<Vec<u8>> {
        let described = || merge().map_err(|reason| (reason.to_string(), reason));
        match catch_unwind(AssertUnwindSafe(described)) {
            Ok(Ok(merged)) if merged.len() > MAX_VALUE_BYTES => {
                let text = format!("its value has {} bytes; the limit is {MAX_VALUE_BYTES}", merged.len());
                Err(self.failed(key, text))
            }
            Ok(Ok(merged)) => Ok(merged),
            Ok(Err((text, reason))) => Err(Error::invalid_because(self.failure(key, &text), reason)),
            Err(panic) => {
                std::mem::forget(panic); // dropping a payload would call the application's code again
                Err(self.failed(key, "it panicked".to_owned()))
            }
        }
    }

    #[cold]
    fn failed(&self, key: &[u8], reason: String) -> Error {
        Error::invalid_because(self.failure(key, &reason), MergeFailure::from(reason))
    }

    fn failure(&self, key: &[u8], reason: &str) -> String {
        format!("merge operator {:?} failed for key \"{}\": {reason}", self.name, key.escape_ascii())
    }

    #[cold]
    fn missing(&self, key: &[u8]) -> Error {
        Error::invalid(format!(
            "key \"{}\" needs merge operator {:?}: open the store with it",
            key.escape_ascii(),
            self.name
        ))
    }
}

/// Operands of one key, collected from the newest to the oldest, each with a tag.
///
/// An associative operator combines neighbors that were made of equally many operands. A chain of n operands therefore
/// copies each byte log n times, and not n times, as an operator that appends would do.
#[derive(Debug)]
pub(crate) struct OperandStack<T> {
    /// Newest first.
    operands: Vec<StackedOperand<T>>,
}

/// An operand, or several that were combined.
#[derive(Debug)]
pub(crate) struct StackedOperand<T> {
    /// The tag of the newest of them.
    pub(crate) tag: T,
    pub(crate) value: Vec<u8>,
    /// The logarithm of their number.
    rank: u32,
    /// True if there are several.
    pub(crate) is_combined: bool,
    /// True if one of them has no seal that proves what was put (`Companions::is_unproven`).
    pub(crate) is_unproven: bool,
}

impl<T> Default for OperandStack<T> {
    fn default() -> OperandStack<T> {
        OperandStack { operands: Vec::new() }
    }
}

impl<T> OperandStack<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.operands.is_empty()
    }

    /// Adds the operand before those known so far, and combines as far as the operator is associative. `absorbed` is
    /// called for the tag of each operand that is no longer alone. After an error of the operator all operands are
    /// still there.
    pub(crate) fn push(
        &mut self,
        (operator, key): (&MergeOperator, &[u8]),
        (tag, value, is_unproven): (T, Vec<u8>, bool),
        absorbed: &mut dyn FnMut(&T),
    ) -> Result<()> {
        self.operands.push(StackedOperand { tag, value, rank: 0, is_combined: false, is_unproven });
        while let [.., newer, older] = &self.operands[..]
            && operator.is_associative()
            && newer.rank == older.rank
        {
            self.combine_oldest((operator, key), absorbed)?;
        }
        Ok(())
    }

    /// Combines all operands, if the operator is associative. As for `push` otherwise.
    pub(crate) fn combine(&mut self, by: (&MergeOperator, &[u8]), absorbed: &mut dyn FnMut(&T)) -> Result<()> {
        while by.0.is_associative() && self.operands.len() > 1 {
            self.combine_oldest(by, absorbed)?;
        }
        Ok(())
    }

    /// Merges all operands into a base. The operands stay.
    pub(crate) fn onto(&self, (operator, key): (&MergeOperator, &[u8]), base: Option<&[u8]>) -> Result<Vec<u8>> {
        let oldest_first: Vec<&[u8]> = self.operands.iter().rev().map(|operand| &operand.value[..]).collect();
        operator.merge(key, base, &oldest_first)
    }

    /// Returns true if one of the operands has no seal that proves what was put.
    pub(crate) fn is_unproven(&self) -> bool {
        self.operands.iter().any(|operand| operand.is_unproven)
    }

    /// Removes all operands, and returns them, newest first.
    pub(crate) fn take(&mut self) -> Vec<StackedOperand<T>> {
        std::mem::take(&mut self.operands)
    }

    fn combine_oldest(&mut self, (operator, key): (&MergeOperator, &[u8]), absorbed: &mut dyn FnMut(&T)) -> Result<()> {
        let [.., newer, older] = &mut self.operands[..] else { return Ok(()) };
        newer.value = operator.combine(key, &older.value, &newer.value)?;
        [&*newer, &*older].into_iter().filter(|one| !one.is_combined).for_each(|one| absorbed(&one.tag));
        (newer.rank, newer.is_combined) = (newer.rank.max(older.rank) + 1, true);
        newer.is_unproven |= older.is_unproven;
        self.operands.pop();
        Ok(())
    }
}

impl fmt::Debug for MergeOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MergeOperator({})", self.name)
    }
}

/// Encodes a set for [`MergeOperator::union`]. The elements may come in any order and more than once.
pub fn encode_set<T: AsRef<[u8]>>(elements: impl IntoIterator<Item = T>) -> Vec<u8> {
    let mut sorted: Vec<T> = elements.into_iter().collect();
    sorted.sort_by(|a, b| a.as_ref().cmp(b.as_ref()));
    sorted.dedup_by(|a, b| a.as_ref() == b.as_ref());
    let mut out = Vec::new();
    sorted.iter().for_each(|element| put_bytes(&mut out, element.as_ref()));
    out
}

/// Decodes a set of [`MergeOperator::union`]. Errors: `Corruption` for bytes that are no ascending list.
pub fn decode_set(set: &[u8]) -> Result<Vec<&[u8]>> {
    elements(set).map_err(|reason| Error::structural(&reason))
}

fn elements(set: &[u8]) -> std::result::Result<Vec<&[u8]>, String> {
    let (mut reader, mut elements) = (Reader::new(set), Vec::<&[u8]>::new());
    while !reader.is_empty() {
        let element = reader.length_prefixed().map_err(|_| "a set has an incomplete element".to_owned())?;
        if elements.last().is_some_and(|last| *last >= element) {
            return Err("the elements of a set are not in ascending order".to_owned());
        }
        elements.push(element);
    }
    Ok(elements)
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| if let [high, low] = *pair { Some(digit(high)? << 4 | digit(low)?) } else { None }).collect()
}

fn number(bytes: &[u8]) -> std::result::Result<u64, String> {
    let number = bytes.try_into().map(u64::from_le_bytes);
    number.map_err(|_| format!("a number has 8 bytes, not {}", bytes.len()))
}

fn bit_or(a: &[u8], b: &[u8]) -> Vec<u8> {
    let (long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let mut out = long.to_vec();
    out.iter_mut().zip(short).for_each(|(to, from)| *to |= from);
    out
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::options::CfOptions;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn operators() -> Vec<MergeOperator> {
        let own = [MergeOperator::min(), MergeOperator::max(), MergeOperator::bit_or(), MergeOperator::union()];
        let add = [MergeOperator::add_i64(), MergeOperator::add_u64()];
        own.into_iter().chain(add).chain([MergeOperator::append(b", "), MergeOperator::append("")]).collect()
    }

    #[test]
    fn own_operators_are_found_by_their_names() {
        for operator in operators() {
            let found = MergeOperator::of_name(operator.name());
            assert!(found.is_known() && found.has_valid_name(), "{operator:?}");
            assert_eq!(found.name(), operator.name());
        }
        let joined = MergeOperator::of_name(MergeOperator::append(b", ").name()).merge(b"k", Some(b"a"), &[b"b", b"c"]);
        assert_eq!(joined.unwrap(), b"a, b, c");
        assert!(!MergeOperator::of_name("mine").is_known());
        assert!(!MergeOperator::of_name("wax.append:0").is_known());
        assert!(!MergeOperator::custom("wax.mine", |_, a, _| Ok(a.to_vec())).has_valid_name());
        assert!(!MergeOperator::custom("", |_, a, _| Ok(a.to_vec())).has_valid_name());
    }

    #[test]
    fn a_separator_that_no_name_can_hold_is_refused_as_such() {
        for (length, is_valid) in [(0, true), (122, true), (123, false), (10_000, false)] {
            let operator = MergeOperator::append(vec![b','; length]);
            assert_eq!(operator.has_valid_separator(), is_valid, "{length} bytes");
            let options = CfOptions { merge_operator: Some(operator), ..CfOptions::default() };
            let refused = options.validate().err().map(|error| error.to_string());
            assert_eq!(refused.is_none(), is_valid, "{length} bytes: {refused:?}");
            assert!(
                refused.is_none_or(|error| error.contains("separator") && !error.contains("name of")),
                "{length} bytes"
            );
        }
    }

    #[test]
    fn sums_wrap_and_numbers_of_another_length_are_refused() {
        let (add, one) = (MergeOperator::add_i64(), 1i64.to_le_bytes());
        let merged = add.merge(b"k", Some(&i64::MAX.to_le_bytes()), &[&one]).unwrap();
        assert_eq!(merged, i64::MIN.to_le_bytes());
        assert_eq!(add.merge(b"k", None, &[&one, &one]).unwrap(), 2i64.to_le_bytes());
        assert!(add.check(b"k", &one).is_ok() && add.check(b"k", &one[1..]).is_err());
        let error = add.merge(b"k", Some(b"7"), &[&one]).unwrap_err().to_string();
        assert!(error.contains("8 bytes") && error.contains("wax.add_i64") && error.contains("\"k\""), "{error}");
    }

    #[test]
    fn a_panic_is_an_error() {
        let operator = MergeOperator::custom("mine", |_, _, _| panic!("no"));
        let error = operator.merge(b"k", Some(b"a"), &[b"b"]).unwrap_err().to_string();
        assert!(error.contains("it panicked") && error.contains("mine"), "{error}");
    }

    /// An error whose text cannot be made.
    #[derive(Debug)]
    struct Unspeakable;

    impl fmt::Display for Unspeakable {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("no words")
        }
    }

    impl std::error::Error for Unspeakable {}

    #[test]
    fn an_error_that_panics_when_it_is_shown_is_a_panic_of_the_operator() {
        let operator = MergeOperator::custom_full("mine", |_, _, _| Err(Unspeakable.into()));
        let error = operator.merge(b"k", None, &[b"b"]).unwrap_err().to_string();
        assert!(error.contains("it panicked"), "{error}");
    }

    #[test]
    fn a_chain_of_operands_is_not_copied_once_for_each_operand() {
        let (copied, chain) = (Arc::new(AtomicUsize::new(0)), vec![&b"x"[..]; 4096]);
        let counted = copied.clone();
        let operator = MergeOperator::custom("joined", move |_, older, newer| {
            counted.fetch_add(older.len() + newer.len(), Ordering::Relaxed);
            Ok([older, newer].concat())
        });
        assert_eq!(operator.merge(b"k", Some(b"base"), &chain).unwrap().len(), 4 + chain.len());
        let copied = copied.load(Ordering::Relaxed);
        assert!(copied <= chain.len() * 14, "{copied} bytes copied");
    }

    proptest! {
        #[test]
        fn own_operators_are_associative(inputs in vec(vec(vec(any::<u8>(), 0..3), 0..4), 2..6), cut in 1..5usize) {
            for operator in operators() {
                let input = |input: &Vec<Vec<u8>>| match operator.name() {
                    UNION => encode_set(input),
                    ADD_I64 | ADD_U64 => (input.concat().len() as u64).wrapping_mul(0x3FFF_FFFF_FFFF_FFFF).to_le_bytes().to_vec(),
                    _ => input.concat(),
                };
                let inputs: Vec<Vec<u8>> = inputs.iter().map(input).collect();
                let lent: Vec<&[u8]> = inputs.iter().map(|input| &input[..]).collect();
                let whole = operator.merge(b"k", None, &lent).unwrap();
                let (older, newer) = lent.split_at(cut.min(lent.len() - 1));
                let newer = operator.merge(b"k", None, newer).unwrap();
                let older = operator.merge(b"k", None, older).unwrap();
                prop_assert_eq!(&operator.combine(b"k", &older, &newer).unwrap(), &whole, "{:?}", operator);
            }
        }

        #[test]
        fn any_bytes_are_a_set_or_refused(bytes: Vec<u8>, set: Vec<Vec<u8>>) {
            if let Ok(elements) = decode_set(&bytes) {
                prop_assert!(elements.is_sorted());
            }
            let expected: std::collections::BTreeSet<&[u8]> = set.iter().map(|element| &element[..]).collect();
            let encoded = encode_set(&set);
            prop_assert_eq!(decode_set(&encoded).unwrap(), expected.into_iter().collect::<Vec<_>>());
        }
    }
}
