#!/usr/bin/env bash
# Loads the real library into Python and has it refuse things, which needs no
# GPU: every exported function is there, and the structs of both sides agree.
set -euo pipefail
root="${TEST_SRCDIR}/${TEST_WORKSPACE}/attention"
export INTERLEAVE_ATTENTION_LIBRARY="${root}/libinterleave_attention.so"
export PYTHONDONTWRITEBYTECODE=1
python3 "${root}/python/shared_library_test.py"
