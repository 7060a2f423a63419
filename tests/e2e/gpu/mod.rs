//! What runs on a machine with a GPU, on stand-ins for its driver.

mod gpu_bundle;
mod gpus;
mod nvml_failures;
mod nvtx;
