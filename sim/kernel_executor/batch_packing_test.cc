#include "sim/kernel_executor/batch_packing.h"

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sim/kernel_executor/batch_runner.h"
#include "sim/kernel_executor/decoder_options.h"

namespace interleave::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Blocks of 4 tokens; sequences of up to 12.
DecoderOptions Options() {
  DecoderOptions options;
  options.shape.vocab_size = 100;
  options.shape.num_layers = 2;
  options.block_size = 4;
  options.num_blocks = 10;
  options.max_num_seqs = 3;
  options.max_num_batched_tokens = 8;
  options.max_model_len = 10;
  return options;
}

// A chunk of 5 tokens after 3, and a decode after 4.
struct Batch {
  std::vector<int32_t> chunk_blocks = {7, 2};
  std::vector<int32_t> decode_blocks = {9, 0, 5};
  std::vector<int32_t> tokens = {11, 12, 13, 14, 15, 99};
  std::vector<DecoderSequence> sequences = {{5, 3, false, chunk_blocks},
                                            {1, 4, true, decode_blocks}};
  int32_t layers = 0;

  DecoderBatch get() const {
    DecoderBatch batch;
    batch.sequences = sequences;
    batch.tokens = tokens;
    batch.layers = layers;
    return batch;
  }
};

TEST(PackBatchTest, ByHand) {
  const Batch batch;
  std::vector<int32_t> packed(64, -7);
  packed.resize(
      static_cast<size_t>(PackBatch(batch.get(), 4, 2, 6, 1, packed.data())));
  EXPECT_THAT(packed, ElementsAre(11, 12, 13, 14, 15, 99,  // tokens
                                  0, 5, 6,                 // cu_tokens
                                  8, 5,                    // lengths
                                  5,                       // samples
                                  0, 2, 4,                 // table_begin
                                  7, 2, 9, 0));            // entries
}

// Two decodes in a graph of four.
TEST(PackBatchTest, FillsUpWithRowsThatHaveNoSlot) {
  const std::vector<int32_t> blocks = {3};
  const std::vector<int32_t> tokens = {21, 22};
  const std::vector<DecoderSequence> sequences = {{1, 0, true, blocks},
                                                  {1, 2, true, blocks}};
  DecoderBatch batch;
  batch.sequences = sequences;
  batch.tokens = tokens;
  std::vector<int32_t> packed(64, -7);
  packed.resize(
      static_cast<size_t>(PackBatch(batch, 4, 4, 4, 4, packed.data())));
  EXPECT_THAT(packed, ElementsAre(21, 22, 0, 0,   // tokens
                                  0, 1, 2, 3, 4,  // cu_tokens
                                  1, 3, -1, -1,   // lengths
                                  0, 1, 2, 3,     // samples
                                  0, 1, 2, 2, 2,  // table_begin
                                  3, 3));         // entries
}

TEST(ValidateBatchTest, TakesWhatFits) {
  const Batch batch;
  EXPECT_OK(ValidateBatch(batch.get(), Options()));
}

TEST(ValidateBatchTest, NamesWhatDoesNot) {
  const auto expect = [](const std::function<void(Batch&)>& spoil,
                         const char* what) {
    Batch batch;
    spoil(batch);
    EXPECT_THAT(ValidateBatch(batch.get(), Options()),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what)));
  };
  expect([](Batch& b) { b.sequences.clear(); }, "0 sequences");
  expect([](Batch& b) { b.layers = 3; }, "3 layers of 2");
  expect([](Batch& b) { b.layers = -1; }, "-1 layers of 2");
  expect([](Batch& b) { b.sequences.resize(4); }, "4 sequences");
  expect([](Batch& b) { b.sequences[1].num_tokens = 0; }, "sequence 1 has 0");
  expect([](Batch& b) { b.sequences[0].cached_tokens = -1; },
         "-1 in the cache");
  expect([](Batch& b) { b.sequences[1].cached_tokens = 12; },
         "past max_model_len 10");
  expect([](Batch& b) { b.sequences[0].cached_tokens = 4; }, "2 blocks");
  expect([](Batch& b) { b.chunk_blocks[1] = 10; },
         "block 1 of sequence 0 is 10");
  expect([](Batch& b) { b.decode_blocks[0] = -1; }, "is -1");
  expect([](Batch& b) { b.tokens.pop_back(); }, "5 are given");
  expect([](Batch& b) { b.tokens[2] = 100; }, "token 100 is outside");
  expect([](Batch& b) { b.tokens[2] = -1; }, "token -1 is outside");
}

}  // namespace
}  // namespace interleave::sim
