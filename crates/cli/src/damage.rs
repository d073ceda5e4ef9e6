//! Damage that a walk over a family meets: each place is reported on standard error and counted, and the walk goes on.

use crate::failure::{Exit, Failure};
use crate::text;

/// Counts the damaged places of a walk.
#[derive(Default)]
pub(crate) struct Damaged {
    places: u64,
}

impl Damaged {
    /// Reports a damaged place. Returns any other error.
    pub(crate) fn note(&mut self, error: impl Into<Failure>) -> Result<(), Failure> {
        let failure = error.into();
        if !failure.is_corruption() {
            return Err(failure);
        }
        eprintln!("waxseal: {failure}");
        self.places += 1;
        Ok(())
    }

    /// Returns the outcome of the verb; `done` says what became of the records around the damage.
    pub(crate) fn outcome(&self, done: &str) -> Result<Exit, Failure> {
        if self.places == 0 {
            return Ok(Exit::Ok);
        }
        let places = text::counted(self.places, "place is", "places are");
        Err(Failure::new(Exit::Corruption, format!("{places} damaged; {done}")))
    }
}
