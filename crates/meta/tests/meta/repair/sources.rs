//! Repair from sources that the caller offers, and the questions of a repair handler.

use std::io::ErrorKind;
use std::sync::Mutex;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::options::{CfOptions, Compression, Durability};
use waxseal_lsm::record::Kind;
use waxseal_meta::Seal;
use waxseal_meta::integrity::{
    Candidate, Corrupted, Decision, ErrorHandler, Outcome, RepairOptions, RepairSource, Rung, repair,
};

use super::lost_ranges::*;
use super::world::*;

/// A replica: the model, and how often it was asked.
pub(crate) struct Replica {
    pub(crate) model: Model,
    pub(crate) asked: Mutex<u64>,
}

impl Replica {
    pub(crate) fn of(model: &Model) -> Replica {
        Replica { model: model.clone(), asked: Mutex::new(0) }
    }
}

impl RepairSource for Replica {
    fn by_seal(&self, _: &str, key: &[u8], seal: Seal) -> Result<Option<Candidate>> {
        *self.asked.lock().unwrap() += 1;
        let value = self.model.get(key).filter(|value| Seal::of(key, value) == seal);
        Ok(value.map(|value| Candidate { kind: Kind::Put, key: key.to_vec(), value: value.clone() }))
    }
    fn by_range(&self, _: &str, low: &[u8], high: &[u8], visit: &mut dyn FnMut(Candidate)) -> Result<()> {
        *self.asked.lock().unwrap() += 1;
        for (key, value) in self.model.range(low.to_vec()..=high.to_vec()) {
            visit(Candidate { kind: Kind::Put, key: key.clone(), value: value.clone() });
        }
        Ok(())
    }
}

/// Answers every question, and always wrong.
pub(crate) struct Liar;

impl RepairSource for Liar {
    fn by_seal(&self, _: &str, key: &[u8], _: Seal) -> Result<Option<Candidate>> {
        Ok(Some(Candidate { kind: Kind::Put, key: key.to_vec(), value: b"a lie".to_vec() }))
    }
    fn by_range(&self, _: &str, low: &[u8], _: &[u8], visit: &mut dyn FnMut(Candidate)) -> Result<()> {
        visit(Candidate { kind: Kind::Put, key: low.to_vec(), value: b"a lie".to_vec() });
        Ok(())
    }
}

#[derive(Default)]
pub(crate) struct Human {
    pub(crate) calls: Mutex<Vec<Corrupted>>,
    pub(crate) decision: Decision,
}

impl ErrorHandler for Human {
    fn on_corruption(&self, event: &Corrupted) -> Decision {
        self.calls.lock().unwrap().push(event.clone());
        self.decision
    }
}

#[test]
fn a_burst_is_repaired_from_a_source_and_no_wrong_answer_is_taken() {
    let options = options(Compression::None, false);
    let (sim, model, table, _) = one_table(options.clone(), 100);
    let value = model[&key(50)].clone();
    burst(&sim, &table, &value);
    let world = reopened(&sim.fork(), &options, &model);
    let replica = Replica::of(&model);
    let report = repair(&world.db, RepairOptions { source: Some(&replica), ..Default::default() }).unwrap();
    assert!(report.is_clean(), "{report}");
    assert!(report.damage.iter().any(|finding| finding.outcome == Outcome::Repaired(Rung::Source)), "{report}");
    assert!(*replica.asked.lock().unwrap() > 0);
    world.assert_clean();
    let hurt = sim.fork();
    let world = reopened(&hurt, &options, &model);
    let human = Human::default();
    let report =
        repair(&world.db, RepairOptions { source: Some(&Liar), handler: Some(&human), ..Default::default() }).unwrap();
    assert!(!report.is_clean() && report.lost == 1, "{report}");
    assert_eq!(human.calls.lock().unwrap().len(), 1, "{report}");
    assert_fenced(&world, &report, 50);
}

#[test]
fn a_handler_that_forbids_it_keeps_the_table_as_it_is() {
    let options = options(Compression::None, false);
    let (sim, model, table, _) = one_table(options.clone(), 100);
    burst(&sim, &table, &model[&key(50)].clone());
    for decision in [Decision::Fail, Decision::ReadOnly] {
        let world = reopened(&sim.fork(), &options, &model);
        let human = Human { decision, ..Human::default() };
        let report = repair(&world.db, RepairOptions { handler: Some(&human), ..Default::default() }).unwrap();
        assert_eq!(human.calls.lock().unwrap().len(), 1);
        assert!(report.damage.iter().all(|finding| finding.outcome == Outcome::Barred), "{report}");
        assert_eq!(report.cancelled, decision == Decision::ReadOnly);
        let mut batch = Batch::new();
        batch.push(world.family.id(), Kind::Put, b"k", b"v", world.db.companions()).unwrap();
        let written = world.db.commit(&mut batch, Durability::Os);
        assert_eq!(written.is_err(), decision == Decision::ReadOnly, "{written:?}");
        assert_eq!((world.db.is_read_only(), world.refused()), (decision == Decision::ReadOnly, 1));
        assert_eq!(world.db.quarantined_tables(&world.family).len(), 1);
        assert_eq!(world.tables(), std::slice::from_ref(&table));
        world.db.close().unwrap();
    }
}

#[test]
fn a_handler_is_asked_about_each_record_that_is_known_and_else_about_the_gap() {
    for compression in codecs() {
        let options = CfOptions { block_bytes: 4096, ..options(compression, false) };
        let (sim, model, table, _) = one_table(options.clone(), 100);
        if compression == Compression::None {
            for n in [10, 11, 12] {
                burst(&sim, &table, &model[&key(n)].clone()); // side by side: one gap
            }
        } else {
            (300 * 8..300 * 8 + 64).for_each(|bit| sim.flip(&table, bit).unwrap());
        }
        let world = reopened(&sim, &options, &model);
        let human = Human::default();
        let report = repair(&world.db, RepairOptions { handler: Some(&human), ..Default::default() }).unwrap();
        let calls = human.calls.lock().unwrap();
        let gaps = report.damage.iter().filter(|finding| finding.outcome == Outcome::Fenced).count();
        let single = calls.iter().filter(|event| event.span.0 == event.span.1).count();
        match compression {
            Compression::None => {
                let keys: Vec<_> = calls.iter().map(|event| event.span.0.0.clone()).collect();
                assert_eq!((gaps, single, keys), (1, 3, vec![key(10), key(11), key(12)]), "{report}");
            }
            // Unpacked as far as it goes: here and there something that looks like a record.
            _ => assert!(calls.len() >= gaps && single < gaps, "{report}"),
        }
    }
}

/// A replica that is away while so many questions are asked.
pub(crate) struct Away {
    pub(crate) replica: Replica,
    pub(crate) questions: Mutex<u64>,
}

impl Away {
    pub(crate) fn of(model: &Model, questions: u64) -> Away {
        Away { replica: Replica::of(model), questions: Mutex::new(questions) }
    }

    pub(crate) fn answers(&self) -> Result<&Replica> {
        let mut questions = self.questions.lock().unwrap();
        match questions.checked_sub(1) {
            Some(left) => {
                *questions = left;
                Err(Error::io("asking the replica", ErrorKind::NotFound.into()))
            }
            None => Ok(&self.replica),
        }
    }
}

impl RepairSource for Away {
    fn by_seal(&self, family: &str, key: &[u8], seal: Seal) -> Result<Option<Candidate>> {
        self.answers()?.by_seal(family, key, seal)
    }
    fn by_range(&self, family: &str, low: &[u8], high: &[u8], visit: &mut dyn FnMut(Candidate)) -> Result<()> {
        self.answers()?.by_range(family, low, high, visit)
    }
}

/// Somebody who ends the repair, by its first question.
#[derive(Default)]
pub(crate) struct Interrupted(Mutex<u64>);

impl Interrupted {
    pub(crate) fn ends<T>(&self) -> Result<T> {
        *self.0.lock().unwrap() += 1;
        Err(Error::io("asking the replica", ErrorKind::Interrupted.into()))
    }
}

impl RepairSource for Interrupted {
    fn by_seal(&self, _: &str, _: &[u8], _: Seal) -> Result<Option<Candidate>> {
        self.ends()
    }
    fn by_range(&self, _: &str, _: &[u8], _: &[u8], _: &mut dyn FnMut(Candidate)) -> Result<()> {
        self.ends()
    }
}

/// Neither is the loss given up nor does a handler hear of it: who comes back later mends all of it.
#[test]
fn a_source_that_ends_the_repair_gives_nothing_up() {
    let options = options(Compression::None, false);
    let (sim, model, table, _) = one_table(options.clone(), 100);
    burst(&sim, &table, &model[&key(50)]);
    for accept_loss in [false, true] {
        let world = reopened(&sim.fork(), &options, &model);
        let (away, human) = (Interrupted::default(), Human::default());
        let handler: Option<&dyn ErrorHandler> = if accept_loss { None } else { Some(&human) };
        let report = repair(&world.db, RepairOptions { accept_loss, handler, ..from(&away) }).unwrap();
        assert!(report.cancelled && !report.is_clean(), "{report}");
        assert_eq!((*away.0.lock().unwrap(), human.calls.lock().unwrap().len()), (1, 0));
        assert_no_fence(&world, &report);
        assert!(repair(&world.db, from(&Replica::of(&model))).unwrap().is_clean());
        world.assert_clean();
    }
}

pub(crate) fn from(source: &dyn RepairSource) -> RepairOptions<'_> {
    RepairOptions { source: Some(source), ..Default::default() }
}

#[test]
fn a_source_that_is_away_is_waited_for() {
    let options = options(Compression::None, false);
    let (sim, mut model, table, _) = one_table(options.clone(), 100);
    burst(&sim, &table, &model[&key(50)]);
    let world = reopened(&sim.fork(), &options, &model);
    for _ in 0..2 {
        let report = repair(&world.db, from(&Away::of(&model, u64::MAX))).unwrap();
        assert_eq!((report.unread, report.lost, report.repaired), (1, 1, 0), "{report}");
        assert!(report.damage.iter().any(|finding| finding.outcome == Outcome::Unread), "{report}");
        assert_no_fence(&world, &report);
    }
    let report = repair(&world.db, from(&Away::of(&model, 2))).unwrap(); // it is asked three times
    assert!(report.is_clean(), "{report}");
    world.assert_clean();
    // Who accepts the loss asks once more, both for the seal and the gap.
    let world = reopened(&sim.fork(), &options, &model);
    let away = Away::of(&model, 6);
    let report = repair(&world.db, RepairOptions { accept_loss: true, ..from(&away) }).unwrap();
    assert!(report.is_clean(), "{report}");
    world.assert_clean();
    // A handler decides.
    let world = reopened(&sim.fork(), &options, &model);
    let (away, human) = (Away::of(&model, u64::MAX), Human::default());
    let report = repair(&world.db, RepairOptions { handler: Some(&human), ..from(&away) }).unwrap();
    assert_eq!((report.unread, human.calls.lock().unwrap().len()), (1, 1), "{report}");
    assert_fenced(&world, &report, 50);
    // And one that never comes back is not waited for with a loss that is accepted.
    let world = reopened(&sim, &options, &model);
    let away = Away::of(&model, u64::MAX);
    let report = repair(&world.db, RepairOptions { accept_loss: true, ..from(&away) }).unwrap();
    assert_eq!((report.unread, report.lost), (1, 1), "{report}");
    for outcome in [Outcome::Unread, Outcome::Accepted] {
        assert!(report.damage.iter().any(|finding| finding.outcome == outcome), "{report}");
    }
    assert_no_fence(&world, &report);
    model.remove(&key(50));
    assert_eq!(world.content(), model);
}
