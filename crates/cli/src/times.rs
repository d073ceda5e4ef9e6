//! Formatting and parsing of times: `2026-01-31T12:34:56.000789Z`, in UTC.
//!
//! Days are computed by H. Hinnant's algorithms for the Gregorian calendar (chrono-compatible low-level date
//! algorithms).

use waxseal::registry::Time;

const MICROS_A_SECOND: u64 = 1_000_000;
const SECONDS_A_DAY: u64 = 86_400;
/// The last year with four digits.
const LAST_YEAR: u64 = 9999;

/// Formats a time. A nonzero counter within the microsecond follows a `+`.
pub(crate) fn text(time: Time) -> String {
    let (seconds, micros) = (time.micros() / MICROS_A_SECOND, time.micros() % MICROS_A_SECOND);
    let (days, second) = (seconds / SECONDS_A_DAY, seconds % SECONDS_A_DAY);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let count = if time.count() == 0 { String::new() } else { format!("+{}", time.count()) };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z{count}")
}

/// Parses the format of `text`, a prefix of it (a day, a minute, a second), or microseconds since 1970. Returns `None`
/// for other text. Missing parts take their smallest value, or with `is_last` their largest.
pub(crate) fn parse(text: &str, is_last: bool) -> Option<Time> {
    let (moment, count) = match text.split_once('+') {
        Some((moment, count)) => (moment, Some(number(count, 4).filter(|count| *count < 4096)?)),
        None => (text, None),
    };
    let (first, behind) = match moment.contains('-') {
        true => calendar(moment)?,
        false => (number(moment, 16)?, 1),
    };
    let last = first.checked_add(behind)?;
    match (count, is_last) {
        (Some(count), _) => Some(Time(Time::from_micros(first).0.saturating_add(count))), // saturates
        (None, false) => Some(Time::from_micros(first)),
        (None, true) => Some(Time(Time::from_micros(last).0 - 1)),
    }
}

/// Returns the first microsecond since 1970 of a time in the format of `parse`, without its upper limit; `None` for
/// other text.
pub(crate) fn micros(text: &str) -> Option<u64> {
    if text.contains('-') { calendar(text).map(|(first, _)| first) } else { number(text, 19) }
}

/// Returns the first microsecond of a calendar time, and the number of microseconds that it spans.
fn calendar(text: &str) -> Option<(u64, u64)> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (day, clock) = match text.split_once(['T', ' ']) {
        Some((day, clock)) => (day, Some(clock)),
        None => (text, None),
    };
    let mut parts = day.split('-');
    let (year, month, day) = (number(parts.next()?, 4)?, number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    let days = days(year, month, day)?;
    if parts.next().is_some() || date(days) != (year, month, day) {
        return None;
    }
    let midnight = days * SECONDS_A_DAY * MICROS_A_SECOND;
    let Some(clock) = clock else { return Some((midnight, SECONDS_A_DAY * MICROS_A_SECOND)) };
    let mut parts = clock.split(':');
    let (hour, minute) = (number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    let (second, micros, behind) = match parts.next() {
        None => (0, 0, 60 * MICROS_A_SECOND),
        Some(second) => match second.split_once('.') {
            None => (number(second, 2)?, 0, MICROS_A_SECOND),
            Some((second, fraction)) => {
                let unit = 10u64.checked_pow(6u32.checked_sub(fraction.len() as u32)?)?;
                (number(second, 2)?, number(fraction, 6)? * unit, unit)
            }
        },
    };
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Some((midnight + (hour * 3600 + minute * 60 + second) * MICROS_A_SECOND + micros, behind))
}

/// Parses decimal digits, at most `most` of them.
fn number(digits: &str, most: usize) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.len() <= most && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

/// Converts a day number since 1970 to year, month and day.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // since 0000-03-01
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153; // March is 0
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

/// Converts a date from 1970 on to a day number since 1970.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1970..=LAST_YEAR).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year) = (year / 400, year % 400);
    let month = if month > 2 { month - 3 } else { month + 9 };
    let day = (153 * month + 2) / 5 + day.checked_sub(1)?;
    (era * 146_097 + year * 365 + year / 4 - year / 100 + day).checked_sub(719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_read_well_and_come_back() {
        assert_eq!(text(Time::FIRST), "1970-01-01T00:00:00.000000Z");
        assert_eq!(text(Time::from_micros(1_769_862_896_000_789)), "2026-01-31T12:34:56.000789Z");
        assert_eq!(text(Time(Time::from_micros(951_782_400_000_000).0 + 7)), "2000-02-29T00:00:00.000000Z+7");
        for micros in (0..4_102_444_800_000_000).step_by(86_399_123_457) {
            let time = Time(Time::from_micros(micros).0 + micros % 4096);
            assert_eq!(parse(&text(time), false), Some(time), "{}", text(time));
            assert_eq!(parse(&micros.to_string(), false), Some(Time::from_micros(micros)));
        }
    }

    #[test]
    fn what_is_not_said_is_the_least_or_the_most() {
        let between = |moment: &str| [false, true].map(|is_last| text(parse(moment, is_last).unwrap()));
        assert_eq!(between("2026-01-31"), ["2026-01-31T00:00:00.000000Z", "2026-01-31T23:59:59.999999Z+4095"]);
        assert_eq!(between("2026-01-31T12:34"), ["2026-01-31T12:34:00.000000Z", "2026-01-31T12:34:59.999999Z+4095"]);
        assert_eq!(
            between("2026-01-31 12:34:56Z"),
            ["2026-01-31T12:34:56.000000Z", "2026-01-31T12:34:56.999999Z+4095"]
        );
        assert_eq!(
            between("2026-01-31T12:34:56.7"),
            ["2026-01-31T12:34:56.700000Z", "2026-01-31T12:34:56.799999Z+4095"]
        );
        assert_eq!(between("7"), ["1970-01-01T00:00:00.000007Z", "1970-01-01T00:00:00.000007Z+4095"]);
        for far in ["2200-01-01+1", "9999-12-31", "9999999999999999+4095"] {
            assert!(parse(far, false) >= parse("2112-09-17", false), "{far} is past the numbers");
        }
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for wrong in [
            "",
            "x",
            "2026-02-30",
            "2026-13-01",
            "2026-00-01",
            "2026-01-00",
            "2026-01-01T24:00",
            "2026-01-01T1:60",
            "-5",
            "1969-12-31",
            "2026-01-01T00:00:60",
            "2026-01-01T00:00:00.1234567",
            "2026-01-01T00:00:00.",
            "2026-01-01-01",
            "7+4096",
            "7+",
            "12345678901234567",
        ] {
            assert_eq!(parse(wrong, false), None, "{wrong}");
        }
    }
}
