//! The queue for a processor: where processes outnumber processors, a message takes as long as its receiver waits for its turn.
//!
//! Processes that yield have the processor in turn, in an order that comes about by chance and lasts. Who stands right behind the one
//! it waits for has its message one switch after it was sent; who stands before it waits for everybody else first. So a process
//! takes its seat, which is at the processor of those with numbers near its own, and if it waits for the same neighbour again and again, at the same
//! processor and not right behind it, it steps back by chance until it is. Nothing is bound: the system may move everybody on.

use std::thread::{self, ThreadId};

use barewire_sys::bell::{Bell, Ringer};
use barewire_sys::cpu::{self, Cpu};

use crate::Peer;
use crate::job::Job;

/// Turns in a row at another processor before a process takes its seat again, at first and at most.
const AWAY_MIN: u32 = 32;
const AWAY_MAX: u32 = 1 << 14;
/// Turns in a row at the seat after which half of that is enough again.
const SETTLED: u32 = 4096;

/// Turns in a row spent on waiting for one neighbour before it matters where it stands.
const FAITHFUL: u32 = 64;

/// Turns in a row at the wrong place before a step back, and how often that doubles where steps do not help.
const ASTRAY: u32 = 4;
const DOUBLINGS: u32 = 6;

/// A turn of others that takes so many times as long as usual had one of them compute.
const LONG: u64 = 128;

/// Where an endpoint's process stands.
#[derive(Debug)]
pub(crate) struct Queue {
    /// How long a turn of others takes where all of them wait.
    usual: u64,
    seat: Option<Seated>,
    /// Where it had its last turn.
    cpu: Cpu,
    order: Option<Order>,
}

impl Queue {
    /// A job's process takes its seat, if it has one.
    pub fn new(job: &Job) -> Queue {
        let seat = job.seat.filter(|_| job.crowded);
        let seated = seat.and_then(|seat| seat.cpu(&cpu::allowed_cpus())).and_then(Seated::take);
        let order = seat.map(|seat| Order::new(seat.sharers(), cpu::ticks()));
        Queue { usual: u64::MAX, seat: seated, cpu: cpu::current_cpu(), order }
    }

    /// Offers the processor to others; this process waits for a neighbour, whose doorbell this is.
    pub fn give_way(&mut self, bell: &Bell, to: Option<(Peer, &Ringer)>) {
        let Some(order) = &mut self.order else { return thread::yield_now() };
        let left = cpu::ticks();
        bell.say_yielding(left, self.cpu);
        thread::yield_now();
        let back = cpu::ticks();
        self.cpu = cpu::current_cpu();
        let took = back.saturating_sub(left);
        self.usual = took.min(self.usual.saturating_add(self.usual / 64));
        if took / LONG > self.usual {
            // No order lasts, and the system has something to balance.
            order.forget();
            return self.seat.iter_mut().for_each(|seat| seat.is_shared(self.cpu));
        }
        if let Some(seat) = &mut self.seat {
            if seat.is_lost(self.cpu) && !seat.take_again() {
                self.seat = None;
            }
        }
        let Some((peer, ringer)) = to else { return };
        if !order.is_faithful(peer) {
            return;
        }
        let (theirs, on) = ringer.yielded();
        let turn = Turn { left, back, theirs: (on == self.cpu).then_some(theirs) };
        if let Some(by) = order.step_after(turn) {
            if cpu::step_back(by).is_err() {
                self.order = None;
            }
        }
    }
}

/// The processor that a process goes back to.
#[derive(Debug)]
struct Seated {
    cpu: Cpu,
    /// Whose seat it is: an endpoint may be used by others too, who are not moved about.
    thread: ThreadId,
    /// Turns in a row there, or at others.
    there: u32,
    away: u32,
    away_max: u32,
}

impl Seated {
    fn take(cpu: Cpu) -> Option<Seated> {
        cpu::move_to(cpu).ok()?;
        Some(Seated { cpu, thread: thread::current().id(), there: 0, away: 0, away_max: AWAY_MIN })
    }

    /// It has had a turn at this processor. Says whether it has been away from its own for long enough.
    #[inline]
    fn is_lost(&mut self, at: Cpu) -> bool {
        if at == self.cpu {
            (self.there, self.away) = (self.there + 1, 0);
            if self.there >= SETTLED {
                (self.there, self.away_max) = (0, (self.away_max / 2).max(AWAY_MIN));
            }
            return false;
        }
        (self.there, self.away) = (0, self.away + 1);
        self.away >= self.away_max
    }

    /// Somebody computes at this processor. Who is moved away from there stays away for longer.
    fn is_shared(&mut self, at: Cpu) {
        (self.there, self.away) = (0, 0);
        if at == self.cpu {
            self.away_max = (self.away_max * 4).min(AWAY_MAX);
        }
    }

    /// Goes back. The system had its reasons; each time it has them soon again they are respected for longer.
    #[cold]
    fn take_again(&mut self) -> bool {
        self.away = 0;
        self.away_max = (self.away_max * 2).min(AWAY_MAX);
        thread::current().id() == self.thread && cpu::move_to(self.cpu).is_ok()
    }
}

/// One turn of others, by the processor's counter.
#[derive(Clone, Copy, Debug)]
struct Turn {
    /// When this process offered its processor, and when it had it again.
    left: u64,
    back: u64,
    /// When the one that it waits for did so last, if that was the same processor.
    theirs: Option<u64>,
}

/// Whom a process waits for, and whether it stands behind it.
#[derive(Debug)]
struct Order {
    /// Processes that share a processor.
    sharers: u64,
    peer: Option<Peer>,
    /// Turns spent on waiting for it.
    turns: u32,
    /// Of the last ones, those that found it at another place than right before.
    astray: u32,
    /// Steps back that have not helped.
    steps: u32,
    chance: u64,
}

impl Order {
    fn new(sharers: u32, seed: u64) -> Order {
        Order { sharers: sharers.into(), peer: None, turns: 0, astray: 0, steps: 0, chance: seed | 1 }
    }

    /// Nothing is known of whom it waits for.
    fn forget(&mut self) {
        self.peer = None;
    }

    /// A turn was spent on waiting for this one. Says whether it always is the same one.
    #[inline]
    fn is_faithful(&mut self, peer: Peer) -> bool {
        if self.peer != Some(peer) {
            (self.peer, self.turns, self.astray) = (Some(peer), 0, 0);
        }
        self.turns = self.turns.saturating_add(1);
        self.turns > FAITHFUL
    }

    /// Judges a turn. Says by how much of a turn to step back, if that seems right: every other time, because the others do the same.
    #[inline]
    fn step_after(&mut self, turn: Turn) -> Option<u8> {
        let theirs = turn.theirs.filter(|theirs| (turn.left..=turn.back).contains(theirs))?;
        // Right behind it, one switch has passed since, of as many as there are processes.
        if (turn.back - theirs).saturating_mul(2 * self.sharers) <= 3 * (turn.back - turn.left) {
            (self.astray, self.steps) = (0, 0);
            return None;
        }
        self.astray += 1;
        if self.astray < ASTRAY << self.steps {
            return None;
        }
        self.astray = 0;
        let chance = self.draw();
        if chance & 1 == 0 {
            return None;
        }
        self.steps = (self.steps + 1).min(DOUBLINGS);
        Some((chance >> 8) as u8)
    }

    /// The next of Marsaglia's numbers.
    fn draw(&mut self) -> u64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A turn of four, in which the one that was waited for came at this place before us, of four.
    fn turn(place: u64) -> Turn {
        Turn { left: 1000, back: 5000, theirs: Some(5000 - 1000 * place) }
    }

    fn steps(order: &mut Order, turns: impl IntoIterator<Item = Turn>) -> usize {
        turns.into_iter().filter(|&turn| order.step_after(turn).is_some()).count()
    }

    #[test]
    fn only_who_waits_for_the_same_one_again_and_again_is_faithful() {
        let mut order = Order::new(4, 7);
        assert!((0..100).all(|turn| !order.is_faithful(Peer(turn % 2))));
        assert_eq!((0..).find(|_| order.is_faithful(Peer(3))), Some(FAITHFUL));
        assert!(!order.is_faithful(Peer(2)) && !order.is_faithful(Peer(3)));
        assert_eq!((0..).find(|_| order.is_faithful(Peer(3))), Some(FAITHFUL - 1));
        order.forget();
        assert!(!order.is_faithful(Peer(3)));
    }

    #[test]
    fn who_stands_right_behind_stays() {
        let mut order = Order::new(4, 7);
        assert_eq!(steps(&mut order, [turn(1); 1000]), 0);
        let elsewhere = Turn { theirs: None, ..turn(1) };
        let long_ago = Turn { theirs: Some(999), ..turn(1) };
        let later = Turn { theirs: Some(5001), ..turn(1) };
        assert_eq!(steps(&mut order, [elsewhere, long_ago, later].repeat(100)), 0, "nothing is known of it");
    }

    #[test]
    fn who_stands_at_the_wrong_place_steps_back_and_ever_more_rarely() {
        let mut order = Order::new(4, 7);
        let first = (0..).position(|_| order.step_after(turn(3)).is_some());
        assert!(first.is_some_and(|at| at >= ASTRAY as usize - 1));
        let (soon, late) = (steps(&mut order, [turn(2); 1000]), steps(&mut order, [turn(2); 10_000]));
        assert!(soon >= 2 && late >= 2 && late < soon * 10, "{soon} and then {late}");
        assert_eq!(steps(&mut order, [turn(1)]), 0);
        assert!(steps(&mut order, [turn(3); 40]) > 0, "it had found its place and lost it again");
    }

    #[test]
    fn one_that_says_nonsense_is_no_panic() {
        let mut order = Order::new(u32::MAX, 0);
        for theirs in [0, u64::MAX] {
            order.step_after(Turn { left: 0, back: u64::MAX / 4, theirs: Some(theirs) });
        }
    }

    #[test]
    fn a_seat_is_taken_again_ever_later() {
        let here = cpu::allowed_cpus()[0];
        let mut seat = Seated::take(here).unwrap();
        let elsewhere = Cpu(here.0 + 1);
        let lost_after = |seat: &mut Seated| (1..).find(|_| seat.is_lost(elsewhere));
        assert!(!seat.is_lost(elsewhere) && !seat.is_lost(here), "for a moment");
        assert_eq!(lost_after(&mut seat), Some(AWAY_MIN));
        assert!(seat.take_again());
        assert_eq!(lost_after(&mut seat), Some(2 * AWAY_MIN));
        assert!((0..SETTLED).all(|_| !seat.is_lost(here)));
        assert_eq!(lost_after(&mut seat), Some(AWAY_MIN), "that was long ago");
        (0..3).for_each(|_| seat.is_shared(elsewhere));
        assert_eq!(lost_after(&mut seat), Some(AWAY_MIN), "nobody else is at the seat");
        (0..30).for_each(|_| seat.is_shared(here));
        assert_eq!(lost_after(&mut seat), Some(AWAY_MAX));
        let moved = thread::spawn(move || seat.take_again());
        assert!(!moved.join().unwrap(), "it is another thread's");
    }
}
