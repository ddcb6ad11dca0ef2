//! The kernel's text for sets of numbers and for sizes: `0-3,8` and `1280K`.

use thiserror::Error;

use super::Cpu;

/// Reads a list such as `0-3,8,10-11`, in order and without repeats; blank text is an empty list.
///
/// # Errors
///
/// [`ListError`] names the part that is not a number or a rising range below 65 536.
///
/// ```
/// use barewire_sys::cpu::{Cpu, parse_cpu_list};
/// assert_eq!(parse_cpu_list("0-1,4\n").unwrap(), [Cpu(0), Cpu(1), Cpu(4)]);
/// assert!(parse_cpu_list("3-1").is_err());
/// ```
pub fn parse_cpu_list(text: &str) -> Result<Vec<Cpu>, ListError> {
    let text = text.trim();
    let mut cpus = Vec::new();
    if text.is_empty() {
        return Ok(cpus);
    }
    for part in text.split(',') {
        let bad = || ListError { part: part.chars().take(PART_SHOWN_MAX).collect() };
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u32 = first.trim().parse().map_err(|_| bad())?;
        let last: u32 = last.trim().parse().map_err(|_| bad())?;
        if first > last || last >= CPUS_MAX {
            return Err(bad());
        }
        cpus.extend((first..=last).map(Cpu));
        if cpus.len() > CPUS_MAX as usize {
            tidy(&mut cpus);
        }
    }
    tidy(&mut cpus);
    Ok(cpus)
}

/// Text that is not a list of processors.
///
/// ```
/// let error = barewire_sys::cpu::parse_cpu_list("0,two").unwrap_err();
/// assert_eq!(error.to_string(), "\"two\" is neither a processor nor a range of processors");
/// ```
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{part:?} is neither a processor nor a range of processors")]
pub struct ListError {
    /// What stood between two commas.
    pub part: String,
}

/// Bytes from text such as `48K`, `2M` or `512`.
pub(super) fn parse_size(text: &str) -> Option<usize> {
    let text = text.trim();
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' | b'k' => (&text[..text.len() - 1], 10),
        b'M' | b'm' => (&text[..text.len() - 1], 20),
        b'G' | b'g' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<usize>().ok()?.checked_mul(1 << shift)
}

fn tidy(cpus: &mut Vec<Cpu>) {
    cpus.sort_unstable();
    cpus.dedup();
}

/// More than any kernel can be built for, so a longer list is no list.
const CPUS_MAX: u32 = 1 << 16;

const PART_SHOWN_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn numbers(text: &str) -> Option<Vec<u32>> {
        parse_cpu_list(text).ok().map(|cpus| cpus.into_iter().map(|cpu| cpu.0).collect())
    }

    #[test]
    fn lists_of_every_shape_are_read() {
        assert_eq!(numbers("0"), Some(vec![0]));
        assert_eq!(numbers("\t0-3\n"), Some(vec![0, 1, 2, 3]));
        assert_eq!(numbers("8,0-2,1-3"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(numbers(""), Some(vec![]));
        assert_eq!(numbers(" \n"), Some(vec![]));
    }

    #[test]
    fn nonsense_and_absurd_ranges_are_refused() {
        for text in [",", "0,", "-", "1-", "-1", "2-1", "x", "0-4294967295", "99999999999", "65536", "0-1-2"]
        {
            assert_eq!(numbers(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_same_wide_range_over_and_over_stays_small() {
        let text = vec!["0-65535"; 50].join(",");
        assert_eq!(numbers(&text).map(|cpus| cpus.len()), Some(65536));
    }

    #[test]
    fn sizes_are_read_with_their_units() {
        assert_eq!(parse_size("48K\n"), Some(48 << 10));
        assert_eq!(parse_size("2M"), Some(2 << 20));
        assert_eq!(parse_size("1G"), Some(1 << 30));
        assert_eq!(parse_size("512"), Some(512));
        for text in ["", "K", "-1K", "1.5M", "99999999999999999999", "18014398509481984K", "12 K", "é"] {
            assert_eq!(parse_size(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_written_list_reads_back(mut wanted in proptest::collection::vec(0u32..2000, 0..40)) {
            let text = wanted.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
            wanted.sort_unstable();
            wanted.dedup();
            prop_assert_eq!(numbers(&text), Some(wanted));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,40}") {
            let _ = parse_cpu_list(&text);
            let _ = parse_size(&text);
        }
    }
}
