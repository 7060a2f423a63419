//! The program's texture and surface objects, with their descriptions.
//!
//! Trap: programs destroy objects that launched kernels have yet to use. So an object disappears for the program at
//! once, but for kernels only when all work enqueued before has ended. The size of `cudaResourceDesc` also differs: it
//! is longer in CUDA 13 than in CUDA 12.

use std::collections::BTreeMap;
use std::sync::Arc;

use eager_exec::image::{Book, Object, Objects};
use parking_lot::Mutex;

use crate::stream::Completion;

/// Size of `cudaResourceDesc` in 8-byte words.
pub const RESOURCE_WORDS: usize = if cfg!(cuda_12) { 8 } else { 18 };
pub type ResourceWords = [u64; RESOURCE_WORDS];

/// `cudaTextureDesc` with enumerations and the border colour as plain numbers.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct TextureDesc {
    pub address_modes: [u32; 3],
    pub filter_mode: u32,
    pub read_mode: u32,
    pub srgb: i32,
    pub border: [u32; 4],
    pub normalized_coordinates: i32,
    /// Fields that arrays of one level do not use.
    pub levels: [u32; 7],
}

/// The program's description of an object; a surface has no texture description.
#[derive(Debug, Clone, Copy)]
pub struct Description {
    pub resource: ResourceWords,
    pub texture: Option<TextureDesc>,
}

#[derive(Debug, Default)]
pub struct Images {
    book: Book,
    /// Descriptions of the objects that exist for the program.
    descriptions: Mutex<BTreeMap<u64, Description>>,
    /// Objects that the program has destroyed, with the work that may still use them.
    destroyed: Mutex<Vec<(u64, Vec<Arc<Completion>>)>>,
}

impl Images {
    /// Adds an object and returns its number; `None` if there are too many.
    pub fn add(&self, device: u32, object: Object, description: Description) -> Option<u64> {
        self.sweep();
        let number = self.book.add(device, object)?;
        self.descriptions.lock().insert(number, description);
        Some(number)
    }

    /// Destroys an object; false if it does not exist. `work`: all work that may still use it.
    pub fn destroy(&self, number: u64, is_texture: bool, work: Vec<Arc<Completion>>) -> bool {
        let mut descriptions = self.descriptions.lock();
        if descriptions.get(&number).is_none_or(|found| found.texture.is_some() != is_texture) {
            return false;
        }
        descriptions.remove(&number);
        drop(descriptions);
        self.destroyed.lock().push((number, work));
        self.sweep();
        true
    }

    fn sweep(&self) {
        let is_over = |work: &Vec<Arc<Completion>>| work.iter().all(|work| work.clock_ns().is_some());
        self.destroyed.lock().retain(|(number, work)| {
            let over = is_over(work);
            if over {
                self.book.remove(*number);
            }
            !over
        });
    }

    pub fn description(&self, number: u64) -> Option<Description> {
        self.descriptions.lock().get(&number).copied()
    }

    pub fn forget_device(&self, device: u32) {
        self.book.forget_device(device);
        let left = self.book.now();
        self.descriptions.lock().retain(|&number, _| left.get(number).is_some());
    }

    /// The objects as a launch sees them now.
    pub fn now(&self) -> Arc<Objects> {
        self.sweep();
        self.book.now()
    }
}
