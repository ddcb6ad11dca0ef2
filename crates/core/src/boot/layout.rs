//! Which rank lives on which host.
//!
//! Ranks are laid out in runs: so many consecutive ranks on this host, then so many on that one. A thousand ranks in
//! blocks are a few runs, and PMI's process mapping says the same in its own notation.

use super::frame::{FrameError, Reader, Writer};

/// Consecutive ranks on one host.
///
/// ```
/// use barewire_core::boot::{Layout, Run};
/// let layout = Layout::new([(0, 2), (0, 1), (1, 4)]);
/// assert_eq!(layout.runs(), [Run { host: 0, ranks: 3 }, Run { host: 1, ranks: 4 }]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The host's index.
    pub host: u32,
    /// How many ranks, at least one.
    pub ranks: u32,
}

/// The host of every rank of a job.
///
/// ```
/// use barewire_core::boot::Layout;
/// let layout = Layout::new([(0, 2), (1, 2), (0, 1)]);
/// assert_eq!(layout.size(), 5);
/// assert_eq!(layout.host_of(3), Some(1));
/// assert_eq!(layout.ranks_on(0).collect::<Vec<_>>(), [0, 1, 4]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Layout {
    runs: Vec<Run>,
}

impl Layout {
    /// A layout of `(host, ranks)` runs; neighbouring runs on one host become one.
    ///
    /// ```
    /// # use barewire_core::boot::Layout;
    /// assert_eq!(Layout::new([(0, 1), (0, 2), (1, 0)]), Layout::single(3));
    /// ```
    pub fn new(runs: impl IntoIterator<Item = (u32, u32)>) -> Self {
        let mut layout = Self::default();
        runs.into_iter().for_each(|(host, ranks)| layout.push(host, ranks));
        layout
    }

    /// All ranks on one host.
    ///
    /// ```
    /// # use barewire_core::boot::Layout;
    /// let layout = Layout::single(4);
    /// assert!((0..4).all(|rank| layout.host_of(rank) == Some(0)));
    /// ```
    pub fn single(ranks: u32) -> Self {
        Self::new([(0, ranks)])
    }

    /// Puts the next `ranks` ranks on `host`.
    fn push(&mut self, host: u32, ranks: u32) {
        match self.runs.last_mut() {
            _ if ranks == 0 => {}
            Some(last) if last.host == host => last.ranks = last.ranks.saturating_add(ranks),
            _ => self.runs.push(Run { host, ranks }),
        }
    }

    /// The runs, in rank order.
    ///
    /// ```
    /// # use barewire_core::boot::Layout;
    /// let round_robin = Layout::new([0, 1, 0, 1].map(|host| (host, 1)));
    /// assert_eq!(round_robin.runs().len(), 4);
    /// assert_eq!(Layout::new([0, 0, 1, 1].map(|host| (host, 1))).runs().len(), 2);
    /// ```
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// How many ranks there are.
    ///
    /// ```
    /// # use barewire_core::boot::Layout;
    /// assert_eq!(Layout::new([(0, 64), (1, 64), (2, 5)]).size(), 133);
    /// ```
    pub fn size(&self) -> u32 {
        self.runs.iter().fold(0, |sum, run| sum.saturating_add(run.ranks))
    }

    /// The host of `rank`.
    ///
    /// ```
    /// # use barewire_core::boot::Layout;
    /// let layout = Layout::new([(4, 2), (7, 1)]);
    /// assert_eq!([0, 1, 2, 3].map(|rank| layout.host_of(rank)), [Some(4), Some(4), Some(7), None]);
    /// ```
    pub fn host_of(&self, rank: u32) -> Option<u32> {
        let mut before = 0u32;
        self.runs.iter().find_map(|run| {
            before = before.saturating_add(run.ranks);
            (rank < before).then_some(run.host)
        })
    }

    /// The ranks on `host`, ascending.
    ///
    /// ```
    /// # use barewire_core::boot::Layout;
    /// let layout = Layout::new([(0, 1), (1, 2), (0, 2)]);
    /// assert!(layout.ranks_on(0).eq([0, 3, 4]));
    /// assert_eq!(layout.ranks_on(9).count(), 0);
    /// ```
    pub fn ranks_on(&self, host: u32) -> impl Iterator<Item = u32> + '_ {
        let mut before = 0u32;
        self.runs.iter().flat_map(move |run| {
            let first = before;
            before = before.saturating_add(run.ranks);
            let last = if run.host == host { before } else { first };
            first..last
        })
    }

    /// PMI's notation, `(vector,(first host, hosts, ranks a host),…)`.
    pub(super) fn to_pmi(&self) -> String {
        let mut blocks: Vec<(u32, u32, u32)> = Vec::new();
        for run in &self.runs {
            match blocks.last_mut() {
                Some((first, hosts, ranks))
                    if first.checked_add(*hosts) == Some(run.host) && *ranks == run.ranks =>
                {
                    *hosts += 1
                }
                _ => blocks.push((run.host, 1, run.ranks)),
            }
        }
        let blocks: String = blocks.iter().map(|(f, h, r)| format!(",({f},{h},{r})")).collect();
        format!("(vector{blocks})")
    }

    /// Reads PMI's notation for a job of `size` ranks; the blocks repeat until all ranks have a host.
    pub(super) fn from_pmi(text: &str, size: u32) -> Option<Self> {
        let inner = text.trim().strip_prefix("(vector")?.strip_suffix(')')?;
        let mut blocks = Vec::new();
        for block in inner.split('(').skip(1) {
            let block = block.trim_end_matches([',', ' ']).strip_suffix(')')?;
            let numbers: Vec<u32> = block.split(',').map(|n| n.trim().parse().ok()).collect::<Option<_>>()?;
            let &[first, hosts, ranks] = numbers.as_slice() else { return None };
            first.checked_add(hosts)?;
            if hosts > 0 && ranks > 0 {
                blocks.push((first, hosts, ranks));
            }
        }
        if blocks.is_empty() {
            return None;
        }
        let mut layout = Self::default();
        let mut left = size;
        while left > 0 {
            for &(first, hosts, ranks) in &blocks {
                for host in first..first + hosts {
                    let here = ranks.min(left);
                    layout.push(host, here);
                    left -= here;
                    if left == 0 {
                        return Some(layout);
                    }
                }
            }
        }
        Some(layout)
    }

    /// The layout as frame bodies of at most `runs_max` runs each, in order.
    pub(super) fn write(&self, runs_max: usize) -> impl Iterator<Item = Writer> + '_ {
        self.runs
            .chunks(runs_max)
            .map(|runs| Writer::new().list(runs, |writer, run| writer.u32(run.host).u32(run.ranks)))
    }

    /// Appends the runs of one such body.
    pub(super) fn read_more(&mut self, body: &[u8]) -> Result<(), FrameError> {
        let mut reader = Reader::new(body, "layout");
        let runs = reader.list(|r| Ok((r.u32()?, r.u32()?)))?;
        reader.finish()?;
        runs.into_iter().for_each(|(host, ranks)| self.push(host, ranks));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pmi_blocks_repeat_until_all_ranks_have_a_host() {
        let layout = Layout::from_pmi("(vector,(0,2,1))", 5).unwrap();
        assert_eq!((0..5).map(|r| layout.host_of(r).unwrap()).collect::<Vec<_>>(), [0, 1, 0, 1, 0]);
    }

    #[test]
    fn a_layout_survives_pmi_notation() {
        let layout = Layout::new([(0, 2), (1, 2), (2, 1)]);
        assert_eq!(layout.to_pmi(), "(vector,(0,2,2),(2,1,1))");
        assert_eq!(Layout::from_pmi("(vector,(0,2,2),(2,1,1))", 5), Some(layout));
    }

    #[test]
    fn nonsense_in_pmi_notation_is_refused() {
        for text in
            ["", "(vector)", "(vector,(0,0,0))", "(vector,(1,2))", "vector", "(vector,(4294967295,9,1))"]
        {
            assert!(Layout::from_pmi(text, 3).is_none(), "{text}");
        }
        let with_an_empty_block = Layout::from_pmi("(vector,(0,4294967295,0),(1,1,1))", 3).unwrap();
        assert_eq!(with_an_empty_block, Layout::new([(1, 3)]));
    }

    #[test]
    fn the_empty_layout_has_no_hosts() {
        let layout = Layout::single(0);
        assert_eq!((layout.size(), layout.runs(), layout.host_of(0)), (0, &[][..], None));
    }
}
