//! Generalized requests: operations of the program's own that it waits for like any other.
//!
//! The program's functions are called outside the transport's door, so they may call MPI.

use crate::boundary::{Callback, Status};
use std::sync::atomic::{AtomicBool, Ordering};

/// The program's functions for a request, and whether it has said that the operation has ended.
#[derive(Debug)]
pub(crate) struct General {
    query: Callback,
    free: Callback,
    cancel: Callback,
    extra: usize,
    done: AtomicBool,
    /// The program has let go of the handle before the operation had ended.
    let_go: AtomicBool,
}

impl General {
    /// An operation under way.
    pub fn new(query: Callback, free: Callback, cancel: Callback, extra: usize) -> General {
        General { query, free, cancel, extra, done: AtomicBool::new(false), let_go: AtomicBool::new(false) }
    }

    /// Whether the program has said that it has ended.
    pub fn is_done(&self) -> bool {
        // SYNC done: pairs with the Release in complete.
        self.done.load(Ordering::Acquire)
    }

    /// The program says that it has ended.
    pub fn complete(&self) {
        // SYNC done: pairs with the Acquire in is_done.
        self.done.store(true, Ordering::Release);
    }

    /// Asks the program for the status; also its error code.
    pub fn status(&self) -> (Status, i32) {
        let mut status = Status::EMPTY;
        let code = self.query.query(self.extra, &mut status);
        (status, code)
    }

    /// The program lets go of the handle before the operation has ended: whose state it is lives on until then.
    pub fn let_go(&self) {
        // SYNC let_go: read by the thread that ends the operation, which the program orders after this call.
        self.let_go.store(true, Ordering::Release);
    }

    /// Whether it has.
    pub fn is_let_go(&self) -> bool {
        // SYNC let_go: pairs with the Release in let_go.
        self.let_go.load(Ordering::Acquire)
    }

    /// Tells the program that nobody has a handle any more; its error code.
    pub fn forget(&self) -> i32 {
        self.free.free(self.extra)
    }

    /// Asks the program to give up; its error code.
    pub fn cancel(&self) -> i32 {
        self.cancel.cancel(self.extra, self.is_done())
    }
}
