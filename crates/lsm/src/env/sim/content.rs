//! One simulated file: its contents as seen by processes, its contents on the disk, and every version in between.
//!
//! Both images are lists of shared pages, so a copy of a file costs a list of pointers. A page that was changed since
//! the last sync keeps its changes in order. A machine crash may leave any prefix of them, and a different one in each
//! sector if it tears the page.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// The unit of caching, reserving and mapping.
pub(super) const PAGE: usize = 4096;
/// The unit that the disk writes atomically.
pub(super) const SECTOR: usize = 512;
/// Sectors in a page.
pub(super) const SECTORS: usize = PAGE / SECTOR;
/// Maximum number of changes kept per page, and per length; beyond it the older half is merged into one.
const HISTORY: usize = 128;

/// The bytes of one page.
pub(super) type PageBytes = [u8; PAGE];

static ZEROS: LazyLock<Arc<PageBytes>> = LazyLock::new(|| Arc::new([0; PAGE]));

/// Returns a shared page of zeros.
fn zeros() -> Arc<PageBytes> {
    ZEROS.clone()
}

/// A file's length and pages. A missing page is a hole, which reads as zeros and has no space reserved.
#[derive(Clone, Default)]
pub(super) struct FileImage {
    pub(super) length: u64,
    pages: Vec<Option<Arc<PageBytes>>>,
}

impl FileImage {
    fn page(&self, at: usize) -> Option<&Arc<PageBytes>> {
        self.pages.get(at)?.as_ref()
    }

    fn put(&mut self, at: usize, page: Option<Arc<PageBytes>>) {
        if self.pages.len() <= at {
            if page.is_none() {
                return;
            }
            self.pages.resize(at + 1, None);
        }
        self.pages[at] = page;
    }

    fn page_mut(&mut self, at: usize) -> &mut PageBytes {
        if self.pages.len() <= at {
            self.pages.resize(at + 1, None);
        }
        Arc::make_mut(self.pages[at].get_or_insert_with(zeros))
    }

    /// Returns the number of pages that have space reserved.
    pub(super) fn reserved(&self) -> usize {
        self.pages.iter().flatten().count()
    }

    /// Returns the end of the last page that is no hole.
    pub(super) fn data_end(&self) -> u64 {
        let pages = self.pages.iter().rposition(Option::is_some).map_or(0, |last| last as u64 + 1);
        (pages * PAGE as u64).min(self.length)
    }

    /// Copies out the bytes before the end.
    pub(super) fn read_at(&self, buf: &mut [u8], offset: u64) -> usize {
        let length = self.length.saturating_sub(offset).min(buf.len() as u64) as usize;
        for piece in pieces(offset, length) {
            let out = &mut buf[piece.from..piece.from + piece.length];
            match self.page(piece.page) {
                Some(page) => out.copy_from_slice(&page[piece.within..piece.within + piece.length]),
                None => out.fill(0),
            }
        }
        length
    }

    /// Removes pages and bytes after the end.
    fn trim(&mut self) {
        self.pages.truncate(self.length.div_ceil(PAGE as u64) as usize);
        let within = (self.length % PAGE as u64) as usize;
        let last = (self.length / PAGE as u64) as usize;
        if within > 0 && self.page(last).is_some_and(|page| page[within..].iter().any(|byte| *byte != 0)) {
            self.page_mut(last)[within..].fill(0);
        }
    }
}

/// The part of a range within one page.
struct PagePiece {
    page: usize,
    within: usize,
    from: usize,
    length: usize,
}

/// Splits a range at page boundaries.
fn pieces(offset: u64, length: usize) -> impl Iterator<Item = PagePiece> {
    let mut done = 0;
    std::iter::from_fn(move || {
        (done < length).then(|| {
            let at = offset + done as u64;
            let within = (at % PAGE as u64) as usize;
            let piece = PagePiece {
                page: (at / PAGE as u64) as usize,
                within,
                from: done,
                length: (length - done).min(PAGE - within),
            };
            done += piece.length;
            piece
        })
    })
}

/// One change of a page, and the step that made it.
#[derive(Clone)]
pub(super) struct PageChange {
    pub(super) step: u64,
    patch: Patch,
}

#[derive(Clone)]
enum Patch {
    Whole(Arc<PageBytes>),
    Bytes { at: usize, bytes: Arc<[u8]> },
    Zeros { from: usize },
}

impl PageChange {
    fn apply(&self, page: &mut PageBytes) {
        match &self.patch {
            Patch::Whole(whole) => page.copy_from_slice(&**whole),
            Patch::Bytes { at, bytes } => page[*at..*at + bytes.len()].copy_from_slice(bytes),
            Patch::Zeros { from } => page[*from..].fill(0),
        }
    }

    /// True if the change may affect this sector.
    pub(super) fn touches(&self, sector: usize) -> bool {
        let (from, to) = match &self.patch {
            Patch::Whole(_) => (0, PAGE),
            Patch::Bytes { at, bytes } => (*at, *at + bytes.len()),
            Patch::Zeros { from } => (*from, PAGE),
        };
        from < (sector + 1) * SECTOR && sector * SECTOR < to
    }
}

/// The version at which each sector of a page is left: 0 is the durable one, n the one after n changes.
pub(super) type SectorVersions = [usize; SECTORS];

/// One file.
#[derive(Clone, Default)]
pub(super) struct SimContent {
    /// The contents as seen by processes.
    pub(super) live: FileImage,
    /// The contents guaranteed by the last successful sync.
    pub(super) durable: FileImage,
    /// Changes of pages since that sync, oldest first.
    pub(super) dirty: BTreeMap<usize, Vec<PageChange>>,
    /// Changes of the length since that sync: step and length.
    pub(super) lengths: Vec<(u64, u64)>,
    /// Number of names, as seen by processes.
    pub(super) names: u32,
}

impl SimContent {
    /// Creates a file whose bytes are durable.
    pub(super) fn settled(bytes: &[u8]) -> SimContent {
        let mut content = SimContent::default();
        content.write(0, 0, bytes);
        content.sync(|_| true, true);
        content
    }

    /// Returns how many of `length` bytes from `offset` on can be written with `free` new pages.
    pub(super) fn fitting(&self, offset: u64, length: usize, mut free: u64) -> usize {
        for piece in pieces(offset, length) {
            if self.live.page(piece.page).is_none() {
                if free == 0 {
                    return piece.from;
                }
                free -= 1;
            }
        }
        length
    }

    /// Writes to the live image.
    pub(super) fn write(&mut self, step: u64, offset: u64, bytes: &[u8]) {
        for piece in pieces(offset, bytes.len()) {
            self.patch(step, &piece, &bytes[piece.from..piece.from + piece.length]);
        }
        let end = offset + bytes.len() as u64;
        if !bytes.is_empty() && end > self.live.length {
            self.lengthen(step, end);
        }
    }

    fn patch(&mut self, step: u64, piece: &PagePiece, bytes: &[u8]) {
        let page = piece.page;
        // A page that a failed sync marked clean although it differs has no chain of changes from the durable page: its
        // first change is the whole page.
        let astray = !self.dirty.contains_key(&page) && !same(self.live.page(page), self.durable.page(page));
        let patch = if bytes.len() == PAGE {
            let mut whole = [0; PAGE];
            whole.copy_from_slice(bytes);
            let whole = Arc::new(whole);
            self.live.put(page, Some(whole.clone()));
            Patch::Whole(whole)
        } else {
            self.live.page_mut(page)[piece.within..piece.within + bytes.len()].copy_from_slice(bytes);
            match self.live.page(page) {
                Some(whole) if astray => Patch::Whole(whole.clone()),
                _ => Patch::Bytes { at: piece.within, bytes: Arc::from(bytes) },
            }
        };
        self.remember(page, PageChange { step, patch });
    }

    fn remember(&mut self, page: usize, change: PageChange) {
        let changes = self.dirty.entry(page).or_default();
        changes.push(change);
        if changes.len() > HISTORY {
            let mut folded = self.durable.page(page).map_or([0; PAGE], |page| **page);
            let rest = changes.split_off(HISTORY / 2);
            changes.iter().for_each(|change| change.apply(&mut folded));
            let step = changes.last().map_or(0, |change| change.step);
            *changes = vec![PageChange { step, patch: Patch::Whole(Arc::new(folded)) }];
            changes.extend(rest);
        }
    }

    fn lengthen(&mut self, step: u64, length: u64) {
        self.live.length = length;
        self.lengths.push((step, length));
        if self.lengths.len() > HISTORY {
            self.lengths.drain(1..HISTORY / 2);
        }
    }

    /// Truncates or extends the live image.
    pub(super) fn set_len(&mut self, step: u64, length: u64) {
        if length < self.live.length {
            self.cut(step, length);
        }
        if length != self.live.length {
            self.lengthen(step, length);
        }
    }

    fn cut(&mut self, step: u64, length: u64) {
        let first = (length / PAGE as u64) as usize;
        let within = (length % PAGE as u64) as usize;
        for page in first..self.live.length.div_ceil(PAGE as u64) as usize {
            let from = if page == first { within } else { 0 };
            if self.live.page(page).is_none() {
                continue;
            }
            if from == 0 {
                self.live.put(page, None);
                let known = self.dirty.contains_key(&page) || self.durable.page(page).is_some();
                if known {
                    self.remember(page, PageChange { step, patch: Patch::Zeros { from } });
                }
            } else {
                let piece = PagePiece { page, within: from, from: 0, length: PAGE - from };
                self.patch(step, &piece, &[0; PAGE][from..]);
            }
        }
    }

    /// Reserves the pages of the first `length` bytes; afterwards the file is at least that long.
    pub(super) fn allocate(&mut self, step: u64, length: u64) {
        for page in 0..length.div_ceil(PAGE as u64) as usize {
            if self.live.page(page).is_none() {
                self.live.put(page, Some(zeros()));
            }
        }
        if length > self.live.length {
            self.lengthen(step, length);
        }
    }

    /// Makes durable the changed pages for which `whole` is true, and the length if `length` is true.
    pub(super) fn sync(&mut self, mut whole: impl FnMut(usize) -> bool, length: bool) {
        let durable = &mut self.durable;
        let live = &self.live;
        self.dirty.retain(|page, _| {
            let kept = !whole(*page);
            if !kept {
                durable.put(*page, live.page(*page).cloned());
            }
            kept
        });
        if length {
            durable.length = live.length;
            self.lengths.clear();
        }
        if length && self.dirty.is_empty() {
            // Include pages that were only reserved.
            for page in 0..live.pages.len() {
                if durable.page(page).is_none() && same(live.page(page), None) {
                    durable.put(page, live.page(page).cloned());
                }
            }
        }
    }

    /// A failed sync: every changed page counts as clean afterwards, whatever its fate.
    pub(super) fn fail_sync(&mut self, mut fate: impl FnMut() -> PageFate) {
        for page in std::mem::take(&mut self.dirty).into_keys() {
            match fate() {
                PageFate::Written => self.durable.put(page, self.live.page(page).cloned()),
                PageFate::LostButCached => {}
                PageFate::LostAndForgotten => {
                    let old = self.durable.page(page).cloned();
                    if self.live.page(page).is_some() {
                        self.live.put(page, Some(old.unwrap_or_else(zeros)));
                    }
                }
            }
        }
        if matches!(fate(), PageFate::Written) {
            self.durable.length = self.live.length;
        }
        self.lengths.clear();
    }

    /// A machine crash: for each changed page `pick` returns the version of every sector, and `length` is the new
    /// length.
    pub(super) fn crash(&mut self, length: u64, mut pick: impl FnMut(usize, &[PageChange]) -> SectorVersions) {
        let mut left = self.durable.clone();
        left.length = length;
        for (page, changes) in std::mem::take(&mut self.dirty) {
            let versions = pick(page, &changes);
            if versions != [0; SECTORS] {
                left.put(page, Some(Arc::new(mixed(self.durable.page(page), &changes, &versions))));
            }
        }
        self.leave(left);
    }

    /// Sets both images to this one.
    pub(super) fn leave(&mut self, mut image: FileImage) {
        image.trim();
        self.live = image.clone();
        self.durable = image;
        self.dirty.clear();
        self.lengths.clear();
    }

    /// True if the durable sector is missing or all zeros.
    pub(super) fn is_durably_zero(&self, page: usize, sector: usize) -> bool {
        self.durable
            .page(page)
            .is_none_or(|page| page[sector * SECTOR..(sector + 1) * SECTOR].iter().all(|byte| *byte == 0))
    }

    /// True if a machine crash would change nothing.
    pub(super) fn is_settled(&self) -> bool {
        let pages = self.live.pages.len().max(self.durable.pages.len());
        self.dirty.is_empty()
            && self.live.length == self.durable.length
            && (0..pages).all(|page| same(self.live.page(page), self.durable.page(page)))
    }

    /// Changes bytes on disk and in the cache at once, which no process could do.
    pub(super) fn damage(&mut self, offset: u64, change: impl Fn(&mut u8)) {
        let page = (offset / PAGE as u64) as usize;
        let within = (offset % PAGE as u64) as usize;
        let shared = same(self.live.page(page), self.durable.page(page));
        if self.live.page(page).is_some() {
            change(&mut self.live.page_mut(page)[within]);
        }
        if shared {
            let live = self.live.page(page).cloned();
            self.durable.put(page, live);
        } else if self.durable.page(page).is_some() {
            change(&mut self.durable.page_mut(page)[within]);
        }
        if let Some(changes) = self.dirty.get_mut(&page)
            && let (Some(last), Some(live)) = (changes.last().map(|change| change.step), self.live.page(page))
        {
            changes.push(PageChange { step: last, patch: Patch::Whole(live.clone()) });
        }
    }
}

/// The fate of a page in a failed sync.
#[derive(Clone, Copy)]
pub(super) enum PageFate {
    Written,
    LostButCached,
    LostAndForgotten,
}

/// True if both are known to be equal without a comparison of bytes: the same page, or both only reserved zeros.
fn same(a: Option<&Arc<PageBytes>>, b: Option<&Arc<PageBytes>>) -> bool {
    let page = |page: Option<&Arc<PageBytes>>| page.map_or_else(|| Arc::as_ptr(&ZEROS), Arc::as_ptr);
    page(a) == page(b)
}

/// Returns a page whose sectors are left at different versions.
fn mixed(durable: Option<&Arc<PageBytes>>, changes: &[PageChange], versions: &SectorVersions) -> PageBytes {
    let mut running = durable.map_or([0; PAGE], |page| **page);
    let mut left = running;
    for (at, change) in changes.iter().enumerate() {
        change.apply(&mut running);
        for (sector, version) in versions.iter().enumerate() {
            if *version == at + 1 {
                let range = sector * SECTOR..(sector + 1) * SECTOR;
                left[range.clone()].copy_from_slice(&running[range]);
            }
        }
    }
    left
}
