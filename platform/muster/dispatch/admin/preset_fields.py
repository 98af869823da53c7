"""The parts of a pool's form about its preset: the choice, and the preview of what a switch changes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from django import forms
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from muster.dispatch.config.switches import Change
from scheduler.presets import PRESETS

OWN = ""
"""The value of the choice where the settings are of no preset."""
_OWN_TITLE, _OWN_PURPOSE = "Settings of its own", "Choose the plug-ins and their parameters below."


class PresetChoice(forms.RadioSelect):
    """The presets as cards; `values` has the texts by which `static/muster/pool.js` fills the form, by preset."""

    values: Mapping[str, Mapping[str, Any]] = {}

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        cards = [
            (
                name,
                preset.name,
                json.dumps(self.values.get(preset.name, {})),
                SafeString("checked") if value == preset.name else "",
                preset.title,
                preset.purpose,
                " · ".join((preset.policy, preset.placement, preset.admission)),
            )
            for preset in PRESETS.values()
        ]
        own = (name, OWN, "{}", SafeString("checked") if not value else "", _OWN_TITLE, _OWN_PURPOSE, "")
        return format_html(
            '<div class="presets" id="{}" role="radiogroup" aria-label="Preset">{}</div>',
            (attrs or {}).get("id", name),
            format_html_join(
                "",
                '<label class="preset"><input type="radio" name="{}" value="{}" data-fields="{}" {}>'
                "<strong>{}</strong><span>{}</span><small>{}</small></label>",
                [*cards, own],
            ),
        )

    def id_for_label(self, id_: str | None, index: str | None = None) -> str:
        """None of the cards: the label is of all."""
        return ""


class PresetField(forms.ChoiceField):
    """The name of a preset, or `OWN`."""

    def __init__(self) -> None:
        choices = [*((preset.name, preset.title) for preset in PRESETS.values()), (OWN, _OWN_TITLE)]
        super().__init__(choices=choices, required=False, widget=PresetChoice)


class Preview(forms.Widget):
    """The changes that saving would make. `static/muster/pool.js` asks `url` for it anew after each edit."""

    url = ""
    text: SafeString = SafeString("")

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        """A box that is empty while nothing is switched."""
        return format_html(
            '<div id="{}" class="switch" data-preview="{}" aria-live="polite">{}</div>',
            (attrs or {}).get("id", name),
            self.url,
            self.text,
        )


def preview_of(found: Iterable[Change], effects: Iterable[str], *, problems: Iterable[str] = ()) -> SafeString:
    """The changes as a table and their effects as a list; empty if there are none."""
    rows = format_html_join(
        "", "<tr><th>{}</th><td>{}</td><td>→ {}</td></tr>", ((one.name, one.before, one.after) for one in found)
    )
    errors = format_html_join("", '<p class="switch-problem">{}</p>', ((text,) for text in problems))
    if not rows and not errors:
        return SafeString("")
    items = format_html_join("", "<li>{}</li>", ((text,) for text in effects))
    table = format_html("<table><tbody>{}</tbody></table>", rows) if rows else ""
    return format_html("{}{}{}", errors, table, format_html("<ul>{}</ul>", items) if items else "")
