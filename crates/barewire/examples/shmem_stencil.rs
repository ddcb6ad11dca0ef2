//! A two-dimensional stencil in Shmem: heat spreads over a plate that is cut into one tile for each PE. In every step each PE puts its edges
//! into its neighbours' halos, rows in one piece and columns strided, and tells them with a flag behind a fence. Runs at 2 and at 4 PEs, or as ranks
//! of `barewire run`, and compares with the same on one PE.

use barewire::core::Endpoint;
use barewire::shmem::{Cmp, Error, Op, Shmem, Sym};
use barewire::spmd;

/// Cells of the whole plate, each way.
const PLATE: usize = 96;
const STEPS: u64 = 60;

/// A tile with a halo one cell wide.
struct Tile {
    rows: usize,
    columns: usize,
}

impl Tile {
    fn width(&self) -> usize {
        self.columns + 2
    }

    fn at(&self, row: usize, column: usize) -> usize {
        row * self.width() + column
    }
}

fn hot(row: usize, column: usize) -> f64 {
    if (30..60).contains(&row) && (10..80).contains(&column) { (row * column % 97) as f64 } else { 0.0 }
}

fn stencil(endpoint: Endpoint) -> Result<(), Error> {
    let shmem = Shmem::init(endpoint, 1 << 20)?;
    let (me, pes) = (shmem.my_pe() as usize, shmem.n_pes() as usize);
    let across = if pes % 2 == 0 { 2 } else { 1 };
    let down = pes / across;
    let (x, y) = (me % across, me / across);
    let tile = Tile { rows: PLATE / down, columns: PLATE / across };
    assert_eq!((tile.rows * down, tile.columns * across), (PLATE, PLATE), "tiles cover the plate");

    // Two copies of the tile, for even and odd steps, so that a neighbour that is ahead by one overwrites nothing.
    let tiles =
        [shmem.calloc::<f64>((tile.rows + 2) * tile.width())?, shmem.calloc((tile.rows + 2) * tile.width())?];
    // How many steps' edges have come from each side. One count for all would let a neighbour that is ahead stand in for another.
    let arrived = shmem.calloc::<u64>(4)?;
    for row in 0..tile.rows {
        let cells: Vec<f64> =
            (0..tile.columns).map(|c| hot(y * tile.rows + row, x * tile.columns + c)).collect();
        shmem.write(tiles[0], tile.at(row + 1, 1), &cells)?;
    }
    let neighbours: Vec<Side> = [
        (y > 0).then(|| Side::Up(me - across)),
        (y + 1 < down).then(|| Side::Down(me + across)),
        (x > 0).then(|| Side::Left(me - 1)),
        (x + 1 < across).then(|| Side::Right(me + 1)),
    ]
    .into_iter()
    .flatten()
    .collect();
    shmem.barrier_all()?;

    for step in 0..STEPS {
        let (now, next) = (tiles[step as usize % 2], tiles[(step as usize + 1) % 2]);
        let cells = shmem.read(now, 0, now.len())?;
        neighbours.iter().try_for_each(|side| side.put(&shmem, &tile, now, &cells))?;
        // One fence for all the edges, then word to everybody.
        shmem.fence()?;
        neighbours.iter().try_for_each(|side| shmem.p(arrived, side.opposite(), step + 1, side.pe()))?;
        for side in &neighbours {
            shmem.wait_until(arrived, side.number(), Cmp::Gt, step)?;
        }
        let mut cells = shmem.read(now, 0, now.len())?;
        if neighbours.iter().all(|side| !matches!(side, Side::Up(_))) {
            (0..tile.width()).for_each(|c| cells[c] = 100.0); // the upper edge of the plate is kept hot
        }
        for row in 1..=tile.rows {
            let spread = |column: usize| {
                let here = tile.at(row, column);
                0.25 * (cells[here - tile.width()]
                    + cells[here + tile.width()]
                    + cells[here - 1]
                    + cells[here + 1])
            };
            let new: Vec<f64> = (1..=tile.columns).map(spread).collect();
            shmem.write(next, tile.at(row, 1), &new)?;
        }
    }

    let (last, mut heat, mut wrong) = (tiles[STEPS as usize % 2], 0.0, 0u64);
    let alone = alone();
    for row in 0..tile.rows {
        for (column, cell) in shmem.read(last, tile.at(row + 1, 1), tile.columns)?.into_iter().enumerate() {
            heat += cell;
            wrong += u64::from(cell != alone[y * tile.rows + row][x * tile.columns + column]);
        }
    }
    let heat = shmem.reduce(shmem.team_world(), Op::Sum, &[heat])?[0];
    assert_eq!(
        shmem.reduce(shmem.team_world(), Op::Sum, &[wrong])?,
        [0],
        "the same as on one PE, bit by bit"
    );
    if me == 0 {
        println!("heat in the plate after {STEPS} steps on {pes} PEs: {heat:.3}, as on one");
    }
    shmem.finalize()
}

/// A neighbour's PE, and on which side it is.
enum Side {
    Up(usize),
    Down(usize),
    Left(usize),
    Right(usize),
}

impl Side {
    fn pe(&self) -> u32 {
        match self {
            Side::Up(pe) | Side::Down(pe) | Side::Left(pe) | Side::Right(pe) => *pe as u32,
        }
    }

    fn number(&self) -> usize {
        match self {
            Side::Up(_) => 0,
            Side::Down(_) => 1,
            Side::Left(_) => 2,
            Side::Right(_) => 3,
        }
    }

    /// Which side of the neighbour we are.
    fn opposite(&self) -> usize {
        self.number() ^ 1
    }

    /// Puts our edge on this side into the neighbour's halo.
    fn put(&self, shmem: &Shmem, tile: &Tile, halo: Sym<f64>, cells: &[f64]) -> Result<(), Error> {
        let row = |row: usize| &cells[tile.at(row, 1)..tile.at(row, 1 + tile.columns)];
        let column = |column: usize| &cells[tile.at(1, column)..];
        let (width, rows) = (tile.width(), tile.rows);
        match self {
            Side::Up(_) => shmem.put(halo, tile.at(rows + 1, 1), row(1), self.pe()),
            Side::Down(_) => shmem.put(halo, tile.at(0, 1), row(rows), self.pe()),
            Side::Left(_) => {
                shmem.iput(halo, tile.at(1, tile.columns + 1), width, column(1), width, rows, self.pe())
            }
            Side::Right(_) => {
                shmem.iput(halo, tile.at(1, 0), width, column(tile.columns), width, rows, self.pe())
            }
        }
    }
}

/// The whole plate on one PE.
fn alone() -> Vec<Vec<f64>> {
    let mut plate: Vec<Vec<f64>> =
        (0..PLATE).map(|row| (0..PLATE).map(|column| hot(row, column)).collect()).collect();
    for _ in 0..STEPS {
        let cell = |row: usize, column: usize| match (row.checked_sub(1), column.checked_sub(1)) {
            (None, _) => 100.0,
            (Some(row), Some(column)) if row < PLATE && column < PLATE => plate[row][column],
            _ => 0.0,
        };
        let spread = |row: usize, column: usize| {
            0.25 * (cell(row - 1, column)
                + cell(row + 1, column)
                + cell(row, column - 1)
                + cell(row, column + 1))
        };
        plate = (1..=PLATE).map(|row| (1..=PLATE).map(|column| spread(row, column)).collect()).collect();
    }
    plate
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    spmd::launch(&[2, 4], stencil)
}
