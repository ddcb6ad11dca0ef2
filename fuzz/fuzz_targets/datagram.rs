//! Datagrams for the reliable filter.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| barewire_core::filter::reliable::fuzz_datagram(bytes));
