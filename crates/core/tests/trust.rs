//! What holds though a peer lies, floods or is silent, and though others keep one busy.

use std::time::{Duration, Instant};

use barewire_core::at_large::open_key;
use barewire_core::job::Job;
use barewire_core::region::{Memory, RegionError, Rights, Who};
use barewire_core::tagged::Tagged;
use barewire_core::wait::Waiting;
use barewire_core::{Config, Deliver, Endpoint, Flow, Ignore, Incoming, Peer, Port, SendError, WaitError};
use barewire_sys::rustix::net::{self, AddressFamily, SocketAddrUnix, SocketType};

/// The port of tagged messages that come without being offered.
const EAGER: Port = Port(0xfff0);

fn pair(config: Config) -> (Endpoint, Endpoint) {
    let mut jobs = Job::threads(2).unwrap().into_iter();
    let mut open = || Endpoint::open(jobs.next().unwrap(), config.clone()).unwrap();
    (open(), open())
}

/// Both make progress until `done`, or it takes too long.
fn until(
    one: (&mut Endpoint, &mut impl Deliver),
    other: &mut Endpoint,
    mut done: impl FnMut(&mut Endpoint, &mut Endpoint) -> bool,
) {
    let (endpoint, deliver) = one;
    let started = Instant::now();
    while !done(endpoint, other) {
        endpoint.progress(deliver, usize::MAX);
        other.progress(&mut Ignore, usize::MAX);
        assert!(started.elapsed() < Duration::from_secs(30), "it takes too long");
    }
}

#[test]
fn a_wait_keeps_to_its_limit_while_packets_keep_coming() {
    for crowded in [false, true] {
        let job = Job { crowded, ..Job::alone().unwrap() };
        let mut endpoint = Endpoint::open(job, Config::default()).unwrap();
        let (me, started) = (endpoint.me(), Instant::now());
        endpoint.send(me, Port(1), 0, b"").unwrap();
        let mut again = |endpoint: &mut Endpoint, _: Incoming<'_>| {
            if started.elapsed() < Duration::from_secs(20) {
                endpoint.send(me, Port(1), 0, b"").unwrap();
            }
            Flow::Continue
        };
        let never = Waiting { what: "what never comes", on: None };
        let ended = endpoint.wait_for(never, &mut again, Some(Duration::from_millis(100)), |_, _| false);
        assert_eq!(ended, Err(WaitError::TimedOut));
        assert!(started.elapsed() < Duration::from_secs(15), "crowded: {crowded}");
    }
}

#[test]
fn who_stays_is_heard_after_others_were_hung_up() {
    let open = || Endpoint::at_large(open_key(), Config::default()).unwrap();
    let mut server = open();
    let url = format!("tcp://{}", server.listen_on("tcp://127.0.0.1:0").unwrap()[0]);
    let mut clients: Vec<_> = (0..6)
        .map(|nth| {
            let mut client = open();
            let there = client.connect_to(&url).unwrap();
            until((&mut client, &mut Ignore), &mut server, |client, _| {
                client.send(there, Port(1), 0, b"hi").is_ok()
            });
            until((&mut client, &mut Ignore), &mut server, |_, server| server.stats().received == nth + 1);
            (client, there)
        })
        .collect();
    // Whose turn it is when a handler says that it is enough.
    let (last, there) = &mut clients[5];
    last.send(*there, Port(1), 0, b"enough").unwrap();
    let mut enough = |_: &mut Endpoint, _: Incoming<'_>| Flow::Quit;
    until((&mut server, &mut enough), last, |server, _| server.stats().received == 7);
    (4..=6).for_each(|peer| assert!(server.hang_up(Peer(peer))));
    for (client, there) in &mut clients[..3] {
        client.send(*there, Port(1), 0, b"still here").unwrap();
    }
    for (nth, (client, _)) in (1..=3).zip(&mut clients) {
        until((client, &mut Ignore), &mut server, |_, server| server.peer_stats(Peer(nth)).received == 2);
    }
}

#[test]
fn a_message_that_claims_to_be_endless_is_not_kept() {
    let (mut here, mut liar) = pair(Config::default());
    let mut tagged = Tagged::new(&here);
    liar.send(Peer(0), EAGER, 7, b"something small first").unwrap();
    until((&mut here, &mut tagged), &mut liar, |here, _| here.stats().received == 1);
    let mut endless = liar.begin(Peer(0), EAGER, 7, u64::MAX).unwrap();
    let (bytes, mut told) = (vec![1; 1 << 16], 0);
    until((&mut here, &mut tagged), &mut liar, |here, liar| {
        told += liar.push(&mut endless, &bytes).unwrap_or(0);
        assert!(told < 64 << 20, "what nobody asked for is kept without end");
        here.is_gone(Peer(1))
    });
}

#[test]
fn what_is_revoked_while_it_is_got_is_not_got() {
    const LEN: u64 = 32 << 20;
    for shm in [false, true] {
        let (mut owner, mut caller) = pair(Config { shm, ..Config::default() });
        // Nobody can map this, so it goes by packets.
        let (memory, into) = (Memory::private(LEN as usize), Memory::private(LEN as usize));
        let key = owner.export(&memory, Rights::READ, Who::Anyone).unwrap();
        let mut get = None;
        until((&mut owner, &mut Ignore), &mut caller, |_, caller| {
            get = caller.get(key, 0, &into, 0, LEN).ok();
            get.is_some()
        });
        until((&mut owner, &mut Ignore), &mut caller, |owner, _| owner.stats().sent_bytes > 1 << 16);
        assert!(owner.revoke(key) && memory.write(0, &vec![0xaa; LEN as usize]));
        let mut outcome = None;
        until((&mut owner, &mut Ignore), &mut caller, |_, caller| {
            outcome = caller.take(get.unwrap());
            outcome.is_some()
        });
        assert_eq!(outcome, Some(Err(RegionError::BadKey)), "shared memory: {shm}");
        let mut got = vec![0; LEN as usize];
        assert!(into.read(0, &mut got) && !got.contains(&0xaa), "shared memory: {shm}");
    }
}

#[test]
fn operations_on_one_peers_memory_keep_their_order() {
    // More than there is room for, on any wire.
    const LEN: u64 = 16 << 20;
    for shm in [false, true] {
        let (mut owner, mut caller) = pair(Config { shm, ..Config::default() });
        let memory = Memory::private(LEN as usize);
        let key = owner.export(&memory, Rights::ALL, Who::Anyone).unwrap();
        let long = Memory::private(LEN as usize);
        assert!(long.write(0, &vec![1; LEN as usize]));
        let mut first = None;
        until((&mut owner, &mut Ignore), &mut caller, |_, caller| {
            first = caller.put_from(key, 0, &long, 0, LEN).ok();
            first.is_some()
        });
        // There is room again for what is short, before the caller goes on with what is long.
        let make_room = |owner: &mut Endpoint| {
            for _ in 0..100 {
                owner.progress(&mut Ignore, usize::MAX);
            }
        };
        make_room(&mut owner);
        let into = Memory::private(1);
        let early = caller.get(key, LEN - 1, &into, 0, 1);
        assert_eq!(early, Err(RegionError::Send(SendError::Full)), "a read waits its turn");
        make_room(&mut owner);
        let mut second = caller.put(key, LEN - 1, &[2]).ok();
        until((&mut owner, &mut Ignore), &mut caller, |_, caller| {
            second = second.or_else(|| caller.put(key, LEN - 1, &[2]).ok());
            second.is_some()
        });
        let mut ends = Vec::new();
        until((&mut owner, &mut Ignore), &mut caller, |_, caller| {
            ends.extend([first, second].map(Option::unwrap).map(|op| caller.take(op)).into_iter().flatten());
            ends.len() == 2
        });
        let mut last = [0];
        assert!(memory.read(LEN as usize - 1, &mut last));
        assert_eq!((ends, last), (vec![Ok(0), Ok(0)], [2]), "shared memory: {shm}");
    }
}

#[test]
fn a_neighbour_that_connects_and_is_silent_keeps_nobody_awake() {
    let job = Job::threads(2).unwrap().remove(0);
    let name = format!("barewire-{}-{}", job.id, job.rank);
    let mut endpoint = Endpoint::open(job, Config { tcp: false, ..Config::default() }).unwrap();
    let socket = net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    net::connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap()).unwrap();
    let _ = endpoint.wait(&mut Ignore, Some(Duration::from_millis(20)), |_, _| false);
    assert!(endpoint.doze(), "there is nothing to do");
    assert!(endpoint.deadline().is_some_and(|soon| soon <= Duration::from_secs(2)), "but to turn it away");
}
