//! Peers that go, and come back.

use barewire::core::filter::fault::FaultConfig;
use barewire::core::job::{Directory, Job};
use barewire::core::sim::{Clock, Network, SimConfig};
use barewire::core::time::Nanos;
use barewire::core::{Config, Endpoint};

use crate::*;

pub fn a_peer_that_leaves_invalidates_its_imports_and_nothing_else(wires: &Wires) {
    let meeting = Meeting::new(3);
    wires.run(3, |core| {
        let mut node = Vmmc::new(core);
        let me = node.core().me().0;
        let buffer = Memory::shared(4096).unwrap();
        let options = ExportOptions { redirectable: true };
        node.export(&buffer, 1, Who::Anyone).unwrap();
        let aimed = node.export_with(&buffer, 2, Who::Only(vec![Peer(2)]), options).unwrap();
        let others: Vec<Peer> = (0..3).filter(|&rank| rank != me).map(Peer).collect();
        let proxies: Vec<Import> =
            others.iter().map(|&other| node.import(other, 1, PATIENCE).unwrap()).collect();
        if me == 2 {
            for &other in &others {
                node.import(other, 2, PATIENCE).unwrap();
            }
        }
        meeting.meet(|| {
            node.poll();
        });
        let place = Memory::shared(64).unwrap();
        let stays = me < 2;
        let binding = stays.then(|| node.bind(proxies[1], (0, 64), Duration::from_millis(1)).unwrap());
        let hopeless = stays.then(|| node.redirect(aimed, Peer(2), (&place, 0, 64)).unwrap());
        meeting.meet(|| {
            node.poll();
        });
        let (Some(binding), Some(hopeless)) = (binding, hopeless) else {
            drop(node);
            return meeting.meet(|| {});
        };
        let event = node.wait("the news", PATIENCE, |node| node.next_event()).unwrap();
        assert_eq!((event.import, event.peer, event.why), (proxies[1], Peer(2), Why::PeerLost));
        let source = Memory::private(16);
        let lost = TransferError::Invalid(Why::PeerLost);
        assert_eq!(node.send(proxies[1], 0, (&source, 0, 16), Notify::Tell), Err(lost));
        assert_eq!(node.write(binding, 0, &[1]), Err(lost));
        assert_eq!(node.redirected(hopeless, PATIENCE), Err(RedirectError::PeerLost));
        assert_eq!(node.redirect(aimed, Peer(2), (&place, 0, 64)), Err(RedirectError::PeerLost));
        // The rest goes on.
        assert!(source.write(0, &[7; 16]));
        let transfer = node.send(proxies[0], 0, (&source, 0, 16), Notify::Tell).unwrap();
        node.finish(transfer, PATIENCE).unwrap();
        node.wait("the other's", PATIENCE, |_| (read(&buffer, 0, 16) == [7; 16]).then_some(())).unwrap();
        assert!(node.next_event().is_none(), "one event");
        meeting.meet(|| {
            node.poll();
        });
    });
}

/// What rank 1 does in each of its lives: exports a buffer and waits until it is written.
fn live(core: Endpoint, value: u8) -> Vmmc {
    let mut node = Vmmc::new(core);
    let buffer = Memory::shared(4096).unwrap();
    node.export(&buffer, 1, Who::Anyone).unwrap();
    node.wait("a write", PATIENCE, |_| (read(&buffer, 0, 100) == [value; 100]).then_some(())).unwrap();
    node
}

/// Writes into rank 1's buffer, which must succeed in the end.
fn write(node: &mut Vmmc, proxy: Import, value: u8) {
    let source = Memory::private(100);
    assert!(source.write(0, &[value; 100]));
    let transfer = node.send(proxy, 0, (&source, 0, 100), Notify::Quiet).unwrap();
    node.finish(transfer, PATIENCE).unwrap();
}

/// Rank 0: writes in each life of rank 1, and sees it die in between.
fn survive(core: Endpoint, meeting: &Meeting, lives: u8) {
    let mut node = Vmmc::new(core);
    for life in 1..=lives {
        let proxy = node.import(Peer(1), 1, PATIENCE).unwrap();
        write(&mut node, proxy, life);
        meeting.meet(|| {
            node.poll();
        });
        if life < lives {
            let event = node.wait("the news", PATIENCE, |node| node.next_event()).unwrap();
            assert_eq!((event.import, event.why), (proxy, Why::PeerLost));
            meeting.meet(|| {
                node.poll();
            });
            let source = Memory::private(100);
            let stale = node.send(proxy, 0, (&source, 0, 100), Notify::Quiet);
            assert_eq!(stale, Err(TransferError::Invalid(Why::PeerLost)));
        }
    }
    meeting.meet(|| {
        node.poll();
    });
}

fn returns(config: Config) {
    const LIVES: u8 = 3;
    let meeting = Meeting::new(2);
    let mut jobs = Job::threads(2).unwrap().into_iter();
    let (first, second) = (jobs.next().unwrap(), jobs.next().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| survive(Endpoint::open(first, config.clone()).unwrap(), &meeting, LIVES));
        scope.spawn(|| {
            for life in 1..=LIVES {
                let Directory::Memory(directory) = &second.directory else { panic!("ranks are threads") };
                let directory = Directory::Memory(directory.clone());
                let job = Job { directory, key: second.key.clone(), ..second };
                let mut node = live(Endpoint::open(job, config.clone()).unwrap(), life);
                meeting.meet(|| {
                    node.poll();
                });
                if life == LIVES {
                    meeting.meet(|| {
                        node.poll();
                    });
                } else {
                    drop(node);
                    meeting.meet(|| {});
                }
            }
        });
    });
}

#[test]
fn a_node_that_returns_over_shm_is_imported_again() {
    returns(Config { tcp: false, ..Config::default() });
}

#[test]
fn a_node_that_returns_over_tcp_is_imported_again() {
    returns(Config { shm: false, ..Config::default() });
}

#[test]
fn a_killed_node_that_returns_over_a_lossy_network_is_imported_again() {
    const LIVES: u8 = 3;
    let meeting = Meeting::new(2);
    let faults = FaultConfig { loss: 0.1, duplicate: 0.05, reorder: 0.1, ..FaultConfig::default() };
    let config = SimConfig {
        seed: 0x51f2,
        clock: Clock::Real,
        faults,
        pulse: Nanos::from_millis(50),
        ..SimConfig::default()
    };
    let network = Network::new(2, config).unwrap();
    let first = network.endpoint(Peer(0)).unwrap();
    let mut second = Some(network.endpoint(Peer(1)).unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| survive(first, &meeting, LIVES));
        scope.spawn(|| {
            for life in 1..=LIVES {
                let core = second.take().unwrap_or_else(|| network.endpoint(Peer(1)).unwrap());
                let mut node = live(core, life);
                meeting.meet(|| {
                    node.poll();
                });
                if life == LIVES {
                    meeting.meet(|| {
                        node.poll();
                    });
                } else {
                    // It dies without a word.
                    network.crash(Peer(1));
                    drop(node);
                    meeting.meet(|| {});
                }
            }
        });
    });
}
