//! Who is near whom: which processors share a core, a cache, a memory node.
//!
//! The kernel describes each processor's groups as lists of members, so a group is named by its lowest member. What it
//! does not describe is taken as far apart: two processors never look nearer than they are.

use super::list::parse_size;
use super::{Cpu, parse_cpu_list, read};

/// Where every processor that is on lies.
///
/// ```
/// use barewire_sys::cpu::{Topology, allowed_cpus};
/// let machine = Topology::read();
/// let here = machine.place(allowed_cpus()[0]);
/// println!("{} cores, {} nodes, here: {here:?}", machine.cores(), machine.nodes());
/// assert!(machine.cores() >= 1 && machine.nodes() >= 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// In the order of their numbers.
    places: Vec<Place>,
    caches: Caches,
}

/// Where one processor lies; a group's name is its lowest member.
///
/// ```
/// let machine = barewire_sys::cpu::Topology::read();
/// for place in machine.places() {
///     assert!(place.core <= place.cpu);
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The processor.
    pub cpu: Cpu,
    /// Those that are threads of one core.
    pub core: Cpu,
    /// Those that share its second-level cache.
    pub l2: Cpu,
    /// Those that share its last shared cache, the third level or, where there is none, the second.
    pub l3: Cpu,
    /// Those in the same package.
    pub package: Cpu,
    /// The memory node that is nearest.
    pub node: u32,
}

/// The nearest thing that two processors share; the nearer the smaller.
///
/// ```
/// use barewire_sys::cpu::Share;
/// assert!(Share::Core < Share::L3 && Share::L3 < Share::Machine);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Share {
    /// They are the same processor.
    Cpu,
    /// A core.
    Core,
    /// A second-level cache.
    L2,
    /// A third-level cache.
    L3,
    /// A memory node.
    Node,
    /// A package.
    Package,
    /// Only the machine.
    Machine,
}

/// Sizes of one processor's caches, of the first processor where they differ.
///
/// ```
/// let caches = barewire_sys::cpu::Topology::read().caches();
/// assert!(caches.line_bytes.is_power_of_two());
/// assert!(caches.l1d_bytes > 0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caches {
    /// What moves between caches at once.
    pub line_bytes: usize,
    /// First level, data.
    pub l1d_bytes: usize,
    /// Second level.
    pub l2_bytes: usize,
    /// Third level, all of it; 0 where there is none.
    pub l3_bytes: usize,
}

impl Topology {
    /// Reads it from `/sys`; a few file reads a processor, so keep it.
    ///
    /// ```
    /// use barewire_sys::cpu::Topology;
    /// let machine = Topology::read();
    /// assert!(!machine.places().is_empty());
    /// assert_eq!(machine, Topology::read(), "it stays as it is, unless somebody turns processors off");
    /// ```
    pub fn read() -> Self {
        Self::read_with(&read)
    }

    /// Every processor that is on, in the order of their numbers; never empty.
    ///
    /// ```
    /// let machine = barewire_sys::cpu::Topology::read();
    /// let cpus: Vec<u32> = machine.places().iter().map(|place| place.cpu.0).collect();
    /// assert!(cpus.is_sorted_by(|a, b| a < b), "each is there once");
    /// ```
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Where a processor lies, if it is on.
    ///
    /// ```
    /// use barewire_sys::cpu::{Cpu, Topology};
    /// let machine = Topology::read();
    /// let last = *machine.places().last().unwrap();
    /// assert_eq!(machine.place(last.cpu), Some(last));
    /// assert_eq!(machine.place(Cpu(last.cpu.0 + 1)), None);
    /// ```
    pub fn place(&self, cpu: Cpu) -> Option<Place> {
        self.places.binary_search_by_key(&cpu, |place| place.cpu).ok().map(|at| self.places[at])
    }

    /// The nearest thing that two processors share; the machine if either is unknown.
    ///
    /// ```
    /// use barewire_sys::cpu::{Cpu, Share, Topology};
    /// let machine = Topology::read();
    /// let first = machine.places()[0].cpu;
    /// assert_eq!(machine.share(first, first), Share::Cpu);
    /// assert_eq!(machine.share(first, Cpu(u32::MAX)), Share::Machine, "there is no such processor");
    /// ```
    pub fn share(&self, a: Cpu, b: Cpu) -> Share {
        let (Some(a), Some(b)) = (self.place(a), self.place(b)) else {
            return Share::Machine;
        };
        if a.cpu == b.cpu {
            Share::Cpu
        } else if a.core == b.core {
            Share::Core
        } else if a.l2 == b.l2 {
            Share::L2
        } else if a.l3 == b.l3 {
            Share::L3
        } else if a.node == b.node {
            Share::Node
        } else if a.package == b.package {
            Share::Package
        } else {
            Share::Machine
        }
    }

    /// How many cores are on.
    ///
    /// ```
    /// let machine = barewire_sys::cpu::Topology::read();
    /// let (cores, threads) = (machine.cores(), machine.places().len());
    /// assert!((1..=threads).contains(&cores), "{} threads run on each core", threads / cores);
    /// ```
    pub fn cores(&self) -> usize {
        count(self.places.iter().map(|place| place.core))
    }

    /// How many memory nodes have processors that are on.
    ///
    /// ```
    /// let machine = barewire_sys::cpu::Topology::read();
    /// let first = machine.places()[0].node;
    /// let is_one = machine.places().iter().all(|place| place.node == first);
    /// assert_eq!(machine.nodes() == 1, is_one);
    /// ```
    pub fn nodes(&self) -> usize {
        count(self.places.iter().map(|place| place.node))
    }

    /// Cache sizes; usual ones where the machine does not say.
    ///
    /// ```
    /// let caches = barewire_sys::cpu::Topology::read().caches();
    /// assert!(caches.l1d_bytes / caches.line_bytes >= 64, "a first-level cache has room for many lines");
    /// assert!(caches.l2_bytes >= caches.l1d_bytes);
    /// ```
    pub fn caches(&self) -> Caches {
        self.caches
    }

    fn read_with(read: &dyn Fn(&str) -> Option<String>) -> Self {
        let online = list(read, "/sys/devices/system/cpu/online").unwrap_or_else(super::allowed_cpus);
        let nodes = nodes_of(read);
        let places = online.iter().map(|&cpu| Place::read(cpu, &nodes, read)).collect();
        Self { places, caches: Caches::read(online[0], read) }
    }
}

impl Place {
    fn read(cpu: Cpu, nodes: &[(u32, Vec<Cpu>)], read: &dyn Fn(&str) -> Option<String>) -> Self {
        let first = |file: &str| {
            let members = list(read, &format!("/sys/devices/system/cpu/cpu{}/{file}", cpu.0))?;
            // A group that leaves out the processor whose group it is says nothing about it.
            members.contains(&cpu).then(|| members[0])
        };
        let core = first("topology/core_cpus_list")
            .or_else(|| first("topology/thread_siblings_list"))
            .unwrap_or(cpu);
        let package = first("topology/package_cpus_list").or_else(|| first("topology/core_siblings_list"));
        let level = |wanted| {
            cache_indices(cpu, read)
                .find(|cache| cache.level == wanted && cache.data)
                .and_then(|cache| first(&format!("cache/index{}/shared_cpu_list", cache.index)))
        };
        let l2 = level(2).unwrap_or(core);
        let l3 = level(3).unwrap_or(l2);
        let node =
            nodes.iter().find(|(_, cpus)| cpus.binary_search(&cpu).is_ok()).map_or(0, |(node, _)| *node);
        Self { cpu, core, l2, l3, package: package.unwrap_or(l3), node }
    }
}

impl Caches {
    /// What most processors have, for machines that do not say.
    const USUAL: Self = Self { line_bytes: 64, l1d_bytes: 32 << 10, l2_bytes: 1 << 20, l3_bytes: 16 << 20 };

    fn read(cpu: Cpu, read: &dyn Fn(&str) -> Option<String>) -> Self {
        let known: Vec<CacheIndex> = cache_indices(cpu, read).filter(|cache| cache.data).collect();
        let Some(first) = known.first() else {
            return Self::USUAL;
        };
        let level = |wanted| known.iter().find(|cache| cache.level == wanted).and_then(|cache| cache.bytes);
        Self {
            line_bytes: first.line_bytes.unwrap_or(Self::USUAL.line_bytes),
            l1d_bytes: level(1).unwrap_or(Self::USUAL.l1d_bytes),
            l2_bytes: level(2).unwrap_or(Self::USUAL.l2_bytes),
            l3_bytes: level(3).unwrap_or(0),
        }
    }
}

/// One cache as `/sys` describes it.
struct CacheIndex {
    index: u32,
    level: u32,
    /// Not one for instructions only.
    data: bool,
    bytes: Option<usize>,
    line_bytes: Option<usize>,
}

fn cache_indices(cpu: Cpu, read: &dyn Fn(&str) -> Option<String>) -> impl Iterator<Item = CacheIndex> {
    (0..CACHES_MAX).map_while(move |index| {
        let file = |name| read(&format!("/sys/devices/system/cpu/cpu{}/cache/index{index}/{name}", cpu.0));
        Some(CacheIndex {
            index,
            level: file("level")?.trim().parse().ok()?,
            data: file("type").is_none_or(|kind| kind.trim() != "Instruction"),
            bytes: file("size").and_then(|text| parse_size(&text)).filter(|&bytes| bytes > 0),
            line_bytes: file("coherency_line_size")
                .and_then(|text| parse_size(&text))
                .filter(|bytes| bytes.is_power_of_two()),
        })
    })
}

/// The memory nodes and their processors.
fn nodes_of(read: &dyn Fn(&str) -> Option<String>) -> Vec<(u32, Vec<Cpu>)> {
    let online = list(read, "/sys/devices/system/node/online").unwrap_or_default();
    let cpus = |Cpu(node)| Some((node, list(read, &format!("/sys/devices/system/node/node{node}/cpulist"))?));
    online.into_iter().filter_map(cpus).collect()
}

/// A list file with something in it.
fn list(read: &dyn Fn(&str) -> Option<String>, path: &str) -> Option<Vec<Cpu>> {
    parse_cpu_list(&read(path)?).ok().filter(|members| !members.is_empty())
}

fn count<T: Ord>(names: impl Iterator<Item = T>) -> usize {
    let mut names: Vec<T> = names.collect();
    names.sort_unstable();
    names.dedup();
    names.len()
}

/// No processor describes so many.
const CACHES_MAX: u32 = 16;

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Two packages of two cores of two threads; a node and a third-level cache a package.
    fn eight() -> HashMap<String, String> {
        let mut files = HashMap::new();
        let mut put = |path: String, text: &str| {
            files.insert(format!("/sys/devices/system/{path}"), format!("{text}\n"))
        };
        put("cpu/online".into(), "0-7");
        put("node/online".into(), "0-1");
        put("node/node0/cpulist".into(), "0-1,4-5");
        put("node/node1/cpulist".into(), "2-3,6-7");
        for cpu in 0..8 {
            let core = format!("{},{}", cpu % 4, cpu % 4 + 4);
            let package = if cpu % 4 < 2 { "0-1,4-5" } else { "2-3,6-7" };
            put(format!("cpu/cpu{cpu}/topology/core_cpus_list"), &core);
            put(format!("cpu/cpu{cpu}/topology/package_cpus_list"), package);
            let caches = [
                (1, "Data", "48K", core.as_str()),
                (1, "Instruction", "32K", &core),
                (2, "Unified", "1280K", &core),
                (3, "Unified", "48M", package),
            ];
            for (index, (level, kind, size, shared)) in caches.into_iter().enumerate() {
                let at = format!("cpu/cpu{cpu}/cache/index{index}");
                put(format!("{at}/level"), &level.to_string());
                put(format!("{at}/type"), kind);
                put(format!("{at}/size"), size);
                put(format!("{at}/coherency_line_size"), "64");
                put(format!("{at}/shared_cpu_list"), shared);
            }
        }
        files
    }

    fn machine(files: &HashMap<String, String>) -> Topology {
        Topology::read_with(&|path| files.get(path).cloned())
    }

    #[test]
    fn neighbours_are_as_near_as_the_kernel_says() {
        let machine = machine(&eight());
        assert_eq!((machine.places().len(), machine.cores(), machine.nodes()), (8, 4, 2));
        let share = |a, b| machine.share(Cpu(a), Cpu(b));
        assert_eq!(share(3, 3), Share::Cpu);
        assert_eq!(share(0, 4), Share::Core);
        assert_eq!(share(0, 5), Share::L3);
        assert_eq!(share(1, 2), Share::Machine);
        assert_eq!(share(0, 99), Share::Machine);
        assert_eq!(
            machine.place(Cpu(7)).map(|place| (place.core, place.l3, place.node)),
            Some((Cpu(3), Cpu(2), 1))
        );
    }

    #[test]
    fn cores_may_share_a_second_level_cache_or_a_node_only() {
        let mut files = eight();
        let at = |cpu: u32, file: &str| format!("/sys/devices/system/cpu/cpu{cpu}/{file}");
        for cpu in [0, 1, 4, 5] {
            files.insert(at(cpu, "cache/index2/shared_cpu_list"), "0-1,4-5".into());
        }
        assert_eq!(machine(&files).share(Cpu(0), Cpu(1)), Share::L2);
        for cpu in [2, 3, 6, 7] {
            files.insert(at(cpu, "cache/index3/shared_cpu_list"), format!("{},{}", cpu % 4, cpu % 4 + 4));
        }
        assert_eq!(machine(&files).share(Cpu(2), Cpu(3)), Share::Node);
        files.insert("/sys/devices/system/node/node1/cpulist".into(), "3,7".into());
        assert_eq!(machine(&files).share(Cpu(2), Cpu(3)), Share::Package);
    }

    #[test]
    fn cache_sizes_are_of_data_caches() {
        let expected =
            Caches { line_bytes: 64, l1d_bytes: 48 << 10, l2_bytes: 1280 << 10, l3_bytes: 48 << 20 };
        assert_eq!(machine(&eight()).caches(), expected);
    }

    #[test]
    fn a_machine_that_says_nothing_has_usual_caches_and_no_neighbours() {
        let machine = machine(&HashMap::new());
        assert_eq!(machine.caches(), Caches::USUAL);
        assert_eq!(machine.nodes(), 1);
        assert_eq!(machine.cores(), machine.places().len());
    }

    #[test]
    fn nonsense_never_makes_processors_look_near() {
        let mut files = eight();
        files.insert("/sys/devices/system/cpu/cpu1/topology/core_cpus_list".into(), "0,4".into());
        files.insert("/sys/devices/system/cpu/cpu1/cache/index2/shared_cpu_list".into(), "zero".into());
        files.insert("/sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size".into(), "63".into());
        files.insert("/sys/devices/system/cpu/cpu0/cache/index2/size".into(), "0K".into());
        let machine = machine(&files);
        assert_eq!(machine.share(Cpu(0), Cpu(1)), Share::L3);
        assert_eq!(machine.caches().line_bytes, 64);
        assert_eq!(machine.caches().l2_bytes, Caches::USUAL.l2_bytes);
    }

    #[test]
    fn this_machine_has_every_allowed_processor() {
        let machine = Topology::read();
        for cpu in crate::cpu::allowed_cpus() {
            assert_eq!(machine.share(cpu, cpu), Share::Cpu);
        }
    }
}
