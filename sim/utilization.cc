#include "sim/utilization.h"

#include <cstdint>

#include "base/deterministic_math.h"
#include "base/sim_time.h"
#include "sim/cost/device.pb.h"
#include "sim/cost/model.pb.h"
#include "sim/cost/model_math.h"
#include "sim/metrics/metrics.h"

namespace interleave::sim {
namespace {

// Weights of one layer in linear layers that see every token.
double DenseWeightsPerLayer(const ModelSpec& model) {
  const double hidden = model.hidden_size();
  const double query = 1.0 * model.num_heads() * model.head_dim();
  const double kv = 1.0 * model.num_kv_heads() * model.head_dim();
  const double router = hidden * model.num_experts();
  return hidden * (2 * query + 2 * kv) + router;
}

double MlpWeights(const ModelSpec& model) {
  return 3.0 * model.hidden_size() * model.intermediate_size();
}

double Flops(const Metrics& metrics, const ModelSpec& model) {
  const double experts =
      model.num_experts() > 0 ? model.experts_per_token() : 1.0;
  const double layers = model.num_layers();
  const double per_token =
      2 * layers * (DenseWeightsPerLayer(model) + experts * MlpWeights(model));
  const double decodes = static_cast<double>(metrics.decode_tokens_computed());
  const double tokens =
      decodes + static_cast<double>(metrics.prefill_tokens_computed());
  const double pairs = static_cast<double>(metrics.prefill_pairs()) +
                       static_cast<double>(metrics.decode_kv_tokens()) +
                       decodes;
  const double lm_head = 2.0 * model.hidden_size() * model.vocab_size();
  return per_token * tokens +
         4 * layers * model.num_heads() * model.head_dim() * pairs +
         lm_head * static_cast<double>(metrics.output_tokens());
}

double WeightBytesRead(const Metrics& metrics, const ModelSpec& model) {
  const double iterations = static_cast<double>(metrics.iterations());
  const double all = static_cast<double>(WeightBytes(model));
  if (model.num_experts() == 0) return all * iterations;
  const double tokens = static_cast<double>(metrics.decode_tokens_computed() +
                                            metrics.prefill_tokens_computed());
  const double missed = 1.0 - static_cast<double>(model.experts_per_token()) /
                                  model.num_experts();
  const double touched = 1 - DeterministicPow(missed, tokens / iterations);
  const double expert_bytes =
      model.num_layers() * static_cast<double>(model.num_experts()) *
      MlpWeights(model) *
      static_cast<double>(BytesPerNumber(model.weight_format()));
  return iterations * (all - (1 - touched) * expert_bytes);
}

double KvBytesMoved(const Metrics& metrics, const ModelSpec& model) {
  const int64_t read =
      metrics.decode_kv_tokens() + metrics.decode_tokens_computed();
  const int64_t written =
      metrics.decode_tokens_computed() + metrics.prefill_tokens_computed();
  return static_cast<double>(KvBytesPerToken(model)) *
         static_cast<double>(read + written);
}

}  // namespace

Utilization ComputeUtilization(const Metrics& metrics, const ModelSpec& model,
                               const DeviceSpec& device, int tensor_parallel) {
  Utilization utilization;
  if (metrics.iterations() == 0) return utilization;
  const double device_seconds = metrics.busy().seconds() * tensor_parallel;
  if (device_seconds <= 0) return utilization;
  const bool fp8 = model.weight_format() == FP8 && device.fp8_flops_per_s() > 0;
  const double peak =
      fp8 ? device.fp8_flops_per_s() : device.bf16_flops_per_s();
  utilization.mfu = Flops(metrics, model) / (device_seconds * peak);
  utilization.mbu =
      (WeightBytesRead(metrics, model) + KvBytesMoved(metrics, model)) /
      (device_seconds * device.memory_bytes_per_s());
  return utilization;
}

}  // namespace interleave::sim
