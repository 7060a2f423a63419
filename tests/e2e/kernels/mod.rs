//! Kernels on the virtual GPU: results, and what strict mode finds.

mod calibrate;
mod closed_libraries;
mod clusters;
mod conformance;
mod corpus;
mod mathematics;
mod ptx_rules;
mod races;
mod strict;
mod tensor;
mod textures;
mod waiting_kernels;
mod warps_in_step;
mod wrong_side;
