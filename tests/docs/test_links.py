"""Every relative link in every Markdown page leads to a file that exists, and to a heading in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])


def prose(page: Path) -> str:
    """The text of a page without its fenced blocks: what looks like a link or a heading there is code."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def links(text: str) -> list[str]:
    return re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", re.sub(r"`[^`\n]*`(?!\])", "", text))


def anchor(heading: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    return {anchor(heading) for heading in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)}


def broken(page: Path) -> list[str]:
    """The links of a page that lead nowhere."""
    found = []
    for link in links(prose(page)):
        path, _, fragment = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (fragment and fragment not in anchors(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_links_of_a_page_resolve(page):
    """No link to a missing file or heading."""
    assert broken(page) == []


def test_a_broken_link_is_found(tmp_path):
    """The check can fail: a missing file, a missing heading, and neither in a fenced block."""
    (tmp_path / "there.md").write_text("# A heading, with signs: `x`\n", encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](there.md#a-heading-with-signs-x) [b](gone.md) [c](there.md#gone) [d](#gone) [`e`](gone2.md)\n"
        "```\n[f](gone3.md)\n```\n",
        encoding="utf-8",
    )
    assert broken(page) == ["gone.md", "there.md#gone", "#gone", "gone2.md"]


def test_every_page_is_linked_from_somewhere():
    """A page that no other page links to is not found by a reader."""
    linked = {
        (page.parent / link.partition("#")[0]).resolve()
        for page in PAGES
        for link in links(prose(page))
        if link[0] != "#"
    }
    documented = set(ROOT.glob("docs/*.md")) | {
        path for path in ROOT.glob("docs/design/*.md") if not linked & {path.parent}
    }
    assert documented <= linked
