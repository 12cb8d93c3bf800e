"""cuda_library(): compiles .cu files with nvcc and hands objects to cc_* rules."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load("@local_cuda//:defs.bzl", "CUDA_ROOT", "REQUIRES_CUDA")

_NVCC = CUDA_ROOT + "/bin/nvcc"
_LINK = ["-L%s/lib64" % CUDA_ROOT, "-lcudart_static", "-ldl", "-lrt", "-lpthread"]

# nvcc names its temporaries by process id, which repeats from one sandbox to the
# next; a private TMPDIR keeps them apart.  C7515 says that products which should
# overlap are computed one by one: no error to ptxas, but to us.
_COMPILE = """
export TMPDIR=$(mktemp -d)
%s "$@" 2> $TMPDIR/messages
rc=$?
cat $TMPDIR/messages >&2
if grep -q C7515 $TMPDIR/messages; then rc=1; fi
rm -rf $TMPDIR
exit $rc
"""

def _cuda_library_impl(ctx):
    cc_toolchain = find_cpp_toolchain(ctx)
    feature_configuration = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = cc_toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    dep_info = cc_common.merge_cc_infos(cc_infos = [d[CcInfo] for d in ctx.attr.deps])
    dep_ctx = dep_info.compilation_context
    objects = []
    for src in ctx.files.srcs:
        if src.extension != "cu":
            continue
        obj = ctx.actions.declare_file("_nvcc/%s/%s.o" % (ctx.label.name, src.basename))
        args = ctx.actions.args()
        args.add_all([
            "-std=c++20",
            "-O3",
            "-lineinfo",
            "-Werror",
            "cross-execution-space-call",
            "-Xcompiler",
            "-fPIC",
            "-ccbin",
            "g++",
        ])
        for arch in ctx.attr.archs:
            args.add("-gencode=arch=compute_%s,code=sm_%s" % (arch, arch))
        args.add("-I.")
        args.add_all(dep_ctx.quote_includes, before_each = "-I")
        args.add_all(dep_ctx.includes, before_each = "-I")
        args.add_all(dep_ctx.system_includes, before_each = "-isystem")
        args.add_all(dep_ctx.defines, before_each = "-D")
        args.add_all(ctx.attr.copts)
        args.add_all(["-c", src, "-o", obj])
        ctx.actions.run_shell(
            command = _COMPILE % _NVCC,
            arguments = [args],
            inputs = depset(ctx.files.srcs + ctx.files.hdrs, transitive = [dep_ctx.headers]),
            outputs = [obj],
            mnemonic = "CudaCompile",
            progress_message = "Compiling %s (nvcc)" % src.short_path,
            use_default_shell_env = True,
        )
        objects.append(obj)
    (linking_context, _) = cc_common.create_linking_context_from_compilation_outputs(
        actions = ctx.actions,
        name = ctx.label.name,
        feature_configuration = feature_configuration,
        cc_toolchain = cc_toolchain,
        compilation_outputs = cc_common.create_compilation_outputs(
            objects = depset(objects),
            pic_objects = depset(objects),
        ),
        user_link_flags = _LINK,
        alwayslink = ctx.attr.alwayslink,
        disallow_dynamic_library = True,
    )
    own = CcInfo(
        compilation_context = cc_common.create_compilation_context(headers = depset(ctx.files.hdrs)),
        linking_context = linking_context,
    )
    return [
        DefaultInfo(files = depset(objects)),
        cc_common.merge_cc_infos(cc_infos = [own, dep_info]),
    ]

_cuda_objects = rule(
    implementation = _cuda_library_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu", ".cuh"]),
        "hdrs": attr.label_list(allow_files = [".h", ".cuh"]),
        "deps": attr.label_list(providers = [CcInfo]),
        "copts": attr.string_list(),
        "archs": attr.string_list(default = ["90a"]),
        "alwayslink": attr.bool(default = False),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

def cuda_library(name, srcs, hdrs = [], deps = [], copts = [], archs = ["90a"], visibility = None, tags = [], testonly = False, alwayslink = False):
    """A cc_library whose .cu sources nvcc compiles.

    The public half is a plain cc_library, so it has a module map and
    layering_check works for its users; the nvcc half is private.

    Args:
      name: the target to depend on.
      srcs: .cu files, and .cuh files that only they include.
      hdrs: the launcher header; plain C++, without CUDA syntax.
      deps: cc_library targets that srcs and hdrs include.
      copts: extra nvcc options.
      archs: GPU architectures, as in sm_90a.
      visibility: as for cc_library.
      tags: as for cc_library.
      testonly: as for cc_library.
      alwayslink: as for cc_library.
    """
    _cuda_objects(
        name = name + "_nvcc",
        srcs = srcs,
        hdrs = hdrs,
        deps = deps,
        copts = copts,
        archs = archs,
        alwayslink = alwayslink,
        tags = tags + ["manual"],
        testonly = testonly,
        target_compatible_with = REQUIRES_CUDA,
        visibility = ["//visibility:private"],
    )
    native.cc_library(
        name = name,
        hdrs = hdrs,
        deps = deps + [":" + name + "_nvcc"],
        tags = tags,
        testonly = testonly,
        target_compatible_with = REQUIRES_CUDA,
        visibility = visibility,
    )
