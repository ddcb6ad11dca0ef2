//! A work queue: workers ask for work, the master's handler answers from its state, and nobody waits for anybody in a handler.

use std::collections::VecDeque;

use barewire::am::{Name, Node, Tag};
use barewire::core::{Config, Endpoint, Peer, job::Job};

const WORKERS: u32 = 3;
const ASK: u8 = 1;
const WORK: u8 = 2;
const STOP: u8 = 3;

#[derive(Default)]
struct State {
    /// The master's: what is left to do, the sum of the results, and how many workers have gone.
    queue: VecDeque<u64>,
    sum: u64,
    gone: u32,
    /// A worker's: what it is to do now, and whether there is no more.
    task: Option<u64>,
    stop: bool,
}

fn node(job: Job) -> Result<(), Box<dyn std::error::Error>> {
    let mut node = Node::new(Endpoint::open(job, Config::default())?, State::default());
    let bundle = node.allocate_bundle()?;
    let ep = node.allocate_endpoint(bundle)?;
    let me = node.name(ep);
    node.set_tag(ep, Tag(7))?;
    node.map(ep, 0, Name { peer: Peer(0), ..me }, Tag(7))?;

    // At the master: take the result of the last task, and reply with the next.
    node.set_handler(ep, ASK, |ctx, args| {
        ctx.state.sum += args[0];
        let replied = match ctx.state.queue.pop_front() {
            Some(task) => ctx.reply(WORK, &[task]),
            None => {
                ctx.state.gone += 1;
                ctx.reply(STOP, &[])
            }
        };
        replied.expect("the first reply to a request");
    })?;
    // At a worker.
    node.set_handler(ep, WORK, |ctx, args| ctx.state.task = Some(args[0]))?;
    node.set_handler(ep, STOP, |ctx, _| ctx.state.stop = true)?;

    if me.peer == Peer(0) {
        node.state_mut().queue = (1..=1000).collect();
        node.wait(bundle, None, |state| state.gone == WORKERS)?;
        println!("the squares of 1 to 1000 add up to {}", node.state().sum);
        assert_eq!(node.state().sum, 333_833_500);
        return Ok(());
    }
    let mut result = 0;
    loop {
        node.request(ep, 0, ASK, &[result])?;
        node.wait(bundle, None, |state| state.task.is_some() || state.stop)?;
        match node.state_mut().task.take() {
            Some(task) => result = task * task,
            None => return Ok(()),
        }
    }
}

fn main() {
    let jobs = Job::threads(1 + WORKERS).expect("a master and its workers");
    let nodes: Vec<_> = jobs
        .into_iter()
        .map(|job| std::thread::spawn(move || node(job).expect("nothing goes wrong in one process")))
        .collect();
    nodes.into_iter().for_each(|node| node.join().expect("a node"));
}
