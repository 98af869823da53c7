"""The form of a pool: a choice of plug-ins, and a field for each parameter, made from the plug-ins' schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from django import forms
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.widgets import (
    UnfoldAdminDecimalFieldWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from muster.dispatch.admin.preset_fields import PresetField, Preview, preview_of
from muster.dispatch.admin.word_fields import DurationField
from muster.dispatch.config.knowledge import knowledge_of, needs_in_words, needs_of, too_short_turn
from muster.dispatch.config.plugins import KINDS, SETTINGS, clash, objections, parameters
from muster.dispatch.config.switches import changes, effects
from muster.events.labels import words
from muster.fleet.models import Pool
from muster.jobs.spec.units import written_duration
from scheduler.presets import FIRST, PRESETS, Preset, preset_of

# Each timer must be longer than the one before it.
_TIMERS_IN_ORDER = ("beat_s", "suspect_after_s", "unreachable_after_s", "stop_after_s")
# These timers judge an agent silent, so they must be longer than one heartbeat.
_SILENCE_TIMERS = ("suspect_after_s", "unreachable_after_s", "stop_after_s", "claim_timeout_s")
MIN_SILENCE_S = 10.0
_BLANK: Any = object()

if TYPE_CHECKING:
    PoolFields = forms.ModelForm[Pool]
else:
    PoolFields = forms.ModelForm


def field_name(kind: str, plugin: str, parameter: str) -> str:
    return f"{kind}__{plugin}__{parameter}"


def field_names(kind: str) -> dict[str, str]:
    """The form fields of all parameters of a kind, each with its plug-in."""
    return {
        field_name(kind, plugin, parameter): plugin
        for plugin in KINDS[kind].names
        for parameter in parameters(kind, plugin)
    }


def needs_names() -> dict[str, str]:
    """The form fields that tell what policies need to know, each with its policy."""
    return {f"needs__{policy}": policy for policy in KINDS["policy"].names}


class Sentence(forms.Widget):
    """Text where other fields have an input."""

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        return format_html('<div class="readonly">{}</div>', value or "")


class PoolForm(PoolFields):
    """A pool whose plug-ins exist and accept their parameters; `pool_form` adds the fields of the parameters."""

    class Meta:
        model = Pool
        exclude: list[str] = []

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk is None:
            for name, value in FIRST.settings.items():
                setattr(self.instance, name, value)
                self.initial[name] = value
        self.before = {name: getattr(self.instance, name) for name in SETTINGS}
        self.switch: SafeString = SafeString("")
        if self.instance.pk and isinstance(preview := self.fields["preview"].widget, Preview):
            preview.url = reverse("admin:fleet_pool_preview", args=[self.instance.pk])
        own = preset_of(self.before)
        self.initial["preset"] = own.name if own else ""
        for kind in KINDS:
            plugin, params = getattr(self.instance, kind), getattr(self.instance, f"{kind}_params")
            if plugin not in KINDS[kind].names:
                continue
            for parameter, rules in parameters(kind, plugin).items():
                if parameter in params:
                    self.initial[field_name(kind, plugin, parameter)] = _shown(rules, params[parameter])
        known = f" {knowledge_of(self.instance)}" if self.instance.pk else ""
        for name, policy in needs_names().items():
            params = self.instance.policy_params if policy == self.instance.policy else {}
            needs = needs_of(policy, params)
            told = (needs_in_words(needs) + (known if needs else ""), too_short_turn(policy, params))
            self.initial[name] = " ".join(filter(None, told))

    def clean(self) -> dict[str, Any]:
        """Reject invalid parameters, at the field of the parameter, and timers in the wrong order."""
        data = super().clean() or {}
        chosen = PRESETS.get(data.get("preset", ""))
        if chosen is not None and chosen.name != self.initial["preset"]:
            data |= self._take(chosen)
        for kind in KINDS:
            for name, plugin in field_names(kind).items():
                if plugin != data.get(kind, plugin):
                    self.errors.pop(name, None)  # the field is not shown, and its value is not stored
            if kind in data:
                self._clean_params(kind, data[kind], data)
        self._check_switch(data)
        self._check_timers(data)
        return data

    @cached_property
    def changed_data(self) -> list[str]:
        """The edited columns, with those that a preset changed."""
        names = [name for name in super().changed_data if "__" not in name and name not in KINDS]
        stored = Pool.objects.filter(pk=self.instance.pk).first()
        return names + [
            name for name in SETTINGS if stored is None or getattr(stored, name) != getattr(self.instance, name)
        ]

    def show_stored(self, pool: Pool) -> None:
        """Show the stored value at each edited field; a rejected form changes nothing."""
        stored = type(self)(instance=pool)
        for name, field in self.fields.items():
            if name not in {"preset", "reason"} and field.has_changed(
                stored.get_initial_for_field(stored.fields[name], name), self[name].data
            ):
                value = stored[name].value()
                shown = "nothing" if value in (None, "") else f"{value:g}" if isinstance(value, float) else value
                field.help_text = f"{field.help_text} Stored: {shown}.".strip()

    def _clean_params(self, kind: str, plugin: str, data: Mapping[str, Any]) -> None:
        """The parameters of the chosen plug-in; those left at their default are not stored."""
        params: dict[str, Any] = {}
        for parameter, rules in parameters(kind, plugin).items():
            name = field_name(kind, plugin, parameter)
            if name not in data:
                continue  # the field itself has reported the invalid value
            try:
                value = _value(rules, data[name])
            except ValueError:
                self.add_error(name, f"{parameter} takes {_kind_words(rules)}, such as {_example(rules)}.")
                continue
            if value is not _BLANK and value != rules.get("default", _BLANK):
                params[parameter] = value
        for setting, message in objections(kind, plugin, params):
            name = field_name(kind, plugin, setting.partition(".")[2])
            self.add_error(name if name in self.fields else kind, message)
        setattr(self.instance, f"{kind}_params", params)

    def _take(self, preset: Preset) -> dict[str, Any]:
        """The values of the fields of a preset that was chosen now: they override what was typed below it."""
        values: dict[str, Any] = {}
        for kind in KINDS:
            values[kind] = plugin = preset.settings[kind]
            self.errors.pop(kind, None)
            for parameter, rules in parameters(kind, plugin).items():
                name = field_name(kind, plugin, parameter)
                self.errors.pop(name, None)
                params = preset.settings[f"{kind}_params"]
                value = params.get(parameter, rules.get("default"))
                values[name] = self.fields[name].clean(self.fields[name].prepare_value(_shown(rules, value)))
        return values

    def _check_switch(self, data: Mapping[str, Any]) -> None:
        """Refuse plug-ins that do not go together, and a switch of policy or admission without a reason."""
        wrong = [str(text) for name, texts in self.errors.items() if name.partition("__")[0] in KINDS for text in texts]
        after = {kind: data.get(kind) for kind in KINDS}
        after |= {f"{kind}_params": getattr(self.instance, f"{kind}_params") for kind in KINDS}
        if not wrong and (problem := clash(after)):
            wrong = [f"{problem[:1].upper()}{problem[1:]}."]
            self.add_error("admission", wrong[0])
        if self.instance.pk is None:
            return
        if wrong:
            self._show(preview_of((), (), problems=wrong))
            return
        self._show(preview_of(changes(self.before, after), effects(self.instance, self.before, after)))
        if any(self.before[kind] != after[kind] for kind in ("policy", "admission")) and not data.get("reason"):
            self.add_error("reason", "Write why the pool shall decide otherwise. The audit log keeps it.")

    def _show(self, switch: SafeString) -> None:
        self.switch = switch
        if isinstance(preview := self.fields["preview"].widget, Preview):
            preview.text = switch

    def _check_timers(self, data: dict[str, Any]) -> None:
        for earlier, later in pairwise(_TIMERS_IN_ORDER):
            first, second = data.get(earlier), data.get(later)
            if first is not None and second is not None and second < first:
                name = words(earlier).partition(" (")[0]
                self.add_error(later, f"It cannot be shorter than {name}, which is {written_duration(first)}.")
        beat_s = data.get("beat_s")
        for name in _SILENCE_TIMERS:
            value = data.get(name)
            as_before = self.instance.pk and (self.initial.get(name), self.initial.get("beat_s")) == (value, beat_s)
            if value is None or name in self.errors or as_before:
                continue
            if value < MIN_SILENCE_S:
                self.add_error(
                    name,
                    f"It must be {written_duration(MIN_SILENCE_S)} at least: a beat may be that late because a web "
                    "process restarts or a network stutters, and nothing is wrong with the node.",
                )
            elif beat_s is not None and value < 2 * beat_s:
                self.add_error(name, f"It must be two beats at least, {written_duration(2 * beat_s)}: one may be lost.")


def pool_form() -> type[PoolForm]:
    fields: dict[str, forms.Field] = {}
    for kind, registry in KINDS.items():
        names = [(name, f"{name}: {registry.summary(name)}") for name in registry.names]
        fields[kind] = forms.ChoiceField(choices=names, widget=UnfoldAdminSelectWidget)
        for plugin in registry.names:
            for parameter, rules in parameters(kind, plugin).items():
                fields[field_name(kind, plugin, parameter)] = parameter_field(parameter, rules)
    for name in needs_names():
        fields[name] = forms.CharField(label="Needs to know", widget=Sentence, disabled=True, required=False)
    fields["preset"] = preset = PresetField()
    preset.widget.values = {one.name: _texts(one, fields) for one in PRESETS.values()}
    fields["preview"] = forms.CharField(label="What changes", widget=Preview, disabled=True, required=False)
    fields["reason"] = forms.CharField(
        required=False,
        max_length=500,
        widget=UnfoldAdminTextInputWidget,
        help_text="For the audit log. A switch of policy or admission needs one.",
    )
    return type("PoolForm", (PoolForm,), fields)


def _texts(preset: Preset, fields: Mapping[str, forms.Field]) -> dict[str, Any]:
    texts: dict[str, Any] = {}
    for kind in KINDS:
        plugin, params = preset.settings[kind], preset.settings[f"{kind}_params"]
        texts[kind] = plugin
        for parameter, rules in parameters(kind, plugin).items():
            name = field_name(kind, plugin, parameter)
            shown = _shown(rules, params.get(parameter, rules.get("default")))
            texts[name] = "" if shown is None else fields[name].prepare_value(shown)
    return texts


def parameter_field(parameter: str, rules: Mapping[str, Any]) -> forms.Field:
    """The form field of one parameter; blank means its default, or null where the schema allows it."""
    kinds = _kinds(rules)
    common: dict[str, Any] = {
        "required": False,
        "label": words(parameter).removesuffix(" (s)") if _is_duration(parameter, kinds) else words(parameter),
        "help_text": f"{_help(parameter, rules)} ({parameter})",
        "initial": _shown(rules, rules.get("default")),
    }
    if "enum" in rules or "boolean" in kinds:
        values = rules.get("enum", [True, False])
        choices = [(json.dumps(value), _word(value)) for value in values]
        if "null" in kinds:
            choices.insert(0, ("", "—"))
        return forms.ChoiceField(choices=choices, widget=UnfoldAdminSelectWidget, **common)
    limits: dict[str, Any] = {"min_value": rules.get("minimum"), "max_value": rules.get("maximum")}
    if _is_duration(parameter, kinds):
        return DurationField(**common)
    if kinds <= {"integer", "null"}:
        return forms.IntegerField(widget=UnfoldAdminIntegerFieldWidget, **limits, **common)
    if kinds <= {"integer", "number", "null"}:
        return forms.FloatField(widget=UnfoldAdminDecimalFieldWidget(attrs={"step": "any"}), **limits, **common)
    if kinds <= {"string", "null"}:
        return forms.CharField(widget=UnfoldAdminTextInputWidget, **common)
    return forms.CharField(widget=UnfoldAdminTextareaWidget(attrs={"rows": 4}), **common)


def _value(rules: Mapping[str, Any], cleaned: Any) -> Any:
    """The value of the cleaned field, or `_BLANK`; `ValueError` for text that is not JSON."""
    kinds = _kinds(rules)
    if cleaned in (None, ""):
        return None if "null" in kinds else _BLANK
    if "enum" in rules or "boolean" in kinds or not kinds <= {"integer", "number", "string", "null"}:
        return json.loads(cleaned)
    return cleaned


def _kind_words(rules: Mapping[str, Any]) -> str:
    words = {"array": "a list in brackets", "object": "a mapping in braces"}
    return " or ".join(words.get(kind, kind) for kind in sorted(_kinds(rules)))


def _example(rules: Mapping[str, Any]) -> str:
    """A valid value of the parameter: its default, or a small one of its type."""
    if rules.get("default"):
        return json.dumps(rules["default"])
    return "[1, 2]" if "array" in _kinds(rules) else '{"name": 1}'


def _shown(rules: Mapping[str, Any], value: Any) -> Any:
    """The value as the form field shows it."""
    kinds = _kinds(rules)
    if value is None:
        return None
    if "enum" in rules or "boolean" in kinds or not kinds <= {"integer", "number", "string", "null"}:
        return json.dumps(value)
    return value


def _kinds(rules: Mapping[str, Any]) -> set[str]:
    kinds = rules["type"]
    return {kinds} if isinstance(kinds, str) else set(kinds)


def _is_duration(parameter: str, kinds: set[str]) -> bool:
    """Whether the parameter has seconds, and not GPU-seconds or a rate."""
    return parameter.endswith("_s") and not parameter.endswith("_gpu_s") and kinds <= {"integer", "number", "null"}


def _help(parameter: str, rules: Mapping[str, Any]) -> str:
    value = rules.get("default")
    written = written_duration(value) if value is not None and _is_duration(parameter, _kinds(rules)) else _word(value)
    default = f"Default: {written}." if "default" in rules else ""
    return " ".join(part for part in (rules.get("description", ""), default) if part)


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value)
