//! Two ranks greet each other: a handler, a send, an extract.

use std::sync::mpsc;

use barewire::core::{Config, job::Job};
use barewire::fm::{Flow, Fm, Handler, Peer};

const HELLO: Handler = Handler(1);

fn rank_main(mut fm: Fm) -> Result<(), Box<dyn std::error::Error>> {
    let (tell, told) = mpsc::channel();
    fm.register(HELLO, move |context, message| {
        let text = String::from_utf8_lossy(&message.to_vec()).into_owned();
        println!("rank {} hears from rank {}: {text}", context.me(), message.from());
        let _ = tell.send(());
        Flow::Continue
    });
    let other = Peer(1 - fm.me().0);
    fm.send(other, HELLO, format!("hello, rank {other}").as_bytes())?;
    fm.wait(None, || told.try_recv().is_ok())?;
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ranks = Job::threads(2)?.into_iter().map(|job| Fm::open(job, Config::default()));
    let ranks = ranks.collect::<Result<Vec<_>, _>>()?;
    std::thread::scope(|scope| {
        for fm in ranks {
            scope.spawn(move || rank_main(fm).expect("both ranks are there"));
        }
    });
    Ok(())
}
