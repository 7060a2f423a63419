//! Texture reads at a point: CUDA C++ Programming Guide, "Texture Fetching"; CUDA Runtime API, `cudaTextureDesc`.
//!
//! Where the guide leaves a choice, this follows an H100 as measured (specification S-530 to S-533). The guide defines
//! no result for NaN and infinities: here a NaN counts as 0, and so does an infinity with wrapping or mirroring.

use super::element::{Reading, components};
use super::filter::{WHOLE, power, sum, weights};
use super::{AddressMode, Image, Sampler};

/// Operands of one read instruction.
pub(super) struct Request {
    /// 1 to 3.
    pub dimensions: usize,
    /// Coordinates are indices.
    pub by_index: bool,
    /// Component to return of each of the four neighbours (`tex2Dgather`).
    pub gathered: Option<usize>,
    /// Bits of x, y and z.
    pub at: [u32; 3],
    pub layer: u32,
}

/// Reads a texture and returns the bits of four components; those that the format lacks are 0. `read` is called with
/// the address of each element before it is read.
pub(super) fn sample(
    image: &Image,
    sampler: &Sampler,
    request: &Request,
    read: &mut dyn FnMut(u64),
) -> [u32; 4] {
    let layer = u64::from(request.layer).min(image.layers - 1);
    let mut texture = Texture::new(image, sampler, layer, read);
    if request.by_index {
        let at = place(request.dimensions, |d| i64::from(request.at[d].cast_signed()));
        return texture.answer(at);
    }
    let mut at = [0.0; 3];
    for (d, at) in at.iter_mut().enumerate().take(request.dimensions) {
        let mode = mode(sampler, d);
        *at = scaled(f32::from_bits(request.at[d]), image.size[d], mode, sampler.normalised);
    }
    if let Some(component) = request.gathered {
        return texture.gather(at, component);
    }
    if !sampler.linear {
        return texture.answer(place(request.dimensions, |d| at[d].floor() as i64));
    }
    // A row without layers is filtered as a plane of one row, at y = 0, where half of the weight lies outside.
    let is_row = request.dimensions == 1 && image.layers == 1;
    let in_plane = is_row && mode(sampler, 1) == AddressMode::Border;
    texture.filtered(at, if in_plane { 2 } else { request.dimensions })
}

/// Reads memory in one row at an index, or at a coordinate without its fraction; 0 outside.
pub(super) fn element(
    image: &Image,
    sampler: &Sampler,
    request: &Request,
    read: &mut dyn FnMut(u64),
) -> [u32; 4] {
    let index = match request.by_index {
        true => i64::from(request.at[0].cast_signed()),
        false => f32::from_bits(request.at[0]).floor() as i64,
    };
    if !(0..=last(image, 0)).contains(&index) {
        return [0; 4];
    }
    Texture::new(image, sampler, 0, read).answer([index, 0, 0])
}

fn place(dimensions: usize, of: impl Fn(usize) -> i64) -> [i64; 3] {
    [0, 1, 2].map(|d| if d < dimensions { of(d) } else { 0 })
}

fn last(image: &Image, dimension: usize) -> i64 {
    image.size[dimension].cast_signed() - 1
}

/// Wrapping and mirroring need coordinates from 0 to 1; for others they become clamping
/// (`cudaTextureDesc::addressMode`).
fn mode(sampler: &Sampler, dimension: usize) -> AddressMode {
    match sampler.modes[dimension] {
        AddressMode::Wrap | AddressMode::Mirror if !sampler.normalised => AddressMode::Clamp,
        mode => mode,
    }
}

/// Converts a coordinate to elements.
///
/// A normalised coordinate is first cut down to a multiple of 2^-21, or of a smaller power for rows of 2^15 elements
/// and more (2^15 and 100,000 were measured). So it may lie before the border of an element that the exact product is
/// on or behind.
fn scaled(coordinate: f32, size: u64, mode: AddressMode, normalised: bool) -> f64 {
    let x = if coordinate.is_nan() || coordinate.is_subnormal() { 0.0 } else { f64::from(coordinate) };
    if !normalised {
        return x;
    }
    let bits = 21 + size.ilog2().saturating_sub(14).cast_signed();
    let x = (x * power(bits)).floor() * power(-bits);
    // Whole periods are subtracted, which is exact, so that no index is too large.
    let x = match mode {
        AddressMode::Wrap | AddressMode::Mirror if !x.is_finite() => 0.0,
        AddressMode::Wrap => x.rem_euclid(1.0),
        AddressMode::Mirror => x.rem_euclid(2.0),
        AddressMode::Clamp | AddressMode::Border => x,
    };
    x * size as f64
}

/// The first element of a filter cell, and the weight of the next element in [`WHOLE`] parts, rounded half up.
fn cell(at: f64) -> (i64, i64) {
    let parts = ((at - 0.5) * WHOLE as f64 + 0.5).floor();
    let first = (parts / WHOLE as f64).floor();
    // The difference of infinities is NaN, which the cast makes 0.
    (first as i64, (parts - first * WHOLE as f64) as i64)
}

/// The element to which an index is mapped; `None` for the border colour.
fn inside(index: i64, size: i64, mode: AddressMode) -> Option<i64> {
    match mode {
        AddressMode::Clamp => Some(index.clamp(0, size - 1)),
        AddressMode::Border => (0..size).contains(&index).then_some(index),
        AddressMode::Wrap => Some(index.rem_euclid(size)),
        AddressMode::Mirror => {
            let turn = index.rem_euclid(2 * size);
            Some(turn.min(2 * size - 1 - turn))
        }
    }
}

struct Texture<'a> {
    image: &'a Image,
    sampler: &'a Sampler,
    reading: Reading,
    layer: u64,
    read: &'a mut dyn FnMut(u64),
}

impl<'a> Texture<'a> {
    fn new(image: &'a Image, sampler: &'a Sampler, layer: u64, read: &'a mut dyn FnMut(u64)) -> Self {
        Texture { image, sampler, reading: Reading::new(image.format, sampler), layer, read }
    }

    /// Components of the element at these indices, as stored.
    fn element(&mut self, at: [i64; 3]) -> [u32; 4] {
        let mut offset = self.layer * self.image.slice;
        for (d, step) in
            [self.image.format.bytes(), self.image.pitch, self.image.slice].into_iter().enumerate()
        {
            match inside(at[d], self.image.size[d].cast_signed(), mode(self.sampler, d)) {
                Some(index) => offset += index.cast_unsigned() * step,
                None => return self.reading.border(self.sampler.border),
            }
        }
        let address = self.image.address + offset;
        (self.read)(address);
        // SAFETY: inside of the image, whose memory belonged to the program when it created the object; keeping it
        // valid is the program's responsibility, as with any address that it passes to a kernel.
        unsafe { components(address, self.image.format) }
    }

    /// Components of the element at these indices, converted for the sampler.
    fn answer(&mut self, at: [i64; 3]) -> [u32; 4] {
        let element = self.element(at);
        [0, 1, 2, 3].map(|c| self.reading.answer(c, element[c]))
    }

    /// Interpolates between the elements around a point.
    fn filtered(&mut self, at: [f64; 3], dimensions: usize) -> [u32; 4] {
        let mut first = [0; 3];
        let mut parts = [0; 3];
        for d in 0..dimensions {
            (first[d], parts[d]) = cell(at[d]);
            // Both neighbours are the same element. In three dimensions the weight must be 0, because rounded weights
            // would show.
            let is_beyond = !(0..last(self.image, d)).contains(&first[d]);
            if is_beyond && mode(self.sampler, d) == AddressMode::Clamp {
                parts[d] = 0;
            }
        }
        let mut corners = [[0; 4]; 8];
        for (corner, element) in corners.iter_mut().enumerate().take(1 << dimensions) {
            let far = |d: usize| (corner >> d & 1) as i64;
            *element = self.element(place(dimensions, |d| first[d].saturating_add(far(d))));
        }
        let weights = weights(parts);
        let mut answer = [0; 4];
        for (c, to) in answer.iter_mut().enumerate().take(self.image.format.channels as usize) {
            let summands = corners.map(|element| self.reading.summand(c, element[c]));
            *to = sum(self.reading.kind(c), summands, weights).to_bits();
        }
        answer
    }

    /// Returns one component of the four elements that a filter would take, counter-clockwise from the lower left (PTX
    /// ISA, "tld4").
    fn gather(&mut self, at: [f64; 3], component: usize) -> [u32; 4] {
        let [i, j, _] = place(2, |d| cell(at[d]).0);
        [(0, 1), (1, 1), (1, 0), (0, 0)]
            .map(|(right, down)| self.answer([i.saturating_add(right), j.saturating_add(down), 0])[component])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{Component, Format};

    /// Reads a row of 256, 512, 768 and so on at the bits of a coordinate.
    fn read(size: usize, mode: AddressMode, linear: bool, normalised: bool, at: u32) -> f32 {
        let row: Vec<f32> = (1..=size).map(|i| 256.0 * i as f32).collect();
        let format = Format { component: Component::Float, bits: 32, channels: 1 };
        let (address, pitch) = (row.as_ptr() as u64, 4 * size as u64);
        let image = Image { address, format, size: [size as u64, 1, 1], layers: 1, pitch, slice: pitch };
        let sampler =
            Sampler { modes: [mode; 3], linear, normalised, as_float: false, srgb: false, border: [0; 4] };
        let request = Request { dimensions: 1, by_index: false, gathered: None, at: [at, 0, 0], layer: 0 };
        f32::from_bits(sample(&image, &sampler, &request, &mut |_| ())[0])
    }

    #[test]
    fn elements_begin_and_weights_change_where_a_card_has_it() {
        use AddressMode::{Border, Clamp, Mirror, Wrap};
        for (size, mode, linear, normalised, before, at, values) in [
            (3, Clamp, false, true, 0x3eaa_aaaf, 0x3eaa_aab0, [256.0, 512.0]),
            (5, Wrap, false, true, 0x3f4c_cccf, 0x3f4c_ccd0, [1024.0, 1280.0]),
            (5, Mirror, false, true, 0xbe4c_ccc0, 0xbe4c_ccc1, [256.0, 512.0]),
            (5, Mirror, false, true, 0x3fb3_3333, 0x3fb3_3334, [1024.0, 768.0]),
            (600, Clamp, false, true, 0x3ada_7fff, 0x3ada_8000, [256.0, 512.0]),
            (5, Border, false, false, 0x409f_ffff, 0x40a0_0000, [1280.0, 0.0]),
            (3, Clamp, true, true, 0x3e2b_555f, 0x3e2b_5560, [256.0, 257.0]),
            (3, Wrap, true, true, 0xbf69_2aa8, 0xbf69_2aa9, [374.0, 376.0]),
            (5, Border, true, false, 0x3c8f_ffff, 0x3c90_0000, [66.0, 67.0]),
        ] {
            let read = |at| read(size, mode, linear, normalised, at);
            assert_eq!([read(before), read(at)], values, "{size} {mode:?} {linear} {normalised} {at:#x}");
        }
    }

    #[test]
    fn numbers_that_are_none_or_too_large_are_somewhere() {
        use AddressMode::{Border, Clamp, Mirror, Wrap};
        let bits = f32::to_bits;
        for linear in [false, true] {
            for (mode, at, value) in [
                (Clamp, bits(f32::INFINITY), 1280.0),
                (Clamp, bits(-3.4e38), 256.0),
                (Border, bits(f32::NEG_INFINITY), 0.0),
                (Border, bits(1e9), 0.0),
            ] {
                assert_eq!(read(5, mode, linear, true, at), value, "{mode:?} {at:#x}");
            }
        }
        for at in [f32::NAN, f32::INFINITY, 1e9, -3.4e38, f32::from_bits(0x8000_0001)] {
            assert_eq!([Wrap, Mirror].map(|mode| read(5, mode, false, true, bits(at))), [256.0; 2], "{at}");
        }
        assert_eq!(read(5, Border, false, false, 0x8000_0001), 256.0, "a denormal is zero");
        assert_eq!(read(5, Border, false, false, bits(-1e-9)), 0.0);
    }

    #[test]
    fn a_part_of_half_a_step_rounds_up() {
        assert_eq!(cell(0.5 + 0.5 / 256.0), (0, 1));
        assert_eq!(cell(0.5 - 0.5 / 256.0), (0, 0));
        assert_eq!(cell(1.5 - 0.25 / 256.0), (1, 0), "and so may be in the next cell");
        assert_eq!(cell(-0.75), (-2, 192));
    }
}
