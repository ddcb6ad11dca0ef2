//! What something that is no launcher says to a rank: to one that wants to join, and to one that has.
#![no_main]

use std::cell::RefCell;
use std::io::Write;
use std::net::Shutdown;
use std::os::{fd::AsRawFd, unix::net::UnixStream};

use barewire_core::boot::frame::BOOT_BODY_BYTES_MAX;
use barewire_core::boot::{self, Client, Environment, Hub, Layout, Link, Outbox};
use barewire_core::job::{Directory, Job, JobId, JobKey};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let bytes = &bytes[..bytes.len().min(BYTES_MAX)];
    let (rank, mut impostor) = UnixStream::pair().expect("two sockets");
    impostor.write_all(bytes).expect("the kernel has room for so much");
    impostor.shutdown(Shutdown::Write).expect("it is open");
    assert!(join(&rank).is_err(), "a welcome to somebody else was believed");

    let (mut client, mut impostor) = MEMBER.take().unwrap_or_else(member);
    impostor.write_all(bytes).expect("the kernel has room for so much");
    while let Ok(said) = client.poll() {
        if said.is_none() {
            return MEMBER.set(Some((client, impostor)));
        }
    }
});

/// Far less than a socket takes without anybody reading.
const BYTES_MAX: usize = 4096;

thread_local! {
    /// A rank that has joined, and what can speak to it as its launcher.
    static MEMBER: RefCell<Option<(Client, UnixStream)>> = const { RefCell::new(None) };
}

fn join(line: &UnixStream) -> Result<Job, boot::BootError> {
    let variables = [("BAREWIRE_BOOT_FD".to_owned(), line.as_raw_fd().to_string())];
    boot::join(&Environment::from_pairs(variables)?)
}

/// A rank welcomed by a real launcher.
fn member() -> (Client, UnixStream) {
    let (rank, launcher) = UnixStream::pair().expect("two sockets");
    let line = launcher.try_clone().expect("a descriptor");
    let welcome = std::thread::spawn(move || {
        let mut hub = Hub::new(JobId([1; 16]), JobKey([2; 32]), Layout::single(2), vec!["here".into()]);
        let (mut link, mut out) = (Link::new(line.into(), BOOT_BODY_BYTES_MAX), Outbox::new());
        while out.is_empty() {
            link.wait(None).expect("a hello comes");
            link.fill().expect("a hello comes");
            while let Some(unit) = link.next_raw().expect("a hello comes") {
                hub.receive(0, unit, &mut out).expect("a hello comes");
            }
        }
        out.into_iter().for_each(|(_, bytes)| link.queue(&bytes));
        link.flush().expect("the rank reads");
    });
    let Directory::Boot(client) = join(&rank).expect("a real launcher").directory else { unreachable!() };
    welcome.join().expect("it welcomes");
    (client, launcher)
}
