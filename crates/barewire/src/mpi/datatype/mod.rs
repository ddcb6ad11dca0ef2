//! Datatypes: what lies where in user memory.
//!
//! A [`Datatype`] is an immutable, shared description: a shape (basic types, repeated and displaced), its bounds, and the call it
//! was made by. Constructors are in `build` and `array`; moving bytes is in `pack`, over the layout program that
//! [`Datatype::commit`] compiles; `external` converts to and from `external32`.
//!
//! ```
//! use barewire::mpi::datatype::{Basic, Datatype};
//! // The first column of a matrix of 3 by 2, packed and put into the second column of another.
//! let column = Datatype::vector(3, 1, 2, &Basic::Byte.into())?;
//! let (from, mut into, mut packed) = (*b"a1b2c3", *b"x.y.z.", [0; 3]);
//! column.pack(1, &from[..], 0, &mut packed);
//! column.unpack(1, &mut into[1..], 0, &packed);
//! assert_eq!(&into, b"xaybzc");
//! # Ok::<(), barewire::mpi::error::Error>(())
//! ```

mod array;
mod basic;
mod build;
mod external;
mod layout;
mod pack;
mod recipe;
#[cfg(test)]
mod tests;

pub use array::{Distribution, Order};
pub use basic::{Basic, Format, Kind, Pair};
pub use build::{TypeClass, match_size};
pub use pack::{Sink, Source};
pub use recipe::{Combiner, Contents, Envelope};

use super::error::{Class, Error, Result};
use layout::Layout;
use recipe::Recipe;
use std::fmt;
use std::sync::{Arc, LazyLock, OnceLock};

/// A description of data in memory; cheap to clone.
///
/// ```
/// use barewire::mpi::datatype::{Basic, Datatype};
/// let matrix_column = Datatype::vector(10, 1, 10, &Basic::Double.into())?;
/// assert_eq!(matrix_column.size(), 80);
/// assert_eq!(matrix_column.extent(), 728);
/// # Ok::<(), barewire::mpi::error::Error>(())
/// ```
#[derive(Clone)]
pub struct Datatype(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    shape: Shape,
    recipe: Recipe,
    measure: Measure,
    layout: OnceLock<Layout>,
}

/// What a datatype is made of. Repetitions without a stride of their own are one extent apart.
#[derive(Clone)]
enum Shape {
    Basic(Basic),
    Repeat { count: i64, stride: i64, body: Datatype },
    Blocks { blocks: Vec<Block>, body: Datatype },
    Fields(Vec<Field>),
}

/// `count` copies starting at `offset`.
#[derive(Clone, Copy)]
struct Block {
    offset: i64,
    count: i64,
}

#[derive(Clone)]
struct Field {
    block: Block,
    body: Datatype,
}

/// Sizes and bounds; a type without data has no true bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Measure {
    size: i64,
    elements: i64,
    alignment: i64,
    bounds: Option<Span>,
    true_bounds: Option<Span>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    lower: i64,
    upper: i64,
}

impl Datatype {
    /// Bytes of data in one element: what it packs to.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Datatype};
    /// let record = Datatype::structure(&[1, 1], &[0, 4], &[Basic::Char.into(), Basic::Int.into()])?;
    /// assert_eq!(record.size(), 5, "the gap behind the char is no data");
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn size(&self) -> i64 {
        self.0.measure.size
    }

    /// Where an element begins, relative to its address.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Datatype};
    /// let second = Datatype::hindexed(&[1], &[8], &Basic::Double.into())?;
    /// assert_eq!((second.lower_bound(), second.extent()), (8, 8));
    /// assert_eq!(Datatype::from(Basic::Double).lower_bound(), 0);
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn lower_bound(&self) -> i64 {
        self.0.measure.bounds.map_or(0, |span| span.lower)
    }

    /// Bytes from one element to the next.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Datatype};
    /// let every_other = Datatype::vector(3, 1, 2, &Basic::Int.into())?;
    /// assert_eq!(every_other.extent(), 20, "it ends with its last int");
    /// let two = Datatype::contiguous(2, &every_other)?;
    /// assert_eq!(two.extent(), 40);
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn extent(&self) -> i64 {
        self.0.measure.bounds.map_or(0, |span| span.upper - span.lower)
    }

    /// The offset of the first byte of data.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Datatype};
    /// let third = Datatype::hindexed(&[1], &[8], &Basic::Int.into())?;
    /// let slot = Datatype::resized(&third, 0, 16)?;
    /// assert_eq!((slot.lower_bound(), slot.true_lower_bound()), (0, 8));
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn true_lower_bound(&self) -> i64 {
        self.0.measure.true_bounds.map_or(0, |span| span.lower)
    }

    /// Bytes from the first to the last byte of data.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Datatype};
    /// let padded = Datatype::resized(&Basic::Int.into(), 0, 16)?;
    /// assert_eq!((padded.extent(), padded.true_extent()), (16, 4));
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn true_extent(&self) -> i64 {
        self.0.measure.true_bounds.map_or(0, |span| span.upper - span.lower)
    }

    /// Basic elements in one element.
    fn elements(&self) -> i64 {
        self.0.measure.elements
    }

    /// The bytes `count` elements pack to, once it is sure that no offset of theirs leaves 64 bits.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Datatype};
    /// let int = Datatype::from(Basic::Int);
    /// assert_eq!(int.packed_size(3)?, 12);
    /// assert!(int.packed_size(-1).is_err());
    /// assert!(int.packed_size(i64::MAX).is_err());
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn packed_size(&self, count: i64) -> Result<i64> {
        if count < 0 {
            return Err(Error::new(Class::Count, format!("count is {count}")));
        }
        let reach = self
            .extent()
            .checked_mul(count)
            .and_then(|reach| self.true_lower_bound().checked_add(reach)?.checked_add(self.true_extent()));
        match (self.size().checked_mul(count), reach) {
            (Some(size), Some(_)) => Ok(size),
            _ => Err(Error::new(Class::Count, format!("{count} elements do not fit in 64 bits"))),
        }
    }

    /// Offset and length of the data of `count` elements, where it is one contiguous run.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Datatype};
    /// let row = Datatype::contiguous(3, &Basic::Int.into())?;
    /// assert_eq!(row.contiguous_run(2), Some((0, 24)));
    /// let padded = Datatype::resized(&Basic::Int.into(), 0, 8)?;
    /// assert_eq!(padded.contiguous_run(1), Some((0, 4)));
    /// assert_eq!(padded.contiguous_run(2), None, "there is a gap between two");
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    #[inline]
    pub fn contiguous_run(&self, count: i64) -> Option<(i64, i64)> {
        let (offset, len) = self.layout().as_run()?;
        (count == 1 || len == self.extent()).then(|| (offset, len.saturating_mul(count)))
    }

    /// Compiles the layout program, so that the first message does not have to.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Datatype};
    /// let green = Datatype::vector(2, 1, 3, &Basic::Byte.into())?;
    /// green.commit();
    /// let mut out = [0; 2];
    /// assert_eq!(green.pack(1, &b"gbrGBR"[..], 0, &mut out), 2);
    /// assert_eq!(&out, b"gG");
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn commit(&self) {
        self.layout();
    }

    /// The basic type, where this is a predefined datatype.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Datatype};
    /// let int = Datatype::from(Basic::Int);
    /// assert_eq!(int.as_basic(), Some(Basic::Int));
    /// assert_eq!(int.dup().as_basic(), None, "a duplicate is the program's own");
    /// ```
    pub fn as_basic(&self) -> Option<Basic> {
        self.0.recipe.named()
    }

    /// The basic type whose operations are those of this datatype: that of a predefined one, or the one behind a range or precision in
    /// the words of Fortran 90.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Datatype};
    /// let int = Datatype::from(Basic::Int);
    /// assert_eq!(int.operand(), Some(Basic::Int));
    /// assert!(Datatype::f90_integer(9)?.operand().is_some());
    /// assert_eq!(int.dup().operand(), None, "operations are not for what the program has made");
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn operand(&self) -> Option<Basic> {
        match (&self.0.shape, self.0.recipe.is_f90()) {
            (Shape::Basic(basic), true) => Some(*basic),
            _ => self.as_basic(),
        }
    }

    /// The basic type all data is of, where there is only one; the operations of one-sided accumulation need it.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Datatype};
    /// let three = Datatype::contiguous(3, &Basic::Int.into())?;
    /// assert_eq!(three.uniform(), Some(Basic::Int));
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn uniform(&self) -> Option<Basic> {
        match &self.0.shape {
            Shape::Basic(basic) => Some(*basic),
            Shape::Repeat { body, .. } | Shape::Blocks { body, .. } => body.uniform(),
            Shape::Fields(fields) => {
                let mut kinds = fields.iter().filter(|field| field.block.count > 0 && field.body.size() > 0);
                let first = kinds.next()?.body.uniform()?;
                kinds.all(|field| field.body.uniform() == Some(first)).then_some(first)
            }
        }
    }

    /// Basic elements in a message of `bytes` bytes; none where it ends inside an element.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Datatype};
    /// let mixed = Datatype::structure(&[1, 1], &[0, 8], &[Basic::Int.into(), Basic::Double.into()])?;
    /// assert_eq!(mixed.elements_in(12), Some(2));
    /// assert_eq!(mixed.elements_in(16), Some(3));
    /// assert_eq!(mixed.elements_in(17), None);
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn elements_in(&self, bytes: i64) -> Option<i64> {
        if self.size() == 0 {
            return (bytes == 0).then_some(0);
        }
        let whole = (bytes / self.size()).checked_mul(self.elements())?;
        let rest = bytes % self.size();
        if rest == 0 { Some(whole) } else { whole.checked_add(self.elements_within(rest)?) }
    }

    /// Like [`Datatype::elements_in`], for less than one element.
    fn elements_within(&self, bytes: i64) -> Option<i64> {
        match &self.0.shape {
            Shape::Basic(basic) => match basic.kind() {
                Kind::Pair(pair) => (bytes == pair.value.size()).then_some(1),
                _ => None,
            },
            Shape::Repeat { body, .. } | Shape::Blocks { body, .. } => body.elements_in(bytes),
            Shape::Fields(fields) => {
                let mut elements = 0;
                let mut left = bytes;
                for field in fields {
                    let size = field.block.count * field.body.size();
                    if left < size {
                        return Some(elements + field.body.elements_in(left)?);
                    }
                    left -= size;
                    elements += field.block.count * field.body.elements();
                }
                Some(elements)
            }
        }
    }

    /// Bytes of the first `elements` basic elements of a message; none where they do not fit in 64 bits.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Datatype};
    /// let mixed = Datatype::structure(&[1, 1], &[0, 8], &[Basic::Int.into(), Basic::Double.into()])?;
    /// assert_eq!(mixed.bytes_of_elements(3), Some(16));
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn bytes_of_elements(&self, elements: i64) -> Option<i64> {
        if self.elements() == 0 {
            return Some(0);
        }
        let whole = (elements / self.elements()).checked_mul(self.size())?;
        let rest = elements % self.elements();
        if rest == 0 { Some(whole) } else { whole.checked_add(self.bytes_within(rest)?) }
    }

    /// Like [`Datatype::bytes_of_elements`], for less than one element.
    fn bytes_within(&self, elements: i64) -> Option<i64> {
        match &self.0.shape {
            Shape::Basic(basic) => match basic.kind() {
                Kind::Pair(pair) => Some(pair.value.size()),
                _ => None,
            },
            Shape::Repeat { body, .. } | Shape::Blocks { body, .. } => body.bytes_of_elements(elements),
            Shape::Fields(fields) => {
                let mut bytes = 0;
                let mut left = elements;
                for field in fields {
                    let here = field.block.count * field.body.elements();
                    if left < here {
                        return Some(bytes + field.body.bytes_of_elements(left)?);
                    }
                    left -= here;
                    bytes += field.block.count * field.body.size();
                }
                Some(bytes)
            }
        }
    }

    /// The compiled layout program of one element.
    #[inline]
    fn layout(&self) -> &Layout {
        self.0.layout.get_or_init(|| self.compile())
    }

    #[cold]
    fn compile(&self) -> Layout {
        let block = |block: &Block, body: &Datatype| {
            (block.offset, Layout::repeat(block.count, body.extent(), body.layout()))
        };
        match &self.0.shape {
            Shape::Basic(basic) => match basic.kind() {
                Kind::Pair(pair) => Layout::sequence([
                    (0, Layout::run(0, pair.value.size())),
                    (pair.index_offset, Layout::run(0, pair.index.size())),
                ]),
                _ => Layout::run(0, basic.size()),
            },
            Shape::Repeat { count, stride, body } => Layout::repeat(*count, *stride, body.layout()),
            Shape::Blocks { blocks, body } => Layout::sequence(blocks.iter().map(|part| block(part, body))),
            Shape::Fields(fields) => {
                Layout::sequence(fields.iter().map(|field| block(&field.block, &field.body)))
            }
        }
    }

    fn assemble(shape: Shape, measure: Measure, recipe: Recipe) -> Datatype {
        Datatype(Arc::new(Inner { shape, recipe, measure, layout: OnceLock::new() }))
    }
}

impl From<Basic> for Datatype {
    fn from(basic: Basic) -> Datatype {
        static BASICS: LazyLock<Vec<Datatype>> = LazyLock::new(|| Basic::all().map(make_basic).collect());
        BASICS[basic.index()].clone()
    }
}

fn make_basic(basic: Basic) -> Datatype {
    let measure = Measure {
        size: basic.size(),
        elements: basic.elements(),
        alignment: basic.alignment(),
        bounds: Some(Span { lower: 0, upper: basic.extent() }),
        true_bounds: Some(Span { lower: 0, upper: basic.true_extent() }),
    };
    let datatype = Datatype::assemble(Shape::Basic(basic), measure, Recipe::predefined(basic));
    datatype.commit();
    datatype
}

impl fmt::Debug for Datatype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_basic() {
            Some(basic) => f.write_str(basic.name()),
            None => f
                .debug_struct("Datatype")
                .field("combiner", &self.envelope().combiner)
                .field("size", &self.size())
                .field("lower_bound", &self.lower_bound())
                .field("extent", &self.extent())
                .finish(),
        }
    }
}

impl Measure {
    const EMPTY: Measure = Measure { size: 0, elements: 0, alignment: 1, bounds: None, true_bounds: None };

    /// `count` copies, `stride` apart, the first at `offset`.
    fn repeated(self, count: i64, stride: i64, offset: i64) -> Result<Measure> {
        if count == 0 {
            return Ok(Measure::EMPTY);
        }
        let last = (i128::from(count) - 1) * i128::from(stride);
        let stretch = |span: Span| -> Result<Span> {
            Span {
                lower: fit(i128::from(span.lower) + i128::from(offset) + last.min(0))?,
                upper: fit(i128::from(span.upper) + i128::from(offset) + last.max(0))?,
            }
            .checked()
        };
        Ok(Measure {
            size: fit(i128::from(self.size) * i128::from(count))?,
            elements: fit(i128::from(self.elements) * i128::from(count))?,
            alignment: self.alignment,
            bounds: self.bounds.map(stretch).transpose()?,
            true_bounds: self.true_bounds.map(stretch).transpose()?,
        })
    }

    /// Both, one after the other.
    fn joined(self, other: Measure) -> Result<Measure> {
        let hull = |a: Option<Span>, b: Option<Span>| match (a, b) {
            (Some(a), Some(b)) => {
                Span { lower: a.lower.min(b.lower), upper: a.upper.max(b.upper) }.checked().map(Some)
            }
            (one, None) | (None, one) => Ok(one),
        };
        Ok(Measure {
            size: fit(i128::from(self.size) + i128::from(other.size))?,
            elements: fit(i128::from(self.elements) + i128::from(other.elements))?,
            alignment: self.alignment.max(other.alignment),
            bounds: hull(self.bounds, other.bounds)?,
            true_bounds: hull(self.true_bounds, other.true_bounds)?,
        })
    }
}

impl Span {
    fn checked(self) -> Result<Span> {
        fit(i128::from(self.upper) - i128::from(self.lower))?;
        Ok(self)
    }
}

fn fit(value: i128) -> Result<i64> {
    i64::try_from(value).map_err(|_| Error::new(Class::Count, "the datatype does not fit in 64 bits"))
}
