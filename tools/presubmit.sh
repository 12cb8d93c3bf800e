#!/usr/bin/env bash
# What a change must pass before it is submitted:
#
#   tools/presubmit.sh           the checks of the sources, then every test with
#                                g++, with clang and layering_check, and under
#                                the sanitizers
#   tools/presubmit.sh --checks  the checks of the sources only (seconds)
#
# Bazel takes the options in BAZEL_STARTUP_OPTIONS, if set.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

failed=()

bazel() {
  # shellcheck disable=SC2086  # One word an option.
  tools/bazelw ${BAZEL_STARTUP_OPTIONS:-} "$@"
}

# Runs a command under a name; keeps the name if the command fails.
step() {
  local name=$1
  shift
  printf '== %s\n' "${name}"
  "$@" || { printf '== %s: FAILED\n' "${name}"; failed+=("${name}"); }
}

tracked() { git ls-files -z -- "$@"; }

check_cpp_format() {
  local clang_format
  clang_format=$(command -v clang-format-14 || command -v clang-format) || {
    echo "no clang-format: apt-get install clang-format-14"
    return 1
  }
  tracked '*.h' '*.cc' '*.cu' '*.cuh' | xargs -0 -r "${clang_format}" --dry-run -Werror
}

check_build_format() {
  # The native-* warnings ask for rule sets that Bazel 4 does not need.
  tracked '*BUILD' '*.BUILD' '*.bzl' WORKSPACE '*/WORKSPACE' |
    xargs -0 -r buildifier --mode=check --lint=warn \
      --warnings=-native-cc-common,-native-cc-info,-native-cc-library,-native-cc-proto,-native-proto,-native-proto-lang-toolchain,-native-sh-binary,-native-sh-test
}

check_shell() {
  git grep -lz -E '^#!/(usr/)?bin/(env )?(ba)?sh' | xargs -0 -r shellcheck --external-sources
}

# Dependencies point one way: tools > sim > scheduler > cache > base, and
# attention > base; one target of sim, the decoder, uses attention, and its own
# kernels include attention's headers for launches and instructions.  Prints a path
# for each arrow that points elsewhere.
check_dependencies() {
  local paths
  local headers="(//attention:kernel_launch + //attention/hopper:ptx_wrappers)"
  local kernels="filter('^//sim/kernel_executor:(decoder_kernels|stream_linear)(_nvcc)?\$', //sim/...)"
  paths=$(bazel query --noshow_progress "
      somepath(//base/..., //attention/... + //cache/... + //scheduler/... + //sim/... + //tools/...)
      + somepath(//attention/..., //cache/... + //scheduler/... + //sim/... + //tools/...)
      + somepath(//cache/..., //attention/... + //scheduler/... + //sim/... + //tools/...)
      + somepath(//scheduler/..., //attention/... + //sim/... + //tools/...)
      + somepath(//sim/..., //tools/...)
      + (rdeps(//sim/..., //attention/... except ${headers}, 1)
         except (//attention/... + //sim/kernel_executor:decoder))
      + (rdeps(//sim/..., ${headers}, 1)
         except (//attention/... + ${kernels}))") || return 1
  [[ -z ${paths} ]] || { printf 'forbidden dependency:\n%s\n' "${paths}"; return 1; }
}

run_checks() {
  step "C++ and CUDA format" check_cpp_format
  if command -v buildifier >/dev/null; then
    step "BUILD format" check_build_format
  else
    echo "== BUILD format: skipped, there is no buildifier"
  fi
  if command -v shellcheck >/dev/null; then
    step "shell scripts" check_shell
  else
    echo "== shell scripts: skipped, there is no shellcheck"
  fi
  step "dependencies" check_dependencies
}

# The host targets: no sanitizer instruments what nvcc compiles.
readonly HOST_TARGETS=(//base/... //cache/... //scheduler/... //sim/... //tools/...)

run_tests() {
  step "tests, g++" bazel test --keep_going //...
  step "tests, clang with layering_check" bazel test --keep_going --config=clang "${HOST_TARGETS[@]}"
  step "tests, address and undefined behaviour" \
    bazel test --keep_going --config=asan --config=ubsan "${HOST_TARGETS[@]}"
  step "tests, threads" bazel test --keep_going --config=tsan "${HOST_TARGETS[@]}"
}

case ${1:-} in
  --checks) run_checks ;;
  "") run_checks; run_tests ;;
  *) echo "usage: tools/presubmit.sh [--checks]" >&2; exit 2 ;;
esac

if ((${#failed[@]} > 0)); then
  printf '\nfailed:\n'
  printf '  %s\n' "${failed[@]}"
  exit 1
fi
printf '\nall passed\n'
