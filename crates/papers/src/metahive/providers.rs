//! Question: can several providers store entries with a record next to its seal, without cost to the value or to each
//!           other?
//! Protocol: small stores with expiry, provenance, ETL statistics and labels on the same records, through log, flush
//!           and compaction; every entry is read back. Then the same store with a record protector that does not know
//!           some of the providers, for three compactions. On disk: reading an entry of a 1 MB value and of a 100 B
//!           value, in turn, both in cache, with the number of loaded blocks.
//! Passes:   no entry is lost or changed; an unknown one survives three compactions bit by bit; an entry of a 1 MB
//!           value takes at most 2 us more than one of a 100 B value (hashing the value takes at least 30 us); and it
//!           loads no more blocks than a get.
//! Gaps:     values are stored in their records: reading an entry without loading an uncached value waits for blob
//!           files.

use super::Run;
use super::node::{Node, Shape};
use super::rounds::{LEAST, alternate, shown};
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use waxseal_bench::Outcome;
use waxseal_bench::gate::Gate;
use waxseal_bench::workload::Random;
use waxseal_lsm::batch::Batch;
use waxseal_lsm::db::At;
use waxseal_lsm::env::sim::SimFs;
use waxseal_lsm::options::{Durability, MIB};
use waxseal_lsm::record::Kind;
use waxseal_meta::builtin::{Etl, Expiry, Labels, Provenance, standard};
use waxseal_meta::provider::{Descriptor, ETL, EXPIRY, LABELS, MetadataProvider, PROVENANCE};
use waxseal_meta::{Providers, Sealer, get_meta};

/// Records at scale 1.
const FULL: u64 = 100_000;

/// Records per store.
const RECORDS: u64 = 200;

const DIR: &str = "/store";

/// A provider that only some record protectors know.
const OWN: u16 = 100;

struct Own;

impl MetadataProvider for Own {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new(OWN, "own")
    }
}

pub(super) fn run(run: &Run) -> Outcome<Vec<Gate>> {
    let records = run.size(FULL, RECORDS);
    let (mut checked, mut wrong, mut unknown) = (0, 0, 0);
    let mut store = 0;
    while checked < records * 5 && !run.is_over() {
        let (looked, off, lost) = together(run.seed ^ store)?;
        checked += looked;
        wrong += off;
        unknown += lost;
        store += 1;
    }
    println!("{store} stores, {checked} entries read back: {wrong} wrong or lost, {unknown} of the unknown provider");
    let mut gates = vec![
        run.none("together", "entries_wrong_or_lost", wrong, checked, records),
        run.none("unknown", "entries_wrong_or_lost_after_three_compactions", unknown, checked, records),
    ];
    gates.extend(value_untouched(run)?);
    Ok(gates)
}

/// Returns the entries of record `n`, by provider.
fn entries(n: u64) -> Outcome<Vec<(u16, Vec<u8>)>> {
    Ok(vec![
        (EXPIRY, Expiry::at((1 << 60) + n).to_vec()),
        (PROVENANCE, Provenance::of(n, 2 * n)),
        (ETL, Etl::of(1, n as i64 - 7)),
        (LABELS, Labels::of(&[("class", &n.to_string())])?),
        (OWN, n.to_le_bytes().to_vec()),
    ])
}

fn protector(known: bool) -> Outcome<Arc<Sealer>> {
    let own: Vec<Arc<dyn MetadataProvider>> =
        vec![Arc::new(Expiry), Arc::new(Provenance), Arc::new(Etl), Arc::new(Labels), Arc::new(Own)];
    let providers = if known { Providers::of(own)? } else { standard() };
    Ok(Arc::new(Sealer::new().with(providers)))
}

fn put(node: &Node, key: &[u8], value: &[u8], entries: &[(u16, Vec<u8>)]) -> Outcome<()> {
    let given: Vec<(u16, &[u8])> = entries.iter().map(|(provider, bytes)| (*provider, bytes.as_slice())).collect();
    let mut batch = Batch::new();
    batch.push_given(node.family.id(), Kind::Put, key, value, &given, node.db.companions())?;
    node.db.commit(&mut batch, Durability::Os)?;
    Ok(())
}

/// Returns the number of checked entries, of wrong ones, and of intact ones of the unknown provider.
fn together(seed: u64) -> Outcome<(u64, u64, u64)> {
    let sim = SimFs::new(seed);
    let shape = Shape::small(sim.env(1));
    let key = |n: u64| format!("{n:06}").into_bytes();
    let node = Node::open(Path::new(DIR), &shape, protector(true)?)?;
    let mut random = Random::new(seed);
    for n in 0..RECORDS {
        put(&node, &key(n), &random.word().to_le_bytes(), &entries(n)?)?;
    }
    let (mut looked, mut wrong) = (0, 0);
    let check = |node: &Node, looked: &mut u64| -> Outcome<(u64, u64)> {
        let (mut off, mut lost) = (0, 0);
        for n in 0..RECORDS {
            for (provider, bytes) in entries(n)? {
                let found = get_meta(&node.db, &node.family, &key(n), At::Latest, provider)?;
                let is_wrong = found.is_none_or(|meta| meta.bytes != bytes);
                off += u64::from(is_wrong);
                lost += u64::from(is_wrong && provider == OWN);
                *looked += 1;
            }
        }
        Ok((off, lost))
    };
    wrong += check(&node, &mut looked)?.0;
    node.db.flush()?;
    wrong += check(&node, &mut looked)?.0;
    node.compact()?;
    wrong += check(&node, &mut looked)?.0;
    node.db.close()?;
    drop(node);
    let mut node = Node::open(Path::new(DIR), &shape, protector(false)?)?;
    for pass in 0..3u64 {
        // New records around the old ones, so that every table is rewritten.
        node.put(b"", &pass.to_le_bytes())?;
        node.put(b"~", &pass.to_le_bytes())?;
        node.compact()?;
    }
    let (off, lost) = check(&node, &mut looked)?;
    Ok((looked, wrong + off, lost))
}

fn value_untouched(run: &Run) -> Outcome<Vec<Gate>> {
    let mut shape = Shape::real();
    shape.settings.cache_bytes = 128 * MIB;
    let node = Node::open(&run.fresh("values")?, &shape, protector(true)?)?;
    let sizes = [100, MIB];
    const EACH: u64 = 24;
    let key = |size: usize, n: u64| format!("{size:010}/{n:06}").into_bytes();
    for size in sizes {
        for n in 0..EACH {
            put(&node, &key(size, n), &vec![n as u8; size], &entries(n)?[3..4])?;
        }
    }
    node.db.settle()?;
    node.compact()?;
    for size in sizes {
        for n in 0..EACH {
            node.touch(&key(size, n))?;
        }
    }
    let loads = || node.db.metrics().cache.loads;
    let before = loads();
    let rounds = alternate(run, 2, 4 * LEAST + 1, |side| {
        let keys: Vec<Vec<u8>> = (0..EACH).map(|n| key(sizes[side], n)).collect();
        let start = Instant::now();
        for _ in 0..20 {
            for key in &keys {
                black_box(get_meta(&node.db, &node.family, key, At::Latest, LABELS)?);
            }
        }
        Ok(start.elapsed().as_nanos() as f64 / (20 * EACH) as f64)
    })?;
    let loaded = loads() - before;
    let gets = alternate(run, 2, LEAST, |side| {
        let start = Instant::now();
        for n in 0..EACH {
            black_box(node.touch(&key(sizes[side], n))?);
        }
        Ok(start.elapsed().as_nanos() as f64 / EACH as f64)
    })?;
    println!(
        "an entry beside 100 B: {:.0} ns, beside 1 MB: {} ns more; a get of 100 B: {:.0} ns, of 1 MB {:.0} ns; {loaded} blocks loaded for entries of what is in cache",
        rounds.of(0),
        shown(rounds.more(1, 0)),
        gets.of(0),
        gets.of(1)
    );
    Ok(vec![
        run.at_most("value_untouched", "beside_1_MB_more_than_beside_100_B", "ns", rounds.more(1, 0), 2_000.0),
        run.none("blocks", "blocks_loaded_for_entries_in_cache", loaded, EACH, EACH),
    ])
}
