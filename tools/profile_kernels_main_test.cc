#include "tools/profile_kernels_main.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/sim_time.h"
#include "base/status_testing.h"
#include "base/text_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sim/cost/profile_tables.h"
#include "sim/kernel_executor/batch_runner.h"
#include "sim/testing/fake_samples.h"

namespace interleave::tools {
namespace {

using ::testing::HasSubstr;

// A card whose times are formulas, on a clock of its own.
class FakeCard final : public sim::BatchRunner {
 public:
  static constexpr int32_t kGraphSizes[] = {1, 2, 4, 8, 16, 24};

  explicit FakeCard(absl::Time* now) : now_(now) {}

  absl::StatusOr<sim::DecoderTiming> Run(const sim::DecoderBatch& batch,
                                         sim::DecoderOutput* output) override {
    if (output != nullptr) sim::SampleFakes(batch, output);
    double us = 1;
    if (batch.part != sim::BatchPart::kAttention)
      us += 999 + 2.0 * Padded(batch);
    for (const sim::DecoderSequence& s : batch.sequences) {
      if (batch.part == sim::BatchPart::kWithoutAttention) break;
      // Pairs of a token and one before it.
      us += 0.01 * s.num_tokens * (s.cached_tokens + (s.num_tokens - 1) / 2.0);
    }
    if (batch.layers > 0) us *= batch.layers / 32.0;
    *now_ += absl::Microseconds(us);
    return sim::DecoderTiming{SimDuration::Micros(us), SimDuration::Micros(25)};
  }
  int32_t vocab_size() const override { return 1000; }
  int32_t block_size() const override { return 16; }
  int64_t num_blocks() const override { return 1000; }
  std::string Description() const override { return "a fake card"; }

 private:
  // Tokens, of decodes alone those of the graph that is replayed.
  static double Padded(const sim::DecoderBatch& batch) {
    const auto tokens = static_cast<int32_t>(batch.tokens.size());
    if (batch.tokens.size() != batch.sequences.size()) return tokens;
    const auto* const size = std::lower_bound(std::begin(kGraphSizes),
                                              std::end(kGraphSizes), tokens);
    return size == std::end(kGraphSizes) ? tokens : *size;
  }

  absl::Time* const now_;
};

class ProfileKernelsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(
        ::testing::TempDir(), "/",
        ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    environment_.out = &out_;
    environment_.err = &err_;
    environment_.now = [this] { return now_; };
    environment_.create_engine = [this](const sim::ModelSpec& model,
                                        const EngineLimits& limits,
                                        const std::string& linear_choices)
        -> absl::StatusOr<ProfiledEngine> {
      limits_ = limits;
      asked_choices_ = linear_choices;
      ProfiledEngine engine;
      engine.runner = std::make_unique<FakeCard>(&now_);
      engine.gpu = "Fake H200";
      engine.driver_version = "1.2";
      engine.cuda_version = "13.0";
      engine.graph_sizes.assign(std::begin(FakeCard::kGraphSizes),
                                std::end(FakeCard::kGraphSizes));
      engine.linear_choices = "what the engine chose";
      return engine;
    };
  }

  int Run(std::vector<std::string> more) {
    std::vector<std::string> args = {
        "--max_chunk=256",    "--max_mixed_chunk=256", "--max_context=512",
        "--max_sequences=16", "--max_kv=1024",         "--checks=20",
        "--minutes=1"};
    args.insert(args.end(), more.begin(), more.end());
    return ProfileKernelsMain(args, environment_);
  }

  std::string folder_;
  std::ostringstream out_;
  std::ostringstream err_;
  absl::Time now_ = absl::FromUnixSeconds(1'000'000'000);
  EngineLimits limits_;
  std::string asked_choices_;
  ProfileKernelsEnvironment environment_;
};

TEST_F(ProfileKernelsTest, WritesTablesThatPredictTheCard) {
  const std::string profile = folder_ + "/profile";
  ASSERT_EQ(Run({"--out=" + profile}), 0) << err_.str();
  EXPECT_EQ(limits_.max_num_seqs, 24);
  EXPECT_EQ(limits_.max_num_batched_tokens, 272);
  EXPECT_EQ(limits_.max_model_len, 4097);
  ASSERT_OK_AND_ASSIGN(const sim::ProfileTables tables,
                       sim::ReadProfileTables(profile));
  EXPECT_EQ(tables.meta.at("model_name"), "llama3.1_8b");
  EXPECT_EQ(tables.meta.at("gpu"), "Fake H200");
  EXPECT_EQ(tables.meta.at("driver_version"), "1.2");
  EXPECT_EQ(tables.meta.at("profiled_at"), "2001-09-09T01:46:40Z");
  EXPECT_THAT(tables.meta.at("command"),
              HasSubstr("profile_kernels --max_chunk=256"));
  EXPECT_TRUE(tables.host.has_value());
  EXPECT_EQ(tables.linear_choices, "what the engine chose");
  bool outside = false;
  // 0.01 us a cached token, in 32 layers.
  EXPECT_NEAR(tables.attention.decode.At({16, 1024}, &outside), 16 * 10.24 / 32,
              1e-3);
  // Little is missed but chunks below 16 tokens.
  EXPECT_THAT(tables.meta.at("check"), HasSubstr("mean error 0."));
  EXPECT_THAT(ReadTextFile(profile + "/check.csv"),
              IsOkAndHolds(HasSubstr("batch,measured_us")));
  EXPECT_FALSE(std::filesystem::exists(profile + ".journal"));
  EXPECT_FALSE(std::filesystem::exists(profile + ".linear_choices"));
  EXPECT_EQ(asked_choices_, "");
}

TEST_F(ProfileKernelsTest, AnInterruptionKeepsWhatWasMeasured) {
  const std::string profile = folder_ + "/profile";
  int asked = 0;
  environment_.interrupted = [&] { return ++asked > 300; };
  EXPECT_EQ(Run({"--out=" + profile}), 130);
  EXPECT_THAT(err_.str(), HasSubstr("the same command goes on"));
  EXPECT_FALSE(std::filesystem::exists(profile));
  environment_.interrupted = nullptr;
  EXPECT_EQ(Run({"--out=" + profile}), 0) << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("going on after"));
  // By what measured the first part.
  EXPECT_EQ(asked_choices_, "what the engine chose");
  EXPECT_TRUE(std::filesystem::exists(profile + "/attention.csv"));
}

TEST_F(ProfileKernelsTest, LinearChoicesWithoutAJournalAreNobodys) {
  std::ofstream(folder_ + "/profile.linear_choices") << "forgotten";
  EXPECT_EQ(Run({"--out=" + folder_ + "/profile"}), 0) << err_.str();
  EXPECT_EQ(asked_choices_, "");
}

TEST_F(ProfileKernelsTest, GoesByTheLinearChoicesOfAnother) {
  const std::string choices = folder_ + "/linear_choices.csv";
  EXPECT_EQ(
      Run({"--out=" + folder_ + "/profile", "--linear_choices=" + choices}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("No such file"));
  std::ofstream(choices) << "another's";
  EXPECT_EQ(
      Run({"--out=" + folder_ + "/profile", "--linear_choices=" + choices}), 0)
      << err_.str();
  EXPECT_EQ(asked_choices_, "another's");
}

TEST_F(ProfileKernelsTest, WithoutACard) {
  environment_.create_engine =
      [](const sim::ModelSpec&, const EngineLimits&,
         const std::string&) -> absl::StatusOr<ProfiledEngine> {
    return absl::FailedPreconditionError("there is no CUDA device");
  };
  const std::string profile = folder_ + "/profile";
  EXPECT_EQ(Run({"--out=" + profile}), 1);
  EXPECT_EQ(err_.str(), "profile_kernels: there is no CUDA device\n");
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(ProfileKernelsTest, BadInput) {
  EXPECT_EQ(Run({}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("--out=DIR"));
  EXPECT_EQ(Run({"--out=" + folder_ + "/p", "--model=gpt"}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("llama3.1_8b"));
  EXPECT_EQ(Run({"--out=" + folder_ + "/p", "--minutes=0"}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("from 0.01 to 1000"));
  EXPECT_EQ(Run({"--out=" + folder_ + "/p", "--checks=-1"}), 2);
  EXPECT_EQ(Run({"--help"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("--max_context"));
}

}  // namespace
}  // namespace interleave::tools
