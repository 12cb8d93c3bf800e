// Kernel times as NVIDIA's aiconfigurator publishes them: gzip CSV files, one a
// kind of kernel, whose names begin with the system:
//
//   SYSTEM_*_gemm_perf.csv[.gz]                  gemm_dtype,m,n,k,latency_ms
//   SYSTEM_*_context_attention_perf.csv[.gz]     batch_size,isl,num_heads,
//       num_key_value_heads,head_dim,attn_dtype,kv_cache_dtype,step,
//       window_size,latency_ms: whole prompts of isl tokens
//   SYSTEM_*_generation_attention_perf.csv[.gz]  the same columns: batch_size
//       sequences compute isl (1) tokens after `step` cached ones
//   SYSTEM_*_custom_allreduce_perf.csv[.gz]      num_gpus,message_size
//       (numbers, not bytes),latency_ms,backend
//
// Measurements that are repeated (other versions, other runs) are averaged.

#ifndef SIM_COST_KERNEL_TABLES_H_
#define SIM_COST_KERNEL_TABLES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "sim/cost/grid.h"

namespace interleave::sim {

// Times in milliseconds throughout.

// Axes: n, k, m.  InvalidArgument where no row has that format, listing those
// that are there.
absl::StatusOr<Grid> ParseGemm(absl::string_view text, absl::string_view source,
                               absl::string_view format);

struct AttentionShape {
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  std::string kv_format;
};

// Axes: query heads, sequences, tokens (of the prompt; cached and computed).
// Only rows without a window.
absl::StatusOr<Grid> ParseAttentionKernels(absl::string_view text,
                                           absl::string_view source,
                                           const AttentionShape& shape);

// By number of elements.
absl::StatusOr<Curve> ParseAllReduce(absl::string_view text,
                                     absl::string_view source,
                                     absl::string_view backend,
                                     int64_t num_devices);

// The file of `directory` whose name begins with system + "_" and ends in
// kind + "_perf.csv" or that + ".gz"; the last by name where there are several.
// NotFound naming what was looked for.
absl::StatusOr<std::string> FindKernelTable(const std::string& directory,
                                            absl::string_view system,
                                            absl::string_view kind);

}  // namespace interleave::sim

#endif  // SIM_COST_KERNEL_TABLES_H_
