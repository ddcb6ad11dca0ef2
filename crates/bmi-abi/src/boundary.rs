//! The boundary to C: arguments as C passes them, and the only unsafe code of this crate.
//!
//! A pointer that C passes is wrapped in a type that says what BMI promises about it; its methods check for null and are
//! safe to call because the C caller has made that promise. Such a value comes into being only as an argument of an entry point.

use std::ffi::{CStr, c_char, c_int, c_void};

use barewire::bmi::{Outgoing, Place, ends, lend, piece_at, walk};
use barewire::core::Incoming;
use barewire::core::tagged::{Gather, Scatter, Sink, Source};
use barewire_sys::userbuf::UserBuf;

use crate::state::lent;
use barewire_sys::wirebuf::{Places, WireMut, WireRef};

/// `struct BMI_unexpected_info`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct UnexpectedInfo {
    /// Zero, or what went wrong.
    pub error_code: i32,
    /// Who sent it.
    pub addr: i64,
    /// What it says; from malloc.
    pub buffer: *mut c_void,
    /// How many bytes.
    pub size: i64,
    /// Its tag.
    pub tag: i32,
}

const _: () = assert!(size_of::<UnexpectedInfo>() == 40);

/// A place for results: one, or an array of them. Null where the program does not want them.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// No place.
    pub const NULL: Out<T> = Out(std::ptr::null_mut());
}

impl<T: Copy> Out<T> {
    /// Whether there is no place.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Stores one result, unless the program does not want it.
    pub fn put(self, value: T) {
        self.put_at(0, value);
    }

    /// Stores one of several results, unless the program does not want them.
    pub fn put_at(self, at: usize, value: T) {
        if !self.0.is_null() {
            // SAFETY: it is not null, and C promises room for as many as it says it takes; no alignment is assumed.
            unsafe { self.0.add(at).write_unaligned(value) };
        }
    }
}

/// An array that C fills.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

impl<T: Copy> In<T> {
    /// The first `count` elements; `None` if there is no array though there should be.
    pub fn get(self, count: c_int) -> Option<Vec<T>> {
        let count = usize::try_from(count).ok()?;
        if self.0.is_null() {
            return (count == 0).then(Vec::new);
        }
        // SAFETY: it is not null, and C promises as many elements as it says; no alignment is assumed.
        Some((0..count).map(|at| unsafe { self.0.add(at).read_unaligned() }).collect())
    }
}

/// A string of C's.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct Text(*const c_char);

impl Text {
    /// The string; `None` if there is none, or if it is not UTF-8.
    pub fn get(self) -> Option<String> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: it is not null, and C promises that it ends.
        unsafe { CStr::from_ptr(self.0) }.to_str().ok().map(str::to_owned)
    }
}

/// A parameter of `BMI_get_info` and `BMI_set_info`, whose type depends on the option.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct Parameter(*mut c_void);

impl Parameter {
    /// As a place for an `int`.
    pub fn int(self) -> Out<c_int> {
        Out(self.0.cast())
    }

    /// As a place for a pointer.
    pub fn pointer(self) -> Out<*mut c_void> {
        Out(self.0.cast())
    }
}

/// A program's buffer of which BMI promises that it stays until the operation on it has ended.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct Bytes(*mut c_void);

impl Bytes {
    /// The bytes, if there can be so many.
    fn buffer(self, size: i64) -> Option<UserBuf> {
        let len = usize::try_from(size).ok().filter(|&len| len == 0 || !self.0.is_null())?;
        // SAFETY: BMI's rules: a buffer given to an operation holds `size` bytes and is left alone until the operation has
        // ended. An operation that is cancelled, or whose context is closed, does not touch its buffer any more.
        Some(unsafe { UserBuf::new(self.0.cast(), len) })
    }

    /// As what a send takes; `None` if there cannot be such a buffer.
    pub fn outgoing(self, size: i64) -> Option<Outgoing> {
        self.buffer(size).map(|buffer| Outgoing::new(buffer.len() as u64, Source::User(buffer)))
    }

    /// As what a send takes, if it is a part of the network's memory that `BMI_memalloc` gave out.
    pub fn ours(self, size: i64) -> Option<Outgoing> {
        lent().find(self.0.addr(), usize::try_from(size).ok()?).map(Outgoing::from)
    }

    /// As what a receive fills; `None` if there cannot be such a buffer.
    pub fn place(self, size: i64) -> Option<Place> {
        self.buffer(size).map(|buffer| Place::new(Sink::User(buffer)))
    }
}

/// Several buffers as one run of bytes.
#[derive(Debug)]
pub(crate) struct Pieces {
    list: Vec<UserBuf>,
    ends: Vec<u64>,
    total: u64,
}

impl Pieces {
    /// The first `total` bytes of these buffers; `None` if there cannot be so many.
    pub fn new(buffers: In<Bytes>, sizes: In<i64>, count: c_int, total: i64) -> Option<Pieces> {
        let (buffers, sizes) = (buffers.get(count)?, sizes.get(count)?);
        let list: Vec<UserBuf> = buffers
            .into_iter()
            .zip(&sizes)
            .map(|(bytes, &size)| bytes.buffer(size))
            .collect::<Option<_>>()?;
        let ends = ends(list.iter().map(|piece| piece.len() as u64));
        let total = u64::try_from(total).ok().filter(|total| *total <= ends.last().copied().unwrap_or(0))?;
        Some(Pieces { list, ends, total })
    }

    /// As what a send takes.
    pub fn outgoing(self) -> Outgoing {
        Outgoing::new(self.total, Source::Gather(Box::new(self)))
    }

    /// As what a receive fills.
    pub fn place(self) -> Place {
        Place::new(Sink::Scatter(Box::new(self)))
    }
}

impl Gather for Pieces {
    fn gather(&mut self, offset: u64, wire: &mut WireMut<'_>) {
        walk(&self.ends, offset, wire.remaining(), |piece, at, n| {
            self.list[piece].wire_ref(at, n).map(|mut bytes| wire.write_from(&mut bytes));
        });
    }

    fn slice(&self, offset: u64, len: usize) -> Option<WireRef<'_>> {
        let (piece, at, n) = piece_at(&self.ends, offset, len)?;
        self.list[piece].wire_ref(at, n)
    }
}

impl Scatter for Pieces {
    fn capacity(&self) -> u64 {
        self.total
    }

    fn scatter(&mut self, offset: u64, packet: &mut Incoming<'_>, len: usize) {
        walk(&self.ends, offset, len, |piece, at, n| {
            self.list[piece].wire_mut(at, n).map(|mut place| packet.read_to(&mut place));
        });
    }

    fn scatter_kept(&mut self, offset: u64, bytes: &[u8]) {
        let mut rest = bytes;
        walk(&self.ends, offset, bytes.len(), |piece, at, n| {
            let (now, later) = rest.split_at(n);
            rest = later;
            self.list[piece].wire_mut(at, n).map(|mut place| place.write(now));
        });
    }

    fn place<'a>(&'a mut self, offset: u64, len: usize, places: &mut Places<'a>) {
        lend(&self.ends, offset, len, |piece, at, n| {
            self.list[piece].wire_mut(at, n).is_some_and(|place| places.push(place))
        });
    }
}

/// Memory from C's allocator, aligned to a page; null if there is none.
pub(crate) fn allocate(len: usize) -> *mut c_void {
    let mut place = std::ptr::null_mut();
    // SAFETY: 4096 is a power of two and a multiple of a pointer's size, and `place` is ours.
    let failed = unsafe { libc::posix_memalign(&mut place, 4096, len.max(1)) };
    if failed == 0 { place } else { std::ptr::null_mut() }
}

/// A copy of `bytes` from malloc, which a program may free; null if there is no memory.
pub(crate) fn copy(bytes: &[u8]) -> *mut c_void {
    // SAFETY: malloc takes any size.
    let place = unsafe { libc::malloc(bytes.len().max(1)) };
    if !place.is_null() {
        // SAFETY: there is room for as many bytes, and nobody else knows of it yet.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place.cast(), bytes.len()) };
    }
    place
}

/// Gives back what [`allocate`] or [`copy`] gave out.
///
/// # Safety
/// `place` came from one of them and was not given back since.
pub(crate) unsafe fn free(place: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { libc::free(place) };
}
