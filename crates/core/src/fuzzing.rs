//! Doors for the fuzzers: what outsiders can make the core read. Only in builds for fuzzing and in tests.

use std::cell::RefCell;

use barewire_sys::shuttle::Shuttle;
use barewire_sys::wirebuf::WireMut;

use crate::Peer;
use crate::config::Config;
use crate::endpoint::Endpoint;
use crate::hello::{AcceptStep, Acceptor, DialStep, Dialler, Party, VERSIONS};
use crate::job::{Job, JobId, JobKey};
use crate::provider::shuttle::Link;
use crate::provider::tcp::{Split, Splitter};
use crate::provider::{Class, Tx, local};
use crate::region::{Memory, Rights, Who};
use crate::tagged::{Sink, Tagged, Want};
use crate::wire::{Card, HEAD_BYTES, Head, Kind};

/// An address card from the directory: what is one survives being written and read again.
pub fn card(bytes: &[u8]) {
    if let Some(card) = Card::decode(bytes) {
        assert_eq!(Card::decode(&card.encode()), Some(card));
    }
}

/// A hello on the local socket. Nobody can make a good one without the key, and the fuzzer does not have it.
pub fn local_hello(bytes: &[u8]) {
    let (job, key) = (JobId([7; 16]), JobKey([9; 32]));
    assert!(local::check_hello(bytes, job, &key).is_none(), "a hello without the key was believed");
}

/// What a stranger says to a TCP listener, and what a listener that is none of ours answers. Neither has the key.
pub fn tcp_hello(bytes: &[u8]) {
    let (job, key) = (JobId([7; 16]), JobKey([9; 32]));
    let party = Party { job, key: &key, me: Peer(0), versions: VERSIONS, window: 1, nonce: [3; 16] };
    let (mut acceptor, (mut dialler, _)) = (Acceptor::new(), Dialler::new(&party, Peer(1)));
    for portion in bytes.chunks(23) {
        match acceptor.take(&party, portion) {
            Ok(AcceptStep::Proved(_)) => panic!("a hello without the key was believed"),
            Ok(_) => {}
            Err(_) => break,
        }
    }
    for portion in bytes.chunks(23) {
        match dialler.take(&key, portion) {
            Ok(DialStep::More) => {}
            Ok(_) => panic!("a welcome without the key was believed"),
            Err(_) => break,
        }
    }
}

/// Any bytes as a stream of packets: each packet lies within what has arrived.
pub fn tcp_stream(bytes: &[u8]) {
    let mut splitter = Splitter::default();
    let mut rest = bytes;
    while let Split::Packet { head, skip } = splitter.next(rest) {
        rest = &rest[skip + head.len as usize..];
    }
}

thread_local! {
    static VICTIM: RefCell<Option<(Endpoint, Tagged)>> = const { RefCell::new(None) };
}

/// Packets with any headers and contents, put into an endpoint's ring one after the other.
pub fn packets(bytes: &[u8]) {
    VICTIM.with_borrow_mut(|victim| {
        let (endpoint, tagged) = victim.get_or_insert_with(new_victim);
        feed(endpoint, bytes);
        for _ in 0..4 {
            endpoint.progress(tagged, usize::MAX);
        }
        let me = endpoint.me();
        if endpoint.peer_state(me) != crate::PeerState::Connected {
            *victim = None;
        }
    });
}

/// A packet with any header and contents on the shuttle to an endpoint.
pub fn shuttle(bytes: &[u8]) {
    let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() else { return };
    let (mut endpoint, mut tagged) = new_victim();
    let peer = &mut endpoint.peers[Peer(0).index()];
    let Tx::Ring(ring) = &mut peer.tx else { return };
    let (mut ours, theirs) = (Shuttle::first(ring.memory(), false), Shuttle::second(ring.memory(), false));
    peer.shuttle = Some(Box::new(Link::new(theirs)));
    let (w0, w1) = words(head);
    let head = Head::unpack(w0, w1);
    match head.filter(|head| head.kind == Kind::Begin) {
        // One that is read while it is written may have more bytes or fewer than it says.
        Some(_) => {
            let (len, stream) = (rest.len().min(ours.long_bytes_max()), rest.len() as u32 % 4);
            ours.send_long((w0, w1, stream.into()), len, |at, wire| {
                wire.write(&rest[at..]);
            });
        }
        None => {
            let told = head.map_or(0, |head| head.len as usize);
            let len = told.min(rest.len()).min(ours.cargo_bytes_max());
            let fill = |wire: &mut WireMut<'_>| {
                wire.write(&rest[..len]);
            };
            let sent = ring.send_message(Some(&mut ours), (w0, w1, len), Class::Control, fill);
            sent.expect("the shuttle is ours");
        }
    }
    for _ in 0..4 {
        endpoint.progress(&mut tagged, usize::MAX);
    }
}

fn new_victim() -> (Endpoint, Tagged) {
    let config = Config { ring_bytes: Some(8192), ..Config::default() };
    let mut endpoint =
        Endpoint::open(Job::alone().expect("random bytes"), config).expect("an endpoint of our own");
    let memory = Memory::private(256);
    endpoint.export(&memory, Rights::ALL, Who::Anyone).expect("one export");
    let mut tagged = Tagged::new(&endpoint);
    let me = endpoint.me();
    endpoint.send(me, crate::Port(0), 0, &[]).expect("the first message to ourselves");
    let want = Want { context: 0, from: None, tag: None };
    let _ = tagged.receive(&mut endpoint, want, Sink::Memory(memory, 0, 256));
    (endpoint, tagged)
}

/// Cuts the input into packets: a header, then as many bytes as it says, or as there are.
fn feed(endpoint: &mut Endpoint, mut bytes: &[u8]) {
    let me = endpoint.me();
    while let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() {
        let (w0, w1) = words(head);
        let told = Head::unpack(w0, w1).map_or(0, |head| head.len as usize);
        let len = told.min(rest.len()).min(1000);
        let Tx::Ring(ring) = &mut endpoint.peers[me.index()].tx else { return };
        let pushed = ring.send_inline(w0, w1, len, Class::Control, |wire| {
            wire.write(&rest[..len]);
        });
        if pushed.is_err() {
            return;
        }
        bytes = &rest[len..];
    }
}

/// The header words in some bytes. The highest bits are the ring's own.
fn words(head: &[u8; HEAD_BYTES]) -> (u64, u64) {
    let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight of sixteen"));
    ((word(0) & u64::MAX >> 2).max(1), word(8))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_packets_upset_an_endpoint(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            super::packets(&bytes);
            super::shuttle(&bytes);
        }

        #[test]
        fn plausible_packets_do_not_either(
            packets in proptest::collection::vec((1u8..14, any::<u8>(), any::<u16>(), 0u32..200, 0u64..4, any::<u64>()), 0..20)
        ) {
            let mut bytes = Vec::new();
            for (kind, flags, port, len, w1, fill) in packets {
                let w0 = u64::from(len) | u64::from(port | 0xfff0) << 32 | u64::from(flags & 7) << 48 | u64::from(kind) << 56;
                bytes.extend(w0.to_le_bytes());
                bytes.extend(w1.to_le_bytes());
                bytes.extend(fill.to_le_bytes().iter().cycle().take(len as usize));
            }
            super::packets(&bytes);
            super::shuttle(&bytes);
        }

        #[test]
        fn no_bytes_are_a_hello(bytes: Vec<u8>) {
            super::local_hello(&bytes);
            super::tcp_hello(&bytes);
            super::tcp_stream(&bytes);
        }

        #[test]
        fn any_bytes_are_a_card_or_not(bytes: Vec<u8>) {
            super::card(&bytes);
        }
    }
}
