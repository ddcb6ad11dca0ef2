//! A short message allocates nothing: neither to send, nor to take, nor to answer.

use barewire_core::job::Job;
use barewire_core::{Config, Endpoint, Flow, Incoming, Peer, PeerState, Port, SendError};
use barewire_sys::counting::Counting;

#[global_allocator]
static COUNTING: Counting = Counting::new();

/// Two endpoints, both of this thread, so that nobody else allocates meanwhile.
fn pair(config: &Config) -> [Endpoint; 2] {
    let mut jobs = Job::threads(2).unwrap().into_iter();
    let mut pair = [(); 2].map(|()| Endpoint::open(jobs.next().unwrap(), config.clone()).unwrap());
    while pair.iter().any(|ep| ep.peer_state(Peer(1 - ep.me().0)) != PeerState::Connected) {
        play(&mut pair, 1);
    }
    pair
}

/// Messages both ways, each answered; says how many were delivered.
fn play(pair: &mut [Endpoint; 2], rounds: u64) -> u64 {
    let mut delivered = 0;
    for round in 0..rounds {
        for ep in &mut *pair {
            let to = Peer(1 - ep.me().0);
            let sent = ep.send(to, Port(1), round, b"eight by");
            // Refused until the wire is there, and when it is full: then it is for the other to take something.
            assert!(matches!(sent, Ok(()) | Err(SendError::Full)), "{sent:?}");
            let mut take = |ep: &mut Endpoint, mut packet: Incoming<'_>| {
                delivered += 1;
                let mut bytes = [0; 8];
                assert_eq!(packet.read(&mut bytes), 8);
                if packet.port == Port(1) {
                    ep.reply(packet.from, Port(2), packet.imm, &bytes).unwrap();
                }
                Flow::Continue
            };
            ep.progress(&mut take, usize::MAX);
        }
    }
    delivered
}

// One test in this program: another thread's test would be counted too.
#[test]
fn a_short_message_allocates_nothing() {
    let counts = COUNTING.during(|| drop(std::hint::black_box(vec![1])));
    assert!(counts > 0, "the counter counts");
    for config in [Config { tcp: false, ..Config::default() }, Config { shm: false, ..Config::default() }] {
        let mut pair = pair(&config);
        play(&mut pair, 2000);
        let mut delivered = 0;
        let allocations = COUNTING.during(|| delivered = play(&mut pair, 2000));
        assert_eq!(allocations, 0, "shm: {}", config.shm);
        assert!(delivered >= 7000, "messages went through: {delivered}");
    }
}
