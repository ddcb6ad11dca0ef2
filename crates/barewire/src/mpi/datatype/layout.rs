//! Layout programs: where the bytes of a datatype are, as few long runs as possible.
//!
//! A datatype says *what* is where; for moving bytes only *where* matters. The program is a small tree of loops and lists whose
//! leaves are contiguous runs. Neighbouring runs are joined when it is built, so most types end as one run or one strided loop.
//! Every node knows its packed size, so a walk can start at any byte of the packed message without state from the last walk:
//! a division for each loop, a binary search for each list, nothing at all for one run. That is how a long message is packed
//! piece by piece into wire memory.

use std::sync::Arc;

/// Receives the runs of a walk, in the order of the packed message.
pub(super) trait Visit {
    /// `len` contiguous bytes at `offset`.
    fn run(&mut self, offset: i64, len: i64);

    /// `count` runs of `len` bytes, the first at `offset`, each `stride` bytes after the one before.
    #[inline]
    fn strided(&mut self, offset: i64, stride: i64, count: i64, len: i64) {
        for i in 0..count {
            self.run(offset + i * stride, len);
        }
    }
}

impl<F: FnMut(i64, i64)> Visit for F {
    #[inline]
    fn run(&mut self, offset: i64, len: i64) {
        self(offset, len);
    }
}

/// The program of one datatype: a node, where it starts, and how many bytes it packs to.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    offset: i64,
    node: Node,
}

/// Offsets inside a node count from the node's own start.
#[derive(Debug, Clone)]
enum Node {
    Run { len: i64 },
    Strided { count: i64, stride: i64, len: i64 },
    Loop { count: i64, stride: i64, body: Arc<Node>, body_size: i64 },
    Runs(Arc<[Run]>),
    List { parts: Arc<[Part]>, size: i64 },
}

#[derive(Debug, Clone, Copy)]
struct Run {
    offset: i64,
    /// Packed bytes before this run.
    start: i64,
    len: i64,
}

#[derive(Debug)]
struct Part {
    offset: i64,
    /// Packed bytes before this part.
    start: i64,
    node: Node,
}

impl Layout {
    /// No bytes at all.
    pub(super) fn empty() -> Layout {
        Layout::run(0, 0)
    }

    /// `len` contiguous bytes at `offset`.
    pub(super) fn run(offset: i64, len: i64) -> Layout {
        Layout { offset, node: Node::Run { len } }
    }

    /// `count` copies of `body`, `stride` bytes apart.
    pub(super) fn repeat(count: i64, stride: i64, body: &Layout) -> Layout {
        if count == 0 || body.size() == 0 {
            return Layout::empty();
        }
        if count == 1 {
            return body.clone();
        }
        let node = match &body.node {
            Node::Run { len } if *len == stride => Node::Run { len: len * count },
            Node::Run { len } => Node::Strided { count, stride, len: *len },
            Node::Strided { count: inner, stride: step, len } if inner.checked_mul(*step) == Some(stride) => {
                Node::Strided { count: inner * count, stride: *step, len: *len }
            }
            Node::Loop { count: inner, stride: step, body, body_size }
                if inner.checked_mul(*step) == Some(stride) =>
            {
                Node::Loop { count: inner * count, stride: *step, body: body.clone(), body_size: *body_size }
            }
            other => Node::Loop { count, stride, body: Arc::new(other.clone()), body_size: other.size() },
        };
        Layout { offset: body.offset, node }
    }

    /// The parts one after another, each moved by its displacement.
    pub(super) fn sequence(parts: impl IntoIterator<Item = (i64, Layout)>) -> Layout {
        let mut joined: Vec<Layout> = Vec::new();
        for (displacement, mut part) in parts {
            if part.size() == 0 {
                continue;
            }
            part.offset += displacement;
            if let (Some(Layout { offset, node: Node::Run { len } }), Node::Run { len: more }) =
                (joined.last_mut(), &part.node)
            {
                if *offset + *len == part.offset {
                    *len += more;
                    continue;
                }
            }
            joined.push(part);
        }
        match joined.len() {
            0 => Layout::empty(),
            1 => joined.swap_remove(0),
            _ => Layout::strided(&joined)
                .or_else(|| Layout::runs(&joined))
                .unwrap_or_else(|| Layout::list(joined)),
        }
    }

    fn strided(parts: &[Layout]) -> Option<Layout> {
        let runs: Vec<(i64, i64)> = parts.iter().map(Layout::as_run).collect::<Option<_>>()?;
        let (offset, len) = runs[0];
        let stride = runs[1].0 - offset;
        let even = runs.windows(2).all(|pair| pair[1].0 - pair[0].0 == stride && pair[1].1 == len);
        even.then_some(Layout { offset, node: Node::Strided { count: runs.len() as i64, stride, len } })
    }

    fn runs(parts: &[Layout]) -> Option<Layout> {
        let mut start = 0;
        let base = parts[0].offset;
        let runs = parts.iter().map(|part| {
            let (offset, len) = part.as_run()?;
            let run = Run { offset: offset - base, start, len };
            start += len;
            Some(run)
        });
        Some(Layout { offset: base, node: Node::Runs(runs.collect::<Option<_>>()?) })
    }

    fn list(parts: Vec<Layout>) -> Layout {
        let base = parts[0].offset;
        let mut size = 0;
        let parts = parts.into_iter().map(|part| {
            let start = size;
            size += part.size();
            Part { offset: part.offset - base, start, node: part.node }
        });
        let parts = parts.collect();
        Layout { offset: base, node: Node::List { parts, size } }
    }

    /// Packed bytes.
    pub(super) fn size(&self) -> i64 {
        self.node.size()
    }

    /// Offset and length, where all bytes lie in one run.
    #[inline]
    pub(super) fn as_run(&self) -> Option<(i64, i64)> {
        match self.node {
            Node::Run { len } => Some((self.offset, len)),
            _ => None,
        }
    }

    /// Visits the runs of `count` copies, `extent` bytes apart, that hold the packed bytes `from..from + take`.
    ///
    /// What lies beyond the end of the message is left out.
    #[inline]
    pub(super) fn walk(&self, count: i64, extent: i64, from: i64, take: i64, visit: &mut impl Visit) {
        if let (Node::Run { len }, true) = (&self.node, self.size() == extent) {
            let take = take.min(len.saturating_mul(count) - from);
            if take > 0 {
                visit.run(self.offset + from, take);
            }
            return;
        }
        self.node.walk_loop(count, extent, self.offset, &mut Window { from, take }, visit);
    }
}

/// The part of the packed message still to be visited: bytes to skip, then bytes to take.
struct Window {
    from: i64,
    take: i64,
}

impl Node {
    fn size(&self) -> i64 {
        match self {
            Node::Run { len } => *len,
            Node::Strided { count, len, .. } => count * len,
            Node::Loop { count, body_size, .. } => count * body_size,
            Node::Runs(runs) => runs.last().map_or(0, |run| run.start + run.len),
            Node::List { size, .. } => *size,
        }
    }

    /// Visits what the window shows of this node, and moves the window past it.
    fn walk(&self, base: i64, window: &mut Window, visit: &mut impl Visit) {
        match self {
            Node::Run { len } => walk_run(*len, base, window, visit),
            Node::Strided { count, stride, len } => walk_strided(*count, *stride, *len, base, window, visit),
            Node::Loop { count, stride, body, .. } => body.walk_loop(*count, *stride, base, window, visit),
            Node::Runs(runs) => {
                let first = runs.partition_point(|run| run.start + run.len <= window.from);
                window.from -= runs.get(first).map_or_else(|| self.size(), |run| run.start);
                for run in &runs[first..] {
                    if window.take == 0 {
                        return;
                    }
                    walk_run(run.len, base + run.offset, window, visit);
                }
            }
            Node::List { parts, size } => {
                let first = parts.partition_point(|part| part.start + part.node.size() <= window.from);
                window.from -= parts.get(first).map_or(*size, |part| part.start);
                for part in &parts[first..] {
                    if window.take == 0 {
                        return;
                    }
                    part.node.walk(base + part.offset, window, visit);
                }
            }
        }
    }

    /// Visits `count` copies of this node, `stride` apart.
    fn walk_loop(&self, count: i64, stride: i64, base: i64, window: &mut Window, visit: &mut impl Visit) {
        if let Node::Run { len } = self {
            return walk_strided(count, stride, *len, base, window, visit);
        }
        let size = self.size();
        if size == 0 {
            return;
        }
        let mut next = (window.from / size).min(count);
        window.from -= next * size;
        if next < count && window.from > 0 {
            self.walk(base + next * stride, window, visit);
            next += 1;
        }
        let whole = (window.take / size).min(count - next);
        for i in next..next + whole {
            self.walk_whole(base + i * stride, visit);
        }
        window.take -= whole * size;
        next += whole;
        if next < count && window.take > 0 {
            self.walk(base + next * stride, window, visit);
        }
    }

    /// Visits all of this node: no window to look through.
    fn walk_whole(&self, base: i64, visit: &mut impl Visit) {
        match self {
            Node::Run { len } => visit.run(base, *len),
            Node::Strided { count, stride, len } => visit.strided(base, *stride, *count, *len),
            Node::Loop { count, stride, body, .. } => {
                (0..*count).for_each(|i| body.walk_whole(base + i * stride, visit));
            }
            Node::Runs(runs) => runs.iter().for_each(|run| visit.run(base + run.offset, run.len)),
            Node::List { parts, .. } => {
                parts.iter().for_each(|part| part.node.walk_whole(base + part.offset, visit));
            }
        }
    }
}

#[inline]
fn walk_run(len: i64, base: i64, window: &mut Window, visit: &mut impl Visit) {
    let take = (len - window.from).min(window.take);
    if take > 0 {
        visit.run(base + window.from, take);
        window.take -= take;
        window.from = 0;
    } else {
        window.from -= len.min(window.from);
    }
}

fn walk_strided(count: i64, stride: i64, len: i64, base: i64, window: &mut Window, visit: &mut impl Visit) {
    if len == 0 {
        return;
    }
    let mut next = (window.from / len).min(count);
    window.from -= next * len;
    if next < count && window.from > 0 {
        walk_run(len, base + next * stride, window, visit);
        next += 1;
    }
    let whole = (window.take / len).min(count - next);
    if whole > 0 {
        visit.strided(base + next * stride, stride, whole, len);
        window.take -= whole * len;
        next += whole;
    }
    if next < count && window.take > 0 {
        walk_run(len, base + next * stride, window, visit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(layout: &Layout, count: i64, extent: i64, from: i64, take: i64) -> Vec<(i64, i64)> {
        let mut runs = Vec::new();
        layout.walk(count, extent, from, take, &mut |offset, len| runs.push((offset, len)));
        runs
    }

    #[test]
    fn neighbours_become_one_run() {
        let int = Layout::run(0, 4);
        assert_eq!(Layout::repeat(5, 4, &int).as_run(), Some((0, 20)));
        let pair = Layout::sequence([(0, int.clone()), (4, Layout::run(0, 8))]);
        assert_eq!(pair.as_run(), Some((0, 12)));
    }

    #[test]
    fn evenly_spaced_runs_become_a_strided_loop() {
        let int = Layout::run(0, 4);
        let even = Layout::sequence([(2, int.clone()), (12, int.clone()), (22, int.clone())]);
        assert!(matches!(even.node, Node::Strided { count: 3, stride: 10, len: 4 }));
        let nested = Layout::repeat(2, 30, &even);
        assert!(matches!(nested.node, Node::Strided { count: 6, stride: 10, len: 4 }));
    }

    #[test]
    fn a_walk_may_start_and_end_inside_a_run() {
        let strided = Layout::repeat(3, 10, &Layout::run(0, 4));
        assert_eq!(runs(&strided, 1, 24, 0, 99), [(0, 4), (10, 4), (20, 4)]);
        assert_eq!(runs(&strided, 1, 24, 3, 6), [(3, 1), (10, 4), (20, 1)]);
        assert_eq!(runs(&strided, 2, 100, 11, 2), [(23, 1), (100, 1)]);
        assert_eq!(runs(&strided, 2, 100, 24, 5), []);
    }

    #[test]
    fn a_contiguous_message_is_one_run_from_any_byte() {
        let int = Layout::run(0, 4);
        assert_eq!(runs(&int, 1 << 40, 4, 1 << 41, 7), [(1 << 41, 7)]);
        assert_eq!(runs(&int, 2, 4, 6, 100), [(6, 2)]);
        assert_eq!(runs(&int, 2, 4, 8, 100), []);
    }
}
