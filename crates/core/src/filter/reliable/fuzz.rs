//! An entry for a fuzzer: hostile datagrams in the middle of a living session.

use super::wire::reseal;
use super::{Reliable, ReliableConfig};
use crate::time::Nanos;

/// Feeds `data` to one end, cut into datagrams, between sends, receives and time passing.
///
/// Each step takes two bytes, an action and a length, and then that many bytes of datagram. Most datagrams
/// get the right sessions and checksum, so that the fuzzer reaches what lies behind them. Panics if an
/// invariant breaks.
pub fn fuzz_datagram(data: &[u8]) {
    let config = ReliableConfig { window_packets: 8, mtu: 300, ..ReliableConfig::default() };
    let mut end = Reliable::with_peer(config.clone(), LOCAL, PEER).expect("the configuration is sound");
    let (mut now, mut out, mut rest) = (Nanos::SECOND, Vec::new(), data);
    while let [action, len, tail @ ..] = rest {
        let (bytes, tail) = tail.split_at(usize::from(*len).min(tail.len()));
        rest = tail;
        let mut datagram = bytes.to_vec();
        if action & 3 != 0 {
            reseal(&mut datagram, PEER, LOCAL);
        }
        end.on_datagram(now, &datagram);
        if action & 4 != 0 {
            // A full window or a dead end is part of the game.
            let _ = end.send(usize::from(*action), |buf| buf.fill(*action));
        }
        if action & 8 != 0 {
            drop(end.recv());
        }
        now += Nanos::from_micros(u64::from(action >> 4) * 700);
        let mut datagrams = 0;
        while end.poll_transmit(now, &mut out) {
            datagrams += 1;
            assert!(out.len() <= config.mtu, "a datagram is longer than the mtu");
            assert!(datagrams <= 64, "one step transmits without end");
        }
        assert!(end.deadline().is_none_or(|at| at > now), "due now, yet nothing was transmitted");
        assert!(end.stats().buffers <= 16, "buffers outgrow the windows");
    }
}

const LOCAL: u64 = 0x10ca1;
const PEER: u64 = 0x9ee9;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Mostly plausible headers: small numbers where packet numbers, lengths and word counts are.
    fn step() -> impl Strategy<Value = Vec<u8>> {
        let small = prop_oneof![4 => 0..12u8, 1 => any::<u8>()];
        let head =
            (any::<u8>(), 0..7u8, 0..3u8, 0..2u8, small.clone(), small.clone(), small, any::<[u8; 12]>());
        (head, prop::collection::vec(any::<u8>(), 0..60)).prop_map(
            |((action, kind, words, flags, seq, ack, window, times), body)| {
                let mut bytes = vec![0; 56];
                bytes[5..8].copy_from_slice(&[kind, words, flags]);
                (bytes[24], bytes[32], bytes[40]) = (seq, ack, window);
                bytes[42] =
                    if kind == 2 { body.len().saturating_sub(usize::from(words) * 8) as u8 } else { 0 };
                bytes[44..56].copy_from_slice(&times);
                bytes.extend_from_slice(&body);
                let mut step = vec![action, bytes.len() as u8];
                step.extend_from_slice(&bytes);
                step
            },
        )
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_break_nothing(data in prop::collection::vec(any::<u8>(), 0..2000)) {
            fuzz_datagram(&data);
        }

        #[test]
        fn plausible_lies_break_nothing(steps in prop::collection::vec(step(), 0..60)) {
            fuzz_datagram(&steps.concat());
        }
    }
}
