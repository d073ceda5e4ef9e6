//! The runtime behind blocking calls.

use std::future::Future;
use std::io;

use tokio::runtime::{Builder, Handle, Runtime};

/// A runtime without threads of its own: requests advance while a call waits.
#[derive(Debug)]
pub(crate) struct BlockingRuntime(Runtime);

impl BlockingRuntime {
    pub(crate) fn new() -> io::Result<BlockingRuntime> {
        Ok(BlockingRuntime(Builder::new_current_thread().enable_all().build()?))
    }

    /// Returns the handle by which tasks join the runtime.
    pub(crate) fn handle(&self) -> &Handle {
        self.0.handle()
    }

    /// Runs a future to its end on this thread.
    pub(crate) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.0.block_on(future)
    }
}
