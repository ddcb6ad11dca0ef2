//! BMI as its users know it, over shared memory and over TCP.

mod failures;
mod kit;
mod scale;

use std::thread;
use std::time::Duration;

use barewire::bmi::{Addr, Answer, Bmi, Buffer, Completion, ContextId, Failure, Posted, Query, Setting};

use kit::{Pair, SOON, end_of, pattern, same, wire};

/// Makes a test of each property for each wire.
#[macro_export]
macro_rules! on_both_wires {
    ($($property:ident)*) => {
        mod tcp { $(#[test] fn $property() { super::$property(false) })* }
        mod shm { $(#[test] fn $property() { super::$property(true) })* }
    };
}

on_both_wires! {
    small_sends_complete_at_once_and_long_ones_are_tested
    a_receive_whose_message_is_here_completes_at_once
    lists_are_one_message_on_either_side
    classes_keep_unexpected_messages_apart
    testsome_tells_places_and_leaves_the_others
    contexts_keep_threads_apart
    a_test_returns_early_when_an_unexpected_message_waits
    more_unexpected_messages_than_credit_all_arrive
    cancelling_takes_effect_at_every_stage
    memory_of_ours_is_sent_received_and_used_again
}

fn small_sends_complete_at_once_and_long_ones_are_tested(shm: bool) {
    let pair = Pair::meet(shm);
    let Pair { server, client, .. } = &pair;
    let bytes = pattern(100, 1);
    assert_eq!(client.0.post_send(pair.to_server, &bytes, 1, 0, client.1).unwrap(), Posted::Done(100));
    let into = Buffer::new(100);
    let receive = server.0.post_recv(pair.to_client, &into, 1, 11, server.1).unwrap();
    assert_eq!(end_of(server, receive).outcome, Ok(100));
    same(&into, &bytes);

    // No message of this length is sent before its receive is there.
    let long = pattern(3 << 20, 2);
    let Posted::Pending(send) = client.0.post_send(pair.to_server, &long, -2, 22, client.1).unwrap() else {
        panic!("too long for that")
    };
    assert_eq!(client.0.test(send, Duration::ZERO, client.1).unwrap(), None);
    let into = Buffer::new(4 << 20);
    let receive = server.0.post_recv(pair.to_client, &into, -2, 33, server.1).unwrap();
    let ended = thread::scope(|scope| {
        let there = scope.spawn(|| end_of(server, receive));
        let sent = end_of(client, Posted::Pending(send));
        assert_eq!(sent, Completion { op: send, outcome: Ok(3 << 20), user: 22 });
        there.join().unwrap()
    });
    assert_eq!((ended.outcome, ended.user), (Ok(3 << 20), 33));
    same(&into.slice(0, 3 << 20), &long);
}

fn a_receive_whose_message_is_here_completes_at_once(shm: bool) {
    let pair = Pair::meet(shm);
    let Pair { server, client, .. } = &pair;
    for tag in [5, 6] {
        client.0.post_send(pair.to_server, pattern(300, tag as u8), tag, 0, client.1).unwrap();
    }
    // When the second has come, so has the first.
    let into = Buffer::new(300);
    end_of(server, server.0.post_recv(pair.to_client, &into, 6, 0, server.1).unwrap());
    let into = Buffer::new(1000);
    assert_eq!(server.0.post_recv(pair.to_client, &into, 5, 0, server.1).unwrap(), Posted::Done(300));
    same(&into.slice(0, 300), &pattern(300, 5));
}

fn lists_are_one_message_on_either_side(shm: bool) {
    let pair = Pair::meet(shm);
    let Pair { server, client, .. } = &pair;
    for len in [200usize, 9_000, 300_000, 3_000_000] {
        let whole = pattern(len, 9);
        let out = [whole.slice(0, len / 3), whole.slice(len / 3, 0), whole.slice(len / 3, len)];
        let inn = [1, len / 2, len].map(Buffer::new);
        let receive = server.0.post_recv_list(pair.to_client, &inn, 3, 0, server.1).unwrap();
        let send = client.0.post_send_list(pair.to_server, &out, 3, 0, client.1).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| assert_eq!(end_of(client, send).outcome, Ok(len as u64)));
            assert_eq!(end_of(server, receive).outcome, Ok(len as u64));
        });
        let got: Vec<u8> = inn.iter().flat_map(Buffer::to_vec).take(len).collect();
        assert_eq!(got, whole.to_vec());
    }
    let parts = [Buffer::from(b"to"), Buffer::from(b"get"), Buffer::from(b"her")];
    client.0.post_sendunexpected_list(pair.to_server, &parts, 8, 0, 0, client.1).unwrap();
    let message = kit::next_unexpected(&server.0, 0);
    assert_eq!((&message.bytes[..], message.tag), (&b"together"[..], 8));
}

fn memory_of_ours_is_sent_received_and_used_again(shm: bool) {
    const LEN: usize = 200_000;
    let pair = Pair::meet(shm);
    let Pair { server, client, .. } = &pair;
    let mut places = std::collections::HashSet::new();
    for round in 0..40u8 {
        let out = client.0.memalloc(LEN);
        assert_eq!((out.len(), out.address() % 64), (LEN, 0));
        assert_eq!(out.write(&pattern(LEN, round).to_vec()), LEN);
        places.insert(out.address());
        let inn = [LEN / 3, 10, LEN].map(|len| server.0.memalloc(len));
        let receive = server.0.post_recv_list(pair.to_client, &inn, 3, 0, server.1).unwrap();
        let send = client.0.post_send(pair.to_server, out.slice(100, LEN), 3, 0, client.1).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| assert_eq!(end_of(client, send).outcome, Ok(LEN as u64 - 100)));
            assert_eq!(end_of(server, receive).outcome, Ok(LEN as u64 - 100));
        });
        let got: Vec<u8> = inn.iter().flat_map(Buffer::to_vec).take(LEN - 100).collect();
        assert!(got == pattern(LEN, round).to_vec()[100..], "every byte is where it was");
        client.0.memfree(out);
    }
    if shm {
        assert_eq!(places.len(), 1, "what was given back is given out again");
    }
}

fn classes_keep_unexpected_messages_apart(shm: bool) {
    let pair = Pair::meet(shm);
    let Pair { server, client, .. } = &pair;
    for class in [3, 255, 3] {
        let bytes = Buffer::from(&[class; 4]);
        client.0.post_sendunexpected(pair.to_server, bytes, i32::MIN, class, 0, client.1).unwrap();
    }
    assert_eq!(kit::next_unexpected(&server.0, 255).bytes, [255; 4]);
    assert!(server.0.testunexpected(5, 0, Duration::ZERO).unwrap().is_empty(), "none of class 0 was sent");
    for _ in 0..2 {
        let message = kit::next_unexpected(&server.0, 3);
        assert_eq!((message.from, message.tag, message.class), (pair.to_client, i32::MIN, 3));
        server.0.unexpected_free(message);
    }
    let longest = Buffer::new(16 << 10);
    client.0.post_sendunexpected(pair.to_server, longest, 0, 0, 0, client.1).unwrap();
    client.0.testcontext(1, Duration::from_millis(1), client.1).unwrap();
    assert_eq!(kit::next_unexpected(&server.0, 0).bytes.len(), 16 << 10);
}

fn testsome_tells_places_and_leaves_the_others(shm: bool) {
    let pair = Pair::meet(shm);
    let Pair { server, client, .. } = &pair;
    let into = Buffer::new(8);
    let ops: Vec<_> = (0..4)
        .map(|tag| kit::pending(server.0.post_recv(pair.to_client, &into, tag, 100 + tag as u64, server.1)))
        .collect();
    client.0.post_send(pair.to_server, Buffer::new(8), 2, 0, client.1).unwrap();
    let mut found = Vec::new();
    while found.is_empty() {
        found = server.0.testsome(&ops, SOON, server.1).unwrap();
    }
    assert_eq!(found, [(2, Completion { op: ops[2], outcome: Ok(8), user: 102 })]);
    assert_eq!(server.0.pending(server.1), 3);
    client.0.post_send(pair.to_server, Buffer::new(8), 0, 0, client.1).unwrap();
    assert_eq!(kit::one_end(&server.0, server.1).user, 100);
}

fn contexts_keep_threads_apart(shm: bool) {
    const ROUNDS: u64 = 40;
    let pair = Pair::meet(shm);
    thread::scope(|scope| {
        for who in 0..3u64 {
            let pair = &pair;
            scope.spawn(move || exchange(&pair.client.0, pair.to_server, who, ROUNDS));
            scope.spawn(move || exchange(&pair.server.0, pair.to_client, who, ROUNDS));
        }
    });
}

/// Sends and receives messages of many lengths with tag `who`; only ends of its own context are ever told.
fn exchange(bmi: &Bmi, to: Addr, who: u64, rounds: u64) {
    let context = bmi.open_context().unwrap();
    for round in 0..rounds {
        let len = [10, 5_000, 40_000, 200_000][round as usize % 4];
        let (out, into) = (pattern(len, round as u8), Buffer::new(len));
        let user = who << 32 | round;
        let mut left = 0;
        for posted in [
            bmi.post_recv(to, &into, who as i32, user, context).unwrap(),
            bmi.post_send(to, &out, who as i32, user, context).unwrap(),
        ] {
            left += u64::from(matches!(posted, Posted::Pending(_)));
        }
        while left > 0 {
            for ended in bmi.testcontext(4, SOON, context).unwrap() {
                assert_eq!((ended.user, ended.outcome), (user, Ok(len as u64)));
                left -= 1;
            }
        }
        same(&into, &out);
    }
    bmi.close_context(context).unwrap();
}

fn a_test_returns_early_when_an_unexpected_message_waits(shm: bool) {
    let pair = Pair::meet(shm);
    let Pair { server, client, .. } = &pair;
    let into = Buffer::new(8);
    let _never = kit::pending(server.0.post_recv(pair.to_client, &into, 1, 0, server.1));
    client.0.post_sendunexpected(pair.to_server, Buffer::from(b"hello"), 0, 7, 0, client.1).unwrap();
    // Without the message this would take an hour.
    assert!(server.0.testcontext(1, Duration::from_secs(3600), server.1).unwrap().is_empty());
    assert_eq!(kit::next_unexpected(&server.0, 7).bytes, b"hello");
}

fn more_unexpected_messages_than_credit_all_arrive(shm: bool) {
    const COUNT: i32 = 300;
    let pair = Pair::meet(shm);
    let Pair { server, client, .. } = &pair;
    thread::scope(|scope| {
        scope.spawn(|| {
            // Far more than the megabyte that the server keeps of one peer, before it takes any.
            let mut open = 0;
            for tag in 0..COUNT {
                let bytes = pattern(16 << 10, tag as u8);
                let posted =
                    client.0.post_sendunexpected(pair.to_server, bytes, tag, 0, 0, client.1).unwrap();
                open += usize::from(matches!(posted, Posted::Pending(_)));
            }
            while open > 0 {
                open -= client.0.testcontext(64, SOON, client.1).unwrap().len();
            }
        });
        thread::sleep(Duration::from_millis(30));
        for tag in 0..COUNT {
            let message = kit::next_unexpected(&server.0, 0);
            assert_eq!(message.tag, tag, "in the order in which they were sent");
            assert_eq!(message.bytes, pattern(16 << 10, tag as u8).to_vec());
        }
    });
}

fn cancelling_takes_effect_at_every_stage(shm: bool) {
    const LEN: usize = 32 << 20;
    let pair = Pair::meet(shm);
    let Pair { server, client, .. } = &pair;
    let cancelled = |(bmi, context): &(Bmi, ContextId), op| {
        bmi.cancel(op, *context).unwrap();
        bmi.cancel(op, *context).unwrap();
        assert_eq!(end_of(&(bmi.clone(), *context), Posted::Pending(op)).outcome, Err(Failure::Cancelled));
        assert!(bmi.cancel(op, *context).is_err(), "its end was told");
    };
    // A receive that nothing was sent to.
    let into = Buffer::new(LEN);
    let receive = kit::pending(server.0.post_recv(pair.to_client, &into, 1, 0, server.1));
    cancelled(server, receive);
    // A send that nobody receives; who then tries finds it cancelled.
    let out = pattern(LEN, 3);
    let send = kit::pending(client.0.post_send(pair.to_server, &out, 2, 0, client.1));
    cancelled(client, send);
    let receive = kit::pending(server.0.post_recv(pair.to_client, &into, 2, 0, server.1));
    assert_eq!(kit::both(server, receive, client).outcome, Err(Failure::Cancelled));
    // One that is half-way, at either side.
    for cancel_send in [false, true] {
        let send = kit::pending(client.0.post_send(pair.to_server, &out, 3, 0, client.1));
        let receive = kit::pending(server.0.post_recv(pair.to_client, &into, 3, 0, server.1));
        into.write(&[0; 4096]);
        while into.slice(1, 1).to_vec() == [0] {
            client.0.testcontext(0, Duration::ZERO, client.1).unwrap();
            server.0.testcontext(0, Duration::ZERO, server.1).unwrap();
        }
        if cancel_send {
            cancelled(client, send);
            assert_eq!(kit::both(server, receive, client).outcome, Err(Failure::Cancelled));
        } else {
            cancelled(server, receive);
            assert_eq!(kit::both(client, send, server).outcome, Ok(LEN as u64), "completion is local");
        }
    }
    // One that has completed stays so. The second message comes after the first.
    let receive = kit::pending(server.0.post_recv(pair.to_client, &into, 4, 0, server.1));
    let second = kit::pending(server.0.post_recv(pair.to_client, &into, 5, 0, server.1));
    for tag in [4, 5] {
        client.0.post_send(pair.to_server, Buffer::new(9), tag, 0, client.1).unwrap();
    }
    end_of(server, Posted::Pending(second));
    server.0.cancel(receive, server.1).unwrap();
    assert_eq!(end_of(server, Posted::Pending(receive)).outcome, Ok(9));
}

#[test]
fn one_can_send_to_oneself() {
    let (bmi, url) = kit::serve(wire(true));
    let context = bmi.open_context().unwrap();
    let me = bmi.addr_lookup(&url).unwrap();
    assert_eq!(bmi.addr_lookup(&url).unwrap(), me);
    for len in [10, 1 << 20] {
        let (out, into) = (pattern(len, 4), Buffer::new(len));
        let receive = bmi.post_recv(me, &into, 1, 0, context).unwrap();
        let send = bmi.post_send(me, &out, 1, 0, context).unwrap();
        end_of(&(bmi.clone(), context), receive);
        end_of(&(bmi.clone(), context), send);
        same(&into, &out);
    }
    bmi.post_sendunexpected(me, Buffer::from(b"note"), 5, 0, 0, context).unwrap();
    let note = kit::next_unexpected(&bmi, 0);
    assert_eq!((note.from, &note.bytes[..]), (me, &b"note"[..]));
}

#[test]
fn a_send_to_oneself_wakes_a_thread_that_sleeps_for_it() {
    let (bmi, url) = kit::serve(wire(true));
    let (context, me) = (bmi.open_context().unwrap(), bmi.addr_lookup(&url).unwrap());
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| kit::next_unexpected(&bmi, 0));
        thread::sleep(Duration::from_millis(50));
        bmi.post_sendunexpected(me, Buffer::from(b"up"), 0, 0, 0, context).unwrap();
        assert_eq!(sleeper.join().unwrap().bytes, b"up");
    });
}

#[test]
fn questions_are_answered_and_addresses_turn_back_into_urls() {
    let pair = Pair::meet(false);
    let (server, client) = (&pair.server.0, &pair.client.0);
    let port = server.port().unwrap();
    assert_eq!(server.get_info(Query::Port).unwrap(), Answer::Number(port.into()));
    assert!(client.get_info(Query::Port).is_err(), "it does not listen");
    assert_eq!(client.get_info(Query::Methods).unwrap(), Answer::Text("bmi_tcp".into()));
    let url = format!("tcp://127.0.0.1:{port}");
    assert_eq!(client.addr_rev_lookup(pair.to_server).unwrap(), Some(url.clone()));
    assert_eq!(server.addr_rev_lookup(pair.to_client).unwrap(), None, "it was never looked up");
    assert!(server.addr_rev_lookup_unexpected(pair.to_client).unwrap().starts_with("tcp://127.0.0.1:"));
    assert!(server.query_addr_range(pair.to_client, "tcp://127.1.2.3", 8).unwrap());
    assert!(!server.query_addr_range(pair.to_client, "tcp://127.1.2.3", 16).unwrap());
    client.set_info(Setting::IncRef(pair.to_server)).unwrap();
    client.set_info(Setting::IncRef(pair.to_server)).unwrap();
    client.set_info(Setting::DecRef(pair.to_server)).unwrap();
    assert!(client.addr_rev_lookup(pair.to_server).is_ok());
    client.set_info(Setting::DecRef(pair.to_server)).unwrap();
    assert!(client.addr_rev_lookup(pair.to_server).is_err(), "dropped with the last reference");
    assert_ne!(client.addr_lookup(&url).unwrap(), pair.to_server, "and found anew");
}
