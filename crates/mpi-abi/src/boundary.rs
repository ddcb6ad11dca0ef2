//! The boundary to C: arguments as C passes them, and the only unsafe code of this crate.
//!
//! Every argument type of an entry point is defined here. A pointer that C passes is wrapped in a type that says what the MPI
//! standard promises about it; its methods check for null and are safe to call because the C caller has made that promise.
//! Such a value comes into being only as an argument of an entry point, or from a [`Scratch`] of ours.
#![allow(non_camel_case_types, reason = "handles carry the names C programs know")]

mod callback;

pub(crate) use callback::Callback;

use barewire::mpi::datatype::{Sink, Source};
use barewire::mpi::error::{Class, Error, Result};
use barewire_sys::userbuf::UserBuf;
use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

/// A handle as C sees it: a number of pointer size that is never followed.
macro_rules! handles {
    ($($name:ident = $null:literal;)*) => {$(
        #[doc = concat!("A handle of C type `", stringify!($name), "`.")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(transparent)]
        pub(crate) struct $name(pub usize);

        impl $name {
            /// The handle of no object.
            pub const NULL: $name = $name($null);
        }
    )*};
}

handles! {
    MPI_Op = 0x20;
    MPI_Comm = 0x100;
    MPI_Group = 0x108;
    MPI_Win = 0x110;
    MPI_File = 0x118;
    MPI_Session = 0x120;
    MPI_Message = 0x128;
    MPI_Info = 0x130;
    MPI_Errhandler = 0x140;
    MPI_Request = 0x180;
    MPI_Datatype = 0x200;
}

/// `MPI_Status`; the private part holds a byte count and the cancelled flag.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Status {
    /// The rank the message came from.
    pub source: c_int,
    /// Its tag.
    pub tag: c_int,
    /// An error code, where a call completes several requests.
    pub error: c_int,
    private: [c_int; 5],
}

const _: () = assert!(size_of::<Status>() == 32);
const _: () = assert!(size_of::<usize>() == 8);

impl Status {
    /// What an operation without a message says: no source, no tag, no bytes.
    pub const EMPTY: Status = Status { source: -1, tag: -2, error: 0, private: [0; 5] };

    /// A message of `bytes` bytes from `source` with `tag`.
    #[inline]
    pub fn new(source: c_int, tag: c_int, bytes: u64) -> Status {
        let mut status = Status { source, tag, ..Status::EMPTY };
        status.set_bytes(bytes as i64);
        status
    }

    /// Bytes received.
    pub fn bytes(&self) -> i64 {
        i64::from(self.private[0] as u32) | i64::from(self.private[1]) << 32
    }

    /// Sets the bytes received.
    pub fn set_bytes(&mut self, bytes: i64) {
        self.private[0] = bytes as c_int;
        self.private[1] = (bytes >> 32) as c_int;
    }

    /// Whether the operation was cancelled.
    pub fn cancelled(&self) -> bool {
        self.private[2] != 0
    }

    /// Sets whether the operation was cancelled.
    pub fn set_cancelled(&mut self, cancelled: bool) {
        self.private[2] = c_int::from(cancelled);
    }
}

fn null(what: &'static str) -> Error {
    Error::new(Class::Arg, what)
}

/// A place for one result.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T: Copy> Out<T> {
    /// Stores the result.
    pub fn put(self, value: T) -> Result<()> {
        if self.0.is_null() {
            return Err(null("a pointer for a result is null"));
        }
        // SAFETY: it is not null, and C promises room for one T; no alignment is assumed.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Stores the result, unless the program did not ask for it.
    pub fn put_wanted(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: it is not null, and C promises room for one T.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// What is there now.
    pub fn get(self) -> Result<T> {
        if self.0.is_null() {
            return Err(null("a pointer to an argument is null"));
        }
        // SAFETY: it is not null, and C promises an initialised T for arguments that are read and written.
        Ok(unsafe { self.0.read_unaligned() })
    }
}

impl Out<Status> {
    /// Stores what a single operation says about itself, unless the program did not ask; its error field stays as it is.
    #[inline]
    pub fn fill(self, status: &Status) {
        if !self.0.is_null() {
            // SAFETY: it is not null, and C promises room for one status.
            unsafe {
                (&raw mut (*self.0).source).write_unaligned(status.source);
                (&raw mut (*self.0).tag).write_unaligned(status.tag);
                (&raw mut (*self.0).private).write_unaligned(status.private);
            }
        }
    }
}

/// A place for the address or word of an attribute, a memory block and the like: C declares it `void *`.
pub(crate) type OutWord = Out<usize>;

/// An array of arguments.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct List<T>(*const T);

impl<T: Copy> List<T> {
    /// A copy of the first `len` entries.
    pub fn to_vec(self, len: i64) -> Result<Vec<T>> {
        if len < 0 {
            return Err(Error::new(Class::Count, format!("an array has {len} entries")));
        }
        if len > 0 && self.0.is_null() {
            return Err(null("a pointer to an array is null"));
        }
        // SAFETY: i < len, and C promises len initialised entries.
        Ok((0..len as usize).map(|i| unsafe { self.0.add(i).read_unaligned() }).collect())
    }
}

impl<T> List<T> {
    /// The address as a number, for arguments some addresses of which have a meaning of their own.
    pub fn address(self) -> usize {
        self.0 as usize
    }
}

impl List<c_int> {
    /// The first `len` entries, widened.
    pub fn wide(self, len: i64) -> Result<Vec<i64>> {
        Ok(self.to_vec(len)?.into_iter().map(i64::from).collect())
    }
}

/// An array for results.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct OutList<T>(*mut T);

impl<T: Copy> OutList<T> {
    /// Stores results from the first entry on.
    pub fn put(self, values: &[T]) -> Result<()> {
        if !values.is_empty() && self.0.is_null() {
            return Err(null("a pointer to an array for results is null"));
        }
        for (i, value) in values.iter().enumerate() {
            // SAFETY: it is not null, and C promises room for as many entries as the call can return.
            unsafe { self.0.add(i).write_unaligned(*value) };
        }
        Ok(())
    }

    /// Stores results, unless the program gave the address that says it does not want them.
    pub fn put_wanted(self, values: &[T], unwanted: usize) -> Result<()> {
        if self.0 as usize == unwanted { Ok(()) } else { self.put(values) }
    }

    /// Whether there is no array.
    #[inline(always)]
    pub fn is_missing(self) -> bool {
        self.0.is_null()
    }

    /// Replaces the entries in `places`, which the caller has found to be in range, one after the other by what `next` makes of them, until it
    /// makes nothing of one; says where that is.
    #[inline(always)]
    pub fn replace_while(
        self,
        places: Range<usize>,
        mut next: impl FnMut(usize, T) -> Option<T>,
    ) -> Result<usize> {
        if self.0.is_null() && !places.is_empty() {
            return Err(null("a pointer to an argument is null"));
        }
        for i in places.clone() {
            let at = self.0.wrapping_add(i);
            // SAFETY: it is not null, and C promises initialised entries of an array that is read and written.
            let Some(new) = next(i, unsafe { at.read_unaligned() }) else { return Ok(i) };
            // SAFETY: as above.
            unsafe { at.write_unaligned(new) };
        }
        Ok(places.end)
    }

    /// The place of entry `i`, which the caller has found to be in range; null where there is no array.
    #[inline]
    pub fn at(self, i: usize) -> Out<T> {
        if self.0.is_null() { Out(self.0) } else { Out(self.0.wrapping_add(i)) }
    }

    /// What the first `len` entries hold, for arrays that are read and written.
    pub fn to_vec(self, len: i64) -> Result<Vec<T>> {
        List(self.0).to_vec(len)
    }
}

/// A string argument.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Text(*const c_char);

impl Text {
    /// Its bytes without the final zero.
    pub fn to_vec(self) -> Result<Vec<u8>> {
        if self.0.is_null() {
            return Err(null("a string is null"));
        }
        // SAFETY: it is not null, and C promises a string that ends with a zero.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_bytes().to_vec())
    }
}

/// A buffer for a string.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct OutText(*mut c_char);

impl OutText {
    /// Stores as much of a string as fits into `room` bytes with its final zero; returns its length.
    pub fn put(self, text: &[u8], room: usize) -> Result<usize> {
        if self.0.is_null() {
            return Err(null("a buffer for a string is null"));
        }
        let len = text.len().min(room.saturating_sub(1));
        // SAFETY: it is not null, and C promises `room` bytes; len + 1 is at most that.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr().cast(), self.0, len) };
        // SAFETY: as above.
        unsafe { self.0.add(len).write(0) };
        Ok(len)
    }

    /// Whether the program gave no buffer.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }
}

/// User memory: the address of a message, a window or a buffer.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Memory(*mut c_void);

// SAFETY: it is only an address; what C promises about the memory holds for whichever thread completes the operation.
unsafe impl Send for Memory {}
// SAFETY: as above; shared, it can only be copied and read.
unsafe impl Sync for Memory {}

impl Memory {
    /// An address for no bytes at all.
    pub fn dangling() -> Memory {
        Memory(std::ptr::dangling_mut::<u128>().cast())
    }

    /// The memory at an address that the program, or another process, named as a number.
    pub fn at_address(address: usize) -> Memory {
        Memory(std::ptr::with_exposed_provenance_mut(address))
    }

    /// The address as a number.
    pub fn address(self) -> usize {
        self.0 as usize
    }

    /// The place of an address, where C declares a pointer to a pointer as `void *`.
    pub fn place(self) -> OutWord {
        Out(self.0.cast())
    }

    /// The standard's `MPI_IN_PLACE`.
    pub const IN_PLACE: Memory = Memory(std::ptr::without_provenance_mut(1));

    /// Whether the program passed `MPI_IN_PLACE`.
    pub fn is_in_place(self) -> bool {
        self.address() == 1
    }

    /// The memory `by` bytes further on.
    pub fn moved(self, by: i64) -> Memory {
        Memory(self.0.wrapping_byte_offset(by as isize))
    }

    /// `len` bytes at `offset`, for an operation that copies to or from them.
    #[inline(always)]
    pub fn user(self, offset: i64, len: usize) -> UserBuf {
        // SAFETY: C promises that the memory the call describes is usable until the operation has ended.
        unsafe { UserBuf::new(self.at(offset as isize), len) }
    }

    fn at(self, offset: isize) -> *mut u8 {
        self.0.cast::<u8>().wrapping_offset(offset)
    }

    /// `len` bytes at `offset`, to be read while nobody writes them.
    pub fn bytes(&self, offset: i64, len: usize) -> Result<&[u8]> {
        if len == 0 {
            return Ok(&[]);
        }
        if self.0.is_null() {
            return Err(Error::new(Class::Buffer, "the buffer is null"));
        }
        // SAFETY: it is not null, and C promises that the memory the call describes is readable and left alone.
        Ok(unsafe { std::slice::from_raw_parts(self.at(offset as isize), len) })
    }

    /// `len` bytes at `offset`, to be written while nobody reads them.
    pub fn bytes_mut(&mut self, offset: i64, len: usize) -> Result<&mut [u8]> {
        if len == 0 {
            return Ok(&mut []);
        }
        if self.0.is_null() {
            return Err(Error::new(Class::Buffer, "the buffer is null"));
        }
        // SAFETY: it is not null, and C promises that the memory the call describes is writable and left alone.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.at(offset as isize), len) })
    }
}

impl Source for Memory {
    #[inline]
    fn copy_in(&self, offset: isize, into: &mut [u8]) {
        // SAFETY: C promises that the memory described by address, count and datatype is readable; `into` is ours.
        unsafe { std::ptr::copy_nonoverlapping(self.at(offset), into.as_mut_ptr(), into.len()) };
    }
}

impl Sink for Memory {
    #[inline]
    fn copy_out(&mut self, offset: isize, from: &[u8]) {
        // SAFETY: C promises that the memory described by address, count and datatype is writable; `from` is ours.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.at(offset), from.len()) };
    }
}

/// Memory of our own, aligned for every basic type, that operations and the program's functions work on. Much of it is used again: fresh memory
/// costs more than what is done with it.
#[derive(Debug)]
pub(crate) struct Scratch(Vec<UnsafeCell<u128>>);

/// What was scratch memory, and how much of it is kept at most.
static SPARE: Mutex<Vec<Vec<UnsafeCell<u128>>>> = Mutex::new(Vec::new());
const SPARE_BYTES_MIN: usize = 32 << 10;
const SPARE_BYTES_MAX: usize = 16 << 20;

// SAFETY: shared, it only tells its address; who uses the memory when is for those who hold it to order.
unsafe impl Sync for Scratch {}

impl Scratch {
    /// `len` bytes, whatever they are.
    pub fn new(len: usize) -> Scratch {
        let units = len.div_ceil(16);
        let spare = if len < SPARE_BYTES_MIN { None } else { Scratch::spare(units) };
        Scratch(spare.unwrap_or_else(|| (0..units).map(|_| UnsafeCell::new(0)).collect()))
    }

    /// The smallest area of those that were used before and are large enough.
    fn spare(units: usize) -> Option<Vec<UnsafeCell<u128>>> {
        let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        let fitting = spare.iter().enumerate().filter(|(_, area)| area.len() >= units);
        let (at, _) = fitting.min_by_key(|(_, area)| area.len())?;
        Some(spare.swap_remove(at))
    }

    /// Its address; to be used only while it lives.
    pub fn memory(&self) -> Memory {
        Memory(self.0.as_ptr().cast_mut().cast())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let bytes = |area: &Vec<UnsafeCell<u128>>| 16 * area.len();
        if bytes(&self.0) < SPARE_BYTES_MIN {
            return;
        }
        let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.iter().map(bytes).sum::<usize>() + bytes(&self.0) <= SPARE_BYTES_MAX {
            spare.push(std::mem::take(&mut self.0));
        }
    }
}

/// A value that one thread at a time uses, because the program promised to call from one thread at a time.
///
/// No lock is taken. A program that breaks its promise is found out as long as its calls overlap for a while.
#[derive(Debug)]
pub(crate) struct Gate<T> {
    busy: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the program asked for a level of thread support below MPI_THREAD_MULTIPLE, so its calls come one after the other,
// ordered by the program; `enter` refuses a call inside another.
unsafe impl<T: Send> Sync for Gate<T> {}

impl<T> Gate<T> {
    /// A gate before `value`.
    pub fn new(value: T) -> Gate<T> {
        Gate { busy: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// The value, for a call that is the only one.
    #[inline(always)]
    pub fn enter(&self) -> Result<Inside<'_, T>> {
        self.try_enter().ok_or_else(crowded)
    }

    /// The value, unless a call is under way.
    #[inline(always)]
    pub fn try_enter(&self) -> Option<Inside<'_, T>> {
        // SYNC busy: the program orders its calls; the flag only finds a call inside another.
        if self.busy.load(Ordering::Relaxed) {
            return None;
        }
        self.busy.store(true, Ordering::Relaxed);
        Some(Inside(self))
    }
}

/// Something that lasts for ever and is to be found at times: what looks for it checks one word.
pub(crate) struct Standing<T: 'static>(AtomicPtr<T>);

impl<T: Sync> Standing<T> {
    /// Not to be found.
    pub const fn nowhere() -> Standing<T> {
        Standing(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// From now on it is this that is found, or nothing.
    pub fn set(&self, to: Option<&'static T>) {
        let at = to.map_or(std::ptr::null(), std::ptr::from_ref);
        // SYNC standing: pairs with the load in `get`; whoever finds it sees it whole.
        self.0.store(at.cast_mut(), Ordering::Release);
    }

    /// What is to be found now.
    #[inline(always)]
    pub fn get(&self) -> Option<&'static T> {
        // SYNC standing: pairs with the store in `set`.
        // SAFETY: null, or the place of something that is never dropped, of which nobody has an exclusive reference.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }
}

/// The only call that is under way behind a gate.
pub(crate) struct Inside<'a, T>(&'a Gate<T>);

impl<T> std::ops::Deref for Inside<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: nobody else is inside: see `Gate`.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> std::ops::DerefMut for Inside<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: nobody else is inside: see `Gate`.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Inside<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // SYNC busy: see `Gate::try_enter`.
        self.0.busy.store(false, Ordering::Relaxed);
    }
}

#[cold]
fn crowded() -> Error {
    Error::new(Class::Other, "two threads call at once; that needs MPI_Init_thread with MPI_THREAD_MULTIPLE")
}

/// A socket of the program's, which stays open.
pub(crate) fn socket(fd: c_int) -> Result<std::fs::File> {
    use std::os::fd::BorrowedFd;
    if fd < 0 {
        return Err(Error::new(Class::Arg, format!("the descriptor is {fd}")));
    }
    // SAFETY: C promises an open descriptor for the time of the call; only a copy of it is kept.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    let own = borrowed.try_clone_to_owned();
    own.map(Into::into).map_err(|error| Error::new(Class::Arg, format!("the descriptor {fd}: {error}")))
}

/// Has a function called when the process exits, or when this library is unloaded.
pub(crate) fn at_exit(function: extern "C" fn()) {
    unsafe extern "C" {
        fn atexit(function: extern "C" fn()) -> c_int;
    }
    // SAFETY: the function is there until this library is unloaded, before which it is called.
    let _ = unsafe { atexit(function) };
}

/// A block of memory for `MPI_Alloc_mem`, with its size in front.
pub(crate) fn allocate(size: usize) -> Option<usize> {
    let layout = block(size)?;
    // SAFETY: the layout has a size of at least HEADER.
    let base = unsafe { std::alloc::alloc(layout) };
    if base.is_null() {
        return None;
    }
    // SAFETY: the block has HEADER bytes in front of what the program gets, aligned for a usize.
    unsafe { base.cast::<usize>().write(size) };
    Some(base as usize + HEADER)
}

/// Gives a block of [`allocate`] back.
pub(crate) fn free(memory: Memory) {
    if memory.0.is_null() {
        return;
    }
    let base = memory.at(-(HEADER as isize));
    // SAFETY: C promises that the address came from MPI_Alloc_mem, so its size is in front.
    let size = unsafe { base.cast::<usize>().read() };
    if let Some(layout) = block(size) {
        // SAFETY: the block was allocated with this very layout.
        unsafe { std::alloc::dealloc(base, layout) };
    }
}

/// Keeps the program's memory on a line of its own.
const HEADER: usize = 64;

fn block(size: usize) -> Option<std::alloc::Layout> {
    std::alloc::Layout::from_size_align(size.checked_add(HEADER)?, HEADER).ok()
}
