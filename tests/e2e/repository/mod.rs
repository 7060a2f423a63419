//! Rules that hold for the repository itself: its pages, its reference, its packages, its command lines.

mod circles;
mod clean_clone;
mod command_lines;
mod docs;
mod docs_generated;
mod fault_cases;
mod features;
mod json;
mod packaging;
mod specification;
mod tidy;
