//! Error of a launch that misuses a texture or a surface.
//!
//! The error outlives the launch, so it holds copies of all that it names.

use core::fmt;

/// Kind of misuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misuse {
    /// No such object.
    Unknown,
    /// A surface used as a texture, or a texture used as a surface.
    WrongKind,
    /// Outside of a surface, where `cudaBoundaryModeTrap` holds: byte x, row y, slice z, layer.
    Outside([i64; 4]),
}

/// A wrong use of a texture or surface object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageFault {
    pub misuse: Misuse,
    /// The kernel used the object as a texture.
    pub of_texture: bool,
    pub object: u64,
    pub block: [u32; 3],
    pub thread: [u32; 3],
    /// `file:line`; empty where the kernel was compiled without checks.
    pub place: String,
}

impl fmt::Display for ImageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.place.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        let ([bx, by, bz], [x, y, z]) = (self.block, self.thread);
        let (kind, other) = if self.of_texture { ("texture", "surface") } else { ("surface", "texture") };
        let object = self.object;
        write!(f, "thread ({x}, {y}, {z}) of block ({bx}, {by}, {bz}) uses {kind} object {object:#x}")?;
        match self.misuse {
            Misuse::Unknown => write!(f, ", which does not exist: it was never created, or is destroyed"),
            Misuse::WrongKind => write!(f, ", which is a {other} object"),
            Misuse::Outside([x, y, z, layer]) => {
                write!(f, " outside of its surface, at byte {x} of row {y}, slice {z}, layer {layer}")
            }
        }
    }
}
