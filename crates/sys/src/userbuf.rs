//! A caller's buffer: the C interfaces' pointers, with a length that every access is checked against.

use crate::wirebuf::{WireMut, WireRef};

/// A buffer that belongs to somebody else and outlives the operation on it.
///
/// ```
/// use barewire_sys::userbuf::UserBuf;
/// let mut bytes = [0u8; 8];
/// // SAFETY: `bytes` outlives `buffer`, and nothing else touches it meanwhile.
/// let buffer = unsafe { UserBuf::new(bytes.as_mut_ptr(), bytes.len()) };
/// assert_eq!(buffer.wire_mut(2, 4).unwrap().write(b"abcd"), 4);
/// assert!(buffer.wire_ref(6, 3).is_none(), "out of range");
/// assert_eq!(&bytes, b"\0\0abcd\0\0");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct UserBuf {
    base: *mut u8,
    len: usize,
}

// SAFETY: a buffer is only accessed by checked copies; its maker vouched for it wherever those happen.
unsafe impl Send for UserBuf {}

impl UserBuf {
    /// A buffer without bytes.
    pub const EMPTY: UserBuf = UserBuf { base: std::ptr::NonNull::dangling().as_ptr(), len: 0 };

    /// A buffer of `len` bytes at `base`.
    ///
    /// # Safety
    /// Until the operation that the buffer is given to has ended, the bytes must be readable, writable if the operation
    /// writes, and not accessed otherwise in a way that Rust's rules for the caller forbid.
    #[inline(always)]
    pub unsafe fn new(base: *mut u8, len: usize) -> UserBuf {
        UserBuf { base, len }
    }

    /// Bytes in the buffer.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the buffer has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Makes it end after `len` bytes, and gives a place to write them; none, and it is as it was, if it has fewer.
    ///
    /// ```
    /// use barewire_sys::userbuf::UserBuf;
    /// let mut nothing = UserBuf::EMPTY;
    /// assert!(nothing.cut_to(3).is_none() && nothing.cut_to(0).is_some());
    /// ```
    #[inline(always)]
    pub fn cut_to(&mut self, len: usize) -> Option<WireMut<'_>> {
        if len > self.len {
            return None;
        }
        self.len = len;
        // SAFETY: no more than it had, and the maker vouched for the bytes.
        Some(unsafe { WireMut::from_raw(self.base, len) })
    }

    /// A place to write `len` bytes at `offset`.
    #[inline(always)]
    pub fn wire_mut(&self, offset: usize, len: usize) -> Option<WireMut<'_>> {
        if offset.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: in range, and the maker vouched for the bytes.
        Some(unsafe { WireMut::from_raw(self.base.add(offset), len) })
    }

    /// `len` bytes to read from `offset`.
    #[inline(always)]
    pub fn wire_ref(&self, offset: usize, len: usize) -> Option<WireRef<'_>> {
        if offset.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: in range, and the maker vouched for the bytes.
        Some(unsafe { WireRef::from_raw(self.base.add(offset), len) })
    }
}
