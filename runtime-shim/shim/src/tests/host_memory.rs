//! Page-locked host memory before and after the program has a device.

use super::{Bench, SITE};
use crate::outcome::{Outcome, Why};
use crate::runtime::CudaError;
use eager_client::task::Geometry;

#[test]
fn page_locked_memory_makes_no_context_and_is_locked_with_the_first_device() {
    let mut bench = Bench::new();
    let made = |outcome| match outcome {
        Outcome::Handled(address) => address,
        other => panic!("{other:?}"),
    };
    let [kept, freed] = [100, 200].map(|bytes| made(bench.shim.malloc_host(&mut bench.thread, bytes, 0)));
    assert_eq!(bench.shim.free_host(freed), Outcome::Handled(()));
    assert_eq!(bench.cuda.log(), ["map 100 of the host", "map 200 of the host", "unmap 200 of the host"]);
    // Write-combined memory cannot be locked later.
    let combined = bench.shim.malloc_host(&mut bench.thread, 100, 4);
    assert_eq!(combined, Outcome::PassThrough(Why::AsItIs));
    assert_eq!(bench.cuda.log(), ["device 0", "page-lock 100"], "so the daemon is asked for a device");
    bench.daemon.bind_on(2);
    bench.shim.task_begin(&mut bench.thread, SITE, 10, Geometry::UNKNOWN);
    assert_eq!(bench.cuda.log(), ["device 2"]);
    let later = bench.shim.malloc_host(&mut bench.thread, 100, 0);
    assert_eq!(later, Outcome::PassThrough(Why::AsItIs));
    assert_eq!(bench.shim.free_host(kept), Outcome::Handled(()));
    assert_eq!(bench.cuda.log(), ["unlock", "unmap 100 of the host"]);
    assert_eq!(bench.shim.free_host(kept), Outcome::PassThrough(Why::NotOurs));
}

#[test]
fn page_locked_memory_is_locked_where_a_program_looks_how_it_is() {
    let mut bench = Bench::new();
    let Outcome::Handled(start) = bench.shim.malloc_host(&mut bench.thread, 100, 3) else { panic!("made") };
    bench.cuda.log();
    let looks = bench.shim.about_host_memory(&mut bench.thread, start + 99);
    assert_eq!(looks, Outcome::PassThrough(Why::AsItIs));
    assert_eq!(bench.cuda.log(), ["device 0", "page-lock 100"]);
    let mut other = Bench::new();
    let Outcome::Handled(start) = other.shim.malloc_host(&mut other.thread, 50, 0) else { panic!("made") };
    other.cuda.lack_pinned();
    let looks = other.shim.about_host_memory(&mut other.thread, start);
    assert_eq!(looks, Outcome::Fail(CudaError::MEMORY_ALLOCATION));
}
