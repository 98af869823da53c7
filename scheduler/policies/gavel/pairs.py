"""Space sharing: pairs of jobs that share their GPUs.

Sources: Narayanan et al., Gavel (OSDI 2020), §3.1, where a pair is a row of its own in the shares; Xiao et al., Gandiva
(OSDI 2018), whose random packing is `random_pairs`, as in Gavel's artifact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from random import Random

import numpy as np

from scheduler.authoring import Config, Cycle, Job, preferred
from scheduler.policies.gavel.problem import Floats, Problem


def with_pairs(cycle: Cycle, problem: Problem, *, only_faster: bool) -> Problem:
    """The problem with the pairs of jobs that may share GPUs; `only_faster` leaves out what is no faster than turns.

    Both jobs need as many GPUs. The rates of a pair are those of each job alone, times its speed beside the other.
    """
    running = {run.job.id: run.job for run in cycle.running()}
    jobs = {job.id: job for job in cycle.waiting()} | running
    configs = [preferred(cycle.configs(jobs[job_id])) for job_id in problem.ids]
    pairs: list[tuple[int, int]] = []
    rates: list[Floats] = []
    for first, second in combinations(range(len(problem)), 2):
        one, other = jobs[problem.ids[first]], jobs[problem.ids[second]]
        alike = problem.able[first] & problem.able[second] & (problem.gpus[first] == problem.gpus[second])
        if not alike.any() or not cycle.may_share(one, other):
            continue
        relative = np.zeros((len(problem.types), 2))
        for column in np.nonzero(alike)[0]:
            config = configs[first][problem.types[column]]
            relative[column] = beside(cycle, one, other, config), beside(cycle, other, one, config)
        worth = (relative.min(axis=1) > 0) & ((relative.sum(axis=1) > 1) | (not only_faster))
        if worth.any():
            alone = np.stack([problem.rates[first], problem.rates[second]], axis=1)
            pairs.append((first, second))
            rates.append(np.where(worth[:, None], alone * relative, 0.0))
    if not pairs:
        return problem
    return replace(problem, pairs=np.array(pairs, dtype=np.intp), pair_rates=np.stack(rates))


def beside(cycle: Cycle, job: Job, other: Job, config: Config) -> float:
    """The speed of a job beside another, relative to alone; 0 if unknown, which makes no pair."""
    alone, together = cycle.rate(job, config), cycle.rate(job, config, other)
    return together.mean / alone.mean if alone is not None and together is not None and alone.mean > 0 else 0.0


def random_pairs(problem: Problem, kept: Mapping[int, int], drawn: Random) -> tuple[Floats, Mapping[int, int]]:
    """Equal time for single jobs and for pairs that were drawn at random, and the partners by the ids of paired jobs.

    While all jobs fit, none shares. A pair in `kept` stays together while both are there and can share each type. As in
    the artifact, pairs are drawn without knowing whether they can share: one that cannot leaves its jobs the GPUs that
    no share claims, until the next solve draws anew.
    """
    rows = {job_id: row for row, job_id in enumerate(problem.ids)}
    pair_of = {frozenset(pair): number for number, pair in enumerate(problem.pairs.tolist())}

    def pair(one: int, other: int) -> int | None:
        return pair_of.get(frozenset({rows.get(one, -1), rows.get(other, -2)}))

    everywhere = {number for number, rates in enumerate(problem.pair_rates) if rates.min() > 0}
    partner = {job_id: other for job_id, other in kept.items() if pair(job_id, other) in everywhere}
    x = np.zeros((len(problem) + len(problem.pairs), len(problem.types)))
    if problem.size.sum() <= problem.supply.sum():
        x[: len(problem)] = time_of(problem, problem.gpus, len(problem))
        return np.where(np.concatenate([problem.able, problem.pair_rates.min(axis=2) > 0]), x, 0.0), partner
    free = [job_id for job_id in problem.ids if job_id not in partner]
    for _ in range(len(free)):
        if len(free) < 2:
            break
        one, other = drawn.sample(free, 2)
        if problem.size[rows[one]] == problem.size[rows[other]]:
            partner |= {one: other, other: one}
            free.remove(one)
            free.remove(other)
    units = len(free) + len(partner) // 2
    alone = np.array([rows[job_id] for job_id in free], dtype=np.intp)
    x[alone] = time_of(problem, problem.gpus[alone], units)
    for number in {pair(one, other) for one, other in partner.items()} - {None}:
        x[len(problem) + (number or 0)] = time_of(problem, problem.gpus[problem.pairs[number, :1]], units)
    return np.where(np.concatenate([problem.able, problem.pair_rates.min(axis=2) > 0]), x, 0.0), partner


def time_of(problem: Problem, gpus: Floats, units: int) -> Floats:
    """An equal part of the GPUs of each type for each of the units, as shares of time; `gpus` has shape (m, k)."""
    shares = problem.supply[None, :] / units / gpus
    capped: Floats = shares / np.maximum(1.0, shares.sum(axis=1, keepdims=True))
    return capped
