//! What users of the language see: errors of the compiler, values and errors of typed programs on
//! the reference interpreter.

extern crate gt_lang as gt;

mod autocast;
mod complex_files;
mod data;
mod debug;
mod distributions;
mod encoder;
mod fft;
mod files;
mod filetests;
mod foreign;
mod formats;
mod freezing;
mod functional;
mod gradient_hooks;
mod hooks;
mod images;
mod loader;
mod lora;
mod metrics;
mod mistakes;
mod models;
#[cfg(feature = "parquet")]
mod parquet;
mod parts;
#[cfg(feature = "images")]
mod pictures;
mod places;
mod pytorch;
mod relations;
mod resume;
mod saved;
mod segments;
mod sequences;
mod signals;
mod sizes;
#[cfg(feature = "audio")]
mod sound;
mod special;
#[cfg(feature = "tokenizers")]
mod tokens;
mod tour;
mod trainer;
mod typed;
mod ui;

use std::sync::Arc;

use gt::reference::Reference;
use gt_ir::backend::{Backend, RunError, Target};

/// What the process falls back to: no runtime is linked here.
#[expect(
    unsafe_code,
    reason = "the symbol the session looks for; gt-runtime defines it in a whole program"
)]
// SAFETY: no other definition is linked into this test, and the signature is the declared one.
#[unsafe(no_mangle)]
fn __gt_embedded_backend(_: Target<'_>) -> Result<Arc<dyn Backend>, RunError> {
    Ok(Reference::new())
}

/// Runs a program in a session of its own, seeded with 0.
fn run<R>(program: impl FnOnce() -> R) -> R {
    let (session, _system) = Reference::session();
    session.manual_seed(0);
    let _current = session.enter();
    program()
}

#[test]
fn the_front_page_runs() {
    run(tour::main).expect("the front page is right");
}
