"""`docs/reference/sbatch.md`: every option of sbatch, from the table by which scripts are translated."""

from __future__ import annotations

from collections.abc import Iterator

from muster.sbatch.options import OPTIONS, Fate, Option, Takes

_HEAD = """# Options of sbatch

Each option of sbatch in Slurm 22.05, and what becomes of it in [a script for Muster](../user/sbatch.md). A name
may be cut as long as it is unique. The variable in the second column sets the option too: it beats the script, and the
command line beats it.

`manage.py spec_reference` writes this page from the table by which scripts are translated; a test compares them.
"""
_TITLES = {
    Fate.TRANSLATED: ("Translated", "becomes"),
    Fate.IGNORED: ("Ignored", "why"),
    Fate.REFUSED: ("Refused", "why, or what to write"),
}


def sbatch_page() -> str:
    """The text of `docs/reference/sbatch.md`."""
    return "".join([_HEAD, *(part for fate in _TITLES for part in _part(fate))])


def _part(fate: Fate) -> Iterator[str]:
    title, column = _TITLES[fate]
    yield f"\n## {title}\n\n| option | variable | {column} |\n|---|---|---|\n"
    for option in sorted(OPTIONS, key=lambda option: option.name):
        if option.fate is fate:
            variable = f"`SBATCH_{option.variable}`" if option.variable else ""
            yield f"| {_spelling(option)} | {variable} | {option.why} |\n"


def _spelling(option: Option) -> str:
    value = {Takes.NOTHING: "", Takes.VALUE: "=…", Takes.MAYBE: "[=…]"}[option.takes]
    short = f"`-{option.short}`, " if option.short else ""
    return f"{short}`--{option.name}{value}`"
