//! A simulated disk that fails chosen reads.

use std::ops::Deref;
use std::sync::Arc;

use waxseal_lsm::db::Parts;
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::env::{Env, Fs};
use waxseal_lsm::options::CfOptions;
use waxseal_testing::fs::HookedFs;
pub(crate) use waxseal_testing::unreadable::{ALWAYS, Unreadable};

use super::world::*;

/// A disk of which some files cannot be opened for reading, and a byte of one not be read.
#[derive(Clone, Debug)]
pub(crate) struct Withholding {
    pub(crate) sim: SimFs,
    reads: Unreadable,
}

impl Deref for Withholding {
    type Target = Unreadable;
    fn deref(&self) -> &Unreadable {
        &self.reads
    }
}

impl Withholding {
    pub(crate) fn new(sim: &SimFs) -> Withholding {
        Withholding { sim: sim.clone(), reads: Unreadable::default() }
    }

    pub(crate) fn fs(&self) -> Arc<dyn Fs> {
        Arc::new(HookedFs::over(Arc::new(self.sim.clone()), self.reads.clone()))
    }

    /// Opens a store on the disk.
    pub(crate) fn world(&self, options: &CfOptions, model: &Model) -> World {
        let parts = parts(&self.sim, options);
        let parts = Parts { env: Env { fs: self.fs(), ..parts.env }, ..parts };
        World::of(self.sim.clone(), parts, options.clone(), model.clone())
    }
}
