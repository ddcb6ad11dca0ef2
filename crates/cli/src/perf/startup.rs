//! Start-up: how long a parallel program takes from the command to its end, and how much memory all of it takes meanwhile,
//! beside the launchers of others. The program only joins its job and meets the other ranks.
//!
//! Rounds alternate between the launchers. Memory is the proportional share (PSS) of the launcher and everything under
//! it once all ranks have met and before the first one ends.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use barewire_core::boot::message::Request;
use barewire_core::boot::{Hub, Layout, Outbox};
use barewire_core::job::{JobId, JobKey};

use super::figures::Estimate;
use super::keeper;
use super::peers::mpiexec;
use crate::proc;

/// Time and memory of a start, beside other launchers
#[derive(Debug, Clone, clap::Args)]
pub struct StartupOptions {
    /// Numbers of ranks
    #[arg(long, short = 'n', value_delimiter = ',', default_value = "2,16,64,256")]
    ranks: Vec<u32>,
    /// Ranks of the boot that is simulated, without processes; 0 for none
    #[arg(long, default_value_t = 4096)]
    simulated: u32,
    /// Leave other launchers out
    #[arg(long)]
    alone: bool,
}

/// Measures and prints the table.
pub fn run(rounds: u32, json: bool, options: &StartupOptions) -> Result<()> {
    let launchers = launchers(options.alone)?;
    if !json {
        println!(
            "start, meet and end; median of {rounds} alternating rounds, and memory while all ranks are up"
        );
        println!(
            "{:<11} {:>6} {:>10} {:>23} {:>11} {:>13}",
            "launcher", "ranks", "time", "95 %", "memory", "a rank"
        );
    }
    for &ranks in &options.ranks {
        let mut times = vec![Vec::new(); launchers.len()];
        for _ in 0..rounds {
            for (launcher, times) in launchers.iter().zip(&mut times) {
                times.push(launcher.time(ranks)?.as_secs_f64() * 1e3);
            }
        }
        for (launcher, times) in launchers.iter().zip(&times) {
            let memory = launcher.memory(ranks)?;
            show(launcher.name, ranks, &Estimate::of(times), Some(memory), json);
        }
    }
    if options.simulated > 0 {
        simulate(options.simulated, rounds, json)?;
    }
    Ok(())
}

fn show(name: &str, ranks: u32, time: &Estimate, memory: Option<u64>, json: bool) {
    let bytes = memory.map_or_else(|| "null".to_owned(), |bytes| bytes.to_string());
    if json {
        println!(
            "{{\"bench\":\"startup\",\"launcher\":\"{name}\",\"ranks\":{ranks},\"ms\":{:.2},\"low\":{:.2},\"high\":{:.2},\"pss_bytes\":{bytes}}}",
            time.median, time.low, time.high
        );
        return;
    }
    let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let kib = |bytes: u64| format!("{:.0} KiB", bytes as f64 / 1024.0 / f64::from(ranks));
    println!(
        "{name:<11} {ranks:>6} {:>7.1} ms   [{:>7.1}, {:>7.1}] ms {:>11} {:>13}",
        time.median,
        time.low,
        time.high,
        memory.map_or_else(String::new, mib),
        memory.map_or_else(String::new, kib)
    );
}

/// A way to start ranks: the words before `-n N program`.
struct Launcher {
    name: &'static str,
    words: Vec<PathBuf>,
    me: PathBuf,
}

fn launchers(alone: bool) -> Result<Vec<Launcher>> {
    let me = std::env::current_exe().context("finding the barewire command")?;
    let mut launchers =
        vec![Launcher { name: "barewire", words: vec![me.clone(), "run".into()], me: me.clone() }];
    for (name, folder) in [("MPICH", "mpich"), ("Open MPI", "openmpi")].into_iter().filter(|_| !alone) {
        let Some(mpiexec) = mpiexec(folder) else {
            eprintln!("{name} is not installed: `barewire perf peers --install`");
            continue;
        };
        let mut words = vec![mpiexec];
        if folder == "openmpi" {
            let more = ["--allow-run-as-root", "--map-by", ":oversubscribe", "--bind-to", "none"];
            words.extend(more.map(PathBuf::from));
        }
        launchers.push(Launcher { name, words, me: me.clone() });
    }
    Ok(launchers)
}

impl Launcher {
    fn command(&self, ranks: u32, program: &[&str]) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).args(["-n", &ranks.to_string()]).arg(&self.me).args(program);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        keeper::ends_with_us(&mut command);
        command
    }

    /// From the command to its end.
    fn time(&self, ranks: u32) -> Result<Duration> {
        let begun = Instant::now();
        let status = self.command(ranks, &["hello", "--exchange"]).status();
        let status = status.with_context(|| format!("starting {}", self.name))?;
        if !status.success() {
            bail!("{} could not start {ranks} ranks: {status}", self.name);
        }
        Ok(begun.elapsed())
    }

    /// The memory of the launcher and all processes under it, once all ranks have met.
    fn memory(&self, ranks: u32) -> Result<u64> {
        let mut command = self.command(ranks, &["hello", "--exchange", "--linger-ms", "600000"]);
        command.stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("starting {}", self.name))?;
        let measured = greetings(&mut child, ranks).map(|()| {
            let all = std::iter::once(child.id()).chain(proc::descendants(child.id()));
            all.filter_map(proportional).sum()
        });
        // Asked first, so that it takes its ranks along.
        let _ = proc::send(child.id(), rustix::process::Signal::TERM);
        let _ = child.wait();
        measured
    }
}

/// Waits until every rank has said hello, which it does after it has met the others.
fn greetings(child: &mut Child, ranks: u32) -> Result<()> {
    use std::io::{BufRead, BufReader};
    let out = child.stdout.take().context("the launcher's output")?;
    let heard = BufReader::new(out).lines().take(ranks as usize).filter(Result::is_ok).count();
    if heard < ranks as usize {
        bail!("only {heard} of {ranks} ranks came up");
    }
    Ok(())
}

/// A process's share of memory, in bytes.
fn proportional(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let kib = text.lines().find_map(|line| line.strip_prefix("Pss:"))?.trim().strip_suffix("kB")?;
    Some(kib.trim().parse::<u64>().ok()? << 10)
}

/// The launcher's directory with `ranks` ranks that join, publish, ask both neighbours' cards and meet: all of a boot
/// but the processes and sockets.
fn simulate(ranks: u32, rounds: u32, json: bool) -> Result<()> {
    let (mut times, mut bytes) = (Vec::new(), 0);
    for _ in 0..rounds {
        let begun = Instant::now();
        bytes = boot(ranks)?;
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    show("simulated", ranks, &Estimate::of(&times), None, json);
    if !json {
        println!(
            "{:<11} {ranks:>6} ranks get {} bytes each from the directory",
            "",
            bytes / u64::from(ranks)
        );
    }
    Ok(())
}

/// Boots a job without processes; returns the bytes its directory sends.
fn boot(ranks: u32) -> Result<u64> {
    let (id, key) = (JobId::random()?, JobKey::random()?);
    let names = (0..ranks.div_ceil(64)).map(|host| format!("host{host}")).collect();
    let hosts = Layout::new((0..ranks.div_ceil(64)).map(|host| (host, (ranks - host * 64).min(64))));
    let mut hub = Hub::new(id, key, hosts, names);
    let (mut out, mut bytes) = (Outbox::new(), 0);
    let mut say = |rank: u32, request: &Request| -> Result<()> {
        hub.receive(rank, &request.encode(), &mut out)?;
        bytes += out.drain(..).map(|(_, answer)| answer.len() as u64).sum::<u64>();
        Ok(())
    };
    let hello = Request::Hello { version: barewire_core::boot::message::VERSION, nonce: 1, pid: 1 };
    for rank in 0..ranks {
        say(rank, &hello)?;
        say(rank, &Request::Publish(vec![0; 200]))?;
        say(rank, &Request::Card((rank + 1) % ranks))?;
        say(rank, &Request::Card((rank + ranks - 1) % ranks))?;
    }
    (0..ranks).try_for_each(|rank| say(rank, &Request::Barrier))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_rank_gets_at_its_start_does_not_grow_with_their_number() {
        let each = |ranks: u32| boot(ranks).unwrap() / u64::from(ranks);
        assert!(each(4096) < each(64) + 1024, "{} bytes a rank of 4096, {} of 64", each(4096), each(64));
    }
}
