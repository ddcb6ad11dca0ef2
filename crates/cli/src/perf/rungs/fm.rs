//! Fast messages: a plain handler for short ones, an `async` one that receives long ones in place.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, bail};
use barewire::fm::{Flow, Fm, Handler};
use barewire_core::{Endpoint, Peer};

use super::pair::{self, Pair};
use super::{BUFFER_BYTES, Bench, Kept, PATIENCE, Trips, until};
use crate::perf::worker::Command;

const SHORT: Handler = Handler(1);
const LONG: Handler = Handler(2);
const HERE: Handler = Handler(3);
/// Messages up to this length come in one packet and are taken by the plain handler.
const SHORT_BYTES_MAX: usize = 32 << 10;

thread_local!(static BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) });

/// Counts without a locked instruction, which would wait for all stores before it: handlers run in one thread.
fn add_one(count: &AtomicU64) {
    // SYNC count: read and written by the thread that extracts.
    count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// A rank that measures fast messages.
pub struct FmBench {
    fm: Fm,
    me: u32,
    /// For all time, so that a handler reaches it without a locked instruction.
    got: &'static AtomicU64,
    here: Arc<AtomicU64>,
    /// Messages of earlier measurements; the first of this one may be here before it begins.
    seen: u64,
    out: Vec<u8>,
}

impl FmBench {
    pub fn new(endpoint: Endpoint) -> Result<FmBench> {
        let me = endpoint.me().0;
        let mut fm = Fm::new(endpoint)?;
        let (got, here): (&AtomicU64, _) = (Box::leak(Box::default()), Arc::new(AtomicU64::new(0)));
        let mut into = vec![0; SHORT_BYTES_MAX];
        fm.register(SHORT, move |_, message| {
            message.read(&mut into);
            add_one(got);
            Flow::Continue
        });
        fm.register_stream(LONG, move |mut stream| async move {
            let spare = BUFFERS.with_borrow_mut(Vec::pop);
            let mut into = spare.unwrap_or_else(|| vec![0; BUFFER_BYTES]);
            let len = stream.len() as usize;
            stream.receive(&mut into[..len]).await;
            BUFFERS.with_borrow_mut(|buffers| buffers.push(into));
            add_one(got);
            Flow::Continue
        });
        let count = Arc::clone(&here);
        fm.register(HERE, move |_, _| {
            count.fetch_add(1, Ordering::Relaxed);
            Flow::Continue
        });
        Ok(FmBench { fm, me, got, here, seen: 0, out: vec![1; BUFFER_BYTES] })
    }

    fn other(&self) -> Peer {
        Peer(1 - self.me)
    }
}

impl Pair for FmBench {
    const NAME: &'static str = "fast messages";

    fn rank(&self) -> u32 {
        self.me
    }

    #[inline(always)]
    fn send(&mut self, bytes: usize) -> Result<()> {
        let handler = if bytes <= SHORT_BYTES_MAX { SHORT } else { LONG };
        let other = self.other();
        Ok(self.fm.send(other, handler, &self.out[..bytes])?)
    }

    #[inline(always)]
    fn until(&mut self, got: u64) {
        until(|| {
            let there = |fm: &FmBench| fm.got.load(Ordering::Relaxed) >= got;
            there(self) || (self.fm.extract_all() > 0 && there(self))
        });
    }

    fn seen(&mut self) -> &mut u64 {
        &mut self.seen
    }
}

impl Bench for FmBench {
    fn tell_here(&mut self, to: Peer) -> Result<()> {
        Ok(self.fm.send(to, HERE, &[])?)
    }

    fn hear_here(&mut self, count: u32) -> Result<()> {
        let here = Arc::clone(&self.here);
        self.fm.wait(PATIENCE, || here.load(Ordering::Relaxed) >= u64::from(count))?;
        self.here.fetch_sub(u64::from(count), Ordering::Relaxed);
        Ok(())
    }

    fn once(&mut self, command: &Command, trips: &mut Trips) -> Result<f64> {
        if command.bytes > BUFFER_BYTES {
            bail!("messages of more than {BUFFER_BYTES} bytes are not measured");
        }
        pair::once(self, command, trips)
    }

    fn burst(&mut self, _: &str, bytes: usize, count: u64) -> Result<f64> {
        pair::burst(self, bytes, count)
    }

    fn idle(&mut self) {
        self.fm.extract_all();
    }

    fn close(self: Box<Self>) -> Option<(Endpoint, Option<Kept>)> {
        Some((self.fm.into_endpoint(), None))
    }
}
