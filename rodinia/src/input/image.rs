//! Synthetic images: smooth gradients with seeded noise, so that a transform of them is neither trivial nor random.
//!
//! Trap: dwt2d reads raw bytes; a header would be read as pixels.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::io::{self, Write};

/// Writes interleaved 8-bit RGB, row by row, without a header.
///
/// # Errors
/// Writing fails.
pub fn write_rgb(width: u32, height: u32, seed: u64, out: &mut dyn Write) -> io::Result<()> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut row = Vec::with_capacity(width as usize * 3);
    for y in 0..height {
        row.clear();
        for x in 0..width {
            row.extend([shade(x, width, &mut rng), shade(y, height, &mut rng), shade(x ^ y, 256, &mut rng)]);
        }
        out.write_all(&row)?;
    }
    Ok(())
}

/// Writes a text PGM (`P2`), which srad_v1 reads with `-i`.
///
/// # Errors
/// Writing fails.
pub fn write_pgm(width: u32, height: u32, seed: u64, out: &mut dyn Write) -> io::Result<()> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    writeln!(out, "P2\n{width} {height}\n255")?;
    for y in 0..height {
        let row: Vec<String> =
            (0..width).map(|x| shade(x + y, width + height, &mut rng).to_string()).collect();
        writeln!(out, "{}", row.join(" "))?;
    }
    Ok(())
}

/// Brightness on a ramp from dark to bright over `span`, with up to 31 levels of noise.
fn shade(at: u32, span: u32, rng: &mut ChaCha8Rng) -> u8 {
    let ramp = u64::from(at % span.max(1)) * 220 / u64::from(span.max(1));
    ramp as u8 + rng.random_range(0..32)
}
