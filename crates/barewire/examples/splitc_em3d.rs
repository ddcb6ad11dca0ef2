//! EM3D in Split-C: electric and magnetic nodes that depend on each other along the edges of a random graph, some of which lead to other
//! processors. One half of a step fetches what it needs with split-phase gets, the other pushes it with stores. Runs at 2 and at 4
//! processors, or as ranks of `barewire run`, and compares with the same on one processor.

use std::collections::BTreeMap;

use barewire::core::Endpoint;
use barewire::splitc::{Error, SplitC, Spread};
use barewire::spmd;

/// Nodes of each kind on each processor.
const NODES: usize = 500;
const DEGREE: usize = 8;
/// One in so many edges leads to another processor.
const REMOTE: u64 = 5;
const STEPS: usize = 20;

/// An edge: which node of the other kind, over all processors, and how strongly it counts.
struct Edge {
    from: usize,
    weight: f64,
}

/// The edges into one node. Every processor can compute them for any node, so that the result can be checked.
fn edges(kind: u64, node: usize, procs: usize) -> Vec<Edge> {
    let proc = node / NODES;
    let edge = |k: usize| {
        let dice = scramble(kind << 40 | (node * DEGREE + k) as u64);
        let target = if dice % REMOTE == 0 { (dice >> 8) as usize % procs } else { proc };
        Edge {
            from: target * NODES + (dice >> 24) as usize % NODES,
            weight: (dice >> 48) as f64 / 65536.0 / DEGREE as f64,
        }
    };
    (0..DEGREE).map(edge).collect()
}

fn start(kind: u64, node: usize) -> f64 {
    (scramble(kind << 50 | node as u64) >> 40) as f64
}

fn simulate(endpoint: Endpoint) -> Result<(), Error> {
    let sc = SplitC::new(endpoint, 1 << 20)?;
    let (me, procs) = (sc.my_proc() as usize, sc.procs() as usize);
    let mine = me * NODES..(me + 1) * NODES;
    let e = sc.all_spread_malloc::<f64>(procs, NODES)?;
    let h = sc.all_spread_malloc::<f64>(procs, NODES)?;
    let into_e: Vec<Vec<Edge>> = mine.clone().map(|node| edges(0, node, procs)).collect();
    let into_h: Vec<Vec<Edge>> = mine.clone().map(|node| edges(1, node, procs)).collect();
    for (kind, nodes) in [(0, e), (1, h)] {
        let values: Vec<f64> = mine.clone().map(|node| start(kind, node)).collect();
        sc.bulk_write(nodes.block(me as u64), &values)?;
    }

    // Who needs which electric nodes of ours, and where in its ghosts they go: the same order everywhere.
    let ghosts = sc.all_spread_malloc::<f64>(procs, NODES * DEGREE)?;
    let needs = |proc: usize| {
        let edges = (proc * NODES..(proc + 1) * NODES).flat_map(|node| edges(1, node, procs));
        let far: BTreeMap<usize, ()> =
            edges.filter(|edge| edge.from / NODES != proc).map(|edge| (edge.from, ())).collect();
        far.into_keys().enumerate().map(|(place, node)| (node, place)).collect::<BTreeMap<usize, usize>>()
    };
    let my_ghosts = needs(me);
    let wanted: Vec<BTreeMap<usize, usize>> = (0..procs).map(needs).collect();
    sc.barrier()?;

    for _ in 0..STEPS {
        pull(&sc, e, h, &into_e)?;
        sc.barrier()?;
        // Push: every electric value goes to whoever needs it, one way.
        let values = read_block(&sc, e)?;
        for (proc, places) in wanted.iter().enumerate() {
            for (&node, &place) in places.range(mine.clone()) {
                sc.store(ghosts.block(proc as u64).add(place as u64), values[node - mine.start])?;
            }
        }
        sc.all_store_sync()?;
        let mut came = vec![0.0; my_ghosts.len()];
        sc.bulk_read(ghosts.block(me as u64), &mut came)?;
        let value = |node: usize| match my_ghosts.get(&node) {
            Some(&place) => came[place],
            None => values[node - mine.start],
        };
        let next = relax(&read_block(&sc, h)?, &into_h, value);
        sc.bulk_write(h.block(me as u64), &next)?;
        sc.barrier()?;
    }
    check(&sc, e, h)
}

/// The electric half: gets for everything far away, all under way at once.
fn pull(sc: &SplitC, e: Spread<f64>, h: Spread<f64>, edges: &[Vec<Edge>]) -> Result<(), Error> {
    let me = sc.my_proc() as usize;
    let mut far = BTreeMap::new();
    for edge in edges.iter().flatten().filter(|edge| edge.from / NODES != me) {
        if let std::collections::btree_map::Entry::Vacant(place) = far.entry(edge.from) {
            place.insert(sc.get(h.at(edge.from as u64))?);
        }
    }
    let near = read_block(sc, h)?;
    sc.sync()?;
    let far: BTreeMap<usize, f64> =
        far.into_iter().map(|(node, get)| Ok((node, get.value()?))).collect::<Result<_, Error>>()?;
    let value = |node: usize| far.get(&node).copied().unwrap_or_else(|| near[node % NODES]);
    let next = relax(&read_block(sc, e)?, edges, value);
    sc.bulk_write(e.block(me as u64), &next)
}

fn read_block(sc: &SplitC, nodes: Spread<f64>) -> Result<Vec<f64>, Error> {
    let mut values = vec![0.0; NODES];
    sc.bulk_read(nodes.block(u64::from(sc.my_proc())), &mut values)?;
    Ok(values)
}

fn relax(values: &[f64], edges: &[Vec<Edge>], value: impl Fn(usize) -> f64) -> Vec<f64> {
    let pull = |edges: &Vec<Edge>| edges.iter().map(|edge| edge.weight * value(edge.from)).sum::<f64>();
    values.iter().zip(edges).map(|(old, edges)| 0.5 * old + 0.5 * pull(edges)).collect()
}

/// The same on one processor, bit by bit.
fn check(sc: &SplitC, e: Spread<f64>, h: Spread<f64>) -> Result<(), Error> {
    let (procs, me) = (sc.procs() as usize, sc.my_proc() as usize);
    let nodes = 0..procs * NODES;
    let [into_e, into_h] =
        [0, 1].map(|kind| nodes.clone().map(|node| edges(kind, node, procs)).collect::<Vec<_>>());
    let [mut all_e, mut all_h] =
        [0, 1].map(|kind| nodes.clone().map(|node| start(kind, node)).collect::<Vec<_>>());
    for _ in 0..STEPS {
        all_e = relax(&all_e, &into_e, |node| all_h[node]);
        all_h = relax(&all_h, &into_h, |node| all_e[node]);
    }
    assert_eq!(read_block(sc, e)?, all_e[me * NODES..(me + 1) * NODES], "electric");
    assert_eq!(read_block(sc, h)?, all_h[me * NODES..(me + 1) * NODES], "magnetic");
    if me == 0 {
        println!("{STEPS} steps of {} nodes on {procs} processors: as on one", 2 * procs * NODES);
    }
    sc.barrier()
}

fn scramble(n: u64) -> u64 {
    let x = (n ^ n >> 31).wrapping_mul(0x7fb5_d329_728e_a185);
    let x = (x ^ x >> 27).wrapping_mul(0x81da_def4_bc2d_d44d);
    x ^ x >> 33
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    spmd::launch(&[2, 4], simulate)
}
