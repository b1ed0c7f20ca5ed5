//! What users of the language see: errors of the compiler, values and errors of typed programs on the reference interpreter.

extern crate gt_lang as gt;

mod models;
mod typed;
mod ui;
