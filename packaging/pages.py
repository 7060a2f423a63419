#!/usr/bin/env python3
"""Copies the book's pages and their pictures: pages.py TO. A link to a file that does not come along becomes its text.

The pages keep the places that they have in the repository, so that their relative links hold. Trap: code has brackets
too; a link is dropped only if it leads to a file of the repository.
"""
import os
import pathlib
import re
import shutil
import sys

PICTURES = (".svg", ".png")
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
SUMMARY = pathlib.Path("docs/SUMMARY.md")


def from_root(page, link):
    return pathlib.Path(os.path.normpath(page.parent / link))


def main(to):
    pages = [from_root(SUMMARY, link[2]) for link in LINK.findall(SUMMARY.read_text())]
    for page in pages:
        def kept(link, page=page):
            target = from_root(page, link[3])
            if "://" in link[3] or target in pages or not target.exists():
                return link[0]
            if target.suffix in PICTURES:
                copy = to / target
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(target, copy)
                return link[0]
            return link[2]

        copy = to / page
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(LINK.sub(kept, page.read_text()))


main(pathlib.Path(sys.argv[1]))
