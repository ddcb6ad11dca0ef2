//! Basic types: the predefined datatypes, with the numbers the standard ABI gives them.
//!
//! One table says everything about a basic type: its handle, its name, what kind of value it holds, how wide it is here and how
//! wide in `external32`. Pair types (value, index) are basic too; they are the only ones with a gap inside.

/// What a basic type holds; decides which operations it allows and how it is converted.
///
/// ```
/// use barewire::mpi::datatype::{Basic, Kind};
/// let adds_up = |basic: Basic| matches!(basic.kind(), Kind::Signed | Kind::Unsigned | Kind::FortranInteger);
/// assert!(adds_up(Basic::Char), "a char is a number in C");
/// assert!(!adds_up(Basic::Character), "in Fortran it is text");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A signed integer of C, or one all languages share.
    Signed,
    /// An unsigned integer of C.
    Unsigned,
    /// An integer of Fortran: no logical operations.
    FortranInteger,
    /// A floating-point number.
    Real(Format),
    /// Two floating-point numbers.
    Complex(Format),
    /// A truth value; anything but zero is true.
    Logical,
    /// Bytes without meaning: bitwise operations only.
    Byte,
    /// Characters: no operations.
    Text,
    /// A value and an index, for `MPI_MINLOC` and `MPI_MAXLOC`.
    Pair(&'static Pair),
}

/// A floating-point format.
///
/// ```
/// use barewire::mpi::datatype::{Basic, Format, Kind};
/// assert_eq!(Basic::Float.kind(), Kind::Real(Format::Single));
/// assert_eq!(Basic::LongDouble.kind(), Kind::Real(Format::Extended));
/// assert_eq!(Basic::Complex32.kind(), Kind::Complex(Format::Quad));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// IEEE binary16.
    Half,
    /// IEEE binary32.
    Single,
    /// IEEE binary64.
    Double,
    /// The 80-bit extended format of x87, stored in 16 bytes.
    Extended,
    /// IEEE binary128.
    Quad,
}

/// The two members of a pair type.
///
/// ```
/// use barewire::mpi::datatype::{Basic, Kind};
/// let Kind::Pair(pair) = Basic::ShortInt.kind() else { panic!("it has an index") };
/// assert_eq!((pair.value, pair.index), (Basic::Short, Basic::Int));
/// assert_eq!(pair.index_offset, 4, "an int begins at a multiple of four");
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct Pair {
    /// The type of the value, at offset 0.
    pub value: Basic,
    /// The type of the index.
    pub index: Basic,
    /// Where the index is.
    pub index_offset: i64,
}

macro_rules! basics {
    ($($variant:ident = $handle:literal, $name:literal, $kind:expr, $size:literal, $extent:literal, $external:literal;)*) => {
        /// A predefined datatype; the discriminant is its handle in the standard ABI.
        ///
        /// ```
        /// use barewire::mpi::datatype::{Basic, Datatype};
        /// assert_eq!(Basic::Int as u16, 0x209);
        /// assert_eq!(Datatype::from(Basic::Int).size(), 4);
        /// assert_eq!(Basic::Int.name(), "MPI_INT");
        /// ```
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        #[allow(missing_docs, reason = "each variant is named after the constant it stands for")]
        pub enum Basic { $($variant = $handle,)* }

        const TABLE: &[Row] = &[$(
            Row { basic: Basic::$variant, name: $name, kind: $kind, size: $size, extent: $extent, external: $external },
        )*];
    };
}

struct Row {
    basic: Basic,
    name: &'static str,
    kind: Kind,
    size: i64,
    extent: i64,
    external: i64,
}

const fn pair(value: Basic, index: Basic, index_offset: i64) -> Pair {
    Pair { value, index, index_offset }
}

static FLOAT_INT: Pair = pair(Basic::Float, Basic::Int, 4);
static DOUBLE_INT: Pair = pair(Basic::Double, Basic::Int, 8);
static LONG_INT: Pair = pair(Basic::Long, Basic::Int, 8);
static TWO_INT: Pair = pair(Basic::Int, Basic::Int, 4);
static SHORT_INT: Pair = pair(Basic::Short, Basic::Int, 4);
static LONG_DOUBLE_INT: Pair = pair(Basic::LongDouble, Basic::Int, 16);
static TWO_REAL: Pair = pair(Basic::Real, Basic::Real, 4);
static TWO_DOUBLE_PRECISION: Pair = pair(Basic::DoublePrecision, Basic::DoublePrecision, 8);
static TWO_INTEGER: Pair = pair(Basic::Integer, Basic::Integer, 4);

use Format::{Double, Extended, Half, Quad, Single};
use Kind::{Byte, Complex, FortranInteger, Logical, Real, Signed, Text, Unsigned};

basics! {
    // variant = handle, name, kind, size, extent, size in external32
    Aint = 0x201, "MPI_AINT", Signed, 8, 8, 8;
    Count = 0x202, "MPI_COUNT", Signed, 8, 8, 8;
    Offset = 0x203, "MPI_OFFSET", Signed, 8, 8, 8;
    Packed = 0x207, "MPI_PACKED", Text, 1, 1, 1;
    Short = 0x208, "MPI_SHORT", Signed, 2, 2, 2;
    Int = 0x209, "MPI_INT", Signed, 4, 4, 4;
    Long = 0x20a, "MPI_LONG", Signed, 8, 8, 4;
    LongLong = 0x20b, "MPI_LONG_LONG_INT", Signed, 8, 8, 8;
    UnsignedShort = 0x20c, "MPI_UNSIGNED_SHORT", Unsigned, 2, 2, 2;
    UnsignedInt = 0x20d, "MPI_UNSIGNED", Unsigned, 4, 4, 4;
    UnsignedLong = 0x20e, "MPI_UNSIGNED_LONG", Unsigned, 8, 8, 4;
    UnsignedLongLong = 0x20f, "MPI_UNSIGNED_LONG_LONG", Unsigned, 8, 8, 8;
    Float = 0x210, "MPI_FLOAT", Real(Single), 4, 4, 4;
    CFloatComplex = 0x212, "MPI_C_COMPLEX", Complex(Single), 8, 8, 8;
    CxxFloatComplex = 0x213, "MPI_CXX_FLOAT_COMPLEX", Complex(Single), 8, 8, 8;
    Double = 0x214, "MPI_DOUBLE", Real(Double), 8, 8, 8;
    CDoubleComplex = 0x216, "MPI_C_DOUBLE_COMPLEX", Complex(Double), 16, 16, 16;
    CxxDoubleComplex = 0x217, "MPI_CXX_DOUBLE_COMPLEX", Complex(Double), 16, 16, 16;
    Logical = 0x218, "MPI_LOGICAL", Logical, 4, 4, 4;
    Integer = 0x219, "MPI_INTEGER", FortranInteger, 4, 4, 4;
    Real = 0x21a, "MPI_REAL", Real(Single), 4, 4, 4;
    Complex = 0x21b, "MPI_COMPLEX", Complex(Single), 8, 8, 8;
    DoublePrecision = 0x21c, "MPI_DOUBLE_PRECISION", Real(Double), 8, 8, 8;
    DoubleComplex = 0x21d, "MPI_DOUBLE_COMPLEX", Complex(Double), 16, 16, 16;
    Character = 0x21e, "MPI_CHARACTER", Text, 1, 1, 1;
    LongDouble = 0x220, "MPI_LONG_DOUBLE", Real(Extended), 16, 16, 16;
    CLongDoubleComplex = 0x224, "MPI_C_LONG_DOUBLE_COMPLEX", Complex(Extended), 32, 32, 32;
    CxxLongDoubleComplex = 0x225, "MPI_CXX_LONG_DOUBLE_COMPLEX", Complex(Extended), 32, 32, 32;
    FloatInt = 0x228, "MPI_FLOAT_INT", Kind::Pair(&FLOAT_INT), 8, 8, 8;
    DoubleInt = 0x229, "MPI_DOUBLE_INT", Kind::Pair(&DOUBLE_INT), 12, 16, 12;
    LongInt = 0x22a, "MPI_LONG_INT", Kind::Pair(&LONG_INT), 12, 16, 8;
    TwoInt = 0x22b, "MPI_2INT", Kind::Pair(&TWO_INT), 8, 8, 8;
    ShortInt = 0x22c, "MPI_SHORT_INT", Kind::Pair(&SHORT_INT), 6, 8, 6;
    LongDoubleInt = 0x22d, "MPI_LONG_DOUBLE_INT", Kind::Pair(&LONG_DOUBLE_INT), 20, 32, 20;
    TwoReal = 0x230, "MPI_2REAL", Kind::Pair(&TWO_REAL), 8, 8, 8;
    TwoDoublePrecision = 0x231, "MPI_2DOUBLE_PRECISION", Kind::Pair(&TWO_DOUBLE_PRECISION), 16, 16, 16;
    TwoInteger = 0x232, "MPI_2INTEGER", Kind::Pair(&TWO_INTEGER), 8, 8, 8;
    CBool = 0x238, "MPI_C_BOOL", Logical, 1, 1, 1;
    CxxBool = 0x239, "MPI_CXX_BOOL", Logical, 1, 1, 1;
    Wchar = 0x23c, "MPI_WCHAR", Text, 4, 4, 2;
    Int8 = 0x240, "MPI_INT8_T", Signed, 1, 1, 1;
    Uint8 = 0x241, "MPI_UINT8_T", Unsigned, 1, 1, 1;
    Char = 0x243, "MPI_CHAR", Signed, 1, 1, 1;
    SignedChar = 0x244, "MPI_SIGNED_CHAR", Signed, 1, 1, 1;
    UnsignedChar = 0x245, "MPI_UNSIGNED_CHAR", Unsigned, 1, 1, 1;
    Byte = 0x247, "MPI_BYTE", Byte, 1, 1, 1;
    Int16 = 0x248, "MPI_INT16_T", Signed, 2, 2, 2;
    Uint16 = 0x249, "MPI_UINT16_T", Unsigned, 2, 2, 2;
    Int32 = 0x250, "MPI_INT32_T", Signed, 4, 4, 4;
    Uint32 = 0x251, "MPI_UINT32_T", Unsigned, 4, 4, 4;
    Int64 = 0x258, "MPI_INT64_T", Signed, 8, 8, 8;
    Uint64 = 0x259, "MPI_UINT64_T", Unsigned, 8, 8, 8;
    Logical1 = 0x2c0, "MPI_LOGICAL1", Logical, 1, 1, 1;
    Integer1 = 0x2c1, "MPI_INTEGER1", FortranInteger, 1, 1, 1;
    Logical2 = 0x2c8, "MPI_LOGICAL2", Logical, 2, 2, 2;
    Integer2 = 0x2c9, "MPI_INTEGER2", FortranInteger, 2, 2, 2;
    Real2 = 0x2ca, "MPI_REAL2", Real(Half), 2, 2, 2;
    Logical4 = 0x2d0, "MPI_LOGICAL4", Logical, 4, 4, 4;
    Integer4 = 0x2d1, "MPI_INTEGER4", FortranInteger, 4, 4, 4;
    Real4 = 0x2d2, "MPI_REAL4", Real(Single), 4, 4, 4;
    Complex4 = 0x2d3, "MPI_COMPLEX4", Complex(Half), 4, 4, 4;
    Logical8 = 0x2d8, "MPI_LOGICAL8", Logical, 8, 8, 8;
    Integer8 = 0x2d9, "MPI_INTEGER8", FortranInteger, 8, 8, 8;
    Real8 = 0x2da, "MPI_REAL8", Real(Double), 8, 8, 8;
    Complex8 = 0x2db, "MPI_COMPLEX8", Complex(Single), 8, 8, 8;
    Logical16 = 0x2e0, "MPI_LOGICAL16", Logical, 16, 16, 16;
    Integer16 = 0x2e1, "MPI_INTEGER16", FortranInteger, 16, 16, 16;
    Real16 = 0x2e2, "MPI_REAL16", Real(Quad), 16, 16, 16;
    Complex16 = 0x2e3, "MPI_COMPLEX16", Complex(Double), 16, 16, 16;
    Complex32 = 0x2eb, "MPI_COMPLEX32", Complex(Quad), 32, 32, 32;
}

const FIRST: usize = 0x200;
const LAST: usize = 0x2eb;

/// Handle minus `FIRST` to row number plus one; zero where there is no type.
static BY_HANDLE: [u8; LAST - FIRST + 1] = {
    let mut index = [0u8; LAST - FIRST + 1];
    let mut row = 0;
    while row < TABLE.len() {
        index[TABLE[row].basic as usize - FIRST] = row as u8 + 1;
        row += 1;
    }
    index
};

/// Handle minus `FIRST` to the size of types without holes; zero for all others.
static SOLID: [u8; LAST - FIRST + 1] = {
    let mut sizes = [0u8; LAST - FIRST + 1];
    let mut row = 0;
    while row < TABLE.len() {
        if TABLE[row].size == TABLE[row].extent {
            sizes[TABLE[row].basic as usize - FIRST] = TABLE[row].size as u8;
        }
        row += 1;
    }
    sizes
};

impl Basic {
    /// Bytes of one element of the basic type with this handle, if elements follow each other without holes.
    ///
    /// ```
    /// use barewire::mpi::datatype::Basic;
    /// assert_eq!(Basic::solid_size(Basic::Double as usize), Some(8));
    /// assert_eq!(Basic::solid_size(Basic::DoubleInt as usize), None, "an int and nothing behind it");
    /// assert_eq!(Basic::solid_size(0x200), None);
    /// ```
    #[inline(always)]
    pub fn solid_size(handle: usize) -> Option<usize> {
        let size = *SOLID.get(handle.wrapping_sub(FIRST))?;
        (size > 0).then_some(size.into())
    }

    /// The basic type with this handle in the standard ABI.
    ///
    /// ```
    /// use barewire::mpi::datatype::Basic;
    /// assert_eq!(Basic::from_handle(0x209), Some(Basic::Int));
    /// assert_eq!(Basic::from_handle(0x200), None, "the null handle is no type");
    /// ```
    #[inline]
    pub fn from_handle(handle: usize) -> Option<Basic> {
        let row = *BY_HANDLE.get(handle.checked_sub(FIRST)?)?;
        TABLE.get((row as usize).checked_sub(1)?).map(|row| row.basic)
    }

    /// Every basic type, in the order of the handles.
    ///
    /// ```
    /// use barewire::mpi::datatype::Basic;
    /// let with_gaps: Vec<Basic> = Basic::all().filter(|basic| basic.size() < basic.extent()).collect();
    /// assert_eq!(with_gaps, [Basic::DoubleInt, Basic::LongInt, Basic::ShortInt, Basic::LongDoubleInt]);
    /// ```
    pub fn all() -> impl ExactSizeIterator<Item = Basic> {
        TABLE.iter().map(|row| row.basic)
    }

    /// Its place in [`Basic::all`].
    ///
    /// ```
    /// use barewire::mpi::datatype::Basic;
    /// assert_eq!(Basic::Aint.index(), 0);
    /// assert!(Basic::all().enumerate().all(|(place, basic)| basic.index() == place));
    /// ```
    pub fn index(self) -> usize {
        BY_HANDLE[self as usize - FIRST] as usize - 1
    }

    fn row(self) -> &'static Row {
        &TABLE[self.index()]
    }

    /// The name the standard gives it.
    ///
    /// ```
    /// use barewire::mpi::datatype::Basic;
    /// assert_eq!(Basic::UnsignedInt.name(), "MPI_UNSIGNED");
    /// assert_eq!(Basic::TwoDoublePrecision.name(), "MPI_2DOUBLE_PRECISION");
    /// ```
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// What it holds.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Kind};
    /// assert_eq!(Basic::CBool.kind(), Kind::Logical);
    /// assert_eq!(Basic::Byte.kind(), Kind::Byte);
    /// assert_eq!(Basic::Packed.kind(), Kind::Text);
    /// ```
    pub fn kind(self) -> Kind {
        self.row().kind
    }

    /// Bytes of data in one element.
    ///
    /// ```
    /// use barewire::mpi::datatype::Basic;
    /// assert_eq!(Basic::Long.size(), 8);
    /// assert_eq!(Basic::DoubleInt.size(), 8 + 4);
    /// ```
    pub fn size(self) -> i64 {
        self.row().size
    }

    /// Bytes from one element to the next.
    ///
    /// ```
    /// use barewire::mpi::datatype::Basic;
    /// assert_eq!(Basic::Long.extent(), 8);
    /// assert_eq!(Basic::DoubleInt.extent(), 16, "the next double begins at a multiple of eight");
    /// ```
    pub fn extent(self) -> i64 {
        self.row().extent
    }

    /// Bytes of one element in the `external32` representation.
    pub(super) fn external_size(self) -> i64 {
        self.row().external
    }

    /// Bytes from the first to the last byte of data, gap included.
    pub(super) fn true_extent(self) -> i64 {
        match self.kind() {
            Kind::Pair(pair) => pair.index_offset + pair.index.size(),
            _ => self.size(),
        }
    }

    /// What its address must be a multiple of, as a C compiler would place it in a structure.
    pub(super) fn alignment(self) -> i64 {
        match self.kind() {
            Kind::Pair(pair) => pair.value.alignment().max(pair.index.alignment()),
            Kind::Complex(_) => self.size() / 2,
            _ => self.size(),
        }
    }

    /// Elements counted by `MPI_Get_elements`: two for a pair, otherwise one.
    pub(super) fn elements(self) -> i64 {
        if matches!(self.kind(), Kind::Pair(_)) { 2 } else { 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_with_a_size_field_agree_with_the_table() {
        for basic in Basic::all() {
            let handle = basic as i64;
            assert_eq!(Basic::from_handle(handle as usize), Some(basic));
            if handle & 0x240 == 0x240 {
                assert_eq!(basic.size(), 1 << ((handle >> 3) & 7), "{}", basic.name());
            }
        }
        assert_eq!(Basic::from_handle(usize::MAX), None);
        assert_eq!(Basic::from_handle(0), None);
    }

    #[test]
    fn a_pair_is_as_large_as_its_members() {
        for basic in Basic::all() {
            if let Kind::Pair(pair) = basic.kind() {
                assert_eq!(basic.size(), pair.value.size() + pair.index.size());
                assert_eq!(basic.external_size(), pair.value.external_size() + pair.index.external_size());
                assert_eq!(pair.index_offset % pair.index.alignment(), 0);
                assert_eq!(basic.extent() % basic.alignment(), 0);
            } else {
                assert_eq!(basic.size(), basic.extent());
            }
        }
    }
}
