//! Deaths, stops, restarts and upgrades of programs and daemons.

mod crash;
mod mixed_load;
mod newcomers;
mod process_faults;
mod stopped;
mod strange_programs;
mod upgrade;
