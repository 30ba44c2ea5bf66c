"""One step as a transaction: plan, reserve, checkpoint, launch, collect, prepare, publish."""

from pa_engine.step.transaction import StepTransaction

__all__ = ["StepTransaction"]
