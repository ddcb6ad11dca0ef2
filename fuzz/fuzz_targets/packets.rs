//! Packets in a ring, as a peer that lies would write them: never a panic, a hang, or memory without bound.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| barewire_core::fuzzing::packets(bytes));
