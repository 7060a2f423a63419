//! The program's texture and surface objects, and how it described them.
//!
//! Trap: programs destroy objects that kernels they have launched are yet to use; so an object is gone for the program at
//! once, and for kernels when the work is over that was there at the time. And `cudaResourceDesc` is longer in CUDA 13
//! than in CUDA 12.

use std::collections::BTreeMap;
use std::sync::Arc;

use eager_exec::image::{Book, Object, Objects};
use parking_lot::Mutex;

use crate::stream::Completion;

/// Words of `cudaResourceDesc`.
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
    /// What an array of one level has no use for.
    pub levels: [u32; 7],
}

/// What the program said of an object; a surface has no texture description.
#[derive(Debug, Clone, Copy)]
pub struct Description {
    pub resource: ResourceWords,
    pub texture: Option<TextureDesc>,
}

#[derive(Debug, Default)]
pub struct Images {
    book: Book,
    /// Of those that are there for the program.
    descriptions: Mutex<BTreeMap<u64, Description>>,
    /// Those that are not, and the work that may still use them.
    destroyed: Mutex<Vec<(u64, Vec<Arc<Completion>>)>>,
}

impl Images {
    /// The number of a new object; `None` if there are too many.
    pub fn add(&self, device: u32, object: Object, description: Description) -> Option<u64> {
        self.sweep();
        let number = self.book.add(device, object)?;
        self.descriptions.lock().insert(number, description);
        Some(number)
    }

    /// Whether there was such an object; `work` is all that may use it.
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

    /// As they are now, for a launch.
    pub fn now(&self) -> Arc<Objects> {
        self.sweep();
        self.book.now()
    }
}
