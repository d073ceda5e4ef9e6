//! Ingestion of table files: adds whole files to families, all in one commit.
//!
//! In:    files of `TableFileWriter`, whose records all have `WRITTEN_SEQNO`.
//! Out:   tables of the store whose edit states the seqno of their records.
//! Path:  each file is linked or copied into the store under a new number, and read through -> seqnos and flush
//!        (`ingestion.rs`) -> each table gets the deepest level above which nothing overlaps it -> one edit.
//! Holds: as `ingestion.rs`. No plan writes into the range of a level that an ingested table is about to take (I05).
//!        Only the frame, the flush and the edit run under the job lock: the work that grows with the files comes
//!        before.
//! Crash: before the edit, files that no edit names and that the next open removes, and a used seqno. A file that is
//!        moved keeps its old name until the edit is durable.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::ingestion::{Ingestion, check_family};
use super::placed_files::PlacedFiles;
use crate::checksum::Uid;
use crate::compaction::OutputRange;
use crate::db::catalog::claims::TableClaims;
use crate::db::catalog::view_change::Replaced;
use crate::db::jobs::compact::Compactor;
use crate::db::state::family::{Family, TableLevels};
use crate::env::Open;
use crate::error::{Error, IoContext, Result};
use crate::expiry::Expiries;
use crate::format_level::FormatLevel;
use crate::interrupt;
use crate::ledger::Ledger;
use crate::names::StoreFileName;
use crate::order::Order;
use crate::planted;
use crate::record::{Kind, Seqno, companion};
use crate::seam::{Check, Protection};
use crate::sst::{Expected, NoWatch, Table};
use crate::version::{LEVELS, Level, TableMeta};

/// Whether an ingestion keeps its source files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IngestMode {
    /// The files are copied.
    #[default]
    Copy,
    /// The files become files of the store, and lose their old names when the ingestion is durable. On another file
    /// system than the store's they are copied and then removed.
    Move,
}

/// The result of an ingestion of tables.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IngestedTables {
    /// The seqno of the records of the last family. Families have consecutive seqnos, in the order of the call. 0 if
    /// there were no files.
    pub seqno: Seqno,
    /// Number of ingested records.
    pub records: u64,
    /// Size of the new tables in bytes.
    pub bytes: u64,
    /// The numbers of the new tables and the levels that they were added to.
    pub tables: Vec<(u64, usize)>,
}

/// The new tables of one family.
type FamilyTables = (Family, Vec<TableMeta>);

/// Ingests files; see `Db::ingest_tables`.
pub(in crate::db) fn ingest_tables(
    compactor: &Compactor,
    asked: &[(&Family, &[PathBuf])],
    mode: IngestMode,
) -> Result<IngestedTables> {
    compactor.catalog().format_level().check(FormatLevel::RANGES)?;
    let mut placed = PlacedFiles::new(compactor);
    let (mut parts, mut uids) = (Vec::<FamilyTables>::new(), HashSet::new());
    for (family, paths) in asked {
        check_family(family)?;
        let mut tables = Vec::new();
        for path in *paths {
            let number = placed.place(path, mode == IngestMode::Move)?;
            let table = examine(compactor, family, number, path)?;
            if !uids.insert(table.uid) {
                return Err(Error::invalid(format!("{}: the table is named twice", path.display())));
            }
            tables.push(table);
        }
        match parts.iter_mut().find(|(named, _)| named == *family) {
            Some((_, others)) => others.extend(tables),
            None => parts.push(((*family).clone(), tables)),
        }
    }
    let ingested = install_tables(compactor, parts, placed)?;
    if planted!(IngestSourceRemovedEarly, false, mode == IngestMode::Move) {
        // The store has the records: a name that cannot be removed costs space only while the file system links it.
        asked.iter().flat_map(|(_, paths)| paths.iter()).for_each(|path| {
            let _ = compactor.context().env.fs.remove(path);
        });
    }
    Ok(ingested)
}

/// Checks that no table is in the store already: a file of the store must not be moved, and what the log says of a
/// table is found by its unique id.
fn check_unknown(compactor: &Compactor, parts: &[FamilyTables]) -> Result<()> {
    let uids: HashSet<Uid> = parts.iter().flat_map(|(_, tables)| tables).map(|table| table.uid).collect();
    for family in compactor.catalog().families().by_id.values() {
        let view = family.pinned_view();
        if let Some(known) = view.levels.iter().flat_map(Level::tables).find(|table| uids.contains(&table.meta().uid)) {
            let name = StoreFileName::Table(known.meta().number);
            return Err(Error::invalid(format!("a table to be ingested is in the store already, as {name}")));
        }
    }
    Ok(())
}

/// Reads a placed file through, and describes it. Its seqno is still missing. Errors name the path that it came from.
fn examine(compactor: &Compactor, family: &Family, number: u64, path: &Path) -> Result<TableMeta> {
    let context = compactor.context();
    let name = StoreFileName::Table(number);
    let file = context.env.fs.open(&context.path(name), Open::Read).during(|| format!("opening {name}"))?;
    let source = path.display().to_string();
    let refused = |why: &str| Err(Error::invalid(format!("{source}: {why}")));
    let expected: Expected = Table::identify(&source, &*file)?;
    let (cache, protector) = (context.cache.clone(), context.companions.clone());
    let read_by = (expected, family.order().clone(), family.options().filter_policy.clone());
    let table = Table::open_watched(source.clone(), file, read_by, cache, protector, Arc::new(NoWatch))?;
    let properties = table.properties();
    if !table.is_ingestible() {
        return refused("the file is a table that was not written to be ingested");
    }
    if properties.protection > Protection::Complete as u8 {
        return refused("the file promises a protection of records that this version does not know");
    }
    if properties.store == Some(context.store) && properties.family != family.id() {
        return refused("the file was written for another family of this store");
    }
    if table.protection() == Protection::Foreign && context.companions.protection() != Protection::None {
        return refused("the records of the file have companions of an unknown algorithm");
    }
    let (companions, mut retains, mut expiry) = (&*context.companions, false, None);
    let ledger: Ledger = table.verify_each(companions, &mut |_| interrupt::check(), &mut |record| {
        if !matches!(record.kind, Kind::Put | Kind::Delete) {
            return refused("the file holds records other than whole values and deletes").map(drop);
        }
        if properties.protection == Protection::None as u8 && !record.companion.is_empty() {
            return refused("the file promises no companions, and a record has some").map(drop);
        }
        retains |= companions.retains(record);
        if !companion::is_bare(record.companion) {
            expiry = Expiries::with(expiry, companions, record, Check::Validated);
        }
        Ok(())
    })?;
    let (uid, size, digest) = (expected.uid, expected.size, expected.digest);
    let (smallest, largest) = (properties.smallest.clone(), properties.largest.clone());
    let retains_nothing = !retains;
    let rest = TableMeta::default();
    Ok(TableMeta { number, uid, size, digest, smallest, largest, ledger, expiry, retains_nothing, ..rest })
}

/// Adds tables to their families in one commit. `placed` are their files.
pub(super) fn install_tables(
    compactor: &Compactor,
    mut parts: Vec<FamilyTables>,
    mut placed: PlacedFiles<'_>,
) -> Result<IngestedTables> {
    parts.retain(|(_, tables)| !tables.is_empty());
    for (family, tables) in &mut parts {
        sort_apart(family.order(), tables)?;
    }
    if parts.is_empty() {
        return Ok(IngestedTables::default());
    }
    let started = compactor.context().now_nanos();
    compactor.store_log().sync_dir_before_edit()?;
    let ingestion = Ingestion::begin(compactor, parts.iter().map(|(family, _)| family).collect(), started)?;
    check_unknown(compactor, &parts)?;
    let first = ingestion.take_seqnos()?;
    let seqno = first + parts.len() as Seqno - 1;
    let mut spans = ReservedSpans { claims: &compactor.catalog().claims, spans: Vec::new() };
    let (mut replaced, mut ingested) = (Vec::new(), IngestedTables { seqno, ..IngestedTables::default() });
    for ((family, tables), own) in parts.iter().zip(first..) {
        planted!(IngestBelowRangeDelete => let own = crate::sst::WRITTEN_SEQNO);
        let mut adds = Vec::new();
        for (level, meta) in spans.levels(family, tables)? {
            ingested.records += meta.ledger.count();
            ingested.bytes += meta.size;
            ingested.tables.push((meta.number, level));
            let (least_seqno, greatest_seqno, ingest_seqno) = (own, own, own);
            let cleared_through = own; // range deletes up to here are older than the records
            let meta = meta.clone();
            adds.push((
                level,
                Arc::new(TableMeta { least_seqno, greatest_seqno, ingest_seqno, cleared_through, ..meta }),
            ));
        }
        replaced.push(Replaced::tables(family, Vec::new(), adds));
    }
    ingestion.install(first, replaced, &mut placed)?;
    Ok(ingested)
}

/// Sorts the tables of one family. Errors: two of them overlap.
fn sort_apart(order: &Order, tables: &mut [TableMeta]) -> Result<()> {
    tables.sort_by(|a, b| order.compare(&a.smallest, &b.smallest));
    let meets = |pair: &[TableMeta]| order.compare(&pair[0].largest, &pair[1].smallest).is_ge();
    match tables.windows(2).any(meets) {
        true => Err(Error::invalid("files of one family overlap: a key may be in one file of an ingestion only")),
        false => Ok(()),
    }
}

/// The ranges that ingested tables are about to take, so that no plan writes into them.
struct ReservedSpans<'a> {
    claims: &'a TableClaims,
    spans: Vec<(u32, OutputRange)>,
}

impl ReservedSpans<'_> {
    /// Returns the level of each table, and reserves its range there.
    fn levels<'t>(&mut self, family: &Family, tables: &'t [TableMeta]) -> Result<Vec<(usize, &'t TableMeta)>> {
        let spans = self.claims.reserve(family.id(), |running| {
            let view = family.view();
            let span_of = |meta: &TableMeta| OutputRange {
                level: level_for(family.order(), &view.levels, running, meta),
                smallest: meta.smallest.clone(),
                largest: meta.largest.clone(),
            };
            let spans: Vec<_> = tables.iter().map(span_of).collect();
            (spans.clone(), spans)
        })?;
        let levels = spans.iter().zip(tables).map(|(span, meta)| (span.level, meta)).collect();
        self.spans.extend(spans.into_iter().map(|span| (family.id(), span)));
        Ok(levels)
    }
}

impl Drop for ReservedSpans<'_> {
    fn drop(&mut self) {
        for (family, span) in &self.spans {
            self.claims.release([].into_iter(), Some((*family, span)));
        }
    }
}

/// Returns the deepest level such that nothing in it or above overlaps a table, and no running plan writes there.
fn level_for(order: &Order, levels: &TableLevels, running: &[OutputRange], meta: &TableMeta) -> usize {
    let (low, high) = (&meta.smallest[..], &meta.largest[..]);
    let is_free = |level: &usize| levels.overlapping(*level, Some(low), Some(high)).next().is_none();
    let is_written = |level: usize| {
        running.iter().any(|span| {
            span.level == level
                && order.compare(&span.largest, low).is_ge()
                && order.compare(&span.smallest, high).is_le()
        })
    };
    let deepest = (0..LEVELS).take_while(is_free).last().unwrap_or(0);
    (1..=deepest).rev().find(|level| !is_written(*level)).unwrap_or(0)
}
