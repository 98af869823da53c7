"""Options of a command line, by the rules of getopt_long: abbreviated names, letters together, words in any order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from muster.slurm.call import Refused


class Takes(Enum):
    """Kinds of options by their value."""

    NOTHING = 0
    VALUE = 1
    PERHAPS = 2
    """Only one that is written behind `=`, or behind the letter."""
    NEXT = 3
    """The same, or the next word, if that is no option."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a command, by its name and its letter."""

    name: str
    letter: str = ""
    takes: Takes = Takes.NOTHING


def flag(name: str, letter: str = "") -> Option:
    """An option without a value."""
    return Option(name, letter)


def valued(name: str, letter: str = "") -> Option:
    """An option with a value."""
    return Option(name, letter, Takes.VALUE)


@dataclass(frozen=True, slots=True)
class Parsed:
    """The options of a command line in their order, each with its value, and the other words."""

    options: tuple[tuple[str, str], ...]
    words: tuple[str, ...]

    def has(self, name: str) -> bool:
        """True if the option was given."""
        return any(given == name for given, _ in self.options)

    def last(self, name: str) -> str | None:
        """The last value of the option; None if it was not given."""
        return next((value for given, value in reversed(self.options) if given == name), None)

    def all(self, name: str) -> tuple[str, ...]:
        """All values of the option."""
        return tuple(value for given, value in self.options if given == name)


def parse(command: str, arguments: Sequence[str], known: Sequence[Option], *, stop_at_word: bool = False) -> Parsed:
    """The options and words among the arguments; with `stop_at_word` the options end at the first other word.

    Raises:
        Refused: an option is unknown, ambiguous, or lacks its value.
    """
    by_name = {option.name: option for option in known}
    by_letter = {option.letter: option for option in known if option.letter}
    options: list[tuple[str, str]] = []
    words: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--" or (stop_at_word and (not word.startswith("-") or word == "-")):
            words += rest if word == "--" else [word, *rest]
            break
        if word.startswith("--"):
            options.append(_long(command, word, rest, by_name))
        elif word.startswith("-") and word != "-":
            options += _letters(command, word[1:], rest, by_letter)
        else:
            words.append(word)
    return Parsed(tuple(options), tuple(words))


def _long(command: str, word: str, rest: list[str], known: dict[str, Option]) -> tuple[str, str]:
    name, equals, value = word[2:].partition("=")
    matching = [name] if name in known else [one for one in known if one.startswith(name)]
    if not matching:
        raise wrong_usage(command, f"unrecognized option '--{name}'")
    if len(matching) > 1:
        listed = " ".join(f"'--{one}'" for one in matching)
        raise wrong_usage(command, f"option '--{name}' is ambiguous; possibilities: {listed}")
    option = known[matching[0]]
    if option.takes is Takes.NOTHING and equals:
        raise wrong_usage(command, f"option '--{option.name}' doesn't allow an argument")
    if option.takes is Takes.VALUE and not equals:
        if not rest:
            raise wrong_usage(command, f"option '--{option.name}' requires an argument")
        value = rest.pop(0)
    return option.name, value or _next(option, rest)


def _letters(command: str, letters: str, rest: list[str], known: dict[str, Option]) -> list[tuple[str, str]]:
    found = []
    for place, letter in enumerate(letters, start=1):
        option = known.get(letter)
        if option is None:
            raise wrong_usage(command, f"invalid option -- '{letter}'")
        if option.takes is Takes.NOTHING:
            found.append((option.name, ""))
            continue
        value = letters[place:]
        if not value and option.takes is Takes.VALUE:
            if not rest:
                raise wrong_usage(command, f"option requires an argument -- '{letter}'")
            value = rest.pop(0)
        found.append((option.name, value or _next(option, rest)))
        break
    return found


def _next(option: Option, rest: list[str]) -> str:
    """The next word, where it may be the option's value."""
    return rest.pop(0) if option.takes is Takes.NEXT and rest and not rest[0].startswith("-") else ""


def usage(command: str, known: Sequence[Option]) -> str:
    """The options of a command, a line for each."""
    lines = [f"Usage: {command} [OPTION]... [WORD]...\n"]
    for option in known:
        letter = f"-{option.letter}, " if option.letter else "    "
        value = {Takes.NOTHING: "", Takes.VALUE: "=VALUE"}.get(option.takes, "[=VALUE]")
        lines.append(f"  {letter}--{option.name}{value}\n")
    return "".join(lines)


def wrong_usage(command: str, message: str) -> Refused:
    """The refusal of a command line."""
    hint = "" if command == "sacct" else f'\nTry "{command} --help" for more information'
    return Refused(f"{command}: {message}{hint}")
