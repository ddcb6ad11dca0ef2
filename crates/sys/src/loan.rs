//! A loan: lends a value that has a lifetime to code that has none, for the length of a call.
//!
//! A suspended handler is a `'static` future, yet while it is polled it must reach the packet that just arrived, which
//! lives only as long as the dispatch. The dispatcher keeps a [`Lender`]; the future keeps a [`Borrower`]. Within
//! [`Lender::lend`], and only on the thread that lends, [`Borrower::with`] reaches the value. At any other time, on
//! any other thread, and while it is being reached already, `with` finds nothing. No lock, no locked instruction.
//!
//! ```
//! use barewire_sys::loan::{Borrower, Family, Lender};
//! struct Packet;
//! impl Family for Packet {
//!     type Of<'a> = &'a [u8];
//! }
//! // A handler that is kept, and so has no lifetime, reads the packet of the moment.
//! fn handler(packet: Borrower<Packet>) -> Box<dyn Fn() -> Option<usize>> {
//!     Box::new(move || packet.with(|bytes| bytes.len()))
//! }
//! let mut lender = Lender::new();
//! let handle = handler(lender.borrower());
//! assert_eq!(lender.lend(&mut &b"abc"[..], &handle), Some(3));
//! assert_eq!(lender.lend(&mut &b"de"[..], &handle), Some(2));
//! assert_eq!(handle(), None, "nothing is lent between packets");
//! ```

use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A type for every lifetime: how a lender and a borrower name a type without naming its lifetime.
///
/// ```
/// struct Words;
/// impl barewire_sys::loan::Family for Words {
///     type Of<'a> = &'a mut Vec<String>;
/// }
/// ```
pub trait Family: 'static {
    /// The type with its lifetime.
    type Of<'a>;
}

/// The side that lends. There is one, so lending twice at a time cannot happen.
///
/// ```
/// use barewire_sys::loan::{Family, Lender};
/// struct Words;
/// impl Family for Words {
///     type Of<'a> = &'a mut Vec<String>;
/// }
///
/// let mut lender = Lender::<Words>::new();
/// let borrower = lender.borrower();
/// let add = move || borrower.with(|words| words.push("hello".to_owned())); // has no lifetime
/// let mut words = Vec::new();
/// assert_eq!(add(), None);
/// lender.lend(&mut &mut words, || assert_eq!(add(), Some(())));
/// assert_eq!(add(), None);
/// assert_eq!(words, ["hello"]);
/// ```
#[derive(Debug)]
pub struct Lender<F: Family>(Arc<Slot<F>>);

/// The side that borrows, any number of times.
///
/// ```
/// use barewire_sys::loan::{Family, Lender};
/// # struct Number;
/// # impl Family for Number {
/// #     type Of<'a> = &'a mut u32;
/// # }
/// let mut lender = Lender::<Number>::new();
/// let first = lender.borrower();
/// let second = first.clone();
/// let mut number = 1;
/// lender.lend(&mut &mut number, || {
///     first.with(|number| **number += 10);
///     second.with(|number| **number *= 2);
/// });
/// assert_eq!(number, 22, "both reach the same value");
/// ```
#[derive(Debug)]
pub struct Borrower<F: Family>(Arc<Slot<F>>);

impl<F: Family> Clone for Borrower<F> {
    fn clone(&self) -> Borrower<F> {
        Borrower(Arc::clone(&self.0))
    }
}

#[derive(Debug)]
struct Slot<F> {
    /// The thread that may reach the value now; [`NOBODY`] if there is none, or if it is being reached.
    thread: AtomicU64,
    /// The value. Only the thread named above touches this cell, and the lender's before it names itself.
    value: UnsafeCell<NonNull<()>>,
    family: PhantomData<fn(F)>,
}

// SAFETY: the slot owns no value, only a place for a pointer. `value` is touched by the lender, of which there is one and
// which `lend` borrows exclusively, and by a borrower on the very thread that is inside `lend` (see `Borrower::with`).
unsafe impl<F> Send for Slot<F> {}
// SAFETY: as above: other threads read only `thread`, which is atomic.
unsafe impl<F> Sync for Slot<F> {}

impl<F: Family> Default for Lender<F> {
    fn default() -> Lender<F> {
        Lender::new()
    }
}

impl<F: Family> Lender<F> {
    /// A lender with nothing lent.
    ///
    /// ```
    /// use barewire_sys::loan::{Family, Lender};
    /// # struct Number;
    /// # impl Family for Number {
    /// #     type Of<'a> = &'a mut u32;
    /// # }
    /// let lender = Lender::<Number>::new();
    /// assert_eq!(lender.borrower().with(|number| **number), None);
    /// ```
    pub fn new() -> Lender<F> {
        Lender(Arc::new(Slot {
            thread: AtomicU64::new(NOBODY),
            value: UnsafeCell::new(NonNull::dangling()),
            family: PhantomData,
        }))
    }

    /// A handle that reaches whatever is lent.
    ///
    /// ```
    /// use barewire_sys::loan::{Family, Lender};
    /// # struct Number;
    /// # impl Family for Number {
    /// #     type Of<'a> = &'a mut u32;
    /// # }
    /// let mut lender = Lender::<Number>::new();
    /// let before = lender.borrower();
    /// assert_eq!(lender.lend(&mut &mut 5, || before.with(|number| **number)), Some(5));
    /// drop(lender);
    /// assert_eq!(before.with(|number| **number), None, "it may outlive the lender");
    /// ```
    pub fn borrower(&self) -> Borrower<F> {
        Borrower(Arc::clone(&self.0))
    }

    /// Lends `value` to the borrowers on this thread while `body` runs.
    ///
    /// ```
    /// use barewire_sys::loan::{Family, Lender};
    /// # struct Line;
    /// # impl Family for Line {
    /// #     type Of<'a> = &'a mut String;
    /// # }
    /// let mut lender = Lender::<Line>::new();
    /// let borrower = lender.borrower();
    /// let mut line = String::from("one");
    /// let len = lender.lend(&mut &mut line, || borrower.with(|line| { line.push_str(" more"); line.len() }));
    /// assert_eq!((len, &*line), (Some(8), "one more"));
    /// ```
    #[inline]
    pub fn lend<R>(&mut self, value: &mut F::Of<'_>, body: impl FnOnce() -> R) -> R {
        let slot = &*self.0;
        // SAFETY: nothing is lent, as `lend` borrows the only lender exclusively and revokes before it returns; so no
        // borrower on any thread passes the check in `with`, and nobody else touches the cell.
        unsafe { *slot.value.get() = NonNull::from(value).cast() };
        let _revoked_at_end = Restore { slot, thread: NOBODY };
        // SYNC loan: read back only by this same thread; every other thread just sees a number that is not its own.
        slot.thread.store(this_thread(), Ordering::Relaxed);
        body()
    }
}

impl<F: Family> Borrower<F> {
    /// Runs `body` on the value that is lent on this thread, if there is one and nobody is at it already.
    ///
    /// ```
    /// use barewire_sys::loan::{Family, Lender};
    /// # struct Number;
    /// # impl Family for Number {
    /// #     type Of<'a> = &'a mut u32;
    /// # }
    /// let mut lender = Lender::<Number>::new();
    /// let borrower = lender.borrower();
    /// lender.lend(&mut &mut 5, || {
    ///     assert_eq!(borrower.with(|_| borrower.with(|_| ())), Some(None), "one at a time");
    ///     std::thread::scope(|scope| scope.spawn(|| assert!(borrower.with(|_| ()).is_none(), "not lent there")).join()).unwrap();
    /// });
    /// ```
    #[inline]
    pub fn with<R>(&self, body: impl for<'a> FnOnce(&mut F::Of<'a>) -> R) -> Option<R> {
        let slot = &*self.0;
        let me = this_thread();
        // SYNC loan: our own number can only have been stored by this thread, by `lend` or at the end of `with`, and both
        // take it away again before they are left. Numbers are never used twice. So it is here only inside `lend`.
        if slot.thread.load(Ordering::Relaxed) != me {
            return None;
        }
        // SYNC loan: as above. Until it is restored, a nested `with` finds nothing, so `body` has the value to itself.
        slot.thread.store(NOBODY, Ordering::Relaxed);
        let _lent_again_at_end = Restore { slot, thread: me };
        // SAFETY: this thread is inside `lend`, by the check above, and wrote the cell there. The pointer was made from an
        // exclusive borrow that lasts as long as that `lend`, which cannot return before this call does, and that nobody
        // uses meanwhile. `Of` has the same layout for every lifetime, and `body` works for every one, so also for the
        // value's true one.
        Some(body(unsafe { (*slot.value.get()).cast::<F::Of<'_>>().as_mut() }))
    }
}

/// Sets who may reach the value when it is dropped, also by a panic.
struct Restore<'a, F> {
    slot: &'a Slot<F>,
    thread: u64,
}

impl<F> Drop for Restore<'_, F> {
    #[inline(always)]
    fn drop(&mut self) {
        // SYNC loan: see `Borrower::with`.
        self.slot.thread.store(self.thread, Ordering::Relaxed);
    }
}

/// The number of no thread.
const NOBODY: u64 = 0;

/// This thread's number, which no other thread has or will have.
///
/// ```
/// use barewire_sys::loan::this_thread;
/// let here = this_thread();
/// let there = std::thread::spawn(this_thread).join().unwrap();
/// assert!(here != there && here == this_thread());
/// ```
#[inline(always)]
pub fn this_thread() -> u64 {
    thread_local!(static NUMBER: Cell<u64> = const { Cell::new(NOBODY) });
    #[cold]
    fn new_number() -> u64 {
        static LAST: AtomicU64 = AtomicU64::new(NOBODY);
        // SYNC numbers: only their being different matters.
        LAST.fetch_add(1, Ordering::Relaxed) + 1
    }
    NUMBER.with(|number| {
        if number.get() == NOBODY {
            number.set(new_number());
        }
        number.get()
    })
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    struct Text;

    impl Family for Text {
        type Of<'a> = &'a mut String;
    }

    #[test]
    fn a_value_is_reached_once_at_a_time_and_only_while_it_is_lent() {
        let mut lender = Lender::<Text>::new();
        let one = lender.borrower();
        let two = one.clone();
        let mut text = String::new();
        lender.lend(&mut &mut text, || {
            let nested = one.with(|text| {
                text.push('a');
                two.with(|text| text.push('x'))
            });
            assert_eq!(nested, Some(None));
            assert_eq!(two.with(|text| text.push('b')), Some(()));
        });
        assert_eq!(one.with(|text| text.push('x')), None);
        assert_eq!(text, "ab");
    }

    #[test]
    fn another_thread_finds_nothing() {
        let mut lender = Lender::<Text>::new();
        let borrower = lender.borrower();
        let mut text = String::new();
        lender.lend(&mut &mut text, || {
            std::thread::scope(|scope| {
                let there = scope.spawn(|| borrower.with(|text| text.push('x')));
                assert_eq!(there.join().unwrap(), None);
            });
            assert!(borrower.with(|_| {}).is_some());
        });
    }

    #[test]
    fn a_panic_ends_the_loan_and_the_reach() {
        let mut lender = Lender::<Text>::new();
        let borrower = lender.borrower();
        let mut text = String::new();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            lender.lend(&mut &mut text, || {
                let reach = AssertUnwindSafe(|| borrower.with(|_| panic!("in the middle")));
                assert!(catch_unwind(reach).is_err());
                assert!(borrower.with(|_| {}).is_some(), "lent again after the inner panic");
                panic!("and at the end");
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(borrower.with(|_| {}), None);
    }

    #[test]
    fn a_lender_moves_between_threads() {
        let mut lender = Lender::<Text>::new();
        let borrower = lender.borrower();
        let mut text = String::new();
        lender.lend(&mut &mut text, || borrower.with(|text| text.push('a')));
        std::thread::scope(|scope| {
            let (lender, borrower, text) = (&mut lender, &borrower, &mut text);
            scope.spawn(move || lender.lend(&mut &mut *text, || borrower.with(|text| text.push('b'))));
        });
        assert_eq!(text, "ab");
    }
}
