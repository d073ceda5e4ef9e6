//! Lanes: the store's own thread pools, for work that may block.
//!
//! In:    jobs, from tasks that must not block. Out: a future for each job's result.
//! Holds: a lane has threads only while it has jobs, and for `IDLE` longer; lanes do not depend on the caller's async
//!        runtime. Every job that was started or queued runs to its end, even if its future is dropped; dropping the
//!        future only discards the result.
//! Fails: a panic of a job resumes in the task that waits for it. If the system cannot create a thread, the caller's
//!        thread runs the job, so that it is late but not lost.

use std::any::Any;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::oneshot;
use waxseal_lsm::env::work::{lock, spawn};

/// How long an idle thread waits for a job before it ends.
const IDLE: Duration = Duration::from_secs(10);

type LaneJob = Box<dyn FnOnce() + Send>;

/// Starts a thread with this name and body.
type Spawn = fn(&str, LaneJob) -> io::Result<()>;

/// A FIFO queue of jobs and the threads that run them.
pub(super) struct JobLane {
    shared: Arc<LaneShared>,
}

struct LaneShared {
    name: &'static str,
    spawn: Spawn,
    /// Maximum number of threads.
    most: usize,
    queue: Mutex<JobQueue>,
    work: Condvar,
    /// No more jobs will be added. Kept outside the queue's mutex: in a forked child, that mutex may be locked forever.
    ended: AtomicBool,
}

#[derive(Default)]
struct JobQueue {
    jobs: VecDeque<LaneJob>,
    threads: usize,
    /// Threads that wait for a job.
    idle: usize,
}

impl JobLane {
    /// Creates a lane without threads.
    pub(super) fn new(name: &'static str, most: usize) -> JobLane {
        JobLane::of(name, most, |name, life| spawn(name, false, life).map(drop))
    }

    fn of(name: &'static str, most: usize, spawn: Spawn) -> JobLane {
        let (queue, work, ended) = (Mutex::default(), Condvar::new(), AtomicBool::new(false));
        JobLane { shared: Arc::new(LaneShared { name, spawn, most, queue, work, ended }) }
    }

    /// Starts a job. Its result is delivered through `JobResult`, or discarded if that is dropped.
    pub(super) fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> JobResult<T> {
        let (sender, receiver) = oneshot::channel();
        self.shared.start(Box::new(move || {
            let _ = sender.send(catch_unwind(AssertUnwindSafe(work))); // the receiver may have been dropped
        }));
        JobResult(receiver)
    }
}

impl JobLane {
    /// Lets idle threads end now. A later job starts a thread that ends with it.
    pub(super) fn end(&self) {
        self.shared.ended.store(true, Ordering::Release);
        drop(lock(&self.shared.queue)); // a thread that saw `ended` unset now waits on the condition variable
        self.shared.work.notify_all();
    }
}

impl Drop for JobLane {
    /// Takes no lock, because in a forked child the wait for it might never end.
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        self.shared.work.notify_all();
    }
}

impl LaneShared {
    fn start(self: &Arc<LaneShared>, job: LaneJob) {
        let mut queue = lock(&self.queue);
        queue.jobs.push_back(job);
        if queue.jobs.len() <= queue.idle || queue.threads == self.most {
            drop(queue);
            self.work.notify_one();
            return;
        }
        queue.threads += 1;
        drop(queue);
        let shared = self.clone();
        if (self.spawn)(self.name, Box::new(move || shared.serve())).is_err() {
            self.do_without();
        }
    }

    /// Handles the failure to start a thread. If the lane has no thread at all, this thread runs the queued jobs: other
    /// callers may have relied on the thread that failed to start.
    #[cold]
    fn do_without(&self) {
        let next = || {
            let mut queue = lock(&self.queue);
            if queue.threads == 0 { queue.jobs.pop_front() } else { None }
        };
        lock(&self.queue).threads -= 1;
        while let Some(job) = next() {
            job();
        }
    }

    /// The main loop of a thread.
    fn serve(&self) {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                drop(queue);
                job();
                queue = lock(&self.queue);
                continue;
            }
            if self.ended.load(Ordering::Acquire) {
                break;
            }
            queue.idle += 1;
            let (woken, time) = self.work.wait_timeout(queue, IDLE).unwrap_or_else(PoisonError::into_inner);
            queue = woken;
            queue.idle -= 1;
            if time.timed_out() && queue.jobs.is_empty() {
                break;
            }
        }
        queue.threads -= 1;
    }
}

/// The future of a job's result.
#[must_use = "the work goes on without it, and nobody hears how it ended"]
pub(super) struct JobResult<T>(oneshot::Receiver<Result<T, Box<dyn Any + Send>>>);

impl<T> Future for JobResult<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        match ready!(Pin::new(&mut self.0).poll(context)) {
            Ok(Ok(answer)) => Poll::Ready(answer),
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => panic!("a lane lost work that it took"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;

    #[tokio::test]
    async fn a_lane_has_as_many_threads_as_it_has_work_for_and_no_more() {
        let lane = JobLane::new("test", 3);
        assert_eq!(lane.run(|| 1).await, 1);
        while lock(&lane.shared.queue).idle == 0 {
            std::thread::yield_now(); // the job is done, and the thread is about to wait for the next
        }
        assert_eq!(lane.run(|| 2).await, 2);
        assert_eq!(lock(&lane.shared.queue).threads, 1);

        let (open, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let done = Arc::new(AtomicUsize::new(0));
        let jobs: Vec<_> = (0..10)
            .map(|_| {
                let (gate, done) = (gate.clone(), done.clone());
                lane.run(move || {
                    lock(&gate).recv().unwrap();
                    done.fetch_add(1, Ordering::Relaxed);
                })
            })
            .collect();
        assert_eq!(lock(&lane.shared.queue).threads, 3);
        (0..10).for_each(|_| open.send(()).unwrap());
        for job in jobs {
            job.await;
        }
        assert_eq!(done.load(Ordering::Relaxed), 10);
    }

    #[tokio::test]
    async fn what_was_begun_is_done_although_nobody_waits_for_it() {
        let lane = JobLane::new("test", 1);
        let (sender, receiver) = oneshot::channel();
        let (open, gate) = mpsc::channel::<()>();
        drop(lane.run(move || gate.recv().unwrap()));
        drop(lane.run(move || sender.send("done").unwrap())); // queued behind the first job
        drop(lane);
        open.send(()).unwrap();
        assert_eq!(receiver.await, Ok("done"));
    }

    #[tokio::test]
    async fn a_panic_goes_on_where_it_is_waited_for_and_the_lane_lives() {
        let lane = JobLane::new("test", 1);
        let receiver = lane.run(|| if lane_is_to_panic() { panic!("expected by the test") } else { 0 });
        let outcome = tokio::spawn(receiver).await;
        assert!(outcome.unwrap_err().is_panic());
        assert_eq!(lane.run(|| 3).await, 3);
    }

    fn lane_is_to_panic() -> bool {
        true
    }

    #[tokio::test]
    async fn without_a_thread_the_caller_does_the_work() {
        let lane = JobLane::of("test", 1, |_, _| Err(io::ErrorKind::WouldBlock.into()));
        let caller = std::thread::current().id();
        for _ in 0..3 {
            assert_eq!(lane.run(move || std::thread::current().id()).await, caller);
        }
    }
}
