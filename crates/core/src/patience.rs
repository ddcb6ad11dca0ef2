//! Patience: how often a wait looks before it yields its processor.
//!
//! Looking is right while the peer runs on another processor: its message is there within a microsecond. It is wrong when somebody
//! needs this very processor to run at all, which is so only where the job has more ranks than processors. There the last yield
//! tells: if somebody else ran, the next wait looks once and yields; if nobody wanted to, it has the processor to itself.

/// Looks before a yield where every rank has a processor, which others may want all the same.
const ALONE: u32 = 2048;
/// Looks before a yield in a crowd, where nobody else wanted to run.
const MOST: u32 = 128;
/// Looks before a yield where somebody did.
const LEAST: u32 = 1;

/// What one endpoint has learnt from its waits.
#[derive(Debug)]
pub(crate) struct Patience {
    /// Looks to make while nobody else wants to run.
    most: u32,
    /// Looks to make now.
    looks: u32,
}

impl Patience {
    /// Nothing is known yet but whether there are more ranks than processors.
    pub fn new(crowd: bool) -> Patience {
        match crowd {
            true => Patience { most: MOST, looks: LEAST },
            false => Patience { most: ALONE, looks: ALONE },
        }
    }

    /// Looking does not help, as where time moves only when everybody waits.
    pub fn none() -> Patience {
        Patience { most: LEAST, looks: LEAST }
    }

    /// Looks to make before the next yield.
    #[inline(always)]
    pub fn looks(&self) -> u32 {
        self.looks
    }

    /// Looking was in vain, and then somebody else ran, or nobody wanted to.
    pub fn yielded(&mut self, others_ran: bool) {
        self.looks = if others_ran && self.most != ALONE { LEAST } else { self.most };
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
    fn in_a_crowd_the_last_yield_tells() {
        let mut patience = Patience::new(true);
        assert_eq!(patience.looks(), LEAST);
        patience.yielded(false);
        assert_eq!(patience.looks(), MOST);
        patience.yielded(true);
        assert_eq!(patience.looks(), LEAST);
    }
}
