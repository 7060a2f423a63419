//! Cards as data: what one GPU can do, read from `cards/*.toml`, where each number says its source.
//!
//! Trap: names are exact. "RTX 6000" is sold in three generations; `RTX-6000` here is the Turing card with 24 GiB.

use serde::Deserialize;
use std::collections::BTreeMap;

/// A number and where it comes from.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sourced<T> {
    pub value: T,
    pub source: String,
}

/// One kind of GPU with its host link.
#[derive(Debug, Clone, PartialEq)]
pub struct Card {
    pub name: String,
    /// `"major.minor"`.
    pub compute_capability: String,
    /// Device memory that programs and contexts can take.
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
}

/// The host link and the driver's paging costs over it (UM model §4.4).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Pinned copies.
    pub copy_to_device_bytes_per_s: f64,
    pub prefetch_bytes_per_s: f64,
    /// Copies to the host and evictions.
    pub copy_to_host_bytes_per_s: f64,
    /// Inside a fault batch.
    pub migrate_bytes_per_s: f64,
    /// `t0`: fixed cost of a fault batch.
    pub batch_ns: f64,
    /// `t_blk`: per 2 MiB block in a batch.
    pub block_ns: f64,
    /// `t_page`: per 4 KiB page when the prefetcher is off.
    pub page_ns: f64,
    /// `t_e0`: fixed cost per evicted block.
    pub eviction_ns: f64,
    /// Rate of one direction while the other is busy.
    pub duplex_factor: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CardFile {
    name: String,
    compute_capability: String,
    link: String,
    memory_bytes: Sourced<u64>,
    dram_bytes_per_s: Sourced<f64>,
    sms: Sourced<u32>,
    flops32_per_s: Sourced<f64>,
    flops64_per_s: Sourced<f64>,
    threads_per_sm: Sourced<u32>,
    blocks_per_sm: Sourced<u32>,
    shared_bytes_per_sm: Sourced<u32>,
    registers_per_sm: Sourced<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkFile {
    copy_to_device_bytes_per_s: Sourced<f64>,
    prefetch_bytes_per_s: Sourced<f64>,
    copy_to_host_bytes_per_s: Sourced<f64>,
    migrate_bytes_per_s: Sourced<f64>,
    batch_ns: Sourced<f64>,
    block_ns: Sourced<f64>,
    page_ns: Sourced<f64>,
    eviction_ns: Sourced<f64>,
    duplex_factor: Sourced<f64>,
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

/// Why a list of cards cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CardsError {
    #[error("no card `{name}`; known: {known}")]
    UnknownCard { name: String, known: String },
    #[error("`{text}` in the list of cards: write COUNTxNAME, count 1 to 64, such as 4xV100-16GB,1xH200")]
    Malformed { text: String },
}

/// Every card this build knows, by name. The data is part of the program, so a fault in it is a fault of the build;
/// the tests read all of it.
fn all() -> BTreeMap<String, Card> {
    let links: BTreeMap<String, LinkFile> =
        toml::from_str(LINKS).expect("embedded links.toml is well formed");
    CARDS
        .iter()
        .map(|text| {
            let file: CardFile = toml::from_str(text).expect("embedded card is well formed");
            let link = &links[&file.link];
            (file.name.clone(), assemble(file, link))
        })
        .collect()
}

fn assemble(file: CardFile, link: &LinkFile) -> Card {
    Card {
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

/// The card with exactly this name.
pub fn card(name: &str) -> Option<Card> {
    all().remove(name)
}

/// Names of all cards, ascending.
pub fn card_names() -> Vec<String> {
    all().into_keys().collect()
}

/// Reads a list such as `4xV100-16GB,1xH200`; a bare name counts once.
///
/// # Errors
/// A name this build does not know, or a part that is neither `NAME` nor `COUNTxNAME`.
pub fn parse_cards(spec: &str) -> Result<Vec<Card>, CardsError> {
    let known = all();
    let mut cards = Vec::new();
    for text in spec.split(',').map(str::trim) {
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
        let card = known.get(name).ok_or_else(|| CardsError::UnknownCard {
            name: name.to_owned(),
            known: known.keys().cloned().collect::<Vec<_>>().join(", "),
        })?;
        cards.extend(std::iter::repeat_n(card.clone(), count));
    }
    Ok(cards)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_card_reads_and_says_its_sources() {
        let links: BTreeMap<String, LinkFile> = toml::from_str(LINKS).unwrap();
        for text in CARDS {
            let file: CardFile = toml::from_str(text).unwrap();
            assert!(links.contains_key(&file.link), "{} names link {}", file.name, file.link);
            assert!(!file.memory_bytes.source.is_empty() && !file.dram_bytes_per_s.source.is_empty());
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
