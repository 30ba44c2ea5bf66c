"""Which files a decoder is in, and what runs it."""

from __future__ import annotations

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
    stages = _read_stages(decoder) if decoder.section.has("pipeline") else ()
    if stages is None:
        return ()
    in_stages = [_file(each) for each in stages]
    if decoder.section.has("filename") or not decoder.section.has("pipeline"):
        # Stages beside one graph are checked for what they say, and not read.
        in_stages = [_file(decoder.section)]
    elif stages:
        place, actual = decoder.section.place("pipeline"), f"{len(stages)} graphs"
        decoder.findings.add("exported.pipeline", place, "pipeline", actual)
    return tuple(dict.fromkeys(each for each in in_stages if each))


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


def _read_stages(decoder: Decoder) -> list[Section] | None:
    """Return the stages of a pipeline: an object of them, or a list of such objects."""
    section = decoder.section
    value = section.values["pipeline"]
    objects = value if isinstance(value, list) else [value]
    stages = [stage for each in objects if isinstance(each, dict) for stage in each.items()]
    are_objects = all(isinstance(each, dict) for each in objects)
    if not are_objects or not all(isinstance(stage, dict) for _, stage in stages):
        section.wrong("pipeline", "list")
        return None
    if len(stages) > _MOST_STAGES or not stages:
        section.wrong("pipeline", "stages", most=_MOST_STAGES)
        return None
    keys = section.place("pipeline").inside
    return [
        Section(stage, f"{keys}.{name}", section.file, section.findings) for name, stage in stages
    ]


def _file(section: Section) -> str | None:
    """Return the file that a decoder or a stage of one is in, if it can be read from the folder."""
    if not section.has("filename"):
        section.missing("filename", "model.decoder")
        return None
    name = section.text("filename")
    return name if name is not None and _is_inside(section, name) else None


def _is_inside(section: Section, name: str) -> bool:
    paths = (PurePosixPath(name), PureWindowsPath(name))
    is_outside = any(each.anchor or ".." in each.parts for each in paths)
    if is_outside or "\0" in name:
        place = section.place("filename")
        section.findings.add("exported.path", place, "filename", shown(name))
        return False
    return True
