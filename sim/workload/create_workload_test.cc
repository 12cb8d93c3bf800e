#include "sim/workload/create_workload.h"

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/public_data.h"
#include "base/sim_time.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "scheduler/request_spec.h"
#include "sim/workload/workload.h"
#include "sim/workload/workload.pb.h"

namespace interleave::sim {
namespace {

using ::interleave::scheduler::PromptSegment;
using ::interleave::scheduler::RequestSpec;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

WorkloadConfig Config(const std::string& text) {
  WorkloadConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config))
      << text;
  return config;
}

absl::StatusOr<std::unique_ptr<Workload>> Create(
    const std::string& text, std::vector<std::string>* notices = nullptr) {
  return CreateWorkload(Config(text), /*seed=*/42, notices);
}

std::vector<RequestSpec> TakeAll(Workload& workload) {
  std::vector<RequestSpec> requests;
  while (workload.NextArrival() < SimTime::Infinity()) {
    requests.push_back(workload.Next());
  }
  return requests;
}

std::vector<RequestSpec> RequestsOf(
    const std::string& text, std::vector<std::string>* notices = nullptr) {
  absl::StatusOr<std::unique_ptr<Workload>> workload = Create(text, notices);
  EXPECT_THAT(workload, IsOk());
  if (!workload.ok()) return {};
  std::vector<RequestSpec> requests = TakeAll(**workload);
  EXPECT_EQ((*workload)->TotalRequests(), requests.size());
  return requests;
}

// The path of a file with the given content.
std::string WriteFile(const std::string& name, const std::string& content) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
  std::ofstream(path) << content;
  return path;
}

std::string ReplayFile() {
  return WriteFile("replay.csv",
                   "input_toks,output_toks,arrival_time_ns\n"
                   "10,1,1000000000\n20,2,2000000000\n30,3,5000000000\n");
}

std::string LengthsFile() {
  return WriteFile("lengths.csv",
                   "num_prefill_tokens,num_decode_tokens\n10,1\n20,2\n30,3\n");
}

constexpr char kLognormal[] =
    "generator { prompt_tokens { lognormal { mean: 1000 sigma: 0.8 } } "
    "output_tokens { lognormal { mean: 200 cv: 1 } } } ";
constexpr char kFixed[] =
    "generator { prompt_tokens { fixed { tokens: 100 } } "
    "output_tokens { fixed { tokens: 10 } } } ";

TEST(CreateWorkloadTest, Generator) {
  const std::vector<RequestSpec> requests = RequestsOf(absl::StrCat(
      kLognormal, "arrival { poisson { rate_rps: 5 } } num_requests: 100000"));
  ASSERT_EQ(requests.size(), 100000);
  double prompt = 0;
  double output = 0;
  for (const RequestSpec& spec : requests) {
    prompt += spec.prompt_tokens;
    output += spec.output_tokens;
  }
  EXPECT_NEAR(prompt / 100000, 1000, 12);
  EXPECT_NEAR(output / 100000, 200, 3);
  EXPECT_NEAR(100000 / requests.back().arrival.seconds(), 5, 0.06);
}

// A change here changes every simulation with a generated workload.
TEST(CreateWorkloadTest, GoldenRequests) {
  const std::vector<RequestSpec> requests = RequestsOf(absl::StrCat(
      kLognormal, "arrival { poisson { rate_rps: 5 } } num_requests: 3"));
  ASSERT_EQ(requests.size(), 3);
  EXPECT_EQ(requests[0].arrival.nanos(), 130891068);
  EXPECT_EQ(requests[0].prompt_tokens, 890);
  EXPECT_EQ(requests[0].output_tokens, 211);
  EXPECT_EQ(requests[2].arrival.nanos(), 739884653);
  EXPECT_EQ(requests[2].prompt_tokens, 1819);
  EXPECT_EQ(requests[2].output_tokens, 245);
}

TEST(CreateWorkloadTest, SeedDecides) {
  const WorkloadConfig config = Config(absl::StrCat(
      kLognormal, "arrival { gamma { rate_rps: 5 cv: 2 } } num_requests: 100"));
  std::vector<std::vector<RequestSpec>> runs;
  for (const uint64_t seed : {1, 1, 2}) {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Workload> workload,
                         CreateWorkload(config, seed, nullptr));
    runs.push_back(TakeAll(*workload));
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_NE(runs[0], runs[2]);
}

TEST(CreateWorkloadTest, EveryLengthLaw) {
  const std::string path = LengthsFile();
  const std::vector<RequestSpec> zipf = RequestsOf(
      "generator { prompt_tokens { zipf { min: 5 max: 9 exponent: 1 } } "
      "output_tokens { uniform { min: 2 max: 3 } } } "
      "arrival { constant { rate_rps: 1 } } num_requests: 100");
  for (const RequestSpec& spec : zipf) {
    EXPECT_GE(spec.prompt_tokens, 5);
    EXPECT_LE(spec.prompt_tokens, 9);
    EXPECT_GE(spec.output_tokens, 2);
    EXPECT_LE(spec.output_tokens, 3);
  }
  const std::vector<RequestSpec> resampled = RequestsOf(
      absl::StrCat("generator { prompt_tokens { resampled { path: '", path,
                   "' } } output_tokens { resampled { path: '", path,
                   "' format: 'lengths' } } } arrival { all_at_once {} } "
                   "num_requests: 100"));
  for (const RequestSpec& spec : resampled) {
    EXPECT_EQ(spec.prompt_tokens % 10, 0);
    EXPECT_LE(spec.output_tokens, 3);
    EXPECT_EQ(spec.arrival, SimTime::Zero());
  }
  const std::vector<RequestSpec> pairs = RequestsOf(
      absl::StrCat("generator { length_pairs { path: '", path,
                   "' } } arrival { all_at_once {} } num_requests: 100"));
  for (const RequestSpec& spec : pairs) {
    EXPECT_EQ(spec.prompt_tokens, 10 * spec.output_tokens);
  }
}

TEST(CreateWorkloadTest, ClosedLoop) {
  ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<Workload> workload,
      Create(absl::StrCat(kFixed,
                          "arrival { closed_loop { users: 2 "
                          "think_time_s: 0.5 } } num_requests: 3")));
  workload->Next();
  workload->Next();
  EXPECT_EQ(workload->NextArrival(), SimTime::Infinity());
  workload->OnRequestDone(0, SimTime::FromSeconds(1));
  EXPECT_EQ(workload->Next().arrival, SimTime::FromSeconds(1.5));
}

TEST(CreateWorkloadTest, TraceAsItIs) {
  std::vector<std::string> notices;
  const std::vector<RequestSpec> requests = RequestsOf(
      absl::StrCat("trace { path: '", ReplayFile(), "' }"), &notices);
  ASSERT_EQ(requests.size(), 3);
  EXPECT_EQ(requests[0].arrival, SimTime::FromSeconds(1));
  EXPECT_EQ(requests[2].arrival, SimTime::FromSeconds(5));
  EXPECT_EQ(requests[2].prompt_tokens, 30);
  EXPECT_THAT(notices, IsEmpty());
}

TEST(CreateWorkloadTest, TraceAtAnotherRate) {
  const std::vector<RequestSpec> scaled = RequestsOf(
      absl::StrCat("trace { path: '", ReplayFile(), "' rate_scale: 2 }"));
  ASSERT_EQ(scaled.size(), 3);
  EXPECT_EQ(scaled[0].arrival, SimTime::FromSeconds(0.5));
  EXPECT_EQ(scaled[2].arrival, SimTime::FromSeconds(2.5));
  // Two gaps in 4 s become two in 0.5 s.
  const std::vector<RequestSpec> rated = RequestsOf(
      absl::StrCat("trace { path: '", ReplayFile(), "' rate_rps: 4 }"));
  ASSERT_EQ(rated.size(), 3);
  EXPECT_EQ(rated[2].arrival - rated[0].arrival, SimDuration::Seconds(0.5));
}

TEST(CreateWorkloadTest, TraceWithOtherArrivals) {
  const std::vector<RequestSpec> requests =
      RequestsOf(absl::StrCat("trace { path: '", LengthsFile(),
                              "' } arrival { constant { rate_rps: 2 } }"));
  ASSERT_EQ(requests.size(), 3);
  EXPECT_EQ(requests[1].arrival, SimTime::FromSeconds(0.5));
  EXPECT_EQ(requests[1].prompt_tokens, 20);
}

TEST(CreateWorkloadTest, TraceCutAndNotLongEnough) {
  std::vector<std::string> notices;
  EXPECT_EQ(RequestsOf(absl::StrCat("trace { path: '", ReplayFile(),
                                    "' } num_requests: 2"),
                       &notices)
                .size(),
            2);
  EXPECT_THAT(notices, IsEmpty());
  EXPECT_EQ(RequestsOf(absl::StrCat("trace { path: '", ReplayFile(),
                                    "' } num_requests: 4"),
                       &notices)
                .size(),
            3);
  EXPECT_THAT(notices, ElementsAre(HasSubstr("num_requests is 4, the file has "
                                             "3: all of them are used")));
}

TEST(CreateWorkloadTest, ReadersNoticesArePassedOn) {
  const std::string path = WriteFile(
      "unsorted.csv", "input_toks,output_toks,arrival_time_ns\n1,1,9\n1,1,3\n");
  std::vector<std::string> notices;
  RequestsOf(absl::StrCat("trace { path: '", path, "' }"), &notices);
  EXPECT_THAT(notices, ElementsAre(HasSubstr("sorted by arrival")));
}

TEST(CreateWorkloadTest, ClassesPrefixesAndLimit) {
  std::vector<std::string> notices;
  const std::vector<RequestSpec> requests = RequestsOf(
      absl::StrCat("trace { path: '", ReplayFile(),
                   "' } request_class { tenant: 4 priority: -2 ttft_slo_ms: "
                   "100 tbt_slo_ms: 20 } shared_prefix { tokens: 16 } "
                   "max_output_tokens: 2"),
      &notices);
  ASSERT_EQ(requests.size(), 3);
  for (const RequestSpec& spec : requests) {
    EXPECT_EQ(spec.tenant, 4);
    EXPECT_EQ(spec.priority, -2);
    EXPECT_EQ(spec.slo.ttft, SimDuration::Millis(100));
    EXPECT_EQ(spec.slo.tbt, SimDuration::Millis(20));
    EXPECT_EQ(spec.max_output_tokens, 2);
    EXPECT_LE(spec.output_tokens, 2);
  }
  EXPECT_THAT(requests[0].segments, ElementsAre(PromptSegment{0, 10}));
  EXPECT_THAT(requests[1].segments, ElementsAre(PromptSegment{0, 16}));
  EXPECT_THAT(
      notices,
      ElementsAre(HasSubstr("1 of 3 outputs cut to max_output_tokens 2")));
}

TEST(CreateWorkloadTest, DecorationsLeaveTheOthersDraws) {
  const std::string base = absl::StrCat(
      kLognormal, "arrival { poisson { rate_rps: 5 } } num_requests: 50 ");
  std::vector<RequestSpec> plain = RequestsOf(base);
  std::vector<RequestSpec> decorated = RequestsOf(absl::StrCat(
      base,
      "request_class { tenant: 1 } request_class { tenant: 2 } "
      "shared_prefix { tokens: 8 fraction: 0.5 num_prefixes: 4 }"));
  for (RequestSpec& spec : decorated) {
    spec.tenant = 0;
    spec.segments.clear();
  }
  EXPECT_EQ(decorated, plain);
}

TEST(CreateWorkloadTest, MissingFile) {
  EXPECT_THAT(
      Create("trace { path: '/no/such/trace.csv' }"),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("/no/such/trace.csv")));
}

TEST(CreateWorkloadTest, ErrorsNameTheFieldAndTheRemedy) {
  const std::string replay = absl::StrCat("path: '", ReplayFile(), "'");
  const std::string lengths = absl::StrCat("path: '", LengthsFile(), "'");
  const std::string classed = absl::StrCat(
      "path: '",
      WriteFile("classed.csv",
                "arrival_s,prompt_tokens,output_tokens,tenant,prefix_id,"
                "prefix_tokens\n0,9,1,3,1,4\n0,9,1,3,1,4\n"),
      "'");
  const std::string arrival = "arrival { poisson { rate_rps: 1 } } ";
  const std::string count = "num_requests: 10 ";
  const std::string tail = arrival + count;
  const auto prompt = [&](const std::string& law) {
    return absl::StrCat("generator { prompt_tokens { ", law,
                        " } output_tokens { fixed { tokens: 1 } } } ", tail);
  };
  struct Case {
    std::string config;
    const char* message;
  };
  const std::vector<Case> cases = {
      {"", "the workload has no source; set trace or generator"},
      {kFixed + count, "arrival is missing; a generator needs it"},
      {kFixed + arrival,
       "num_requests is missing; a generator never ends by itself"},
      {kFixed + arrival + "num_requests: 0",
       "num_requests is 0; it must be in [1, 1000000000000]"},
      {"generator { output_tokens { fixed { tokens: 1 } } } " + tail,
       "generator.prompt_tokens has no law; set one of fixed, uniform, "
       "lognormal, zipf, resampled"},
      {prompt("fixed {}"),
       "generator.prompt_tokens.fixed.tokens is missing; set it to a number in "
       "[1, 1000000000]"},
      {prompt("fixed { tokens: 0 }"),
       "generator.prompt_tokens.fixed.tokens is 0; it must be in [1, "
       "1000000000]"},
      {prompt("uniform { min: 9 max: 2 }"),
       "generator.prompt_tokens.uniform has min 9 above max 2; exchange them"},
      {prompt("uniform { min: 9 }"),
       "generator.prompt_tokens.uniform.max is missing"},
      {prompt("zipf { min: 1 max: 9 exponent: -1 }"),
       "generator.prompt_tokens.zipf.exponent is -1; it must be in [0, 20]"},
      {prompt("zipf { min: 1 max: 9 }"),
       "generator.prompt_tokens.zipf.exponent is missing"},
      {prompt("lognormal { sigma: 1 }"),
       "generator.prompt_tokens.lognormal.mean is missing"},
      {prompt("lognormal { mean: nan sigma: 1 }"),
       "generator.prompt_tokens.lognormal.mean is nan; it must be in [1, "},
      {prompt("lognormal { mean: 9 }"),
       "generator.prompt_tokens.lognormal needs exactly one of sigma and cv"},
      {prompt("lognormal { mean: 9 sigma: 1 cv: 1 }"),
       "generator.prompt_tokens.lognormal needs exactly one of sigma and cv"},
      {prompt("lognormal { mean: 9 sigma: 1 min: 0 }"),
       "generator.prompt_tokens.lognormal.min is 0"},
      {prompt("resampled {}"),
       "generator.prompt_tokens.resampled.path is missing; set it to the path "
       "of a trace"},
      {absl::StrCat("generator { prompt_tokens { fixed { tokens: 1 } } "
                    "length_pairs { ",
                    lengths, " } } ", tail),
       "generator.length_pairs gives prompts and outputs; remove prompt_tokens "
       "and output_tokens"},
      {kFixed + count + "arrival {}",
       "arrival has no law; set one of poisson, gamma, constant, closed_loop, "
       "all_at_once"},
      {kFixed + count + "arrival { poisson {} }",
       "arrival.poisson.rate_rps is missing; set it to a number in [0.001, "
       "1e+09]"},
      {kFixed + count + "arrival { poisson { rate_rps: -1 } }",
       "arrival.poisson.rate_rps is -1; it must be in [0.001, 1e+09]"},
      {kFixed + count + "arrival { constant { rate_rps: inf } }",
       "arrival.constant.rate_rps is infinite; for all requests at time zero "
       "use arrival { all_at_once {} }"},
      {std::string(kFixed) +
           "num_requests: 1000000000000 arrival { gamma { rate_rps: 1 cv: 1 } "
           "}",
       "arrival.gamma.rate_rps is 1, at which 1000000000000 requests take more "
       "than 1000000000 s; raise it or lower num_requests"},
      {kFixed + count + "arrival { gamma { rate_rps: 1 } }",
       "arrival.gamma.cv is missing"},
      {kFixed + count + "arrival { closed_loop { users: 0 } }",
       "arrival.closed_loop.users is 0; it must be in [1, 10000000]"},
      {kFixed + count + "arrival { closed_loop { users: 1 start_gap_s: -1 } }",
       "arrival.closed_loop.start_gap_s is -1"},
      {kFixed + count + "arrival { closed_loop { users: 1 think_time_s: -1 } }",
       "arrival.closed_loop.think_time_s is -1"},
      {kFixed + tail + "request_class { weight: 0 }",
       "request_class[0].weight is 0; it must be in [1e-09, 1e+09]"},
      {kFixed + tail + "request_class {} request_class { tenant: -1 }",
       "request_class[1].tenant is -1; it must be in [0, 1000000]"},
      {kFixed + tail + "request_class { ttft_slo_ms: 0 }",
       "request_class[0].ttft_slo_ms is 0"},
      {kFixed + tail + "request_class { tbt_slo_ms: inf }",
       "request_class[0].tbt_slo_ms is inf"},
      {kFixed + tail + "shared_prefix {}", "shared_prefix.tokens is missing"},
      {kFixed + tail + "shared_prefix { tokens: 1 fraction: 1.5 }",
       "shared_prefix.fraction is 1.5; it must be in [0, 1]"},
      {kFixed + tail + "shared_prefix { tokens: 1 num_prefixes: 0 }",
       "shared_prefix.num_prefixes is 0"},
      {kFixed + tail + "max_output_tokens: 0",
       "max_output_tokens is 0; it must be in [1, 1000000000]"},
      {"trace {}", "trace.path is missing; set it to the path of a trace"},
      {absl::StrCat("trace { ", replay, " format: 'csv' }"),
       "unknown workload format \"csv\"; known are azure2023, mooncake, "
       "lengths, replay, requests"},
      {absl::StrCat("trace { ", lengths, " }"), "arrival is missing; "},
      {absl::StrCat("trace { ", replay, " rate_scale: 2 } ", arrival),
       "arrival replaces the trace's arrivals; remove it, or trace.rate_scale "
       "and trace.rate_rps"},
      {absl::StrCat("trace { ", replay, " rate_scale: 2 rate_rps: 2 }"),
       "trace has both rate_scale and rate_rps; remove one"},
      {absl::StrCat("trace { ", replay, " rate_scale: 0 }"),
       "trace.rate_scale is 0; it must be in [1e-06, 1e+06]"},
      {absl::StrCat("trace { ", replay, " rate_rps: 0 }"),
       "trace.rate_rps is 0; it must be in [0.001, 1e+09]"},
      {absl::StrCat("trace { ", classed, " rate_rps: 3 }"),
       "trace.rate_rps cannot be reached: all requests arrive at once; use "
       "arrival instead"},
      {absl::StrCat("trace { ", classed, " } request_class { tenant: 1 }"),
       "request_class must be absent: "},
      {absl::StrCat("trace { ", classed, " } shared_prefix { tokens: 4 }"),
       "shared_prefix must be absent: "},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(Create(c.config), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr(c.message)))
        << c.config;
  }
}

// The whole public trace through the factory, where INTERLEAVE_DATA has it.
TEST(CreateWorkloadTest, AzureTraceAtAGivenRate) {
  const std::string folder = PublicDataFolder();
  if (folder.empty()) {
    GTEST_SKIP() << "INTERLEAVE_DATA names no folder with public traces";
  }
  const std::vector<RequestSpec> requests = RequestsOf(absl::StrCat(
      "trace { path: '", folder,
      "/azure2023/AzureLLMInferenceTrace_conv.csv' rate_rps: 10 }"));
  ASSERT_EQ(requests.size(), 19366);
  EXPECT_NEAR(19365 / requests.back().arrival.seconds(), 10, 1e-6);
}

}  // namespace
}  // namespace interleave::sim
