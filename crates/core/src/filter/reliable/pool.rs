//! Packet buffers, made when first needed and used again for ever after.
//!
//! The last buffer given back is the first taken, so a pair that exchanges one packet at a time keeps to one
//! or two warm buffers however large its windows are, and an idle pair has none. The windows bound how many
//! are out at once, hence how many exist.

/// The buffers of one pair.
#[derive(Debug)]
pub(super) struct Pool {
    free: Vec<Vec<u8>>,
    buffer_bytes: usize,
    made: usize,
}

impl Pool {
    /// A pool of buffers of this capacity; none exist yet.
    pub fn new(buffer_bytes: usize) -> Self {
        Self { free: Vec::new(), buffer_bytes, made: 0 }
    }

    /// A buffer, its content left over from earlier use.
    pub fn take(&mut self) -> Vec<u8> {
        self.free.pop().unwrap_or_else(|| {
            self.made += 1;
            Vec::with_capacity(self.buffer_bytes)
        })
    }

    /// Takes a buffer back.
    pub fn give(&mut self, buffer: Vec<u8>) {
        self.free.push(buffer);
    }

    /// How many buffers have been made.
    pub fn made(&self) -> usize {
        self.made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_given_back_is_the_next_one_taken() {
        let mut pool = Pool::new(100);
        let (one, two) = (pool.take(), pool.take());
        assert!(one.capacity() >= 100);
        let warm = two.as_ptr();
        pool.give(one);
        pool.give(two);
        let again = pool.take();
        assert_eq!(again.as_ptr(), warm);
        assert_eq!(pool.made(), 2);
    }
}
