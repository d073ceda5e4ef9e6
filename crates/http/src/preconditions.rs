//! The headers of conditional requests, as RFC 9110 orders them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::header::{HeaderMap, HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE};
use waxseal_files::{Condition, EntityTag, Metadata};

/// The outcome of the conditions of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Met,
    /// The client has this content.
    NotModified,
    Failed,
}

/// Returns the time of the last change, in whole seconds as HTTP has it. `None` before 1970.
pub(crate) fn modified(metadata: &Metadata) -> Option<SystemTime> {
    let seconds = u64::try_from(metadata.mtime / 1_000_000_000).ok()?;
    // A date of HTTP has a year of four digits.
    (seconds < 253_402_300_800).then(|| UNIX_EPOCH + Duration::from_secs(seconds))
}

/// Returns the values of a header that may be repeated, as one list; `None` without it.
fn list<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<Vec<&'a str>> {
    let mut values = headers.get_all(name).iter().peekable();
    values.peek()?;
    let values = values.map(|value| value.to_str().unwrap_or_default()); // what is no text matches nothing
    Some(values.flat_map(|value| value.split(',')).map(str::trim).collect())
}

/// Returns true if a list names a content, or is `*` and there is one.
fn names(list: &[&str], tag: Option<EntityTag>, is_weak: bool) -> bool {
    let Some(tag) = tag else { return false };
    let own = format!("\"{tag}\"");
    list.iter().any(|one| {
        let one = if is_weak { one.strip_prefix("W/").unwrap_or(one) } else { one };
        one == "*" || one == own
    })
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()
}

/// Returns true if `If-Match` names other contents, or the file has changed after the date of `If-Unmodified-Since`.
fn is_another(headers: &HeaderMap, found: Option<&Metadata>) -> bool {
    match list(headers, &IF_MATCH) {
        Some(list) => !names(&list, found.and_then(Metadata::etag), false),
        None => match date(headers, &IF_UNMODIFIED_SINCE) {
            Some(date) => found.and_then(modified).is_none_or(|modified| modified > date),
            None => false,
        },
    }
}

/// Checks the conditions of a read.
pub(crate) fn of_read(headers: &HeaderMap, found: &Metadata) -> Outcome {
    if is_another(headers, Some(found)) {
        return Outcome::Failed;
    }
    let is_known = match list(headers, &IF_NONE_MATCH) {
        Some(list) => names(&list, found.etag(), true),
        None => {
            let date = date(headers, &IF_MODIFIED_SINCE);
            date.zip(modified(found)).is_some_and(|(date, modified)| modified <= date)
        }
    };
    if is_known { Outcome::NotModified } else { Outcome::Met }
}

/// Returns true if the range of a read applies: the content is the one that `If-Range` names, if it names one. A date
/// does not identify a content.
pub(crate) fn range_applies(headers: &HeaderMap, found: &Metadata) -> bool {
    match list(headers, &IF_RANGE) {
        Some(list) => list != ["*"] && names(&list, found.etag(), false),
        None => true,
    }
}

/// Returns true if a change has a condition.
pub(crate) fn is_conditional(headers: &HeaderMap) -> bool {
    [IF_MATCH, IF_NONE_MATCH, IF_UNMODIFIED_SINCE].iter().any(|name| headers.contains_key(name))
}

/// Returns the condition of a change: the store still holds the content that was compared with the headers. `None` if
/// the headers do not match that content.
pub(crate) fn of_change(headers: &HeaderMap, found: Option<&Metadata>) -> Option<Condition> {
    let tag = found.and_then(Metadata::etag);
    let excluded = list(headers, &IF_NONE_MATCH);
    let is_excluded = excluded.as_ref().is_some_and(|list| match list.contains(&"*") {
        true => found.is_some(),
        false => names(list, tag, true),
    });
    if is_excluded || is_another(headers, found) {
        return None;
    }
    Some(match (is_conditional(headers), found, tag) {
        (false, ..) => Condition::Always,
        (true, None, _) => Condition::Absent,
        (true, Some(_), Some(tag)) => Condition::Matches(tag),
        (true, Some(_), None) => Condition::Exists,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;
    use waxseal_files::{FileStore, SetAttributes};

    fn headers(list: &[(HeaderName, &str)]) -> HeaderMap {
        let pair = |(name, value): &(HeaderName, &str)| (name.clone(), HeaderValue::from_str(value).unwrap());
        list.iter().map(pair).collect()
    }

    #[test]
    fn conditions_are_those_of_http() {
        let fs = FileStore::open(&waxseal::Db::memory().unwrap(), "files").unwrap();
        fs.write_with("file", "content", &SetAttributes::new().mtime(1_000_000_000_999_999_999)).unwrap();
        let found = fs.stat("file").unwrap();
        let tag = found.etag().unwrap();
        let (own, weak) = (&*format!("\"{tag}\""), &*format!("W/\"{tag}\""));
        let (list, at, before) =
            (&*format!("\"a\", {own}"), "Sun, 09 Sep 2001 01:46:40 GMT", "Sun, 09 Sep 2001 01:46:39 GMT");
        // The header, its value, and what it means for a read, a change, and a change where there is no file.
        let (met, known, failed) = (Outcome::Met, Outcome::NotModified, Outcome::Failed);
        let same = Some(Condition::Matches(tag));
        for (name, value, read, change, absent) in [
            (IF_MATCH, own, met, same, None),
            (IF_MATCH, list, met, same, None),
            (IF_MATCH, "*", met, same, None),
            (IF_MATCH, weak, failed, None, None),
            (IF_MATCH, "\"a\"", failed, None, None),
            (IF_NONE_MATCH, own, known, None, Some(Condition::Absent)),
            (IF_NONE_MATCH, weak, known, None, Some(Condition::Absent)),
            (IF_NONE_MATCH, "*", known, None, Some(Condition::Absent)),
            (IF_NONE_MATCH, "\"a\"", met, same, Some(Condition::Absent)),
            (IF_MODIFIED_SINCE, at, known, Some(Condition::Always), Some(Condition::Always)),
            (IF_MODIFIED_SINCE, before, met, Some(Condition::Always), Some(Condition::Always)),
            (IF_MODIFIED_SINCE, "yesterday", met, Some(Condition::Always), Some(Condition::Always)),
            (IF_UNMODIFIED_SINCE, at, met, same, None),
            (IF_UNMODIFIED_SINCE, before, failed, None, None),
        ] {
            let headers = headers(&[(name.clone(), value)]);
            assert_eq!(of_read(&headers, &found), read, "{name}: {value}");
            assert_eq!(of_change(&headers, Some(&found)), change, "{name}: {value}");
            assert_eq!(of_change(&headers, None), absent, "{name}: {value}");
        }
        // Entity tags take precedence over dates. A header may be repeated.
        let both = headers(&[(IF_NONE_MATCH, "\"a\""), (IF_NONE_MATCH, own), (IF_MODIFIED_SINCE, before)]);
        assert_eq!(of_read(&both, &found), known);
        let both = headers(&[(IF_MATCH, "\"a\""), (IF_NONE_MATCH, "\"b\"")]);
        assert_eq!((of_read(&both, &found), of_change(&both, Some(&found))), (failed, None));
        assert!(range_applies(&headers(&[(IF_RANGE, own)]), &found) && range_applies(&headers(&[]), &found));
        for other in [weak, "\"a\"", "*", at] {
            assert!(!range_applies(&headers(&[(IF_RANGE, other)]), &found), "{other}");
        }
    }
}
