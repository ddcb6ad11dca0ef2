//! What the tests share: ranks that know each other, handlers that tell, gates to wait at, an executor.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use barewire::fm::{Flow, Fm, Handler, Peer, Stream};

pub use crate::wires::PATIENCE;
use crate::wires::Wires;

pub const H: Handler = Handler(1);
pub const OTHER: Handler = Handler(2);
pub const MET: Handler = Handler(900);

/// Runs `body` once for each of `size` ranks, each on a thread of its own, with what `setup` returned. All are connected
/// and have their handlers before, and nobody leaves before all are done.
pub fn run<S>(
    size: u32,
    wires: &Wires,
    setup: impl Fn(&mut Fm) -> S + Sync,
    body: impl Fn(&mut Fm, S) + Sync,
) {
    thread::scope(|scope| {
        for open in wires.opens(size) {
            let (setup, body) = (&setup, &body);
            scope.spawn(move || {
                let mut fm = Fm::new(open()).unwrap();
                let (count, others) = (Arc::new(AtomicU64::new(0)), u64::from(fm.size()) - 1);
                let counted = Arc::clone(&count);
                fm.register(MET, move |_, _| {
                    counted.fetch_add(1, SeqCst);
                    Flow::Continue
                });
                let state = setup(&mut fm);
                tell_all(&mut fm);
                fm.wait(PATIENCE, || count.load(SeqCst) >= others).unwrap();
                body(&mut fm, state);
                tell_all(&mut fm);
                fm.wait(PATIENCE, || count.load(SeqCst) == 2 * others).unwrap();
            });
        }
    });
}

pub fn tell_all(fm: &mut Fm) {
    for peer in (0..fm.size()).map(Peer).filter(|&peer| peer != fm.me()).collect::<Vec<_>>() {
        fm.send(peer, MET, b"").unwrap();
    }
}

pub fn alone(wires: &Wires) -> Fm {
    Fm::new(wires.opens(1).remove(0)()).unwrap()
}

pub fn pattern(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + salt * 7 + (i >> 8) * 13) as u8).collect()
}

pub type Told = Receiver<(Peer, Vec<u8>)>;

/// A handler that tells of every message, whole.
pub fn collect(fm: &mut Fm, handler: Handler) -> Told {
    let (tell, told) = mpsc::channel();
    fm.register_stream(handler, move |mut stream: Stream| {
        let tell = tell.clone();
        async move {
            let mut bytes = vec![0; stream.len() as usize];
            let n = stream.receive(&mut bytes).await;
            bytes.truncate(n);
            tell.send((stream.from(), bytes)).unwrap();
            Flow::Continue
        }
    });
    told
}

pub fn next<T>(fm: &mut Fm, told: &Receiver<T>) -> T {
    let mut got = None;
    fm.wait(PATIENCE, || {
        got = got.take().or_else(|| told.try_recv().ok());
        got.is_some()
    })
    .expect("it comes in time");
    got.unwrap()
}

/// Something a handler waits for that is not bytes.
#[derive(Clone, Default)]
pub struct Gate(Arc<Mutex<(bool, Vec<Waker>)>>);

impl Gate {
    pub fn open(&self) {
        let mut gate = self.0.lock().unwrap();
        gate.0 = true;
        gate.1.drain(..).for_each(Waker::wake);
    }

    pub async fn wait(&self) {
        poll_fn(|cx| {
            let mut gate = self.0.lock().unwrap();
            if gate.0 {
                return Poll::Ready(());
            }
            gate.1.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

pub fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Unpark>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => return done,
            Poll::Pending => thread::park(),
        }
    }
}
