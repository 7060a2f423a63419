//! Chooses the devices for a program that wants memory on several. Pure.
//!
//! Trap: a program holds some devices while it waits for the next. All programs must take devices in ascending order,
//! so that no two can wait for each other.

use anyhow::bail;
use eager_proto::admin::DeviceRow;
use eager_proto::request::BEGIN_BARRED_DEVICES;
use eager_units::{Barred, Size};
use std::cmp::Reverse;

/// Candidate devices in ascending order, of which the program gets `count`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    candidates: Vec<u32>,
    count: usize,
}

impl Choice {
    /// One device, any.
    pub const ONE: Choice = Choice { candidates: Vec::new(), count: 1 };

    /// Chooses among the devices as they are now: those with room if there are enough, else those large enough that
    /// are not drained, else all that are large enough.
    pub fn among(devices: &[DeviceRow], memory: Size, count: usize) -> anyhow::Result<Choice> {
        if devices.iter().any(|device| device.device >= BEGIN_BARRED_DEVICES) {
            bail!(
                "several GPUs can be chosen among {BEGIN_BARRED_DEVICES} at most, and the daemon serves more"
            );
        }
        let able: Vec<&DeviceRow> = devices.iter().filter(|device| device.can_hold(memory)).collect();
        if able.len() < count {
            bail!("{count} GPUs with {memory} each: the daemon has {} that large", able.len());
        }
        let taking: Vec<&DeviceRow> =
            able.iter().copied().filter(|device| device.drained_ms.is_none()).collect();
        let mut roomy: Vec<&DeviceRow> =
            taking.iter().copied().filter(|device| device.free_bytes >= memory.0).collect();
        let chosen = if roomy.len() >= count {
            roomy.sort_by_key(|device| (Reverse(device.free_bytes), device.device));
            roomy.truncate(count);
            roomy
        } else if taking.len() >= count {
            taking
        } else {
            able
        };
        let mut candidates: Vec<u32> = chosen.iter().map(|device| device.device).collect();
        candidates.sort_unstable();
        Ok(Choice { candidates, count })
    }

    /// Returns the devices that the next request may not get. `held`: devices of the earlier requests.
    pub fn barred(&self, held: &[u32]) -> Barred {
        if self.candidates.is_empty() {
            return Barred::default();
        }
        let to_come = self.count.saturating_sub(held.len() + 1);
        let later = self.candidates.iter().filter(|device| held.last().is_none_or(|last| *device > last));
        let later: Vec<u32> = later.copied().collect();
        let open = &later[..later.len().saturating_sub(to_come)];
        let allowed: u64 = open.iter().map(|device| 1 << device).sum();
        // Devices from this number on have no bit.
        Barred(!allowed & (u64::MAX >> (u64::BITS - BEGIN_BARRED_DEVICES)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eager_units::DeviceId;

    const GIB: u64 = 1 << 30;

    fn devices(free_gib: &[u64]) -> Vec<DeviceRow> {
        let device = |(device, free): (u32, &u64)| DeviceRow {
            device,
            capacity_bytes: 16 * GIB,
            free_bytes: free * GIB,
            ..DeviceRow::default()
        };
        (0..).zip(free_gib).map(device).collect()
    }

    fn allowed(choice: &Choice, held: &[u32]) -> Vec<u32> {
        let barred = choice.barred(held);
        (0..BEGIN_BARRED_DEVICES).filter(|device| !barred.has(DeviceId(*device))).collect()
    }

    #[test]
    fn those_with_most_room_are_taken_in_the_order_of_their_numbers() {
        let choice = Choice::among(&devices(&[9, 16, 2, 12]), Size(8 * GIB), 2).expect("there is room");
        assert_eq!((allowed(&choice, &[]), allowed(&choice, &[1])), (vec![1], vec![3]));
    }

    #[test]
    fn without_room_each_leaves_as_many_behind_it_as_are_still_to_come() {
        let mut devices = devices(&[1, 1, 16, 1, 1]);
        devices[3].drained_ms = Some(5);
        let choice = Choice::among(&devices, Size(8 * GIB), 3).expect("there are enough");
        assert_eq!(allowed(&choice, &[]), [0, 1]);
        assert_eq!(allowed(&choice, &[0]), [1, 2]);
        assert_eq!(allowed(&choice, &[0, 2]), [4]);
        // A device that takes no new task is used only if there are too few other devices.
        let all = Choice::among(&devices, Size(8 * GIB), 5).expect("there are enough");
        assert_eq!(allowed(&all, &[0, 1, 2]), [3]);
    }

    #[test]
    fn too_few_are_said() {
        let mut devices = devices(&[16, 16]);
        devices[1].lost = true;
        let said = Choice::among(&devices, Size(8 * GIB), 2).expect_err("one is lost").to_string();
        assert_eq!(said, "2 GPUs with 8GiB each: the daemon has 1 that large");
        devices[0].device = BEGIN_BARRED_DEVICES;
        assert!(Choice::among(&devices, Size(8 * GIB), 1).is_err());
        assert_eq!(Choice::ONE.barred(&[]), Barred::default());
    }
}
