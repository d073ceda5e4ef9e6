//! One fault in one cell: sets the stage, injects the fault and judges the store's answers, at once, after a
//! compaction, and after a reopen, so that damage that got a valid seal on the way is detected too.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use waxseal_lsm::batch::Batch;
use waxseal_lsm::checksum::mix;
use waxseal_lsm::error::{Error, Result};
use waxseal_lsm::inject::{self as way, Fate};
use waxseal_lsm::options::Durability;
use waxseal_lsm::record::{Kind, MAX_SEQNO, OwnedRecord, companion};
use waxseal_lsm::sst::Table;
use waxseal_lsm::sst::fuzzing::CorruptionSite as Part;

use super::anatomy::{Anatomy, Block, spans};
use super::damage::{Dice, cut_out, double, flip, zero};
use super::protectors::Forger;
use super::reach::{both, logged, name_of, operation, read, span_of, write};
use super::redirect::Astray;
use super::stage::{DIR, Image, Setting, Stage, Told, Verdict, has_label, has_stamp, key, protector, push, value};
use super::{Bits, Cell, Outcome, Site, Target};
use waxseal_meta::annotations::STAMP;
use waxseal_testing::above::Over;

/// Number of attempts to find something to damage.
const TRIES: u64 = 50;

/// Injects one fault; `None` if the cell is impossible. Errors: `Invalid` if no attempt could damage anything.
pub fn inject(cell: Cell, seed: u64) -> Result<Option<Told>> {
    if cell.impossible().is_some() {
        return Ok(None);
    }
    for attempt in 0..TRIES {
        let cell_number = (cell.site as u64) << 16 | (cell.target as u64) << 8 | cell.bits as u64;
        let mut dice = Dice::new(mix(seed ^ mix(cell_number)) ^ attempt << 48);
        let outcome = catch_unwind(AssertUnwindSafe(|| strike(cell, &mut dice)));
        way::disarm();
        match outcome {
            Ok(Ok(Some(told))) => return Ok(Some(told)),
            Ok(Ok(None)) => {}
            Ok(Err(error)) => return Err(error),
            Err(_) => {
                return Ok(Some(Told { outcome: Outcome::Panic, detail: "a panic".into(), refused: false }));
            }
        }
    }
    Err(Error::invalid(format!("nothing to hit in {cell:?}")))
}

/// Returns `None` if there was nothing to damage.
fn strike(cell: Cell, dice: &mut Dice) -> Result<Option<Told>> {
    let setting = Setting {
        packed: dice.once_in(2),
        column: dice.once_in(2),
        cached: dice.once_in(2),
        apart: cell.site == Site::BlobFile,
    };
    let mut act = Act { cell, dice, verdict: Verdict::new(), setting };
    let stage = match cell.site {
        Site::Batch => act.batch(),
        Site::Log | Site::Ring | Site::Manifest | Site::BlobFile => act.at_rest_before_open(),
        Site::Memtable | Site::MemtableLinks => act.memtable(),
        Site::FlushBuffer => act.pass(true),
        Site::MergeBuffer => act.pass(false),
        Site::TableData | Site::TableIndex | Site::TableFilter | Site::TableProperties | Site::TableFooter => {
            act.table()
        }
        Site::SealWord => act.seal_word(),
        Site::VersionLinks => act.version_links(),
        Site::CachedBlock => act.cached_block(),
        Site::IndexInMemory | Site::FilterInMemory => act.table_in_memory(),
    }?;
    Ok(stage.map(|refused| {
        let Verdict { outcome, detail } = act.verdict;
        Told { outcome, detail, refused }
    }))
}

/// One fault in progress.
struct Act<'a> {
    cell: Cell,
    dice: &'a mut Dice,
    verdict: Verdict,
    setting: Setting,
}

thread_local! {
    static IMAGES: RefCell<BTreeMap<Setting, Image>> = const { RefCell::new(BTreeMap::new()) };
}

impl Act<'_> {
    fn image(&self) -> Result<Image> {
        IMAGES.with(|images| {
            if let Some(image) = images.borrow().get(&self.setting) {
                return Ok(image.clone());
            }
            let image = Image::new(self.setting)?;
            images.borrow_mut().insert(self.setting, image.clone());
            Ok(image)
        })
    }

    /// Opens an undamaged store.
    fn open_stage(&self) -> Result<Stage> {
        let mut stage = self.image()?.stage(self.setting);
        stage.open(protector())?;
        Ok(stage)
    }

    /// Runs everything that follows a fault. Returns true if the store could not be opened.
    fn aftermath(&mut self, mut stage: Stage) -> Result<Option<bool>> {
        stage.reads(&mut self.verdict);
        stage.does(&mut self.verdict, |db, _| db.flush());
        stage.compacts(&mut self.verdict);
        stage.reads(&mut self.verdict);
        stage.heard(&mut self.verdict);
        stage.close(&mut self.verdict);
        if stage.open_judged(&mut self.verdict) {
            stage.reads(&mut self.verdict);
        }
        Ok(Some(stage.refused))
    }

    /// Returns a key and a new value for it; the key has a label or a stamp if that is the target.
    fn fresh(&mut self) -> (Vec<u8>, Vec<u8>) {
        loop {
            let number = self.dice.below(60);
            let key = key(number);
            let is_fit = match self.cell.target {
                Target::Payload => has_label(&key),
                Target::Stamp => has_stamp(&key),
                _ => true,
            };
            if is_fit {
                return (key, value(9, number, self.dice));
            }
        }
    }

    // In memory, before the log.

    fn batch(&mut self) -> Result<Option<bool>> {
        let mut stage = self.open_stage()?;
        let (key, value) = self.fresh();
        let (db, family) = stage.db()?;
        let mut batch = Batch::new();
        push(&mut batch, &family, Kind::Put, &key, &value, db.companions())?;
        let Some(span) = operation(batch.bytes_mut(), &key, &value).and_then(|spans| spans.of(self.cell.target)) else {
            return Ok(None);
        };
        if !self.hit(batch.bytes_mut(), span) {
            return Ok(None);
        }
        match db.commit(&mut batch, Durability::Os) {
            // A rejected operation must not be visible.
            Err(error) => self.verdict.add(Outcome::Error, || error.to_string()),
            Ok(_) => {
                stage.model.insert(key, Some(value));
            }
        }
        drop(db);
        self.aftermath(stage)
    }

    fn memtable(&mut self) -> Result<Option<bool>> {
        let mut stage = self.open_stage()?;
        let (key, value) = self.fresh();
        stage.put(&key, &value)?;
        let (mut injector, struck) = self.injector(1, 0);
        injector.only = Some((key, false));
        let (db, family) = stage.db()?;
        db.damage_memtable(&family, &mut injector)?;
        drop((db, family));
        if struck.take() == 0 {
            return Ok(None);
        }
        self.aftermath(stage)
    }

    // In transit.

    fn pass(&mut self, flush: bool) -> Result<Option<bool>> {
        let mut stage = self.open_stage()?;
        if flush {
            for _ in 0..6 {
                let number = self.dice.below(60);
                let value = value(8, number, self.dice);
                stage.put(&key(number), &value)?;
            }
        } else {
            stage.db()?.0.flush()?;
        }
        if self.cell.target == Target::Misdirected {
            let Some(astray) = self.astray(&stage)? else { return Ok(None) };
            stage.fs.hook().set(Some(astray));
            stage.compacts(&mut self.verdict);
            stage.fs.hook().set(None);
            return self.aftermath(stage);
        }
        let (times, after) = (1 + self.dice.below(2), self.dice.below(8));
        let struck = self.arm(times, after);
        if flush {
            stage.does(&mut self.verdict, |db, _| db.flush());
        } else {
            stage.compacts(&mut self.verdict);
        }
        way::disarm();
        if struck.take() == 0 {
            return Ok(None);
        }
        self.aftermath(stage)
    }

    /// Damages the record or block number `after` and up to `times - 1` following ones; the returned counter has the
    /// number of damaged ones.
    fn arm(&mut self, times: usize, after: usize) -> Rc<RefCell<usize>> {
        let (injector, struck) = self.injector(times, after);
        way::arm(Box::new(injector));
        struck
    }

    fn injector(&mut self, times: usize, after: usize) -> (OnTheWay, Rc<RefCell<usize>>) {
        let struck = Rc::default();
        let dice = Dice::new(self.dice.below(usize::MAX) as u64);
        let injector = OnTheWay { cell: self.cell, dice, after, left: times, only: None, struck: Rc::clone(&struck) };
        (injector, struck)
    }

    // At rest.

    fn at_rest_before_open(&mut self) -> Result<Option<bool>> {
        let image = self.image()?;
        let mut stage = image.stage(self.setting);
        let Some(path) = self.file_at_rest(&stage)? else { return Ok(None) };
        if self.cell.target == Target::Misdirected {
            let length = read(&stage, &path)?.len();
            let page = 512;
            let (from, to) = (self.dice.below(length / page) * page, self.dice.below(length / page) * page);
            if from == to {
                return Ok(None);
            }
            stage.fs.hook().set(Some(Astray {
                name: name_of(&path),
                from: from as u64,
                length: page as u64,
                to: to as u64,
                times: if self.dice.once_in(2) { 1 } else { usize::MAX },
            }));
        } else if !self.damage_at_rest(&stage, &image, &path)? {
            return Ok(None);
        }
        if !stage.open_judged(&mut self.verdict) {
            stage.fs.hook().set(None);
            return Ok(Some(true));
        }
        stage.fs.hook().set(None);
        self.aftermath(stage)
    }

    /// Returns a file of the site.
    fn file_at_rest(&mut self, stage: &Stage) -> Result<Option<PathBuf>> {
        let names = stage.disk.files(DIR);
        let of = |suffix: &str| names.iter().filter(|name| name.ends_with(suffix)).cloned().collect::<Vec<String>>();
        let chosen = match self.cell.site {
            Site::Log => of(".log"),
            Site::Ring => of(".ring"),
            Site::BlobFile => of(".val"),
            Site::Manifest if self.dice.once_in(8) => vec!["CURRENT".to_owned()],
            Site::Manifest => names.iter().filter(|name| name.starts_with("MANIFEST")).cloned().collect(),
            _ => of(".tbl"),
        };
        Ok(self.dice.choose(&chosen).map(|name| PathBuf::from(DIR).join(name)))
    }

    fn damage_at_rest(&mut self, stage: &Stage, image: &Image, path: &PathBuf) -> Result<bool> {
        let whole = read(stage, path)?;
        let mut bytes = whole.clone();
        let log = matches!(self.cell.site, Site::Log | Site::Ring);
        let hit = match self.cell.target {
            Target::Any | Target::Zeroed => {
                let end = whole.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
                self.hit(&mut bytes, 0..end)
            }
            Target::Stale => {
                // Bytes from the oldest known state of the same file or of a similar one.
                let old = image.older.read_all(path).unwrap_or_default();
                let sectors = whole.len().min(old.len()) / 512;
                let differ: Vec<usize> =
                    (0..sectors).filter(|at| whole[at * 512..][..512] != old[at * 512..][..512]).collect();
                match self.dice.choose(&differ) {
                    None => false,
                    Some(at) => {
                        bytes[at * 512..][..512].copy_from_slice(&old[at * 512..][..512]);
                        true
                    }
                }
            }
            _ if log => {
                let operations = logged(&whole, stage);
                let Some(spans) = self.dice.choose(&operations) else { return Ok(false) };
                match self.cell.target {
                    Target::Dropped => {
                        bytes[spans.frame.clone()].fill(0);
                        true
                    }
                    Target::Duplicated => {
                        let (from, length) = (spans.frame.start, spans.frame.len());
                        let to = spans.frame.end.next_multiple_of(8);
                        if to + length > bytes.len() {
                            return Ok(false);
                        }
                        bytes.copy_within(from..from + length, to);
                        true
                    }
                    target => match spans.of(target) {
                        Some(span) => self.hit(&mut bytes, span),
                        None => false,
                    },
                }
            }
            _ => false,
        };
        if hit {
            write(stage, path, &whole, &bytes)?;
            // The ring also holds the newest bytes of the segment: with probability 1/2 both are damaged alike.
            if self.cell.site == Site::Log && self.dice.once_in(2) {
                both(stage, &whole, &bytes)?;
            }
        }
        Ok(hit && bytes != whole)
    }

    // Tables.

    fn table(&mut self) -> Result<Option<bool>> {
        if !matches!(self.cell.target, Target::Any | Target::Zeroed | Target::Misdirected | Target::Stale) {
            self.setting.packed = false;
        }
        let image = self.image()?;
        let mut stage = image.stage(self.setting);
        let live = self.dice.once_in(2);
        if live && !stage.open_judged(&mut self.verdict) {
            return Ok(None);
        }
        if self.cell.target == Target::Misdirected {
            let Some(astray) = self.astray(&stage)? else { return Ok(None) };
            stage.fs.hook().set(Some(astray));
        } else {
            let Some(path) = self.file_at_rest(&stage)? else { return Ok(None) };
            let whole = read(&stage, &path)?;
            let mut bytes = whole.clone();
            if !self.damage_table(&mut bytes, &image)? || bytes == whole {
                return Ok(None);
            }
            write(&stage, &path, &whole, &bytes)?;
        }
        if !live && !stage.open_judged(&mut self.verdict) {
            return Ok(Some(true));
        }
        self.aftermath(stage)
    }

    /// Misdirects reads of one part of a table to another part.
    fn astray(&mut self, stage: &Stage) -> Result<Option<Astray>> {
        let Some(path) = self.file_at_rest(stage)? else { return Ok(None) };
        let bytes = read(stage, &path)?;
        let anatomy = Anatomy::read(&bytes)?;
        let Some(span) = self.part(&anatomy) else { return Ok(None) };
        let blocks: Vec<usize> = anatomy.blocks.iter().map(|block| block.stored.start).collect();
        let Some(to) = self.dice.choose(&blocks).filter(|to| *to != span.start && to + span.len() <= bytes.len())
        else {
            return Ok(None);
        };
        Ok(Some(Astray {
            name: name_of(&path),
            from: span.start as u64,
            length: span.len() as u64,
            to: to as u64,
            times: if self.dice.once_in(2) { 1 } else { usize::MAX },
        }))
    }

    /// Returns the span of the site in a table.
    fn part(&mut self, anatomy: &Anatomy) -> Option<Range<usize>> {
        let span = match self.cell.site {
            Site::TableIndex => anatomy.index.clone(),
            Site::TableFilter => anatomy.filter.clone(),
            Site::TableProperties => anatomy.properties.clone(),
            Site::TableFooter => anatomy.footer.clone(),
            _ => self.dice.choose(&anatomy.blocks)?.framed(),
        };
        (!span.is_empty()).then_some(span)
    }

    fn damage_table(&mut self, bytes: &mut [u8], image: &Image) -> Result<bool> {
        let anatomy = Anatomy::read(bytes)?;
        let Some(part) = self.part(&anatomy) else { return Ok(false) };
        match self.cell.target {
            Target::Any | Target::Zeroed => Ok(self.hit(bytes, part)),
            Target::Stale => {
                // Bytes from the same position of another table.
                let names = image.older.files(DIR);
                let names: Vec<String> = names.into_iter().filter(|name| name.ends_with(".tbl")).collect();
                let Some(name) = self.dice.choose(&names) else { return Ok(false) };
                let old = image.older.read_all(PathBuf::from(DIR).join(name)).unwrap_or_default();
                let Some(old) = old.get(part.clone()) else { return Ok(false) };
                bytes[part].copy_from_slice(old);
                Ok(true)
            }
            _ => match anatomy.blocks.iter().find(|block| block.framed() == part) {
                Some(block) => Ok(self.damage_block(bytes, block)),
                None => Ok(false),
            },
        }
    }

    /// Damages one record of an uncompressed block, or zeroes a run of the block.
    fn damage_block(&mut self, bytes: &mut [u8], block: &Block) -> bool {
        let Some(entry) = self.dice.choose(&block.entries) else { return false };
        let ends = block.entries.iter().map(|entry| entry.value.end.max(entry.companions.end));
        let end = if block.has_column() { entry.value.end } else { ends.max().unwrap_or(entry.value.end) };
        let whole = entry.kind..entry.value.end.max(if block.has_column() { 0 } else { entry.companions.end });
        match self.cell.target {
            Target::Dropped | Target::Duplicated if block.has_column() => return false,
            Target::Dropped => cut_out(bytes, whole, end),
            Target::Duplicated => double(bytes, whole, end),
            Target::Zeroed => return zero(bytes, block.stored.clone(), self.dice),
            target => return span_of(&entry, target).is_some_and(|span| self.hit(bytes, span)),
        }
        true
    }

    fn seal_word(&mut self) -> Result<Option<bool>> {
        let image = self.image()?;
        let mut stage = image.stage(self.setting);
        let mut mask = [0; 8];
        flip(&mut mask, 0..8, self.cell.bits, self.dice);
        let (key, value) = self.fresh();
        stage.open(Arc::new(Over(Forger::new([(key.clone(), u64::from_le_bytes(mask))]))))?;
        stage.put(&key, &value)?;
        stage.db()?.0.flush()?;
        stage.close(&mut self.verdict);
        match stage.open_judged(&mut self.verdict) {
            true => self.aftermath(stage),
            false => Ok(Some(true)),
        }
    }

    /// Hides a table from readers.
    fn version_links(&mut self) -> Result<Option<bool>> {
        let stage = self.open_stage()?;
        let (db, family) = stage.db()?;
        let Some((level, number, _)) = self.dice.choose(&db.tables_in_memory(&family)?) else { return Ok(None) };
        db.exchange_in_memory(&family, (level, number), None)?;
        drop((db, family));
        self.aftermath(stage)
    }

    /// Damages index or filter of an open table.
    fn table_in_memory(&mut self) -> Result<Option<bool>> {
        let stage = self.open_stage()?;
        let (db, family) = stage.db()?;
        let Some((level, number, table)) = self.dice.choose(&db.tables_in_memory(&family)?) else { return Ok(None) };
        let part = if self.cell.site == Site::IndexInMemory { Part::Index } else { Part::Filter };
        let mut mask = [0];
        flip(&mut mask, 0..1, self.cell.bits, self.dice);
        let damaged = table.damaged(part, self.dice.below(4096), mask[0])?;
        db.exchange_in_memory(&family, (level, number), Some(damaged))?;
        drop((db, family));
        self.aftermath(stage)
    }

    /// Damages a block that was verified when it entered the cache.
    fn cached_block(&mut self) -> Result<Option<bool>> {
        self.setting.cached = true;
        if self.cell.target != Target::Any {
            (self.setting.packed, self.setting.column) = (false, false);
        }
        let mut stage = self.open_stage()?;
        stage.reads(&mut self.verdict);
        let (db, family) = stage.db()?;
        let Some((_, number, table)) = self.dice.choose(&db.tables_in_memory(&family)?) else { return Ok(None) };
        if self.cell.target == Target::Any {
            return match self.hit_anywhere(&table)? {
                true => {
                    drop((db, family, table));
                    self.aftermath(stage)
                }
                false => Ok(None),
            };
        }
        // The offsets in memory equal those in the file.
        let path = PathBuf::from(DIR).join(format!("{number:06}.tbl"));
        let whole = read(&stage, &path)?;
        let anatomy = Anatomy::read(&whole)?;
        let block = self.dice.below(anatomy.blocks.len());
        let Some(there) = anatomy.blocks.get(block).filter(|block| !block.is_packed()) else { return Ok(None) };
        let mut bytes = whole.clone();
        if !self.damage_block(&mut bytes, there) {
            return Ok(None);
        }
        let mut hit = false;
        for at in there.stored.clone().filter(|at| whole[*at] != bytes[*at]) {
            hit |= table.damage_cached(block, at - there.stored.start, whole[at] ^ bytes[at])?;
        }
        drop((db, family, table));
        stage.forget();
        if hit { self.aftermath(stage) } else { Ok(None) }
    }

    /// Damages bits of a block and of its decoded entry headers.
    fn hit_anywhere(&mut self, table: &Table) -> Result<bool> {
        let block = self.dice.below(table.blocks());
        let mut mask = vec![0u8; 1024];
        let start = self.dice.below(900);
        flip(&mut mask, start..start + 8, self.cell.bits, self.dice);
        let mut hit = false;
        for (at, mask) in mask.into_iter().enumerate().filter(|(_, mask)| *mask != 0) {
            hit |= table.damage_cached(block, at, mask)?;
        }
        Ok(hit)
    }

    /// Flips or zeroes bits in a span; returns false if nothing changed.
    fn hit(&mut self, bytes: &mut [u8], span: Range<usize>) -> bool {
        match self.cell.target {
            Target::Zeroed => zero(bytes, span, self.dice),
            _ => flip(bytes, span, self.cell.bits, self.dice),
        }
    }
}

/// Damages a record or block in transit.
struct OnTheWay {
    cell: Cell,
    dice: Dice,
    /// Number of records or blocks to skip first.
    after: usize,
    left: usize,
    /// In a memtable: the key to damage, and whether the current record has it.
    only: Option<(Vec<u8>, bool)>,
    struck: Rc<RefCell<usize>>,
}

impl OnTheWay {
    /// Returns true if the current one must be damaged.
    fn due(&mut self) -> bool {
        if self.left == 0 || self.only.as_ref().is_some_and(|(_, is_here)| !is_here) {
            return false;
        }
        if self.after > 0 {
            self.after -= 1;
            return false;
        }
        self.left -= 1;
        *self.struck.borrow_mut() += 1;
        true
    }

    fn strike(&mut self, record: &mut OwnedRecord) -> Fate {
        let bits = self.cell.bits;
        let mut all = |bytes: &mut Vec<u8>| {
            let length = bytes.len();
            flip(bytes, 0..length, bits, &mut self.dice)
        };
        let hit = match self.cell.target {
            Target::Dropped => return Fate::Lost,
            Target::Duplicated => return Fate::Twice,
            Target::Key => all(&mut record.key),
            Target::Value => all(&mut record.value),
            Target::Seal => flip_seal(record, bits, &mut self.dice),
            Target::Payload => flip_beside(record, companion::LIST, bits, &mut self.dice),
            Target::Stamp => flip_beside(record, STAMP, bits, &mut self.dice),
            Target::Seqno => {
                let mut bytes = record.seqno.to_le_bytes();
                flip(&mut bytes, 0..7, bits, &mut self.dice);
                record.seqno = u64::from_le_bytes(bytes) & MAX_SEQNO;
                true
            }
            Target::Kind => {
                // Three flipped bits never yield another valid kind; a burst may.
                let mut byte = [record.kind as u8];
                flip(&mut byte, 0..1, bits, &mut self.dice);
                record.kind = Kind::from_byte(byte[0]).unwrap_or(Kind::SidePointer);
                true
            }
            _ => false,
        };
        if !hit {
            *self.struck.borrow_mut() -= 1;
        }
        Fate::Pass
    }

    fn is_of_blocks(&self) -> bool {
        !self.is_of_headers() && matches!(self.cell.target, Target::Lengths | Target::Zeroed | Target::Any)
    }

    /// Returns true if the target is in the header of a memtable's record.
    fn is_of_headers(&self) -> bool {
        self.cell.site == Site::Memtable && matches!(self.cell.target, Target::Kind | Target::Lengths)
    }
}

impl way::Strike for OnTheWay {
    fn record(&mut self, record: &mut OwnedRecord) -> Fate {
        if self.is_of_blocks() || !self.due() { Fate::Pass } else { self.strike(record) }
    }

    fn insert(&mut self, record: &mut OwnedRecord) -> Fate {
        if let Some((key, is_here)) = &mut self.only {
            *is_here = *key == record.key;
        }
        if self.is_of_blocks() || self.is_of_headers() || !self.due() { Fate::Pass } else { self.strike(record) }
    }

    fn header(&mut self, kind: &mut u8, lengths: &mut [u8]) {
        if !self.is_of_headers() || !self.due() {
            return;
        }
        let bytes = if self.cell.target == Target::Kind { std::slice::from_mut(kind) } else { lengths };
        let length = bytes.len();
        if !flip(bytes, 0..length, self.cell.bits, &mut self.dice) {
            *self.struck.borrow_mut() -= 1;
        }
    }

    fn body(&mut self, body: &mut [u8]) {
        if !self.is_of_blocks() || self.dice.once_in(2) || !self.due() {
            return;
        }
        let length = body.len();
        let hit = match self.cell.target {
            Target::Zeroed => zero(body, 0..length, &mut self.dice),
            // Damages the lengths of the first entry: the positions of later entries depend on them.
            Target::Lengths => flip(body, 1..4.min(length), self.cell.bits, &mut self.dice),
            _ => flip(body, 0..length, self.cell.bits, &mut self.dice),
        };
        if !hit {
            *self.struck.borrow_mut() -= 1;
        }
    }

    fn framed(&mut self, block: &mut [u8]) {
        if !matches!(self.cell.target, Target::Zeroed | Target::Any) || !self.due() {
            return;
        }
        let length = block.len();
        let hit = match self.cell.target {
            Target::Zeroed => zero(block, 0..length, &mut self.dice),
            _ => flip(block, 0..length, self.cell.bits, &mut self.dice),
        };
        if !hit {
            *self.struck.borrow_mut() -= 1;
        }
    }
}

fn flip_seal(record: &mut OwnedRecord, bits: Bits, dice: &mut Dice) -> bool {
    match record.companion.first() {
        Some(&companion::WORD8) => flip(&mut record.companion, 1..9, bits, dice),
        _ => false,
    }
}

/// Flips bits of the single companion of this kind, including its kind and length.
fn flip_beside(record: &mut OwnedRecord, kind: u8, bits: Bits, dice: &mut Dice) -> bool {
    let span = spans(&record.companion, 0..record.companion.len()).into_iter().find(|(of, _)| *of == kind);
    span.is_some_and(|(_, span)| flip(&mut record.companion, span, bits, dice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_possible_cell_can_be_hit() {
        for cell in Cell::all().filter(|cell| cell.impossible().is_none()) {
            let told = inject(cell, 1).unwrap_or_else(|error| panic!("{cell:?}: {error}"));
            assert!(told.is_none_or(|told| !told.outcome.is_forbidden() || cell.is_exempt()), "{cell:?}");
        }
    }

    /// Three of these faults lengthen a value by exactly the nine bytes of the following seal.
    #[test]
    fn a_value_that_swallows_its_seal_is_refused() {
        let cell = Cell { site: Site::Batch, target: Target::Lengths, bits: Bits::Three };
        for seed in 1_048_700..1_048_740 {
            let told = inject(cell, seed).unwrap();
            assert!(told.is_none_or(|told| !told.outcome.is_forbidden()), "seed {seed}");
        }
    }
}
