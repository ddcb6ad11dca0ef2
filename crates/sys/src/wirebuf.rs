//! Cursors over wire memory: bytes that another process, or the kernel, may be reading or writing.
//!
//! They copy and never lend: a `&[u8]` into memory that a peer can change would let the peer change a value
//! between its check and its use.
//!
//! ```
//! use barewire_sys::wirebuf::{WireMut, WireRef};
//! let mut packet = [0; 16];
//! let mut wire = WireMut::new(&mut packet);
//! wire.write_u64(3);
//! wire.write(b"abc");
//! let mut wire = WireRef::new(&packet);
//! let len = wire.read_u64().unwrap(); // read once, and checked before it is used
//! assert!(len <= wire.remaining() as u64);
//! assert_eq!(wire.first(len as usize).to_vec(), b"abc");
//! ```

use std::marker::PhantomData;

use crate::copy;

/// A place of fixed length to write a packet into, in order.
///
/// ```
/// use barewire_sys::wirebuf::WireMut;
/// let mut packet = [0; 10];
/// let mut wire = WireMut::new(&mut packet);
/// wire.write_u64(1);
/// assert_eq!((wire.write(b"abc"), wire.remaining()), (2, 0), "what does not fit stays out");
/// assert_eq!(&packet, b"\x01\0\0\0\0\0\0\0ab");
/// ```
#[derive(Debug)]
pub struct WireMut<'a> {
    at: *mut u8,
    left: usize,
    way: Way,
    life: PhantomData<&'a mut [u8]>,
}

/// How long writes are made.
///
/// ```
/// use barewire_sys::wirebuf::{Way, WireMut};
/// let from = vec![7; 10_000];
/// for way in [Way::Usual, Way::Whole, Way::Past] {
///     let mut to = vec![0; 10_000];
///     let mut wire = WireMut::new(&mut to);
///     wire.go(way);
///     wire.write(&from);
///     assert_eq!(to, from, "the same, whichever way");
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Through the caches, as always.
    Usual,
    /// Line by line, without fetching what was there: [`copy::copy_string`].
    Whole,
    /// Past the caches: [`copy::copy_stream`].
    Past,
}

/// # Safety
///
/// As for [`copy::copy`].
#[inline(never)]
unsafe fn copy_long(dst: *mut u8, src: *const u8, len: usize, way: Way) {
    // SAFETY: the caller's promise.
    unsafe {
        match way {
            Way::Usual => copy::copy(dst, src, len),
            Way::Whole => copy::copy_string(dst, src, len),
            Way::Past => copy::copy_stream(dst, src, len),
        }
    }
}

impl<'a> WireMut<'a> {
    /// A cursor over `len` bytes at `at`.
    ///
    /// # Safety
    /// The bytes must stay mapped and writable for `'a`, and no Rust reference to them may exist meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn from_raw(at: *mut u8, len: usize) -> WireMut<'a> {
        WireMut { at, left: len, way: Way::Usual, life: PhantomData }
    }

    /// A cursor over private memory.
    ///
    /// ```
    /// let mut bytes = [0; 4];
    /// let mut wire = barewire_sys::wirebuf::WireMut::new(&mut bytes);
    /// wire.write(b"ab");
    /// wire.write(b"cde");
    /// assert_eq!(&bytes, b"abcd");
    /// ```
    #[inline(always)]
    pub fn new(bytes: &'a mut [u8]) -> WireMut<'a> {
        // SAFETY: an exclusive borrow for 'a is exactly what is asked for.
        unsafe { WireMut::from_raw(bytes.as_mut_ptr(), bytes.len()) }
    }

    /// Bytes that still fit.
    ///
    /// ```
    /// # use barewire_sys::wirebuf::WireMut;
    /// let mut bytes = [0; 10];
    /// let mut wire = WireMut::new(&mut bytes);
    /// while wire.remaining() >= 3 {
    ///     wire.write(b"abc");
    /// }
    /// assert_eq!(&bytes, b"abcabcabc\0");
    /// ```
    #[inline(always)]
    pub fn remaining(&self) -> usize {
        self.left
    }

    /// Has long writes go another way from now on, for which see [`Stores`](crate::stores::Stores). A Release store after them publishes
    /// them like others.
    ///
    /// ```
    /// # use barewire_sys::wirebuf::{Way, WireMut};
    /// let (from, mut to) = (vec![7; 10_000], vec![0; 10_000]);
    /// let mut wire = WireMut::new(&mut to);
    /// wire.go(Way::Past);
    /// wire.write(&from);
    /// assert_eq!(to, from);
    /// ```
    #[inline(always)]
    pub fn go(&mut self, way: Way) {
        self.way = way;
    }

    /// # Safety
    ///
    /// `n` bytes are left, `from` has as many, and they lie apart.
    #[inline(always)]
    unsafe fn copy_here(&self, from: *const u8, n: usize) {
        if n <= copy::SMALL_MAX {
            // SAFETY: the caller's promise, and the length was just checked.
            unsafe { copy::copy_small(self.at, from, n) }
        } else {
            // SAFETY: the caller's promise.
            unsafe { copy_long(self.at, from, n, self.way) }
        }
    }

    /// Copies as much of `bytes` as fits and says how much that was.
    ///
    /// ```
    /// # use barewire_sys::wirebuf::WireMut;
    /// let (text, mut at) = (b"in packets of four", 0);
    /// let mut packet = [0; 4];
    /// while at < text.len() {
    ///     at += WireMut::new(&mut packet).write(&text[at..]);
    /// }
    /// assert_eq!(&packet, b"urfo", "the last two bytes, and two of the packet before");
    /// ```
    #[inline(always)]
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        let n = bytes.len().min(self.left);
        // SAFETY: `n` bytes are left behind `at` by the constructor's contract, `bytes` has at least `n`, and a
        // private borrow cannot overlap wire memory.
        unsafe { self.copy_here(bytes.as_ptr(), n) };
        self.skip(n);
        n
    }

    /// Writes one little-endian word if it fits.
    ///
    /// ```
    /// # use barewire_sys::wirebuf::WireMut;
    /// let mut bytes = [9; 12];
    /// let mut wire = WireMut::new(&mut bytes);
    /// wire.write_u64(0x0102);
    /// wire.write_u64(0x0304);
    /// assert_eq!(wire.remaining(), 4, "the second did not fit");
    /// assert_eq!(bytes, [2, 1, 0, 0, 0, 0, 0, 0, 9, 9, 9, 9]);
    /// ```
    #[inline(always)]
    pub fn write_u64(&mut self, word: u64) {
        if self.left >= 8 {
            // SAFETY: eight bytes are left behind `at`; the write is unaligned-safe.
            unsafe { self.at.cast::<u64>().write_unaligned(word.to_le()) };
            self.skip(8);
        }
    }

    /// Writes as many of `words` as fit, little-endian. For a handful of words: more are better copied as bytes.
    ///
    /// ```
    /// let mut bytes = [0; 16];
    /// barewire_sys::wirebuf::WireMut::new(&mut bytes).write_words(&[1, 2, 3]);
    /// assert_eq!(u128::from_le_bytes(bytes), 2 << 64 | 1);
    /// ```
    #[inline(always)]
    pub fn write_words(&mut self, words: &[u64]) {
        let n = words.len().min(self.left / 8);
        for (i, word) in words[..n].iter().enumerate() {
            // SAFETY: 8 * n <= left bytes are behind `at`; the write is unaligned-safe.
            unsafe { self.at.cast::<u64>().add(i).write_unaligned(word.to_le()) };
        }
        self.skip(8 * n);
    }

    /// Copies all of `from` that fits straight from wire memory to wire memory.
    ///
    /// ```
    /// use barewire_sys::wirebuf::{WireMut, WireRef};
    /// let mut from = WireRef::new(b"abcdef");
    /// let (mut first, mut second) = ([0; 4], [0; 4]);
    /// assert_eq!(WireMut::new(&mut first).write_from(&mut from), 4);
    /// assert_eq!(WireMut::new(&mut second).write_from(&mut from), 2);
    /// assert_eq!((&first, &second), (b"abcd", b"ef\0\0"));
    /// ```
    #[inline(always)]
    pub fn write_from(&mut self, from: &mut WireRef<'_>) -> usize {
        let n = from.left.min(self.left);
        // SAFETY: both cursors have `n` bytes left; source and destination are distinct mappings or disjoint
        // ranges, as a writable cursor is exclusive within this process.
        unsafe { self.copy_here(from.at, n) };
        self.skip(n);
        from.skip(n);
        n
    }

    /// The same for what has come from another process: see [`copy::copy_in`].
    ///
    /// ```
    /// use barewire_sys::wirebuf::{WireMut, WireRef};
    /// let (from, mut to) = (vec![7; 40_000], vec![0; 30_000]);
    /// assert_eq!(WireMut::new(&mut to).take_from(&mut WireRef::new(&from)), 30_000);
    /// assert_eq!(to, from[..30_000]);
    /// ```
    #[inline(always)]
    pub fn take_from(&mut self, from: &mut WireRef<'_>) -> usize {
        let n = from.left.min(self.left);
        // SAFETY: as in `write_from`.
        unsafe { copy::copy_in(self.at, from.at, n) };
        self.skip(n);
        from.skip(n);
        n
    }

    #[inline(always)]
    fn skip(&mut self, n: usize) {
        debug_assert!(n <= self.left);
        // SAFETY: callers pass n <= left, so the cursor stays within or one past its range.
        self.at = unsafe { self.at.add(n) };
        self.left -= n;
    }
}

/// What is written into a packet: bytes that lie somewhere, or whatever a function writes.
///
/// ```
/// use barewire_sys::wirebuf::{Fill, WireMut, WireRef};
/// fn filled(fill: impl Fill) -> [u8; 2] {
///     let mut bytes = [0; 2];
///     fill.fill(&mut WireMut::new(&mut bytes));
///     bytes
/// }
/// assert_eq!(filled(WireRef::new(b"ab")), filled(|wire: &mut WireMut<'_>| { wire.write(b"ab"); }));
/// ```
pub trait Fill {
    /// Writes it.
    ///
    /// ```
    /// use barewire_sys::wirebuf::{Fill, WireMut};
    /// struct Greeting(&'static str);
    /// impl Fill for Greeting {
    ///     fn fill(self, wire: &mut WireMut<'_>) {
    ///         wire.write(b"hello, ");
    ///         wire.write(self.0.as_bytes());
    ///     }
    /// }
    /// let mut packet = [0; 11];
    /// Greeting("you").fill(&mut WireMut::new(&mut packet));
    /// assert_eq!(&packet, b"hello, you\0");
    /// ```
    fn fill(self, wire: &mut WireMut<'_>);
}

impl<F: FnOnce(&mut WireMut<'_>)> Fill for F {
    #[inline(always)]
    fn fill(self, wire: &mut WireMut<'_>) {
        self(wire);
    }
}

impl Fill for WireRef<'_> {
    #[inline(always)]
    fn fill(mut self, wire: &mut WireMut<'_>) {
        wire.write_from(&mut self);
    }
}

/// A few places, to be filled one after the other by the kernel.
///
/// ```
/// use barewire_sys::wirebuf::{Places, WireMut};
/// let (mut first, mut second) = ([0; 4], [0; 8]);
/// let mut places = Places::default();
/// assert!(places.push(WireMut::new(&mut first)) && places.push(WireMut::new(&mut second)));
/// assert_eq!(places.remaining(), 12);
/// ```
#[derive(Debug)]
pub struct Places<'a> {
    parts: [libc::iovec; Places::MOST],
    count: usize,
    bytes: usize,
    life: PhantomData<&'a mut [u8]>,
}

impl Default for Places<'_> {
    fn default() -> Self {
        let none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        Places { parts: [none; Places::MOST], count: 0, bytes: 0, life: PhantomData }
    }
}

impl<'a> Places<'a> {
    /// Most places at a time.
    pub const MOST: usize = 8;

    /// Adds a place behind the others; false, and nothing is added, if there are enough of them.
    ///
    /// ```
    /// use barewire_sys::wirebuf::{Places, WireMut};
    /// let mut bytes = [[0; 2]; 10];
    /// let mut places = Places::default();
    /// let taken = bytes.iter_mut().map(|bytes| places.push(WireMut::new(bytes))).filter(|&taken| taken).count();
    /// assert_eq!((taken, places.remaining()), (Places::MOST, 2 * Places::MOST));
    /// ```
    pub fn push(&mut self, place: WireMut<'a>) -> bool {
        let Some(part) = self.parts.get_mut(self.count) else { return false };
        *part = libc::iovec { iov_base: place.at.cast(), iov_len: place.left };
        self.count += 1;
        self.bytes += place.left;
        true
    }

    /// Bytes that fit into all of them.
    ///
    /// ```
    /// # use barewire_sys::wirebuf::{Places, WireMut};
    /// let (mut head, mut body) = ([0; 16], [0; 1000]);
    /// let mut wire = WireMut::new(&mut head);
    /// wire.write(b"six of");
    /// let mut places = Places::default();
    /// places.push(wire);
    /// places.push(WireMut::new(&mut body));
    /// assert_eq!(places.remaining(), 10 + 1000, "what was written already does not count");
    /// ```
    pub fn remaining(&self) -> usize {
        self.bytes
    }

    /// Whether there is no room left in them.
    ///
    /// ```
    /// # use barewire_sys::wirebuf::{Places, WireMut};
    /// let mut byte = [0];
    /// let mut places = Places::default();
    /// assert!(places.is_empty());
    /// places.push(WireMut::new(&mut byte));
    /// assert!(!places.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// As the kernel wants them.
    pub(crate) fn parts(&self) -> &[libc::iovec] {
        &self.parts[..self.count]
    }

    /// Passes over the first `bytes` bytes.
    pub(crate) fn skip(&mut self, bytes: usize) {
        let mut left = bytes.min(self.bytes);
        self.bytes -= left;
        for part in &mut self.parts[..self.count] {
            let n = left.min(part.iov_len);
            left -= n;
            // Stays within the part, or one past its end.
            part.iov_base = part.iov_base.wrapping_byte_add(n);
            part.iov_len -= n;
        }
    }
}

/// Bytes of a packet to read, in order.
///
/// ```
/// use barewire_sys::wirebuf::WireRef;
/// let mut packet = WireRef::new(b"\x05\0\0\0\0\0\0\0hello, and more");
/// let len = packet.read_u64().unwrap();
/// assert_eq!(packet.first(len as usize).to_vec(), b"hello");
/// packet.discard(len as usize);
/// assert_eq!(packet.to_vec(), b", and more");
/// ```
#[derive(Debug)]
pub struct WireRef<'a> {
    at: *const u8,
    left: usize,
    life: PhantomData<&'a [u8]>,
}

impl<'a> WireRef<'a> {
    /// A cursor over `len` bytes at `at`.
    ///
    /// # Safety
    /// The bytes must stay mapped and readable for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn from_raw(at: *const u8, len: usize) -> WireRef<'a> {
        WireRef { at, left: len, life: PhantomData }
    }

    /// A cursor over private memory.
    ///
    /// ```
    /// let mut wire = barewire_sys::wirebuf::WireRef::new(b"abcd");
    /// let mut two = [0; 2];
    /// assert_eq!(wire.read(&mut two), 2);
    /// assert_eq!((&two, wire.remaining()), (b"ab", 2));
    /// ```
    #[inline(always)]
    pub fn new(bytes: &'a [u8]) -> WireRef<'a> {
        // SAFETY: a shared borrow for 'a is readable for 'a.
        unsafe { WireRef::from_raw(bytes.as_ptr(), bytes.len()) }
    }

    /// Where the bytes are, to tell a neighbour that may [fetch](crate::fetch::fetch) them.
    ///
    /// ```
    /// # use barewire_sys::wirebuf::WireRef;
    /// let bytes = *b"abcd";
    /// let mut wire = WireRef::new(&bytes);
    /// let start = wire.address();
    /// wire.discard(3);
    /// assert_eq!((start, wire.address()), (bytes.as_ptr().addr() as u64, start + 3));
    /// ```
    pub fn address(&self) -> u64 {
        self.at.expose_provenance() as u64
    }

    /// Where the cursor is, for the kernel.
    pub(crate) fn start(&self) -> *const u8 {
        self.at
    }

    /// Bytes not read yet.
    ///
    /// ```
    /// # use barewire_sys::wirebuf::WireRef;
    /// let mut wire = WireRef::new(b"a packet of words");
    /// while wire.remaining() >= 8 {
    ///     wire.read_u64();
    /// }
    /// assert_eq!((wire.remaining(), wire.to_vec()), (1, b"s".to_vec()));
    /// ```
    #[inline(always)]
    pub fn remaining(&self) -> usize {
        self.left
    }

    /// Copies out as much as there is, at most `into.len()`, and says how much that was.
    ///
    /// ```
    /// # use barewire_sys::wirebuf::WireRef;
    /// let mut wire = WireRef::new(b"abcde");
    /// let mut pair = [0; 2];
    /// let lens = [0; 4].map(|_| wire.read(&mut pair));
    /// assert_eq!((lens, &pair), ([2, 2, 1, 0], b"ed"));
    /// ```
    #[inline(always)]
    pub fn read(&mut self, into: &mut [u8]) -> usize {
        let n = into.len().min(self.left);
        // SAFETY: `n` bytes are readable at `at`, `into` has room for `n`, and an exclusive borrow of private
        // memory cannot overlap wire memory.
        unsafe { copy::copy_in(into.as_mut_ptr(), self.at, n) };
        self.skip(n);
        n
    }

    /// Reads one little-endian word, if eight bytes are left.
    ///
    /// ```
    /// # use barewire_sys::wirebuf::WireRef;
    /// let bytes = [1, 2, 0, 0, 0, 0, 0, 0, 7];
    /// let mut wire = WireRef::new(&bytes);
    /// assert_eq!((wire.read_u64(), wire.read_u64()), (Some(0x201), None));
    /// assert_eq!(wire.remaining(), 1, "a part of a word is left where it is");
    /// ```
    #[inline(always)]
    pub fn read_u64(&mut self) -> Option<u64> {
        if self.left < 8 {
            return None;
        }
        // SAFETY: eight bytes are left behind `at`.
        let word = unsafe { load_word(self.at) };
        self.skip(8);
        Some(u64::from_le(word))
    }

    /// Reads as many little-endian words as there are, at most `into.len()`, each exactly once, and says how many that was.
    ///
    /// ```
    /// let mut wire = barewire_sys::wirebuf::WireRef::new(&[1, 0, 0, 0, 0, 0, 0, 0, 2, 0]);
    /// let mut words = [0; 2];
    /// assert_eq!((wire.read_words(&mut words), words, wire.remaining()), (1, [1, 0], 2));
    /// ```
    #[inline(always)]
    pub fn read_words(&mut self, into: &mut [u64]) -> usize {
        let n = into.len().min(self.left / 8);
        for (i, word) in into[..n].iter_mut().enumerate() {
            // SAFETY: 8 * n <= left bytes are readable behind `at`.
            *word = u64::from_le(unsafe { load_word(self.at.add(8 * i)) });
        }
        self.skip(8 * n);
        n
    }

    /// Passes over up to `n` bytes and says how many that was.
    ///
    /// ```
    /// # use barewire_sys::wirebuf::WireRef;
    /// let mut wire = WireRef::new(b"head: body");
    /// assert_eq!(wire.discard(6), 6);
    /// assert_eq!(wire.reborrow().to_vec(), b"body");
    /// assert_eq!(wire.discard(100), 4, "no more than there is");
    /// ```
    #[inline(always)]
    pub fn discard(&mut self, n: usize) -> usize {
        let n = n.min(self.left);
        self.skip(n);
        n
    }

    /// Everything left, as private memory.
    ///
    /// ```
    /// # use barewire_sys::wirebuf::WireRef;
    /// let mut wire = WireRef::new(b"abc");
    /// wire.discard(1);
    /// assert_eq!(wire.to_vec(), b"bc");
    /// assert!(wire.to_vec().is_empty(), "all of it has been read");
    /// ```
    pub fn to_vec(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; self.left];
        self.read(&mut bytes);
        bytes
    }

    /// A cursor over the first `len` bytes of those left, or all of them if they are fewer.
    ///
    /// ```
    /// let wire = barewire_sys::wirebuf::WireRef::new(b"abcd");
    /// assert_eq!(wire.first(2).to_vec(), b"ab");
    /// ```
    #[inline]
    pub fn first(&self, len: usize) -> WireRef<'_> {
        WireRef { left: len.min(self.left), ..self.reborrow() }
    }

    /// A second cursor at the same place.
    ///
    /// ```
    /// # use barewire_sys::wirebuf::WireRef;
    /// let mut wire = WireRef::new(b"twice");
    /// let mut look = wire.reborrow();
    /// assert_eq!(look.to_vec(), b"twice");
    /// assert_eq!((look.remaining(), wire.to_vec()), (0, b"twice".to_vec()), "each reads by itself");
    /// ```
    #[inline(always)]
    pub fn reborrow(&self) -> WireRef<'_> {
        WireRef { at: self.at, left: self.left, life: PhantomData }
    }

    #[inline(always)]
    fn skip(&mut self, n: usize) {
        debug_assert!(n <= self.left);
        // SAFETY: callers pass n <= left, so the cursor stays within or one past its range.
        self.at = unsafe { self.at.add(n) };
        self.left -= n;
    }
}

/// Loads eight bytes exactly once: a compiler that loaded twice could see two values.
///
/// # Safety
/// Eight bytes must be readable at `at`.
#[inline(always)]
unsafe fn load_word(at: *const u8) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let word: u64;
        // SAFETY: reads eight bytes the caller vouches for; x86 allows any alignment.
        unsafe {
            std::arch::asm!("mov {0}, qword ptr [{1}]", out(reg) word, in(reg) at,
                options(nostack, readonly, preserves_flags));
        }
        word
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let mut bytes = [0u8; 8];
        for (i, byte) in bytes.iter_mut().enumerate() {
            // SAFETY: i < 8, and the caller vouches for eight bytes.
            *byte = unsafe { at.add(i).read_volatile() };
        }
        u64::from_ne_bytes(bytes)
    }
}
