use waxseal_lsm::batch::{Batch, Operation};
use waxseal_lsm::error::Result;
use waxseal_lsm::record::Record;
use waxseal_lsm::seam::{Emitted, Emitting};
use waxseal_meta::Sealer;
use waxseal_meta::stamp::Stamp;
pub trait Emitter: Send + Sync {
    fn emit(&self, family: &Emitting<'_>, record: &Record<'_>, stamp: &Stamp, rows: &mut Vec<Emitted>) -> Result<()>;
    fn observe(&self, family: &Emitting<'_>, record: &Record<'_>);
}
pub trait Restamp {
    fn restamp(
        &self,
        batch: &Batch,
        out: &mut Batch,
        stamps: &mut dyn FnMut(&Operation<'_>, u64) -> Option<Stamp>,
    ) -> Result<()>;
}
impl Restamp for Sealer {
    fn restamp(&self, _: &Batch, _: &mut Batch, _: &mut dyn FnMut(&Operation<'_>, u64) -> Option<Stamp>) -> Result<()> {
        Ok(())
    }
}
