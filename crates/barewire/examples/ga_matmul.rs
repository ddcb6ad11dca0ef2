//! A matrix product with Global Arrays, twice: by the library, and by hand, with tiles that whoever is free takes from a shared counter and
//! adds to the result. Runs at 2 and at 4 ranks, or as ranks of `barewire run`, and is checked against the formula for the product.

use barewire::core::Endpoint;
use barewire::ga::{Array, Error, Ga};
use barewire::spmd;

const M: usize = 130;
const K: usize = 170;
const N: usize = 110;
/// Tiles of the product by hand.
const TILE: usize = 32;

/// Integers, so that sums are exact in any order.
fn a(i: usize, k: usize) -> f64 {
    ((i * 7 + k * 3) % 11) as f64 - 5.0
}

fn b(k: usize, j: usize) -> f64 {
    ((k * 5 + j * 2) % 13) as f64 - 6.0
}

fn product(endpoint: Endpoint) -> Result<(), Error> {
    let ga = Ga::new(endpoint);
    let (left, right) = (ga.create::<f64>(&[M, K])?, ga.create::<f64>(&[K, N])?);
    // Owners fill their own blocks.
    for (array, value) in [(&left, a as fn(usize, usize) -> f64), (&right, b)] {
        if let Some(block) = array.distribution(ga.node_id()) {
            let rows = block[0].clone().flat_map(|i| block[1].clone().map(move |j| value(i, j)));
            array.set_local(&rows.collect::<Vec<_>>())?;
        }
    }

    let whole = ga.create::<f64>(&[M, N])?;
    whole.matmul(1.0, &left, &right, 0.0)?;
    let tiled = ga.create::<f64>(&[M, N])?;
    let done = by_hand(&ga, &tiled, &left, &right)?;

    // Everybody checks some rows of both.
    for i in (0..M).filter(|i| i % ga.n_nodes() as usize == ga.node_id() as usize) {
        let expected: Vec<f64> = (0..N).map(|j| (0..K).map(|k| a(i, k) * b(k, j)).sum()).collect();
        assert_eq!(whole.get(&[i..i + 1, 0..N])?, expected, "row {i}");
        assert_eq!(tiled.get(&[i..i + 1, 0..N])?, expected, "row {i} by hand");
    }
    let mut most = [done];
    ga.gop(&mut most, Ord::max)?;
    if ga.node_id() == 0 {
        println!("{M} x {K} x {N} on {} ranks, by hand with at most {} tiles each", ga.n_nodes(), most[0]);
    }
    ga.sync()
}

/// Adds products of tiles, in whatever order they are taken; says how many this rank took.
fn by_hand(
    ga: &Ga,
    sum: &Array<'_, f64>,
    left: &Array<'_, f64>,
    right: &Array<'_, f64>,
) -> Result<u64, Error> {
    let next = ga.create::<i64>(&[1])?;
    let tiles = [M, K, N].map(|len| len.div_ceil(TILE));
    let range = |tile: usize, len: usize| tile * TILE..((tile + 1) * TILE).min(len);
    let mut done = 0;
    loop {
        let task = next.read_inc(&[0], 1)? as usize;
        if task >= tiles.iter().product() {
            break;
        }
        let (i, k, j) = (task / tiles[2] / tiles[1], task / tiles[2] % tiles[1], task % tiles[2]);
        let (rows, inner, columns) = (range(i, M), range(k, K), range(j, N));
        let (x, y) =
            (left.get(&[rows.clone(), inner.clone()])?, right.get(&[inner.clone(), columns.clone()])?);
        let mut tile = vec![0.0; rows.len() * columns.len()];
        for (at, cell) in tile.iter_mut().enumerate() {
            let (r, c) = (at / columns.len(), at % columns.len());
            *cell = (0..inner.len()).map(|k| x[r * inner.len() + k] * y[k * columns.len() + c]).sum();
        }
        sum.acc(&[rows, columns], 1.0, &tile)?;
        done += 1;
    }
    ga.sync()?;
    next.destroy()?;
    Ok(done)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    spmd::launch(&[2, 4], product)
}
