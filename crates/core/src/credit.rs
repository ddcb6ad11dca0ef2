//! Credits: a sender never sends what the receiver cannot hold.
//!
//! Each side counts bytes since the link opened: the sender what it sent, the receiver what it is done with. The receiver
//! tells its count from time to time, and the difference may not exceed the window. Counts only grow, so telling one
//! twice does no harm and one number says it all. Control packets are counted but never held up.

/// Bytes that one packet may charge at most: the receiver keeps this much of the window open if it can.
pub(crate) const CHARGE_MAX: u64 = (64 << 10) + 16;

/// A count that cannot be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Impossible;

/// The sender's account.
#[derive(Debug)]
pub(crate) struct SendCredit {
    window: u64,
    sent: u64,
    returned: u64,
}

impl SendCredit {
    pub fn new(window: u64) -> SendCredit {
        SendCredit { window, sent: 0, returned: 0 }
    }

    /// Bytes that may be sent now. One packet may always be on its way, whatever its size, so that no window is too small.
    #[inline]
    pub fn room(&self) -> u64 {
        match self.outstanding() {
            0 => self.window.max(CHARGE_MAX),
            outstanding => self.window.saturating_sub(outstanding),
        }
    }

    /// Bytes on their way or held by the receiver.
    #[inline]
    pub fn outstanding(&self) -> u64 {
        self.sent - self.returned
    }

    pub fn returned_so_far(&self) -> u64 {
        self.returned
    }

    pub fn window(&self) -> u64 {
        self.window
    }

    #[inline]
    pub fn spend(&mut self, bytes: u64) {
        self.sent += bytes;
    }

    /// The receiver says that it is done with this many bytes since the link opened.
    pub fn returned(&mut self, count: u64) -> Result<(), Impossible> {
        if !(self.returned..=self.sent).contains(&count) {
            return Err(Impossible);
        }
        self.returned = count;
        Ok(())
    }
}

/// The receiver's account.
#[derive(Debug)]
pub(crate) struct RecvCredit {
    window: u64,
    arrived: u64,
    done: u64,
    told: u64,
}

impl RecvCredit {
    pub fn new(window: u64) -> RecvCredit {
        RecvCredit { window, arrived: 0, done: 0, told: 0 }
    }

    #[inline]
    pub fn arrive(&mut self, bytes: u64) {
        self.arrived += bytes;
    }

    /// Whether far more is held than the sender can have had credit for: a few windows, because what is control is never held up.
    pub fn is_overdrawn(&self) -> bool {
        self.arrived - self.done > self.window.max(CHARGE_MAX).saturating_mul(4)
    }

    /// Bytes that arrived earlier are not held any more.
    #[inline]
    pub fn finish(&mut self, bytes: u64) {
        self.done = (self.done + bytes).min(self.arrived);
    }

    /// The count to tell the sender now, if it is worth a packet: a quarter of the window has gathered.
    #[inline]
    pub fn due(&self) -> Option<u64> {
        ((self.done - self.told) * 4 >= self.window && self.done > self.told).then_some(self.done)
    }

    /// The count to tell before we fall idle: anything that could let a waiting sender go on.
    #[inline]
    pub fn due_before_idle(&self) -> Option<u64> {
        let tight = self.arrived - self.told + CHARGE_MAX > self.window;
        if tight && self.done > self.told { Some(self.done) } else { self.due() }
    }

    /// The sender was told.
    pub fn told(&mut self, count: u64) {
        self.told = count;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_count_that_cannot_be_true_is_refused() {
        let mut credit = SendCredit::new(100);
        credit.spend(60);
        assert_eq!(credit.returned(61), Err(Impossible), "more than was sent");
        assert_eq!(credit.returned(50), Ok(()));
        assert_eq!(credit.returned(49), Err(Impossible), "counts only grow");
        assert_eq!(credit.outstanding(), 10);
    }

    #[test]
    fn who_sends_far_more_than_its_credit_is_found_out() {
        let mut credit = RecvCredit::new(1 << 20);
        (0..4).for_each(|_| credit.arrive(1 << 20));
        assert!(!credit.is_overdrawn());
        credit.arrive(1);
        assert!(credit.is_overdrawn());
        credit.finish(1);
        assert!(!credit.is_overdrawn());
    }

    #[test]
    fn a_large_window_is_returned_by_the_quarter() {
        let window = 1 << 20;
        let mut credit = RecvCredit::new(window);
        let mut told = 0;
        for _ in 0..1000 {
            credit.arrive(1024);
            credit.finish(1024);
            if let Some(count) = credit.due_before_idle() {
                credit.told(count);
                told += 1;
            }
        }
        assert_eq!(told, 1000 * 1024 / (window / 4));
    }

    proptest! {
        /// Both accounts, a wire between them, and a receiver that holds frames for a while and falls idle at times.
        #[test]
        fn data_stays_within_the_window_nothing_is_lost_and_it_goes_on(
            window in prop_oneof![1u64..400_000, Just(1 << 16), Just(1 << 20)],
            packets in proptest::collection::vec((1u64..=CHARGE_MAX, any::<bool>(), any::<bool>()), 1..200),
        ) {
            let (mut tx, mut rx) = (SendCredit::new(window), RecvCredit::new(window));
            let mut to_send: VecDeque<_> = packets.into();
            let (mut wire, mut back) = (VecDeque::new(), VecDeque::new());
            let (mut held, mut on_the_way, mut total) = (VecDeque::new(), 0, 0);
            while !to_send.is_empty() || !wire.is_empty() {
                let mut moved = false;
                while let Some(&(bytes, control, hold)) = to_send.front() {
                    if !control && bytes > tx.room() {
                        break;
                    }
                    to_send.pop_front();
                    tx.spend(bytes);
                    on_the_way += bytes;
                    total += bytes;
                    prop_assert!(control || on_the_way <= window.max(CHARGE_MAX), "over the limit");
                    wire.push_back((bytes, hold));
                    moved = true;
                }
                while let Some((bytes, hold)) = wire.pop_front() {
                    rx.arrive(bytes);
                    if hold {
                        held.push_back(bytes);
                    } else {
                        rx.finish(bytes);
                        on_the_way -= bytes;
                    }
                    if let Some(count) = rx.due() {
                        rx.told(count);
                        back.push_back(count);
                    }
                    moved = true;
                }
                if let Some(count) = rx.due_before_idle() {
                    rx.told(count);
                    back.push_back(count);
                }
                for count in back.drain(..) {
                    prop_assert_eq!(tx.returned(count), Ok(()));
                    moved = true;
                }
                if !moved {
                    // Only a held frame may keep the sender waiting.
                    let bytes = held.pop_front();
                    prop_assert!(bytes.is_some(), "stuck with nothing held");
                    rx.finish(bytes.unwrap());
                    on_the_way -= bytes.unwrap();
                }
            }
            held.drain(..).for_each(|bytes| rx.finish(bytes));
            prop_assert_eq!(rx.done, total);
            prop_assert!(tx.outstanding() >= rx.done - rx.told, "nothing is returned twice");
        }
    }
}
