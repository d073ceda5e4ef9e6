//! What the tests of this binary share: both kinds of runtime, stores behind gates, polls by hand.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use tokio::runtime::{Builder as Runtimes, Runtime};
use waxseal::env::RealFs;
use waxseal::{AsyncDb, Db, Durability, WriteOptions};
use waxseal_testing::gates::{GatedFs, Gates};

pub(crate) fn current_thread() -> Runtime {
    Runtimes::new_current_thread().build().unwrap()
}

pub(crate) fn multi_thread() -> Runtime {
    Runtimes::new_multi_thread().worker_threads(4).build().unwrap()
}

/// Runs a test on both kinds of runtime, each with a directory of its own.
pub(crate) fn on_each<F: Future<Output = ()> + Send + 'static>(test: impl Fn(PathBuf) -> F) {
    for runtime in [current_thread(), multi_thread()] {
        let home = tempfile::tempdir().unwrap();
        let test = test(home.path().join("store"));
        runtime.block_on(runtime.spawn(test)).unwrap(); // as a task, not on the caller's thread
    }
}

pub(crate) fn key(n: usize) -> String {
    format!("key {n:06}")
}

pub(crate) fn synced() -> WriteOptions {
    WriteOptions::new().durability(Durability::Sync)
}

/// A store whose syncs and log writes wait behind gates.
pub(crate) async fn gated(path: &Path) -> (AsyncDb, Gates) {
    let (fs, gates) = GatedFs::new(Arc::new(RealFs));
    (Db::builder(path).fs(Arc::new(fs)).open_async().await.unwrap(), gates)
}

/// True if commits that find room are done by their first poll. Where the file system declines to map the log, lanes do
/// them all.
pub(crate) fn commits_at_once(db: &AsyncDb) -> bool {
    db.metrics().wal.mapped
}

/// Polls once, with a waker that counts.
pub(crate) fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    struct Nobody;
    impl Wake for Nobody {
        fn wake(self: Arc<Self>) {}
    }
    future.poll(&mut Context::from_waker(&Waker::from(Arc::new(Nobody))))
}
