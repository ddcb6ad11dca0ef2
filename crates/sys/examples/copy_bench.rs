//! GB/s of every copy kernel beside the library's memcpy: sizes × alignments, hot and cold.
//!
//! `cargo run --release -p barewire-sys --example copy_bench [hot|cold|both] [size_max_bytes]`
//!
//! The contestants take turns and each cell is the median of their turns, so that a busy machine slows all alike.
//! *Hot* copies between the same two buffers again and again. *Cold* walks through two arenas much larger than the
//! last-level cache, so that neither side is in any cache.

use std::hint::black_box;
use std::time::Instant;

use barewire_sys::copy::{Kernel, copy, copy_stream, copy_with};

type Contestant = (String, Box<dyn Fn(*mut u8, *const u8, usize)>);

const ROUNDS: usize = 15;
const ARENA: usize = 256 << 20;
const ALIGNMENTS: [(usize, usize); 4] = [(0, 0), (0, 8), (0, 16), (8, 0)];

fn main() {
    let mode = std::env::args().nth(1).unwrap_or_else(|| "both".into());
    let size_max = std::env::args().nth(2).and_then(|text| text.parse().ok()).unwrap_or(64 << 20);
    let contestants = contestants();
    let arenas = (Arena::new(), Arena::new());
    println!("GB/s, medians of {ROUNDS}; best kernel here: {}", Kernel::best().name());
    for (name, cold) in [("hot", false), ("cold", true)] {
        if mode != "both" && mode != name {
            continue;
        }
        print!("{name:<5} {:>9} {:>6} {:>6}", "bytes", "src at", "dst at");
        contestants.iter().for_each(|(name, _)| print!(" {name:>9}"));
        println!();
        for size in SIZES.into_iter().filter(|&size| size <= size_max) {
            for (src_at, dst_at) in ALIGNMENTS {
                print!("{name:<5} {size:>9} {src_at:>6} {dst_at:>6}");
                for rate in race(&contestants, &arenas, size, src_at, dst_at, cold) {
                    print!(" {rate:>9.2}");
                }
                println!();
            }
        }
    }
}

const SIZES: [usize; 20] = [
    64,
    96,
    128,
    200,
    256,
    400,
    512,
    1 << 10,
    2 << 10,
    4 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
    128 << 10,
    512 << 10,
    1 << 20,
    2 << 20,
    4 << 20,
    8 << 20,
    64 << 20,
];

fn contestants() -> Vec<Contestant> {
    let mut all: Vec<Contestant> = Vec::new();
    // SAFETY: `race` passes ranges inside two distinct arenas.
    all.push(("memcpy".into(), Box::new(|d, s, n| unsafe { std::ptr::copy_nonoverlapping(s, d, n) })));
    // SAFETY: as above.
    all.push(("copy".into(), Box::new(|d, s, n| unsafe { copy(d, s, n) })));
    for kernel in Kernel::available().filter(|&kernel| kernel != Kernel::Portable) {
        // SAFETY: as above, and the kernel is available.
        all.push((kernel.name().into(), Box::new(move |d, s, n| unsafe { copy_with(kernel, d, s, n) })));
    }
    // SAFETY: as above.
    all.push(("stream".into(), Box::new(|d, s, n| unsafe { copy_stream(d, s, n) })));
    all
}

fn race(
    contestants: &[Contestant],
    arenas: &(Arena, Arena),
    size: usize,
    src_at: usize,
    dst_at: usize,
    cold: bool,
) -> Vec<f64> {
    let step = (size + 4096).next_multiple_of(4096);
    let slots = if cold { ARENA / step } else { 1 };
    let bytes_a_turn = if cold { (16 << 20).max(size) } else { (2 << 20).max(size) };
    let turns = (bytes_a_turn / size).clamp(1, if cold { slots.max(1) } else { usize::MAX });
    let mut rates = vec![Vec::new(); contestants.len()];
    let mut slot = 0;
    for _ in 0..ROUNDS {
        for ((_, run), rates) in contestants.iter().zip(&mut rates) {
            if !cold {
                // SAFETY: as for the contestants; all start with both ranges cached alike.
                unsafe { std::ptr::copy_nonoverlapping(arenas.1.at(src_at), arenas.0.at(dst_at), size) };
            }
            let start = Instant::now();
            for _ in 0..turns {
                slot = if slot + 1 >= slots { 0 } else { slot + 1 };
                run(
                    black_box(arenas.0.at(slot * step + dst_at)),
                    black_box(arenas.1.at(slot * step + src_at)),
                    black_box(size),
                );
            }
            rates.push((turns * size) as f64 / start.elapsed().as_nanos() as f64);
        }
    }
    rates.into_iter().map(median).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Page-aligned memory, written once so that every page is there.
struct Arena(*mut u8);

impl Arena {
    fn new() -> Self {
        let memory = Box::leak(vec![0u8; ARENA + 8192].into_boxed_slice());
        memory.iter_mut().step_by(512).for_each(|byte| *byte = 1);
        let start = memory.as_mut_ptr();
        Self(start.wrapping_add(start.align_offset(4096)))
    }

    fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset < ARENA);
        self.0.wrapping_add(offset)
    }
}
