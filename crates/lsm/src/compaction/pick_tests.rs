//! Scripts of single choices, and random runs of a small tree in which several jobs run concurrently and end in any
//! order.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use waxseal_testing::golden;

use super::*;
use crate::compaction::rules::{RecordDecision, Rules};
use crate::compaction::space_compaction::{is_compact, is_single_level, pick_compact, pick_single_level};
use crate::compaction::split::Splitter;
use crate::expiry::Expiries;
use crate::order::Order;
use crate::record::{Kind, MAX_SEQNO, Seqno};
use crate::version::LEVELS;

impl std::fmt::Display for CompactionPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let inputs = self.inputs.iter().map(|(level, tables)| format!("L{level} {tables:?}"));
        let inputs = inputs.collect::<Vec<_>>().join(" and ");
        let (low, high) = (self.span.smallest.escape_ascii(), self.span.largest.escape_ascii());
        let action = match self.action {
            PlanAction::Merge => "merge",
            PlanAction::Move => "move",
            PlanAction::Drop => "drop",
        };
        write!(f, "{action} {inputs} into L{}, keys {low}..{high}, because of {:?}", self.output_level, self.reason)
    }
}

/// `5,10,20`: count, least, greatest.
fn expiry(word: Option<&str>) -> Option<Expiries> {
    let numbers: Vec<u64> = word?.split(',').map(|number| number.parse().unwrap()).collect();
    let [count, least, greatest] = numbers[..] else { panic!("{numbers:?}") };
    Some(Expiries { count, least, greatest })
}

const SHAPE: LevelShape =
    LevelShape { level0_tables: 4, level_base_bytes: 100, fanout: 10, table_bytes: 10, compressed_from: LEVELS };

/// `shape level0=4 base=100 fanout=10 table=10 compressed=7 snapshot=50 expired=30`, tables (`L1 7 a..c size=10
/// entries=1 tombstones=0 seqno=1 busy expires=5,10,20`: number of expiring records, least and greatest time; level 0
/// newest first), `running L2 a..c`; then a question: `pick`, `idle`, `space_compaction`, `scores`, `range L0 a..c`.
#[test]
fn scripts_tell_what_is_picked() {
    golden::run(
        "scripts/pick",
        || (),
        |(), input| {
            let order = Order::bytewise();
            let (mut shape, mut oldest_snapshot, mut expired) = (SHAPE, MAX_SEQNO, 0);
            let mut levels: [Vec<TableFacts<'_>>; LEVELS] = Default::default();
            let mut running = Vec::new();
            let mut questions = Vec::new();
            for line in input.lines() {
                let words: Vec<&str> = line.split_whitespace().collect();
                let level = |word: &str| word[1..].parse::<usize>().unwrap();
                let number = |name, otherwise| golden::number(line, name, otherwise);
                match words[0] {
                    "shape" => {
                        shape.level0_tables = number("level0", 4) as usize;
                        shape.level_base_bytes = number("base", 100);
                        shape.fanout = number("fanout", 10);
                        shape.table_bytes = number("table", 10);
                        shape.compressed_from = number("compressed", LEVELS as u64) as usize;
                        oldest_snapshot = number("snapshot", MAX_SEQNO);
                        expired = number("expired", 0);
                    }
                    "running" => {
                        let (low, high) = words[2].split_once("..").unwrap();
                        running.push(OutputRange {
                            level: level(words[1]),
                            smallest: low.into(),
                            largest: high.into(),
                        });
                    }
                    "pick" | "idle" | "lean" | "scores" | "range" | "gone" | "dense" | "any" => questions.push(words),
                    _ => {
                        let (low, high) = words[2].split_once("..").unwrap();
                        levels[level(words[0])].push(TableFacts {
                            hidden: 0,
                            may_filter: false,
                            number: words[1].parse().unwrap(),
                            size: number("size", 10),
                            smallest: low.as_bytes(),
                            largest: high.as_bytes(),
                            entries: number("entries", 10),
                            tombstones: number("tombstones", 0),
                            greatest_seqno: number("seqno", 1),
                            is_busy: words.contains(&"busy"),
                            is_fenced: words.contains(&"fenced"),
                            range_deleted: RangeDeleted::No,
                            retains_nothing: false,
                            expiry: expiry(words.iter().find_map(|word| word.strip_prefix("expires="))),
                            is_kept: words.contains(&"kept"),
                            is_in_memory: words.contains(&"memory"),
                        });
                    }
                }
            }
            let summary = LevelSummary { order: &order, shape, levels, running: &running, oldest_snapshot, expired };
            let told = |plan: Option<CompactionPlan>| plan.map_or("nothing".to_owned(), |plan| plan.to_string());
            let answers = questions.iter().map(|words| match words[0] {
                "pick" => told(pick(&summary)),
                "idle" => told(pick_idle(&summary)),
                "lean" => told(pick_compact(&summary)),
                "gone" => told(expired::pick_drop(&summary)),
                "dense" => told(expired::pick_dense(&summary)),
                "any" => told(expired::pick_any(&summary, 100)),
                "scores" => format!("{:?}, {:?}", summary.scores(), summary.targets()),
                _ => {
                    let (low, high) = words[2].split_once("..").unwrap();
                    let bound = |key: &'static str| Some(key.as_bytes()).filter(|key| !key.is_empty());
                    let (low, high) = (bound(low.to_owned().leak()), bound(high.to_owned().leak()));
                    match plan_range(&summary, words[1][1..].parse().unwrap(), low, high, u64::MAX) {
                        RangeStep::Run(plan) => plan.to_string(),
                        other => format!("{other:?}"),
                    }
                }
            });
            answers.collect::<Vec<_>>().join("\n")
        },
    );
}

/// A table of the small tree: records in internal order.
#[derive(Clone, Debug)]
struct Small {
    number: u64,
    records: Vec<(u8, Seqno, Kind)>,
}

struct Job {
    plan: CompactionPlan,
    outputs: Vec<Small>,
}

/// A tree over one-byte keys, where each record takes one byte.
struct Tree {
    order: Order,
    shape: LevelShape,
    levels: [Vec<Small>; LEVELS],
    bounds: BTreeMap<u64, ([u8; 1], [u8; 1])>,
    jobs: Vec<Job>,
    next: u64,
    seqno: Seqno,
    truth: BTreeMap<u8, Option<Seqno>>,
}

impl Tree {
    fn new(shape: LevelShape) -> Tree {
        Tree {
            order: Order::bytewise(),
            shape,
            levels: Default::default(),
            bounds: BTreeMap::new(),
            jobs: Vec::new(),
            next: 1,
            seqno: 0,
            truth: BTreeMap::new(),
        }
    }

    fn small(&mut self, records: Vec<(u8, Seqno, Kind)>) -> Small {
        let number = self.next;
        self.next += 1;
        self.bounds.insert(number, ([records[0].0], [records[records.len() - 1].0]));
        Small { number, records }
    }

    fn flush(&mut self, keys: &[(u8, bool)]) {
        let mut records = BTreeMap::new();
        for (key, is_dead) in keys {
            self.seqno += 1;
            records.insert(*key, (self.seqno, if *is_dead { Kind::Delete } else { Kind::Put }));
            self.truth.insert(*key, (!is_dead).then_some(self.seqno));
        }
        let table = self.small(records.into_iter().map(|(key, (seqno, kind))| (key, seqno, kind)).collect());
        self.levels[0].insert(0, table);
    }

    fn ask<A>(&self, question: impl FnOnce(&LevelSummary<'_>) -> A) -> A {
        let busy: Vec<u64> =
            self.jobs.iter().flat_map(|job| job.plan.inputs.iter().flat_map(|(_, tables)| tables)).copied().collect();
        let running: Vec<OutputRange> = self.jobs.iter().map(|job| job.plan.span.clone()).collect();
        let facts = |level: usize| {
            let tables = self.levels[level].iter().map(|table| TableFacts {
                hidden: 0,
                may_filter: false,
                number: table.number,
                size: table.records.len() as u64,
                smallest: &self.bounds[&table.number].0,
                largest: &self.bounds[&table.number].1,
                entries: table.records.len() as u64,
                tombstones: table.records.iter().filter(|record| record.2 == Kind::Delete).count() as u64,
                greatest_seqno: table.records.iter().map(|record| record.1).max().unwrap(),
                is_busy: busy.contains(&table.number),
                is_fenced: false,
                range_deleted: RangeDeleted::No,
                retains_nothing: false,
                expiry: None,
                is_kept: false,
                is_in_memory: false,
            });
            tables.collect()
        };
        question(&LevelSummary {
            order: &self.order,
            shape: self.shape,
            levels: std::array::from_fn(facts),
            running: &running,
            oldest_snapshot: MAX_SEQNO,
            expired: 0,
        })
    }

    /// Starts a job: its outputs follow from the current levels.
    fn start(&mut self, plan: CompactionPlan) {
        let mut outputs = Vec::new();
        if plan.action == PlanAction::Merge {
            let tables =
                plan.inputs.iter().flat_map(|(level, numbers)| numbers.iter().map(move |number| (*level, *number)));
            let tables =
                tables.map(|(level, number)| self.levels[level].iter().find(|table| table.number == number).unwrap());
            let mut records: Vec<_> = tables.flat_map(|table| table.records.clone()).collect();
            records.sort_by_key(|(key, seqno, _)| (*key, Reverse(*seqno)));
            let deeper = &self.levels[plan.output_level + 1..];
            let holds = |table: &Small, key: &[u8]| {
                self.bounds[&table.number].0[..] <= *key && *key <= self.bounds[&table.number].1[..]
            };
            let is_bottom = |key: &[u8]| !deeper.iter().flatten().any(|table| holds(table, key));
            let mut rules = Rules::new(self.order.clone(), vec![], is_bottom);
            let mut splitter = Splitter::new(self.order.clone(), self.shape.table_bytes, vec![]);
            let mut tables: Vec<Vec<_>> = Vec::new();
            for (key, seqno, kind) in records {
                if rules.decide(&[key], seqno, kind, false) != RecordDecision::Keep {
                    continue;
                }
                let bytes = tables.last().map_or(0, |table| table.len() as u64);
                if tables.is_empty() || splitter.ends_before(&[key], bytes) {
                    tables.push(Vec::new());
                }
                tables.last_mut().unwrap().push((key, seqno, kind));
            }
            outputs = tables.into_iter().map(|records| self.small(records)).collect();
        }
        self.jobs.push(Job { plan, outputs });
    }

    fn finish(&mut self, job: usize) {
        let Job { plan, mut outputs } = self.jobs.remove(job);
        for (level, numbers) in &plan.inputs {
            let (goes, stays) =
                std::mem::take(&mut self.levels[*level]).into_iter().partition(|table| numbers.contains(&table.number));
            self.levels[*level] = stays;
            if plan.action == PlanAction::Move {
                outputs.extend::<Vec<_>>(goes);
            }
        }
        let level = &mut self.levels[plan.output_level];
        level.extend(outputs);
        let bounds = &self.bounds;
        level.sort_by_key(|table| bounds[&table.number].0);
    }

    /// Checks that levels are disjoint, that versions get older from the top down, and that reads return the newest
    /// version.
    fn check(&self) {
        for level in &self.levels[1..] {
            for pair in level.windows(2) {
                assert!(self.bounds[&pair[0].number].1 < self.bounds[&pair[1].number].0, "{pair:?}");
            }
        }
        for (key, truth) in &self.truth {
            let records =
                self.levels.iter().flatten().flat_map(|table| &table.records).filter(|record| record.0 == *key);
            let versions: Vec<_> = records.collect();
            assert!(versions.is_sorted_by(|a, b| a.1 > b.1), "{versions:?}");
            let newest = versions.first().filter(|record| record.2 == Kind::Put).map(|record| record.1);
            assert_eq!(newest, *truth, "key {key}: {versions:?}");
        }
    }

    /// Runs plan after plan until there is none; the sequence must end.
    fn run_all(&mut self, question: impl Fn(&LevelSummary<'_>) -> Option<CompactionPlan>) {
        for _ in 0..2000 {
            let Some(plan) = self.ask(&question) else { return };
            self.start(plan);
            self.finish(0);
            self.check();
        }
        panic!("compaction never ends");
    }
}

#[derive(Clone, Debug)]
enum Act {
    Flush(Vec<(u8, bool)>),
    Pick,
    Idle,
    Lean,
    Range(usize, u8, u8),
    Finish(usize),
}

fn acts() -> impl Strategy<Value = Act> {
    let key = 0u8..40;
    prop_oneof![
        3 => vec((key.clone(), prop::bool::weighted(0.3)), 1..12).prop_map(Act::Flush),
        2 => (0u8..36).prop_map(|from| Act::Flush((from..from + 4).map(|key| (key, false)).collect())),
        5 => Just(Act::Pick),
        1 => Just(Act::Idle),
        1 => Just(Act::Lean),
        1 => (0usize..7, key.clone(), key).prop_map(|(level, a, b)| Act::Range(level, a.min(b), a.max(b))),
        3 => (0usize..4).prop_map(Act::Finish),
    ]
}

proptest! {
    #[test]
    fn jobs_that_run_together_keep_every_answer(
        acts in vec(acts(), 1..120), table_bytes in 1u64..8, base in 8u64..40, fanout in 2u64..4, level0_tables in 1usize..5, compressed_from in 0usize..8
    ) {
        let shape = LevelShape { level0_tables, level_base_bytes: base, fanout, table_bytes, compressed_from };
        let mut tree = Tree::new(shape);
        for act in acts {
            let plan = match &act {
                Act::Flush(keys) => {
                    tree.flush(keys);
                    None
                }
                Act::Pick => tree.ask(pick),
                Act::Idle => tree.ask(pick_idle),
                Act::Lean => tree.ask(pick_compact),
                Act::Range(level, low, high) => match tree.ask(|summary| plan_range(summary, *level, Some(&[*low]), Some(&[*high]), u64::MAX)) {
                    RangeStep::Run(plan) => Some(plan),
                    _ => None,
                },
                Act::Finish(job) => {
                    if !tree.jobs.is_empty() {
                        tree.finish(job % tree.jobs.len());
                    }
                    None
                }
            };
            if let Some(plan) = plan {
                tree.start(plan);
            }
            tree.check();
        }
        while !tree.jobs.is_empty() {
            tree.finish(0);
        }
        tree.run_all(pick);
        prop_assert!(tree.levels[0].len() < level0_tables);
        prop_assert!(tree.ask(|summary| summary.scores().iter().all(|score| *score < 1000)));
        tree.run_all(|summary| pick(summary).or_else(|| pick_compact(summary)));
        prop_assert!(tree.ask(is_compact) && tree.ask(pick).is_none());
        tree.run_all(|summary| pick(summary).or_else(|| pick_single_level(summary)));
        prop_assert!(tree.ask(is_single_level) && tree.ask(is_compact) && tree.ask(pick).is_none());
        tree.run_all(pick_idle);
        for level in 0..LEVELS {
            tree.run_all(|summary| match plan_range(summary, level, None, None, u64::MAX) {
                RangeStep::Run(plan) => Some(plan),
                other => {
                    assert_eq!(other, RangeStep::Done);
                    None
                }
            });
        }
        let alive = tree.truth.values().flatten().count();
        let records: Vec<_> = tree.levels[BOTTOM].iter().flat_map(|table| &table.records).collect();
        prop_assert_eq!(records.len(), alive, "one version of each key that is alive, all at the bottom");
    }

    #[test]
    fn targets_grow_downwards_and_the_base_lies_above_all_data(sizes: [u32; LEVELS], hidden in 0usize..7, base in 1u64..1 << 30, fanout in 0u64..20) {
        let mut sizes = sizes.map(u64::from);
        sizes[1..][..hidden].fill(0);
        let targets = targets(&sizes, &LevelShape { level_base_bytes: base, fanout, ..SHAPE });
        prop_assert!((1..targets.base).all(|level| sizes[level] == 0 && targets.bytes[level] == 0));
        prop_assert!((1..=base.max(sizes[0])).contains(&targets.bytes[targets.base]));
        prop_assert!(targets.bytes[targets.base..].is_sorted());
    }
}
