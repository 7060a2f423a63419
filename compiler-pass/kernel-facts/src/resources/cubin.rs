//! Reads ptxas's results from one image: an ELF file with a section of attributes and sections per kernel.
//!
//! Register counts are in `.nv.info` (attribute 0x2f: a symbol and a count). Static shared memory is the size of
//! `.nv.shared.<kernel>` less the part that the system reserves in it; by observation the rest equals the number that
//! `ptxas -v` prints. Device functions are listed in `.nv.info` too, and are harmless in the result.

use std::collections::BTreeMap;

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection, ObjectSymbol, SymbolIndex};

use super::Resources;

const ATTRIBUTES: &str = ".nv.info";
const SHARED: &str = ".nv.shared.";
/// If this section exists (from sm_90 on), each kernel's shared section begins with memory that the system reserves.
const RESERVED: &str = ".nv.shared.reserved.0";
const RESERVED_BYTES: u64 = 1024;
/// Attribute format "sized value"; every other format holds at most two bytes.
const FORMAT_SIZED: u8 = 4;
const REGISTER_COUNT: u8 = 0x2f;

/// Reason why an image could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CubinError {
    #[error("{0}")]
    Elf(String),
    #[error("section .nv.info is truncated")]
    Attributes,
}

impl From<object::Error> for CubinError {
    fn from(error: object::Error) -> Self {
        Self::Elf(error.to_string())
    }
}

/// Resources of kernels and device functions, by symbol.
///
/// # Errors
/// See [`CubinError`].
pub fn resources(image: &[u8]) -> Result<BTreeMap<String, Resources>, CubinError> {
    let file = ElfFile64::<Endianness>::parse(image)?;
    let mut found: BTreeMap<String, Resources> = BTreeMap::new();
    let reserved = file.section_by_name(RESERVED).map_or(0, |_| RESERVED_BYTES);
    for section in file.sections() {
        // Sections of interest have names in UTF-8.
        let Ok(name) = section.name() else { continue };
        if name == ATTRIBUTES {
            for (symbol, registers) in register_counts(section.data()?)? {
                let symbol = file.symbol_by_index(SymbolIndex(symbol as usize))?;
                found.entry(symbol.name()?.to_owned()).or_default().registers = registers;
            }
        } else if let Some(kernel) = name.strip_prefix(SHARED) {
            let bytes = u32::try_from(section.size().saturating_sub(reserved)).unwrap_or(u32::MAX);
            found.entry(kernel.to_owned()).or_default().shared_bytes = bytes;
        }
    }
    Ok(found)
}

/// Pairs of symbol number and register count.
fn register_counts(attributes: &[u8]) -> Result<Vec<(u32, u32)>, CubinError> {
    let mut counts = Vec::new();
    let mut rest = attributes;
    while let [format, attribute, low, high, after @ ..] = rest {
        rest = after;
        if *format != FORMAT_SIZED {
            continue;
        }
        let size = usize::from(u16::from_le_bytes([*low, *high]));
        let value = rest.get(..size).ok_or(CubinError::Attributes)?;
        rest = &rest[size..];
        if let (REGISTER_COUNT, &[a, b, c, d, e, f, g, h]) = (*attribute, value) {
            counts.push((u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])));
        }
    }
    if rest.is_empty() { Ok(counts) } else { Err(CubinError::Attributes) }
}
