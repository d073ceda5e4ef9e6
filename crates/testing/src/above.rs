//! A record protector on top of another: a test overrides some methods, and all others go to the protector beneath.

use std::ops::Deref;

use waxseal_lsm::error::Result;
use waxseal_lsm::order::Order;
use waxseal_lsm::record::{Record, Seqno};
use waxseal_lsm::seam::{
    Build, Check, Companions, DropReason, Emitted, Emitting, Life, PendingWrite, Protection, RowRewriter,
};

/// Makes a record protector of a type that changes another one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Over<A>(pub A);

impl<A> Deref for Over<A> {
    type Target = A;
    fn deref(&self) -> &A {
        &self.0
    }
}

macro_rules! passed_on {
    ($(fn $name:ident(&self $(, $argument:ident: $type:ty)*) $(-> $result:ty)?;)*) => {
        /// The methods of `Companions`, each as the protector beneath has it.
        #[expect(missing_docs, reason = "the names are those of `Companions`")]
        pub trait Above: Send + Sync {
            /// Returns the protector that handles what is not overridden.
            fn beneath(&self) -> &dyn Companions;
            $(fn $name(&self $(, $argument: $type)*) $(-> $result)? {
                self.beneath().$name($($argument),*)
            })*
        }

        impl<A: Above> Companions for Over<A> {
            $(fn $name(&self $(, $argument: $type)*) $(-> $result)? {
                Above::$name(&self.0 $(, $argument)*)
            })*
        }
    };
}

passed_on! {
    fn on_write(&self, pending: &PendingWrite<'_>, out: &mut Vec<u8>) -> Result<()>;
    fn bind(&self, companion: &mut [u8], old: Option<Seqno>, new: Seqno);
    fn rekey(&self, companion: &mut [u8], old_key: &[u8], new_key: &[u8]);
    fn on_replay(&self, record: &Record<'_>) -> Result<()>;
    fn on_build(&self, record: &Record<'_>, source: Protection, out: &mut Vec<u8>) -> Build;
    fn is_unproven(&self, record: &Record<'_>) -> bool;
    fn on_merge(&self, inputs: &[Record<'_>], is_unproven: bool, result: &Record<'_>, out: &mut Vec<u8>) -> Result<()>;
    fn on_filter(&self, record: &Record<'_>, result: &Record<'_>, out: &mut Vec<u8>) -> Result<()>;
    fn on_drop(&self, record: &Record<'_>, reason: DropReason);
    fn verify(&self, record: &Record<'_>, key_hash: u64, source: Protection) -> Check;
    fn life(&self, record: &Record<'_>, now: &dyn Fn() -> u64) -> Life;
    fn expiry(&self, record: &Record<'_>) -> Option<u64>;
    fn may_drop_unread(&self) -> bool;
    fn term(&self, record: &Record<'_>) -> u64;
    fn emit(&self, family: &Emitting<'_>, record: &Record<'_>, rows: &mut Vec<Emitted>) -> Result<()>;
    fn may_emit(&self, family: u32, record: &Record<'_>) -> bool;
    fn retains(&self, record: &Record<'_>) -> bool;
    fn protection(&self) -> Protection;
    fn written(&self) -> Protection;
    fn algorithm(&self) -> u64;
    fn descriptors(&self) -> Vec<u8>;
    fn has_rows(&self) -> bool;
    fn rows(&self, family: u32, order: &Order) -> Result<Option<Box<dyn RowRewriter>>>;
    fn correct(&self, block: &mut [u8], seed: u32, confirm: &mut dyn FnMut(&[u8]) -> bool) -> bool;
}
