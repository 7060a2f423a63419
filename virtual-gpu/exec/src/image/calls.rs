//! Texture reads and surface accesses of kernels: the one function that CPU code calls back for all of them.
//!
//! Trap: a fault inside is attributed to the kernel, and the handler drops these frames without running destructors. So
//! code here must own nothing, and code that locks or unwinds must hold an `InHelper`.

use core::ffi::{CStr, c_char};

use super::fault::{ImageFault, Misuse};
use super::{Image, Object, Objects, sample, surface};
use crate::abi::{ACCESS_READS, ACCESS_WRITES, BlockContext, Texels, image_form};
use crate::fault::InHelper;
use crate::worker::{before_image_access, objects_of};

/// [`crate::abi::Helpers::image`].
pub(crate) unsafe extern "C-unwind" fn image(
    context: *mut BlockContext,
    thread: u32,
    object: u64,
    form: u32,
    xy: u64,
    z_layer: u64,
    low: u64,
    high: u64,
    place: *const c_char,
) -> Texels {
    let ([x, y], [z, layer]) = (halves(xy), halves(z_layer));
    let call =
        Call { context, thread, object, form, at: [x, y, z], layer, value: Texels { low, high }, place };
    // SAFETY: called by a kernel, which passes its own context.
    match call.answer(unsafe { objects_of(context) }) {
        Ok(texels) => texels,
        Err(misuse) => call.fail(misuse),
    }
}

fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

/// One access of a thread to an object.
struct Call {
    context: *mut BlockContext,
    thread: u32,
    object: u64,
    form: u32,
    at: [u32; 3],
    layer: u32,
    /// Bytes to store.
    value: Texels,
    place: *const c_char,
}

impl Call {
    fn is_of_texture(&self) -> bool {
        self.form & image_form::OPERATION == image_form::SAMPLE
    }

    fn dimensions(&self) -> usize {
        (self.form & image_form::DIMENSIONS).clamp(1, 3) as usize
    }

    fn answer(&self, objects: Option<&Objects>) -> Result<Texels, Misuse> {
        let object = objects.and_then(|objects| objects.get(self.object)).ok_or(Misuse::Unknown)?;
        match (object, self.is_of_texture()) {
            (Object::Surface(image), false) => self.surface(image),
            (Object::Texture(image, sampler), true) => {
                let mut read = |address| self.accesses(image, address, image.format.bytes(), ACCESS_READS);
                Ok(packed(sample::sample(image, sampler, &self.request(), &mut read)))
            }
            (Object::Line(image, sampler), true) => {
                let mut read = |address| self.accesses(image, address, image.format.bytes(), ACCESS_READS);
                Ok(packed(sample::element(image, sampler, &self.request(), &mut read)))
            }
            _ => Err(Misuse::WrongKind),
        }
    }

    fn request(&self) -> sample::Request {
        let component = (self.form >> image_form::COMPONENT_SHIFT & 3) as usize;
        sample::Request {
            dimensions: self.dimensions(),
            by_index: self.form & image_form::BY_INDEX != 0,
            gathered: (self.form & image_form::GATHER != 0).then_some(component),
            at: self.at,
            layer: self.layer,
        }
    }

    fn surface(&self, image: &Image) -> Result<Texels, Misuse> {
        let boundary = match self.form & image_form::BOUNDARY {
            image_form::BOUNDARY_ZERO => surface::Boundary::Zero,
            image_form::BOUNDARY_CLAMP => surface::Boundary::Clamp,
            _ => surface::Boundary::Trap,
        };
        let bytes = u64::from(self.form >> image_form::BYTES_SHIFT & 0x1f).min(size_of::<Texels>() as u64);
        let dimensions = self.dimensions();
        let request = surface::Request { dimensions, bytes, boundary, at: self.at, layer: self.layer };
        let mut value = Texels::default();
        let Some(address) = surface::locate(image, &request).map_err(Misuse::Outside)? else {
            return Ok(value);
        };
        let stores = self.form & image_form::OPERATION == image_form::STORE;
        self.accesses(image, address, bytes, if stores { ACCESS_WRITES } else { ACCESS_READS });
        // SAFETY: inside of the surface, whose memory belonged to the program when it created the object; keeping it
        // valid is the program's responsibility, as with any address that it passes to a kernel. No more bytes than the
        // value has.
        unsafe {
            if stores {
                let from = (&raw const self.value).cast::<u8>();
                (address as *mut u8).copy_from_nonoverlapping(from, bytes as usize);
            } else {
                (address as *const u8).copy_to_nonoverlapping((&raw mut value).cast(), bytes as usize);
            }
        }
        Ok(value)
    }

    /// Called before an access to an image's memory, for the touch map and strict mode.
    fn accesses(&self, image: &Image, address: u64, bytes: u64, flags: u32) {
        // SAFETY: the context is that of the kernel that calls.
        unsafe {
            before_image_access(self.context, self.thread, address, bytes, image.address, self.place, flags)
        }
    }

    fn fail(&self, misuse: Misuse) -> ! {
        // Never released: from here on Rust code unwinds, which the fault handler must not drop.
        std::mem::forget(InHelper::enter());
        // SAFETY: the context is that of the kernel that calls.
        let (block, [nx, ny, _]) = unsafe { ((*self.context).block_idx, (*self.context).block_dim) };
        let (nx, ny) = (nx.max(1), ny.max(1));
        // SAFETY: the place is a constant text of the program, NUL-terminated, or null.
        let place = if self.place.is_null() { c"" } else { unsafe { CStr::from_ptr(self.place) } };
        std::panic::resume_unwind(Box::new(ImageFault {
            misuse,
            of_texture: self.is_of_texture(),
            object: self.object,
            block,
            thread: [self.thread % nx, self.thread / nx % ny, self.thread / nx / ny],
            place: place.to_string_lossy().into_owned(),
        }))
    }
}

fn packed([x, y, z, w]: [u32; 4]) -> Texels {
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    Texels { low: pair(x, y), high: pair(z, w) }
}
