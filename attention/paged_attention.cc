#include "attention/paged_attention.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "attention/cache_kernels.h"
#include "attention/dispatch.h"
#include "attention/family.h"
#include "attention/kernel_params.h"
#include "attention/launch_check.h"
#include "attention/params.h"
#include "attention/plan_kernels.h"
#include "attention/plan_state.h"
#include "attention/tile_schedule.h"
#include "attention/validate.h"
#include "base/arena.h"
#include "base/status_macros.h"
#include "cuda_runtime_api.h"

namespace interleave::attention {
namespace {

constexpr float kLog2E = 1.4426950408889634f;

// Makes a device current for a scope.
class DeviceScope {
 public:
  explicit DeviceScope(int32_t device) {
    error_ = cudaGetDevice(&previous_);
    if (error_ != cudaSuccess || previous_ == device) return;
    error_ = cudaSetDevice(device);
    restore_ = error_ == cudaSuccess;
  }
  ~DeviceScope() {
    if (restore_) (void)cudaSetDevice(previous_);
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

  absl::Status status() const {
    return LaunchStatus(error_, "making the device current");
  }

 private:
  cudaError_t error_ = cudaSuccess;
  int previous_ = 0;
  bool restore_ = false;
};

absl::Status InspectPointer(const void* pointer, int32_t device,
                            absl::string_view name) {
  cudaPointerAttributes attributes;
  RETURN_IF_ERROR(LaunchStatus(cudaPointerGetAttributes(&attributes, pointer),
                               "cudaPointerGetAttributes"));
  if (attributes.type != cudaMemoryTypeDevice &&
      attributes.type != cudaMemoryTypeManaged) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is not device memory"));
  }
  if (attributes.type == cudaMemoryTypeDevice && attributes.device != device) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is memory of device ", attributes.device,
                     ", not of device ", device));
  }
  return absl::OkStatus();
}

absl::StatusOr<DeviceFacts> ReadDeviceFacts(int32_t device) {
  DeviceFacts facts;
  const struct {
    cudaDeviceAttr attribute;
    int32_t* value;
  } reads[] = {
      {cudaDevAttrComputeCapabilityMajor, &facts.compute_major},
      {cudaDevAttrComputeCapabilityMinor, &facts.compute_minor},
      {cudaDevAttrMultiProcessorCount, &facts.num_sms},
      {cudaDevAttrMaxSharedMemoryPerBlockOptin, &facts.max_shared_memory}};
  for (const auto& read : reads) {
    RETURN_IF_ERROR(LaunchStatus(
        cudaDeviceGetAttribute(read.value, read.attribute, device),
        absl::StrCat("device: reading attributes of device ", device)));
  }
  return facts;
}

// Lays the workspace out; returns its size.
int64_t Carve(PlanState& state, void* base) {
  Arena arena(base);
  const PlanConfig& config = state.config;
  // First, so that clearing it is one small memset.
  state.counters = arena.Take<WorkCounter>(kNumRoles);
  state.report = arena.Take<MetadataReport>(1);
  const int64_t most_new =
      config.max_total_new != 0 ? config.max_total_new : config.max_total_q;
  state.memory =
      TakeScheduleMemory(state.bounds, config.max_batch, most_new, &arena);
  state.partial_lse = arena.Take<float>(state.bounds.max_partial_rows);
  state.partial_out =
      arena.Take<float>(state.bounds.max_partial_rows * config.shape.head_dim);
  if (config.rotate_queries) {
    state.rotated_q = arena.Take<uint16_t>(
        config.max_total_q * config.shape.num_heads * config.shape.head_dim);
  }
  return arena.size();
}

absl::Status ChooseFamilies(PlanState& state) {
  const AttentionShape& shape = state.config.shape;
  const KernelFamily* chosen[kNumRoles];
  for (int r = 0; r < kNumRoles; ++r) {
    const Role role = static_cast<Role>(r);
    chosen[r] = ChooseFamily(shape, role, state.config.kernels, state.device);
    if (chosen[r] == nullptr) {
      return absl::UnimplementedError(absl::StrCat(
          "shape.head_dim ", shape.head_dim, ": no kernel runs on device ",
          state.config.device, " (compute capability ",
          state.device.compute_major, ".", state.device.compute_minor, ", ",
          state.device.max_shared_memory, " bytes of shared memory a block)"));
    }
    const TileShape tile = chosen[r]->tile_shape(shape, role, state.device);
    state.policy.rows[r] = tile.rows;
    state.policy.kv[r] = tile.kv;
    state.policy.resident[r] = tile.blocks_per_sm * state.device.num_sms;
    state.families[r] = chosen[r];
  }
  return absl::OkStatus();
}

// Everything of a plan but its memory.
absl::StatusOr<std::unique_ptr<PlanState>> MakeState(const PlanConfig& config) {
  RETURN_IF_ERROR(ValidatePlanConfig(config));
  auto state = std::make_unique<PlanState>();
  state->config = config;
  int devices = 0;
  RETURN_IF_ERROR(
      LaunchStatus(cudaGetDeviceCount(&devices), "cudaGetDeviceCount"));
  if (config.device >= devices) {
    return absl::InvalidArgumentError(
        absl::StrCat("device is ", config.device, ", but there are ", devices));
  }
  ASSIGN_OR_RETURN(state->device, ReadDeviceFacts(config.device));
  SchedulePolicy& policy = state->policy;
  policy.num_kv_heads = config.shape.num_kv_heads;
  policy.group_size = config.shape.num_heads / config.shape.num_kv_heads;
  policy.window_left = config.mask.window_left;
  policy.window_right = config.mask.causal ? 0 : config.mask.window_right;
  policy.batch_invariant = config.batch_invariant;
  RETURN_IF_ERROR(ChooseFamilies(*state));
  state->bounds = BoundsOf(policy, config.max_batch, config.max_total_q);
  if (std::max({state->bounds.max_items[0], state->bounds.max_items[1],
                state->bounds.max_partial_rows}) > kMaxCount) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_total_q ", config.max_total_q, " and max_batch ", config.max_batch,
        " make more than ", kMaxCount, " tiles"));
  }
  for (int r = 0; r < kNumRoles; ++r) {
    if (state->bounds.max_items[r] == 0) state->families[r] = nullptr;
  }
  return state;
}

RawLengths RawOf(const BatchMetadata& batch) {
  RawLengths raw;
  raw.batch = batch.batch;
  raw.total_q = batch.total_q;
  raw.cu_seqlens_q = batch.cu_seqlens_q;
  raw.cu_seqlens_k = batch.cu_seqlens_k;
  raw.cache_seqlens = batch.cache_seqlens;
  raw.append = batch.append;
  raw.cu_seqlens_new = batch.cu_seqlens_new;
  raw.total_new = batch.total_new == 0 && batch.cu_seqlens_new == nullptr
                      ? batch.total_q
                      : batch.total_new;
  raw.max_seqlen_k = batch.max_seqlen_k;
  return raw;
}

// Waits for the report of a metadata check and says what it found.
absl::Status ReadReport(const PlanState& state, cudaStream_t stream) {
  MetadataReport report;
  RETURN_IF_ERROR(
      LaunchStatus(cudaMemcpyAsync(&report, state.report, sizeof(report),
                                   cudaMemcpyDeviceToHost, stream),
                   "reading the metadata check"));
  RETURN_IF_ERROR(
      LaunchStatus(cudaStreamSynchronize(stream), "checking metadata"));
  const int32_t b = report.sequence;
  switch (report.fault) {
    case MetadataFault::kNone:
      return absl::OkStatus();
    case MetadataFault::kQueryOffsets:
      return absl::OutOfRangeError(
          absl::StrCat("cu_seqlens_q[", b + 1, "] = ", report.value,
                       ": offsets must start at 0, not decrease, and not pass "
                       "total_q ",
                       state.batch.total_q));
    case MetadataFault::kKeyOffsets:
      return absl::OutOfRangeError(
          absl::StrCat("cu_seqlens_k[", b + 1, "] = ", report.value,
                       ": offsets must start at 0, not decrease, and not pass "
                       "max_seqlen_k ",
                       state.batch.max_seqlen_k));
    case MetadataFault::kNewOffsets:
      return absl::OutOfRangeError(
          absl::StrCat("cu_seqlens_new[", b + 1, "] = ", report.value,
                       ": offsets must start at 0, not decrease, and not pass "
                       "total_new"));
    case MetadataFault::kCacheLength:
      return absl::OutOfRangeError(absl::StrCat(
          "cache_seqlens[", b, "] = ", report.value, " is below -1"));
    case MetadataFault::kTooLong:
      return absl::OutOfRangeError(absl::StrCat(
          "cache_seqlens[", b, "]: with its new tokens the sequence has ",
          report.value, ", more than max_seqlen_k ", state.batch.max_seqlen_k));
    case MetadataFault::kBlockId:
      return absl::OutOfRangeError(absl::StrCat(
          "block_table[", b, "][", report.index, "] = ", report.value,
          " is needed and outside the cache's blocks"));
  }
  return absl::InternalError("the metadata check wrote no report");
}

// What varlen and paged calls have in common.
struct ForwardCall {
  const void* q;
  int64_t q_token_stride;
  int64_t q_head_stride;
  OutputTensor out;
  float* lse;
  int64_t lse_head_stride;
  AttentionOptions options;
};

KernelParams BaseParams(const PlanState& state, const ForwardCall& call) {
  const PlanConfig& config = state.config;
  const AttentionShape& shape = config.shape;
  KernelParams params = {};
  params.q = call.q;
  params.q_token_stride = call.q_token_stride;
  params.q_head_stride = call.q_head_stride;
  params.out = call.out.data;
  params.out_token_stride = call.out.token_stride;
  params.out_head_stride = call.out.head_stride;
  params.lse = call.lse;
  params.lse_head_stride =
      call.lse_head_stride != 0 ? call.lse_head_stride : state.batch.total_q;
  params.total_q = state.batch.total_q;
  params.page_size = 1;
  params.page_divisor = FastDivisor(1);
  params.dtype = shape.dtype;
  params.head_dim = shape.head_dim;
  params.num_heads = shape.num_heads;
  params.num_kv_heads = shape.num_kv_heads;
  params.group_size = state.policy.group_size;
  params.group_divisor = FastDivisor(state.policy.group_size);
  params.softmax_scale = call.options.softmax_scale != 0
                             ? call.options.softmax_scale
                             : 1.0f / std::sqrt(float(shape.head_dim));
  params.scale_log2 = params.softmax_scale * kLog2E;
  params.softcap = call.options.softcap;
  params.sinks = call.options.sinks;
  params.window_left = state.policy.window_left;
  params.window_right = state.policy.window_right;
  params.device = config.device;
  params.num_sms = state.device.num_sms;
  Schedule& schedule = params.schedule;
  schedule.sequences = state.memory.sequences;
  schedule.header = state.memory.header;
  schedule.counters = state.counters;
  schedule.combines = state.memory.combines;
  schedule.token_sequence = state.memory.token_sequence;
  schedule.partial_out = state.partial_out;
  schedule.partial_lse = state.partial_lse;
  schedule.batch = state.batch.batch;
  schedule.max_combines = state.memory.max_combines;
  for (int r = 0; r < kNumRoles; ++r) {
    schedule.items[r] = state.memory.items[r];
    schedule.max_items[r] = state.memory.max_items[r];
  }
  return params;
}

absl::Status LaunchCombination(const PlanState& state,
                               const KernelParams& params,
                               cudaStream_t stream) {
  if (params.schedule.max_combines == 0) return absl::OkStatus();
  const bool early = state.device.compute_major >= 9;
  return LaunchStatus(LaunchCombine(params, early, stream), "combine kernel");
}

absl::Status LaunchForward(const PlanState& state, KernelParams& params,
                           cudaStream_t stream) {
  // Without cu_seqlens_q every sequence has one query, so one role is known to
  // be empty.
  const bool uniform = state.batch.cu_seqlens_q == nullptr;
  const Role only = state.policy.group_size <=
                            state.policy.rows[static_cast<int>(Role::kDecode)]
                        ? Role::kDecode
                        : Role::kPrefill;
  // Side by side, a family may give a role other blocks than it has alone, and
  // with them another order of sums: not in batch-invariant mode.
  const KernelFamily* family = state.families[0];
  if (!uniform && !state.config.batch_invariant && family != nullptr &&
      family == state.families[1] && family->launch_mixed != nullptr) {
    RETURN_IF_ERROR(LaunchStatus(family->launch_mixed(params, stream),
                                 absl::StrCat(family->name, " mixed kernel")));
    return LaunchCombination(state, params, stream);
  }
  for (int r = 0; r < kNumRoles; ++r) {
    const Role role = static_cast<Role>(r);
    if (state.families[r] == nullptr || (uniform && role != only)) continue;
    RETURN_IF_ERROR(LaunchStatus(
        state.families[r]->launch(params, role, stream),
        absl::StrCat(state.families[r]->name,
                     role == Role::kPrefill ? " prefill" : " decode",
                     " kernel")));
  }
  return LaunchCombination(state, params, stream);
}

absl::Status PagedForward(const Plan& plan, const PagedParams& params,
                          cudaStream_t stream) {
  PlanState& state = plan.state();
  if (!state.updated) {
    return absl::FailedPreconditionError("plan was not updated with a batch");
  }
  const BatchMetadata& batch = state.batch;
  const AttentionShape& shape = state.config.shape;
  RETURN_IF_ERROR(ValidatePaged(state.config, batch, params, InspectPointer));
  if (batch.batch == 0) return absl::OkStatus();
  const DeviceScope device(state.config.device);
  RETURN_IF_ERROR(device.status());
  if (state.config.check_device_metadata) {
    RETURN_IF_ERROR(LaunchStatus(
        LaunchCheckBlocks(
            state.memory.sequences, batch.batch, params.block_table.data,
            params.block_table.row_stride, params.cache.block_size,
            params.cache.num_blocks, state.report, stream),
        "block check kernel"));
    RETURN_IF_ERROR(ReadReport(state, stream));
  }
  ForwardCall call = {
      params.q.data, params.q.token_stride,  params.q.head_stride, params.out,
      params.lse,    params.lse_head_stride, params.options};
  if (batch.append) {
    TokenRows rows;
    rows.k = const_cast<void*>(params.append.k.data);
    rows.v = const_cast<void*>(params.append.v.data);
    rows.k_token_stride = params.append.k.token_stride;
    rows.k_head_stride = params.append.k.head_stride;
    rows.v_token_stride = params.append.v.token_stride;
    rows.v_head_stride = params.append.v.head_stride;
    rows.count = RawOf(batch).total_new;
    SlotSource source;
    source.sequences = state.memory.sequences;
    source.token_sequence = state.memory.token_sequence;
    source.block_table = params.block_table.data;
    source.block_table_stride = params.block_table.row_stride;
    source.max_blocks_per_seq = params.block_table.max_blocks_per_seq;
    RETURN_IF_ERROR(LaunchStatus(
        LaunchMoveTokens(shape, rows, source, params.cache,
                         params.append.rotary, state.device.num_sms, stream),
        "append kernel"));
    if (state.config.rotate_queries) {
      RETURN_IF_ERROR(
          LaunchStatus(LaunchRotateQueries(shape, params.q, state.rotated_q,
                                           state.memory.sequences, batch.batch,
                                           batch.total_q, params.append.rotary,
                                           state.device.num_sms, stream),
                       "query rotation kernel"));
      call.q = state.rotated_q;
      call.q_token_stride = int64_t{shape.num_heads} * shape.head_dim;
      call.q_head_stride = shape.head_dim;
    }
  }
  if (batch.total_q == 0) return absl::OkStatus();
  KernelParams kernel = BaseParams(state, call);
  kernel.k = params.cache.k;
  kernel.v = params.cache.v;
  kernel.k_block_stride = params.cache.k_block_stride;
  kernel.k_token_stride = params.cache.k_slot_stride;
  kernel.k_head_stride = params.cache.k_head_stride;
  kernel.v_block_stride = params.cache.v_block_stride;
  kernel.v_token_stride = params.cache.v_slot_stride;
  kernel.v_head_stride = params.cache.v_head_stride;
  kernel.block_table = params.block_table.data;
  kernel.block_table_stride = params.block_table.row_stride;
  kernel.num_blocks = params.cache.num_blocks;
  kernel.page_size = params.cache.block_size;
  kernel.page_divisor = FastDivisor(params.cache.block_size);
  return LaunchForward(state, kernel, stream);
}

}  // namespace

Plan::Plan(std::unique_ptr<PlanState> state) : state_(std::move(state)) {}
Plan::Plan(Plan&&) = default;

Plan& Plan::operator=(Plan&& other) {
  std::swap(state_, other.state_);
  return *this;
}

Plan::~Plan() {
  if (state_ == nullptr || !state_->owns_workspace) return;
  const DeviceScope device(state_->config.device);
  (void)cudaFree(state_->workspace);  // nobody is left to tell
}

const PlanConfig& Plan::config() const { return state_->config; }

absl::StatusOr<int64_t> Plan::WorkspaceBytes(const PlanConfig& config) {
  ASSIGN_OR_RETURN(std::unique_ptr<PlanState> state, MakeState(config));
  return Carve(*state, nullptr);
}

absl::StatusOr<Plan> Plan::Create(const PlanConfig& config, void* workspace,
                                  int64_t workspace_bytes,
                                  cudaStream_t stream) {
  ASSIGN_OR_RETURN(std::unique_ptr<PlanState> state, MakeState(config));
  const int64_t needed = Carve(*state, nullptr);
  if (workspace == nullptr) {
    return absl::InvalidArgumentError("workspace is null");
  }
  if (reinterpret_cast<uintptr_t>(workspace) % Arena::kAlignment != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "workspace is not aligned to ", Arena::kAlignment, " bytes"));
  }
  if (workspace_bytes < needed) {
    return absl::InvalidArgumentError(
        absl::StrCat("workspace_bytes is ", workspace_bytes,
                     ", but the plan needs ", needed));
  }
  RETURN_IF_ERROR(InspectPointer(workspace, config.device, "workspace"));
  const DeviceScope device(config.device);
  RETURN_IF_ERROR(device.status());
  Carve(*state, workspace);
  RETURN_IF_ERROR(
      LaunchStatus(cudaMemsetAsync(state->counters, 0,
                                   kNumRoles * sizeof(WorkCounter), stream),
                   "clearing the workspace"));
  state->workspace = workspace;
  return Plan(std::move(state));
}

absl::StatusOr<Plan> Plan::Create(const PlanConfig& config) {
  ASSIGN_OR_RETURN(const int64_t bytes, WorkspaceBytes(config));
  const DeviceScope device(config.device);
  RETURN_IF_ERROR(device.status());
  void* workspace = nullptr;
  RETURN_IF_ERROR(LaunchStatus(cudaMalloc(&workspace, bytes),
                               absl::StrCat("workspace of ", bytes, " bytes")));
  absl::StatusOr<Plan> plan = Create(config, workspace, bytes, nullptr);
  if (plan.ok()) {
    plan->state_->owns_workspace = true;
    const absl::Status cleared =
        LaunchStatus(cudaStreamSynchronize(nullptr), "clearing the workspace");
    if (!cleared.ok()) return cleared;
  } else {
    (void)cudaFree(workspace);
  }
  return plan;
}

absl::Status Plan::Update(const BatchMetadata& batch, cudaStream_t stream) {
  PlanState& state = *state_;
  RETURN_IF_ERROR(ValidateBatch(state.config, batch, InspectPointer));
  state.updated = false;
  state.batch = batch;
  state.batch.host_cu_seqlens_q = {};
  state.batch.host_cu_seqlens_k = {};
  state.batch.host_cache_seqlens = {};
  state.batch.host_cu_seqlens_new = {};
  if (batch.batch > 0) {
    const DeviceScope device(state.config.device);
    RETURN_IF_ERROR(device.status());
    const RawLengths raw = RawOf(batch);
    if (state.config.check_device_metadata) {
      RETURN_IF_ERROR(
          LaunchStatus(LaunchCheckLengths(raw, state.report, stream),
                       "length check kernel"));
      RETURN_IF_ERROR(ReadReport(state, stream));
    }
    RETURN_IF_ERROR(LaunchStatus(
        LaunchScheduleCount(state.policy, raw, state.memory, stream),
        "schedule count kernel"));
    RETURN_IF_ERROR(
        LaunchStatus(LaunchScheduleFill(state.policy, raw, state.memory,
                                        state.device.num_sms, stream),
                     "schedule fill kernel"));
  }
  state.updated = true;
  return absl::OkStatus();
}

absl::Status VarlenForward(const Plan& plan, const VarlenParams& params,
                           cudaStream_t stream) {
  PlanState& state = plan.state();
  if (!state.updated) {
    return absl::FailedPreconditionError("plan was not updated with a batch");
  }
  RETURN_IF_ERROR(
      ValidateVarlen(state.config, state.batch, params, InspectPointer));
  if (state.batch.batch == 0 || state.batch.total_q == 0) {
    return absl::OkStatus();
  }
  const DeviceScope device(state.config.device);
  RETURN_IF_ERROR(device.status());
  KernelParams kernel = BaseParams(
      state, {params.q.data, params.q.token_stride, params.q.head_stride,
              params.out, params.lse, params.lse_head_stride, params.options});
  kernel.k = params.k.data;
  kernel.v = params.v.data;
  kernel.k_token_stride = params.k.token_stride;
  kernel.k_head_stride = params.k.head_stride;
  kernel.v_token_stride = params.v.token_stride;
  kernel.v_head_stride = params.v.head_stride;
  kernel.total_k = params.total_k;
  return LaunchForward(state, kernel, stream);
}

absl::Status DecodeForward(const Plan& plan, const PagedParams& params,
                           cudaStream_t stream) {
  if (plan.state().updated && plan.state().batch.cu_seqlens_q != nullptr) {
    return absl::InvalidArgumentError(
        "cu_seqlens_q is set in the plan's batch: decode has one query token "
        "a sequence");
  }
  return PagedForward(plan, params, stream);
}

absl::Status MixedForward(const Plan& plan, const PagedParams& params,
                          cudaStream_t stream) {
  return PagedForward(plan, params, stream);
}

absl::Status CacheScatter(const ScatterParams& params, int32_t device,
                          cudaStream_t stream) {
  RETURN_IF_ERROR(ValidateScatter(params, device, InspectPointer));
  if (params.total_tokens == 0) return absl::OkStatus();
  const DeviceScope scope(device);
  RETURN_IF_ERROR(scope.status());
  ASSIGN_OR_RETURN(const DeviceFacts facts, ReadDeviceFacts(device));
  TokenRows rows;
  rows.k = const_cast<void*>(params.k.data);
  rows.v = const_cast<void*>(params.v.data);
  rows.k_token_stride = params.k.token_stride;
  rows.k_head_stride = params.k.head_stride;
  rows.v_token_stride = params.v.token_stride;
  rows.v_head_stride = params.v.head_stride;
  rows.count = params.total_tokens;
  SlotSource source;
  source.slot_mapping = params.slot_mapping;
  return LaunchStatus(LaunchMoveTokens(params.shape, rows, source, params.cache,
                                       Rotary(), facts.num_sms, stream),
                      "scatter kernel");
}

absl::Status CacheGather(const GatherParams& params, int32_t device,
                         cudaStream_t stream) {
  RETURN_IF_ERROR(ValidateGather(params, device, InspectPointer));
  if (params.batch == 0 || params.total_k == 0) return absl::OkStatus();
  const DeviceScope scope(device);
  RETURN_IF_ERROR(scope.status());
  ASSIGN_OR_RETURN(const DeviceFacts facts, ReadDeviceFacts(device));
  TokenRows rows;
  rows.k = params.k.data;
  rows.v = params.v.data;
  rows.k_token_stride = params.k.token_stride;
  rows.k_head_stride = params.k.head_stride;
  rows.v_token_stride = params.v.token_stride;
  rows.v_head_stride = params.v.head_stride;
  rows.count = params.total_k;
  SlotSource source;
  source.cu_seqlens_k = params.cu_seqlens_k;
  source.batch = params.batch;
  source.block_table = params.block_table.data;
  source.block_table_stride = params.block_table.row_stride;
  source.max_blocks_per_seq = params.block_table.max_blocks_per_seq;
  return LaunchStatus(LaunchMoveTokens(params.shape, rows, source, params.cache,
                                       Rotary(), facts.num_sms, stream),
                      "gather kernel");
}

absl::Status MergeStates(const MergeParams& params, int32_t device,
                         cudaStream_t stream) {
  RETURN_IF_ERROR(ValidateMerge(params, device, InspectPointer));
  if (params.total_q == 0) return absl::OkStatus();
  const DeviceScope scope(device);
  RETURN_IF_ERROR(scope.status());
  ASSIGN_OR_RETURN(const DeviceFacts facts, ReadDeviceFacts(device));
  return LaunchStatus(LaunchMergeStates(params, facts.num_sms, stream),
                      "merge kernel");
}

}  // namespace interleave::attention
