//! Keys of log and registry rows, and query plans over them. docs/format.md, section 9.5.
//!
//! ```text
//! log        02 | path 00 | operation u16 | time u64 | client | seqno u64
//! registry   01 | path 00 | operation u16 (0: any)
//! ```
//!
//! All events of a target are adjacent, ordered by operation, then time. A target, one of its operations, a time span
//! of that operation, and everything below a target are therefore one range each, and the latest event is the last of a
//! range. A time span over *all* operations is not one range: `ScanPlan` scans it with one seek for each pair of target
//! and operation that has rows outside the span. Plans do no I/O: they receive keys and return the next position, and
//! the caller moves the cursor.
//!
//! The commit's seqno ends the key, so two events never have the same key, whatever the clock does. A row that is
//! encoded before its seqno is known gets it by `bind`, as record metadata does.

use waxseal_lsm::codec::Reader;
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::record::{MAX_SEQNO, Seqno};

use crate::clock::Time;
use crate::operation::Operation;
use crate::ordered::{put_component, put_u16, put_u64, skip_component, successor, take_component, take_u16, take_u64};
use crate::target::{END, ENGINE, TABLE_FILE, Target, skip_path};

/// Longest name of a session (client), in bytes.
pub const MAX_CLIENT_BYTES: usize = 255;

/// The client name of anonymous calls.
pub const ANONYMOUS: &str = "-";

const REGISTRY: u8 = 0x01;
const LOG: u8 = 0x02;
/// Follows a path: sorts after all keys of the target itself, and before all keys of lower targets.
const PAST: u8 = 0x01;

/// Returns the key of a registration. Errors: `Invalid` for a malformed target.
pub fn registry_key(target: &Target, operation: Option<Operation>) -> Result<Vec<u8>> {
    let mut key = vec![REGISTRY];
    target.put_path(&mut key)?;
    key.push(END);
    put_u16(&mut key, operation.map_or(0, Operation::number));
    Ok(key)
}

/// Decodes a registration's key into target and operation. Malformed bytes are refused.
pub fn read_registry_key(key: &[u8]) -> Result<(Target, Option<Operation>)> {
    let mut reader = Reader::new(key);
    if reader.u8()? != REGISTRY {
        return Err(Error::structural("a key that is no registration's"));
    }
    let target = Target::from_path(skip_path(&mut reader)?)?;
    let operation = Operation::from_number(take_u16(&mut reader)?);
    match reader.is_empty() {
        true => Ok((target, operation)),
        false => Err(Error::structural("bytes behind the key of a registration")),
    }
}

/// The key of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogKey {
    /// The target of the operation.
    pub target: Target,
    /// The operation.
    pub operation: Operation,
    /// The time.
    pub time: Time,
    /// The name of the session.
    pub client: String,
    /// The commit of the operation, or the commit that wrote the event.
    pub seqno: Seqno,
}

impl LogKey {
    /// Encodes the key. Errors: `Invalid` for a malformed target, a client name that is empty or too long, or a seqno
    /// out of range.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut key = Vec::new();
        let put_path = |key: &mut Vec<u8>| self.target.put_path(key);
        put_log_key(&mut key, put_path, (self.operation, self.time), &self.client, self.seqno)?;
        Ok(key)
    }

    /// Decodes a key. Malformed bytes are refused.
    pub fn decode(key: &[u8]) -> Result<LogKey> {
        let split = Split::of(key)?;
        let operation = split.operation;
        let operation =
            Operation::from_number(operation).ok_or_else(|| Error::structural("an event of no operation"))?;
        let client = take_component(&mut Reader::new(split.client))?;
        if client.is_empty() || client.len() > MAX_CLIENT_BYTES {
            return Err(Error::structural("an event whose client has no name, or one too long"));
        }
        let client = String::from_utf8(client).map_err(|_| Error::structural("a client whose name is no text"))?;
        let target = Target::from_path(split.path)?;
        Ok(LogKey { target, operation, time: split.time, client, seqno: split.seqno })
    }
}

/// Appends the key of an event on the target whose path `put_path` appends. Errors: those of `LogKey::encode`; on an
/// error, `out` holds an incomplete key.
pub(crate) fn put_log_key(
    out: &mut Vec<u8>,
    put_path: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    (operation, time): (Operation, Time),
    client: &str,
    seqno: Seqno,
) -> Result<()> {
    if client.is_empty() || client.len() > MAX_CLIENT_BYTES {
        let rule = format!("the name of a client has 1 to {MAX_CLIENT_BYTES} bytes, this one {}", client.len());
        return Err(Error::invalid(rule));
    }
    if seqno > MAX_SEQNO {
        return Err(Error::invalid("a seqno above the greatest"));
    }
    out.push(LOG);
    put_path(out)?;
    out.push(END);
    put_u16(out, operation.number());
    put_u64(out, time.0);
    put_component(out, client.as_bytes());
    put_u64(out, seqno);
    Ok(())
}

/// Sets the time and the seqno in an event's encoded key, once both are known. The length does not change.
pub fn bind(key: &mut [u8], time: Time, seqno: Seqno) -> Result<()> {
    let at = Split::of(key)?.time_at;
    let mut word = Vec::with_capacity(8);
    put_u64(&mut word, time.0);
    key[at..at + 8].copy_from_slice(&word);
    word.clear();
    put_u64(&mut word, seqno);
    let end = key.len();
    key[end - 8..].copy_from_slice(&word);
    Ok(())
}

/// A log key split into its parts, without decoding the target.
struct Split<'a> {
    path: &'a [u8],
    operation: u16,
    time_at: usize,
    time: Time,
    /// Encoded as a component.
    client: &'a [u8],
    seqno: Seqno,
}

impl<'a> Split<'a> {
    fn of(key: &'a [u8]) -> Result<Split<'a>> {
        let mut reader = Reader::new(key);
        if reader.u8()? != LOG {
            return Err(Error::structural("a key that is no event's"));
        }
        let path = skip_path(&mut reader)?;
        let operation = take_u16(&mut reader)?;
        let time_at = reader.position();
        let time = Time(take_u64(&mut reader)?);
        let client_at = reader.position();
        skip_component(&mut reader)?;
        let client = &key[client_at..reader.position()];
        let seqno = take_u64(&mut reader)?;
        if !reader.is_empty() || seqno > MAX_SEQNO {
            return Err(Error::structural("the key of an event that does not end with its seqno"));
        }
        Ok(Split { path, operation, time_at, time, client, seqno })
    }
}

/// A query: selects events of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Query {
    /// The target of the events.
    pub target: Target,
    /// Includes events of all targets below it.
    pub below: bool,
    /// The operation, with all operations it covers; `None`: any.
    pub operation: Option<Operation>,
    /// The earliest time, inclusive.
    pub from: Time,
    /// The latest time, inclusive.
    pub to: Time,
    /// The name of the session; `None`: any.
    pub client: Option<String>,
}

impl Query {
    /// Selects all events of a target itself.
    pub fn of(target: Target) -> Query {
        Query { target, below: false, operation: None, from: Time::FIRST, to: Time::LAST, client: None }
    }

    /// Returns the plan of a scan, oldest first within each target and operation. Errors: `Invalid` for a malformed
    /// target.
    pub fn plan(&self) -> Result<ScanPlan> {
        let own = LogKeyPrefix::of(&self.target)?;
        let wanted = self.operation.map(Operation::covered);
        let start = match ends_of(&wanted) {
            Some((first, _)) => own.at(first, self.from),
            None if self.below => own.0.clone(),
            None => own.with(END),
        };
        let end = match ends_of(&wanted) {
            _ if self.below => own.past_all(),
            Some((_, last)) => own.after(last, self.to),
            None => own.with(PAST),
        };
        let end = if self.from > self.to { start.clone() } else { end };
        Ok(ScanPlan { start, end, wanted, from: self.from, to: self.to, client: self.client() })
    }

    /// Returns the plan that finds the latest event. Targets below the query's own are not searched. Errors: `Invalid`
    /// for a malformed target.
    pub fn latest(&self) -> Result<Latest> {
        let own = LogKeyPrefix::of(&self.target)?;
        let wanted = self.operation.map(Operation::covered);
        let (start, end) = match ends_of(&wanted) {
            Some((first, last)) => (own.at(first, self.from), own.after(last, self.to)),
            None => (own.with(END), own.with(PAST)),
        };
        let client = self.client();
        Ok(Latest { start, end, wanted, from: self.from, to: self.to, client, best: None, run: None })
    }

    fn client(&self) -> Option<Vec<u8>> {
        self.client.as_ref().map(|client| {
            let mut component = Vec::new();
            put_component(&mut component, client.as_bytes());
            component
        })
    }
}

/// Returns the common prefix of the log keys of a family and of its keys. Errors: `Invalid` for a malformed name.
pub(crate) fn family_keys(family: &str) -> Result<Vec<u8>> {
    LogKeyPrefix::of(&Target::family(family)).map(|place| place.0)
}

/// Returns the log key ranges (start inclusive, end exclusive) of table files and of engine parts.
pub(crate) fn engine_keys() -> [(Vec<u8>, Vec<u8>); 2] {
    [TABLE_FILE, ENGINE].map(|mark| (vec![LOG, mark], vec![LOG, mark + 1]))
}

/// The mark of a key component, which follows the family's path.
pub(crate) const KEY_MARK: u8 = 0x52;

/// The common prefix of the log keys of a target and of all targets below it.
struct LogKeyPrefix(Vec<u8>);

impl LogKeyPrefix {
    fn of(target: &Target) -> Result<LogKeyPrefix> {
        let mut start = vec![LOG];
        target.put_path(&mut start)?;
        Ok(LogKeyPrefix(start))
    }

    fn of_path(path: &[u8]) -> LogKeyPrefix {
        LogKeyPrefix([&[LOG], path].concat())
    }

    fn with(&self, byte: u8) -> Vec<u8> {
        [&self.0[..], &[byte]].concat()
    }

    /// The start of the events of an operation.
    fn operation(&self, operation: u16) -> Vec<u8> {
        let mut key = self.with(END);
        put_u16(&mut key, operation);
        key
    }

    /// The start of the events of an operation from a time on.
    fn at(&self, operation: u16, time: Time) -> Vec<u8> {
        let mut key = self.operation(operation);
        put_u64(&mut key, time.0);
        key
    }

    /// The end of the events of an operation up to a time, inclusive.
    fn after(&self, operation: u16, time: Time) -> Vec<u8> {
        match (time.0.checked_add(1), operation.checked_add(1)) {
            (Some(next), _) => self.at(operation, Time(next)),
            (None, Some(next)) => self.operation(next),
            (None, None) => self.with(PAST),
        }
    }

    /// The end of the events of the target's whole subtree.
    fn past_all(&self) -> Vec<u8> {
        successor(&self.0).unwrap_or_else(|| vec![LOG + 1]) // `LOG` is not the largest byte
    }
}

/// How to continue after the cursor's current key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScanStep {
    /// The event matches; continue with the next key.
    Take,
    /// The event does not match; continue with the next key.
    Skip,
    /// No event before this key matches: seek there.
    Seek(Vec<u8>),
    /// Neither this event nor any later one matches.
    Done,
}

/// The numbers of the selected operations, ascending; `None`: all.
type Wanted = Option<Vec<u16>>;

/// Returns the first and the last selected operation.
fn ends_of(wanted: &Wanted) -> Option<(u16, u16)> {
    wanted.as_deref().and_then(|numbers| Some((*numbers.first()?, *numbers.last()?)))
}

/// Returns the first selected operation at or after a number.
fn next_wanted(wanted: &Wanted, number: u16) -> Option<u16> {
    match wanted {
        Some(numbers) => numbers.iter().copied().find(|own| *own >= number),
        None => Some(number),
    }
}

/// The plan of a scan over the events of a query: seek to `start`, then follow `step` until the cursor or the plan
/// ends.
#[derive(Clone, Debug)]
pub struct ScanPlan {
    start: Vec<u8>,
    end: Vec<u8>,
    wanted: Wanted,
    from: Time,
    to: Time,
    client: Option<Vec<u8>>,
}

impl ScanPlan {
    /// Returns the start key.
    pub fn start(&self) -> &[u8] {
        &self.start
    }

    /// Returns the end key, exclusive.
    pub fn end(&self) -> &[u8] {
        &self.end
    }

    /// Restricts the plan to a key range, start inclusive.
    pub(crate) fn within(mut self, start: Option<Vec<u8>>, end: Option<Vec<u8>>) -> ScanPlan {
        self.start = start.map_or_else(|| self.start.clone(), |start| start.max(self.start.clone()));
        self.end = end.map_or_else(|| self.end.clone(), |end| end.min(self.end.clone()));
        self
    }

    /// Continues after `key`, the last key of an earlier page. Errors: `Invalid` for a key that cannot come from this
    /// query.
    pub fn resume(mut self, key: &[u8]) -> Result<ScanPlan> {
        if key < &self.start[..] || key >= &self.end[..] || Split::of(key).is_err() {
            return Err(Error::invalid("this place is not one where a walk of this query ended"));
        }
        self.start = [key, &[0]].concat();
        Ok(self)
    }

    /// Decides how to continue after a key. Bytes that are not an event's key are refused.
    pub fn step(&self, key: &[u8]) -> Result<ScanStep> {
        if key >= &self.end[..] {
            return Ok(ScanStep::Done);
        }
        let found = Split::of(key)?;
        let place = LogKeyPrefix::of_path(found.path);
        let behind = |number: Option<u16>| match number.and_then(|number| next_wanted(&self.wanted, number)) {
            Some(next) => place.at(next, self.from),
            None => place.with(PAST),
        };
        let next = match next_wanted(&self.wanted, found.operation) {
            next if next != Some(found.operation) => behind(next),
            _ if found.time < self.from => place.at(found.operation, self.from),
            _ if found.time > self.to => behind(found.operation.checked_add(1)),
            _ => {
                let asked = self.client.as_ref().is_none_or(|client| found.client == client);
                return Ok(if asked { ScanStep::Take } else { ScanStep::Skip });
            }
        };
        Ok(if next < self.end { ScanStep::Seek(next) } else { ScanStep::Done })
    }
}

/// Where to continue the search for the latest event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Back {
    /// At the previous key.
    Prev,
    /// At the last key before this one; no event has this key itself.
    Seek(Vec<u8>),
    /// The search has ended: `best` holds the result.
    Done,
}

/// A backward search for the latest event, ordered by time and then by commit. Seek to the last key before `end`, then
/// follow `step`. This costs one seek and one step if the query has an operation and no client. Without an operation it
/// costs that much for each operation that has events on the target.
#[derive(Clone, Debug)]
pub struct Latest {
    start: Vec<u8>,
    end: Vec<u8>,
    wanted: Wanted,
    from: Time,
    to: Time,
    client: Option<Vec<u8>>,
    best: Option<(Time, Seqno, Vec<u8>)>,
    /// The current operation, and the time of its latest event.
    run: Option<(u16, Time)>,
}

impl Latest {
    /// Returns the end of the search; no event has exactly this key.
    pub fn end(&self) -> &[u8] {
        &self.end
    }

    /// Returns the key of the latest event, after `step` has returned `Done`.
    pub fn best(&self) -> Option<&[u8]> {
        self.best.as_ref().map(|(_, _, key)| key.as_slice())
    }

    /// Examines the cursor's current key, or `None` at the start of the log. Bytes that are not an event's key are
    /// refused.
    pub fn step(&mut self, key: Option<&[u8]>) -> Result<Back> {
        let Some(key) = key.filter(|key| *key >= &self.start[..] && *key < &self.end[..]) else {
            return Ok(Back::Done);
        };
        let found = Split::of(key)?;
        let place = LogKeyPrefix::of_path(found.path);
        if next_wanted(&self.wanted, found.operation) != Some(found.operation) {
            return Ok(Back::Seek(place.operation(found.operation)));
        }
        if found.time > self.to {
            return Ok(Back::Seek(place.after(found.operation, self.to)));
        }
        // Events with the same time are ordered by client, not by commit. All of them are examined, and the first older
        // one ends the search.
        let older = self.run.is_some_and(|(operation, time)| operation == found.operation && found.time < time);
        if found.time >= self.from && !older {
            if self.client.as_ref().is_none_or(|client| found.client == client) {
                self.run = Some((found.operation, found.time));
                let newest =
                    self.best.as_ref().is_none_or(|(time, seqno, _)| (found.time, found.seqno) > (*time, *seqno));
                if newest {
                    self.best = Some((found.time, found.seqno, key.to_vec()));
                }
            }
            return Ok(Back::Prev);
        }
        let is_last = ends_of(&self.wanted).is_some_and(|(first, _)| first == found.operation);
        Ok(if is_last { Back::Done } else { Back::Seek(place.operation(found.operation)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::testing::{john, target};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use waxseal_lsm::error::ErrorKind;

    fn operation() -> impl Strategy<Value = Operation> {
        let known = Operation::known().collect::<Vec<_>>();
        prop_oneof![prop::sample::select(known), (1..=u16::MAX).prop_filter_map("not 0", Operation::from_number)]
    }

    fn log_key() -> impl Strategy<Value = LogKey> {
        (target(), operation(), any::<u64>(), "[a-z\0]{1,3}", 0..=MAX_SEQNO).prop_map(
            |(target, operation, time, client, seqno)| LogKey { target, operation, time: Time(time), client, seqno },
        )
    }

    /// Keys that are likely to coincide in every part.
    fn near_key() -> impl Strategy<Value = LogKey> {
        let targets = vec![
            Target::Cluster,
            Target::family("f"),
            Target::key("f", *b""),
            Target::key("f", *b"\0"),
            Target::key("f", *b"k"),
            Target::family("g"),
        ];
        let operations = [0x0001, 0x0301, 0x0302, 0x0303, 0x0304, 0xFFFE, 0xFFFF]
            .map(|number| Operation::from_number(number).unwrap());
        let times = [0, 1, 2, 5, u64::MAX - 1, u64::MAX].map(Time);
        let clients = ["a".to_owned(), "b".to_owned()];
        let one = prop::sample::select::<Target>;
        (
            one(targets),
            prop::sample::select(operations.to_vec()),
            prop::sample::select(times.to_vec()),
            prop::sample::select(clients.to_vec()),
            0..3u64,
        )
            .prop_map(|(target, operation, time, client, seqno)| LogKey {
                target,
                operation,
                time,
                client,
                seqno,
            })
    }

    fn asked(query: &Query, key: &LogKey) -> bool {
        (if query.below { query.target.covers(&key.target) } else { query.target == key.target })
            && query.operation.is_none_or(|operation| operation.covers(key.operation))
            && (query.from..=query.to).contains(&key.time)
            && query.client.as_ref().is_none_or(|client| *client == key.client)
    }

    /// Runs a plan over sorted keys; returns the keys taken and the number of seeks.
    fn walk(plan: &ScanPlan, keys: &BTreeMap<Vec<u8>, LogKey>) -> (Vec<Vec<u8>>, usize) {
        let (mut taken, mut seeks, mut from) = (Vec::new(), 1, plan.start().to_vec());
        while let Some((key, _)) = keys.range(from.clone()..).next() {
            match plan.step(key).unwrap() {
                ScanStep::Take => taken.push(key.clone()),
                ScanStep::Skip => {}
                ScanStep::Done => break,
                ScanStep::Seek(to) => {
                    assert!(to > *key && to < plan.end, "a plan goes forward, within its range");
                    seeks += 1;
                    from = to;
                    continue;
                }
            }
            from = [&key[..], &[0]].concat();
        }
        (taken, seeks)
    }

    fn walk_back(mut latest: Latest, keys: &BTreeMap<Vec<u8>, LogKey>) -> (Option<Vec<u8>>, usize) {
        let (mut seeks, mut before) = (1, latest.end().to_vec());
        loop {
            let key = keys.range(..before.clone()).next_back().map(|(key, _)| key);
            match latest.step(key.map(Vec::as_slice)).unwrap() {
                Back::Done => return (latest.best().map(<[u8]>::to_vec), seeks),
                Back::Prev => before = key.unwrap().clone(),
                Back::Seek(to) => {
                    assert!(!keys.contains_key(&to) && to <= *key.unwrap());
                    seeks += 1;
                    before = to;
                }
            }
        }
    }

    #[test]
    fn golden_keys() {
        // docs/format.md, section 9.5.
        let key = LogKey {
            target: john(),
            operation: Operation::ROW_UPDATE,
            time: Time::from_micros(1_510_051_314_000_000),
            client: "admin".to_owned(),
            seqno: 7,
        };
        let john = b"\x10School\0\x01\x12Teacher\0\x01\x14John\0\x01\0\x03\x02";
        let rest = b"\x55\xD6\x23\x82\x9E\x08\x00\x00admin\0\x01\0\0\0\0\0\0\0\x07";
        assert_eq!(key.encode().unwrap(), [b"\x02", &john[..], rest].concat());
        assert_eq!(registry_key(&key.target, Some(Operation::ROW_UPDATE)).unwrap(), [b"\x01", &john[..]].concat());
        assert_eq!(registry_key(&Target::Cluster, None).unwrap(), b"\x01\0\0\0");
    }

    #[test]
    fn what_cannot_be_a_key_is_refused() {
        let good = LogKey {
            target: john(),
            operation: Operation::ROW_UPDATE,
            time: Time(1),
            client: ANONYMOUS.to_owned(),
            seqno: MAX_SEQNO,
        };
        good.encode().unwrap();
        let wrong = [
            LogKey { client: String::new(), ..good.clone() },
            LogKey { client: "x".repeat(256), ..good.clone() },
            LogKey { seqno: MAX_SEQNO + 1, ..good.clone() },
            LogKey { target: Target::family(""), ..good.clone() },
        ];
        for wrong in wrong {
            assert_eq!(*wrong.encode().unwrap_err().kind(), ErrorKind::Invalid);
        }
        let longest = Target::key("f", vec![1; crate::target::MAX_PATH_BYTES - 7]);
        assert_eq!(longest.path_bytes(), crate::target::MAX_PATH_BYTES);
        let longest = LogKey { target: longest, client: "\0".repeat(255), ..good };
        assert!(longest.encode().unwrap().len() <= waxseal_lsm::record::MAX_KEY_BYTES);
    }

    #[test]
    fn the_latest_of_an_operation_takes_one_seek_and_a_span_one_for_each_operation() {
        let mut keys = BTreeMap::new();
        let operations = [Operation::ROW_INSERT, Operation::ROW_UPDATE, Operation::ROW_DELETE];
        for n in 0..300 {
            let operation = operations[n % 3];
            let key = LogKey { target: john(), operation, time: Time(n as u64), client: "-".to_owned(), seqno: 0 };
            keys.insert(key.encode().unwrap(), key);
        }
        let query = Query { operation: Some(Operation::ROW_UPDATE), ..Query::of(john()) };
        let (found, seeks) = walk_back(query.latest().unwrap(), &keys);
        assert_eq!((keys[&found.unwrap()].time, seeks), (Time(298), 1));
        let (found, seeks) = walk_back(Query::of(john()).latest().unwrap(), &keys);
        assert_eq!((keys[&found.unwrap()].time, seeks), (Time(299), 4));
        let query = Query { from: Time(100), to: Time(105), ..Query::of(john()) };
        let (found, seeks) = walk(&query.plan().unwrap(), &keys);
        assert!(found.len() == 6 && seeks <= 7, "{seeks} seeks");
    }

    #[test]
    fn of_one_moment_the_later_commit_is_the_latest_whoever_made_it() {
        let key = |client: &str, seqno| {
            let (operation, client) = (Operation::ROW_UPDATE, client.to_owned());
            LogKey { target: john(), operation, time: Time(5), client, seqno }
        };
        let keys = [key("a", 9), key("b", 4)].map(|key| (key.encode().unwrap(), key));
        let keys = BTreeMap::from(keys);
        let query = Query { operation: Some(Operation::ROW_UPDATE), ..Query::of(john()) };
        let (found, seeks) = walk_back(query.latest().unwrap(), &keys);
        assert_eq!((keys[&found.unwrap()].seqno, seeks), (9, 1));
    }

    proptest! {
        #[test]
        fn keys_come_back_and_sort_as_their_parts(a in log_key(), b in log_key()) {
            let (one, other) = (a.encode().unwrap(), b.encode().unwrap());
            prop_assert_eq!(LogKey::decode(&one).unwrap(), a.clone());
            let parts = |key: &LogKey| (key.operation, key.time, key.client.clone(), key.seqno);
            if a.target == b.target {
                prop_assert_eq!(one.cmp(&other), parts(&a).cmp(&parts(&b)));
            } else {
                prop_assert_eq!(one.cmp(&other), a.target.cmp(&b.target));
            }
            let of_registry = registry_key(&a.target, Some(a.operation)).unwrap();
            prop_assert_eq!(read_registry_key(&of_registry).unwrap(), (a.target.clone(), Some(a.operation)));
            let of_any = registry_key(&a.target, None).unwrap();
            prop_assert_eq!(read_registry_key(&of_any).unwrap(), (a.target, None));
        }

        #[test]
        fn a_bound_key_is_the_key_with_another_time_and_seqno(key in log_key(), time: u64, seqno in 0..=MAX_SEQNO) {
            let mut bytes = key.encode().unwrap();
            bind(&mut bytes, Time(time), seqno).unwrap();
            prop_assert_eq!(bytes, LogKey { time: Time(time), seqno, ..key }.encode().unwrap());
        }

        #[test]
        fn any_bytes_are_a_key_in_its_one_form_or_refused(bytes: Vec<u8>, key in log_key(), at: prop::sample::Index, flip: u8) {
            let mut likely = key.encode().unwrap();
            let at = at.index(likely.len());
            likely[at] ^= flip;
            for bytes in [bytes, likely] {
                if let Ok(key) = LogKey::decode(&bytes) {
                    prop_assert_eq!(key.encode().unwrap(), bytes.clone());
                }
                if let Ok((target, operation)) = read_registry_key(&bytes) {
                    prop_assert_eq!(registry_key(&target, operation).unwrap(), bytes);
                }
            }
        }

        #[test]
        fn a_plan_finds_what_a_full_scan_finds(
            rows in vec(near_key(), 0..40),
            asking in near_key(),
            to in near_key(),
            (below, any_operation, any_client, all_time) in any::<(bool, bool, bool, bool)>(),
            page in 1..5usize,
        ) {
            let keys: BTreeMap<Vec<u8>, LogKey> = rows.into_iter().map(|key| (key.encode().unwrap(), key)).collect();
            let query = Query {
                target: asking.target,
                below,
                operation: (!any_operation).then_some(asking.operation),
                from: if all_time { Time::FIRST } else { asking.time },
                to: if all_time { Time::LAST } else { to.time },
                client: (!any_client).then_some(asking.client),
            };
            let expected: Vec<Vec<u8>> =
                keys.iter().filter(|(_, key)| asked(&query, key)).map(|(bytes, _)| bytes.clone()).collect();
            let plan = query.plan().unwrap();
            let (found, _) = walk(&plan, &keys);
            prop_assert_eq!(&found, &expected);
            // The same query in pages.
            let (mut paged, mut rest) = (Vec::new(), plan.clone());
            loop {
                let (mut found, _) = walk(&rest, &keys);
                found.truncate(page);
                let Some(last) = found.last().cloned() else { break };
                paged.append(&mut found);
                rest = plan.clone().resume(&last).unwrap();
            }
            prop_assert_eq!(&paged, &expected);
            // The latest event of the query.
            let query = Query { below: false, ..query };
            let newest = keys.iter().filter(|(_, key)| asked(&query, key)).map(|(_, key)| (key.time, key.seqno)).max();
            let (found, _) = walk_back(query.latest().unwrap(), &keys);
            let found = found.map(|bytes| (keys[&bytes].time, keys[&bytes].seqno));
            prop_assert_eq!(found, newest);
        }
    }
}
