//! Recipes: by which call and with which arguments a datatype was made.
//!
//! A program may take a datatype apart again. The arguments are kept once, each marked with what it was: an `int` in every
//! form of the call, a count (`int` in the old form, `MPI_Count` in the large form) or an address. The two forms of the
//! answer fall out of the marks.

use super::{Basic, Datatype};

/// How a datatype was made; the values are the standard ABI's.
///
/// ```
/// use barewire::mpi::datatype::{Basic, Combiner, Datatype};
/// let padded = Datatype::resized(&Basic::Int.into(), 0, 16)?;
/// assert_eq!(padded.envelope().combiner, Combiner::Resized);
/// assert_eq!(Datatype::from(Basic::Int).envelope().combiner, Combiner::Named);
/// assert_eq!(Combiner::Named as i32, 101);
/// # Ok::<(), barewire::mpi::error::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
#[allow(missing_docs, reason = "each variant is named after the constructor it stands for")]
pub enum Combiner {
    Named = 101,
    Dup = 102,
    Contiguous = 103,
    Vector = 104,
    Hvector = 105,
    Indexed = 106,
    Hindexed = 107,
    IndexedBlock = 108,
    HindexedBlock = 109,
    Struct = 110,
    Subarray = 111,
    Darray = 112,
    F90Real = 113,
    F90Complex = 114,
    F90Integer = 115,
    Resized = 116,
    ValueIndex = 117,
}

/// How many arguments of each sort a datatype's constructor had.
///
/// ```
/// use barewire::mpi::datatype::{Basic, Combiner, Datatype, Envelope};
/// let column = Datatype::vector(2, 1, 3, &Basic::Int.into())?.made_with_ints();
/// let expected = Envelope { combiner: Combiner::Vector, integers: 3, addresses: 0, counts: 0, types: 1 };
/// assert_eq!(column.envelope(), expected);
/// # Ok::<(), barewire::mpi::error::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope {
    /// How it was made.
    pub combiner: Combiner,
    /// `int` arguments.
    pub integers: usize,
    /// `MPI_Aint` arguments.
    pub addresses: usize,
    /// `MPI_Count` arguments: none unless a large-count call made the type.
    pub counts: usize,
    /// Datatype arguments.
    pub types: usize,
}

/// The arguments of a datatype's constructor.
///
/// ```
/// use barewire::mpi::datatype::{Basic, Datatype};
/// let contents = Datatype::hvector(2, 1, 16, &Basic::Int.into())?.made_with_ints().contents();
/// assert_eq!((contents.integers, contents.addresses), (vec![2, 1], vec![16]));
/// assert_eq!(contents.types[0].as_basic(), Some(Basic::Int));
/// # Ok::<(), barewire::mpi::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Contents {
    /// `int` arguments.
    pub integers: Vec<i32>,
    /// `MPI_Aint` arguments.
    pub addresses: Vec<i64>,
    /// `MPI_Count` arguments.
    pub counts: Vec<i64>,
    /// Datatype arguments.
    pub types: Vec<Datatype>,
}

#[derive(Clone)]
pub(super) struct Recipe {
    combiner: Combiner,
    named: Option<Basic>,
    /// Made by a call with `MPI_Count` arguments.
    large: bool,
    arguments: Vec<(Sort, Vec<i64>)>,
    types: Vec<Datatype>,
}

/// What an argument is in the old and in the large form of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    /// `int` in both.
    Integer,
    /// `int`, or `MPI_Count`.
    Count,
    /// `MPI_Aint`, or `MPI_Count`.
    Address,
}

impl Recipe {
    pub(super) fn new(combiner: Combiner, types: &[Datatype]) -> Recipe {
        Recipe { combiner, named: None, large: true, arguments: Vec::new(), types: types.to_vec() }
    }

    pub(super) fn predefined(basic: Basic) -> Recipe {
        Recipe { named: Some(basic), ..Recipe::new(Combiner::Named, &[]) }
    }

    pub(super) fn with(mut self, sort: Sort, values: &[i64]) -> Recipe {
        self.arguments.push((sort, values.to_vec()));
        self
    }

    pub(super) fn is_f90(&self) -> bool {
        matches!(self.combiner, Combiner::F90Real | Combiner::F90Complex | Combiner::F90Integer)
    }

    pub(super) fn named(&self) -> Option<Basic> {
        self.named
    }

    fn place(&self, sort: Sort) -> Place {
        match (sort, self.large) {
            (Sort::Integer, _) | (Sort::Count, false) => Place::Integers,
            (Sort::Address, false) => Place::Addresses,
            (Sort::Count | Sort::Address, true) => Place::Counts,
        }
    }

    fn values(&self, place: Place) -> impl Iterator<Item = i64> {
        self.arguments
            .iter()
            .filter(move |(sort, _)| self.place(*sort) == place)
            .flat_map(|(_, v)| v)
            .copied()
    }
}

#[derive(PartialEq, Eq, Clone, Copy)]
enum Place {
    Integers,
    Addresses,
    Counts,
}

impl Datatype {
    /// How the datatype was made, and how many arguments [`Datatype::contents`] has.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Combiner, Datatype};
    /// let row = Datatype::contiguous(5, &Basic::Int.into())?;
    /// assert_eq!(row.envelope().combiner, Combiner::Contiguous);
    /// assert_eq!(row.contents().counts, [5]);
    /// assert_eq!(row.made_with_ints().contents().integers, [5]);
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn envelope(&self) -> Envelope {
        let recipe = &self.0.recipe;
        Envelope {
            combiner: recipe.combiner,
            integers: recipe.values(Place::Integers).count(),
            addresses: recipe.values(Place::Addresses).count(),
            counts: recipe.values(Place::Counts).count(),
            types: recipe.types.len(),
        }
    }

    /// The arguments the datatype was made with.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Datatype};
    /// // What the type was made of is enough to make it again.
    /// let old = Datatype::resized(&Basic::Short.into(), -2, 8)?;
    /// let arguments = old.contents();
    /// let new = Datatype::resized(&arguments.types[0], arguments.counts[0], arguments.counts[1])?;
    /// assert_eq!((new.lower_bound(), new.extent()), (-2, 8));
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn contents(&self) -> Contents {
        let recipe = &self.0.recipe;
        let integer = |value| i32::try_from(value).expect("int arguments came from an int");
        Contents {
            integers: recipe.values(Place::Integers).map(integer).collect(),
            addresses: recipe.values(Place::Addresses).collect(),
            counts: recipe.values(Place::Counts).collect(),
            types: recipe.types.clone(),
        }
    }

    /// The same datatype, remembered as made by the form of the call whose counts are `int`.
    ///
    /// A count beyond `int` keeps the large form.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Datatype};
    /// let bytes = |count| Datatype::contiguous(count, &Basic::Byte.into()).map(Datatype::made_with_ints);
    /// assert_eq!(bytes(5)?.contents().integers, [5]);
    /// assert_eq!(bytes(1 << 40)?.contents().counts, [1 << 40], "no int holds this");
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn made_with_ints(mut self) -> Datatype {
        let counts = self.0.recipe.arguments.iter().filter(|(sort, _)| *sort == Sort::Count);
        if counts.flat_map(|(_, values)| values).all(|&value| i32::try_from(value).is_ok()) {
            std::sync::Arc::make_mut(&mut self.0).recipe.large = false;
        }
        self
    }
}
