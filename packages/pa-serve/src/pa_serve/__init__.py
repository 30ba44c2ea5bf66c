"""The pa command: generate text and measure, with paged attention."""

from pa_serve._version import __version__
from pa_serve.cli import main
from pa_serve.exit_status import ExitStatus

__all__ = ["ExitStatus", "__version__", "main"]
