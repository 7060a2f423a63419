//! Programs under a daemon: memory, order, and the numbers that are published of them.

mod assigned;
mod closed_gate;
mod contexts;
mod dead_memory;
mod dead_misuse;
mod descriptors;
mod determinism;
mod fast_copies;
mod independent_tasks;
mod learnt_points;
mod live_eager;
mod live_programs;
mod live_rodinia;
mod measured_footprints;
mod own_policy;
mod programs;
mod random_programs;
mod reservations;
mod shares;
mod two_cudas;
mod verbs;
mod virtual_clock;
