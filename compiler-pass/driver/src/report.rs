//! The file of `--eager-report=`: the reports of all units of one command in one JSON object.
//!
//! Trap: the plugin writes a unit's report only if the unit calls CUDA, so a missing file must not be an error.

use std::path::PathBuf;

/// Increased when a field changes its meaning or is removed, but not for new fields.
pub const SCHEMA_VERSION: u32 = 1;

/// Merges reports into one object, with the units in the order of the command line; each text is a JSON object.
#[must_use]
pub fn merged(units: &[String]) -> String {
    let units: Vec<_> = units.iter().map(|text| text.trim()).collect();
    format!(
        "{{\n\"schema\": \"eager-report\",\n\"version\": {SCHEMA_VERSION},\n\"units\": [\n{}\n]\n}}\n",
        units.join(",\n")
    )
}

/// Texts of the reports that exist.
#[must_use]
pub fn read(reports: &[PathBuf]) -> Vec<String> {
    reports.iter().filter_map(|report| std::fs::read_to_string(report).ok()).collect()
}
