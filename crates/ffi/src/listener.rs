//! Engine events, reported to a callback.

use std::ffi::c_void;
use std::ptr::null;
use std::sync::Arc;

use face::care::Fence;
use face::{Error, Event, Listener, OldReader};

use crate::call::status_of;
use crate::callback::{Context, waxseal_destroy_fn};
use crate::error::verdict_number;
use crate::lent::waxseal_slice_t;
use crate::options::{set_calling, waxseal_options_t};
use crate::reentry::Caller;

/// Recovery replayed the log at open: `commits`; `bytes` were cut from its torn end.
pub const WAXSEAL_EVENT_RECOVERED: i32 = 0;
/// A memtable was flushed to a table: `family`, `table` (0 if no record was left to write), `bytes`.
pub const WAXSEAL_EVENT_FLUSHED: i32 = 1;
/// Tables were merged, or moved down a level without being read: `family`, `inputs`, `outputs`, `level`, `message` (the
/// reason), `flag` (true for a move).
pub const WAXSEAL_EVENT_COMPACTED: i32 = 2;
/// Damage was detected: `file`, `offset`, `verdict`, `message`, and `family`, `from`, `to` if known.
pub const WAXSEAL_EVENT_CORRUPTION: i32 = 3;
/// A damaged block was read correctly in the end: `file`, `offset`, `message` (the repair step that succeeded).
pub const WAXSEAL_EVENT_HEALED: i32 = 4;
/// A damaged table is excluded from compaction until it is repaired: `family`, `table`.
pub const WAXSEAL_EVENT_BARRED: i32 = 5;
/// Records were permanently lost, and reads in a key range return `WAXSEAL_CORRUPTION`: `family`, `from`, `to`, `file`,
/// `offset`, `verdict`.
pub const WAXSEAL_EVENT_FENCED: i32 = 6;
/// Such a fence was lifted: members as of `WAXSEAL_EVENT_FENCED`.
pub const WAXSEAL_EVENT_LIFTED: i32 = 7;
/// A background job failed: `message`, `flag` (true if the store refuses writes until it is reopened).
pub const WAXSEAL_EVENT_BACKGROUND_ERROR: i32 = 8;
/// Writers are stalled (`flag` true), or no longer stalled.
pub const WAXSEAL_EVENT_STALLED: i32 = 9;
/// A compaction filter failed or panicked: `family`, `message` (the first failure of a compaction), and `commits`, the
/// number of values for which it failed. They stay as they were.
pub const WAXSEAL_EVENT_FILTER_FAILED: i32 = 11;
/// A snapshot or a cursor has been kept for more than an hour, and takes space: `message` (`snapshot` or `cursor`),
/// `nanos` (its age).
pub const WAXSEAL_EVENT_OLD_READER: i32 = 12;
/// An event for which this header has no number: `message`.
pub const WAXSEAL_EVENT_OTHER: i32 = 10;

/// An event inside a store. Members that its kind does not name are 0 or empty. All slices and arrays are valid during
/// the call only.
#[repr(C)]
pub struct waxseal_engine_event_t {
    /// One of `WAXSEAL_EVENT_..`; later versions may add values.
    pub kind: i32,
    /// One of `WAXSEAL_VERDICT_..`.
    pub verdict: i32,
    /// The name of a column family.
    pub family: waxseal_slice_t,
    /// The name of a file in the store's directory.
    pub file: waxseal_slice_t,
    /// A description, UTF-8.
    pub message: waxseal_slice_t,
    /// The first affected key.
    pub from: waxseal_slice_t,
    /// The last affected key.
    pub to: waxseal_slice_t,
    /// Numbers of the input tables, which no longer exist.
    pub inputs: *const u64,
    /// Length of `inputs`.
    pub inputs_len: usize,
    /// Numbers of the output tables, which replace the inputs.
    pub outputs: *const u64,
    /// Length of `outputs`.
    pub outputs_len: usize,
    /// The number of a table.
    pub table: u64,
    /// A number of bytes.
    pub bytes: u64,
    /// A number of commits.
    pub commits: u64,
    /// The offset of a block in `file`.
    pub offset: u64,
    /// A level.
    pub level: u32,
    /// A flag, as documented for the kind.
    pub flag: bool,
    /// A duration in nanoseconds.
    pub nanos: u64,
}

impl waxseal_engine_event_t {
    fn new(kind: i32) -> waxseal_engine_event_t {
        waxseal_engine_event_t {
            kind,
            verdict: 0,
            family: waxseal_slice_t::EMPTY,
            file: waxseal_slice_t::EMPTY,
            message: waxseal_slice_t::EMPTY,
            from: waxseal_slice_t::EMPTY,
            to: waxseal_slice_t::EMPTY,
            inputs: null(),
            inputs_len: 0,
            outputs: null(),
            outputs_len: 0,
            table: 0,
            bytes: 0,
            commits: 0,
            offset: 0,
            level: 0,
            flag: false,
            nanos: 0,
        }
    }
}

/// Listener callback, called after an event, on a thread of the store or on a thread that runs a call of the store. The
/// latter may also deliver events of other threads. Events of the store's own operations are delivered in order, by one
/// thread at a time. Damage that a read detects is delivered at once, even while another thread delivers an event. No
/// lock of the engine is held, but watched writes may wait for the callback. A lock that the callback takes must
/// therefore not be held around calls of the store. The callback must return soon. It must not call the store that
/// reports: such a call returns `WAXSEAL_INVALID`.
pub type waxseal_listener_fn = Option<unsafe extern "C" fn(context: *mut c_void, event: *const waxseal_engine_event_t)>;

/// A listener that a caller supplied, for any number of stores.
pub(crate) struct Hearing {
    pub(crate) function: waxseal_listener_fn,
    pub(crate) context: Context,
}

/// The listener of one store.
pub(crate) struct HearingOf {
    pub(crate) caller: Caller,
    pub(crate) hearing: Arc<Hearing>,
}

impl Listener for HearingOf {
    fn on_event(&self, event: &Event) {
        let Hearing { function: Some(function), context } = &*self.hearing else { return };
        let words = words(event);
        let engine_event = engine_event(event, &words);
        // SAFETY: the header states the function's arguments and their lifetime; the caller supplied the context with
        // the function.
        self.caller.calls(|| unsafe { function(context.get(), &engine_event) })
    }
}

/// Returns the description of an event.
fn words(event: &Event) -> String {
    match event {
        Event::Compacted { reason, .. } => reason.name().to_owned(),
        Event::FilterFailed { error, .. } => error.to_string(),
        Event::OldReader { reader: OldReader::Snapshot, .. } => "snapshot".to_owned(),
        Event::OldReader { reader: OldReader::Cursor, .. } => "cursor".to_owned(),
        Event::Corruption { error } | Event::BackgroundError { error, .. } => error.to_string(),
        Event::Healed { by, .. } => format!("{by:?}"),
        Event::Fenced { fence, .. } | Event::Lifted { fence, .. } => fence.error().to_string(),
        Event::Recovered { .. } | Event::Flushed { .. } | Event::Barred { .. } | Event::Stalled { .. } => String::new(),
        other => format!("{other:?}"),
    }
}

/// Converts an event for C; the result borrows from both arguments.
fn engine_event(event: &Event, words: &str) -> waxseal_engine_event_t {
    let text = |text: &str| waxseal_slice_t::of(text.as_bytes());
    let new = |kind| waxseal_engine_event_t { message: text(words), ..waxseal_engine_event_t::new(kind) };
    match event {
        Event::Recovered { commits, cut_bytes } => {
            waxseal_engine_event_t { commits: *commits, bytes: *cut_bytes, ..new(WAXSEAL_EVENT_RECOVERED) }
        }
        Event::Flushed { family, table, bytes } => waxseal_engine_event_t {
            family: text(family),
            table: table.unwrap_or(0),
            bytes: *bytes,
            ..new(WAXSEAL_EVENT_FLUSHED)
        },
        Event::Compacted { family, inputs, outputs, level, moved, .. } => waxseal_engine_event_t {
            family: text(family),
            inputs: inputs.as_ptr(),
            inputs_len: inputs.len(),
            outputs: outputs.as_ptr(),
            outputs_len: outputs.len(),
            level: *level as u32,
            flag: *moved,
            ..new(WAXSEAL_EVENT_COMPACTED)
        },
        Event::Corruption { error } => damaged(error, new(WAXSEAL_EVENT_CORRUPTION)),
        Event::Healed { file, offset, .. } => {
            waxseal_engine_event_t { file: text(file), offset: *offset, ..new(WAXSEAL_EVENT_HEALED) }
        }
        Event::Barred { family, table } => {
            waxseal_engine_event_t { family: text(family), table: *table, ..new(WAXSEAL_EVENT_BARRED) }
        }
        Event::Fenced { family, fence } => fenced(family, fence, new(WAXSEAL_EVENT_FENCED)),
        Event::Lifted { family, fence } => fenced(family, fence, new(WAXSEAL_EVENT_LIFTED)),
        Event::BackgroundError { halted, .. } => {
            waxseal_engine_event_t { flag: *halted, ..new(WAXSEAL_EVENT_BACKGROUND_ERROR) }
        }
        Event::FilterFailed { family, values, .. } => {
            waxseal_engine_event_t { family: text(family), commits: *values, ..new(WAXSEAL_EVENT_FILTER_FAILED) }
        }
        Event::OldReader { nanos, .. } => waxseal_engine_event_t { nanos: *nanos, ..new(WAXSEAL_EVENT_OLD_READER) },
        Event::Stalled { stalled } => waxseal_engine_event_t { flag: *stalled, ..new(WAXSEAL_EVENT_STALLED) },
        _ => new(WAXSEAL_EVENT_OTHER),
    }
}

fn damaged(error: &Error, new: waxseal_engine_event_t) -> waxseal_engine_event_t {
    let Some(damage) = error.damage() else { return new };
    let (from, to) = damage.key_range.as_ref().map_or((&[][..], &[][..]), |(from, to)| (from, to));
    waxseal_engine_event_t {
        verdict: verdict_number(damage.verdict),
        family: waxseal_slice_t::of(damage.cf.as_deref().unwrap_or("").as_bytes()),
        file: waxseal_slice_t::of(damage.file.as_bytes()),
        offset: damage.offset,
        from: waxseal_slice_t::of(from),
        to: waxseal_slice_t::of(to),
        ..new
    }
}

fn fenced(family: &str, fence: &Fence, new: waxseal_engine_event_t) -> waxseal_engine_event_t {
    waxseal_engine_event_t {
        verdict: verdict_number(fence.verdict),
        family: waxseal_slice_t::of(family.as_bytes()),
        file: waxseal_slice_t::of(fence.file.as_bytes()),
        offset: fence.offset,
        from: waxseal_slice_t::of(&fence.from.0),
        to: waxseal_slice_t::of(&fence.to.0),
        ..new
    }
}

/// Sets the callback that receives engine events, in every store opened with these options; null for none. Unless
/// `destroy` is null, it destroys `context` once the options and all these stores are gone, or if this call fails.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_listener(
    options: *mut waxseal_options_t,
    listener: waxseal_listener_fn,
    context: *mut c_void,
    destroy: waxseal_destroy_fn,
) -> i32 {
    let hearing = Arc::new(Hearing { function: listener, context: Context::new(context, destroy) });
    status_of(|| {
        set_calling(options, move |builder, caller| {
            builder.listener(Arc::new(HearingOf { caller: caller.clone(), hearing: Arc::clone(&hearing) }))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_readers_have_a_number_of_their_own() {
        for (reader, word) in [(OldReader::Snapshot, "snapshot"), (OldReader::Cursor, "cursor")] {
            let event = Event::OldReader { reader, nanos: 77 };
            let words = words(&event);
            let flat = engine_event(&event, &words);
            assert_eq!((flat.kind, flat.nanos, &words[..]), (WAXSEAL_EVENT_OLD_READER, 77, word));
        }
    }
}
