"""Which files a decoder is in, and what runs it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath, PureWindowsPath

from pa_spec.checker.exported.decoder import Decoder
from pa_spec.checker.exported.named import name_of
from pa_spec.checker.exported.section import Section
from pa_spec.checker.graph.graph import Graph
from pa_spec.checker.text import shown
from pa_spec.state import GroupKind

_OPTIONS = "session_options"
_PROVIDERS = "provider_options"
_GRAPH = "enable_cuda_graph"
_MOST_STAGES = 100
_CUDA = ("cuda", "cudaexecutionprovider")


def decoder_files(decoder: Decoder) -> tuple[str, ...]:
    """Return the ONNX files that a decoder is in, below the folder; others are reported."""
    if decoder.section.has("pipeline") and not decoder.section.has("filename"):
        stages = list(_stages(decoder.section.values["pipeline"]))
        if len(stages) > _MOST_STAGES:
            decoder.section.wrong("pipeline", "stages", most=_MOST_STAGES)
            return ()
        place, actual = decoder.section.place("pipeline"), f"{len(stages)} graphs"
        decoder.findings.add("exported.pipeline", place, "pipeline", actual)
        sections = [_stage(decoder, each) for each in stages]
    else:
        sections = [decoder.section]
    found = [each.text("filename") for each in sections if _has_file(each)]
    usable = [each for each in found if each is not None and _is_inside(decoder, each)]
    return tuple(dict.fromkeys(usable))


def check_session(decoder: Decoder) -> bool:
    """Check the execution providers (V97); return whether CUDA-graph capture is asked for."""
    options = decoder.section.section(_OPTIONS)
    if options is None or not options.has(_PROVIDERS):
        return False
    values = options.items(_PROVIDERS)
    names: list[str] = []
    captures = False
    for each in values or ():
        if not isinstance(each, dict):
            options.wrong(_PROVIDERS, "list")
            return False
        names += each
        for name, settings in each.items():
            if name.lower() in _CUDA and isinstance(settings, dict):
                key = f"{options.place(_PROVIDERS).inside}.{name}"
                captures |= _captures(Section(settings, key, options.file, options.findings))
    if names and not any(name.lower() in _CUDA for name in names):
        actual = ", ".join(map(shown, names[:5]))
        place = options.place(_PROVIDERS)
        decoder.findings.add("V97", place, _PROVIDERS, actual, case="provider")
    return captures


def check_capture(decoder: Decoder, graph: Graph) -> None:
    """Report what makes an engine run a model without the capture that is asked for."""
    place = decoder.section.place(f"{_OPTIONS}.{_PROVIDERS}")
    if name_of(decoder, "position_ids") in graph.inputs:
        findings, actual = decoder.findings, "1, with an input position_ids"
        findings.add("exported.capture_blocked", place, _GRAPH, actual)
    elif decoder.manifest.kinds - {GroupKind.PAGED_KV}:
        findings, actual = decoder.findings, "1, with groups of fixed state"
        findings.add("exported.capture_blocked", place, _GRAPH, actual)


def _captures(settings: Section) -> bool:
    # Values of provider options are texts, numbers are refused where they are read.
    return settings.text(_GRAPH) == "1"


def _stages(pipeline: object) -> Iterator[object]:
    """Yield the stages of a pipeline: an object of them, or a list of such objects."""
    for each in pipeline if isinstance(pipeline, list) else [pipeline]:
        if isinstance(each, dict):
            yield from each.values()


def _stage(decoder: Decoder, value: object) -> Section:
    section = decoder.section
    values = value if isinstance(value, dict) else {}
    return Section(values, section.place("pipeline").inside, section.file, section.findings)


def _has_file(section: Section) -> bool:
    if not section.has("filename"):
        section.missing("filename")
    return section.has("filename")


def _is_inside(decoder: Decoder, name: str) -> bool:
    paths = (PurePosixPath(name), PureWindowsPath(name))
    is_outside = any(each.anchor or ".." in each.parts for each in paths)
    if is_outside or "\0" in name:
        place = decoder.section.place("filename")
        decoder.findings.add("exported.path", place, "filename", shown(name))
        return False
    return True
