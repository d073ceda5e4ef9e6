//! Who may register, read the log, add to it and delete from it: asked of a function of the caller.

use std::ffi::c_void;
use std::sync::Arc;

use face::registry::{Asker, Authorizer, Operation, Target};

use crate::call::status_of;
use crate::callback::{Caller, Context, waxseal_destroy_fn};
use crate::lent::waxseal_slice_t;
use crate::options::{set_calling, waxseal_options_t};

/// May this session register an operation on a target, or take it back?
pub const WAXSEAL_MAY_REGISTER: i32 = 0;
/// May it read the events of a target, and of what lies below it?
pub const WAXSEAL_MAY_READ_LOG: i32 = 1;
/// May it delete them?
pub const WAXSEAL_MAY_DELETE_LOG: i32 = 2;
/// May it add events of its own?
pub const WAXSEAL_MAY_ADD_TO_LOG: i32 = 3;

/// What is asked of an authorizer. Everything is lent for the call.
#[repr(C)]
pub struct waxseal_asking_t {
    /// One of `WAXSEAL_MAY_..`; later versions may add some.
    pub what: i32,
    /// The name of the session; `-` for nobody in particular.
    pub who: waxseal_slice_t,
    /// How it was authenticated; empty: not at all.
    pub authenticated: waxseal_slice_t,
    /// The target in its long form: `cf:users.john`.
    pub target: waxseal_slice_t,
    /// The name of the operation, `operation` and its number for one that was defined; empty: any, or not asked.
    pub operation: waxseal_slice_t,
}

/// Answers 0 if it may not. Called on the thread that asks, and by several at once; it must not call the store that asks.
pub type waxseal_authorizer_fn =
    Option<unsafe extern "C" fn(context: *mut c_void, asking: *const waxseal_asking_t) -> i32>;

/// An authorizer that a caller gave, for any stores.
pub(crate) struct Allowing {
    pub(crate) function: waxseal_authorizer_fn,
    pub(crate) context: Context,
}

/// The same for one store.
pub(crate) struct AllowingOf {
    pub(crate) caller: Caller,
    pub(crate) allowing: Arc<Allowing>,
}

impl AllowingOf {
    fn may(&self, what: i32, who: &Asker, target: &Target, operation: Option<Operation>) -> bool {
        let Allowing { function: Some(function), context } = &*self.allowing else { return true };
        let target = format!("{target:#}");
        let operation = operation.map_or_else(String::new, |operation| format!("{operation:?}"));
        let asking = waxseal_asking_t {
            what,
            who: waxseal_slice_t::of(who.name().as_bytes()),
            authenticated: waxseal_slice_t::of(who.authenticated().unwrap_or("").as_bytes()),
            target: waxseal_slice_t::of(target.as_bytes()),
            operation: waxseal_slice_t::of(operation.as_bytes()),
        };
        // SAFETY: the header says what the function is given and for how long; the context is the one it came with.
        self.caller.calls(|| unsafe { function(context.get(), &asking) }) != 0
    }
}

impl Authorizer for AllowingOf {
    fn can_register(&self, who: &Asker, target: &Target, operation: Option<Operation>) -> bool {
        self.may(WAXSEAL_MAY_REGISTER, who, target, operation)
    }

    fn can_read_log(&self, who: &Asker, target: &Target) -> bool {
        self.may(WAXSEAL_MAY_READ_LOG, who, target, None)
    }

    fn can_delete_log(&self, who: &Asker, target: &Target) -> bool {
        self.may(WAXSEAL_MAY_DELETE_LOG, who, target, None)
    }

    fn can_add_to_log(&self, who: &Asker, target: &Target, operation: Operation) -> bool {
        self.may(WAXSEAL_MAY_ADD_TO_LOG, who, target, Some(operation))
    }
}

/// Who may register, read the log, add to it and delete from it, in every store that is opened with these options; null: everybody.
/// `destroy`, unless null, ends `context` once the options and all these stores are gone, or if this call fails.
///
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn waxseal_options_set_authorizer(
    options: *mut waxseal_options_t,
    authorizer: waxseal_authorizer_fn,
    context: *mut c_void,
    destroy: waxseal_destroy_fn,
) -> i32 {
    let allowing = Arc::new(Allowing { function: authorizer, context: Context::new(context, destroy) });
    status_of(|| {
        set_calling(options, move |builder, caller| {
            builder.authorizer(Arc::new(AllowingOf { caller: caller.clone(), allowing: Arc::clone(&allowing) }))
        })
    })
}
