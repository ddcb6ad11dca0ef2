//! Every kernel against a byte-by-byte model, with guard bytes around both ranges.

use proptest::prelude::*;

use super::*;

const GUARD: usize = 192;
const FILL: u8 = 0xA5;

type Routine = unsafe fn(Kernel, *mut u8, *const u8, usize);

/// A source full of distinct-looking bytes and a destination full of [`FILL`], both aligned to a page.
struct Stand {
    src: Vec<Page>,
    dst: Vec<Page>,
}

#[derive(Clone)]
#[repr(C, align(4096))]
struct Page([u8; 4096]);

impl Stand {
    fn new(len_max: usize) -> Self {
        let pages = (len_max + 2 * GUARD).div_ceil(4096) + 1;
        let mut src = vec![Page([0; 4096]); pages];
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        for byte in src.iter_mut().flat_map(|page| page.0.iter_mut()) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (state >> 56) as u8;
        }
        Self { src, dst: vec![Page([FILL; 4096]); pages] }
    }

    /// Copies, checks the bytes and the guards, and puts the destination back.
    fn check(&mut self, routine: Routine, kernel: Kernel, dst_at: usize, src_at: usize, len: usize) {
        let (dst_at, src_at) = (dst_at + GUARD, src_at);
        let src = self.src.as_ptr().cast::<u8>();
        let dst = self.dst.as_mut_ptr().cast::<u8>();
        assert!(src_at + len <= self.src.len() * 4096 && dst_at + len + GUARD <= self.dst.len() * 4096);
        // SAFETY: both ranges are inside their vectors, as just asserted, and the kernels come from `available`.
        unsafe { routine(kernel, dst.add(dst_at), src.add(src_at), len) };
        // SAFETY: the ranges are inside their vectors, and nothing writes them while these slices live.
        let (got, want, before, after) = unsafe {
            (
                std::slice::from_raw_parts(dst.add(dst_at), len),
                std::slice::from_raw_parts(src.add(src_at), len),
                std::slice::from_raw_parts(dst.add(dst_at - GUARD), GUARD),
                std::slice::from_raw_parts(dst.add(dst_at + len), GUARD),
            )
        };
        let what = || format!("{} of {len} bytes, dst {dst_at}, src {src_at}", kernel.name());
        assert!(got == want, "wrong bytes: {}", what());
        assert!(before.iter().all(|&byte| byte == FILL), "wrote before the range: {}", what());
        assert!(after.iter().all(|&byte| byte == FILL), "wrote past the range: {}", what());
        // SAFETY: the slices above are dead, and the range is inside the vector.
        unsafe { dst.add(dst_at).write_bytes(FILL, len) };
    }
}

/// `copy` itself, in the shape of the others.
unsafe fn copy_default(_: Kernel, dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { copy(dst, src, len) }
}

/// The same of `copy_string`.
unsafe fn copy_by_string(_: Kernel, dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { copy_string(dst, src, len) }
}

/// The same of `copy_in`, both ways.
unsafe fn copy_read(_: Kernel, dst: *mut u8, src: *const u8, len: usize) {
    read_gently(len % 2 == 0);
    // SAFETY: the caller's promise.
    unsafe { copy_in(dst, src, len) }
}

const ROUTINES: [Routine; 5] = [copy_with, stream_with, copy_default, copy_by_string, copy_read];

#[test]
fn every_length_to_1024_is_exact_at_telling_alignments() {
    let mut stand = Stand::new(1024 + 128);
    for kernel in Kernel::available() {
        for routine in ROUTINES {
            for len in 0..=1024 {
                for (dst_at, src_at) in [(0, 0), (1, 0), (0, 1), (8, 24), (16, 0), (63, 31), (33, 63)] {
                    stand.check(routine, kernel, dst_at, src_at, len);
                }
            }
        }
    }
}

#[test]
fn every_pair_of_alignments_is_exact_around_every_threshold() {
    let edges = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048];
    let mut stand = Stand::new(4096);
    for kernel in Kernel::available() {
        for len in edges.into_iter().flat_map(|edge| [edge - 1, edge, edge + 1]) {
            for dst_at in 0..64 {
                for src_at in 0..64 {
                    stand.check(copy_with, kernel, dst_at, src_at, len);
                    stand.check(copy_by_string, kernel, dst_at, src_at, len);
                    if len + 1 >= STREAM_COLD_MIN_BYTES {
                        stand.check(stream_with, kernel, dst_at, src_at, len);
                    }
                }
            }
        }
    }
}

#[test]
fn ranges_close_within_a_page_are_exact_in_both_directions() {
    let mut stand = Stand::new(3 * 4096);
    for below in [usize::MAX, 0] {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        super::x86::mind_aliases_below(below);
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = below;
        for kernel in Kernel::available() {
            for apart in (0..4096).step_by(37) {
                for len in [513, 600, 777, 1025, 2048, 4096, 5000] {
                    stand.check(copy_with, kernel, apart, 64, len);
                    stand.check(stream_with, kernel, apart, 64, len);
                }
            }
        }
    }
}

#[test]
fn copy_small_is_exact_at_every_length_and_alignment() {
    unsafe fn small(_: Kernel, dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: the caller's promise; the test stays within SMALL_MAX.
        unsafe { copy_small(dst, src, len) }
    }
    let mut stand = Stand::new(256);
    for len in 0..=SMALL_MAX {
        for dst_at in 0..64 {
            for src_at in 0..64 {
                stand.check(small, Kernel::best(), dst_at, src_at, len);
            }
        }
    }
}

#[test]
fn a_null_or_dangling_pair_with_no_bytes_is_not_touched() {
    for kernel in Kernel::available() {
        // SAFETY: ranges of no bytes are valid at any address.
        unsafe {
            copy_with(kernel, std::ptr::null_mut(), std::ptr::null(), 0);
            stream_with(kernel, std::ptr::dangling_mut(), std::ptr::dangling(), 0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_length_and_alignment_is_exact(len in 0usize..300_000, dst_at in 0usize..4096, src_at in 0usize..4096) {
        let mut stand = Stand::new(len + 4096);
        for kernel in Kernel::available() {
            for routine in ROUTINES {
                stand.check(routine, kernel, dst_at, src_at, len);
            }
        }
    }
}

#[test]
fn a_copy_of_several_mebibytes_is_exact() {
    let len = 5 * 1024 * 1024 + 123;
    let mut stand = Stand::new(len + 4096);
    for kernel in Kernel::available() {
        for routine in ROUTINES {
            stand.check(routine, kernel, 8, 0, len);
            stand.check(routine, kernel, 0, 8, len);
        }
    }
}

#[test]
fn streaming_is_exact_at_every_remainder_of_a_line_and_a_block() {
    let mut stand = Stand::new(3 * 16384);
    for kernel in Kernel::available() {
        for len in (2048..2048 + 300).chain(16384 - 70..16384 + 200).chain([2 * 16384 + 63, 2 * 16384 + 65]) {
            for (dst_at, src_at) in [(0, 0), (8, 0), (63, 1)] {
                stand.check(stream_with, kernel, dst_at, src_at, len);
            }
        }
    }
}

#[test]
fn a_source_that_changes_meanwhile_yields_only_bytes_it_held() {
    const LEN: usize = 3000;
    let shared = Shared(Box::into_raw(Box::new([b'a'; LEN])).cast());
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let texts = [[b'a'; LEN], [b'b'; LEN]];
            let mut turn = 0;
            // SYNC done: pairs with the Relaxed store below; only the end of the loop depends on it.
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                turn ^= 1;
                // SAFETY: both are LEN bytes; the shared ones are reached through raw pointers only.
                unsafe { copy(shared.start(), texts[turn].as_ptr(), LEN) };
            }
        });
        let mut out = [0; LEN];
        let held = |byte: &u8| *byte == b'a' || *byte == b'b';
        let wrong = Kernel::available().find(|&kernel| {
            (0..500).any(|_| {
                // SAFETY: both are LEN bytes, and the kernel is available.
                unsafe { copy_with(kernel, out.as_mut_ptr(), shared.start(), LEN) };
                !out.iter().all(held)
            })
        });
        // SYNC done: pairs with the load above.
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(wrong, None);
    });
    // SAFETY: made by `Box::into_raw` above with this type, and the writer has ended.
    drop(unsafe { Box::from_raw(shared.start().cast::<[u8; LEN]>()) });
}

/// Memory that two threads use as two processes would.
struct Shared(*mut u8);

impl Shared {
    fn start(&self) -> *mut u8 {
        self.0
    }
}

// SAFETY: what it points to is only reached by the copies, which allow for writers.
unsafe impl Sync for Shared {}
