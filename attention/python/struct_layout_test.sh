#!/usr/bin/env bash
# Holds the Python module's structs against the compiler's.
set -euo pipefail
root="${TEST_SRCDIR}/${TEST_WORKSPACE}/attention"
export STRUCT_LAYOUT="${TEST_TMPDIR}/layout"
export C_API_HEADER="${root}/c_api.h"
export PYTHONDONTWRITEBYTECODE=1
"${root}/python/print_struct_layout" >"${STRUCT_LAYOUT}"
python3 "${root}/python/struct_layout_test.py"
