//! The printer: a thread that writes, so that a reader who is slow, or gone, never holds up the launcher.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use crate::wire::Stream;

/// Writes to this process's standard output and error, in order.
pub struct Printer {
    chunks: mpsc::Sender<(Stream, Vec<u8>)>,
    state: Arc<State>,
    done: mpsc::Receiver<()>,
}

#[derive(Default)]
struct State {
    pending_bytes: AtomicUsize,
    nobody_reads: AtomicBool,
}

impl Printer {
    /// Starts the thread.
    pub fn start() -> std::io::Result<Self> {
        let out = File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
        let err = File::from(std::io::stderr().as_fd().try_clone_to_owned()?);
        let (chunks, inbox) = mpsc::channel::<(Stream, Vec<u8>)>();
        let (done_sender, done) = mpsc::channel();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        std::thread::Builder::new().name("printer".into()).spawn(move || {
            for (stream, bytes) in inbox {
                let mut file = if stream == Stream::Out { &out } else { &err };
                if file.write_all(&bytes).is_err() && stream == Stream::Out {
                    // SYNC gone: a lone flag; whoever reads it acts on nothing else written here.
                    shared.nobody_reads.store(true, Ordering::Relaxed);
                }
                // SYNC pending: a lone counter; it orders nothing.
                shared.pending_bytes.fetch_sub(bytes.len(), Ordering::Relaxed);
            }
            // The launcher may have given up waiting.
            let _ = done_sender.send(());
        })?;
        Ok(Self { chunks, state, done })
    }

    /// Has `bytes` written after everything before.
    pub fn print(&self, stream: Stream, bytes: Vec<u8>) {
        // SYNC pending: a lone counter; it orders nothing.
        self.state.pending_bytes.fetch_add(bytes.len(), Ordering::Relaxed);
        self.chunks.send((stream, bytes)).expect("the printer lives as long as its channel");
    }

    /// Whether so much is waiting that ranks should be held up.
    pub fn is_behind(&self) -> bool {
        // SYNC pending: a lone counter; it orders nothing.
        self.state.pending_bytes.load(Ordering::Relaxed) > PENDING_BYTES_MAX
    }

    /// Whether the reader of standard output has gone away.
    pub fn nobody_reads(&self) -> bool {
        // SYNC gone: pairs with the store in the thread; nothing else depends on it.
        self.state.nobody_reads.load(Ordering::Relaxed)
    }

    /// Waits until all is written, or until the time is up.
    pub fn finish(self, timeout: Duration) {
        drop(self.chunks);
        // Whether it is done or not, this is all the time there is.
        let _ = self.done.recv_timeout(timeout);
    }
}

const PENDING_BYTES_MAX: usize = 4 << 20;
