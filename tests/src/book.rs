//! Parses the repository's Markdown pages: links, headings, code blocks.
//!
//! Trap: a link's text may hold anything, and only the parser tells links from code, so nothing here may search for
//! brackets.

use crate::{root, run_ok};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A link or picture, and its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    pub line: usize,
    pub target: String,
}

/// A fenced code block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    pub line: usize,
    /// Words after the fence: the language, then marks.
    pub words: Vec<String>,
    pub text: String,
}

impl Block {
    pub fn is(&self, words: &[&str]) -> bool {
        self.words == words
    }
}

/// Contents of a page.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Page {
    pub links: Vec<Link>,
    pub anchors: BTreeSet<String>,
    pub blocks: Vec<Block>,
    /// Texts between single backticks.
    pub quoted: Vec<String>,
}

/// Returns the paths of all pages from the root: the Markdown files that git tracks or would add.
pub fn pages() -> Vec<PathBuf> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard", "*.md"]).current_dir(root());
    let mut pages: Vec<PathBuf> =
        run_ok(&mut git).lines().map(PathBuf::from).filter(|page| root().join(page).is_file()).collect();
    pages.sort();
    pages
}

/// Returns the text of a file; `path` starts at the root.
pub fn text_of(path: &Path) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub fn read(text: &str) -> Page {
    let mut page = Page::default();
    let mut heading: Option<String> = None;
    let mut block: Option<Block> = None;
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        let line = || text[..range.start].matches('\n').count() + 1;
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                page.links.push(Link { line: line(), target: dest_url.into_string() });
            }
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                page.anchors.extend(heading.take().map(|heading| anchor(&heading)));
            }
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(words))) => {
                let words = words.split_whitespace().map(str::to_owned).collect();
                block = Some(Block { line: line(), words, text: String::new() });
            }
            Event::End(TagEnd::CodeBlock) => page.blocks.extend(block.take()),
            Event::Text(words) => match (&mut block, &mut heading) {
                (Some(block), _) => block.text.push_str(&words),
                (None, Some(heading)) => heading.push_str(&words),
                (None, None) => {}
            },
            Event::Code(words) => {
                page.quoted.push(words.to_string());
                if let Some(heading) = &mut heading {
                    heading.push_str(&words);
                }
            }
            _ => {}
        }
    }
    page
}

/// Returns a heading's anchor, as mdBook and most forges build it.
pub fn anchor(heading: &str) -> String {
    let kept = |c: char| match c {
        c if c.is_alphanumeric() || c == '_' || c == '-' => Some(c.to_lowercase().next().unwrap_or(c)),
        c if c.is_whitespace() => Some('-'),
        _ => None,
    };
    heading.chars().filter_map(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_no_link_and_headings_are_anchors() {
        let page = read("# The `eager` way, 2\n[a](b.md#c) `[no](x)`\n\n```sh tested\n[no](y)\n```\n");
        assert_eq!(page.links, [Link { line: 2, target: "b.md#c".into() }]);
        assert!(page.anchors.contains("the-eager-way-2"), "{:?}", page.anchors);
        assert_eq!(page.blocks.len(), 1);
        assert!(page.blocks[0].is(&["sh", "tested"]) && page.blocks[0].text == "[no](y)\n");
        assert_eq!(page.quoted, ["eager", "[no](x)"]);
    }
}
