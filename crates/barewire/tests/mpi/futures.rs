//! Requests as futures: on the endpoint itself, under tokio, and woken from elsewhere.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use barewire::mpi::{Comm, Error};
use tokio::io::unix::AsyncFd;

use crate::kit::Wire;
use crate::run;

/// Rings of messages, calls and operations on a window, all awaited.
async fn work(comm: &Comm, rounds: u64) -> Result<(), Error> {
    let (me, size) = (comm.rank(), comm.size());
    for round in 0..rounds {
        let len = if round % 4 == 1 { 40_000 } else { 3 };
        let receive = comm.ireceive(vec![0; len], (me + size - 1) % size, 1)?;
        let sum = comm.iall_reduce(vec![round], |a, b| a + b)?;
        let send = comm.isend(vec![round; len], (me + 1) % size, 1)?;
        assert_eq!(receive.await?.0, vec![round; len]);
        assert_eq!(sum.await?, [round * u64::from(size)]);
        send.await?;
    }
    Ok(())
}

pub fn futures_run_on_the_endpoint(wire: &Wire) {
    let rounds = wire.times(40);
    run(wire, 3, |comm| {
        let window = comm.window::<u64>(1).unwrap();
        comm.run(async {
            work(comm, rounds).await?;
            window.rput((comm.rank() + 1) % 3, 0, &[7])?.await?;
            comm.ibarrier()?.await?;
            assert_eq!(window.rget(comm.rank(), 0, 1)?.await?, [7]);
            Ok::<(), Error>(())
        })
        .unwrap()
        .unwrap();
        comm.barrier().unwrap();
    });
}

pub fn futures_run_under_tokio(wire: &Wire) {
    let rounds = wire.times(40);
    run(wire, 2, |comm| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            // The newer constructor wants a promise, as not every type keeps its descriptor open; an `OwnedFd` does.
            #[allow(deprecated)]
            let fd = AsyncFd::new(comm.descriptor().unwrap()).unwrap();
            let readable = || async { fd.readable().await.map(|mut ready| ready.clear_ready()) };
            let mut serving = pin!(comm.serve(readable));
            let mut working = pin!(async {
                tokio::time::sleep(Duration::from_millis(5)).await;
                work(comm, rounds).await
            });
            poll_fn(|context| {
                if let Poll::Ready(done) = working.as_mut().poll(context) {
                    return Poll::Ready(done);
                }
                serving.as_mut().poll(context)
            })
            .await
            .unwrap();
        });
    });
}

pub fn another_thread_wakes_a_future(wire: &Wire) {
    run(wire, 2, |comm| {
        let word: Arc<Mutex<(bool, Option<Waker>)>> = Arc::default();
        let teller = Arc::clone(&word);
        let telling = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            let mut word = teller.lock().unwrap();
            word.0 = true;
            word.1.take().into_iter().for_each(Waker::wake);
        });
        let told = poll_fn(|context| {
            let mut word = word.lock().unwrap();
            word.1 = Some(context.waker().clone());
            if word.0 { Poll::Ready(()) } else { Poll::Pending }
        });
        comm.run(told).unwrap();
        telling.join().unwrap();
    });
}
