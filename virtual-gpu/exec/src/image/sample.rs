//! What a texture gives at a point: CUDA C++ Programming Guide, "Texture Fetching"; CUDA Runtime API, `cudaTextureDesc`.
//!
//! Coordinates are computed in double precision, weights have 8 bits of fraction, rounded to the nearest, as the guide says of
//! hardware, and sums are rounded once. Trap: the guide defines no result for NaN and infinities: a NaN counts as 0, and so does
//! an infinity that wraps or mirrors.

use super::{AddressMode, Component, Format, Image, Sampler};
use crate::half::from_half;

/// One read, as the instruction says.
pub(super) struct Request {
    /// 1 to 3.
    pub dimensions: usize,
    /// Coordinates are indices.
    pub by_index: bool,
    /// Of which component the four neighbours are asked for (`tex2Dgather`).
    pub gathered: Option<usize>,
    /// Bits of x, y and z.
    pub at: [u32; 3],
    pub layer: u32,
}

/// Bits of four components; those that the format lacks are 0. `read` is told each element before it is read.
pub(super) fn sample(
    image: &Image,
    sampler: &Sampler,
    request: &Request,
    read: &mut dyn FnMut(u64),
) -> [u32; 4] {
    let mut texture = Texture { image, sampler, layer: u64::from(request.layer).min(image.layers - 1), read };
    if request.by_index {
        let at = place(request.dimensions, |d| i64::from(request.at[d].cast_signed()));
        return texture.at(at);
    }
    let mut at = [0.0; 3];
    for (d, at) in at.iter_mut().enumerate().take(request.dimensions) {
        let mode = mode(sampler, d);
        *at = scaled(f32::from_bits(request.at[d]), image.size[d], mode, sampler.normalised);
    }
    if let Some(component) = request.gathered {
        return texture.gather(at, component);
    }
    if sampler.linear {
        return texture.filtered(at, request.dimensions);
    }
    texture.at(place(request.dimensions, |d| {
        let index = at[d].floor() as i64;
        match mode(sampler, d) {
            // The formula gave a number from 0 to the size; which is met where it is rounded, and by a mirrored 1.
            AddressMode::Wrap | AddressMode::Mirror => index.clamp(0, last(image, d)),
            AddressMode::Clamp | AddressMode::Border => index,
        }
    }))
}

/// What memory in one row gives at an index, or at a coordinate without its fraction; 0 outside.
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
    Texture { image, sampler, layer: 0, read }.at([index, 0, 0])
}

fn place(dimensions: usize, of: impl Fn(usize) -> i64) -> [i64; 3] {
    [0, 1, 2].map(|d| if d < dimensions { of(d) } else { 0 })
}

fn last(image: &Image, dimension: usize) -> i64 {
    image.size[dimension].cast_signed() - 1
}

/// Wrapping and mirroring need coordinates from 0 to 1; for others they are clamping (`cudaTextureDesc::addressMode`).
fn mode(sampler: &Sampler, dimension: usize) -> AddressMode {
    match sampler.modes[dimension] {
        AddressMode::Wrap | AddressMode::Mirror if !sampler.normalised => AddressMode::Clamp,
        mode => mode,
    }
}

/// A coordinate in elements.
fn scaled(coordinate: f32, size: u64, mode: AddressMode, normalised: bool) -> f64 {
    let x = f64::from(if coordinate.is_nan() { 0.0 } else { coordinate });
    if !normalised {
        return x;
    }
    let fraction = if x.is_finite() { x - x.floor() } else { 0.0 };
    let x = match mode {
        AddressMode::Wrap => fraction,
        AddressMode::Mirror if x.is_finite() && x.floor() % 2.0 != 0.0 => 1.0 - fraction,
        AddressMode::Mirror => fraction,
        AddressMode::Clamp | AddressMode::Border => x,
    };
    x * size as f64
}

/// The element that an index stands for, if any.
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

/// The fraction in 9 bits, 8 of them behind the point, so that 1 is one of its values.
fn weight(fraction: f64) -> f64 {
    (fraction * 256.0 + 0.5).floor() / 256.0
}

struct Texture<'a> {
    image: &'a Image,
    sampler: &'a Sampler,
    layer: u64,
    read: &'a mut dyn FnMut(u64),
}

impl Texture<'_> {
    /// Components of the element that indices stand for, as the sampler wants them.
    fn at(&mut self, at: [i64; 3]) -> [u32; 4] {
        let mut offset = self.layer * self.image.slice;
        for (d, step) in
            [self.image.format.bytes(), self.image.pitch, self.image.slice].into_iter().enumerate()
        {
            match inside(at[d], self.image.size[d].cast_signed(), mode(self.sampler, d)) {
                Some(index) => offset += index.cast_unsigned() * step,
                None => return self.sampler.border,
            }
        }
        let address = self.image.address + offset;
        (self.read)(address);
        // SAFETY: inside of the image, whose memory was the program's when it made the object; what becomes of it later is
        // the program's business, as with any address that it gives to a kernel.
        let bits = unsafe { components(address, self.image.format) };
        if !(self.sampler.as_float && self.image.format.can_be_normalised()) {
            return bits;
        }
        let mut values = [0; 4];
        for (c, value) in values.iter_mut().enumerate().take(self.image.format.channels as usize) {
            *value = normalised(bits[c], self.image.format, self.sampler.srgb && c < 3).to_bits();
        }
        values
    }

    /// tex(x) = (1-α) T[i] + α T[i+1] in each dimension, where i = floor(x - 0.5).
    fn filtered(&mut self, at: [f64; 3], dimensions: usize) -> [u32; 4] {
        let first = place(dimensions, |d| (at[d] - 0.5).floor() as i64);
        let weights = [0, 1, 2].map(|d| {
            let x = at[d] - 0.5;
            weight(if x.is_finite() { x - x.floor() } else { 0.0 })
        });
        let mut sums = [0.0_f64; 4];
        for corner in 0..1_usize << dimensions {
            let far = |d: usize| corner >> d & 1;
            let weight = (0..dimensions)
                .fold(1.0, |product, d| product * if far(d) == 1 { weights[d] } else { 1.0 - weights[d] });
            let element = self.at(place(dimensions, |d| first[d].saturating_add(far(d) as i64)));
            for (sum, value) in sums.iter_mut().zip(element) {
                *sum += weight * f64::from(f32::from_bits(value));
            }
        }
        sums.map(|sum| (sum as f32).to_bits())
    }

    /// One component of the four elements that a filter would take, counter-clockwise from the lower left (PTX ISA, "tld4").
    fn gather(&mut self, at: [f64; 3], component: usize) -> [u32; 4] {
        let [i, j, _] = place(2, |d| (at[d] - 0.5).floor() as i64);
        [(0, 1), (1, 1), (1, 0), (0, 0)]
            .map(|(right, down)| self.at([i.saturating_add(right), j.saturating_add(down), 0])[component])
    }
}

/// Components of 32 bits: integers extended by their sign or zeros, halves as `f32`.
///
/// # Safety
/// An element of this format can be read at `address`.
unsafe fn components(address: u64, format: Format) -> [u32; 4] {
    let mut components = [0; 4];
    for (c, to) in (0..format.channels).zip(&mut components) {
        let at = address + u64::from(c * format.bits / 8);
        // SAFETY: the caller's promise; a component may lie at any address.
        let raw = unsafe {
            match format.bits {
                8 => u32::from((at as *const u8).read()),
                16 => u32::from((at as *const u16).read_unaligned()),
                _ => (at as *const u32).read_unaligned(),
            }
        };
        *to = match (format.component, format.bits) {
            (Component::Signed, 8) => i32::from(raw as u8 as i8).cast_unsigned(),
            (Component::Signed, 16) => i32::from(raw as u16 as i16).cast_unsigned(),
            (Component::Float, 16) => from_half(raw).to_bits(),
            _ => raw,
        };
    }
    components
}

/// An integer as a part of its type's largest: 0 to 1, or -1 to 1, where the smallest two are both -1.
fn normalised(bits: u32, format: Format, srgb: bool) -> f32 {
    match (format.component, format.bits) {
        (Component::Signed, 8) => (bits.cast_signed() as f32 / 127.0).max(-1.0),
        (Component::Signed, _) => (bits.cast_signed() as f32 / 32767.0).max(-1.0),
        (_, 8) if srgb => linear_light(f64::from(bits) / 255.0) as f32,
        (_, 8) => bits as f32 / 255.0,
        _ => bits as f32 / 65535.0,
    }
}

/// IEC 61966-2-1.
fn linear_light(value: f64) -> f64 {
    if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
}
