//! Recovery of what the change feed keeps: before the log that was found is replaced, the frames that the feed needs are
//! copied to segments of their own.
//!
//! In:      the frames that recovery replays, and where the log ended.
//! Out:     durable segments, and changes for the edit of the recovery. A clean close leaves no frames to copy.
//! History: if commits that a reader may have seen can be missing, the store continues in another history, which branches
//!          after the last commit that was found. If even commits in tables are missing from the log, the feed begins
//!          anew.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::opening::Opening;
use crate::batch::BatchOperations;
use crate::db::catalog::feed::is_needed;
use crate::db::writes::commit::NO_FAMILY;
use crate::env::Env;
use crate::error::Result;
use crate::names::StoreFileName;
use crate::options::Settings;
use crate::planted;
use crate::pointer::Pointer;
use crate::record::{Kind, Seqno};
use crate::version::{
    EditChange, FeedEdit, FeedHistory, FeedMark, FeedState, KeptFile, KeptSegment, ManifestState, RecoveredManifest,
};
use crate::wal::{KeptLogCopy, LogEnd, Numbers, Replayed};

/// Collects what the feed keeps of a log that is being recovered.
pub(super) struct KeptLog {
    from: Seqno,
    copy: KeptLogCopy,
    /// The blob files that copied frames point into, each with the last seqno that does.
    files: BTreeMap<u64, Seqno>,
    /// The recorded state, whose marks say which jobs have succeeded.
    state: Arc<FeedState>,
    failed: Vec<FeedEdit>,
}

impl KeptLog {
    /// Creates a collector; `None` if the feed is off or has no consumer.
    pub(super) fn of(opening: &Opening<'_>, found: &RecoveredManifest, numbers: &Numbers) -> Option<KeptLog> {
        let (feed, settings) = (&found.state.feed, opening.settings);
        let from = feed.from.filter(|_| is_needed(feed, settings))?;
        let place = (opening.dir, &found.identity);
        let copy = KeptLogCopy::new(opening.env(), place, settings.log_segment_bytes(), numbers.clone());
        let state = Arc::clone(feed);
        Some(KeptLog { from, copy, files: BTreeMap::new(), state, failed: Vec::new() })
    }

    /// Copies a frame, unless the feed does not need it.
    pub(super) fn take(&mut self, frame: &Replayed<'_>) -> Result<()> {
        let operations = BatchOperations::new(frame.body)?;
        let count = operations.remaining();
        let last = (frame.seqno + count).saturating_sub(1);
        if last <= self.from {
            return Ok(());
        }
        for (seqno, operation) in (frame.seqno..).zip(operations) {
            let operation = operation?;
            if operation.family == NO_FAMILY && !operation.value.is_empty() && !self.state.marks.contains_key(&seqno) {
                self.failed.push(FeedEdit::Marked(FeedMark::nothing(seqno, 0)));
            }
            if operation.kind == Kind::BlobPointer {
                let (_, number) = Pointer::decode_logged(operation.value)?;
                self.files.insert(number, last);
            }
        }
        planted!(FeedFramesNotCopied => return Ok(()));
        self.copy.push(frame.seqno, count, frame.body)
    }

    fn finish(self, now: u64) -> Result<Vec<FeedEdit>> {
        let files = self.files.iter().map(|(number, through)| {
            FeedEdit::FileKept(KeptFile { name: StoreFileName::Values(*number), through: *through })
        });
        let mut edits: Vec<FeedEdit> = files.chain(self.failed).collect();
        edits.extend(self.copy.finish()?.into_iter().map(|copied| {
            let (number, nonce, end) = (copied.number, copied.nonce, copied.end);
            let next_seqno = copied.next_seqno;
            FeedEdit::SegmentKept(KeptSegment { number, nonce, first: 0, end, next_seqno, closed_micros: now })
        }));
        Ok(edits)
    }
}

/// Returns the feed's changes for the edit of a recovery. The log ended at `end`, and `last` is the last seqno that the
/// store has used. Makes the kept segments durable.
pub(super) fn feed_changes(
    env: &Env,
    settings: &Settings,
    state: &ManifestState,
    kept: Option<KeptLog>,
    end: Option<&LogEnd>,
    last: Seqno,
) -> Result<Vec<EditChange>> {
    let feed = &state.feed;
    let mut edits = match kept {
        Some(kept) => kept.finish(env.clock.wall_micros())?,
        None => Vec::new(),
    };
    let mut from = feed.from;
    let found = end.and_then(|end| end.next_seqno).map_or(state.permanent_seqno, |next| next - 1);
    let is_whole = end.is_none_or(|end| end.closed || end.cut.is_none() && !end.may_lack_unsynced) && found >= last;
    if feed.histories.is_empty() {
        if is_needed(feed, settings) {
            edits.push(first_history(env));
        }
    } else if planted!(FeedHistoryGoesOn, false, !is_whole) {
        let history = FeedHistory { id: env.random.uid(), branch: found.min(last), start: last };
        edits.push(FeedEdit::HistoryBegun(history));
        if found < state.permanent_seqno {
            from = from.map(|_| last); // tables hold commits that the log has lost
        }
    }
    let from = is_needed(feed, settings).then(|| from.unwrap_or(last));
    if from != feed.from {
        edits.push(FeedEdit::KeptFrom(from));
    }
    Ok(edits.into_iter().map(EditChange::Feed).collect())
}

/// Returns the change that begins the first history of a store.
pub(in crate::db) fn first_history(env: &Env) -> FeedEdit {
    FeedEdit::HistoryBegun(FeedHistory { id: env.random.uid(), branch: 0, start: 0 })
}
