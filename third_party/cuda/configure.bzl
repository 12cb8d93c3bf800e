"""cuda_configure(): finds the CUDA toolkit, or says that there is none."""

def _cuda_configure_impl(repository_ctx):
    root = repository_ctx.os.environ.get("CUDA_HOME", "/usr/local/cuda")
    nvcc = repository_ctx.path(root + "/bin/nvcc")
    found = nvcc.exists
    repository_ctx.file("defs.bzl", """\
CUDA_FOUND = %s
CUDA_ROOT = "%s"

# For target_compatible_with: a target that needs nvcc is skipped, by name,
# where there is none.
REQUIRES_CUDA = %s
""" % (found, root, "[]" if found else "[\"@platforms//:incompatible\"]"))
    if found:
        repository_ctx.symlink(root + "/include", "include")
        repository_ctx.symlink(root + "/lib64", "lib64")
        repository_ctx.symlink(Label("//third_party/cuda:cuda.BUILD"), "BUILD")
    else:
        repository_ctx.symlink(Label("//third_party/cuda:no_cuda.BUILD"), "BUILD")

cuda_configure = repository_rule(
    implementation = _cuda_configure_impl,
    environ = ["CUDA_HOME"],
    local = True,
    doc = "Makes @local_cuda out of CUDA_HOME (default /usr/local/cuda), or an empty one.",
)
