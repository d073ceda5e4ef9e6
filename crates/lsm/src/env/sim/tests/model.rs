//! Properties that hold after every crash under every policy: no word is older than its last sync, and no synced file
//! loses its name.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const WORDS: u64 = 4096;

#[derive(Clone, Debug)]
enum Data {
    Write { word: u64, words: u64 },
    Store { word: u64, words: u64 },
    Cut { words: u64 },
    Sync,
}

fn data() -> impl Strategy<Value = Data> {
    let span = || (0..WORDS - 1100, prop_oneof![1..4u64, 50..70u64, 500..1100u64]);
    prop_oneof![
        4 => span().prop_map(|(word, words)| Data::Write { word, words }),
        4 => span().prop_map(|(word, words)| Data::Store { word, words }),
        1 => (0..WORDS).prop_map(|words| Data::Cut { words }),
        2 => Just(Data::Sync),
    ]
}

/// The possible values of a word after a crash, the live one last; 0 is the value of a hole.
type Word = Vec<u64>;

/// Applies `step` to the file and, with a number forevery write, to the model.
fn apply(
    step: &Data,
    number: u64,
    file: &dyn File,
    mapped: &dyn super::super::super::Mapped,
    model: &mut [Word],
) -> io::Result<()> {
    let bytes = |words: u64| (0..words).flat_map(|_| number.to_le_bytes()).collect::<Vec<u8>>();
    let mut push =
        |from: u64, to: u64, value: u64| model[from as usize..to as usize].iter_mut().for_each(|word| word.push(value));
    match *step {
        Data::Write { word, words } => {
            push(word, word + words, number);
            file.write_at(&bytes(words), word * 8)
        }
        Data::Store { word, words } => {
            push(word, word + words, number);
            mapped.store(word as usize * 8, &bytes(words));
            Ok(())
        }
        // Truncate and refill, so that the mapping stays within the file.
        Data::Cut { words } => {
            push(words, WORDS, 0);
            file.set_len(words * 8)?;
            file.allocate(WORDS * 8)
        }
        Data::Sync => {
            file.sync_data()?;
            model.iter_mut().for_each(|word| drop(word.drain(..word.len() - 1)));
            Ok(())
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_word_is_older_than_its_sync(steps in proptest::collection::vec(data(), 1..25), last in 0..40u64, done in 0..600u64, seed: u64) {
        let sim = with_file(seed, &[0; WORDS as usize * 8]);
        let file = open(&sim, "a");
        let mapped = file.map(WORDS as usize * 8).unwrap().unwrap();
        let mut model = vec![vec![0u64]; WORDS as usize];
        sim.crash_within(sim.steps() + last, done * 8);
        let mut torn = false;
        for (number, step) in steps.iter().enumerate() {
            if torn { break }
            torn = apply(step, number as u64 + 1, &*file, &*mapped, &mut model).is_err() || sim.is_crashed();
        }
        let word = |bytes: &[u8], at: usize| bytes.get(at * 8..at * 8 + 8).map_or(0, |word| u64::from_le_bytes(word.try_into().unwrap()));
        if !torn {
            for crash in [Crash::Process, ALL] {
                let bytes = left(&sim, crash);
                prop_assert!((0..WORDS as usize).all(|at| Some(&word(&bytes, at)) == model[at].last()), "{:?}", crash);
            }
        }
        for loss in Loss::all(seed) {
            let bytes = left(&sim, Crash::Machine(loss));
            for (at, values) in model.iter().enumerate() {
                prop_assert!(values.contains(&word(&bytes, at)), "{:?}: word {} is {}, not of {:?}", loss, at, word(&bytes, at), values);
            }
        }
    }

    #[test]
    fn no_synced_file_loses_its_name(steps in proptest::collection::vec((0..5u8, 0..6usize, 0..6usize), 1..30), seed: u64) {
        const NAMES: [&str; 6] = ["a", "b", "c", "d/a", "d/b", "d/c"];
        let sim = SimFs::new(seed);
        sim.create_dir_all(path("d")).unwrap();
        sim.settle();
        let mut model: BTreeMap<&str, u8> = BTreeMap::new();
        let (mut made, mut doomed, mut certain) = (0u8, BTreeSet::new(), BTreeSet::new());
        for (kind, one, other) in steps {
            let (one, other) = (NAMES[one], NAMES[other]);
            match kind {
                0 | 1 if !model.contains_key(one) => {
                    made += 1;
                    create(&sim, one, &[made]).sync_data().unwrap();
                    model.insert(one, made);
                }
                2 if model.contains_key(one) && one != other => {
                    sim.rename(path(one), path(other)).unwrap();
                    let moved = model.remove(one).unwrap();
                    doomed.extend(model.insert(other, moved));
                }
                3 => if let Some(removed) = model.remove(one) {
                    sim.remove(path(one)).unwrap();
                    doomed.insert(removed);
                },
                4 => {
                    sim.sync_dir(path("")).unwrap();
                    sim.sync_dir(path("d")).unwrap();
                    certain = model.values().copied().collect();
                }
                _ => {}
            }
        }
        for loss in Loss::all(seed) {
            let copy = sim.fork();
            copy.reboot(Crash::Machine(loss));
            let found: Vec<u8> = NAMES.iter().filter_map(|name| copy.read_all(name).ok()).map(|bytes| bytes[0]).collect();
            let unique: BTreeSet<u8> = found.iter().copied().collect();
            prop_assert_eq!(unique.len(), found.len(), "{:?}: two names for one file", loss);
            for file in certain.difference(&doomed) {
                prop_assert!(unique.contains(file), "{:?}: file {} has no name", loss, file);
            }
            if loss == Loss::KeepAll {
                prop_assert_eq!(unique, model.values().copied().collect::<BTreeSet<_>>());
            }
        }
    }
}
