//! Counters: plain numbers beside the peer they belong to, so that counting costs an addition.
//!
//! ```
//! use barewire_core::{Config, Endpoint, Ignore, Port, job::Job};
//! let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
//! endpoint.send(endpoint.me(), Port(1), 0, b"hello").unwrap();
//! endpoint.progress(&mut Ignore, usize::MAX);
//! let stats = endpoint.stats();
//! assert_eq!((stats.sent, stats.sent_bytes, stats.received, stats.received_bytes), (1, 5, 1, 5));
//! ```

/// What passed between this endpoint and one peer, or all of them.
///
/// ```
/// let mut all = barewire_core::Stats::default();
/// all += barewire_core::Stats::default();
/// assert_eq!(all.sent, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Packets sent.
    pub sent: u64,
    /// Payload bytes sent.
    pub sent_bytes: u64,
    /// Packets received.
    pub received: u64,
    /// Payload bytes received.
    pub received_bytes: u64,
    /// Times a send found no room.
    pub stalled: u64,
    /// Replies and control packets that had to wait in the outbox.
    pub deferred: u64,
    /// Packets that a handler kept beyond its run, each copied once.
    pub held: u64,
    /// Times a sleeping peer was woken.
    pub rung: u64,
    /// Packets sent again by the `reliable` filter.
    pub retransmitted: u64,
    /// Bytes put or got with one copy between mapped memory.
    pub direct_bytes: u64,
}

impl Stats {
    #[inline(always)]
    pub(crate) fn count_sent(&mut self, bytes: usize) {
        self.sent += 1;
        self.sent_bytes += bytes as u64;
    }

    #[inline(always)]
    pub(crate) fn count_received(&mut self, bytes: usize) {
        self.count_all_received(1, bytes as u64);
    }

    #[inline(always)]
    pub(crate) fn count_all_received(&mut self, packets: u64, bytes: u64) {
        self.received += packets;
        self.received_bytes += bytes;
    }
}

impl std::ops::AddAssign for Stats {
    fn add_assign(&mut self, other: Stats) {
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.received += other.received;
        self.received_bytes += other.received_bytes;
        self.stalled += other.stalled;
        self.deferred += other.deferred;
        self.held += other.held;
        self.rung += other.rung;
        self.retransmitted += other.retransmitted;
        self.direct_bytes += other.direct_bytes;
    }
}

impl std::fmt::Display for Stats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "sent {} ({} B), received {} ({} B), stalled {}, deferred {}, held {}, rung {}, retransmitted {}, direct {} B",
            self.sent,
            self.sent_bytes,
            self.received,
            self.received_bytes,
            self.stalled,
            self.deferred,
            self.held,
            self.rung,
            self.retransmitted,
            self.direct_bytes
        )
    }
}
