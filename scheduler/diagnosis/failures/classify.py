"""Find the class of a failed attempt from all evidence: `classify` is the one decision."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from scheduler.diagnosis.failures import scan, text
from scheduler.diagnosis.failures.evidence import GpuEvent, Retry, Tail, Verdict
from scheduler.diagnosis.failures.rules import NO_SIGNATURE, Rule, RuleSet, builtin

_SIGKILL = 9
_GPU_CLASSES = frozenset({"gpu_ecc_error", "gpu_lost", "nvlink_error"})
_FACT_WORTH, _CLUE_WORTH = 3.9, 2.5
# A crash says more than the complaints of other ranks; a kill or an abort may be their consequence.
_SIGNAL_WORTH = {11: 2.5, 7: 2.5, 4: 2.5, 8: 2.5, 9: 1.6}
_WEAK_WORTH = 0.9


@dataclass(frozen=True, slots=True)
class _Candidate:
    """One possible answer; `at_s` is when the evidence appeared, if known."""

    failure: str
    worth: float
    rule: Rule | None = None
    retry: Retry | None = None
    name: str = ""
    line: str = ""
    line_number: int | None = None
    rank: int | None = None
    at_s: float | None = None


def classify(
    tails: Sequence[Tail],
    *,
    status: int | None = None,
    signal: int | None = None,
    platform: Collection[str] = (),
    gpus: Sequence[GpuEvent] = (),
    rules: RuleSet | None = None,
) -> Verdict:
    """The class of a failure, its category, whether a retry can help, and the line that shows it.

    `status` or `signal` is the end of the first failed rank, if no tail has it. `platform` holds words for what the
    platform did or saw, as in `rules/facts.yaml`; unknown words are ignored.

    1. A decisive fact of the platform, or a GPU that reports itself broken, is the answer.
    2. Else the answer is the cause in the logs: within a rank the first one after the last sign of progress, among
       ranks the earliest.
    3. Else it is a consequence: an application's Xid, the signal that ended the first rank, then symptoms.
    """
    rules = rules or builtin()
    for word in platform:
        fact = rules.platform.get(word)
        if fact is not None and fact.decisive:
            return _verdict(_Candidate(fact.failure, 5, retry=fact.retry, name=f"platform: {word}"), rules)
    clues = [*_gpu_clues(gpus, rules)]
    broken = max(clues, key=lambda clue: clue.worth, default=None)
    if broken is not None and broken.worth > scan.CAUSAL:
        return _verdict(broken, rules)
    first = _first_to_fail(tails)
    if first is not None and first.status is None and first.signal is None:
        clues += _exit_clues(status, signal, rules)
    elif first is not None:
        clues += _exit_clues(first.status, first.signal, rules)
    else:
        clues += _exit_clues(status, signal, rules)
    killed = _SIGKILL in (signal, _signal_of(status)) or (
        first is not None and _SIGKILL in (first.signal, _signal_of(first.status))
    )
    for word in platform:
        fact = rules.platform.get(word)
        if fact is not None:
            worth = 5.0 if killed and word == "out_of_memory" else _FACT_WORTH
            clues.append(_Candidate(fact.failure, worth, retry=fact.retry, name=f"platform: {word}"))
    for tail in tails:
        found = _in_tail(tail, rules)
        if found is not None:
            clues.append(found)
    return _verdict(_best(clues), rules)


def _best(clues: Sequence[_Candidate]) -> _Candidate:
    causes = [clue for clue in clues if clue.worth >= scan.CAUSAL]
    known = [clue for clue in causes if clue.at_s is not None]
    if known and len(known) == len(causes):
        return min(known, key=lambda clue: (clue.at_s or 0.0, -clue.worth))
    return max(causes or clues, key=lambda clue: clue.worth, default=_Candidate(NO_SIGNATURE, 0))


def _in_tail(tail: Tail, rules: RuleSet) -> _Candidate | None:
    """The answer from one rank's log."""
    read = text.read(tail.data, cut_at=tail.cut_at, cut_lines=tail.cut_lines)
    found = scan.matches(read, rules)
    if not found:
        return None
    match = _cause_in(read, found)
    return _Candidate(
        failure=match.rule.failure,
        worth=match.worth,
        rule=match.rule,
        name=match.rule.name,
        line=read.quote(match.at),
        line_number=read.line_number(match.at),
        rank=tail.rank,
        at_s=_time_of(tail, match.at),
    )


def _cause_in(read: text.Text, found: Sequence[scan.Match]) -> scan.Match:
    """The first cause after the last sign of progress; without a cause, the strongest and first symptom."""
    causes = [match for match in found if match.worth >= scan.CAUSAL]
    if not causes:
        return min(found, key=_rank_of)
    last = len(causes) - 1
    while last > 0 and not scan.made_progress(read, causes[last - 1].at + causes[last - 1].length, causes[last].at):
        last -= 1
    return min(causes[last:], key=_rank_of)


def _rank_of(match: scan.Match) -> tuple[float, int, int]:
    return (-match.worth, match.at, -match.length)


def _time_of(tail: Tail, at: int) -> float | None:
    seen = tail.ended_at_s
    for offset, at_s in tail.marks:
        if offset > at:
            break
        seen = at_s
    return seen


def _first_to_fail(tails: Sequence[Tail]) -> Tail | None:
    failed = [tail for tail in tails if tail.status or tail.signal]
    timed = [tail for tail in failed if tail.ended_at_s is not None]
    if timed:
        return min(timed, key=lambda tail: tail.ended_at_s or 0.0)
    return failed[0] if failed else None


def _signal_of(status: int | None) -> int | None:
    if status is None:
        return None
    if status < 0:
        return -status
    return status - 128 if 128 < status < 160 else None


def _exit_clues(status: int | None, signal: int | None, rules: RuleSet) -> list[_Candidate]:
    number = signal or _signal_of(status)
    if number is not None and number in rules.signals:
        worth = _SIGNAL_WORTH.get(number, _WEAK_WORTH)
        return [_Candidate(rules.signals[number], worth, name=f"ended by signal {number}")]
    if status is not None and status in rules.statuses:
        return [_Candidate(rules.statuses[status], _WEAK_WORTH, name=f"exit status {status}")]
    return []


def _gpu_clues(gpus: Sequence[GpuEvent], rules: RuleSet) -> list[_Candidate]:
    clues: list[_Candidate] = []
    for event in gpus:
        fact = rules.gpu.get(event.xid) if event.xid is not None else None
        if fact is not None:
            worth = 6.0 if fact.decisive else _CLUE_WORTH
            clues.append(
                _Candidate(fact.failure, worth, retry=fact.retry, name=f"Xid {event.xid}", line=event.message[:400])
            )
            continue
        found = scan.matches(text.read(event.message.encode()), rules) if event.message else []
        clues.extend(
            _Candidate(match.rule.failure, 6, rule=match.rule, name=match.rule.name, line=event.message[:400])
            for match in found
            if match.rule.failure in _GPU_CLASSES
        )
    return clues


def _verdict(candidate: _Candidate, rules: RuleSet) -> Verdict:
    known = rules.classes[candidate.failure]
    rule = candidate.rule
    return Verdict(
        failure=candidate.failure,
        category=known.category,
        retry=candidate.retry or (rule.retry if rule else None) or known.retry,
        confidence=_confidence(candidate),
        line=candidate.line,
        hint=(rule.hint if rule else "") or known.hint,
        rule=candidate.name,
        line_number=candidate.line_number,
        rank=candidate.rank,
    )


def _confidence(candidate: _Candidate) -> float:
    for worth, confidence in ((4.0, 0.95), (scan.CAUSAL, 0.8), (1.6, 0.5)):
        if candidate.worth >= worth:
            return confidence
    return 0.3 if candidate.failure != NO_SIGNATURE else 0.0
