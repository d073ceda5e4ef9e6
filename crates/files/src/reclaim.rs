//! Deletes content that no entry names.
//!
//! The commit that takes the last name of a content away writes a *reclaim record* with its id, and so does a stream
//! before its first chunk. A worker deletes the chunks of each recorded content, then the record, in one batch. It skips
//! contents that are *pinned*: an open handle reads them, or a stream writes them. The records survive a crash; the next
//! open finds them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use waxseal::env::{Mode, Signal, spawn};
use waxseal::{Durability, ErrorKind};

use crate::error::Result;
use crate::families::Families;
use crate::records::{ContentId, all_reclaims, chunk_key, parse_reclaim, reclaim_key};

/// Contents of at most this many chunks are deleted chunk by chunk; a longer one by its range.
const POINT_DELETES: u32 = 16;

/// Chunks and records that one batch of the worker deletes at most, apart from the last content's.
const BATCH_DELETES: usize = 512;

/// The pause after a failed deletion.
const RETRY: Duration = Duration::from_secs(1);

/// Which contents wait to be deleted, and which are pinned.
pub(crate) struct Reclaimer {
    state: Signal<State>,
}

#[derive(Default)]
struct State {
    /// Contents with a reclaim record, and the numbers that their chunks are below.
    due: BTreeMap<ContentId, u32>,
    pins: HashMap<ContentId, usize>,
    /// Contents that a batch deletes now.
    deleting: usize,
    is_stopped: bool,
}

/// Keeps a content from being deleted.
pub(crate) struct Pin {
    reclaimer: Arc<Reclaimer>,
    content: ContentId,
}

impl Reclaimer {
    /// Reads the reclaim records of a store. Damaged ones stay with their content, and `fsck` reports them.
    pub(crate) fn load(families: &Families) -> Result<Arc<Reclaimer>> {
        let mut due = BTreeMap::new();
        for record in families.chunks.range(all_reclaims()) {
            match record {
                Ok((key, value)) => due.extend(parse_reclaim(&key, &value)),
                Err(error) if error.is_corruption() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Arc::new(Reclaimer { state: Signal::new(State { due, ..State::default() }) }))
    }

    /// Pins a content. The caller holds a lock under which the content's entry cannot change, or has just created it.
    pub(crate) fn pin(self: &Arc<Reclaimer>, content: ContentId) -> Pin {
        *self.state.lock().pins.entry(content).or_default() += 1;
        Pin { reclaimer: Arc::clone(self), content }
    }

    /// Hands over contents whose reclaim records were committed.
    pub(crate) fn add(&self, contents: impl IntoIterator<Item = (ContentId, u32)>) {
        let mut state = self.state.lock();
        let before = state.due.len();
        state.due.extend(contents);
        if state.due.len() > before {
            self.state.notify_all();
        }
    }

    /// Returns the number of contents that wait.
    pub(crate) fn waiting(&self) -> usize {
        let state = self.state.lock();
        state.due.len() + state.deleting
    }

    /// Deletes the contents of one batch. Returns their number: 0 if all that wait are pinned.
    pub(crate) fn step(&self, families: &Families) -> Result<usize> {
        let contents = self.take();
        let count = contents.len();
        if count == 0 {
            return Ok(0);
        }
        let deleted = delete(families, &contents);
        let mut state = self.state.lock();
        state.deleting -= count;
        if deleted.is_err() {
            state.due.extend(contents);
        }
        self.state.notify_all(); // for `wait_for_batches`
        deleted.map(|()| count)
    }

    /// Waits until no batch deletes contents.
    pub(crate) fn wait_for_batches(&self) {
        let mut state = self.state.lock();
        while state.deleting > 0 {
            state = self.state.wait(state, None);
        }
    }

    /// Takes the contents of one batch out of those that wait.
    fn take(&self) -> Vec<(ContentId, u32)> {
        let mut state = self.state.lock();
        let (mut contents, mut deletes) = (Vec::new(), 0);
        let State { due, pins, .. } = &*state;
        for (content, chunks) in due.iter().filter(|(content, _)| !pins.contains_key(content)) {
            contents.push((*content, *chunks));
            deletes += 1 + if *chunks <= POINT_DELETES { *chunks as usize } else { 1 };
            if deletes >= BATCH_DELETES {
                break;
            }
        }
        for (content, _) in &contents {
            state.due.remove(content);
        }
        state.deleting += contents.len();
        contents
    }

    fn stop(&self) {
        self.state.lock().is_stopped = true;
        self.state.notify_all();
    }

    /// Deletes until it is stopped.
    fn work(&self, families: &Families) {
        loop {
            match self.step(families) {
                Ok(0) => {
                    let state = self.state.lock();
                    let is_idle = state.due.keys().all(|content| state.pins.contains_key(content));
                    if !state.is_stopped && is_idle {
                        drop(self.state.wait(state, None));
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    let is_lasting = error.store_error().is_some_and(|error| {
                        matches!(error.kind(), ErrorKind::Closed | ErrorKind::ReadOnly | ErrorKind::Halted)
                    });
                    let state = self.state.lock();
                    if is_lasting || state.is_stopped {
                        return;
                    }
                    drop(self.state.wait(state, Some(RETRY)));
                }
            }
            if self.state.lock().is_stopped {
                return;
            }
        }
    }
}

fn delete(families: &Families, contents: &[(ContentId, u32)]) -> Result<()> {
    let mut batch = families.batch();
    for (content, chunks) in contents {
        if *chunks <= POINT_DELETES {
            for number in 0..*chunks {
                batch.delete(&families.chunks, chunk_key(*content, number));
            }
        } else {
            batch.delete_range(&families.chunks, chunk_key(*content, 0)..=chunk_key(*content, u32::MAX));
        }
        batch.delete(&families.chunks, reclaim_key(*content));
    }
    Ok(batch.commit(Durability::Os)?)
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut state = self.reclaimer.state.lock();
        if let Some(count) = state.pins.get_mut(&self.content) {
            *count -= 1;
            if *count == 0 {
                state.pins.remove(&self.content);
                if state.due.contains_key(&self.content) {
                    self.reclaimer.state.notify_all();
                }
            }
        }
    }
}

/// The thread that deletes; it ends when this is dropped. Without one, `FileStore::reclaim` deletes.
pub(crate) struct Worker {
    reclaimer: Arc<Reclaimer>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts the thread, unless the store's environment has none or the store cannot be written.
    pub(crate) fn start(families: &Families, reclaimer: &Arc<Reclaimer>) -> Worker {
        let mut worker = Worker { reclaimer: Arc::clone(reclaimer), thread: None };
        if families.db.env().work == Mode::Threads && !families.db.is_read_only() {
            let (families, reclaimer) = (families.clone(), Arc::clone(reclaimer));
            // Without a thread, content waits until the next open.
            worker.thread = spawn("waxseal-reclaim", true, move || reclaimer.work(&families)).ok();
        }
        worker
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.reclaimer.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{all_chunks, reclaim_value};
    use waxseal::Db;

    /// Writes contents with reclaim records; each has as many chunks as its id.
    fn recorded(families: &Families, contents: &[ContentId]) {
        for content in contents {
            let chunks = *content as u32;
            (0..chunks).for_each(|number| families.chunks.put(chunk_key(*content, number), "chunk").unwrap());
            families.chunks.put(reclaim_key(*content), reclaim_value(chunks)).unwrap();
        }
    }

    fn records(families: &Families) -> (usize, usize) {
        (families.chunks.range(all_chunks()).count(), families.chunks.range(all_reclaims()).count())
    }

    #[test]
    fn recorded_contents_go_and_others_stay() {
        let families = Families::open(&Db::memory().unwrap(), "files").unwrap();
        recorded(&families, &[1, 16, 17, 40]);
        families.chunks.put(chunk_key(2, 0), "chunk").unwrap();
        families.chunks.put(chunk_key(18, 0), "chunk").unwrap();
        let reclaimer = Reclaimer::load(&families).unwrap();
        assert_eq!((reclaimer.waiting(), records(&families)), (4, (76, 4)));
        assert_eq!(reclaimer.step(&families).unwrap(), 4);
        assert_eq!((reclaimer.waiting(), records(&families)), (0, (2, 0)));
        assert_eq!(reclaimer.step(&families).unwrap(), 0);
    }

    #[test]
    fn a_pinned_content_waits_for_its_last_pin() {
        let families = Families::open(&Db::memory().unwrap(), "files").unwrap();
        recorded(&families, &[3]);
        let reclaimer = Reclaimer::load(&families).unwrap();
        let pins = (reclaimer.pin(3), reclaimer.pin(3));
        assert_eq!(reclaimer.step(&families).unwrap(), 0);
        drop(pins.0);
        assert_eq!(reclaimer.step(&families).unwrap(), 0);
        drop(pins.1);
        assert_eq!(reclaimer.step(&families).unwrap(), 1);
        assert_eq!(records(&families), (0, 0));
    }

    #[test]
    fn what_cannot_be_deleted_waits() {
        let db = Db::memory().unwrap();
        let families = Families::open(&db, "files").unwrap();
        recorded(&families, &[3]);
        let reclaimer = Reclaimer::load(&families).unwrap();
        db.close().unwrap();
        assert!(reclaimer.step(&families).is_err());
        assert_eq!(reclaimer.waiting(), 1);
    }
}
