//! The ring over many laps, with payloads made to be taken for headers.
#![cfg(not(loom))]

use barewire_sys::ring::{Consumer, Producer, RingMemory};

/// Rings whose lines are known by one word of bits, and by several.
const BYTES: [usize; 2] = [4096, 16 << 10];

/// A next pseudo-random number.
fn next(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

#[test]
fn stale_payload_is_never_taken_for_a_header() {
    for (bytes, mut seed) in BYTES.into_iter().flat_map(|bytes| (1..=50u64).map(move |seed| (bytes, seed))) {
        let memory = RingMemory::create(bytes).unwrap();
        let fd = memory.fd().try_clone_to_owned().unwrap();
        let theirs = RingMemory::open(fd, bytes).unwrap();
        let (mut tx, mut rx) = (Producer::new(memory), Consumer::new(theirs).wiping(seed % 2 == 0));
        let mut waiting = std::collections::VecDeque::new();
        for number in 1..=5_000u64 {
            let len = if next(&mut seed) % 2 == 0 { 8 } else { next(&mut seed) as usize % (bytes / 4) };
            // Words that would be headers, of either lap.
            let fake = (next(&mut seed) % 2) << 63 | 0xbad;
            let fill = |wire: &mut barewire_sys::wirebuf::WireMut<'_>| {
                (0..len / 8).for_each(|_| wire.write_u64(fake));
                wire.write(&[7; 8][..len % 8]);
            };
            if tx.push(number, len as u64, len, 0, fill).is_ok() {
                waiting.push_back((number, len, fake));
            }
            let takes = next(&mut seed) % 3;
            for _ in 0..takes {
                let Some(packet) = rx.peek() else {
                    assert!(waiting.is_empty(), "what was put in is there");
                    break;
                };
                let (number, len, fake) = waiting.pop_front().expect("nothing is there that was not put in");
                assert_eq!((packet.w0, packet.w1), (number, len as u64));
                let mut payload = rx.payload(len).unwrap();
                assert!((0..len / 8).all(|_| payload.read_u64() == Some(fake)));
                rx.pass(len);
            }
        }
    }
}
