//! Two threads play ping-pong with active messages: each message runs a handler, and the handler's reply runs another.

use std::time::Instant;

use barewire::am::{Name, Node, Tag};
use barewire::core::{Config, Endpoint, Peer, job::Job};

const ROUNDS: u64 = 100_000;
const PING: u8 = 1;
const PONG: u8 = 2;
const STOP: u8 = 3;

fn player(job: Job) {
    // The state: how many pongs came back, or u64::MAX once the game is over.
    let mut node = Node::new(Endpoint::open(job, Config::default()).expect("an endpoint"), 0u64);
    let bundle = node.allocate_bundle().expect("the first bundle");
    let ep = node.allocate_endpoint(bundle).expect("the first endpoint");
    let me = node.name(ep);
    let other = Name { peer: Peer(1 - me.peer.0), ..me };
    node.set_tag(ep, Tag(1)).expect("our endpoint");
    node.map(ep, 0, other, Tag(1)).expect("translation 0 is free");
    node.set_handler(ep, PING, |ctx, args| ctx.reply(PONG, args).expect("the only reply"))
        .expect("our endpoint");
    node.set_handler(ep, PONG, |ctx, args| *ctx.state = args[0]).expect("our endpoint");
    node.set_handler(ep, STOP, |ctx, _| *ctx.state = u64::MAX).expect("our endpoint");

    if me.peer == Peer(0) {
        let start = Instant::now();
        for round in 1..=ROUNDS {
            node.request(ep, 0, PING, &[round]).expect("the other is there");
            node.wait(bundle, None, |pongs| *pongs == round).expect("no time limit");
        }
        let each = start.elapsed().as_nanos() as u64 / ROUNDS / 2;
        println!("{ROUNDS} rounds, {each} ns one way");
        node.request(ep, 0, STOP, &[]).expect("the other is there");
    } else {
        node.wait(bundle, None, |state| *state == u64::MAX).expect("no time limit");
    }
}

fn main() {
    let jobs = Job::threads(2).expect("two threads");
    let players: Vec<_> = jobs.into_iter().map(|job| std::thread::spawn(move || player(job))).collect();
    players.into_iter().for_each(|player| player.join().expect("a player"));
}
