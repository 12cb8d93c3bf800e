#include "sim/output/record_writer.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "base/sim_time.h"
#include "base/status_testing.h"
#include "gtest/gtest.h"
#include "sim/metrics/metrics.h"
#include "sim/output/output_folder.h"

namespace interleave::sim {
namespace {

SimTime Millis(double ms) { return SimTime::Zero() + SimDuration::Millis(ms); }

// What the writer made of `requests` and `iterations`.
class RecordWriterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "/rows.csv";
    ASSERT_OK_AND_ASSIGN(file_, OutputFile::Open(path_, "rows.csv"));
  }
  std::string Written() {
    EXPECT_OK(file_->Close());
    std::ifstream in(path_);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }

  std::string path_;
  std::unique_ptr<OutputFile> file_;
};

TEST_F(RecordWriterTest, Requests) {
  RecordWriter writer(file_.get(), nullptr);
  RequestRecord record;
  record.id = 7;
  record.tenant = 2;
  record.priority = 1;
  record.prompt_tokens = 40;
  record.output_tokens = 3;
  record.arrival = Millis(1000);
  record.first_scheduled = Millis(1002);
  record.first_token = Millis(1010);
  record.last_token = Millis(1045);
  record.longest_gap = SimDuration::Millis(20);
  record.preemptions = 1;
  record.recomputed_tokens = 41;
  record.prefix_hit_tokens = 16;
  record.slo = {.ttft = SimDuration::Millis(100),
                .tbt = SimDuration::Millis(15)};
  writer.OnRequest(record);
  record.id = 8;
  record.output_tokens = 1;
  record.slo = {};
  writer.OnRequest(record);
  record.id = 9;
  record.rejection = "exceeds_kv_cache: 9 blocks, the cache has 8";
  writer.OnRequest(record);
  writer.OnIteration({});
  EXPECT_EQ(
      Written(),
      "request_id,status,tenant,priority,prompt_tokens,output_tokens,arrival_s,"
      "first_scheduled_s,first_token_s,last_token_s,queueing_delay_ms,ttft_ms,"
      "tpot_ms,longest_tbt_ms,e2e_ms,preemptions,recomputed_tokens,"
      "prefix_hit_tokens,slo_ttft_ms,slo_tbt_ms,attains_slo,rejection\n"
      "7,completed,2,1,40,3,1.000000000,1.002000000,1.010000000,1.045000000,"
      "2.000000,10.000000,17.500000,20.000000,45.000000,1,41,16,100.000000,"
      "15.000000,0,\n"
      "8,completed,2,1,40,1,1.000000000,1.002000000,1.010000000,1.045000000,"
      "2.000000,10.000000,,,45.000000,1,41,16,,,1,\n"
      "9,rejected,2,1,40,1,1.000000000,,,,,,,,,,,,,,0,"
      "\"exceeds_kv_cache: 9 blocks, the cache has 8\"\n");
}

TEST_F(RecordWriterTest, Iterations) {
  RecordWriter writer(nullptr, file_.get());
  IterationRecord record;
  record.index = 3;
  record.replica = 1;
  record.start = Millis(5);
  record.end = Millis(7.5);
  record.device = SimDuration::Millis(2);
  record.host = SimDuration::Millis(0.5);
  record.predicted = SimDuration::Millis(2.25);
  record.prefill_chunks = 2;
  record.prefill_tokens = 512;
  record.prefill_context_tokens = 100;
  record.decodes = 10;
  record.decode_kv_tokens = 12345;
  record.recomputed_tokens = 6;
  record.preemptions = 1;
  record.waiting = 4;
  record.running = 12;
  record.used_blocks = 900;
  writer.OnIteration(record);
  writer.OnRequest({});
  EXPECT_EQ(Written(),
            "iteration,replica,start_s,end_s,device_ms,host_ms,predicted_ms,"
            "prefill_chunks,prefill_tokens,prefill_context_tokens,decodes,"
            "decode_kv_tokens,recomputed_tokens,preemptions,waiting,running,"
            "used_blocks\n"
            "3,1,0.005000000,0.007500000,2.000000,0.500000,2.250000,2,512,100,"
            "10,12345,6,1,4,12,900\n");
}

}  // namespace
}  // namespace interleave::sim
