//! Finds the device modules that `-fgpu-rdc` objects carry for the link, in objects and in archives of them.
//!
//! Reads only as much of the ELF and archive formats as this takes. Trap: these are files of the user's build, so any
//! length in them may be wrong. A file that is inconsistent must count as one without device code; the linker then
//! reports the error.

/// Section of an object that holds, for each device module, its length (8 bytes, little-endian) and its bitcode. The
/// pass writes it (`eager_pass::rdc`).
const SECTION: &[u8] = b".eager.device";

const ARCHIVE_MAGIC: &[u8] = b"!<arch>\n";
const ARCHIVE_HEADER_BYTES: usize = 60;

/// Returns the device modules in an object or an archive, as bitcode.
#[must_use]
pub fn modules(file: &[u8]) -> Vec<&[u8]> {
    match file.strip_prefix(ARCHIVE_MAGIC) {
        Some(members) => archive_members(members).into_iter().flat_map(object_modules).collect(),
        None => object_modules(file),
    }
}

/// Contents of an archive's members. A member is a header, whose bytes 48 to 57 are its length in decimal, and its
/// content, padded to an even length.
fn archive_members(mut rest: &[u8]) -> Vec<&[u8]> {
    let mut members = Vec::new();
    while let Some((header, after)) = rest.split_at_checked(ARCHIVE_HEADER_BYTES) {
        let length = std::str::from_utf8(&header[48..58]).ok().and_then(|text| text.trim().parse().ok());
        let Some((member, after)) = length.and_then(|length: usize| after.split_at_checked(length)) else {
            break;
        };
        members.push(member);
        rest = after.get(member.len() % 2..).unwrap_or_default();
    }
    members
}

fn object_modules(object: &[u8]) -> Vec<&[u8]> {
    let sections = Sections::of(object).map(|sections| sections.named(SECTION)).unwrap_or_default();
    sections.into_iter().flat_map(framed).collect()
}

fn framed(mut rest: &[u8]) -> Vec<&[u8]> {
    let mut modules = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk::<8>() {
        let length = usize::try_from(u64::from_le_bytes(*length)).ok();
        let Some((module, after)) = length.and_then(|length| after.split_at_checked(length)) else { break };
        modules.push(module);
        rest = after;
    }
    modules
}

/// The section table of a 64-bit little-endian ELF file (System V gABI, "ELF header" and "Sections").
struct Sections<'a> {
    file: &'a [u8],
    headers: Vec<&'a [u8]>,
    names: &'a [u8],
}

impl<'a> Sections<'a> {
    fn of(file: &'a [u8]) -> Option<Self> {
        if !file.starts_with(b"\x7fELF\x02\x01") {
            return None;
        }
        let table = number::<8>(file, 40)?;
        let (size, count) = (number::<2>(file, 58)?, number::<2>(file, 60)?);
        let headers: Option<Vec<_>> = (0..count).map(|i| slice(file, table + i * size, size)).collect();
        let headers = headers?;
        let names = contents(file, headers.get(number::<2>(file, 62)?)?)?;
        Some(Self { file, headers, names })
    }

    fn named(&self, name: &[u8]) -> Vec<&'a [u8]> {
        let is_named = |header: &&&[u8]| {
            let text = number::<4>(header, 0).and_then(|start| self.names.get(start..));
            text.and_then(|text| text.strip_prefix(name)).is_some_and(|rest| rest.first() == Some(&0))
        };
        self.headers.iter().filter(is_named).filter_map(|header| contents(self.file, header)).collect()
    }
}

fn contents<'a>(file: &'a [u8], header: &[u8]) -> Option<&'a [u8]> {
    slice(file, number::<8>(header, 24)?, number::<8>(header, 32)?)
}

fn slice(bytes: &[u8], start: usize, length: usize) -> Option<&[u8]> {
    bytes.get(start..start.checked_add(length)?)
}

/// Little-endian number of `N` bytes at `start`; `None` if it is out of range.
fn number<const N: usize>(bytes: &[u8], start: usize) -> Option<usize> {
    let mut padded = [0; 8];
    padded[..N].copy_from_slice(slice(bytes, start, N)?);
    // No compiler's object has more than 2^32 of anything; sums of two such numbers cannot overflow.
    usize::try_from(u64::from_le_bytes(padded)).ok().filter(|&value| u32::try_from(value).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file with a name table and one section that holds two modules.
    fn object() -> Vec<u8> {
        let names = b"\0.eager.device\0";
        let mut content = Vec::new();
        for module in [&b"BC-one"[..], b"BC-2"] {
            content.extend((module.len() as u64).to_le_bytes());
            content.extend(module);
        }
        let header = |name: u32, offset: usize, size: usize| {
            let mut bytes = vec![0; 64];
            bytes[..4].copy_from_slice(&name.to_le_bytes());
            bytes[24..32].copy_from_slice(&(offset as u64).to_le_bytes());
            bytes[32..40].copy_from_slice(&(size as u64).to_le_bytes());
            bytes
        };
        let table = 64 + names.len() + content.len();
        let headers = [header(0, 64, names.len()), header(1, 64 + names.len(), content.len())].concat();
        let mut file = vec![0; 64];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[40..48].copy_from_slice(&(table as u64).to_le_bytes());
        file[58..60].copy_from_slice(&64_u16.to_le_bytes());
        file[60..62].copy_from_slice(&2_u16.to_le_bytes());
        [file, names.to_vec(), content, headers].concat()
    }

    #[test]
    fn modules_are_found_in_objects_and_archives() {
        let object = object();
        assert_eq!(modules(&object), [&b"BC-one"[..], b"BC-2"]);
        let mut archive = ARCHIVE_MAGIC.to_vec();
        for content in [&b"odd"[..], &object] {
            archive.extend(format!("{:48}{:<10}`\n", "name/", content.len()).bytes());
            archive.extend(content);
            archive.extend(vec![b'\n'; content.len() % 2]);
        }
        assert_eq!(modules(&archive).len(), 2);
    }

    #[test]
    fn broken_files_hold_nothing_and_do_no_harm() {
        let object = object();
        for length in 0..object.len() {
            assert!(modules(&object[..length]).len() <= 2);
        }
        for at in 0..object.len() {
            let mut broken = object.clone();
            broken[at] ^= 0xff;
            assert!(modules(&broken).len() <= 2, "byte {at}");
        }
        assert!(modules(b"").is_empty() && modules(b"!<arch>\nshort").is_empty());
    }
}
