#include "sim/workload/trace_reader.h"

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "base/public_data.h"
#include "base/random.h"
#include "base/sim_time.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/request_spec.h"

namespace interleave::sim {
namespace {

using ::interleave::scheduler::PromptSegment;
using ::interleave::scheduler::RequestSpec;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kAzure[] =
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2023-11-16 23:59:59.9000000,374,44\n"
    "2023-11-17 00:00:01.0000001,91,16";
constexpr char kMooncake[] =
    "{\"timestamp\": 0, \"input_length\": 1025, \"output_length\": 5, "
    "\"hash_ids\": [0, 7, 9]}\n"
    "{\"timestamp\": 3000, \"input_length\": 512, \"output_length\": 1, "
    "\"hash_ids\": [0]}\n";
constexpr char kLengths[] =
    "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n"
    "74,918,992,0.0806100217864923\n"
    "290,905,1195,0.3204419889502762\n";
constexpr char kReplay[] =
    "input_toks,output_toks,arrival_time_ns\n"
    "2358,531,46926808\n"
    "1034,769,347938951\n";
constexpr char kRequests[] =
    "arrival_s,prompt_tokens,output_tokens,tenant,priority,ttft_slo_ms,"
    "tbt_slo_ms,prefix_id,prefix_tokens\n"
    "0.25,100,10,3,-1,200,25.5,8,64\n"
    "1e1,200,20,0,0,,,,\n"
    "11,200,20,0,0,1,,5,0\n";

struct Sample {
  const char* format;
  const char* text;
};
constexpr Sample kSamples[] = {{"azure2023", kAzure},
                               {"mooncake", kMooncake},
                               {"lengths", kLengths},
                               {"replay", kReplay},
                               {"requests", kRequests}};

// Parses as the format that the first line tells.
absl::StatusOr<TraceReadResult> Parse(absl::string_view text) {
  const absl::StatusOr<TraceFormat> format = GuessTraceFormat(text, "t");
  if (!format.ok()) return format.status();
  return ParseTrace(text, "t", *format);
}

std::string Replaced(absl::string_view text, absl::string_view from,
                     absl::string_view to) {
  return absl::StrReplaceAll(text, {{from, to}});
}

auto IsInvalid(const std::string& message) {
  return StatusIs(absl::StatusCode::kInvalidArgument, message);
}

auto IsInvalidWith(const std::string& part) {
  return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part));
}

// What every trace that is accepted promises.
void CheckPromises(const TraceReadResult& result) {
  ASSERT_FALSE(result.requests.empty());
  SimTime last = SimTime::Zero();
  int64_t id = 0;
  for (const RequestSpec& spec : result.requests) {
    ASSERT_EQ(spec.id, id++);
    ASSERT_GE(spec.arrival, last);
    last = spec.arrival;
    ASSERT_GE(spec.prompt_tokens, 1);
    ASSERT_GE(spec.output_tokens, 1);
    ASSERT_EQ(spec.max_output_tokens, spec.output_tokens);
    int64_t named = 0;
    for (const PromptSegment& segment : spec.segments) {
      ASSERT_GE(segment.num_tokens, 1);
      ASSERT_GE(segment.content_id, 0);
      named += segment.num_tokens;
    }
    ASSERT_LE(named, spec.prompt_tokens);
    if (!result.has_arrivals) {
      ASSERT_EQ(spec.arrival, SimTime::Zero());
    }
  }
}

TEST(TraceFormatTest, NamesGoBothWays) {
  for (const Sample& sample : kSamples) {
    ASSERT_OK_AND_ASSIGN(const TraceFormat format,
                         TraceFormatFromName(sample.format));
    EXPECT_EQ(TraceFormatName(format), sample.format);
  }
}

TEST(TraceFormatTest, UnknownNameListsTheKnown) {
  EXPECT_THAT(TraceFormatFromName("azure"),
              IsInvalid("unknown workload format \"azure\"; known are "
                        "azure2023, mooncake, lengths, replay, requests"));
}

TEST(TraceFormatTest, GuessesFromTheFirstLine) {
  for (const Sample& sample : kSamples) {
    ASSERT_OK_AND_ASSIGN(const TraceFormat format,
                         GuessTraceFormat(sample.text, "t"));
    EXPECT_EQ(TraceFormatName(format), sample.format);
  }
}

TEST(TraceFormatTest, SaysWhenNothingFits) {
  EXPECT_THAT(GuessTraceFormat("a,b\n1,2\n", "t.csv"),
              IsInvalid("t.csv:1: \"a,b\" starts no known format; name the "
                        "columns as one of azure2023, mooncake, lengths, "
                        "replay, requests does, or give the format"));
  EXPECT_THAT(GuessTraceFormat("\n", "t.csv"),
              IsInvalidWith("t.csv:1: the file is empty"));
}

TEST(TraceReaderTest, Azure2023) {
  ASSERT_OK_AND_ASSIGN(const TraceReadResult result, Parse(kAzure));
  CheckPromises(result);
  ASSERT_EQ(result.requests.size(), 2);
  EXPECT_EQ(result.requests[0].arrival, SimTime::Zero());
  EXPECT_EQ(result.requests[0].prompt_tokens, 374);
  EXPECT_EQ(result.requests[0].output_tokens, 44);
  EXPECT_EQ(result.requests[1].arrival, SimTime::FromNanos(1'100'000'100));
  EXPECT_EQ(result.requests[1].prompt_tokens, 91);
  EXPECT_THAT(result.requests[1].segments, IsEmpty());
  EXPECT_THAT(result.notices, IsEmpty());
}

TEST(TraceReaderTest, Mooncake) {
  ASSERT_OK_AND_ASSIGN(const TraceReadResult result, Parse(kMooncake));
  CheckPromises(result);
  ASSERT_EQ(result.requests.size(), 2);
  EXPECT_EQ(result.requests[0].prompt_tokens, 1025);
  EXPECT_EQ(result.requests[0].output_tokens, 5);
  EXPECT_THAT(result.requests[0].segments,
              ElementsAre(PromptSegment{0, 512}, PromptSegment{7, 512},
                          PromptSegment{9, 1}));
  EXPECT_EQ(result.requests[1].arrival, SimTime::FromSeconds(3));
  EXPECT_THAT(result.requests[1].segments, ElementsAre(PromptSegment{0, 512}));
}

TEST(TraceReaderTest, Lengths) {
  ASSERT_OK_AND_ASSIGN(const TraceReadResult result, Parse(kLengths));
  CheckPromises(result);
  EXPECT_FALSE(result.has_arrivals);
  ASSERT_EQ(result.requests.size(), 2);
  EXPECT_EQ(result.requests[1].prompt_tokens, 290);
  EXPECT_EQ(result.requests[1].output_tokens, 905);
}

TEST(TraceReaderTest, Replay) {
  ASSERT_OK_AND_ASSIGN(const TraceReadResult result, Parse(kReplay));
  CheckPromises(result);
  ASSERT_EQ(result.requests.size(), 2);
  EXPECT_EQ(result.requests[0].arrival, SimTime::FromNanos(46926808));
  EXPECT_EQ(result.requests[0].prompt_tokens, 2358);
  EXPECT_EQ(result.requests[0].output_tokens, 531);
}

TEST(TraceReaderTest, Requests) {
  ASSERT_OK_AND_ASSIGN(const TraceReadResult result, Parse(kRequests));
  CheckPromises(result);
  EXPECT_TRUE(result.has_classes);
  ASSERT_EQ(result.requests.size(), 3);
  const RequestSpec& first = result.requests[0];
  EXPECT_EQ(first.arrival, SimTime::FromNanos(250'000'000));
  EXPECT_EQ(first.tenant, 3);
  EXPECT_EQ(first.priority, -1);
  EXPECT_EQ(first.slo.ttft, SimDuration::Millis(200));
  EXPECT_EQ(first.slo.tbt, SimDuration::Millis(25.5));
  EXPECT_THAT(first.segments, ElementsAre(PromptSegment{8, 64}));
  const RequestSpec& second = result.requests[1];
  EXPECT_EQ(second.arrival, SimTime::FromSeconds(10));
  EXPECT_EQ(second.slo.ttft, SimDuration::Max());
  EXPECT_EQ(second.slo.tbt, SimDuration::Max());
  EXPECT_THAT(second.segments, IsEmpty());
  EXPECT_THAT(result.requests[2].segments, IsEmpty());
}

TEST(TraceReaderTest, RequestsNeedThreeColumnsOnly) {
  ASSERT_OK_AND_ASSIGN(
      const TraceReadResult result,
      Parse("output_tokens,arrival_s,prompt_tokens\n5,0.5,7\n"));
  EXPECT_FALSE(result.has_classes);
  ASSERT_EQ(result.requests.size(), 1);
  EXPECT_EQ(result.requests[0].prompt_tokens, 7);
  EXPECT_EQ(result.requests[0].output_tokens, 5);
}

TEST(TraceReaderTest, AcceptsCrLfBomAndNoFinalNewline) {
  for (const Sample& sample : kSamples) {
    ASSERT_OK_AND_ASSIGN(const TraceReadResult plain, Parse(sample.text));
    const std::string crlf = Replaced(sample.text, "\n", "\r\n");
    std::string unended = sample.text;
    if (unended.back() == '\n') unended.pop_back();
    for (const std::string& text :
         {crlf, unended, absl::StrCat("\xef\xbb\xbf", sample.text),
          absl::StrCat("\xef\xbb\xbf", crlf, "\r\n\r\n")}) {
      ASSERT_OK_AND_ASSIGN(const TraceReadResult other, Parse(text));
      EXPECT_EQ(other.requests, plain.requests) << sample.format;
      EXPECT_THAT(other.notices, IsEmpty());
    }
  }
}

TEST(TraceReaderTest, SortsWithANotice) {
  ASSERT_OK_AND_ASSIGN(const TraceReadResult result,
                       ParseTrace("arrival_s,prompt_tokens,output_tokens\n"
                                  "5,1,1\n2,2,1\n5,3,1\n2,4,1\n",
                                  "my.csv", TraceFormat::kRequests));
  CheckPromises(result);
  std::vector<int32_t> prompts;
  for (const RequestSpec& spec : result.requests) {
    prompts.push_back(spec.prompt_tokens);
  }
  EXPECT_THAT(prompts, ElementsAre(2, 4, 1, 3));
  EXPECT_THAT(result.notices,
              ElementsAre("my.csv: 2 of 4 requests arrive before one above "
                          "them; sorted by arrival"));
}

TEST(TraceReaderTest, UnsortedAzureCountsFromTheEarliest) {
  ASSERT_OK_AND_ASSIGN(const TraceReadResult result,
                       Parse("TIMESTAMP,ContextTokens,GeneratedTokens\n"
                             "2023-11-16 18:00:02.0000000,2,1\n"
                             "2023-11-16 18:00:00.5000000,1,1\n"));
  EXPECT_EQ(result.requests[0].prompt_tokens, 1);
  EXPECT_EQ(result.requests[0].arrival, SimTime::Zero());
  EXPECT_EQ(result.requests[1].arrival, SimTime::FromSeconds(1.5));
  EXPECT_EQ(result.notices.size(), 1);
}

TEST(TraceReaderTest, AcceptsATenMillionTokenPrompt) {
  for (const std::string& text : {Replaced(kAzure, ",374,", ",10000000,"),
                                  Replaced(kLengths, "74,918", "10000000,918"),
                                  Replaced(kReplay, "2358", "10000000"),
                                  Replaced(kRequests, ",100,", ",10000000,")}) {
    ASSERT_OK_AND_ASSIGN(const TraceReadResult result, Parse(text));
    EXPECT_EQ(result.requests[0].prompt_tokens, 10000000);
  }
  std::string ids = "0";
  for (int i = 1; i < 19532; ++i) absl::StrAppend(&ids, ",", i);
  ASSERT_OK_AND_ASSIGN(
      const TraceReadResult result,
      Parse(absl::StrCat("{\"timestamp\":1,\"input_length\":10000000,"
                         "\"output_length\":1,\"hash_ids\":[",
                         ids, "]}")));
  EXPECT_EQ(result.requests[0].segments.back(), (PromptSegment{19531, 128}));
}

TEST(TraceReaderTest, EmptyFile) {
  for (const Sample& sample : kSamples) {
    ASSERT_OK_AND_ASSIGN(const TraceFormat format,
                         TraceFormatFromName(sample.format));
    for (const char* text : {"", "\n", "\xef\xbb\xbf", " \r\n\r\n"}) {
      EXPECT_THAT(ParseTrace(text, "e.csv", format),
                  IsInvalidWith("e.csv:1: the file is empty; "))
          << sample.format;
    }
  }
}

TEST(TraceReaderTest, HeaderOnly) {
  for (const Sample& sample : kSamples) {
    const absl::string_view text = sample.text;
    if (text[0] == '{') continue;
    EXPECT_THAT(Parse(text.substr(0, text.find('\n') + 1)),
                IsInvalid("t:1: the file ends after its header; it needs at "
                          "least one request"))
        << sample.format;
  }
}

TEST(TraceReaderTest, HeaderAgain) {
  for (const Sample& sample : kSamples) {
    const absl::string_view text = sample.text;
    if (text[0] == '{') continue;
    const absl::string_view header = text.substr(0, text.find('\n') + 1);
    EXPECT_THAT(Parse(absl::StrCat(header, text)),
                IsInvalid("t:2: the header again; remove this line"))
        << sample.format;
  }
}

TEST(TraceReaderTest, ColumnsThatAreMissingOrTwice) {
  EXPECT_THAT(ParseTrace("TIMESTAMP,ContextTokens\n1,2\n", "t",
                         TraceFormat::kAzure2023),
              IsInvalidWith("t:1: column GeneratedTokens is missing"));
  EXPECT_THAT(Parse("arrival_s,prompt_tokens,prompt_tokens\n"),
              IsInvalidWith("t:1: two columns are named \"prompt_tokens\""));
  EXPECT_THAT(
      Parse("arrival_s,prompt_tokens,output_tokens,prefix_id\n0,1,1,2\n"),
      IsInvalidWith("t:1: prefix_id and prefix_tokens come together"));
}

TEST(TraceReaderTest, UnknownColumnOfOurFormat) {
  EXPECT_THAT(
      Parse("arrival_s,prompt_tokens,output_tokens,slo\n0,1,1,1\n"),
      IsInvalid("t:1: unknown column \"slo\"; known are arrival_s, "
                "prompt_tokens, output_tokens, tenant, priority, ttft_slo_ms, "
                "tbt_slo_ms, prefix_id, prefix_tokens"));
}

TEST(TraceReaderTest, TruncatedLine) {
  EXPECT_THAT(Parse(Replaced(kAzure, "000001,91,16", "0")),
              IsInvalid("t:3: 1 field where the header has 3; is the line cut "
                        "short?"));
  EXPECT_THAT(Parse(Replaced(kAzure, "91,16", "91")),
              IsInvalid("t:3: 2 fields where the header has 3; is the line "
                        "cut short?"));
  EXPECT_THAT(Parse(Replaced(kAzure, "91,16", "91,")),
              IsInvalid("t:3: GeneratedTokens is empty"));
  EXPECT_THAT(Parse(Replaced(kMooncake, "[0]}\n", "[0")),
              IsInvalidWith("t:2: \"{\\\"timestamp\\\": 3000"));
  EXPECT_THAT(Parse(Replaced(kMooncake, "[0]}\n", "[0")),
              IsInvalidWith("is not a JSON object; is the line cut short?"));
}

// Each case: a sample, what to replace in it by what, the message.
TEST(TraceReaderTest, BadValues) {
  struct Case {
    const char* text;
    const char* from;
    const char* to;
    const char* message;
  };
  const Case kCases[] = {
      {kAzure, "374", "abc",
       "t:2: ContextTokens \"abc\" is not a whole number"},
      {kAzure, "374", "3.5",
       "t:2: ContextTokens \"3.5\" is not a whole number"},
      {kAzure, "374", "-374",
       "t:2: ContextTokens \"-374\" must be in [0, 1000000000]"},
      {kAzure, "374", "0",
       "t:2: ContextTokens is 0; a request has at least one token of prompt "
       "and one of output: remove the line"},
      {kAzure, "91,16", "91,0",
       "t:3: GeneratedTokens is 0; a request has at least one token of prompt "
       "and one of output: remove the line"},
      {kAzure, "374", "1000000001",
       "t:2: ContextTokens \"1000000001\" must be in [0, 1000000000]"},
      {kAzure, "374", "99999999999999999999",
       "t:2: ContextTokens \"99999999999999999999\" is out of range: it must "
       "be in [0, 1000000000]"},
      {kAzure, "2023-11-17", "2023-11-31",
       "t:3: TIMESTAMP \"2023-11-31 00:00:01.0000001\" is no date and time of "
       "the years 1970 to 2200"},
      {kAzure, "2023-11-17 ", "",
       "t:3: TIMESTAMP \"00:00:01.0000001\" is not a time like 2023-11-16 "
       "18:15:46.6805900"},
      {kAzure, "2023-11-17", "2190-11-17",
       "t: the last request arrives more than 1000000000 s after the first; "
       "correct the timestamps"},
      {kLengths, "918", "0",
       "t:2: num_decode_tokens is 0; a request has at least one token of "
       "prompt and one of output: remove the line"},
      {kReplay, "46926808", "-1",
       "t:2: arrival_time_ns \"-1\" must be in [0, 1000000000000000000]"},
      {kReplay, "46926808", "nan",
       "t:2: arrival_time_ns \"nan\" is not a whole number"},
      {kRequests, "0.25", "nan",
       "t:2: arrival_s \"nan\" must be in [0, 1e+09]"},
      {kRequests, "0.25", "inf",
       "t:2: arrival_s \"inf\" must be in [0, 1e+09]"},
      {kRequests, "0.25", "-0.25",
       "t:2: arrival_s \"-0.25\" must be in [0, 1e+09]"},
      {kRequests, "0.25", "soon", "t:2: arrival_s \"soon\" is not a number"},
      {kRequests, "10,3,", "10,-3,",
       "t:2: tenant \"-3\" must be in [0, 1000000]"},
      {kRequests, ",-1,", ",urgent,",
       "t:2: priority \"urgent\" is not a whole number"},
      {kRequests, "25.5", "0",
       "t:2: tbt_slo_ms is 0; leave the field empty for no target"},
      {kRequests, "8,64", "8,101",
       "t:2: prefix_tokens \"101\" must be in [0, 100]"},
      {kRequests, "8,64", ",64", "t:2: prefix_id is empty"},
      {kMooncake, "512, ", "0, ",
       "t:2: input_length is 0; a request has at least one token of prompt "
       "and one of output: remove the line"},
      {kMooncake, "512, ", "-1, ",
       "t:2: input_length \"-1\" must be a whole number in [0, 1000000000]"},
      {kMooncake, "512, ", "18446744073709551615, ",
       "t:2: input_length \"18446744073709551615\" must be a whole number in "
       "[0, 1000000000]"},
      {kMooncake, "512, ", "5.5, ",
       "t:2: input_length \"5.5\" must be a whole number in [0, 1000000000]"},
      {kMooncake, "512, ", "[[1]], ",
       "t:2: input_length \"array\" must be a whole number in [0, "
       "1000000000]"},
      {kMooncake, "[0]", "[0, 1]",
       "t:2: hash_ids has 2 ids where input_length 512 needs 1, one for each "
       "512 tokens"},
      {kMooncake, "[0]", "0", "t:2: hash_ids must be a list of numbers"},
      {kMooncake, "[0]", "[\"x\"]",
       "t:2: hash_ids \"\\\"x\\\"\" must be a whole number in [0, "
       "2305843009213693952]"},
      {kMooncake, "3000", "-1",
       "t:2: timestamp \"-1\" must be a whole number in [0, 1000000000000]"},
      {kMooncake, "3000", "1e300",
       "t:2: timestamp \"1e+300\" must be a whole number in [0, "
       "1000000000000]"},
      {kMooncake, "3000", "\"x\"",
       "t:2: timestamp \"\\\"x\\\"\" must be a whole number in [0, "
       "1000000000000]"},
      {kMooncake, "output_length", "output_len",
       "t:1: key output_length is missing; a request has timestamp, "
       "input_length, output_length and hash_ids"},
  };
  for (const Case& c : kCases) {
    const std::string text = Replaced(c.text, c.from, c.to);
    ASSERT_NE(text, c.text) << c.from;
    EXPECT_THAT(Parse(text), IsInvalidWith(c.message)) << c.to;
  }
}

TEST(TraceReaderTest, FractionalMillisecondsOfMooncake) {
  ASSERT_OK_AND_ASSIGN(const TraceReadResult result,
                       Parse(Replaced(kMooncake, "3000", "0.5")));
  EXPECT_EQ(result.requests[1].arrival, SimTime::FromNanos(500'000));
}

TEST(TraceReaderTest, DeeplyNestedJsonIsRefused) {
  const std::string deep(100000, '[');
  EXPECT_THAT(Parse(Replaced(kMooncake, "[0]", deep)),
              IsInvalidWith("is not a JSON object"));
  const std::string closed = deep + std::string(100000, ']');
  EXPECT_THAT(Parse(Replaced(kMooncake, "3000", closed)),
              IsInvalidWith("timestamp \"array\""));
}

// A seeded stand-in for the fuzzer: whatever happens to a good file, it is
// refused with a line, or accepted with its promises kept.
TEST(TraceReaderTest, DamagedFilesNeverBreakIt) {
  Rng rng(20231116);
  const std::string kBytes("\0\n\r,.-+0189eEnx{}[]\":\xef\xff", 24);
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    const Sample& sample = kSamples[rng.UniformInt(0, 4)];
    std::string text = sample.text;
    for (int64_t edits = rng.UniformInt(1, 3); edits > 0; --edits) {
      const size_t at =
          rng.UniformInt(0, static_cast<int64_t>(text.size()) - 1);
      const char byte =
          kBytes[rng.UniformInt(0, static_cast<int64_t>(kBytes.size()) - 1)];
      switch (rng.UniformInt(0, 2)) {
        case 0:
          text[at] = byte;
          break;
        case 1:
          text.insert(at, 1, byte);
          break;
        default:
          text.resize(at + 1);
      }
    }
    ASSERT_OK_AND_ASSIGN(const TraceFormat format,
                         TraceFormatFromName(sample.format));
    const absl::StatusOr<TraceReadResult> result =
        ParseTrace(text, "t", format);
    if (result.ok()) {
      ++accepted;
      CheckPromises(*result);
    } else {
      ASSERT_THAT(result.status(), IsInvalidWith("t:")) << text;
    }
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_LT(accepted, 19000);
}

TEST(ReadTraceTest, ReadsFilesWithAndWithoutTheFormat) {
  const std::string path = ::testing::TempDir() + "/trace.csv";
  std::ofstream(path) << kReplay;
  ASSERT_OK_AND_ASSIGN(const TraceReadResult guessed, ReadTrace(path, ""));
  EXPECT_EQ(guessed.format, TraceFormat::kReplay);
  ASSERT_OK_AND_ASSIGN(const TraceReadResult given, ReadTrace(path, "replay"));
  EXPECT_EQ(given.requests, guessed.requests);
  EXPECT_THAT(ReadTrace(path, "lengths"),
              IsInvalidWith("trace.csv:1: column num_prefill_tokens is "
                            "missing"));
  EXPECT_THAT(ReadTrace(path, "csv"), IsInvalidWith("unknown workload format"));
}

TEST(ReadTraceTest, MissingFile) {
  EXPECT_THAT(
      ReadTrace("/no/such/trace.csv", ""),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("/no/such/trace.csv")));
}

// The public traces, where INTERLEAVE_DATA names the folder that has them.
class PublicTraceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = PublicDataFolder();
    if (folder_.empty()) {
      GTEST_SKIP() << "INTERLEAVE_DATA names no folder with public traces";
    }
  }

  // Reads the trace and checks its means.
  void ExpectTrace(const std::string& file, const char* format, int64_t size,
                   double mean_prompt, double mean_output) {
    ASSERT_OK_AND_ASSIGN(const TraceReadResult result,
                         ReadTrace(absl::StrCat(folder_, "/", file), ""));
    EXPECT_EQ(TraceFormatName(result.format), format);
    EXPECT_THAT(result.notices, IsEmpty());
    CheckPromises(result);
    ASSERT_EQ(result.requests.size(), size);
    double prompt = 0;
    double output = 0;
    for (const RequestSpec& spec : result.requests) {
      prompt += spec.prompt_tokens;
      output += spec.output_tokens;
    }
    EXPECT_NEAR(prompt / size, mean_prompt, 0.0051);
    EXPECT_NEAR(output / size, mean_output, 0.0051);
    last_arrival_ = result.requests.back().arrival;
  }

  std::string folder_;
  SimTime last_arrival_;
};

TEST_F(PublicTraceTest, AzureConversation) {
  ExpectTrace("azure2023/AzureLLMInferenceTrace_conv.csv", "azure2023", 19366,
              1154.697, 211.126);
  EXPECT_NEAR(last_arrival_.seconds(), 3501.72, 0.01);
}

TEST_F(PublicTraceTest, AzureCode) {
  ExpectTrace("azure2023/AzureLLMInferenceTrace_code.csv", "azure2023", 8819,
              2047.848, 27.883);
}

TEST_F(PublicTraceTest, Mooncake) {
  ExpectTrace("mooncake/conversation_trace.jsonl", "mooncake", 12031, 12035.06,
              342.619);
  EXPECT_EQ(last_arrival_, SimTime::FromSeconds(3536.999));
}

TEST_F(PublicTraceTest, SarathiLengths) {
  ExpectTrace(
      "sarathi_sharegpt/sharegpt_8k_filtered_stats_llama2_tokenizer.csv",
      "lengths", 30731, 2340.034, 438.710);
}

TEST_F(PublicTraceTest, VllmReplay) {
  ExpectTrace("vllm_replay/sharegpt-llama-3.1-8b-300-sps10.slim.csv", "replay",
              300, 857.463, 652.510);
}

}  // namespace
}  // namespace interleave::sim
