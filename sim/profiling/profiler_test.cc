#include "sim/profiling/profiler.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "base/sim_time.h"
#include "base/statistics.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sim/cost/batch_shape.h"
#include "sim/cost/profile_model.h"
#include "sim/cost/profile_tables.h"
#include "sim/cost/specs.h"
#include "sim/executor.h"
#include "sim/kernel_executor/batch_runner.h"
#include "sim/profiling/profile_files.h"
#include "sim/profiling/random_batches.h"
#include "sim/profiling/serve.h"
#include "sim/testing/fake_samples.h"

namespace interleave::sim {
namespace {

using ::testing::HasSubstr;

constexpr int kLayers = 32;

// An engine whose times are formulas, on a clock of its own.
class FakeEngine final : public BatchTimer {
 public:
  absl::StatusOr<BatchTime> Time(const MeasuredBatch& batch) override {
    if (fail_at >= 0 && calls >= fail_at) {
      return absl::InternalError("the card fell off the bus");
    }
    ++calls;
    ++calls_by_key[KeyOf(batch)];
    // A throttled card is a restless one.
    const double noise = kNoise + restlessness * heat;
    const double us =
        UsAt(batch, heat) * (1 + noise * (2 * random_.Uniform01() - 1)) +
        SwitchUs(batch);
    if (clock_follows_power) heat = HeatAfter(batch, us, heat);
    const SimDuration host = HostTime(batch.num_sequences());
    now += absl::Microseconds(us + host.micros() + 10);
    return BatchTime{SimDuration::Micros(us), host};
  }

  static SimDuration HostTime(int64_t sequences) {
    return SimDuration::Micros(20 + 0.5 * static_cast<double>(sequences));
  }

  // Of a graph behind another.
  double SwitchUs(const MeasuredBatch& batch) {
    std::string graph;
    if (batch.chunks.empty()) {
      graph = absl::StrCat(Padded(static_cast<double>(batch.num_tokens())),
                           static_cast<int>(batch.part));
    }
    return std::exchange(last_graph_, graph) == graph ? 0 : switch_us;
  }

  // By how much a hot card is slower at a batch that takes so long on a
  // recovered one: less where a tile is nearly empty, and where decodes read
  // their keys.
  static double Slower(const MeasuredBatch& batch, double us) {
    const auto tokens = static_cast<double>(batch.num_tokens());
    if (tokens <= 128) return kSmallSlower;
    const double filled = tokens / (128 * std::ceil(tokens / 128));
    MeasuredBatch decodes;
    decodes.decode_kv = batch.decode_kv;
    const double reads =
        batch.part == BatchPart::kAll && !decodes.decode_kv.empty()
            ? std::min(1.0, kLayers * AttentionUs(decodes) / us)
            : 0;
    return kSmallSlower + (1 - reads) * filled * (kLargeSlower - kSmallSlower);
  }

  static double HeatAfter(const MeasuredBatch& batch, double us, double heat) {
    const double compute = std::clamp(
        (static_cast<double>(batch.num_tokens()) - 128) / (448 - 128), 0.0,
        1.0);
    return heat + (compute - heat) * (1 - std::exp(-us / 50e3));
  }

  // Of a batch that begins on a card that is so hot.
  double UsAt(const MeasuredBatch& batch, double at_begin) const {
    const double us = DeviceUs(batch);
    if (!clock_follows_power) return us;
    return us * (1 + Slower(batch, us) * HeatAfter(batch, us / 2, at_begin));
  }

  double DeviceUs(const MeasuredBatch& batch) const {
    double us = 0;
    const auto tokens = static_cast<double>(batch.num_tokens());
    const auto sequences = static_cast<double>(batch.num_sequences());
    if (batch.chunks.empty()) {
      us = 3900 + 3 * Padded(tokens);
    } else {
      // A tile of 128 tokens more is a step.
      us = 4000 + 2000 * std::ceil(tokens / 128) + 0.6 * (sequences - 1);
    }
    const double layers = batch.layers == 0 ? kLayers : batch.layers;
    if (batch.part == BatchPart::kAttention) {
      return kPlanUs + layers * AttentionUs(batch);
    }
    const double outside = kOutsideLayers + 0.6 * (sequences - 1);
    us = outside + (us - outside) * layers / kLayers *
                       (batch.layers == 0 ? 1 : pieces_off);
    if (batch.part == BatchPart::kWithoutAttention) return us;
    return us + layers * AttentionUs(batch);
  }

  static double AttentionUs(const MeasuredBatch& batch) {
    double keys = 0;
    double longest = 0;
    for (const double kv : batch.decode_kv) {
      keys += kv;
      longest = std::max(longest, kv);
    }
    const auto n = static_cast<double>(batch.decode_kv.size());
    double decode = 0;
    if (n > 0) {
      decode = 6 + 0.001 * keys;
      // The longest sequence is waited for.
      decode += 0.0002 * n * (longest - keys / n);
    }
    double prefill = 0;
    for (const PrefillChunk& chunk : batch.chunks) {
      const double q = chunk.query_tokens;
      prefill += 2e-5 * q * (chunk.context_tokens + q / 2 + 100);
    }
    if (prefill > 0) prefill += 5;
    return std::max(decode, prefill) + 0.4 * std::min(decode, prefill);
  }

  static double Padded(double sequences) {
    for (const double size : {1, 2, 4, 8, 16, 32, 64}) {
      if (sequences <= size) return size;
    }
    return sequences;
  }

  // With full tiles, and with one token a sequence.
  static constexpr double kLargeSlower = 0.12;
  static constexpr double kSmallSlower = 0.04;
  // What embedding and LM head take of every batch.
  static constexpr double kOutsideLayers = 350;
  static constexpr double kPlanUs = 40;
  // Times are off by up to this share, and by so much more on a hot card.
  static constexpr double kNoise = 0.0005;
  double restlessness = 0;
  double switch_us = 0;
  // By what layers that run alone, without the others, take longer.
  double pieces_off = 1;
  bool clock_follows_power = false;
  // From 0, after a while without large batches, to 1.
  double heat = 0;
  int calls = 0;
  int fail_at = -1;
  std::map<std::string, int> calls_by_key;
  absl::Time now = absl::UnixEpoch();

 private:
  Rng random_{11};
  std::string last_graph_;
};

// The engine, as what serves requests sees it.
class FakeRunner final : public BatchRunner {
 public:
  explicit FakeRunner(FakeEngine* engine) : engine_(*engine) {}

  absl::StatusOr<DecoderTiming> Run(const DecoderBatch& batch,
                                    DecoderOutput* output) override {
    MeasuredBatch measured;
    for (const DecoderSequence& s : batch.sequences) {
      if (s.num_tokens > 1) {
        measured.chunks.push_back({s.num_tokens, s.cached_tokens});
      } else {
        measured.decode_kv.push_back(s.cached_tokens);
      }
    }
    ASSIGN_OR_RETURN(const BatchTime time, engine_.Time(measured));
    SampleFakes(batch, output);
    return DecoderTiming{time.device, time.host};
  }
  int32_t vocab_size() const override { return 1000; }
  int32_t block_size() const override { return 16; }
  int64_t num_blocks() const override { return 64 * 256; }
  std::string Description() const override { return "a fake engine"; }

 private:
  FakeEngine& engine_;
};

class ProfilerTest : public ::testing::Test {
 protected:
  ProfilerOptions Options(absl::Duration budget) {
    ProfilerOptions options;
    options.num_layers = kLayers;
    options.limits.max_chunk = 2048;
    options.limits.max_mixed_chunk = 1024;
    options.check_tokens = 1024;
    options.limits.max_context = 4096;
    options.limits.max_sequences = 64;
    options.limits.max_kv = 4096;
    options.graph_sizes = {1, 2, 4, 8, 16, 32, 64};
    options.budget = budget;
    options.now = [this] { return engine_.now; };
    options.serve = [this](CostModel& cost, absl::Duration planned,
                           const OnServed& on_served) {
      ServeOptions serve;
      serve.limits = {.max_num_seqs = 64,
                      .max_num_batched_tokens = 1024,
                      .max_model_len = 4096};
      serve.max_tokens = 2048;
      serve.seconds = absl::ToDoubleSeconds(planned);
      FakeRunner runner(&engine_);
      return Serve(runner, cost, serve,
                   [&](const BatchShape& shape, IterationTiming timing) {
                     timing.host = FakeEngine::HostTime(shape.num_sequences());
                     return on_served(shape, timing);
                   });
    };
    return options;
  }

  std::string JournalPath() {
    return absl::StrCat(
        ::testing::TempDir(), "/",
        ::testing::UnitTest::GetInstance()->current_test_info()->name());
  }

  std::unique_ptr<Journal> OpenJournal() {
    return Journal::Open(JournalPath(), "a fake engine").value();
  }
  void SetUp() override { std::remove(JournalPath().c_str()); }

  static MeasuredBatch Typical(int32_t count, double mean) {
    MeasuredBatch batch;
    batch.decode_kv = TypicalLengths(count, mean);
    batch.typical_mean = mean;
    return batch;
  }

  // Of the draws of lengths that a profiler takes.
  double MedianUs(MeasuredBatch batch) const {
    if (batch.typical_mean == 0) return engine_.DeviceUs(batch);
    const auto count = static_cast<int32_t>(batch.decode_kv.size());
    const uint64_t draws = batch.chunks.empty() ? 9 : 3;
    std::vector<double> us;
    for (uint64_t draw = 0; draw < draws; ++draw) {
      batch.decode_kv = TypicalLengths(count, batch.typical_mean, draw);
      us.push_back(engine_.DeviceUs(batch));
    }
    return Median(std::move(us));
  }

  static std::unique_ptr<CostModel> ModelOf(
      const ProfileData& data,
      ProfileOptions::ThrottleRule rule = ProfileOptions::FOLLOWED) {
    const auto tables = ParseProfileTables(
        ProfileFiles(data, {1, 2, 4, 8, 16, 32, 64}, {{"gpu", "fake"}}),
        "profile");
    EXPECT_OK(tables);
    ProfileOptions options;
    options.set_num_layers(kLayers);
    options.set_throttle_rule(rule);
    return CreateProfileModel(LookupModel("llama3.1_8b").value(),
                              LookupDevice("h200").value(), {}, options,
                              *tables)
        .value();
  }

  static absl::StatusOr<ProfileData> MeasureAndCalibrate(Profiler& profiler) {
    ASSIGN_OR_RETURN(const ProfileData pieces, profiler.Measure());
    return profiler.Calibrate(*ModelOf(pieces, ProfileOptions::RECOVERED));
  }

  FakeEngine engine_;
};

TEST_F(ProfilerTest, TablesPredictWholeIterations) {
  const auto journal = OpenJournal();
  Profiler profiler(Options(absl::Minutes(5)), &engine_, journal.get());
  ASSERT_OK_AND_ASSIGN(const ProfileData pieces, profiler.Measure());
  // A batch on the grid is predicted as it was measured, with several draws of
  // lengths, but for rounding (of the tables, and of the lengths that have a
  // mean).
  const auto sum = ModelOf(pieces, ProfileOptions::RECOVERED);
  for (const MeasuredBatch& batch :
       {Decodes(1, 4096), Typical(64, 4096), Typical(8, 64),
        Mixed({1024, 4096}, 1, 4096), Mixed({1024, 0}, 0, 0)}) {
    EXPECT_NEAR(sum->IterationTime(batch.shape()).micros() / MedianUs(batch), 1,
                0.002)
        << KeyOf(batch);
  }
  ASSERT_OK_AND_ASSIGN(const ProfileData data, profiler.Calibrate(*sum));
  EXPECT_LE(engine_.now - absl::UnixEpoch(), absl::Minutes(5));
  EXPECT_NEAR(data.host_constant_us, 20, 1e-6);
  EXPECT_NEAR(data.host_per_sequence_us, 0.5, 1e-6);
  const auto model = ModelOf(data);
  ASSERT_OK_AND_ASSIGN(const std::vector<CheckRow> rows,
                       profiler.Check(*model, 200));
  ASSERT_EQ(rows.size(), 200u);
  const CheckSummary summary = Summarize(rows);
  EXPECT_LT(summary.mean_error, 0.02);
  EXPECT_LT(summary.p95_error, 0.06);
  for (const CheckRow& row : rows) EXPECT_FALSE(row.outside_grid) << row.batch;
}

TEST_F(ProfilerTest, DecodesFollowTheirLike) {
  engine_.switch_us = 90;
  const auto journal = OpenJournal();
  Profiler profiler(Options(absl::Minutes(5)), &engine_, journal.get());
  ASSERT_OK_AND_ASSIGN(const ProfileData pieces, profiler.Measure());
  const auto sum = ModelOf(pieces, ProfileOptions::RECOVERED);
  for (const MeasuredBatch& batch :
       {Decodes(1, 4096), Typical(64, 4096), Typical(8, 64)}) {
    EXPECT_NEAR(sum->IterationTime(batch.shape()).micros() / MedianUs(batch), 1,
                0.002)
        << KeyOf(batch);
  }
}

TEST_F(ProfilerTest, FindsTheStepsOfLinearLayers) {
  const auto journal = OpenJournal();
  Profiler profiler(Options(absl::Minutes(5)), &engine_, journal.get());
  ASSERT_OK_AND_ASSIGN(const ProfileData data, MeasureAndCalibrate(profiler));
  const auto model = ModelOf(data);
  // 8 tokens on either side of a step at 640.
  for (const int tokens : {632, 640, 648}) {
    MeasuredBatch batch = Mixed({tokens, 0}, 0, 0);
    EXPECT_NEAR(
        model->IterationTime(batch.shape()).micros() / engine_.DeviceUs(batch),
        1, 0.015)
        << tokens;
  }
}

TEST_F(ProfilerTest, TellsACardsThrottlingFromItsTimes) {
  engine_.clock_follows_power = true;
  const auto journal = OpenJournal();
  Profiler profiler(Options(absl::Minutes(5)), &engine_, journal.get());
  ASSERT_OK_AND_ASSIGN(const ProfileData data, MeasureAndCalibrate(profiler));
  const auto model = ModelOf(data);
  // Time constants are tried in steps of 5%.
  EXPECT_NEAR(data.throttle.time_constant_us, 50e3, 5e3);
  EXPECT_NEAR(data.throttle.compute_slowdown, FakeEngine::kLargeSlower, 0.01);
  // A served card is hot and cold at the same sizes too seldom to tell these
  // two apart, 0.04 and 0; what they say together is below.
  EXPECT_NEAR(data.throttle.memory_slowdown, FakeEngine::kSmallSlower, 0.01);
  EXPECT_LE(data.throttle.memory_state, 0.1);
  const std::vector<MeasuredBatch> batches = {
      Mixed({2048, 0}, 0, 0), Mixed({520, 0}, 0, 0), Mixed({512, 0}, 0, 0),
      Mixed({1024, 4096}, 1, 4096), Typical(8, 64)};
  for (const MeasuredBatch& batch : batches) {
    EXPECT_NEAR(
        model->IterationTime(batch.shape()).micros() / engine_.UsAt(batch, 0),
        1, 0.015)
        << KeyOf(batch);
  }
  const std::vector<SimDuration> row(40, SimDuration::Millis(40));
  model->Ran(batches[0].shape(), row);
  for (const MeasuredBatch& batch : batches) {
    EXPECT_NEAR(
        model->IterationTime(batch.shape()).micros() / engine_.UsAt(batch, 1),
        1, 0.015)
        << KeyOf(batch);
  }
}

TEST_F(ProfilerTest, StandsNoise) {
  engine_.clock_follows_power = true;
  engine_.restlessness = 0.1;
  const auto journal = OpenJournal();
  Profiler profiler(Options(absl::Minutes(5)), &engine_, journal.get());
  ASSERT_OK_AND_ASSIGN(const ProfileData data, MeasureAndCalibrate(profiler));
  EXPECT_NEAR(data.throttle.time_constant_us, 50e3, 15e3);
  EXPECT_NEAR(data.throttle.memory_slowdown, FakeEngine::kSmallSlower, 0.01);
  const auto model = ModelOf(data);
  Rng rng(3);
  BatchLimits limits;
  limits.max_tokens = 1024;
  limits.max_context = 4096;
  limits.max_sequences = 64;
  limits.max_kv = 4096;
  std::vector<MeasuredBatch> batches;
  for (int i = 0; i < 200; ++i) batches.push_back(RandomBatch(rng, limits));
  for (const double heat : {0.0, 1.0}) {
    std::vector<CheckRow> rows;
    for (const MeasuredBatch& batch : batches) {
      rows.push_back({KeyOf(batch), engine_.UsAt(batch, heat),
                      model->IterationTime(batch.shape()).micros(), false});
    }
    const CheckSummary summary = Summarize(rows);
    EXPECT_NEAR(summary.bias, 0, 0.01) << heat;
    EXPECT_LT(summary.mean_error, 0.02) << heat;
    const MeasuredBatch large = Mixed({2048, 0}, 0, 0);
    const std::vector<SimDuration> row(40, SimDuration::Millis(40));
    model->Ran(large.shape(), row);
  }
}

TEST_F(ProfilerTest, WholeBatchesMendWhatPiecesGetWrong) {
  engine_.clock_follows_power = true;
  engine_.pieces_off = 1.05;
  const auto journal = OpenJournal();
  Profiler profiler(Options(absl::Minutes(5)), &engine_, journal.get());
  ASSERT_OK_AND_ASSIGN(const ProfileData pieces, profiler.Measure());
  const auto before = ModelOf(pieces, ProfileOptions::RECOVERED);
  ASSERT_OK_AND_ASSIGN(const ProfileData whole, profiler.Calibrate(*before));
  const auto after = ModelOf(whole, ProfileOptions::RECOVERED);
  double off_before = 0;
  double off_after = 0;
  int count = 0;
  for (int tokens = 300; tokens <= 1024; tokens += 50, ++count) {
    const MeasuredBatch batch = Mixed({tokens, 0}, 0, 0);
    const double us = engine_.DeviceUs(batch);
    const BatchShape shape = batch.shape();
    off_before += before->IterationTime(shape).micros() / us - 1;
    off_after += after->IterationTime(shape).micros() / us - 1;
  }
  EXPECT_GT(off_before / count, 0.03);
  EXPECT_NEAR(off_after / count, 0, 0.01);
}

TEST_F(ProfilerTest, SeesNoThrottlingWhereThereIsNone) {
  const auto journal = OpenJournal();
  Profiler profiler(Options(absl::Minutes(5)), &engine_, journal.get());
  ASSERT_OK_AND_ASSIGN(const ProfileData data, MeasureAndCalibrate(profiler));
  EXPECT_EQ(data.throttle.time_constant_us, 0);
}

TEST_F(ProfilerTest, SmallBudgetsGiveCoarseGrids) {
  const auto journal = OpenJournal();
  Profiler rich(Options(absl::Minutes(5)), &engine_, journal.get());
  ASSERT_OK_AND_ASSIGN(const ProfileData fine, rich.Measure());
  const absl::Time begin = engine_.now;
  std::remove(JournalPath().c_str());
  const auto other = OpenJournal();
  Profiler poor(Options(absl::Seconds(10)), &engine_, other.get());
  ASSERT_OK_AND_ASSIGN(const ProfileData coarse, poor.Measure());
  EXPECT_LT(coarse.mixed.values.size(), fine.mixed.values.size() / 2);
  // Only the coarsest grids may pass the budget.
  EXPECT_LT(engine_.now - begin, absl::Seconds(30));
}

TEST_F(ProfilerTest, GoesOnAfterAFailure) {
  engine_.fail_at = 1500;
  {
    const auto journal = OpenJournal();
    Profiler profiler(Options(absl::Minutes(5)), &engine_, journal.get());
    EXPECT_THAT(profiler.Measure(), StatusIs(absl::StatusCode::kInternal,
                                             HasSubstr("fell off the bus")));
  }
  engine_.fail_at = -1;
  const std::map<std::string, int> before = engine_.calls_by_key;
  const auto journal = OpenJournal();
  EXPECT_GE(journal->resumed(), 64);
  Profiler profiler(Options(absl::Minutes(5)), &engine_, journal.get());
  ASSERT_OK_AND_ASSIGN(const ProfileData data, profiler.Measure());
  int repeated = 0;
  for (const auto& [key, calls] : before) {
    if (engine_.calls_by_key[key] > calls) ++repeated;
  }
  // Those that were measured together when it failed, and no others: a part of
  // 64, and what paces them.
  EXPECT_LE(repeated, 66);
}

TEST_F(ProfilerTest, StopsWhenTold) {
  const auto journal = OpenJournal();
  ProfilerOptions options = Options(absl::Minutes(5));
  std::vector<double> shares;
  options.progress = [&](double share) {
    shares.push_back(share);
    return shares.size() < 100;
  };
  Profiler profiler(options, &engine_, journal.get());
  EXPECT_THAT(profiler.Measure(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(shares.size(), 100u);
  EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
}

TEST(SummarizeTest, ByHand) {
  const std::vector<CheckRow> rows = {
      {"a", 100, 102, false}, {"b", 100, 96, false}, {"c", 200, 200, false}};
  const CheckSummary summary = Summarize(rows);
  EXPECT_NEAR(summary.mean_error, 0.02, 1e-12);
  EXPECT_NEAR(summary.bias, -0.02 / 3, 1e-12);
  // 0, 0.02, 0.04 at rank 1.9.
  EXPECT_NEAR(summary.p95_error, 0.038, 1e-12);
}

}  // namespace
}  // namespace interleave::sim
