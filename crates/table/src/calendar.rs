//! Days and times as text: `2026-01-31` and `2026-01-31T12:34:56.000789Z`, in the Gregorian calendar and UTC.
//!
//! Years outside 0 to 9999 have a sign, as in ISO 8601: `+12026-01-31`, `-0043-03-15`. Days are computed by
//! H. Hinnant's algorithms (chrono-compatible low-level date algorithms).

const MICROS_A_SECOND: i64 = 1_000_000;
const SECONDS_A_DAY: i64 = 86_400;
const MICROS_A_DAY: i64 = SECONDS_A_DAY * MICROS_A_SECOND;

/// Formats a number of days since 1970.
pub(crate) fn date_text(days: i32) -> String {
    day_text(i64::from(days))
}

/// Parses the format of `date_text`. Returns `None` for malformed text and for days beyond the range of `i32`.
pub(crate) fn parse_date(text: &str) -> Option<i32> {
    parse_day(text)?.try_into().ok()
}

/// Formats a number of microseconds since 1970. The fraction of a full second is left out.
pub(crate) fn timestamp_text(micros: i64) -> String {
    let (days, rest) = (micros.div_euclid(MICROS_A_DAY), micros.rem_euclid(MICROS_A_DAY));
    let (second, fraction) = (rest / MICROS_A_SECOND, rest % MICROS_A_SECOND);
    let clock = format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
    let fraction = if fraction == 0 { String::new() } else { format!(".{fraction:06}") };
    format!("{}T{clock}{fraction}Z", day_text(days))
}

/// Parses the format of `timestamp_text`. Hours and minutes, a blank instead of the `T`, and an offset from UTC such as
/// `+02:00` are permitted, and a day is its midnight. Returns `None` for malformed text, a fraction of more than six
/// digits, and times beyond the range of `i64`.
pub(crate) fn parse_timestamp(text: &str) -> Option<i64> {
    let (day, clock) = match text.split_once(['T', 't', ' ']) {
        Some((day, clock)) => (day, clock),
        None => (text, "00:00"),
    };
    let micros = i128::from(parse_day(day)?) * i128::from(MICROS_A_DAY) + i128::from(parse_clock(clock)?);
    micros.try_into().ok()
}

/// Parses a time of day with its offset from UTC, in microseconds since midnight in UTC.
fn parse_clock(text: &str) -> Option<i64> {
    let (clock, offset) = match text.strip_suffix(['Z', 'z']) {
        Some(clock) => (clock, 0),
        None => match text.rfind(['+', '-']) {
            Some(at) => {
                let (clock, offset) = text.split_at(at);
                let (hours, minutes) = offset[1..].split_once(':').or_else(|| offset[1..].split_at_checked(2))?;
                let minutes = if minutes.is_empty() { "00" } else { minutes };
                let minutes = below(hours, 24)? * 60 + below(minutes, 60)?;
                (clock, if offset.starts_with('-') { -minutes } else { minutes })
            }
            None => (text, 0),
        },
    };
    let mut parts = clock.split(':');
    let (hour, minute) = (below(parts.next()?, 24)?, below(parts.next()?, 60)?);
    let (second, fraction) = parts.next().map_or(("00", None), |second| match second.split_once('.') {
        Some((second, fraction)) => (second, Some(fraction)),
        None => (second, None),
    });
    let micros = match fraction {
        None => 0,
        Some(fraction) if (1..=6).contains(&fraction.len()) => {
            i64::from(number(fraction)?) * 10i64.pow(6 - fraction.len() as u32)
        }
        Some(_) => return None,
    };
    if parts.next().is_some() {
        return None;
    }
    Some(((hour * 60 + minute - offset) * 60 + below(second, 60)?) * MICROS_A_SECOND + micros)
}

/// Parses two digits that are less than a limit.
fn below(digits: &str, limit: i64) -> Option<i64> {
    let found = i64::from(number(digits).filter(|_| digits.len() == 2)?);
    (found < limit).then_some(found)
}

/// Parses one to nine digits.
fn number(digits: &str) -> Option<u32> {
    let is_number = (1..=9).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

fn day_text(days: i64) -> String {
    let (year, month, day) = date(days);
    match year {
        0..=9999 => format!("{year:04}-{month:02}-{day:02}"),
        _ => format!("{year:+05}-{month:02}-{day:02}"),
    }
}

fn parse_day(text: &str) -> Option<i64> {
    let (is_negative, has_sign, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, true, &text[1..]),
        b'+' => (false, true, &text[1..]),
        _ => (false, false, text),
    };
    let mut parts = unsigned.split('-');
    let digits = parts.next()?;
    let is_year = if has_sign { (4..=7).contains(&digits.len()) } else { digits.len() == 4 };
    let year = i64::from(number(digits).filter(|_| is_year)?);
    let year = if is_negative { -year } else { year };
    let (month, day) = (below(parts.next()?, 13)?, below(parts.next()?, 32)?);
    if parts.next().is_some() {
        return None;
    }
    let days = days(year, month, day);
    (date(days) == (year, month, day)).then_some(days)
}

/// Converts a number of days since 1970 to year, month and day.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468; // since 0000-03-01
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153; // March is 0
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

/// Converts year, month and day to a number of days since 1970.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
    let month = if month > 2 { month - 3 } else { month + 9 };
    let day = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + year * 365 + year / 4 - year / 100 + day - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_times_are_written_as_in_iso_8601() {
        for (days, text) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (11_016, "2000-02-29"),
            (-719_528, "0000-01-01"),
            (-719_529, "-0001-12-31"),
            (2_932_897, "+10000-01-01"),
            (i32::MAX, "+5881580-07-11"),
            (i32::MIN, "-5877641-06-23"),
        ] {
            assert_eq!((date_text(days).as_str(), parse_date(text)), (text, Some(days)));
        }
        for (micros, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
            (1_769_862_896_000_789, "2026-01-31T12:34:56.000789Z"),
            (i64::MAX, "+294247-01-10T04:00:54.775807Z"),
            (i64::MIN, "-290308-12-21T19:59:05.224192Z"),
        ] {
            assert_eq!((timestamp_text(micros).as_str(), parse_timestamp(text)), (text, Some(micros)));
        }
    }

    #[test]
    fn other_notations_of_a_time_are_read() {
        let noon = parse_timestamp("2026-01-31T12:00:00Z");
        for text in [
            "2026-01-31 12:00",
            "2026-01-31T12:00:00.0",
            "2026-01-31T14:00+02:00",
            "2026-01-31T06:30:00-0530",
            "2026-01-31t13:00+01",
            "2026-02-01T00:00:00+12:00",
        ] {
            assert_eq!(parse_timestamp(text), noon, "{text}");
        }
        assert_eq!(parse_timestamp("2026-01-31"), parse_timestamp("2026-01-31T00:00:00Z"));
    }

    #[test]
    fn other_text_is_refused() {
        for text in
            ["", "-", "2026-02-30", "2026-13-01", "2026-00-01", "26-01-01", "12026-01-01", "2026-1-1", "2026-01"]
        {
            assert_eq!((parse_date(text), parse_timestamp(text)), (None, None), "{text}");
        }
        for text in ["+5881580-07-12", "+999999999-01-01", "2026-01-01T00:00"] {
            assert_eq!(parse_date(text), None, "{text}");
        }
        for clock in
            ["24:00", "1:00", "00:60", "00:00:60", "00:00:00.", "00:00:00.1234567", "00:00:00:00", "", "00:00+"]
        {
            assert_eq!(parse_timestamp(&format!("2026-01-01T{clock}")), None, "{clock}");
        }
        assert_eq!(parse_timestamp("+294247-01-10T04:00:54.775808Z"), None);
    }
}
