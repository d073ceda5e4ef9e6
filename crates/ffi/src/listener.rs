//! What the engine does, told to a function of the caller.

use std::ffi::c_void;
use std::ptr::null;
use std::sync::Arc;

use face::care::Fence;
use face::{Error, Event, Listener};

use crate::call::status_of;
use crate::callback::{Caller, Context, waxseal_destroy_fn};
use crate::error::verdict_number;
use crate::lent::waxseal_slice_t;
use crate::options::{set_calling, waxseal_options_t};

/// The log was read at open: `commits`; `bytes` were cut from its torn end.
pub const WAXSEAL_EVENT_RECOVERED: i32 = 0;
/// A memtable became a table: `family`, `table` (0: nothing was left to write), `bytes`.
pub const WAXSEAL_EVENT_FLUSHED: i32 = 1;
/// Tables were merged, or moved down unread: `family`, `inputs`, `outputs`, `level`, `message` (why), `flag` (they were only moved).
pub const WAXSEAL_EVENT_COMPACTED: i32 = 2;
/// Damage was met: `file`, `offset`, `verdict`, `message`, and `family`, `from`, `to` as far as known.
pub const WAXSEAL_EVENT_CORRUPTION: i32 = 3;
/// A block was read right after all: `file`, `offset`, `message` (what helped).
pub const WAXSEAL_EVENT_HEALED: i32 = 4;
/// A damaged table is left alone by compaction until it is repaired: `family`, `table`.
pub const WAXSEAL_EVENT_BARRED: i32 = 5;
/// Records were lost for good, and reads between two keys answer `WAXSEAL_CORRUPTION`: `family`, `from`, `to`, `file`, `offset`, `verdict`.
pub const WAXSEAL_EVENT_FENCED: i32 = 6;
/// Such a fence was lifted: as `WAXSEAL_EVENT_FENCED`.
pub const WAXSEAL_EVENT_LIFTED: i32 = 7;
/// Work in the background failed: `message`, `flag` (nothing is written any more until the store is opened anew).
pub const WAXSEAL_EVENT_BACKGROUND_ERROR: i32 = 8;
/// Writers are held back (`flag` true), or free again.
pub const WAXSEAL_EVENT_STALLED: i32 = 9;
/// Something that this header has no number for: `message`.
pub const WAXSEAL_EVENT_OTHER: i32 = 10;

/// Something that happened inside a store. What its kind does not name is 0 or empty. Everything is lent for the call.
#[repr(C)]
pub struct waxseal_engine_event_t {
    /// One of `WAXSEAL_EVENT_..`; later versions may add some.
    pub kind: i32,
    /// One of `WAXSEAL_VERDICT_..`.
    pub verdict: i32,
    /// A column family, by name.
    pub family: waxseal_slice_t,
    /// A file in the store's directory, by name.
    pub file: waxseal_slice_t,
    /// In words, UTF-8.
    pub message: waxseal_slice_t,
    /// The first key concerned.
    pub from: waxseal_slice_t,
    /// The last key concerned.
    pub to: waxseal_slice_t,
    /// Numbers of the tables that are gone.
    pub inputs: *const u64,
    /// How many.
    pub inputs_len: usize,
    /// Numbers of the tables in their place.
    pub outputs: *const u64,
    /// How many.
    pub outputs_len: usize,
    /// The number of a table.
    pub table: u64,
    /// A number of bytes.
    pub bytes: u64,
    /// A number of commits.
    pub commits: u64,
    /// The place of a block in `file`.
    pub offset: u64,
    /// A level.
    pub level: u32,
    /// Yes or no.
    pub flag: bool,
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
        }
    }
}

/// Hears of an event after it has happened: on a thread of the store, or on one that is in a call of the store, which may be told what others
/// did, too. What was done is told in its order, by one thread at a time; what a read meets is told at once, whoever else is telling. No lock
/// of the engine is held, but writes that are watched may wait for it; so what the function locks may not be locked around calls of the store.
/// It must return soon, and must not call the store that it hears of: that would answer `WAXSEAL_INVALID`.
pub type waxseal_listener_fn = Option<unsafe extern "C" fn(context: *mut c_void, event: *const waxseal_engine_event_t)>;

/// A listener that a caller gave, for any stores.
pub(crate) struct Hearing {
    pub(crate) function: waxseal_listener_fn,
    pub(crate) context: Context,
}

/// The same for one store.
pub(crate) struct HearingOf {
    pub(crate) caller: Caller,
    pub(crate) hearing: Arc<Hearing>,
}

impl Listener for HearingOf {
    fn on_event(&self, event: &Event) {
        let Hearing { function: Some(function), context } = &*self.hearing else { return };
        let words = words(event);
        let told = told(event, &words);
        // SAFETY: the header says what the function is given and for how long; the context is the one it came with.
        self.caller.calls(|| unsafe { function(context.get(), &told) })
    }
}

/// What is said of an event in words.
fn words(event: &Event) -> String {
    match event {
        Event::Compacted { reason, .. } => reason.name().to_owned(),
        Event::Corruption { error } | Event::BackgroundError { error, .. } => error.to_string(),
        Event::Healed { by, .. } => format!("{by:?}"),
        Event::Fenced { fence, .. } | Event::Lifted { fence, .. } => fence.error().to_string(),
        Event::Recovered { .. } | Event::Flushed { .. } | Event::Barred { .. } | Event::Stalled { .. } => String::new(),
        other => format!("{other:?}"),
    }
}

/// The event for C; it borrows from both.
fn told(event: &Event, words: &str) -> waxseal_engine_event_t {
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

/// Who hears of what the engine does, in every store that is opened with these options; null: nobody. `destroy`, unless null, ends
/// `context` once the options and all these stores are gone, or if this call fails.
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
