//! Floating-point formats Rust has no type for: half, x87 extended and quad precision.
//!
//! A number is unpacked to a sign, an exponent and a 128-bit significand whose top bit is set; bits lost on the way are remembered in
//! the lowest bit, so one rounding at the end (to nearest, ties to even) gives the same result as the hardware. Half precision
//! goes through `f32`, which is wide enough that rounding twice cannot be seen.

use super::datatype::Format;
use std::cmp::Ordering;

/// A number of the extended or quad format, unpacked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Wide {
    NotANumber,
    Infinity { negative: bool },
    Finite(Finite),
}

/// Zero has significand 0; otherwise the top bit is set and the value is `significand × 2^(exponent - 127)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Finite {
    negative: bool,
    exponent: i32,
    significand: u128,
}

/// What tells the two wide formats apart: bits of the significand, leading one included.
const EXTENDED_BITS: u32 = 64;
const QUAD_BITS: u32 = 113;
const BIAS: i32 = 16383;
const EXPONENT_MAX: i32 = 0x7fff;

impl Wide {
    /// Unpacks 16 bytes in native order.
    pub(super) fn decode(bytes: [u8; 16], format: Format) -> Wide {
        let bits = u128::from_le_bytes(bytes);
        match format {
            Format::Extended => {
                let exponent = (bits >> 64) as i32 & EXPONENT_MAX;
                Wide::unpack(bits >> 79 & 1 == 1, exponent, (bits & u128::from(u64::MAX)) << 64)
            }
            _ => {
                let exponent = (bits >> 112) as i32 & EXPONENT_MAX;
                let leading = u128::from(exponent != 0) << 127;
                Wide::unpack(bits >> 127 == 1, exponent, leading | (bits << 16) >> 1)
            }
        }
    }

    fn unpack(negative: bool, exponent: i32, significand: u128) -> Wide {
        if exponent == EXPONENT_MAX {
            let infinite = significand << 1 == 0;
            return if infinite { Wide::Infinity { negative } } else { Wide::NotANumber };
        }
        Wide::Finite(Finite { negative, exponent: exponent.max(1) - BIAS, significand }.normal())
    }

    /// Rounds to a format and packs into 16 bytes in native order; padding is zero.
    pub(super) fn encode(self, format: Format) -> [u8; 16] {
        let precision = if format == Format::Extended { EXTENDED_BITS } else { QUAD_BITS };
        let (negative, exponent, significand) = match self {
            Wide::NotANumber => (false, EXPONENT_MAX, 0b11 << (precision - 2)),
            Wide::Infinity { negative } => (negative, EXPONENT_MAX, 1 << (precision - 1)),
            Wide::Finite(finite) => {
                let (exponent, significand) = finite.round(precision);
                (finite.negative, exponent, significand)
            }
        };
        let fields = (u128::from(negative) << 15) | exponent as u128;
        let bits = match format {
            Format::Extended => fields << 64 | significand,
            _ => fields << 112 | significand & ((1 << 112) - 1),
        };
        bits.to_le_bytes()
    }

    pub(super) fn add(self, other: Wide) -> Wide {
        match (self, other) {
            (Wide::NotANumber, _) | (_, Wide::NotANumber) => Wide::NotANumber,
            (Wide::Infinity { negative: a }, Wide::Infinity { negative: b }) if a != b => Wide::NotANumber,
            (Wide::Infinity { .. }, _) => self,
            (_, Wide::Infinity { .. }) => other,
            (Wide::Finite(a), Wide::Finite(b)) => Wide::Finite(a.add(b)),
        }
    }

    pub(super) fn mul(self, other: Wide) -> Wide {
        let negative = self.negative() != other.negative();
        match (self, other) {
            (Wide::NotANumber, _) | (_, Wide::NotANumber) => Wide::NotANumber,
            (Wide::Infinity { .. }, Wide::Finite(zero)) | (Wide::Finite(zero), Wide::Infinity { .. })
                if zero.significand == 0 =>
            {
                Wide::NotANumber
            }
            (Wide::Finite(a), Wide::Finite(b)) => Wide::Finite(a.mul(b)),
            _ => Wide::Infinity { negative },
        }
    }

    pub(super) fn negate(self) -> Wide {
        match self {
            Wide::NotANumber => Wide::NotANumber,
            Wide::Infinity { negative } => Wide::Infinity { negative: !negative },
            Wide::Finite(finite) => Wide::Finite(Finite { negative: !finite.negative, ..finite }),
        }
    }

    fn negative(self) -> bool {
        match self {
            Wide::NotANumber => false,
            Wide::Infinity { negative } => negative,
            Wide::Finite(finite) => finite.negative,
        }
    }
}

impl PartialOrd for Wide {
    fn partial_cmp(&self, other: &Wide) -> Option<Ordering> {
        let rank = |number: &Wide| match number {
            Wide::NotANumber => None,
            Wide::Infinity { negative: true } => Some((-2, 0, 0)),
            Wide::Infinity { negative: false } => Some((2, 0, 0)),
            Wide::Finite(f) if f.significand == 0 => Some((0, 0, 0)),
            Wide::Finite(f) if f.negative => Some((-1, -f.exponent, !f.significand)),
            Wide::Finite(f) => Some((1, f.exponent, f.significand)),
        };
        Some(rank(self)?.cmp(&rank(other)?))
    }
}

impl Finite {
    /// Moves the highest set bit to the top.
    fn normal(self) -> Finite {
        let shift = self.significand.leading_zeros();
        if shift == 128 {
            return Finite { exponent: 0, ..self };
        }
        Finite { exponent: self.exponent - shift as i32, significand: self.significand << shift, ..self }
    }

    /// The exponent field and the significand of `precision` bits nearest to this number.
    fn round(self, precision: u32) -> (i32, u128) {
        if self.significand == 0 {
            return (0, 0);
        }
        let field = self.exponent + BIAS;
        let deep = u32::try_from(1 - field).unwrap_or(0);
        let spare = 128 - precision;
        let significand = shift_right(self.significand, deep);
        let half = 1u128 << (spare - 1);
        let rest = significand & ((1 << spare) - 1);
        let mut kept = significand >> spare;
        kept += u128::from(rest > half || (rest == half && kept & 1 == 1));
        let mut field = if deep > 0 { 0 } else { field };
        if kept >> precision == 1 {
            kept >>= 1;
            field += 1;
        }
        if field == 0 && kept >> (precision - 1) == 1 {
            field = 1;
        }
        if field >= EXPONENT_MAX { (EXPONENT_MAX, 1 << (precision - 1)) } else { (field, kept) }
    }

    fn add(self, other: Finite) -> Finite {
        if self.significand == 0 || other.significand == 0 {
            return match (self.significand, other.significand) {
                (0, 0) => Finite { negative: self.negative && other.negative, ..self },
                (0, _) => other,
                _ => self,
            };
        }
        let (large, small) = if (self.exponent, self.significand) >= (other.exponent, other.significand) {
            (self, other)
        } else {
            (other, self)
        };
        let distance = (large.exponent - small.exponent) as u32;
        let (a, b) = (large.significand >> 2, shift_right(small.significand >> 2, distance));
        let significand = if large.negative == small.negative { a + b } else { a - b };
        let negative = large.negative && significand != 0;
        Finite { negative, exponent: large.exponent + 2, significand }.normal()
    }

    fn mul(self, other: Finite) -> Finite {
        let negative = self.negative != other.negative;
        let (high, low) = multiply(self.significand, other.significand);
        let significand = high | u128::from(low != 0);
        Finite { negative, exponent: self.exponent + other.exponent + 1, significand }.normal()
    }
}

/// Shifts right; a bit that falls off is remembered in the lowest bit.
fn shift_right(value: u128, by: u32) -> u128 {
    match by {
        0 => value,
        1..128 => value >> by | u128::from(value << (128 - by) != 0),
        _ => u128::from(value != 0),
    }
}

/// The 256-bit product as high and low half.
fn multiply(a: u128, b: u128) -> (u128, u128) {
    const LOW: u128 = u64::MAX as u128;
    let (a1, a0, b1, b0) = (a >> 64, a & LOW, b >> 64, b & LOW);
    let low = a0 * b0;
    let middle = a1 * b0 + (low >> 64);
    let other = a0 * b1 + (middle & LOW);
    (a1 * b1 + (middle >> 64) + (other >> 64), other << 64 | low & LOW)
}

/// Half precision to single precision; exact.
pub(super) fn half_to_single(half: u16) -> f32 {
    let sign = u32::from(half >> 15) << 31;
    let exponent = u32::from(half >> 10 & 0x1f);
    let fraction = u32::from(half & 0x3ff);
    match exponent {
        0 => f32::from_bits(sign | (fraction as f32 * 2f32.powi(-24)).to_bits()),
        0x1f => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

/// Single precision to half precision, to nearest, ties to even.
pub(super) fn single_to_half(single: f32) -> u16 {
    let bits = single.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    if magnitude > 0x7f80_0000 {
        return sign | 0x7e00;
    }
    if magnitude < 0x3880_0000 {
        // Below the normal range: one unit is 2^-24, and adding 2^-1 makes the hardware round to it.
        let rounded = f32::from_bits(magnitude) + 0.5;
        return sign | (rounded.to_bits() - 0.5f32.to_bits()) as u16;
    }
    let rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    if rounded >= 0x4780_0000 { sign | 0x7c00 } else { sign | ((rounded - 0x3800_0000) >> 13) as u16 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A double in a wide format, by hand.
    fn wide(value: f64) -> Wide {
        if value.is_nan() {
            return Wide::NotANumber;
        }
        let negative = value.is_sign_negative();
        if value.is_infinite() {
            return Wide::Infinity { negative };
        }
        let bits = value.to_bits();
        let field = (bits >> 52 & 0x7ff) as i32;
        let fraction = u128::from(bits & ((1 << 52) - 1));
        let significand = (fraction | u128::from(field != 0) << 52) << 75;
        Wide::Finite(Finite { negative, exponent: field.max(1) - 1023, significand }.normal())
    }

    /// Rounded to a double: exact for what these tests compute.
    fn narrow(number: Wide) -> f64 {
        match number {
            Wide::NotANumber => f64::NAN,
            Wide::Infinity { negative } => {
                if negative {
                    f64::NEG_INFINITY
                } else {
                    f64::INFINITY
                }
            }
            Wide::Finite(f) => {
                let magnitude = (f.significand >> 75) as f64 * 2f64.powi((f.exponent - 52).max(-1000));
                if f.negative { -magnitude } else { magnitude }
            }
        }
    }

    proptest! {
        #[test]
        fn both_wide_formats_hold_every_double_exactly(value: f64) {
            for format in [Format::Extended, Format::Quad] {
                let again = Wide::decode(wide(value).encode(format), format);
                prop_assert_eq!(again, wide(value));
            }
        }

        #[test]
        fn sums_and_products_of_small_integers_are_exact(a in -1_000_000i64..1_000_000, b in -1_000_000i64..1_000_000) {
            for format in [Format::Extended, Format::Quad] {
                let through = |number: Wide| narrow(Wide::decode(number.encode(format), format));
                prop_assert_eq!(through(wide(a as f64).add(wide(b as f64))), (a + b) as f64);
                prop_assert_eq!(through(wide(a as f64).mul(wide(b as f64))), (a * b) as f64);
            }
        }

        #[test]
        fn order_is_the_order_of_doubles(a: f64, b: f64) {
            prop_assert_eq!(wide(a).partial_cmp(&wide(b)), a.partial_cmp(&b));
        }

        #[test]
        fn the_smallest_extended_numbers_survive(bits in 0u64.., exponent in 0u16..4) {
            let normal = if exponent == 0 { bits >> 1 } else { bits | 1 << 63 };
            let number = u128::from(exponent) << 64 | u128::from(normal);
            let again = Wide::decode(number.to_le_bytes(), Format::Extended).encode(Format::Extended);
            prop_assert_eq!(u128::from_le_bytes(again), number);
        }
    }

    #[test]
    fn every_half_survives_the_way_through_single() {
        for half in 0..=u16::MAX {
            let single = half_to_single(half);
            if single.is_nan() {
                assert_eq!(single_to_half(single) & 0x7e00, 0x7e00);
            } else {
                assert_eq!(single_to_half(single), half, "{half:#x}");
            }
        }
        assert_eq!(single_to_half(65520.0), 0x7c00);
        assert_eq!(single_to_half(65519.9), 0x7bff);
        assert_eq!(single_to_half(1.0 + 1.0 / 2048.0), 0x3c00, "a tie goes to the even neighbour");
    }

    #[test]
    fn special_values_follow_ieee() {
        let infinity = Wide::Infinity { negative: false };
        assert_eq!(infinity.add(infinity.negate()), Wide::NotANumber);
        assert_eq!(infinity.mul(wide(0.0)), Wide::NotANumber);
        assert_eq!(infinity.mul(wide(-2.0)), infinity.negate());
        assert_eq!(Wide::decode(Wide::NotANumber.encode(Format::Quad), Format::Quad), Wide::NotANumber);
        let huge = Wide::decode(((0x7ffe_u128 << 112) | ((1 << 112) - 1)).to_le_bytes(), Format::Quad);
        assert_eq!(Wide::decode(huge.add(huge).encode(Format::Quad), Format::Quad), infinity);
    }
}
