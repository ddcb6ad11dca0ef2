//! Endpoints at large: servers that listen, clients that come and go, without a launcher.

use std::time::{Duration, Instant};

use barewire_core::at_large::AddressError;
use barewire_core::job::{Job, JobKey};
use barewire_core::region::Memory;
use barewire_core::tagged::{Envelope, Failure, Mode, Received, Request, Sent, Sink, Source, Tagged, Want};
use barewire_core::{Config, Deliver, Endpoint, Flow, Incoming, Peer, PeerState, Port, SendError};

const KEY: JobKey = JobKey([7; 32]);

/// What an endpoint has seen.
#[derive(Default)]
struct Log {
    got: Vec<(Peer, u64)>,
    joined: Vec<Peer>,
    lost: Vec<Peer>,
}

impl Deliver for Log {
    fn deliver(&mut self, _: &mut Endpoint, packet: Incoming<'_>) -> Flow {
        self.got.push((packet.from, packet.imm));
        Flow::Continue
    }

    fn peer_joined(&mut self, _: &mut Endpoint, peer: Peer) {
        self.joined.push(peer);
    }

    fn peer_lost(&mut self, _: &mut Endpoint, peer: Peer) {
        self.lost.push(peer);
    }
}

fn config(shm: bool) -> Config {
    Config { shm, ..Config::default() }
}

fn open(shm: bool) -> (Endpoint, Log) {
    (Endpoint::at_large(KEY, config(shm)).unwrap(), Log::default())
}

/// A server and the address to call it at.
fn serve(shm: bool) -> ((Endpoint, Log), String) {
    let (mut endpoint, log) = open(shm);
    let place = endpoint.listen_on("tcp://127.0.0.1:0").unwrap()[0];
    ((endpoint, log), format!("tcp://{place}"))
}

/// Lets all make progress in turn until `done`.
fn run(
    all: &mut [&mut (Endpoint, Log)],
    what: &str,
    mut done: impl FnMut(&mut [&mut (Endpoint, Log)]) -> bool,
) {
    let until = Instant::now() + Duration::from_secs(20);
    while !done(all) {
        assert!(Instant::now() < until, "never happened: {what}");
        for pair in all.iter_mut() {
            let _ = pair.0.wait(&mut pair.1, Some(Duration::from_micros(200)), |_, _| false);
        }
    }
}

fn send(all: &mut [&mut (Endpoint, Log)], who: usize, to: Peer, imm: u64) {
    run(all, "a send", |all| all[who].0.send(to, Port(1), imm, b"x").is_ok());
}

macro_rules! on_both_wires {
    ($($property:ident)*) => {
        mod tcp { $(#[test] fn $property() { super::$property(false) })* }
        mod shm { $(#[test] fn $property() { super::$property(true) })* }
    };
}

on_both_wires! {
    clients_come_and_go_and_their_numbers_are_used_again
    a_restarted_server_is_called_again
    whoever_holds_another_key_is_not_heard
    a_send_that_is_broken_off_ends_its_receive
    a_receive_that_is_broken_off_leaves_the_rest
}

fn clients_come_and_go_and_their_numbers_are_used_again(shm: bool) {
    let (mut server, url) = serve(shm);
    for round in 0..3 {
        let mut clients = [open(shm), open(shm)];
        let peers = clients.each_mut().map(|client| client.0.connect_to(&url).unwrap());
        let [a, b] = &mut clients;
        let mut all = [&mut server, a, b];
        send(&mut all, 1, peers[0], 10);
        send(&mut all, 2, peers[1], 20);
        run(&mut all, "both are heard", |all| all[0].1.got.len() == 2);
        let log = std::mem::take(&mut all[0].1);
        assert_eq!(log.joined.len(), 2, "each is announced once");
        for (from, imm) in log.got {
            assert!(log.joined.contains(&from));
            send(&mut all, 0, from, imm + 1);
        }
        run(&mut all, "both are answered", |all| all[1..].iter().all(|client| client.1.got.len() == 1));
        assert_eq!((all[1].1.got[0], all[2].1.got[0]), ((peers[0], 11), (peers[1], 21)));
        let wire = all[1].0.wire_choice(peers[0]).unwrap();
        assert!(wire.starts_with(if shm { "shm" } else { "tcp" }), "{wire}");
        drop(clients);
        run(&mut [&mut server], "both are lost", |all| all[0].1.lost.len() == 2);
        for peer in std::mem::take(&mut server.1.lost) {
            assert!(server.0.forget(peer));
        }
        assert_eq!(server.0.size(), 3, "round {round}: numbers are used again");
    }
}

fn a_restarted_server_is_called_again(shm: bool) {
    let (mut server, url) = serve(shm);
    let mut client = open(shm);
    let peer = client.0.connect_to(&url).unwrap();
    send(&mut [&mut server, &mut client], 1, peer, 1);
    run(&mut [&mut server, &mut client], "the first is heard", |all| all[0].1.got.len() == 1);
    drop(server);
    run(&mut [&mut client], "its end shows", |all| all[0].1.lost == [peer]);
    assert_eq!(client.0.send(peer, Port(1), 2, b"x"), Err(SendError::Lost(peer)));
    let mut server = open(shm);
    server.0.listen_on(&url).unwrap();
    assert!(client.0.forget(peer));
    send(&mut [&mut server, &mut client], 1, peer, 3);
    run(&mut [&mut server, &mut client], "the next is heard", |all| all[0].1.got.len() == 1);
    assert_eq!(server.1.got[0].1, 3);
}

fn whoever_holds_another_key_is_not_heard(shm: bool) {
    let (mut server, url) = serve(shm);
    let mut client = (Endpoint::at_large(JobKey([8; 32]), config(shm)).unwrap(), Log::default());
    let peer = client.0.connect_to(&url).unwrap();
    assert_eq!(client.0.send(peer, Port(1), 0, b"x"), Err(SendError::Full));
    run(&mut [&mut server, &mut client], "it is turned away", |all| all[1].1.lost == [peer]);
    assert!(server.1.joined.is_empty() && server.1.got.is_empty());
}

#[test]
fn nobody_there_is_an_answer_and_not_a_wait() {
    let mut client = open(true);
    // Bound and closed again: nobody listens there.
    let place = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let peer = client.0.connect_to(&format!("tcp://{place}")).unwrap();
    let _ = client.0.send(peer, Port(1), 0, b"x");
    run(&mut [&mut client], "its absence shows", |all| all[0].1.lost == [peer]);
    assert!(matches!(client.0.peer_state(peer), PeerState::Lost(_)));
}

#[test]
fn our_own_door_leads_to_ourselves() {
    let (mut server, url) = serve(true);
    assert_eq!(server.0.connect_to(&url).unwrap(), server.0.me());
    let any = server.0.listen_on("tcp://0.0.0.0:0").unwrap()[0];
    assert_eq!(server.0.connect_to(&format!("tcp://127.0.0.1:{}", any.port())).unwrap(), server.0.me());
    assert_ne!(server.0.connect_to("tcp://127.0.0.1:1").unwrap(), server.0.me());
}

#[test]
fn the_second_address_is_tried_when_the_first_does_not_answer() {
    let (mut server, url) = serve(false);
    let mut client = open(false);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let peer = client.0.connect_to(&format!("tcp://{closed},{url}")).unwrap();
    send(&mut [&mut server, &mut client], 1, peer, 5);
    run(&mut [&mut server, &mut client], "it is heard", |all| all[0].1.got.len() == 1);
}

#[test]
fn a_member_of_a_job_has_no_addresses() {
    let mut member = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    assert!(matches!(member.listen_on("tcp://127.0.0.1:0"), Err(AddressError::InAJob)));
    assert!(matches!(member.connect_to("tcp://127.0.0.1:1"), Err(AddressError::InAJob)));
}

/// A server and a client with tagged messages that have met; the server's number for the client.
fn tagged_pair(shm: bool) -> ([(Endpoint, Tagged); 2], [Peer; 2]) {
    let mut server = Endpoint::at_large(KEY, config(shm)).unwrap();
    let place = server.listen_on("tcp://127.0.0.1:0").unwrap()[0];
    let mut client = Endpoint::at_large(KEY, config(shm)).unwrap();
    let to_server = client.connect_to(&format!("tcp://{place}")).unwrap();
    let mut pairs = [server, client].map(|endpoint| {
        let mut tagged = Tagged::new(&endpoint);
        tagged.note_ends();
        (endpoint, tagged)
    });
    pairs[1].1.cover(&pairs[1].0);
    let sent = post_send(&mut pairs[1], to_server, 1, 8);
    let mut met = None;
    advance(&mut pairs, |pairs| {
        met = met.or(pairs[0].1.claim_first(1, |_| true).map(|matched| matched.status().from));
        met.is_some() && is_over(&pairs[1], sent)
    });
    (pairs, [met.unwrap(), to_server])
}

fn post_send((endpoint, tagged): &mut (Endpoint, Tagged), to: Peer, tag: i32, len: usize) -> Sent {
    let source = Source::Memory(Memory::private(len), 0);
    tagged.send(endpoint, to, Envelope { context: 1, tag }, Mode::Standard, len as u64, source).unwrap()
}

fn post_receive((endpoint, tagged): &mut (Endpoint, Tagged), from: Peer, tag: i32, len: usize) -> Request {
    let sink = Sink::Memory(Memory::private(len), 0, len);
    match tagged.receive(endpoint, Want { context: 1, from: Some(from), tag: Some(tag) }, sink) {
        Received::Pending(request) => request,
        Received::Done(status) => panic!("nothing can have come: {status:?}"),
    }
}

fn is_over((_, tagged): &(Endpoint, Tagged), sent: Sent) -> bool {
    match sent {
        Sent::Done => true,
        Sent::Pending(request) => tagged.is_done(request),
    }
}

fn advance(pairs: &mut [(Endpoint, Tagged); 2], mut done: impl FnMut(&mut [(Endpoint, Tagged); 2]) -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !done(pairs) {
        assert!(Instant::now() < until, "it never happened");
        for (endpoint, tagged) in pairs.iter_mut() {
            let _ = endpoint.wait(tagged, Some(Duration::from_micros(100)), |endpoint, tagged| {
                tagged.advance(endpoint);
                false
            });
        }
    }
}

fn a_send_that_is_broken_off_ends_its_receive(shm: bool) {
    const LEN: usize = 32 << 20;
    let (mut pairs, [client, server]) = tagged_pair(shm);
    for begun in [false, true] {
        let Sent::Pending(send) = post_send(&mut pairs[1], server, 5, LEN) else {
            panic!("too long for that")
        };
        let mut receive = None;
        if begun {
            receive = Some(post_receive(&mut pairs[0], client, 5, LEN));
            // A few packets are on their way, and most are not.
            let before = pairs[0].0.stats().received_bytes;
            advance(&mut pairs, |pairs| pairs[0].0.stats().received_bytes > before + 100_000);
            assert!(!pairs[1].1.is_done(send));
        }
        let (endpoint, tagged) = &mut pairs[1];
        assert!(tagged.break_off(endpoint, send));
        assert!(!tagged.break_off(endpoint, send), "it has ended");
        assert_eq!(tagged.take(send).unwrap().failure, Some(Failure::Cancelled));
        let receive = receive.unwrap_or_else(|| post_receive(&mut pairs[0], client, 5, LEN));
        advance(&mut pairs, |pairs| pairs[0].1.is_done(receive));
        assert_eq!(pairs[0].1.take(receive).unwrap().failure, Some(Failure::Cancelled));
    }
}

fn a_receive_that_is_broken_off_leaves_the_rest(shm: bool) {
    const LEN: usize = 32 << 20;
    let (mut pairs, [client, server]) = tagged_pair(shm);
    let send = post_send(&mut pairs[1], server, 5, LEN);
    let receive = post_receive(&mut pairs[0], client, 5, LEN);
    let before = pairs[0].0.stats().received_bytes;
    advance(&mut pairs, |pairs| pairs[0].0.stats().received_bytes > before + 100_000);
    let (endpoint, tagged) = &mut pairs[0];
    assert!(tagged.break_off(endpoint, receive));
    assert_eq!(tagged.take(receive).unwrap().failure, Some(Failure::Cancelled));
    advance(&mut pairs, |pairs| is_over(&pairs[1], send));
    let next = post_receive(&mut pairs[0], client, 6, 8);
    post_send(&mut pairs[1], server, 6, 8);
    advance(&mut pairs, |pairs| pairs[0].1.is_done(next));
    assert_eq!(pairs[0].1.take(next).unwrap().failure, None);
}
