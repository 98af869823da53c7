"""Rules on the output of jobs: strict parsing, and matching in any output."""

from __future__ import annotations

import pytest

from scheduler.diagnosis.logrules import EVIDENCE_CHARS, Action, LogRules, read_log_rules
from scheduler.diagnosis.patterns import RuleError

RULES = """
hang:
  match: 'NCCL WARN .*timeout'
  unless: 'simulated'
  line: 'node3: NCCL WARN a timeout of 600 s'
  actions: [cancel, exclude_node]
broken:
  match: '^fatal: '
  line: 'fatal: it broke'
  actions: [notify_owner]
  pool: main
"""


@pytest.fixture
def rules() -> LogRules:
    return read_log_rules(RULES)


def met(rules: LogRules, text: bytes) -> list[tuple[str, str]]:
    return [(rule.name, line) for rule, line in rules.matches(text)]


def test_rules_are_read(rules: LogRules) -> None:
    hang, broken = rules.rules
    assert (hang.actions, hang.pool) == ((Action.CANCEL, Action.EXCLUDE_NODE), "")
    assert (broken.actions, broken.pool) == ((Action.NOTIFY_OWNER,), "main")
    assert read_log_rules("").rules == ()
    assert read_log_rules("").matches(b"anything") == []


WRONG = {
    "no YAML": ("a: [", "the rules: not YAML"),
    "a list": ("- a", "must be a mapping of names"),
    "a name": ("'A b': {match: x, line: x, actions: [cancel]}", "its name must be"),
    "a text": ("a: b", "must be a mapping"),
    "a field": ("a: {mach: x}", "mach: unknown field"),
    "no pattern": ("a: {line: x, actions: [cancel]}", "match: is missing"),
    "no line": ("a: {match: x, actions: [cancel]}", "line: is missing"),
    "no actions": ("a: {match: x, line: x}", "actions: must be a list"),
    "an action": ("a: {match: x, line: x, actions: [kill]}", "actions: must be of"),
    "looking back": ("a: {match: '(a)\\1', line: aa, actions: [cancel]}", "match: is not a valid pattern"),
    "too large": ("a: {match: '((a{100}){100}){100}', line: a, actions: [cancel]}", "match: is not a valid pattern"),
    "a half": ("a: {match: 'a)|(b', line: a, actions: [cancel]}", "match: is not a valid pattern"),
    "every line": ("a: {match: 'x*', line: x, actions: [cancel]}", "matches the empty line"),
    "another line": ("a: {match: x, line: y, actions: [cancel]}", "the rule does not match it"),
    "its own exception": ("a: {match: x, unless: x, line: x, actions: [cancel]}", "`unless` excludes it"),
}


@pytest.mark.parametrize(("text", "said"), WRONG.values(), ids=list(WRONG))
def test_what_is_wrong_is_named(text: str, said: str) -> None:
    with pytest.raises(RuleError, match=":") as error:
        read_log_rules(text)
    assert said in str(error.value)


def test_the_first_line_that_matches_is_the_evidence(rules: LogRules) -> None:
    text = b"step 1\nn1: NCCL WARN first timeout\nn2: NCCL WARN second timeout\nfatal: end\n"
    assert met(rules, text) == [("hang", "n1: NCCL WARN first timeout"), ("broken", "fatal: end")]
    assert [rule.name for rule, _ in rules.matches(text, without={"hang"})] == ["broken"]


def test_a_line_that_is_ruled_out_hides_no_later_one(rules: LogRules) -> None:
    text = b"simulated NCCL WARN timeout\nn2: NCCL WARN timeout\n"
    assert met(rules, text) == [("hang", "n2: NCCL WARN timeout")]
    assert met(rules, b"simulated NCCL WARN timeout\n") == []


def test_a_pattern_that_reaches_over_lines_matches_none() -> None:
    over = read_log_rules("a: {match: 'x\\s+y', line: 'x y', actions: [cancel]}")
    assert met(over, b"x\ny\nz\n") == []
    assert met(over, b"x\ny\nx y\n") == [("a", "x y")]


def test_a_carriage_return_ends_a_line(rules: LogRules) -> None:
    assert met(rules, b"10%\rfatal: no\r20%\n") == [("broken", "fatal: no")]


def test_the_evidence_of_a_long_line_is_the_printable_part_around_the_match(rules: LogRules) -> None:
    text = b"x" * 1_000_000 + b"NCCL WARN \x1b[31m\xff timeout" + b"y" * 1_000_000
    ((_, line),) = met(rules, text)
    assert len(line) == EVIDENCE_CHARS
    assert line.isprintable()
    assert "NCCL WARN" in line


@pytest.mark.parametrize(
    "text",
    [
        b"NCCL WARN \n" * 1_000_000,
        b"NCCL WARN " * 1_000_000,
        b"simulated NCCL WARN timeout\n" * 100_000,
        bytes(range(256)) * 20_000,
        b"\r" * 5_000_000,
    ],
    ids=["halves", "one line", "ruled out", "binary", "ends"],
)
def test_what_is_made_to_be_slow_is_not(rules: LogRules, text: bytes) -> None:
    # A backtracking engine needs hours for it and would hit the time limit of the test.
    assert met(rules, text) == []


def test_two_hundred_rules_are_as_many_as_there_may_be() -> None:
    text = "\n".join(f"r{n}: {{match: 'word{n} .*end', line: 'word{n} end', actions: [cancel]}}" for n in range(200))
    many = read_log_rules(text)
    assert met(many, b"nothing\nword150 the end\n") == [("r150", "word150 the end")]
    with pytest.raises(RuleError, match="at most 200"):
        read_log_rules(text + "\nmore: {match: a, line: a, actions: [cancel]}")
