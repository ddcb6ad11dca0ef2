//! Page sizes, and whether huge pages are to be had.

use super::list::parse_size;
use super::read;

/// Bytes in an ordinary page.
///
/// ```
/// assert!(barewire_sys::cpu::page_bytes().is_power_of_two());
/// ```
pub fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// What the kernel offers in huge pages; nothing where it does not say.
///
/// ```
/// let huge = barewire_sys::cpu::huge_pages();
/// assert!(huge.transparent_bytes.is_power_of_two());
/// ```
pub fn huge_pages() -> HugePages {
    huge_pages_with(&read)
}

/// Huge pages, reserved and transparent.
///
/// ```
/// use barewire_sys::cpu::{Transparent, huge_pages};
/// let advise = huge_pages().transparent == Transparent::Advised;
/// println!("madvise needed for huge pages: {advise}");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HugePages {
    /// Whether private memory gets huge pages without reservation.
    pub transparent: Transparent,
    /// The same for shared memory, memfd included.
    pub transparent_shared: Transparent,
    /// The size of a transparent huge page.
    pub transparent_bytes: usize,
    /// Pages set aside by the administrator, by size; only sizes of which some are free.
    pub reserved: Vec<HugePool>,
}

/// When memory gets transparent huge pages.
///
/// ```
/// use barewire_sys::cpu::Transparent;
/// assert_ne!(Transparent::Always, Transparent::Never);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transparent {
    /// Wherever it fits.
    Always,
    /// Where a program asks with `madvise`.
    Advised,
    /// Not at all.
    Never,
}

/// Huge pages of one size that are free to be mapped.
///
/// ```
/// for pool in barewire_sys::cpu::huge_pages().reserved {
///     println!("{} free of {} bytes", pool.free, pool.page_bytes);
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HugePool {
    /// Bytes in a page.
    pub page_bytes: usize,
    /// Pages that are free.
    pub free: usize,
}

fn huge_pages_with(read: &dyn Fn(&str) -> Option<String>) -> HugePages {
    let transparent = |file| read(&format!("{ROOT}/transparent_hugepage/{file}"));
    let pool = |&page_kb: &usize| {
        let free = read(&format!("{ROOT}/hugepages/hugepages-{page_kb}kB/free_hugepages"))?;
        let free = free.trim().parse().ok().filter(|&free| free > 0)?;
        Some(HugePool { page_bytes: page_kb << 10, free })
    };
    HugePages {
        transparent: parse_transparent(&transparent("enabled").unwrap_or_default()),
        transparent_shared: parse_transparent(&transparent("shmem_enabled").unwrap_or_default()),
        transparent_bytes: transparent("hpage_pmd_size")
            .and_then(|text| parse_size(&text))
            .filter(|bytes| bytes.is_power_of_two())
            .unwrap_or(2 << 20),
        reserved: POOLS_KB.iter().filter_map(pool).collect(),
    }
}

/// The chosen word is the one in brackets: `always [madvise] never`.
fn parse_transparent(text: &str) -> Transparent {
    let chosen = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    match chosen {
        Some("always" | "within_size" | "force") => Transparent::Always,
        Some("madvise" | "advise") => Transparent::Advised,
        _ => Transparent::Never,
    }
}

const ROOT: &str = "/sys/kernel/mm";

/// The sizes that x86-64 and aarch64 have, whatever their ordinary page.
const POOLS_KB: [usize; 6] = [64, 2048, 32_768, 524_288, 1_048_576, 16_777_216];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_in_brackets_counts() {
        assert_eq!(parse_transparent("always [madvise] never\n"), Transparent::Advised);
        assert_eq!(parse_transparent("[always] madvise never"), Transparent::Always);
        assert_eq!(parse_transparent("always within_size advise [never] deny force"), Transparent::Never);
        for text in ["", "[", "[]", "always", "[ always ]"] {
            assert_eq!(parse_transparent(text), Transparent::Never, "{text:?}");
        }
    }

    #[test]
    fn a_kernel_that_says_nothing_offers_nothing() {
        let huge = huge_pages_with(&|_| None);
        assert_eq!(huge.transparent, Transparent::Never);
        assert_eq!(huge.transparent_shared, Transparent::Never);
        assert_eq!(huge.transparent_bytes, 2 << 20);
        assert_eq!(huge.reserved, []);
    }

    #[test]
    fn only_pools_with_free_pages_are_named() {
        let huge = huge_pages_with(&|path| match path {
            "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages" => Some("12\n".into()),
            "/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages" => Some("0\n".into()),
            "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size" => Some("33554432\n".into()),
            _ => None,
        });
        assert_eq!(huge.reserved, [HugePool { page_bytes: 2 << 20, free: 12 }]);
        assert_eq!(huge.transparent_bytes, 32 << 20);
    }
}
