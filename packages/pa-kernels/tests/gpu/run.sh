#!/usr/bin/env bash
# Builds pa-kernels with CUDA, runs the device tests and prints store_kv's table, in one command:
#     bash packages/pa-kernels/tests/gpu/run.sh
# Needs on the machine: a CUDA device, nvcc, CMake >= 3.24, ninja, and a Python with torch,
# pybind11 and scikit-build-core. Nothing is fetched, nothing is installed outside a scratch folder.
set -euo pipefail

cd "$(dirname "$0")/../../../.."
python=${PYTHON:-python3}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$python" - <<'PY'
import platform
import torch
if not torch.cuda.is_available():
    raise SystemExit("run.sh: this machine has no CUDA device that torch can use")
print("python", platform.python_version(), "torch", torch.__version__, "cuda", torch.version.cuda,
      "device", torch.cuda.get_device_name())
PY
nvcc --version | tail -n 2
cmake --version | head -n 1

"$python" -m pip install --no-build-isolation --no-deps --no-index --target "$scratch/site" \
    --config-settings=cmake.define.PA_CUDA=ON --config-settings=build-dir="$scratch/build" \
    packages/pa-kernels
"$scratch/build/kernels-cuda/link_check"

export PYTHONPATH="$scratch/site:$PWD/packages/pa-spec/src"
status=0
"$python" -m pytest -q -o filterwarnings=default -p no:cacheprovider -m gpu \
    packages/pa-kernels/tests/gpu || status=$?
"$python" packages/pa-kernels/tests/gpu/measure_store_kv.py
exit "$status"
