//! Finds functions that run more than once: those called from a cycle of control flow or of calls, and their callees.
//!
//! A kernel that is launched again uses its buffers again, whatever a single launch does with them. A function whose
//! callers are not visible (another source, a function pointer) counts as run once.

/// One call in a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Index of the called function.
    pub callee: usize,
    /// The call is in a loop.
    pub is_in_cycle: bool,
}

/// By function: whether it runs more than once, as far as these calls show. `calls`: by function, the calls it makes.
#[must_use]
pub fn repeated(calls: &[Vec<Call>]) -> Vec<bool> {
    let graph: Vec<Vec<usize>> =
        calls.iter().map(|made| made.iter().map(|call| call.callee).collect()).collect();
    let mut found = on_cycle(&graph);
    for call in calls.iter().flatten().filter(|call| call.is_in_cycle) {
        found[call.callee] = true;
    }
    let mut open: Vec<usize> = (0..calls.len()).filter(|&function| found[function]).collect();
    while let Some(function) = open.pop() {
        for call in &calls[function] {
            if !std::mem::replace(&mut found[call.callee], true) {
                open.push(call.callee);
            }
        }
    }
    found
}

/// By node: whether some path leads from it back to it. `graph`: by node, its successors.
///
/// Strongly connected components by Tarjan, "Depth-First Search and Linear Graph Algorithms" (1972), without recursion,
/// because generated code nests deeper than the stack allows.
#[must_use]
pub fn on_cycle(graph: &[Vec<usize>]) -> Vec<bool> {
    const UNSEEN: usize = usize::MAX;
    let mut found = vec![false; graph.len()];
    let (mut number, mut lowest) = (vec![UNSEEN; graph.len()], vec![UNSEEN; graph.len()]);
    let (mut open, mut is_open) = (Vec::new(), vec![false; graph.len()]);
    let mut count = 0;
    for root in 0..graph.len() {
        if number[root] != UNSEEN {
            continue;
        }
        let mut walk = vec![(root, 0)];
        while let Some((node, next)) = walk.pop() {
            if next == 0 {
                (number[node], lowest[node]) = (count, count);
                count += 1;
                open.push(node);
                is_open[node] = true;
            }
            match graph[node].get(next) {
                Some(&successor) => {
                    walk.push((node, next + 1));
                    if number[successor] == UNSEEN {
                        walk.push((successor, 0));
                    } else if is_open[successor] {
                        lowest[node] = lowest[node].min(number[successor]);
                    }
                }
                None => {
                    if let Some(&(above, _)) = walk.last() {
                        lowest[above] = lowest[above].min(lowest[node]);
                    }
                    if lowest[node] == number[node] {
                        let first = open.iter().rposition(|&member| member == node).unwrap_or(0);
                        let component = open.split_off(first);
                        let is_cycle = component.len() > 1 || graph[node].contains(&node);
                        for member in component {
                            is_open[member] = false;
                            found[member] = is_cycle;
                        }
                    }
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn call(callee: usize, is_in_cycle: bool) -> Call {
        Call { callee, is_in_cycle }
    }

    #[test]
    fn loops_and_recursion_reach_down_the_calls() {
        // main calls 1 once and 2 in a loop; 2 calls 3; 4 calls itself and 5.
        let calls = [
            vec![call(1, false), call(2, true), call(4, false)],
            vec![],
            vec![call(3, false)],
            vec![],
            vec![call(4, false), call(5, false)],
            vec![],
        ];
        assert_eq!(repeated(&calls), [false, false, true, true, true, true]);
    }

    proptest! {
        #[test]
        fn cycles_are_those_that_walking_finds(edges in prop::collection::vec((0usize..9, 0usize..9), 0..20)) {
            let mut graph = vec![Vec::new(); 9];
            for (from, to) in edges {
                graph[from].push(to);
            }
            let walked = |start: usize| {
                let mut seen = [false; 9];
                let mut open = graph[start].clone();
                while let Some(node) = open.pop() {
                    if !std::mem::replace(&mut seen[node], true) {
                        open.extend(&graph[node]);
                    }
                }
                seen[start]
            };
            let expected: Vec<bool> = (0..9).map(walked).collect();
            prop_assert_eq!(on_cycle(&graph), expected);
        }
    }
}
