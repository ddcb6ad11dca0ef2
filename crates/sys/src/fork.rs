//! Fork detection: a page that the kernel wipes in the child.
//!
//! An endpoint's rings have exactly one producer and one consumer; after `fork` there would be two of each. The check is one load.
//!
//! ```
//! let guard = barewire_sys::fork::Guard::new();
//! // SAFETY: the child looks at the guard and ends; it runs nothing else of this program.
//! let child = unsafe { libc::fork() };
//! if child == 0 {
//!     // SAFETY: as above.
//!     unsafe { libc::_exit(i32::from(guard.is_parent())) }
//! }
//! let mut status = -1;
//! // SAFETY: writes the status of our own child to our own variable.
//! unsafe { libc::waitpid(child, &raw mut status, 0) };
//! assert_eq!(status, 0, "the child knows that it is one");
//! assert!(guard.is_parent());
//! ```

use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags};

const PARENT: u64 = 0x7772_6962_6172_6577;
/// What is looked at where the kernel cannot wipe pages on fork.
static NEVER_WIPED: u64 = PARENT;

/// Tells the process that made it from a forked child.
///
/// ```
/// assert!(barewire_sys::fork::Guard::new().is_parent());
/// ```
#[derive(Debug)]
pub struct Guard {
    /// Zero in a child. [`NEVER_WIPED`] where the kernel cannot wipe pages on fork; then nothing is detected.
    page: NonNull<u64>,
}

// SAFETY: the page is private to the guard and only ever read after `new`.
unsafe impl Send for Guard {}
// SAFETY: as above.
unsafe impl Sync for Guard {}

impl Guard {
    /// A guard for the calling process.
    ///
    /// ```
    /// use barewire_sys::fork::Guard;
    /// let (one, other) = (Guard::new(), Guard::new());
    /// drop(one);
    /// assert!(other.is_parent(), "each has a page of its own");
    /// ```
    pub fn new() -> Guard {
        let bytes = rustix::param::page_size();
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh private mapping aliases nothing; the first word is written before anybody reads it.
        let page = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, prot, MapFlags::PRIVATE).ok().and_then(
                |at| {
                    let kept = rustix::mm::madvise(at, bytes, Advice::LinuxWipeOnFork);
                    kept.ok().and(NonNull::new(at.cast::<u64>()))
                },
            )
        };
        if let Some(page) = page {
            // SAFETY: just mapped, writable, aligned.
            unsafe { page.as_ptr().write_volatile(PARENT) };
        }
        Guard { page: page.unwrap_or(NonNull::from(&NEVER_WIPED)) }
    }

    /// False in a child forked after the guard was made.
    ///
    /// ```
    /// let guard = barewire_sys::fork::Guard::new();
    /// let in_a_thread = std::thread::scope(|scope| scope.spawn(|| guard.is_parent()).join());
    /// assert!(in_a_thread.unwrap(), "a thread is no child");
    /// ```
    #[inline(always)]
    pub fn is_parent(&self) -> bool {
        // SAFETY: the page is mapped until drop; volatile, because the kernel changes it behind the compiler's back.
        unsafe { self.page.as_ptr().read_volatile() != 0 }
    }
}

impl Default for Guard {
    fn default() -> Guard {
        Guard::new()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.page != NonNull::from(&NEVER_WIPED) {
            // SAFETY: our own mapping of one page, never lent out.
            let _ = unsafe { rustix::mm::munmap(self.page.as_ptr().cast(), rustix::param::page_size()) };
        }
    }
}
