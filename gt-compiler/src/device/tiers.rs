//! Which way a program is run: as a graph where one fits or can be captured, else step by step.
//!
//! Every run that could have been a replay and was none has a reason, which is counted and kept for
//! whoever asks.

use std::sync::{Arc, PoisonError};

use gt_ir::Scalar;
use smallvec::SmallVec;

use super::{
    engine::DeviceEngine,
    gpu::Gpu,
    graphs::{Choice, Graphs},
    program::Loaded,
    replay, run,
};
use crate::{engine::Value, error::EngineError};

/// Reasons kept until somebody asks.
const MOST_NOTES: usize = 64;

impl<G: Gpu> DeviceEngine<G> {
    /// Step by step.
    pub(super) fn plainly(
        &mut self,
        loaded: &Loaded<G>,
        inputs: &[&Value],
        scalars: &[Scalar],
    ) -> Result<SmallVec<[Value; 4]>, EngineError> {
        let done = run::run(&mut self.memory, &mut self.frame, loaded, inputs, scalars);
        done.map_err(|failure| self.failed(failure))
    }

    /// As a graph where one fits, or can be captured.
    pub(super) fn best(
        &mut self,
        loaded: &Arc<Loaded<G>>,
        inputs: &[&Value],
        scalars: &[Scalar],
    ) -> Result<SmallVec<[Value; 4]>, EngineError> {
        let mut graphs = loaded.graphs.lock().unwrap_or_else(PoisonError::into_inner);
        let captured = match self.choose(loaded, &mut graphs, inputs, scalars) {
            Choice::Replay(n) => Some(n),
            Choice::Capture => self.capture(loaded, &mut graphs, inputs, scalars),
            Choice::Plain(reason) => {
                self.fall_back(&mut graphs, reason);
                None
            }
        };
        let Some(n) = captured else {
            graphs.note(inputs);
            drop(graphs);
            return self.plainly(loaded, inputs, scalars);
        };
        let (memory, frame, graph) = (&mut self.memory, &mut self.frame, graphs.get(n));
        graph.used = self.clock;
        self.stats.graph_replays += 1;
        let running = self.timing.start(&memory.gpu);
        let done = replay::replay(memory, frame, &loaded.plan, graph, inputs, scalars);
        self.timing.stop(&memory.gpu, running, self.downloads.n_begun());
        done.map_err(|failure| self.failed(failure))
    }

    fn choose(
        &self,
        loaded: &Loaded<G>,
        graphs: &mut Graphs<G>,
        inputs: &[&Value],
        scalars: &[Scalar],
    ) -> Choice {
        let plan = &loaded.plan;
        if !self.config.graphs || plan.steps.is_empty() {
            return Choice::Plain(None);
        }
        if !replay::may_run_ahead(&self.memory, plan, inputs) {
            return Choice::Plain(Some(
                "indices computed on the device are checked before anything is overwritten".into(),
            ));
        }
        if plan.is_hosted() {
            return Choice::Plain(Some("the host computes linear algebra".into()));
        }
        graphs.choose(&self.memory, plan, inputs, scalars)
    }

    fn capture(
        &mut self,
        loaded: &Arc<Loaded<G>>,
        graphs: &mut Graphs<G>,
        inputs: &[&Value],
        scalars: &[Scalar],
    ) -> Option<usize> {
        let (plan, limit) = (&loaded.plan, self.config.graph_limit);
        let bound = graphs.bound(plan, inputs);
        let bytes = replay::bytes(plan, inputs, &bound);
        if bytes <= limit {
            self.memory.evict(limit - bytes);
        }
        let (memory, frame) = (&mut self.memory, &mut self.frame);
        let captured = match memory.account.graphs().saturating_add(bytes) <= limit {
            true => replay::capture(memory, frame, loaded, graphs, inputs, &bound, scalars),
            false => {
                Err(EngineError::OutOfMemory { asked: bytes, live: memory.account.graphs(), limit })
            }
        };
        match captured {
            Ok(captured) => {
                self.memory.register(loaded);
                self.stats.graphs_captured += 1;
                return Some(graphs.add(captured));
            }
            Err(EngineError::OutOfMemory { asked, limit, .. }) => {
                graphs.postpone();
                let reason = format!("no {asked} bytes for it, the limit is {limit}");
                self.fall_back(graphs, Some(reason));
            }
            Err(error) => {
                let reason = format!("it cannot be captured: {error}");
                graphs.refuse(reason.clone());
                self.fall_back(graphs, Some(reason));
            }
        }
        None
    }

    /// Counts a run that could have been a replay, and keeps a reason that is new.
    fn fall_back(&mut self, graphs: &mut Graphs<G>, reason: Option<String>) {
        let Some(reason) = reason else { return };
        self.stats.graph_fallbacks += 1;
        if graphs.told != reason && self.notes.len() < MOST_NOTES {
            self.notes.push(format!("{}: no graph: {reason}", self.memory.gpu.name()));
        }
        graphs.told = reason;
    }
}
