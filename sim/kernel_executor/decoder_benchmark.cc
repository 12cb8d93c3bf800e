// How close a decoder's iterations come to what the GPU could do, beside the
// copy bandwidth and the matrix rate measured in the same run:
//
//   decoder_benchmark [--model=llama3.1_8b] [--tokens=512] [--outputs=128]
//                     [--noparts] [--notune]
//
// --noparts leaves the figures of single kernels out; with --notune linear
// layers take the algorithms that cuBLASLt likes best, untimed.
//
// Prints one line a figure: name, value, unit, and what it is compared with.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/ceil_div.h"
#include "base/random.h"
#include "base/sim_time.h"
#include "base/status_macros.h"
#include "cuda_runtime_api.h"
#include "sim/cost/model.pb.h"
#include "sim/cost/specs.h"
#include "sim/kernel_executor/batch_runner.h"
#include "sim/kernel_executor/cuda_memory.h"
#include "sim/kernel_executor/decoder.h"
#include "sim/kernel_executor/decoder_kernels.h"
#include "sim/kernel_executor/decoder_options.h"
#include "sim/kernel_executor/linear_layer.h"
#include "sim/kernel_executor/stream_linear.h"
#include "sim/kernel_executor/stream_split.h"

namespace interleave::sim {
namespace {

constexpr int64_t kCopyBytes = int64_t{4} << 30;
constexpr int64_t kBf16 = 2;
constexpr int32_t kBatch = 64;
constexpr int32_t kContext = 2048;
constexpr int32_t kPrompt = 2048;

void Print(const std::string& name, double value, absl::string_view unit,
           const std::string& note = "") {
  std::printf("%-28s %10.3f %s%s%s\n", name.c_str(), value,
              std::string(unit).c_str(), note.empty() ? "" : "  ",
              note.c_str());
  std::fflush(stdout);
}

// Median microseconds of `run(i)`.
absl::StatusOr<double> MedianMicros(
    cudaStream_t stream, int repetitions,
    const std::function<absl::Status(int)>& run) {
  ASSIGN_OR_RETURN(const CudaEvent begin, CudaEvent::Create());
  ASSIGN_OR_RETURN(const CudaEvent end, CudaEvent::Create());
  std::vector<double> times;
  for (int i = -2; i < repetitions; ++i) {
    RETURN_IF_ERROR(begin.Record(stream));
    RETURN_IF_ERROR(run(i + 2));
    RETURN_IF_ERROR(end.Record(stream));
    ASSIGN_OR_RETURN(const float milliseconds, end.WaitSince(begin));
    if (i >= 0) times.push_back(1e3 * static_cast<double>(milliseconds));
  }
  std::nth_element(times.begin(), times.begin() + repetitions / 2, times.end());
  return times[static_cast<size_t>(repetitions / 2)];
}

absl::StatusOr<DeviceMemory> Numbers(int64_t count, uint64_t seed,
                                     cudaStream_t stream) {
  ASSIGN_OR_RETURN(DeviceMemory memory,
                   AllocateDevice(count * kBf16, "numbers"));
  RETURN_IF_ERROR(CudaStatus(
      LaunchFillNormal(memory.get(), count, 0, 1, seed << 40, stream), "fill"));
  return memory;
}

// ---- The ceilings ----

// Bytes a second, read and written.
absl::StatusOr<double> CopyBandwidth(cudaStream_t stream) {
  ASSIGN_OR_RETURN(const DeviceMemory from,
                   Numbers(kCopyBytes / kBf16, 1, stream));
  ASSIGN_OR_RETURN(const DeviceMemory to, AllocateDevice(kCopyBytes, "copy"));
  ASSIGN_OR_RETURN(const double driver, MedianMicros(stream, 15, [&](int) {
                     return CudaStatus(
                         cudaMemcpyAsync(to.get(), from.get(), kCopyBytes,
                                         cudaMemcpyDeviceToDevice, stream),
                         "copy");
                   }));
  ASSIGN_OR_RETURN(const double own, MedianMicros(stream, 15, [&](int) {
                     return CudaStatus(
                         LaunchCopy(from.get(), to.get(), kCopyBytes, stream),
                         "copy");
                   }));
  const double best = std::min(driver, own);
  Print("copy", 2e-3 * kCopyBytes / driver, "GB/s",
        absl::StrCat("a plain copy kernel: ", 2e-3 * kCopyBytes / own));
  return 2e6 * kCopyBytes / best;
}

// FLOP a second of a product of 8,192 cubed.
absl::StatusOr<double> MatrixRate(cudaStream_t stream) {
  constexpr int64_t kSide = 8192;
  constexpr int64_t kWorkspace = int64_t{64} << 20;
  ASSIGN_OR_RETURN(const DeviceMemory workspace,
                   AllocateDevice(kWorkspace, "workspace"));
  ASSIGN_OR_RETURN(const std::unique_ptr<LinearContext> context,
                   LinearContext::Create(workspace.get(), kWorkspace));
  ASSIGN_OR_RETURN(const DeviceMemory x, Numbers(kSide * kSide, 1, stream));
  ASSIGN_OR_RETURN(const DeviceMemory w, Numbers(kSide * kSide, 2, stream));
  ASSIGN_OR_RETURN(const DeviceMemory y, Numbers(kSide * kSide, 3, stream));
  LinearOptions options;
  options.inputs = options.outputs = static_cast<int32_t>(kSide);
  options.max_tokens = kSide;
  ASSIGN_OR_RETURN(LinearLayer layer,
                   LinearLayer::Create(context.get(), options));
  ASSIGN_OR_RETURN(const double micros, MedianMicros(stream, 20, [&](int) {
                     return layer.Run(x.get(), w.get(), kSide, y.get(), stream);
                   }));
  const double flops = 2.0 * kSide * kSide * kSide;
  Print("matrix product 8192^3", 1e-6 * flops / micros, "TFLOP/s");
  return 1e6 * flops / micros;
}

// ---- The parts ----

// Each kernel over buffers that take turns, so that none stays in the cache.
absl::Status SmallKernels(const DecoderShape& shape, double bandwidth,
                          cudaStream_t stream) {
  constexpr int64_t kTokens = 16384;
  constexpr int kTurns = 3;
  const int64_t hidden = shape.hidden_size;
  const int64_t width = shape.intermediate_size;
  const int64_t qkv =
      int64_t{shape.head_dim} * (shape.num_heads + 2 * shape.num_kv_heads);
  const int64_t kv = int64_t{shape.head_dim} * shape.num_kv_heads;
  std::vector<DeviceMemory> big;
  std::vector<DeviceMemory> small;
  for (uint64_t i = 0; i < kTurns; ++i) {
    ASSIGN_OR_RETURN(DeviceMemory a, Numbers(kTokens * 2 * width, i, stream));
    big.push_back(std::move(a));
    ASSIGN_OR_RETURN(
        DeviceMemory b,
        Numbers(kTokens * std::max({3 * hidden, qkv + 2 * kv, width}), 9 + i,
                stream));
    small.push_back(std::move(b));
  }
  ASSIGN_OR_RETURN(const DeviceMemory norm, Numbers(hidden, 7, stream));
  ASSIGN_OR_RETURN(const DeviceMemory angles,
                   AllocateDevice(kTokens * shape.head_dim * 4, "angles"));
  RETURN_IF_ERROR(CudaStatus(
      LaunchRotaryTable(angles.get(), kTokens, shape.head_dim, 5e5, stream),
      "rotary table"));
  std::vector<int32_t> identity(kTokens);
  std::iota(identity.begin(), identity.end(), 0);
  ASSIGN_OR_RETURN(const DeviceMemory ids,
                   AllocateDevice(kTokens * 4, "positions"));
  RETURN_IF_ERROR(
      CudaStatus(cudaMemcpyAsync(ids.get(), identity.data(), kTokens * 4,
                                 cudaMemcpyHostToDevice, stream),
                 "positions"));
  int32_t* const positions = static_cast<int32_t*>(ids.get());
  const auto at = [](const DeviceMemory& memory, int64_t elements) {
    return static_cast<char*>(memory.get()) + elements * kBf16;
  };
  const struct {
    const char* name;
    int64_t bytes;  // of a token
    std::function<cudaError_t(const DeviceMemory&, const DeviceMemory&)> run;
  } kernels[] = {
      {"add and norm", 4 * hidden * kBf16,
       [&](const DeviceMemory&, const DeviceMemory& s) {
         LinearResult delta;
         delta.values = s.get();
         return LaunchAddNorm(delta, kTokens, norm.get(), shape.hidden_size,
                              1e-5f, at(s, kTokens * hidden),
                              at(s, 2 * kTokens * hidden), stream);
       }},
      {"embedding and norm", 3 * hidden * kBf16,
       [&](const DeviceMemory&, const DeviceMemory& s) {
         return LaunchEmbedNorm(
             positions, kTokens, s.get(), norm.get(), shape.hidden_size, 1e-5f,
             at(s, kTokens * hidden), at(s, 2 * kTokens * hidden), stream);
       }},
      // The angles of a token are 4 bytes for each number of a head.
      {"rotary and append", 2 * qkv * kBf16 + 4 * shape.head_dim + 8,
       [&](const DeviceMemory&, const DeviceMemory& s) {
         UnpackedBatch batch;
         batch.positions = positions;
         batch.slots = positions;
         LinearResult result;
         result.values = s.get();
         return LaunchRotaryAppend(
             {shape.num_heads, shape.num_kv_heads, shape.head_dim}, batch,
             kTokens, angles.get(), result, s.get(), at(s, kTokens * qkv),
             at(s, kTokens * (qkv + kv)), /*ahead=*/false, stream);
       }},
      {"SiLU and product", 3 * width * kBf16,
       [&](const DeviceMemory& b, const DeviceMemory& s) {
         return LaunchSiluMul(b.get(), kTokens, shape.intermediate_size,
                              s.get(), stream);
       }}};
  for (const auto& kernel : kernels) {
    ASSIGN_OR_RETURN(const double micros, MedianMicros(stream, 20, [&](int i) {
                       const size_t turn = static_cast<size_t>(i % kTurns);
                       return CudaStatus(kernel.run(big[turn], small[turn]),
                                         kernel.name);
                     }));
    const double rate =
        1e6 * static_cast<double>(kernel.bytes * kTokens) / micros;
    Print(absl::StrCat(kernel.name, ", 16384 tokens"), 1e-9 * rate, "GB/s",
          absl::StrCat(rate / bandwidth, " of the copy"));
  }
  return absl::OkStatus();
}

// A launch of the repository's own kernel for few tokens, one after the other.
// `gate_up`: with SiLU and the product.
absl::StatusOr<double> StreamedMicros(int64_t inputs, int64_t outputs,
                                      bool gate_up, int64_t tokens,
                                      const std::vector<const void*>& weights,
                                      const void* x, cudaStream_t stream) {
  ASSIGN_OR_RETURN(const int multiprocessors,
                   DeviceAttribute(cudaDevAttrMultiProcessorCount, 0));
  if (!CanStream(inputs, outputs, multiprocessors)) return 0;
  const StreamSplit split = MakeStreamSplit(inputs, outputs, multiprocessors);
  ASSIGN_OR_RETURN(const DeviceMemory partials,
                   AllocateDevice(4 * StreamPartials(split), "partial sums"));
  ASSIGN_OR_RETURN(const DeviceMemory sums,
                   AllocateDevice(4 * GateUpSums(split), "partial sums"));
  ASSIGN_OR_RETURN(const DeviceMemory ready,
                   AllocateDevice(4 * GateUpReady(split), "flags"));
  ASSIGN_OR_RETURN(const DeviceMemory out,
                   AllocateDevice(kBf16 * tokens * outputs / 2, "activations"));
  RETURN_IF_ERROR(CudaStatus(
      cudaMemsetAsync(ready.get(), 0,
                      static_cast<size_t>(4 * GateUpReady(split)), stream),
      "cudaMemsetAsync"));
  const GateUpScratch scratch = {static_cast<float*>(sums.get()),
                                 static_cast<int32_t*>(ready.get())};
  StreamOperand x_map;
  RETURN_IF_ERROR(CudaStatus(
      MakeStreamOperand(x, tokens, inputs, StreamTokens(tokens), &x_map),
      "tensor map"));
  std::vector<StreamOperand> maps(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    RETURN_IF_ERROR(CudaStatus(
        MakeStreamOperand(weights[i], outputs, inputs, kStreamRows, &maps[i]),
        "tensor map"));
  }
  constexpr int kLaunches = 8;
  ASSIGN_OR_RETURN(
      const double micros, MedianMicros(stream, 15, [&](int) -> absl::Status {
        for (size_t i = 0; i < kLaunches; ++i) {
          const StreamOperand& map = maps[i % maps.size()];
          RETURN_IF_ERROR(CudaStatus(
              gate_up ? LaunchStreamGateUp(x_map, map, split, tokens, scratch,
                                           out.get(), false, stream)
                      : LaunchStreamLinear(x_map, map, split, tokens,
                                           static_cast<float*>(partials.get()),
                                           false, stream),
              "linear kernel"));
        }
        return absl::OkStatus();
      }));
  return micros / kLaunches;
}

// The linear layers at one number of tokens, beside reading their weights.
absl::Status LinearLayers(const DecoderShape& shape, int64_t tokens,
                          double bandwidth, double matrix_rate,
                          cudaStream_t stream) {
  constexpr int64_t kWorkspace = int64_t{64} << 20;
  constexpr int kTurns = 4;
  const int32_t q = shape.head_dim * shape.num_heads;
  const struct {
    const char* name;
    int32_t inputs;
    int32_t outputs;
    bool gate_up = false;
  } layers[] = {
      {"QKV", shape.hidden_size, q + 2 * shape.head_dim * shape.num_kv_heads},
      {"output", q, shape.hidden_size},
      {"gate and up", shape.hidden_size, 2 * shape.intermediate_size, true},
      {"down", shape.intermediate_size, shape.hidden_size}};
  ASSIGN_OR_RETURN(const DeviceMemory workspace,
                   AllocateDevice(kWorkspace, "workspace"));
  ASSIGN_OR_RETURN(const std::unique_ptr<LinearContext> context,
                   LinearContext::Create(workspace.get(), kWorkspace));
  for (const auto& each : layers) {
    LinearOptions options;
    options.inputs = each.inputs;
    options.outputs = each.outputs;
    options.max_tokens = tokens;
    ASSIGN_OR_RETURN(LinearLayer layer,
                     LinearLayer::Create(context.get(), options));
    std::vector<DeviceMemory> owners;
    std::vector<const void*> weights;
    for (uint64_t i = 0; i < kTurns; ++i) {
      ASSIGN_OR_RETURN(DeviceMemory weight,
                       Numbers(int64_t{each.inputs} * each.outputs, i, stream));
      weights.push_back(weight.get());
      owners.push_back(std::move(weight));
    }
    ASSIGN_OR_RETURN(const DeviceMemory x,
                     Numbers(tokens * each.inputs, 11, stream));
    ASSIGN_OR_RETURN(const DeviceMemory y,
                     Numbers(tokens * each.outputs, 12, stream));
    RETURN_IF_ERROR(layer.Tune(weights, x.get(), y.get(), stream, {}));
    constexpr int kLaunches = 8;
    ASSIGN_OR_RETURN(double micros,
                     MedianMicros(stream, 15, [&](int) -> absl::Status {
                       for (size_t i = 0; i < kLaunches; ++i) {
                         RETURN_IF_ERROR(layer.Run(x.get(), weights[i % kTurns],
                                                   tokens, y.get(), stream));
                       }
                       return absl::OkStatus();
                     }));
    micros /= kLaunches;
    double streamed = 0;
    if (tokens <= kStreamTokens) {
      ASSIGN_OR_RETURN(streamed,
                       StreamedMicros(each.inputs, each.outputs, each.gate_up,
                                      tokens, weights, x.get(), stream));
    }
    const double bytes = static_cast<double>(
        kBf16 * (int64_t{each.inputs} * each.outputs +
                 tokens * (int64_t{each.inputs} + each.outputs)));
    const double flops = 2.0 * static_cast<double>(tokens) *
                         static_cast<double>(each.inputs) *
                         static_cast<double>(each.outputs);
    Print(absl::StrCat(each.name, ", ", tokens, " tokens"), micros, "us",
          absl::StrCat(
              1e6 * bytes / micros / bandwidth, " of the copy, ",
              1e6 * flops / micros / matrix_rate, " of the matrix rate",
              streamed == 0 ? ""
                            : absl::StrCat("; own kernel ", streamed, " us, ",
                                           1e6 * bytes / streamed / bandwidth,
                                           " of the copy")));
  }
  return absl::OkStatus();
}

// ---- Whole iterations ----

// Sequences of equal lengths over shuffled blocks.
class Sequences {
 public:
  Sequences(int32_t count, int32_t most_tokens, const Decoder& decoder) {
    const auto each =
        static_cast<int32_t>(CeilDiv(most_tokens, decoder.block_size()));
    std::vector<int32_t> ids(static_cast<size_t>(count * each));
    std::iota(ids.begin(), ids.end(), 0);
    Rng(/*seed=*/1).Shuffle(ids);
    for (int32_t i = 0; i < count; ++i) {
      blocks_.emplace_back(ids.begin() + int64_t{i} * each,
                           ids.begin() + int64_t{i + 1} * each);
    }
  }

  absl::Span<const int32_t> blocks(size_t i) const { return blocks_[i]; }

 private:
  std::vector<std::vector<int32_t>> blocks_;
};

struct Times {
  double device_us = 0;
  double host_us = 0;
};

absl::StatusOr<Times> MedianOfRuns(Decoder& decoder, const DecoderBatch& batch,
                                   int repetitions) {
  std::vector<double> device;
  std::vector<double> host;
  DecoderOutput output;
  for (int i = -3; i < repetitions; ++i) {
    ASSIGN_OR_RETURN(const DecoderTiming timing, decoder.Run(batch, &output));
    if (i < 0) continue;
    device.push_back(timing.device.micros());
    host.push_back(timing.host.micros());
  }
  std::sort(device.begin(), device.end());
  std::sort(host.begin(), host.end());
  return Times{device[device.size() / 2], host[host.size() / 2]};
}

absl::Status DecodeIteration(Decoder& decoder, double bandwidth) {
  const DecoderShape& shape = decoder.options().shape;
  const Sequences sequences(kBatch, kContext + 1, decoder);
  std::vector<DecoderSequence> batch_sequences;
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < kBatch; ++i) {
    batch_sequences.push_back({1, kContext, true, sequences.blocks(i)});
    tokens.push_back(static_cast<int32_t>(i * 997 % 30000));
  }
  DecoderBatch batch;
  batch.sequences = batch_sequences;
  batch.tokens = tokens;
  const double kv = 2.0 * kBf16 * shape.num_layers * shape.num_kv_heads *
                    shape.head_dim * kBatch * (kContext + 1.0);
  const double weights = static_cast<double>(decoder.weight_bytes_read());
  const double floor = 1e6 * (kv + weights) / bandwidth;
  ASSIGN_OR_RETURN(const Times graph, MedianOfRuns(decoder, batch, 40));
  Print("decode 64 x 2048", graph.device_us, "us",
        absl::StrCat("memory floor ", floor, " us: x ", graph.device_us / floor,
                     "; with the host's time x ",
                     (graph.device_us + graph.host_us) / floor));
  Print("  host between iterations", graph.host_us, "us");
  batch.skip_graph = true;
  ASSIGN_OR_RETURN(const Times launched, MedianOfRuns(decoder, batch, 10));
  Print("  launched one by one", launched.device_us, "us",
        absl::StrCat("host ", launched.host_us, " us"));
  batch.skip_graph = false;
  batch.part = BatchPart::kWithoutAttention;
  ASSIGN_OR_RETURN(const Times linear, MedianOfRuns(decoder, batch, 20));
  Print("  without attention", linear.device_us, "us",
        absl::StrCat("weights' floor ", 1e6 * weights / bandwidth,
                     " us; attention adds ", graph.device_us - linear.device_us,
                     " us, floor ", 1e6 * kv / bandwidth));
  return absl::OkStatus();
}

absl::Status PrefillIteration(Decoder& decoder, double matrix_rate) {
  const DecoderShape& shape = decoder.options().shape;
  const Sequences sequences(1, kPrompt, decoder);
  const DecoderSequence sequence = {kPrompt, 0, true, sequences.blocks(0)};
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < kPrompt; ++i) tokens.push_back(i * 7 % 30000);
  DecoderBatch batch;
  batch.sequences = absl::MakeConstSpan(&sequence, 1);
  batch.tokens = tokens;
  const double q = 1.0 * shape.num_heads * shape.head_dim;
  const double kv = 1.0 * shape.num_kv_heads * shape.head_dim;
  const double hidden = shape.hidden_size;
  const double weights =
      shape.num_layers * (hidden * (q + 2 * kv) + q * hidden +
                          3 * hidden * shape.intermediate_size);
  const double attention =
      2.0 * shape.num_layers * q * kPrompt * (kPrompt + 1.0);
  const double flops =
      2 * weights * kPrompt + attention + 2 * hidden * shape.vocab_size;
  const double floor = 1e6 * flops / matrix_rate;
  ASSIGN_OR_RETURN(const Times times, MedianOfRuns(decoder, batch, 15));
  Print("prefill 2048", times.device_us, "us",
        absl::StrCat("FLOP floor ", floor, " us: x ", times.device_us / floor,
                     "; host ", times.host_us, " us"));
  batch.part = BatchPart::kWithoutAttention;
  ASSIGN_OR_RETURN(const Times linear, MedianOfRuns(decoder, batch, 10));
  Print(
      "  without attention", linear.device_us, "us",
      absl::StrCat("attention's floor ", 1e6 * attention / matrix_rate, " us"));
  return absl::OkStatus();
}

// Batches without attention whose last tile of 128 tokens is full, or holds a
// single token; decodes in between let the card recover.
absl::Status LinearSteps(Decoder& decoder) {
  const Sequences sequences(1, kPrompt, decoder);
  const std::vector<int32_t> tokens(kPrompt, 1);
  const auto batch_of = [&](const DecoderSequence& sequence) {
    DecoderBatch batch;
    batch.sequences = absl::MakeConstSpan(&sequence, 1);
    batch.tokens = absl::MakeConstSpan(tokens).subspan(
        0, static_cast<size_t>(sequence.num_tokens));
    batch.part = BatchPart::kWithoutAttention;
    return batch;
  };
  for (const int32_t count : {256, 257, 384, 385, 512, 513, 640, 1024, 1025}) {
    const DecoderSequence decode = {1, 16, true, sequences.blocks(0)};
    for (int i = 0; i < 20; ++i) {
      RETURN_IF_ERROR(decoder.Run(batch_of(decode), nullptr).status());
    }
    const DecoderSequence prompt = {count, 0, true, sequences.blocks(0)};
    ASSIGN_OR_RETURN(const Times times,
                     MedianOfRuns(decoder, batch_of(prompt), 3));
    Print(absl::StrCat("linear layers of ", count, " tokens"), times.device_us,
          "us", "");
  }
  return absl::OkStatus();
}

// 64 requests at once, prompts first, then decodes, tokens fed back.
absl::Status Throughput(Decoder& decoder, int32_t prompt, int32_t outputs) {
  const Sequences sequences(kBatch, prompt + outputs, decoder);
  const int32_t at_once = decoder.options().max_num_batched_tokens / prompt;
  std::vector<int32_t> next(kBatch);
  DecoderOutput output;
  SimDuration device;
  SimDuration host;
  std::vector<double> gaps;
  const auto begin = std::chrono::steady_clock::now();
  for (int32_t first = 0; first < kBatch; first += at_once) {
    std::vector<DecoderSequence> pieces;
    std::vector<int32_t> tokens;
    for (int32_t i = first; i < std::min(kBatch, first + at_once); ++i) {
      pieces.push_back(
          {prompt, 0, true, sequences.blocks(static_cast<size_t>(i))});
      for (int32_t t = 0; t < prompt; ++t) {
        tokens.push_back((t * 31 + i * 1009) % 30000);
      }
    }
    DecoderBatch batch;
    batch.sequences = pieces;
    batch.tokens = tokens;
    ASSIGN_OR_RETURN(const DecoderTiming timing, decoder.Run(batch, &output));
    device += timing.device;
    host += timing.host;
    std::copy(output.tokens.begin(), output.tokens.end(), next.begin() + first);
  }
  for (int32_t step = 1; step < outputs; ++step) {
    std::vector<DecoderSequence> pieces;
    for (size_t i = 0; i < kBatch; ++i) {
      pieces.push_back({1, prompt + step - 1, true, sequences.blocks(i)});
    }
    DecoderBatch batch;
    batch.sequences = pieces;
    batch.tokens = next;
    ASSIGN_OR_RETURN(const DecoderTiming timing, decoder.Run(batch, &output));
    device += timing.device;
    host += timing.host;
    gaps.push_back(timing.host.micros());
    next = output.tokens;
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count();
  std::sort(gaps.begin(), gaps.end());
  Print(absl::StrCat("64 x (", prompt, " + ", outputs, ")"),
        kBatch * outputs / seconds, "output tokens/s",
        absl::StrCat("wall ", seconds, " s, device ", device.seconds(),
                     " s, host ", host.seconds(), " s; host of a decode P50 ",
                     gaps[gaps.size() / 2], " us, P95 ",
                     gaps[gaps.size() * 95 / 100], " us"));
  return absl::OkStatus();
}

struct Flags {
  std::string model = "llama3.1_8b";
  int32_t tokens = 512;
  int32_t outputs = 128;
  bool parts = true;
  bool tune = true;
};

absl::Status Main(const Flags& flags) {
  ASSIGN_OR_RETURN(const ModelSpec model, LookupModel(flags.model));
  DecoderOptions options;
  ASSIGN_OR_RETURN(options.shape, DecoderShapeOf(model));
  // Before the ceilings: it tells whether there is a GPU at all.
  RETURN_IF_ERROR(Decoder::MemoryOf(options).status());
  ASSIGN_OR_RETURN(const CudaStream stream, CreateStream());
  ASSIGN_OR_RETURN(const double bandwidth, CopyBandwidth(stream.get()));
  ASSIGN_OR_RETURN(const double matrix_rate, MatrixRate(stream.get()));
  if (flags.parts) {
    RETURN_IF_ERROR(SmallKernels(options.shape, bandwidth, stream.get()));
    for (const int64_t tokens : {1, 16, 64, 256, 2048}) {
      RETURN_IF_ERROR(LinearLayers(options.shape, tokens, bandwidth,
                                   matrix_rate, stream.get()));
    }
  }
  options.num_blocks = kBatch * (kContext / options.block_size + 1);
  options.tune_linear_layers = flags.tune;
  const auto begin = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(const std::unique_ptr<Decoder> decoder,
                   Decoder::Create(options));
  Print("creating the decoder",
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
            .count(),
        "s");
  std::printf("%s\n", decoder->Description().c_str());
  RETURN_IF_ERROR(DecodeIteration(*decoder, bandwidth));
  RETURN_IF_ERROR(PrefillIteration(*decoder, matrix_rate));
  RETURN_IF_ERROR(LinearSteps(*decoder));
  RETURN_IF_ERROR(Throughput(*decoder, flags.tokens, flags.outputs));
  return Throughput(*decoder, flags.tokens, flags.outputs);
}

bool ParseFlag(absl::string_view argument, Flags& flags) {
  if (absl::ConsumePrefix(&argument, "--model=")) {
    flags.model = std::string(argument);
    return true;
  }
  if (argument == "--noparts") {
    flags.parts = false;
    return true;
  }
  if (argument == "--notune") {
    flags.tune = false;
    return true;
  }
  if (absl::ConsumePrefix(&argument, "--tokens=")) {
    return absl::SimpleAtoi(argument, &flags.tokens) && flags.tokens > 0 &&
           flags.tokens <= kPrompt;
  }
  if (absl::ConsumePrefix(&argument, "--outputs=")) {
    return absl::SimpleAtoi(argument, &flags.outputs) && flags.outputs > 1 &&
           flags.outputs + flags.tokens <= kContext;
  }
  return false;
}

}  // namespace
}  // namespace interleave::sim

int main(int argc, char** argv) {
  interleave::sim::Flags flags;
  for (int i = 1; i < argc; ++i) {
    if (interleave::sim::ParseFlag(argv[i], flags)) continue;
    std::fprintf(stderr, "decoder_benchmark: bad argument %s\n", argv[i]);
    return 2;
  }
  if (absl::Status status = interleave::sim::Main(flags); !status.ok()) {
    std::fprintf(stderr, "decoder_benchmark: %s\n",
                 std::string(status.message()).c_str());
    return 1;
  }
  return 0;
}
