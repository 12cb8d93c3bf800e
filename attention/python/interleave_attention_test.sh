#!/usr/bin/env bash
# Runs the Python tests over the library that records its calls.
set -euo pipefail
here="${TEST_SRCDIR}/${TEST_WORKSPACE}/attention/python"
export INTERLEAVE_ATTENTION_LIBRARY="${here}/libfake_attention.so"
export PYTHONDONTWRITEBYTECODE=1
python3 "${here}/interleave_attention_test.py"
