//! Numbers the GPUs after a restart: each keeps the number under which running programs know it. Pure.
//!
//! Trap: a driver counts its GPUs anew when one is added, removed or lost, and `--gpus` may have changed. A grant of an
//! earlier daemon names only a number, so a shifted number would charge it to the wrong device.

use crate::devices::selection::{Chosen, Gpu, parse_uuid};
use crate::persistence::state_file::KeptDevice;
use eager_proto::hello::DEVICES_MAX;
use std::collections::BTreeMap;

/// State in this daemon of a device that an earlier daemon served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceStatus {
    /// The device is served.
    Served,
    /// The device is present, but was not chosen or cannot be served: programs on it may finish there.
    NotServed,
    /// The driver does not report the device.
    Missing,
}

/// Devices by number.
#[derive(Debug, Default, PartialEq)]
pub struct Numbered {
    pub gpus: Vec<Gpu>,
    pub statuses: Vec<DeviceStatus>,
    /// GPUs for which there is no number left.
    pub left_out: Vec<String>,
}

/// Numbers the chosen devices: the devices of `before` keep their numbers, new devices come after them.
pub fn keep_numbers(before: &[KeptDevice], chosen: Chosen) -> Numbered {
    let Chosen { gpus: mut fresh, not_served, mut left_out } = chosen;
    let mut numbered = Numbered::default();
    for KeptDevice { uuid, profile } in before.iter().take(DEVICES_MAX) {
        // A device with an invalid uuid (someone edited the file) keeps its number all the same.
        let bytes = parse_uuid(uuid).unwrap_or_default();
        let absent = Gpu { uuid: uuid.clone(), bytes, profile: profile.clone() };
        let status = if not_served.contains(uuid) { DeviceStatus::NotServed } else { DeviceStatus::Missing };
        let there = fresh.iter().position(|gpu| gpu.uuid == *uuid).map(|at| fresh.remove(at));
        let (gpu, status) = there.map_or((absent, status), |gpu| (gpu, DeviceStatus::Served));
        numbered.gpus.push(gpu);
        numbered.statuses.push(status);
    }
    for gpu in fresh {
        if numbered.gpus.len() == DEVICES_MAX {
            left_out.push(format!("{} is not served: {DEVICES_MAX} devices are known already", gpu.uuid));
            continue;
        }
        numbered.gpus.push(gpu);
        numbered.statuses.push(DeviceStatus::Served);
    }
    numbered.left_out = left_out;
    numbered
}

/// Renumbers an earlier daemon's drains to this daemon's devices; drains of devices that are gone are dropped.
pub fn renumber_drains(
    drained: &BTreeMap<u32, u64>,
    before: &[KeptDevice],
    now: &[Gpu],
) -> BTreeMap<u32, u64> {
    let number = |old: u32| {
        let uuid = &before.get(old as usize)?.uuid;
        u32::try_from(now.iter().position(|gpu| gpu.uuid == *uuid)?).ok()
    };
    drained.iter().filter_map(|(&old, &at_ns)| Some((number(old)?, at_ns))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::selection::tests::profile;

    fn uuid(name: u8) -> String {
        format!("GPU-{name:02x}000000-0000-0000-0000-000000000000")
    }

    fn kept(names: &[u8]) -> Vec<KeptDevice> {
        names.iter().map(|&name| KeptDevice { uuid: uuid(name), profile: profile() }).collect()
    }

    fn chosen(names: &[u8], not_served: &[u8]) -> Chosen {
        let gpu = |&name: &u8| Gpu {
            bytes: parse_uuid(&uuid(name)).expect("a uuid"),
            uuid: uuid(name),
            profile: profile(),
        };
        let not_served = not_served.iter().map(|&name| uuid(name)).collect();
        Chosen { gpus: names.iter().map(gpu).collect(), not_served, left_out: Vec::new() }
    }

    fn numbers(numbered: &Numbered) -> Vec<(u8, DeviceStatus)> {
        numbered.gpus.iter().map(|gpu| gpu.bytes[0]).zip(numbered.statuses.iter().copied()).collect()
    }

    #[test]
    fn without_an_earlier_daemon_the_drivers_order_holds() {
        let numbered = keep_numbers(&[], chosen(&[9, 3, 7], &[]));
        assert_eq!(numbers(&numbered), [9, 3, 7].map(|name| (name, DeviceStatus::Served)));
    }

    #[test]
    fn a_known_device_keeps_its_number_wherever_the_driver_counts_it() {
        let numbered = keep_numbers(&kept(&[1, 2, 3]), chosen(&[4, 3, 1], &[2]));
        let expected = [
            (1, DeviceStatus::Served),
            (2, DeviceStatus::NotServed),
            (3, DeviceStatus::Served),
            (4, DeviceStatus::Served),
        ];
        assert_eq!(numbers(&numbered), expected);
        assert_eq!(numbers(&keep_numbers(&kept(&[1]), chosen(&[2], &[])))[0], (1, DeviceStatus::Missing));
    }

    #[test]
    fn there_are_no_more_numbers_than_a_program_can_be_told() {
        let before: Vec<u8> = (0..DEVICES_MAX as u8).collect();
        let numbered = keep_numbers(&kept(&before), chosen(&[200], &[]));
        assert_eq!((numbered.gpus.len(), numbered.left_out.len()), (DEVICES_MAX, 1));
    }

    #[test]
    fn drains_follow_their_devices() {
        let drained = BTreeMap::from([(0, 5), (1, 6), (2, 7)]);
        let now = keep_numbers(&[], chosen(&[3, 1], &[]));
        let renumbered = renumber_drains(&drained, &kept(&[1, 2, 3]), &now.gpus);
        assert_eq!(renumbered, BTreeMap::from([(1, 5), (0, 7)]));
    }
}
