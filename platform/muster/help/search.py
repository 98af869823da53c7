"""Finding words in the documents: the sections that have all of them, those that have them in the heading first."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from muster.help import documents

MAX_FOUND = 30
_MAX_WORDS = 8
_EXCERPT = 220
# What Markdown writes around words: the targets of links, code, emphasis, the borders of tables.
_MARKS = re.compile(r"<!--.*?-->|^[-:| ]+$|^\s*```\w*|\]\([^)]*\)|[`*|\[\]]", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Found:
    """A section with the words; `address` leads to it."""

    address: str
    page: str
    section: str
    excerpt: str


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    page: str
    title: str
    anchor: str
    text: str
    lower: str


def search(query: str) -> list[Found]:
    """The best sections for the words of the query, at most `MAX_FOUND`."""
    words = query.lower().split()[:_MAX_WORDS]
    if not words:
        return []
    ranked = [(-_rank(section, words), place, section) for place, section in enumerate(_sections())]
    best = sorted(entry for entry in ranked if entry[0] < 0)[:MAX_FOUND]
    return [_found(section, words) for _, _, section in best]


@lru_cache(maxsize=1)
def _sections() -> tuple[_Section, ...]:
    """Every section of every page. Documents change with the version of the platform, never while it runs."""
    return tuple(
        _Section(name, documents.title_of(name), title, anchor, plain, f"{title} {plain}".lower())
        for name in documents.names()
        for title, anchor, text in documents.sections_of(documents.source(name))
        for plain in [" ".join(_MARKS.sub(" ", text).split())]
    )


def _rank(section: _Section, words: list[str]) -> int:
    """0 where a word is missing. Guides come before policies and decisions, headings before text."""
    if not all(word in section.lower for word in words):
        return 0
    title, page = section.title.lower(), section.page.lower()
    points = sum(20 * (word in title) + 10 * (word in page) + min(section.lower.count(word), 5) for word in words)
    return 1 + points * (1 if section.name.startswith("adr/") else 3)


def _found(section: _Section, words: list[str]) -> Found:
    at = max(
        min((section.text.lower().find(word) for word in words if word in section.text.lower()), default=0) - 60, 0
    )
    at = section.text.rfind(" ", 0, at) + 1 if at else 0
    cut = section.text[at : at + _EXCERPT]
    excerpt = ("… " if at else "") + cut + (" …" if at + _EXCERPT < len(section.text) else "")
    address = "/docs" if section.name == documents.INDEX else f"/docs/{section.name}"
    return Found(f"{address}#{section.anchor}", section.page, section.title, excerpt)
