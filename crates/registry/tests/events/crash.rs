//! The sweep: a store is stopped at each I/O step that changes something, under three ways of losing what was not
//! synced. What is there afterwards is a prefix of the commits, and the log says of each of them what it must, and of
//! nothing else.

use waxseal_lsm::db::At;
use waxseal_lsm::env::sim::{Crash, Loss, SimFs};
use waxseal_lsm::error::Result;
use waxseal_registry::{Event, Operation, Query, Target, Values};

use crate::store::{ASYNC, Config, Entry, Expected, Oracle, SYNC, Store, same, told};

const LOSSES: [fn(u64) -> Crash; 3] =
    [|_| Crash::Process, |_| Crash::Machine(Loss::DurableOnly), |seed| Crash::Machine(Loss::Random { seed })];

/// What is done; the oracle has heard of it all at the end.
fn scenario(store: &mut Store) -> Result<()> {
    store.put("default", b"unwatched", b"0")?;
    store.register(Target::family("default"), Some(Operation::ROW_UPDATE), Values::New)?;
    store.register(Target::key("kept", *b"k"), None, Values::OldNew)?;
    store.register(Target::family("kept"), Some(Operation::TABLE_DROP), Values::None)?;
    for n in 0..4u8 {
        store.put("default", &[n], &[n; 40])?;
        store.put("kept", b"k", &[n; 9])?;
    }
    store.alive()?;
    store.db.flush()?;
    for n in 0..3u8 {
        store.put("default", &[n], &[n; 40])?;
    }
    let session = store.session(2)?;
    assert!(session.is_some());
    let write = |n: u8| crate::store::Write {
        family: "default",
        key: vec![n],
        value: Some(vec![n; 5]),
        verb: waxseal_registry::StampVerb::Update,
    };
    store.write(&[write(7), write(8)], 2)?;
    store.alive()?;
    let app = store.registrar.define("app.checked", None)?;
    store.register(Target::Cluster, Some(app), Values::None)?;
    store.add(Target::Node("n".to_owned()), app, "whole")?;
    while store.db.step()? {}
    store.alive()?;
    store.renew("kept")?;
    store.alive()?;
    store.put("kept", b"k", b"anew")?;
    store.unregister(&Target::family("default"), Some(Operation::ROW_UPDATE))?;
    store.put("default", &[1], b"unwatched")?;
    store.alive()?;
    store.restart()?;
    store.alive()?;
    store.register(Target::family("default"), Some(Operation::ROW_UPDATE), Values::Hash)?;
    store.put("default", &[1], b"watched")?;
    store.db.settle()?;
    store.put("default", &[2], b"last").map(|_| ())
}

/// Stops the scenario at every step, or every so many.
pub(crate) fn sweep(config: Config, every: usize) {
    let (mut whole, steps) = undisturbed(config);
    whole.check_now();
    let oracle = std::mem::take(&mut whole.oracle);
    drop(whole);
    for (at, step) in steps.into_iter().enumerate().filter(|(at, _)| at % every == 0) {
        let loss = LOSSES[at / every % LOSSES.len()];
        let sim = SimFs::new(7);
        sim.crash_at(step);
        let mut acknowledged = 0;
        if let Ok(mut store) = Store::new(config, &sim) {
            let _ = scenario(&mut store);
            acknowledged = store.oracle.entries.len();
        }
        sim.reboot(loss(step));
        let context = format!("{config:?}, stopped at step {step}");
        let recovered = recovered(config, &sim, &oracle, &context);
        if matches!(loss(step), Crash::Process) {
            let kept = oracle.entries.iter().take(acknowledged);
            let lost = kept.filter(|entry| matches!(entry, Entry::Added(event) if event.seqno > recovered));
            assert_eq!(lost.count(), 0, "{context}: acknowledged, and gone");
        }
    }
}

/// The scenario without a crash, and the steps that change something.
fn undisturbed(config: Config) -> (Store, Vec<u64>) {
    let sim = SimFs::new(7);
    let mut store = Store::new(config, &sim).unwrap();
    scenario(&mut store).unwrap();
    let steps = sim.changing_steps();
    (store, steps)
}

/// Opens what a crash left and checks it; the last seqno that is there.
fn recovered(config: Config, sim: &SimFs, oracle: &Oracle, context: &str) -> u64 {
    let Ok(mut store) = Store::new_or_old(config, sim) else { panic!("{context}: the store does not open") };
    for again in 0..2 {
        let through = store.seqno();
        let found = store.everything(At::Latest).unwrap();
        let expected = expected(&store, oracle, through);
        let outcome = std::panic::catch_unwind(|| same(&found.iter().map(told).collect::<Vec<_>>(), &expected));
        assert!(outcome.is_ok(), "{context}, recovered through {through}, opened {again} times");
        check_times(&found, context);
        if again == 0 {
            store.restart().unwrap();
        }
    }
    let through = store.seqno();
    // And it goes on.
    store.oracle = Oracle { registered: store.registrar.registrations(), ..Oracle::default() };
    let before = store.everything(At::Latest).unwrap().len();
    store.register(Target::family("default"), Some(Operation::ROW_UPDATE), Values::None).unwrap();
    store.put("default", b"after", b"all").unwrap();
    let after = store.everything(At::Latest).unwrap();
    assert_eq!(after.len(), before + 1, "{context}: not logged any more");
    check_times(&after, context);
    through
}

/// What must be there if the commits up to a seqno are. A drop is an edit: its seqno alone does not make it.
fn expected(store: &Store, oracle: &Oracle, through: u64) -> Vec<Expected> {
    let query = Query { operation: Some(Operation::TABLE_DROP), ..Query::of(Target::family("kept")) };
    let dropped = !store.find(&query, At::Latest).unwrap().is_empty();
    let mut events = oracle.events(through);
    if !dropped {
        let drops: Vec<_> = events.iter().filter(|event| event.operation == Operation::TABLE_DROP).cloned().collect();
        for drop in &drops {
            let kept = store.db.family("kept").expect("a family that went without an event");
            let row = store.db.get(&kept, b"k", At::Latest, &mut |_| {}).unwrap();
            assert!(row, "its rows went without an event");
            assert!(drop.seqno >= through, "a drop that later commits rely on");
        }
        events.retain(|event| event.operation != Operation::TABLE_DROP);
    }
    events
}

fn check_times(events: &[Event], context: &str) {
    let mut events = events.to_vec();
    events.sort_by_key(|event| event.key.seqno);
    let rise = events.windows(2).all(|pair| pair[0].key.time <= pair[1].key.time);
    assert!(rise, "{context}: times do not rise with commits");
}

/// A crash loses no more events of mode async than the ring holds, and keeps none of a commit that is gone.
pub(crate) fn lossy() {
    let (mut whole, steps) = undisturbed(ASYNC);
    whole.check_now();
    let oracle = std::mem::take(&mut whole.oracle);
    drop(whole);
    let mut most = 0;
    for step in steps.into_iter().step_by(3) {
        let sim = SimFs::new(7);
        sim.crash_at(step);
        if let Ok(mut store) = Store::new(ASYNC, &sim) {
            let _ = scenario(&mut store);
        }
        sim.reboot(Crash::Process);
        let store = Store::new_or_old(ASYNC, &sim).unwrap();
        let found: Vec<Expected> = store.everything(At::Latest).unwrap().iter().map(told).collect();
        let expected = expected(&store, &oracle, store.seqno());
        let known = |event: &&Expected| {
            expected.iter().any(|one| one.target == event.target && one.seqno == event.seqno)
                || event.operation.is_defined()
        };
        assert_eq!(found.iter().filter(|event| !known(event)).count(), 0, "of a commit that is gone, at step {step}");
        let lost = expected.iter().filter(|event| !found.iter().any(|one| one.target == event.target)).count();
        let bound = store.registrar.ring().lost_at_most as usize;
        assert!(lost <= bound, "{lost} lost at step {step}; the ring holds {bound}");
        most = most.max(expected.len().saturating_sub(found.len()));
    }
    assert!(most > 0, "no crash met an event that waited");
}

/// What was registered, or taken back, when the call answered is so after a crash of the machine, whatever the store's
/// own durability.
pub(crate) fn registered() {
    let mut store = Store::new(SYNC, &SimFs::new(3)).unwrap();
    let target = Target::family("kept");
    for registered in [true, false] {
        match registered {
            true => store.register(target.clone(), None, Values::New).unwrap(),
            false => store.unregister(&target, None).unwrap(),
        }
        store.sim.reboot(Crash::Machine(Loss::DurableOnly));
        store.reopen().unwrap();
        assert_eq!(store.registrar.is_registered(&target, Operation::TABLE_DROP), registered);
    }
}
