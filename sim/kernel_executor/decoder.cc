#include "sim/kernel_executor/decoder.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "attention/paged_attention.h"
#include "attention/params.h"
#include "base/arena.h"
#include "base/mix64.h"
#include "base/sim_time.h"
#include "base/status_macros.h"
#include "cuda_runtime_api.h"
#include "sim/kernel_executor/batch_packing.h"
#include "sim/kernel_executor/cublas_lt.h"
#include "sim/kernel_executor/cuda_memory.h"
#include "sim/kernel_executor/decoder_kernels.h"
#include "sim/kernel_executor/decoder_layout.h"
#include "sim/kernel_executor/decoder_options.h"
#include "sim/kernel_executor/linear_choices.h"
#include "sim/kernel_executor/linear_layer.h"
#include "sim/kernel_executor/stream_linear.h"
#include "sim/kernel_executor/stream_split.h"

namespace interleave::sim {
namespace {

// What modules, cuBLASLt and captured graphs take besides.
constexpr int64_t kRuntimeBytes = int64_t{768} << 20;
constexpr const char* kLinearNames[] = {"qkv", "output", "gate_up", "down"};
static_assert(std::size(kLinearNames) == kNumLinear);
constexpr char kLmHeadName[] = "lm_head";

// Rows of a matrix of so many columns, in which those of gate and up alternate.
std::vector<float> GateThenUp(const std::vector<float>& matrix,
                              int64_t columns) {
  const size_t run = static_cast<size_t>(kGateUpRows * columns);
  std::vector<float> parted;
  parted.reserve(matrix.size());
  for (const size_t first : {size_t{0}, run}) {
    for (size_t i = first; i < matrix.size(); i += 2 * run) {
      const auto begin = matrix.begin() + static_cast<std::ptrdiff_t>(i);
      parted.insert(parted.end(), begin,
                    begin + static_cast<std::ptrdiff_t>(run));
    }
  }
  return parted;
}

attention::PlanConfig PlanConfigOf(const DecoderOptions& options) {
  attention::PlanConfig config;
  config.shape = {attention::DataType::kBFloat16, options.shape.num_heads,
                  options.shape.num_kv_heads, options.shape.head_dim};
  config.mask.causal = true;
  config.max_batch = options.max_num_seqs;
  config.max_total_q = options.max_num_batched_tokens;
  config.batch_invariant = options.batch_invariant;
  config.device = options.device;
  return config;
}

// ---- The device ----

absl::Status CheckDevice(int32_t device) {
  constexpr char kRemedy[] =
      "; run on a machine with an NVIDIA GPU of compute capability 8.0 or "
      "later, or use the cost model";
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count);
      error != cudaSuccess) {
    return absl::FailedPreconditionError(absl::StrCat(
        "there is no CUDA device (", cudaGetErrorString(error), ")", kRemedy));
  }
  if (device >= count) {
    return absl::FailedPreconditionError(
        absl::StrCat("device is ", device, ", but there are ", count,
                     " CUDA devices", kRemedy));
  }
  ASSIGN_OR_RETURN(const int major,
                   DeviceAttribute(cudaDevAttrComputeCapabilityMajor, device));
  ASSIGN_OR_RETURN(const int minor,
                   DeviceAttribute(cudaDevAttrComputeCapabilityMinor, device));
  if (major < 8) {
    return absl::FailedPreconditionError(
        absl::StrCat("device ", device, " is too old (compute capability ",
                     major, ".", minor, ")", kRemedy));
  }
  return CudaStatus(cudaSetDevice(device), "cudaSetDevice");
}

absl::StatusOr<StreamSplits> StreamsOf(const DecoderOptions& options) {
  ASSIGN_OR_RETURN(
      const int major,
      DeviceAttribute(cudaDevAttrComputeCapabilityMajor, options.device));
  ASSIGN_OR_RETURN(
      const int multiprocessors,
      DeviceAttribute(cudaDevAttrMultiProcessorCount, options.device));
  return SplitStreams(options, major, multiprocessors);
}

absl::StatusOr<DecoderMemory> SizeUp(const DecoderOptions& options) {
  RETURN_IF_ERROR(ValidateDecoderOptions(options));
  RETURN_IF_ERROR(CheckDevice(options.device));
  ASSIGN_OR_RETURN(const int64_t plan_bytes,
                   attention::Plan::WorkspaceBytes(PlanConfigOf(options)));
  DecoderMemory memory;
  Arena weights(nullptr);
  (void)CarveWeights(options, weights);
  memory.weights = weights.size();
  Arena other(nullptr);
  ASSIGN_OR_RETURN(const StreamSplits streams, StreamsOf(options));
  (void)CarveBuffers(options, plan_bytes, streams, other);
  memory.other = other.size();
  memory.kv_cache = options.num_blocks * KvBlockBytes(options);
  return memory;
}

std::string Gigabytes(int64_t bytes) {
  return absl::StrFormat("%.2f GB", static_cast<double>(bytes) / 1e9);
}

// Settles how many KV blocks there are. ResourceExhausted unless all fits.
absl::Status FitMemory(DecoderOptions& options, DecoderMemory& memory) {
  size_t free = 0;
  size_t total = 0;
  RETURN_IF_ERROR(CudaStatus(cudaMemGetInfo(&free, &total), "cudaMemGetInfo"));
  const int64_t fixed = memory.weights + memory.other + kRuntimeBytes;
  const int64_t available = static_cast<int64_t>(free);
  if (options.num_blocks == 0) {
    const int64_t left_alone = static_cast<int64_t>(
        static_cast<double>(total) * (1.0 - options.memory_utilization));
    const int64_t blocks =
        (available - left_alone - fixed) / KvBlockBytes(options);
    options.num_blocks = std::min<int64_t>(
        std::max<int64_t>(blocks, 0),
        std::numeric_limits<int32_t>::max() / options.block_size);
    memory.kv_cache = options.num_blocks * KvBlockBytes(options);
  }
  const int64_t needed =
      fixed + std::max(memory.kv_cache, KvBlockBytes(options));
  if (needed <= available && options.num_blocks > 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the model does not fit device ", options.device, ": ", needed,
      " bytes are needed (weights ", memory.weights, ", KV cache ",
      std::max(memory.kv_cache, KvBlockBytes(options)),
      ", activations and "
      "tables ",
      memory.other, ", runtime ", kRuntimeBytes, "), and ", available, " of ",
      static_cast<int64_t>(total),
      " are free; take a smaller model, fewer blocks, a smaller "
      "max_num_batched_tokens or max_model_len, or free the device"));
}

std::string ReadDriverVersion() {
  std::ifstream file("/sys/module/nvidia/version");
  std::string version;
  if (file >> version) return version;
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  ...", whose
  // words before the number differ.
  std::ifstream long_file("/proc/driver/nvidia/version");
  while (long_file >> version) {
    if (version.find('.') != std::string::npos &&
        version.find_first_not_of("0123456789.") == std::string::npos) {
      return version;
    }
  }
  return "unknown";
}

class DecoderImpl final : public Decoder {
 public:
  DecoderImpl(const DecoderOptions& options, const DecoderMemory& memory)
      : options_(options), sizes_(options), memory_(memory) {}
  ~DecoderImpl() override {
    (void)cudaSetDevice(options_.device);
    if (stream_.get() != nullptr) (void)cudaStreamSynchronize(stream_.get());
  }

  absl::Status Init();

  absl::StatusOr<DecoderTiming> Run(const DecoderBatch& batch,
                                    DecoderOutput* output) override;
  int32_t vocab_size() const override { return options_.shape.vocab_size; }
  int32_t block_size() const override { return options_.block_size; }
  int64_t num_blocks() const override { return options_.num_blocks; }
  std::string Description() const override;

  const DecoderOptions& options() const override { return options_; }
  const DecoderMemory& memory() const override { return memory_; }
  int64_t weight_bytes_read() const override;
  std::string device_name() const override { return device_name_; }
  std::string driver_version() const override { return ReadDriverVersion(); }
  std::string cuda_version() const override;
  absl::Span<const int32_t> graph_batch_sizes() const override {
    return graph_sizes_;
  }

  std::string LinearChoicesText() const override;

  absl::StatusOr<std::vector<float>> LastLogits() override;
  absl::StatusOr<LayerWeights> ReadLayer(int32_t layer) override;
  absl::StatusOr<OuterWeights> ReadOuter() override;

 private:
  // What the kernels of one iteration see of its size.
  struct Extent {
    int64_t rows = 0;
    int64_t tokens = 0;
    int64_t samples = 0;
    // One token a row.
    bool uniform = false;
    BatchPart part = BatchPart::kAll;
    size_t layers = 0;
  };
  // A layer's part of the KV cache.
  struct KvPointers {
    void* k;
    void* v;
  };
  // Batch size and what of it is computed.
  using GraphKey = std::pair<int64_t, BatchPart>;

  absl::Status MakeWeights();
  const void* LinearInput(Linear linear) const;
  void* LinearOutput(Linear linear) const;
  const void* LinearWeight(Linear linear, size_t layer) const;
  LinearLayer::Algorithms KnownAlgorithms(const char* name) const;
  absl::Status ReadLinearChoices();
  int64_t CublasLtVersion() const;
  absl::StatusOr<LinearLayer> MakeLinearLayer(
      const char* name, const LinearShape& shape, int64_t max_tokens,
      absl::Span<const void* const> weights, const void* x, void* y);
  absl::Status MakeLinearLayers();
  absl::Status MakePlan();
  absl::Status MakeStreams();
  absl::Status MakeGraphs();
  absl::StatusOr<CudaGraphExec> Capture(const Extent& extent);
  absl::StatusOr<cudaGraphExec_t> GraphFor(int64_t rows, BatchPart part);

  absl::Status Upload(int64_t count);
  absl::Status Enqueue(const Extent& extent);
  absl::Status EnqueuePlan(const Extent& extent,
                           const attention::BatchMetadata& metadata);
  // `delta` is what the MLP adds to the residual stream.
  absl::Status EnqueueLayer(const Extent& extent, size_t layer,
                            const UnpackedBatch& unpacked, LinearResult& delta);
  // Whether its linear layers stream their weights.
  bool Streams(const Extent& extent) const;
  absl::StatusOr<LinearResult> EnqueueLinear(const Extent& extent,
                                             Linear linear, size_t layer);
  absl::Status EnqueueGateUp(const Extent& extent, size_t layer);
  KvPointers CacheOf(size_t layer) const;
  absl::Status EnqueueAttention(const Extent& extent, size_t layer);
  absl::Status EnqueueAttentionAlone(const Extent& extent);
  absl::Status EnqueueHead(const Extent& extent, const int32_t* samples,
                           const LinearResult& delta);
  absl::Status Wait();
  absl::StatusOr<std::vector<float>> ReadBf16(const void* data, int64_t count);

  DecoderOptions options_;
  const DecoderSizes sizes_;
  DecoderMemory memory_;
  std::string device_name_;
  std::vector<int32_t> graph_sizes_;

  // Freed in the opposite order.
  CudaStream stream_;
  CudaStream plan_stream_;
  DeviceMemory weight_memory_;
  DeviceMemory kv_memory_;
  DeviceMemory other_memory_;
  PinnedMemory packed_memory_;
  PinnedMemory output_memory_;
  CudaEvent begin_;
  CudaEvent end_;
  CudaEvent uploaded_;
  CudaEvent planned_;
  WeightPointers weights_ = {};
  DecoderBuffers buffers_ = {};
  int32_t* packed_ = nullptr;  // pinned
  int32_t* tokens_ = nullptr;  // pinned, written by the device
  float* gaps_ = nullptr;
  std::unique_ptr<LinearContext> linear_context_;
  std::array<std::optional<LinearLayer>, kNumLinear> linear_;
  std::optional<LinearLayer> lm_head_;
  // What the options say, if this cuBLASLt understands it.
  LinearChoices known_choices_;
  StreamSplits streams_;
  // Of each layer's weights, and of x by its number of rows: 16, 32, 64.
  std::vector<std::array<StreamOperand, kNumLinear>> stream_weights_;
  std::array<std::map<int32_t, StreamOperand>, kNumLinear> stream_inputs_;
  std::optional<attention::Plan> plan_;
  std::map<GraphKey, CudaGraphExec> graphs_;
  int64_t last_samples_ = 0;
};

// ---- Setting up ----

absl::Status DecoderImpl::Init() {
  cudaDeviceProp properties;
  RETURN_IF_ERROR(
      CudaStatus(cudaGetDeviceProperties(&properties, options_.device),
                 "cudaGetDeviceProperties"));
  device_name_ = properties.name;
  ASSIGN_OR_RETURN(stream_, CreateStream());
  ASSIGN_OR_RETURN(begin_, CudaEvent::Create());
  ASSIGN_OR_RETURN(end_, CudaEvent::Create());
  ASSIGN_OR_RETURN(plan_stream_, CreateStream());
  ASSIGN_OR_RETURN(uploaded_, CudaEvent::Create());
  ASSIGN_OR_RETURN(planned_, CudaEvent::Create());
  ASSIGN_OR_RETURN(weight_memory_, AllocateDevice(memory_.weights, "weights"));
  ASSIGN_OR_RETURN(kv_memory_, AllocateDevice(memory_.kv_cache, "KV cache"));
  ASSIGN_OR_RETURN(other_memory_,
                   AllocateDevice(memory_.other, "activations and tables"));
  ASSIGN_OR_RETURN(packed_memory_,
                   AllocatePinned(MostPacked(sizes_) * 4, "batches"));
  ASSIGN_OR_RETURN(output_memory_,
                   AllocatePinned(sizes_.seqs * 8, "sampled tokens"));
  packed_ = static_cast<int32_t*>(packed_memory_.get());
  tokens_ = static_cast<int32_t*>(output_memory_.get());
  gaps_ = reinterpret_cast<float*>(tokens_ + sizes_.seqs);
  RETURN_IF_ERROR(MakePlan());
  RETURN_IF_ERROR(MakeWeights());
  RETURN_IF_ERROR(MakeLinearLayers());
  RETURN_IF_ERROR(MakeStreams());
  return MakeGraphs();
}

absl::Status DecoderImpl::MakePlan() {
  const attention::PlanConfig config = PlanConfigOf(options_);
  ASSIGN_OR_RETURN(const int64_t bytes,
                   attention::Plan::WorkspaceBytes(config));
  ASSIGN_OR_RETURN(streams_, StreamsOf(options_));
  Arena arena(other_memory_.get());
  buffers_ = CarveBuffers(options_, bytes, streams_, arena);
  ASSIGN_OR_RETURN(
      attention::Plan plan,
      attention::Plan::Create(config, buffers_.plan, bytes, stream_.get()));
  plan_.emplace(std::move(plan));
  return absl::OkStatus();
}

// Deviations keep the activations of every layer about as large: a product of
// k inputs gets 1 / sqrt(k), and what is added to the residual stream less.
absl::Status DecoderImpl::MakeWeights() {
  Arena arena(weight_memory_.get());
  weights_ = CarveWeights(options_, arena);
  uint64_t tensor = 0;
  const auto fill = [&](void* data, int64_t count, double mean,
                        double deviation) {
    const uint64_t seed = Mix64(Mix64(options_.seed) + ++tensor);
    return CudaStatus(
        LaunchFillNormal(data, count, static_cast<float>(mean),
                         static_cast<float>(deviation), seed, stream_.get()),
        "making weights");
  };
  const double hidden = std::sqrt(static_cast<double>(sizes_.hidden));
  const double branches = std::sqrt(2.0 * options_.shape.num_layers);
  constexpr double kNormDeviation = 0.02;
  for (const LayerPointers& layer : weights_.layers) {
    RETURN_IF_ERROR(
        fill(layer.qkv, sizes_.qkv() * sizes_.hidden, 0, 1 / hidden));
    RETURN_IF_ERROR(
        fill(layer.output, sizes_.hidden * sizes_.q, 0,
             1 / std::sqrt(static_cast<double>(sizes_.q)) / branches));
    RETURN_IF_ERROR(fill(layer.gate_up, 2 * sizes_.intermediate * sizes_.hidden,
                         0, 1 / hidden));
    RETURN_IF_ERROR(fill(
        layer.down, sizes_.hidden * sizes_.intermediate, 0,
        2 / std::sqrt(static_cast<double>(sizes_.intermediate)) / branches));
    RETURN_IF_ERROR(
        fill(layer.attention_norm, sizes_.hidden, 1, kNormDeviation));
    RETURN_IF_ERROR(fill(layer.mlp_norm, sizes_.hidden, 1, kNormDeviation));
  }
  RETURN_IF_ERROR(fill(weights_.embedding, sizes_.vocab * sizes_.hidden, 0,
                       options_.shape.tied_embeddings ? 1 / hidden : 1));
  if (!options_.shape.tied_embeddings) {
    RETURN_IF_ERROR(
        fill(weights_.lm_head, sizes_.vocab * sizes_.hidden, 0, 1 / hidden));
  }
  RETURN_IF_ERROR(fill(weights_.final_norm, sizes_.hidden, 1, kNormDeviation));
  // So that algorithms are timed on numbers, and nothing is read unwritten.
  RETURN_IF_ERROR(fill(buffers_.normed, sizes_.tokens * sizes_.hidden, 0, 1));
  RETURN_IF_ERROR(fill(buffers_.attention, sizes_.tokens * sizes_.q, 0, 1));
  RETURN_IF_ERROR(
      fill(buffers_.activated, sizes_.tokens * sizes_.intermediate, 0, 1));
  RETURN_IF_ERROR(fill(buffers_.last, sizes_.seqs * sizes_.hidden, 0, 1));
  RETURN_IF_ERROR(fill(kv_memory_.get(), memory_.kv_cache / kBf16Bytes, 0, 1));
  RETURN_IF_ERROR(
      CudaStatus(LaunchRotaryTable(buffers_.cos_sin, sizes_.positions,
                                   options_.shape.head_dim,
                                   options_.shape.rope_theta, stream_.get()),
                 "making the rotary table"));
  return Wait();
}

const void* DecoderImpl::LinearInput(Linear linear) const {
  switch (linear) {
    case kOutput:
      return buffers_.attention;
    case kDown:
      return buffers_.activated;
    default:
      return buffers_.normed;
  }
}

void* DecoderImpl::LinearOutput(Linear linear) const {
  switch (linear) {
    case kQkv:
      return buffers_.qkv;
    case kGateUp:
      return buffers_.gate_up;
    default:
      return buffers_.delta;
  }
}

const void* DecoderImpl::LinearWeight(Linear linear, size_t layer) const {
  const LayerPointers& weights = weights_.layers[layer];
  switch (linear) {
    case kQkv:
      return weights.qkv;
    case kOutput:
      return weights.output;
    case kGateUp:
      return weights.gate_up;
    default:
      return weights.down;
  }
}

absl::StatusOr<LinearLayer> DecoderImpl::MakeLinearLayer(
    const char* name, const LinearShape& shape, int64_t max_tokens,
    absl::Span<const void* const> weights, const void* x, void* y) {
  LinearOptions options;
  options.inputs = static_cast<int32_t>(shape.inputs);
  options.outputs = static_cast<int32_t>(shape.outputs);
  options.max_tokens = max_tokens;
  options.float_output = y == buffers_.logits;
  options.batch_invariant = options_.batch_invariant;
  ASSIGN_OR_RETURN(LinearLayer layer,
                   LinearLayer::Create(linear_context_.get(), options));
  if (options_.tune_linear_layers) {
    RETURN_IF_ERROR(
        layer.Tune(weights, x, y, stream_.get(), KnownAlgorithms(name)));
  }
  return layer;
}

LinearLayer::Algorithms DecoderImpl::KnownAlgorithms(const char* name) const {
  LinearLayer::Algorithms known;
  const auto layer = known_choices_.layers.find(name);
  if (layer == known_choices_.layers.end()) return known;
  for (const auto& [tokens, words] : layer->second) {
    static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(words));
    std::memcpy(&known[tokens], words.data(), sizeof(words));
  }
  return known;
}

// Choices of another version of cuBLASLt mean nothing to this one.
absl::Status DecoderImpl::ReadLinearChoices() {
  if (options_.linear_choices.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      LinearChoices choices,
      ParseLinearChoices(options_.linear_choices, "linear_choices"));
  if (choices.cublas_lt_version == CublasLtVersion()) {
    known_choices_ = std::move(choices);
  }
  return absl::OkStatus();
}

int64_t DecoderImpl::CublasLtVersion() const {
  return static_cast<int64_t>(linear_context_->lt().version());
}

std::string DecoderImpl::LinearChoicesText() const {
  LinearChoices choices;
  choices.cublas_lt_version = CublasLtVersion();
  const auto add = [&](const char* name, const LinearLayer& layer) {
    for (const auto& [tokens, algorithm] : layer.algorithms()) {
      LinearAlgorithm& words = choices.layers[name][tokens];
      std::memcpy(words.data(), &algorithm, sizeof(words));
    }
  };
  for (size_t i = 0; i < kNumLinear; ++i) add(kLinearNames[i], *linear_[i]);
  add(kLmHeadName, *lm_head_);
  return FormatLinearChoices(choices);
}

absl::Status DecoderImpl::MakeLinearLayers() {
  ASSIGN_OR_RETURN(linear_context_,
                   LinearContext::Create(buffers_.workspace, kWorkspaceBytes));
  RETURN_IF_ERROR(ReadLinearChoices());
  const std::array<LinearShape, kNumLinear> shapes = LinearShapes(sizes_);
  for (size_t i = 0; i < kNumLinear; ++i) {
    const Linear linear = static_cast<Linear>(i);
    std::vector<const void*> weights;
    for (size_t layer = 0; layer < weights_.layers.size(); ++layer) {
      weights.push_back(LinearWeight(linear, layer));
    }
    ASSIGN_OR_RETURN(
        LinearLayer layer,
        MakeLinearLayer(kLinearNames[i], shapes[i], sizes_.tokens, weights,
                        LinearInput(linear), LinearOutput(linear)));
    linear_[i].emplace(std::move(layer));
  }
  const void* const lm_head = weights_.lm_head;
  ASSIGN_OR_RETURN(
      LinearLayer layer,
      MakeLinearLayer(kLmHeadName, {sizes_.hidden, sizes_.vocab}, sizes_.seqs,
                      absl::MakeConstSpan(&lm_head, 1), buffers_.last,
                      buffers_.logits));
  lm_head_.emplace(std::move(layer));
  return Wait();
}

absl::Status DecoderImpl::MakeStreams() {
  if (!streams_.has_value()) return absl::OkStatus();
  const std::array<LinearShape, kNumLinear> shapes = LinearShapes(sizes_);
  stream_weights_.resize(weights_.layers.size());
  for (size_t i = 0; i < kNumLinear; ++i) {
    const Linear linear = static_cast<Linear>(i);
    for (size_t layer = 0; layer < weights_.layers.size(); ++layer) {
      RETURN_IF_ERROR(
          CudaStatus(MakeStreamOperand(LinearWeight(linear, layer),
                                       shapes[i].outputs, shapes[i].inputs,
                                       kStreamRows, &stream_weights_[layer][i]),
                     "cuTensorMapEncodeTiled"));
    }
    for (const int32_t rows : {16, 32, 64}) {
      RETURN_IF_ERROR(CudaStatus(
          MakeStreamOperand(LinearInput(linear), sizes_.tokens,
                            shapes[i].inputs, rows, &stream_inputs_[i][rows]),
          "cuTensorMapEncodeTiled"));
    }
  }
  return CudaStatus(
      cudaMemsetAsync(
          buffers_.gate_up_scratch.ready, 0,
          static_cast<size_t>(GateUpReady((*streams_)[kGateUp])) * 4,
          stream_.get()),
      "clearing what blocks leave to each other");
}

absl::Status DecoderImpl::MakeGraphs() {
  if (!options_.cuda_graphs) return absl::OkStatus();
  graph_sizes_ = GraphBatchSizes(options_.max_num_seqs);
  for (const int32_t size : graph_sizes_) {
    RETURN_IF_ERROR(GraphFor(size, BatchPart::kAll).status());
  }
  return Wait();
}

absl::StatusOr<cudaGraphExec_t> DecoderImpl::GraphFor(int64_t rows,
                                                      BatchPart part) {
  const GraphKey key = {rows, part};
  auto it = graphs_.find(key);
  if (it == graphs_.end()) {
    Extent extent;
    extent.rows = extent.tokens = extent.samples = rows;
    extent.uniform = true;
    extent.part = part;
    extent.layers = weights_.layers.size();
    ASSIGN_OR_RETURN(CudaGraphExec exec, Capture(extent));
    RETURN_IF_ERROR(CudaStatus(cudaGraphUpload(exec.get(), stream_.get()),
                               "cudaGraphUpload"));
    it = graphs_.emplace(key, std::move(exec)).first;
  }
  return it->second.get();
}

absl::StatusOr<CudaGraphExec> DecoderImpl::Capture(const Extent& extent) {
  RETURN_IF_ERROR(CudaStatus(
      cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeRelaxed),
      "cudaStreamBeginCapture"));
  absl::Status status = begin_.RecordInGraph(stream_.get());
  if (status.ok()) status = Enqueue(extent);
  if (status.ok()) status = end_.RecordInGraph(stream_.get());
  cudaGraph_t captured = nullptr;
  const absl::Status ended = CudaStatus(
      cudaStreamEndCapture(stream_.get(), &captured), "cudaStreamEndCapture");
  const CudaGraph graph(captured);
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(ended);
  cudaGraphExec_t exec = nullptr;
  RETURN_IF_ERROR(CudaStatus(cudaGraphInstantiate(&exec, graph.get(), 0),
                             "cudaGraphInstantiate"));
  return CudaGraphExec(exec);
}

// ---- One iteration ----

absl::Status DecoderImpl::Upload(int64_t count) {
  return CudaStatus(
      cudaMemcpyAsync(buffers_.packed, packed_, static_cast<size_t>(count) * 4,
                      cudaMemcpyHostToDevice, stream_.get()),
      "uploading the batch");
}

absl::Status DecoderImpl::Enqueue(const Extent& extent) {
  const PackedLayout at(extent.rows, extent.tokens, extent.samples);
  PackedBatch packed;
  packed.rows = static_cast<int32_t>(extent.rows);
  packed.tokens = static_cast<int32_t>(extent.tokens);
  packed.token_ids = buffers_.packed;
  packed.cu_tokens = buffers_.packed + at.cu_tokens;
  packed.lengths = buffers_.packed + at.lengths;
  packed.table_begin = buffers_.packed + at.table_begin;
  packed.table_entries = buffers_.packed + at.entries;
  UnpackedBatch unpacked;
  unpacked.block_table = buffers_.block_table;
  unpacked.table_stride = static_cast<int32_t>(sizes_.table);
  unpacked.positions = buffers_.positions;
  unpacked.slots = buffers_.slots;
  attention::BatchMetadata metadata;
  metadata.batch = packed.rows;
  metadata.total_q = extent.tokens;
  if (!extent.uniform) metadata.cu_seqlens_q = packed.cu_tokens;
  metadata.cache_seqlens = packed.lengths;
  metadata.max_seqlen_k = sizes_.positions;
  RETURN_IF_ERROR(EnqueuePlan(extent, metadata));
  RETURN_IF_ERROR(CudaStatus(
      LaunchUnpack(packed, options_.block_size, unpacked, stream_.get()),
      "unpack kernel"));
  if (extent.part == BatchPart::kAttention) {
    return EnqueueAttentionAlone(extent);
  }
  RETURN_IF_ERROR(CudaStatus(
      LaunchEmbedNorm(packed.token_ids, extent.tokens, weights_.embedding,
                      weights_.layers[0].attention_norm,
                      options_.shape.hidden_size,
                      static_cast<float>(options_.shape.norm_epsilon),
                      buffers_.residual, buffers_.normed, stream_.get()),
      "embedding kernel"));
  LinearResult delta;
  for (size_t layer = 0; layer < extent.layers; ++layer) {
    RETURN_IF_ERROR(EnqueueLayer(extent, layer, unpacked, delta));
  }
  if (extent.samples == 0) return absl::OkStatus();
  return EnqueueHead(extent, buffers_.packed + at.samples, delta);
}

absl::Status DecoderImpl::EnqueueAttentionAlone(const Extent& extent) {
  if (extent.uniform) RETURN_IF_ERROR(planned_.LetWait(stream_.get()));
  for (size_t layer = 0; layer < extent.layers; ++layer) {
    RETURN_IF_ERROR(EnqueueAttention(extent, layer));
  }
  return absl::OkStatus();
}

// Of a batch of decodes, beside what comes before the first attention; the
// first layer's rotary kernel waits for it.
absl::Status DecoderImpl::EnqueuePlan(
    const Extent& extent, const attention::BatchMetadata& metadata) {
  if (!extent.uniform) return plan_->Update(metadata, stream_.get());
  RETURN_IF_ERROR(uploaded_.Record(stream_.get()));
  RETURN_IF_ERROR(uploaded_.LetWait(plan_stream_.get()));
  RETURN_IF_ERROR(plan_->Update(metadata, plan_stream_.get()));
  return planned_.Record(plan_stream_.get());
}

bool DecoderImpl::Streams(const Extent& extent) const {
  return streams_.has_value() && extent.tokens <= kStreamTokens;
}

absl::StatusOr<LinearResult> DecoderImpl::EnqueueLinear(const Extent& extent,
                                                        Linear linear,
                                                        size_t layer) {
  LinearResult result;
  if (!Streams(extent)) {
    result.values = LinearOutput(linear);
    RETURN_IF_ERROR(linear_[linear]->Run(
        LinearInput(linear), LinearWeight(linear, layer), extent.tokens,
        LinearOutput(linear), stream_.get()));
    return result;
  }
  result.partials = buffers_.stream_partials;
  result.split = (*streams_)[linear];
  RETURN_IF_ERROR(CudaStatus(
      LaunchStreamLinear(stream_inputs_[linear].at(StreamTokens(extent.tokens)),
                         stream_weights_[layer][linear], result.split,
                         extent.tokens, buffers_.stream_partials,
                         /*early=*/true, stream_.get()),
      "linear kernel"));
  return result;
}

// Gate and up, and of them SiLU(gate) x up.
absl::Status DecoderImpl::EnqueueGateUp(const Extent& extent, size_t layer) {
  if (Streams(extent)) {
    return CudaStatus(
        LaunchStreamGateUp(
            stream_inputs_[kGateUp].at(StreamTokens(extent.tokens)),
            stream_weights_[layer][kGateUp], (*streams_)[kGateUp],
            extent.tokens, buffers_.gate_up_scratch, buffers_.activated,
            /*early=*/true, stream_.get()),
        "gate and up kernel");
  }
  RETURN_IF_ERROR(EnqueueLinear(extent, kGateUp, layer).status());
  return CudaStatus(LaunchSiluMul(buffers_.gate_up, extent.tokens,
                                  options_.shape.intermediate_size,
                                  buffers_.activated, stream_.get()),
                    "activation kernel");
}

absl::Status DecoderImpl::EnqueueLayer(const Extent& extent, size_t layer,
                                       const UnpackedBatch& unpacked,
                                       LinearResult& delta) {
  const LayerPointers& weights = weights_.layers[layer];
  const DecoderShape& shape = options_.shape;
  const float epsilon = static_cast<float>(shape.norm_epsilon);
  const cudaStream_t stream = stream_.get();
  ASSIGN_OR_RETURN(const LinearResult qkv, EnqueueLinear(extent, kQkv, layer));
  const KvPointers cache = CacheOf(layer);
  const bool joins_plan = extent.uniform && layer == 0;
  if (joins_plan) RETURN_IF_ERROR(planned_.LetWait(stream));
  RETURN_IF_ERROR(CudaStatus(
      LaunchRotaryAppend({shape.num_heads, shape.num_kv_heads, shape.head_dim},
                         unpacked, extent.tokens, buffers_.cos_sin, qkv,
                         buffers_.qkv, cache.k, cache.v,
                         /*ahead=*/!joins_plan, stream),
      "rotary kernel"));
  if (extent.part != BatchPart::kWithoutAttention) {
    RETURN_IF_ERROR(EnqueueAttention(extent, layer));
  }
  ASSIGN_OR_RETURN(delta, EnqueueLinear(extent, kOutput, layer));
  RETURN_IF_ERROR(CudaStatus(
      LaunchAddNorm(delta, extent.tokens, weights.mlp_norm, shape.hidden_size,
                    epsilon, buffers_.residual, buffers_.normed, stream),
      "norm kernel"));
  RETURN_IF_ERROR(EnqueueGateUp(extent, layer));
  ASSIGN_OR_RETURN(delta, EnqueueLinear(extent, kDown, layer));
  if (layer + 1 == extent.layers) return absl::OkStatus();
  return CudaStatus(LaunchAddNorm(delta, extent.tokens,
                                  weights_.layers[layer + 1].attention_norm,
                                  shape.hidden_size, epsilon, buffers_.residual,
                                  buffers_.normed, stream),
                    "norm kernel");
}

DecoderImpl::KvPointers DecoderImpl::CacheOf(size_t layer) const {
  const int64_t bytes = memory_.kv_cache / options_.shape.num_layers;
  char* const k = static_cast<char*>(kv_memory_.get()) +
                  static_cast<int64_t>(layer) * bytes;
  return {k, k + bytes / 2};
}

absl::Status DecoderImpl::EnqueueAttention(const Extent& extent, size_t layer) {
  const DecoderShape& shape = options_.shape;
  const KvPointers cache = CacheOf(layer);
  attention::PagedParams params;
  params.q = {buffers_.qkv, sizes_.qkv(), shape.head_dim};
  params.cache.k = cache.k;
  params.cache.v = cache.v;
  params.cache.num_blocks = options_.num_blocks;
  params.cache.block_size = options_.block_size;
  params.cache.k_block_stride = options_.block_size * sizes_.kv;
  params.cache.k_slot_stride = sizes_.kv;
  params.cache.k_head_stride = shape.head_dim;
  params.cache.v_block_stride = params.cache.k_block_stride;
  params.cache.v_slot_stride = params.cache.k_slot_stride;
  params.cache.v_head_stride = params.cache.k_head_stride;
  params.block_table = {buffers_.block_table, sizes_.table,
                        static_cast<int32_t>(sizes_.table)};
  params.out = {buffers_.attention, sizes_.q, shape.head_dim};
  return attention::MixedForward(*plan_, params, stream_.get());
}

absl::Status DecoderImpl::EnqueueHead(const Extent& extent,
                                      const int32_t* samples,
                                      const LinearResult& delta) {
  const cudaStream_t stream = stream_.get();
  RETURN_IF_ERROR(CudaStatus(
      LaunchGatherNorm(delta, buffers_.residual, samples, extent.samples,
                       weights_.final_norm, options_.shape.hidden_size,
                       static_cast<float>(options_.shape.norm_epsilon),
                       buffers_.last, stream),
      "final norm kernel"));
  RETURN_IF_ERROR(lm_head_->Run(buffers_.last, weights_.lm_head, extent.samples,
                                buffers_.logits, stream));
  return CudaStatus(
      LaunchArgmax(buffers_.logits, extent.samples, options_.shape.vocab_size,
                   buffers_.partials, tokens_, gaps_, stream),
      "argmax kernel");
}

// Asks again and again: sleeping would take tens of microseconds to wake from.
absl::Status DecoderImpl::Wait() {
  cudaError_t error = cudaErrorNotReady;
  while (error == cudaErrorNotReady) error = cudaStreamQuery(stream_.get());
  return CudaStatus(error, "running the batch");
}

absl::StatusOr<DecoderTiming> DecoderImpl::Run(const DecoderBatch& batch,
                                               DecoderOutput* output) {
  RETURN_IF_ERROR(CudaStatus(cudaSetDevice(options_.device), "cudaSetDevice"));
  Extent extent;
  extent.rows = static_cast<int64_t>(batch.sequences.size());
  extent.tokens = static_cast<int64_t>(batch.tokens.size());
  extent.uniform = extent.tokens == extent.rows;
  extent.part = batch.part;
  extent.layers = batch.layers > 0 ? static_cast<size_t>(batch.layers)
                                   : weights_.layers.size();
  for (const DecoderSequence& sequence : batch.sequences) {
    extent.samples += sequence.sample ? 1 : 0;
  }
  const int64_t samples =
      batch.part == BatchPart::kAttention ? 0 : extent.samples;
  cudaGraphExec_t graph = nullptr;
  if (options_.cuda_graphs && extent.uniform && samples == extent.rows &&
      extent.rows > 0 && extent.rows <= options_.max_num_seqs &&
      !batch.skip_graph && batch.layers == 0) {
    extent.rows = *std::lower_bound(graph_sizes_.begin(), graph_sizes_.end(),
                                    extent.rows);
    extent.tokens = extent.samples = extent.rows;
    ASSIGN_OR_RETURN(graph, GraphFor(extent.rows, extent.part));
  }
  const auto begin = std::chrono::steady_clock::now();
  RETURN_IF_ERROR(ValidateBatch(batch, options_));
  RETURN_IF_ERROR(Upload(PackBatch(batch, options_.block_size, extent.rows,
                                   extent.tokens, extent.samples, packed_)));
  if (graph != nullptr) {
    RETURN_IF_ERROR(
        CudaStatus(cudaGraphLaunch(graph, stream_.get()), "cudaGraphLaunch"));
  } else {
    RETURN_IF_ERROR(begin_.Record(stream_.get()));
    if (absl::Status status = Enqueue(extent); !status.ok()) {
      (void)Wait();  // the first error is the one to tell
      return status;
    }
    RETURN_IF_ERROR(end_.Record(stream_.get()));
  }
  RETURN_IF_ERROR(Wait());
  const auto end = std::chrono::steady_clock::now();
  last_samples_ = samples;
  ASSIGN_OR_RETURN(const float milliseconds, end_.Since(begin_));
  DecoderTiming timing;
  timing.device = SimDuration::Millis(milliseconds);
  const SimDuration wall = SimDuration::Nanos(
      std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin)
          .count());
  timing.host = std::max(wall - timing.device, SimDuration::Zero());
  if (output != nullptr) {
    output->tokens.assign(tokens_, tokens_ + samples);
    output->logit_gaps.assign(gaps_, gaps_ + samples);
  }
  return timing;
}

// ---- What there is ----

std::string DecoderImpl::Description() const {
  return absl::StrCat(device_name_, ", driver ", driver_version(), ", CUDA ",
                      cuda_version(), ": weights ", Gigabytes(memory_.weights),
                      ", KV cache ", options_.num_blocks, " blocks of ",
                      options_.block_size, " tokens (",
                      Gigabytes(memory_.kv_cache), "), activations and tables ",
                      Gigabytes(memory_.other));
}

int64_t DecoderImpl::weight_bytes_read() const {
  const int64_t embedding = options_.shape.tied_embeddings
                                ? 0
                                : sizes_.vocab * sizes_.hidden * kBf16Bytes;
  return memory_.weights - embedding;
}

std::string DecoderImpl::cuda_version() const {
  int version = 0;
  if (cudaRuntimeGetVersion(&version) != cudaSuccess) return "unknown";
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

absl::StatusOr<std::vector<float>> DecoderImpl::LastLogits() {
  std::vector<float> logits(static_cast<size_t>(last_samples_ * sizes_.vocab));
  RETURN_IF_ERROR(
      CudaStatus(cudaMemcpy(logits.data(), buffers_.logits, logits.size() * 4,
                            cudaMemcpyDeviceToHost),
                 "reading logits"));
  return logits;
}

absl::StatusOr<std::vector<float>> DecoderImpl::ReadBf16(const void* data,
                                                         int64_t count) {
  std::vector<uint16_t> bits(static_cast<size_t>(count));
  RETURN_IF_ERROR(CudaStatus(
      cudaMemcpy(bits.data(), data, bits.size() * 2, cudaMemcpyDeviceToHost),
      "reading weights"));
  std::vector<float> values(bits.size());
  for (size_t i = 0; i < bits.size(); ++i) {
    const uint32_t word = uint32_t{bits[i]} << 16;
    std::memcpy(&values[i], &word, sizeof(word));
  }
  return values;
}

absl::StatusOr<Decoder::LayerWeights> DecoderImpl::ReadLayer(int32_t layer) {
  if (layer < 0 || layer >= options_.shape.num_layers) {
    return absl::InvalidArgumentError(
        absl::StrCat("layer ", layer, " of ", options_.shape.num_layers));
  }
  const LayerPointers& from = weights_.layers[static_cast<size_t>(layer)];
  LayerWeights weights;
  ASSIGN_OR_RETURN(weights.qkv,
                   ReadBf16(from.qkv, sizes_.qkv() * sizes_.hidden));
  ASSIGN_OR_RETURN(weights.output,
                   ReadBf16(from.output, sizes_.hidden * sizes_.q));
  ASSIGN_OR_RETURN(
      const std::vector<float> gate_up,
      ReadBf16(from.gate_up, 2 * sizes_.intermediate * sizes_.hidden));
  weights.gate_up = GateThenUp(gate_up, sizes_.hidden);
  ASSIGN_OR_RETURN(weights.down,
                   ReadBf16(from.down, sizes_.hidden * sizes_.intermediate));
  ASSIGN_OR_RETURN(weights.attention_norm,
                   ReadBf16(from.attention_norm, sizes_.hidden));
  ASSIGN_OR_RETURN(weights.mlp_norm, ReadBf16(from.mlp_norm, sizes_.hidden));
  return weights;
}

absl::StatusOr<Decoder::OuterWeights> DecoderImpl::ReadOuter() {
  OuterWeights weights;
  const int64_t table = sizes_.vocab * sizes_.hidden;
  ASSIGN_OR_RETURN(weights.embedding, ReadBf16(weights_.embedding, table));
  ASSIGN_OR_RETURN(weights.lm_head, ReadBf16(weights_.lm_head, table));
  ASSIGN_OR_RETURN(weights.final_norm,
                   ReadBf16(weights_.final_norm, sizes_.hidden));
  return weights;
}

}  // namespace

absl::StatusOr<DecoderMemory> Decoder::MemoryOf(const DecoderOptions& options) {
  return SizeUp(options);
}

absl::StatusOr<std::unique_ptr<Decoder>> Decoder::Create(
    const DecoderOptions& options) {
  DecoderOptions settled = options;
  ASSIGN_OR_RETURN(DecoderMemory memory, SizeUp(settled));
  RETURN_IF_ERROR(LoadCublasLt().status());
  RETURN_IF_ERROR(FitMemory(settled, memory));
  auto decoder = std::make_unique<DecoderImpl>(settled, memory);
  RETURN_IF_ERROR(decoder->Init());
  return decoder;
}

}  // namespace interleave::sim
