//! Transactions that run again after a conflict.

use std::ffi::c_void;
use std::ptr::null_mut;

use face::{Db, interrupt};

use crate::db::waxseal_db_t;
use crate::error::{calls, taken_message, waxseal_error_t};
use crate::failure::{Failure, Result, WAXSEAL_CONFLICT};
use crate::handle::{end, with};
use crate::lent::{Out, out};
use crate::options::durability;
use crate::session::waxseal_session_t;
use crate::transaction::{begin, commit, waxseal_transaction_t};

/// Reads and writes by a transaction. Returns `WAXSEAL_OK`, or another status that is not negative, to commit it. A
/// negative status discards the writes; the function may pass on that of a failed call, with its error in `*error`.
///
/// Called on the thread of `waxseal_transact`, with no lock held, and again with a new transaction after each conflict.
/// It should be free of side effects or able to repeat them. It may call the store. It must not end the transaction, and
/// must not throw or `longjmp` out of itself.
pub type waxseal_transact_fn = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        transaction: *mut waxseal_transaction_t,
        error: *mut *mut waxseal_error_t,
    ) -> i32,
>;

calls! {
    /// Runs a transaction: passes it to a function, commits it, and runs all of it again after a conflict, on a new
    /// snapshot. No conflict makes it wait: some transaction among those in conflict always succeeds. `isolation` is one
    /// of `WAXSEAL_ISOLATION_..`, `durability` one of `WAXSEAL_DURABILITY_..`.
    ///
    /// Thread-safe. Errors: the negative status of the function, with the message of its error; as of
    /// `waxseal_transaction_begin` and `waxseal_transaction_commit` without `WAXSEAL_CONFLICT`; `WAXSEAL_INVALID` for a
    /// null function; `WAXSEAL_INTERRUPTED`. Nothing was changed then, unless the commit's message says otherwise.
    fn waxseal_transact(
        db: *mut waxseal_db_t, isolation: i32, durability: i32, run: waxseal_transact_fn, context: *mut c_void,
    ) {
        transact(durability, run, context, |place| {
            begin(place, isolation, |isolation| with(db.cast_const(), |db: &Db| Ok(db.transaction_with(isolation))))
        })
    }

    /// As `waxseal_transact`; the transaction commits under the session's identity.
    ///
    /// Thread-safe. Errors: as of `waxseal_transact`.
    fn waxseal_session_transact(
        session: *const waxseal_session_t, isolation: i32, durability: i32, run: waxseal_transact_fn,
        context: *mut c_void,
    ) {
        transact(durability, run, context, |place| {
            begin(place, isolation, |isolation| with(session, |session| Ok(session.transaction_with(isolation))))
        })
    }
}

/// Runs a function with new transactions of `begin` until one of them commits.
fn transact(
    durability_number: i32,
    run: waxseal_transact_fn,
    context: *mut c_void,
    begin: impl Fn(Out<'_, *mut waxseal_transaction_t>) -> Result<()>,
) -> Result<()> {
    let run = run.ok_or_else(|| Failure::invalid("the function of the transaction is a null pointer"))?;
    let durability = durability(durability_number)?;
    loop {
        let mut transaction = Lending(null_mut());
        // SAFETY: the place is this variable.
        begin(unsafe { out(&mut transaction.0) })?;
        let mut reason: *mut waxseal_error_t = null_mut();
        // SAFETY: the header states the arguments and their lifetime; the context came with the function.
        let status = unsafe { run(context, transaction.0, &mut reason) };
        let message = taken_message(reason);
        if status < 0 {
            let message = message.unwrap_or_else(|| format!("the transaction's function returned {status}"));
            return Err(Failure::Call(status, message.into()));
        }
        match commit(transaction.0, durability) {
            Err(failure) if failure.status() == WAXSEAL_CONFLICT => {
                interrupt::check()?;
            }
            committed => return committed,
        }
    }
}

/// A transaction that a function of the caller uses, destroyed with this value.
struct Lending(*mut waxseal_transaction_t);

impl Drop for Lending {
    fn drop(&mut self) {
        let _ = end(self.0.cast_const()); // the function may have destroyed it
    }
}
