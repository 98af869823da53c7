"""The directives of a script: the lines that count, and their words."""

from __future__ import annotations

from dataclasses import dataclass

PREFIX = "#SBATCH"
# Lines of sbatch's own that are not errors by their beginning.
_PLAIN = ("sbatch: ", 'Try "')


_NO_SCRIPT = """This does not look like a batch script.  The first
line must start with #! followed by the path to an interpreter.
For instance: #!/bin/sh"""
_DOS = """Batch script contains DOS line breaks (\\r\\n)
instead of expected UNIX line breaks (\\n)."""


class Refused(Exception):
    """The reason why a script cannot be submitted, and its line; None if it is not in the script.

    `slurm`: the words of sbatch for it, empty where Slurm would submit the script. `code`: the exit code of sbatch.
    """

    def __init__(self, message: str, line: int | None = None, *, slurm: str = "", code: int = 1) -> None:
        super().__init__(message)
        self.message, self.line, self.slurm, self.code = message, line, slurm, code

    @property
    def stderr(self) -> str:
        """The output of sbatch: the words of Slurm, and the message."""
        where = f"line {self.line}: " if self.line else ""
        lines = [*self.slurm.splitlines(), f"{where}{self.message}"]
        return "".join(f"{line if line.startswith(_PLAIN) else f'sbatch: error: {line}'}\n" for line in lines)


def failed(reason: str) -> str:
    """The words of sbatch for a job that the controller refuses."""
    return f"Batch job submission failed: {reason}"


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
        raise Refused("the script is empty", slurm="Batch script is empty!")
    if not script.startswith("#!"):
        message = "the first line must be #! and the path of an interpreter, such as #!/bin/bash"
        raise Refused(message, 1, slurm=_NO_SCRIPT)
    if "\0" in script:
        where = script.count("\n", 0, script.index("\0")) + 1
        raise Refused(
            "the script has a NUL byte",
            where,
            slurm="The Slurm controller does not allow scripts that\ncontain a NULL character '\\0'.",
        )
    if "\r\n" in script:
        where = script.count("\n", 0, script.index("\r\n")) + 1
        message = "the script has DOS line ends (CR LF): convert it, such as with sed -i 's/\\r$//'"
        raise Refused(message, where, slurm=_DOS)
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
        unmatched = f"sbatch: fatal: line {line}: Unmatched `{quote}` in [{text.strip()}]"
        raise Refused(f"a quote ({quote}) is not closed", line, slurm=unmatched)
    words = [word for word in (*words, word) if word]
    if ":" in words or words in (["hetjob"], ["packjob"]):
        raise Refused("heterogeneous jobs (hetjob) are not supported: submit the parts as jobs of their own", line)
    return tuple(words)
