#include "sim/kernel_executor/warm_decoder.h"

#include <memory>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "sim/kernel_executor/batch_runner.h"
#include "sim/kernel_executor/decoder.h"
#include "sim/kernel_executor/decoder_options.h"
#include "sim/kernel_executor/warm_up.h"

namespace interleave::sim {

absl::StatusOr<std::unique_ptr<BatchRunner>> CreateWarmDecoder(
    const DecoderOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<Decoder> decoder, Decoder::Create(options));
  RETURN_IF_ERROR(WarmUp(options, *decoder));
  return decoder;
}

}  // namespace interleave::sim
