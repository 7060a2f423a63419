//! Textures and surfaces: descriptions of their objects, and the list of objects that exist.
//!
//! A kernel names an object by a number that the program received from CUDA. Trap: that number may be arbitrary, also
//! that of a destroyed object, so it is looked up in a list that cannot change while the launch runs ([`Objects`]), and
//! never used as an address.

mod calls;
mod element;
mod fault;
mod filter;
mod sample;
mod surface;

use std::sync::Arc;

use parking_lot::Mutex;

pub(crate) use calls::image;
pub use fault::{ImageFault, Misuse};

/// Type of the components of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Component {
    Signed,
    Unsigned,
    Float,
}

/// Format of an element: components of equal width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    pub component: Component,
    /// 8, 16 or 32.
    pub bits: u32,
    /// 1, 2 or 4.
    pub channels: u32,
}

impl Format {
    pub fn bytes(self) -> u64 {
        u64::from(self.bits / 8 * self.channels)
    }

    pub fn is_float(self) -> bool {
        self.component == Component::Float
    }

    /// True if reads may normalise it to numbers from 0 or -1 to 1.
    pub fn can_be_normalised(self) -> bool {
        self.component != Component::Float && self.bits < 32
    }
}

/// Memory interpreted as elements in rows, slices and layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Image {
    pub address: u64,
    pub format: Format,
    /// Elements of a row, rows, slices; at least 1 each.
    pub size: [u64; 3],
    pub layers: u64,
    /// Bytes from a row to the next.
    pub pitch: u64,
    /// Bytes from a slice, or a layer, to the next.
    pub slice: u64,
}

/// Treatment of a coordinate outside (`cudaTextureAddressMode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressMode {
    Wrap,
    Clamp,
    Mirror,
    Border,
}

/// How a texture is read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampler {
    /// Modes for x, y and z.
    pub modes: [AddressMode; 3],
    /// Interpolates between neighbours instead of taking the nearest element.
    pub linear: bool,
    /// Coordinates go from 0 to 1.
    pub normalised: bool,
    /// Integers of 8 and 16 bits are normalised to numbers up to 1.
    pub as_float: bool,
    pub srgb: bool,
    /// Bits of the colour outside, for [`AddressMode::Border`].
    pub border: [u32; 4],
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Object {
    Texture(Image, Sampler),
    /// Memory in one row, which is read by index only.
    Line(Image, Sampler),
    Surface(Image),
}

impl Object {
    pub fn image(&self) -> &Image {
        match self {
            Object::Texture(image, _) | Object::Line(image, _) | Object::Surface(image) => image,
        }
    }
}

/// Upper bits of an object's number, above index and generation, so that other numbers are not taken for objects.
const TAG: u64 = 0x7e5_u64 << 52;
const INDEX_BITS: u32 = 24;

#[derive(Debug, Clone, Default)]
struct Slot {
    /// Number of objects that used this slot before.
    generation: u64,
    object: Option<(u32, Object)>,
}

/// Snapshot of the objects of a process.
#[derive(Debug, Clone, Default)]
pub struct Objects {
    slots: Vec<Slot>,
    free: Vec<usize>,
}

impl Objects {
    pub fn get(&self, number: u64) -> Option<&Object> {
        let slot = self.slots.get(index_of(number)?)?;
        let (_, object) = slot.object.as_ref()?;
        (number_of(slot, index_of(number)?) == number).then_some(object)
    }

    fn add(&mut self, device: u32, object: Object) -> Option<u64> {
        let index = self.free.pop().unwrap_or(self.slots.len());
        if index >> INDEX_BITS != 0 {
            return None;
        }
        if index == self.slots.len() {
            self.slots.push(Slot::default());
        }
        let slot = &mut self.slots[index];
        slot.object = Some((device, object));
        Some(number_of(slot, index))
    }

    fn remove_at(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        slot.object = None;
        slot.generation += 1;
        self.free.push(index);
    }
}

fn number_of(slot: &Slot, index: usize) -> u64 {
    TAG | (slot.generation << INDEX_BITS) & !TAG | index as u64
}

fn index_of(number: u64) -> Option<usize> {
    let tagged = number & (0xfff << 52) == TAG;
    tagged.then_some((number & ((1 << INDEX_BITS) - 1)) as usize)
}

/// Current objects of a process.
#[derive(Debug, Default)]
pub struct Book(Mutex<Arc<Objects>>);

impl Book {
    /// Adds an object and returns its number; `None` if there are too many.
    pub fn add(&self, device: u32, object: Object) -> Option<u64> {
        Arc::make_mut(&mut *self.0.lock()).add(device, object)
    }

    /// Removes an object; false if there was none of this number.
    pub fn remove(&self, number: u64) -> bool {
        let mut objects = self.0.lock();
        let Some(index) = index_of(number).filter(|_| objects.get(number).is_some()) else { return false };
        Arc::make_mut(&mut *objects).remove_at(index);
        true
    }

    pub fn forget_device(&self, device: u32) {
        let mut objects = self.0.lock();
        let gone = |(index, slot): (usize, &Slot)| {
            slot.object.as_ref().is_some_and(|(on, _)| *on == device).then_some(index)
        };
        let gone: Vec<usize> = objects.slots.iter().enumerate().filter_map(gone).collect();
        if !gone.is_empty() {
            let objects = Arc::make_mut(&mut *objects);
            gone.into_iter().for_each(|index| objects.remove_at(index));
        }
    }

    /// Snapshot of the objects: a launch keeps it until it ends.
    pub fn now(&self) -> Arc<Objects> {
        self.0.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surface(address: u64) -> Object {
        let format = Format { component: Component::Float, bits: 32, channels: 1 };
        Object::Surface(Image { address, format, size: [1; 3], layers: 1, pitch: 4, slice: 4 })
    }

    #[test]
    fn a_number_leads_to_its_object_and_to_no_later_one() {
        let book = Book::default();
        let [first, second] = [1, 2].map(|address| book.add(0, surface(address)).unwrap());
        let before = book.now();
        assert!(book.remove(first) && !book.remove(first));
        let third = book.add(1, surface(3)).unwrap();
        let now = book.now();
        assert_eq!(
            [first, second, third].map(|n| now.get(n).map(|o| o.image().address)),
            [None, Some(2), Some(3)]
        );
        assert_eq!(
            before.get(first).map(|o| o.image().address),
            Some(1),
            "a launch goes on with what it began with"
        );
        for number in [0, 1, u64::MAX, first ^ 1 << 60, 0x7f00_dead_b000] {
            assert_eq!(now.get(number), None, "{number:#x}");
        }
        book.forget_device(1);
        assert!(book.now().get(third).is_none() && book.now().get(second).is_some());
    }
}
