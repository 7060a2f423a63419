//! Groups sites into tasks: kernels that share buffers form one task (specification S-101, after CASE).
//!
//! Slots may exchange pointers (`swap(a, b)` between launches). Where a pointer may be that of either of two buffers,
//! the two belong together even if no launch names both.

use std::collections::BTreeMap;

use crate::facts::{Facts, SiteKind};
use crate::names::BufferId;

/// The buffers and sites of a task; sites are indices into [`Facts::sites`], in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    pub buffers: Vec<BufferId>,
    pub sites: Vec<usize>,
}

/// Disjoint sets with path halving. The smaller root becomes the parent, so results do not depend on the order of
/// unions.
#[derive(Debug)]
struct UnionFind(Vec<usize>);

impl UnionFind {
    fn new(len: usize) -> Self {
        Self((0..len).collect())
    }

    fn root(&mut self, mut at: usize) -> usize {
        while self.0[at] != at {
            self.0[at] = self.0[self.0[at]];
            at = self.0[at];
        }
        at
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.0[a.max(b)] = a.min(b);
    }
}

/// The groups of a function, ordered by their first buffer.
#[must_use]
pub fn groups(facts: &Facts) -> Vec<Group> {
    let mut sets = UnionFind::new(facts.buffers.len());
    // Buffers in memory that callers made form one group, because this function does not know how the callers use them.
    let inherited: Vec<_> =
        (0..facts.buffers.len()).filter(|&index| facts.buffers[index].inherited).collect();
    for pair in inherited.windows(2) {
        sets.join(pair[0], pair[1]);
    }
    for (index, buffer) in facts.buffers.iter().enumerate() {
        for other in &buffer.aliases {
            sets.join(index, other.index());
        }
    }
    for (one, other) in &facts.mixed {
        sets.join(one.index(), other.index());
    }
    for site in &facts.sites {
        let joins = matches!(
            site.kind,
            SiteKind::Launch { .. } | SiteKind::Access { joins: true, .. } | SiteKind::Free { .. }
        );
        if joins {
            for pair in site.kind.buffers().windows(2) {
                sets.join(pair[0].index(), pair[1].index());
            }
        }
    }
    let mut groups: BTreeMap<usize, Group> = BTreeMap::new();
    for index in 0..facts.buffers.len() {
        let root = sets.root(index);
        groups.entry(root).or_default().buffers.push(BufferId(u32::try_from(index).unwrap_or(u32::MAX)));
    }
    for (site_index, site) in facts.sites.iter().enumerate() {
        let mut roots: Vec<_> = site.kind.buffers().iter().map(|buffer| sets.root(buffer.index())).collect();
        roots.sort_unstable();
        roots.dedup();
        for root in roots {
            groups.entry(root).or_default().sites.push(site_index);
        }
    }
    groups.into_values().collect()
}

/// Merges two groups.
#[must_use]
pub fn merged(a: &Group, b: &Group) -> Group {
    let union = |mut all: Vec<usize>| {
        all.sort_unstable();
        all.dedup();
        all
    };
    let mut buffers = [a.buffers.clone(), b.buffers.clone()].concat();
    buffers.sort_unstable();
    buffers.dedup();
    Group { buffers, sites: union([a.sites.clone(), b.sites.clone()].concat()) }
}
