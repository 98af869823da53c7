"""Forecasts of waits as lines and sheets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import RenderableType

from muster_client.show.tables import sheet, text_of
from muster_client.show.times import duration, moment_text, utc_now, with_times_in_words

if TYPE_CHECKING:
    from muster_client.answers.forecast import DryRun, WaitForecast, When


def when_sheet(when: When) -> RenderableType:
    """Return the start of a job and the forecasts of it."""
    rows: list[tuple[str, RenderableType]] = []
    if when["started_at"] is not None:
        rows.append(("Started", text_of(moment_text(when["started_at"]))))
    else:
        rows += wait_rows("Starts", when["wait"], when["wait_unknown"])
    for label, moment in (("Median", when["starts_p50_at"]), ("90 %", when["starts_p90_at"])):
        if moment is not None:
            rows.append((label, text_of(with_times_in_words(f"by {moment}", utc_now()))))
    if when["waited_s"] is not None:
        rows.append(("Waited", text_of(duration(when["waited_s"]))))
    if when["submitted"] is not None:
        rows.append(("At submission", text_of(when["submitted"]["says"])))
    return sheet(rows)


def outlook_answer(result: DryRun) -> dict[str, object]:
    """Return the part of a dry run that is about the start."""
    return {key: result[key] for key in ("feasible", "fits_quota", "starts_now", "hold", "wait", "wait_unknown")}


def outlook_sheet(result: DryRun) -> RenderableType:
    """Return when a job would start that is not submitted."""
    rows = wait_rows("Starts", result["wait"], result["wait_unknown"])
    if result["hold"] is not None:
        rows.append(("Waits for", text_of(with_times_in_words(result["hold"]["detail"], utc_now()))))
    return sheet(rows)


def wait_rows(label: str, wait: WaitForecast | None, unknown: str) -> list[tuple[str, RenderableType]]:
    """Return the forecast of a wait in words, or why there is none; no row where nothing waits."""
    if wait is not None:
        return [(label, text_of(wait["says"]))]
    return [(label, text_of(f"not known: {unknown}"))] if unknown else []
