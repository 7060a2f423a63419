//! Maps the daemon's device numbers to those of this program. Pure.
//!
//! Trap: CUDA numbers GPUs by speed, or by the bus (`CUDA_DEVICE_ORDER`), and omits those that `CUDA_VISIBLE_DEVICES`
//! does not name, so the daemon's numbers are not valid for it. Only a GPU's UUID is the same for both.

use crate::runtime::DeviceIndex;
use eager_proto::hello::Uuid;

/// The program's device numbers by the daemon's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Visible {
    /// Both use the same numbers (virtual GPUs).
    Same,
    /// `None`: the program does not see the device.
    ByUuid(Vec<Option<i32>>),
}

impl Visible {
    /// `daemons`: UUIDs by the daemon's numbers; empty where both use the same numbers. `seen`: UUIDs by the
    /// program's numbers.
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

    /// The program's number of a daemon's device; for a device that the program does not see, a number that CUDA
    /// rejects.
    pub fn program_device(&self, device: u32) -> DeviceIndex {
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
        assert_eq!(visible.program_device(0), DeviceIndex(2));
        assert_eq!(visible.program_device(2), DeviceIndex(0));
        assert_eq!(
            (visible.program_device(1), visible.program_device(9)),
            (DeviceIndex::NONE, DeviceIndex::NONE)
        );
    }

    #[test]
    fn without_uuids_the_numbers_are_the_same() {
        let visible = Visible::new(&[], &[Some([1; 16])]);
        assert_eq!(
            (visible.program_device(3), visible.program_device(u32::MAX)),
            (DeviceIndex(3), DeviceIndex::NONE)
        );
    }
}
