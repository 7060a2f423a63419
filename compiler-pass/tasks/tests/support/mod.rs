//! Hand-written small functions for tests.

#![allow(dead_code, reason = "each test uses a part")]

use eager_tasks::contents::Contents;
use eager_tasks::names::{FunctionId, PointerId};
use eager_tasks::{
    BlockFacts, BlockId, BufferFacts, BufferId, BufferKind, Exit, Expr, Facts, FrameFacts, Leaf, LeafId,
    LeafSource, Point, Reload, ReloadBase, Site, SiteKind, SiteOrigin,
};

pub fn at(block: u32, position: u32) -> Point {
    Point { block: BlockId(block), position }
}

/// A block of the function itself, `len` instructions long.
pub fn block(origin: usize, successors: Vec<BlockId>, exit: Option<Exit>, len: u32) -> BlockFacts {
    BlockFacts::whole(BlockId::from_index(origin), successors, exit, len)
}

/// Blocks of ten instructions each; a block without successors returns.
pub fn blocks(successors: &[&[u32]]) -> Vec<BlockFacts> {
    let block = |(index, successors): (usize, &&[u32])| {
        let exit = successors.is_empty().then_some(Exit::Return);
        block(index, successors.iter().copied().map(BlockId).collect(), exit, 10)
    };
    successors.iter().enumerate().map(block).collect()
}

pub fn site(at: Point, kind: SiteKind) -> Site {
    Site { at, place: None, origin: SiteOrigin { function: FunctionId(0), at }, kind }
}

pub fn bytes(value: u64) -> Expr {
    Expr::Const { value, bits: 64 }
}

pub fn allocation(point: Point, buffer: u32, size: Expr) -> Site {
    let call = "cudaMalloc".to_owned();
    site(point, SiteKind::Allocation { call, buffer: BufferId(buffer), size: Some(size) })
}

pub fn launch(point: Point, buffers: &[u32]) -> Site {
    let buffers = buffers.iter().copied().map(BufferId).collect();
    site(point, SiteKind::Launch { kernel: None, buffers, foreign: None, geometry: None })
}

pub fn free(point: Point, buffer: u32) -> Site {
    site(point, SiteKind::Free { buffers: vec![BufferId(buffer)], exact: true })
}

pub fn buffer(kind: BufferKind) -> BufferFacts {
    BufferFacts { kind, shared: None, unsteady: false, inherited: false, aliases: Vec::new() }
}

pub fn function(blocks: Vec<BlockFacts>, buffers: usize, sites: Vec<Site>) -> Facts {
    Facts {
        throws: Vec::new(),
        leaving: Vec::new(),
        pointer_steps: 0,
        incomplete: false,
        function: "f".to_owned(),
        blocks,
        frames: vec![FrameFacts { function: FunctionId(0), caller: None }],
        buffers: vec![buffer(BufferKind::Memory); buffers],
        mixed: Vec::new(),
        leaves: Vec::new(),
        sites,
        contents: Contents::default(),
    }
}

/// A leaf that can be loaded through the function's first pointer.
pub fn leaf(source: LeafSource) -> Leaf {
    let reload =
        Reload { base: ReloadBase::Pointer(PointerId(0)), offset: 0, bits: 64, from: None, witnesses: None };
    Leaf { source, description: "n".to_owned(), own: Some(LeafId(0)), reload: Some(reload) }
}
