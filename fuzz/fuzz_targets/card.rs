//! Address cards from the directory: any bytes are a card or are refused.
#![no_main]
use barewire_core::wire::Card;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some(card) = Card::decode(bytes) {
        assert_eq!(Card::decode(&card.encode()), Some(card));
    }
});
