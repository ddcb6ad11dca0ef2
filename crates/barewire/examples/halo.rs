//! A halo exchange: heat spreads along a bar that is cut into one part for each rank. In every step each rank sends its edge
//! cells to its neighbours, whose handler puts them straight into the halo of the right step.

use std::sync::{Arc, Mutex};

use barewire::core::{Config, job::Job};
use barewire::fm::{Flow, Fm, Handler, Peer};

const EDGE: Handler = Handler(1);
const RANKS: u32 = 4;
const CELLS: usize = 1000;
const STEPS: u64 = 200;

/// Edges received: for the left and the right side, the cell for this step and for the next. A neighbour can be one step ahead,
/// not two, because it needs our edge to go on.
#[derive(Default)]
struct Halo {
    cells: [[Option<f64>; 2]; 2],
}

fn rank_main(mut fm: Fm) -> Result<f64, Box<dyn std::error::Error>> {
    let (me, halo) = (fm.me().0, Arc::new(Mutex::new(Halo::default())));
    let arriving = Arc::clone(&halo);
    fm.register(EDGE, move |_, message| {
        let (mut step, mut cell) = ([0; 8], [0; 8]);
        message.read(&mut step);
        message.read(&mut cell);
        let side = usize::from(message.from().0 > me);
        let place = (u64::from_le_bytes(step) % 2) as usize;
        arriving.lock().expect("no one panics").cells[side][place] = Some(f64::from_le_bytes(cell));
        Flow::Continue
    });

    let mut bar = vec![0.0; CELLS + 2];
    for step in 0..STEPS {
        let edges = [(me.checked_sub(1), bar[1]), (Some(me + 1).filter(|&r| r < RANKS), bar[CELLS])];
        for (neighbour, cell) in edges {
            if let Some(neighbour) = neighbour {
                let mut message = fm.begin_message(Peer(neighbour), 16, EDGE)?;
                message.pieces(&[&step.to_le_bytes(), &f64::to_le_bytes(cell)])?;
                message.end()?;
            }
        }
        let place = (step % 2) as usize;
        let sides = [me > 0, me + 1 < RANKS];
        fm.wait(None, || {
            let halo = halo.lock().expect("no one panics");
            (0..2).all(|side| !sides[side] || halo.cells[side][place].is_some())
        })?;
        let mut halo = halo.lock().expect("no one panics");
        // The ends of the bar: hot on the left, mirrored on the right.
        bar[0] = halo.cells[0][place].take().unwrap_or(100.0);
        bar[CELLS + 1] = halo.cells[1][place].take().unwrap_or(bar[CELLS]);
        bar = spread(&bar);
    }
    Ok(bar[1..=CELLS].iter().sum())
}

fn spread(bar: &[f64]) -> Vec<f64> {
    let mut next = bar.to_vec();
    for (cell, three) in next[1..].iter_mut().zip(bar.windows(3)) {
        *cell = three[1] + 0.25 * (three[0] - 2.0 * three[1] + three[2]);
    }
    next
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ranks = Job::threads(RANKS)?.into_iter().map(|job| Fm::open(job, Config::default()));
    let ranks = ranks.collect::<Result<Vec<_>, _>>()?;
    let heat = std::thread::scope(|scope| {
        let running =
            ranks.into_iter().map(|fm| scope.spawn(move || rank_main(fm).expect("all ranks are there")));
        running.collect::<Vec<_>>().into_iter().map(|rank| rank.join().expect("no rank panics")).sum::<f64>()
    });
    // The same on one rank.
    let mut bar = vec![0.0; RANKS as usize * CELLS + 2];
    for _ in 0..STEPS {
        bar[0] = 100.0;
        bar[RANKS as usize * CELLS + 1] = bar[RANKS as usize * CELLS];
        bar = spread(&bar);
    }
    let alone = bar[1..=RANKS as usize * CELLS].iter().sum::<f64>();
    println!("heat in the bar after {STEPS} steps: {heat:.3} on {RANKS} ranks, {alone:.3} on one");
    assert!((heat - alone).abs() < 1e-6);
    Ok(())
}
