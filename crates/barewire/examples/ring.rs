//! A parallel program: every rank greets the next and hears from the one before. `barewire run -n 4 target/debug/examples/ring`

use barewire::core::{Config, Deliver, Endpoint, Flow, Incoming, Peer, Port, SendError, boot};

const GREETING: Port = Port(1);

/// The greeting, once it has come.
#[derive(Default)]
struct Heard(Option<(Peer, String)>);

impl Deliver for Heard {
    fn deliver(&mut self, _: &mut Endpoint, mut packet: Incoming<'_>) -> Flow {
        self.0 = Some((packet.from, String::from_utf8_lossy(&packet.to_vec()).into_owned()));
        Flow::Continue
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Our launcher, another MPI's, Slurm, or nobody: the job is found by itself.
    let mut endpoint = Endpoint::open(boot::from_environment()?, Config::default())?;
    let (me, size) = (endpoint.me(), endpoint.size());
    let next = Peer((me.0 + 1) % size);
    let mut heard = Heard::default();
    // The first message connects; until there is room for it, make progress.
    while let Err(error) = endpoint.send(next, GREETING, 0, format!("hello, rank {next}").as_bytes()) {
        match error {
            SendError::Full => endpoint.progress(&mut heard, usize::MAX),
            error => return Err(error.into()),
        };
    }
    endpoint.wait(&mut heard, None, |_, heard| heard.0.is_some())?;
    let (from, text) = heard.0.ok_or("nothing was heard")?;
    let wire = endpoint.wire_choice(next).unwrap_or_default();
    println!("rank {me} of {size} heard {text:?} from rank {from}, and reaches rank {next} by {wire}");
    Ok(())
}
