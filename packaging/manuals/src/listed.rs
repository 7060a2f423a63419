//! Man page and completions of a program whose flags are a list in its help text: a compiler driver, most of whose
//! flags are clang's.
//!
//! Trap: the list must have this form: two blanks, the flag, at least two blanks, its description; a value is the
//! text in capitals after `=`.

use crate::write_script;
use clap_complete::Shell;
use clap_mangen::roff::{Roff, bold, roman};
use std::fmt::Write;
use std::io;
use std::path::Path;

/// A flag as it is typed, up to the `=` of a value, and its description.
struct Listed<'a> {
    word: &'a str,
    about: &'a str,
}

/// Writes a man page with the help text, and completions of the flags that it lists and of files.
///
/// # Errors
/// When a file cannot be written.
pub fn write_listed(name: &str, version: &str, help: &str, share: &Path) -> io::Result<()> {
    let pages = share.join("man/man1");
    std::fs::create_dir_all(&pages)?;
    std::fs::write(pages.join(format!("{name}.1")), page(name, version, help))?;
    let flags = flags(help);
    write_script(share, Shell::Bash, name, bash(name, &flags).as_bytes())?;
    write_script(share, Shell::Zsh, name, zsh(name, &flags).as_bytes())?;
    write_script(share, Shell::Fish, name, fish(name, &flags).as_bytes())
}

fn flags(help: &str) -> Vec<Listed<'_>> {
    let mut found = Vec::new();
    for line in help.lines().filter_map(|line| line.strip_prefix("  ")).filter(|line| line.starts_with('-')) {
        let (words, about) = line.split_once("  ").unwrap_or((line, ""));
        // A flag with a long value has one blank before its description.
        let (words, about) = words.split_once(' ').filter(|_| about.is_empty()).unwrap_or((words, about));
        let words = if words.ends_with(',') { line } else { words };
        for word in words.split(", ") {
            let end = word.find('=').map_or(word.len(), |at| {
                let is_value = word[at + 1..].starts_with(|c: char| c.is_ascii_uppercase());
                if is_value { at + 1 } else { word.len() }
            });
            found.push(Listed { word: &word[..end], about: about.trim() });
        }
    }
    found
}

fn page(name: &str, version: &str, help: &str) -> String {
    let (title, rest) = help.split_once('\n').unwrap_or((help, ""));
    let about = title.split_once(": ").map_or(title, |(_, about)| about);
    let mut page = Roff::new();
    page.control("TH", [name, "1", "", &format!("{name} {version}")]);
    page.control("SH", ["NAME"]).text([bold(name), roman(format!(" - {about}"))]);
    page.control("SH", ["DESCRIPTION"]).control("nf", []);
    for line in rest.trim().lines() {
        page.text([roman(line)]);
    }
    page.control("fi", []);
    page.render()
}

fn bash(name: &str, flags: &[Listed]) -> String {
    let words: Vec<&str> = flags.iter().map(|flag| flag.word).collect();
    format!(
        "_{name}() {{\n    COMPREPLY=()\n    case ${{COMP_WORDS[COMP_CWORD]}} in\n    \
         -*) COMPREPLY=($(compgen -W '{}' -- \"${{COMP_WORDS[COMP_CWORD]}}\")) ;;\n    esac\n}}\n\
         complete -o default -F _{name} {name}\n",
        words.join(" ")
    )
}

fn zsh(name: &str, flags: &[Listed]) -> String {
    let mut script = format!("#compdef {name}\n\n_arguments \\\n");
    for Listed { word, about } in flags {
        let about = about.replace('\'', "").replace('[', "(").replace(']', ")");
        // `=-`: the value is part of the same word.
        let (dash, value) = if word.ends_with('=') { ("-", ":value:_files") } else { ("", "") };
        let _ = writeln!(script, "  '{word}{dash}[{about}]{value}' \\");
    }
    script + "  '*:file:_files'\n"
}

fn fish(name: &str, flags: &[Listed]) -> String {
    let mut script = String::new();
    for Listed { word, about } in flags {
        let form = word.strip_prefix("--").map_or_else(
            || format!("-o {}", word.trim_start_matches('-').trim_end_matches('=')),
            |long| format!("-l {}", long.trim_end_matches('=')),
        );
        let value = if word.ends_with('=') { " -r" } else { "" };
        let _ = writeln!(script, "complete -c {name} {form}{value} -d '{}'", about.replace('\'', "\\'"));
    }
    script
}
