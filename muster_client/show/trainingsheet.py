"""A job's training, as lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from muster_client.local.terminal import clean

if TYPE_CHECKING:
    from muster_client.answers.metrics import CheckpointInterval, JobTraining

_MAX_FIGURES = 12
_SAID = {
    "nan": "the loss is not a number (NaN)",
    "rising": "the loss is rising",
    "plateau": "the loss has reached a plateau",
}
_NO_FIGURE = {"total"}


def training_lines(training: JobTraining) -> list[Text]:
    """The newest figures, what the owner was told, and how often to save; nothing where there is nothing."""
    lines: list[Text] = []
    figures = [one for one in training["newest"] if one["name"] not in _NO_FIGURE]
    if figures:
        told = ", ".join(
            f"{clean(one['name'])} {'not finite' if one['value'] is None else format(one['value'], '.5g')}"
            for one in figures[:_MAX_FIGURES]
        )
        more = f" and {len(figures) - _MAX_FIGURES} more" if len(figures) > _MAX_FIGURES else ""
        step = max((one["step"] for one in figures if one["step"] is not None), default=None)
        lines.append(Text(f"Figures: {told}{more}" + (f" (step {step:g})" if step is not None else "")))
    for one in training["advice"]:
        said = _SAID.get(one["kind"], clean(one["kind"]))
        lines.append(Text.assemble(("Advice: ", "yellow"), f"{said}: {clean(one['text'])}"))
    lines += [
        Text.assemble(("Rule: ", "yellow"), f"{clean(rule['rule'])} matched: {clean(rule['line'])}")
        for rule in training["rules"]
    ]
    if training["checkpoint"] is not None:
        lines.append(Text(_checkpoint_line(training["checkpoint"])))
    return lines


def _checkpoint_line(one: CheckpointInterval) -> str:
    cost = f"one takes {_span(one['cost_s'])}"
    if one["measured"] != "reported":
        cost = f"it took {_span(one['cost_s'])} to go when it was asked to"
    seen = f"{one['failures']} failures in {one['node_hours']:.0f} node-hours of its pool"
    return (
        f"Checkpoints: save one every {_span(one['daly_s'])} (by Daly; by Young {_span(one['young_s'])}): {cost}, and"
        f" its nodes fail every {_span(one['mtbf_s'])} on average ({seen})"
    )


def _span(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"
