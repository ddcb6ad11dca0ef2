//! The printer: a thread that writes, so that a reader who is slow, or gone, never holds up the launcher.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use crate::wire::Stream;

/// Writes to this process's standard output and error, in order.
pub struct Printer {
    chunks: mpsc::Sender<Chunk>,
    state: Arc<State>,
    done: mpsc::Receiver<()>,
}

/// What the thread is given to do.
enum Chunk {
    Bytes(Stream, Vec<u8>),
    /// To be answered when everything before it is written.
    Settle(mpsc::Sender<()>),
}

#[derive(Default)]
struct State {
    pending_bytes: AtomicUsize,
    trouble: OnceLock<(Stream, std::io::Error)>,
}

impl Printer {
    /// Starts the thread.
    pub fn start() -> std::io::Result<Self> {
        let out = File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
        let err = File::from(std::io::stderr().as_fd().try_clone_to_owned()?);
        let (chunks, inbox) = mpsc::channel::<Chunk>();
        let (done_sender, done) = mpsc::channel();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        std::thread::Builder::new().name("printer".into()).spawn(move || {
            for chunk in inbox {
                let (stream, bytes) = match chunk {
                    Chunk::Bytes(stream, bytes) => (stream, bytes),
                    Chunk::Settle(answer) => {
                        // The launcher may have given up waiting.
                        let _ = answer.send(());
                        continue;
                    }
                };
                let mut file = if stream == Stream::Out { &out } else { &err };
                match file.write_all(&bytes) {
                    // Whoever reads the errors of others may stop; only their output is what a job is for.
                    Err(error) if stream == Stream::Err && error.kind() == ErrorKind::BrokenPipe => {}
                    // The first trouble is the one to tell.
                    Err(error) => drop(shared.trouble.set((stream, error))),
                    Ok(()) => {}
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
        self.chunks.send(Chunk::Bytes(stream, bytes)).expect("the printer lives as long as its channel");
    }

    /// Whether so much is waiting that ranks should be held up.
    pub fn is_behind(&self) -> bool {
        // SYNC pending: a lone counter; it orders nothing.
        self.state.pending_bytes.load(Ordering::Relaxed) > PENDING_BYTES_MAX
    }

    /// The first write that failed: to a reader that has gone away, or to a disk that is full.
    pub fn trouble(&self) -> Option<&(Stream, std::io::Error)> {
        self.state.trouble.get()
    }

    /// Waits until all that was given so far is written; false if the time was up before.
    pub fn settle(&self, timeout: Duration) -> bool {
        let (answer, settled) = mpsc::channel();
        self.chunks.send(Chunk::Settle(answer)).expect("the printer lives as long as its channel");
        settled.recv_timeout(timeout).is_ok()
    }

    /// Waits until all is written, or until the time is up.
    pub fn finish(self, timeout: Duration) {
        drop(self.chunks);
        // Whether it is done or not, this is all the time there is.
        let _ = self.done.recv_timeout(timeout);
    }
}

const PENDING_BYTES_MAX: usize = 4 << 20;
