//! Merge operators of families: those of the engine, and operators by callbacks.

use std::ffi::c_void;

use face::MergeOperator;

use crate::callback::{Context, waxseal_destroy_fn};
use crate::error::calls;
use crate::failure::{Failure, Result};
use crate::family_options::{set_custom_operator, set_operator, waxseal_family_options_t};
use crate::merge_function::{GivenOperator, waxseal_merge_fn};
use crate::options::{set_calling, waxseal_options_t};

/// Adds signed integers of 64 bits, 8 bytes in little-endian order; an absent key counts as 0, and the sum wraps around.
pub const WAXSEAL_MERGE_ADD_I64: i32 = 0;
/// Adds unsigned integers of 64 bits, likewise.
pub const WAXSEAL_MERGE_ADD_U64: i32 = 1;
/// Appends operands to the value, each after the separator.
pub const WAXSEAL_MERGE_APPEND: i32 = 2;
/// Keeps the least of value and operands, compared as bytes.
pub const WAXSEAL_MERGE_MIN: i32 = 3;
/// Keeps the greatest of value and operands, compared as bytes.
pub const WAXSEAL_MERGE_MAX: i32 = 4;
/// Computes the bitwise or of value and operands; the shorter one counts as filled up with zero bytes at its end.
pub const WAXSEAL_MERGE_BIT_OR: i32 = 5;
/// Computes the union of sets. A set is a list of its elements in ascending order of their bytes, without duplicates,
/// each preceded by its length as a varint (LEB128).
pub const WAXSEAL_MERGE_UNION: i32 = 6;

calls! {
    /// Sets the merge operator of the family to one of the engine's, one of `WAXSEAL_MERGE_..`. `separator` is for
    /// `WAXSEAL_MERGE_APPEND`, and empty otherwise. The store records the operator's name: a later open needs no
    /// options for it, and refuses another operator. Default: none, and the family refuses operands.
    ///
    /// One thread at a time. Errors: `WAXSEAL_INVALID` for an unknown number, and for a separator of another operator.
    fn waxseal_family_options_set_merge_operator(
        options: *mut waxseal_family_options_t, number: i32, bytes separator,
    ) {
        set_operator(options, operator(number, separator.bytes("separator")?)?)
    }

    /// Sets the merge operator of the family to a callback. The store records the name, UTF-8, of at most 255 bytes and
    /// not beginning with `wax.`. A later open needs the operator here, or by `waxseal_options_add_merge_operator`: without
    /// it, reads of keys with operands fail. Unless `destroy` is null, it destroys `context` once the options and all
    /// stores that use them are gone, or if this call fails.
    ///
    /// If `is_associative`, the store may combine any two neighbors before it knows the value below them: the callback
    /// then gets the older value or operand as `base`, never null, and one operand. The first operand of an absent key
    /// becomes its value. Otherwise it gets the true base and all operands.
    ///
    /// One thread at a time. Errors: `WAXSEAL_INVALID` for a name that is not UTF-8, and for a null function. An invalid
    /// name is an error of the open.
    fn waxseal_family_options_set_custom_merge_operator(
        options: *mut waxseal_family_options_t, bytes name, merge: waxseal_merge_fn, is_associative: bool,
        context: *mut c_void, destroy: waxseal_destroy_fn,
    ) {
        let context = Context::new(context, destroy);
        set_custom_operator(options, GivenOperator::new(name, merge, is_associative, context)?)
    }

    /// Adds a merge operator for families of the stores opened with these options, as of
    /// `waxseal_family_options_set_custom_merge_operator`. Families for which the store has recorded this name use it.
    ///
    /// One thread at a time. Errors: as of `waxseal_family_options_set_custom_merge_operator`; an unknown name is none.
    fn waxseal_options_add_merge_operator(
        options: *mut waxseal_options_t, bytes name, merge: waxseal_merge_fn, is_associative: bool,
        context: *mut c_void, destroy: waxseal_destroy_fn,
    ) {
        let context = Context::new(context, destroy);
        let given = GivenOperator::new(name, merge, is_associative, context)?;
        set_calling(options, move |builder, caller| builder.merge_operator(given.operator_of(caller)))
    }
}

/// Returns the engine's operator with a number.
fn operator(number: i32, separator: &[u8]) -> Result<MergeOperator> {
    if number != WAXSEAL_MERGE_APPEND && !separator.is_empty() {
        return Err(Failure::invalid("only WAXSEAL_MERGE_APPEND has a separator"));
    }
    Ok(match number {
        WAXSEAL_MERGE_ADD_I64 => MergeOperator::add_i64(),
        WAXSEAL_MERGE_ADD_U64 => MergeOperator::add_u64(),
        WAXSEAL_MERGE_APPEND => MergeOperator::append(separator),
        WAXSEAL_MERGE_MIN => MergeOperator::min(),
        WAXSEAL_MERGE_MAX => MergeOperator::max(),
        WAXSEAL_MERGE_BIT_OR => MergeOperator::bit_or(),
        WAXSEAL_MERGE_UNION => MergeOperator::union(),
        other => return Err(Failure::invalid(format!("{other} is no merge operator"))),
    })
}
