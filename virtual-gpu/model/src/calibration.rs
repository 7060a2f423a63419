//! Makes a card from times measured on a GPU, and compares the model's times with them. Pure: reads the output of
//! `calibrate/calibrate.cu`, returns a card file or a table.
//!
//! Traps: a card holds peak rates, of which kernels reach a part (`Options::dram_efficiency`, `compute_efficiency`), so
//! rates must be written above the measured ones. Evictions cannot be measured without over-subscribing the device, so
//! their cost stays that of the nearest known link.

use crate::card::{CardFile, LinkFile, LinkOf, Sourced, links};
use crate::options::Options;
use crate::residency::BLOCK_BYTES;
use eager_measure::statistics::{median, spread};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Parsed output of one run of the program.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    device: DeviceFacts,
    /// Milliseconds by (measure, amount); the amount is in bytes, operations or launches.
    samples: BTreeMap<(String, u64), Vec<f64>>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceFacts {
    name: String,
    major: u32,
    minor: u32,
    memory_bytes: u64,
    sms: u32,
    threads_per_sm: u32,
    blocks_per_sm: u32,
    shared_bytes_per_sm: u32,
    registers_per_sm: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sample {
    measure: String,
    amount: u64,
    ms: f64,
}

/// Why an output of the program cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    #[error("line {line}: {error}")]
    Malformed { line: usize, error: serde_json::Error },
    #[error("line {line}: {ms} ms is not a valid time")]
    InvalidTime { line: usize, ms: f64 },
}

/// Why an output of the program describes no card.
#[derive(Debug, thiserror::Error)]
pub enum CardFileError {
    #[error("no time was measured for {measure}")]
    Unmeasured { measure: &'static str },
    #[error("{measure} takes no longer than a launch: measure larger amounts")]
    TooShort { measure: &'static str },
    #[error("no link is known")]
    NoLink,
    #[error("fault_in was measured for one amount only")]
    OneAmount,
    #[error("faults took no longer than resident memory: managed memory is not paged on this machine")]
    NotPaged,
    #[error(transparent)]
    Toml(#[from] toml::ser::Error),
}

/// A measured time beside the modelled one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    pub measure: String,
    pub amount: u64,
    /// Median milliseconds.
    pub measured_ms: f64,
    /// Half the interquartile range, relative to the median.
    pub spread: f64,
    pub modelled_ms: f64,
}

impl Measured {
    /// Parses the program's output: a line that describes the device, then samples.
    pub fn read(text: &str) -> Result<Measured, OutputError> {
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        let malformed = |line| move |error| OutputError::Malformed { line, error };
        let device = serde_json::from_str(first).map_err(malformed(1))?;
        let mut samples: BTreeMap<(String, u64), Vec<f64>> = BTreeMap::new();
        for (line, text) in (2..).zip(lines) {
            let Sample { measure, amount, ms } = serde_json::from_str(text).map_err(malformed(line))?;
            if !(ms.is_finite() && ms >= 0.0) {
                return Err(OutputError::InvalidTime { line, ms });
            }
            samples.entry((measure, amount)).or_default().push(ms);
        }
        Ok(Measured { device, samples })
    }

    /// Name for a card of this device: `H200` for `NVIDIA H200`.
    pub fn card_name(&self) -> String {
        let words: Vec<&str> =
            self.device.name.split_whitespace().filter(|word| !matches!(*word, "NVIDIA" | "Tesla")).collect();
        words.join("-")
    }

    /// Median seconds of a measure, by ascending amount.
    fn medians(&self, measure: &str) -> Vec<(f64, f64)> {
        let of = self.samples.iter().filter(|((name, _), _)| name == measure);
        of.map(|((_, amount), times)| (*amount as f64, median(times) / 1e3)).collect()
    }

    fn median(&self, measure: &'static str) -> Result<(f64, f64), CardFileError> {
        let found = self.medians(measure).last().copied();
        found.filter(|(_, seconds)| *seconds > 0.0).ok_or(CardFileError::Unmeasured { measure })
    }

    /// Amount per second, after subtracting `overhead` seconds.
    fn rate(&self, measure: &'static str, overhead: f64) -> Result<f64, CardFileError> {
        let (amount, seconds) = self.median(measure)?;
        if seconds <= overhead {
            return Err(CardFileError::TooShort { measure });
        }
        Ok(amount / (seconds - overhead))
    }

    /// A card file that describes the device under the name `name`.
    pub fn card_file(&self, name: &str, options: &Options) -> Result<String, CardFileError> {
        let device = &self.device;
        let (launches, seconds) = self.median("launches")?;
        let launch = seconds / launches;
        let from_runtime = "reported by the CUDA runtime";
        let rates = "measured by eager calibrate";
        let memory = |measure, part: f64, what: &str| -> Result<Sourced<f64>, CardFileError> {
            let source = format!("{rates}, over the {part} of the peak that kernels reach ({what})");
            Ok(Sourced { value: round(self.rate(measure, launch)? / part), source })
        };
        let file = CardFile {
            name: name.to_owned(),
            compute_capability: format!("{}.{}", device.major, device.minor),
            link: LinkOf::Own(Box::new(self.link(options, launch)?)),
            memory_bytes: sourced(device.memory_bytes, from_runtime),
            dram_bytes_per_s: memory(
                "read_and_write",
                options.dram_efficiency,
                "model option dram_efficiency",
            )?,
            sms: sourced(device.sms, from_runtime),
            flops32_per_s: memory("flops32", options.compute_efficiency, "model option compute_efficiency")?,
            flops64_per_s: memory("flops64", options.compute_efficiency, "model option compute_efficiency")?,
            threads_per_sm: sourced(device.threads_per_sm, from_runtime),
            blocks_per_sm: sourced(device.blocks_per_sm, from_runtime),
            shared_bytes_per_sm: sourced(device.shared_bytes_per_sm, from_runtime),
            registers_per_sm: sourced(device.registers_per_sm, from_runtime),
            unknown: ["clock_khz", "memory_clock_khz", "memory_bus_bits", "l2_bytes"]
                .map(str::to_owned)
                .into(),
            clock_khz: None,
            memory_clock_khz: None,
            memory_bus_bits: None,
            l2_bytes: None,
        };
        let text = toml::to_string(&file)?;
        let header = format!("# {name}: measured on {} by `eager calibrate`.\n", device.name);
        Ok(header + &self.option_comments(launch) + "\n" + &text)
    }

    /// Comment lines on values that the model takes from its options, the same for all cards.
    fn option_comments(&self, launch: f64) -> String {
        let launch = format!("# One launch after another: {:.2} us.\n", launch * 1e6);
        let slices = self.stall().map(|(stall, share)| {
            let (stall, share) = (stall * 1e3, share * 100.0);
            format!("# Beside another program {share:.0} % of short kernels were stalled, by {stall:.2} ms (median).\n")
        });
        launch + &slices.unwrap_or_default()
    }

    /// Seconds by which another program's time slice delays a short kernel, and the share of kernels that are delayed.
    fn stall(&self) -> Option<(f64, f64)> {
        let (_, alone) = self.median("kernel_alone").ok()?;
        let times = self.samples.get(&("kernel_beside_a_neighbour".to_owned(), 1))?;
        let stalled: Vec<f64> =
            times.iter().map(|ms| ms / 1e3 - alone).filter(|more| *more > alone).collect();
        (!stalled.is_empty()).then(|| (median(&stalled), stalled.len() as f64 / times.len() as f64))
    }

    fn link(&self, options: &Options, launch: f64) -> Result<LinkFile, CardFileError> {
        let (up, down) = (self.rate("copy_to_device", 0.0)?, self.rate("copy_to_host", 0.0)?);
        let known = links();
        let distance = |link: &LinkFile| (link.copy_to_device_bytes_per_s.value / up).ln().abs();
        let nearest = known.iter().min_by(|a, b| distance(a.1).total_cmp(&distance(b.1)));
        let (generation, nearest) = nearest.ok_or(CardFileError::NoLink)?;
        let (bytes, both) = self.median("copy_both_ways")?;
        // The copy to the device is slower while the copy out is busy, and has its own rate after that ends.
        let out = bytes / down;
        let duplex = ((bytes - up * (both - out).max(0.0)) / (up * out)).clamp(0.01, 1.0);
        let (batch, migrate) = self.faults(options, nearest.block_ns.value / 1e9)?;
        let rates = "measured by eager calibrate";
        let taken = |of: &Sourced<f64>| sourced(of.value, &format!("of {generation}: {}", of.source));
        Ok(LinkFile {
            copy_to_device_bytes_per_s: sourced(round(up), rates),
            prefetch_bytes_per_s: sourced(round(self.rate("prefetch", launch)?), rates),
            copy_to_host_bytes_per_s: sourced(round(down), rates),
            migrate_bytes_per_s: sourced(round(migrate), &format!("{rates}, with block_ns of {generation}")),
            batch_ns: sourced(round(batch * 1e9), &format!("{rates}, with block_ns of {generation}")),
            block_ns: taken(&nearest.block_ns),
            page_ns: taken(&nearest.page_ns),
            eviction_ns: taken(&nearest.eviction_ns),
            duplex_factor: sourced(round(duplex), rates),
        })
    }

    /// Seconds of a fault batch, and the rate at which blocks move in it. With `n` blocks a kernel takes longer than
    /// with resident blocks by `batches(n) * batch + n * (block + 2 MiB / migrate)` (specification S-629); one block is
    /// one batch, many are `n / Options::batch_blocks`.
    fn faults(&self, options: &Options, block: f64) -> Result<(f64, f64), CardFileError> {
        let resident = self.medians("fault_in_resident");
        let extra: Vec<(f64, f64)> = self
            .medians("fault_in")
            .iter()
            .zip(&resident)
            .map(|((bytes, faulted), (_, resident))| (bytes / BLOCK_BYTES as f64, faulted - resident))
            .collect();
        let (Some(&(1.0, one)), Some(&(many, all))) = (extra.first(), extra.last()) else {
            return Err(CardFileError::Unmeasured { measure: "fault_in of one block" });
        };
        if extra.len() < 2 {
            return Err(CardFileError::OneAmount);
        }
        let batches = (many / f64::from(options.batch_blocks.max(1))).ceil();
        // one = batch + part, all = batches * batch + many * part, with part = block + 2 MiB / migrate
        let part = (all - batches * one) / (many - batches);
        let moving = part - block;
        if !(moving > 0.0 && moving.is_finite()) {
            return Err(CardFileError::NotPaged);
        }
        Ok(((one - part).max(0.0), BLOCK_BYTES as f64 / moving))
    }

    /// Pairs each measure with that of another run, where both have it.
    pub fn compare(&self, modelled: &Measured) -> Vec<Comparison> {
        let beside = |((measure, amount), times): (&(String, u64), &Vec<f64>)| {
            let other = modelled.samples.get(&(measure.clone(), *amount))?;
            let measured_ms = median(times);
            Some(Comparison {
                measure: measure.clone(),
                amount: *amount,
                measured_ms,
                spread: spread(times),
                modelled_ms: median(other),
            })
        };
        self.samples.iter().filter_map(beside).collect()
    }
}

fn sourced<T>(value: T, source: &str) -> Sourced<T> {
    Sourced { value, source: source.to_owned() }
}

/// Rounds to four significant digits; more would claim a precision that no measurement has.
fn round(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::parse_cards;

    const DEVICE: &str = r#"{"name":"NVIDIA H200","major":9,"minor":0,"memory_bytes":149250113536,"sms":132,
"threads_per_sm":2048,"blocks_per_sm":32,"shared_bytes_per_sm":233472,"registers_per_sm":65536}"#;

    /// Output of a run with the times that the model gives a link of known numbers.
    fn run() -> String {
        let mut text = DEVICE.replace('\n', "") + "\n";
        let mut add = |measure: &str, amount: f64, seconds: f64| {
            // The median is the middle value.
            for factor in [0.9, 1.0, 1.3] {
                let ms = seconds * factor * 1e3;
                text += &format!("{{\"measure\":\"{measure}\",\"amount\":{amount:.0},\"ms\":{ms:.9}}}\n");
            }
        };
        let launch = 2e-6;
        let bytes = 256.0 * 1048576.0;
        add("launches", 1000.0, 1000.0 * launch);
        add("copy_to_device", bytes, bytes / 50e9);
        add("copy_to_host", bytes, bytes / 40e9);
        // At 40 GB/s in until the copy out has ended, when nothing is left to copy in.
        add("copy_both_ways", bytes, bytes / 40e9);
        add("prefetch", bytes, bytes / 45e9 + launch);
        add("read_and_write", 2.0 * bytes, 2.0 * bytes / 3e12 + launch);
        add("flops32", 1e12, 1e12 / 30e12 + launch);
        add("flops64", 1e12, 1e12 / 15e12 + launch);
        // pcie5 is the nearest link: a block costs 6 us there.
        for blocks in [1.0f64, 4.0, 64.0] {
            let resident = launch + blocks * 1e-6;
            let moved = blocks * (6e-6 + BLOCK_BYTES as f64 / 30e9);
            add("fault_in", blocks * BLOCK_BYTES as f64, resident + (blocks / 8.0).ceil() * 35e-6 + moved);
            add("fault_in_resident", blocks * BLOCK_BYTES as f64, resident);
        }
        text
    }

    #[test]
    fn a_card_is_what_was_measured() {
        let measured = Measured::read(&run()).unwrap();
        assert_eq!(measured.card_name(), "H200");
        let text = measured.card_file("H200-here", &Options::default()).unwrap();
        assert!(text.starts_with("# H200-here: measured on NVIDIA H200"), "{text}");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("here.toml");
        std::fs::write(&path, &text).unwrap();
        let card = parse_cards(&path.display().to_string()).unwrap().remove(0);
        assert_eq!((card.name.as_str(), card.sms, card.memory_bytes), ("H200-here", 132, 149_250_113_536));
        let near = |found: f64, expected: f64| {
            assert!((found / expected - 1.0).abs() < 2e-3, "{found} is not {expected}\n{text}");
        };
        near(card.link.copy_to_device_bytes_per_s, 50e9);
        near(card.link.copy_to_host_bytes_per_s, 40e9);
        near(card.link.duplex_factor, 0.8);
        near(card.link.prefetch_bytes_per_s, 45e9);
        near(card.link.migrate_bytes_per_s, 30e9);
        near(card.link.batch_ns, 35e3);
        near(card.link.block_ns, 6e3);
        near(card.dram_bytes_per_s, 3e12 / 0.75);
        near(card.flops32_per_s, 30e12 / 0.5);
        near(card.flops64_per_s, 15e12 / 0.5);
    }

    #[test]
    fn stalls_are_what_short_kernels_take_longer() {
        let mut text = run();
        for ms in [0.1, 0.1, 0.1, 0.1, 1.2, 1.3] {
            let measure = "kernel_beside_a_neighbour";
            text += &format!("{{\"measure\":\"{measure}\",\"amount\":1,\"ms\":{ms}}}\n");
        }
        text += "{\"measure\":\"kernel_alone\",\"amount\":1,\"ms\":0.1}\n";
        let text = Measured::read(&text).unwrap().card_file("x", &Options::default()).unwrap();
        assert!(text.contains("33 % of short kernels were stalled, by 1.15 ms"), "{text}");
    }

    #[test]
    fn a_run_is_compared_with_another_measure_by_measure() {
        let measured = Measured::read(&run()).unwrap();
        let same = measured.compare(&measured);
        assert_eq!(same.len(), 14);
        assert!(same.iter().all(|row| row.measured_ms == row.modelled_ms && row.spread > 0.0));
    }

    #[test]
    fn what_is_missing_or_makes_no_sense_is_said() {
        let none = Measured::read(DEVICE.replace('\n', "").as_str()).unwrap();
        let error = none.card_file("x", &Options::default()).unwrap_err();
        assert_eq!(error.to_string(), "no time was measured for launches");
        assert!(Measured::read("").unwrap_err().to_string().starts_with("line 1: "));
        let damaged = run() + "{\"measure\":\"flops32\"";
        assert!(Measured::read(&damaged).unwrap_err().to_string().starts_with("line 44: "));
        let resident = run().replace("\"fault_in\"", "\"other\"").replace("fault_in_resident", "fault_in");
        assert!(Measured::read(&resident).unwrap().card_file("x", &Options::default()).is_err());
    }
}
