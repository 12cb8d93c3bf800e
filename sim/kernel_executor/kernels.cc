// Makes --executor=kernels run on this machine's GPU, in whatever program this
// is linked into.

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "sim/kernel_executor/batch_runner.h"
#include "sim/kernel_executor/decoder.h"
#include "sim/kernel_executor/decoder_options.h"
#include "sim/kernel_executor/runner_registry.h"
#include "sim/kernel_executor/warm_up.h"

namespace interleave::sim {
namespace {

absl::StatusOr<std::unique_ptr<BatchRunner>> Make(
    const DecoderOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<Decoder> decoder, Decoder::Create(options));
  RETURN_IF_ERROR(WarmUp(options, *decoder));
  return decoder;
}

[[maybe_unused]] const bool kRegistered = RegisterRunner(&Make);

}  // namespace
}  // namespace interleave::sim
