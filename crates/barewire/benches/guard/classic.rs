//! The paths of the classic layers: virtual interfaces, VMMC, Split-C, Shmem, Global Arrays and BMI, and what of the core they stand on.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use barewire::am::{Bundle, Ep, Name, Node, Tag, ViaConfig};
use barewire::bmi::{Bmi, Buffer, Options, Posted};
use barewire::core::job::{Job, JobKey};
use barewire::core::region::{Memory, Rights, Who};
use barewire::core::{Config, Endpoint, Ignore, Peer};
use barewire::ga::Ga;
use barewire::shmem::Shmem;
use barewire::splitc::SplitC;
use barewire::via::{Cqs, Descriptor, MemAttributes, MemHandle, Nic, Vi, ViAttributes};
use barewire::vmmc::{Notify, Vmmc};

use super::{BATCH, Half, pair, play};

/// Memory within reach: asked for, copied into or out of, its owner nudged.
pub fn reach(rights: Rights) {
    let (mut ends, key) = region();
    let mut word = [1; 8];
    let once = |[a, _]: &mut [Endpoint; 2]| {
        let there = a.reach(key, rights).expect("the key is good").expect("it is mapped");
        let done = if rights == Rights::WRITE { there.write(0, &word) } else { there.read(0, &mut word) };
        assert!(done, "it is long enough");
        a.nudge(Peer(1));
    };
    play(Half::Send, &mut ends, once, |_| {});
}

/// An operation on a region, with its end.
pub fn put() {
    let (mut ends, key) = region();
    let once = |[a, _]: &mut [Endpoint; 2]| {
        let op = a.put(key, 0, &[1; 8]).expect("the key is good");
        black_box(a.take(op)).expect("it is mapped").expect("it is in range");
    };
    play(Half::Send, &mut ends, once, |_| {});
}

/// Memory of the second endpoint that the first has mapped.
fn region() -> ([Endpoint; 2], barewire::core::region::Key) {
    let mut ends = pair();
    let memory = Memory::shared(64).expect("shared memory is there");
    let key = ends[1].export(&memory, Rights::ALL, Who::Anyone).expect("the first");
    while ends[0].reach(key, Rights::READ).expect("the key is good").is_none() {
        for end in &mut ends {
            end.progress(&mut Ignore, usize::MAX);
        }
    }
    (ends, key)
}

/// Two NICs with a VI between them, receives posted, and memory that both may write.
struct Nics {
    nics: [Nic; 2],
    vis: [Vi; 2],
    memory: MemHandle,
    #[allow(clippy::vec_box, reason = "boxes are what is posted")]
    spare: Vec<Box<Descriptor>>,
}

fn nics() -> Nics {
    let mut nics = pair().map(Nic::new);
    let made = [0, 1].map(|me| {
        let nic = &mut nics[me];
        let tag = nic.create_ptag().expect("the first");
        let shared = Memory::shared(64).expect("shared memory is there");
        let open = MemAttributes { rdma_write: true, rdma_read: true };
        let memory = nic.register(&shared, tag, open).expect("the first");
        let vi = nic.create_vi(tag, ViAttributes::default(), Cqs::default()).expect("the first");
        for _ in 0..2 * BATCH {
            nic.post_receive(vi, Descriptor::receive().segment(memory, 0, 64)).expect("there is room");
        }
        nic.connect_peer_request(vi, Peer(1 - me as u32), 1).expect("the peer is there");
        (vi, memory)
    });
    let (mut there, vis) = ([false; 2], made.map(|(vi, _)| vi));
    while there != [true; 2] {
        for (me, nic) in nics.iter_mut().enumerate() {
            nic.poll();
            there[me] |= nic.connect_done(vis[me]).map(|met| met.expect("both ask")).is_some();
        }
    }
    Nics { nics, vis, memory: made[0].1, spare: Vec::new() }
}

pub fn via(half: Half) {
    let mut state = nics();
    let memory = state.memory;
    state.spare = (0..2 * BATCH).map(|_| Descriptor::send().segment(memory, 0, 8)).collect();
    let send = |state: &mut Nics| {
        let descriptor = state.spare.pop().expect("a batch was taken before the next");
        state.nics[0].post_send(state.vis[0], descriptor).expect("there is room");
    };
    let take = |Nics { nics: [a, b], vis, spare, .. }: &mut Nics| {
        b.poll();
        while let Some(receive) = b.receive_done(vis[1]) {
            b.post_receive(vis[1], receive).expect("it was posted there before");
        }
        a.poll();
        while let Some(sent) = a.send_done(vis[0]) {
            spare.push(sent);
        }
    };
    play(half, &mut state, send, take);
}

pub fn rdma_write() {
    let mut state = nics();
    let memory = state.memory;
    state.spare = vec![Descriptor::rdma_write(memory.remote(), 0).segment(memory, 0, 8)];
    let once = |Nics { nics: [a, b], vis, spare, .. }: &mut Nics| {
        a.post_send(vis[0], spare.pop().expect("it came back")).expect("there is room");
        let ended = loop {
            match a.send_done(vis[0]) {
                Some(ended) => break ended,
                // Only before the memory is mapped.
                None => [&mut *a, &mut *b].map(Nic::poll),
            };
        };
        spare.push(ended);
    };
    play(Half::Send, &mut state, once, |_| {});
}

/// What requests add up to. A type of its own, so that the paths of the other carrier are compiled as if this were not there.
struct Sum(u64);

pub fn am_over_via(half: Half) {
    let mut nodes = pair().map(|end| {
        let config = ViaConfig { credits: 2 * BATCH as u16, ..ViaConfig::default() };
        let mut node = Node::over_via(end, config, Sum(0));
        let bundle = node.allocate_bundle().expect("the first");
        let ep = node.allocate_endpoint(bundle).expect("the first");
        node.set_tag(ep, Tag(3)).expect("it is there");
        node.set_handler(ep, 1, |ctx, args| ctx.state.0 += args[0]).expect("it is there");
        let other = Name { peer: Peer(1 - node.name(ep).peer.0), ..node.name(ep) };
        node.map(ep, 0, other, Tag(3)).expect("the first");
        (node, bundle, ep)
    });
    // Both poll: the sender's credits come back by messages.
    let take = |nodes: &mut [(Node<Sum>, _, _); 2]| {
        for (node, bundle, _) in nodes.iter_mut().rev() {
            while node.poll(*bundle) > 0 {}
        }
    };
    let send = |nodes: &mut [(Node<Sum>, Bundle, Ep); 2]| {
        // Only the first has to wait, for a connection.
        while nodes[0].0.try_request(nodes[0].2, 0, 1, &[1]).is_err() {
            take(nodes);
        }
    };
    play(half, &mut nodes, send, take);
}

pub fn vmmc() {
    let mut nodes = pair().map(Vmmc::new);
    let buffer = Memory::shared(64).expect("shared memory is there");
    nodes[1].export(&buffer, 1, Who::Anyone).expect("the first");
    let proxy = nodes[0].import_request(Peer(1), 1).expect("the peer is there");
    while nodes[0].import_done(proxy).is_none() {
        for node in &mut nodes {
            node.poll();
        }
    }
    let source = Memory::private(8);
    let once = |[a, b]: &mut [Vmmc; 2]| {
        let transfer = a.send(proxy, 0, (&source, 0, 8), Notify::Quiet).expect("it is in range");
        while a.transfer_done(transfer).map(|done| done.expect("it is imported")).is_none() {
            // Only before the memory is mapped.
            a.poll();
            b.poll();
        }
    };
    play(Half::Send, &mut nodes, once, |_| {});
}

/// One of two ranks of a layer whose ranks meet in order to begin, each in a thread.
struct Rank<'a> {
    served: &'a AtomicBool,
    over: Option<mpsc::Receiver<()>>,
}

impl Rank<'_> {
    /// Rank 1 serves until rank 0 has rank 1's memory within reach, and then sleeps. Only rank 0 does the work.
    fn work(self, serve: impl Fn(), access: impl Fn(), work: impl FnOnce()) {
        match self.over {
            Some(over) => {
                // SYNC served: pairs with the Release below, though nothing depends on it but the end.
                while !self.served.load(Ordering::Acquire) {
                    serve();
                }
                let _ = over.recv();
            }
            None => {
                (0..20).for_each(|_| access());
                // SYNC served: pairs with the Acquire above.
                self.served.store(true, Ordering::Release);
                work();
            }
        }
    }
}

fn ranks(rank: impl Fn(Endpoint, Rank<'_>) + Sync) {
    let served = AtomicBool::new(false);
    let mut jobs = Job::threads(2).expect("a job of threads").into_iter();
    let mut open = || {
        let config = Config { tcp: false, ..Config::default() };
        Endpoint::open(jobs.next().expect("two of them"), config).expect("shared memory is there")
    };
    let (first, second) = (open(), open());
    let (running, over) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| rank(second, Rank { served: &served, over: Some(over) }));
        rank(first, Rank { served: &served, over: None });
        drop(running);
    });
}

/// What of Split-C is counted.
#[derive(Clone, Copy)]
pub enum Access {
    Read,
    Put,
    Store,
}

pub fn splitc(access: Access) {
    ranks(|endpoint, rank| {
        let sc = SplitC::new(endpoint, 4096).expect("the other rank comes");
        let place = sc.all_spread_malloc::<u64>(2, 1).expect("there is room").block(1);
        let once = |sc: &mut &SplitC| match access {
            Access::Read => {
                black_box(sc.read(place).expect("it is there"));
            }
            Access::Put => drop(black_box(sc.put(place, 1).expect("it is there"))),
            Access::Store => sc.store(place, 1).expect("it is there"),
        };
        rank.work(
            || sc.poll(),
            || {
                sc.read(place).expect("it is there");
            },
            || play(Half::Send, &mut &sc, once, |_| {}),
        );
    });
}

pub fn shmem(put: bool) {
    ranks(|endpoint, rank| {
        let shmem = Shmem::init(endpoint, 4096).expect("the other PE comes");
        let word = shmem.calloc::<u64>(1).expect("there is room");
        let get = |shmem: &Shmem| {
            black_box(shmem.g(word, 0, 1).expect("it is there"));
        };
        let once = |shmem: &mut &Shmem| match put {
            true => shmem.p(word, 0, 1, 1).expect("it is there"),
            false => get(shmem),
        };
        rank.work(|| shmem.poll(), || get(&shmem), || play(Half::Send, &mut &shmem, once, |_| {}));
    });
}

pub fn ga() {
    ranks(|endpoint, rank| {
        let ga = Ga::new(endpoint);
        let array = ga.create::<i64>(&[2]).expect("the other rank comes");
        let access = || drop(array.get(&[1..2]).expect("it is there"));
        let mut array = &array;
        let put = |array: &mut &barewire::ga::Array<'_, i64>| array.put(&[1..2], &[1]).expect("it is there");
        rank.work(|| ga.poll(), access, || play(Half::Send, &mut array, put, |_| {}));
    });
}

pub fn bmi(half: Half) {
    const NOW: Duration = Duration::ZERO;
    let key = JobKey::random().expect("the system has random bytes");
    let options = || Options::default().key(key.clone()).config(Config::default());
    let server = Bmi::initialize(options().listen("tcp://127.0.0.1:0")).expect("a port is free");
    let client = Bmi::initialize(options()).expect("a client needs nothing");
    let contexts = [&server, &client].map(|bmi| bmi.open_context().expect("the first"));
    let [ours, theirs] = contexts;
    let url = format!("tcp://127.0.0.1:{}", server.port().expect("it listens"));
    let to_server = client.addr_lookup(&url).expect("a plain address");
    client.post_sendunexpected(to_server, Buffer::new(8), 0, 0, 0, theirs).expect("it listens");
    let to_client = loop {
        client.testcontext(1, NOW, theirs).expect("the context is open");
        if let Some(message) = server.testunexpected(1, 0, NOW).expect("it is open").pop() {
            break message.from;
        }
    };
    let (message, place) = (Buffer::new(8), Buffer::new(8));
    let send = |_: &mut ()| {
        let posted = client.post_send(to_server, &message, 1, 0, theirs).expect("it is connected");
        assert!(matches!(posted, Posted::Done(8)), "it is short");
    };
    let take = |_: &mut ()| {
        let mut left = BATCH;
        for _ in 0..BATCH {
            let posted = server.post_recv(to_client, &place, 1, 0, ours).expect("it is connected");
            left -= usize::from(matches!(posted, Posted::Done(_)));
        }
        while left > 0 {
            left -= server.testcontext(BATCH, NOW, ours).expect("the context is open").len();
        }
        client.testcontext(1, NOW, theirs).expect("the context is open");
    };
    play(half, &mut (), send, take);
}
