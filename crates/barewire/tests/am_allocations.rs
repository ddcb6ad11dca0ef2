//! A short message allocates nothing: neither to send, nor to handle, nor to reply to it.

use barewire::am::{Name, Node, Simple, Tag};
use barewire::core::{Config, Endpoint, Peer, job::Job};
use barewire_sys::counting::Counting;

#[global_allocator]
static COUNTING: Counting = Counting::new();

/// Allocations that `body` makes.
fn count(body: impl FnOnce()) -> u64 {
    COUNTING.during(body)
}

/// Two nodes, both of this thread, so that nobody else allocates meanwhile.
fn pair() -> [Endpoint; 2] {
    let mut jobs = Job::threads(2).unwrap().into_iter();
    [(); 2].map(|()| Endpoint::open(jobs.next().unwrap(), Config::default()).unwrap())
}

// One test in this program: another thread's test would be counted too.
#[test]
fn a_short_message_allocates_nothing() {
    assert!(count(|| drop(std::hint::black_box(vec![1]))) > 0, "the counter counts");

    let mut nodes = pair().map(|core| {
        let mut node = Node::new(core, 0u64);
        let bundle = node.allocate_bundle().unwrap();
        let ep = node.allocate_endpoint(bundle).unwrap();
        node.set_tag(ep, Tag(3)).unwrap();
        node.set_handler(ep, 1, |ctx, args| ctx.reply(2, args).unwrap()).unwrap();
        node.set_handler(ep, 2, |ctx, _| *ctx.state += 1).unwrap();
        node.set_handler(ep, 3, |ctx, _| *ctx.state += 1).unwrap();
        let other = Name { peer: Peer(1 - node.name(ep).peer.0), ..node.name(ep) };
        node.map(ep, 0, other, Tag(3)).unwrap();
        (node, bundle, ep)
    });
    let mut play = |rounds: u64| {
        for round in 0..rounds {
            for (node, bundle, ep) in &mut nodes {
                // Refused at first, until the wire is there, and when credit ends: then it is for the other to poll.
                let _ = node.try_request(*ep, 0, 1, &[round; 8]);
                let _ = node.try_request(*ep, 0, 3, &[round]);
                node.poll(*bundle);
            }
        }
        nodes.iter().map(|(node, ..)| *node.state()).sum::<u64>()
    };
    let before = play(2000);
    let mut after = 0;
    assert_eq!(count(|| after = play(2000)), 0);
    assert!(after >= before + 7000, "messages went through: {before}, then {after}");

    let mut simple = pair().map(|core| {
        let mut am = Simple::new(core, 0u64);
        am.set_handler(1, |call, args| call.reply(2, args).unwrap());
        am.set_handler(2, |call, _| *call.state += 1);
        am
    });
    let mut play = |rounds: u64| {
        for round in 0..rounds {
            let [a, b] = &mut simple;
            if round == 0 {
                // A request waits for room in the wire, and for that the other, which has the wire only after a while, has to poll.
                while *a.state() == 0 {
                    let _ = a.try_request(Peer(1), 1, &[]);
                    let _ = (b.poll(), a.poll());
                }
                while b.poll() + a.poll() > 0 {}
            }
            a.request(Peer(1), 1, &[round; 7]).unwrap();
            b.poll();
            a.poll();
        }
        *simple[0].state()
    };
    let before = play(2000);
    assert_eq!(count(|| after = play(2000)), 0);
    assert!(after >= before + 2000, "messages went through: {before}, then {after}");
}
