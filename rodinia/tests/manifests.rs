//! Compares the manifests with the published figures: bytes, static sizes, footprints, launches.

use eager_rodinia::{Class, Program, configuration, programs};

const GIB: f64 = 1_073_741_824.0;
const MIB: u64 = 1_048_576;

/// The 17 configurations: the largest memory of each job in the CASE artifact's list.
const PUBLISHED: [(&str, Class, u64); 17] = [
    ("backprop-8M", Class::Small, 1_176_502_548),
    ("bfs-32M", Class::Small, 1_308_592_369),
    ("srad_v2-8192", Class::Small, 1_610_612_736),
    ("dwt2d-8192", Class::Small, 2_080_374_784),
    ("needle-16384", Class::Small, 2_147_745_800),
    ("backprop-16M", Class::Small, 2_350_907_668),
    ("srad_v1-11000", Class::Small, 3_872_176_000),
    ("backprop-32M", Class::Large, 4_699_717_908),
    ("srad_v2-16384", Class::Large, 6_442_450_944),
    ("srad_v1-15000", Class::Large, 7_200_240_000),
    ("lavaMD-100", Class::Large, 7_856_000_000),
    ("dwt2d-16384", Class::Large, 8_321_499_136),
    ("needle-32768", Class::Large, 8_590_458_888),
    ("backprop-64M", Class::Large, 9_397_338_388),
    ("lavaMD-110", Class::Large, 10_456_336_000),
    ("srad_v1-20000", Class::Large, 12_800_320_000),
    ("lavaMD-120", Class::Large, 13_575_168_000),
];

#[test]
fn every_embedded_manifest_parses() {
    for (file, text) in eager_rodinia::MANIFESTS {
        Program::parse(file, text).unwrap_or_else(|e| panic!("{e}"));
    }
}

#[test]
fn the_17_configurations_take_the_published_bytes() {
    let mut count = 0;
    for (id, class, bytes) in PUBLISHED {
        let (program, found) = configuration(id).unwrap_or_else(|| panic!("no configuration {id}"));
        assert_eq!((found.full.bytes, found.class), (bytes, class), "{id}");
        assert_eq!(program.requirement(&found.full), Ok(bytes), "{id}");
        // The class follows from the bytes.
        assert_eq!(class == Class::Large, bytes > 4 * 1024 * MIB, "{id}");
        count += 1;
    }
    assert_eq!(count, programs().iter().map(|p| p.configurations.len()).sum::<usize>());
}

#[test]
fn scaled_runs_take_about_a_256th() {
    for configuration in programs().iter().flat_map(|p| &p.configurations) {
        let ratio = configuration.full.bytes as f64 / configuration.scaled.bytes as f64;
        // lavaMD's sides are whole numbers: 17 ^ 3 for 17.3 ^ 3.
        assert!((240.0..=271.0).contains(&ratio), "{}: {ratio}", configuration.id);
    }
}

#[test]
fn srad_v1_has_the_static_sizes_of_the_published_table() {
    let (program, large) = configuration("srad_v1-20000").unwrap();
    let kernels = program.kernels(&large.full).unwrap();
    let table = [
        ("extract", 1.5),
        ("prepare", 4.5),
        ("reduce", 3.0),
        ("srad", 8.9),
        ("srad2", 8.9),
        ("compress", 1.5),
    ];
    assert_eq!(kernels.len(), table.len());
    for (kernel, (name, gib)) in kernels.iter().zip(table) {
        assert_eq!(kernel.name, name);
        assert!((kernel.static_bytes as f64 / GIB - gib).abs() < 0.05, "{kernel:?}");
        // In the published table these kernels touch all of their data.
        let touched = kernel.footprint_bytes as f64 / kernel.static_bytes as f64;
        assert!((0.99..1.01).contains(&touched), "{kernel:?}");
    }
}

#[test]
fn backprop_touches_little_of_its_data_at_every_published_size() {
    for id in ["backprop-8M", "backprop-16M", "backprop-32M", "backprop-64M"] {
        let (program, size) = configuration(id).unwrap();
        let kernels = program.kernels(&size.full).unwrap();
        let footprints: Vec<u64> = kernels.iter().map(|k| k.footprint_bytes / MIB).collect();
        assert_eq!(footprints, [42, 78], "{id}");
    }
    let (program, largest) = configuration("backprop-64M").unwrap();
    let kernels = program.kernels(&largest.full).unwrap();
    let static_gib: Vec<f64> = kernels.iter().map(|k| k.static_bytes as f64 / GIB).collect();
    assert!((static_gib[0] - 4.5).abs() < 0.05 && (static_gib[1] - 8.8).abs() < 0.06, "{static_gib:?}");
}

#[test]
fn launches_are_the_published_numbers() {
    let launches = |id: &str| -> u64 {
        let (program, found) = configuration(id).unwrap();
        program.kernels(&found.full).unwrap().iter().map(|k| k.launches).sum()
    };
    for (id, expected) in [
        ("backprop-64M", 2),
        ("srad_v1-11000", 602),
        ("srad_v1-15000", 702),
        ("srad_v1-20000", 702),
        ("srad_v2-16384", 4),
        ("lavaMD-120", 1),
        ("needle-16384", 2047),
        ("needle-32768", 4095),
        ("dwt2d-16384", 10),
        ("bfs-32M", 30),
    ] {
        assert_eq!(launches(id), expected, "{id}");
    }
}

#[test]
fn arguments_name_the_input_only_where_there_is_one() {
    for (name, run) in programs().iter().flat_map(Program::runs) {
        let arguments = run.arguments(Some(std::path::Path::new("in put")));
        assert_eq!(run.input.is_some(), arguments.iter().any(|a| a == "in put"), "{name}");
        assert!(!arguments.iter().any(|a| a.contains('{')), "{name}: {arguments:?}");
    }
}

#[test]
fn a_broken_manifest_is_refused_with_one_line_that_says_where() {
    let (file, good) = eager_rodinia::MANIFESTS[0];
    let line_of = |text: &str| good[..good.find(text).unwrap()].matches('\n').count() + 1;
    for (from, to, says, line) in [
        ("expected =", "expectd =", "expectd", line_of("expected =")),
        (
            "\"16 * rows + 1\"",
            "\"16 * row + 1\"",
            "unknown variable `row` at character 6",
            line_of("16 * rows + 1"),
        ),
        ("\"16 * rows + 1\"", "\"16 * (rows\"", "not a formula", line_of("16 * rows + 1")),
        ("1_176_502_548", "1_176_502_549", "the formula gives 1176502548", line_of("backprop-8M")),
        (
            "{ launch = \"adjust_weights\" }",
            "{ launch = \"adjust\" }",
            "no such kernel",
            line_of("{ launch = \"adjust"),
        ),
        ("{ upload = \"previous\" },", "{ upload = \"previous\", end = true },", "exactly one thing", 0),
        (
            "alloc = [\"hidden_delta\", ",
            "alloc = [",
            "not allocated there",
            line_of("{ upload = \"hidden_delta\""),
        ),
        ("host = { before = 5.0 }", "host = { befor = 5.0 }", "no seconds for this host phase", 0),
    ] {
        assert!(good.contains(from), "{from}");
        let message = Program::parse(file, &good.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(
            message.starts_with(file) && message.contains(says) && !message.contains('\n'),
            "{to}: {message}"
        );
        assert!(
            line == 0 || message.contains(&format!("{file}:{line}:")),
            "{to}: {message}, want line {line}"
        );
    }
}
