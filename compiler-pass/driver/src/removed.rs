//! Names that CUDA 13 removed: programs that use them are for CUDA 12 or older, and build with the 12.9 tree.
//!
//! The lists come from a comparison of the runtime's headers of both versions, which a test repeats. Trap: a program
//! may use the names of fields for itself. So a match may only add a message after a failed compile, or decide where
//! the user left the choice (`--cuda auto`); it must never refuse a program.

use crate::code::identifiers;

/// Removed calls, types and constants.
pub const NAMES: &[&str] = &[
    "cudaCGScopeMultiGrid",
    "cudaCooperativeLaunchMultiDeviceNoPostSync",
    "cudaCooperativeLaunchMultiDeviceNoPreSync",
    "cudaDevAttrCooperativeMultiDeviceLaunch",
    "cudaDevAttrMaxTimelineSemaphoreInteropSupported",
    "cudaEventElapsedTime_v2",
    "cudaExternalSemaphoreSignalParams_v1",
    "cudaExternalSemaphoreWaitParams_v1",
    "cudaGetDeviceProperties_v2",
    "cudaGraphAddDependencies_v2",
    "cudaGraphAddNode_v2",
    "cudaGraphGetEdges_v2",
    "cudaGraphNodeGetDependencies_v2",
    "cudaGraphNodeGetDependentNodes_v2",
    "cudaGraphRemoveDependencies_v2",
    "cudaLaunchCooperativeKernelMultiDevice",
    "cudaLaunchParams",
    "cudaMemAdvise_v2",
    "cudaMemPrefetchAsync_v2",
    "cudaSetDoubleForDevice",
    "cudaSetDoubleForHost",
    "cudaSignalExternalSemaphoresAsync_v2",
    "cudaStreamGetCaptureInfo_v2",
    "cudaStreamGetCaptureInfo_v3",
    "cudaStreamUpdateCaptureDependencies_v2",
    "cudaThreadExit",
    "cudaThreadGetCacheConfig",
    "cudaThreadGetLimit",
    "cudaThreadSetCacheConfig",
    "cudaThreadSetLimit",
    "cudaThreadSynchronize",
    "cudaWaitExternalSemaphoresAsync_v2",
    "multi_grid_group",
    "this_multi_grid",
];

/// Removed fields of `cudaDeviceProp`; they count only if the program also names `cudaDeviceProp`.
pub const FIELDS: &[&str] = &[
    "clockRate",
    "computeMode",
    "cooperativeMultiDeviceLaunch",
    "deviceOverlap",
    "kernelExecTimeoutEnabled",
    "maxTexture1DLinear",
    "memoryClockRate",
    "singleToDoublePrecisionPerfRatio",
];

/// Calls whose device parameter became a `cudaMemLocation`.
const CHANGED: &[&str] = &["cudaMemAdvise", "cudaMemPrefetchAsync"];
const LOCATION: &str = "cudaMemLocation";

/// Removed in CUDA 12 already, so neither supported tree has them.
const REFERENCES: &[&str] = &[
    "cudaBindTexture",
    "cudaBindTexture2D",
    "cudaBindTextureToArray",
    "cudaUnbindTexture",
    "cudaBindSurfaceToArray",
    "cudaGetTextureReference",
    "textureReference",
];

/// A name in a text that the CUDA runtime no longer has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removed {
    /// Removed by CUDA 13.
    By13(String),
    /// Removed by CUDA 12.
    By12(String),
}

impl Removed {
    /// Advice in one line.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Removed::By13(name) => format!(
                "{name}: CUDA 13 removed this name or changed its parameters: build the whole program with \
                 `--cuda 12.9` (or `--cuda auto`)"
            ),
            Removed::By12(name) => format!(
                "{name}: CUDA 12 removed texture and surface references (variables of type texture<...> that kernels read): \
                 use texture objects instead (cudaTextureObject_t, cudaCreateTextureObject)"
            ),
        }
    }
}

/// First removed name in a program's files.
pub fn first_removed<'a>(texts: impl Iterator<Item = &'a str>) -> Option<Removed> {
    let (mut properties, mut field, mut changed, mut located) = (false, None, None, false);
    for text in texts {
        for name in identifiers(text) {
            if REFERENCES.contains(&name) || is_reference(text, name) {
                return Some(Removed::By12(name.to_owned()));
            }
            if NAMES.contains(&name) {
                return Some(Removed::By13(name.to_owned()));
            }
            properties |= name == "cudaDeviceProp";
            located |= name == LOCATION;
            if FIELDS.contains(&name) {
                field.get_or_insert(name);
            }
            if CHANGED.contains(&name) {
                changed.get_or_insert(name);
            }
        }
    }
    let field = field.filter(|_| properties).map(|name| format!("cudaDeviceProp::{name}"));
    field.or(changed.filter(|_| !located).map(str::to_owned)).map(Removed::By13)
}

/// Whether a name in a text's code begins the type of a texture or surface reference: `texture<float, 2> t;`
fn is_reference(text: &str, name: &str) -> bool {
    let at = name.as_ptr() as usize - text.as_ptr() as usize;
    let before = text[..at].trim_end();
    ["texture", "surface"].contains(&name)
        && text[at + name.len()..].trim_start().starts_with('<')
        && !before.ends_with("::")
        && !before.ends_with("class")
        && !before.ends_with("struct")
}

/// Whether an object names one of the removed calls.
#[must_use]
pub fn is_named_in(object: &[u8]) -> bool {
    let begins = |at: &usize| object[*at..].starts_with(b"cuda");
    let named = |at: usize| NAMES.iter().any(|name| object[at..].starts_with(name.as_bytes()));
    (0..object.len()).filter(begins).any(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_code_and_fields_beside_their_structure() {
        let found = |text: &str| first_removed([text].into_iter());
        let by13 = |name: &str| Some(Removed::By13(name.to_owned()));
        assert_eq!(found("f(); cudaThreadSynchronize();"), by13("cudaThreadSynchronize"));
        assert_eq!(found("// cudaThreadSynchronize()\nputs(\"cudaThreadExit\");"), None);
        assert_eq!(found("cudaDeviceProp p; p.clockRate;"), by13("cudaDeviceProp::clockRate"));
        assert_eq!(found("struct Mine { int clockRate; };"), None);
        assert_eq!(found("cudaMemPrefetchAsync(p, n, 0, 0);"), by13("cudaMemPrefetchAsync"));
        assert_eq!(found("cudaMemLocation here; cudaMemPrefetchAsync(p, n, here, 0, 0);"), None);
        let reference = found("cudaBindTexture(0, t, p, n);").expect("found");
        assert_eq!(found("texture <float, 2> t;"), Some(Removed::By12("texture".to_owned())));
        assert_eq!(found("struct texture { int a; }; mine::texture<float> t; bool b = texture.a < 2;"), None);
        assert!(reference.hint().contains("texture objects"), "{}", reference.hint());
    }
}
