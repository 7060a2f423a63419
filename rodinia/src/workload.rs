//! Job lists: the eight published mixes as counts, and seeded draws of the same kind.
//!
//! Trap: the published mixes fix how often each configuration occurs, but not the order, which affects results. So
//! every list must be made from a seed that is recorded with the result.

use crate::manifest::Class;
use crate::program::ConfigurationId;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Ids and classes of the 17 configurations (specification S-801), in ascending order of device memory, which is also
/// the order of the counts in [`MIXES`].
pub const CONFIGURATIONS: [(&str, Class); 17] = [
    ("backprop-8M", Class::Small),
    ("bfs-32M", Class::Small),
    ("srad_v2-8192", Class::Small),
    ("dwt2d-8192", Class::Small),
    ("needle-16384", Class::Small),
    ("backprop-16M", Class::Small),
    ("srad_v1-11000", Class::Small),
    ("backprop-32M", Class::Large),
    ("srad_v2-16384", Class::Large),
    ("srad_v1-15000", Class::Large),
    ("lavaMD-100", Class::Large),
    ("dwt2d-16384", Class::Large),
    ("needle-32768", Class::Large),
    ("backprop-64M", Class::Large),
    ("lavaMD-110", Class::Large),
    ("srad_v1-20000", Class::Large),
    ("lavaMD-120", Class::Large),
];

/// A published mix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mix {
    pub name: &'static str,
    /// Number of occurrences of each of [`CONFIGURATIONS`].
    pub counts: [u8; 17],
}

/// W1 to W8: the job lists `p100_{50,33,25,16}_{16,32}jobs` of the CASE artifact (specification S-802), 16 jobs at
/// Large:Small 1:1, 2:1, 3:1 and 5:1, then 32 jobs at the same ratios. That these are W1 to W8 of the eager launch
/// evaluation, in this order, is inferred from the order of the artifact's plots.
pub const MIXES: [Mix; 8] = [
    Mix { name: "W1", counts: [1, 2, 1, 1, 0, 1, 2, 1, 0, 1, 1, 0, 1, 0, 1, 2, 1] },
    Mix { name: "W2", counts: [0, 2, 1, 0, 0, 1, 1, 1, 0, 1, 1, 0, 4, 1, 0, 3, 0] },
    Mix { name: "W3", counts: [0, 0, 0, 2, 0, 1, 1, 3, 0, 1, 0, 0, 3, 1, 1, 1, 2] },
    Mix { name: "W4", counts: [0, 0, 1, 1, 0, 0, 0, 4, 2, 0, 3, 2, 1, 1, 1, 0, 0] },
    Mix { name: "W5", counts: [3, 2, 1, 4, 2, 1, 3, 1, 1, 1, 2, 0, 1, 2, 2, 2, 4] },
    Mix { name: "W6", counts: [0, 0, 1, 2, 1, 0, 6, 3, 3, 2, 2, 2, 2, 3, 3, 1, 1] },
    Mix { name: "W7", counts: [2, 0, 0, 2, 1, 2, 1, 4, 4, 2, 2, 2, 4, 0, 3, 3, 0] },
    Mix { name: "W8", counts: [0, 1, 0, 3, 0, 1, 0, 2, 1, 4, 1, 2, 2, 4, 5, 4, 2] },
];

impl Mix {
    /// The mix with that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        MIXES.iter().find(|mix| mix.name == name)
    }

    /// The mix's jobs in an order drawn from the seed.
    pub fn jobs(&self, seed: u64) -> Vec<ConfigurationId> {
        let mut jobs: Vec<ConfigurationId> = CONFIGURATIONS
            .iter()
            .zip(self.counts)
            .flat_map(|((id, _), count)| std::iter::repeat_n(id_of(id), count.into()))
            .collect();
        jobs.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
        jobs
    }
}

/// Ratio of Large to Small jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LargeToSmall {
    pub large: u32,
    pub small: u32,
}

impl LargeToSmall {
    /// Number of Large jobs among `jobs`: the share rounded up, as in the published mixes (14 of 16 at 5:1). A ratio
    /// of 0:0 counts as 1:1.
    pub fn large_of(self, jobs: usize) -> usize {
        let (large, small) =
            if self.large == 0 && self.small == 0 { (1, 1) } else { (self.large, self.small) };
        let (large, small) = (u64::from(large), u64::from(small));
        (jobs as u64 * large).div_ceil(large + small) as usize
    }
}

/// Draws `jobs` configurations: each uniformly from its class, the classes in the given ratio, then shuffled. Equal
/// arguments give equal lists.
pub fn draw(seed: u64, jobs: usize, ratio: LargeToSmall) -> Vec<ConfigurationId> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let large = ratio.large_of(jobs);
    let mut drawn = Vec::with_capacity(jobs);
    for (class, count) in [(Class::Large, large), (Class::Small, jobs - large)] {
        let list: Vec<&str> = CONFIGURATIONS.iter().filter(|(_, c)| *c == class).map(|(id, _)| *id).collect();
        drawn.extend((0..count).filter_map(|_| list.choose(&mut rng)).map(|id| id_of(id)));
    }
    drawn.shuffle(&mut rng);
    drawn
}

/// Arrival times of a Poisson process with this mean time between arrivals, in nanoseconds from the start.
pub fn arrivals(seed: u64, jobs: usize, mean_s: f64) -> Vec<u64> {
    // Another seed than the draw of the jobs, which uses `seed` itself.
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0xa771_7a15);
    let mut now_s = 0.0;
    let mut next = || {
        let share: f64 = rng.random();
        now_s += -mean_s * (1.0 - share).ln();
        (now_s * 1e9) as u64
    };
    (0..jobs).map(|_| next()).collect()
}

fn id_of(id: &str) -> ConfigurationId {
    ConfigurationId(id.to_owned())
}
