//! How those who read what we write had better read it, by what it costs us.
//!
//! On some processors long copies by an instruction of their own leave lines behind that take three times as long to write when they come round again; not
//! always, but for seconds on end, when the cache that reader and writer share has no room for all of them: what else uses it, other machines'
//! programs among them, decides that. Who reads sees nothing of it. So who writes times its writes, has the others read
//! [gently](crate::copy::read_gently) for a lap of the memory now and then, and keeps to what makes writing the cheaper.
//!
//! ```
//! use barewire_sys::readers::Readers;
//! let (mut readers, mut gently) = (Readers::new(1 << 20), 0);
//! for _ in 0..10_000 {
//!     // Writing costs more as long as others read as usual.
//!     let cost = if readers.read_gently() { 40_000 } else { 120_000 };
//!     readers.note(64 << 10, Some(cost));
//!     gently += u32::from(readers.read_gently());
//! }
//! assert!(gently > 9_000);
//! ```

/// Laps between trials: at first and after one that has changed something, and at most.
const PAUSE_MIN: u32 = 4;
const PAUSE_MAX: u32 = 64;
/// What takes so many times as long as the cheapest of late was interrupted.
const INTERRUPTED: u64 = 8;
/// Timed writes without which a lap says nothing.
const TIMED_MIN: u64 = 4;

/// What writing to the same memory in turn has cost, and what follows for its readers.
///
/// ```
/// let mut readers = barewire_sys::readers::Readers::new(1 << 20);
/// assert!(!readers.read_gently(), "as usual, at first");
/// readers.note(100, None); // short, and not timed
/// ```
#[derive(Debug)]
pub struct Readers {
    gently: bool,
    /// Bytes after which memory comes round again, and those of them that have been written.
    lap_bytes: usize,
    written: usize,
    /// What the timed writes of this lap cost together, how many they were, and the cheapest of late.
    cost: u64,
    timed: u64,
    least: u64,
    stage: Stage,
    /// Laps until the next trial, and how many lay between the last two.
    left: u32,
    pause: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// What is written now was read as before the last change.
    Settling { before: Option<u64> },
    /// It is measured; and it is a trial, if the cost of what was done before is known.
    Measuring { before: Option<u64> },
}

impl Readers {
    /// Of memory that comes round again after so many bytes.
    ///
    /// ```
    /// let readers = barewire_sys::readers::Readers::new(4 << 20);
    /// assert!(!readers.read_gently());
    /// ```
    pub fn new(lap_bytes: usize) -> Readers {
        Readers {
            gently: false,
            lap_bytes,
            written: 0,
            cost: 0,
            timed: 0,
            least: u64::MAX,
            stage: Stage::Settling { before: None },
            left: PAUSE_MIN,
            pause: PAUSE_MIN,
        }
    }

    /// Whether others had better read gently what is written now.
    ///
    /// ```
    /// # let mut readers = barewire_sys::readers::Readers::new(1 << 20);
    /// let mut trials = 0;
    /// for _ in 0..10_000 {
    ///     readers.note(64 << 10, Some(40_000)); // whichever way they read
    ///     trials += u32::from(readers.read_gently());
    /// }
    /// assert!((10..2000).contains(&trials));
    /// ```
    #[inline]
    pub fn read_gently(&self) -> bool {
        self.gently
    }

    /// So many bytes have been written, at this cost for as many as cost is counted by, if it is known.
    ///
    /// ```
    /// # let mut readers = barewire_sys::readers::Readers::new(1 << 20);
    /// let cost = barewire_sys::stores::Stores::default().write(barewire_sys::wirebuf::WireMut::new(&mut [0; 4096]), |wire| { wire.write(&[1; 4096]); });
    /// readers.note(4096, cost);
    /// ```
    #[inline]
    pub fn note(&mut self, bytes: usize, cost: Option<u64>) {
        self.written += bytes;
        if let Some(cost) = cost {
            self.least = self.least.saturating_add(self.least / 256).min(cost);
            if cost / INTERRUPTED <= self.least {
                (self.cost, self.timed) = (self.cost + cost, self.timed + 1);
            }
        }
        if self.written >= self.lap_bytes {
            self.end_lap();
        }
    }

    #[cold]
    #[inline(never)]
    fn end_lap(&mut self) {
        let mean = (self.timed >= TIMED_MIN).then(|| self.cost / self.timed);
        (self.written, self.cost, self.timed) = (0, 0, 0);
        match (self.stage, mean) {
            (Stage::Settling { before }, _) => self.stage = Stage::Measuring { before },
            (Stage::Measuring { .. }, None) => {}
            (Stage::Measuring { before: None }, Some(now)) => match self.left.checked_sub(1) {
                Some(left) => self.left = left,
                None => self.turn_over(Some(now)),
            },
            (Stage::Measuring { before: Some(before) }, Some(now)) => self.judge(before, now),
        }
    }

    /// The other way from now on.
    fn turn_over(&mut self, before: Option<u64>) {
        self.gently = !self.gently;
        self.stage = Stage::Settling { before };
    }

    /// A trial is over.
    fn judge(&mut self, before: u64, now: u64) {
        // To read gently costs the reader something: it has to be worth that, and more than what comes of the reader being the slower.
        let (gentle, usual) = if self.gently { (now, before) } else { (before, now) };
        if (gentle < usual / 9 * 5) == self.gently {
            self.pause = PAUSE_MIN;
            self.stage = Stage::Measuring { before: None };
        } else {
            self.pause = (2 * self.pause).min(PAUSE_MAX);
            self.turn_over(None);
        }
        self.left = self.pause;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAP: usize = 2 << 20;
    const CHUNK: usize = 32 << 10;

    /// Writes so many laps, which cost so much after others have read as usual and gently in the lap before; says how many were to be read gently.
    fn laps(readers: &mut Readers, count: usize, [usual, gentle]: [u64; 2]) -> usize {
        let mut was_gentle = readers.read_gently();
        let mut laps = 0;
        for _ in 0..count {
            let is_gentle = readers.read_gently();
            for at in 0..LAP / CHUNK {
                let cost = if was_gentle { gentle } else { usual };
                readers.note(CHUNK, (at % 4 == 0).then_some(cost));
            }
            laps += usize::from(is_gentle);
            was_gentle = is_gentle;
        }
        laps
    }

    #[test]
    fn who_writes_for_less_keeps_to_that_and_finds_out_when_it_changes() {
        let mut readers = Readers::new(LAP);
        let trials = laps(&mut readers, 1000, [40_000, 38_000]);
        assert!((10..60).contains(&trials), "only trials: {trials}");
        assert!(
            laps(&mut readers, 1000, [120_000, 42_000]) > 850,
            "but for trials and what finding out takes"
        );
        assert!(laps(&mut readers, 1000, [40_000, 30_000]) < 150);
    }

    #[test]
    fn laps_that_were_not_timed_decide_nothing() {
        let mut readers = Readers::new(LAP);
        for _ in 0..1000 {
            readers.note(CHUNK, None);
            assert!(!readers.read_gently());
        }
    }

    #[test]
    fn interruptions_decide_nothing() {
        let mut readers = Readers::new(LAP);
        let mut gently = 0;
        for write in 0..100_000 {
            let interrupted = readers.read_gently() && write % 3 == 0;
            readers.note(CHUNK, Some(if interrupted { 2_000_000 } else { 40_000 }));
            gently += usize::from(readers.read_gently());
        }
        assert!(gently < 100_000 / 20, "{gently}");
    }
}
