"""A test built with --//scheduler:extra_policies."""

def _extra_policies_impl(_settings, attr):
    return {"//scheduler:extra_policies": attr.extra_policies}

_extra_policies = transition(
    implementation = _extra_policies_impl,
    inputs = [],
    outputs = ["//scheduler:extra_policies"],
)

def _with_extra_policies_test_impl(ctx):
    binary = ctx.attr.binary[0][DefaultInfo]
    link = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.symlink(
        output = link,
        target_file = binary.files_to_run.executable,
        is_executable = True,
    )
    return [DefaultInfo(executable = link, runfiles = binary.default_runfiles)]

with_extra_policies_test = rule(
    implementation = _with_extra_policies_test_impl,
    doc = "Runs a binary that was built with --//scheduler:extra_policies.",
    test = True,
    attrs = {
        "binary": attr.label(
            cfg = _extra_policies,
            executable = True,
            mandatory = True,
        ),
        "extra_policies": attr.string(mandatory = True),
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
    },
)
