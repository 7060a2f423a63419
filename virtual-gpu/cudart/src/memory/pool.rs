//! Memory pools: blocks freed in stream order, which may be allocated again. Pure.
//!
//! A block is one allocation on the server, from the growth of its pool until the pool releases the block. Trap: a
//! freed block may be reused at once in the stream that freed it, but in another stream only when the free has been
//! reached. Memory beyond the pool's release threshold is released at the next synchronisation.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::stream::{Completion, StreamKey};

/// Key of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PoolKey(pub u64);

/// A number of bytes and its maximum since the last reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gauge {
    pub now: u64,
    pub high: u64,
}

impl Gauge {
    fn add(&mut self, bytes: u64) {
        self.now += bytes;
        self.high = self.high.max(self.now);
    }
}

/// Settings that `cudaMemPoolSetAttribute` changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Only reported back. Events need no rule of their own: a free that a stream has waited for has been reached by
    /// the time the stream's next work runs, and until then other blocks are used.
    pub follow_event_dependencies: bool,
    pub allow_opportunistic: bool,
    pub allow_internal_dependencies: bool,
    /// Bytes that the pool keeps at a synchronisation.
    pub release_threshold: u64,
}

/// CUDA's defaults: all reuse, no memory kept.
const POLICY_DEFAULT: Policy = Policy {
    follow_event_dependencies: true,
    allow_opportunistic: true,
    allow_internal_dependencies: true,
    release_threshold: 0,
};

#[derive(Debug)]
pub struct Pool {
    pub device: u32,
    /// Most bytes that the pool may hold; `None`: limited only by the device.
    max_bytes: Option<u64>,
    pub policy: Policy,
    /// Bytes that it holds on the server, and the part that the program uses.
    pub reserved: Gauge,
    pub used: Gauge,
    /// Access of other devices as CUDA's flags, by device.
    pub access: BTreeMap<u32, u32>,
    /// Destroyed by the program: it is removed with its last block.
    destroyed: bool,
}

impl Pool {
    pub fn new(device: u32, max_bytes: Option<u64>) -> Pool {
        Pool {
            device,
            max_bytes,
            policy: POLICY_DEFAULT,
            reserved: Gauge::default(),
            used: Gauge::default(),
            access: BTreeMap::new(),
            destroyed: false,
        }
    }

    /// True if the pool may hold `bytes` more.
    pub fn may_grow(&self, bytes: u64) -> bool {
        let wanted = self.reserved.now.checked_add(bytes);
        wanted.is_some_and(|wanted| self.max_bytes.is_none_or(|max| wanted <= max))
    }

    /// Bytes that it may keep at a synchronisation.
    fn keep_bytes(&self) -> u64 {
        if self.destroyed { 0 } else { self.policy.release_threshold }
    }
}

/// A block of a pool; `freed` records its free while it is not in use.
#[derive(Debug)]
struct Block {
    pool: PoolKey,
    bytes: u64,
    freed: Option<Freed>,
}

#[derive(Debug, Clone)]
struct Freed {
    stream: StreamKey,
    reached: Arc<Completion>,
}

/// Condition under which a stream may reuse a freed block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// Freed in that stream, or its free has been reached.
    Now,
    /// Besides, if the stream must first wait for the free in another stream.
    AfterWaiting,
}

/// A block that is in use again.
#[derive(Debug)]
pub struct Reused {
    pub address: u64,
    /// Work of another stream that must end first.
    pub after: Option<Arc<Completion>>,
}

/// All pools of the process.
#[derive(Debug, Default)]
pub struct Pools {
    pools: BTreeMap<PoolKey, Pool>,
    defaults: BTreeMap<u32, PoolKey>,
    current: BTreeMap<u32, PoolKey>,
    /// Blocks by address.
    blocks: BTreeMap<u64, Block>,
    last: u64,
}

impl Pools {
    pub fn create(&mut self, pool: Pool) -> PoolKey {
        self.last += 1;
        self.pools.insert(PoolKey(self.last), pool);
        PoolKey(self.last)
    }

    pub fn default_of(&mut self, device: u32) -> PoolKey {
        if let Some(&key) = self.defaults.get(&device) {
            return key;
        }
        let key = self.create(Pool::new(device, None));
        self.defaults.insert(device, key);
        key
    }

    /// The pool from which allocations on a device are made unless they name a pool.
    pub fn current_of(&mut self, device: u32) -> PoolKey {
        self.current.get(&device).copied().unwrap_or_else(|| self.default_of(device))
    }

    pub fn set_current(&mut self, device: u32, key: PoolKey) {
        self.current.insert(device, key);
    }

    pub fn get(&mut self, key: PoolKey) -> Option<&mut Pool> {
        self.pools.get_mut(&key).filter(|pool| !pool.destroyed)
    }

    /// Destroys a pool; its memory is released as it is freed. `None` for a default pool or an unknown key.
    pub fn destroy(&mut self, key: PoolKey) -> Option<()> {
        if self.defaults.values().any(|&default| default == key) {
            return None;
        }
        self.get(key)?.destroyed = true;
        self.current.retain(|_, current| *current != key);
        Some(())
    }

    /// Reuses the smallest freed block of at least `bytes` and at most twice that, if `stream` may have it.
    pub fn reuse(&mut self, key: PoolKey, bytes: u64, stream: StreamKey, reuse: Reuse) -> Option<Reused> {
        let pool = self.pools.get_mut(&key)?;
        let may = |freed: &Freed| {
            freed.stream == stream
                || (pool.policy.allow_opportunistic && freed.reached.clock_ns().is_some())
                || (reuse == Reuse::AfterWaiting && pool.policy.allow_internal_dependencies)
        };
        let fits = |block: &Block| {
            block.pool == key
                && (bytes..=bytes.saturating_mul(2)).contains(&block.bytes)
                && block.freed.as_ref().is_some_and(may)
        };
        let (&address, block) =
            self.blocks.iter_mut().filter(|(_, block)| fits(block)).min_by_key(|(_, block)| block.bytes)?;
        let freed = block.freed.take()?;
        pool.used.add(block.bytes);
        let waits = freed.stream != stream && freed.reached.clock_ns().is_none();
        Some(Reused { address, after: waits.then_some(freed.reached) })
    }

    /// Adds a block that the server has allocated.
    pub fn grown(&mut self, key: PoolKey, address: u64, bytes: u64) {
        if let Some(pool) = self.pools.get_mut(&key) {
            pool.reserved.add(bytes);
            pool.used.add(bytes);
            self.blocks.insert(address, Block { pool: key, bytes, freed: None });
        }
    }

    /// True if a block in use starts at `address`.
    pub fn is_used(&self, address: u64) -> bool {
        self.blocks.get(&address).is_some_and(|block| block.freed.is_none())
    }

    /// True if a block of a pool starts at `address`, in use or not.
    pub fn is_block(&self, address: u64) -> bool {
        self.blocks.contains_key(&address)
    }

    /// Marks a block as freed in `stream`; `reached` ends when the stream gets there.
    pub fn freed(&mut self, address: u64, stream: StreamKey, reached: Arc<Completion>) {
        if let Some(block) = self.blocks.get_mut(&address).filter(|block| block.freed.is_none()) {
            block.freed = Some(Freed { stream, reached });
            if let Some(pool) = self.pools.get_mut(&block.pool) {
                pool.used.now -= block.bytes;
            }
        }
    }

    /// Releases freed blocks of a pool until it holds at most `keep_bytes`; returns their addresses.
    pub fn trim(&mut self, key: PoolKey, keep_bytes: u64) -> Vec<u64> {
        let Some(pool) = self.pools.get_mut(&key) else { return Vec::new() };
        let is_free = |block: &Block| {
            block.pool == key && block.freed.as_ref().is_some_and(|freed| freed.reached.clock_ns().is_some())
        };
        let mut released = Vec::new();
        for (&address, block) in self.blocks.iter().filter(|(_, block)| is_free(block)) {
            if pool.reserved.now <= keep_bytes {
                break;
            }
            pool.reserved.now -= block.bytes;
            released.push(address);
        }
        for address in &released {
            self.blocks.remove(address);
        }
        if pool.destroyed && pool.reserved.now == 0 {
            self.pools.remove(&key);
        }
        released
    }

    /// Releases the blocks of all pools beyond their thresholds, at a synchronisation.
    pub fn trim_to_thresholds(&mut self) -> Vec<u64> {
        let keeps: Vec<(PoolKey, u64)> =
            self.pools.iter().map(|(&key, pool)| (key, pool.keep_bytes())).collect();
        keeps.into_iter().flat_map(|(key, keep_bytes)| self.trim(key, keep_bytes)).collect()
    }

    /// Releases all freed blocks of a device's pools, when its memory is short.
    pub fn trim_device(&mut self, device: u32) -> Vec<u64> {
        let on_device = |(&key, pool): (&PoolKey, &Pool)| (pool.device == device).then_some(key);
        let keys: Vec<PoolKey> = self.pools.iter().filter_map(on_device).collect();
        keys.into_iter().flat_map(|key| self.trim(key, 0)).collect()
    }

    /// Removes the pools of a device whose context has ended.
    pub fn forget_device(&mut self, device: u32) {
        self.pools.retain(|_, pool| pool.device != device);
        self.blocks.retain(|_, block| self.pools.contains_key(&block.pool));
        self.defaults.remove(&device);
        self.current.remove(&device);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: StreamKey = StreamKey::Created(1);
    const OTHER: StreamKey = StreamKey::Created(2);

    fn pool_with_block(bytes: u64) -> (Pools, PoolKey) {
        let mut pools = Pools::default();
        let key = pools.default_of(0);
        pools.grown(key, 0x1000, bytes);
        (pools, key)
    }

    #[test]
    fn a_freed_block_serves_its_stream_at_once_and_others_when_the_free_is_reached() {
        let (mut pools, key) = pool_with_block(100);
        assert!(pools.reuse(key, 100, ONE, Reuse::Now).is_none(), "it is in use");
        let reached = Arc::new(Completion::default());
        pools.freed(0x1000, ONE, reached.clone());
        assert!(pools.reuse(key, 100, OTHER, Reuse::Now).is_none());
        assert!(pools.reuse(key, 49, ONE, Reuse::Now).is_none(), "too large for so little");
        let again = pools.reuse(key, 60, ONE, Reuse::Now).unwrap();
        assert!(again.address == 0x1000 && again.after.is_none());
        pools.freed(0x1000, ONE, reached.clone());
        assert!(pools.reuse(key, 100, OTHER, Reuse::AfterWaiting).unwrap().after.is_some());
        pools.freed(0x1000, ONE, reached.clone());
        reached.end(0);
        assert!(pools.reuse(key, 100, OTHER, Reuse::Now).unwrap().after.is_none());
    }

    #[test]
    fn unused_blocks_beyond_the_threshold_go_back() {
        let (mut pools, key) = pool_with_block(100);
        pools.grown(key, 0x2000, 50);
        let reached = Arc::new(Completion::default());
        pools.freed(0x2000, ONE, reached.clone());
        assert!(pools.trim_to_thresholds().is_empty(), "not reached yet");
        reached.end(0);
        pools.get(key).unwrap().policy.release_threshold = 150;
        assert!(pools.trim_to_thresholds().is_empty());
        assert_eq!(pools.trim_device(0), [0x2000]);
        let pool = pools.get(key).unwrap();
        assert_eq!((pool.reserved, pool.used.now), (Gauge { now: 100, high: 150 }, 100));
    }

    #[test]
    fn a_destroyed_pool_lives_until_its_last_block_is_free() {
        let mut pools = Pools::default();
        let key = pools.create(Pool::new(0, Some(100)));
        assert!(!pools.get(key).unwrap().may_grow(101));
        pools.grown(key, 0x1000, 100);
        pools.set_current(0, key);
        pools.destroy(key).unwrap();
        assert!(pools.get(key).is_none() && pools.current_of(0) != key);
        let reached = Arc::new(Completion::default());
        reached.end(0);
        pools.freed(0x1000, ONE, reached);
        assert_eq!(pools.trim_to_thresholds(), [0x1000]);
        assert!(!pools.is_block(0x1000) && pools.destroy(pools.defaults[&0]).is_none());
    }
}
