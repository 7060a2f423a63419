//! Checks registers and shared memory read from the GPU code against the numbers that ptxas itself prints.
//!
//! If tools are missing, the tests are skipped with a message.

use std::path::{Path, PathBuf};
use std::process::Command;

use eager_kernel_facts::resources::{ResourceError, of_fatbin};

const PTX: &str = r"
.version 8.0
.target TARGET
.address_size 64
.visible .entry plain(.param .u64 out) {
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [out];
  cvta.to.global.u64 %rd2, %rd1;
  st.global.u64 [%rd2], %rd1;
  ret;
}
.visible .entry shared(.param .u64 out) {
  .shared .align 4 .b8 part[3000];
  .reg .b64 %rd<3>;
  .reg .b32 %r<6>;
  ld.param.u64 %rd1, [out];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, part;
  add.s32 %r4, %r3, %r2;
  st.shared.u32 [%r4], %r1;
  bar.sync 0;
  ld.shared.u32 %r5, [part];
  st.global.u32 [%rd2], %r5;
  ret;
}
";

fn tools() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.toolchain");
    let trees = ["cuda-13.0", "cuda-12.9"].map(|tree| root.join(tree).join("bin"));
    let found: Vec<_> = trees.into_iter().filter(|bin| bin.join("ptxas").is_file()).collect();
    if found.is_empty() {
        eprintln!("SKIPPED: no ptxas under {}: run ./setup.sh", root.display());
    }
    found
}

/// Builds the image for `arch` and returns the numbers that ptxas prints for each kernel, in the order of the file.
fn assemble(bin: &Path, folder: &Path, arch: &str) -> Vec<(u32, u32)> {
    std::fs::write(folder.join("a.ptx"), PTX.replace("TARGET", arch)).unwrap();
    let ran = Command::new(bin.join("ptxas"))
        .current_dir(folder)
        .args(["-v", &format!("-arch={arch}"), "a.ptx", "-o", &format!("{arch}.cubin")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success(), "{said}");
    let number = |line: &str, unit: &str| -> u32 {
        let before = line.split(unit).next().filter(|_| line.contains(unit));
        before.and_then(|text| text.split_whitespace().last()?.parse().ok()).unwrap_or(0)
    };
    let used = said.lines().filter(|line| line.contains("Used "));
    let mut found: Vec<_> =
        used.map(|line| (number(line, " registers"), number(line, " bytes smem"))).collect();
    // ptxas compiles the last kernel first.
    found.reverse();
    found
}

fn bundle(bin: &Path, folder: &Path, arches: &[&str], words: &[&str]) -> Vec<u8> {
    let images = arches
        .iter()
        .map(|arch| format!("--image3=kind=elf,sm={},file={arch}.cubin", arch.trim_start_matches("sm_")));
    let ran = Command::new(bin.join("fatbinary"))
        .current_dir(folder)
        .args(["-64", "--create=a.fatbin"])
        .args(words)
        .args(images)
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    std::fs::read(folder.join("a.fatbin")).unwrap()
}

#[test]
fn numbers_are_those_of_ptxas() {
    for bin in tools() {
        let folder = tempfile::tempdir().unwrap();
        for arch in ["sm_80", "sm_90"] {
            let said = assemble(&bin, folder.path(), arch);
            let compressed: &[&[&str]] =
                &[&[], &["--compress-all"], &["--compress-all", "--compress-mode=size"]];
            for words in compressed {
                let code = bundle(&bin, folder.path(), &[arch], words);
                let found = of_fatbin(&code).unwrap();
                let read: Vec<_> = ["plain", "shared"]
                    .map(|kernel| (found[kernel].registers, found[kernel].shared_bytes))
                    .to_vec();
                assert_eq!(read, said, "{} {arch} {words:?}", bin.display());
                assert_eq!((read[0].1, read[1].1), (0, 3000));
            }
        }
    }
}

#[test]
fn of_several_architectures_the_largest_counts() {
    for bin in tools() {
        let folder = tempfile::tempdir().unwrap();
        let said = ["sm_80", "sm_90"].map(|arch| assemble(&bin, folder.path(), arch));
        let code = bundle(&bin, folder.path(), &["sm_80", "sm_90"], &[]);
        let found = of_fatbin(&code).unwrap();
        assert_eq!(found["shared"].registers, said[0][1].0.max(said[1][1].0));
    }
}

#[test]
fn broken_code_is_an_error_and_nothing_worse() {
    for bin in tools() {
        let folder = tempfile::tempdir().unwrap();
        assemble(&bin, folder.path(), "sm_90");
        for words in [&[][..], &["--compress-all", "--compress-mode=size"]] {
            let code = bundle(&bin, folder.path(), &["sm_90"], words);
            for end in 0..code.len() {
                // An empty file counts as padding; every other cut is an error.
                assert!(of_fatbin(&code[..end]).is_err() || end == 0, "cut at {end}");
            }
            for at in 0..code.len() {
                let mut changed = code.clone();
                changed[at] ^= 0x55;
                let _: Result<_, ResourceError> = of_fatbin(&changed);
            }
        }
    }
}
