//! Conjugate gradients in MPI: the temperature of a plate with given sources, whose rows are dealt out to the ranks. In every step each rank
//! exchanges its outer rows with its neighbours while it computes what needs none of theirs, and all sum up three scalar products, the last of
//! them beside other work. Runs at 2 and at 4 ranks, or as ranks of `barewire run`, and compares with the same on one rank.

use barewire::mpi::{self, Comm, Error};

/// Cells of the plate, each way.
const PLATE: usize = 64;
const STEPS_MAX: usize = 500;
/// How small what is left of the sources has to be, beside all of them.
const SMALL: f64 = 1e-10;

/// The rows of the plate that a rank has.
struct Part<'a> {
    comm: &'a Comm,
    first: usize,
    rows: usize,
}

impl Part<'_> {
    fn new(comm: &Comm) -> Part<'_> {
        let bound = |rank: u32| PLATE * rank as usize / comm.size() as usize;
        let first = bound(comm.rank());
        Part { comm, first, rows: bound(comm.rank() + 1) - first }
    }

    /// What the sources are: two of them, and a sink.
    fn sources(&self) -> Vec<f64> {
        let source = |row, column| match (row, column) {
            (10, 12) => 3.0,
            (40, 50) => 1.0,
            (50, 9) => -2.0,
            _ => 0.0,
        };
        let rows = self.first..self.first + self.rows;
        rows.flat_map(|row| (0..PLATE).map(move |column| source(row, column))).collect()
    }

    /// What flows out of each cell to its four neighbours; the plate's edge is kept at zero.
    fn flow(&self, heat: &[f64]) -> Result<Vec<f64>, Error> {
        let above = self.comm.rank().checked_sub(1);
        let below = Some(self.comm.rank() + 1).filter(|&rank| rank < self.comm.size());
        let row = |at: usize| &heat[at * PLATE..(at + 1) * PLATE];
        let from =
            |rank: Option<u32>| rank.map(|rank| self.comm.ireceive(vec![0.0; PLATE], rank, 1)).transpose();
        let to = |rank: Option<u32>, cells: &[f64]| {
            rank.map(|rank| self.comm.isend(cells.to_vec(), rank, 1)).transpose()
        };
        let (upper, lower) = (from(above)?, from(below)?);
        let sends = [to(above, row(0))?, to(below, row(self.rows - 1))?];

        let mut flow = vec![0.0; heat.len()];
        for at in 0..self.rows {
            for column in 0..PLATE {
                let beside = |near: Option<usize>| near.filter(|&c| c < PLATE).map_or(0.0, |c| row(at)[c]);
                let mut out =
                    4.0 * row(at)[column] - beside(column.checked_sub(1)) - beside(Some(column + 1));
                if at > 0 {
                    out -= row(at - 1)[column];
                }
                if at + 1 < self.rows {
                    out -= row(at + 1)[column];
                }
                flow[at * PLATE + column] = out;
            }
        }
        // Now what needs the neighbours' rows.
        let last = (self.rows - 1) * PLATE;
        for (receive, start) in [(upper, 0), (lower, last)] {
            if let Some(receive) = receive {
                let (cells, _) = receive.wait()?;
                flow[start..].iter_mut().zip(cells).for_each(|(out, cell)| *out -= cell);
            }
        }
        mpi::wait_all(sends.into_iter().flatten())?;
        Ok(flow)
    }

    fn product(&self, a: &[f64], b: &[f64]) -> Result<f64, Error> {
        let mut sum = [a.iter().zip(b).map(|(a, b)| a * b).sum()];
        self.comm.all_reduce(&mut sum, |a, b| a + b)?;
        Ok(sum[0])
    }
}

/// The temperatures of a rank's rows, and how many steps they took.
fn solve(comm: &Comm) -> Result<(Vec<f64>, usize), Error> {
    let part = Part::new(comm);
    let mut heat = vec![0.0; part.rows * PLATE];
    let mut left = part.sources();
    let mut way = left.clone();
    let all = part.product(&left, &left)?;
    let mut rest = all;
    for step in 0..STEPS_MAX {
        if rest <= SMALL * SMALL * all {
            return Ok((heat, step));
        }
        let flow = part.flow(&way)?;
        let far = rest / part.product(&way, &flow)?;
        left.iter_mut().zip(&flow).for_each(|(left, flow)| *left -= far * flow);
        // The sum over all ranks is made while this one goes on.
        let sum = comm.iall_reduce(vec![left.iter().map(|left| left * left).sum::<f64>()], |a, b| a + b)?;
        heat.iter_mut().zip(&way).for_each(|(heat, way)| *heat += far * way);
        let before = std::mem::replace(&mut rest, sum.wait()?[0]);
        way.iter_mut().zip(&left).for_each(|(way, left)| *way = left + rest / before * *way);
    }
    Ok((heat, STEPS_MAX))
}

fn rank(comm: Comm) -> Result<(), Error> {
    let (heat, steps) = solve(&comm)?;
    let counts: Vec<usize> = (0..comm.size() as usize)
        .map(|rank| PLATE * (rank + 1) / comm.size() as usize - PLATE * rank / comm.size() as usize)
        .map(|rows| rows * PLATE)
        .collect();
    let mut plate = vec![0.0; if comm.rank() == 0 { PLATE * PLATE } else { 0 }];
    comm.gather_varied(&heat, &mut plate, &counts, 0)?;
    if comm.rank() == 0 {
        let (alone, _) = solve(&comm.alone())?;
        let furthest = plate.iter().zip(&alone).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        let warmest = alone.iter().copied().fold(0.0, f64::max);
        println!(
            "{} ranks: {steps} steps, warmest {warmest:.6}, furthest from one rank's {furthest:.1e}",
            comm.size()
        );
        assert!(steps < STEPS_MAX && warmest > 1.0 && furthest < 1e-9);
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    mpi::launch(&[2, 4], rank)
}
