//! Operations: how two buffers of one basic type become one.
//!
//! An operation on a type is resolved once to a plain function over byte slices, [`Combine`]; collectives then call that
//! function for every piece. The loops take unaligned bytes and are simple enough for the compiler to vectorise.
//!
//! ```
//! use barewire::mpi::{datatype::Basic, op::Builtin};
//! let max = Builtin::Max.combine(Basic::Int16)?;
//! let bytes = |heights: [i16; 2]| heights.map(i16::to_ne_bytes).concat();
//! let mut highest = bytes([3, -9]);
//! for others in [[1, -4], [2, -6]] {
//!     max(&bytes(others), &mut highest);
//! }
//! assert_eq!(highest, bytes([3, -4]));
//! # Ok::<(), barewire::mpi::error::Error>(())
//! ```

use super::datatype::{Basic, Format, Kind};
use super::error::{Class, Error, Result};
use super::float::{Wide, half_to_single, single_to_half};
use barewire_sys::vector::{Loop, widest};

/// `inout = input op inout`, element by element, for as many whole elements as both slices hold.
///
/// ```
/// use barewire::mpi::{datatype::Basic, op::{Builtin, Combine}};
/// let and: Combine = Builtin::Band.combine(Basic::Uint8)?;
/// let mut bits = [0b1100, 0b1010, 0xff];
/// and(&[0b0110, 0b0011], &mut bits);
/// assert_eq!(bits, [0b0100, 0b0010, 0xff], "the third has no partner and stays");
/// # Ok::<(), barewire::mpi::error::Error>(())
/// ```
pub type Combine = fn(input: &[u8], inout: &mut [u8]);

/// A predefined operation; the discriminant is its handle in the standard ABI.
///
/// ```
/// use barewire::mpi::{datatype::Basic, op::Builtin};
/// let pair = |value: i32, rank: i32| [value, rank].map(i32::to_ne_bytes).concat();
/// let minloc = Builtin::Minloc.combine(Basic::TwoInt)?;
/// let mut best = pair(5, 2);
/// minloc(&pair(5, 1), &mut best);
/// assert_eq!(best, pair(5, 1), "of equal values the lower rank");
/// assert_eq!(Builtin::Minloc as u16, 0x38);
/// # Ok::<(), barewire::mpi::error::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
#[allow(missing_docs, reason = "each variant is named after the constant it stands for")]
pub enum Builtin {
    Sum = 0x21,
    Min = 0x22,
    Max = 0x23,
    Prod = 0x24,
    Band = 0x28,
    Bor = 0x29,
    Bxor = 0x2a,
    Land = 0x30,
    Lor = 0x31,
    Lxor = 0x32,
    Minloc = 0x38,
    Maxloc = 0x39,
    Replace = 0x3c,
    NoOp = 0x3d,
}

impl Builtin {
    /// Every predefined operation.
    pub const ALL: [Builtin; 14] = [
        Builtin::Sum,
        Builtin::Min,
        Builtin::Max,
        Builtin::Prod,
        Builtin::Band,
        Builtin::Bor,
        Builtin::Bxor,
        Builtin::Land,
        Builtin::Lor,
        Builtin::Lxor,
        Builtin::Minloc,
        Builtin::Maxloc,
        Builtin::Replace,
        Builtin::NoOp,
    ];

    /// The operation with this handle in the standard ABI.
    ///
    /// ```
    /// use barewire::mpi::op::Builtin;
    /// assert_eq!(Builtin::from_handle(0x21), Some(Builtin::Sum));
    /// assert_eq!(Builtin::from_handle(0x20), None, "the null handle is no operation");
    /// ```
    pub fn from_handle(handle: usize) -> Option<Builtin> {
        Builtin::ALL.into_iter().find(|&op| op as usize == handle)
    }

    /// The name the standard gives it.
    ///
    /// ```
    /// use barewire::mpi::op::Builtin;
    /// assert_eq!(Builtin::Bxor.name(), "MPI_BXOR");
    /// assert!(Builtin::ALL.iter().all(|op| op.name().starts_with("MPI_")));
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            Builtin::Sum => "MPI_SUM",
            Builtin::Min => "MPI_MIN",
            Builtin::Max => "MPI_MAX",
            Builtin::Prod => "MPI_PROD",
            Builtin::Band => "MPI_BAND",
            Builtin::Bor => "MPI_BOR",
            Builtin::Bxor => "MPI_BXOR",
            Builtin::Land => "MPI_LAND",
            Builtin::Lor => "MPI_LOR",
            Builtin::Lxor => "MPI_LXOR",
            Builtin::Minloc => "MPI_MINLOC",
            Builtin::Maxloc => "MPI_MAXLOC",
            Builtin::Replace => "MPI_REPLACE",
            Builtin::NoOp => "MPI_NO_OP",
        }
    }

    /// The function for one basic type, or an error where the standard does not define the operation on it.
    ///
    /// `MPI_REPLACE` and `MPI_NO_OP` are for one-sided communication; [`Builtin::accumulate`] has them.
    ///
    /// ```
    /// use barewire::mpi::{datatype::Basic, op::Builtin};
    /// let sum = Builtin::Sum.combine(Basic::Int)?;
    /// let mut total = 40i32.to_ne_bytes();
    /// sum(&2i32.to_ne_bytes(), &mut total);
    /// assert_eq!(i32::from_ne_bytes(total), 42);
    /// assert!(Builtin::Band.combine(Basic::Double).is_err());
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn combine(self, basic: Basic) -> Result<Combine> {
        let combine = match basic.kind() {
            Kind::Signed => integer(self, basic.size(), true).or_else(|| logical(self, basic.size())),
            Kind::Unsigned => integer(self, basic.size(), false).or_else(|| logical(self, basic.size())),
            Kind::FortranInteger => integer(self, basic.size(), true),
            Kind::Logical => logical(self, basic.size()),
            Kind::Byte => bitwise(self),
            Kind::Real(format) => real(self, format),
            Kind::Complex(format) => complex(self, format),
            Kind::Pair(_) => location(self, basic),
            Kind::Text => None,
        };
        combine.ok_or_else(|| {
            Error::new(Class::Op, format!("{} is not defined on {}", self.name(), basic.name()))
        })
    }

    /// Like [`Builtin::combine`], with `MPI_REPLACE` and `MPI_NO_OP`, which work on every type.
    ///
    /// ```
    /// use barewire::mpi::{datatype::Basic, op::Builtin};
    /// let mut target = *b"old text";
    /// Builtin::Replace.accumulate(Basic::Character)?(b"new", &mut target);
    /// Builtin::NoOp.accumulate(Basic::Character)?(b"--------", &mut target);
    /// assert_eq!(&target, b"new text");
    /// assert!(Builtin::Replace.combine(Basic::Character).is_err(), "a reduction cannot replace");
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn accumulate(self, basic: Basic) -> Result<Combine> {
        match self {
            Builtin::Replace => Ok(|input, inout| {
                let len = input.len().min(inout.len());
                inout[..len].copy_from_slice(&input[..len]);
            }),
            Builtin::NoOp => Ok(|_, _| ()),
            _ => self.combine(basic),
        }
    }
}

/// From this many bytes on wide registers are worth a look at what the processor has.
const MANY: usize = 64;

/// One function for every two elements.
struct Each<'a, const N: usize, F>(&'a [u8], &'a mut [u8], F);

impl<const N: usize, F: Fn([u8; N], [u8; N]) -> [u8; N]> Loop for Each<'_, N, F> {
    #[inline(always)]
    fn run(self) {
        let Each(input, inout, f) = self;
        for (a, b) in input.chunks_exact(N).zip(inout.chunks_exact_mut(N)) {
            let a: [u8; N] = a.try_into().expect("chunks_exact gives chunks of N");
            let b: &mut [u8; N] = b.try_into().expect("chunks_exact_mut gives chunks of N");
            *b = f(a, *b);
        }
    }
}

#[inline(always)]
fn each<const N: usize>(input: &[u8], inout: &mut [u8], f: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    match input.len() {
        ..MANY => Each(input, inout, f).run(),
        _ => widest(Each(input, inout, f)),
    }
}

/// A loop over one number type as a [`Combine`].
macro_rules! over {
    ($number:ty, |$a:ident, $b:ident| $result:expr) => {
        Some(
            (|input, inout| {
                each(input, inout, |a, b| {
                    let ($a, $b) = (<$number>::from_ne_bytes(a), <$number>::from_ne_bytes(b));
                    <$number>::to_ne_bytes($result)
                })
            }) as Combine,
        )
    };
}

macro_rules! arithmetic {
    ($op:expr, $number:ty) => {
        match $op {
            Builtin::Sum => over!($number, |a, b| a.wrapping_add(b)),
            Builtin::Prod => over!($number, |a, b| a.wrapping_mul(b)),
            Builtin::Min => over!($number, |a, b| a.min(b)),
            Builtin::Max => over!($number, |a, b| a.max(b)),
            _ => bitwise($op),
        }
    };
}

fn integer(op: Builtin, size: i64, signed: bool) -> Option<Combine> {
    match (size, signed) {
        (1, true) => arithmetic!(op, i8),
        (2, true) => arithmetic!(op, i16),
        (4, true) => arithmetic!(op, i32),
        (8, true) => arithmetic!(op, i64),
        (16, true) => arithmetic!(op, i128),
        (1, false) => arithmetic!(op, u8),
        (2, false) => arithmetic!(op, u16),
        (4, false) => arithmetic!(op, u32),
        (8, false) => arithmetic!(op, u64),
        _ => None,
    }
}

/// Bits do not care about the width of the number they are part of.
fn bitwise(op: Builtin) -> Option<Combine> {
    match op {
        Builtin::Band => over!(u8, |a, b| a & b),
        Builtin::Bor => over!(u8, |a, b| a | b),
        Builtin::Bxor => over!(u8, |a, b| a ^ b),
        _ => None,
    }
}

macro_rules! truth {
    ($op:expr, $number:ty) => {
        match $op {
            Builtin::Land => over!($number, |a, b| <$number>::from(a != 0 && b != 0)),
            Builtin::Lor => over!($number, |a, b| <$number>::from(a != 0 || b != 0)),
            Builtin::Lxor => over!($number, |a, b| <$number>::from((a != 0) != (b != 0))),
            _ => None,
        }
    };
}

fn logical(op: Builtin, size: i64) -> Option<Combine> {
    match size {
        1 => truth!(op, u8),
        2 => truth!(op, u16),
        4 => truth!(op, u32),
        8 => truth!(op, u64),
        16 => truth!(op, u128),
        _ => None,
    }
}

macro_rules! floating {
    ($op:expr, $number:ty) => {
        match $op {
            Builtin::Sum => over!($number, |a, b| a + b),
            Builtin::Prod => over!($number, |a, b| a * b),
            Builtin::Min => over!($number, |a, b| if b < a { b } else { a }),
            Builtin::Max => over!($number, |a, b| if b > a { b } else { a }),
            _ => None,
        }
    };
}

fn real(op: Builtin, format: Format) -> Option<Combine> {
    match format {
        Format::Half => floating!(op, Half),
        Format::Single => floating!(op, f32),
        Format::Double => floating!(op, f64),
        Format::Extended => floating!(op, Extended),
        Format::Quad => floating!(op, Quad),
    }
}

fn complex(op: Builtin, format: Format) -> Option<Combine> {
    match format {
        Format::Half => complex_over::<Half, 4, 2>(op),
        Format::Single => complex_over::<f32, 8, 4>(op),
        Format::Double => complex_over::<f64, 16, 8>(op),
        Format::Extended => complex_over::<Extended, 32, 16>(op),
        Format::Quad => complex_over::<Quad, 32, 16>(op),
    }
}

fn complex_over<T: Number<HALF>, const WHOLE: usize, const HALF: usize>(op: Builtin) -> Option<Combine> {
    match op {
        Builtin::Sum => {
            Some(|input, inout| each::<HALF>(input, inout, |a, b| T::store(T::load(a) + T::load(b))))
        }
        Builtin::Prod => Some(|input, inout| {
            each::<WHOLE>(input, inout, |a, b| {
                let parts = |whole: [u8; WHOLE]| {
                    let (re, im) = whole.split_at(HALF);
                    let load = |half: &[u8]| T::load(half.try_into().expect("a half of WHOLE"));
                    (load(re), load(im))
                };
                let ((ar, ai), (br, bi)) = (parts(a), parts(b));
                let mut product = [0; WHOLE];
                product[..HALF].copy_from_slice(&T::store(ar * br + -(ai * bi)));
                product[HALF..].copy_from_slice(&T::store(ar * bi + ai * br));
                product
            })
        }),
        _ => None,
    }
}

/// `MPI_MINLOC` and `MPI_MAXLOC`: the better value with its index; on a tie the lower index.
fn location(op: Builtin, basic: Basic) -> Option<Combine> {
    match op {
        Builtin::Minloc => location_over::<true>(basic),
        Builtin::Maxloc => location_over::<false>(basic),
        _ => None,
    }
}

fn location_over<const MIN: bool>(basic: Basic) -> Option<Combine> {
    macro_rules! pairs {
        ($value:ty, $width:literal, $index:ty, $offset:literal, $extent:literal) => {
            Some(
                (|input, inout| {
                    each::<$extent>(input, inout, |a, b| {
                        let value = |pair: &[u8; $extent]| {
                            <$value>::from_ne_bytes(pair[..$width].try_into().expect("width of the value"))
                        };
                        let index = |pair: &[u8; $extent]| {
                            let bytes = &pair[$offset..$offset + size_of::<$index>()];
                            <$index>::from_ne_bytes(bytes.try_into().expect("width of the index"))
                        };
                        let (x, y) = (value(&a), value(&b));
                        let better = if MIN { x < y } else { x > y };
                        if better || (x == y && index(&a) < index(&b)) { a } else { b }
                    })
                }) as Combine,
            )
        };
    }
    match basic {
        Basic::FloatInt => pairs!(f32, 4, i32, 4, 8),
        Basic::DoubleInt => pairs!(f64, 8, i32, 8, 16),
        Basic::LongInt => pairs!(i64, 8, i32, 8, 16),
        Basic::TwoInt | Basic::TwoInteger => pairs!(i32, 4, i32, 4, 8),
        Basic::ShortInt => pairs!(i16, 2, i32, 4, 8),
        Basic::LongDoubleInt => pairs!(Extended, 16, i32, 16, 32),
        Basic::TwoReal => pairs!(f32, 4, f32, 4, 8),
        Basic::TwoDoublePrecision => pairs!(f64, 8, f64, 8, 16),
        _ => None,
    }
}

/// What a part of a complex number can do.
trait Number<const N: usize>:
    Copy + std::ops::Add<Output = Self> + std::ops::Mul<Output = Self> + std::ops::Neg<Output = Self>
{
    fn load(bytes: [u8; N]) -> Self;
    fn store(self) -> [u8; N];
}

macro_rules! number {
    ($number:ty, $width:literal) => {
        impl Number<$width> for $number {
            #[inline(always)]
            fn load(bytes: [u8; $width]) -> $number {
                <$number>::from_ne_bytes(bytes)
            }
            #[inline(always)]
            fn store(self) -> [u8; $width] {
                self.to_ne_bytes()
            }
        }
    };
}

number!(f32, 4);
number!(f64, 8);
number!(Half, 2);
number!(Extended, 16);
number!(Quad, 16);

/// A number of a format Rust has no type for; every result is rounded to the format.
macro_rules! soft {
    ($name:ident, $inner:ty, $width:literal, $load:expr, $store:expr, $add:expr, $mul:expr, $neg:expr) => {
        #[derive(Clone, Copy, PartialEq, PartialOrd)]
        struct $name($inner);

        impl $name {
            fn from_ne_bytes(bytes: [u8; $width]) -> $name {
                $name($load(bytes))
            }
            fn to_ne_bytes(self) -> [u8; $width] {
                $store(self.0)
            }
            fn rounded(self) -> $name {
                $name::from_ne_bytes(self.to_ne_bytes())
            }
        }

        impl std::ops::Add for $name {
            type Output = $name;
            fn add(self, other: $name) -> $name {
                $name($add(self.0, other.0)).rounded()
            }
        }

        impl std::ops::Mul for $name {
            type Output = $name;
            fn mul(self, other: $name) -> $name {
                $name($mul(self.0, other.0)).rounded()
            }
        }

        impl std::ops::Neg for $name {
            type Output = $name;
            fn neg(self) -> $name {
                $name($neg(self.0))
            }
        }
    };
}

soft!(
    Half,
    f32,
    2,
    |bytes| half_to_single(u16::from_ne_bytes(bytes)),
    |value| single_to_half(value).to_ne_bytes(),
    |a: f32, b: f32| a + b,
    |a: f32, b: f32| a * b,
    |a: f32| -a
);
soft!(
    Extended,
    Wide,
    16,
    |bytes| Wide::decode(bytes, Format::Extended),
    |value: Wide| value.encode(Format::Extended),
    Wide::add,
    Wide::mul,
    Wide::negate
);
soft!(
    Quad,
    Wide,
    16,
    |bytes| Wide::decode(bytes, Format::Quad),
    |value: Wide| value.encode(Format::Quad),
    Wide::add,
    Wide::mul,
    Wide::negate
);

#[cfg(test)]
#[path = "op_tests.rs"]
mod tests;
