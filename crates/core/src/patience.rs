//! Patience: how often a wait looks before it yields its processor.
//!
//! Looking is right while the peer runs on another processor: its message is there within a microsecond. It is wrong when somebody
//! needs this very processor to run at all, which is so only where the job has more ranks than processors. There the last yield
//! tells: if somebody else ran, the next wait looks once and yields; if nobody wanted to, it has the processor to itself.

use std::time::{Duration, Instant};

/// Looks before a yield where every rank has a processor, which others may want all the same.
const ALONE: u32 = 2048;
/// Looks for one message before others have their turn, there.
const EXPECTING: u32 = 4 * ALONE;
/// Looks before a yield in a crowd, where nobody else wanted to run.
const MOST: u32 = 128;
/// Looks before a yield where somebody did.
const LEAST: u32 = 1;

/// A yield that takes longer than this let somebody else run: alone it takes a quarter of it, with one other nearly twice it.
const BUSY_YIELD: Duration = Duration::from_micros(1);

/// Yields in a row of who waits for one peer, with a look at what that has sent after each and at nothing else.
const YIELDS_IN_A_ROW: u32 = 6;

/// Yields before a sleep, however long they take.
const YIELDS_MIN: u32 = 32;

/// What one endpoint has learnt from its waits.
#[derive(Debug)]
pub(crate) struct Patience {
    /// Looks to make while nobody else wants to run.
    most: u32,
    /// Looks to make now.
    looks: u32,
    /// Looks in vain since the last yield, of somebody who looks in a loop of its own.
    in_vain: u32,
}

impl Patience {
    /// Nothing is known yet but whether there are more ranks than processors.
    pub fn new(crowd: bool) -> Patience {
        match crowd {
            true => Patience { most: MOST, looks: LEAST, in_vain: 0 },
            false => Patience { most: ALONE, looks: ALONE, in_vain: 0 },
        }
    }

    /// Looking does not help, as where time moves only when everybody waits.
    pub fn none() -> Patience {
        Patience { most: LEAST, looks: LEAST, in_vain: 0 }
    }

    /// Whether every rank has a processor.
    pub fn is_alone(&self) -> bool {
        self.most == ALONE
    }

    /// Looks to make before the next yield.
    #[inline(always)]
    pub fn looks(&self) -> u32 {
        self.looks
    }

    /// Looks to make at the one place where what is expected arrives: they take less time than others.
    #[inline(always)]
    pub fn looks_at_one(&self) -> u32 {
        if self.is_alone() { EXPECTING } else { self.looks }
    }

    /// Yields for who waits for one peer to make, with a look at what that has sent after each, before it looks after everybody else: some where
    /// others want to run, for then most looks are in vain.
    #[inline(always)]
    pub fn yields(&self) -> u32 {
        if self.most == MOST && self.looks == LEAST { YIELDS_IN_A_ROW } else { 0 }
    }

    /// Somebody who looks in a loop of its own has looked in vain. Says whether it is time to yield.
    pub fn is_spent(&mut self) -> bool {
        self.in_vain = (self.in_vain + 1) % self.looks;
        self.in_vain == 0 && self.most > LEAST
    }

    /// Looking was in vain, and then the processor was offered to others, at this moment. Says how often to look next.
    pub fn yielded_at(&mut self, then: Instant) -> u32 {
        self.yielded(then.elapsed() > BUSY_YIELD);
        self.looks
    }

    /// Looking was in vain, and then somebody else ran, or nobody wanted to.
    fn yielded(&mut self, others_ran: bool) {
        self.looks = if others_ran && self.most != ALONE { LEAST } else { self.most };
    }
}

/// How long a wait has found nothing.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    since: Option<Instant>,
    yields: u32,
}

impl Idle {
    /// Something came.
    #[inline]
    pub fn end(&mut self) {
        self.since = None;
    }

    /// For how long nothing has come, as far as anybody has noted.
    pub fn so_far(&self, now: Instant) -> Duration {
        self.since.map_or(Duration::ZERO, |since| now - since)
    }

    /// For how long nothing has come, if it is enough to sleep; otherwise the processor is to be offered to others once more. Where many
    /// want to run a single offer may take longer than that, and who sleeps at once would have looked only once.
    pub fn is_enough(&mut self, now: Instant, yield_for: Duration) -> Option<Duration> {
        let since = *self.since.get_or_insert_with(|| {
            self.yields = 0;
            now
        });
        let idle = now - since;
        if idle >= yield_for && self.yields >= YIELDS_MIN {
            return Some(idle);
        }
        self.yields += 1;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_crowd_nobody_loses_patience() {
        let mut patience = Patience::new(false);
        patience.yielded(true);
        assert_eq!(patience.looks(), ALONE);
    }

    #[test]
    fn who_was_kept_from_looking_does_not_sleep_at_once() {
        let (mut idle, start, long) = (Idle::default(), Instant::now(), Duration::from_millis(2));
        assert_eq!(idle.is_enough(start, long), None);
        for _ in 1..YIELDS_MIN {
            assert_eq!(idle.is_enough(start + 5 * long, long), None, "others ran for long");
        }
        assert_eq!(idle.is_enough(start + 6 * long, long), Some(6 * long));
        idle.end();
        assert_eq!(idle.is_enough(start + 7 * long, long), None);
    }

    #[test]
    fn who_looks_in_a_loop_yields_as_often_as_who_waits() {
        let mut patience = Patience::new(true);
        assert!(patience.is_spent() && patience.is_spent(), "it is not known yet whether others want to run");
        patience.yielded(false);
        assert_eq!((1..).find(|_| patience.is_spent()), Some(MOST));
        assert_eq!((1..).find(|_| patience.is_spent()), Some(MOST));
        patience.yielded(true);
        assert!(patience.is_spent());
        assert!(!Patience::none().is_spent(), "where time moves only when everybody waits");
    }

    #[test]
    fn in_a_crowd_the_last_yield_tells() {
        let mut patience = Patience::new(true);
        assert_eq!((patience.looks(), patience.yields()), (LEAST, YIELDS_IN_A_ROW));
        patience.yielded(false);
        assert_eq!((patience.looks(), patience.yields()), (MOST, 0));
        patience.yielded(true);
        assert_eq!((patience.looks(), patience.yields()), (LEAST, YIELDS_IN_A_ROW));
        assert_eq!(
            (Patience::none().yields(), Patience::new(false).yields()),
            (0, 0),
            "who is not in a crowd"
        );
    }
}
