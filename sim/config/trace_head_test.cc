#include "sim/config/trace_head.h"

#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "base/status_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace interleave::sim {
namespace {

using ::testing::HasSubstr;

TraceConfig Trace(const std::string& text) {
  const std::string path = ::testing::TempDir() + "/head.csv";
  std::ofstream(path) << text;
  TraceConfig trace;
  trace.set_path(path);
  return trace;
}

TEST(TraceHeadTest, TellsTheFormat) {
  ASSERT_OK_AND_ASSIGN(
      TraceHead head,
      ReadTraceHead(Trace("TIMESTAMP,ContextTokens,GeneratedTokens\n")));
  EXPECT_EQ(head.format, "azure2023");
  EXPECT_TRUE(head.has_arrivals);
  EXPECT_FALSE(head.names_prefixes);

  ASSERT_OK_AND_ASSIGN(
      head, ReadTraceHead(Trace("num_prefill_tokens,num_decode_tokens\n1,1")));
  EXPECT_EQ(head.format, "lengths");
  EXPECT_FALSE(head.has_arrivals);
}

TEST(TraceHeadTest, TellsWhetherPromptsMayShare) {
  ASSERT_OK_AND_ASSIGN(TraceHead head,
                       ReadTraceHead(Trace("{\"timestamp\": 0,")));
  EXPECT_EQ(head.format, "mooncake");
  EXPECT_TRUE(head.names_prefixes);
  ASSERT_OK_AND_ASSIGN(
      head, ReadTraceHead(Trace("arrival_s,prompt_tokens,output_tokens,"
                                "prefix_id,prefix_tokens\n")));
  EXPECT_EQ(head.format, "requests");
  EXPECT_TRUE(head.names_prefixes);
  ASSERT_OK_AND_ASSIGN(
      head, ReadTraceHead(Trace("arrival_s,prompt_tokens,output_tokens\n"
                                "0,1,1,prefix_id")));
  EXPECT_FALSE(head.names_prefixes);
}

TEST(TraceHeadTest, BelievesWhatIsSaid) {
  TraceConfig trace = Trace("anything");
  EXPECT_THAT(ReadTraceHead(trace), StatusIs(absl::StatusCode::kInvalidArgument,
                                             HasSubstr("head.csv:1:")));
  trace.set_format("lengths");
  ASSERT_OK_AND_ASSIGN(const TraceHead head, ReadTraceHead(trace));
  EXPECT_EQ(head.format, "lengths");
  trace.set_format("parquet");
  EXPECT_THAT(ReadTraceHead(trace), StatusIs(absl::StatusCode::kInvalidArgument,
                                             HasSubstr("azure2023")));
}

TEST(TraceHeadTest, NamesAMissingFile) {
  TraceConfig trace;
  trace.set_path("/nowhere/trace.csv");
  EXPECT_THAT(ReadTraceHead(trace),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("/nowhere/trace.csv: cannot be read: No such "
                                 "file")));
  trace.set_path("/");
  EXPECT_THAT(ReadTraceHead(trace), StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace interleave::sim
