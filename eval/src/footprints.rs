//! Measures the source document's (specification S-1) footprint table: static size and footprint of each kernel of
//! backprop and srad_v1 (specification S-221), beside the document's own values.
//!
//! The programs run at 1/256 of their size and bytes are multiplied back, so a footprint is a multiple of 256 blocks
//! of the touch map. It does not include what a full-size page or block of the driver would add.

use crate::programs::Programs;
use crate::progress::Stage;
use crate::tools::Tools;
use crate::{html, profile, table};
use anyhow::{Context, Result};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Options of the table.
#[derive(Debug, Args)]
pub struct FootprintArgs {
    /// Folder of the artefacts
    #[arg(long, value_name = "DIR", default_value = "target/footprints")]
    pub out: PathBuf,
    /// Folder of the programs' sources
    #[arg(long, value_name = "DIR", default_value = "rodinia")]
    pub sources: PathBuf,
}

/// Sizes that the document gives for a kernel.
struct Published {
    program: &'static str,
    /// Number of the kernel in the document: the order of first launches.
    number: usize,
    static_gib: f64,
    /// `None`: equal to the static size.
    footprint_mib: Option<f64>,
}

const fn row(program: &'static str, number: usize, static_gib: f64, footprint_mib: Option<f64>) -> Published {
    Published { program, number, static_gib, footprint_mib }
}

/// The document's table (specification S-221).
const PUBLISHED: [Published; 8] = [
    row("backprop", 1, 4.5, Some(128.0)),
    row("backprop", 2, 8.8, Some(78.0)),
    row("srad_v1", 1, 1.5, None),
    row("srad_v1", 2, 4.5, None),
    row("srad_v1", 3, 3.0, None),
    row("srad_v1", 4, 8.9, None),
    row("srad_v1", 5, 8.9, None),
    row("srad_v1", 6, 1.5, None),
];

/// Configurations whose static sizes are those of the document.
const CONFIGURATIONS: [(&str, &str); 2] = [("backprop", "backprop-64M"), ("srad_v1", "srad_v1-20000")];

/// One measured kernel, at full size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Footprint {
    pub configuration: String,
    pub kernel: String,
    pub static_bytes: u64,
    pub footprint_bytes: u64,
    pub published_static_gib: Option<f64>,
    pub published_footprint_mib: Option<f64>,
}

#[derive(Deserialize)]
struct Profile {
    kernels: BTreeMap<String, Kernel>,
}

#[derive(Deserialize)]
struct Kernel {
    static_bytes: u64,
    footprint_bytes: u64,
}

/// Measures the footprints, prints the table and writes `footprints.json` and `footprints.html`.
pub fn run(args: &FootprintArgs) -> Result<()> {
    let tools = Tools::find()?;
    std::fs::create_dir_all(&args.out).with_context(|| format!("cannot create {}", args.out.display()))?;
    let out = args.out.canonicalize().with_context(|| format!("cannot resolve {}", args.out.display()))?;
    let stage = Stage::begin("building with eagercc", eager_rodinia::programs().len());
    let programs = Programs::build(&tools, &args.sources, &[], &out, |name| stage.step(name))?;
    stage.end();
    let mut rows = Vec::new();
    for (name, id) in CONFIGURATIONS {
        let (program, configuration) =
            eager_rodinia::configuration(id).with_context(|| format!("{id} is in no program.toml"))?;
        let path = profile::measure(&tools, &programs, program, configuration, "V100-16GB", &out)?;
        let order = launch_order(program, configuration)?;
        rows.extend(footprints(name, id, &path, &order)?);
    }
    print!("{}", table::render(&HEADER, &cells(&rows)));
    let json = out.join("footprints.json");
    std::fs::write(&json, serde_json::to_string_pretty(&rows)? + "\n")
        .with_context(|| format!("cannot write {}", json.display()))?;
    let page = out.join("footprints.html");
    let body = format!("<p class=\"note\">{NOTE}</p>{}", html::table(&HEADER, &cells(&rows)));
    std::fs::write(&page, html::page("Static size and footprint of kernels", &body))
        .with_context(|| format!("cannot write {}", page.display()))?;
    println!("\nReport: {}", page.display());
    Ok(())
}

/// Returns the names of a program's kernels in the order of their first launches.
fn launch_order(
    program: &eager_rodinia::Program,
    configuration: &eager_rodinia::Configuration,
) -> Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for kernel in program.kernels(&configuration.scaled)? {
        if !names.contains(&kernel.name) {
            names.push(kernel.name);
        }
    }
    Ok(names)
}

fn footprints(program: &str, id: &str, path: &Path, order: &[String]) -> Result<Vec<Footprint>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let profile: Profile =
        serde_json::from_str(&text).with_context(|| format!("{} is not a profile", path.display()))?;
    let measured = |name: &String| {
        let is_it = |mangled: &String| mangled.contains(&format!("{}{name}", name.len())) || mangled == name;
        profile.kernels.iter().find(|(mangled, _)| is_it(mangled)).map(|(_, kernel)| kernel)
    };
    let published = |number: usize| PUBLISHED.iter().find(|p| p.program == program && p.number == number);
    let row = |(index, name): (usize, &String)| {
        let kernel = measured(name)?;
        let published = published(index + 1);
        Some(Footprint {
            configuration: id.to_owned(),
            kernel: name.clone(),
            static_bytes: kernel.static_bytes * eager_rodinia::MEMORY_SCALE,
            footprint_bytes: kernel.footprint_bytes * eager_rodinia::MEMORY_SCALE,
            published_static_gib: published.map(|p| p.static_gib),
            published_footprint_mib: published.map(|p| p.footprint_mib.unwrap_or(p.static_gib * 1024.0)),
        })
    };
    Ok(order.iter().enumerate().filter_map(row).collect())
}

const HEADER: [&str; 6] =
    ["configuration", "kernel", "static size", "footprint", "document: static", "document: footprint"];

const NOTE: &str = "Measured on the virtual GPU: pages that each kernel touched, by the compiler's touch map, at 1/256 of \
                    the size and multiplied back. The document measured on a V100 by device memory in use before and \
                    after the kernel. The driver takes that memory from the card in batches of 64 blocks of 2 MiB, so a first \
                    kernel that touches 42 MiB shows as 128 MiB.";

fn cells(rows: &[Footprint]) -> Vec<Vec<String>> {
    let row = |row: &Footprint| {
        let gib = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.1} GiB"));
        let mib = |value: Option<f64>| match value {
            Some(mib) if mib >= 1024.0 => format!("{:.1} GiB", mib / 1024.0),
            Some(mib) => format!("{mib:.0} MiB"),
            None => "-".to_owned(),
        };
        vec![
            row.configuration.clone(),
            row.kernel.clone(),
            table::size(row.static_bytes),
            table::size(row.footprint_bytes),
            gib(row.published_static_gib),
            mib(row.published_footprint_mib),
        ]
    };
    rows.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    const BLOCK_MIB: u32 = 2;
    /// Blocks that the driver takes from the card at once (specification S-505; `uvm_perf_pma_batch_nonpinned_order` of 6,
    /// `uvm_pmm_gpu.c` of NVIDIA's open kernel modules).
    const BATCH: u32 = 64;
    /// Blocks that backprop's kernels touch: rows of input, input_hidden (and previous), partial_sum or hidden_delta.
    const LAYERFORWARD: u32 = 2 + 18 + 1;
    const ADJUST_WEIGHTS: u32 = 2 + 18 + 18 + 1;

    /// The driver's store of blocks on one card.
    #[derive(Default)]
    struct Store {
        /// Blocks taken from the card, which "memory in use" shows.
        taken: u32,
        /// Blocks taken but not yet used.
        spare: u32,
    }

    impl Store {
        fn populate(&mut self, blocks: u32) {
            for _ in 0..blocks {
                if self.spare == 0 {
                    (self.taken, self.spare) = (self.taken + BATCH, BATCH);
                }
                self.spare -= 1;
            }
        }

        /// Returns blocks to the card one by one; spare blocks of their batches stay.
        fn send_to_host(&mut self, blocks: u32) {
            self.taken -= blocks;
        }

        /// Models an allocation that fills the card: it takes all blocks of the store.
        fn empty(&mut self) {
            *self = Store::default();
        }

        /// Footprint of a kernel in MiB, as memory in use after it minus memory in use before it.
        fn read(&mut self, blocks: u32) -> u32 {
            let before = self.taken;
            self.populate(blocks);
            (self.taken - before) * BLOCK_MIB
        }
    }

    /// The document has 128 and 78 MiB (specification S-221). One batch is 128 MiB and the blocks that the second
    /// kernel touches are 78 MiB, but no single way of reading gives both.
    #[test]
    fn one_batch_of_the_driver_is_the_documents_128_mib_but_no_one_reading_gives_its_78_too() {
        assert_eq!((LAYERFORWARD * BLOCK_MIB, ADJUST_WEIGHTS * BLOCK_MIB), (42, 78), "touched blocks");
        let mut store = Store::default();
        let first = store.read(LAYERFORWARD);
        store.send_to_host(LAYERFORWARD);
        assert_eq!((first, store.read(ADJUST_WEIGHTS)), (128, 0), "pages sent to the host in between");
        let mut store = Store::default();
        let first = store.read(LAYERFORWARD);
        store.empty();
        assert_eq!((first, store.read(ADJUST_WEIGHTS)), (128, 128), "the card emptied in between");
    }
}
