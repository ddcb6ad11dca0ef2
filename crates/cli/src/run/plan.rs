//! The plan: which rank runs which program on which host. Everything that can be refused is refused here.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use anyhow::{Context, bail};
use barewire_core::boot::{Layout, environment};

use super::hosts::{self, Host};
use super::options::{MapBy, RunOptions};
use crate::wire::Program;

/// What is to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The hosts that have ranks.
    pub hosts: Vec<Host>,
    /// Which rank is on which of them.
    pub layout: Layout,
    /// The programs, each with its number of ranks, in rank order.
    pub programs: Vec<(Program, u32)>,
}

impl Plan {
    /// Plans a job of one or more programs; the first one's options hold for the job.
    pub fn new(parts: &[RunOptions]) -> anyhow::Result<Self> {
        let job = parts.first().context("there is no program to start")?;
        let hosts = match (&job.hosts, &job.hostfile) {
            (Some(list), _) => hosts::parse_list(list)?,
            (None, Some(path)) => hosts::read_file(path)?,
            (None, None) => vec![Host { name: hosts::own_name(), slots: processors() }],
        };
        let counts = counts(parts, &hosts)?;
        let size = counts.iter().try_fold(0u32, |sum, count| sum.checked_add(*count));
        let size = size.filter(|size| *size <= RANKS_MAX).with_context(|| too_many(&counts))?;
        if let Some(rank) = job.stdin.0.filter(|rank| *rank >= size) {
            bail!("--stdin {rank}: there is no rank {rank} among {size}");
        }
        let (hosts, layout) = deal(hosts, size, job);
        let programs = parts.iter().zip(counts).map(|(part, count)| Ok((program(part, job)?, count)));
        Ok(Self { hosts, layout, programs: programs.collect::<anyhow::Result<_>>()? })
    }

    /// The number of ranks.
    pub fn size(&self) -> u32 {
        self.layout.size()
    }

    /// The program of each rank.
    pub fn program_of(&self, rank: u32) -> u32 {
        let mut before = 0;
        let ends = self.programs.iter().map(|(_, count)| {
            before += count;
            before
        });
        (0..).zip(ends).find(|(_, end)| rank < *end).map_or(0, |(index, _)| index)
    }
}

/// The ranks of each program.
fn counts(parts: &[RunOptions], hosts: &[Host]) -> anyhow::Result<Vec<u32>> {
    let job = &parts[0];
    let slots = hosts.iter().fold(0u32, |sum, host| sum.saturating_add(job.per_host.unwrap_or(host.slots)));
    let count = |part: &RunOptions| match part.ranks {
        Some(0) => bail!(
            "-n 0: a job has at least one rank; write -n 1 or more, or leave -n out for one rank a slot"
        ),
        Some(count) => Ok(count),
        None if parts.len() == 1 => Ok(slots),
        None => Ok(1),
    };
    if job.per_host == Some(0) {
        bail!("--per-host 0: a host has at least one rank");
    }
    parts.iter().map(count).collect()
}

fn too_many(counts: &[u32]) -> String {
    let sum: u64 = counts.iter().map(|count| u64::from(*count)).sum();
    format!("-n {sum}: more than {RANKS_MAX} ranks are not possible; was another number meant?")
}

/// Deals ranks out to hosts, and drops the hosts that get none.
fn deal(hosts: Vec<Host>, size: u32, job: &RunOptions) -> (Vec<Host>, Layout) {
    let mut runs = Vec::new();
    let mut left = size;
    while left > 0 {
        for (index, host) in (0u32..).zip(&hosts) {
            let turn = match job.map_by {
                MapBy::Node => 1,
                MapBy::Slot => job.per_host.unwrap_or(host.slots),
            };
            let here = turn.min(left);
            runs.push((index, here));
            left -= here;
            if left == 0 {
                break;
            }
        }
    }
    let used = runs.iter().map(|(index, _)| index + 1).max().unwrap_or(0);
    let hosts = hosts.into_iter().take(used as usize).collect();
    (hosts, Layout::new(runs))
}

fn program(part: &RunOptions, job: &RunOptions) -> anyhow::Result<Program> {
    let here = std::env::current_dir().context("the current directory")?;
    let directory = here.join(part.wdir.as_deref().or(job.wdir.as_deref()).unwrap_or(Path::new(".")));
    let directory: std::path::PathBuf = directory.components().collect();
    let base = match (&job.genvlist, job.genvnone) {
        (Some(names), _) => Some(inherited(|name| names.iter().any(|known| known.as_str() == name))),
        (None, true) => Some(Vec::new()),
        (None, false) => None,
    };
    let mut set = Vec::new();
    for (name, option) in [
        (environment::INTERFACE, job.interface.clone()),
        (environment::PORT_RANGE, job.port_range.map(|range| range.to_string())),
    ] {
        set.extend(option.map(|value| (name.as_bytes().to_vec(), value.into_bytes())));
    }
    for pair in job.genv.chunks(2).chain(part.env.chunks(2)) {
        if let [name, value] = pair {
            set.push((name.clone().into_bytes(), value.clone().into_bytes()));
        }
    }
    let exports = if std::ptr::eq(part, job) { vec![] } else { job.export.clone() };
    for export in exports.iter().chain(&part.export) {
        set.extend(exported(export)?);
    }
    for name in part.export.iter().filter(|name| !job.quiet && exported(name).is_ok_and(|set| set.is_none()))
    {
        eprintln!("barewire: -x {name}: it is not set here, so the ranks do not get it");
    }
    let words = part.program.iter().map(|word| word.as_bytes().to_vec()).collect();
    Ok(Program { words, directory: OsString::from(directory).into_vec(), base, set })
}

/// `NAME=VALUE`, or the value a variable has here.
fn exported(text: &str) -> anyhow::Result<Option<(Vec<u8>, Vec<u8>)>> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(OsString::from(value))),
        None => (text, std::env::var_os(text)),
    };
    if name.is_empty() {
        bail!("-x {text}: write -x NAME or -x NAME=VALUE");
    }
    Ok(value.map(|value| (name.as_bytes().to_vec(), value.into_vec())))
}

/// This process's variables that `wanted` names.
pub fn inherited(wanted: impl Fn(&str) -> bool) -> Vec<(Vec<u8>, Vec<u8>)> {
    let variables = std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(&wanted));
    variables.map(|(name, value)| (name.into_vec(), value.into_vec())).collect()
}

fn processors() -> u32 {
    std::thread::available_parallelism().ok().and_then(|count| u32::try_from(count.get()).ok()).unwrap_or(1)
}

/// More ranks than any machine has processors; a slip of the finger has more.
const RANKS_MAX: u32 = 1 << 24;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: RunOptions,
    }

    fn plan(line: &str) -> anyhow::Result<Plan> {
        let part = |part: &str| {
            let words = ["run"].into_iter().chain(part.split_whitespace());
            Line::try_parse_from(words).unwrap().options
        };
        Plan::new(&line.split(" : ").map(part).collect::<Vec<_>>())
    }

    fn runs(plan: &Plan) -> Vec<(u32, u32)> {
        plan.layout.runs().iter().map(|run| (run.host, run.ranks)).collect()
    }

    #[test]
    fn slots_are_filled_and_then_filled_again() {
        let plan = plan("-n 7 --hosts a:2,b:3 prog").unwrap();
        assert_eq!(runs(&plan), [(0, 2), (1, 3), (0, 2)]);
    }

    #[test]
    fn without_a_number_every_slot_has_a_rank() {
        assert_eq!(plan("--hosts a:2,b:3 prog").unwrap().size(), 5);
        assert_eq!(plan("--hosts a:2,b:3 --per-host 1 prog").unwrap().size(), 2);
    }

    #[test]
    fn by_node_goes_round() {
        assert_eq!(runs(&plan("-n 3 --map-by node --hosts a:2,b:2 prog").unwrap()), [(0, 1), (1, 1), (0, 1)]);
    }

    #[test]
    fn hosts_without_ranks_are_not_used() {
        assert_eq!(plan("-n 1 --hosts a,b,c prog").unwrap().hosts.len(), 1);
    }

    #[test]
    fn several_programs_share_one_job() {
        let plan = plan("-n 1 --hosts a:8 server : -n 3 worker").unwrap();
        assert_eq!((0..4).map(|rank| plan.program_of(rank)).collect::<Vec<_>>(), [0, 1, 1, 1]);
    }

    #[test]
    fn impossible_numbers_are_refused() {
        for (line, words) in [
            ("-n 0 prog", "at least one rank"),
            ("-n 4000000000 prog", "more than"),
            ("-n 4000000000 a : -n 4000000000 b", "8000000000"),
            ("-n 2 --per-host 0 prog", "at least one"),
            ("-n 2 --stdin 2 prog", "no rank 2"),
        ] {
            let error = plan(line).unwrap_err().to_string();
            assert!(error.contains(words), "{line}: {error}");
        }
    }
}
