"""Inputs of a graph that nothing feeds: no tensor of a step, no state group of any layer."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from itertools import islice
from typing import final

from pa_spec.checker.exported.decoder import Decoder
from pa_spec.checker.exported.template import Template, as_template
from pa_spec.checker.graph.graph import Graph
from pa_spec.contract.configuration import model_tensors, state_bindings
from pa_spec.state import GroupKind

_OF_OTHER_STEPS = ("attention_mask", "inputs_embeds")
"""Inputs that a configuration may name though no step of packed tokens feeds them."""

_MOST_TEMPLATES = 20
"""Templates of keys unknown here; readers have fewer."""

_MOST_COMPARED = 200
"""Names that are compared for similarity; a hostile graph has a hundred thousand."""


@final
class Feed:
    """The inputs that nothing feeds, until something claims them.

    Each input is reported at most once: `claim` takes those that belong to a missing name, and
    `report` says the rest.
    """

    def __init__(self, decoder: Decoder, graph: Graph) -> None:
        self._decoder = decoder
        state = [row for row in state_bindings().values() if row.direction == "input"]
        kinds = decoder.manifest.kinds
        self._is_sound = all(row.name in decoder.templates for row in state if row.kind in kinds)
        self._owners = _state_templates(decoder)
        fed = frozenset(_fed_names(decoder))
        others = _other_templates(decoder)
        self._claims = 0
        # Each name that was unusable may have been one of those that nothing feeds.
        self._unmatched = sum(name not in graph.inputs for name in _unusable_names(decoder))
        self._unfed = dict.fromkeys(
            name
            for name in graph.inputs
            if name not in fed
            and self._layer_without(name) != ""
            and not any(each.layer_of(name) is not None for each in others)
        )

    def claim(self, missing: str, *, is_required: bool) -> str:
        """Take the input that a missing name was probably meant to be; "" when there is none.

        is_required: there must be one, whatever it is called.
        """
        names = list(self._unfed)[:_MOST_COMPARED] if self._claims < _MOST_COMPARED else []
        similar = next(iter(get_close_matches(missing, names, n=1)), "") if names else ""
        self._claims += 1
        self._unmatched += is_required and not similar
        self._unfed.pop(similar, None)
        return similar

    def take(self, name: str) -> bool:
        """Take an input by its name; return whether it was there."""
        if name not in self._unfed:
            return False
        del self._unfed[name]
        return True

    def report(self, blamed: frozenset[str]) -> None:
        """Report what is left, but nothing of what was spoken about."""
        if len(self._unfed) <= self._unmatched or not self._is_sound:
            return  # They go by other names than the configuration's: those were reported.
        findings, inputs = self._decoder.findings, self._decoder.inputs
        layers: set[str] = set()
        for name in self._unfed:
            layer = self._layer_without(name)
            if name in blamed or (layer and not self._decoder.manifest.is_sound):
                continue
            if not layer:
                findings.add("exported.input_unbound", inputs.place(), name, "no such key")
            elif layer not in layers:
                layers.add(layer)
                place = self._decoder.section.place("state_groups")
                findings.add("exported.cache_uncovered", place, name, f"no group with {layer}")

    def _layer_without(self, name: str) -> str | None:
        """Return which layer's state an input is though no group has it.

        "" = a group has that layer; None = it is no state.
        """
        manifest = self._decoder.manifest
        for template, kind in self._owners:
            layer_id = template.layer_of(name)
            if layer_id is not None:
                return "" if manifest.owns(kind, layer_id) else f"layer {layer_id}"
        return None


def _state_templates(decoder: Decoder) -> list[tuple[Template, GroupKind]]:
    """Return the usable templates of state inputs, of kinds without a group too."""
    found = []
    for row in state_bindings().values():
        text = decoder.inputs.values.get(row.name, row.default)
        template = as_template(text) if isinstance(text, str) else None
        if row.direction == "input" and template is not None:
            found.append((template, row.kind))
    return found


def _fed_names(decoder: Decoder) -> set[str]:
    """Return the names of a step's inputs, and of those that keys unknown here name."""
    values: Mapping[str, object] = decoder.inputs.values
    # A name that is unusable was reported; the default one is then as good as named.
    defaults = {
        row.default
        for key, row in model_tensors().items()
        if row.direction == "input" and not (isinstance(values.get(key), str) and values[key])
    }
    given = {key: name for key, name in values.items() if key not in _OF_OTHER_STEPS}
    return defaults | {name for name in given.values() if isinstance(name, str)}


def _unusable_names(decoder: Decoder) -> list[str]:
    """Return the default names of a step's inputs whose given ones are no texts, or empty."""
    values: Mapping[str, object] = decoder.inputs.values
    return [
        row.default
        for key, row in model_tensors().items()
        if row.direction == "input" and row.default and key in values
        if not isinstance(values[key], str) or not values[key]
    ]


def _other_templates(decoder: Decoder) -> list[Template]:
    state = state_bindings()
    texts = (text for key, text in decoder.inputs.values.items() if key not in state)
    found = (as_template(text) for text in texts if isinstance(text, str))
    return list(islice((each for each in found if each is not None), _MOST_TEMPLATES))
