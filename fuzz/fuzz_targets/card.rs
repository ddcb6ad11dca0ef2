//! Address cards from the directory: any bytes are a card or are refused.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| barewire_core::fuzzing::card(bytes));
