//! Properties of tables that a caller supplies, as the engine calls them.
//!
//! A callback is called by flushes and compactions, and by commits that write into blob files. It passes items to
//! `waxseal_property_add_item`, which belongs to the callback that runs on the thread. If it fails, its file is left
//! without the property.

use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::Arc;

use face::{PropertyFailure, TableProperty};

use crate::callback::Context;
use crate::error::waxseal_error_t;
use crate::failure::{Failed, Failure, Result};
use crate::given_function::GivenFunction;
use crate::lent::{Lent, waxseal_slice_t};
use crate::reentry::Caller;

/// Collects the items of one value or merge operand: calls `waxseal_property_add_item` for each, and returns
/// `WAXSEAL_OK`. Any other status, and a call of `waxseal_property_add_item` that fails, is a failure: the file is left
/// without the property. All inputs are valid during the call only.
///
/// Called on any thread, concurrently. It must not call the store whose records it gets, nor wait for a thread that
/// writes to it.
pub type waxseal_property_fn = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        key: *const u8,
        key_len: usize,
        value: *const u8,
        value_len: usize,
        error: *mut *mut waxseal_error_t,
    ) -> i32,
>;

thread_local! {
    /// The items of the callback that runs on this thread, or its failure to add one; `None` outside of one.
    static ITEMS: RefCell<Option<Result<Vec<Vec<u8>>>>> = const { RefCell::new(None) };
}

/// A property that a caller supplied, for any stores.
pub(crate) struct GivenProperty(GivenFunction<waxseal_property_fn>);

impl GivenProperty {
    /// Validates the caller's property. On an error the context is destroyed.
    pub(crate) fn new(name: Lent<'_>, function: waxseal_property_fn, context: Context) -> Result<Arc<GivenProperty>> {
        Ok(Arc::new(GivenProperty(GivenFunction::new("property", name, function, context)?)))
    }

    pub(crate) fn name(&self) -> &str {
        self.0.name()
    }

    /// Returns the property for one store.
    pub(crate) fn property_of(self: &Arc<GivenProperty>, caller: &Caller) -> TableProperty {
        let (given, caller) = (Arc::clone(self), caller.clone());
        TableProperty::new(self.name(), move |key, value, add| given.collect(&caller, key, value, add))
    }

    fn collect(
        &self,
        caller: &Caller,
        key: &[u8],
        value: &[u8],
        add: &mut dyn FnMut(&[u8]),
    ) -> std::result::Result<(), PropertyFailure> {
        let before = ITEMS.replace(Some(Ok(Vec::new())));
        let asked = self.0.try_ask(caller, |function, context, error| {
            let (key, value) = (waxseal_slice_t::of(key), waxseal_slice_t::of(value));
            // SAFETY: the header states the arguments and their lifetime; the context came with the function.
            unsafe { function(context, key.data, key.len, value.data, value.len, error) }
        });
        let items = ITEMS.replace(before);
        match (asked?, items) {
            (0, Some(Ok(items))) => items.iter().for_each(|item| add(item)),
            (0, _) => return Err(Failed("it failed to add an item".to_owned()).into()),
            (other, _) => return Err(Failed(format!("it answered {other}")).into()),
        }
        Ok(())
    }
}

/// Adds an item to the callback that runs on this thread. An invalid item makes it fail.
pub(crate) fn add_item(item: Result<&[u8]>) -> Result<()> {
    ITEMS.with_borrow_mut(|running| {
        let Some(items) = running else {
            return Err(Failure::invalid("no function of a property is running on this thread"));
        };
        match item {
            Ok(item) => {
                items.iter_mut().for_each(|items| items.push(item.to_vec()));
                Ok(())
            }
            Err(failure) => {
                *items = Err(Failure::invalid("an invalid item"));
                Err(failure)
            }
        }
    })
}
