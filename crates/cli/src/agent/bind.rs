//! Binding: which processors a rank may run on.

use std::collections::BTreeMap;
use std::fs;

use rustix::thread::sched_getaffinity;

/// How ranks are bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Bind {
    /// The system decides
    #[value(aliases = ["no", "off"])]
    None,
    /// One hardware thread each
    #[value(aliases = ["thread", "pu"])]
    Hwthread,
    /// One core each, with all its hardware threads
    #[value(alias = "cores")]
    Core,
    /// One memory domain each
    Numa,
    /// One package each
    #[value(alias = "package")]
    Socket,
}

/// The processors this host lets us use, and how they belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    processors: Vec<Processor>,
}

/// One hardware thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Processor {
    /// The kernel's number.
    pub number: usize,
    /// The core it belongs to, unique within the package.
    pub core: usize,
    /// The package.
    pub package: usize,
    /// The memory domain.
    pub numa: usize,
}

impl Topology {
    /// The processors in this process's affinity mask.
    pub fn here() -> Self {
        let allowed = sched_getaffinity(None).ok();
        let numa = numa_domains();
        let number = |path: String| fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
        let describe = |cpu: usize| {
            let topology = format!("/sys/devices/system/cpu/cpu{cpu}/topology");
            Processor {
                number: cpu,
                core: number(format!("{topology}/core_id")).unwrap_or(cpu),
                package: number(format!("{topology}/physical_package_id")).unwrap_or(0),
                numa: numa.get(&cpu).copied().unwrap_or(0),
            }
        };
        let cpus = (0..rustix::thread::CpuSet::MAX_CPU)
            .filter(|&cpu| allowed.as_ref().is_some_and(|set| set.is_set(cpu)));
        Self { processors: cpus.map(describe).collect() }
    }

    /// How many hardware threads there are.
    pub fn processors(&self) -> &[Processor] {
        &self.processors
    }

    /// The processors of the `local_rank`-th rank; more ranks than places go round again.
    pub fn place(&self, bind: Bind, local_rank: usize) -> Option<Vec<usize>> {
        let places = self.places(bind)?;
        places.get(local_rank.checked_rem(places.len())?).cloned()
    }

    /// One line a rank: a box for every processor, an x where the rank may run.
    pub fn picture(&self, bind: Bind, ranks: &[u32]) -> String {
        let numbers: Vec<_> = self.processors.iter().map(|p| p.number.to_string()).collect();
        let width = numbers.iter().map(String::len).max().unwrap_or(1);
        let mut text = format!("{:>12}  {}\n", "processor", columns(&numbers, width));
        for (local, rank) in ranks.iter().enumerate() {
            let place = self.place(bind, local);
            let mark = |p: &Processor| match &place {
                Some(cpus) if !cpus.contains(&p.number) => ".",
                _ => "x",
            };
            let marks: Vec<_> = self.processors.iter().map(|p| mark(p).to_owned()).collect();
            text.push_str(&format!("{:>12}  {}\n", format!("rank {rank}"), columns(&marks, width)));
        }
        text
    }

    fn places(&self, bind: Bind) -> Option<Vec<Vec<usize>>> {
        let key = |p: &Processor| match bind {
            Bind::None => None,
            Bind::Hwthread => Some((p.package, p.core, p.number)),
            Bind::Core => Some((p.package, p.core, 0)),
            Bind::Numa => Some((p.numa, 0, 0)),
            Bind::Socket => Some((p.package, 0, 0)),
        };
        let mut places: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for processor in &self.processors {
            places.entry(key(processor)?).or_default().push(processor.number);
        }
        Some(places.into_values().collect())
    }
}

fn columns(cells: &[String], width: usize) -> String {
    cells.iter().map(|cell| format!("{cell:>width$}")).collect::<Vec<_>>().join(" ")
}

/// The memory domain of each processor.
fn numa_domains() -> BTreeMap<usize, usize> {
    let mut domains = BTreeMap::new();
    for entry in fs::read_dir("/sys/devices/system/node").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(domain) = name.to_str().and_then(|name| name.strip_prefix("node")?.parse().ok()) else {
            continue;
        };
        let list = fs::read_to_string(entry.path().join("cpulist")).unwrap_or_default();
        domains.extend(parse_list(list.trim()).into_iter().map(|cpu| (cpu, domain)));
    }
    domains
}

/// The kernel's lists: `0-3,8`.
fn parse_list(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?)
    };
    text.split(',').filter_map(range).flatten().take(1 << 16).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two packages of two cores of two threads.
    fn eight() -> Topology {
        let processor = |n: usize| Processor { number: n, core: n / 2 % 2, package: n / 4, numa: n / 4 };
        Topology { processors: (0..8).map(processor).collect() }
    }

    #[test]
    fn ranks_go_round_the_places() {
        let at = |bind, rank| eight().place(bind, rank);
        assert_eq!(at(Bind::None, 0), None);
        assert_eq!(at(Bind::Hwthread, 9), Some(vec![1]));
        assert_eq!(at(Bind::Core, 1), Some(vec![2, 3]));
        assert_eq!(at(Bind::Core, 4), Some(vec![0, 1]));
        assert_eq!(at(Bind::Socket, 1), Some(vec![4, 5, 6, 7]));
        assert_eq!(Topology { processors: vec![] }.place(Bind::Core, 0), None);
    }

    #[test]
    fn the_picture_shows_each_rank_on_a_line() {
        let picture = eight().picture(Bind::Core, &[4, 5]);
        let lines: Vec<_> = picture.lines().map(str::trim).collect();
        assert_eq!(
            lines,
            ["processor  0 1 2 3 4 5 6 7", "rank 4  x x . . . . . .", "rank 5  . . x x . . . ."]
        );
    }

    #[test]
    fn this_host_has_processors() {
        assert!(!Topology::here().processors().is_empty());
        assert_eq!(parse_list("0-2,5"), [0, 1, 2, 5]);
    }
}
