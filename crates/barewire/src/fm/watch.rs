//! Watching descriptors for async code that has nobody else to do it: one thread for the process, asleep in an epoll.

use std::collections::HashMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use barewire_sys::fork::Guard;
use barewire_sys::rustix::buffer::spare_capacity;
use barewire_sys::rustix::event::epoll::{self, EventData, EventFlags};

/// One watched descriptor.
#[derive(Debug)]
pub(super) struct Watch {
    fd: OwnedFd,
    token: u64,
    watcher: &'static Watcher,
}

impl Watch {
    /// Watches `fd`, from the first [`Watch::wake_when_readable`] on.
    pub fn new(fd: BorrowedFd<'_>) -> io::Result<Watch> {
        let fd = fd.try_clone_to_owned()?;
        let watcher = Watcher::of_this_process()?;
        let token = watcher.waiting().next_token();
        epoll::add(&watcher.epoll, &fd, EventData::new_u64(token), EventFlags::empty())?;
        Ok(Watch { fd, token, watcher })
    }

    /// Wakes `waker` once, when the descriptor is readable, at once if it is so already.
    pub fn wake_when_readable(&self, waker: &Waker) -> io::Result<()> {
        self.watcher.waiting().wakers.insert(self.token, waker.clone());
        let flags = EventFlags::IN | EventFlags::ONESHOT;
        Ok(epoll::modify(&self.watcher.epoll, &self.fd, EventData::new_u64(self.token), flags)?)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // It is in the epoll until now; if that should fail, a wake with no waker is no harm.
        let _ = epoll::delete(&self.watcher.epoll, &self.fd);
        self.watcher.waiting().wakers.remove(&self.token);
    }
}

#[derive(Debug)]
struct Watcher {
    guard: Guard,
    epoll: OwnedFd,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    last: u64,
    wakers: HashMap<u64, Waker>,
}

impl Waiting {
    fn next_token(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

impl Watcher {
    /// The watcher of this process, started on first use, and again in a forked child, where threads do not follow.
    fn of_this_process() -> io::Result<&'static Watcher> {
        static WATCHER: Mutex<Option<&'static Watcher>> = Mutex::new(None);
        let mut there = WATCHER.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(watcher) = there.filter(|watcher| watcher.guard.is_parent()) {
            return Ok(watcher);
        }
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let watcher: &'static Watcher =
            Box::leak(Box::new(Watcher { epoll, waiting: Mutex::default(), guard: Guard::new() }));
        std::thread::Builder::new().name("barewire-watch".to_owned()).spawn(|| watcher.run())?;
        *there = Some(watcher);
        Ok(watcher)
    }

    fn run(&self) {
        let mut events = Vec::with_capacity(64);
        loop {
            events.clear();
            if epoll::wait(&self.epoll, spare_capacity(&mut events), None).is_err() {
                continue;
            }
            for event in &events {
                let waker = self.waiting().wakers.remove(&event.data.u64());
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
