//! Expiry options of writes: `--expires-in 90s`, `--expires-at 2030-01-31T12:00:00Z`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use waxseal::WriteOptions;

use crate::failure::Failure;
use crate::times;

/// The expiry of written records; never, unless the family has a default time to live.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ExpiryArgs {
    /// Expire this long after the write: `90s`, `15m`, `12h`, `30d`, or seconds
    #[arg(long, value_name = "TIME", conflicts_with = "expires_at")]
    expires_in: Option<String>,
    /// Expire at this time: `2030-01-31`, `2030-01-31T12:00:00Z`, or microseconds since 1970
    #[arg(long, value_name = "TIME")]
    expires_at: Option<String>,
}

impl ExpiryArgs {
    pub(crate) fn is_given(&self) -> bool {
        self.expires_in.is_some() || self.expires_at.is_some()
    }

    /// Converts to the options of a write.
    pub(crate) fn options(&self) -> Result<WriteOptions, Failure> {
        let options = WriteOptions::new();
        Ok(match (self.after()?, self.at()?) {
            (Some(after), _) => options.expires_in(after),
            (None, Some(time)) => options.expires_at(time),
            (None, None) => options,
        })
    }

    /// Returns the time to live.
    pub(crate) fn after(&self) -> Result<Option<Duration>, Failure> {
        self.expires_in.as_deref().map(parse_duration).transpose()
    }

    /// Returns the time of the expiry.
    fn at(&self) -> Result<Option<SystemTime>, Failure> {
        let Some(micros) = self.at_micros()? else { return Ok(None) };
        let time = UNIX_EPOCH.checked_add(Duration::from_micros(micros));
        time.map(Some).ok_or_else(|| Failure::usage("the time to expire at is too late"))
    }

    /// Returns the time of the expiry, in microseconds since 1970.
    pub(crate) fn at_micros(&self) -> Result<Option<u64>, Failure> {
        let Some(text) = &self.expires_at else { return Ok(None) };
        let what = "say 2030-01-31, 2030-01-31T12:00:00Z or microseconds since 1970";
        let micros = times::micros(text).ok_or_else(|| Failure::usage(format!("{text:?} is no time; {what}")))?;
        Ok(Some(micros))
    }
}

/// Parses a duration of the command line.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, Failure> {
    let wrong = || Failure::usage(format!("{text:?} is no duration; say 90s, 15m, 12h, 30d or seconds"));
    duration(text).ok_or_else(wrong)
}

/// Parses durations such as `1.5h`; a plain number is in seconds.
fn duration(text: &str) -> Option<Duration> {
    let end = text.find(|of: char| !of.is_ascii_digit() && of != '.').unwrap_or(text.len());
    let unit = match &text[end..] {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        "w" => 604_800.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(text[..end].parse::<f64>().ok()? * unit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_and_nothing_else() {
        let seconds = |text: &str| duration(text).map(|duration| duration.as_secs_f64());
        assert_eq!(seconds("90"), Some(90.0));
        assert_eq!(seconds("90s"), Some(90.0));
        assert_eq!(seconds("1.5h"), Some(5400.0));
        assert_eq!(seconds("250ms"), Some(0.25));
        assert_eq!(seconds("2w"), Some(1_209_600.0));
        for wrong in ["", "s", "-1s", "1y", "1 h", "1h30m", "..", "1e400", "99999999999999999999999d"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
