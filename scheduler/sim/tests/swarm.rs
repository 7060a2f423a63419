//! Swarm runs with fixed seeds; `eager-sim swarm` runs more of them.

use eager_sim::swarm;

#[test]
fn no_rule_is_broken_whatever_machine_programs_and_kills_are_drawn() {
    let mut outcomes = std::collections::BTreeMap::new();
    for seed in 231..=380 {
        let result = swarm::run(seed).unwrap_or_else(|error| {
            panic!("{error}\n  repeat with: eager-sim swarm --seed {seed}");
        });
        for job in result.jobs {
            let kind = format!("{:?}", job.outcome).split([' ', '{']).next().unwrap_or_default().to_owned();
            *outcomes.entry(kind).or_insert(0) += 1;
        }
    }
    // Every kind of end must occur; otherwise the scenarios would prove little.
    assert_eq!(
        outcomes.keys().collect::<Vec<_>>(),
        ["Done", "Killed", "OutOfMemory", "Refused"],
        "{outcomes:?}"
    );
}

#[test]
fn a_seed_is_one_scenario() {
    assert_eq!(swarm::scenario(7), swarm::scenario(7));
    assert_ne!(swarm::scenario(7), swarm::scenario(8));
    let bytes = |seed| serde_json::to_string(&swarm::run(seed).expect("seed 7 runs")).expect("JSON");
    assert_eq!(bytes(7), bytes(7));
}
