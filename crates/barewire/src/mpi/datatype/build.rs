//! Constructors for everything but arrays, and the types chosen by class, size or precision.

use super::recipe::{Combiner, Recipe, Sort};
use super::{Basic, Block, Datatype, Field, Measure, Shape, Span, fit};
use crate::mpi::error::{Class, Error, Result};

impl Datatype {
    /// `count` elements one after another.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Datatype};
    /// assert_eq!(Datatype::contiguous(3, &Basic::Short.into())?.extent(), 6);
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn contiguous(count: i64, old: &Datatype) -> Result<Datatype> {
        let recipe = Recipe::new(Combiner::Contiguous, std::slice::from_ref(old)).with(Sort::Count, &[count]);
        Datatype::repeat(nonnegative("count", count)?, old.extent(), old, recipe)
    }

    /// `count` blocks of `blocklength` elements, `stride` extents apart.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Datatype};
    /// let left_half = Datatype::vector(2, 2, 4, &Basic::Byte.into())?;
    /// let mut out = [0; 4];
    /// left_half.pack(1, &b"ab..cd.."[..], 0, &mut out);
    /// assert_eq!(&out, b"abcd");
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn vector(count: i64, blocklength: i64, stride: i64, old: &Datatype) -> Result<Datatype> {
        let recipe = Recipe::new(Combiner::Vector, std::slice::from_ref(old))
            .with(Sort::Count, &[count, blocklength, stride]);
        let bytes = fit(i128::from(stride) * i128::from(old.extent()))?;
        Datatype::repeat_blocks(count, blocklength, bytes, old, recipe)
    }

    /// `count` blocks of `blocklength` elements, `stride` bytes apart.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Datatype};
    /// // Three shorts, each behind a byte that does not belong to them.
    /// let shorts = Datatype::hvector(3, 1, 3, &Basic::Short.into())?;
    /// assert_eq!((shorts.size(), shorts.extent()), (6, 8));
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn hvector(count: i64, blocklength: i64, stride: i64, old: &Datatype) -> Result<Datatype> {
        let recipe = Recipe::new(Combiner::Hvector, std::slice::from_ref(old))
            .with(Sort::Count, &[count, blocklength])
            .with(Sort::Address, &[stride]);
        Datatype::repeat_blocks(count, blocklength, stride, old, recipe)
    }

    /// Blocks of different lengths, displaced by extents.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Datatype};
    /// let lower_left = Datatype::indexed(&[1, 2, 3], &[0, 3, 6], &Basic::Int.into())?;
    /// assert_eq!((lower_left.size(), lower_left.extent()), (24, 36));
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn indexed(blocklengths: &[i64], displacements: &[i64], old: &Datatype) -> Result<Datatype> {
        let count = same_length(blocklengths, displacements)?;
        let recipe = Recipe::new(Combiner::Indexed, std::slice::from_ref(old))
            .with(Sort::Count, &[count])
            .with(Sort::Count, blocklengths)
            .with(Sort::Count, displacements);
        let blocks = blocks(blocklengths.iter().copied(), displacements, old.extent())?;
        Datatype::blocks(blocks, old, recipe)
    }

    /// Blocks of different lengths, displaced by bytes.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Datatype};
    /// let last_first = Datatype::hindexed(&[1, 2], &[5, 0], &Basic::Byte.into())?;
    /// let mut out = [0; 3];
    /// last_first.pack(1, &b"yz...x"[..], 0, &mut out);
    /// assert_eq!(&out, b"xyz", "packed in the order of the blocks");
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn hindexed(blocklengths: &[i64], displacements: &[i64], old: &Datatype) -> Result<Datatype> {
        let count = same_length(blocklengths, displacements)?;
        let recipe = Recipe::new(Combiner::Hindexed, std::slice::from_ref(old))
            .with(Sort::Count, &[count])
            .with(Sort::Count, blocklengths)
            .with(Sort::Address, displacements);
        Datatype::blocks(blocks(blocklengths.iter().copied(), displacements, 1)?, old, recipe)
    }

    /// Blocks of one length, displaced by extents.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Datatype};
    /// let picked = Datatype::indexed_block(2, &[0, 5], &Basic::Double.into())?;
    /// assert_eq!((picked.size(), picked.extent()), (32, 56));
    /// assert!(Datatype::indexed_block(-1, &[0], &Basic::Double.into()).is_err());
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn indexed_block(blocklength: i64, displacements: &[i64], old: &Datatype) -> Result<Datatype> {
        let recipe = Recipe::new(Combiner::IndexedBlock, std::slice::from_ref(old))
            .with(Sort::Count, &[displacements.len() as i64, blocklength])
            .with(Sort::Count, displacements);
        let blocks = blocks(std::iter::repeat(blocklength), displacements, old.extent())?;
        Datatype::blocks(blocks, old, recipe)
    }

    /// Blocks of one length, displaced by bytes.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Datatype};
    /// let ints = Datatype::hindexed_block(1, &[-4, 6], &Basic::Int.into())?;
    /// assert_eq!((ints.lower_bound(), ints.extent()), (-4, 14));
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn hindexed_block(blocklength: i64, displacements: &[i64], old: &Datatype) -> Result<Datatype> {
        let recipe = Recipe::new(Combiner::HindexedBlock, std::slice::from_ref(old))
            .with(Sort::Count, &[displacements.len() as i64, blocklength])
            .with(Sort::Address, displacements);
        Datatype::blocks(blocks(std::iter::repeat(blocklength), displacements, 1)?, old, recipe)
    }

    /// Blocks of different types, displaced by bytes; the extent is rounded up as a C compiler would.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Datatype};
    /// let record = Datatype::structure(&[1, 1], &[0, 8], &[Basic::Double.into(), Basic::Char.into()])?;
    /// assert_eq!((record.size(), record.extent(), record.true_extent()), (9, 16, 9));
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn structure(blocklengths: &[i64], displacements: &[i64], types: &[Datatype]) -> Result<Datatype> {
        let count = same_length(blocklengths, displacements)?;
        if types.len() != blocklengths.len() {
            return Err(Error::new(Class::Arg, "as many types as blocks are needed"));
        }
        let recipe = Recipe::new(Combiner::Struct, types)
            .with(Sort::Count, &[count])
            .with(Sort::Count, blocklengths)
            .with(Sort::Address, displacements);
        let blocks = blocks(blocklengths.iter().copied(), displacements, 1)?;
        let fields =
            blocks.into_iter().zip(types).map(|(block, body)| Field { block, body: body.clone() }).collect();
        let mut datatype = Datatype::fields(fields, recipe)?;
        let inner = std::sync::Arc::make_mut(&mut datatype.0);
        if let Some(span) = &mut inner.measure.bounds {
            let alignment = i128::from(inner.measure.alignment);
            let extent = i128::from(span.upper) - i128::from(span.lower);
            let rounded = (extent + alignment - 1).div_euclid(alignment) * alignment;
            *span = Span { lower: span.lower, upper: fit(i128::from(span.lower) + rounded)? }.checked()?;
        }
        Ok(datatype)
    }

    /// The same data with another lower bound and extent.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Datatype};
    /// let spaced = Datatype::resized(&Basic::Int.into(), -4, 16)?;
    /// assert_eq!((spaced.lower_bound(), spaced.extent(), spaced.true_extent()), (-4, 16, 4));
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn resized(old: &Datatype, lower: i64, extent: i64) -> Result<Datatype> {
        let recipe =
            Recipe::new(Combiner::Resized, std::slice::from_ref(old)).with(Sort::Address, &[lower, extent]);
        let upper = fit(i128::from(lower) + i128::from(extent))?;
        let measure = Measure { bounds: Some(Span { lower, upper }), ..old.0.measure };
        let shape = Shape::Repeat { count: 1, stride: 0, body: old.clone() };
        Ok(Datatype::assemble(shape, measure, recipe))
    }

    /// A second datatype like the first.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Combiner, Datatype};
    /// let copy = Datatype::vector(2, 1, 3, &Basic::Int.into())?.dup();
    /// assert_eq!((copy.size(), copy.extent()), (8, 16));
    /// assert_eq!(copy.envelope().combiner, Combiner::Dup);
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn dup(&self) -> Datatype {
        let recipe = Recipe::new(Combiner::Dup, std::slice::from_ref(self));
        let shape = Shape::Repeat { count: 1, stride: 0, body: self.clone() };
        Datatype::assemble(shape, self.0.measure, recipe)
    }

    /// The Fortran real with at least `precision` digits and exponent `range`; none means any will do.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Datatype};
    /// assert_eq!(Datatype::f90_real(Some(6), None)?.uniform(), Some(Basic::Real4));
    /// assert_eq!(Datatype::f90_real(Some(6), Some(300))?.uniform(), Some(Basic::Real8));
    /// assert!(Datatype::f90_real(Some(40), None).is_err(), "no real has so many digits");
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn f90_real(precision: Option<i32>, range: Option<i32>) -> Result<Datatype> {
        let basic = match f90_bytes(precision, range)? {
            4 => Basic::Real4,
            8 => Basic::Real8,
            _ => Basic::Real16,
        };
        Ok(Datatype::f90(Combiner::F90Real, basic, &[precision, range]))
    }

    /// The Fortran complex with at least `precision` digits and exponent `range`; none means any will do.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Datatype};
    /// assert_eq!(Datatype::f90_complex(Some(15), None)?.uniform(), Some(Basic::Complex16));
    /// assert_eq!(Datatype::f90_complex(None, Some(1000))?.size(), 32);
    /// assert!(Datatype::f90_complex(None, None).is_err());
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn f90_complex(precision: Option<i32>, range: Option<i32>) -> Result<Datatype> {
        let basic = match f90_bytes(precision, range)? {
            4 => Basic::Complex8,
            8 => Basic::Complex16,
            _ => Basic::Complex32,
        };
        Ok(Datatype::f90(Combiner::F90Complex, basic, &[precision, range]))
    }

    /// The Fortran integer that holds every number of `range` decimal digits.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Datatype};
    /// assert_eq!(Datatype::f90_integer(9)?.uniform(), Some(Basic::Integer4));
    /// assert_eq!(Datatype::f90_integer(10)?.uniform(), Some(Basic::Integer8));
    /// assert!(Datatype::f90_integer(39).is_err());
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn f90_integer(range: i32) -> Result<Datatype> {
        let basic = match range {
            ..=2 => Basic::Integer1,
            3..=4 => Basic::Integer2,
            5..=9 => Basic::Integer4,
            10..=18 => Basic::Integer8,
            19..=38 => Basic::Integer16,
            _ => return Err(Error::new(Class::Arg, format!("no Fortran integer has {range} digits"))),
        };
        Ok(Datatype::f90(Combiner::F90Integer, basic, &[Some(range)]))
    }

    fn f90(combiner: Combiner, basic: Basic, arguments: &[Option<i32>]) -> Datatype {
        let arguments: Vec<i64> = arguments.iter().map(|a| i64::from(a.unwrap_or(UNDEFINED))).collect();
        let recipe = Recipe::new(combiner, &[]).with(Sort::Integer, &arguments);
        let old = Datatype::from(basic);
        Datatype::assemble(Shape::Basic(basic), old.0.measure, recipe)
    }

    fn repeat(count: i64, stride: i64, old: &Datatype, recipe: Recipe) -> Result<Datatype> {
        let measure = old.0.measure.repeated(count, stride, 0)?;
        Ok(Datatype::assemble(Shape::Repeat { count, stride, body: old.clone() }, measure, recipe))
    }

    fn repeat_blocks(
        count: i64,
        blocklength: i64,
        stride: i64,
        old: &Datatype,
        recipe: Recipe,
    ) -> Result<Datatype> {
        nonnegative("count", count)?;
        nonnegative("block length", blocklength)?;
        let block = Datatype::contiguous(blocklength, old)?;
        Datatype::repeat(count, stride, &block, recipe)
    }

    fn blocks(blocks: Vec<Block>, old: &Datatype, recipe: Recipe) -> Result<Datatype> {
        let mut measure = Measure::EMPTY;
        for block in &blocks {
            measure = measure.joined(old.0.measure.repeated(block.count, old.extent(), block.offset)?)?;
        }
        Ok(Datatype::assemble(Shape::Blocks { blocks, body: old.clone() }, measure, recipe))
    }

    pub(super) fn fields(fields: Vec<Field>, recipe: Recipe) -> Result<Datatype> {
        let mut measure = Measure::EMPTY;
        for Field { block, body } in &fields {
            measure = measure.joined(body.0.measure.repeated(block.count, body.extent(), block.offset)?)?;
        }
        Ok(Datatype::assemble(Shape::Fields(fields), measure, recipe))
    }
}

/// A class of basic types that come in several sizes; the values are the standard ABI's.
///
/// ```
/// use barewire::mpi::datatype::{Basic, TypeClass, match_size};
/// assert_eq!(TypeClass::Complex as i32, 194);
/// let sixteen = [TypeClass::Integer, TypeClass::Real, TypeClass::Complex].map(|class| match_size(class, 16).unwrap());
/// assert_eq!(sixteen, [Basic::Integer16, Basic::Real16, Basic::Complex16]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
#[allow(missing_docs, reason = "the names say it")]
pub enum TypeClass {
    Integer = 192,
    Real = 193,
    Complex = 194,
}

/// The basic type of this class with this many bytes.
///
/// ```
/// use barewire::mpi::datatype::{Basic, TypeClass, match_size};
/// assert_eq!(match_size(TypeClass::Real, 8)?, Basic::Real8);
/// assert!(match_size(TypeClass::Real, 3).is_err());
/// # Ok::<(), barewire::mpi::error::Error>(())
/// ```
pub fn match_size(class: TypeClass, size: i64) -> Result<Basic> {
    Ok(match (class, size) {
        (TypeClass::Integer, 1) => Basic::Integer1,
        (TypeClass::Integer, 2) => Basic::Integer2,
        (TypeClass::Integer, 4) => Basic::Integer4,
        (TypeClass::Integer, 8) => Basic::Integer8,
        (TypeClass::Integer, 16) => Basic::Integer16,
        (TypeClass::Real, 2) => Basic::Real2,
        (TypeClass::Real, 4) => Basic::Real4,
        (TypeClass::Real, 8) => Basic::Real8,
        (TypeClass::Real, 16) => Basic::Real16,
        (TypeClass::Complex, 4) => Basic::Complex4,
        (TypeClass::Complex, 8) => Basic::Complex8,
        (TypeClass::Complex, 16) => Basic::Complex16,
        (TypeClass::Complex, 32) => Basic::Complex32,
        _ => return Err(Error::new(Class::Arg, format!("no {class:?} type has {size} bytes"))),
    })
}

/// Bytes of the smallest Fortran real kind that is good enough.
fn f90_bytes(precision: Option<i32>, range: Option<i32>) -> Result<i32> {
    if precision.is_none() && range.is_none() {
        return Err(Error::new(Class::Arg, "precision and range cannot both be MPI_UNDEFINED"));
    }
    const KINDS: [(i32, i32, i32); 3] = [(4, 6, 37), (8, 15, 307), (16, 33, 4931)];
    let good = |&&(_, digits, exponent): &&(i32, i32, i32)| {
        precision.is_none_or(|p| p <= digits) && range.is_none_or(|r| r <= exponent)
    };
    KINDS.iter().find(good).map(|kind| kind.0).ok_or_else(|| {
        Error::new(Class::Arg, format!("no Fortran real has precision {precision:?} and range {range:?}"))
    })
}

/// The standard's `MPI_UNDEFINED`.
const UNDEFINED: i32 = -32766;

fn blocks(lengths: impl Iterator<Item = i64>, displacements: &[i64], unit: i64) -> Result<Vec<Block>> {
    let block = |(count, &displacement): (i64, &i64)| {
        let offset = fit(i128::from(displacement) * i128::from(unit))?;
        Ok(Block { offset, count: nonnegative("block length", count)? })
    };
    lengths.zip(displacements).map(block).collect()
}

fn same_length(blocklengths: &[i64], displacements: &[i64]) -> Result<i64> {
    if blocklengths.len() == displacements.len() {
        Ok(blocklengths.len() as i64)
    } else {
        Err(Error::new(Class::Arg, "as many displacements as block lengths are needed"))
    }
}

pub(super) fn nonnegative(what: &str, value: i64) -> Result<i64> {
    if value >= 0 { Ok(value) } else { Err(Error::new(Class::Count, format!("{what} is {value}"))) }
}
