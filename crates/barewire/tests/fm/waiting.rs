//! Handlers and ranks that wait: for a gate, for room, for bytes that never come, under executors.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use barewire::fm::{Flow, Fm, Peer, SendError, Stream};

use crate::kit::*;
use crate::wires::Wires;

pub fn a_suspended_handler_holds_its_credit_and_stops_the_sender(wires: &Wires) {
    const LEN: usize = 16 << 20;
    let config = &wires.config;
    let pool = config.pool_bytes.unwrap_or(6 << 20);
    let (gate, bound) =
        (Gate::default(), (4 * config.ring_bytes.unwrap_or(32 << 10) + pool + config.credit_bytes) as u64);
    let setup = |fm: &mut Fm| {
        let (tell, told) = mpsc::channel();
        let gate = gate.clone();
        fm.register_stream(H, move |mut stream: Stream| {
            let (tell, gate) = (tell.clone(), gate.clone());
            async move {
                gate.wait().await;
                let mut bytes = vec![0; LEN];
                stream.receive(&mut bytes).await;
                tell.send(bytes).unwrap();
                Flow::Continue
            }
        });
        told
    };
    run(2, wires, setup, |fm, told| {
        let other = Peer(1 - fm.me().0);
        if fm.me() == Peer(0) {
            let data = pattern(LEN, 3);
            let mut message = fm.begin_message(other, LEN as u64, H).unwrap();
            let (mut sent, mut refused) = (0, 0);
            while refused < 20_000 {
                match message.try_piece(&data[sent..LEN.min(sent + 100_000)]) {
                    Ok(n) => (sent, refused) = (sent + n, 0),
                    Err(SendError::Full) => {
                        refused += 1;
                        message.fm().extract_all();
                        thread::yield_now();
                    }
                    Err(error) => panic!("{error}"),
                }
                assert!((sent as u64) < bound, "the sender should have been stopped by now");
            }
            assert!(sent > 0);
            gate.open(); // wakes a handler that belongs to another thread
            message.piece(&data[sent..]).unwrap();
            message.end().unwrap();
        } else {
            assert!(next(fm, &told) == pattern(LEN, 3));
            let staged = fm.counters().staged_bytes;
            assert!(staged > 0 && staged < bound, "{staged} bytes were kept");
            assert!(fm.endpoint().stats().held > 0);
        }
    });
}

/// More bytes are echoed than all credit together.
pub fn handlers_that_send_are_suspended_until_there_is_room(wires: &Wires) {
    let setup = |fm: &mut Fm| {
        fm.register_stream(H, |mut stream: Stream| async move {
            let mut back = stream.sender().begin_message(stream.from(), stream.len(), OTHER);
            let mut some = vec![0; 10_000];
            loop {
                match stream.receive(&mut some).await {
                    0 => break,
                    n => back.piece(&some[..n]).await.unwrap(),
                }
            }
            back.end().await.unwrap();
            Flow::Continue
        });
        collect(fm, OTHER)
    };
    // On shared memory as much as the pools of both.
    let long = (wires.times(1_500_000) as usize).max(500_000);
    let message = |i: usize| pattern(if i % 2 == 0 { 100 } else { long }, i);
    run(2, wires, setup, |fm, told| {
        if fm.me() == Peer(1) {
            return;
        }
        for i in 0..20 {
            fm.send(Peer(1), H, &message(i)).unwrap();
        }
        let mut got = (0..20).map(|_| next(fm, &told).1).collect::<Vec<_>>();
        let mut expected = (0..20).map(message).collect::<Vec<_>>();
        got.sort();
        expected.sort();
        assert!(got == expected);
        assert!(fm.endpoint().stats().stalled > 0);
    });
}

pub fn a_handler_whose_sender_is_lost_is_dropped(wires: &Wires) {
    struct Tell(mpsc::Sender<&'static str>);
    impl Drop for Tell {
        fn drop(&mut self) {
            self.0.send("dropped").unwrap();
        }
    }
    thread::scope(|scope| {
        let mut opens = wires.opens(2).into_iter();
        let (first, second) = (opens.next().unwrap(), opens.next().unwrap());
        scope.spawn(|| {
            let mut fm = Fm::new(first()).unwrap();
            let mut message = fm.begin_message(Peer(1), 1000, H).unwrap();
            message.piece(b"half of it").unwrap();
            std::mem::forget(message); // dies in the middle
        });
        let mut fm = Fm::new(second()).unwrap();
        let (tell, told) = mpsc::channel();
        fm.register_stream(H, move |mut stream: Stream| {
            let tell = Tell(tell.clone());
            async move {
                let mut bytes = [0; 1000];
                stream.receive(&mut bytes[..5]).await;
                tell.0.send("started").unwrap();
                stream.receive(&mut bytes).await;
                tell.0.send("finished").unwrap();
                Flow::Continue
            }
        });
        assert_eq!(next(&mut fm, &told), "started");
        assert_eq!(next(&mut fm, &told), "dropped");
    });
}

/// A future that polls its inner one only when that asked for it, as sets of futures do.
struct OnlyWhenWoken<F> {
    inner: Pin<Box<F>>,
    flag: Arc<Flag>,
}

struct Flag {
    woken: AtomicBool,
    outer: Mutex<Option<Waker>>,
}

impl Wake for Flag {
    fn wake(self: Arc<Flag>) {
        self.woken.store(true, SeqCst);
        if let Some(outer) = self.outer.lock().unwrap().as_ref() {
            outer.wake_by_ref();
        }
    }
}

impl<F: Future> Future for OnlyWhenWoken<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        *self.flag.outer.lock().unwrap() = Some(cx.waker().clone());
        if !self.flag.woken.swap(false, SeqCst) {
            return Poll::Pending;
        }
        let waker = Waker::from(Arc::clone(&self.flag));
        self.inner.as_mut().poll(&mut Context::from_waker(&waker))
    }
}

pub fn a_receive_inside_another_future_is_woken(wires: &Wires) {
    let mut fm = alone(wires);
    let (tell, told) = mpsc::channel();
    fm.register_stream(H, move |mut stream: Stream| {
        let tell = tell.clone();
        let flag = Arc::new(Flag { woken: AtomicBool::new(true), outer: Mutex::new(None) });
        let inner = Box::pin(async move {
            let mut bytes = vec![0; stream.len() as usize];
            stream.receive(&mut bytes).await;
            tell.send(bytes).unwrap();
            Flow::Continue
        });
        OnlyWhenWoken { inner, flag }
    });
    let data = pattern(500_000, 1);
    fm.send(fm.me(), H, &data).unwrap();
    assert!(next(&mut fm, &told) == data);
    assert_eq!(fm.counters().staged_bytes, 0);
}

pub fn a_stream_taken_elsewhere_is_at_its_end(wires: &Wires) {
    let mut fm = alone(wires);
    let (tell, told) = mpsc::channel();
    fm.register_stream(H, move |stream: Stream| {
        tell.send(stream).unwrap();
        async { Flow::Continue }
    });
    fm.send(fm.me(), H, b"bytes").unwrap();
    fm.extract_all();
    let mut stream = told.try_recv().unwrap();
    assert_eq!(block_on(stream.receive(&mut [0; 5])), 0);
    assert_eq!(block_on(stream.sender().send(Peer(0), H, b"x")), Err(SendError::Outside));
}

/// Rank 1 echoes, blocking; rank 0 asks, by way of `extract`.
async fn ask_and_await(fm: &mut Fm, told: Told, mut extract: impl AsyncFnMut(&mut Fm)) {
    for i in 0..50 {
        let data = pattern(if i % 10 == 9 { 300_000 } else { 10 }, i);
        let mut message = fm.begin_message(Peer(1), data.len() as u64, H).unwrap();
        let mut sent = 0;
        while sent < data.len() {
            match message.try_piece(&data[sent..]) {
                Ok(n) => sent += n,
                Err(SendError::Full) => {
                    message.fm().extract_all();
                }
                Err(error) => panic!("{error}"),
            }
        }
        drop(message);
        let answer = loop {
            match told.try_recv() {
                Ok((_, answer)) => break answer,
                Err(_) => extract(fm).await,
            }
        };
        assert!(answer == data);
        if i % 5 == 0 {
            thread::sleep(Duration::from_millis(4)); // let the other fall asleep
        }
    }
}

fn echo_to_asker(fm: &mut Fm, told: Told) {
    for i in 0..50 {
        let (_, bytes) = next(fm, &told);
        if i % 5 == 1 {
            thread::sleep(Duration::from_millis(4)); // let the asker fall asleep
        }
        fm.send(Peer(0), OTHER, &bytes).unwrap();
    }
}

pub fn extract_can_be_awaited_under_a_plain_executor(wires: &Wires) {
    let setup = |fm: &mut Fm| collect(fm, if fm.me() == Peer(0) { OTHER } else { H });
    run(2, wires, setup, |fm, told| {
        if fm.me() == Peer(0) {
            let extract = async |fm: &mut Fm| {
                fm.extract_async(usize::MAX).await.unwrap();
            };
            block_on(ask_and_await(fm, told, extract));
        } else {
            echo_to_asker(fm, told);
        }
    });
}

pub fn extract_can_be_awaited_under_tokio(wires: &Wires) {
    let setup = |fm: &mut Fm| collect(fm, if fm.me() == Peer(0) { OTHER } else { H });
    run(2, wires, setup, |fm, told| {
        if fm.me() == Peer(0) {
            tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap().block_on(async {
                let fd = fm.endpoint().fd().try_clone_to_owned().unwrap();
                // The newer constructor wants a promise, as not every type keeps its descriptor open; an `OwnedFd` does.
                #[allow(deprecated)]
                let fd = tokio::io::unix::AsyncFd::new(fd).unwrap();
                let readable = || async { fd.readable().await.map(|mut ready| ready.clear_ready()) };
                let extract = async |fm: &mut Fm| {
                    fm.extract_when(usize::MAX, readable).await.unwrap();
                };
                ask_and_await(fm, told, extract).await;
            });
        } else {
            echo_to_asker(fm, told);
        }
    });
}

pub fn a_handler_woken_by_another_thread_ends_a_sleep(wires: &Wires) {
    for by_async in [false, true] {
        let mut fm = alone(wires);
        let (tell, told) = mpsc::channel();
        let (gate, gate_there) = (Gate::default(), Gate::default());
        let opened = gate.clone();
        fm.register_stream(H, move |_| {
            let (tell, gate) = (tell.clone(), gate.clone());
            async move {
                gate.wait().await;
                tell.send(()).unwrap();
                Flow::Continue
            }
        });
        fm.send(fm.me(), H, b"").unwrap();
        fm.extract_all();
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(20));
                opened.open();
            });
            if by_async {
                while told.try_recv().is_err() {
                    block_on(fm.extract_async(usize::MAX)).unwrap();
                }
            } else {
                next(&mut fm, &told);
            }
        });
        gate_there.open();
    }
}
