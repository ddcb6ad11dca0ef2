//! What something that is no launcher answers to a rank that speaks PMI-1: while it joins, and to what it asks afterwards.
#![no_main]

use std::io::Write;
use std::net::Shutdown;
use std::os::{fd::AsRawFd, unix::net::UnixStream};
use std::time::Duration;

use barewire_core::boot::{self, Environment};
use barewire_core::job::Directory;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let [good, bytes @ ..] = bytes else { return };
    let rank = good % 2;
    let (ours, mut impostor) = UnixStream::pair().expect("two sockets");
    let honest = if rank == 0 { &FIRST[..] } else { &OTHER[..] };
    for line in &honest[..usize::from(good / 2).min(honest.len())] {
        impostor.write_all(line.as_bytes()).expect("the kernel has room for so much");
    }
    impostor.write_all(&bytes[..bytes.len().min(4096)]).expect("the kernel has room for so much");
    impostor.shutdown(Shutdown::Write).expect("it is open");
    let fd = ours.as_raw_fd().to_string();
    let variables = [("PMI_FD", fd), ("PMI_RANK", rank.to_string()), ("PMI_SIZE", "2".to_owned())];
    let variables = variables.map(|(name, value)| (name.to_owned(), value));
    let environment = Environment::from_pairs(variables).expect("all that it needs");
    let Ok(job) = boot::join(&environment) else { return };
    let Directory::Boot(mut client) = job.directory else { unreachable!("PMI is a launcher's") };
    // Nobody waits long for lines that will not come: the other end is closed.
    if client.publish(b"a card").is_ok() && client.request(1 - u32::from(rank)).is_ok() {
        while matches!(client.poll(), Ok(Some(_))) {}
        let _ = client.barrier(Duration::from_secs(1));
    }
});

const INIT: &str = "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n";
const MAXES: &str = "cmd=maxes rc=0 kvsname_max=256 keylen_max=256 vallen_max=64\n";
const SPACE: &str = "cmd=my_kvsname rc=0 kvsname=kvs\n";
const MAPPING: &str = "cmd=get_result rc=0 msg=success value=(vector,(0,1,2))\n";
const MET: &str = "cmd=barrier_out rc=0\n";
/// What a launcher answers the first rank until it has joined, and the other.
const FIRST: [&str; 6] = [INIT, MAXES, SPACE, MAPPING, "cmd=put_result rc=0\n", MET];
const OTHER: [&str; 6] = [
    INIT,
    MAXES,
    SPACE,
    MAPPING,
    MET,
    "cmd=get_result rc=0 value=00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n",
];
