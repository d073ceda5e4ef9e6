//! Expiry options of writes: `--expires-in 90s`, `--expires-at 2030-01-31T12:00:00Z`.

use std::time::{Duration, UNIX_EPOCH};

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
        if let Some(text) = &self.expires_in {
            let wrong = || Failure::usage(format!("{text:?} is no duration; say 90s, 15m, 12h, 30d or seconds"));
            return Ok(options.expires_in(duration(text).ok_or_else(wrong)?));
        }
        if let Some(text) = &self.expires_at {
            let what = "say 2030-01-31, 2030-01-31T12:00:00Z or microseconds since 1970";
            let time = times::micros(text).and_then(|micros| UNIX_EPOCH.checked_add(Duration::from_micros(micros)));
            return Ok(options.expires_at(time.ok_or_else(|| Failure::usage(format!("{text:?} is no time; {what}")))?));
        }
        Ok(options)
    }
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
