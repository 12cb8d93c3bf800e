"""scheduling_policy: all that a policy needs in BUILD.

    load("@interleave//scheduler:defs.bzl", "scheduling_policy")

    scheduling_policy(
        name = "my_policy",
        srcs = ["my_policy.cc"],
    )
"""

load("@rules_cc//cc:cc_binary.bzl", "cc_binary")
load("@rules_cc//cc:cc_library.bzl", "cc_library")
load("@rules_cc//cc:cc_test.bzl", "cc_test")

# What every policy includes.
_INTERFACE = [
    Label("//scheduler:engine_view"),
    Label("//scheduler:iteration_plan"),
    Label("//scheduler:limits"),
    Label("//scheduler:policy"),
    Label("//scheduler:registry"),
    Label("//scheduler:request"),
    Label("//scheduler:request_spec"),
]

_CONFORMANCE_TEST = Label("//scheduler/conformance:conformance_test_main")
_BENCHMARK = Label("//scheduler/conformance:policy_benchmark_main")

def scheduling_policy(
        name,
        srcs,
        hdrs = [],
        deps = [],
        options = [],
        visibility = None):
    """A policy, its conformance test and its benchmark.

    Makes, where NAME is `name`:
      NAME                   the library, which registers the policy in whatever
                             program it is linked into.
      NAME_conformance_test  runs fuzzed workloads: plans are legal, everything
                             ends, no block is lost, runs repeat exactly.
      NAME_benchmark         nanoseconds per decision.

    Args:
      name: customarily the name under which the policy registers.
      srcs: sources; one of them has the REGISTER_POLICY.
      hdrs: headers, where somebody else includes them.
      deps: besides the policy interface, which is always there.
      options: option texts that the conformance test tries besides "".
      visibility: of the library.
    """
    cc_library(
        name = name,
        srcs = srcs,
        hdrs = hdrs,
        visibility = visibility,
        deps = [str(label) for label in _INTERFACE] + deps,
        alwayslink = True,
    )
    cc_test(
        name = name + "_conformance_test",
        size = "small",
        # Under a sanitizer.
        timeout = "moderate",
        args = ["'%s'" % text for text in options],
        deps = [":" + name, str(_CONFORMANCE_TEST)],
    )
    cc_binary(
        name = name + "_benchmark",
        testonly = True,
        tags = ["benchmark"],
        deps = [":" + name, str(_BENCHMARK)],
    )
