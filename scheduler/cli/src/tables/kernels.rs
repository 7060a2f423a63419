//! `eager profile` for people: the kernels of a profile.
//!
//! A profile of a real GPU has no detail, so its table has fewer columns.

use super::{Align, Left, Right, table};
use serde::Deserialize;

/// One kernel. Sizes are in bytes of the program; all else in `detail` is summed over all launches.
#[derive(Debug, Deserialize)]
pub struct Kernel {
    pub static_bytes: u64,
    pub footprint_bytes: u64,
    pub launches: u64,
    pub access: String,
    /// Only in profiles of virtual GPUs.
    pub detail: Option<Detail>,
}

#[derive(Debug, Deserialize)]
pub struct Detail {
    pub device_ns: u64,
    pub global_bytes: u64,
    pub flops32: u64,
    pub flops64: u64,
    pub footprint_4k_bytes: u64,
    pub footprint_64k_bytes: u64,
    pub footprint_2m_bytes: u64,
}

fn mib(bytes: u64) -> String {
    format!("{:.3}", bytes as f64 / f64::from(1 << 20))
}

/// Formats the table of `eager profile` for virtual GPUs.
pub fn kernels(rows: &[(String, Kernel)]) -> String {
    const HEADER: [(&str, Align); 10] = [
        ("LAUNCHES", Right),
        ("TIME ms", Right),
        ("STATIC MiB", Right),
        ("TOUCHED MiB: 4 KiB", Right),
        ("64 KiB", Right),
        ("2 MiB", Right),
        ("ACCESS", Left),
        ("GB", Right),
        ("GFLOP", Right),
        ("KERNEL", Left),
    ];
    let billions = |count: u64| format!("{:.3}", count as f64 / 1e9);
    let cells = rows.iter().filter_map(|(name, kernel)| {
        let detail = kernel.detail.as_ref()?;
        Some([
            kernel.launches.to_string(),
            format!("{:.3}", detail.device_ns as f64 / 1e6),
            mib(kernel.static_bytes),
            mib(detail.footprint_4k_bytes),
            mib(detail.footprint_64k_bytes),
            mib(detail.footprint_2m_bytes),
            kernel.access.clone(),
            billions(detail.global_bytes),
            billions(detail.flops32 + detail.flops64),
            name.clone(),
        ])
    });
    table(HEADER, cells)
}

/// Formats the table of `eager profile` for a real GPU, which reports no detail.
pub fn footprints(rows: &[(String, Kernel)]) -> String {
    const HEADER: [(&str, Align); 5] = [
        ("LAUNCHES", Right),
        ("STATIC MiB", Right),
        ("TOUCHED MiB", Right),
        ("ACCESS", Left),
        ("KERNEL", Left),
    ];
    let cells = rows.iter().map(|(name, kernel)| {
        let sizes = [kernel.static_bytes, kernel.footprint_bytes].map(mib);
        let [whole, touched] = sizes;
        [kernel.launches.to_string(), whole, touched, kernel.access.clone(), name.clone()]
    });
    table(HEADER, cells)
}
