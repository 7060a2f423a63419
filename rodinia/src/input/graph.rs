//! Random graphs in the text format of Rodinia's bfs: the number of nodes; per node its first edge and degree; the
//! source; the number of edges; per edge its destination and cost.
//!
//! Trap: every undirected edge is in two adjacency lists, so the number of edges in the file must be even.

use super::InputError;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::io::Write;

/// Writes a graph in which each node draws a nearly equal number of random neighbours. With three edges a node (`edges`
/// six times `nodes`) its breadth-first search has about as many levels as the published inputs: 10 to 15.
///
/// # Errors
/// `edges` is odd, less than two per node or zero, or writing fails.
pub fn write(nodes: u32, edges: u32, seed: u64, out: &mut dyn Write) -> Result<(), InputError> {
    let refuse = |why| Err(InputError::Graph { nodes, edges, why });
    if nodes == 0 {
        return refuse("it needs at least one node");
    }
    if !edges.is_multiple_of(2) {
        return refuse("the number must be even, since each edge counts in both directions");
    }
    if edges / 2 < nodes {
        return refuse("it needs at least two per node, or most of it would not be reached");
    }
    let pairs = draw_pairs(nodes, edges / 2, seed);
    let (first, destinations) = adjacency(nodes, &pairs);
    writeln!(out, "{nodes}")?;
    for pair in first.windows(2) {
        writeln!(out, "{} {}", pair[0], pair[1] - pair[0])?;
    }
    writeln!(out, "\n0\n\n{edges}")?;
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x00c0_575e_ed00);
    for destination in destinations {
        writeln!(out, "{destination} {}", rng.random_range(1..=10))?;
    }
    Ok(())
}

/// Draws pairs of neighbours. Node `i` draws for pairs `i`, `i + nodes`, ...: degrees differ by at most one before
/// the other ends are counted.
fn draw_pairs(nodes: u32, pairs: u32, seed: u64) -> Vec<(u32, u32)> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..pairs).map(|pair| (pair % nodes, rng.random_range(0..nodes))).collect()
}

/// Returns the first edge of each node (and one past the last), and the destinations in node order.
fn adjacency(nodes: u32, pairs: &[(u32, u32)]) -> (Vec<u32>, Vec<u32>) {
    let mut first = vec![0_u32; nodes as usize + 1];
    for &(a, b) in pairs {
        first[a as usize + 1] += 1;
        first[b as usize + 1] += 1;
    }
    for node in 0..nodes as usize {
        first[node + 1] += first[node];
    }
    let mut next = first.clone();
    let mut destinations = vec![0_u32; pairs.len() * 2];
    for &(a, b) in pairs {
        for (from, to) in [(a, b), (b, a)] {
            destinations[next[from as usize] as usize] = to;
            next[from as usize] += 1;
        }
    }
    (first, destinations)
}
