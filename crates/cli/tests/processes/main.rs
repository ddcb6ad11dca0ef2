//! What holds between real processes: deaths and pauses at every step, the cost of a crowd, system calls, hostile neighbours,
//! and what ranks leave alone.
//!
//! A test program without the usual harness, because it is also the ranks that it starts: `processes rank FOLDER ...` is one
//! of them. Everything else on its command line is a filter on the names of the cases.

#[path = "../common/mod.rs"]
mod common;

mod calls;
mod crowd;
mod folder;
mod hostile;
mod matrix;
mod quiet;
mod rank;
mod survivor;
mod victim;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// One thing that holds, with the word it is found by.
pub struct Case {
    name: String,
    /// Runs while nothing else does, because it measures the machine.
    alone: bool,
    check: Box<dyn Fn() + Send + Sync>,
}

impl Case {
    fn new(name: impl Into<String>, check: impl Fn() + Send + Sync + 'static) -> Case {
        Case { name: name.into(), alone: false, check: Box::new(check) }
    }

    fn alone(self) -> Case {
        Case { alone: true, ..self }
    }
}

/// Cases run side by side: they mostly wait.
const SIDE_BY_SIDE: usize = 3;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "rank") {
        rank::main(&words[1..]);
        return ExitCode::SUCCESS;
    }
    let filters: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let wanted = |case: &Case| filters.is_empty() || filters.iter().any(|word| case.name.contains(*word));
    let all = [crowd::cases(), calls::cases(), hostile::cases(), quiet::cases(), matrix::cases()];
    let (alone, others): (Vec<Case>, Vec<Case>) =
        all.into_iter().flatten().filter(wanted).partition(|case| case.alone);
    let before = folder::named_after_us("/dev/shm");
    let (total, failed) = (alone.len() + others.len(), Mutex::new(Vec::new()));
    alone.iter().for_each(|case| run(case, &failed));
    let queue = Mutex::new(VecDeque::from_iter(&others));
    std::thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                while let Some(case) = { queue.lock().unwrap().pop_front() } {
                    run(case, &failed);
                }
            });
        }
    });
    let left: Vec<_> =
        folder::named_after_us("/dev/shm").into_iter().filter(|name| !before.contains(name)).collect();
    assert!(left.is_empty(), "left in /dev/shm: {left:?}");
    matrix::print_summary();
    let failed = failed.into_inner().unwrap();
    println!("test result: {} passed; {} failed: {failed:?}", total - failed.len(), failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(case: &Case, failed: &Mutex<Vec<String>>) {
    let started = Instant::now();
    let good = catch_unwind(AssertUnwindSafe(|| (case.check)())).is_ok();
    let verdict = if good { "ok" } else { "FAILED" };
    println!("test {} ... {verdict} ({:.1} s)", case.name, seconds(started.elapsed()));
    if !good {
        failed.lock().unwrap().push(case.name.clone());
    }
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}
