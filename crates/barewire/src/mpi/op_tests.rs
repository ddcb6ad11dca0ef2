//! Every operation on every type: which pairs exist, and what they compute.

use super::*;

/// Applies an operation to two numbers given as bytes.
fn apply<const N: usize>(op: Builtin, basic: Basic, a: [u8; N], b: [u8; N]) -> [u8; N] {
    let mut result = b;
    op.combine(basic).unwrap()(&a, &mut result);
    result
}

macro_rules! apply {
    ($op:ident, $basic:ident, $number:ty, $a:expr, $b:expr) => {
        <$number>::from_ne_bytes(apply(
            Builtin::$op,
            Basic::$basic,
            <$number>::to_ne_bytes($a),
            <$number>::to_ne_bytes($b),
        ))
    };
}

/// The standard's table of allowed operations.
fn allowed(op: Builtin, basic: Basic) -> bool {
    use Builtin::{Band, Bor, Bxor, Land, Lor, Lxor, Max, Maxloc, Min, Minloc, NoOp, Prod, Replace, Sum};
    match (op, basic.kind()) {
        (Replace | NoOp, _) | (_, Kind::Text) => false,
        (Minloc | Maxloc, kind) => matches!(kind, Kind::Pair(_)),
        (_, Kind::Pair(_)) => false,
        (Min | Max, kind) => {
            matches!(kind, Kind::Signed | Kind::Unsigned | Kind::FortranInteger | Kind::Real(_))
        }
        (Sum | Prod, kind) => !matches!(kind, Kind::Logical | Kind::Byte),
        (Land | Lor | Lxor, kind) => matches!(kind, Kind::Signed | Kind::Unsigned | Kind::Logical),
        (Band | Bor | Bxor, kind) => {
            matches!(kind, Kind::Signed | Kind::Unsigned | Kind::FortranInteger | Kind::Byte)
        }
    }
}

#[test]
fn an_operation_exists_exactly_where_the_standard_defines_it() {
    for op in Builtin::ALL {
        assert_eq!(Builtin::from_handle(op as usize), Some(op));
        for basic in Basic::all() {
            let result = op.combine(basic);
            assert_eq!(result.is_ok(), allowed(op, basic), "{} on {}", op.name(), basic.name());
            if let Err(error) = result {
                assert_eq!(error.class(), Class::Op);
            }
            assert!(op.accumulate(basic).is_ok() || !allowed(op, basic));
        }
    }
}

#[test]
fn whole_elements_only_are_combined_and_from_any_address() {
    for basic in Basic::all() {
        for op in Builtin::ALL.into_iter().filter(|&op| allowed(op, basic)) {
            let extent = basic.extent() as usize;
            let input: Vec<u8> = (0..3 * extent + 1).map(|i| (i * 37 % 11) as u8).collect();
            let inout: Vec<u8> = (0..3 * extent + 1).map(|i| (i * 53 % 13) as u8).collect();
            let combine = op.combine(basic).unwrap();
            let mut together = inout.clone();
            combine(&input[1..], &mut together[1..]);
            let mut apart = inout.clone();
            for i in 0..3 {
                let place = 1 + i * extent..1 + (i + 1) * extent;
                combine(&input[place.clone()], &mut apart[place]);
            }
            assert_eq!(together, apart, "{} on {}", op.name(), basic.name());
            let mut short = inout.clone();
            combine(&input[..extent.saturating_sub(1)], &mut short);
            if extent > 1 && !matches!(op, Builtin::Band | Builtin::Bor | Builtin::Bxor) {
                let whole = if matches!(basic.kind(), Kind::Complex(_)) && op == Builtin::Sum {
                    extent / 2
                } else {
                    0
                };
                assert_eq!(short[whole..], inout[whole..], "{} on {}", op.name(), basic.name());
            }
        }
    }
}

#[test]
fn integers_wrap_and_compare_with_their_own_sign() {
    assert_eq!(apply!(Sum, Int, i32, i32::MAX, 1), i32::MIN);
    assert_eq!(apply!(Prod, UnsignedLong, u64, u64::MAX, 2), u64::MAX - 1);
    assert_eq!(apply!(Min, Int8, i8, -1, 1), -1);
    assert_eq!(apply!(Min, Uint8, u8, 255, 1), 1);
    assert_eq!(apply!(Max, Integer16, i128, i128::MIN, -1), -1);
    assert_eq!(apply!(Bxor, Short, i16, 0b1100, 0b1010), 0b0110);
    assert_eq!(apply!(Band, Byte, u8, 0b1100, 0b1010), 0b1000);
}

#[test]
fn truth_is_anything_but_zero_and_becomes_one() {
    assert_eq!(apply!(Land, Int, i32, 5, -7), 1);
    assert_eq!(apply!(Lor, Logical, i32, 0, 256), 1);
    assert_eq!(apply!(Lxor, CBool, u8, 1, 1), 0);
    assert_eq!(apply!(Lxor, Logical16, i128, 1 << 100, 0), 1);
    assert_eq!(apply!(Land, Logical8, i64, 1, 0), 0);
}

#[test]
fn floating_point_sums_products_and_extremes() {
    assert_eq!(apply!(Sum, Float, f32, 0.5, 0.25), 0.75);
    assert_eq!(apply!(Prod, Real8, f64, -3.0, 0.5), -1.5);
    assert_eq!(apply!(Max, Double, f64, -3.0, -4.0), -3.0);
    assert_eq!(apply!(Min, DoublePrecision, f64, f64::NEG_INFINITY, -4.0), f64::NEG_INFINITY);
    assert_eq!(apply!(Sum, Real2, u16, 0x3c00, 0x3c00), 0x4000, "one and one are two in half precision");
    assert_eq!(apply!(Prod, Real2, u16, 0x7bff, 0x7bff), 0x7c00, "beyond half precision is infinity");
}

#[test]
fn extended_and_quad_numbers_are_computed_to_their_full_width() {
    let extended = |exponent: i32, fraction: u64| {
        u128::from((exponent + 16383) as u16) << 64 | u128::from(fraction | 1 << 63)
    };
    let tiny = extended(-63, 0);
    assert_eq!(
        apply!(Sum, LongDouble, u128, extended(0, 0), tiny),
        extended(0, 1),
        "the last of 64 bits counts"
    );
    assert_eq!(apply!(Prod, LongDouble, u128, extended(1, 0), extended(2, 1)), extended(3, 1));
    assert_eq!(apply!(Max, LongDouble, u128, extended(0, 1), extended(0, 0)), extended(0, 1));
    let quad = |exponent: i32, fraction: u128| ((exponent + 16383) as u128) << 112 | fraction;
    assert_eq!(
        apply!(Sum, Real16, u128, quad(0, 0), quad(-112, 0)),
        quad(0, 1),
        "the last of 113 bits counts"
    );
    assert_eq!(apply!(Sum, Real16, u128, quad(0, 0), quad(-113, 0)), quad(0, 0), "a tie goes to even");
    assert_eq!(apply!(Prod, Real16, u128, quad(0, 1 << 111), quad(0, 1 << 111)), quad(1, 1 << 109));
}

#[test]
fn complex_numbers_are_multiplied_as_such() {
    let double = |re: f64, im: f64| [re.to_ne_bytes(), im.to_ne_bytes()].concat().try_into().unwrap();
    let product: [u8; 16] = apply(Builtin::Prod, Basic::CDoubleComplex, double(1.0, 2.0), double(3.0, 4.0));
    assert_eq!(product, double(-5.0, 10.0));
    let sum: [u8; 16] = apply(Builtin::Sum, Basic::DoubleComplex, double(1.0, 2.0), double(3.0, 4.0));
    assert_eq!(sum, double(4.0, 6.0));
    let half = |re: u16, im: u16| [re.to_ne_bytes(), im.to_ne_bytes()].concat().try_into().unwrap();
    let square: [u8; 4] = apply(Builtin::Prod, Basic::Complex4, half(0, 0x3c00), half(0, 0x3c00));
    assert_eq!(square, half(0xbc00, 0), "i times i is minus one");
}

#[test]
fn the_better_value_brings_its_index_and_ties_take_the_lower() {
    let pair = |value: f64, index: i32| {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&value.to_ne_bytes());
        bytes[8..12].copy_from_slice(&index.to_ne_bytes());
        bytes
    };
    let minloc = |a, b| apply(Builtin::Minloc, Basic::DoubleInt, a, b);
    assert_eq!(minloc(pair(1.0, 7), pair(2.0, 3)), pair(1.0, 7));
    assert_eq!(minloc(pair(2.0, 7), pair(2.0, 3)), pair(2.0, 3));
    assert_eq!(minloc(pair(2.0, 1), pair(2.0, 3)), pair(2.0, 1));
    let short = |value: i16, index: i32| {
        let mut bytes = [0; 8];
        bytes[..2].copy_from_slice(&value.to_ne_bytes());
        bytes[4..].copy_from_slice(&index.to_ne_bytes());
        bytes
    };
    assert_eq!(apply(Builtin::Maxloc, Basic::ShortInt, short(-5, 0), short(4, 9)), short(4, 9));
}

#[test]
fn many_elements_at_once_become_what_each_becomes_alone() {
    let mut pairs = 0;
    for (op, basic) in Builtin::ALL.into_iter().flat_map(|op| Basic::all().map(move |basic| (op, basic))) {
        let Ok(combine) = op.accumulate(basic) else { continue };
        let extent = basic.extent() as usize;
        // No byte is so large that a number would be none, and the last elements fill no register.
        let bytes = |seed: usize| (0..extent * 101).map(|at| (at * seed % 50) as u8).collect::<Vec<u8>>();
        let (input, before) = (bytes(7), bytes(11));
        let (mut together, mut alone) = (before.clone(), before);
        combine(&input, &mut together);
        for (one, into) in input.chunks(extent).zip(alone.chunks_mut(extent)) {
            combine(one, into);
        }
        assert_eq!(together, alone, "{} on {}", op.name(), basic.name());
        pairs += 1;
    }
    assert!(pairs > 300, "only {pairs} operations were looked at");
}
