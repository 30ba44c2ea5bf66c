"""`python -m pa_serve` is the `pa` command."""

from __future__ import annotations

import sys

from pa_serve.cli import main

sys.exit(main())
