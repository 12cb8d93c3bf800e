// A linear layer of at most 64 tokens, whose time is that of reading W: the
// weights stream through shared memory at an equal rate in every
// multiprocessor, and begin to do so before the kernel that makes x has ended.
// Needs sm_90a.

#ifndef SIM_KERNEL_EXECUTOR_STREAM_LINEAR_H_
#define SIM_KERNEL_EXECUTOR_STREAM_LINEAR_H_

#include <cstdint>

#include "cuda_runtime_api.h"
#include "sim/kernel_executor/stream_split.h"

namespace interleave::sim {

// A CUtensorMap over a bf16 matrix, row-major and contiguous.
struct StreamOperand {
  alignas(64) unsigned char map[128] = {};
};

// Rows of x that the kernel for so many tokens reads: 16, 32 or 64; 0 for more
// than 64.
inline int32_t StreamTokens(int64_t tokens) {
  if (tokens <= 16) return 16;
  if (tokens <= 32) return 32;
  return tokens <= kStreamTokens ? kStreamTokens : 0;
}

// box_rows: kStreamRows for a weight, StreamTokens of the tokens for x, where
// rows is what there is memory for.
cudaError_t MakeStreamOperand(const void* data, int64_t rows, int64_t columns,
                              int32_t box_rows, StreamOperand* operand);

// Enqueues the partial sums of x W^T. partials: StreamPartials(split) floats.
// The kernel after it may be one that starts early (programmatic dependent
// launch) and waits. `early`: so does this one, as soon as the launch before
// allows it.
cudaError_t LaunchStreamLinear(const StreamOperand& x,
                               const StreamOperand& weight,
                               const StreamSplit& split, int64_t tokens,
                               float* partials, bool early,
                               cudaStream_t stream);

// What blocks of LaunchStreamGateUp leave to each other.
struct GateUpScratch {
  float* sums = nullptr;  // GateUpSums(split)
  // GateUpReady(split): zero before the first launch, and again after each.
  int32_t* ready = nullptr;
};
int64_t GateUpSums(const StreamSplit& split);
int64_t GateUpReady(const StreamSplit& split);

// Enqueues out [tokens, width] = SiLU(x gate^T) (x up^T), bf16. The weight is
// [2 width, inputs], in which rows of gate and up alternate by kGateUpRows;
// split: among no more blocks than there are multiprocessors, since some wait
// for others. Sums are added in one order, so that the outcome is the same each
// time. The kernels before and after it as above.
cudaError_t LaunchStreamGateUp(const StreamOperand& x,
                               const StreamOperand& weight,
                               const StreamSplit& split, int64_t tokens,
                               const GateUpScratch& scratch, void* out,
                               bool early, cudaStream_t stream);

}  // namespace interleave::sim

#endif  // SIM_KERNEL_EXECUTOR_STREAM_LINEAR_H_
