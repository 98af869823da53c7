"""The rule file is whole, each rule is its own test, and a bad rule of an operator is refused by name."""

from __future__ import annotations

import pytest

from scheduler.diagnosis.failures import Category, Retry, Rule, RuleError, Strength, Tail, builtin, classify, read_rules

RULES = builtin()

GOOD = "{gpu_lost: [{name: ours, match: 'card \\d+ is silent', line: card 7 is silent}]}"


def test_every_class_says_what_to_do() -> None:
    assert [one.name for one in RULES.classes.values() if len(one.hint) < 40 or not one.hint.endswith(".")] == []
    assert [one.name for one in RULES.classes.values() if len(one.hint) > 220] == []


def test_every_class_but_the_one_without_a_signature_has_a_rule() -> None:
    assert set(RULES.classes) - {rule.failure for rule in RULES.rules} == {"no_signature"}


@pytest.mark.parametrize("rule", RULES.rules, ids=lambda rule: f"{rule.failure}: {rule.name}")
def test_the_line_of_a_rule_leads_to_its_class(rule: Rule) -> None:
    verdict = classify([Tail(rule.line.encode())])
    assert verdict.failure == rule.failure
    assert verdict.line_number == 1


def test_a_rule_of_an_operator_wins_over_ours_on_its_line() -> None:
    ours = read_rules("{gpu_lost: [{name: site, match: 'CUDA error: unspecified', line: 'CUDA error: unspecified'}]}")
    log = [Tail(b"RuntimeError: CUDA error: unspecified launch failure")]
    assert classify(log).failure == "cuda_illegal_memory_access"
    assert classify(log, rules=RULES.with_rules(ours)).failure == "gpu_lost"


def test_a_rule_may_have_its_own_hint_and_reaction() -> None:
    text = (
        "{nccl_error: [{name: x, match: switch reset, line: the switch reset, as: cause, retry: no, hint: Call us.}]}"
    )
    verdict = classify([Tail(b"the switch reset")], rules=RULES.with_rules(read_rules(text)))
    assert (verdict.failure, verdict.retry, verdict.hint) == ("nccl_error", Retry.NO, "Call us.")
    assert verdict.category is Category.AI_ENGINE


def test_a_good_rule_is_read() -> None:
    (rule,) = read_rules(GOOD)
    assert (rule.name, rule.failure, rule.strength) == ("ours", "gpu_lost", Strength.CAUSE)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{no_such: [{name: a, match: x, line: x}]}", "class 'no_such': unknown class"),
        ("{gpu_lost: [{match: x, line: x}]}", "class 'gpu_lost': a rule has no name"),
        ("{gpu_lost: [{name: a, match: x}]}", "rule 'a': line: is missing"),
        ("{gpu_lost: [{name: a, line: x}]}", "rule 'a': match: is missing"),
        ("{gpu_lost: [{name: a, match: '(x', line: x}]}", "rule 'a': match: is not a valid pattern: missing )"),
        (
            "{gpu_lost: [{name: a, match: '(x)\\1', line: xx}]}",
            "rule 'a': match: is not a valid pattern: invalid escape",
        ),
        (
            "{gpu_lost: [{name: a, match: 'x(?=y)', line: xy}]}",
            "rule 'a': match: is not a valid pattern: invalid perl operator",
        ),
        (
            "{gpu_lost: [{name: a, match: '((x{1,999}){1,999}){1,9}', line: x}]}",
            "rule 'a': match: is not a valid pattern",
        ),
        ("{gpu_lost: [{name: a, match: x, line: x, unless: '['}]}", "rule 'a': unless: is not a valid pattern"),
        ("{gpu_lost: [{name: a, match: x, line: y}]}", "rule 'a': line: the rule does not match it"),
        ("{gpu_lost: [{name: a, match: x, line: xz, unless: z}]}", "rule 'a': line: `unless` excludes it"),
        ("{gpu_lost: [{name: a, match: 'x*', line: x}]}", "rule 'a': match: matches the empty line"),
        ("{gpu_lost: [{name: a, match: x, line: x, as: proof}]}", "rule 'a': as: must be one of certain, cause"),
        ("{gpu_lost: [{name: a, match: x, line: x, retry: often}]}", "rule 'a': retry: must be one of no"),
        ("{gpu_lost: [{name: a, match: x, line: x, class: y}]}", "rule 'a': class: unknown field"),
        ("{gpu_lost: [{name: a, match: [x], line: x}]}", "rule 'a': match: must be a string"),
        ("{gpu_lost: [{name: a, match: x, line: x}, {name: a, match: y, line: y}]}", "rule 'a': name: is used twice"),
        (f"{{gpu_lost: [{{name: a, match: {'x' * 7000}, line: x}}]}}", "rule 'a': match: is longer than"),
        ("{gpu_lost: {name: a}}", "class 'gpu_lost': must be a list"),
        ("{gpu_lost: [a]}", "class 'gpu_lost': a rule must be a mapping"),
        ("[", "the rules: not YAML"),
        ("[]", "the rules must be a mapping"),
        ("{[a]: []}", "a key has to be text"),
    ],
)
def test_a_bad_rule_is_refused_with_its_name_and_field(text: str, told: str) -> None:
    with pytest.raises(RuleError) as caught:
        read_rules(text)
    assert told in str(caught.value)


def test_a_pattern_that_would_hang_an_engine_that_backtracks_is_harmless() -> None:
    rules = RULES.with_rules(read_rules("{gpu_lost: [{name: a, match: '(a+)+(b|c)$', line: aab}]}"))
    assert classify([Tail(b"a" * (256 << 10))], rules=rules).failure == "no_signature"
    assert classify([Tail(b"a" * 500 + b"b")], rules=rules).failure == "gpu_lost"
