//! Small objects that are sent at the same time.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{Attributes, ObjectStore, PutOptions};
use tokio::task::JoinSet;

use crate::directory::RemoteDirectory;

/// Objects that are sent at the same time, each of at most a part.
const PARALLEL_OBJECTS: usize = 8;

/// Objects that are being sent. They advance while a call of the queue, or another one of its directory, waits.
///
/// Holds at most 8 objects of 8 MiB in memory. Dropped before it is finished, it stops: each of its objects is then whole
/// or absent.
#[derive(Debug)]
pub struct UploadQueue {
    directory: RemoteDirectory,
    tasks: JoinSet<(String, object_store::Result<()>)>,
}

impl UploadQueue {
    /// Returns an empty queue.
    pub fn new(directory: &RemoteDirectory) -> UploadQueue {
        UploadQueue { directory: directory.clone(), tasks: JoinSet::new() }
    }

    /// Adds an object, after others if the queue is full. Errors: those of earlier objects, which are named; this one is
    /// sent nevertheless.
    pub(crate) fn push(&mut self, name: String, bytes: Bytes, attributes: Attributes) -> io::Result<()> {
        let path = self.directory.path(&name)?;
        let room = match self.tasks.len() < PARALLEL_OBJECTS {
            true => Ok(()),
            false => self.wait_for_one(),
        };
        let store = Arc::clone(&self.directory.store);
        self.tasks.spawn_on(send(store, name, path, bytes, attributes), self.directory.runtime.handle());
        room
    }

    /// Waits until all objects are written. Errors: the first of those that failed; the others are written.
    pub fn finish(&mut self) -> io::Result<()> {
        let mut finished = Ok(());
        while !self.tasks.is_empty() {
            finished = finished.and(self.wait_for_one());
        }
        finished
    }

    fn wait_for_one(&mut self) -> io::Result<()> {
        match self.directory.runtime.wait(self.tasks.join_next()) {
            None => Ok(()),
            Some(Ok((name, sent))) => sent.map_err(|error| self.directory.failed(&name, error)),
            Some(Err(error)) => Err(io::Error::other(error)),
        }
    }
}

async fn send(
    store: Arc<dyn ObjectStore>,
    name: String,
    path: Path,
    bytes: Bytes,
    attributes: Attributes,
) -> (String, object_store::Result<()>) {
    let options = PutOptions { attributes, ..PutOptions::default() };
    let sent = store.put_opts(&path, bytes.into(), options).await;
    (name, sent.map(drop))
}
