//! Cards as data: capabilities of a GPU, read from `cards/*.toml` or a user's file, where each number states its
//! source.
//!
//! Names are exact. "RTX 6000" is sold in three generations; `RTX-6000` here is the Turing card with 24 GiB.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A number with its source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sourced<T> {
    pub value: T,
    pub source: String,
}

/// A kind of GPU with its host link.
#[derive(Debug, Clone, PartialEq)]
pub struct Card {
    pub name: String,
    /// Written `"major.minor"`.
    pub compute_capability: String,
    /// Device memory available to programs and contexts.
    pub memory_bytes: u64,
    pub dram_bytes_per_s: f64,
    pub sms: u32,
    pub flops32_per_s: f64,
    pub flops64_per_s: f64,
    pub threads_per_sm: u32,
    pub blocks_per_sm: u32,
    pub shared_bytes_per_sm: u32,
    pub registers_per_sm: u32,
    pub link: Link,
    pub details: Details,
}

/// Properties that programs query and the model does not use; 0 where the card's file does not know them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    /// Peak clock of the multiprocessors.
    pub clock_khz: u32,
    pub memory_clock_khz: u32,
    pub memory_bus_bits: u32,
    pub l2_bytes: u32,
}

/// The host link and the driver's paging costs over it (specification S-622 to S-624).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Rate of pinned copies.
    pub copy_to_device_bytes_per_s: f64,
    pub prefetch_bytes_per_s: f64,
    /// Rate of copies to the host and evictions.
    pub copy_to_host_bytes_per_s: f64,
    /// Rate inside a fault batch.
    pub migrate_bytes_per_s: f64,
    /// `t0`: fixed cost of a fault batch.
    pub batch_ns: f64,
    /// `t_blk`: cost per 2 MiB block in a batch.
    pub block_ns: f64,
    /// `t_page`: cost per 4 KiB page when the prefetcher is off.
    pub page_ns: f64,
    /// `t_e0`: fixed cost per evicted block.
    pub eviction_ns: f64,
    /// Rate of one direction while the other is busy.
    pub duplex_factor: f64,
}

/// A card file as written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CardFile {
    pub name: String,
    pub compute_capability: String,
    /// Names of the [`CardFile::details`] that the file does not know.
    #[serde(default)]
    pub unknown: Vec<String>,
    pub link: LinkOf,
    pub memory_bytes: Sourced<u64>,
    pub dram_bytes_per_s: Sourced<f64>,
    pub sms: Sourced<u32>,
    pub flops32_per_s: Sourced<f64>,
    pub flops64_per_s: Sourced<f64>,
    pub threads_per_sm: Sourced<u32>,
    pub blocks_per_sm: Sourced<u32>,
    pub shared_bytes_per_sm: Sourced<u32>,
    pub registers_per_sm: Sourced<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_khz: Option<Sourced<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_clock_khz: Option<Sourced<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bus_bits: Option<Sourced<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l2_bytes: Option<Sourced<u32>>,
}

impl CardFile {
    /// Optional properties by name, with their values where the file has them.
    pub fn details(&self) -> [(&'static str, Option<&Sourced<u32>>); 4] {
        [
            ("clock_khz", self.clock_khz.as_ref()),
            ("memory_clock_khz", self.memory_clock_khz.as_ref()),
            ("memory_bus_bits", self.memory_bus_bits.as_ref()),
            ("l2_bytes", self.l2_bytes.as_ref()),
        ]
    }

    /// Rejects names in `unknown` that are not optional properties or that have a value.
    fn check_unknown(&self) -> Result<(), CardError> {
        let details = self.details();
        for name in &self.unknown {
            match details.iter().find(|(known, _)| known == name) {
                Some((_, None)) => {}
                Some((_, Some(_))) => return Err(CardError::KnownDetail { name: name.clone() }),
                None => {
                    let known = details.map(|(name, _)| name).join(", ");
                    return Err(CardError::NoDetail { name: name.clone(), known });
                }
            }
        }
        Ok(())
    }
}

/// A link: the name of one in `links.toml`, or the card's own.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum LinkOf {
    Named(String),
    Own(Box<LinkFile>),
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkFile {
    pub copy_to_device_bytes_per_s: Sourced<f64>,
    pub prefetch_bytes_per_s: Sourced<f64>,
    pub copy_to_host_bytes_per_s: Sourced<f64>,
    pub migrate_bytes_per_s: Sourced<f64>,
    pub batch_ns: Sourced<f64>,
    pub block_ns: Sourced<f64>,
    pub page_ns: Sourced<f64>,
    pub eviction_ns: Sourced<f64>,
    pub duplex_factor: Sourced<f64>,
}

const LINKS: &str = include_str!("../cards/links.toml");
const CARDS: [&str; 8] = [
    include_str!("../cards/a100-40gb.toml"),
    include_str!("../cards/a100-80gb.toml"),
    include_str!("../cards/h100-80gb.toml"),
    include_str!("../cards/h200.toml"),
    include_str!("../cards/p100-16gb.toml"),
    include_str!("../cards/rtx-6000.toml"),
    include_str!("../cards/titan-xp.toml"),
    include_str!("../cards/v100-16gb.toml"),
];

/// Why a file is no card.
#[derive(Debug, thiserror::Error)]
pub enum CardError {
    #[error(transparent)]
    Unreadable(std::io::Error),
    #[error("{}", .0.to_string().trim().replace('\n', " "))]
    Malformed(toml::de::Error),
    #[error("no link `{name}`; known: {known}")]
    UnknownLink { name: String, known: String },
    #[error("`unknown` names {name}, which the file tells")]
    KnownDetail { name: String },
    #[error("`unknown` names {name}: only {known} may be unknown")]
    NoDetail { name: String, known: String },
    #[error("{name} is {value}: it must be above 0")]
    Rate { name: &'static str, value: f64 },
    #[error("{name} is {value}: it must be at least 0")]
    Time { name: &'static str, value: f64 },
    #[error("{name} is 0: it must be above")]
    Count { name: &'static str },
}

/// The text is not a number of at least 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a number of at least 0")]
pub struct BadNumber {
    pub text: String,
}

/// Why a list of cards cannot be parsed.
#[derive(Debug, thiserror::Error)]
pub enum CardsError {
    #[error("no card `{name}`; known: {known}")]
    UnknownCard { name: String, known: String },
    #[error("`{text}` in the list of cards: write COUNTxNAME, count 1 to 64, such as 4xV100-16GB,1xH200")]
    Malformed { text: String },
    #[error("card file {path}: {problem}")]
    File { path: String, problem: CardError },
}

/// Links by generation. The data is embedded, so a fault in it is a fault of the build; the tests parse all of it.
pub(crate) fn links() -> BTreeMap<String, LinkFile> {
    toml::from_str(LINKS).expect("embedded links.toml is well formed")
}

/// All built-in cards, by name.
fn all() -> BTreeMap<String, Card> {
    let links = links();
    let read = |text: &&str| read_card(text, &links).expect("embedded card is well formed");
    CARDS.iter().map(read).map(|card| (card.name.clone(), card)).collect()
}

/// Parses a card file.
fn read_card(text: &str, links: &BTreeMap<String, LinkFile>) -> Result<Card, CardError> {
    let file: CardFile = toml::from_str(text).map_err(CardError::Malformed)?;
    let link = match &file.link {
        LinkOf::Named(name) => links.get(name).cloned().ok_or_else(|| {
            let known: Vec<&str> = links.keys().map(String::as_str).collect();
            CardError::UnknownLink { name: name.clone(), known: known.join(", ") }
        })?,
        LinkOf::Own(link) => (**link).clone(),
    };
    file.check_unknown()?;
    let card = assemble(file, &link);
    card.check()?;
    Ok(card)
}

fn assemble(file: CardFile, link: &LinkFile) -> Card {
    let [clock_khz, memory_clock_khz, memory_bus_bits, l2_bytes] =
        file.details().map(|(_, detail)| detail.map_or(0, |sourced| sourced.value));
    Card {
        details: Details { clock_khz, memory_clock_khz, memory_bus_bits, l2_bytes },
        name: file.name,
        compute_capability: file.compute_capability,
        memory_bytes: file.memory_bytes.value,
        dram_bytes_per_s: file.dram_bytes_per_s.value,
        sms: file.sms.value,
        flops32_per_s: file.flops32_per_s.value,
        flops64_per_s: file.flops64_per_s.value,
        threads_per_sm: file.threads_per_sm.value,
        blocks_per_sm: file.blocks_per_sm.value,
        shared_bytes_per_sm: file.shared_bytes_per_sm.value,
        registers_per_sm: file.registers_per_sm.value,
        link: Link {
            copy_to_device_bytes_per_s: link.copy_to_device_bytes_per_s.value,
            prefetch_bytes_per_s: link.prefetch_bytes_per_s.value,
            copy_to_host_bytes_per_s: link.copy_to_host_bytes_per_s.value,
            migrate_bytes_per_s: link.migrate_bytes_per_s.value,
            batch_ns: link.batch_ns.value,
            block_ns: link.block_ns.value,
            page_ns: link.page_ns.value,
            eviction_ns: link.eviction_ns.value,
            duplex_factor: link.duplex_factor.value,
        },
    }
}

impl Card {
    /// Rejects rates and counts with which nothing could run.
    fn check(&self) -> Result<(), CardError> {
        let link = &self.link;
        let rates = [
            ("dram_bytes_per_s", self.dram_bytes_per_s),
            ("flops32_per_s", self.flops32_per_s),
            ("flops64_per_s", self.flops64_per_s),
            ("link.copy_to_device_bytes_per_s", link.copy_to_device_bytes_per_s),
            ("link.prefetch_bytes_per_s", link.prefetch_bytes_per_s),
            ("link.copy_to_host_bytes_per_s", link.copy_to_host_bytes_per_s),
            ("link.migrate_bytes_per_s", link.migrate_bytes_per_s),
            ("link.duplex_factor", link.duplex_factor),
        ];
        let times = [
            ("link.batch_ns", link.batch_ns),
            ("link.block_ns", link.block_ns),
            ("link.page_ns", link.page_ns),
            ("link.eviction_ns", link.eviction_ns),
        ];
        if let Some(&(name, value)) = rates.iter().find(|(_, value)| !(value.is_finite() && *value > 0.0)) {
            return Err(CardError::Rate { name, value });
        }
        if let Some(&(name, value)) = times.iter().find(|(_, value)| !(value.is_finite() && *value >= 0.0)) {
            return Err(CardError::Time { name, value });
        }
        let counts = [
            ("memory_bytes", self.memory_bytes),
            ("sms", self.sms.into()),
            ("threads_per_sm", self.threads_per_sm.into()),
            ("blocks_per_sm", self.blocks_per_sm.into()),
        ];
        let none = counts.iter().find(|(_, count)| *count == 0);
        none.map_or(Ok(()), |&(name, _)| Err(CardError::Count { name }))
    }
}

/// The built-in card with exactly this name.
pub fn card(name: &str) -> Option<Card> {
    all().remove(name)
}

/// Names of all cards, ascending.
pub fn card_names() -> Vec<String> {
    all().into_keys().collect()
}

/// Returns a list of cards as written, if it can be parsed; for command lines.
///
/// # Errors
/// Those of [`parse_cards`].
pub fn card_list(spec: &str) -> Result<String, CardsError> {
    parse_cards(spec).map(|_| spec.to_owned())
}

/// Name of the first card in a list of cards.
///
/// # Errors
/// The first entry is neither `NAME` nor `COUNTxNAME`.
pub fn first_card(spec: &str) -> Result<&str, CardsError> {
    let first = spec.split(',').next().unwrap_or(spec);
    count_and_name(first.trim()).map(|(_, name)| name)
}

fn count_and_name(text: &str) -> Result<(usize, &str), CardsError> {
    let malformed = || CardsError::Malformed { text: text.to_owned() };
    let (count, name) = match text.split_once('x') {
        Some((count, name)) if count.bytes().all(|b| b.is_ascii_digit()) => {
            (count.parse::<usize>().map_err(|_| malformed())?, name)
        }
        _ => (1, text),
    };
    if name.is_empty() || !(1..=64).contains(&count) {
        return Err(malformed());
    }
    Ok((count, name))
}

/// Parses a scale, a factor or a percentage from a command line.
///
/// # Errors
/// The text is not a number of at least 0.
pub fn parse_nonnegative(text: &str) -> Result<f64, BadNumber> {
    let valid = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    valid.ok_or_else(|| BadNumber { text: text.to_owned() })
}

/// Parses a list such as `4xV100-16GB,1xH200`; a bare name counts once. A name that contains `/` or ends in `.toml` is
/// the path of a card file.
///
/// # Errors
/// A name without a built-in card, a part that is neither `NAME` nor `COUNTxNAME`, or a file that is not a card.
pub fn parse_cards(spec: &str) -> Result<Vec<Card>, CardsError> {
    let known = all();
    let mut cards = Vec::new();
    for text in spec.split(',').map(str::trim) {
        let (count, name) = count_and_name(text)?;
        let card = if name.contains('/') || name.ends_with(".toml") {
            card_in(name)?
        } else {
            known.get(name).cloned().ok_or_else(|| CardsError::UnknownCard {
                name: name.to_owned(),
                known: known.keys().cloned().collect::<Vec<_>>().join(", "),
            })?
        };
        cards.extend(std::iter::repeat_n(card, count));
    }
    Ok(cards)
}

fn card_in(path: &str) -> Result<Card, CardsError> {
    let text = std::fs::read_to_string(path).map_err(CardError::Unreadable);
    let card = text.and_then(|text| read_card(&text, &links()));
    card.map_err(|problem| CardsError::File { path: path.to_owned(), problem })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_card_reads_and_says_its_sources() {
        for text in CARDS {
            let file: CardFile = toml::from_str(text).unwrap();
            if let LinkOf::Own(link) = &file.link {
                let timed = [&link.copy_to_device_bytes_per_s, &link.migrate_bytes_per_s, &link.batch_ns];
                assert!(
                    timed.iter().all(|rate| rate.source.contains("S-639")),
                    "{}: who timed its link?",
                    file.name
                );
            }
            assert!(!file.memory_bytes.source.is_empty() && !file.dram_bytes_per_s.source.is_empty());
            for (name, detail) in file.details() {
                let says_so = file.unknown.iter().any(|unknown| unknown == name);
                assert_ne!(
                    detail.is_some(),
                    says_so,
                    "{} tells {name}, or says that it does not know",
                    file.name
                );
            }
        }
        assert_eq!(
            card_names(),
            ["A100-40GB", "A100-80GB", "H100-80GB", "H200", "P100-16GB", "RTX-6000", "TITAN-Xp", "V100-16GB"]
        );
    }

    #[test]
    fn a_list_of_cards_multiplies_out() {
        let cards = parse_cards("2xV100-16GB, H200").unwrap();
        let names: Vec<_> = cards.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["V100-16GB", "V100-16GB", "H200"]);
        for (list, first) in
            [("2xV100-16GB,H200", "V100-16GB"), ("H200", "H200"), (" 1x./mix.toml", "./mix.toml")]
        {
            assert_eq!(first_card(list).unwrap(), first);
        }
    }

    #[test]
    fn a_file_of_the_users_is_a_card_if_something_can_run_on_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mine.toml");
        let list = format!("2x{}", path.display());
        let refused = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let message = parse_cards(&list).unwrap_err().to_string();
            assert!(!message.contains('\n') && message.contains("mine.toml: "), "{message}");
            message
        };
        assert!(refused("name = 1").contains("TOML parse error"));
        assert!(refused(&CARDS[0].replace("pcie4", "pcie9")).contains("no link `pcie9`; known: pcie3"));
        let none = CARDS[0].lines().map(|line| if line == "value = 108" { "value = 0" } else { line });
        assert!(refused(&none.collect::<Vec<_>>().join("\n")).contains("sms is 0"));
        let unknown = |name: &str| CARDS[0].replace("unknown = []", &format!("unknown = [\"{name}\"]"));
        assert!(refused(&unknown("l2_bytes")).contains("`unknown` names l2_bytes, which the file tells"));
        assert!(refused(&unknown("sms")).contains("only clock_khz, memory_clock_khz"));
        std::fs::write(&path, CARDS[0]).unwrap();
        assert_eq!(parse_cards(&list).unwrap(), parse_cards("2xA100-40GB").unwrap());
        std::fs::remove_file(&path).unwrap();
        assert!(parse_cards(&list).unwrap_err().to_string().contains("No such file"));
    }

    #[test]
    fn a_bad_list_is_refused_in_one_line() {
        for spec in ["", "0xH200", "65xH200", "4x", "x", "99999999999999999999xH200", "H200,,H200"] {
            let message = parse_cards(spec).unwrap_err().to_string();
            assert!(!message.contains('\n') && message.contains("V100-16GB"), "{spec:?}: {message}");
        }
        let unknown = parse_cards("4xRTX 6000").unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "no card `RTX 6000`; known: A100-40GB, A100-80GB, H100-80GB, H200, P100-16GB, RTX-6000, TITAN-Xp, V100-16GB"
        );
    }
}
