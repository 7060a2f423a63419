//! `eager-eval`.
#![forbid(unsafe_code)]
mod plot; mod record; mod report; mod stamp; mod summary; mod table;
fn main() {}
