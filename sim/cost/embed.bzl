"""Compiles text files into a library, so that a binary works from anywhere."""

load("@rules_cc//cc:cc_library.bzl", "cc_library")

def embedded_files(name, srcs, function, visibility = None):
    """A cc_library whose header-less `function` returns (file name, text) pairs.

    Args:
      name: of the library.
      srcs: text files, in the order in which the function lists them.
      function: what to define, in namespace interleave::sim::embedded; its type
        is absl::Span<const EmbeddedFile>(), declared in embedded_file.h.
      visibility: of the library.
    """
    native.genrule(
        name = name + "_source",
        srcs = srcs,
        outs = [name + ".cc"],
        cmd = """{
echo '#include "sim/cost/embedded_file.h"'
echo 'namespace interleave::sim::embedded {'
echo 'static constexpr EmbeddedFile kFiles[] = {'
for f in $(SRCS); do
  printf '{"%%s", R"embedded_text(' "$$(basename $$f .textproto)"
  cat $$f
  echo ')embedded_text"},'
done
echo '};'
echo 'absl::Span<const EmbeddedFile> %s() { return kFiles; }'
echo '}  // namespace interleave::sim::embedded'
} > $@""" % function,
    )
    cc_library(
        name = name,
        srcs = [name + ".cc"],
        visibility = visibility,
        deps = [
            ":embedded_file",
            "@com_google_absl//absl/types:span",
        ],
    )
