//! Locates the bytes of a surface that an instruction reads or writes: PTX ISA, "suld" and "sust".
//!
//! Trap: x counts bytes; y, z and the layer count rows, slices and layers.

use super::Image;

/// Behaviour of an access outside (`cudaSurfaceBoundaryMode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Boundary {
    /// Reads zeros, writes nothing.
    Zero,
    Clamp,
    Trap,
}

pub(super) struct Request {
    pub dimensions: usize,
    /// Up to 16.
    pub bytes: u64,
    pub boundary: Boundary,
    pub at: [u32; 3],
    pub layer: u32,
}

/// Bits of the unsigned layer number: layer -1 is beyond the last, and layer 65536 is the first (specification S-534).
const LAYER_BITS: u32 = 0xffff;

/// Returns the address, or `None` if nothing is to be read or written.
///
/// # Errors
/// The position, if it is outside and the boundary mode is `Trap`.
pub(super) fn locate(image: &Image, request: &Request) -> Result<Option<u64>, [i64; 4]> {
    let coordinate =
        |d: usize| if d < request.dimensions { i64::from(request.at[d].cast_signed()) } else { 0 };
    let [x, y, z] = [0, 1, 2].map(coordinate);
    let bytes = request.bytes.cast_signed();
    // "The access may proceed by silently masking off low-order address bits."
    let at = [x & -bytes, y, z, i64::from(request.layer & LAYER_BITS)];
    let row = (image.size[0] * image.format.bytes()).cast_signed();
    let ends = [
        row - bytes,
        image.size[1].cast_signed() - 1,
        image.size[2].cast_signed() - 1,
        image.layers.cast_signed() - 1,
    ];
    let is_inside = at.iter().zip(ends).all(|(&at, last)| (0..=last).contains(&at));
    let at = match request.boundary {
        _ if is_inside => at,
        Boundary::Trap => return Err(at),
        Boundary::Clamp if row >= bytes => {
            [0, 1, 2, 3].map(|d| at[d].clamp(0, ends[d] & if d == 0 { -bytes } else { -1 }))
        }
        _ => return Ok(None),
    };
    let [x, y, z, layer] = at.map(i64::cast_unsigned);
    Ok(Some(image.address + x + y * image.pitch + (z + layer) * image.slice))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{Component, Format};

    fn image() -> Image {
        let format = Format { component: Component::Float, bits: 32, channels: 1 };
        Image { address: 0x1000, format, size: [5, 3, 1], layers: 2, pitch: 32, slice: 96 }
    }

    fn located(boundary: Boundary, bytes: u64, [x, y, layer]: [i32; 3]) -> Result<Option<u64>, [i64; 4]> {
        let at = [x.cast_unsigned(), y.cast_unsigned(), 9];
        locate(&image(), &Request { dimensions: 2, bytes, boundary, at, layer: layer.cast_unsigned() })
    }

    #[test]
    fn bytes_rows_and_layers_are_found_and_what_is_outside_is_as_asked() {
        use Boundary::{Clamp, Trap, Zero};
        for boundary in [Zero, Clamp, Trap] {
            assert_eq!(located(boundary, 4, [16, 2, 1]), Ok(Some(0x1000 + 16 + 64 + 96)));
        }
        assert_eq!(located(Zero, 4, [20, 0, 0]), Ok(None));
        assert_eq!(located(Trap, 4, [20, 0, 0]), Err([20, 0, 0, 0]));
        assert_eq!(located(Clamp, 4, [20, -1, 0]), Ok(Some(0x1000 + 16)));
        assert_eq!(located(Clamp, 8, [16, 7, 5]), Ok(Some(0x1000 + 8 + 64 + 96)));
        assert_eq!(located(Clamp, 4, [-4, 0, -1]), Ok(Some(0x1000 + 96)));
        assert_eq!(located(Zero, 4, [0, 0, 65537]), Ok(Some(0x1000 + 96)));
        assert_eq!(located(Zero, 4, [0, 0, -1]), Ok(None));
        assert_eq!(located(Trap, 4, [0, 0, 2]), Err([0, 0, 0, 2]));
    }
}
