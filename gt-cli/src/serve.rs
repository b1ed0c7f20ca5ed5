//! `gt-cli server` and `gt-cli worker`: the runtime's server and worker, with a terminal and
//! signals.

use crate::args::{LogArgs, ServerArgs, WorkerArgs};
use crate::fault::{Interrupted, advised, run_error};
use crate::metrics;
use crate::news::{news, tell};
use crate::signals::Interrupt;
use crate::supervise::{end_with_supervisor, supervise};
use anyhow::{Context, Error, Result, bail, ensure};
use gt_compiler::NativeConfig;
use gt_runtime::choice::{Begun, Choice, Devices};
use gt_runtime::dispatcher::Config;
use gt_runtime::embedded::share_of_host;
use gt_runtime::log::{Log, LogConfig};
use gt_runtime::server::{Server, ServerConfig};
use gt_runtime::worker::roads::Listen;
use gt_runtime::worker::serve::{Stopped, Worker, WorkerConfig};
use gt_runtime::worker::wanted::Wanted;
use gt_runtime::zmq::{Address, Entry, Exposure};
use serde_json::json;
use std::time::Duration;

/// The reason that peers get when a signal ends this process.
const STOPPED: &str = "it was stopped by a signal";

pub(crate) fn server(args: &ServerArgs, json: bool) -> Result<()> {
    let quotas = crate::quota::of(args.quota.as_ref(), args.config.as_deref())?;
    let config = ServerConfig {
        address: Address { host: args.host.clone(), port: args.port },
        exposure: exposure(args.insecure),
        dispatcher: quotas.apply(Config { max_priority: args.max_priority, ..Config::remote() }),
        log: log(&args.log)?,
    };
    let server = Server::bind(config)?;
    let (shutdown, drained) = (server.shutdown(), server.shutdown());
    let patience = Duration::from_secs(args.drain);
    let interrupt = Interrupt::watch_or(
        move || shutdown.shut_down(STOPPED),
        move || drained.drain(STOPPED, patience),
    )?;
    let metrics = args.metrics.as_ref().map(|at| metrics::serve(at, server.observer()));
    let metrics = metrics.transpose()?.map(|at| format!("http://{at}/metrics"));
    let address = server.address().clone();
    if json {
        let mut event = json!({ "event": "listening", "address": address.to_string() });
        metrics.into_iter().for_each(|at| event["metrics"] = at.into());
        news(json, &event.to_string());
    } else {
        let metrics = metrics.map(|at| format!("\nmetrics at {at}")).unwrap_or_default();
        let join = format!("workers join with: gt-cli worker --connect {address}");
        news(json, &format!("listening at {address}\n{join}{metrics}"));
    }
    let n_cut_off = server.run(|line| tell(json, line))?;
    if interrupt.asked() {
        return Err(Interrupted("the server was stopped; its clients and workers were told").into());
    }
    ensure!(
        n_cut_off == 0,
        "{n_cut_off} {} not ended within the time of --drain, and {} told",
        if n_cut_off == 1 { "program had" } else { "programs had" },
        if n_cut_off == 1 { "was" } else { "were" }
    );
    Ok(())
}

pub(crate) fn worker(args: &WorkerArgs, json: bool) -> Result<()> {
    let address: Address = args.connect.parse()?;
    let choice = Choice::make(&args.compute.wish())?;
    match choice.devices[..] {
        [_] if args.compute.device != Some(Devices::All) => work(args, &address, &choice, json),
        _ => supervise(args, &choice, json),
    }
}

fn work(args: &WorkerArgs, address: &Address, choice: &Choice, json: bool) -> Result<()> {
    let host = share_of_host(args.one_of.unwrap_or(1));
    let threads = args.threads.map_or(host.threads, usize::from);
    let Begun { engine, news, .. } = choice
        .begin(NativeConfig { threads, ..host })
        .with_context(|| format!("cannot start the engine {}", choice.engine))?;
    news.iter().for_each(|line| tell(json, line));
    let name = args.name.clone().unwrap_or_default();
    let log = log(&args.log)?;
    let usual = WorkerConfig::new(address.clone());
    let listen = listen(args)?.or_else(|| usual.listen.clone());
    let exposure = exposure(args.insecure || usual.entry == Entry::Plain);
    let listen = listen.map(|listen| Listen { exposure, ..listen });
    let entry = if args.insecure { Entry::Plain } else { usual.entry.clone() };
    let lanes = Wanted::from_environment().map_err(run_error)?;
    let reconnect = Duration::from_secs(args.reconnect.into());
    let config = WorkerConfig { log, name, listen, lanes, entry, reconnect, ..usual };
    let worker = Worker::new(config)?;
    let shutdown = worker.shutdown();
    if args.one_of.is_some() {
        end_with_supervisor(worker.shutdown());
    }
    // SIGTERM is how services are stopped, so it is no failure.
    let again = shutdown.clone();
    let interrupt =
        Interrupt::watch_or(move || shutdown.shut_down(STOPPED), move || again.shut_down(STOPPED))?;
    const SAID: &str = "the worker was stopped; the server was told";
    match worker.serve(engine, |line| tell(json, line))? {
        Stopped::ShutDown(_) if interrupt.asked() => bail!(Interrupted(SAID)),
        Stopped::ShutDown(_) => {
            tell(json, SAID);
            Ok(())
        }
        Stopped::Server(reason) => {
            tell(json, &format!("the server at {address} ended: {reason}"));
            Ok(())
        }
    }
}

/// Where the worker listens for other workers, if the command line says so.
fn listen(args: &WorkerArgs) -> Result<Option<Listen>> {
    let Some(address) = &args.listen else { return Ok(None) };
    Ok(Some(Listen { address: address.parse()?, exposure: exposure(args.insecure) }))
}

pub(crate) fn exposure(insecure: bool) -> Exposure {
    if insecure { Exposure::Insecure } else { Exposure::Sealed }
}

/// The instruction log of the flags, or else of the environment.
fn log(args: &LogArgs) -> Result<Log> {
    let usual = match &args.log_file {
        Some(file) => Some(LogConfig::with_environment(file)),
        None => LogConfig::from_environment().transpose(),
    };
    let Some(usual) = usual.transpose().map_err(Error::msg)? else {
        let is_wished =
            args.log_format.is_some() || args.log_size.is_some() || args.log_detail.is_some();
        ensure!(!is_wished, advised("no log is written", "--log-file FILE says where to"));
        return Ok(Log::without_file());
    };
    let config = LogConfig {
        format: args.log_format.unwrap_or(usual.format),
        detail: args.log_detail.unwrap_or(usual.detail),
        size: args.log_size.map(|size| size.0).or(usual.size),
        ..usual
    };
    Log::open(&config).with_context(|| format!("cannot write {}", config.path.display()))
}
