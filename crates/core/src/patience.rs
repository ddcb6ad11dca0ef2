//! Patience: how often a wait looks before it yields its processor.
//!
//! Looking is right while the peer runs on another processor: its message is there within a microsecond. It is wrong when the
//! peer needs this very processor to run at all, which is so only where the job has more ranks than processors. There nobody
//! can tell the two apart beforehand, so a wait learns from the last ones: a long look that is rewarded earns trust, one in vain after which somebody else ran costs some, and without trust
//! only every so often a wait tries a long look again, in case the crowd has gone.

/// Looks before a yield where every rank has a processor, which others may want all the same.
const ALONE: u32 = 2048;
/// Looks before the first yield, with trust.
const MOST: u32 = 128;
/// Looks before the first yield, without.
const LEAST: u32 = 1;
/// Without trust a wait looks long once in so many.
const TRY_EVERY: u32 = 32;
const TRUST_MAX: u32 = 16;
/// Half of it is enough to look long.
const TRUST_ENOUGH: u32 = TRUST_MAX / 2;
/// What a reward is worth; a look in vain costs one.
const REWARD: u32 = 2;

/// What one endpoint has learnt from its waits.
#[derive(Debug)]
pub(crate) struct Patience {
    /// Looks to make with trust.
    most: u32,
    trust: u32,
    waits: u32,
}

impl Patience {
    /// Nothing is known yet but whether there are more ranks than processors.
    pub fn new(crowd: bool) -> Patience {
        Patience { most: if crowd { MOST } else { ALONE }, trust: TRUST_MAX, waits: 0 }
    }

    /// Looking does not help, as where time moves only when everybody waits.
    pub fn none() -> Patience {
        Patience { most: MOST, trust: 0, waits: 0 }
    }

    /// Looks to make at the beginning of a wait.
    #[inline(always)]
    pub fn begin(&mut self) -> u32 {
        if self.trust >= TRUST_ENOUGH { self.most } else { self.begin_without_trust() }
    }

    #[cold]
    fn begin_without_trust(&mut self) -> u32 {
        self.waits = self.waits.wrapping_add(1);
        if self.waits % TRY_EVERY == 0 { MOST } else { LEAST }
    }

    /// What was waited for came before the first yield of a wait that began with so many looks.
    #[inline(always)]
    pub fn rewarded(&mut self, looks: u32) {
        if looks >= MOST && self.trust < TRUST_MAX {
            self.trust = (self.trust + REWARD).clamp(TRUST_ENOUGH, TRUST_MAX);
        }
    }

    /// Looking was in vain, and then somebody else ran, or nobody wanted to; `first` if it was the wait's first yield.
    /// Says how many looks to make before the next.
    pub fn yielded(&mut self, first: bool, others_ran: bool) -> u32 {
        if !others_ran || self.most == ALONE {
            return self.most;
        }
        if first {
            self.trust = self.trust.saturating_sub(1);
        }
        LEAST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distrustful() -> Patience {
        let mut patience = Patience::new(true);
        (0..TRUST_MAX).for_each(|_| _ = patience.yielded(true, true));
        patience
    }

    #[test]
    fn a_crowd_ends_trust_and_one_long_yield_does_not() {
        let mut patience = Patience::new(true);
        assert_eq!(patience.yielded(true, true), LEAST);
        (0..100).for_each(|_| _ = patience.yielded(false, true));
        assert_eq!(patience.begin(), MOST);
        assert_eq!(distrustful().begin(), LEAST);
    }

    #[test]
    fn without_a_crowd_nobody_loses_patience() {
        let mut patience = Patience::new(false);
        (0..100).for_each(|_| assert_eq!(patience.yielded(true, true), ALONE));
        assert_eq!(patience.begin(), ALONE);
    }

    #[test]
    fn whoever_has_the_processor_alone_looks_long() {
        let mut patience = distrustful();
        assert_eq!(patience.yielded(true, false), MOST);
    }

    #[test]
    fn without_trust_a_wait_tries_again_and_keeps_what_works() {
        let mut patience = distrustful();
        let long = (1..).find(|_| patience.begin() == MOST);
        assert_eq!(long, Some(TRY_EVERY));
        patience.rewarded(MOST);
        assert_eq!(patience.begin(), MOST);
        patience.yielded(true, true);
        assert_eq!(patience.begin(), LEAST, "it was luck");
    }

    #[test]
    fn luck_with_a_short_look_changes_nothing() {
        let mut patience = distrustful();
        patience.rewarded(LEAST);
        assert_eq!(patience.begin(), LEAST);
    }
}
