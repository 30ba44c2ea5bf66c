"""Executors: what packs a step, runs a model and samples."""

from pa_engine.executors.null_executor import NullExecutor
from pa_engine.executors.packing import PackedStep, StepPacker
from pa_engine.executors.torch_executor import TorchExecutor

__all__ = ["NullExecutor", "PackedStep", "StepPacker", "TorchExecutor"]
