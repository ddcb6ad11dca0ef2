//! An echo server under tokio: it awaits messages beside whatever else the runtime does, here a ticking clock.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use barewire::core::{Config, job::Job};
use barewire::fm::{Flow, Fm, Handler, Peer, Stream};
use tokio::io::unix::AsyncFd;

const ASK: Handler = Handler(1);
const ANSWER: Handler = Handler(2);
const STOP: Handler = Handler(3);
const QUESTIONS: usize = 1000;

type Error = Box<dyn std::error::Error>;

async fn echo(mut stream: Stream) -> Flow {
    let mut back = stream.sender().begin_message(stream.from(), stream.len(), ANSWER);
    let mut some = [0; 4096];
    loop {
        match stream.receive(&mut some).await {
            0 => break,
            n => {
                if back.piece(&some[..n]).await.is_err() {
                    return Flow::Continue; // the asker is gone
                }
            }
        }
    }
    let _ = back.end().await;
    Flow::Continue
}

async fn serve(mut fm: Fm) -> Result<(), Error> {
    // The newer constructor wants a promise, as not every type keeps its descriptor open; an `OwnedFd` does.
    #[allow(deprecated)]
    let fd = AsyncFd::new(fm.endpoint().fd().try_clone_to_owned()?)?;
    let readable = || async { fd.readable().await.map(|mut ready| ready.clear_ready()) };
    fm.register_stream(ASK, echo);
    let stopped = Arc::new(AtomicBool::new(false));
    let stopping = Arc::clone(&stopped);
    fm.register(STOP, move |_, _| {
        stopping.store(true, Ordering::Relaxed);
        Flow::Quit
    });
    let ticking = tokio::spawn(async {
        loop {
            tokio::time::sleep(Duration::from_millis(10)).await;
            println!("tick");
        }
    });
    while !stopped.load(Ordering::Relaxed) {
        fm.extract_when(usize::MAX, readable).await?;
    }
    ticking.abort();
    Ok(())
}

fn ask(mut fm: Fm) -> Result<(), Error> {
    let (tell, told) = mpsc::channel();
    fm.register(ANSWER, move |_, message| {
        let _ = tell.send(message.to_vec());
        Flow::Continue
    });
    for i in 0..QUESTIONS {
        let question = format!("question {i} ").repeat(1 + i % 100);
        fm.send(Peer(0), ASK, question.as_bytes())?;
        let mut answer = None;
        fm.wait(None, || {
            answer = told.try_recv().ok();
            answer.is_some()
        })?;
        assert_eq!(answer.as_deref(), Some(question.as_bytes()));
    }
    println!("{QUESTIONS} answers");
    Ok(fm.send(Peer(0), STOP, b"")?)
}

fn main() -> Result<(), Error> {
    let mut ranks = Job::threads(2)?.into_iter().map(|job| Fm::open(job, Config::default()));
    let (Some(server), Some(asker)) = (ranks.next(), ranks.next()) else {
        return Err("two were asked for".into());
    };
    let (server, asker) = (server?, asker?);
    std::thread::scope(|scope| {
        scope.spawn(move || ask(asker).expect("the server is there"));
        tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(serve(server))
    })
}
