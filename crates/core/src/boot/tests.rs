//! Clients and a hub, talking over real sockets.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::frame::BOOT_BODY_BYTES_MAX;
use super::*;
use crate::job::Directory;

const SOON: Duration = Duration::from_secs(10);

/// Serves `ends` with one hub until all are closed; returns the notices.
fn serve(layout: Layout, ends: Vec<OwnedFd>) -> thread::JoinHandle<Vec<(u32, Notice)>> {
    thread::spawn(move || {
        let mut hub = Hub::new(JobId([7; 16]), JobKey([8; 32]), layout, vec!["a".into(), "b".into()]);
        let (units, inbox) = mpsc::channel();
        let mut links = Vec::new();
        for (rank, end) in (0u32..).zip(ends) {
            links.push(Link::new(end.try_clone().unwrap(), BOOT_BODY_BYTES_MAX));
            let units = units.clone();
            thread::spawn(move || {
                let mut link = Link::new(end, BOOT_BODY_BYTES_MAX);
                while link.wait(None).unwrap() && !matches!(link.fill(), Ok(Fill::Closed) | Err(_)) {
                    while let Some(raw) = link.next_raw().unwrap() {
                        units.send((rank, raw.to_vec())).unwrap();
                    }
                }
            });
        }
        drop(units);
        let mut notices = Vec::new();
        for (rank, raw) in inbox {
            let mut out = Outbox::new();
            notices.extend(hub.receive(rank, &raw, &mut out).unwrap().map(|notice| (rank, notice)));
            for (to, bytes) in out {
                links[to as usize].queue(&bytes);
                // A client that has left does not read.
                let _ = links[to as usize].flush();
            }
        }
        notices
    })
}

fn pairs(count: usize) -> (Vec<OwnedFd>, Vec<OwnedFd>) {
    (0..count).map(|_| UnixStream::pair().unwrap()).map(|(a, b)| (OwnedFd::from(a), OwnedFd::from(b))).unzip()
}

fn client(job: Job) -> Client {
    match job.directory {
        Directory::Boot(client) => client,
        other => panic!("{other:?}"),
    }
}

fn next(client: &mut Client) -> Event {
    loop {
        if let Some(event) = client.poll().unwrap() {
            return event;
        }
        let fd = client.fd().unwrap();
        let mut fds = [rustix::event::PollFd::from_borrowed_fd(fd, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut fds, None).unwrap();
    }
}

/// Every rank publishes, asks for its successor's card, and meets the others.
fn exchange(job: Job) {
    let (rank, size) = (job.rank, job.size);
    let mut client = client(job);
    let successor = (rank + 1) % size;
    client.request(successor).unwrap();
    client.publish(format!("card of {rank}").repeat(60).as_bytes()).unwrap();
    let card = Event::Card { rank: successor, bytes: format!("card of {successor}").repeat(60).into_bytes() };
    assert_eq!(next(&mut client), card);
    client.barrier(SOON).unwrap();
}

#[test]
fn ranks_of_our_launcher_exchange_cards() {
    let (ours, theirs) = pairs(4);
    let hub = serve(Layout::new([(0, 3), (1, 1)]), theirs);
    let ranks: Vec<_> = ours
        .into_iter()
        .map(|fd| {
            thread::spawn(move || {
                let job = wire_client::join(fd).unwrap();
                assert_eq!((job.id, job.size), (JobId([7; 16]), 4));
                exchange(job);
            })
        })
        .collect();
    ranks.into_iter().for_each(|rank| rank.join().unwrap());
    assert_eq!(hub.join().unwrap().len(), 4);
}

#[test]
fn ranks_of_a_pmi_launcher_exchange_cards_and_share_a_key() {
    let (ours, theirs) = pairs(3);
    let hub = serve(Layout::new([(0, 2), (1, 1)]), theirs);
    let ranks: Vec<_> = (0..)
        .zip(ours)
        .map(|(rank, fd)| {
            thread::spawn(move || {
                let job = pmi::client::join(fd, rank, 3).unwrap();
                let known = (job.id, job.key.clone());
                let Directory::Boot(client) = &job.directory else { panic!() };
                assert_eq!(client.spec().layout, Layout::new([(0, 2), (1, 1)]));
                assert_eq!(client.spec().local_ranks().count(), if rank == 2 { 1 } else { 2 });
                exchange(job);
                known
            })
        })
        .collect();
    let known: Vec<_> = ranks.into_iter().map(|rank| rank.join().unwrap()).collect();
    assert!(known.iter().all(|other| *other == known[0]));
    assert_eq!(hub.join().unwrap(), []);
}

#[test]
fn one_process_after_the_other_may_use_a_connection() {
    let (ours, theirs) = pairs(1);
    let hub = serve(Layout::single(1), theirs);
    for _ in 0..2 {
        let mut client = client(wire_client::join(ours[0].try_clone().unwrap()).unwrap());
        client.publish(b"card").unwrap();
        client.request(0).unwrap();
        assert!(matches!(next(&mut client), Event::Card { rank: 0, .. }));
        client.request(0).unwrap();
    }
    drop(client(pmi::client::join(ours[0].try_clone().unwrap(), 0, 1).unwrap()));
    drop(ours);
    assert_eq!(hub.join().unwrap(), [(0, Notice::Joined), (0, Notice::Joined)]);
}

#[test]
fn aborts_and_reports_reach_the_launcher() {
    let (mut ours, theirs) = pairs(1);
    let hub = serve(Layout::single(1), theirs);
    let mut client = client(wire_client::join(ours.remove(0)).unwrap());
    client.report_stuck("recv from 3");
    client.abort(7, "no convergence");
    drop(client);
    let told = hub.join().unwrap();
    assert_eq!(told[1], (0, Notice::Stuck("recv from 3".into())));
    assert_eq!(told[2], (0, Notice::Abort { code: 7, message: "no convergence".into() }));
}

#[test]
fn a_launcher_that_is_gone_is_an_error_and_raises_no_signal() {
    let (mut ours, theirs) = pairs(1);
    drop(theirs);
    assert!(matches!(wire_client::join(ours.remove(0)), Err(BootError::Closed)));
}

#[test]
fn nonsense_from_the_launcher_is_an_error() {
    let (mut ours, theirs) = pairs(1);
    let mut link = Link::new(theirs.into_iter().next().unwrap(), BOOT_BODY_BYTES_MAX);
    link.queue(&[0xff; 100]);
    assert!(link.flush().unwrap());
    assert!(matches!(wire_client::join(ours.remove(0)), Err(BootError::Frame(_))));
}

#[test]
fn limits_are_checked_before_anything_is_sent() {
    let (mut ours, theirs) = pairs(1);
    let hub = serve(Layout::single(1), theirs);
    let mut client = client(wire_client::join(ours.remove(0)).unwrap());
    assert!(matches!(client.publish(&[0; 1025]), Err(BootError::CardTooLong { .. })));
    assert!(matches!(client.request(1), Err(BootError::NoSuchRank { rank: 1, size: 1 })));
    drop(client);
    assert_eq!(hub.join().unwrap(), [(0, Notice::Joined)]);
}

#[test]
fn a_process_that_nobody_started_is_alone() {
    let job = join(&Environment::default()).unwrap();
    assert_eq!((job.rank, job.size), (0, 1));
    assert!(matches!(job.directory, Directory::Alone));
}

#[test]
fn a_key_file_is_made_once_private_and_read_again() {
    let folder = std::env::temp_dir().join(format!("barewire-key-{}", std::process::id()));
    let path = folder.join("key");
    let pairs = [(environment::KEY_FILE.to_owned(), path.to_string_lossy().into_owned())];
    let environment = Environment::from_pairs(pairs).unwrap();
    let key = user_key(&environment).unwrap();
    assert_eq!(user_key(&environment).unwrap(), key);
    let open = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o644);
    std::fs::set_permissions(&path, open).unwrap();
    assert!(user_key(&environment).unwrap_err().to_string().contains("chmod 600"));
    std::fs::remove_dir_all(&folder).unwrap();
}
