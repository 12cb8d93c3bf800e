#include "attention/c_api.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <new>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "attention/paged_attention.h"
#include "attention/params.h"
#include "base/status_macros.h"
#include "cuda_runtime_api.h"

struct InterleaveAttentionPlan {
  interleave::attention::Plan plan;
};

namespace interleave::attention {
namespace {

// Sizes of the first version, below which no caller's struct can be.
constexpr size_t kFirstPlanConfig = 80;
constexpr size_t kFirstBatch = 104;
constexpr size_t kFirstVarlenParams = 144;
constexpr size_t kFirstPagedParams = 280;
constexpr size_t kFirstScatterParams = 168;
constexpr size_t kFirstGatherParams = 200;
constexpr size_t kFirstMergeParams = 128;

std::string& LastError() {
  thread_local std::string error;
  return error;
}

// Runs the body of an exported function: its status becomes the code returned
// and the message kept.
template <typename Body>
int32_t Run(const Body& body) noexcept {
  try {
    const absl::Status status = body();
    if (status.ok()) return INTERLEAVE_ATTENTION_OK;
    LastError() = std::string(status.message());
    return static_cast<int32_t>(status.code());
  } catch (const std::bad_alloc&) {
    LastError().clear();  // there is no memory to say more
    return INTERLEAVE_ATTENTION_RESOURCE_EXHAUSTED;
  }
}

// Copies a caller's struct of any version into one of ours.
template <typename T>
absl::StatusOr<T> Read(const T* from, size_t first, absl::string_view name) {
  if (from == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(name, " is null"));
  }
  const uint64_t size = from->size;
  if (size < first || size > (uint64_t{1} << 16)) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ".size is ", size, "; it must be the struct's size, ", sizeof(T),
        " in this version"));
  }
  const char* bytes = reinterpret_cast<const char*>(from);
  for (uint64_t i = sizeof(T); i < size; ++i) {
    if (bytes[i] != 0) {
      return absl::UnimplementedError(
          absl::StrCat(name, ".size is ", size, " with a field set beyond the ",
                       sizeof(T), " bytes that this library knows"));
    }
  }
  T to = {};
  std::memcpy(static_cast<void*>(&to), bytes,
              std::min<size_t>(size, sizeof(T)));
  return to;
}

absl::StatusOr<int32_t> To32(int64_t value, absl::string_view name) {
  if (value < std::numeric_limits<int32_t>::min() ||
      value > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(name, " is ", value));
  }
  return static_cast<int32_t>(value);
}

AttentionShape From(const InterleaveAttentionShape& c) {
  AttentionShape shape;
  shape.dtype = static_cast<DataType>(c.dtype);
  shape.num_heads = c.num_heads;
  shape.num_kv_heads = c.num_kv_heads;
  shape.head_dim = c.head_dim;
  return shape;
}

InputTensor Input(const InterleaveAttentionTensor& c) {
  return {c.data, c.token_stride, c.head_stride};
}
OutputTensor Output(const InterleaveAttentionTensor& c) {
  return {c.data, c.token_stride, c.head_stride};
}

absl::StatusOr<KvCache> From(const InterleaveAttentionCache& c) {
  KvCache cache;
  cache.k = c.k;
  cache.v = c.v;
  cache.num_blocks = c.num_blocks;
  ASSIGN_OR_RETURN(cache.block_size, To32(c.block_size, "cache.block_size"));
  cache.k_block_stride = c.k_block_stride;
  cache.k_slot_stride = c.k_slot_stride;
  cache.k_head_stride = c.k_head_stride;
  cache.v_block_stride = c.v_block_stride;
  cache.v_slot_stride = c.v_slot_stride;
  cache.v_head_stride = c.v_head_stride;
  return cache;
}

absl::StatusOr<BlockTable> From(const InterleaveAttentionBlockTable& c) {
  BlockTable table;
  table.data = c.data;
  table.row_stride = c.row_stride;
  ASSIGN_OR_RETURN(
      table.max_blocks_per_seq,
      To32(c.max_blocks_per_seq, "block_table.max_blocks_per_seq"));
  return table;
}

AttentionOptions From(const InterleaveAttentionOptions& c) {
  AttentionOptions options;
  options.softmax_scale = c.softmax_scale;
  options.softcap = c.softcap;
  options.sinks = c.sinks;
  return options;
}

Rotary From(const InterleaveAttentionRotary& c) {
  Rotary rotary;
  rotary.cos = c.cos;
  rotary.sin = c.sin;
  rotary.rotary_dim = c.rotary_dim;
  rotary.max_position = c.max_position;
  rotary.interleaved = c.interleaved != 0;
  return rotary;
}

absl::StatusOr<PlanConfig> Config(const InterleaveAttentionPlanConfig* given) {
  ASSIGN_OR_RETURN(const InterleaveAttentionPlanConfig c,
                   Read(given, kFirstPlanConfig, "config"));
  if (c.reserved != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("config.reserved is ", c.reserved, ", not 0"));
  }
  PlanConfig config;
  config.shape = From(c.shape);
  config.mask.causal = c.causal != 0;
  config.mask.window_left = c.window_left;
  config.mask.window_right = c.window_right;
  config.max_batch = c.max_batch;
  config.max_total_q = c.max_total_q;
  config.max_total_new = c.max_total_new;
  config.batch_invariant = c.batch_invariant != 0;
  config.rotate_queries = c.rotate_queries != 0;
  config.kernels =
      c.portable_kernels != 0 ? KernelChoice::kPortable : KernelChoice::kAuto;
  config.check_device_metadata = c.check_device_metadata != 0;
  config.device = c.device;
  return config;
}

absl::Span<const int32_t> HostSpan(const int32_t* data, int64_t count) {
  if (data == nullptr || count < 0) return {};
  return absl::MakeConstSpan(data, static_cast<size_t>(count));
}

absl::StatusOr<BatchMetadata> Batch(const InterleaveAttentionBatch* given) {
  ASSIGN_OR_RETURN(const InterleaveAttentionBatch c,
                   Read(given, kFirstBatch, "batch"));
  const int64_t count = c.batch;
  BatchMetadata batch;
  batch.batch = c.batch;
  batch.total_q = c.total_q;
  batch.cu_seqlens_q = c.cu_seqlens_q;
  batch.cu_seqlens_k = c.cu_seqlens_k;
  batch.cache_seqlens = c.cache_seqlens;
  batch.append = c.append != 0;
  batch.cu_seqlens_new = c.cu_seqlens_new;
  batch.total_new = c.total_new;
  batch.max_seqlen_k = c.max_seqlen_k;
  batch.host_cu_seqlens_q = HostSpan(c.host_cu_seqlens_q, count + 1);
  batch.host_cu_seqlens_k = HostSpan(c.host_cu_seqlens_k, count + 1);
  batch.host_cache_seqlens = HostSpan(c.host_cache_seqlens, count);
  batch.host_cu_seqlens_new = HostSpan(c.host_cu_seqlens_new, count + 1);
  return batch;
}

absl::StatusOr<VarlenParams> Varlen(
    const InterleaveAttentionVarlenParams* given) {
  ASSIGN_OR_RETURN(const InterleaveAttentionVarlenParams c,
                   Read(given, kFirstVarlenParams, "params"));
  VarlenParams params;
  params.q = Input(c.q);
  params.k = Input(c.k);
  params.v = Input(c.v);
  params.total_k = c.total_k;
  params.out = Output(c.out);
  params.lse = c.lse;
  params.lse_head_stride = c.lse_head_stride;
  params.options = From(c.options);
  return params;
}

absl::StatusOr<PagedParams> Paged(const InterleaveAttentionPagedParams* given) {
  ASSIGN_OR_RETURN(const InterleaveAttentionPagedParams c,
                   Read(given, kFirstPagedParams, "params"));
  PagedParams params;
  params.q = Input(c.q);
  ASSIGN_OR_RETURN(params.cache, From(c.cache));
  ASSIGN_OR_RETURN(params.block_table, From(c.block_table));
  params.append.k = Input(c.append_k);
  params.append.v = Input(c.append_v);
  params.append.total_tokens = c.append_total_tokens;
  params.append.rotary = From(c.rotary);
  params.out = Output(c.out);
  params.lse = c.lse;
  params.lse_head_stride = c.lse_head_stride;
  params.options = From(c.options);
  return params;
}

cudaStream_t Stream(void* stream) { return static_cast<cudaStream_t>(stream); }

absl::Status NotNull(const void* pointer, absl::string_view name) {
  if (pointer != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " is null"));
}

using PagedCall = absl::Status (*)(const Plan&, const PagedParams&,
                                   cudaStream_t);

int32_t RunPaged(PagedCall call, InterleaveAttentionPlan* plan,
                 const InterleaveAttentionPagedParams* params, void* stream) {
  return Run([&]() -> absl::Status {
    RETURN_IF_ERROR(NotNull(plan, "plan"));
    ASSIGN_OR_RETURN(const PagedParams paged, Paged(params));
    return call(plan->plan, paged, Stream(stream));
  });
}

static_assert(sizeof(InterleaveAttentionPlanConfig) >= kFirstPlanConfig);
static_assert(sizeof(InterleaveAttentionBatch) >= kFirstBatch);
static_assert(sizeof(InterleaveAttentionVarlenParams) >= kFirstVarlenParams);
static_assert(sizeof(InterleaveAttentionPagedParams) >= kFirstPagedParams);
static_assert(sizeof(InterleaveAttentionScatterParams) >= kFirstScatterParams);
static_assert(sizeof(InterleaveAttentionGatherParams) >= kFirstGatherParams);
static_assert(sizeof(InterleaveAttentionMergeParams) >= kFirstMergeParams);

}  // namespace
}  // namespace interleave::attention

using namespace interleave::attention;  // NOLINT: the C functions' own scope

int32_t interleave_attention_abi_version(void) {
  return INTERLEAVE_ATTENTION_ABI_VERSION;
}

const char* interleave_attention_last_error(void) {
  return LastError().c_str();
}

int32_t interleave_attention_workspace_bytes(
    const InterleaveAttentionPlanConfig* config, int64_t* bytes) {
  return Run([&]() -> absl::Status {
    RETURN_IF_ERROR(NotNull(bytes, "bytes"));
    ASSIGN_OR_RETURN(const PlanConfig plan_config, Config(config));
    ASSIGN_OR_RETURN(*bytes, Plan::WorkspaceBytes(plan_config));
    return absl::OkStatus();
  });
}

int32_t interleave_attention_plan_create(
    const InterleaveAttentionPlanConfig* config, void* workspace,
    int64_t workspace_bytes, void* stream, InterleaveAttentionPlan** plan) {
  return Run([&]() -> absl::Status {
    RETURN_IF_ERROR(NotNull(plan, "plan"));
    *plan = nullptr;
    ASSIGN_OR_RETURN(const PlanConfig plan_config, Config(config));
    absl::StatusOr<Plan> made =
        workspace == nullptr && workspace_bytes == 0
            ? Plan::Create(plan_config)
            : Plan::Create(plan_config, workspace, workspace_bytes,
                           Stream(stream));
    RETURN_IF_ERROR(made.status());
    *plan = new InterleaveAttentionPlan{*std::move(made)};
    return absl::OkStatus();
  });
}

int32_t interleave_attention_plan_update(InterleaveAttentionPlan* plan,
                                         const InterleaveAttentionBatch* batch,
                                         void* stream) {
  return Run([&]() -> absl::Status {
    RETURN_IF_ERROR(NotNull(plan, "plan"));
    ASSIGN_OR_RETURN(const BatchMetadata metadata, Batch(batch));
    return plan->plan.Update(metadata, Stream(stream));
  });
}

int32_t interleave_attention_plan_destroy(InterleaveAttentionPlan* plan) {
  return Run([&] {
    delete plan;
    return absl::OkStatus();
  });
}

int32_t interleave_attention_varlen_forward(
    InterleaveAttentionPlan* plan,
    const InterleaveAttentionVarlenParams* params, void* stream) {
  return Run([&]() -> absl::Status {
    RETURN_IF_ERROR(NotNull(plan, "plan"));
    ASSIGN_OR_RETURN(const VarlenParams varlen, Varlen(params));
    return VarlenForward(plan->plan, varlen, Stream(stream));
  });
}

int32_t interleave_attention_decode_forward(
    InterleaveAttentionPlan* plan, const InterleaveAttentionPagedParams* params,
    void* stream) {
  return RunPaged(DecodeForward, plan, params, stream);
}

int32_t interleave_attention_mixed_forward(
    InterleaveAttentionPlan* plan, const InterleaveAttentionPagedParams* params,
    void* stream) {
  return RunPaged(MixedForward, plan, params, stream);
}

int32_t interleave_attention_cache_scatter(
    const InterleaveAttentionScatterParams* params, int32_t device,
    void* stream) {
  return Run([&]() -> absl::Status {
    ASSIGN_OR_RETURN(const InterleaveAttentionScatterParams c,
                     Read(params, kFirstScatterParams, "params"));
    ScatterParams scatter;
    scatter.shape = From(c.shape);
    scatter.k = Input(c.k);
    scatter.v = Input(c.v);
    scatter.total_tokens = c.total_tokens;
    scatter.slot_mapping = c.slot_mapping;
    ASSIGN_OR_RETURN(scatter.cache, From(c.cache));
    return CacheScatter(scatter, device, Stream(stream));
  });
}

int32_t interleave_attention_cache_gather(
    const InterleaveAttentionGatherParams* params, int32_t device,
    void* stream) {
  return Run([&]() -> absl::Status {
    ASSIGN_OR_RETURN(const InterleaveAttentionGatherParams c,
                     Read(params, kFirstGatherParams, "params"));
    GatherParams gather;
    gather.shape = From(c.shape);
    ASSIGN_OR_RETURN(gather.cache, From(c.cache));
    ASSIGN_OR_RETURN(gather.block_table, From(c.block_table));
    ASSIGN_OR_RETURN(gather.batch, To32(c.batch, "batch"));
    gather.cu_seqlens_k = c.cu_seqlens_k;
    gather.total_k = c.total_k;
    gather.k = Output(c.k);
    gather.v = Output(c.v);
    return CacheGather(gather, device, Stream(stream));
  });
}

int32_t interleave_attention_merge_states(
    const InterleaveAttentionMergeParams* params, int32_t device,
    void* stream) {
  return Run([&]() -> absl::Status {
    ASSIGN_OR_RETURN(const InterleaveAttentionMergeParams c,
                     Read(params, kFirstMergeParams, "params"));
    MergeParams merge;
    merge.shape = From(c.shape);
    merge.total_q = c.total_q;
    merge.a = Input(c.a);
    merge.lse_a = c.lse_a;
    merge.b = Input(c.b);
    merge.lse_b = c.lse_b;
    merge.out = Output(c.out);
    merge.lse = c.lse;
    return MergeStates(merge, device, Stream(stream));
  });
}
