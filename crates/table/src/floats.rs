//! The order of floating-point numbers in keys.
//!
//! Numbers sort by value, and NaN sorts above infinity. All NaNs share one key, and so do 0.0 and -0.0, because
//! equal keys must have equal bytes.

const SIGN_32: u32 = 1 << 31;
const SIGN_64: u64 = 1 << 63;

/// The one NaN of keys.
const NAN_32: u32 = 0x7FC0_0000;
const NAN_64: u64 = 0x7FF8_0000_0000_0000;

/// Returns a number that is ordered like the float.
pub(crate) fn ordered_f32(float: f32) -> u32 {
    let bits = if float.is_nan() { NAN_32 } else { (float + 0.0).to_bits() };
    if bits & SIGN_32 == 0 { bits | SIGN_32 } else { !bits }
}

/// Returns a number that is ordered like the float.
pub(crate) fn ordered_f64(float: f64) -> u64 {
    let bits = if float.is_nan() { NAN_64 } else { (float + 0.0).to_bits() };
    if bits & SIGN_64 == 0 { bits | SIGN_64 } else { !bits }
}

/// The inverse of `ordered_f32`; `None` for a number that it never returns.
pub(crate) fn unordered_f32(ordered: u32) -> Option<f32> {
    let float = f32::from_bits(if ordered & SIGN_32 == 0 { !ordered } else { ordered & !SIGN_32 });
    (ordered_f32(float) == ordered).then_some(float)
}

/// The inverse of `ordered_f64`; `None` for a number that it never returns.
pub(crate) fn unordered_f64(ordered: u64) -> Option<f64> {
    let float = f64::from_bits(if ordered & SIGN_64 == 0 { !ordered } else { ordered & !SIGN_64 });
    (ordered_f64(float) == ordered).then_some(float)
}
