//! Topologies: which process is whose neighbour.
//!
//! A topology is a value: a grid, a graph everybody knows, or the edges of one process. Ranks in, ranks out; nothing here
//! talks to anybody.
//!
//! ```
//! use barewire::mpi::topology::{Cart, balance};
//! let mut sizes = [0, 0];
//! balance(6, &mut sizes)?;
//! let grid = Cart::new(&sizes, &[true, false])?;
//! assert_eq!(grid.sizes(), [3, 2]);
//! assert_eq!(grid.neighbours(0)?, [Some(4), Some(2), None, Some(1)]);
//! # Ok::<(), barewire::mpi::error::Error>(())
//! ```

use super::error::{Class, Error, Result};
use std::cmp::Reverse;

/// The neighbourhood a communicator carries.
///
/// ```
/// use barewire::mpi::topology::{Cart, Graph, Topology};
/// fn degree(topology: &Topology, rank: i32) -> usize {
///     match topology {
///         Topology::Cart(cart) => cart.neighbours(rank).unwrap().iter().flatten().count(),
///         Topology::Graph(graph) => graph.neighbours(rank).unwrap().len(),
///         Topology::DistGraph(mine) => mine.destinations.len(),
///     }
/// }
/// assert_eq!(degree(&Topology::Cart(Cart::new(&[3], &[false])?), 0), 1, "an end of a line");
/// assert_eq!(degree(&Topology::Graph(Graph::new(&[2, 3, 4], &[1, 2, 0, 0])?), 0), 2, "the middle of a star");
/// # Ok::<(), barewire::mpi::error::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topology {
    /// A grid.
    Cart(Cart),
    /// A graph every process knows all of.
    Graph(Graph),
    /// A graph of which every process knows its own edges.
    DistGraph(DistGraph),
}

/// A grid of processes; the last dimension varies fastest.
///
/// ```
/// use barewire::mpi::topology::Cart;
/// let torus = Cart::new(&[3, 4], &[true, false])?;
/// assert_eq!(torus.coordinates(6)?, [1, 2]);
/// assert_eq!(torus.rank(&[-1, 2])?, 10, "the first dimension is a ring");
/// assert_eq!(torus.shift(3, 1, 1)?, (Some(2), None), "the second has an end");
/// # Ok::<(), barewire::mpi::error::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cart {
    sizes: Vec<i32>,
    rings: Vec<bool>,
}

impl Cart {
    /// A grid of `sizes`; a dimension that is a ring has no end.
    ///
    /// ```
    /// use barewire::mpi::{error::Class, topology::Cart};
    /// let cylinder = Cart::new(&[8, 3], &[true, false])?;
    /// assert_eq!(cylinder.size(), 24);
    /// assert_eq!(Cart::new(&[8, -3], &[true, false]).unwrap_err().class(), Class::Dims);
    /// assert_eq!(Cart::new(&[1 << 20, 1 << 20], &[false; 2]).unwrap_err().class(), Class::Dims);
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn new(sizes: &[i32], rings: &[bool]) -> Result<Cart> {
        if let Some(size) = sizes.iter().find(|&&size| size < 1) {
            return Err(Error::new(Class::Dims, format!("a dimension is {size}")));
        }
        if sizes.len() != rings.len() {
            let what =
                format!("there are {} sizes, and {} say whether they are rings", sizes.len(), rings.len());
            return Err(Error::new(Class::Dims, what));
        }
        if sizes.iter().try_fold(1i32, |product, &size| product.checked_mul(size)).is_none() {
            return Err(Error::new(Class::Dims, format!("{sizes:?} is too large a grid")));
        }
        Ok(Cart { sizes: sizes.to_vec(), rings: rings.to_vec() })
    }

    /// Processes in the grid.
    ///
    /// ```
    /// use barewire::mpi::topology::Cart;
    /// assert_eq!(Cart::new(&[2, 3, 4], &[false; 3])?.size(), 24);
    /// assert_eq!(Cart::new(&[], &[])?.size(), 1, "a grid without dimensions is a point");
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn size(&self) -> i32 {
        self.sizes.iter().product()
    }

    /// The size of each dimension.
    ///
    /// ```
    /// use barewire::mpi::topology::Cart;
    /// let grid = Cart::new(&[5, 2], &[false, true])?;
    /// let (planes, _, _) = grid.part(0, &[true, false])?;
    /// assert_eq!(grid.sizes(), [5, 2]);
    /// assert_eq!(planes.sizes(), [5]);
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn sizes(&self) -> &[i32] {
        &self.sizes
    }

    /// Which dimensions are rings.
    ///
    /// ```
    /// use barewire::mpi::topology::Cart;
    /// let tube = Cart::new(&[5, 2], &[false, true])?;
    /// assert_eq!(tube.rings(), [false, true]);
    /// assert_eq!(tube.rank(&[0, 7])?, 1, "round and round");
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn rings(&self) -> &[bool] {
        &self.rings
    }

    /// Where a rank is.
    ///
    /// ```
    /// use barewire::mpi::{error::Class, topology::Cart};
    /// let grid = Cart::new(&[2, 3], &[false, false])?;
    /// let places: Vec<_> = (0..4).map(|rank| grid.coordinates(rank).unwrap()).collect();
    /// assert_eq!(places, [[0, 0], [0, 1], [0, 2], [1, 0]]);
    /// assert_eq!(grid.coordinates(6).unwrap_err().class(), Class::Rank);
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn coordinates(&self, rank: i32) -> Result<Vec<i32>> {
        if !(0..self.size()).contains(&rank) {
            return Err(Error::new(Class::Rank, format!("rank {rank} is not in a grid of {}", self.size())));
        }
        let mut rest = rank;
        let mut coordinates = vec![0; self.sizes.len()];
        for (coordinate, size) in coordinates.iter_mut().zip(&self.sizes).rev() {
            *coordinate = rest % size;
            rest /= size;
        }
        Ok(coordinates)
    }

    /// The rank at a place; beyond the end of a ring it goes round.
    ///
    /// ```
    /// use barewire::mpi::{error::Class, topology::Cart};
    /// let grid = Cart::new(&[2, 3], &[false, true])?;
    /// assert_eq!(grid.rank(&[1, 2])?, 5);
    /// assert_eq!(grid.rank(&[1, -1])?, 5, "before the beginning of a ring is its end");
    /// assert_eq!(grid.rank(&[2, 0]).unwrap_err().class(), Class::Arg);
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn rank(&self, coordinates: &[i32]) -> Result<i32> {
        if coordinates.len() < self.sizes.len() {
            return Err(Error::new(Class::Arg, format!("{} coordinates are too few", coordinates.len())));
        }
        let mut rank = 0;
        for ((&size, &ring), &coordinate) in self.sizes.iter().zip(&self.rings).zip(coordinates) {
            if !ring && !(0..size).contains(&coordinate) {
                let what = format!("coordinate {coordinate} is outside a dimension of {size}");
                return Err(Error::new(Class::Arg, what));
            }
            rank = rank * size + coordinate.rem_euclid(size);
        }
        Ok(rank)
    }

    /// From whom and to whom data moves when everybody sends `distance` steps along a dimension; none beyond an end.
    ///
    /// ```
    /// use barewire::mpi::topology::Cart;
    /// let ring = Cart::new(&[4], &[true])?;
    /// assert_eq!(ring.shift(0, 0, 1)?, (Some(3), Some(1)), "receive from 3, send to 1");
    /// let line = Cart::new(&[4], &[false])?;
    /// assert_eq!(line.shift(1, 0, -2)?, (Some(3), None));
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn shift(&self, rank: i32, dimension: i32, distance: i32) -> Result<(Option<i32>, Option<i32>)> {
        let place = self.coordinates(rank)?;
        let known = usize::try_from(dimension).ok().filter(|&dimension| dimension < self.sizes.len());
        let dimension =
            known.ok_or_else(|| Error::new(Class::Arg, format!("there is no dimension {dimension}")))?;
        let size = i64::from(self.sizes[dimension]);
        let neighbour = |distance: i64| {
            let moved = i64::from(place[dimension]) + distance;
            if !self.rings[dimension] && !(0..size).contains(&moved) {
                return Ok(None);
            }
            let mut there = place.clone();
            there[dimension] = moved.rem_euclid(size) as i32;
            self.rank(&there).map(Some)
        };
        Ok((neighbour(-i64::from(distance))?, neighbour(i64::from(distance))?))
    }

    /// The grid of the dimensions to keep, and for `rank` which of these grids it is in and which rank it has there.
    ///
    /// ```
    /// use barewire::mpi::topology::Cart;
    /// let grid = Cart::new(&[2, 3], &[false, true])?;
    /// let (row, which, rank) = grid.part(4, &[false, true])?;
    /// assert_eq!(row, Cart::new(&[3], &[true])?);
    /// assert_eq!((which, rank), (1, 1), "rank 4 is in the second row, and there the second");
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn part(&self, rank: i32, keep: &[bool]) -> Result<(Cart, i32, i32)> {
        let place = self.coordinates(rank)?;
        let (mut part, mut color, mut key) = (Cart { sizes: Vec::new(), rings: Vec::new() }, 0, 0);
        for (i, &size) in self.sizes.iter().enumerate() {
            if keep.get(i).copied().unwrap_or(false) {
                part.sizes.push(size);
                part.rings.push(self.rings[i]);
                key = key * size + place[i];
            } else {
                color = color * size + place[i];
            }
        }
        Ok((part, color, key))
    }

    /// Neighbours in the order of neighbourhood collectives: for each dimension the one before, then the one after.
    ///
    /// ```
    /// use barewire::mpi::topology::Cart;
    /// let grid = Cart::new(&[2, 3], &[false, true])?;
    /// assert_eq!(grid.neighbours(4)?, [Some(1), None, Some(3), Some(5)]);
    /// assert_eq!(grid.neighbours(0)?, [None, Some(3), Some(2), Some(1)]);
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn neighbours(&self, rank: i32) -> Result<Vec<Option<i32>>> {
        let mut neighbours = Vec::with_capacity(2 * self.sizes.len());
        for dimension in 0..self.sizes.len() {
            let (before, after) = self.shift(rank, dimension as i32, 1)?;
            neighbours.extend([before, after]);
        }
        Ok(neighbours)
    }
}

/// A graph every process knows all of.
///
/// ```
/// use barewire::mpi::topology::Graph;
/// let path = Graph::new(&[1, 3, 4], &[1, 0, 2, 1])?;
/// assert_eq!(path.neighbours(1)?, [0, 2]);
/// # Ok::<(), barewire::mpi::error::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    index: Vec<i32>,
    edges: Vec<i32>,
}

impl Graph {
    /// A graph of as many nodes as `index` has entries; entry `i` is the number of neighbours of nodes `0..=i` together.
    ///
    /// ```
    /// use barewire::mpi::{error::Class, topology::Graph};
    /// // A triangle: every node has two neighbours.
    /// let triangle = Graph::new(&[2, 4, 6], &[1, 2, 0, 2, 0, 1])?;
    /// assert_eq!(triangle.neighbours(2)?, [0, 1]);
    /// assert_eq!(Graph::new(&[1], &[1]).unwrap_err().class(), Class::Arg, "there is no node 1");
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn new(index: &[i32], edges: &[i32]) -> Result<Graph> {
        let nodes = index.len() as i32;
        let mut before = 0;
        for &end in index {
            if end < before || end as usize > edges.len() {
                return Err(Error::new(
                    Class::Arg,
                    format!("index {index:?} does not fit {} edges", edges.len()),
                ));
            }
            before = end;
        }
        if before as usize != edges.len() {
            let what = format!("index {index:?} leaves some of {} edges to no node", edges.len());
            return Err(Error::new(Class::Arg, what));
        }
        match edges.iter().find(|&&node| !(0..nodes).contains(&node)) {
            Some(node) => Err(Error::new(Class::Arg, format!("an edge leads to {node}, of {nodes} nodes"))),
            None => Ok(Graph { index: index.to_vec(), edges: edges.to_vec() }),
        }
    }

    /// Nodes.
    ///
    /// ```
    /// use barewire::mpi::topology::Graph;
    /// assert_eq!(Graph::new(&[0, 0, 0], &[])?.size(), 3, "nodes count, edges do not");
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn size(&self) -> i32 {
        self.index.len() as i32
    }

    /// For each node, the neighbours of all nodes up to it.
    ///
    /// ```
    /// use barewire::mpi::topology::Graph;
    /// let star = Graph::new(&[3, 4, 5, 6], &[1, 2, 3, 0, 0, 0])?;
    /// assert_eq!(star.index(), [3, 4, 5, 6]);
    /// assert_eq!(*star.index().last().unwrap() as usize, star.edges().len());
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn index(&self) -> &[i32] {
        &self.index
    }

    /// The neighbours of all nodes, one after another.
    ///
    /// ```
    /// use barewire::mpi::topology::Graph;
    /// let both_ways = Graph::new(&[1, 2], &[1, 0])?;
    /// assert_eq!(both_ways.edges(), [1, 0]);
    /// let again = Graph::new(both_ways.index(), both_ways.edges())?;
    /// assert_eq!(again, both_ways);
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn edges(&self) -> &[i32] {
        &self.edges
    }

    /// The neighbours of a node.
    ///
    /// ```
    /// use barewire::mpi::{error::Class, topology::Graph};
    /// let arrow = Graph::new(&[1, 1], &[1])?;
    /// assert_eq!(arrow.neighbours(0)?, [1]);
    /// assert!(arrow.neighbours(1)?.is_empty(), "edges have a direction");
    /// assert_eq!(arrow.neighbours(2).unwrap_err().class(), Class::Rank);
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn neighbours(&self, rank: i32) -> Result<&[i32]> {
        let node = usize::try_from(rank).ok().filter(|&node| node < self.index.len());
        let node = node.ok_or_else(|| Error::new(Class::Rank, format!("rank {rank} is not in the graph")))?;
        let start = if node == 0 { 0 } else { self.index[node - 1] };
        Ok(&self.edges[start as usize..self.index[node] as usize])
    }
}

/// The edges of one process, in and out, with weights or without.
///
/// ```
/// use barewire::mpi::topology::DistGraph;
/// // Rank 0 of a ring of four; the way back is three times as dear.
/// let mine = DistGraph { sources: vec![3], destinations: vec![1], weights: Some((vec![3], vec![1])) };
/// assert_ne!(mine, DistGraph { weights: None, ..mine.clone() });
/// assert_eq!(DistGraph::default().sources, [0; 0], "a process may have no edges at all");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DistGraph {
    /// From whom it receives.
    pub sources: Vec<i32>,
    /// To whom it sends.
    pub destinations: Vec<i32>,
    /// What the edges weigh: those of the sources, those of the destinations.
    pub weights: Option<(Vec<i32>, Vec<i32>)>,
}

/// Fills the zero entries of `sizes` so that their product is `nodes` and they are as equal as can be.
///
/// ```
/// let mut sizes = [0, 2, 0];
/// barewire::mpi::topology::balance(24, &mut sizes)?;
/// assert_eq!(sizes, [4, 2, 3]);
/// # Ok::<(), barewire::mpi::error::Error>(())
/// ```
pub fn balance(nodes: i32, sizes: &mut [i32]) -> Result<()> {
    if let Some(size) = sizes.iter().find(|&&size| size < 0) {
        return Err(Error::new(Class::Dims, format!("a dimension is {size}")));
    }
    let misfit = || Error::new(Class::Dims, format!("{nodes} processes do not fit the dimensions {sizes:?}"));
    let mut fixed = sizes.iter().filter(|&&size| size > 0);
    let fixed = fixed.try_fold(1i32, |product, &size| product.checked_mul(size)).ok_or_else(misfit)?;
    let free = sizes.iter().filter(|&&size| size == 0).count();
    if nodes < 1 || nodes % fixed != 0 || (free == 0 && nodes != fixed) {
        return Err(misfit());
    }
    let rest = nodes / fixed;
    let factors = if free == 0 { None } else { Balanced::of(rest, free) };
    let mut factors = factors.unwrap_or_default().into_iter();
    for size in sizes.iter_mut().filter(|size| **size == 0) {
        *size = factors.next().unwrap_or(1);
    }
    Ok(())
}

fn divisors(n: i32) -> Vec<i32> {
    let mut divisors: Vec<i32> = (1..).take_while(|d| *d <= n / d).filter(|d| n % d == 0).collect();
    let large: Vec<i32> = divisors.iter().rev().map(|d| n / d).filter(|d| n / d != *d).collect();
    divisors.extend(large);
    divisors
}

/// The search for factors that differ least, the largest first; of several such lists, the one whose smallest is largest, then
/// the one whose second smallest is, and so on.
struct Balanced {
    divisors: Vec<i32>,
    path: Vec<i32>,
    best: Option<Vec<i32>>,
}

impl Balanced {
    fn of(n: i32, count: usize) -> Option<Vec<i32>> {
        let mut search = Balanced { divisors: divisors(n), path: Vec::new(), best: None };
        search.extend(n, count, n);
        search.best
    }

    /// Goes on with `count` factors of `n`, none above `limit`.
    fn extend(&mut self, n: i32, count: usize, limit: i32) {
        if count == 0 {
            if self.best.as_ref().is_none_or(|best| cost(&self.path) < cost(best)) {
                self.best = Some(self.path.clone());
            }
            return;
        }
        // The largest of the factors is not below the root, and the last is all that is left.
        let least = if count == 1 { n } else { ceiling_root(n, count) };
        let from = self.divisors.partition_point(|divisor| *divisor < least);
        for at in from..self.divisors.len() {
            let factor = self.divisors[at];
            if factor > limit {
                return;
            }
            if n % factor != 0 {
                continue;
            }
            self.path.push(factor);
            let better = self.can_be_better(n / factor, count - 1);
            if better {
                self.extend(n / factor, count - 1, factor);
            }
            self.path.pop();
            // The larger the factor, the smaller the others.
            if !better {
                return;
            }
        }
    }

    /// Whether the path with `count` more factors of `n` may beat the best so far. The smallest of them is not above the root.
    fn can_be_better(&self, n: i32, count: usize) -> bool {
        let (Some(best), [first, .., last] | [first @ last]) = (&self.best, &self.path[..]) else {
            return true;
        };
        let smallest = if count == 0 { *last } else { floor_root(n, count).min(*last) };
        (first - smallest, -smallest) <= (best[0] - best[best.len() - 1], -best[best.len() - 1])
    }
}

/// How far the factors of a list lie apart, then how small the smaller ones are.
fn cost(list: &[i32]) -> (i32, Reverse<Vec<i32>>) {
    (list[0] - list[list.len() - 1], Reverse(list.iter().rev().copied().collect::<Vec<i32>>()))
}

/// The largest number whose power is not above `n`.
fn floor_root(n: i32, power: usize) -> i32 {
    let reaches = |root: i32| (0..power).try_fold(1i64, |product, _| product.checked_mul(root.into()));
    let mut root = f64::from(n).powf(1.0 / power as f64) as i32;
    while reaches(root).is_none_or(|reached| reached > n.into()) {
        root -= 1;
    }
    while reaches(root + 1).is_some_and(|reached| reached <= n.into()) {
        root += 1;
    }
    root
}

/// The smallest number whose power is not below `n`.
fn ceiling_root(n: i32, power: usize) -> i32 {
    if n <= 1 { 1 } else { floor_root(n - 1, power) + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_cart() -> impl Strategy<Value = Cart> {
        prop::collection::vec((1..5i32, any::<bool>()), 0..4).prop_map(|dimensions| {
            let (sizes, rings): (Vec<i32>, Vec<bool>) = dimensions.into_iter().unzip();
            Cart::new(&sizes, &rings).unwrap()
        })
    }

    /// Every list of factors, the largest first.
    fn factors(n: i32, count: usize, limit: i32) -> Vec<Vec<i32>> {
        if count == 0 {
            return if n == 1 { vec![Vec::new()] } else { Vec::new() };
        }
        let first = (1..=limit.min(n)).filter(|first| n % first == 0);
        let lists = |first: i32| {
            let rest = factors(n / first, count - 1, first).into_iter();
            rest.map(move |rest| [vec![first], rest].concat())
        };
        first.flat_map(lists).collect()
    }

    proptest! {
        #[test]
        fn dimensions_differ_as_little_as_can_be(n in 1..3000i32, count in 1..5usize) {
            let mut found = vec![0; count];
            balance(n, &mut found).unwrap();
            let best = factors(n, count, n).into_iter().min_by_key(|list| cost(list));
            prop_assert_eq!(Some(found), best);
        }

        #[test]
        fn rank_and_coordinates_lead_back_to_each_other(cart in any_cart()) {
            for rank in 0..cart.size() {
                prop_assert_eq!(cart.rank(&cart.coordinates(rank).unwrap()).unwrap(), rank);
            }
            prop_assert!(cart.coordinates(cart.size()).is_err());
        }

        #[test]
        fn who_sends_to_me_is_whom_i_receive_from(cart in any_cart(), distance in -6..7i32) {
            for rank in 0..cart.size() {
                for dimension in 0..cart.sizes().len() as i32 {
                    let (_, to) = cart.shift(rank, dimension, distance).unwrap();
                    if let Some(to) = to {
                        prop_assert_eq!(cart.shift(to, dimension, distance).unwrap().0, Some(rank));
                    }
                }
            }
        }

        #[test]
        fn parts_of_a_grid_are_grids_of_their_own(cart in any_cart(), keep in prop::collection::vec(any::<bool>(), 4)) {
            let mut seen = std::collections::BTreeSet::new();
            for rank in 0..cart.size() {
                let (part, color, key) = cart.part(rank, &keep).unwrap();
                prop_assert!((0..part.size()).contains(&key));
                prop_assert!(seen.insert((color, key)));
            }
        }
    }

    fn balanced(nodes: i32, mut sizes: Vec<i32>) -> Result<Vec<i32>> {
        balance(nodes, &mut sizes)?;
        Ok(sizes)
    }

    #[test]
    fn dimensions_are_as_equal_as_can_be() {
        assert_eq!(balanced(12, vec![0, 0]).unwrap(), [4, 3]);
        assert_eq!(balanced(1, vec![0, 0, 0]).unwrap(), [1, 1, 1]);
        assert_eq!(balanced(64, vec![0, 0, 0]).unwrap(), [4, 4, 4]);
        assert_eq!(balanced(30, vec![0, 0, 0]).unwrap(), [5, 3, 2]);
        assert_eq!(balanced(7919, vec![0, 0]).unwrap(), [7919, 1]);
        assert_eq!(balanced(i32::MAX, vec![0; 4]).unwrap(), [i32::MAX, 1, 1, 1]);
        assert_eq!(balanced(6, vec![2, 3]).unwrap(), [2, 3]);
    }

    #[test]
    fn dimensions_that_do_not_divide_are_refused() {
        for (nodes, sizes) in
            [(12, vec![5, 0]), (12, vec![3, 3]), (12, vec![-1, 0]), (0, vec![0]), (-3, vec![0])]
        {
            assert_eq!(balanced(nodes, sizes).unwrap_err().class(), Class::Dims);
        }
    }

    #[test]
    fn graphs_that_point_outside_are_refused() {
        assert!(Graph::new(&[1, 2], &[1, 2]).is_err());
        assert!(Graph::new(&[2, 1], &[1, 0]).is_err());
        assert!(Graph::new(&[1, 3], &[1, 0]).is_err());
        assert!(Graph::new(&[0, 1], &[0, 1]).is_err());
        let graph = Graph::new(&[0, 1], &[0]).unwrap();
        assert!(graph.neighbours(0).unwrap().is_empty());
        assert!(graph.neighbours(2).is_err());
        assert!(graph.neighbours(-1).is_err());
    }
}
