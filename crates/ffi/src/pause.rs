//! Pauses of background work.

use face::BackgroundPause;

use crate::db::waxseal_db_t;
use crate::declare::destroy;
use crate::error::calls;
use crate::handle::{HandleKind, handle, issue, with};

/// A pause of a store's background work. Usable from any thread. Destroyed by `waxseal_pause_destroy`, which ends the
/// pause, before or after its store is closed.
pub struct waxseal_pause_t {
    _opaque: [u8; 0],
}

handle!(waxseal_pause_t => BackgroundPause, HandleKind::Pause, "pause");

calls! {
    /// Pauses background work until the pause is destroyed: no flush and no compaction starts by itself. Returns once
    /// the running jobs have ended; a call from a listener, or while writers wait for jobs, returns at once.
    ///
    /// Writers stay bounded: while memtables or the log are so full that writers are slowed down, flushes run, and while
    /// writers are stopped, compactions run too. Explicit calls such as `waxseal_flush` do their work. Pauses may
    /// overlap; the last one to end resumes the work. Closing the store ends all of them.
    ///
    /// Thread-safe. On success the caller owns `*pause` and frees it with `waxseal_pause_destroy`. Errors:
    /// `WAXSEAL_CLOSED`, `WAXSEAL_INTERRUPTED`.
    fn waxseal_pause_background(db: *mut waxseal_db_t, out pause: *mut *mut waxseal_pause_t) {
        let pause = pause.needed("pause")?;
        pause.set(issue(with(db.cast_const(), |db| Ok(db.pause_background()?))?)?);
        Ok(())
    }
}

destroy! {
    /// Ends a pause. Null is allowed; a destroyed pause is `WAXSEAL_CLOSED`.
    fn waxseal_pause_destroy(pause: *mut waxseal_pause_t);
}
