"""The directives of a script: the lines that count, and their words."""

from __future__ import annotations

from dataclasses import dataclass

PREFIX = "#SBATCH"


class Refused(Exception):
    """The reason why a script cannot be submitted, and its line; None if it is not in the script."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.message, self.line = message, line


@dataclass(frozen=True, slots=True)
class Directive:
    """A line of a script, without its prefix."""

    line: int
    text: str
    words: tuple[str, ...]


def read_directives(script: str) -> list[Directive]:
    """The directives before the first command of the script.

    Raises:
        Refused: it is no batch script, or the words of a directive cannot be told apart.
    """
    if not script:
        raise Refused("the script is empty")
    if not script.startswith("#!"):
        raise Refused("the first line must be #! and the path of an interpreter, such as #!/bin/bash", 1)
    if "\0" in script:
        raise Refused("the script has a NUL byte", script.count("\n", 0, script.index("\0")) + 1)
    if "\r\n" in script:
        where = script.count("\n", 0, script.index("\r\n")) + 1
        raise Refused("the script has DOS line ends (CR LF): convert it, such as with sed -i 's/\\r$//'", where)
    found = []
    for number, line in enumerate(script.split("\n"), start=1):
        if line.startswith(PREFIX):
            text = line[len(PREFIX) :]
            found.append(Directive(number, text.strip(), _words(text, number)))
        elif line.strip() and not line.lstrip().startswith("#"):
            break
    return found


def _words(text: str, line: int) -> tuple[str, ...]:
    """The words of a directive. `#` outside of quotes begins a comment, also inside a word; empty words are dropped."""
    words, word, quote = [], "", ""
    escaped = False
    for one in text:
        if escaped and (quote or not one.isspace()):  # a blank outside of quotes ends a word, escaped or not
            escaped = False
            word += one
            continue
        escaped = one == "\\"
        if escaped:
            continue
        if quote:
            if one == quote:
                quote = ""
            else:
                word += one
        elif one in "'\"":
            quote = one
        elif one == "#":
            break
        elif one.isspace():
            words.append(word)
            word = ""
        else:
            word += one
    if quote:
        raise Refused(f"a quote ({quote}) is not closed", line)
    words = [word for word in (*words, word) if word]
    if ":" in words or words in (["hetjob"], ["packjob"]):
        raise Refused("heterogeneous jobs (hetjob) are not supported: submit the parts as jobs of their own", line)
    return tuple(words)
