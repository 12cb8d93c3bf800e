"""Compiles text files into a library, so that a binary works from anywhere."""

load("@rules_cc//cc:cc_library.bzl", "cc_library")

def embedded_files(name, srcs, function, folders = False, visibility = None):
    """A cc_library whose header-less `function` returns (file name, text) pairs.

    Args:
      name: of the library.
      srcs: text files, in the order in which the function lists them.
      function: what to define, in namespace interleave::sim::embedded; its type
        is absl::Span<const EmbeddedFile>(), declared in embedded_file.h.
      folders: whether a file's name keeps its folder and extension:
        "h200_llama3.1_8b/dense.csv".
      visibility: of the library.
    """
    file_name = "$$(basename $$(dirname $$f))/$$(basename $$f)" if folders else "$$(basename $$f .textproto)"
    native.genrule(
        name = name + "_source",
        srcs = srcs,
        outs = [name + ".cc"],
        cmd = """{
echo '#include "sim/cost/embedded_file.h"'
echo 'namespace interleave::sim::embedded {'
echo 'static constexpr EmbeddedFile kFiles[] = {'
for f in $(SRCS); do
  printf '{"%%s", R"embedded_text(' "%s"
  cat $$f
  echo ')embedded_text"},'
done
echo '    {nullptr, nullptr}};'
echo 'absl::Span<const EmbeddedFile> %s() {'
echo '  return absl::MakeConstSpan(kFiles, sizeof(kFiles) / sizeof(kFiles[0]) - 1);'
echo '}'
echo '}  // namespace interleave::sim::embedded'
} > $@""" % (file_name, function),
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
