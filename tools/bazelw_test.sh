#!/usr/bin/env bash
# Runs tools/bazelw with fakes of dpkg-query, apt-get, sudo, id and Bazel first
# on PATH, so that nothing is installed and nothing depends on the machine.
#
# shellcheck disable=SC2016  # The fakes' bodies expand when the fakes run.
set -euo pipefail

# A workspace of its own, as large as bazelw needs.
root=$(readlink -f "${TEST_TMPDIR}")/workspace
mkdir -p "${root}/tools"
cp tools/bazelw "${root}/tools/bazelw"
readonly root
readonly FAKES="${root}/fakes"
export LOG="${root}/log"
failures=0

# Writes an executable fake: its name, then its body on stdin.
fake() {
  { printf '#!/bin/bash\n'; cat; } >"${FAKES}/$1"
  chmod +x "${FAKES}/$1"
}

# Starts a case: a machine with every package, run by root.
new_case() {
  case_name=$1
  rm -rf "${FAKES}" "${LOG}"
  mkdir -p "${FAKES}"
  : >"${LOG}"
  absent=""
  user=0
  # Answers as dpkg-query does, for every package but those in ABSENT.
  fake dpkg-query <<<'status=0
for package in "$@"; do
  [[ ${package} == --* ]] && continue
  if [[ " ${ABSENT} " == *" ${package} "* ]]; then
    echo "dpkg-query: no packages found matching ${package}" >&2
    status=1
  elif [[ " ${ABSENT} " == *" ${package}:removed "* ]]; then
    echo "config-files ${package}"
  else
    echo "installed ${package}"
  fi
done
exit ${status}'
  fake apt-get <<<'echo "apt-get $*" >>"${LOG}"; echo "noise of apt-get"'
  fake sudo <<<'echo "sudo $*" >>"${LOG}"; [[ $1 == -n ]] && shift; exec "$@"'
  fake id <<<'echo "${FAKE_UID}"'
  fake bazel <<<'echo "bazel in ${PWD}:" "${@@Q}"'
}

# Runs bazelw; leaves its outputs in `out` and `err` and its status in `status`.
run_bazelw() {
  status=0
  out=$(PATH="${FAKES}:${PATH}" ABSENT="${absent}" FAKE_UID="${user}" \
    BAZEL="${FAKES}/bazel" "${root}/tools/bazelw" "$@" 2>"${root}/err" </dev/null) ||
    status=$?
  err=$(<"${root}/err")
}

expect_eq() {
  [[ $1 == "$2" ]] && return
  printf '%s: got:\n%s\nwant:\n%s\n' "${case_name}" "$1" "$2"
  failures=$((failures + 1))
}

expect_contains() {
  [[ $1 == *"$2"* ]] && return
  printf '%s: no "%s" in:\n%s\n' "${case_name}" "$2" "$1"
  failures=$((failures + 1))
}

new_case "nothing missing"
cd "${root}/tools"
run_bazelw test --flag="two words" //...
expect_eq "${status}" 0
expect_eq "${out}" "bazel in ${root}/tools: 'test' '--flag=two words' '//...'"
expect_eq "${err}" ""
expect_eq "$(<"${LOG}")" ""

new_case "called from outside the workspace"
cd /
run_bazelw version
expect_eq "${out}" "bazel in ${root}: 'version'"

new_case "the exit status is Bazel's"
fake bazel <<<'exit 37'
run_bazelw build //none
expect_eq "${status}" 37

new_case "two missing, as root"
absent="libabsl-dev nlohmann-json3-dev:removed"
run_bazelw test
expect_eq "${status}" 0
expect_contains "${err}" "missing packages: libabsl-dev nlohmann-json3-dev"
expect_eq "$(<"${LOG}")" "apt-get -o DPkg::Lock::Timeout=300 update
apt-get -o DPkg::Lock::Timeout=300 install --yes --no-install-recommends libabsl-dev nlohmann-json3-dev"
# What apt-get prints is kept off stdout, which is Bazel's.
expect_eq "${out}" "bazel in ${root}: 'test'"
expect_contains "${err}" "noise of apt-get"

new_case "missing, through sudo"
absent="libgtest-dev"
user=1000
run_bazelw test
expect_eq "${status}" 0
expect_contains "$(<"${LOG}")" "sudo -n env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install --yes --no-install-recommends libgtest-dev"
expect_eq "${out}" "bazel in ${root}: 'test'"

new_case "missing, sudo would ask and there is no terminal"
absent="libgtest-dev libgmock-dev"
user=1000
fake sudo <<<'exit 1'
run_bazelw test
expect_eq "${status}" 3
expect_eq "${out}" ""
expect_eq "$(<"${LOG}")" ""
expect_contains "${err}" "missing packages: libgmock-dev libgtest-dev"
expect_contains "${err}" "    sudo apt-get update && sudo apt-get install --yes --no-install-recommends libgmock-dev libgtest-dev"

new_case "apt-get fails"
absent="g++"
fake apt-get <<<'exit 100'
run_bazelw test
expect_eq "${status}" 3
expect_eq "${out}" ""
expect_contains "${err}" "apt-get could not install them."
expect_contains "${err}" "install --yes --no-install-recommends g++"

new_case "apt-get update fails, the lists at hand suffice"
absent="g++"
fake apt-get <<<'[[ $* != *update ]]'
run_bazelw test
expect_eq "${status}" 0
expect_eq "${out}" "bazel in ${root}: 'test'"

new_case "BAZEL stands in for bazel-bootstrap"
absent="bazel-bootstrap"
run_bazelw test
expect_eq "${status}" 0
expect_eq "$(<"${LOG}")" ""

((failures == 0)) || { echo "${failures} expectations failed"; exit 1; }
echo "all cases passed"
