//! The daemon's executable. Trap: it has nothing of its own; what it does is in the library beside it.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    eagerd::main()
}
