//! The reasons for exchanges: the walk notes each change of layout with the instruction and signal
//! it happens for. What is noted decides nothing.

use std::sync::Arc;

use gt_ir::layout::Layout;
use gt_ir::{OpError, Type, ValueId};

use super::{Sharder, Value};
use crate::shard::duration::{Duration, duration};
use crate::shard::lanes::Lanes;
use crate::shard::memory;
use crate::shard::needed::Needed;
use crate::shard::report::{Change, Exchange, Explained, Placed};
use crate::shard::reshard::Version;

impl Sharder<'_> {
    /// The partition with the reasons for its exchanges, and the layouts that were possible for one
    /// instruction.
    pub(in crate::shard) fn explain(mut self, asked: Option<u32>) -> Result<Explained, OpError> {
        self.asked = asked;
        let end = self.walk()?;
        let needed = Needed::new(&self.lanes, &end.1);
        let exchanges = self.changes.iter().filter_map(|change| {
            let number = self.numbers.iter().position(|id| *id == change.value);
            let given = number.is_some_and(|number| self.futures[number].given);
            let named = (number.map(|number| number as u32), given);
            Exchange::new(change, named, (&self.lanes, &needed), &self.request.rates)
        });
        let values = self.placed();
        let Duration { seconds, waiting } =
            duration(&self.lanes, &needed, &self.request.rates, &[]);
        let partition = self.partition(&needed, &end);
        Ok(Explained {
            exchanges: exchanges.collect(),
            seconds,
            waiting,
            peaks: memory::peaks(&partition, &values),
            values,
            wishes: Vec::new(),
            plans: Vec::new(),
            partition,
            options: self.options,
        })
    }

    fn placed(&self) -> Vec<Placed> {
        let placed = |id: &ValueId| {
            let Value { ty, versions, .. } = self.at(*id);
            Placed { ty: *ty, layouts: versions.iter().map(|v| v.layout.clone()).collect() }
        };
        self.numbers.iter().map(placed).collect()
    }

    /// Seconds until all members are done. The journeys of values from before the segment, those
    /// that `free` names, cost nothing. Also says whether members repeat a large sum that they
    /// could share.
    pub(in crate::shard) fn seconds(
        mut self,
        free: impl Fn(&Change) -> bool,
    ) -> Result<(f64, bool), OpError> {
        let end = self.walk()?;
        let needed = Needed::new(&self.lanes, &end.1);
        let before = &self.numbers[..self.request.inputs.len()];
        let arrived = self.changes.iter().filter(|c| before.contains(&c.value) && free(c));
        let arrived: Vec<_> = arrived.map(|change| &change.items[..]).collect();
        let rates = &self.request.rates;
        let repeats = self.changes.iter().any(|change| change.repeats(rates));
        Ok((duration(&self.lanes, &needed, rates, &arrived).seconds, repeats))
    }

    /// The most bytes of values that any member has at a time.
    pub(in crate::shard) fn peak(mut self) -> Result<u64, OpError> {
        let end = self.walk()?;
        let partition = self.partition(&Needed::new(&self.lanes, &end.1), &end);
        Ok(memory::peaks(&partition, &self.placed()).into_iter().max().unwrap_or(0))
    }

    /// A value in another layout. The change is noted with its cause.
    pub(super) fn change(
        &mut self,
        value: ValueId,
        from: &Version,
        to: &Layout,
        ty: &Type,
    ) -> Result<Version, OpError> {
        let ends =
            |lanes: &Lanes| lanes.all.iter().map(|lane| lane.items.len()).collect::<Vec<_>>();
        let before = ends(&self.lanes);
        let version = self.lanes.reshard(from, to, ty)?;
        let items = before.iter().zip(ends(&self.lanes)).map(|(first, end)| *first..end).collect();
        self.changes.push(Change {
            value,
            ty: *ty,
            from: from.layout.clone(),
            to: to.clone(),
            cause: self.now,
            signal: self.scopes.current().map(|scope| Arc::clone(&scope.name)),
            items,
        });
        Ok(version)
    }
}
