//! Checks the book: every page is in it, links lead somewhere, its commands work, and what it quotes exists.

use eager_tests::book::{self, Page, pages, text_of};
use eager_tests::{bin_dir, has_toolchain, root, run, text, tool};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

const SUMMARY: &str = "docs/SUMMARY.md";
const TROUBLESHOOTING: &str = "docs/troubleshooting.md";
const ENVIRONMENT: &str = "docs/reference/environment.md";
/// Variables between driver and plugin, and between tests and the programs that they start; users never set them.
const INNER_VARIABLES: [&str; 3] = ["EAGER_PASS_", "EAGER_TEST_", "EAGER_BLESS"];

/// Returns the target of a link on a page: the file from the root, and the anchor after `#`.
fn target_of(page: &Path, link: &str) -> (PathBuf, String) {
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let from = if file.is_empty() { page.to_path_buf() } else { page.with_file_name(file) };
    let mut whole = PathBuf::new();
    for part in from.components() {
        match part {
            Component::ParentDir => drop(whole.pop()),
            part => whole.push(part),
        }
    }
    (whole, anchor.to_owned())
}

fn is_elsewhere(link: &str) -> bool {
    link.starts_with("https://") || link.starts_with("http://")
}

fn read(page: &Path) -> Page {
    book::read(&text_of(page))
}

fn none(problems: Vec<String>) {
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn every_page_is_in_the_book_once() {
    let mut times: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for link in read(Path::new(SUMMARY)).links {
        *times.entry(target_of(Path::new(SUMMARY), &link.target).0).or_default() += 1;
    }
    let expected: BTreeMap<PathBuf, usize> =
        pages().into_iter().filter(|page| page != Path::new(SUMMARY)).map(|page| (page, 1)).collect();
    assert_eq!(times, expected, "{SUMMARY} against the tracked pages");
}

#[test]
fn links_lead_somewhere() {
    let mut problems = Vec::new();
    for page in pages() {
        for link in read(&page).links.iter().filter(|link| !is_elsewhere(&link.target)) {
            let (file, anchor) = target_of(&page, &link.target);
            let is_page = file.extension().is_some_and(|extension| extension == "md");
            let leads = match anchor.as_str() {
                "" => root().join(&file).is_file(),
                anchor => is_page && root().join(&file).is_file() && read(&file).anchors.contains(anchor),
            };
            if !leads {
                problems.push(format!("{}:{}: {}", page.display(), link.line, link.target));
            }
        }
    }
    none(problems);
}

/// Runs the blocks `sh tested` of a page as one session: one shell, in an empty folder, with the built programs on its
/// path.
#[test]
fn tested_blocks_do_what_the_page_says() {
    if !has_toolchain("blocks of the book") {
        return;
    }
    let mut played = 0;
    for page in pages() {
        let session = session(&read(&page));
        if session.contains("\n# of the page:") {
            played += 1;
            play(&page, &session, &bin_dir(), &root());
        }
    }
    assert!(played > 0, "no page has a block marked `sh tested`");
}

/// Builds a page's script: the files that the page says to save, and its commands.
fn session(page: &Page) -> String {
    let mut script = String::from("set -eu\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\nexec 3>&1\n");
    for block in &page.blocks {
        match block.words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [_, "save", name] => {
                script += &format!("cat >{name} <<'END OF FILE'\n{}END OF FILE\n", block.text)
            }
            ["sh", "tested"] => {
                script += &format!("\n# of the page: line {}\n{}", block.line, block.text);
            }
            _ => {}
        }
    }
    script
}

/// Runs the blocks of one page with these programs, and these sources for the page's `$SOURCE`.
pub(super) fn play_from(page: &Path, programs: &Path, sources: &Path) {
    play(page, &session(&read(page)), programs, sources);
}

fn play(page: &Path, script: &str, programs: &Path, sources: &Path) {
    let folder = tempfile::tempdir().expect("folder");
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").expect("PATH"));
    let mut bash = Command::new("bash");
    bash.arg("-c").arg(script).current_dir(folder.path()).env("PATH", path);
    bash.env("XDG_RUNTIME_DIR", folder.path()).env("SOURCE", sources).env_remove("EAGER_VGPU_SOCKET");
    let output = run(&mut bash);
    assert!(output.status.success(), "{}: {}\n{script}\n{}", page.display(), output.status, text(&output));
}

/// The daemon must accept every block `toml` of a page of the book, and the installed file, unchanged.
#[test]
fn settings_on_pages_are_settings() {
    let folder = tempfile::tempdir().expect("folder");
    let mut files: Vec<(String, String)> = Vec::new();
    for page in
        pages().into_iter().filter(|page| page.starts_with("docs") || page.starts_with("scheduler/daemon"))
    {
        for block in read(&page).blocks.into_iter().filter(|block| block.is(&["toml"])) {
            files.push((format!("{}:{}", page.display(), block.line), block.text));
        }
    }
    assert!(!files.is_empty(), "no page shows settings");
    let installed = Path::new("scheduler/daemon/eagerd.toml");
    files.push((installed.display().to_string(), text_of(installed)));
    let path = folder.path().join("eagerd.toml");
    let refused = |(place, settings): &(String, String)| {
        std::fs::write(&path, settings).expect("write settings");
        let shown = run(Command::new(tool("eagerd")).arg("--config").arg(&path).arg("--show-config"));
        (!shown.status.success()).then(|| format!("{place}: {}", text(&shown)))
    };
    none(files.iter().filter_map(refused).collect());
}

/// Returns the sources without tests, with each literal that continues in the next line made one line.
fn sources() -> String {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard", "*.rs", "*.sh"]).current_dir(root());
    let files = eager_tests::run_ok(&mut git);
    let mut all = String::new();
    for file in files.lines().filter(|file| !file.contains("tests/") && root().join(file).is_file()) {
        let text = text_of(Path::new(file));
        let program = text.split("\n#[cfg(test)]").next().unwrap_or_default();
        let mut lines = program.lines();
        while let Some(line) = lines.next() {
            all.push_str(line.strip_suffix('\\').unwrap_or(line));
            if line.ends_with('\\') {
                all.push_str(lines.next().unwrap_or_default().trim_start());
            }
            all.push('\n');
        }
    }
    all.replace("\\\"", "\"").replace("{{", "{").replace("}}", "}")
}

/// A heading of the page that the loader prints, as `build_lines.rs` checks.
const LOADER_MESSAGE: &str = "libcudart.so.13: cannot open shared object file: No such file or directory";

/// Headings of the page are messages; `…` stands for the part that varies.
#[test]
fn messages_that_the_book_explains_are_said_by_the_code() {
    let sources = sources();
    let page = text_of(Path::new(TROUBLESHOOTING));
    let quoted = page.lines().filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`'));
    let messages: Vec<&str> = quoted.collect();
    assert!(messages.len() > 10, "{TROUBLESHOOTING} explains {} messages", messages.len());
    let missing = |message: &&&str| {
        if **message == LOADER_MESSAGE {
            return false;
        }
        let pieces = message.split('…').map(str::trim).filter(|piece| piece.len() > 2);
        pieces.into_iter().any(|piece| !sources.contains(piece))
    };
    none(messages.iter().filter(missing).map(|message| format!("not in the sources: {message}")).collect());
}

/// Returns names like `EAGER_SOCKET` in a text.
fn variables(text: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let words = text.split(|c: char| !is_name(c)).filter(|word| word.starts_with("EAGER_") && word.len() > 6);
    let outer = words.filter(|word| !INNER_VARIABLES.iter().any(|inner| word.starts_with(inner)));
    outer.map(|word| word.trim_end_matches('_').to_owned()).collect()
}

#[test]
fn environment_variables_are_all_in_the_reference_and_all_real() {
    let sources = sources();
    let program = sources.lines().filter(|line| !line.trim_start().starts_with("//"));
    let real = variables(&program.collect::<Vec<_>>().join("\n"));
    let known = variables(&text_of(Path::new(ENVIRONMENT)));
    assert_eq!(known, real, "{ENVIRONMENT} (left) against the sources");
    let strange = |page: PathBuf| {
        let unknown: Vec<String> = variables(&text_of(&page)).difference(&real).cloned().collect();
        (!unknown.is_empty()).then(|| format!("{}: {unknown:?}", page.display()))
    };
    none(pages().into_iter().filter_map(strange).collect());
}

/// The version is the same in all places.
#[test]
fn package_and_changelog_are_of_this_version() {
    let version = env!("CARGO_PKG_VERSION");
    let debian = text_of(Path::new("debian/changelog"));
    assert!(
        debian.starts_with(&format!("eager ({version}) ")),
        "debian/changelog: {:?}",
        debian.lines().next()
    );
    let changes = text_of(Path::new("CHANGELOG.md"));
    let latest = changes.lines().find(|line| line.starts_with("## ")).expect("a version in CHANGELOG.md");
    assert!(latest.starts_with(&format!("## {version}")), "CHANGELOG.md: {latest}");
}

#[test]
fn whatever_set_up_downloads_is_on_the_page_of_licences() {
    const PAGE: &str = "docs/licences.md";
    let page = text_of(Path::new(PAGE));
    assert!(text_of(Path::new("setup.sh")).contains(PAGE), "setup.sh names {PAGE}");
    let wheels =
        ["cuda-13.0.requirements.txt", "cuda-12.9.requirements.txt"].map(|pins| text_of(Path::new(pins)));
    let names: Vec<&str> = wheels
        .iter()
        .flat_map(|pins| pins.lines())
        .filter_map(|line| line.split_once("=="))
        .map(|(name, _)| name)
        .collect();
    assert!(names.len() >= 8, "{names:?}");
    let missing = names.into_iter().filter(|name| !page.contains(&format!("`{name}`")));
    none(missing.map(|name| format!("{PAGE} does not say under which licence {name} is")).collect());
}
