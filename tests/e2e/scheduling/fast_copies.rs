//! Under `eager-live`, copies of pageable memory go through the pinned ring: the same bytes, in the modelled time of
//! the link and not of the host's staging.

use eager_tests::{compiled, daemon::Daemon, has_toolchain, run_ok};

/// Copies 64 MiB and a few bytes in, adds one, copies them out. Prints a check sum and, on standard error, the
/// milliseconds of each copy by the device's clock.
const PROGRAM: &str = r#"
#include <cstdio>
#include <vector>
__global__ void add(unsigned *p, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] += 1;
}
int main() {
  const unsigned n = (16 << 20) + 77;
  std::vector<unsigned> data(n);
  for (unsigned i = 0; i < n; ++i) data[i] = i * 2654435761u;
  unsigned *p = nullptr;
  if (cudaMalloc(&p, n * sizeof(unsigned)) != cudaSuccess) return 1;
  cudaEvent_t marks[4];
  for (auto &mark : marks) cudaEventCreate(&mark);
  cudaEventRecord(marks[0]);
  if (cudaMemcpy(p, data.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice) != cudaSuccess) return 1;
  cudaEventRecord(marks[1]);
  for (auto &value : data) value = 0;
  add<<<(n + 255) / 256, 256>>>(p, n);
  cudaEventRecord(marks[2]);
  if (cudaMemcpy(data.data(), p, n * sizeof(unsigned), cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
  cudaEventRecord(marks[3]);
  cudaEventSynchronize(marks[3]);
  float in = 0, out = 0;
  cudaEventElapsedTime(&in, marks[0], marks[1]);
  cudaEventElapsedTime(&out, marks[2], marks[3]);
  unsigned sum = 0, wrong = 0;
  for (unsigned i = 0; i < n; ++i) sum = sum * 31 + data[i], wrong += data[i] != i * 2654435761u + 1;
  printf("%u wrong, sum %u\n", wrong, sum);
  printf("%.4f %.4f\n", in, out);
  return cudaFree(p) != cudaSuccess;
}
"#;

/// Parses the check sum, and the milliseconds of the copies in and out.
fn read(printed: &str) -> (String, Vec<f64>) {
    let (sum, times) = printed.trim_end().split_once('\n').expect("two lines");
    (sum.to_owned(), times.split(' ').map(|time| time.parse().expect("milliseconds")).collect())
}

#[test]
fn pageable_copies_take_the_links_time_and_bring_the_same_bytes() {
    if !has_toolchain("fast copies") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "copies", PROGRAM);
    let daemon = Daemon::start(&["--virtual", "1xV100-16GB", "--time-scale", "0", "--policy", "eager-live"]);
    let ran = |ring: &str| {
        let mut program = daemon.run(&program);
        read(&run_ok(program.env("EAGER_RING_BYTES", ring).env("EAGER_RING_AFTER_BYTES", "0")))
    };
    let (sum, plain) = ran("0");
    assert!(sum.starts_with("0 wrong"), "{sum}");
    for ring in ["16777216", "300000"] {
        let (fast_sum, fast) = ran(ring);
        eprintln!("in and out: {plain:?} ms as they came, {fast:?} ms through a ring of {ring} bytes");
        assert_eq!(fast_sum, sum);
        for (fast, plain) in fast.iter().zip(&plain) {
            // The model gives pageable copies half the link's rate; each piece has a cost of its own.
            assert!(fast / plain < 0.75, "{fast} ms is not much below {plain} ms");
        }
    }
}
