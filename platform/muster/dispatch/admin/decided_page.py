"""A policy's decisions, drawn for the page of a pool in the admin: shares of time, and the last rounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from muster.common.clock import utc_now
from muster.dispatch.config.settings import config_of
from muster.dispatch.explain.decided import (
    Decided,
    LastRound,
    Spell,
    TypeShare,
    last_round,
    recent_spells,
    round_policy_of,
    solve_in_words,
)
from muster.fleet.models import Pool
from muster.jobs.models import Job
from muster.samples.rates import KnownRate

ROUNDS = 6
SHOWN = 100  # jobs in each table
_COLOURS = 8  # of `--chart-1` and so on
_HEADINGS = ("Job", "GPU type", "Share of time, and received", "Deficit", "Turn", "Rate", "Why")


def decided_page(pool: Pool) -> SafeString:
    """The shares of the last solve by job and GPU type, and where jobs ran in the last rounds."""
    found, policy = last_round(pool), config_of(pool).policy
    if policy == "themis":
        page = format_html('<a class="link" href="/fairness?pool={}">Fairness</a>', pool.name)
        return format_html(
            "themis follows no order of the queue: it leases GPUs to jobs and sweeps by auctions. {} shows the last.",
            page,
        )
    if policy == "optimus":
        return format_html(
            "{} follows no order of the queue: it gives each GPU to the job whose end that brings forward the most.",
            policy,
        )
    if round_policy_of(pool) is None:
        order = format_html('<a class="link" href="{}">the queue</a>', "/jobs?state=queued")
        return format_html("{} gives out no shares of time: it starts jobs by their order, as {} shows.", policy, order)
    if found is None:
        return format_html("{} has not decided yet. Its shares of time are here after its first round began.", policy)
    since = found.ends_at - timedelta(seconds=ROUNDS * found.round_s)
    return format_html(
        '<div class="decided">{}{}</div>', _shares(found), _rounds(found, since, recent_spells(pool, since))
    )


def _shares(found: LastRound) -> SafeString:
    if not found.rows:
        return format_html("<p>Solved at {}: no job had a share of time.</p>", _time(found.solved_at))
    rows = format_html_join("", "{}", ((_rows_of(row),) for row in found.rows[:SHOWN]))
    return format_html(
        "<p>Solved at {}. {} Time received is counted until {}. The round ends at {}: then the GPUs of each type go"
        " to jobs by their turns.</p>"
        "<p>The bar is the share of time since the solve, the mark what the job received. Deficit: time that it was"
        " promised before the solve and did not receive. Turn: its place on this type if the round ended now, by share"
        " ÷ time received.</p>"
        "<div><table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>{}",
        _time(found.solved_at),
        solve_in_words(found.solve) if found.solve else "",
        _time(found.counted_at),
        _time(found.ends_at),
        format_html_join("", "<th>{}</th>", ((heading,) for heading in _HEADINGS)),
        rows,
        _left_out(found.total, "GET /api/v1/pools/NAME/decisions has more."),
    )


def _rows_of(row: Decided) -> SafeString:
    """The rows of a job in the table of shares, one for each type."""
    span = len(row.by_type)
    first = format_html('<td rowspan="{}">{}</td>', span, row.title)
    last = format_html('<td rowspan="{}">{}</td>', span, row.why)
    cells = [_cells(one) for one in row.by_type]
    return format_html_join(
        "",
        "<tr>{}{}{}</tr>",
        ((first if not at else "", cell, last if not at else "") for at, cell in enumerate(cells)),
    )


def _cells(one: TypeShare) -> SafeString:
    return format_html(
        '<td>{}</td><td><span class="share"><i style="width:{}%"></i><b style="left:{}%"></b></span>{}, {}</td>'
        "<td>{} s</td><td>{}</td><td>{}</td>",
        one.gpu_type,
        f"{100 * one.share:.1f}",
        f"{100 * one.received:.1f}",
        f"{one.share:.0%}",
        f"{one.received:.0%}",
        f"{round(one.deficit_s):,}",
        "–" if one.turn is None else one.turn,
        _rate(one.rate),
    )


def _rate(rate: KnownRate | None) -> str:
    if rate is None:
        return "unknown"
    around = "" if rate.deviation is None else f" ± {rate.deviation:.2g}"
    return f"{rate.per_s:.3g}{around} per s, {rate.source}"


def _rounds(found: LastRound, since: datetime, spells: Mapping[Job, Sequence[Spell]]) -> SafeString:
    letters = letters_of(spell.gpu_type for of_job in spells.values() for spell in of_job)
    window = (since, found.ends_at)
    jobs = list(spells.items())[-SHOWN:]
    return format_html(
        "<p>The last {} rounds, from {} to {}: {}.</p>"
        "<div><table><thead><tr><th>Job</th><th>GPUs by type over time</th></tr></thead><tbody>{}</tbody></table></div>"
        "{}",
        ROUNDS,
        _time(since),
        _time(found.ends_at),
        format_html_join(
            ", ", '<i class="type type-{}">{}</i> {}', ((at, mark, kind) for kind, (mark, at) in letters.items())
        )
        or "no job ran",
        format_html_join(
            "",
            '<tr><td>#{} {} ({})</td><td><div class="rounds">{}</div></td></tr>',
            ((job.pk, job.name, job.tenant.name, _drawn(of_job, window, letters)) for job, of_job in jobs),
        ),
        _left_out(len(spells), "The newest jobs are shown."),
    )


def _drawn(
    spells: Iterable[Spell], window: tuple[datetime, datetime], letters: Mapping[str, tuple[str, int]]
) -> SafeString:
    """A bar for each spell within the window, coloured and lettered by type."""
    begin, end = window
    now = min(utc_now(), end)

    def part(moment: datetime) -> float:
        return 100 * min(1.0, max(0.0, (moment - begin) / (end - begin)))

    bars = []
    for spell in spells:
        until = spell.ended_at or now
        mark, colour = letters[spell.gpu_type]
        left, right = part(spell.began_at), part(until)
        told = (
            f"{spell.gpus} {spell.gpu_type} from {_time(spell.began_at)} to {_time(until) if spell.ended_at else 'now'}"
        )
        bars.append((colour, f"{left:.2f}", f"{max(right - left, 0.2):.2f}", told, mark))
    return format_html_join("", '<i class="type type-{}" style="left:{}%;width:{}%" title="{}">{}</i>', bars)


def letters_of(types: Iterable[str]) -> Mapping[str, tuple[str, int]]:
    """A letter and a colour for each GPU type: its first letter if these differ, else A, B, C."""
    kinds = sorted(set(types))
    firsts = [kind[:1].upper() for kind in kinds]
    marks = firsts if len(set(firsts)) == len(kinds) else [chr(ord("A") + at % 26) for at in range(len(kinds))]
    return {kind: (mark, at % _COLOURS + 1) for at, (kind, mark) in enumerate(zip(kinds, marks, strict=True))}


def _left_out(total: int, hint: str) -> str:
    return f"{total - SHOWN} more are not shown. {hint}" if total > SHOWN else ""


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
