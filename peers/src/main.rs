//! Rust peers: `barewire-peers LIBRARY FOLDER` does the work of `barewire perf compare` over one library.
//!
//! Commands are lines in FOLDER/command, "number verb bytes count window warm-up"; answers go to FOLDER/answer. Two sides do the same
//! work: two processes over iceoryx2 or zenoh; two threads over crossbeam's channel, which is the floor of what Rust offers.

mod iceoryx;
mod processes;
mod threads;
mod zenohs;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// One side of a connection.
pub trait Side {
    /// Sends so many bytes; more follow at once unless this one is `last`.
    fn send(&mut self, bytes: usize, last: bool) -> Result<()>;
    /// Waits for a message.
    fn receive(&mut self) -> Result<()>;
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["version", library] => println!("{}", version(library)),
        ["crossbeam", folder] => threads::run(Path::new(folder))?,
        ["iceoryx2", folder] => processes::both(folder, iceoryx::open)?,
        ["iceoryx2", folder, "second"] => processes::second(folder, iceoryx::open)?,
        ["zenoh", folder] => processes::both(folder, zenohs::open)?,
        ["zenoh", folder, "second"] => processes::second(folder, zenohs::open)?,
        _ => bail!("usage: barewire-peers LIBRARY FOLDER, or version LIBRARY"),
    }
    Ok(())
}

/// The versions that were compiled in, from the manifest's lock.
fn version(library: &str) -> String {
    let lock = include_str!("../Cargo.lock");
    let name = if library == "crossbeam" { "crossbeam-channel" } else { library };
    let mut lines = lock.lines();
    lines.find(|line| *line == format!("name = \"{name}\""));
    lines.next().unwrap_or_default().trim_start_matches("version = ").trim_matches('"').to_owned()
}

/// Side r on the r-th processor of those it may use, as everybody under comparison. Threads started from here on stay there too.
pub fn pin(rank: usize) {
    let cpus = core_affinity::get_core_ids().unwrap_or_default();
    if std::env::var_os("BENCH_PIN").is_some() && !cpus.is_empty() {
        core_affinity::set_for_current(cpus[rank % cpus.len()]);
    }
}

/// Serves commands until one says quit.
pub fn serve(side: &mut dyn Side, rank: usize, folder: &Path) -> Result<()> {
    let mut seen = 0;
    loop {
        let text = std::fs::read_to_string(folder.join("command")).unwrap_or_default();
        let words: Vec<&str> = text.split_whitespace().collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
        if !folder.exists() {
            return Ok(());
        }
        let Some(command) = number(0).filter(|&command| command > seen) else {
            std::thread::sleep(Duration::from_micros(500));
            continue;
        };
        seen = command;
        let verb = words.get(1).copied().unwrap_or_default();
        if verb == "quit" {
            return Ok(());
        }
        let (bytes, count) = (number(2).unwrap_or(0) as usize, number(3).unwrap_or(1));
        let (window, warm_up) = (number(4).unwrap_or(1).max(1), number(5).unwrap_or(1));
        latency(side, rank, 1, 1)?;
        once(side, rank, verb, bytes, warm_up.max(1), window)?;
        latency(side, rank, 1, 1)?;
        let each = once(side, rank, verb, bytes, count, window)?;
        if rank == 0 {
            let temporary = folder.join("answer.new");
            std::fs::write(&temporary, format!("{command} {each:.3}\n"))?;
            std::fs::rename(temporary, folder.join("answer"))?;
        }
    }
}

fn once(side: &mut dyn Side, rank: usize, verb: &str, bytes: usize, count: u64, window: u64) -> Result<f64> {
    match verb {
        "latency" => latency(side, rank, bytes, count),
        "rate" => rate(side, rank, bytes, count, window),
        other => bail!("there is no measurement called {other}"),
    }
}

fn latency(side: &mut dyn Side, rank: usize, bytes: usize, count: u64) -> Result<f64> {
    let start = Instant::now();
    for _ in 0..count {
        if rank == 0 {
            side.send(bytes, true)?;
        }
        side.receive()?;
        if rank != 0 {
            side.send(bytes, true)?;
        }
    }
    Ok(start.elapsed().as_nanos() as f64 / count as f64 / 2.0)
}

fn rate(side: &mut dyn Side, rank: usize, bytes: usize, count: u64, window: u64) -> Result<f64> {
    let windows = count.div_ceil(window);
    let start = Instant::now();
    for _ in 0..windows {
        for at in 1..=window {
            if rank == 0 { side.send(bytes, at == window)? } else { side.receive()? }
        }
        if rank == 0 { side.receive()? } else { side.send(1, true)? }
    }
    Ok(start.elapsed().as_nanos() as f64 / (windows * window) as f64)
}
