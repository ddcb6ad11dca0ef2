//! Peers that die, handles that are stale, and everything else that must be an error and have no effect.

use std::thread;
use std::time::Duration;

use barewire::bmi::{Addr, Bmi, Buffer, ContextId, Error, Failure, OpId, Posted, Query, Setting};
use barewire::core::job::JobKey;

use crate::kit::{self, Pair, SOON, end_of, pattern, serve, wire};
use crate::on_both_wires;

on_both_wires! {
    a_dead_peer_fails_its_own_operations_and_no_others
    a_restarted_server_is_found_again
    a_receive_after_an_unseen_loss_fails_once
    a_message_longer_than_its_receive_is_an_error
}

fn a_dead_peer_fails_its_own_operations_and_no_others(shm: bool) {
    let (server, url) = serve(wire(shm));
    let victim = Pair::join(server.clone(), &url, shm);
    let other = Pair::join(server.clone(), &url, shm);
    let context = server.open_context().unwrap();
    let into = Buffer::new(1 << 20);
    let doomed = [
        kit::pending(server.post_recv(victim.to_client, &into, 1, 0, context)),
        kit::pending(server.post_send(victim.to_client, pattern(1 << 20, 1), 2, 0, context)),
    ];
    let safe = kit::pending(server.post_recv(other.to_client, &into, 1, 0, context));
    drop(victim.client);
    for op in doomed {
        assert_eq!(end_of(&(server.clone(), context), Posted::Pending(op)).outcome, Err(Failure::Lost));
    }
    let late = server.post_send(victim.to_client, Buffer::new(1), 2, 0, context);
    assert!(matches!(late, Err(Error::Failed(Failure::Lost))), "it called us, so nobody can call it");
    assert!(matches!(
        server.post_recv(victim.to_client, &into, 2, 0, context),
        Err(Error::Failed(Failure::Lost))
    ));
    assert_eq!(server.test(safe, Duration::ZERO, context).unwrap(), None);
    other.client.0.post_send(other.to_server, Buffer::new(5), 1, 0, other.client.1).unwrap();
    assert_eq!(end_of(&(server.clone(), context), Posted::Pending(safe)).outcome, Ok(5));
    server.set_info(Setting::DropAddr(victim.to_client)).unwrap();
    assert!(matches!(
        server.post_send(victim.to_client, Buffer::new(1), 2, 0, context),
        Err(Error::NoSuchAddr)
    ));
}

fn a_restarted_server_is_found_again(shm: bool) {
    let Pair { server, client, to_server, .. } = Pair::meet(shm);
    let url = client.0.addr_rev_lookup(to_server).unwrap().unwrap();
    let into = Buffer::new(100);
    let waiting = kit::pending(client.0.post_recv(to_server, &into, 1, 0, client.1));
    drop(server);
    assert_eq!(end_of(&client, Posted::Pending(waiting)).outcome, Err(Failure::Lost));
    // While nobody is there, everything fails and nothing hangs.
    for _ in 0..3 {
        match client.0.post_sendunexpected(to_server, Buffer::from(b"?"), 0, 0, 0, client.1) {
            Ok(posted) => assert_eq!(end_of(&client, posted).outcome, Err(Failure::Unreachable)),
            Err(error) => assert!(matches!(error, Error::Failed(Failure::Unreachable)), "{error}"),
        }
    }

    let server = Bmi::initialize(wire(shm).listen(&url)).unwrap();
    let context = server.open_context().unwrap();
    let answer = kit::pending(client.0.post_recv(to_server, &into, 1, 0, client.1));
    let request = client.0.post_sendunexpected(to_server, Buffer::from(b"again"), 1, 0, 0, client.1).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let request = kit::next_unexpected(&server, 0);
            server.post_send(request.from, Buffer::from(&request.bytes[..]), 1, 0, context).unwrap();
        });
        end_of(&client, request);
        assert_eq!(end_of(&client, Posted::Pending(answer)).outcome, Ok(5));
    });
    assert_eq!(&into.to_vec()[..5], b"again");
}

fn a_receive_after_an_unseen_loss_fails_once(shm: bool) {
    let Pair { server, client, to_server, .. } = Pair::meet(shm);
    drop(server);
    // Long enough for the news to come in.
    for _ in 0..20 {
        client.0.testcontext(1, Duration::from_millis(20), client.1).unwrap();
    }
    let into = Buffer::new(100);
    let first = client.0.post_recv(to_server, &into, 1, 0, client.1);
    assert!(
        matches!(first, Err(Error::Failed(Failure::Lost))),
        "whoever sent a request would wait for ever: {first:?}"
    );
    let second = kit::pending(client.0.post_recv(to_server, &into, 1, 0, client.1));
    assert_eq!(end_of(&client, Posted::Pending(second)).outcome, Err(Failure::Unreachable));
}

fn a_message_longer_than_its_receive_is_an_error(shm: bool) {
    let pair = Pair::meet(shm);
    let Pair { server, client, .. } = &pair;
    for len in [100, 1 << 20] {
        let receive = kit::pending(server.0.post_recv(pair.to_client, Buffer::new(99), 1, 0, server.1));
        let send = client.0.post_send(pair.to_server, Buffer::new(len), 1, 0, client.1).unwrap();
        assert_eq!(kit::both(server, receive, client).outcome, Err(Failure::TooLong));
        if let Posted::Pending(send) = send {
            assert!(kit::both(client, send, server).outcome.is_ok(), "completion is local");
        }
    }
}

#[test]
fn whoever_holds_another_key_is_not_served() {
    let (server, url) = serve(wire(true).key(JobKey([1; 32])));
    let client = Bmi::initialize(wire(true).key(JobKey([2; 32]))).unwrap();
    let (context, to) = (client.open_context().unwrap(), client.addr_lookup(&url).unwrap());
    let send = client.post_sendunexpected(to, Buffer::from(b"let me in"), 0, 0, 0, context).unwrap();
    thread::scope(|scope| {
        let heard = scope.spawn(|| server.testunexpected(1, 0, SOON).unwrap().len());
        assert_eq!(end_of(&(client.clone(), context), send).outcome, Err(Failure::Unreachable));
        assert_eq!(heard.join().unwrap(), 0);
    });
}

#[test]
fn stale_and_foreign_handles_name_nothing() {
    let pair = Pair::meet(true);
    let (bmi, context) = (&pair.client.0, pair.client.1);
    let other = bmi.open_context().unwrap();
    let into = Buffer::new(8);
    let op = kit::pending(bmi.post_recv(pair.to_server, &into, 1, 0, context));
    assert!(matches!(bmi.test(op, SOON, other), Err(Error::NoSuchOp)), "it was posted elsewhere");
    assert!(matches!(bmi.cancel(op, other), Err(Error::NoSuchOp)));
    assert!(matches!(bmi.testsome(&[op, OpId::from_raw(77)], SOON, context), Err(Error::NoSuchOp)));
    for wrong in [-1, 0, 1 << 40, i64::MAX, i64::MIN] {
        assert!(matches!(bmi.test(OpId::from_raw(wrong), SOON, context), Err(Error::NoSuchOp)));
        let nowhere = ContextId::from_raw(wrong);
        assert!(matches!(bmi.testcontext(1, SOON, nowhere), Err(Error::NoSuchContext)));
        assert!(matches!(bmi.close_context(nowhere), Err(Error::NoSuchContext)));
        assert!(matches!(bmi.post_send(Addr::from_raw(wrong), &into, 0, 0, context), Err(Error::NoSuchAddr)));
        assert!(matches!(bmi.post_recv(Addr::from_raw(wrong), &into, 0, 0, context), Err(Error::NoSuchAddr)));
        assert!(matches!(bmi.set_info(Setting::DecRef(Addr::from_raw(wrong))), Err(Error::NoSuchAddr)));
    }
    assert!(matches!(bmi.set_info(Setting::DecRef(pair.to_server)), Err(Error::Invalid(_))));
    bmi.close_context(context).unwrap();
    assert!(matches!(bmi.close_context(context), Err(Error::NoSuchContext)), "closed twice");
    assert!(matches!(bmi.test(op, SOON, context), Err(Error::NoSuchContext)), "used after it was closed");
    assert!(matches!(bmi.post_recv(pair.to_server, &into, 1, 0, context), Err(Error::NoSuchContext)));
    let again = bmi.open_context().unwrap();
    assert_ne!(again, context, "a name is not used twice");
    assert!(matches!(bmi.test(op, SOON, again), Err(Error::NoSuchOp)));
}

#[test]
fn what_cannot_be_is_refused() {
    let bmi = Bmi::initialize(wire(true)).unwrap();
    let context = bmi.open_context().unwrap();
    let to = bmi.addr_lookup("tcp://127.0.0.1:1").unwrap();
    let long = bmi.post_sendunexpected(to, Buffer::new((16 << 10) + 1), 0, 0, 0, context);
    assert!(matches!(long, Err(Error::TooLong { len: 16385, max: 16384 })));
    for url in [
        "",
        "tcp://",
        "tcp://:80",
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:99999",
        "gm://a:1",
        "127.0.0.1:80",
        ",,",
    ] {
        assert!(matches!(bmi.addr_lookup(url), Err(Error::Address(_))), "{url:?}");
    }
    let (taken, url) = serve(wire(true));
    assert!(
        matches!(Bmi::initialize(wire(true).listen(&url)), Err(Error::Address(_))),
        "somebody listens there"
    );
    drop(taken);
}

#[test]
fn a_thread_that_waits_hears_of_the_end() {
    let bmi = Bmi::initialize(wire(true)).unwrap();
    let (context, closed) = (bmi.open_context().unwrap(), bmi.open_context().unwrap());
    let hour = Duration::from_secs(3600);
    thread::scope(|scope| {
        let inside = scope.spawn(|| bmi.testcontext(1, hour, closed));
        let asking = scope.spawn(|| bmi.testunexpected(1, 0, hour));
        thread::sleep(Duration::from_millis(50));
        bmi.close_context(closed).unwrap();
        assert!(matches!(inside.join().unwrap(), Err(Error::NoSuchContext)));
        bmi.clone().finalize();
        assert!(matches!(asking.join().unwrap(), Err(Error::Finalized)));
    });
    assert!(matches!(bmi.testcontext(1, SOON, context), Err(Error::Finalized)));
    assert!(matches!(bmi.open_context(), Err(Error::Finalized)));
    assert!(matches!(bmi.get_info(Query::Initialized), Err(Error::Finalized)));
    assert!(matches!(bmi.addr_lookup("tcp://127.0.0.1:2"), Err(Error::Finalized)));
}

#[test]
fn a_host_on_two_networks_is_reached_over_the_one_that_works() {
    let (server, url) = serve(wire(false));
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let pair = Pair::join(server, &format!("tcp://{closed},{url}"), false);
    assert_eq!(pair.client.0.testcontext(1, Duration::ZERO, pair.client.1).unwrap(), []);
}
