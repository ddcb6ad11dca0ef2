//! A loan: lends a value that has a lifetime to code that has none, for the length of a call.
//!
//! A suspended handler is a `'static` future, yet while it is polled it must reach the packet that just arrived, which
//! lives only as long as the dispatch. The dispatcher keeps a [`Lender`]; the future keeps a [`Borrower`]. Within
//! [`Lender::lend`], and only on the thread that lends, [`Borrower::with`] reaches the value. At any other time, on
//! any other thread, and while it is being reached already, `with` finds nothing. Nothing is shared between threads: no lock, no
//! locked instruction, and a borrower is a number.
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

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
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
pub struct Lender<F: Family>(Borrower<F>);

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
pub struct Borrower<F: Family> {
    /// The lender's number, never used for another.
    lender: u64,
    family: PhantomData<fn(F)>,
}

impl<F: Family> Clone for Borrower<F> {
    fn clone(&self) -> Borrower<F> {
        *self
    }
}

impl<F: Family> Copy for Borrower<F> {}

impl<F: Family> fmt::Debug for Borrower<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Borrower").field(&self.lender).finish()
    }
}

/// One loan on this thread's stack, from when [`Lender::lend`] begins until it ends.
struct Loan {
    /// The lender; [`NOBODY`] while the value is being reached.
    lender: Cell<u64>,
    value: NonNull<()>,
    /// The loan within which this one was made.
    outer: Cell<*const Loan>,
}

thread_local!(static INNERMOST: Cell<*const Loan> = const { Cell::new(ptr::null()) });

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
        Lender(Borrower { lender: new_number(), family: PhantomData })
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
        self.0
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
        let loan = Loan {
            lender: Cell::new(self.0.lender),
            value: NonNull::from(value).cast(),
            outer: Cell::new(INNERMOST.get()),
        };
        INNERMOST.set(&raw const loan);
        let _revoked_at_end = Revoke(&loan);
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
        let mut at = INNERMOST.get();
        let loan = loop {
            // SAFETY: the list of this thread's loans, each of which lies in the frame of a `lend` that has not ended: `Revoke` takes it off
            // the list before that frame is gone, also when it is unwound, and no other thread has a pointer to any of them.
            let loan = unsafe { at.as_ref() }?;
            if loan.lender.get() == self.lender {
                break loan;
            }
            at = loan.outer.get();
        };
        // Until it is restored, a nested `with` finds nothing, so `body` has the value to itself.
        loan.lender.set(NOBODY);
        let _lent_again_at_end = Restore { loan, lender: self.lender };
        // SAFETY: the pointer was made by `lend` from an exclusive borrow that lasts as long as that call, which cannot return before this one
        // does, as it is further down on this thread's stack, and nobody else uses it meanwhile. A number belongs to one lender, so the value is of
        // its family; `Of` has the same layout for every lifetime, and `body` works for every one, so also for the value's true one.
        Some(body(unsafe { loan.value.cast::<F::Of<'_>>().as_mut() }))
    }
}

/// Takes a loan off the list.
struct Revoke<'a>(&'a Loan);

impl Drop for Revoke<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        match ptr::eq(INNERMOST.get(), self.0) {
            true => INNERMOST.set(self.0.outer.get()),
            false => unlink(self.0),
        }
    }
}

/// Takes a loan off the list that is not the innermost: somebody has several stacks on this thread, and they end in another order.
#[cold]
fn unlink(ended: &Loan) {
    let mut at = INNERMOST.get();
    // SAFETY: as in `Borrower::with`.
    while let Some(loan) = unsafe { at.as_ref() } {
        if ptr::eq(loan.outer.get(), ended) {
            loan.outer.set(ended.outer.get());
        }
        at = loan.outer.get();
    }
}

/// Lets a value be reached again.
struct Restore<'a> {
    loan: &'a Loan,
    lender: u64,
}

impl Drop for Restore<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.loan.lender.set(self.lender);
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
    NUMBER.with(|number| {
        if number.get() == NOBODY {
            number.set(new_number());
        }
        number.get()
    })
}

#[cold]
fn new_number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(NOBODY);
    // SYNC numbers: only their being different matters.
    LAST.fetch_add(1, Ordering::Relaxed) + 1
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
        let two = one;
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
    fn loans_within_loans_are_each_reached_by_their_own() {
        let (mut outer, mut inner) = (Lender::<Text>::new(), Lender::<Text>::new());
        let (to_outer, to_inner) = (outer.borrower(), inner.borrower());
        let (mut a, mut b) = (String::new(), String::new());
        outer.lend(&mut &mut a, || {
            assert_eq!(to_inner.with(|_| {}), None);
            inner.lend(&mut &mut b, || {
                to_outer.with(|text| text.push('o'));
                to_inner.with(|text| text.push('i'));
                to_inner.with(|text| to_outer.with(|outer| outer.push_str(text)));
            });
            assert_eq!(to_inner.with(|_| {}), None);
            to_outer.with(|text| text.push('!'));
        });
        assert_eq!((a.as_str(), b.as_str()), ("oi!", "i"));
    }

    #[test]
    fn a_loan_that_ends_before_those_within_it_leaves_them_alone() {
        let value = NonNull::<()>::dangling();
        let loan = |lender, outer| Loan { lender: Cell::new(lender), value, outer: Cell::new(outer) };
        let first = loan(1, INNERMOST.get());
        let second = loan(2, &raw const first);
        let third = loan(3, &raw const second);
        INNERMOST.set(&raw const third);
        drop(Revoke(&second));
        assert!(ptr::eq(INNERMOST.get(), &third) && ptr::eq(third.outer.get(), &first));
        drop(Revoke(&first));
        assert!(third.outer.get().is_null());
        drop(Revoke(&third));
        assert!(INNERMOST.get().is_null());
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
