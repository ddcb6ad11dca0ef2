//! Array types: a box out of an array, and the part of a distributed array one process owns.
//!
//! Both are built one dimension at a time from the fastest to the slowest: select some of the dimension's rows, then set the
//! extent to the whole dimension.

use super::build::nonnegative;
use super::recipe::{Combiner, Recipe, Sort};
use super::{Block, Datatype, Field, Measure, Shape, Span, fit};
use crate::mpi::error::{Class, Error, Result};

/// Which dimension varies fastest; the values are the standard ABI's.
///
/// ```
/// use barewire::mpi::datatype::{Basic, Datatype, Order};
/// // Two of six elements in each order: [0, 0] and the one next to it in dimension 1.
/// let row = |order| Datatype::subarray(&[2, 3], &[1, 2], &[0, 0], order, &Basic::Byte.into());
/// let mut two = [0; 2];
/// row(Order::C)?.pack(1, &b"abcdef"[..], 0, &mut two);
/// assert_eq!(&two, b"ab");
/// row(Order::Fortran)?.pack(1, &b"abcdef"[..], 0, &mut two);
/// assert_eq!(&two, b"ac");
/// # Ok::<(), barewire::mpi::error::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Order {
    /// The last dimension.
    C = 0xC,
    /// The first dimension.
    Fortran = 0xF,
}

/// How a dimension is spread over processes; the values are the standard ABI's.
///
/// ```
/// use barewire::mpi::datatype::{Basic, Datatype, Distribution, Order};
/// // Seven cards dealt to two players, two at a time; this is what the second one gets.
/// let hand = Datatype::darray(2, 1, &[7], &[Distribution::Cyclic], &[2], &[2], Order::C, &Basic::Byte.into())?;
/// let mut cards = [0; 3];
/// assert_eq!(hand.pack(1, &b"abcdefg"[..], 0, &mut cards), 3);
/// assert_eq!(&cards, b"cdg");
/// # Ok::<(), barewire::mpi::error::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Distribution {
    /// Not at all.
    None = 16,
    /// One block for each process.
    Block = 17,
    /// Blocks dealt out in turn.
    Cyclic = 18,
}

/// The distribution argument that asks for the default block size.
const DEFAULT_ARGUMENT: i32 = 19;

impl Datatype {
    /// The box of `subsizes` elements at `starts` inside an array of `sizes`.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Datatype, Order};
    /// let tile = Datatype::subarray(&[4, 6], &[2, 3], &[1, 2], Order::C, &Basic::Int.into())?;
    /// assert_eq!((tile.size(), tile.extent(), tile.true_lower_bound()), (24, 96, 32));
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn subarray(
        sizes: &[i64],
        subsizes: &[i64],
        starts: &[i64],
        order: Order,
        old: &Datatype,
    ) -> Result<Datatype> {
        if sizes.is_empty() || sizes.len() != subsizes.len() || sizes.len() != starts.len() {
            return Err(Error::new(
                Class::Arg,
                "sizes, subsizes and starts need one entry for each dimension",
            ));
        }
        let recipe = Recipe::new(Combiner::Subarray, std::slice::from_ref(old))
            .with(Sort::Integer, &[sizes.len() as i64])
            .with(Sort::Count, sizes)
            .with(Sort::Count, subsizes)
            .with(Sort::Count, starts)
            .with(Sort::Integer, &[order as i64]);
        let mut datatype = old.clone();
        for dimension in fastest_first(sizes.len(), order) {
            let (size, subsize, start) = (sizes[dimension], subsizes[dimension], starts[dimension]);
            if size < 1 || subsize < 1 || start < 0 || start > size - subsize.min(size) || subsize > size {
                let what = format!("dimension {dimension}: {subsize} elements at {start} of {size}");
                return Err(Error::new(Class::Arg, what));
            }
            datatype =
                dimension_of(size, &[Piece { start, step: subsize, length: subsize, count: 1 }], &datatype)?;
        }
        Ok(datatype.remade(recipe))
    }

    /// The part of an array distributed over a grid of `size` processes that process `rank` owns.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Datatype, Distribution, Order};
    /// // A matrix of 4 by 6 ints over a grid of 2 by 2 processes, in blocks of 2 by 3: the last process's corner.
    /// let blocks = [Distribution::Block; 2];
    /// let corner = Datatype::darray(4, 3, &[4, 6], &blocks, &[2, 3], &[2, 2], Order::C, &Basic::Int.into())?;
    /// assert_eq!((corner.size(), corner.extent()), (24, 96));
    /// assert_eq!(corner.true_lower_bound(), (2 * 6 + 3) * 4);
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    #[allow(clippy::too_many_arguments, reason = "the standard's call has these arguments")]
    pub fn darray(
        size: i32,
        rank: i32,
        global_sizes: &[i64],
        distributions: &[Distribution],
        arguments: &[i32],
        process_sizes: &[i32],
        order: Order,
        old: &Datatype,
    ) -> Result<Datatype> {
        let dimensions = global_sizes.len();
        if dimensions == 0 || [distributions.len(), arguments.len(), process_sizes.len()] != [dimensions; 3] {
            return Err(Error::new(Class::Arg, "every array needs one entry for each dimension"));
        }
        let wide = |values: &[i32]| values.iter().map(|&value| i64::from(value)).collect::<Vec<_>>();
        let recipe = Recipe::new(Combiner::Darray, std::slice::from_ref(old))
            .with(Sort::Integer, &[i64::from(size), i64::from(rank), dimensions as i64])
            .with(Sort::Count, global_sizes)
            .with(Sort::Integer, &distributions.iter().map(|&d| d as i64).collect::<Vec<_>>())
            .with(Sort::Integer, &wide(arguments))
            .with(Sort::Integer, &wide(process_sizes))
            .with(Sort::Integer, &[order as i64]);
        let coordinates = coordinates(size, rank, process_sizes)?;
        let mut datatype = old.clone();
        for dimension in fastest_first(dimensions, order) {
            let share = Share {
                global: global_sizes[dimension],
                processes: i64::from(process_sizes[dimension]),
                coordinate: coordinates[dimension],
            };
            let pieces = share.pieces(distributions[dimension], arguments[dimension])?;
            datatype = dimension_of(share.global, &pieces, &datatype)?;
        }
        Ok(datatype.remade(recipe))
    }

    fn remade(mut self, recipe: Recipe) -> Datatype {
        std::sync::Arc::make_mut(&mut self.0).recipe = recipe;
        self
    }
}

/// `count` groups of `length` rows, the first at row `start`, `step` rows apart.
struct Piece {
    start: i64,
    step: i64,
    length: i64,
    count: i64,
}

/// A whole dimension of `size` rows of which only `pieces` are selected.
fn dimension_of(size: i64, pieces: &[Piece], row: &Datatype) -> Result<Datatype> {
    let extent = row.extent();
    let bytes = |rows: i64| fit(i128::from(rows) * i128::from(extent));
    let mut fields = Vec::with_capacity(pieces.len());
    for piece in pieces.iter().filter(|piece| piece.count > 0 && piece.length > 0) {
        let body = Datatype::hvector(piece.count, piece.length, bytes(piece.step)?, row)?;
        fields.push(Field { block: Block { offset: bytes(piece.start)?, count: 1 }, body });
    }
    let selected = Datatype::fields(fields, Recipe::new(Combiner::Struct, &[]))?;
    let bounds = Some(Span { lower: 0, upper: bytes(size)? });
    let measure = Measure { bounds, ..selected.0.measure };
    let shape = Shape::Repeat { count: 1, stride: 0, body: selected };
    Ok(Datatype::assemble(shape, measure, Recipe::new(Combiner::Resized, &[])))
}

fn fastest_first(dimensions: usize, order: Order) -> Box<dyn Iterator<Item = usize>> {
    match order {
        Order::C => Box::new((0..dimensions).rev()),
        Order::Fortran => Box::new(0..dimensions),
    }
}

/// Where `rank` is in a process grid; the grid is in C order whatever the order of the array.
fn coordinates(size: i32, rank: i32, process_sizes: &[i32]) -> Result<Vec<i64>> {
    let product = process_sizes
        .iter()
        .try_fold(1i64, |product, &n| (n > 0).then(|| product.checked_mul(i64::from(n))).flatten());
    if product != Some(i64::from(size)) {
        let what = format!("the process grid {process_sizes:?} does not have {size} processes");
        return Err(Error::new(Class::Arg, what));
    }
    if !(0..size).contains(&rank) {
        return Err(Error::new(Class::Arg, format!("rank {rank} is not one of {size} processes")));
    }
    let mut rest = i64::from(rank);
    let mut coordinates = vec![0; process_sizes.len()];
    for (coordinate, &n) in coordinates.iter_mut().zip(process_sizes).rev() {
        *coordinate = rest % i64::from(n);
        rest /= i64::from(n);
    }
    Ok(coordinates)
}

/// One process's share of one dimension.
struct Share {
    global: i64,
    processes: i64,
    coordinate: i64,
}

impl Share {
    fn pieces(&self, distribution: Distribution, argument: i32) -> Result<Vec<Piece>> {
        let Share { global, processes, coordinate } = *self;
        if global < 1 {
            return Err(Error::new(Class::Arg, format!("a dimension has {global} elements")));
        }
        let block = match (distribution, argument) {
            (Distribution::None, _) if processes != 1 => {
                let what = format!("an undistributed dimension has {processes} processes");
                return Err(Error::new(Class::Arg, what));
            }
            (Distribution::None, _) => global,
            (Distribution::Block, DEFAULT_ARGUMENT) => global / processes + i64::from(global % processes > 0),
            (Distribution::Cyclic, DEFAULT_ARGUMENT) => 1,
            (_, argument) if argument < 1 => {
                return Err(Error::new(Class::Arg, format!("a block has {argument} elements")));
            }
            (Distribution::Block, argument)
                if i128::from(argument) * i128::from(processes) < i128::from(global) =>
            {
                let what = format!("{processes} blocks of {argument} do not hold {global} elements");
                return Err(Error::new(Class::Arg, what));
            }
            (_, argument) => nonnegative("block size", i64::from(argument))?,
        };
        let step = fit(i128::from(block) * i128::from(processes))?;
        let start = fit(i128::from(block) * i128::from(coordinate))?;
        if start >= global {
            return Ok(Vec::new());
        }
        let rows = global - start;
        let whole = if rows < block { 0 } else { (rows - block) / step + 1 };
        let tail = start + whole * step;
        Ok(vec![
            Piece { start, step, length: block, count: whole },
            Piece { start: tail.min(global), step: 1, length: (global - tail).clamp(0, block), count: 1 },
        ])
    }
}
