//! Generated inputs: format, exact sizes, determinism, rejected sizes.

use eager_rodinia::input::{graph, image};
use eager_rodinia::{Input, InputError, programs};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::collections::BTreeSet;

struct Graph {
    nodes: Vec<(usize, usize)>,
    source: usize,
    edges: Vec<(usize, usize)>,
}

fn graph_text(nodes: u32, edges: u32, seed: u64) -> String {
    let mut text = Vec::new();
    graph::write(nodes, edges, seed, &mut text).unwrap_or_else(|e| panic!("{e}"));
    String::from_utf8(text).unwrap()
}

/// Parses a graph as bfs does: whitespace-separated numbers, nothing left over.
fn parse(text: &str) -> Graph {
    let mut numbers = text.split_whitespace().map(|word| word.parse::<usize>().unwrap());
    let mut next = || numbers.next().expect("more numbers");
    let count = next();
    let nodes = (0..count).map(|_| (next(), next())).collect();
    let source = next();
    let edge_count = next();
    let edges = (0..edge_count).map(|_| (next(), next())).collect();
    assert_eq!(numbers.next(), None);
    Graph { nodes, source, edges }
}

fn levels(graph: &Graph) -> (usize, usize) {
    let mut seen = BTreeSet::from([graph.source]);
    let mut frontier = vec![graph.source];
    let mut levels = 0;
    while !frontier.is_empty() {
        levels += 1;
        let mut next = Vec::new();
        for node in frontier {
            let (first, degree) = graph.nodes[node];
            next.extend(graph.edges[first..first + degree].iter().map(|e| e.0).filter(|n| seen.insert(*n)));
        }
        frontier = next;
    }
    (levels, seen.len())
}

proptest! {
    // The same cases in every run, so that a failure can be reproduced.
    #![proptest_config(ProptestConfig { failure_persistence: None, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn graphs_are_well_formed(nodes in 1_u32..400, extra in 0_u32..1000, seed: u64) {
        let edges = 2 * (nodes + extra);
        let graph = parse(&graph_text(nodes, edges, seed));
        prop_assert_eq!(graph.nodes.len(), nodes as usize);
        prop_assert_eq!(graph.edges.len(), edges as usize);
        let mut end = 0;
        for (first, degree) in &graph.nodes {
            prop_assert_eq!(*first, end);
            end += degree;
        }
        prop_assert_eq!(end, graph.edges.len());
        prop_assert!(graph.edges.iter().all(|(to, cost)| *to < graph.nodes.len() && *cost > 0));
        prop_assert!(graph.source < graph.nodes.len());
        // Undirected: as many edges in each direction.
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        for (from, (first, degree)) in graph.nodes.iter().enumerate() {
            pairs.extend(graph.edges[*first..first + degree].iter().map(|(to, _)| (from, *to)));
        }
        let mut back: Vec<(usize, usize)> = pairs.iter().map(|(a, b)| (*b, *a)).collect();
        pairs.sort_unstable();
        back.sort_unstable();
        prop_assert_eq!(pairs, back);
    }
}

#[test]
fn a_graph_of_mean_degree_six_is_searched_in_about_ten_levels() {
    let (levels, reached) = levels(&parse(&graph_text(50_000, 300_000, 1)));
    assert!((8..=13).contains(&levels) && reached > 49_500, "{levels} levels, {reached} reached");
}

#[test]
fn equal_seeds_give_equal_files_and_other_seeds_other_ones() {
    assert_eq!(graph_text(100, 600, 3), graph_text(100, 600, 3));
    assert_ne!(graph_text(100, 600, 3), graph_text(100, 600, 4));
    let rgb = |seed| {
        let mut bytes = Vec::new();
        image::write_rgb(33, 21, seed, &mut bytes).unwrap();
        bytes
    };
    assert_eq!(rgb(3), rgb(3));
    assert_ne!(rgb(3), rgb(4));
    assert_eq!(rgb(3).len(), 33 * 21 * 3);
}

#[test]
fn impossible_graphs_are_refused_with_a_reason() {
    for (nodes, edges, says) in [(0, 0, "at least one"), (10, 61, "even"), (10, 18, "two per node")] {
        let error = graph::write(nodes, edges, 1, &mut Vec::new()).unwrap_err();
        assert!(matches!(error, InputError::Graph { .. }) && error.to_string().contains(says), "{error}");
    }
}

#[test]
fn pgm_images_are_text_with_as_many_pixels_as_the_header_says() {
    let mut text = Vec::new();
    image::write_pgm(7, 5, 1, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let words: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(words[..4], ["P2", "7", "5", "255"]);
    assert_eq!(words[4..].len(), 35);
    assert!(words[4..].iter().all(|w| w.parse::<u8>().is_ok()));
}

#[test]
fn inputs_are_made_once_and_whole() {
    let folder = tempfile::tempdir().unwrap();
    let input = Input::Graph { nodes: 50, edges: 300 };
    let path = input.make(1, folder.path()).unwrap();
    let first = std::fs::read(&path).unwrap();
    assert_eq!(parse(std::str::from_utf8(&first).unwrap()).edges.len(), 300);
    std::fs::write(&path, "kept").unwrap();
    assert_eq!(input.make(1, folder.path()).unwrap(), path);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "kept");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let missing = folder.path().join("no").join("folder");
    let error = input.make(1, &missing).unwrap_err().to_string();
    assert!(error.contains("no/folder"), "{error}");
}

#[test]
fn every_input_of_the_runs_that_are_executed_can_be_made() {
    for program in programs() {
        let scaled = program.configurations.iter().map(|c| &c.scaled);
        for input in [&program.smoke, &program.small].into_iter().chain(scaled).filter_map(|run| run.input) {
            let mut sink = std::io::sink();
            input.write(1, &mut sink).unwrap_or_else(|e| panic!("{input:?}: {e}"));
        }
    }
}
