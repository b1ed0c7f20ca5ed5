//! What every part of GT meets in: the op table, tapes, graphs, their text and binary forms, the
//! verifier and the reference interpreter.
//!
//! The central structure is [`Tape`]: a list of pure, single-assignment instructions together with
//! the points where values are freed. Everything else is derived from it and from one table,
//! [`op`].
//!
//! This crate knows nothing of sockets, threads, engines or the user-facing tensor types.

pub mod attr;
pub mod backend;
pub mod binary;
pub mod body;
pub mod canonical;
pub mod config;
pub mod data;
pub mod diagnostic;
pub mod dtype;
pub mod emit;
pub mod error;
pub mod factors;
pub mod grad;
pub mod graph;
pub mod intern;
pub mod interp;
pub mod layout;
pub mod lru;
pub mod matrix;
pub mod op;
pub mod operand;
pub mod philox;
mod rules;
pub mod scalar;
pub mod shape;
pub mod signal;
pub mod source_map;
pub mod splitmix;
pub mod tape;
#[doc(hidden)]
pub mod testing;
pub mod text;
pub mod units;
pub mod verify;

pub use body::{Body, Builder, Cond, Scan};
pub use data::{Element, HostTensor};
pub use dtype::DType;
pub use emit::Emit;
pub use error::OpError;
pub use graph::{Graph, NodeId, NodeKind, Segment, expand, lower, segment};
pub use intern::{DimName, Loc};
pub use op::{Class, Op, OpKind, infer};
pub use operand::{Operand, OperandType, ValueId};
pub use rules::promote::promote;
pub use scalar::Scalar;
pub use shape::{Dim, MAX_RANK, Shape, Type};
pub use tape::{Entry, Instr, Tape};
