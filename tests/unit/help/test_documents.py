"""The documents as pages: their links, their safety, and what they say of the schema of specs and of terms."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib import admin

from muster.help import documents
from muster.help.reference import spec_page
from muster.help.sbatch import sbatch_page
from muster.help.search import search

ROOT = Path(__file__).resolve().parents[3]
LINK = re.compile(r'href="(/docs[^"#]*|)(?:#([^"]*))?"')


def broken(page: documents.Document) -> list[str]:
    """Those links of a page within the documents that lead to no page or no heading."""
    found = []
    for path, anchor in LINK.findall(page.html):
        target = documents.document(path.removeprefix("/docs").strip("/") or documents.INDEX) if path else page
        if target is None or (anchor and anchor not in target.anchors):
            found.append(f"{path}#{anchor}")
    return found


def test_every_link_between_documents_leads_to_a_page_and_a_heading() -> None:
    names = documents.names()
    assert {"reference/glossary", "reference/spec", "policies/fifo", "adr/0004-quotas-are-promises"} <= set(names)
    pages = {name: page for name in names if (page := documents.document(name))}
    assert len(pages) == len(names)
    assert {name: found for name, page in pages.items() if (found := broken(page))} == {}


def test_every_link_between_files_of_the_repository_leads_to_a_file_and_a_heading() -> None:
    # Templates of pages lie in `bench`; their links are those of the pages.
    command = ["git", "ls-files", "*.md", ":!bench"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    dead = []
    for file in map(ROOT.joinpath, listed.split()):
        text = re.sub(r"^```.*?^```|`[^`\n]*`", "", file.read_text(), flags=re.MULTILINE | re.DOTALL)
        for path, anchor in re.findall(r"\]\((?![a-z+]+:)([^)#\s]*)(?:#([^)\s]*))?\)", text):
            target = (file.parent / path).resolve() if path else file
            # Within the documents rows of tables have anchors too, which the test above knows.
            headed = not (anchor and target.is_file()) or ROOT / "docs" in file.parents or anchor in anchors(target)
            if not target.exists() or not headed:
                dead.append(f"{file.relative_to(ROOT)}: {path}#{anchor}")
    assert dead == []


def anchors(file: Path) -> set[str]:
    """The anchors of the headings of a file."""
    return {anchor for _, anchor, _ in documents.sections_of(file.read_text())}


def test_the_words_of_a_folders_link_lead_to_the_list_of_its_pages() -> None:
    page = documents.document("policies")
    assert page is not None
    assert '<a href="/docs/policies/fifo">' in page.html
    assert broken(page) == []


@pytest.mark.parametrize("name", ["../README", "policies/../../README", "no-such-page", "images", "", "a//b"])
def test_what_is_no_document_is_not_served(name: str) -> None:
    assert documents.document(name) is None


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> documents.Document:
    """A page with everything that a page may do wrong."""
    text = (
        "# A <b>page</b>\n\n<!-- a note\nto authors -->\n\n<script>alert(1)</script>\n\n"
        "[bad](javascript:alert(1)) [out](https://example.org) "
        "[code](../scheduler/engine/cycle.py)\n\n| a | b |\n|---|--:|\n| `x.y` z | 1 |\n\n## Same\n\n## Same\n"
    )
    (tmp_path / "page.md").write_text(text)
    monkeypatch.setattr(settings, "DOCS", tmp_path)
    page = documents.document("page")
    assert page is not None
    return page


def test_markup_in_a_document_is_shown_and_not_obeyed(written: documents.Document) -> None:
    assert "<script" not in written.html
    assert "&lt;script&gt;" in written.html
    assert 'href="javascript:' not in written.html
    assert "style=" not in written.html
    assert "authors" not in written.html


def test_headings_and_rows_have_addresses_as_git_hosts_give_them(written: documents.Document) -> None:
    assert {"a-bpageb", "same", "same-1", "xy-z"} <= written.anchors
    assert '<tr id="xy-z">' in written.html


def test_a_link_to_a_file_that_is_not_served_is_plain_text(written: documents.Document) -> None:
    assert "cycle.py" not in written.html
    assert '<a href="https://example.org" rel="noopener noreferrer">out</a>' in written.html


def test_a_search_finds_the_sections_with_all_words() -> None:
    found = search("checkpoint grace")
    assert found
    for one in found:
        path, _, anchor = one.address.removeprefix("/docs/").partition("#")
        page = documents.document(path)
        assert page is not None
        assert anchor in page.anchors
    assert search("checkpoint zzzyx") == []
    assert search("glossary")[0].address == "/docs/reference/glossary#glossary"


def test_an_excerpt_has_no_marks_of_tables_and_no_notes_to_authors() -> None:
    (found,) = [one for one in search("checkpoint") if one.address == "/docs/user/failures#the-classes"]
    assert "class category retry hint core_dump" in found.excerpt


def test_the_page_of_spec_keys_is_what_the_schema_says() -> None:
    for name, page in (("spec", spec_page()), ("sbatch", sbatch_page())):
        written = (ROOT / f"docs/reference/{name}.md").read_text()
        assert written == page, "write it again: manage.py spec_reference"


def test_every_address_of_help_in_the_pages_leads_to_a_heading_or_a_term() -> None:
    places = [ROOT / "frontend/src", ROOT / "platform/muster"]
    files = [path for place in places for path in place.rglob("*") if path.suffix in {".ts", ".tsx", ".py", ".html"}]
    named = {match for path in files for match in re.findall(r'"/docs/([a-z/-]+)(?:#([a-z0-9-]+))?"', path.read_text())}
    assert named
    for name, anchor in sorted(named - {("images/", "")}):
        page = documents.document(name)
        assert page is not None, name
        assert not anchor or anchor in page.anchors, f"{name}#{anchor}"


def test_every_page_of_the_admin_leads_to_a_document() -> None:
    led = {
        model._meta.label: page.document for model, page in admin.site._registry.items() if hasattr(page, "document")
    }
    assert len(led) > 30
    assert {label: name for label, name in led.items() if documents.document(name) is None} == {}


def test_the_table_of_contents_has_every_page_once() -> None:
    listed = [name for part in documents.parts() for name, _ in part.pages]
    assert sorted(set(documents.names()) - {documents.INDEX} - set(listed)) == []
    assert documents.beside("reference/spec")[0] is not None
    assert documents.beside("no-such-page") == (None, None)
