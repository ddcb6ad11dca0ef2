//! Bytes as hexadecimal text, for channels that carry words only.
//!
//! ```
//! use barewire_core::boot::hex;
//! let word = hex::encode(b"any bytes \n\0");
//! assert!(word.bytes().all(|byte| byte.is_ascii_alphanumeric()));
//! assert_eq!(hex::decode(&word).unwrap(), b"any bytes \n\0");
//! ```

/// Two digits a byte.
///
/// ```
/// assert_eq!(barewire_core::boot::hex::encode(&[0x0b, 0xad]), "0bad");
/// ```
pub fn encode(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(value.into(), 16).expect("four bits are one digit");
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The bytes of `text`; `None` if it is not all pairs of digits.
///
/// ```
/// use barewire_core::boot::hex;
/// assert_eq!(hex::decode(&hex::encode(b"\x00\xff")).unwrap(), b"\x00\xff");
/// assert_eq!((hex::decode("0"), hex::decode("0g")), (None, None));
/// ```
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?)).collect()
}
