//! A packet on the shuttle, as a peer that lies would write it: never a panic, a hang, or memory without bound.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| barewire_core::fuzzing::shuttle(bytes));
