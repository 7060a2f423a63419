//! Which of the devices that this program sees is the daemon's device of a number. Pure.
//!
//! Trap: CUDA numbers GPUs by speed, or by the bus (`CUDA_DEVICE_ORDER`), and leaves out those that `CUDA_VISIBLE_DEVICES`
//! does not name; the daemon's numbers mean nothing to it. Only a GPU's uuid is the same for both.

use crate::runtime::DeviceIndex;
use eager_proto::hello::Uuid;

/// Numbers of the program's by numbers of the daemon's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Visible {
    /// Both have the same (virtual GPUs).
    Same,
    /// `None`: the program does not see it.
    ByUuid(Vec<Option<i32>>),
}

impl Visible {
    /// `daemons`: by the daemon's numbers; none where both count the same. `seen`: by the program's.
    pub fn new(daemons: &[Uuid], seen: &[Option<Uuid>]) -> Visible {
        if daemons.is_empty() {
            return Visible::Same;
        }
        let number = |uuid: &Uuid| {
            let position = seen.iter().position(|seen| seen.as_ref() == Some(uuid));
            position.and_then(|position| i32::try_from(position).ok())
        };
        Visible::ByUuid(daemons.iter().map(number).collect())
    }

    /// A device that the program does not see gets a number that CUDA refuses.
    pub fn here(&self, device: u32) -> DeviceIndex {
        let number = match self {
            Visible::Same => i32::try_from(device).ok(),
            Visible::ByUuid(numbers) => numbers.get(device as usize).copied().flatten(),
        };
        number.map_or(DeviceIndex::NONE, DeviceIndex)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_known_by_their_uuids_whatever_their_order() {
        let [a, b, c] = [[1; 16], [2; 16], [3; 16]];
        let visible = Visible::new(&[a, b, c], &[Some(c), None, Some(a)]);
        assert_eq!(visible.here(0), DeviceIndex(2));
        assert_eq!(visible.here(2), DeviceIndex(0));
        assert_eq!((visible.here(1), visible.here(9)), (DeviceIndex::NONE, DeviceIndex::NONE));
    }

    #[test]
    fn without_uuids_the_numbers_are_the_same() {
        let visible = Visible::new(&[], &[Some([1; 16])]);
        assert_eq!((visible.here(3), visible.here(u32::MAX)), (DeviceIndex(3), DeviceIndex::NONE));
    }
}
