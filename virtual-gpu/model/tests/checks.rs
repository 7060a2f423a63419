//! Every published check agrees or is a known miss, and the README's table of checks is the model's current one.

use eager_gpu_model::checks;
use std::path::Path;

const BEGIN: &str = "<!-- checks: written by the test `checks`, EAGER_BLESS=1 -->\n";
const END: &str = "<!-- end of checks -->\n";

#[test]
fn every_check_agrees_or_is_a_known_miss_and_the_readme_says_so() {
    let results = checks::run_all();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the mark before the table");
    let (table, after) = rest.split_once(END).expect("the mark after the table");
    let wanted = checks::markdown(&results);
    if std::env::var_os("EAGER_BLESS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{wanted}{END}{after}")).unwrap();
    } else {
        for (got, wanted) in table.lines().zip(wanted.lines()) {
            assert_eq!(got, wanted, "README.md; write it anew with EAGER_BLESS=1 and read the difference");
        }
        assert_eq!(table, wanted);
    }
    for (check, value) in &results {
        assert_eq!(
            check.agrees(*value),
            check.known_miss.is_none(),
            "{}: the model says {value} {}, published {:?}",
            check.name,
            check.unit,
            check.published
        );
    }
}
