#include "sim/kernel_executor/decoder.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/sim_time.h"
#include "base/status_testing.h"
#include "cuda_runtime_api.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sim/kernel_executor/batch_runner.h"
#include "sim/kernel_executor/decoder_options.h"
#include "sim/kernel_executor/decoder_reference.h"
#include "sim/kernel_executor/linear_choices.h"

namespace interleave::sim {
namespace {

using ::testing::HasSubstr;

bool HasGpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

#define SKIP_WITHOUT_GPU() \
  if (!HasGpu()) GTEST_SKIP() << "there is no GPU"

// ‖difference‖ / ‖reference‖ that bf16 arithmetic may have.
constexpr double kBf16Error = 2e-2;

DecoderOptions Options() {
  DecoderOptions options;
  options.shape = {2, 256, 4, 2, 64, 512, 1024, false};
  options.num_blocks = 64;
  options.max_num_seqs = 8;
  options.max_num_batched_tokens = 128;
  options.max_model_len = 256;
  return options;
}

std::vector<int32_t> Prompt(int32_t length, int32_t salt) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < length; ++i) {
    tokens.push_back((i * 7919 + salt * 104729 + i * i) % 1024);
  }
  return tokens;
}

// A sequence with its blocks, scattered over the cache.
struct Sequence {
  std::vector<int32_t> tokens;
  std::vector<int32_t> blocks;
  int32_t cached = 0;
};

Sequence MakeSequence(std::vector<int32_t> tokens, int32_t index) {
  Sequence sequence;
  sequence.tokens = std::move(tokens);
  // 8 blocks each: 61 is prime to 64.
  for (int32_t i = 0; i < 8; ++i) {
    sequence.blocks.push_back((index * 8 + i) * 61 % 64);
  }
  return sequence;
}

// A piece of a batch: the next `count` tokens of a sequence.
struct Piece {
  Sequence* sequence;
  int32_t count;
};

struct Outcome {
  DecoderOutput output;
  std::vector<float> logits;
  DecoderTiming timing;
};

// Runs the pieces, and appends the sampled token to sequences that have come to
// their end.
absl::StatusOr<Outcome> RunPieces(Decoder& decoder, std::vector<Piece> pieces,
                                  bool skip_graph = false, int32_t layers = 0) {
  std::vector<DecoderSequence> sequences;
  std::vector<int32_t> tokens;
  for (const Piece& piece : pieces) {
    const Sequence& s = *piece.sequence;
    const auto begin = s.tokens.begin() + s.cached;
    tokens.insert(tokens.end(), begin, begin + piece.count);
    const bool ends =
        static_cast<size_t>(s.cached + piece.count) == s.tokens.size();
    sequences.push_back({piece.count, s.cached, ends, s.blocks});
  }
  DecoderBatch batch;
  batch.sequences = sequences;
  batch.tokens = tokens;
  batch.skip_graph = skip_graph;
  batch.layers = layers;
  Outcome outcome;
  ASSIGN_OR_RETURN(outcome.timing, decoder.Run(batch, &outcome.output));
  ASSIGN_OR_RETURN(outcome.logits, decoder.LastLogits());
  size_t sample = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    pieces[i].sequence->cached += pieces[i].count;
    if (!sequences[i].sample) continue;
    pieces[i].sequence->tokens.push_back(outcome.output.tokens[sample++]);
  }
  return outcome;
}

template <typename T>
double RelativeError(absl::Span<const float> actual,
                     const std::vector<T>& expected) {
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double d = static_cast<double>(actual[i]) - expected[i];
    difference += d * d;
    norm += static_cast<double>(expected[i]) * expected[i];
  }
  return std::sqrt(difference / norm);
}

absl::StatusOr<ReferenceModel> ReadModel(Decoder& decoder) {
  ReferenceModel model;
  model.shape = decoder.options().shape;
  for (int32_t i = 0; i < model.shape.num_layers; ++i) {
    ASSIGN_OR_RETURN(Decoder::LayerWeights layer, decoder.ReadLayer(i));
    model.layers.push_back(std::move(layer));
  }
  ASSIGN_OR_RETURN(model.outer, decoder.ReadOuter());
  return model;
}

TEST(DecoderCreateTest, WithoutAGpuItSaysSo) {
  if (HasGpu()) GTEST_SKIP() << "there is a GPU";
  EXPECT_THAT(Decoder::Create(Options()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("there is no CUDA device")));
}

TEST(DecoderCreateTest, BadOptionsAreRefusedAnywhere) {
  DecoderOptions options = Options();
  options.max_num_seqs = 0;
  EXPECT_THAT(Decoder::Create(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("max_num_seqs is 0")));
}

TEST(DecoderCreateTest, WhatDoesNotFitIsRefusedWithItsBytes) {
  SKIP_WITHOUT_GPU();
  DecoderOptions options = Options();
  options.shape = {200, 8192, 64, 8, 128, 28672, 128256, false};
  EXPECT_THAT(Decoder::Create(options),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("bytes are needed")));
  options = Options();
  options.num_blocks = int64_t{1} << 26;
  EXPECT_THAT(
      Decoder::Create(options),
      StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("KV cache")));
}

TEST(DecoderCreateTest, GivesBackWhatItTook) {
  SKIP_WITHOUT_GPU();
  size_t before = 0;
  size_t total = 0;
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Decoder> decoder,
                         Decoder::Create(Options()));
    decoder.reset();
    size_t free = 0;
    ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
    // The first one loads kernels, which stay.
    if (i == 0) before = free;
    EXPECT_GE(free, before);
  }
}

TEST(DecoderCreateTest, FillsTheMemoryWithBlocks) {
  SKIP_WITHOUT_GPU();
  DecoderOptions options = Options();
  options.num_blocks = 0;
  options.memory_utilization = 0.1;
  options.cuda_graphs = false;
  options.tune_linear_layers = false;
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<Decoder> decoder,
                       Decoder::Create(options));
  // 2 layers x K and V x 16 tokens x 2 heads x 64 x 2 bytes a block.
  EXPECT_EQ(decoder->memory().kv_cache, decoder->num_blocks() * 16384);
  size_t free = 0;
  size_t total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_GT(decoder->memory().kv_cache, static_cast<int64_t>(total / 20));
  EXPECT_GE(free, static_cast<size_t>(0.89 * static_cast<double>(total)));
}

TEST(DecoderCreateTest, TakesAnothersLinearChoices) {
  SKIP_WITHOUT_GPU();
  DecoderOptions options = Options();
  options.tune_linear_layers = true;
  std::string choices;
  {
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Decoder> tuned,
                         Decoder::Create(options));
    choices = tuned->LinearChoicesText();
  }
  ASSERT_OK_AND_ASSIGN(LinearChoices read, ParseLinearChoices(choices, "own"));
  EXPECT_EQ(read.layers.size(), 5u);
  options.linear_choices = choices;
  {
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Decoder> same,
                         Decoder::Create(options));
    EXPECT_EQ(same->LinearChoicesText(), choices);
  }
  // Another version's mean nothing, and are none of the user's concern.
  read.cublas_lt_version += 1;
  options.linear_choices = FormatLinearChoices(read);
  EXPECT_OK(Decoder::Create(options).status());
  options.linear_choices = "not a table";
  EXPECT_THAT(Decoder::Create(options),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

// Tiles of gate and up that one thread block has alone, that two share, and
// that many do.
TEST(DecoderTest, StreamedLinearLayersComputeWhatCublasLtDoes) {
  SKIP_WITHOUT_GPU();
  DecoderOptions options = Options();
  for (const int32_t intermediate : {512, 6144, 14336}) {
    options.shape = {2, 512, 4, 2, 64, intermediate, 1024, false};
    for (const int32_t length : {3, 20, 50, 64}) {
      std::vector<std::vector<float>> logits;
      for (const bool stream_weights : {false, true, true}) {
        options.stream_weights = stream_weights;
        ASSERT_OK_AND_ASSIGN(std::unique_ptr<Decoder> decoder,
                             Decoder::Create(options));
        Sequence sequence = MakeSequence(Prompt(length, 1), 0);
        ASSERT_OK_AND_ASSIGN(Outcome outcome,
                             RunPieces(*decoder, {{&sequence, length}}));
        logits.push_back(outcome.logits);
      }
      EXPECT_LT(RelativeError(logits[1], logits[0]), kBf16Error)
          << length << " tokens, intermediate size " << intermediate;
      EXPECT_EQ(logits[1], logits[2]);
    }
  }
}

// In a model so small that the kernels of several layers find room beside each
// other, none may take what another layer's has left.
TEST(DecoderTest, DecodesOfManySmallLayersAreTheSameEachTime) {
  SKIP_WITHOUT_GPU();
  DecoderOptions options = Options();
  options.shape.num_layers = 24;
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<Decoder> decoder,
                       Decoder::Create(options));
  Sequence sequence = MakeSequence(Prompt(20, 1), 0);
  ASSERT_OK(RunPieces(*decoder, {{&sequence, 20}}).status());
  std::vector<float> first;
  for (int i = 0; i < 200; ++i) {
    Sequence same = sequence;
    ASSERT_OK_AND_ASSIGN(Outcome outcome, RunPieces(*decoder, {{&same, 1}}));
    if (i == 0) first = outcome.logits;
    ASSERT_EQ(outcome.logits, first) << "run " << i;
  }
}

TEST(DecoderTest, LogitsAreTheReferences) {
  SKIP_WITHOUT_GPU();
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<Decoder> decoder,
                       Decoder::Create(Options()));
  ASSERT_OK_AND_ASSIGN(const ReferenceModel model, ReadModel(*decoder));
  Sequence a = MakeSequence(Prompt(53, 1), 0);
  Sequence b = MakeSequence(Prompt(6, 2), 1);
  Sequence c = MakeSequence(Prompt(33, 3), 2);
  const auto compare = [&](const Outcome& outcome,
                           std::vector<const Sequence*> sampled) {
    for (size_t i = 0; i < sampled.size(); ++i) {
      std::vector<int32_t> tokens = sampled[i]->tokens;
      const int32_t next = tokens.back();
      tokens.pop_back();
      const std::vector<double> expected = ReferenceLogits(model, tokens);
      const auto logits = absl::MakeConstSpan(outcome.logits)
                              .subspan(i * expected.size(), expected.size());
      EXPECT_LT(RelativeError(logits, expected), kBf16Error) << i;
      const auto best = std::max_element(logits.begin(), logits.end());
      EXPECT_EQ(next, best - logits.begin());
      std::vector<float> sorted(logits.begin(), logits.end());
      std::sort(sorted.rbegin(), sorted.rend());
      EXPECT_EQ(outcome.output.logit_gaps[i], sorted[0] - sorted[1]);
    }
  };
  Sequence d = MakeSequence(Prompt(61, 7), 3);
  // Chunks; a decode beside a chunk; nearly as many tokens as are still few;
  // decodes from a graph, padded from 3 to 4.
  ASSERT_OK_AND_ASSIGN(Outcome outcome,
                       RunPieces(*decoder, {{&a, 20}, {&b, 6}}));
  compare(outcome, {&b});
  ASSERT_OK_AND_ASSIGN(outcome,
                       RunPieces(*decoder, {{&b, 1}, {&a, 33}, {&c, 33}}));
  compare(outcome, {&b, &a, &c});
  ASSERT_OK_AND_ASSIGN(outcome, RunPieces(*decoder, {{&b, 1}, {&d, 61}}));
  compare(outcome, {&b, &d});
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK_AND_ASSIGN(outcome,
                         RunPieces(*decoder, {{&c, 1}, {&b, 1}, {&a, 1}}));
    compare(outcome, {&c, &b, &a});
    EXPECT_GT(outcome.timing.device, SimDuration::Zero());
    EXPECT_GT(outcome.timing.host, SimDuration::Zero());
  }
}

TEST(DecoderTest, TheFirstLayersAloneAreTheReferences) {
  SKIP_WITHOUT_GPU();
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<Decoder> decoder,
                       Decoder::Create(Options()));
  ASSERT_OK_AND_ASSIGN(ReferenceModel model, ReadModel(*decoder));
  ASSERT_GT(model.shape.num_layers, 1);
  model.shape.num_layers = 1;
  model.layers.resize(1);
  // A batch of few tokens and one of many take different kernels.
  for (const int32_t length : {6, 61, 90}) {
    Sequence s = MakeSequence(Prompt(length, 1), 0);
    const std::vector<double> expected = ReferenceLogits(model, s.tokens);
    ASSERT_OK_AND_ASSIGN(const Outcome outcome,
                         RunPieces(*decoder, {{&s, length}}, false, 1));
    EXPECT_LT(RelativeError(outcome.logits, expected), kBf16Error) << length;
  }
}

TEST(DecoderTest, AttentionAloneTakesLessAndSamplesNothing) {
  SKIP_WITHOUT_GPU();
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<Decoder> decoder,
                       Decoder::Create(Options()));
  Sequence s = MakeSequence(Prompt(90, 1), 0);
  const DecoderSequence sequence = {90, 0, true, s.blocks};
  DecoderBatch batch;
  batch.sequences = absl::MakeConstSpan(&sequence, 1);
  batch.tokens = s.tokens;
  for (int warm = 0; warm < 2; ++warm) {
    ASSERT_OK(decoder->Run(batch, nullptr).status());
  }
  ASSERT_OK_AND_ASSIGN(const DecoderTiming whole, decoder->Run(batch, nullptr));
  batch.part = BatchPart::kAttention;
  batch.layers = 1;
  DecoderOutput output;
  ASSERT_OK_AND_ASSIGN(const DecoderTiming alone, decoder->Run(batch, &output));
  EXPECT_TRUE(output.tokens.empty());
  EXPECT_GT(alone.device, SimDuration::Zero());
  EXPECT_LT(alone.device, whole.device);
}

// Runs a prompt in chunks, then decodes.
absl::StatusOr<std::vector<int32_t>> Generate(Decoder& decoder, int32_t chunk,
                                              bool skip_graph) {
  Sequence s = MakeSequence(Prompt(50, 4), 3);
  while (s.cached < 50) {
    RETURN_IF_ERROR(
        RunPieces(decoder, {{&s, std::min(chunk, 50 - s.cached)}}).status());
  }
  for (int i = 0; i < 20; ++i) {
    RETURN_IF_ERROR(RunPieces(decoder, {{&s, 1}}, skip_graph).status());
  }
  return s.tokens;
}

TEST(DecoderTest, ChunksAndGraphsDoNotChangeTheTokens) {
  SKIP_WITHOUT_GPU();
  DecoderOptions options = Options();
  options.batch_invariant = true;
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<Decoder> decoder,
                       Decoder::Create(options));
  ASSERT_OK_AND_ASSIGN(const std::vector<int32_t> whole,
                       Generate(*decoder, 50, false));
  ASSERT_OK_AND_ASSIGN(const std::vector<int32_t> in_chunks,
                       Generate(*decoder, 13, false));
  ASSERT_OK_AND_ASSIGN(const std::vector<int32_t> without_graphs,
                       Generate(*decoder, 50, true));
  EXPECT_EQ(whole.size(), 71u);
  EXPECT_EQ(in_chunks, whole);
  EXPECT_EQ(without_graphs, whole);
}

TEST(DecoderTest, WhatSharesTheBatchChangesNoBit) {
  SKIP_WITHOUT_GPU();
  DecoderOptions options = Options();
  options.batch_invariant = true;
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<Decoder> decoder,
                       Decoder::Create(options));
  const size_t vocab = static_cast<size_t>(options.shape.vocab_size);
  Sequence alone = MakeSequence(Prompt(40, 5), 0);
  Sequence beside = MakeSequence(Prompt(40, 5), 1);
  Sequence other = MakeSequence(Prompt(70, 6), 2);
  std::vector<Sequence> more;
  for (int32_t i = 3; i < 6; ++i) {
    more.push_back(MakeSequence(Prompt(9 + i, i), i));
  }
  ASSERT_OK_AND_ASSIGN(Outcome first, RunPieces(*decoder, {{&alone, 40}}));
  ASSERT_OK_AND_ASSIGN(
      Outcome second,
      RunPieces(*decoder,
                {{&other, 20}, {&beside, 40}, {&more[0], 12}, {&more[1], 13}}));
  EXPECT_EQ(first.logits, std::vector<float>(second.logits.begin(),
                                             second.logits.begin() +
                                                 static_cast<int64_t>(vocab)));
  for (int i = 0; i < 4; ++i) {
    ASSERT_OK_AND_ASSIGN(first, RunPieces(*decoder, {{&alone, 1}}));
    std::vector<Piece> pieces = {{&beside, 1}, {&more[0], 1}, {&more[1], 1}};
    if (i == 1) pieces.push_back({&other, 30});
    if (i == 2) pieces.push_back({&more[2], 14});
    ASSERT_OK_AND_ASSIGN(second, RunPieces(*decoder, pieces));
    EXPECT_EQ(first.logits, std::vector<float>(second.logits.begin(),
                                               second.logits.begin() +
                                                   static_cast<int64_t>(vocab)))
        << i;
  }
}

TEST(DecoderTest, BadBatchesAreRefused) {
  SKIP_WITHOUT_GPU();
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<Decoder> decoder,
                       Decoder::Create(Options()));
  const auto run = [&](std::vector<DecoderSequence> sequences,
                       std::vector<int32_t> tokens) {
    DecoderBatch batch;
    batch.sequences = sequences;
    batch.tokens = tokens;
    return decoder->Run(batch, nullptr).status();
  };
  const std::vector<int32_t> blocks = {3, 4};
  EXPECT_THAT(run({}, {}), StatusIs(absl::StatusCode::kInvalidArgument,
                                    HasSubstr("0 sequences")));
  EXPECT_THAT(run({{1, 32, true, blocks}}, {5}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("its 33 tokens take 3")));
  const std::vector<int32_t> outside = {64};
  EXPECT_THAT(run({{1, 0, true, outside}}, {5}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("block 0 of sequence 0 is 64")));
  EXPECT_THAT(run({{1, 256, true, blocks}}, {5}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("past max_model_len 256")));
  EXPECT_THAT(run({{2, 0, true, blocks}}, {5}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("compute 2 tokens and 1 are given")));
  EXPECT_THAT(run({{1, 0, true, blocks}}, {1024}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("token 1024 is outside")));
  EXPECT_THAT(run({{1, 0, true, blocks}}, {5}), IsOk());
}

}  // namespace
}  // namespace interleave::sim
