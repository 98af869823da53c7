"""A document of `docs/` as a page: Markdown in, safe HTML out, with an address for each heading and row of a table."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from django.conf import settings
from markdown_it import MarkdownIt
from markdown_it.token import Token

INDEX = "README"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(?:/[A-Za-z0-9][A-Za-z0-9_-]*)*")
# Marks for programs that write parts of a document, and notes to its authors.
_COMMENT = re.compile(r"^<!--.*?-->\n?", re.MULTILINE | re.DOTALL)
_OUTSIDE = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.IGNORECASE)
# `html: False`: a tag that is written in a document is shown as it is written.
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


@dataclass(frozen=True, slots=True)
class Section:
    """A heading of a page, with the id by which it is linked."""

    title: str
    anchor: str


@dataclass(frozen=True, slots=True)
class Part:
    """A heading of the index, with the names and titles of the pages that it lists, in its order."""

    title: str
    pages: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A page. `html` is safe; `sections` are its headings of the second level."""

    name: str
    title: str
    html: str
    sections: tuple[Section, ...]
    anchors: frozenset[str]


def document(name: str) -> Document | None:
    """The page of `docs/NAME.md`, or the list of the pages in the folder `docs/NAME`; None if there is neither."""
    if not _NAME.fullmatch(name):
        return None
    path = _root() / f"{name}.md"
    if path.is_file():
        return _rendered(name, path, path.stat().st_mtime_ns)
    pages = [other for other in names() if posixpath.dirname(other) == name]
    if not pages:
        return None
    rows = "\n".join(f"- [{title_of(other)}]({posixpath.basename(other)}.md)" for other in pages)
    return _render(f"{name}/{INDEX}", f"# {name.capitalize()}\n\n{rows}\n")


@lru_cache(maxsize=1)
def parts() -> tuple[Part, ...]:
    """The index as a table of contents; a folder that it lists stands for all of its pages."""
    found = []
    for title, _, text in list(sections_of(source(INDEX)))[1:]:  # the first is the title of the index itself
        pages = dict[str, str]()
        for target in re.findall(r"\]\(([a-z0-9/-]+)(?:\.md)?\)", text):
            inside = [name for name in names() if name == target or name.startswith(target.rstrip("/") + "/")]
            pages |= {name: title_of(name) for name in inside}
        if pages:
            found.append(Part(title, tuple(pages.items())))
    return tuple(found)


def beside(name: str) -> tuple[tuple[str, str] | None, tuple[str, str] | None]:
    """The names and titles of the pages before and after this one in the table of contents."""
    order = list(dict(page for part in parts() for page in part.pages).items())
    place = next((place for place, (other, _) in enumerate(order) if other == name), None)
    if place is None:
        return None, None
    return (order[place - 1] if place else None), (order[place + 1] if place + 1 < len(order) else None)


def names() -> list[str]:
    """The names of all pages, those of folders after those beside them."""
    found = [path.relative_to(_root()).with_suffix("").as_posix() for path in _root().rglob("*.md")]
    return sorted((name for name in found if _NAME.fullmatch(name)), key=lambda name: (name.count("/"), name))


def source(name: str) -> str:
    """The Markdown of a page that `names` lists."""
    return (_root() / f"{name}.md").read_text(encoding="utf-8")


def title_of(name: str) -> str:
    """The first heading of a page that `names` lists, without marks."""
    with (_root() / f"{name}.md").open(encoding="utf-8") as lines:
        return next((line[2:].strip().replace("`", "") for line in lines if line.startswith("# ")), name)


def image(name: str) -> Path | None:
    """The file `docs/images/NAME`, or None."""
    path = _root() / "images" / name
    return path if re.fullmatch(r"[A-Za-z0-9_-]+\.(?:svg|png)", name) and path.is_file() else None


def sections_of(text: str) -> Iterator[tuple[str, str, str]]:
    """Each heading of a Markdown text with its anchor and the text below it, marks included."""
    anchors: dict[str, int] = {}
    title, anchor, lines, fenced = "", "", list[str](), False
    for line in text.splitlines():
        fenced ^= line.lstrip().startswith("```")
        heading = None if fenced else re.match(r"#{1,6} (.+)", line)
        if heading is None:
            lines.append(line)
            continue
        if title:
            yield title, anchor, "\n".join(lines)
        title, lines = _plain(heading[1]), []
        anchor = _anchor(title, anchors)
    if title:
        yield title, anchor, "\n".join(lines)


def _root() -> Path:
    return Path(settings.DOCS)


@lru_cache(maxsize=256)
def _rendered(name: str, path: Path, _changed_at: int) -> Document:
    return _render(name, path.read_text(encoding="utf-8"))


def _render(name: str, text: str) -> Document:
    tokens = _MARKDOWN.parse(_COMMENT.sub("", text))
    anchors: dict[str, int] = {}
    title, sections = name, list[Section]()
    in_body = first_cell = False
    row: Token | None = None
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "heading_open" and following is not None:
            words = _words(following)
            token.attrSet("id", _anchor(words, anchors))
            if token.tag == "h1":
                title = words
            elif token.tag == "h2":
                sections.append(Section(words, str(token.attrGet("id"))))
        elif token.type in {"tbody_open", "tbody_close"}:
            in_body = token.type == "tbody_open"
        elif token.type == "tr_open":
            row, first_cell = token, in_body
        elif token.type in {"th_open", "td_open"}:
            _align(token)
            if first_cell and row is not None and following is not None and (words := _words(following)):
                row.attrSet("id", _anchor(words, anchors))
            first_cell = False
        for child in token.children or ():
            _aim(child, name)
    html: str = _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {})
    return Document(name, title, _scrollable(html), tuple(sections), frozenset(anchors))


def _words(inline: Token) -> str:
    return "".join(child.content for child in inline.children or () if child.type in {"text", "code_inline"}).strip()


def _plain(heading: str) -> str:
    return _words(_MARKDOWN.parseInline(heading)[0])


def _anchor(words: str, seen: dict[str, int]) -> str:
    """The id that GitHub gives a heading with these words: links work there and here."""
    slug = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
    count = seen[slug] = seen.get(slug, -1) + 1
    if not count:
        return slug
    seen[f"{slug}-{count}"] = 0
    return f"{slug}-{count}"


def _align(cell: Token) -> None:
    """Styles in attributes are what the page's security policy refuses; a class does the same."""
    style = cell.attrs.pop("style", None)
    if style == "text-align:right":
        cell.attrSet("class", "number")


def _aim(token: Token, name: str) -> None:
    """Have a link or an image lead to what is served here; a link to a file that is not served becomes plain text."""
    if token.type == "image":
        token.attrSet("src", f"/docs/images/{posixpath.basename(str(token.attrGet('src')))}")
    if token.type != "link_open":
        return
    target = str(token.attrGet("href") or "")
    if target.startswith("#"):
        return
    if _OUTSIDE.match(target):
        token.attrSet("rel", "noopener noreferrer")
        return
    address = _address(target, name)
    if address is None:
        token.attrs.clear()  # an anchor without an address is no link
    else:
        token.attrSet("href", address)


def _address(target: str, name: str) -> str | None:
    path, _, anchor = target.partition("#")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)).removesuffix(".md")
    if path.startswith("../"):
        return None
    served = (_root() / f"{path}.md").is_file() or (_root() / path).is_dir()
    page = "/docs" if path in {INDEX, "."} else f"/docs/{path}"
    return page + (f"#{anchor}" if anchor else "") if served else None


def _scrollable(html: str) -> str:
    """Tables in boxes of their own, which scroll by themselves on a narrow screen."""
    box = '<div class="table" role="region" aria-label="Table" tabindex="0">'
    return html.replace("<table>", f"{box}<table>").replace("</table>", "</table></div>")
