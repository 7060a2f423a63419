//! Reads the container that NVIDIA's `fatbinary` makes: images for several architectures, perhaps compressed.
//!
//! Layout as observed in the output of CUDA 12.9 and 13.0 (little-endian): a header of magic `0xBA55ED50`, version 1,
//! its own size and the size of the entries; then the entries, each a header (kind, its size, the payload's size, at 16
//! the compressed size, at 40 flags, at 56 the size after decompression) and the payload. Trap: the sizes come from a
//! file. Each must be checked against the bytes that are there before it is used, and decompression must stop at a
//! limit.

use std::io::Read;

const MAGIC: u32 = 0xBA55_ED50;
/// Kinds of entries: 1 is PTX, 2 is a cubin.
const KIND_CUBIN: u16 = 2;
const FLAG_LZ4: u64 = 0x2000;
const FLAG_ZSTD: u64 = 0x8000;
/// Limit on one image after decompression; far above any real image of a single source file.
const IMAGE_BYTES_MAX: u64 = 512 << 20;
const ENTRY_HEADER_MIN: usize = 64;

/// Reason why a fat binary could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FatbinError {
    #[error("unknown magic number {0:#010x}")]
    Magic(u32),
    #[error("it is truncated: an entry extends beyond the end")]
    Short,
    #[error("an image is too large: {0} bytes")]
    TooLarge(u64),
    #[error("an image cannot be decompressed")]
    Compression,
}

/// The cubins of a fat binary, decompressed.
///
/// # Errors
/// See [`FatbinError`].
pub fn images(bytes: &[u8]) -> Result<Vec<Vec<u8>>, FatbinError> {
    let mut images = Vec::new();
    let mut rest = bytes;
    // Several containers may follow each other; zeros pad the last one.
    while rest.iter().any(|&byte| byte != 0) {
        let magic = u32::from_le_bytes(field(rest, 0)?);
        if magic != MAGIC {
            return Err(FatbinError::Magic(magic));
        }
        let header = usize::from(u16::from_le_bytes(field(rest, 6)?));
        let size = u64::from_le_bytes(field(rest, 8)?);
        let (entries, after) = split(rest, header, size)?;
        read_entries(entries, &mut images)?;
        rest = after;
    }
    Ok(images)
}

fn read_entries(mut entries: &[u8], images: &mut Vec<Vec<u8>>) -> Result<(), FatbinError> {
    while !entries.is_empty() {
        let kind = u16::from_le_bytes(field(entries, 0)?);
        let header = u32::from_le_bytes(field(entries, 4)?) as usize;
        let size = u64::from_le_bytes(field(entries, 8)?);
        if header < ENTRY_HEADER_MIN {
            return Err(FatbinError::Short);
        }
        let entry = entries;
        let (payload, after) = split(entries, header, size)?;
        entries = after;
        if kind == KIND_CUBIN {
            images.push(decompressed(entry, payload)?);
        }
    }
    Ok(())
}

fn decompressed(entry: &[u8], payload: &[u8]) -> Result<Vec<u8>, FatbinError> {
    let flags = u64::from_le_bytes(field(entry, 40)?);
    if flags & (FLAG_LZ4 | FLAG_ZSTD) == 0 {
        return Ok(payload.to_vec());
    }
    let compressed_size = u32::from_le_bytes(field(entry, 16)?) as usize;
    let size = u64::from_le_bytes(field(entry, 56)?);
    if size > IMAGE_BYTES_MAX {
        return Err(FatbinError::TooLarge(size));
    }
    let compressed = payload.get(..compressed_size).ok_or(FatbinError::Short)?;
    if flags & FLAG_LZ4 != 0 {
        return lz4_flex::block::decompress(compressed, size as usize).map_err(|_| FatbinError::Compression);
    }
    let decoder =
        ruzstd::decoding::StreamingDecoder::new(compressed).map_err(|_| FatbinError::Compression)?;
    let mut image = Vec::new();
    decoder.take(size).read_to_end(&mut image).map_err(|_| FatbinError::Compression)?;
    Ok(image)
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], FatbinError> {
    bytes.get(at..at + N).and_then(|part| part.try_into().ok()).ok_or(FatbinError::Short)
}

/// Splits off `size` bytes behind a header; returns them and the bytes that follow.
fn split(bytes: &[u8], header: usize, size: u64) -> Result<(&[u8], &[u8]), FatbinError> {
    let size = usize::try_from(size).map_err(|_| FatbinError::Short)?;
    let end = header.checked_add(size).ok_or(FatbinError::Short)?;
    let inside = bytes.get(header..end).ok_or(FatbinError::Short)?;
    if end == 0 {
        return Err(FatbinError::Short);
    }
    Ok((inside, &bytes[end..]))
}
