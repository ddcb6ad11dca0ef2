//! Connections that come about at odd moments and end at odd moments. All endpoints run on one thread, so that a
//! seed decides the order of things.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use barewire_sys::rustix::net::connect_unspec;

use super::*;
use crate::config::Config;
use crate::hello::{DialStep, Dialler, Party, VERSIONS, Verdict};
use crate::incoming::{Flow, Incoming};
use crate::job::{Job, JobKey};

fn tcp_only() -> Config {
    Config { shm: false, ..Config::default() }
}

fn open(size: u32, config: &Config) -> Vec<Endpoint> {
    let jobs = Job::threads(size).unwrap().into_iter();
    jobs.map(|job| Endpoint::open(job, config.clone()).unwrap()).collect()
}

/// What came in, and who was lost.
#[derive(Default)]
struct Log {
    got: Vec<(Peer, u64, usize)>,
    lost: Vec<Peer>,
}

impl Deliver for Log {
    fn deliver(&mut self, _: &mut Endpoint, p: Incoming<'_>) -> Flow {
        self.got.push((p.from, p.imm, p.remaining()));
        Flow::Continue
    }

    fn peer_lost(&mut self, _: &mut Endpoint, peer: Peer) {
        self.lost.push(peer);
    }
}

/// Runs all endpoints in turn until `done`, and says whether it ever was.
fn run(
    endpoints: &mut [Endpoint],
    logs: &mut [Log],
    mut done: impl FnMut(&mut [Endpoint], &[Log]) -> bool,
) -> bool {
    let until = Instant::now() + Duration::from_secs(20);
    while Instant::now() < until {
        for (endpoint, log) in endpoints.iter_mut().zip(&mut *logs) {
            endpoint.progress(log, usize::MAX);
            endpoint.housekeep(log);
        }
        if done(endpoints, logs) {
            return true;
        }
    }
    false
}

fn logs(count: usize) -> Vec<Log> {
    (0..count).map(|_| Log::default()).collect()
}

/// Sends until there is room.
fn send(endpoints: &mut [Endpoint], logs: &mut [Log], from: usize, to: u32, imm: u64, len: usize) {
    let sent = run(endpoints, logs, |endpoints, _| {
        match endpoints[from].send(Peer(to), Port(1), imm, &vec![7; len]) {
            Ok(()) => true,
            Err(SendError::Full) => false,
            Err(error) => panic!("{error}"),
        }
    });
    assert!(sent);
    endpoints[from].flush();
}

/// The connection from one endpoint to another.
fn socket(endpoint: &Endpoint, to: u32) -> Arc<OwnedFd> {
    match &endpoint.peers[to as usize].tx {
        Tx::Tcp(tx) => Arc::clone(tx.socket()),
        other => panic!("not a connection: {other:?}"),
    }
}

fn address(endpoint: &Endpoint) -> SocketAddr {
    *net::reachable(&endpoint.sockets.listeners).last().unwrap()
}

fn reason(endpoint: &Endpoint, peer: u32) -> String {
    match endpoint.peer_state(Peer(peer)) {
        PeerState::Lost(reason) => reason,
        other => panic!("not lost: {other:?}"),
    }
}

/// Connects everybody with everybody.
fn connected(size: u32, config: &Config) -> (Vec<Endpoint>, Vec<Log>) {
    let (mut endpoints, mut logs) = (open(size, config), logs(size as usize));
    for from in 0..size {
        (0..size)
            .filter(|&to| to != from)
            .for_each(|to| send(&mut endpoints, &mut logs, from as usize, to, 0, 0));
    }
    let all = (size as usize - 1) * size as usize;
    assert!(
        run(&mut endpoints, &mut logs, |_, logs| logs.iter().map(|log| log.got.len()).sum::<usize>() == all)
    );
    logs.iter_mut().for_each(|log| log.got.clear());
    (endpoints, logs)
}

#[test]
fn two_that_dial_each_other_at_once_end_up_with_one_connection() {
    for seed in 1u64..60 {
        let (mut endpoints, mut logs) = (open(2, &tcp_only()), logs(2));
        let (mut random, mut sent) = (seed, [false; 2]);
        while logs.iter().any(|log| log.got.is_empty()) {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let who = (random >> 40) as usize % 2;
            if !sent[who] {
                sent[who] = endpoints[who].send(Peer(1 - who as u32), Port(1), seed, b"").is_ok();
            }
            endpoints[who].progress(&mut logs[who], usize::MAX);
            if random >> 60 & 1 == 0 {
                endpoints[who].housekeep(&mut logs[who]);
            }
        }
        for (endpoint, log) in endpoints.iter().zip(&logs) {
            assert_eq!(endpoint.sockets.links.len(), 1, "SEED={seed}");
            assert_eq!((log.got.len(), log.lost.len()), (1, 0), "SEED={seed}");
        }
    }
}

#[test]
fn a_reset_fails_that_peer_only_and_after_what_had_arrived() {
    let (mut endpoints, mut logs) = connected(3, &tcp_only());
    for i in 0..10 {
        send(&mut endpoints[..1], &mut logs[..1], 0, 1, i, 1000);
    }
    let broken = socket(&endpoints[0], 1);
    // The beginning of a long message, and then nothing.
    let head = Head { kind: Kind::Message, flags: 0, port: Port(1), len: 5000, w1: 99 };
    net::write(&broken, &[&head.to_bytes()[..], &[0; 3000]].concat()).unwrap();
    connect_unspec(&broken).unwrap();
    assert!(run(&mut endpoints[1..], &mut logs[1..], |_, logs| logs[0].lost == [Peer(0)]));
    assert!(logs[1].got.iter().map(|got| got.1).eq(0..10), "what arrived before the reset is delivered");
    assert_eq!(endpoints[1].send(Peer(0), Port(1), 0, b"?"), Err(SendError::Lost(Peer(0))));
    assert!(!reason(&endpoints[1], 0).is_empty());

    send(&mut endpoints[1..], &mut logs[1..], 0, 2, 1, 10);
    send(&mut endpoints[1..], &mut logs[1..], 1, 1, 2, 10);
    assert!(run(&mut endpoints, &mut logs, |_, logs| logs[0].lost == [Peer(1)] && logs[1].got.len() == 11));
    assert!(logs[2].got.contains(&(Peer(1), 1, 10)) && logs[2].lost.is_empty(), "the third is not concerned");
    assert_eq!(endpoints[2].peer_state(Peer(0)), PeerState::Connected);
}

#[test]
fn a_close_in_the_middle_of_a_packet_is_a_loss_and_not_a_leave() {
    let (mut endpoints, mut logs) = connected(2, &tcp_only());
    net::write(&socket(&endpoints[0], 1), &[1, 2, 3]).unwrap();
    shutdown(socket(&endpoints[0], 1), Shutdown::Both).unwrap();
    assert!(run(&mut endpoints, &mut logs, |_, logs| logs.iter().all(|log| log.lost.len() == 1)));
    assert_eq!(reason(&endpoints[1], 0), "its process ended or closed the connection");
}

#[test]
fn nonsense_from_a_peer_ends_its_connection_and_nothing_else() {
    let head = |kind, len, w1| Head { kind, flags: 0, port: Port(1), len, w1 }.to_bytes();
    let nonsense: [&[u8]; 5] = [
        &[0xff; 64],
        &head(Kind::Message, 1 << 30, 0),
        &head(Kind::Credit, 0, u64::MAX),
        &head(Kind::Piece, 0, 7),
        &Head { flags: crate::wire::FLAG_CHUNK, ..Head::from_bytes(&head(Kind::Message, 8, 0)).unwrap() }
            .to_bytes(),
    ];
    for bytes in nonsense {
        let (mut endpoints, mut logs) = connected(3, &tcp_only());
        net::write(&socket(&endpoints[0], 1), bytes).unwrap();
        assert!(run(&mut endpoints[1..], &mut logs[1..], |_, logs| logs[0].lost == [Peer(0)]));
        assert!(reason(&endpoints[1], 0).starts_with("it sent a"), "{}", reason(&endpoints[1], 0));
        send(&mut endpoints[1..], &mut logs[1..], 0, 2, 5, 5);
        assert!(run(&mut endpoints[1..], &mut logs[1..], |_, logs| logs[1].got == [(Peer(1), 5, 5)]));
    }
}

#[test]
fn a_lost_peer_that_both_forget_can_be_met_again() {
    let (mut endpoints, mut logs) = connected(2, &tcp_only());
    assert!(!endpoints[0].forget(Peer(1)), "it is not gone");
    connect_unspec(socket(&endpoints[0], 1)).unwrap();
    assert!(run(&mut endpoints, &mut logs, |_, logs| logs.iter().all(|log| log.lost.len() == 1)));
    assert!(endpoints[0].forget(Peer(1)));
    assert_eq!(endpoints[0].peer_state(Peer(1)), PeerState::Unknown);
    // The other side still remembers the old connection: it says "later" until it has forgotten too.
    let _ = endpoints[0].send(Peer(1), Port(1), 1, b"again");
    let mut calls = 0;
    assert!(run(&mut endpoints, &mut logs, |_, _| {
        calls += 1;
        calls > 50
    }));
    assert!(endpoints[1].forget(Peer(0)));
    send(&mut endpoints, &mut logs, 0, 1, 2, 5);
    send(&mut endpoints, &mut logs, 1, 0, 3, 5);
    assert!(run(&mut endpoints, &mut logs, |_, logs| logs.iter().all(|log| !log.got.is_empty())));
    assert_eq!((&logs[0].got, &logs[1].got), (&vec![(Peer(1), 3, 5)], &vec![(Peer(0), 2, 5)]));
}

#[test]
fn without_a_local_socket_it_goes_by_tcp_one_way_or_both() {
    for ring_first in [false, true] {
        let (mut endpoints, mut logs) =
            (open(2, &Config { credit_bytes: 20_000, ..Config::default() }), logs(2));
        endpoints[1].local_listener = None;
        if ring_first {
            send(&mut endpoints, &mut logs, 1, 0, 0, 0);
        }
        // More than the window each way, so that credit has to come back.
        for i in 0..100 {
            send(&mut endpoints, &mut logs, 0, 1, i, 1000);
            send(&mut endpoints, &mut logs, 1, 0, i, 1000);
        }
        assert!(
            run(&mut endpoints, &mut logs, |_, logs| logs[1].got.len() == 100 && logs[0].got.len() >= 100)
        );
        let choice = endpoints[0].wire_choice(Peer(1)).unwrap();
        assert!(
            choice.starts_with("tcp to ") && choice.contains("its local socket cannot be reached"),
            "{choice}"
        );
        let back = endpoints[1].wire_choice(Peer(0)).unwrap();
        let expected = if ring_first { "shm: it is on the same host" } else { "tcp from " };
        assert!(back.starts_with(expected), "{back}");
        // Each end shows at the other, whichever wire it is on.
        drop(endpoints.remove(1));
        assert!(run(&mut endpoints[..1], &mut logs[..1], |_, logs| logs[0].lost == [Peer(1)]));
        assert_eq!(endpoints[0].send(Peer(1), Port(1), 0, b""), Err(SendError::Lost(Peer(1))));
    }
}

/// Says hello on a bare socket like a member of the job would, with the key given; says what was sent, and the verdict if any.
fn say_hello(
    stream: &mut TcpStream,
    server: &mut Endpoint,
    log: &mut Log,
    key: &JobKey,
) -> (Vec<u8>, Option<Verdict>) {
    let (job, nonce) = (server.identity.job, [5; 16]);
    let party = Party { job, key, me: Peer(2), versions: VERSIONS, window: 1000, nonce };
    let (mut dialler, mut said) = Dialler::new(&party, server.me);
    stream.write_all(&said).unwrap();
    stream.set_nonblocking(true).unwrap();
    let mut bytes = [0; 128];
    loop {
        server.housekeep(log);
        let wants = dialler.wants();
        match stream.read(&mut bytes[..wants]) {
            Ok(0) => return (said, None),
            Ok(n) => match dialler.take(key, &bytes[..n]) {
                Ok(DialStep::More) => {}
                Ok(DialStep::Prove(proof)) => {
                    stream.write_all(&proof).unwrap();
                    said.extend_from_slice(&proof);
                }
                Ok(DialStep::Done(_, verdict)) => return (said, Some(verdict)),
                Err(_) => return (said, None),
            },
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return (said, None),
        }
    }
}

/// Whether the other side has closed a connection, given some turns to do so.
fn is_closed_by(stream: &mut TcpStream, endpoints: &mut [Endpoint], logs: &mut [Log]) -> bool {
    stream.set_nonblocking(true).unwrap();
    let mut bytes = [0; 256];
    run(endpoints, logs, |_, _| match stream.read(&mut bytes) {
        Ok(0) => true,
        Ok(_) => false,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    })
}

#[test]
fn strangers_are_closed_and_the_job_goes_on_undisturbed() {
    let config = tcp_only();
    let mut endpoints: Vec<_> = open(3, &config).into_iter().take(2).collect();
    let mut logs = logs(2);
    let (key, door) = (endpoints[0].identity.key.clone(), address(&endpoints[0]));
    let work = |endpoints: &mut [Endpoint], logs: &mut [Log]| {
        let before = logs[1].got.len();
        (0..20).for_each(|i| send(endpoints, logs, 0, 1, i, 100));
        assert!(run(endpoints, logs, |_, logs| logs[1].got.len() == before + 20));
        assert!(logs.iter().all(|log| log.lost.is_empty()));
    };
    work(&mut endpoints, &mut logs);

    let mut scanner = TcpStream::connect(door).unwrap();
    scanner.write_all(b"GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n").unwrap();
    assert!(is_closed_by(&mut scanner, &mut endpoints, &mut logs));

    let mut no_key = TcpStream::connect(door).unwrap();
    let (_, verdict) = say_hello(&mut no_key, &mut endpoints[0], &mut logs[0], &JobKey([1; 32]));
    assert_eq!(verdict, None, "a dialler with another key does not believe us");
    no_key.write_all(&[0; 32]).unwrap();
    assert!(is_closed_by(&mut no_key, &mut endpoints, &mut logs), "and we do not believe it");

    // A member of the job, recorded and played again once it has left.
    let mut member = TcpStream::connect(door).unwrap();
    let (recorded, verdict) = say_hello(&mut member, &mut endpoints[0], &mut logs[0], &key);
    assert_eq!(verdict, Some(Verdict::BothWays));
    drop(member);
    assert!(run(&mut endpoints, &mut logs, |_, logs| logs[0].lost == [Peer(2)]));
    logs[0].lost.clear();
    assert!(endpoints[0].forget(Peer(2)));
    let mut replay = TcpStream::connect(door).unwrap();
    replay.write_all(&recorded).unwrap();
    assert!(is_closed_by(&mut replay, &mut endpoints, &mut logs));
    assert_eq!(
        endpoints[0].peer_state(Peer(2)),
        PeerState::Unknown,
        "the replay was not taken for the member"
    );
    work(&mut endpoints, &mut logs);

    // More silent and slow ones than we keep, and still a member gets in.
    let mut silent: Vec<_> = (0..150).map(|_| TcpStream::connect(door).unwrap()).collect();
    silent.iter_mut().step_by(2).for_each(|stream| stream.write_all(b"bw-").unwrap());
    work(&mut endpoints, &mut logs);
    assert!(endpoints[0].sockets.guests.len() <= 64);
    let mut member = TcpStream::connect(door).unwrap();
    assert_eq!(say_hello(&mut member, &mut endpoints[0], &mut logs[0], &key).1, Some(Verdict::BothWays));
    assert!(is_closed_by(&mut silent[0], &mut endpoints, &mut logs), "the oldest made room");

    // Time passes, and the rest is turned out.
    endpoints[0].sockets.guests.iter_mut().for_each(|guest| guest.since -= HELLO_WITHIN);
    assert!(is_closed_by(&mut silent[149], &mut endpoints, &mut logs));
    assert!(endpoints[0].sockets.guests.is_empty());
    work(&mut endpoints, &mut logs);
}

#[test]
fn a_quiet_connection_is_pinged_and_lives() {
    let (mut endpoints, mut logs) = connected(2, &tcp_only());
    for _ in 0..5 {
        for (endpoint, log) in endpoints.iter_mut().zip(&mut logs) {
            endpoint.sockets.next_pulse = Instant::now();
            endpoint.peers.iter_mut().for_each(|peer| {
                if let Tx::Tcp(tx) = &mut peer.tx {
                    tx.heard_lately = false;
                }
            });
            endpoint.housekeep(log);
        }
        let before = endpoints[1].peer_stats(Peer(0)).received;
        assert!(
            run(&mut endpoints, &mut logs, |endpoints, _| endpoints[1].peer_stats(Peer(0)).received > before)
        );
    }
    assert!(logs.iter().all(|log| log.lost.is_empty() && log.got.is_empty()));
}

#[test]
fn a_peer_that_does_not_run_is_not_lost_even_with_its_window_closed() {
    let (mut endpoints, mut logs) = connected(2, &Config { credit_bytes: 64 << 20, ..tcp_only() });
    let mut sent = 0;
    while endpoints[0].send(Peer(1), Port(1), sent, &[1; 50_000]).is_ok() {
        sent += 1;
    }
    // Longer than a machine that is gone would get.
    let waited =
        endpoints[0].wait(&mut logs[0], Some(Duration::from_millis(2500)), |_, log| !log.lost.is_empty());
    assert_eq!(waited, Err(crate::error::WaitError::TimedOut));
    assert_eq!(endpoints[0].peer_state(Peer(1)), PeerState::Connected);
    assert!(run(&mut endpoints, &mut logs, |_, logs| logs[1].got.len() as u64 == sent));
}

#[test]
fn an_endpoint_dropped_with_much_on_its_way_still_delivers_it() {
    let (mut endpoints, mut logs) = connected(2, &tcp_only());
    let mut sent = 0;
    while endpoints[0].send(Peer(1), Port(1), sent, &[1; 10_000]).is_ok() {
        sent += 1;
    }
    assert!(sent >= 50, "a window's worth: {sent}");
    let leaving = endpoints.remove(0);
    let leaver = std::thread::spawn(move || drop(leaving));
    assert!(run(&mut endpoints, &mut logs[1..], |_, logs| !logs[0].lost.is_empty()));
    leaver.join().unwrap();
    assert_eq!(logs[1].got.len() as u64, sent);
    assert_eq!(endpoints[0].peer_state(Peer(0)), PeerState::Left);
}
