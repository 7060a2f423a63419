//! Texture and surface objects: checks the program's descriptions and converts them for kernels (eager-exec's `image`).
//!
//! Trap: an object is a number for kernels, not an address (`memory/image.rs`), and it does not keep its memory alive:
//! a program that frees an array and still reads it gets whatever is there. Mipmapped and cube arrays, and views with
//! another format, are refused.

use core::ffi::c_int;

use eager_exec::image::{AddressMode, Image, Object, Sampler};

use super::array::{ArrayHandle, known_array};
use super::device::known_device;
use super::{open, open_uncaptured};
use crate::device::attribute;
use crate::ffi::{In, Out};
use crate::log::log_line;
use crate::memory::{ChannelDesc, Description, RESOURCE_WORDS, ResourceWords, TextureDesc};
use crate::runtime::Runtime;
use crate::status::Code;
use crate::transfer::{Extent, Region};

const INVALID: Code = Code::cudaErrorInvalidValue;

/// `cudaDevAttrTextureAlignment` and `cudaDevAttrTexturePitchAlignment` of every card (`device/attributes.rs`).
const ALIGN: u64 = 512;
const PITCH_ALIGN: u64 = 32;

/// Flags of `cudaMallocArray` and similar calls.
const ARRAY_LAYERED: u32 = 1;
const ARRAY_SURFACE: u32 = 2;

/// The used fields of `cudaResourceDesc`.
#[derive(Debug, Clone, Copy)]
enum Resource {
    Array(ArrayHandle),
    Linear { address: u64, format: ChannelDesc, bytes: u64 },
    Pitched { address: u64, format: ChannelDesc, width: u64, height: u64, pitch: u64 },
}

impl Resource {
    fn read(words: &ResourceWords) -> Result<Resource, Code> {
        let half = |word: u64, high: bool| (if high { word >> 32 } else { word }) as u32;
        let [kind, address, xy, zw, component, size, height, pitch, ..] = *words;
        let bits = [half(xy, false), half(xy, true), half(zw, false), half(zw, true)].map(u32::cast_signed);
        let format = ChannelDesc { bits, kind: half(component, false) };
        match half(kind, false) {
            0 => Ok(Resource::Array(address)),
            1 => {
                log_line(format_args!(
                    "textures of mipmapped arrays are not there: use one array for each level"
                ));
                Err(Code::cudaErrorNotSupported)
            }
            2 => Ok(Resource::Linear { address, format, bytes: size }),
            3 => Ok(Resource::Pitched { address, format, width: size, height, pitch }),
            _ => Err(INVALID),
        }
    }

    /// The image that it describes, and its device.
    fn image(self, runtime: &Runtime) -> Result<(Image, u32), Code> {
        match self {
            Resource::Array(handle) => {
                let array = known_array(runtime, handle)?;
                let layered = array.flags & ARRAY_LAYERED != 0;
                let [width, height, depth] = array.elements.map(|count| count.max(1));
                let pitch = width * array.element_bytes;
                let format = array.desc.format().ok_or(Code::cudaErrorInvalidChannelDescriptor)?;
                let (depth, layers) = if layered { (1, depth) } else { (depth, 1) };
                let size = [width, height, depth];
                let image =
                    Image { address: array.address, format, size, layers, pitch, slice: pitch * height };
                Ok((image, array.flags))
            }
            Resource::Linear { address, format, bytes } => {
                let format = format.format().ok_or(Code::cudaErrorInvalidChannelDescriptor)?;
                let width = bytes / format.bytes();
                plane(runtime, address, format, [width, 1], bytes, bytes)
            }
            Resource::Pitched { address, format, width, height, pitch } => {
                let format = format.format().ok_or(Code::cudaErrorInvalidChannelDescriptor)?;
                if !pitch.is_multiple_of(PITCH_ALIGN) {
                    log_line(format_args!(
                        "a texture of pitched memory needs rows a multiple of {PITCH_ALIGN} bytes apart, these are {pitch}"
                    ));
                    return Err(INVALID);
                }
                plane(runtime, address, format, [width, height], pitch, width.saturating_mul(format.bytes()))
            }
        }
    }
}

/// Image in the program's linear memory, of whose rows `used` bytes must be allocated.
fn plane(
    runtime: &Runtime,
    address: u64,
    format: eager_exec::image::Format,
    [width, height]: [u64; 2],
    pitch: u64,
    used: u64,
) -> Result<(Image, u32), Code> {
    if width == 0 || height == 0 || used > pitch {
        return Err(INVALID);
    }
    if !address.is_multiple_of(ALIGN) {
        log_line(format_args!(
            "a texture's memory begins at a multiple of {ALIGN} bytes, {address:#x} is none"
        ));
        return Err(INVALID);
    }
    let region = Region { address, pitch, slice: pitch.checked_mul(height).ok_or(INVALID)? };
    if runtime.place(region, Extent::plane(used, height))?.is_pageable() {
        log_line(format_args!("a texture needs device memory, and {address:#x} is memory of the host's"));
        return Err(INVALID);
    }
    let size = [width, height, 1];
    Ok((Image { address, format, size, layers: 1, pitch, slice: region.slice }, 0))
}

fn address_mode(mode: u32) -> Result<AddressMode, Code> {
    let modes = [AddressMode::Wrap, AddressMode::Clamp, AddressMode::Mirror, AddressMode::Border];
    modes.get(mode as usize).copied().ok_or(INVALID)
}

fn sampler(desc: &TextureDesc) -> Result<Sampler, Code> {
    if desc.filter_mode > 1 || desc.read_mode > 1 {
        return Err(INVALID);
    }
    let [x, y, z] = desc.address_modes;
    Ok(Sampler {
        modes: [address_mode(x)?, address_mode(y)?, address_mode(z)?],
        linear: desc.filter_mode == 1,
        normalised: desc.normalized_coordinates != 0,
        as_float: desc.read_mode == 1,
        srgb: desc.srgb != 0,
        border: desc.border,
    })
}

fn texture(resource: Resource, desc: &TextureDesc, runtime: &Runtime) -> Result<Object, Code> {
    let (image, _) = resource.image(runtime)?;
    let sampler = sampler(desc)?;
    if matches!(resource, Resource::Linear { .. }) {
        return Ok(Object::Line(image, sampler));
    }
    let gives_float = image.format.is_float() || sampler.as_float && image.format.can_be_normalised();
    if sampler.linear && !gives_float {
        log_line(format_args!(
            "a texture of integers has no linear filter unless 8 or 16 bits are read as normalized floats"
        ));
        return Err(Code::cudaErrorInvalidFilterSetting);
    }
    Ok(Object::Texture(image, sampler))
}

fn add(number: Out<u64>, object: Object, description: Description) -> Result<(), Code> {
    let (runtime, device) = open_uncaptured()?;
    number.check()?;
    number.put(runtime.images.add(device, object, description).ok_or(Code::cudaErrorMemoryAllocation)?)
}

fn destroy(number: u64, is_texture: bool) -> Result<(), Code> {
    let (runtime, device) = open()?;
    let work = runtime.streams.lock().last_of_device(device);
    if number == 0 || runtime.images.destroy(number, is_texture, work) { Ok(()) } else { Err(INVALID) }
}

fn described(number: u64, is_texture: bool) -> Result<Description, Code> {
    let (runtime, _) = open()?;
    runtime.images.description(number).filter(|found| found.texture.is_some() == is_texture).ok_or(INVALID)
}

const _: () = assert!(size_of::<TextureDesc>() == 72 && RESOURCE_WORDS >= 8);

api!(
    /// Creates a texture object; refuses a `view` with a format of its own.
    fn cudaCreateTextureObject(
        texture_object: Out<u64>,
        resource: In<ResourceWords>,
        desc: In<TextureDesc>,
        view: In<u32>,
    ) -> Result<(), Code> {
        let (runtime, _) = open_uncaptured()?;
        texture_object.check()?;
        let (words, desc) = (resource.get()?, desc.get()?);
        if !view.is_null() && view.get()? != 0 {
            log_line(format_args!("textures have no resource views: a texture has the format of its array"));
            return Err(Code::cudaErrorNotSupported);
        }
        let object = texture(Resource::read(&words)?, &desc, runtime)?;
        add(texture_object, object, Description { resource: words, texture: Some(desc) })
    }

    fn cudaDestroyTextureObject(texture: u64) -> Result<(), Code> {
        destroy(texture, true)
    }

    fn cudaCreateSurfaceObject(surface: Out<u64>, resource: In<ResourceWords>) -> Result<(), Code> {
        let (runtime, _) = open_uncaptured()?;
        surface.check()?;
        let words = resource.get()?;
        let Resource::Array(handle) = Resource::read(&words)? else { return Err(INVALID) };
        let (image, flags) = Resource::Array(handle).image(runtime)?;
        if flags & ARRAY_SURFACE == 0 {
            log_line(format_args!("a surface needs an array that was made with cudaArraySurfaceLoadStore"));
            return Err(INVALID);
        }
        add(surface, Object::Surface(image), Description { resource: words, texture: None })
    }

    fn cudaDestroySurfaceObject(surface: u64) -> Result<(), Code> {
        destroy(surface, false)
    }

    fn cudaGetTextureObjectResourceDesc(resource: Out<ResourceWords>, texture: u64) -> Result<(), Code> {
        resource.put(described(texture, true)?.resource)
    }

    fn cudaGetTextureObjectTextureDesc(desc: Out<TextureDesc>, texture: u64) -> Result<(), Code> {
        desc.put(described(texture, true)?.texture.ok_or(INVALID)?)
    }

    /// Always an error: no object has a view.
    fn cudaGetTextureObjectResourceViewDesc(_view: Out<u32>, texture: u64) -> Result<(), Code> {
        described(texture, true).and(Err(INVALID))
    }

    fn cudaGetSurfaceObjectResourceDesc(resource: Out<ResourceWords>, surface: u64) -> Result<(), Code> {
        resource.put(described(surface, false)?.resource)
    }

    /// Returns the width that the attributes tell, whatever the format.
    fn cudaDeviceGetTexture1DLinearMaxWidth(
        elements: Out<usize>,
        format: In<ChannelDesc>,
        device: c_int,
    ) -> Result<(), Code> {
        const MAX_TEXTURE_1D_LINEAR_WIDTH: u32 = 69;
        let runtime = Runtime::get()?;
        format.get()?;
        let device = runtime.device(known_device(runtime, device)?)?;
        let width = attribute(device, MAX_TEXTURE_1D_LINEAR_WIDTH).ok_or(INVALID)?;
        elements.put(usize::try_from(width).unwrap_or(0))
    }

    /// Frees nothing: there are no mipmapped arrays, so only null is valid.
    fn cudaFreeMipmappedArray(array: u64) -> Result<(), Code> {
        if array == 0 { Ok(()) } else { Err(INVALID) }
    }
);
