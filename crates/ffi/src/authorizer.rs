//! Authorization callback: decides whether a session may register operations, and read, extend or delete the log of
//! events.

use std::ffi::c_void;
use std::sync::Arc;

use face::registry::{Asker, Authorizer, Operation, Target};

use crate::call::status_of;
use crate::callback::{Context, waxseal_destroy_fn};
use crate::lent::waxseal_slice_t;
use crate::options::{set_calling, waxseal_options_t};
use crate::reentry::Caller;

/// May the session register an operation on a target, or unregister it?
pub const WAXSEAL_MAY_REGISTER: i32 = 0;
/// May the session read the events of a target and its descendants?
pub const WAXSEAL_MAY_READ_LOG: i32 = 1;
/// May the session delete these events?
pub const WAXSEAL_MAY_DELETE_LOG: i32 = 2;
/// May the session add its own events?
pub const WAXSEAL_MAY_ADD_TO_LOG: i32 = 3;

/// The question to an authorizer. All slices are valid during the call only.
#[repr(C)]
pub struct waxseal_asking_t {
    /// One of `WAXSEAL_MAY_..`; later versions may add values.
    pub what: i32,
    /// The name of the session; `-` for the unnamed session.
    pub who: waxseal_slice_t,
    /// The authentication method; empty for an unauthenticated session.
    pub authenticated: waxseal_slice_t,
    /// The target in its long form: `cf:users.john`.
    pub target: waxseal_slice_t,
    /// The name of the operation (`operation` and its number for a defined operation); empty if the question concerns
    /// no operation or all of them.
    pub operation: waxseal_slice_t,
}

/// Returns 0 to refuse. Called on the requesting thread, concurrently from several threads. It must not call the store
/// that asks.
pub type waxseal_authorizer_fn =
    Option<unsafe extern "C" fn(context: *mut c_void, asking: *const waxseal_asking_t) -> i32>;

/// An authorizer that a caller supplied, for any number of stores.
pub(crate) struct Allowing {
    pub(crate) function: waxseal_authorizer_fn,
    pub(crate) context: Context,
}

/// The authorizer of one store.
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
        // SAFETY: the header states the function's arguments and their lifetime; the caller supplied the context with
        // the function.
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

/// Sets the callback that decides which sessions may register operations, and read, extend or delete the log of events,
/// in every store opened with these options. Null allows everything. Unless `destroy` is null, it destroys `context`
/// once the options and all these stores are gone, or if this call fails.
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
