// Tells how far two runs with --executor=kernels, under two policies, say,
// generated the same tokens:
//
//   bazel run -c opt //tools:compare_tokens -- --a=FOLDER --b=FOLDER

#include <iostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/command_line.h"
#include "base/program.h"
#include "base/status_macros.h"
#include "base/text_file.h"
#include "sim/kernel_executor/token_agreement.h"

namespace interleave::tools {
namespace {

absl::Status Compare(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) {
    return absl::InvalidArgumentError(
        "pass --a=FOLDER and --b=FOLDER, of runs with --executor=kernels");
  }
  const std::string a_name = absl::StrCat(a, "/tokens.csv");
  const std::string b_name = absl::StrCat(b, "/tokens.csv");
  ASSIGN_OR_RETURN(const std::string a_text, ReadTextFile(a_name));
  ASSIGN_OR_RETURN(const std::string b_text, ReadTextFile(b_name));
  ASSIGN_OR_RETURN(const sim::TokenAgreement found,
                   sim::CompareTokens(a_text, a_name, b_text, b_name));
  std::cout << absl::StrFormat(
      "%d of %d requests have the same tokens; %d of %d tokens come before a "
      "difference\n",
      found.same, found.requests, found.tokens_before_difference, found.tokens);
  if (found.same < found.requests) {
    std::cout << absl::StrFormat(
        "logit gap where a request first differs: mean %.4f, largest %.4f\n",
        found.mean_gap, found.largest_gap);
  }
  return absl::OkStatus();
}

int Main(const std::vector<std::string>& args) {
  std::string a;
  std::string b;
  absl::Status status =
      ParseFlags({StringFlag("a", "FOLDER", "results of one run", &a),
                  StringFlag("b", "FOLDER", "results of another", &b)},
                 args);
  if (status.ok()) status = Compare(a, b);
  if (!status.ok()) {
    std::cerr << "compare_tokens: " << status.message() << "\n";
  }
  return ExitStatus(status);
}

}  // namespace
}  // namespace interleave::tools

int main(int argc, char** argv) {
  if (!interleave::EnterUserFolder("compare_tokens")) return 1;
  return interleave::tools::Main(
      std::vector<std::string>(argv + 1, argv + argc));
}
