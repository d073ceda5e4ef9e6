//! follow: a second store that is kept like the first one by its change feed.
//!
//! The copy holds the position up to which it has the changes, committed with them. So it continues at the right place
//! after every end, and no change is applied twice.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use waxseal::{
    Batch, CfOptions, Change, ChangeOperation, ChangePosition, Changes, ColumnFamily, Contents, Db, Durability,
    ErrorKind,
};
use waxseal_http::Client;

use crate::args::FollowArgs;
use crate::failure::{Exit, Failure};
use crate::files::location::directory_of;
use crate::output::Output;
use crate::store::{FOLLOWED, POSITION, find_family, report_cut};
use crate::text;

/// How long one wait for further changes takes at most.
const STEP: Duration = Duration::from_millis(200);

/// How often the source is looked at again.
const REFRESH: Duration = Duration::from_secs(1);

/// How often the cursor of a busy source is moved.
const RELEASE: Duration = Duration::from_secs(10);

/// A commit that is longer is applied in parts.
const MAX_BATCH_BYTES: usize = 64 << 20;

pub(crate) fn follow(options: &FollowArgs, output: &mut Output) -> Result<Exit, Failure> {
    let FollowArgs { source, dest, cursor, once } = options;
    for other in [source.join("."), fs::canonicalize(source).unwrap_or_default()] {
        if fs::canonicalize(dest).is_ok_and(|dest| dest == other) {
            return Err(Failure::usage("a store does not follow itself"));
        }
    }
    match Db::contents(dest)? {
        Contents::Empty => begin(source, dest, cursor, output)?,
        Contents::Store | Contents::Damaged => {}
        contents => return Err(Failure::usage(format!("{} holds {contents}", dest.display()))),
    }
    let copy = report_cut(Db::builder(dest).create_if_missing(false).open()?)?;
    let mut following = Following::open(source, cursor, copy, Instant::now())?;
    let position = following.changes.position();
    release_log(source, cursor, &following.followed.position)?;
    output.line(format!("following from {position}"))?;
    output.object(&json!({ "following": position.to_string() }))?;
    let wait = if *once { Duration::ZERO } else { STEP };
    loop {
        if following.step(Instant::now(), wait)? != Step::Current {
            continue;
        }
        let (position, applied) = (following.followed.position, following.followed.applied);
        output.line(format!("current at {position}: {}", text::counted(applied, "change", "changes")))?;
        output.object(&json!({ "current": position.to_string(), "changes": applied }))?;
        output.flush()?;
        if *once {
            break;
        }
    }
    let Following { followed, changes, source_db, .. } = following;
    drop((changes, source_db));
    followed.copy.close()?;
    release_log(source, cursor, &followed.position)?;
    Ok(Exit::Ok)
}

/// A copy with the changes of its source that it lacks.
struct Following<'a> {
    source: &'a Path,
    cursor: &'a str,
    source_db: Db,
    changes: Changes,
    followed: Followed,
    /// When the source was looked at again, and when the cursor was moved.
    refreshed: Instant,
    released: Instant,
    is_current: bool,
}

/// The result of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// A change was applied.
    Applied,
    /// The copy has become current.
    Current,
    /// The copy was current before, and no change has come.
    Waited,
}

impl<'a> Following<'a> {
    fn open(source: &'a Path, cursor: &'a str, copy: Db, now: Instant) -> Result<Following<'a>, Failure> {
        let source_db = Db::open_read_only(source)?;
        let (mut followed, changes) = Followed::open(copy, &source_db)?;
        followed.expect_families(&source_db)?;
        let (refreshed, released) = (now, now);
        Ok(Following { source, cursor, source_db, changes, followed, refreshed, released, is_current: false })
    }

    /// Applies the next change, or waits for it. A source that never stops changing is looked at again and gives up its
    /// log, too, although the copy is never current.
    fn step(&mut self, now: Instant, wait: Duration) -> Result<Step, Failure> {
        if now.duration_since(self.refreshed) > REFRESH {
            self.source_db.refresh()?; // lets files go that the source has replaced
            self.followed.expect_families(&self.source_db)?;
            self.refreshed = now;
        }
        if now.duration_since(self.released) > RELEASE {
            self.release(now)?;
        }
        match self.changes.wait_next(wait).map_err(failure)? {
            Some(change) => {
                self.followed.apply(&self.source_db, &change, &self.changes)?;
                self.is_current = false;
                Ok(Step::Applied)
            }
            None if self.is_current => {
                self.followed.create_expected()?;
                Ok(Step::Waited)
            }
            None => {
                self.followed.save(self.changes.position())?;
                self.followed.create_expected()?;
                self.release(now)?;
                self.is_current = true;
                Ok(Step::Current)
            }
        }
    }

    fn release(&mut self, now: Instant) -> Result<(), Failure> {
        self.released = now;
        self.followed.release(self.source, self.cursor)
    }
}

fn failure(error: waxseal::Error) -> Failure {
    match error.kind() {
        ErrorKind::OutOfReach => Failure::new(Exit::CheckFailed, error.to_string()),
        _ => error.into(),
    }
}

/// Makes the copy: a checkpoint that knows its position, and appears whole. The cursor keeps the changes from before it.
fn begin(source: &Path, dest: &Path, cursor: &str, output: &mut Output) -> Result<(), Failure> {
    let mut name = dest.file_name().ok_or_else(|| Failure::usage("name the directory of the copy"))?.to_owned();
    name.push(".follow-partial");
    let partial = dest.with_file_name(name);
    remove_partial(&partial)?;
    make_checkpoint(source, cursor, &partial)?;
    let copy = Db::open(&partial)?;
    let branch =
        copy.change_branch().ok_or_else(|| Failure::new(Exit::CheckFailed, "a checkpoint without a position"))?;
    let mut batch = copy.batch();
    put_position(&mut batch, &copy.column_family(FOLLOWED)?, &branch, Some(&branch));
    batch.commit(Durability::Sync)?;
    copy.close()?;
    let _ = fs::remove_dir(dest); // an empty one
    fs::rename(&partial, dest).map_err(|error| Failure::io(dest.display(), error))?;
    fs::File::open(directory_of(dest))
        .and_then(|above| above.sync_all())
        .map_err(|error| Failure::io(dest.display(), error))?;
    output.line(format!("copied {} to {}", source.display(), dest.display()))
}

/// Makes the checkpoint, after the cursor. Where another process has the source open, the process that serves it does so.
fn make_checkpoint(source: &Path, cursor: &str, partial: &Path) -> Result<(), Failure> {
    let locked = match Db::builder(source).create_if_missing(false).open() {
        Ok(db) => {
            let db = report_cut(db)?;
            db.change_cursor(cursor)?;
            db.checkpoint(partial)?;
            return Ok(db.close()?);
        }
        Err(error) if *error.kind() == ErrorKind::Locked => error,
        Err(error) => return Err(error.into()),
    };
    let server = Client::of_store(source).map_err(|error| Failure::io(source.display(), error))?;
    let Some(server) = server else {
        let ways = "begin the copy while no process writes the source, or while waxseal serve or mount does, or name a \
                    checkpoint that the process has made";
        return Err(Failure::from(locked).explain(ways));
    };
    let absolute = std::path::absolute(partial).map_err(|error| Failure::io(partial.display(), error))?;
    Ok(server.checkpoint(cursor, &absolute)?)
}

/// Removes what a begin that was killed has left. Errors: usage for anything else at its place.
fn remove_partial(partial: &Path) -> Result<(), Failure> {
    let is_ours = match Db::contents(partial)? {
        Contents::Empty => return Ok(()),
        Contents::Marked(_) => true, // a checkpoint that is not complete
        Contents::Store => Db::open_read_only(partial)?.change_branch().is_some(),
        _ => false,
    };
    if !is_ours {
        return Err(Failure::usage(format!("{} is in the way: move or remove it", partial.display())));
    }
    Db::destroy(partial)?;
    let _ = fs::remove_dir(partial); // `destroy` may have removed it
    Ok(())
}

/// Moves the cursor of the source to what the copy holds. A process that serves the source moves it. The cursor stays
/// where another process has the source open, or files may not be changed.
fn release_log(source: &Path, cursor: &str, position: &ChangePosition) -> Result<(), Failure> {
    match Db::builder(source).create_if_missing(false).open() {
        Ok(db) => {
            let db = report_cut(db)?;
            db.change_cursor(cursor)?.advance(*position).map_err(failure)?;
            Ok(db.close()?)
        }
        Err(error) if *error.kind() == ErrorKind::Locked => {
            release_by_server(source, cursor, position);
            Ok(())
        }
        Err(error) => {
            eprintln!("waxseal: the cursor {cursor:?} was not moved: {error}");
            Ok(())
        }
    }
}

/// Moves the cursor through the process that serves the source, if one does. A failure leaves it where it is: the process
/// may have ended meanwhile.
fn release_by_server(source: &Path, cursor: &str, position: &ChangePosition) {
    let moved = Client::of_store(source).map_err(waxseal_http::Error::from).and_then(|server| match server {
        Some(server) => server.advance_cursor(cursor, &position.to_string()),
        None => Ok(()),
    });
    if let Err(error) = moved {
        eprintln!("waxseal: the cursor {cursor:?} was not moved: {error}");
    }
}

/// A copy that is open, with the commit that is being applied to it.
struct Followed {
    copy: Db,
    positions: ColumnFamily,
    /// The copy has all changes before this position.
    position: ChangePosition,
    /// Before this position the changes are durable in the copy.
    released: ChangePosition,
    branch: Option<ChangePosition>,
    batch: Batch,
    /// Families of the copy by their ids in the source; `None` for a dropped family that the copy never had.
    families: HashMap<u32, Option<ColumnFamily>>,
    /// Families of the source that the copy lacks, and a seqno of the source at which they existed.
    expected: (u64, Vec<ColumnFamily>),
    applied: u64,
}

impl Followed {
    /// Opens the changes that the copy lacks. A copy without a position of its own, a checkpoint or a restored backup,
    /// continues where it branched.
    fn open(copy: Db, source: &Db) -> Result<(Followed, Changes), Failure> {
        let branch = copy.change_branch();
        let stored = match find_family(&copy, FOLLOWED) {
            Some(positions) => positions.get(POSITION)?.map(|value| parse(&value)).transpose()?,
            None => None,
        };
        let changes = match (stored, branch) {
            (None, None) => {
                let text = "the store is no copy: name a directory that does not exist, or a checkpoint of the source";
                return Err(Failure::usage(text));
            }
            (None, Some(branch)) => source.changes_since(branch).map_err(failure)?,
            (Some((position, known)), branch) => match source.changes_since(position) {
                // The copy was copied from the source, which follows a third store.
                Err(error) if error.kind() == &ErrorKind::OutOfReach && branch.is_some() && branch != known => {
                    source.changes_since(branch.ok_or_else(|| failure(error))?).map_err(failure)?
                }
                changes => changes.map_err(failure)?,
            },
        };
        let (positions, batch) = (copy.column_family(FOLLOWED)?, copy.batch());
        let position = changes.position();
        let (families, expected, released) = (HashMap::new(), (0, Vec::new()), position);
        Ok((Followed { copy, positions, position, released, branch, batch, families, expected, applied: 0 }, changes))
    }

    /// Adds a change, and commits at the end of its commit.
    fn apply(&mut self, source: &Db, change: &Change, changes: &Changes) -> Result<(), Failure> {
        let is_drop = matches!(change.operation, ChangeOperation::DropFamily);
        if *change.family == *FOLLOWED {
            // The position of a source that follows another store.
        } else if is_drop {
            self.applied += 1;
            self.families.remove(&change.family_id);
            if find_family(&self.copy, &change.family).is_some() {
                self.copy.drop_column_family(&change.family)?;
            }
        } else if let Some(family) = self.family(source, change)? {
            self.applied += 1;
            self.batch.apply(&family, change);
        }
        match change.ends_commit || is_drop || self.batch.bytes() > MAX_BATCH_BYTES {
            true => self.save(changes.position()),
            false => Ok(()),
        }
    }

    /// Commits the changes so far with their position, unless the copy has it already.
    fn save(&mut self, position: ChangePosition) -> Result<(), Failure> {
        if position != self.position {
            put_position(&mut self.batch, &self.positions, &position, self.branch.as_ref());
            self.batch.commit(Durability::Os)?;
            self.batch.clear();
            self.position = position;
        }
        if self.position.seqno >= self.expected.0 {
            self.create_expected()?;
        }
        Ok(())
    }

    /// Notes the families of the source that the copy lacks. A family without a change is not part of the feed.
    fn expect_families(&mut self, source: &Db) -> Result<(), Failure> {
        if self.expected.1.is_empty() {
            let mut families = source.column_families();
            families.retain(|family| find_family(&self.copy, family.name()).is_none());
            self.expected = (source.snapshot().seqno()?, families);
        }
        Ok(())
    }

    /// Creates the expected families, after all drops of earlier families of these names.
    fn create_expected(&mut self) -> Result<(), Failure> {
        for family in self.expected.1.drain(..) {
            if find_family(&self.copy, family.name()).is_none() {
                self.copy.create_column_family(family.name(), CfOptions::clone(&*family.options()))?;
            }
        }
        Ok(())
    }

    /// Makes the changes so far durable, and then lets a process that serves the source give up its log before them.
    fn release(&mut self, source: &Path, cursor: &str) -> Result<(), Failure> {
        if self.position == self.released {
            return Ok(());
        }
        self.copy.sync()?;
        self.released = self.position;
        release_by_server(source, cursor, &self.position);
        Ok(())
    }

    /// Returns the family of the copy for a change. A new one gets the options that the source has. `None` for a family
    /// that neither has: the source has dropped it since this change, and its options are not known.
    fn family(&mut self, source: &Db, change: &Change) -> Result<Option<ColumnFamily>, Failure> {
        if let Some(family) = self.families.get(&change.family_id) {
            return Ok(family.clone());
        }
        let mut family = find_family(&self.copy, &change.family);
        if family.is_none() {
            source.refresh()?;
            let own = find_family(source, &change.family).filter(|own| own.id() == change.family_id);
            let create =
                |own: ColumnFamily| self.copy.create_column_family(&change.family, CfOptions::clone(&*own.options()));
            family = own.map(create).transpose()?;
        }
        self.families.insert(change.family_id, family.clone());
        Ok(family)
    }
}

fn put_position(
    batch: &mut Batch,
    positions: &ColumnFamily,
    position: &ChangePosition,
    branch: Option<&ChangePosition>,
) {
    let branch = branch.map(ToString::to_string).unwrap_or_default();
    batch.put(positions, POSITION, format!("{position} {branch}"));
}

/// Returns the position of a copy, and the branch of the store that wrote it.
fn parse(value: &[u8]) -> Result<(ChangePosition, Option<ChangePosition>), Failure> {
    let parsed = || {
        let (position, branch) = std::str::from_utf8(value).ok()?.split_once(' ')?;
        let branch = if branch.is_empty() { None } else { Some(branch.parse().ok()?) };
        Some((position.parse().ok()?, branch))
    };
    parsed().ok_or_else(|| Failure::new(Exit::CheckFailed, format!("the record of {FOLLOWED} is not a position")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source that changes all the time: the copy is never current, and its cursor moves nevertheless.
    #[test]
    fn a_copy_that_is_never_current_releases_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let (source, dest) = (dir.path().join("source"), dir.path().join("copy"));
        let db = Db::open(&source).unwrap();
        let rows = db.column_family("rows").unwrap();
        rows.put("first", "v").unwrap();
        db.change_cursor("follow").unwrap();
        db.checkpoint(&dest).unwrap();
        (0..16).for_each(|number| rows.put(format!("{number}"), "v").unwrap());
        db.sync().unwrap();
        let start = Instant::now();
        let mut following = Following::open(&source, "follow", Db::open(&dest).unwrap(), start).unwrap();
        let begun = following.followed.position;
        let seen = following.source_db.snapshot().seqno().unwrap();
        rows.put("last", "v").unwrap();
        db.sync().unwrap();
        // Seconds from the start; whether the source has been looked at again; whether the cursor moves.
        for (second, is_refreshed, is_released) in [
            (0, false, false),
            (2, true, false),
            (9, true, false),
            (11, true, true),
            (12, true, false),
            (22, true, true),
        ] {
            let (position, released) = (following.followed.position, following.followed.released);
            let step = following.step(start + Duration::from_secs(second), Duration::ZERO).unwrap();
            assert_eq!(step, Step::Applied, "{second} s");
            assert_eq!(following.source_db.snapshot().seqno().unwrap() > seen, is_refreshed, "{second} s");
            assert_eq!(following.followed.released, if is_released { position } else { released }, "{second} s");
            assert_ne!(following.followed.position, begun);
        }
        assert!((0..20).any(|_| following.step(start, Duration::ZERO).unwrap() == Step::Current));
        assert_eq!(following.followed.released, following.followed.position);
    }
}
