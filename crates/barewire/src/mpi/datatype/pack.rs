//! Pack and unpack: between user memory and any slice of the packed message.
//!
//! User memory is whatever can copy bytes at an offset from the buffer's address: a slice in Rust, a raw pointer at the C
//! boundary. The packed side is always a slice, so wire memory can be that slice and no packed temporary exists.

use super::Datatype;
use super::layout::Visit;

/// User memory to read from; offsets count from the address the user gave, and may be negative.
///
/// ```
/// use barewire::mpi::datatype::{Basic, Datatype, Source};
/// /// Memory in which every byte is its own address.
/// struct Addresses;
/// impl Source for Addresses {
///     fn copy_in(&self, offset: isize, into: &mut [u8]) {
///         into.iter_mut().zip(offset..).for_each(|(byte, address)| *byte = address as u8);
///     }
/// }
/// let mut out = [0; 3];
/// Datatype::vector(3, 1, 4, &Basic::Byte.into())?.pack(1, &Addresses, 0, &mut out);
/// assert_eq!(out, [0, 4, 8]);
/// # Ok::<(), barewire::mpi::error::Error>(())
/// ```
pub trait Source {
    /// Fills `into` with the bytes at `offset`.
    ///
    /// ```
    /// use barewire::mpi::datatype::Source;
    /// let mut two = [0; 2];
    /// b"abcdef"[..].copy_in(3, &mut two);
    /// assert_eq!(&two, b"de");
    /// ```
    fn copy_in(&self, offset: isize, into: &mut [u8]);
}

/// User memory to write to; offsets count from the address the user gave, and may be negative.
///
/// ```
/// use barewire::mpi::datatype::{Basic, Datatype, Sink};
/// /// Writes down what would be written.
/// struct Log(Vec<(isize, Vec<u8>)>);
/// impl Sink for Log {
///     fn copy_out(&mut self, offset: isize, from: &[u8]) {
///         self.0.push((offset, from.to_vec()));
///     }
/// }
/// let mut log = Log(Vec::new());
/// Datatype::vector(2, 3, 5, &Basic::Byte.into())?.unpack(1, &mut log, 0, b"abcdef");
/// assert_eq!(log.0, [(0, b"abc".to_vec()), (5, b"def".to_vec())]);
/// # Ok::<(), barewire::mpi::error::Error>(())
/// ```
pub trait Sink {
    /// Stores `from` at `offset`.
    ///
    /// ```
    /// use barewire::mpi::datatype::Sink;
    /// let mut memory = *b"......";
    /// memory[..].copy_out(1, b"ab");
    /// assert_eq!(&memory, b".ab...");
    /// ```
    fn copy_out(&mut self, offset: isize, from: &[u8]);
}

impl Source for [u8] {
    #[inline]
    fn copy_in(&self, offset: isize, into: &mut [u8]) {
        let start = usize::try_from(offset).expect("the datatype stays inside the slice");
        into.copy_from_slice(&self[start..start + into.len()]);
    }
}

impl Sink for [u8] {
    #[inline]
    fn copy_out(&mut self, offset: isize, from: &[u8]) {
        let start = usize::try_from(offset).expect("the datatype stays inside the slice");
        self[start..start + from.len()].copy_from_slice(from);
    }
}

impl Datatype {
    /// Packs the bytes from position `from` of a message of `count` elements into `out`; returns how many there were.
    ///
    /// The slice may be any piece of the message: the walk finds the place of `from` by itself.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Datatype};
    /// let column = Datatype::vector(3, 1, 2, &Basic::Byte.into())?;
    /// let matrix = *b"a1b2c3";
    /// let mut piece = [0; 2];
    /// assert_eq!(column.pack(1, &matrix[..], 1, &mut piece), 2);
    /// assert_eq!(&piece, b"bc");
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    #[inline]
    pub fn pack<S: Source + ?Sized>(&self, count: i64, memory: &S, from: i64, out: &mut [u8]) -> usize {
        let take = out.len();
        let mut packer = Packer { memory, out };
        self.layout().walk(count, self.extent(), from, take as i64, &mut packer);
        take - packer.out.len()
    }

    /// Unpacks `packed`, the bytes at position `from` of a message of `count` elements; returns how many were used.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Datatype};
    /// let column = Datatype::vector(3, 1, 2, &Basic::Byte.into())?;
    /// let mut matrix = *b"a1b2c3";
    /// assert_eq!(column.unpack(1, &mut matrix[..], 1, b"BCDE"), 2);
    /// assert_eq!(&matrix, b"a1B2C3");
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    #[inline]
    pub fn unpack<S: Sink + ?Sized>(&self, count: i64, memory: &mut S, from: i64, packed: &[u8]) -> usize {
        let mut unpacker = Unpacker { memory, packed };
        self.layout().walk(count, self.extent(), from, packed.len() as i64, &mut unpacker);
        packed.len() - unpacker.packed.len()
    }

    /// Visits the contiguous runs that hold the packed bytes `from..from + take`, to build a gather list.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Datatype};
    /// let column = Datatype::vector(2, 1, 3, &Basic::Int.into())?;
    /// let mut runs = Vec::new();
    /// column.runs(1, 0, column.size(), |offset, len| runs.push((offset, len)));
    /// assert_eq!(runs, [(0, 4), (12, 4)]);
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn runs(&self, count: i64, from: i64, take: i64, mut visit: impl FnMut(i64, i64)) {
        self.layout().walk(count, self.extent(), from, take, &mut visit);
    }
}

/// Copies runs whose length is one of the common short ones with moves, all others as `$other` says.
macro_rules! by_length {
    ($self:ident, $len:expr, $offset:expr, $stride:expr, $count:expr, $other:expr) => {
        match $len {
            1 => $self.fixed::<1>($offset, $stride, $count),
            2 => $self.fixed::<2>($offset, $stride, $count),
            4 => $self.fixed::<4>($offset, $stride, $count),
            8 => $self.fixed::<8>($offset, $stride, $count),
            12 => $self.fixed::<12>($offset, $stride, $count),
            16 => $self.fixed::<16>($offset, $stride, $count),
            24 => $self.fixed::<24>($offset, $stride, $count),
            32 => $self.fixed::<32>($offset, $stride, $count),
            _ => $other,
        }
    };
}

struct Packer<'a, 'b, S: ?Sized> {
    memory: &'a S,
    out: &'b mut [u8],
}

impl<'b, S: Source + ?Sized> Packer<'_, 'b, S> {
    #[inline]
    fn take(&mut self, len: usize) -> &'b mut [u8] {
        let (head, tail) = std::mem::take(&mut self.out).split_at_mut(len);
        self.out = tail;
        head
    }

    /// The length is known at compile time, so each copy is a move or two instead of a call.
    #[inline]
    fn fixed<const LEN: usize>(&mut self, offset: i64, stride: i64, count: usize) {
        let out = self.take(count * LEN);
        for (i, chunk) in out.chunks_exact_mut(LEN).enumerate() {
            let chunk: &mut [u8; LEN] = chunk.try_into().expect("chunks_exact_mut gives chunks of LEN");
            self.memory.copy_in((offset + i as i64 * stride) as isize, chunk);
        }
    }
}

impl<S: Source + ?Sized> Visit for Packer<'_, '_, S> {
    #[inline]
    fn run(&mut self, offset: i64, len: i64) {
        by_length!(self, len, offset, 0, 1, {
            let out = self.take(len as usize);
            self.memory.copy_in(offset as isize, out);
        });
    }

    fn strided(&mut self, offset: i64, stride: i64, count: i64, len: i64) {
        let n = count as usize;
        by_length!(self, len, offset, stride, n, (0..count).for_each(|i| self.run(offset + i * stride, len)));
    }
}

struct Unpacker<'a, 'b, S: ?Sized> {
    memory: &'a mut S,
    packed: &'b [u8],
}

impl<'b, S: Sink + ?Sized> Unpacker<'_, 'b, S> {
    #[inline]
    fn take(&mut self, len: usize) -> &'b [u8] {
        let (head, tail) = self.packed.split_at(len);
        self.packed = tail;
        head
    }

    #[inline]
    fn fixed<const LEN: usize>(&mut self, offset: i64, stride: i64, count: usize) {
        let packed = self.take(count * LEN);
        for (i, chunk) in packed.chunks_exact(LEN).enumerate() {
            let chunk: &[u8; LEN] = chunk.try_into().expect("chunks_exact gives chunks of LEN");
            self.memory.copy_out((offset + i as i64 * stride) as isize, chunk);
        }
    }
}

impl<S: Sink + ?Sized> Visit for Unpacker<'_, '_, S> {
    #[inline]
    fn run(&mut self, offset: i64, len: i64) {
        by_length!(self, len, offset, 0, 1, {
            let packed = self.take(len as usize);
            self.memory.copy_out(offset as isize, packed);
        });
    }

    fn strided(&mut self, offset: i64, stride: i64, count: i64, len: i64) {
        let n = count as usize;
        by_length!(self, len, offset, stride, n, (0..count).for_each(|i| self.run(offset + i * stride, len)));
    }
}

const _: () = assert!(size_of::<isize>() == 8, "offsets of 64 bits are copied with pointers of 64 bits");
