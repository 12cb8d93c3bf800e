// How a linear layer of few tokens is split among thread blocks, for the kernel
// that computes it and for those that read its partial sums.
//
// W [outputs, inputs] is cut into tiles of 128 rows, and each tile into units
// of 64 columns; units are numbered tile by tile. Every block takes an equal
// run of units, whatever tiles they belong to, so that all of them read as
// much, and leaves one partial sum for each tile that it has a part of:
// stream-K (Osama et al. 2023). The partial sums of a tile are those of
// consecutive blocks, and are added up in their order.

#ifndef SIM_KERNEL_EXECUTOR_STREAM_SPLIT_H_
#define SIM_KERNEL_EXECUTOR_STREAM_SPLIT_H_

#include <cstdint>

#ifdef __CUDACC__
#define INTERLEAVE_HOST_DEVICE __host__ __device__
#else
#define INTERLEAVE_HOST_DEVICE
#endif

namespace interleave::sim {

inline constexpr int kStreamRows = 128;    // of a tile
inline constexpr int kStreamColumns = 64;  // of a unit
// Rows of gate, and then of up, that alternate in the weight of both: so a
// thread that has a number of gate's product has up's, too.
inline constexpr int kGateUpRows = 8;
// The most tokens.
inline constexpr int kStreamTokens = 64;

struct StreamSplit {
  int32_t outputs = 0;
  int32_t units_per_tile = 0;
  int32_t units = 0;
  int32_t blocks = 0;
  // Partial sum s of token t and output n is at
  // s * slot_stride + t * outputs + n.
  int64_t slot_stride = 0;

  INTERLEAVE_HOST_DEVICE int FirstUnit(int block) const {
    return static_cast<int>(int64_t{block} * units / blocks);
  }
  // The block that has a tile's first unit, and the one that has its last.
  INTERLEAVE_HOST_DEVICE int FirstBlock(int tile) const {
    return BlockOf(tile * units_per_tile);
  }
  INTERLEAVE_HOST_DEVICE int LastBlock(int tile) const {
    return BlockOf((tile + 1) * units_per_tile - 1);
  }
  // The last block whose first unit is not after this one. 32 bits suffice
  // for units x blocks below 2^31.
  INTERLEAVE_HOST_DEVICE int BlockOf(int unit) const {
    return ((unit + 1) * blocks - 1) / units;
  }
};

// Whether a layer can be split so.
inline bool CanStream(int64_t inputs, int64_t outputs, int32_t blocks) {
  return inputs % kStreamColumns == 0 && outputs % kStreamRows == 0 &&
         inputs / kStreamColumns * (outputs / kStreamRows) * blocks <
             (int64_t{1} << 31);
}

// Among at most so many blocks. REQUIRES: CanStream(inputs, outputs, blocks).
inline StreamSplit MakeStreamSplit(int64_t inputs, int64_t outputs,
                                   int32_t blocks) {
  StreamSplit split;
  split.outputs = static_cast<int32_t>(outputs);
  split.units_per_tile = static_cast<int32_t>(inputs / kStreamColumns);
  split.units =
      static_cast<int32_t>(outputs / kStreamRows * split.units_per_tile);
  split.blocks = blocks < split.units ? blocks : split.units;
  split.slot_stride = kStreamTokens * outputs;
  return split;
}

// Floats that hold every partial sum.
inline int64_t StreamPartials(const StreamSplit& split) {
  int64_t most = 0;
  for (int tile = 0; tile < split.outputs / kStreamRows; ++tile) {
    const int64_t slots = split.LastBlock(tile) - split.FirstBlock(tile) + 1;
    if (slots > most) most = slots;
  }
  return most * split.slot_stride;
}

}  // namespace interleave::sim

#endif  // SIM_KERNEL_EXECUTOR_STREAM_SPLIT_H_
