#!/usr/bin/env python3
"""Writes the documentation as a site: site.py ROOT OUT

All pages and the reference of the public headers, by Doxygen, in OUT/html; OUT/html/index.html is README.md. Files that pages link
to are copied beside them. Then every link within the site is followed; exit status 1 where one leads nowhere, 77 without Doxygen."""

import html.parser
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

import check_docs

LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
HEADING = re.compile(r"^(#{1,4}) (.+)$")


def name_of(page: pathlib.Path) -> str:
    """A page's name in the site: its path with words in the stead of slashes; README.md in the root is the first page."""
    parts = [part for part in page.with_suffix("").parts if part != "README"]
    return "_".join(parts) or "start"


def label(page: pathlib.Path, heading: str) -> str:
    return f"{name_of(page)}-{check_docs.slug(heading)}"


class Site:
    def __init__(self, root: pathlib.Path, out: pathlib.Path):
        self.root, self.staged, self.html = root, out / "pages", out / "html"
        self.pages = [page.relative_to(root) for page in check_docs.pages(root)]
        self.files: set[pathlib.Path] = set()  # that are no pages, and pages link to

    def link(self, page: pathlib.Path, text: str, link: str) -> str:
        """What a link of a page is in the site; a folder without a page is no place there."""
        path, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            return f"[{text}]({link})"
        found = (self.root / page.parent / path).resolve().relative_to(self.root) if path else page
        if (self.root / found).is_dir():
            found = found / "README.md"
        if found in self.pages:
            return f"[{text}](@ref {name_of(found)}{'-' if anchor else ''}{anchor})"
        if not (self.root / found).is_file():
            return text
        self.files.add(found)
        return f"[{text}](files/{found})"

    def stage(self, page: pathlib.Path) -> None:
        """The page as Doxygen 1.9 reads it: headings with labels of their own, links by them."""
        lines, code, titled = [], False, False
        labels: list[str] = []
        for line in (self.root / page).read_text(encoding="utf-8").splitlines():
            if line.startswith("```"):
                code = not code
            elif not code and (heading := HEADING.match(line)):
                name, titled = (label(page, heading[2]) if titled else name_of(page)), True
                again = labels.count(name)  # counted as GitHub does
                labels.append(name)
                line = f"{line} {{#{name}{f'-{again}' if again else ''}}}"
            elif not code:
                line = LINK.sub(lambda match: self.link(page, match[1], match[2]), line)
            lines.append(line)
        if not titled:
            lines.insert(0, f"# {page} {{#{name_of(page)}}}\n")
        (self.staged / f"{name_of(page)}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def write(self) -> None:
        for folder in (self.staged, self.html):
            shutil.rmtree(folder, ignore_errors=True)
        self.staged.mkdir(parents=True)
        for page in self.pages:
            self.stage(page)
        settings = (self.root / "runtime/Doxyfile").read_text(encoding="utf-8") + f"""
            PROJECT_NAME = spider-gen
            INPUT = "{self.staged}" runtime/include/spider
            FILE_PATTERNS = *.h *.hpp *.md
            USE_MDFILE_AS_MAINPAGE = "{self.staged}/start.md"
            OUTPUT_DIRECTORY = "{self.html.parent}"
            TOC_INCLUDE_HEADINGS = 3
            GENERATE_TREEVIEW = YES
            WARN_AS_ERROR = FAIL_ON_WARNINGS
            """
        subprocess.run(["doxygen", "-"], cwd=self.root, input=settings, text=True, check=True)
        for file in self.files:
            place = self.html / "files" / file
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(self.root / file, place)


class Links(html.parser.HTMLParser):
    """What a page of HTML links to, and what can be linked to in it."""

    def __init__(self, text: str):
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and (name in ("href", "src")):
                self.links.append(value)
            if value and (name == "id" or (tag == "a" and name == "name")):
                self.anchors.add(value)


def dead_links(site: pathlib.Path) -> list[str]:
    """Doxygen 1.9 itself links to nested classes where all are private: that one counts for nothing."""
    pages = {page: Links(page.read_text(encoding="utf-8")) for page in site.glob("*.html")}
    dead = []
    for page, found in pages.items():
        for link in sorted(set(found.links)):
            path, _, anchor = urllib.parse.unquote(link).partition("#")
            if re.match(r"([a-z]+:|//)", link):
                continue
            target = site / path if path else page
            if not target.exists():
                dead.append(f"{page.name}: {link} leads nowhere")
            elif anchor and anchor != "nested-classes" and target in pages and anchor not in pages[target].anchors:
                dead.append(f"{page.name}: {link}: no such place")
    return dead


def main() -> int:
    if not shutil.which("doxygen"):
        print("skipped: doxygen is not installed")
        return 77
    root, out = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    site = Site(root, out)
    site.write()
    dead = dead_links(site.html)
    print("\n".join(dead) or f"{len(site.pages)} pages: {site.html / 'index.html'}")
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main())
