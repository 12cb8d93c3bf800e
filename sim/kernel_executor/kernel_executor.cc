#include "sim/kernel_executor/kernel_executor.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "base/sim_time.h"
#include "base/status_macros.h"
#include "scheduler/engine_state.h"
#include "scheduler/request.h"
#include "sim/cost/batch_shape.h"
#include "sim/kernel_executor/batch_runner.h"

namespace interleave::sim {

using scheduler::CommittedPiece;
using scheduler::Request;

absl::Status KernelExecutor::Run(const Batch& batch, IterationTiming& timing) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = last_end_.value_or(Clock::now());
  if (batch.committed.swapped_in_blocks > 0 ||
      batch.committed.swapped_out_blocks > 0) {
    return absl::UnimplementedError(
        "the plan swaps blocks to the host, which the kernels do not do; let "
        "the policy recompute, or use executor: COST_MODEL");
  }
  CollectWork(batch);
  for (size_t next = 0; next < work_.size();) {
    Pack(batch, next);
    RETURN_IF_ERROR(RunPacked(timing.device));
  }
  const Clock::time_point end = Clock::now();
  const SimDuration wall = SimDuration::Nanos(
      std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin)
          .count());
  timing.host = std::max(wall - timing.device, SimDuration::Zero());
  FillPrediction(batch.shape, timing);
  model_->Ran(batch.shape, absl::MakeConstSpan(&timing.device, 1));
  last_end_ = Clock::now();
  return absl::OkStatus();
}

void KernelExecutor::CollectWork(const Batch& batch) {
  work_.clear();
  if (batch.committed.decode_all) {
    for (const Request& request : batch.state.running()) {
      if (!request.steady()) continue;
      work_.push_back({&request, 1, request.computed(), true});
    }
  }
  for (const CommittedPiece& piece : batch.committed.pieces) {
    work_.push_back(
        {piece.request, piece.num_tokens, piece.context_tokens, piece.samples});
  }
}

void KernelExecutor::Pack(const Batch& batch, size_t& next) {
  sequences_.clear();
  tokens_.clear();
  sampling_.clear();
  int64_t left = options_.max_tokens;
  while (next < work_.size() && left > 0) {
    Work& work = work_[next];
    Work part = work;
    if (part.num_tokens > left) {
      part.num_tokens = static_cast<int32_t>(left);
      part.sample = false;
    }
    left -= part.num_tokens;
    DecoderSequence sequence;
    sequence.num_tokens = part.num_tokens;
    sequence.cached_tokens = part.cached_tokens;
    sequence.sample = part.sample;
    sequence.blocks = batch.state.cache().block_table(part.request->sequence());
    sequences_.push_back(sequence);
    AppendTokens(part);
    if (part.sample) sampling_.push_back(part.request);
    work.num_tokens -= part.num_tokens;
    work.cached_tokens += part.num_tokens;
    if (work.num_tokens == 0) ++next;
  }
}

void KernelExecutor::AppendTokens(const Work& work) {
  const Request& request = *work.request;
  const int32_t prompt = request.spec().prompt_tokens;
  const int32_t end = work.cached_tokens + work.num_tokens;
  const size_t old_size = tokens_.size();
  const int32_t of_prompt =
      std::max(std::min(end, prompt) - work.cached_tokens, 0);
  tokens_.resize(old_size + static_cast<size_t>(of_prompt));
  const absl::Span<int32_t> fresh = absl::MakeSpan(tokens_).subspan(old_size);
  request.tokens().Read(work.cached_tokens, fresh);
  for (int32_t& token : fresh) token %= runner_->vocab_size();
  if (end <= prompt) return;
  const std::vector<GeneratedToken>& generated = generated_[request.id()];
  const int32_t first = std::max(work.cached_tokens - prompt, 0);
  DCHECK(end - prompt <= static_cast<int32_t>(generated.size()));
  for (int32_t i = first; i < end - prompt; ++i) {
    tokens_.push_back(generated[static_cast<size_t>(i)].token);
  }
}

absl::Status KernelExecutor::RunPacked(SimDuration& device) {
  DecoderBatch batch;
  batch.sequences = sequences_;
  batch.tokens = tokens_;
  ASSIGN_OR_RETURN(const DecoderTiming timing, runner_->Run(batch, &output_));
  device += timing.device;
  if (output_.tokens.size() != sampling_.size() ||
      output_.logit_gaps.size() != sampling_.size()) {
    return absl::InternalError(
        absl::StrCat("the runner sampled ", output_.tokens.size(),
                     " tokens for ", sampling_.size(), " sequences"));
  }
  for (size_t i = 0; i < sampling_.size(); ++i) {
    generated_[sampling_[i]->id()].push_back(
        {output_.tokens[i], output_.logit_gaps[i]});
  }
  return absl::OkStatus();
}

void KernelExecutor::FillPrediction(const BatchShape& shape,
                                    IterationTiming& timing) {
  const bool mixed = !shape.prefill.empty() && shape.decode.count > 0;
  if (shape.prefill.empty()) timing.decodes_alone = timing.device;
  if (!mixed && !options_.predict) return;
  const SimDuration whole = model_->IterationTime(shape);
  if (options_.predict) timing.predicted = whole;
  if (!mixed || whole <= SimDuration::Zero()) return;
  BatchShape decodes;
  decodes.decode = shape.decode;
  const double share =
      model_->IterationTime(decodes).seconds() / whole.seconds();
  timing.decodes_alone = std::min(
      SimDuration::Seconds(share * timing.device.seconds()), timing.device);
}

void KernelExecutor::OnRequestDone(const Request& request) {
  const auto generated = generated_.find(request.id());
  if (generated == generated_.end()) return;
  if (options_.on_done) options_.on_done(request.id(), generated->second);
  generated_.erase(generated);
}

}  // namespace interleave::sim
