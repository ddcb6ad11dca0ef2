//! Many operations and many clients: what tests cost, and what is kept.

use std::time::Duration;

use barewire::bmi::{Bmi, Buffer, Posted};

use crate::kit::{self, Pair, pattern, serve, wire};
use crate::on_both_wires;

on_both_wires! {
    testcontext_looks_at_what_has_ended_however_much_is_posted
    ten_thousand_sends_in_flight_all_arrive
}

/// How many operations are looked at to tell the ends of `ended` receives among `posted`.
fn looks(shm: bool, posted: i32, ended: i32) -> u64 {
    let pair = Pair::meet(shm);
    let Pair { server, client, .. } = &pair;
    let into = Buffer::new(8);
    for tag in 0..posted {
        kit::pending(server.0.post_recv(pair.to_client, &into, tag, tag as u64, server.1));
    }
    let before = server.0.looks();
    // Some of the last, so that a walk through all from the front would show.
    for tag in posted - ended..posted {
        client.0.post_send(pair.to_server, Buffer::new(8), tag, 0, client.1).unwrap();
    }
    let mut told = 0;
    while told < ended {
        for completion in server.0.testcontext(3, kit::SOON, server.1).unwrap() {
            assert_eq!(completion.outcome, Ok(8));
            assert_eq!(completion.user, (posted - ended + told) as u64, "in the order in which they ended");
            told += 1;
        }
    }
    // Tests that find nothing look at nothing.
    for _ in 0..100 {
        assert!(server.0.testcontext(3, Duration::ZERO, server.1).unwrap().is_empty());
    }
    server.0.looks() - before
}

fn testcontext_looks_at_what_has_ended_however_much_is_posted(shm: bool) {
    let few = looks(shm, 20, 10);
    assert_eq!(looks(shm, 10_000, 10), few, "posting more costs tests nothing");
    assert_eq!(looks(shm, 10_000, 100), few * 10, "what has ended costs what it costs");
    assert!(few <= 2 * 10, "once when it ends, once when that is told: {few}");
}

fn ten_thousand_sends_in_flight_all_arrive(shm: bool) {
    const COUNT: i32 = 10_000;
    let pair = Pair::meet(shm);
    let Pair { server, client, .. } = &pair;
    // Far more than goes without being asked for, so nearly all of them are under way at once.
    let out = pattern(17 << 10, 5);
    let mut under_way = 0;
    for tag in 0..COUNT {
        let posted = client.0.post_send(pair.to_server, &out, tag, tag as u64, client.1).unwrap();
        under_way += i32::from(matches!(posted, Posted::Pending(_)));
    }
    assert!(under_way > COUNT * 9 / 10, "{under_way}");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let before = client.0.looks();
            let mut left = under_way;
            while left > 0 {
                left -= client.0.testcontext(64, kit::SOON, client.1).unwrap().len() as i32;
            }
            assert_eq!(client.0.looks() - before, 2 * under_way as u64);
        });
        let into = Buffer::new(17 << 10);
        let mut left = 0;
        for tag in (0..COUNT).rev() {
            let posted = server.0.post_recv(pair.to_client, &into, tag, 0, server.1).unwrap();
            left += i32::from(matches!(posted, Posted::Pending(_)));
        }
        while left > 0 {
            for completion in server.0.testcontext(64, kit::SOON, server.1).unwrap() {
                assert_eq!(completion.outcome, Ok(17 << 10));
                left -= 1;
            }
        }
    });
}

#[test]
fn a_server_forgets_clients_that_left_long_ago() {
    let (server, url) = serve(wire(true));
    let mut first = None;
    for _ in 0..1100 {
        let client = Bmi::initialize(wire(true)).unwrap();
        let (context, to) = (client.open_context().unwrap(), client.addr_lookup(&url).unwrap());
        client.post_sendunexpected(to, Buffer::from(b"hi"), 0, 0, 0, context).unwrap();
        let from = kit::next_unexpected(&server, 0).from;
        first.get_or_insert(from);
    }
    let _ = server.testunexpected(1, 0, kit::SOON).unwrap();
    assert!(server.addr_rev_lookup_unexpected(first.unwrap()).is_err());
}
