"""What the tests of this package share."""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings
from pa_kernels.backends.missing import MissingBackend
from pa_kernels.backends.table import BACKENDS

settings.register_profile("ci", derandomize=True, max_examples=50, deadline=None)
settings.register_profile("dev", max_examples=100, deadline=None)
# For the session `soak`, which repeats it from other seeds.
settings.register_profile("soak", max_examples=250, deadline=None, print_blob=True)
# For the session `mutations`, which only wants to see a failure.
settings.register_profile(
    "unshrunk", settings.get_profile("ci"), phases=[Phase.explicit, Phase.generate]
)
settings.load_profile("ci")

HOST_BACKENDS = [
    backend.name
    for backend in BACKENDS
    if not isinstance(backend, MissingBackend) and not backend.name.startswith("cuda")
]


@pytest.fixture(params=HOST_BACKENDS)
def host_backend(request: pytest.FixtureRequest) -> str:
    """Every backend that can run on this machine's CPU, in turn."""
    name: str = request.param
    return name
