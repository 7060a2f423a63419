//! `rodinia-gen`: generates inputs for the programs from a seed.
//!
//! Outputs are written under a temporary name and moved into place, so a file that exists is complete.
#![forbid(unsafe_code)]

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use eager_rodinia::input::{graph, image};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(version, about = "Makes inputs for the Rodinia-like programs")]
struct Arguments {
    /// Equal seeds give equal files
    #[arg(long, default_value_t = 1, global = true)]
    seed: u64,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Random graph for bfs, in Rodinia's text format
    Bfs {
        #[arg(long)]
        nodes: u32,
        /// Both directions counted, so an even number [default: six per node]
        #[arg(long)]
        edges: Option<u32>,
        #[arg(short)]
        output: PathBuf,
    },
    /// Raw RGB image for dwt2d
    Rgb {
        /// WIDTHxHEIGHT in pixels
        #[arg(long)]
        size: String,
        #[arg(short)]
        output: PathBuf,
    },
    /// Text PGM image for srad_v1 -i
    Pgm {
        /// WIDTHxHEIGHT in pixels
        #[arg(long)]
        size: String,
        #[arg(short)]
        output: PathBuf,
    },
    /// The input of a run: a configuration (bfs-32M), its scaled form (bfs-32M.scaled), or bfs.smoke, bfs.small
    For {
        id: String,
        /// Folder for the file, whose path is printed
        #[arg(short, default_value = ".")]
        output: PathBuf,
    },
}

fn main() -> ExitCode {
    match make(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rodinia-gen: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn make(arguments: Arguments) -> Result<()> {
    let seed = arguments.seed;
    match arguments.what {
        What::Bfs { nodes, edges, output } => {
            let edges = edges.map_or_else(|| nodes.checked_mul(6), Some);
            let Some(edges) = edges else { bail!("{nodes} nodes need more edges than the format can count") };
            write_file(&output, |out| Ok(graph::write(nodes, edges, seed, out)?))
        }
        What::Rgb { size, output } => {
            let (width, height) = dimensions(&size)?;
            write_file(&output, |out| Ok(image::write_rgb(width, height, seed, out)?))
        }
        What::Pgm { size, output } => {
            let (width, height) = dimensions(&size)?;
            write_file(&output, |out| Ok(image::write_pgm(width, height, seed, out)?))
        }
        What::For { id, output } => {
            let Some(run) = eager_rodinia::run(&id) else {
                bail!("no run `{id}`; known: {}", known_runs());
            };
            match run.input {
                Some(input) => println!("{}", input.make(seed, &output)?.display()),
                None => eprintln!("rodinia-gen: `{id}` reads no input; nothing to make"),
            }
            Ok(())
        }
    }
}

fn known_runs() -> String {
    let names = eager_rodinia::programs().iter().flat_map(|p| p.runs().into_iter().map(|(name, _)| name));
    names.collect::<Vec<_>>().join(", ")
}

fn dimensions(text: &str) -> Result<(u32, u32)> {
    let parsed = text.split_once('x').and_then(|(w, h)| Some((w.parse().ok()?, h.parse().ok()?)));
    match parsed {
        Some((width, height)) if (1..=65536).contains(&width) && (1..=65536).contains(&height) => {
            Ok((width, height))
        }
        _ => bail!("--size must be WIDTHxHEIGHT, each from 1 to 65536, got `{text}`"),
    }
}

fn write_file(path: &Path, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{}.part", std::process::id()));
    let part = PathBuf::from(part);
    let placed = || format!("cannot write {}", path.display());
    let written = File::create(&part).with_context(placed).and_then(|file| {
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.flush().with_context(placed)
    });
    if let Err(error) = written {
        let _ = std::fs::remove_file(&part);
        return Err(error);
    }
    std::fs::rename(&part, path).with_context(placed)
}
