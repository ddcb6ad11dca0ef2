//! Words for a POSIX shell.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// A word that a shell reads as itself; most are left as they are.
pub fn quoted(word: &OsStr) -> OsString {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-:,+@%".contains(byte);
    let bytes = word.as_bytes();
    if !bytes.is_empty() && bytes.iter().all(plain) {
        return word.to_owned();
    }
    let mut text = vec![b'\''];
    for byte in bytes {
        match byte {
            b'\'' => text.extend(br"'\''"),
            byte => text.push(*byte),
        }
    }
    text.push(b'\'');
    OsString::from_vec(text)
}

/// Words as they would be typed.
pub fn line(words: &[OsString]) -> String {
    words.iter().map(|word| quoted(word).to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_only_where_needed() {
        assert_eq!(quoted(OsStr::new("/usr/bin/barewire")), "/usr/bin/barewire");
        assert_eq!(quoted(OsStr::new("10.0.0.1:7,10.0.0.2:7")), "10.0.0.1:7,10.0.0.2:7");
        assert_eq!(quoted(OsStr::new("/it's here")), r"'/it'\''s here'");
        assert_eq!(quoted(OsStr::new("[::1]:7")), "'[::1]:7'", "a shell would look for files");
        assert_eq!(quoted(OsStr::new("")), "''");
        assert_eq!(quoted(OsStr::from_bytes(b"\xff ")), OsStr::from_bytes(b"'\xff '"));
    }

    #[test]
    fn a_line_is_what_would_be_typed() {
        assert_eq!(line(&["ssh".into(), "a b".into()]), "ssh 'a b'");
    }
}
