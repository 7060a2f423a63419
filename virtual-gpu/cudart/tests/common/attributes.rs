//! Compares attributes and properties of devices with one CUDA version's headers: each name of the enumeration has a
//! value, no other number has one, and each field of the structure equals its attribute.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::BTreeMap;

use super::common::{Built, Major, repository, run, run_with_input};

/// Attribute numbers to query.
const NUMBERS: std::ops::Range<u32> = 0..400;
const ENVIRONMENT: &[(&str, &str)] = &[("EAGER_VGPU_TIME_SCALE", "0")];
/// Fields without an attribute; the program checks them itself.
const OF_NO_ATTRIBUTE: [&str; 7] =
    ["luid", "luidDeviceNodeMask", "name", "reserved", "totalGlobalMem", "unifiedFunctionPointers", "uuid"];

fn header(major: &Major) -> String {
    let path = repository().join(".toolchain").join(major.tree).join("include/driver_types.h");
    std::fs::read_to_string(path).unwrap()
}

/// The lines from a line that opens a brace to the line that closes it, both excluded.
fn body<'a>(header: &'a str, opening: &str) -> impl Iterator<Item = &'a str> {
    let after = header.split_once(opening).expect("the header has it").1;
    after.lines().take_while(|line| !line.starts_with('}'))
}

/// Names by number. A number may have two names.
fn named(header: &str) -> BTreeMap<u32, Vec<&str>> {
    let mut named = BTreeMap::<u32, Vec<&str>>::new();
    for line in body(header, "enum __device_builtin__ cudaDeviceAttr") {
        let Some((name, rest)) = line.split_once('=') else { continue };
        let digits: String = rest.trim().chars().take_while(char::is_ascii_digit).collect();
        named.entry(digits.parse().expect("a number")).or_default().push(name.trim());
    }
    named
}

/// The program's output for each number.
fn asked(built: &Built, card: &str) -> BTreeMap<u32, String> {
    let numbers: String = NUMBERS.map(|number| format!("{number}\n")).collect();
    let environment = [ENVIRONMENT, &[("EAGER_VGPU", card)]].concat();
    let (printed, _) = run_with_input(built, "attributes", &environment, &numbers);
    let line =
        |line: &str| line.split_once(' ').map(|(number, said)| (number.parse().unwrap(), said.to_owned()));
    printed.lines().filter_map(line).collect()
}

/// `other`: the other CUDA version, whose names have values too.
pub fn every_name_has_an_answer_and_no_other_number_has(built: &Built, major: &Major, other: &Major) {
    let headers = [header(major), header(other)];
    let [own, others] = [named(&headers[0]), named(&headers[1])];
    assert!(own.len() > 130 && others.len() > 130, "{} and {} names", own.len(), others.len());
    let asked = asked(built, "V100-16GB");
    assert_eq!(asked.len(), NUMBERS.len());
    for (number, said) in asked {
        let is_named = own.contains_key(&number) || others.contains_key(&number);
        let answered = said.parse::<i32>().is_ok();
        assert!(answered || said == "cudaErrorInvalidValue", "{number}: {said}");
        assert_eq!(answered, is_named, "{number} {:?}: {said}", own.get(&number));
    }
}

pub fn every_field_is_its_attribute(built: &Built, major: &Major) {
    let (printed, _) = run(built, "properties", ENVIRONMENT);
    let compared: Vec<&str> = printed.lines().collect();
    let header = header(major);
    let mut elements = 0;
    for line in body(&header, "struct __device_builtin__ cudaDeviceProp") {
        let Some((declared, _)) = line.split_once(';') else { continue };
        let (name, count) = match declared.trim_end_matches(']').split_once('[') {
            Some((declared, count)) => (declared, count.parse().expect("a number")),
            None => (declared, 1),
        };
        let name = name.split_whitespace().last().expect("a name");
        if OF_NO_ATTRIBUTE.contains(&name) {
            continue;
        }
        for index in 0..count {
            let element = if count == 1 { name.to_owned() } else { format!("{name}[{index}]") };
            assert!(compared.contains(&element.as_str()), "{element} is compared with no attribute");
            elements += 1;
        }
    }
    assert_eq!(elements, compared.len());
}

/// Compares names and values of some cards with recorded ones that were reviewed; `EAGER_BLESS=1` writes them.
pub fn values_are_as_they_were_looked_at(built: &Built, major: &Major) {
    let header = header(major);
    let named = named(&header);
    for card in ["V100-16GB", "H200", "TITAN-Xp"] {
        let asked = asked(built, card);
        let line =
            |(number, names): (&u32, &Vec<&str>)| format!("{number} {}: {}\n", names[0], asked[number]);
        let text: String = named.iter().map(line).collect();
        let path = repository().join(format!("virtual-gpu/cudart/tests/attributes/{card}.txt"));
        if std::env::var_os("EAGER_BLESS").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        assert_eq!(text, std::fs::read_to_string(&path).unwrap_or_default(), "{}", path.display());
    }
}
