//! Datatypes against the definition: a naive type map, written out entry by entry.

use super::*;
use proptest::prelude::*;

/// One entry for each byte-run of a basic value: displacement and basic type. Built from the standard's definitions of the
/// constructors, with no sharing of code with the real ones.
#[derive(Debug, Clone)]
struct Map {
    entries: Vec<(i64, Basic)>,
    /// Lower and upper; none for a type made of nothing.
    bounds: Option<(i64, i64)>,
}

impl Map {
    fn basic(basic: Basic) -> Map {
        Map { entries: vec![(0, basic)], bounds: Some((0, basic.extent())) }
    }

    fn extent(&self) -> i64 {
        self.bounds.map_or(0, |(lower, upper)| upper - lower)
    }

    fn size(&self) -> i64 {
        self.entries.iter().map(|(_, basic)| basic.size()).sum()
    }

    /// Copies of maps at displacements, in order.
    fn place(parts: &[(i64, Map)]) -> Map {
        let entries = parts.iter().flat_map(|(at, map)| map.entries.iter().map(move |(d, b)| (d + at, *b)));
        let bounds = parts.iter().filter_map(|(at, map)| map.bounds.map(|(low, high)| (at + low, at + high)));
        let hull = |a: (i64, i64), b: (i64, i64)| (a.0.min(b.0), a.1.max(b.1));
        Map { entries: entries.collect(), bounds: bounds.reduce(hull) }
    }

    fn blocks(blocks: &[(i64, i64)], old: &Map) -> Map {
        let copies = blocks.iter().flat_map(|&(at, n)| (0..n).map(move |i| at + i * old.extent()));
        Map::place(&copies.map(|at| (at, old.clone())).collect::<Vec<_>>())
    }

    /// Offsets in memory of every byte of the packed message.
    fn bytes(&self, count: i64) -> Vec<i64> {
        let mut bytes = Vec::new();
        for i in 0..count {
            for (at, basic) in &self.entries {
                let base = at + i * self.extent();
                match basic.kind() {
                    Kind::Pair(pair) => {
                        bytes.extend(base..base + pair.value.size());
                        let index = base + pair.index_offset;
                        bytes.extend(index..index + pair.index.size());
                    }
                    _ => bytes.extend(base..base + basic.size()),
                }
            }
        }
        bytes
    }
}

#[derive(Debug, Clone)]
struct Both {
    real: Datatype,
    map: Map,
}

fn any_basic() -> impl Strategy<Value = Both> {
    let all: Vec<Basic> = Basic::all().collect();
    prop::sample::select(all).prop_map(|basic| Both { real: basic.into(), map: Map::basic(basic) })
}

fn any_type() -> impl Strategy<Value = Both> {
    any_basic().prop_recursive(4, 40, 3, |inner| {
        prop_oneof![
            (inner.clone(), 0..4i64).prop_map(contiguous),
            (inner.clone(), 0..4i64, 0..3i64, -5..6i64).prop_map(vector),
            (inner.clone(), 0..4i64, 0..3i64, -40..40i64).prop_map(hvector),
            (inner.clone(), blocks(), any::<bool>()).prop_map(indexed),
            (inner.clone(), 0..3i64, prop::collection::vec(-6..6i64, 0..4), any::<bool>())
                .prop_map(indexed_block),
            prop::collection::vec((inner.clone(), 0..3i64, -40..40i64), 0..4).prop_map(structure),
            (inner.clone(), -20..20i64, -50..50i64).prop_map(resized),
            (inner.clone(), prop::collection::vec((1..5i64, 0..4i64, 0..4i64), 1..4), any::<bool>())
                .prop_map(subarray),
            inner.prop_map(|old| Both { real: old.real.dup(), map: old.map }),
        ]
    })
}

fn blocks() -> impl Strategy<Value = Vec<(i64, i64)>> {
    prop::collection::vec((-6..6i64, 0..3i64), 0..5)
}

fn contiguous((old, count): (Both, i64)) -> Both {
    let map = Map::blocks(&[(0, count)], &old.map);
    Both { real: Datatype::contiguous(count, &old.real).unwrap(), map }
}

fn vector((old, count, length, stride): (Both, i64, i64, i64)) -> Both {
    let blocks: Vec<_> = (0..count).map(|i| (i * stride * old.map.extent(), length)).collect();
    let map = Map::blocks(&blocks, &old.map);
    Both { real: Datatype::vector(count, length, stride, &old.real).unwrap(), map }
}

fn hvector((old, count, length, stride): (Both, i64, i64, i64)) -> Both {
    let blocks: Vec<_> = (0..count).map(|i| (i * stride, length)).collect();
    let map = Map::blocks(&blocks, &old.map);
    Both { real: Datatype::hvector(count, length, stride, &old.real).unwrap(), map }
}

fn indexed((old, blocks, bytes): (Both, Vec<(i64, i64)>, bool)) -> Both {
    let (at, lengths): (Vec<i64>, Vec<i64>) = blocks.iter().copied().unzip();
    let unit = if bytes { 1 } else { old.map.extent() };
    let map = Map::blocks(&blocks.iter().map(|&(at, n)| (at * unit, n)).collect::<Vec<_>>(), &old.map);
    let make = if bytes { Datatype::hindexed } else { Datatype::indexed };
    Both { real: make(&lengths, &at, &old.real).unwrap(), map }
}

fn indexed_block((old, length, at, bytes): (Both, i64, Vec<i64>, bool)) -> Both {
    let unit = if bytes { 1 } else { old.map.extent() };
    let map = Map::blocks(&at.iter().map(|&at| (at * unit, length)).collect::<Vec<_>>(), &old.map);
    let make = if bytes { Datatype::hindexed_block } else { Datatype::indexed_block };
    Both { real: make(length, &at, &old.real).unwrap(), map }
}

fn structure(fields: Vec<(Both, i64, i64)>) -> Both {
    let parts: Vec<_> = fields
        .iter()
        .flat_map(|(old, n, at)| (0..*n).map(move |i| (at + i * old.map.extent(), old.map.clone())))
        .collect();
    let mut map = Map::place(&parts);
    let used = fields.iter().filter(|(_, n, _)| *n > 0);
    let alignment =
        used.flat_map(|(old, ..)| old.map.entries.iter().map(|(_, b)| b.alignment())).max().unwrap_or(1);
    let pad = (alignment - map.extent().rem_euclid(alignment)) % alignment;
    map.bounds = map.bounds.map(|(lower, upper)| (lower, upper + pad));
    let types: Vec<_> = fields.iter().map(|(old, ..)| old.real.clone()).collect();
    let lengths: Vec<_> = fields.iter().map(|(_, n, _)| *n).collect();
    let at: Vec<_> = fields.iter().map(|(.., at)| *at).collect();
    Both { real: Datatype::structure(&lengths, &at, &types).unwrap(), map }
}

fn resized((old, lower, extent): (Both, i64, i64)) -> Both {
    let map = Map { bounds: Some((lower, lower + extent)), ..old.map };
    Both { real: Datatype::resized(&old.real, lower, extent).unwrap(), map }
}

fn subarray((old, dimensions, fortran): (Both, Vec<(i64, i64, i64)>, bool)) -> Both {
    let sizes: Vec<i64> = dimensions.iter().map(|d| d.0).collect();
    let subsizes: Vec<i64> = dimensions.iter().map(|d| d.1.clamp(1, d.0)).collect();
    let starts: Vec<i64> = dimensions.iter().zip(&subsizes).map(|(d, &n)| d.2.min(d.0 - n)).collect();
    let order = if fortran { Order::Fortran } else { Order::C };
    let owned: Vec<Vec<i64>> = starts.iter().zip(&subsizes).map(|(&s, &n)| (s..s + n).collect()).collect();
    let map = selection(&sizes, &owned, order, &old.map);
    Both { real: Datatype::subarray(&sizes, &subsizes, &starts, order, &old.real).unwrap(), map }
}

/// The elements of an array whose index in each dimension is among those `owned`.
fn selection(sizes: &[i64], owned: &[Vec<i64>], order: Order, old: &Map) -> Map {
    let dimensions: Vec<usize> = match order {
        Order::C => (0..sizes.len()).collect(),
        Order::Fortran => (0..sizes.len()).rev().collect(),
    };
    let mut places = vec![0];
    for &d in &dimensions {
        places = places.iter().flat_map(|&p| owned[d].iter().map(move |&i| p * sizes[d] + i)).collect();
    }
    let parts: Vec<_> = places.iter().map(|p| (p * old.extent(), old.clone())).collect();
    let whole = sizes.iter().product::<i64>() * old.extent();
    Map { bounds: Some((0, whole)), ..Map::place(&parts) }
}

/// Memory on both sides of the user's address.
struct Around {
    bytes: Vec<u8>,
    origin: i64,
}

impl Around {
    fn holding(offsets: &[i64]) -> Around {
        let low = offsets.iter().copied().min().unwrap_or(0).min(0);
        let high = offsets.iter().copied().max().unwrap_or(0).max(0) + 1;
        Around { bytes: vec![0; (high - low) as usize], origin: -low }
    }

    fn patterned(offsets: &[i64]) -> Around {
        let mut memory = Around::holding(offsets);
        for (i, byte) in memory.bytes.iter_mut().enumerate() {
            *byte = (i as u32).wrapping_mul(2_654_435_761).to_le_bytes()[2];
        }
        memory
    }

    fn at(&self, offset: i64) -> usize {
        usize::try_from(offset + self.origin).expect("inside")
    }
}

impl Source for Around {
    fn copy_in(&self, offset: isize, into: &mut [u8]) {
        let at = self.at(offset as i64);
        into.copy_from_slice(&self.bytes[at..at + into.len()]);
    }
}

impl Sink for Around {
    fn copy_out(&mut self, offset: isize, from: &[u8]) {
        let at = self.at(offset as i64);
        self.bytes[at..at + from.len()].copy_from_slice(from);
    }
}

proptest! {
    #[test]
    fn sizes_and_bounds_are_those_of_the_type_map(both in any_type()) {
        prop_assume!(both.map.entries.len() < 5000);
        let Both { real, map } = both;
        prop_assert_eq!(real.size(), map.size());
        prop_assert_eq!(real.lower_bound(), map.bounds.map_or(0, |bounds| bounds.0));
        prop_assert_eq!(real.extent(), map.extent());
        if !map.entries.is_empty() {
            let bytes = map.bytes(1);
            let (low, high) = (*bytes.iter().min().unwrap(), *bytes.iter().max().unwrap());
            prop_assert_eq!(real.true_lower_bound(), low);
            prop_assert_eq!(real.true_extent(), high + 1 - low);
        }
        prop_assert_eq!(real.elements(), map.entries.iter().map(|(_, b)| b.elements()).sum::<i64>());
        let external: i64 = map.entries.iter().map(|(_, b)| b.external_size()).sum();
        prop_assert_eq!(real.external_size(2).unwrap(), 2 * external);
        if let Some(basic) = real.uniform() {
            prop_assert!(map.entries.iter().all(|(_, b)| *b == basic));
        }
    }

    #[test]
    fn packing_in_pieces_gives_the_bytes_of_the_type_map(both in any_type(), count in 0..4i64, piece in 1..40usize) {
        prop_assume!(both.map.entries.len() < 2000);
        let Both { real, map } = both;
        let bytes = map.bytes(count);
        let memory = Around::patterned(&bytes);
        let expected: Vec<u8> = bytes.iter().map(|&at| memory.bytes[memory.at(at)]).collect();
        prop_assert_eq!(real.packed_size(count).unwrap() as usize, expected.len());
        let mut packed = Vec::new();
        let mut out = vec![0; piece];
        loop {
            let n = real.pack(count, &memory, packed.len() as i64, &mut out);
            packed.extend_from_slice(&out[..n]);
            if n < piece {
                break;
            }
        }
        prop_assert_eq!(&packed, &expected);

        let mut copy = Around::holding(&bytes);
        let mut reference = Around::holding(&bytes);
        for (&at, &byte) in bytes.iter().zip(&packed) {
            let at = reference.at(at);
            reference.bytes[at] = byte;
        }
        for (i, chunk) in packed.chunks(piece).enumerate() {
            prop_assert_eq!(real.unpack(count, &mut copy, (i * piece) as i64, chunk), chunk.len());
        }
        prop_assert_eq!(copy.bytes, reference.bytes);
    }

    #[test]
    fn runs_never_touch_and_cover_the_message(both in any_type(), count in 0..4i64) {
        prop_assume!(both.map.entries.len() < 2000);
        let Both { real, map } = both;
        let mut bytes = Vec::new();
        real.runs(count, 0, i64::MAX, |offset, len| bytes.extend(offset..offset + len));
        prop_assert_eq!(&bytes, &map.bytes(count));
        if let Some((offset, len)) = real.contiguous_run(count) {
            prop_assert_eq!(bytes, (offset..offset + len).collect::<Vec<_>>());
        }
    }

    #[test]
    fn partial_messages_count_the_elements_they_hold(both in any_type(), bytes in 0..200i64) {
        prop_assume!(both.map.entries.len() < 1000);
        let Both { real, map } = both;
        if map.entries.is_empty() {
            prop_assert_eq!(real.elements_in(bytes), (bytes == 0).then_some(0));
            return Ok(());
        }
        let sizes = map.entries.iter().flat_map(|(_, basic)| match basic.kind() {
            Kind::Pair(pair) => vec![pair.value.size(), pair.index.size()],
            _ => vec![basic.size()],
        });
        let mut ends = vec![0];
        for size in sizes.collect::<Vec<_>>().into_iter().cycle() {
            let end = ends[ends.len() - 1] + size;
            if end > bytes {
                break;
            }
            ends.push(end);
        }
        let expected = (ends[ends.len() - 1] == bytes).then(|| ends.len() as i64 - 1);
        prop_assert_eq!(real.elements_in(bytes), expected);
        prop_assert_eq!(real.bytes_of_elements(ends.len() as i64 - 1), ends.last().copied());
    }

    #[test]
    fn external32_comes_back_as_it_was(basic in any_basic(), count in 1..5i64, seed: u64) {
        let real = Datatype::vector(count, 2, 3, &basic.real).unwrap();
        let Some(Kind::Real(Format::Half | Format::Single | Format::Double | Format::Quad) | Kind::Byte | Kind::FortranInteger | Kind::Logical) =
            basic.real.as_basic().map(Basic::kind) else { return Ok(()) };
        let mut memory = vec![0u8; real.extent() as usize];
        for (i, byte) in memory.iter_mut().enumerate() {
            *byte = seed.rotate_left(i as u32 * 7) as u8;
        }
        let mut out = vec![0; real.external_size(1).unwrap() as usize];
        real.pack_external(1, &memory[..], &mut out).unwrap();
        let mut again = memory.clone();
        real.runs(1, 0, i64::MAX, |offset, len| again[offset as usize..(offset + len) as usize].fill(0));
        real.unpack_external(1, &mut again[..], &out).unwrap();
        prop_assert_eq!(again, memory);
    }

    #[test]
    fn a_distributed_array_is_dealt_out_completely_and_once(
        dimensions in prop::collection::vec((1..9i64, 1..4i32, 0..3usize, prop::option::of(1..4i32)), 1..4),
        fortran: bool,
    ) {
        let distributions = [Distribution::None, Distribution::Block, Distribution::Cyclic];
        let kinds: Vec<_> = dimensions.iter().map(|d| distributions[d.2]).collect();
        let grid: Vec<i32> = dimensions.iter().map(|d| if d.2 == 0 { 1 } else { d.1 }).collect();
        let sizes: Vec<i64> = dimensions.iter().map(|d| d.0).collect();
        let arguments: Vec<i32> = dimensions.iter().zip(&grid).map(|(d, &p)| match (d.2, d.3) {
            (_, None) => 19,
            (1, Some(b)) => b.max((d.0 as i32 + p - 1) / p),
            (_, Some(b)) => b,
        }).collect();
        let processes: i32 = grid.iter().product();
        let order = if fortran { Order::Fortran } else { Order::C };
        let old = Map::basic(Basic::Short);
        let mut seen = vec![0; sizes.iter().product::<i64>() as usize];
        for rank in 0..processes {
            let real = Datatype::darray(processes, rank, &sizes, &kinds, &arguments, &grid, order, &Basic::Short.into()).unwrap();
            let mut rest = rank;
            let mut owned: Vec<Vec<i64>> = vec![Vec::new(); sizes.len()];
            for d in (0..sizes.len()).rev() {
                let (p, c) = (i64::from(grid[d]), i64::from(rest % grid[d]));
                rest /= grid[d];
                let block = match (kinds[d], arguments[d]) {
                    (Distribution::None, _) => sizes[d],
                    (Distribution::Block, 19) => (sizes[d] + p - 1) / p,
                    (Distribution::Cyclic, 19) => 1,
                    (_, b) => i64::from(b),
                };
                owned[d] = (0..sizes[d]).filter(|i| i / block % p == c).collect();
            }
            let map = selection(&sizes, &owned, order, &old);
            let mut bytes = Vec::new();
            real.runs(1, 0, i64::MAX, |offset, len| bytes.extend(offset..offset + len));
            prop_assert_eq!(&bytes, &map.bytes(1));
            prop_assert_eq!(real.extent(), map.extent());
            bytes.iter().step_by(2).for_each(|&at| seen[at as usize / 2] += 1);
        }
        prop_assert!(seen.iter().all(|&n| n == 1));
    }
}

#[test]
fn external32_turns_extended_numbers_into_quad() {
    let one = (0x3fff_u128 << 64 | 1 << 63).to_le_bytes();
    let mut out = [0; 16];
    Datatype::from(Basic::LongDouble).pack_external(1, &one[..], &mut out).unwrap();
    assert_eq!(out, (0x3fff_u128 << 112).to_be_bytes());
    let mut again = [0; 16];
    Datatype::from(Basic::LongDouble).unpack_external(1, &mut again[..], &out).unwrap();
    assert_eq!(again, one);
}

#[test]
fn external32_packs_a_record_without_its_gaps() {
    let types: [Datatype; 3] = [Basic::Char.into(), Basic::DoubleInt.into(), Basic::Long.into()];
    let record = Datatype::structure(&[1, 1, 1], &[0, 8, 24], &types).unwrap();
    let mut memory = [0xaa; 32];
    memory[0] = b'x';
    memory[8..16].copy_from_slice(&(-1.5f64).to_ne_bytes());
    memory[16..20].copy_from_slice(&258i32.to_ne_bytes());
    memory[24..].copy_from_slice(&(-2i64).to_ne_bytes());
    let mut out = [0; 17];
    assert_eq!(record.pack_external(1, &memory[..], &mut out).unwrap(), 17);
    assert_eq!(out, *b"x\xbf\xf8\0\0\0\0\0\0\0\0\x01\x02\xff\xff\xff\xfe");
    let mut again = [0xaa; 32];
    assert_eq!(record.unpack_external(1, &mut again[..], &out).unwrap(), 17);
    assert_eq!(again, memory);
}

#[test]
fn external32_refuses_a_long_that_does_not_fit() {
    let long = Datatype::from(Basic::Long);
    let mut out = [0; 4];
    for fits in [i64::from(i32::MIN), -1, 0, i64::from(i32::MAX)] {
        long.pack_external(1, &fits.to_le_bytes()[..], &mut out).unwrap();
        let mut again = [7; 8];
        long.unpack_external(1, &mut again[..], &out).unwrap();
        assert_eq!(i64::from_le_bytes(again), fits);
    }
    let error = long.pack_external(1, &(1i64 << 31).to_le_bytes()[..], &mut out).unwrap_err();
    assert_eq!(error.class(), Class::Conversion);
    assert_eq!(long.pack_external(2, &[0; 16][..], &mut out).unwrap_err().class(), Class::Truncate);
}

#[test]
fn types_too_large_for_64_bits_are_refused() {
    let int = Datatype::from(Basic::Int);
    let half = Datatype::contiguous(1 << 60, &int).unwrap();
    assert_eq!(half.size(), 1 << 62);
    for error in [
        Datatype::contiguous(2, &half).unwrap_err(),
        Datatype::vector(3, 1, i64::MAX, &int).unwrap_err(),
        Datatype::hindexed(&[1, 1], &[i64::MIN, i64::MAX - 4], &int).unwrap_err(),
        Datatype::hindexed(&[1], &[i64::MAX], &int).unwrap_err(),
        Datatype::resized(&int, i64::MAX, i64::MAX).unwrap_err(),
        Datatype::contiguous(-1, &int).unwrap_err(),
    ] {
        assert_eq!(error.class(), Class::Count);
    }
}

#[test]
fn arguments_outside_their_array_are_refused() {
    let int = Datatype::from(Basic::Int);
    for (size, subsize, start) in
        [(4, 5, 0), (4, 0, 0), (4, 2, 3), (4, 2, -1), (0, 1, 0), (i64::MAX, 2, i64::MAX)]
    {
        let error = Datatype::subarray(&[size], &[subsize], &[start], Order::C, &int).unwrap_err();
        assert_eq!(error.class(), Class::Arg, "{size} {subsize} {start}");
    }
    let darray = |size, rank, global, kind, argument, grid| {
        Datatype::darray(size, rank, &[global], &[kind], &[argument], &[grid], Order::C, &int)
    };
    assert!(darray(2, 2, 4, Distribution::Block, 19, 2).is_err());
    assert!(darray(3, 0, 4, Distribution::Block, 19, 2).is_err());
    assert!(darray(2, 0, 4, Distribution::Block, 1, 2).is_err());
    assert!(darray(2, 0, 4, Distribution::None, 19, 2).is_err());
    assert!(darray(2, 0, 4, Distribution::Cyclic, 0, 2).is_err());
    assert!(darray(2, 0, 0, Distribution::Cyclic, 1, 2).is_err());
}

#[test]
fn contents_are_the_arguments_of_the_call_in_both_forms() {
    let int = Datatype::from(Basic::Int);
    let large = Datatype::hindexed(&[1, 2], &[0, 16], &int).unwrap();
    let counts = |t: &Datatype| {
        let e = t.envelope();
        (e.integers, e.addresses, e.counts, e.types)
    };
    assert_eq!(counts(&large), (0, 0, 5, 1));
    assert_eq!(large.contents().counts, [2, 1, 2, 0, 16]);
    let small = large.made_with_ints();
    assert_eq!(counts(&small), (3, 2, 0, 1));
    assert_eq!(small.contents().integers, [2, 1, 2]);
    assert_eq!(small.contents().addresses, [0, 16]);
    let tile = Datatype::subarray(&[4, 6], &[2, 3], &[1, 2], Order::Fortran, &int).unwrap();
    assert_eq!(counts(&tile), (2, 0, 6, 1));
    assert_eq!(tile.made_with_ints().contents().integers, [2, 4, 6, 2, 3, 1, 2, 15]);
    let huge = Datatype::contiguous(1 << 40, &int).unwrap().made_with_ints();
    assert_eq!(counts(&huge), (0, 0, 1, 1), "a count beyond int keeps the large form");
}

#[test]
fn fortran_kinds_are_the_smallest_that_hold_the_range() {
    assert_eq!(Datatype::f90_real(Some(6), Some(30)).unwrap().size(), 4);
    assert_eq!(Datatype::f90_real(Some(6), Some(38)).unwrap().size(), 8);
    assert_eq!(Datatype::f90_complex(Some(16), None).unwrap().size(), 32);
    assert_eq!(Datatype::f90_integer(9).unwrap().size(), 4);
    assert_eq!(Datatype::f90_integer(10).unwrap().contents().integers, [10]);
    assert!(Datatype::f90_integer(39).is_err());
    assert!(Datatype::f90_real(Some(34), None).is_err());
    assert!(Datatype::f90_real(None, None).is_err());
}
