//! What the lines of a step say: numbers, whose text is made later, on the thread of the writer.

use std::fmt;

use gt_ir::ValueId;

use crate::ids::{RequestId, SessionId};
use Part::{N, P};

/// The details of a line that comes with every step: of what, and its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(super) of: Of,
    pub(super) fact: Fact,
}

/// What the numbers belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Nothing,
    Session(SessionId),
    /// A session, the number of its segment, and the attempt to run it.
    Attempt(SessionId, u64, u32),
    /// A session, and the number of its segment.
    Segment(SessionId, u64),
}

/// The numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fact {
    Launch { template: u32, values: usize, scalars: usize },
    Request(RequestId),
    Value(RequestId, ValueId),
    Chunk { request: Option<RequestId>, value: ValueId, bytes: usize, offset: u64, total: u64 },
    Arrived { request: RequestId, value: ValueId, offset: u64 },
    Instructions(u64),
    Plan(usize),
    Routine { routine: u32, n_segments: u32, values: usize, scalars: usize },
    Performed { is_over: bool, n_ran: u64 },
    Sent { request: RequestId, bytes: u64 },
}

impl Fact {
    /// The fact, of nothing that the line does not say itself.
    pub(super) fn alone(self) -> Facts {
        Facts { of: Of::Nothing, fact: self }
    }
}

impl Facts {
    /// A launch of a session's segment that ran as a plan of so many instructions.
    pub(crate) fn plan(session: SessionId, segment: u64, n_instrs: usize) -> Facts {
        Facts { of: Of::Segment(session, segment), fact: Fact::Plan(n_instrs) }
    }

    /// The request for a value.
    pub(crate) fn value(request: RequestId, value: ValueId) -> Facts {
        Fact::Value(request, value).alone()
    }

    /// A piece of the answer to a request, which begins at a byte.
    pub(crate) fn arrived(request: RequestId, value: ValueId, offset: u64) -> Facts {
        Fact::Arrived { request, value, offset }.alone()
    }

    /// Adds the text.
    pub(crate) fn put(&self, to: &mut String) {
        self.of.put(to);
        self.fact.put(to);
    }
}

impl Of {
    /// Adds the words before those of the numbers.
    pub(super) fn put(self, to: &mut String) {
        match self {
            Of::Nothing => {}
            Of::Session(id) => put(to, &[P("s"), N(id.0), P(" ")]),
            Of::Attempt(id, seq, attempt) => {
                put(to, &[P("s"), N(id.0), P(" segment "), N(seq), P(" attempt ")]);
                put(to, &[N(attempt.into()), P(": ")]);
            }
            Of::Segment(id, seq) => {
                put(to, &[P("s"), N(id.0), P(" segment "), N(seq), P(": ")]);
            }
        }
    }
}

impl Fact {
    fn put(self, to: &mut String) {
        let n = |n: usize| N(n as u64);
        match self {
            Fact::Launch { template, values, scalars } => {
                put(to, &[P("template "), N(template.into()), P(" on "), n(values)]);
                put(to, &[P(" values, "), n(scalars), P(" scalars")]);
            }
            Fact::Request(request) => put(to, &[P("r"), N(request.0)]),
            Fact::Value(request, value) => put(to, &[P("r"), N(request.0), P(" %"), N(value.0)]),
            Fact::Chunk { request, value, bytes, offset, total } => {
                if let Some(request) = request {
                    put(to, &[P("r"), N(request.0), P(" ")]);
                }
                put(to, &[P("%"), N(value.0), P(": "), n(bytes), P(" bytes from ")]);
                put(to, &[N(offset), P(" of "), N(total)]);
            }
            Fact::Arrived { request, value, offset } => {
                put(to, &[P("r"), N(request.0), P(" %"), N(value.0), P(" at "), N(offset)]);
            }
            Fact::Instructions(count) => put(to, &[N(count), P(" instructions")]),
            Fact::Plan(count) => put(to, &[n(count), P(" instructions as one plan")]),
            Fact::Routine { routine, n_segments, values, scalars } => {
                let n_segments = N(n_segments.into());
                put(to, &[P("routine "), N(routine.into()), P(" of "), n_segments]);
                put(to, &[P(" segments on "), n(values), P(" values, "), n(scalars)]);
                to.push_str(" scalars");
            }
            Fact::Performed { is_over, n_ran } => {
                let over = if is_over { "all" } else { "some" };
                put(to, &[P(over), P(" of a routine, "), N(n_ran), P(" segments")]);
            }
            Fact::Sent { request, bytes } => {
                put(to, &[P("r"), N(request.0), P(" "), N(bytes), P(" bytes")]);
            }
        }
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.put(&mut text);
        f.write_str(&text)
    }
}

/// A part of a text.
pub(crate) enum Part<'a> {
    P(&'a str),
    N(u64),
}

/// Adds parts to a text, many times faster than a format string.
#[inline]
pub(crate) fn put(to: &mut String, parts: &[Part<'_>]) {
    for part in parts {
        match part {
            P(text) => to.push_str(text),
            N(number) => to.push_str(itoa::Buffer::new().format(*number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_the_numbers_by_their_own_forms() {
        let (session, request, value) = (SessionId(7), RequestId(19), ValueId(u64::MAX));
        let facts = [Of::Nothing, Of::Session(session), Of::Segment(session, 5)]
            .map(|of| Facts { of, fact: Fact::Value(request, value) }.to_string());
        let text = format!("{request} {value}");
        let with = |of: &str| format!("{of}{text}");
        let (of_session, of_segment) = (format!("{session} "), format!("{session} segment 5: "));
        assert_eq!(facts, [text.clone(), with(&of_session), with(&of_segment)]);
        let of = Of::Attempt(session, 0, 2);
        let done = Facts { of, fact: Fact::Instructions(12) };
        assert_eq!(done.to_string(), format!("{session} segment 0 attempt 2: 12 instructions"));
    }
}
