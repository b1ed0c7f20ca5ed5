//! `gt-cli top`: a server's workers, sessions and links on the terminal, as they change.
//!
//! `view` makes rates of two answers, `table` makes rows of them, `state` is what the person has
//! chosen, and `draw` is the screen. `feed` asks the server on a thread of its own, so that keys
//! are answered while the server is not. The terminal is left as it was found, whatever happens.

mod draw;
mod feed;
mod picture;
mod state;
mod table;
mod view;

use crate::args::TopArgs;
use crate::fault::{advised, run_error};
use crate::news::print;
use crate::signals::Interrupt;
use anyhow::{Context, Result, ensure};
use crossterm::event::{self, Event, KeyEventKind};
use draw::Theme;
use feed::{Feed, News};
use gt_runtime::ids::SessionId;
use gt_runtime::status::Monitor;
use gt_runtime::zmq::Address;
use ratatui::DefaultTerminal;
use state::{State, Wish};
use std::io::IsTerminal;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;
use view::View;

/// How long keys are waited for before news are looked at.
const GLANCE: Duration = Duration::from_millis(50);
/// How often it is seen to that there still is a terminal.
const PULSE: Duration = Duration::from_secs(1);
/// The exit status of a program whose terminal has gone, as after SIGHUP.
const HUNG_UP: i32 = 128 + 1;

pub(crate) fn top(args: &TopArgs, json: bool) -> Result<()> {
    let address: Address = args.connect.parse()?;
    let every = Duration::from_secs_f64(args.interval);
    if args.once {
        return once(&address, every, args.picture.as_deref(), json);
    }
    ensure!(
        std::io::stdout().is_terminal() && std::io::stdin().is_terminal(),
        advised(
            "`gt-cli top` draws on a terminal, and this is none",
            "add --once, or --once --json"
        )
    );
    // An address that nobody listens at is an error, and no screen that stays empty.
    drop(Monitor::connect(&address).map_err(run_error)?);
    let interrupt = Interrupt::watch(|| ())?;
    end_with_terminal().context("cannot start a thread")?;
    let (news, wishes) = Feed::start(address.clone(), every).context("cannot start a thread")?;
    let mut terminal = ratatui::try_init().context("cannot draw on this terminal")?;
    let done = watch(&mut terminal, &address, (&news, &wishes), &interrupt);
    if done.is_err() && !has_terminal() {
        // There is nothing to restore, and nowhere to say why.
        std::process::exit(HUNG_UP);
    }
    ratatui::restore();
    done
}

/// Ends the program when its terminal is gone. A signal may not say so, as under `nohup`, and
/// waiting for keys would not end: the end of the terminal is read again and again.
fn end_with_terminal() -> std::io::Result<()> {
    let watch = || {
        while has_terminal() {
            std::thread::sleep(PULSE);
        }
        std::process::exit(HUNG_UP)
    };
    std::thread::Builder::new().name("gt-hang-up".into()).spawn(watch).map(drop)
}

fn has_terminal() -> bool {
    rustix::termios::tcgetattr(std::io::stdin()).is_ok()
}

/// The state of the server over one interval.
fn look(address: &Address, every: Duration) -> Result<View> {
    let mut monitor = Monitor::connect(address).map_err(run_error)?;
    let before = monitor.ask().map_err(run_error)?;
    std::thread::sleep(every);
    let now = monitor.ask().map_err(run_error)?;
    Ok(View::between(Some(&before), &now))
}

fn once(address: &Address, every: Duration, to: Option<&Path>, json: bool) -> Result<()> {
    ensure!(
        to.is_none_or(|path| path.extension().is_some_and(|end| end == "svg")),
        advised("the picture of a screen is SVG", "name a file that ends with .svg")
    );
    let view = look(address, every)?;
    if json {
        print(&serde_json::to_string(&view)?);
        return Ok(());
    }
    let mut state = State::default();
    state.show(view);
    if let Some(path) = to {
        let theme = Theme { colors: true, blocks: true, selects: false };
        let picture = draw::picture(&state, &address.to_string(), theme)?;
        return std::fs::write(path, picture)
            .with_context(|| format!("cannot write {}", path.display()));
    }
    let theme = Theme { colors: false, blocks: has_blocks(), selects: false };
    print(&draw::text(&state, &address.to_string(), theme)?);
    Ok(())
}

fn watch(
    terminal: &mut DefaultTerminal,
    address: &Address,
    (news, wishes): (&Receiver<News>, &Sender<SessionId>),
    interrupt: &Interrupt,
) -> Result<()> {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let theme = Theme { colors: !no_color, blocks: has_blocks(), selects: true };
    let (mut state, address) = (State::default(), address.to_string());
    loop {
        terminal.draw(|frame| draw::draw(frame, &state, &address, theme))?;
        let mut changed = false;
        while !changed {
            for said in news.try_iter() {
                changed = true;
                match said {
                    News::View(view) => state.show(*view),
                    News::Trouble(why) => state.trouble = Some(why.replace('\n', "; ")),
                    News::Said(text) => state.news = Some(text),
                }
            }
            if interrupt.asked() {
                return Ok(());
            }
            if !event::poll(GLANCE)? {
                continue;
            }
            changed = true;
            let Event::Key(key) = event::read()? else { continue };
            if key.kind == KeyEventKind::Release {
                continue;
            }
            match state.key(key) {
                Wish::Nothing => {}
                Wish::Quit => return Ok(()),
                Wish::End(session) => {
                    state.news = Some(format!("ending {session}"));
                    // Without the thread there is no news either.
                    let _ = wishes.send(session);
                }
            }
        }
    }
}

/// Whether the terminal draws characters beyond ASCII, as the environment says.
fn has_blocks() -> bool {
    let named = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
    let locale = named("LC_ALL").or_else(|| named("LC_CTYPE")).or_else(|| named("LANG"));
    let locale = locale.unwrap_or_default().to_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}
