//! `external32`: the portable representation, big-endian and of fixed widths.
//!
//! Integers change width where this machine's is another; a value that does not fit is an error rather than a wrong number.
//! x87 extended numbers travel as IEEE quad. Everything else is turned around byte by byte.

use super::pack::{Sink, Source};
use super::{Basic, Block, Datatype, Field, Format, Kind, Shape};
use crate::mpi::error::{Class, Error, Result};
use crate::mpi::float::Wide;

/// Room for the largest basic type.
const WIDEST: usize = 32;

impl Datatype {
    /// Bytes `count` elements take in `external32`.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Datatype};
    /// assert_eq!(Datatype::from(Basic::Long).external_size(3)?, 12, "a long has four bytes there");
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn external_size(&self, count: i64) -> Result<i64> {
        self.packed_size(count)?;
        self.external_size_of_one()
            .checked_mul(count)
            .ok_or_else(|| Error::new(Class::Count, format!("{count} elements do not fit in 64 bits")))
    }

    fn external_size_of_one(&self) -> i64 {
        match &self.0.shape {
            Shape::Basic(basic) => basic.external_size(),
            Shape::Repeat { count, body, .. } => count * body.external_size_of_one(),
            Shape::Blocks { blocks, body } => {
                blocks.iter().map(|block| block.count).sum::<i64>() * body.external_size_of_one()
            }
            Shape::Fields(fields) => {
                fields.iter().map(|field| field.block.count * field.body.external_size_of_one()).sum()
            }
        }
    }

    /// Packs `count` elements in `external32` into `out`, which must have room; returns the bytes used.
    ///
    /// ```
    /// use barewire::mpi::datatype::{Basic, Datatype};
    /// let mut out = [0; 4];
    /// Datatype::from(Basic::Int).pack_external(1, &258i32.to_ne_bytes()[..], &mut out)?;
    /// assert_eq!(out, [0, 0, 1, 2]);
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn pack_external<S: Source + ?Sized>(&self, count: i64, memory: &S, out: &mut [u8]) -> Result<usize> {
        let size = self.room(count, out.len())?;
        let mut rest = &mut out[..size];
        self.each_basic(count, &mut |basic, offset| {
            let (head, tail) = std::mem::take(&mut rest).split_at_mut(basic.external_size() as usize);
            rest = tail;
            let mut native = [0; WIDEST];
            let native = &mut native[..basic.size() as usize];
            memory.copy_in(offset as isize, native);
            to_external(basic, native, head)
        })?;
        Ok(size)
    }

    /// Unpacks `count` elements in `external32` from the front of `packed`; returns the bytes used.
    ///
    /// ```
    /// use barewire::mpi::{datatype::{Basic, Datatype}, error::Class};
    /// let long = Datatype::from(Basic::Long);
    /// let mut number = [0; 8];
    /// assert_eq!(long.unpack_external(1, &mut number[..], &[0xff, 0xff, 0xff, 0xfe])?, 4);
    /// assert_eq!(i64::from_ne_bytes(number), -2);
    /// assert_eq!(long.unpack_external(1, &mut number[..], &[0; 3]).unwrap_err().class(), Class::Truncate);
    /// # Ok::<(), barewire::mpi::error::Error>(())
    /// ```
    pub fn unpack_external<S: Sink + ?Sized>(
        &self,
        count: i64,
        memory: &mut S,
        packed: &[u8],
    ) -> Result<usize> {
        let size = self.room(count, packed.len())?;
        let mut rest = &packed[..size];
        self.each_basic(count, &mut |basic, offset| {
            let (head, tail) = rest.split_at(basic.external_size() as usize);
            rest = tail;
            let mut native = [0; WIDEST];
            let native = &mut native[..basic.size() as usize];
            from_external(basic, head, native);
            memory.copy_out(offset as isize, native);
            Ok(())
        })?;
        Ok(size)
    }

    fn room(&self, count: i64, room: usize) -> Result<usize> {
        let size = self.external_size(count)?;
        usize::try_from(size).ok().filter(|&size| size <= room).ok_or_else(|| {
            Error::new(Class::Truncate, format!("{size} bytes are needed and {room} are there"))
        })
    }

    /// Calls `visit` for every basic value, in the order of the type map; pairs come as two values.
    fn each_basic(&self, count: i64, visit: &mut dyn FnMut(Basic, i64) -> Result<()>) -> Result<()> {
        self.each_basic_at(Block { offset: 0, count }, self.extent(), visit)
    }

    fn each_basic_at(
        &self,
        block: Block,
        stride: i64,
        visit: &mut dyn FnMut(Basic, i64) -> Result<()>,
    ) -> Result<()> {
        for i in 0..block.count {
            let base = block.offset + i * stride;
            match &self.0.shape {
                Shape::Basic(basic) => match basic.kind() {
                    Kind::Pair(pair) => {
                        visit(pair.value, base)?;
                        visit(pair.index, base + pair.index_offset)?;
                    }
                    _ => visit(*basic, base)?,
                },
                Shape::Repeat { count, stride, body } => {
                    body.each_basic_at(Block { offset: base, count: *count }, *stride, visit)?;
                }
                Shape::Blocks { blocks, body } => {
                    for part in blocks {
                        body.each_basic_at(part.moved(base), body.extent(), visit)?;
                    }
                }
                Shape::Fields(fields) => {
                    for Field { block, body } in fields {
                        body.each_basic_at(block.moved(base), body.extent(), visit)?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Block {
    fn moved(self, by: i64) -> Block {
        Block { offset: self.offset + by, ..self }
    }
}

fn to_external(basic: Basic, native: &[u8], out: &mut [u8]) -> Result<()> {
    match basic.kind() {
        Kind::Real(Format::Extended) => {
            out.copy_from_slice(&extended_to_quad(
                native.try_into().expect("an extended number has 16 bytes"),
            ));
        }
        Kind::Complex(_) => {
            let (real, imaginary) = native.split_at(native.len() / 2);
            let (out_real, out_imaginary) = out.split_at_mut(out.len() / 2);
            for (part, out) in [(real, out_real), (imaginary, out_imaginary)] {
                match basic.kind() {
                    Kind::Complex(Format::Extended) => {
                        out.copy_from_slice(&extended_to_quad(part.try_into().expect("half of 32 bytes")));
                    }
                    _ => swap(part, out),
                }
            }
        }
        _ => {
            let (low, high) = native.split_at(out.len());
            let sign = if basic.kind() == Kind::Signed && low[low.len() - 1] & 0x80 != 0 { 0xff } else { 0 };
            if high.iter().any(|&byte| byte != sign) {
                let what = format!("a value of {} does not fit in {} bytes", basic.name(), out.len());
                return Err(Error::new(Class::Conversion, what));
            }
            swap(low, out);
        }
    }
    Ok(())
}

fn from_external(basic: Basic, packed: &[u8], native: &mut [u8]) {
    match basic.kind() {
        Kind::Real(Format::Extended) => {
            native.copy_from_slice(&quad_to_extended(packed.try_into().expect("a quad number has 16 bytes")));
        }
        Kind::Complex(format) => {
            let (real, imaginary) = packed.split_at(packed.len() / 2);
            let (out_real, out_imaginary) = native.split_at_mut(native.len() / 2);
            for (part, out) in [(real, out_real), (imaginary, out_imaginary)] {
                match format {
                    Format::Extended => {
                        out.copy_from_slice(&quad_to_extended(part.try_into().expect("half of 32 bytes")));
                    }
                    _ => swap(part, out),
                }
            }
        }
        kind => {
            let negative = kind == Kind::Signed && packed[0] & 0x80 != 0;
            let (low, high) = native.split_at_mut(packed.len());
            swap(packed, low);
            high.fill(if negative { 0xff } else { 0 });
        }
    }
}

fn extended_to_quad(native: [u8; 16]) -> [u8; 16] {
    let mut quad = Wide::decode(native, Format::Extended).encode(Format::Quad);
    quad.reverse();
    quad
}

fn quad_to_extended(mut packed: [u8; 16]) -> [u8; 16] {
    packed.reverse();
    Wide::decode(packed, Format::Quad).encode(Format::Extended)
}

fn swap(from: &[u8], into: &mut [u8]) {
    for (into, from) in into.iter_mut().zip(from.iter().rev()) {
        *into = *from;
    }
}

const _: () = assert!(cfg!(target_endian = "little"), "native numbers are turned around for external32");
