//! Plans and kernels as text, for people: what runs together, on which buffers, and what each
//! kernel computes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Write},
};

use super::{
    memory,
    plan::{Arg, At, Chunked, Job, Loop, Plan, Stage, Tile, Work},
};
use crate::{
    error::EngineError,
    kernel::{self, Access, Compiler, Expr, KernelSpec, Nest},
    meter,
    program::Dump,
    schedule::{BufferId, Fold, MatMul, Multiplier, Place, Routine, RowUpdate, UpdateKind},
};

pub(super) fn dump(
    plan: &Plan,
    what: Dump,
    compiler: &mut Compiler,
) -> Result<String, EngineError> {
    let mut out = String::new();
    let written = match what {
        Dump::Plan => write_plan(plan, &mut out),
        Dump::Kernels => write_kernels(plan, &mut out),
        Dump::Clif => write_code(plan, kernel::Dump::Clif, compiler, &mut out)?,
        Dump::Asm => write_code(plan, kernel::Dump::Asm, compiler, &mut out)?,
    };
    written.map(|()| out).map_err(|e| EngineError::Codegen(e.to_string()))
}

/// Each kernel once, by number.
fn distinct(plan: &Plan) -> BTreeMap<usize, &Nest> {
    plan.nests().map(|(nest, code)| (code, nest)).collect()
}

fn write_kernels(plan: &Plan, out: &mut String) -> fmt::Result {
    for (code, nest) in distinct(plan) {
        writeln!(out, "kernel {code}{}", loops(&nest.spec))?;
        write_spec(&nest.spec, &|i| format!("arg{i}"), out)?;
    }
    Ok(())
}

fn write_code(
    plan: &Plan,
    what: kernel::Dump,
    compiler: &mut Compiler,
    out: &mut String,
) -> Result<fmt::Result, EngineError> {
    for (code, nest) in distinct(plan) {
        let text = compiler.dump(nest, what)?;
        if let Err(e) = writeln!(out, "; kernel {code}{}\n{text}", loops(&nest.spec)) {
            return Ok(Err(e));
        }
    }
    Ok(Ok(()))
}

/// The jobs of a plan, for profiles.
pub(super) fn jobs(plan: &Plan) -> Vec<meter::Job> {
    let launches = plan.waves.iter().enumerate();
    launches
        .flat_map(|(launch, wave)| wave.jobs.iter().zip(&wave.sources).map(move |of| (launch, of)))
        .map(|(launch, (job, sources))| meter::Job {
            name: title(job),
            launch,
            sources: sources.0.clone(),
            bytes: traffic(plan, job),
        })
        .collect()
}

/// A job in a few words.
fn title(job: &Job) -> String {
    let shape = |m: &MatMul| {
        let batch: String = m.batch.iter().map(|b| format!("{b}x")).collect();
        format!("product {batch}{}x{}x{}", m.m, m.k, m.n)
    };
    match job {
        Job::Tile(t) => {
            let n = t.stages.iter().filter(|s| matches!(s.work, Work::Product(_))).count();
            let rows = t.outer.iter().product::<usize>() * t.rows;
            match (n, t.stages.len()) {
                (0, 1) => format!("kernel over {rows} rows"),
                (0, all) => format!("{all} kernels over {rows} rows"),
                (1, 1) => format!("product of {rows} rows"),
                (n, all) => format!("{n} products, {} kernels over {rows} rows", all - n),
            }
        }
        Job::Chunked(c) => format!("reduction in {} chunks", c.n_chunks()),
        Job::MatMul(m) => shape(m),
        Job::Fold(f) => format!("fold of {} chunks", f.n_chunks),
        Job::Routine(r) => word_of(r),
        Job::Loop(l) => format!("loop of {} rounds", l.n_rounds),
    }
}

/// The bytes of the buffers that a job uses, each once.
fn traffic(plan: &Plan, job: &Job) -> u64 {
    if let Job::Routine(r) = job
        && r.update.is_some()
        && let [_, (_, index), (_, rows)] = &r.inputs[..]
    {
        // The rows of the table are read and written.
        return (index.bytes() + 3 * rows.bytes()) as u64;
    }
    let (reads, writes) = memory::uses(job);
    let buffers: BTreeSet<BufferId> = reads.into_iter().chain(writes).collect();
    buffers.iter().map(|b| plan.sizes[b.index()] as u64).sum()
}

fn write_plan(plan: &Plan, out: &mut String) -> fmt::Result {
    let (_, scratch) = plan.scratch;
    writeln!(out, "arena {} bytes, scratch {scratch} bytes a thread", plan.arena)?;
    if plan.again > 0 {
        writeln!(out, "made again: {}", plan.again)?;
    }
    for (i, wave) in plan.waves.iter().enumerate() {
        writeln!(out, "launch {i}:")?;
        for job in &wave.jobs {
            write_job(plan, job, out)?;
        }
    }
    let outputs: Vec<String> =
        plan.outputs.iter().map(|(b, ty)| format!("{} : {ty}", name(plan, *b))).collect();
    writeln!(out, "outputs {}", outputs.join(", "))
}

fn write_job(plan: &Plan, job: &Job, out: &mut String) -> fmt::Result {
    match job {
        Job::Tile(t) => write_tile(plan, t, out),
        Job::Chunked(c) => write_chunked(plan, c, out),
        Job::MatMul(m) => write_matmul(plan, m, out),
        Job::Fold(f) => write_fold(plan, f, out),
        Job::Routine(r) => write_routine(plan, r, out),
        Job::Loop(l) => write_loop(plan, l, out),
    }
}

fn write_tile(plan: &Plan, tile: &Tile, out: &mut String) -> fmt::Result {
    write!(out, "  tile of {} rows", tile.block)?;
    let outer: Vec<String> = tile.outer.iter().map(|e| format!("{e} x ")).collect();
    writeln!(out, " out of {}{}, {} tasks", outer.concat(), tile.rows, tile.n_tasks)?;
    for stage in &tile.stages {
        write_stage(plan, stage, out)?;
    }
    for copy in &tile.copies {
        writeln!(out, "    {} = s{} past the caches", name(plan, copy.to), copy.from)?;
    }
    Ok(())
}

fn write_stage(plan: &Plan, stage: &Stage, out: &mut String) -> fmt::Result {
    let arg = |i: usize| argument(plan, &stage.args[i]);
    match &stage.work {
        Work::Kernel { nest, code } => {
            let args: Vec<String> = (0..stage.args.len()).map(arg).collect();
            let past = if nest.spec.streams.is_empty() { "" } else { " past the caches" };
            writeln!(out, "    kernel {code}{} ({}){past}", loops(&nest.spec), args.join(", "))
        }
        Work::Product(p) => {
            let (a, b, to) = (arg(0), arg(1), arg(2));
            writeln!(out, "    {to} = {a} * {b} : rows of {} by {}x{}", p.k, p.k, p.n)
        }
    }
}

fn loops(spec: &KernelSpec) -> String {
    let mut out = String::new();
    for l in &spec.loops {
        out += &format!(" {}{}", if l.reduce { "fold " } else { "" }, l.extent);
    }
    out
}

/// The loads, operations and stores of a kernel, one a line.
fn write_spec(spec: &KernelSpec, arg: &dyn Fn(u16) -> String, out: &mut String) -> fmt::Result {
    for (i, node) in spec.nodes.iter().enumerate() {
        write!(out, "      v{i} : {} = ", node.dtype)?;
        match &node.expr {
            Expr::Load { buffer, access } => writeln!(out, "{}{}", arg(*buffer), at(access))?,
            Expr::Scalar(slot) => writeln!(out, "scalar {slot}")?,
            Expr::Index(access) => writeln!(out, "index{}", at(access))?,
            Expr::Unary(op, a) => writeln!(out, "{} v{}", word(op), a.0)?,
            Expr::Binary(op, a, b) => writeln!(out, "{} v{}, v{}", word(op), a.0, b.0)?,
            Expr::Select(c, a, b) => writeln!(out, "where v{}, v{}, v{}", c.0, a.0, b.0)?,
            Expr::Cast(a) => writeln!(out, "cast v{}", a.0)?,
        }
    }
    for store in &spec.stores {
        let (to, value) = (arg(store.buffer), store.value.0);
        match store.fold {
            Some(op) => {
                writeln!(out, "      {to}{} = fold {} v{value}", at(&store.access), word(&op))?
            }
            None => writeln!(out, "      {to}{} = v{value}", at(&store.access))?,
        }
    }
    Ok(())
}

fn word(op: &dyn fmt::Debug) -> String {
    format!("{op:?}").to_lowercase()
}

fn at(access: &Access) -> String {
    let strides: Vec<String> = access.strides.iter().map(i64::to_string).collect();
    let offset = if access.offset == 0 { String::new() } else { format!("{} + ", access.offset) };
    format!("[{offset}{}]", strides.join(" "))
}

fn write_chunked(plan: &Plan, c: &Chunked, out: &mut String) -> fmt::Result {
    let args: Vec<String> = c.buffers.iter().map(|b| name(plan, *b)).collect();
    let (loops, args) = (loops(&c.nest.spec), args.join(", "));
    writeln!(out, "  kernel {}{loops} ({args}) in {} pieces", c.code, c.n_chunks())
}

fn write_matmul(plan: &Plan, m: &MatMul, out: &mut String) -> fmt::Result {
    let (to, a, b) = (name(plan, m.out), name(plan, m.lhs.buffer), name(plan, m.rhs.buffer));
    let how = if m.by == Multiplier::Library { " by the library" } else { "" };
    writeln!(out, "  {to} = {a} * {b} : {} {:?} {}x{}x{}{how}", m.dtype, m.batch, m.m, m.k, m.n)
}

fn write_fold(plan: &Plan, f: &Fold, out: &mut String) -> fmt::Result {
    let (to, from) = (name(plan, f.out), name(plan, f.from));
    writeln!(out, "  {to} = fold {} of {} rows of {from}", word(&f.op), f.n_chunks)
}

/// The name of a routine.
fn word_of(r: &Routine) -> String {
    let name = match r.update {
        Some(RowUpdate { kind: UpdateKind::Add, .. }) => "add_rows",
        Some(RowUpdate { kind: UpdateKind::Sub, .. }) => "subtract_rows",
        None => r.op.name(),
    };
    name.to_owned()
}

fn write_routine(plan: &Plan, r: &Routine, out: &mut String) -> fmt::Result {
    let inputs: Vec<String> = r.inputs.iter().map(|(b, _)| name(plan, *b)).collect();
    let op = if r.update.is_some() { word_of(r) } else { r.op.to_string() };
    writeln!(out, "  {} = {op} {} : {}", name(plan, r.out), inputs.join(", "), r.out_ty)
}

fn write_loop(plan: &Plan, l: &Loop, out: &mut String) -> fmt::Result {
    write_routine(plan, &l.routine, out)?;
    for part in &l.parts {
        let mut inner = String::new();
        write_plan(&part.plan, &mut inner)?;
        writeln!(out, "  {} times {} rounds:", part.times, part.n_rounds)?;
        inner.lines().try_for_each(|line| writeln!(out, "    {line}"))?;
    }
    Ok(())
}

fn argument(plan: &Plan, arg: &Arg) -> String {
    match arg.at {
        At::Buffer(b) => name(plan, b),
        At::Scratch(at) => format!("s{at}"),
    }
}

/// A buffer by where it lies: an input, an output (in the memory of an input), or its offset in the
/// arena.
fn name(plan: &Plan, id: BufferId) -> String {
    match plan.layout.places.get(id.index()) {
        Some(Place::Input(i)) => format!("in{i}"),
        Some(Place::Made(n)) => match plan.layout.made[*n as usize].donor {
            None => format!("out{}", id.0),
            Some(i) => format!("out{}(in{i})", id.0),
        },
        Some(Place::Arena(at)) => format!("a{at}"),
        Some(Place::Nowhere) | None => format!("b{}", id.0),
    }
}
