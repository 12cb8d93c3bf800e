#include "sim/kernel_executor/decoder_layout.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/arena.h"
#include "sim/kernel_executor/batch_packing.h"
#include "sim/kernel_executor/decoder_kernels.h"
#include "sim/kernel_executor/decoder_options.h"
#include "sim/kernel_executor/stream_linear.h"
#include "sim/kernel_executor/stream_split.h"

namespace interleave::sim {

std::array<LinearShape, kNumLinear> LinearShapes(const DecoderSizes& sizes) {
  return {{{sizes.hidden, sizes.qkv()},
           {sizes.q, sizes.hidden},
           {sizes.hidden, 2 * sizes.intermediate},
           {sizes.intermediate, sizes.hidden}}};
}

StreamSplits SplitStreams(const DecoderOptions& options, int major,
                          int multiprocessors) {
  if (!options.stream_weights || options.batch_invariant || major != 9) {
    return StreamSplits();
  }
  std::array<StreamSplit, kNumLinear> splits;
  const std::array<LinearShape, kNumLinear> shapes =
      LinearShapes(DecoderSizes(options));
  for (size_t i = 0; i < kNumLinear; ++i) {
    if (!CanStream(shapes[i].inputs, shapes[i].outputs, multiprocessors)) {
      return StreamSplits();
    }
    splits[i] =
        MakeStreamSplit(shapes[i].inputs, shapes[i].outputs, multiprocessors);
  }
  return splits;
}

WeightPointers CarveWeights(const DecoderOptions& options, Arena& arena) {
  const DecoderSizes sizes(options);
  WeightPointers weights;
  for (int32_t i = 0; i < options.shape.num_layers; ++i) {
    LayerPointers layer;
    layer.qkv = arena.TakeBytes(sizes.qkv() * sizes.hidden * kBf16Bytes);
    layer.output = arena.TakeBytes(sizes.hidden * sizes.q * kBf16Bytes);
    layer.gate_up =
        arena.TakeBytes(2 * sizes.intermediate * sizes.hidden * kBf16Bytes);
    layer.down =
        arena.TakeBytes(sizes.hidden * sizes.intermediate * kBf16Bytes);
    layer.attention_norm = arena.TakeBytes(sizes.hidden * kBf16Bytes);
    layer.mlp_norm = arena.TakeBytes(sizes.hidden * kBf16Bytes);
    weights.layers.push_back(layer);
  }
  weights.embedding = arena.TakeBytes(sizes.vocab * sizes.hidden * kBf16Bytes);
  weights.lm_head =
      options.shape.tied_embeddings
          ? weights.embedding
          : arena.TakeBytes(sizes.vocab * sizes.hidden * kBf16Bytes);
  weights.final_norm = arena.TakeBytes(sizes.hidden * kBf16Bytes);
  return weights;
}

DecoderBuffers CarveBuffers(const DecoderOptions& options, int64_t plan_bytes,
                            const StreamSplits& streams, Arena& arena) {
  const DecoderSizes sizes(options);
  DecoderBuffers buffers = {};
  buffers.residual = arena.TakeBytes(sizes.tokens * sizes.hidden * kBf16Bytes);
  buffers.normed = arena.TakeBytes(sizes.tokens * sizes.hidden * kBf16Bytes);
  buffers.qkv = arena.TakeBytes(sizes.tokens * sizes.qkv() * kBf16Bytes);
  buffers.attention = arena.TakeBytes(sizes.tokens * sizes.q * kBf16Bytes);
  buffers.delta = arena.TakeBytes(sizes.tokens * sizes.hidden * kBf16Bytes);
  buffers.gate_up =
      arena.TakeBytes(sizes.tokens * 2 * sizes.intermediate * kBf16Bytes);
  buffers.activated =
      arena.TakeBytes(sizes.tokens * sizes.intermediate * kBf16Bytes);
  buffers.last = arena.TakeBytes(sizes.seqs * sizes.hidden * kBf16Bytes);
  buffers.logits = arena.Take<float>(sizes.seqs * sizes.vocab);
  buffers.partials = arena.TakeBytes(
      ArgmaxPartialBytes(sizes.seqs, static_cast<int32_t>(sizes.vocab)));
  buffers.cos_sin =
      arena.TakeBytes(sizes.positions * options.shape.head_dim / 2 * 8);
  buffers.packed = arena.Take<int32_t>(MostPacked(sizes));
  buffers.block_table = arena.Take<int32_t>(sizes.seqs * sizes.table);
  buffers.positions = arena.Take<int32_t>(sizes.tokens);
  buffers.slots = arena.Take<int32_t>(sizes.tokens);
  buffers.workspace = arena.TakeBytes(kWorkspaceBytes);
  buffers.plan = arena.TakeBytes(plan_bytes);
  if (!streams.has_value()) return buffers;
  int64_t partials = 0;
  for (const Linear linear : {kQkv, kOutput, kDown}) {
    partials = std::max(partials, StreamPartials((*streams)[linear]));
  }
  buffers.stream_partials = arena.Take<float>(partials);
  const StreamSplit& gate_up = (*streams)[kGateUp];
  buffers.gate_up_scratch.sums = arena.Take<float>(GateUpSums(gate_up));
  buffers.gate_up_scratch.ready = arena.Take<int32_t>(GateUpReady(gate_up));
  return buffers;
}

int64_t MostPacked(const DecoderSizes& sizes) {
  return PackedLayout(sizes.seqs, sizes.tokens, sizes.seqs).entries +
         sizes.seqs * sizes.table;
}

int64_t KvBlockBytes(const DecoderOptions& options) {
  const DecoderSizes sizes(options);
  return 2 * options.shape.num_layers * options.block_size * sizes.kv *
         kBf16Bytes;
}

}  // namespace interleave::sim
