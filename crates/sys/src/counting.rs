//! An allocator that counts: for tests that show that a path allocates nothing.
//!
//! ```
//! use barewire_sys::counting::Counting;
//! #[global_allocator]
//! static COUNTING: Counting = Counting::new();
//! let mut bytes = Vec::with_capacity(100);
//! assert_eq!(COUNTING.during(|| bytes.extend([7u8; 100])), 0, "there was room");
//! assert_eq!(COUNTING.during(|| bytes.push(7)), 1, "and now there was none");
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts allocations and passes them on to the system's allocator.
///
/// ```
/// use barewire_sys::counting::Counting;
/// #[global_allocator]
/// static COUNTING: Counting = Counting::new();
/// assert_eq!(COUNTING.during(|| drop(std::hint::black_box(vec![1]))), 1);
/// ```
#[derive(Debug)]
pub struct Counting {
    allocations: AtomicU64,
}

impl Counting {
    /// An allocator that has counted nothing yet.
    ///
    /// ```
    /// # use barewire_sys::counting::Counting;
    /// static COUNTING: Counting = Counting::new();
    /// assert_eq!(COUNTING.during(|| drop(vec![1])), 0, "it is not the global one, so it sees nothing");
    /// ```
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Counting {
        Counting { allocations: AtomicU64::new(0) }
    }

    /// Allocations that happen, in any thread, while `body` runs.
    ///
    /// ```
    /// use std::hint::black_box;
    /// # use barewire_sys::counting::Counting;
    /// # #[global_allocator]
    /// # static COUNTING: Counting = Counting::new();
    /// let boxes = COUNTING.during(|| (0..3).for_each(|n| drop(black_box(Box::new(n)))));
    /// assert_eq!(boxes, 3);
    /// assert_eq!(COUNTING.during(|| { black_box([0; 100]); }), 0, "it is on the stack");
    /// ```
    pub fn during(&self, body: impl FnOnce()) -> u64 {
        let before = self.allocations.load(Ordering::Relaxed);
        body();
        self.allocations.load(Ordering::Relaxed) - before
    }
}

// SAFETY: passes everything on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.allocations.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        self.allocations.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}
