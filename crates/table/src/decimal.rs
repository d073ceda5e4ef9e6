//! Decimal numbers: an integer and the number of its digits behind the point.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use crate::error::{Error, Result};

/// The largest number of digits.
pub const MAX_DECIMAL_DIGITS: u8 = 38;

/// A decimal number of at most 38 digits. Numbers of different scale compare by their value: 1.5 equals 1.50.
///
/// ```
/// use waxseal_table::Decimal;
///
/// let price: Decimal = "-12.50".parse()?;
/// assert_eq!((price.unscaled(), price.scale()), (-1250, 2));
/// assert_eq!(price, Decimal::new(-125, 1)?);
/// # Ok::<(), waxseal_table::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Decimal {
    unscaled: i128,
    scale: u8,
}

impl Decimal {
    /// Returns `unscaled` divided by 10 to the power of `scale`. Errors: `Invalid` for more than 38 digits.
    pub fn new(unscaled: i128, scale: u8) -> Result<Decimal> {
        if scale > MAX_DECIMAL_DIGITS || unscaled.unsigned_abs() >= power(MAX_DECIMAL_DIGITS) {
            return Err(Error::invalid(format!(
                "a decimal has at most {MAX_DECIMAL_DIGITS} digits, and as many behind the point"
            )));
        }
        Ok(Decimal { unscaled, scale })
    }

    /// Returns the number without its point.
    pub fn unscaled(&self) -> i128 {
        self.unscaled
    }

    /// Returns the number of digits behind the point.
    pub fn scale(&self) -> u8 {
        self.scale
    }

    /// Returns the same number with another scale; `None` if the conversion would lose digits.
    pub fn rescale(&self, scale: u8) -> Option<Decimal> {
        let unscaled = match scale.checked_sub(self.scale) {
            Some(more) if more <= MAX_DECIMAL_DIGITS => self.unscaled.checked_mul(power(more) as i128)?,
            Some(_) => return None,
            None => {
                let divisor = power(self.scale - scale) as i128;
                if self.unscaled % divisor != 0 {
                    return None;
                }
                self.unscaled / divisor
            }
        };
        Decimal::new(unscaled, scale).ok()
    }

    /// Returns true if the number has at most this many digits.
    pub(crate) fn fits(&self, precision: u8) -> bool {
        self.unscaled.unsigned_abs() < power(precision)
    }

    /// Returns the integer part, and the fraction in units of 10 to the power of -38.
    fn parts(&self) -> (i128, i128) {
        let unit = power(self.scale) as i128;
        let fraction = self.unscaled.rem_euclid(unit) * power(MAX_DECIMAL_DIGITS - self.scale) as i128;
        (self.unscaled.div_euclid(unit), fraction)
    }
}

/// Returns a power of ten. `digits` is at most 38.
fn power(digits: u8) -> u128 {
    10u128.pow(u32::from(digits))
}

impl Ord for Decimal {
    fn cmp(&self, other: &Decimal) -> Ordering {
        self.parts().cmp(&other.parts())
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Decimal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Decimal) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Decimal {}

impl Hash for Decimal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.unscaled.unsigned_abs().to_string();
        let sign = if self.unscaled < 0 { "-" } else { "" };
        let scale = usize::from(self.scale);
        let padded = format!("{digits:0>width$}", width = scale + 1);
        let (whole, fraction) = padded.split_at(padded.len() - scale);
        match fraction {
            "" => write!(f, "{sign}{whole}"),
            fraction => write!(f, "{sign}{whole}.{fraction}"),
        }
    }
}

impl FromStr for Decimal {
    type Err = Error;

    /// Parses digits with an optional sign and an optional point. Errors: `Invalid`.
    fn from_str(text: &str) -> Result<Decimal> {
        let wrong = || Error::invalid(format!("{text:?} is not a decimal number"));
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if unsigned.is_empty() || unsigned == "." || !is_digits(whole) || !is_digits(fraction) {
            return Err(wrong());
        }
        let digits = format!("{whole}{fraction}");
        let digits = digits.trim_start_matches('0');
        if digits.len() > usize::from(MAX_DECIMAL_DIGITS) || fraction.len() > usize::from(MAX_DECIMAL_DIGITS) {
            return Err(wrong());
        }
        let unsigned: i128 = if digits.is_empty() { 0 } else { digits.parse().map_err(|_| wrong())? };
        let unscaled = if text.starts_with('-') { -unsigned } else { unsigned };
        Decimal::new(unscaled, fraction.len() as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_with_too_many_digits_are_refused() {
        Decimal::new(power(38) as i128 - 1, 38).unwrap();
        for refused in [Decimal::new(power(38) as i128, 0), Decimal::new(1, 39), "1".repeat(39).parse(), "".parse()] {
            assert_eq!(refused.unwrap_err().kind(), crate::ErrorKind::Invalid);
        }
        for text in ["-", ".", "1.2.3", "1e5", "--1", "0x1"] {
            assert!(text.parse::<Decimal>().is_err(), "{text}");
        }
    }

    #[test]
    fn decimals_compare_by_value() {
        let number = |text: &str| text.parse::<Decimal>().unwrap();
        assert!(number("-1.5") < number("-1.49") && number("-0.1") < number("0") && number("9.99") < number("10"));
        assert_eq!(number("1.5"), number("1.50"));
        assert_eq!(number("-1.50").rescale(1).unwrap().to_string(), "-1.5");
        assert_eq!(number("-1.55").rescale(1).map(|rescaled| rescaled.to_string()), None);
        assert_eq!(number(".5").to_string(), "0.5");
    }

    proptest! {
        #[test]
        fn text_is_parsed_back(unscaled in -(10i128.pow(38) - 1)..10i128.pow(38), scale in 0u8..=38) {
            let number = Decimal::new(unscaled, scale).unwrap();
            let parsed: Decimal = number.to_string().parse().unwrap();
            prop_assert_eq!((parsed.unscaled(), parsed.scale()), (unscaled, scale));
        }
    }
}
