//! Moves of a range from one node to another, step by step.
//!
//! Each step is a row of the placement store before the next one begins, so that a move that was killed is continued:
//!
//! ```text
//! planned    a checkpoint of the source is exported to the destination, whose range is emptied first
//! copied     the destination catches up with a second checkpoint, and the digests of the two are compared
//! proved     the destination catches up with the source; writes wait for the last changes; the owner is switched
//! switched   the range is deleted on the source
//! done
//! ```
//!
//! A step may run again from its beginning at any time. A process proves a copy before it switches to it, also if an
//! earlier process has proved it.

use std::path::PathBuf;
use std::sync::Arc;

use waxseal::env::Env;
use waxseal::{ChangePosition, Durability};
use waxseal_table::Table;

use crate::catch_up::{CatchUp, Changed, commit};
use crate::checkpoint::{Checkpoint, remove_directory};
use crate::directories::beside;
use crate::error::{Error, ErrorKind, Result};
use crate::key_span::KeySpan;
use crate::ledger::Ledger;
use crate::move_row::{MoveRow, MoveStep, Proof};
use crate::node::Node;
use crate::routes::{Owner, Route};

/// Writes wait for about this number of changes.
const PAUSED_CHANGES: usize = 1000;

/// After this number of changes the digests are compared again: writes wait while each change is compared.
const UNPROVED_CHANGES: usize = 10_000;

/// How often a move goes back to an earlier step.
const SETBACKS: usize = 8;

/// A move that is under way.
pub(crate) struct Mover<'a> {
    pub(crate) ledger: &'a Ledger,
    pub(crate) env: &'a Env,
    pub(crate) source: &'a Node,
    pub(crate) destination: &'a Arc<Node>,
    pub(crate) original: Table,
    pub(crate) copy: Table,
    pub(crate) span: KeySpan,
    pub(crate) row: MoveRow,
}

/// Why a step has not come to its end.
enum Setback {
    /// The move goes on from an earlier step.
    Repeat(MoveStep),
    Failed(Error),
}

impl<E: Into<Error>> From<E> for Setback {
    fn from(error: E) -> Setback {
        Setback::Failed(error.into())
    }
}

type Step<T> = std::result::Result<T, Setback>;

impl Mover<'_> {
    /// Takes the steps that are left. After an error the owner is the one of the placement store.
    ///
    /// Errors: `Unproved` if the copy differs from the range; the next run copies it again.
    pub(crate) fn run(mut self, route: &Route) -> Result<MoveRow> {
        let mut setbacks = 0;
        if self.row.step()? == MoveStep::Proved {
            self.row.set_step(MoveStep::Copied); // other processes may have opened the copy since
        }
        // A placement that is restored from before the move is refused from now on.
        self.source.enter_move(self.row.number)?;
        self.destination.enter_move(self.row.number)?;
        loop {
            let outcome = match self.row.step()? {
                MoveStep::Planned => self.make_copy(),
                MoveStep::Copied => self.prove(),
                MoveStep::Proved => self.switch(route),
                MoveStep::Switched => self.finish(),
                MoveStep::Done => return Ok(self.row),
            };
            let saved = match outcome {
                Ok(()) => Ok(()),
                Err(Setback::Repeat(step)) if setbacks < SETBACKS => {
                    setbacks += 1;
                    self.save(step)
                }
                Err(Setback::Repeat(_)) => Err(Error::of(ErrorKind::Store, "the writes outrun the move")),
                Err(Setback::Failed(error)) => Err(error),
            };
            saved.map_err(|error| error.about(format!("range {}", self.span)))?;
        }
    }

    /// Copies the range as of a checkpoint of the source. The feed is kept from before it.
    fn make_copy(&mut self) -> Step<()> {
        let (cursor, source) = (self.row.cursor(), self.original.db());
        source.change_cursor(&cursor)?.remove()?; // an earlier one may be of a history that a crash has cut
        source.change_cursor(&cursor)?;
        let parcel = self.beside(self.destination, "export");
        let checkpoint = Checkpoint::take(source, self.beside(self.source, "source"), self.env)?;
        remove_directory(self.env, &parcel)?;
        checkpoint.export(self.env, self.original.rows_family().name(), &self.span, &parcel)?;
        self.empty(&self.copy)?;
        self.copy.rows_family().import(&parcel)?;
        self.row.position = Some(checkpoint.position(self.env)?.to_string());
        remove_directory(self.env, &parcel)?;
        remove_directory(self.env, &checkpoint.directory)?;
        Ok(self.save(MoveStep::Copied)?)
    }

    /// Compares the range with its copy, both as of one commit of the source and at one time.
    fn prove(&mut self) -> Step<()> {
        let mut position = self.catch_up(self.position()?, None, &mut Changed::default())?;
        let source = Checkpoint::take(self.original.db(), self.beside(self.source, "source"), self.env)?;
        position = self.catch_up(position, Some(source.position(self.env)?), &mut Changed::default())?;
        let proof = Checkpoint::take(self.copy.db(), self.beside(self.destination, "proof"), self.env)?;
        let time = self.env.clock.wall_micros();
        let expected = source.digest(self.env, time, self.original.rows_family().name(), &self.span)?;
        let found = proof.digest(self.env, time, self.copy.rows_family().name(), &self.span)?;
        if expected != found {
            return Err(self.refute(format!("{} records, and the source has {}", found.count, expected.count)));
        }
        remove_directory(self.env, &source.directory)?;
        self.row.position = Some(position.to_string());
        let family = self.copy.rows_family().name().to_owned();
        self.row.set_proof(Proof { checkpoint: proof.directory, family, time, digest: found });
        Ok(self.save(MoveStep::Proved)?)
    }

    /// Makes the destination the owner. Writes wait from the last changes on until the new owner is durable.
    fn switch(&mut self, route: &Route) -> Step<()> {
        let (mut position, mut changed) = (self.position()?, Changed::default());
        loop {
            let before = changed.len();
            self.original.db().sync()?; // the feed has durable commits alone
            position = self.catch_up(position, None, &mut changed)?;
            if changed.len() > UNPROVED_CHANGES {
                return Err(Setback::Repeat(MoveStep::Copied));
            }
            if changed.len() - before <= PAUSED_CHANGES {
                break;
            }
        }
        self.copy.db().sync()?;

        let paused = route.pause_writes();
        let start = self.env.clock.monotonic_nanos();
        self.original.db().sync()?;
        self.catch_up(position, None, &mut changed)?;
        if !self.feed().is_same(&changed)? {
            return Err(self.refute("the last changes are not the same".to_owned()));
        }
        self.copy.db().sync()?;
        self.row.set_step(MoveStep::Switched);
        route.switch(Owner::new(self.destination.clone(), Ok(self.copy.clone())), || self.ledger.switch(&self.row))?;
        self.row.pause_micros = Some((self.env.clock.monotonic_nanos() - start) / 1000);
        drop(paused);
        Ok(())
    }

    /// Deletes the range on the old owner.
    fn finish(&mut self) -> Step<()> {
        self.empty(&self.original)?;
        self.original.db().change_cursor(&self.row.cursor())?.remove()?;
        Ok(self.save(MoveStep::Done)?)
    }

    fn save(&mut self, step: MoveStep) -> Result<()> {
        self.row.set_step(step);
        self.ledger.save_move(&self.row)
    }

    fn position(&self) -> Result<ChangePosition> {
        let parsed = self.row.position.as_deref().and_then(|text| text.parse().ok());
        parsed.ok_or_else(|| Error::corruption(format!("move {} has no position in the change feed", self.row.number)))
    }

    fn feed(&self) -> CatchUp<'_> {
        CatchUp { span: &self.span, original: &self.original, copy: &self.copy }
    }

    /// Applies changes to the copy. The range is copied again if the feed does not reach back to the position.
    fn catch_up(
        &self,
        from: ChangePosition,
        end: Option<ChangePosition>,
        changed: &mut Changed,
    ) -> Step<ChangePosition> {
        match self.feed().run(from, end, changed) {
            Err(error) if *error.kind() == waxseal::ErrorKind::OutOfReach => Err(Setback::Repeat(MoveStep::Planned)),
            position => Ok(position?),
        }
    }

    /// Deletes the range in the store of a table.
    fn empty(&self, table: &Table) -> Result<()> {
        let mut batch = table.db().batch();
        batch.delete_range(table.rows_family(), self.span.bounds());
        Ok(commit(&mut batch, Durability::Sync)?)
    }

    /// Lets the next run copy the range again, and returns the error.
    fn refute(&mut self, difference: String) -> Setback {
        let message = format!("the copy on node {} differs: {difference}", self.destination.id);
        match self.save(MoveStep::Planned) {
            Ok(()) => Setback::Failed(Error::of(ErrorKind::Unproved, message)),
            Err(error) => Setback::Failed(error),
        }
    }

    /// Returns a directory for what the move makes, beside the store of a node.
    fn beside(&self, node: &Node, what: &str) -> PathBuf {
        beside(&node.directory, ".moves").join(format!("{}-{what}", self.row.number))
    }
}
