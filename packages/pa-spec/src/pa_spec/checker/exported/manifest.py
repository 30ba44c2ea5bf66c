"""The state groups of a decoder: which layers keep which kind of state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pa_spec.checker.exported.section import INT32_MAX, Section, as_int
from pa_spec.checker.text import did_you_mean, shown
from pa_spec.state import GroupKind

_KEY = "state_groups"
_KINDS = {kind.value: kind for kind in GroupKind}
_FIXED_BINDINGS = {
    GroupKind.FIXED_CONV: "past_conv_names",
    GroupKind.FIXED_RECURRENT: "past_recurrent_names",
}


@dataclass(frozen=True, slots=True)
class Group:
    """Layers that keep one kind of state; only ids that the decoder has, each once."""

    kind: GroupKind
    layer_ids: Sequence[int]


@dataclass(frozen=True, slots=True)
class Manifest:
    """Which layers keep which kind of state.

    is_sound: nothing was wrong with them, so that what they leave out is left out on purpose.
    layers: those of each kind, each once. members: the same, to ask for one.
    """

    is_sound: bool
    layers: Mapping[GroupKind, Sequence[int]]
    members: Mapping[GroupKind, Container[int]]

    def owns(self, kind: GroupKind, layer_id: int) -> bool:
        """Return whether a layer keeps a kind of state."""
        return kind in self.members and layer_id in self.members[kind]

    def num_layers(self, kind: GroupKind) -> int:
        """Return how many layers keep a kind of state."""
        return len(self.layers.get(kind, ()))

    @property
    def kinds(self) -> frozenset[GroupKind]:
        """The kinds of state that any layer keeps."""
        return frozenset(self.layers)


def read_manifest(decoder: Section, num_layers: int | None, *, is_dynamic: bool) -> Manifest:
    """Return a decoder's groups; without the key all layers keep paged state.

    Reports V76, V77, V82 and V83.
    """
    if not decoder.has(_KEY):
        kind, every = GroupKind.PAGED_KV, range(num_layers or 0)
        is_sound = num_layers is not None
        return Manifest(is_sound, {kind: every}, {kind: every})
    before = decoder.findings.total
    value, place = decoder.values[_KEY], decoder.place(_KEY)
    groups: tuple[Group, ...] = ()
    if not isinstance(value, list):
        decoder.findings.add("V76", place, _KEY, shown(value), case="list")
    elif not value:
        decoder.findings.add("V76", place, _KEY, "no group", case="empty")
    else:
        groups = tuple(_read_groups(decoder, value, num_layers))
    if groups and decoder.findings.total == before:
        _check_kinds(decoder, groups, is_dynamic=is_dynamic)
    members: dict[GroupKind, dict[int, None]] = {}
    for group in groups:
        members.setdefault(group.kind, {}).update(dict.fromkeys(group.layer_ids))
    layers = {kind: tuple(found) for kind, found in members.items()}
    return Manifest(decoder.findings.total == before, layers, members)


def _read_groups(
    decoder: Section, values: Sequence[object], num_layers: int | None
) -> Iterator[Group]:
    for index, value in enumerate(values):
        key = decoder.place(f"{_KEY}[{index}]").inside
        if not isinstance(value, dict):
            place = decoder.place(f"{_KEY}[{index}]")
            decoder.findings.add("V76", place, _KEY, shown(value), case="object")
            continue
        section = Section(value, key, decoder.file, decoder.findings)
        section.check_keys("model.decoder.state_groups")
        kind = _read_kind(section)
        if kind is not None:
            yield Group(kind, _read_layers(section, num_layers))


def _read_kind(section: Section) -> GroupKind | None:
    findings, place = section.findings, section.place("kind")
    allowed = ", ".join(_KINDS)
    if section.has("bindings"):
        findings.add("V76", section.place("bindings"), "bindings", "given", case="bindings")
        return None
    if not section.has("kind"):
        findings.add("V76", place, "kind", "no such key", case="missing", allowed=allowed)
        return None
    kind = section.values["kind"]
    if isinstance(kind, str) and kind in _KINDS:
        return _KINDS[kind]
    if kind == "fixed":
        findings.add("V76", place, "kind", shown(kind), case="fixed")
        return None
    suggestion = did_you_mean(kind, _KINDS) if isinstance(kind, str) else ""
    findings.add("V76", place, "kind", shown(kind) + suggestion, case="unknown", allowed=allowed)
    return None


def _read_layers(section: Section, num_layers: int | None) -> tuple[int, ...]:
    findings, place = section.findings, section.place("layer_ids")
    values = section.values.get("layer_ids")
    if values is None or values == []:
        actual = "an empty list" if values == [] else "no list"
        findings.add("V77", place, "layer_ids", actual, case="empty")
        return ()
    ids = [as_int(each) for each in values] if isinstance(values, list) else [None]
    if None in ids:
        wrong = values[ids.index(None)] if isinstance(values, list) else values
        findings.add("V77", place, "layer_ids", shown(wrong), case="list")
        return ()
    known = [each for each in ids if each is not None]
    last = INT32_MAX if num_layers is None else num_layers - 1
    outside = [each for each in known if not 0 <= each <= last]
    twice = next((each for each, count in Counter(known).items() if count > 1), None)
    if outside:
        findings.add("V77", place, "layer_ids", shown(outside[0]), case="outside", last=last)
    elif twice is not None:
        findings.add("V77", place, "layer_ids", f"{twice} again", case="duplicate")
    return tuple(dict.fromkeys(each for each in known if 0 <= each <= last))


def _check_kinds(decoder: Section, groups: Sequence[Group], *, is_dynamic: bool) -> None:
    findings, place = decoder.findings, decoder.place(_KEY)
    paged = [group for group in groups if group.kind is GroupKind.PAGED_KV]
    if not is_dynamic:
        fixed = [group.kind.value for group in groups if group.kind is not GroupKind.PAGED_KV]
        if fixed:
            findings.add("V83", place, _KEY, ", ".join(fixed))
        elif _shared(paged) is not None:
            findings.add("V77", place, "layer_ids", f"{_shared(paged)} in two", case="shared")
    elif len(paged) != 1:
        findings.add("V82", place, _KEY, f"{len(paged)} of them", case="groups")
    for kind, name in _FIXED_BINDINGS.items():
        layer = _shared([group for group in groups if group.kind is kind])
        if layer is not None:
            other = f"another group of kind {kind.value}"
            findings.add(
                "V79", decoder.place(f"inputs.{name}"), name, f"layer {layer}", other=other
            )


def _shared(groups: Sequence[Group]) -> int | None:
    """Return a layer that is in two of the groups, None when none is."""
    counts = Counter(each for group in groups for each in group.layer_ids)
    return next((each for each, count in counts.items() if count > 1), None)
