//! `eager-eval`.
#![forbid(unsafe_code)]
mod journal; mod plot; mod record; mod report; mod stamp; mod summary; mod table; mod tools; mod virtual_run;
fn main() {}
