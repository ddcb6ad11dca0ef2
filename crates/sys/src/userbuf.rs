//! A caller's buffer: the C interfaces' pointers, with a length that every access is checked against.
//!
//! ```
//! use barewire_sys::{userbuf::UserBuf, wirebuf::WireRef};
//! /// What a C function with a buffer and its length does with a message.
//! fn deliver(mut message: WireRef<'_>, into: UserBuf) -> Result<usize, &'static str> {
//!     let len = message.remaining();
//!     let mut place = into.wire_mut(0, len).ok_or("the buffer is too short")?;
//!     Ok(place.write_from(&mut message))
//! }
//! let mut buffer = [0u8; 8];
//! // SAFETY: the buffer outlives the call that it is given to.
//! let into = unsafe { UserBuf::new(buffer.as_mut_ptr(), 8) };
//! assert!(deliver(WireRef::new(b"a long message"), into).is_err());
//! assert_eq!(deliver(WireRef::new(b"short"), into), Ok(5));
//! assert_eq!(&buffer, b"short\0\0\0");
//! ```

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
    ///
    /// ```
    /// # use barewire_sys::userbuf::UserBuf;
    /// let mut bytes = *b"abcdef";
    /// // SAFETY: the bytes outlive both buffers, and are not used otherwise until those are done with.
    /// let [first, last] = unsafe { [UserBuf::new(bytes.as_mut_ptr(), 3), UserBuf::new(bytes.as_mut_ptr().add(3), 3)] };
    /// first.wire_mut(0, 3).unwrap().write_from(&mut last.wire_ref(0, 3).unwrap());
    /// assert_eq!(&bytes, b"defdef");
    /// ```
    #[inline(always)]
    pub unsafe fn new(base: *mut u8, len: usize) -> UserBuf {
        UserBuf { base, len }
    }

    /// Bytes in the buffer.
    ///
    /// ```
    /// # use barewire_sys::userbuf::UserBuf;
    /// let mut bytes = [0u8; 100];
    /// // SAFETY: the bytes outlive the buffer.
    /// let mut buffer = unsafe { UserBuf::new(bytes.as_mut_ptr(), bytes.len()) };
    /// assert_eq!(buffer.len(), 100);
    /// buffer.cut_to(40);
    /// assert_eq!(buffer.len(), 40);
    /// ```
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the buffer has no bytes.
    ///
    /// ```
    /// # use barewire_sys::userbuf::UserBuf;
    /// assert!(UserBuf::EMPTY.is_empty());
    /// assert!(UserBuf::EMPTY.wire_ref(0, 0).is_some(), "an empty message fits");
    /// ```
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
    ///
    /// ```
    /// # use barewire_sys::userbuf::UserBuf;
    /// let mut bytes = [0u8; 6];
    /// // SAFETY: the bytes outlive the buffer, and nothing else touches them meanwhile.
    /// let buffer = unsafe { UserBuf::new(bytes.as_mut_ptr(), 6) };
    /// // Pieces of a message, in whatever order they come.
    /// buffer.wire_mut(3, 3).unwrap().write(b"def");
    /// buffer.wire_mut(0, 3).unwrap().write(b"abc");
    /// assert!(buffer.wire_mut(usize::MAX, 2).is_none());
    /// assert_eq!(&bytes, b"abcdef");
    /// ```
    #[inline(always)]
    pub fn wire_mut(&self, offset: usize, len: usize) -> Option<WireMut<'_>> {
        if offset.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: in range, and the maker vouched for the bytes.
        Some(unsafe { WireMut::from_raw(self.base.add(offset), len) })
    }

    /// `len` bytes to read from `offset`.
    ///
    /// ```
    /// # use barewire_sys::userbuf::UserBuf;
    /// let mut bytes = *b"what a caller sends";
    /// // SAFETY: the bytes outlive the buffer, and nothing else touches them meanwhile.
    /// let buffer = unsafe { UserBuf::new(bytes.as_mut_ptr(), bytes.len()) };
    /// assert_eq!(buffer.wire_ref(5, 8).unwrap().to_vec(), b"a caller");
    /// assert!(buffer.wire_ref(19, 1).is_none() && buffer.wire_ref(19, 0).is_some());
    /// ```
    #[inline(always)]
    pub fn wire_ref(&self, offset: usize, len: usize) -> Option<WireRef<'_>> {
        if offset.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: in range, and the maker vouched for the bytes.
        Some(unsafe { WireRef::from_raw(self.base.add(offset), len) })
    }
}
