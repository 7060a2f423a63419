//! Configuration of the random programs that the property tests draw.

use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;

/// `EAGER_TEST_SEED=N` and `EAGER_TEST_PROGRAMS=N` choose other and more programs; both are printed.
pub fn config(programs: u64) -> ProptestConfig {
    let number = |variable: &str, default| {
        std::env::var(variable).ok().map_or(default, |text| text.parse().expect("a number"))
    };
    let (seed, cases) = (number("EAGER_TEST_SEED", 1), number("EAGER_TEST_PROGRAMS", programs));
    eprintln!("EAGER_TEST_SEED={seed} EAGER_TEST_PROGRAMS={cases}");
    ProptestConfig {
        cases: u32::try_from(cases).expect("a count"),
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}
