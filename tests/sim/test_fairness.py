"""The verdicts on allocations, held against trying everything on tiny instances."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from scheduler.sim.fairness import Party, Way, alone, improvement, value, verdicts

TYPES = ("A", "B")


def gang(gpus: int, **worths: float) -> tuple[Way, ...]:
    """A job of a gang on one node, with what it does on each type."""
    return tuple(Way(kind, gpus, worth) for kind, worth in worths.items())


def party(name: str, jobs: Mapping[int, tuple[Way, ...]], share: float = 1.0, **holds: int) -> Party:
    """A party that holds GPUs of each type on one node, with a share of each type."""
    return Party(name, jobs, {kind: (gpus,) for kind, gpus in holds.items()}, dict.fromkeys(TYPES, share))


def test_a_party_whose_share_does_more_than_what_it_holds_loses_by_sharing() -> None:
    nlp = party("nlp", {1: gang(8, A=8)}, share=8, A=2)
    vision = party("vision", {2: gang(4, A=4)}, share=8, A=4)
    (loss,) = verdicts([nlp, vision], {"A": (16,)}).losses
    assert (loss.party, loss.value, loss.alone, loss.job_ids) == (nlp, 0, 8, (1,))


def test_a_share_below_a_gang_is_a_share_of_its_time() -> None:
    assert alone(party("nlp", {1: gang(4, A=4)}, share=1)) == {1: 1}
    assert alone(party("nlp", {1: gang(4, A=4, B=2)}, share=1)) == {1: 1.5}


def test_a_loss_names_the_jobs_that_would_do_more_alone() -> None:
    nlp = party("nlp", {1: gang(2, A=2), 2: gang(2, A=2), 3: gang(1, A=1)}, share=5, A=3)
    (loss,) = verdicts([nlp], {"A": (5,)}).losses
    assert (loss.value, loss.alone, len(loss.job_ids)) == (3, 5, 1)


def test_two_jobs_on_the_wrong_types_break_all_three_properties() -> None:
    first = party("first", {1: gang(1, A=1, B=1)}, 0.5, A=1)
    second = party("second", {2: gang(1, A=1, B=0.1)}, 0.5, B=1)
    found = verdicts([first, second], {"A": (1,), "B": (1,)})
    assert [loss.party.name for loss in found.losses] == ["second"]
    assert [(envy.party.name, envy.other.name) for envy in found.envies] == [("second", "first")]
    assert found.better is not None
    assert {job_id: way.gpu_type for job_id, way in found.better.runs.items()} == {1: "B", 2: "A"}
    assert found.better.values == ((1, 1), (0.1, 1))


def test_only_parties_with_equal_shares_are_compared() -> None:
    small, large = party("small", {1: gang(1, A=1)}, 1), party("large", {2: gang(1, A=1)}, 2, A=1)
    assert verdicts([small, large], {"A": (1,)}).envies == ()


def test_free_gpus_on_two_nodes_are_no_place_for_a_gang_on_one() -> None:
    wide = party("wide", {1: gang(2, A=2)})
    holders = [party(f"job {number}", {number: gang(1, A=1)}, A=1) for number in (2, 3)]
    assert improvement([wide, *holders], {"A": (2, 1)}) is None
    assert improvement([wide, *holders], {"A": (2, 2)}) is not None


_WAYS = st.lists(st.tuples(st.sampled_from(TYPES), st.integers(1, 3), st.integers(1, 4)), min_size=1, max_size=2)
_JOBS = st.lists(_WAYS, min_size=1, max_size=2)


@given(st.lists(_JOBS, min_size=1, max_size=3), st.tuples(st.integers(0, 4), st.integers(0, 3)), st.data())
def test_the_verdicts_are_those_of_trying_everything(
    drawn: list[list[list[tuple[str, int, int]]]], supply: tuple[int, int], data: st.DataObject
) -> None:
    left = dict(zip(TYPES, supply, strict=True))
    parties = []
    for number, jobs in enumerate(drawn):
        holds = {kind: data.draw(st.integers(0, left[kind])) for kind in TYPES}
        left = {kind: left[kind] - holds[kind] for kind in TYPES}
        ways = {10 * number + at: tuple(Way(*each) for each in job) for at, job in enumerate(jobs)}
        parties.append(party(str(number), ways, **holds))
    everything = {kind: (gpus,) for kind, gpus in zip(TYPES, supply, strict=True)}
    found = verdicts(parties, everything)
    have = [_most(each, {kind: nodes[0] for kind, nodes in each.holds.items()}) for each in parties]
    assert [value(each.jobs, each.holds) for each in parties] == have
    assert {(envy.party.name, envy.other.name) for envy in found.envies} == {
        (one.name, other.name)
        for one, own in zip(parties, have, strict=True)
        for other in parties
        if other is not one and own < _most(one, {kind: nodes[0] for kind, nodes in other.holds.items()})
    }
    assert {loss.party.name for loss in found.losses} == {
        one.name for one, own in zip(parties, have, strict=True) if own < sum(alone(one).values()) * (1 - 1e-6)
    }
    better = [
        values
        for values in _allocations(parties, dict(zip(TYPES, supply, strict=True)))
        if all(new >= old for new, old in zip(values, have, strict=True)) and values != have
    ]
    assert (found.better is not None) == bool(better)
    if found.better is not None:
        assert [after for _, after in found.better.values] in better


def _most(one: Party, gpus: Mapping[str, int]) -> float:
    return max(values[0] for values in _allocations([one], gpus))


def _allocations(parties: list[Party], gpus: Mapping[str, int]) -> Iterator[list[float]]:
    """The values of the parties in each allocation of the GPUs."""
    owners = [index for index, one in enumerate(parties) for _ in one.jobs]
    for runs in product(*((None, *ways) for one in parties for ways in one.jobs.values())):
        used = dict.fromkeys(TYPES, 0)
        values = [0.0] * len(parties)
        for index, way in zip(owners, runs, strict=True):
            if way is not None:
                used[way.gpu_type] += way.gpus
                values[index] += way.worth
        if all(used[kind] <= gpus[kind] for kind in TYPES):
            yield values
