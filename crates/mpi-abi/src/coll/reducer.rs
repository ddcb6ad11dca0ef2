//! Combining: an operation, on so many elements of a datatype, with room for what comes in between.

use super::Data;
use crate::boundary::{MPI_Datatype, MPI_Op, Memory, Scratch};
use crate::object::{TypeRef, UserOp};
use crate::shim::op::call;
use crate::shim::pack::usable;
use crate::world::world;
use barewire::mpi::datatype::Datatype;
use barewire::mpi::error::{Class, Error, Result};
use barewire::mpi::op::Combine;
use std::sync::Arc;

/// An operation on elements of a datatype.
pub(crate) struct Reducer {
    datatype: Datatype,
    handle: MPI_Datatype,
    object: TypeRef,
    way: How,
}

enum How {
    Builtin(Combine),
    User(Arc<UserOp>),
}

/// Room for elements, and the address at which they count as beginning.
pub(crate) struct Room {
    /// The elements.
    pub data: Data,
    _scratch: Scratch,
}

impl Reducer {
    /// The operation the program's arguments describe; `memory` and `count` are checked on the way.
    pub fn new(memory: Memory, count: i64, handle: MPI_Datatype, op: MPI_Op) -> Result<Reducer> {
        let object = usable(handle, memory, count)?;
        let datatype = object.datatype.clone();
        let way = match world().op(op)? {
            Ok(builtin) => {
                let basic = datatype.operand().ok_or_else(|| {
                    Error::new(Class::Op, format!("{} takes predefined datatypes only", builtin.name()))
                })?;
                How::Builtin(builtin.combine(basic)?)
            }
            Err(user) => How::User(user),
        };
        Ok(Reducer { datatype, handle, object, way })
    }

    /// Whether operands may be exchanged.
    pub fn commutes(&self) -> bool {
        match &self.way {
            How::Builtin(_) => true,
            How::User(op) => op.commutes,
        }
    }

    /// Whether elements can be combined a part at a time.
    pub fn is_builtin(&self) -> bool {
        matches!(self.way, How::Builtin(_))
    }

    /// `count` elements at an address.
    pub fn data(&self, memory: Memory, count: i64) -> Data {
        Data::of(memory, count, &self.object)
    }

    /// Room for `count` elements.
    pub fn room(&self, count: i64) -> Room {
        let span = self.datatype.extent().abs() * (count - 1).max(0) + self.datatype.true_extent();
        let scratch = Scratch::new(if count == 0 { 0 } else { span as usize });
        let first = self.datatype.true_lower_bound() + (self.datatype.extent() * (count - 1).max(0)).min(0);
        let memory = scratch.memory().moved(-first);
        Room { data: self.data(memory, count), _scratch: scratch }
    }

    /// Combines as many elements: `inout = input op inout`.
    pub fn combine(&self, input: &Data, inout: &Data) -> Result<()> {
        let (mut place, count) = (inout.memory, inout.count);
        match &self.way {
            _ if count == 0 => {}
            How::Builtin(combine) => {
                let len = (count * self.datatype.extent()) as usize;
                combine(input.memory.bytes(0, len)?, place.bytes_mut(0, len)?);
            }
            How::User(op) => call(op, input.memory, place, count, self.handle, self.datatype.extent()),
        }
        Ok(())
    }
}
