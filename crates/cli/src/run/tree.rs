//! The tree of agents: with many hosts the launcher starts a few agents, and these start the others.
//!
//! Hosts are cut into as many groups as one process starts; the first of each group looks after the rest of it, in the
//! same way. An agent's loss takes those behind it along, so who is behind whom is known here.

/// Cuts `hosts` into at most `fan_out` groups of nearly the same length.
pub fn groups<T>(hosts: &[T], fan_out: usize) -> impl Iterator<Item = &[T]> {
    let count = fan_out.clamp(1, hosts.len().max(1));
    (0..count).map(move |at| &hosts[at * hosts.len() / count..(at + 1) * hosts.len() / count])
}

/// Who is started by whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// The host whose agent starts this one's; none if the launcher does.
    parent: Vec<Option<usize>>,
}

impl Tree {
    /// A tree of `hosts` hosts, of which these are reached through agents that start at most `fan_out` others.
    pub fn new(hosts: usize, remote: &[usize], fan_out: usize) -> Self {
        let mut tree = Self { parent: vec![None; hosts] };
        tree.grow(remote, fan_out.max(1), None);
        tree
    }

    fn grow(&mut self, hosts: &[usize], fan_out: usize, parent: Option<usize>) {
        for group in groups(hosts, fan_out) {
            if let Some((&first, rest)) = group.split_first() {
                self.parent[first] = parent;
                self.grow(rest, fan_out, Some(first));
            }
        }
    }

    /// Whether the launcher itself starts this host's agent.
    pub fn is_direct(&self, host: usize) -> bool {
        self.parent[host].is_none()
    }

    /// The host through whose agent this one is reached; itself if directly.
    pub fn first_hop(&self, host: usize) -> usize {
        self.path(host).last().unwrap_or(host)
    }

    /// Whether `host` is reached through `other`, or is it.
    pub fn is_behind(&self, host: usize, other: usize) -> bool {
        host < self.parent.len() && self.path(host).any(|at| at == other)
    }

    /// The hosts reached through `host`, without it.
    pub fn behind(&self, host: usize) -> Vec<usize> {
        (0..self.parent.len()).filter(|&other| other != host && self.is_behind(other, host)).collect()
    }

    /// How many agents are one behind the other, at most.
    pub fn depth(&self) -> usize {
        (0..self.parent.len()).map(|host| self.path(host).count()).max().unwrap_or(0)
    }

    /// The host and those it is reached through, nearest first.
    fn path(&self, host: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(host), |&at| self.parent[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_hosts_are_reached_directly() {
        let tree = Tree::new(4, &[1, 2, 3], 8);
        assert!((0..4).all(|host| tree.is_direct(host)) && tree.depth() == 1);
    }

    #[test]
    fn nobody_starts_more_than_the_fan_out_and_everybody_is_started_once() {
        for (hosts, fan_out) in [(1, 1), (7, 2), (40, 3), (1000, 32), (1000, 2), (65, 64), (5, 1)] {
            let remote: Vec<_> = (0..hosts).collect();
            let tree = Tree::new(hosts, &remote, fan_out);
            let direct = remote.iter().filter(|&&host| tree.is_direct(host)).count();
            assert!(direct <= fan_out && direct > 0);
            for host in 0..hosts {
                let children = tree.parent.iter().filter(|&&parent| parent == Some(host)).count();
                assert!(children <= fan_out, "{hosts} by {fan_out}: {host} starts {children}");
                assert!(tree.is_direct(tree.first_hop(host)) && tree.is_behind(host, tree.first_hop(host)));
            }
            let behind: usize =
                (0..hosts).filter(|&host| tree.is_direct(host)).map(|host| 1 + tree.behind(host).len()).sum();
            assert_eq!(behind, hosts);
        }
        assert_eq!(Tree::new(1000, &(0..1000).collect::<Vec<_>>(), 32).depth(), 2);
    }
}
