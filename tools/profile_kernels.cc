// Measures the profile of a model on this machine's GPU:
//
//   tools/bazelw run -c opt //tools:profile_kernels --
//       --model=llama3.1_8b --device=h200 --out=profiles/h200_llama3.1_8b

#include <unistd.h>

#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/program.h"
#include "base/status_macros.h"
#include "sim/cost/model.pb.h"
#include "sim/kernel_executor/decoder.h"
#include "sim/kernel_executor/decoder_options.h"
#include "tools/profile_kernels_main.h"

namespace {

using interleave::sim::Decoder;
using interleave::sim::DecoderOptions;
using interleave::tools::EngineLimits;
using interleave::tools::ProfiledEngine;

absl::StatusOr<ProfiledEngine> CreateEngine(
    const interleave::sim::ModelSpec& model, const EngineLimits& limits,
    const std::string& linear_choices) {
  DecoderOptions options;
  ASSIGN_OR_RETURN(options.shape, interleave::sim::DecoderShapeOf(model));
  options.block_size = limits.block_size;
  options.max_num_seqs = limits.max_num_seqs;
  options.max_num_batched_tokens = limits.max_num_batched_tokens;
  options.max_model_len = limits.max_model_len;
  options.linear_choices = linear_choices;
  ASSIGN_OR_RETURN(std::unique_ptr<Decoder> decoder, Decoder::Create(options));
  ProfiledEngine engine;
  engine.gpu = decoder->device_name();
  engine.driver_version = decoder->driver_version();
  engine.cuda_version = decoder->cuda_version();
  const auto sizes = decoder->graph_batch_sizes();
  engine.graph_sizes.assign(sizes.begin(), sizes.end());
  engine.linear_choices = decoder->LinearChoicesText();
  engine.runner = std::move(decoder);
  return engine;
}

}  // namespace

int main(int argc, char** argv) {
  if (!interleave::EnterUserFolder("profile_kernels")) return 1;
  interleave::tools::ProfileKernelsEnvironment environment;
  environment.out = &std::cout;
  environment.err = &std::cerr;
  environment.show_progress = isatty(STDERR_FILENO) == 1;
  environment.interrupted = interleave::CatchInterrupts();
  environment.create_engine = &CreateEngine;
  const std::vector<std::string> args(argv + 1, argv + argc);
  return interleave::tools::ProfileKernelsMain(args, environment);
}
