//! Lanes: threads of the store's own, for work that may wait.
//!
//! In:    work, from tasks that must not wait. Out: its answer, to whoever polls for it.
//! Holds: a lane has threads only while it has work, and some idle seconds longer; it never asks what runtime polls it. Work that was begun or
//!        queued is done, whether or not anybody still waits for it: a future that is dropped only loses the answer.
//! Fails: a panic of the work goes on in the task that waits for it. Where the system gives no thread, the caller's own does the work: late
//!        is better than never.

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

/// How long a thread without work stays.
const IDLE: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

/// How a thread of this name and life is had.
type Spawn = fn(&str, Job) -> io::Result<()>;

/// A queue of work and the threads that do it, in the order in which it came.
pub(super) struct Lane {
    shared: Arc<Shared>,
}

struct Shared {
    name: &'static str,
    spawn: Spawn,
    /// Threads at most.
    most: usize,
    queue: Mutex<Queue>,
    work: Condvar,
    /// Nobody will add work any more. Not in the queue: whoever sets it may be a child of a fork, where a lock can be held for ever.
    ended: AtomicBool,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    /// Threads that wait for work.
    idle: usize,
}

impl Lane {
    /// A lane without threads.
    pub(super) fn new(name: &'static str, most: usize) -> Lane {
        Lane::of(name, most, |name, life| spawn(name, false, life).map(drop))
    }

    fn of(name: &'static str, most: usize, spawn: Spawn) -> Lane {
        let (queue, work, ended) = (Mutex::default(), Condvar::new(), AtomicBool::new(false));
        Lane { shared: Arc::new(Shared { name, spawn, most, queue, work, ended }) }
    }

    /// Begins some work; what it answers comes by `Told`, or goes with it.
    pub(super) fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Told<T> {
        let (tell, told) = oneshot::channel();
        self.shared.start(Box::new(move || {
            let _ = tell.send(catch_unwind(AssertUnwindSafe(work))); // nobody may be waiting any more
        }));
        Told(told)
    }
}

impl Lane {
    /// Lets idle threads end now. Later work gets a thread that ends with it.
    pub(super) fn end(&self) {
        self.shared.ended.store(true, Ordering::Release);
        drop(lock(&self.shared.queue)); // a thread that has just looked is asleep by now
        self.shared.work.notify_all();
    }
}

impl Drop for Lane {
    /// Takes no lock, which a child of a fork might wait for without end.
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        self.shared.work.notify_all();
    }
}

impl Shared {
    fn start(self: &Arc<Shared>, job: Job) {
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

    /// No thread was to be had. If there are none at all, others may have left work to the one that did not come.
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

    /// The life of a thread.
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

/// The answer of work that was begun, once it is there.
#[must_use = "the work goes on without it, and nobody hears how it ended"]
pub(super) struct Told<T>(oneshot::Receiver<Result<T, Box<dyn Any + Send>>>);

impl<T> Future for Told<T> {
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
        let lane = Lane::new("test", 3);
        assert_eq!(lane.run(|| 1).await, 1);
        while lock(&lane.shared.queue).idle == 0 {
            std::thread::yield_now(); // it has answered, and is about to wait for more
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
        let lane = Lane::new("test", 1);
        let (tell, told) = oneshot::channel();
        let (open, gate) = mpsc::channel::<()>();
        drop(lane.run(move || gate.recv().unwrap()));
        drop(lane.run(move || tell.send("done").unwrap())); // queued behind
        drop(lane);
        open.send(()).unwrap();
        assert_eq!(told.await, Ok("done"));
    }

    #[tokio::test]
    async fn a_panic_goes_on_where_it_is_waited_for_and_the_lane_lives() {
        let lane = Lane::new("test", 1);
        let told = lane.run(|| if lane_is_to_panic() { panic!("expected by the test") } else { 0 });
        let outcome = tokio::spawn(told).await;
        assert!(outcome.unwrap_err().is_panic());
        assert_eq!(lane.run(|| 3).await, 3);
    }

    fn lane_is_to_panic() -> bool {
        true
    }

    #[tokio::test]
    async fn without_a_thread_the_caller_does_the_work() {
        let lane = Lane::of("test", 1, |_, _| Err(io::ErrorKind::WouldBlock.into()));
        let caller = std::thread::current().id();
        for _ in 0..3 {
            assert_eq!(lane.run(move || std::thread::current().id()).await, caller);
        }
    }
}
