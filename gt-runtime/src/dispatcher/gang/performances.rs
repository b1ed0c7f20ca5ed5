//! Performances of routines that are not over: what members send each other meanwhile.
//!
//! The values of a performance are not listed one by one. A value that does not take its road, or
//! that arrives long before the end, is singled out: from then on it is a transfer of its own, or
//! forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gt_ir::tape::ValueId;

use super::Gang;
use super::exchange::Transfer;
use super::routines::{Routines, Sending};
use crate::ids::RequestId;
use crate::wire::Performed;

/// Performances, by their first request.
pub(super) type Performances = BTreeMap<RequestId, Underway>;

/// A performance.
#[derive(Debug)]
pub(super) struct Underway {
    routines: Arc<Routines>,
    first: ValueId,
    /// The names of the values that members have, as the routines count them.
    given: Vec<Arc<[ValueId]>>,
    /// For each member, whether it is over.
    is_over: Box<[bool]>,
    n_left: usize,
    /// The requests that are singled out, counted from the first one on.
    singled: BTreeSet<u32>,
}

impl Underway {
    pub(super) fn new(
        routines: Arc<Routines>,
        first: ValueId,
        given: Vec<Arc<[ValueId]>>,
    ) -> Underway {
        let sends = |member: usize| routines.sendings(member).next().is_some();
        let is_over: Box<[bool]> = (0..routines.n_members()).map(|m| !sends(m)).collect();
        let n_left = is_over.iter().filter(|over| !**over).count();
        Underway { routines, first, given, is_over, n_left, singled: BTreeSet::new() }
    }

    fn is_over(&self, member: usize) -> bool {
        self.is_over.get(member).is_none_or(|over| *over)
    }

    /// A value that a member has not sent yet, as a transfer of its own.
    fn single(&mut self, from: usize, request: u32) -> Option<(Transfer, Sending)> {
        let (sender, sending) = self.routines.sending(request)?;
        if sender != from || self.is_over(from) || !self.singled.insert(request) {
            return None;
        }
        let named = (self.first, &self.given[..]);
        let (value, received) = self.routines.names(from, sending, named)?;
        Some((Transfer::new(from, sending.to, value, received), sending))
    }

    /// The values on their way, by the members between which they are.
    pub(super) fn ends(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let members = (0..self.is_over.len()).filter(|member| !self.is_over(*member));
        members.flat_map(|from| {
            let left = self.routines.sendings(from);
            let left = left.filter(|(request, _)| !self.singled.contains(request));
            left.map(move |(_, sending)| (from, sending.to))
        })
    }

    /// Whether its books are in order, for `check`.
    pub(super) fn is_sound(&self, n_members: usize) -> bool {
        let n_left = self.is_over.iter().filter(|over| !**over).count();
        let between = self.ends().all(|(from, to)| from != to && to < n_members);
        n_left == self.n_left && n_left > 0 && self.is_over.len() <= n_members && between
    }
}

impl Gang {
    /// Makes a value of a performance a transfer of its own, if it is none yet.
    pub(super) fn single_out(&mut self, from: usize, request: RequestId) {
        let Some((&first, underway)) = self.performances.range_mut(..=request).next_back() else {
            return;
        };
        let Ok(at) = u32::try_from(request.0 - first.0) else { return };
        if let Some((transfer, _)) = underway.single(from, at) {
            self.transfers.insert(request, transfer);
        }
    }

    /// Takes a member's report on a performance.
    pub(in crate::dispatcher) fn performed(&mut self, member: usize, report: &Performed) {
        let Gang { performances, transfers, roads, .. } = self;
        let Some(underway) = performances.get_mut(&report.request) else { return };
        for &request in &report.arrived {
            if let Some((_, sending)) = underway.single(member, request) {
                roads.count((member, sending.to), sending.bytes);
            }
        }
        for &request in &report.returned {
            if let Some((transfer, _)) = underway.single(member, request) {
                transfers.insert(RequestId(report.request.0 + u64::from(request)), transfer);
            }
        }
        if report.is_over && !underway.is_over(member) {
            self.over(member, report.request);
        }
    }

    /// A member's part of a performance is over: its values have arrived, except those that go
    /// through the dispatcher and may still be on their way to it.
    fn over(&mut self, member: usize, first: RequestId) {
        let Gang { performances, transfers, roads, .. } = self;
        let Some(underway) = performances.get_mut(&first) else { return };
        let routines = Arc::clone(&underway.routines);
        for request in routines.indirect(member) {
            if let Some((transfer, _)) = underway.single(member, request) {
                transfers.insert(RequestId(first.0 + u64::from(request)), transfer);
            }
        }
        underway.is_over.iter_mut().skip(member).take(1).for_each(|over| *over = true);
        underway.n_left -= 1;
        if underway.n_left > 0 {
            return;
        }
        if underway.singled.is_empty() {
            roads.add(routines.loads());
        } else {
            let members = (0..routines.n_members()).map(|from| (from, routines.sendings(from)));
            for (from, sendings) in members {
                let took = |(request, _): &(u32, Sending)| !underway.singled.contains(request);
                for (_, sending) in sendings.filter(took) {
                    roads.count((from, sending.to), sending.bytes);
                }
            }
        }
        performances.remove(&first);
    }
}
