"""Continuous batching in which every step is a transaction."""

from pa_engine._version import __version__
from pa_engine.contract import IMPLEMENTS_CONTRACT
from pa_engine.engine import Engine
from pa_engine.events import Event, EventBatch, EventBuffer, Usage
from pa_engine.executors import NullExecutor, PackedStep, StepPacker, TorchExecutor
from pa_engine.options import GeneratorParams, RequestOptions, TurnOptions
from pa_engine.request import Request
from pa_engine.snapshot import EngineSnapshot
from pa_engine.statistics import EngineStatistics
from pa_engine.turn import Turn

__all__ = [
    "IMPLEMENTS_CONTRACT",
    "Engine",
    "EngineSnapshot",
    "EngineStatistics",
    "Event",
    "EventBatch",
    "EventBuffer",
    "GeneratorParams",
    "NullExecutor",
    "PackedStep",
    "Request",
    "RequestOptions",
    "StepPacker",
    "TorchExecutor",
    "Turn",
    "TurnOptions",
    "Usage",
    "__version__",
]
