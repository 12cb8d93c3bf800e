"""scheduling_policy: all that a policy needs in BUILD.

    load("@interleave//scheduler:defs.bzl", "scheduling_policy")

    scheduling_policy(
        name = "my_policy",
        srcs = ["my_policy.cc"],
    )
"""

load("@rules_cc//cc:cc_library.bzl", "cc_library")

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

def scheduling_policy(name, srcs, hdrs = [], deps = [], visibility = None):
    """A library that registers one or more policies where it is linked in.

    Args:
      name: of the library, customarily the name the policy registers.
      srcs: sources; one of them has the REGISTER_POLICY.
      hdrs: headers, where somebody else includes them.
      deps: besides the policy interface, which is always there.
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
