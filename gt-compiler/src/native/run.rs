//! Runs a plan: memory first, then wave after wave over the threads; `rounds` has loops.
//!
//! Guarantees: the memory of all values is there before anything is written, so what can fail is
//! memory (at the beginning, or what some products and routines take on their way) and data unfit
//! for a routine (before any input is overwritten); results do not depend on the number of threads.
//! Between waves nothing is allocated, locked or looked up by hash.
#![expect(unsafe_code, reason = "calls generated code with the addresses of buffers")]

mod rounds;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use gt_ir::Scalar;
use smallvec::{SmallVec, smallvec};

use super::{
    context::{Context, Memory},
    loaded::Loaded,
    matmul,
    plan::{At, Chunked, Job, Stage, Tile, Wave, Work},
    routines, stream,
};
use crate::{
    buffer::Storage,
    clock::Clock,
    engine::Value,
    error::EngineError,
    kernel::{Kernel, Range},
    schedule::{Home, Homes, scalar},
};

/// The least work of a plan, in elements, for which sleeping threads are woken. Waking one takes
/// as long as this work.
const ROUSE: usize = 64 << 10;

/// Runs a plan whose inputs and scalars have been checked against it.
pub(super) fn run(
    context: &Context<'_>,
    loaded: &Loaded,
    inputs: &[&Value],
    scalars: &[Scalar],
) -> Result<SmallVec<[Value; 4]>, EngineError> {
    let plan = &loaded.artifact.plan;
    let _at_work = context.threads.at_work(plan.work >= ROUSE);
    let homes: Homes<Arc<Storage>> = plan.layout.homes(
        |i| inputs[i].is_exclusive(),
        |id| context.pool.alloc(plan.sizes[id.index()]).map(Arc::new),
    )?;
    // Last, since its block may be larger if the results leave room.
    let arena = match plan.arena {
        0 => None,
        bytes => Some(context.pool.alloc_briefly(bytes)?),
    };
    let start = arena.as_ref().map_or(std::ptr::null_mut(), Storage::ptr);
    let addresses = plan.layout.addresses(
        &homes,
        |i| inputs[i].storage.ptr(),
        |at| start.wrapping_add(at),
        |storage| storage.ptr(),
        std::ptr::null_mut(),
    );
    let memory = Memory {
        addresses: addresses.collect(),
        sizes: &plan.sizes,
        scratch: (start.wrapping_add(plan.scratch.0), plan.scratch.1),
    };
    let call = Call { context, loaded, memory: &memory, scalars };
    match loaded.meter.begin() {
        None => plan.waves.iter().try_for_each(|wave| call.wave(wave, &[]))?,
        Some(mut meter) => {
            for wave in &plan.waves {
                let busy: SmallVec<[AtomicU64; 16]> =
                    wave.jobs.iter().map(|_| AtomicU64::new(0)).collect();
                call.wave(wave, &busy)?;
                meter.lap(&busy);
            }
            meter.finish();
        }
    }
    plan.layout.values(&plan.outputs, inputs, &homes, |ty, home| {
        let storage = match home {
            Home::Fresh(storage) => storage,
            Home::Donor(i) => &inputs[*i].storage,
        };
        Ok(Value { ty, storage: storage.clone() })
    })
}

/// One run under way.
struct Call<'a> {
    context: &'a Context<'a>,
    loaded: &'a Loaded,
    memory: &'a Memory<'a>,
    scalars: &'a [Scalar],
}

// SAFETY: of what a call holds only the engine's context is not shared between threads by itself,
// and tasks do not touch it.
unsafe impl Sync for Call<'_> {}

impl Call<'_> {
    /// Runs the jobs of a wave. `busy` takes the nanoseconds of each of several jobs, where they
    /// are metered.
    fn wave(&self, wave: &Wave, busy: &[AtomicU64]) -> Result<(), EngineError> {
        if let [job] = wave.jobs.as_slice() {
            match job {
                Job::Tile(tile) => {
                    self.context.threads.run(tile.n_tasks, &|i, thread| self.tile(tile, i, thread));
                }
                Job::Chunked(c) => self.chunked(c),
                Job::MatMul(m) => matmul::run(self.context, m, self.memory)?,
                Job::Fold(f) => routines::fold(self.context, f, self.memory),
                Job::Routine(r) => {
                    let bits = r.scalars.iter().map(|s| scalar(*s, self.scalars));
                    let bits: SmallVec<[u64; 3]> = bits.collect();
                    routines::run(self.context, r, self.memory, &bits)?;
                }
                Job::Loop(l) => rounds::run(self.context, self.loaded, l, self.memory)?,
            }
            return Ok(());
        }
        let tiles: SmallVec<[&Tile; 16]> = wave
            .jobs
            .iter()
            .filter_map(|job| if let Job::Tile(tile) = job { Some(&**tile) } else { None })
            .collect();
        let ends: SmallVec<[usize; 16]> = tiles
            .iter()
            .scan(0, |at, tile| {
                *at += tile.n_tasks;
                Some(*at)
            })
            .collect();
        self.context.threads.run(wave.portions.len(), &|portion, thread| {
            let (first, end) = wave.portions[portion];
            for i in first..end {
                let job = ends.partition_point(|end| *end <= i);
                let first = ends[job] - tiles[job].n_tasks;
                let clock = busy.get(job).map(|busy| (busy, Clock::start()));
                self.tile(tiles[job], i - first, thread);
                if let Some((busy, clock)) = clock {
                    busy.fetch_add(clock.nanoseconds(), Relaxed);
                }
            }
        });
        Ok(())
    }

    /// One task of a tile: a range of its blocks of rows.
    fn tile(&self, tile: &Tile, task: usize, thread: usize) {
        let per_outer = tile.rows.div_ceil(tile.block);
        let n = tile.outer.iter().product::<usize>() * per_outer;
        let scratch = self.memory.scratch_of(thread);
        let mut args: SmallVec<[u64; 24]> = SmallVec::new();
        let first = task * n / tile.n_tasks;
        let (mut outer, mut block) = (first / per_outer, first % per_outer);
        let mut position: SmallVec<[i64; 6]> = smallvec![0; tile.outer.len()];
        let mut rest = outer;
        for (place, extent) in position.iter_mut().zip(&tile.outer).rev() {
            *place = (rest % extent) as i64;
            rest /= extent;
        }
        // Counted on, because divisions would take as long as a small product.
        for _ in first..(task + 1) * n / tile.n_tasks {
            let rows =
                Range { start: block * tile.block, end: ((block + 1) * tile.block).min(tile.rows) };
            for stage in &tile.stages {
                self.stage(stage, &position, rows, scratch, &mut args);
            }
            for copy in &tile.copies {
                let first = outer * tile.rows + rows.start;
                let len = (rows.end - rows.start) * copy.row;
                let to = self.memory.address(copy.to).wrapping_add(first * copy.row);
                // SAFETY: scratch holds the rows the stages have just stored, and the result these
                // rows, which only this task writes.
                unsafe { stream::past_caches(scratch.wrapping_add(copy.from), len, to) };
            }
            block += 1;
            if block == per_outer {
                (outer, block) = (outer + 1, 0);
                advance(&mut position, &tile.outer);
            }
        }
        if !tile.copies.is_empty() {
            stream::fence();
        }
    }

    fn stage(
        &self,
        stage: &Stage,
        position: &[i64],
        rows: Range,
        scratch: *mut u8,
        args: &mut SmallVec<[u64; 24]>,
    ) {
        args.clear();
        for arg in &stage.args {
            let moved: i64 = arg.outer.iter().zip(position).map(|(o, p)| o * p).sum();
            let base = match arg.at {
                At::Buffer(b) => self.memory.address(b),
                At::Scratch(at) => scratch.wrapping_add(at),
            };
            let shift = moved + arg.offset - arg.row * rows.start as i64;
            args.push(base.wrapping_offset(shift as isize) as u64);
        }
        match &stage.work {
            Work::Kernel { code, nest } => {
                args.extend(stage.scalars.iter().map(|s| scalar(*s, self.scalars)));
                let all = Range { start: 0, end: nest.reduce_extent() };
                // SAFETY: the plan sized every buffer for the spec's accesses; tasks have disjoint
                // rows, so disjoint stores.
                unsafe { self.kernel(*code).call(args, rows, all) };
            }
            Work::Product(product) => {
                // SAFETY: as above; a row of the result is written by the task that has this row.
                unsafe { matmul::rows(product, [args[0], args[1], args[2]], rows) };
            }
        }
    }

    fn kernel(&self, code: usize) -> &Kernel {
        &self.loaded.kernels[code]
    }

    fn chunked(&self, job: &Chunked) {
        let mut args: SmallVec<[u64; 24]> =
            job.buffers.iter().map(|b| self.memory.address(*b) as u64).collect();
        args.extend(job.scalars.iter().map(|s| scalar(*s, self.scalars)));
        let all = Range { start: 0, end: job.nest.parallel_extent() };
        self.context.threads.run(job.n_chunks(), &|i, _| {
            let mut own = args.clone();
            own[job.out] += (i * job.row) as u64;
            let chunk = Range { start: i * job.chunk, end: ((i + 1) * job.chunk).min(job.extent) };
            // SAFETY: as in `stage`; each chunk has its own row of partial results.
            unsafe { self.kernel(job.code).call(&own, all, chunk) };
        });
    }
}

/// The next position among these extents.
fn advance(position: &mut [i64], extents: &[usize]) {
    for (place, extent) in position.iter_mut().zip(extents).rev() {
        *place += 1;
        if *place < *extent as i64 {
            return;
        }
        *place = 0;
    }
}
