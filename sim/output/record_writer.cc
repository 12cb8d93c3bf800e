#include "sim/output/record_writer.h"

#include <cstdint>

#include "base/sim_time.h"
#include "sim/metrics/metrics.h"
#include "sim/output/csv.h"
#include "sim/output/output_folder.h"

namespace interleave::sim {
namespace {

constexpr char kRequestHeader[] =
    "request_id,status,tenant,priority,prompt_tokens,output_tokens,arrival_s,"
    "first_scheduled_s,first_token_s,last_token_s,queueing_delay_ms,ttft_ms,"
    "tpot_ms,longest_tbt_ms,e2e_ms,preemptions,recomputed_tokens,"
    "prefix_hit_tokens,slo_ttft_ms,slo_tbt_ms,attains_slo,rejection\n";

constexpr char kIterationHeader[] =
    "iteration,replica,start_s,end_s,device_ms,host_ms,predicted_ms,"
    "prefill_chunks,prefill_tokens,prefill_context_tokens,decodes,"
    "decode_kv_tokens,recomputed_tokens,preemptions,waiting,running,"
    "used_blocks\n";

void Target(CsvRow& row, SimDuration target) {
  if (target == SimDuration::Max()) {
    row.Empty();
  } else {
    row.Millis(target);
  }
}

}  // namespace

RecordWriter::RecordWriter(OutputFile* requests, OutputFile* iterations)
    : requests_(requests), iterations_(iterations) {
  if (requests_ != nullptr) requests_->Append(kRequestHeader);
  if (iterations_ != nullptr) iterations_->Append(kIterationHeader);
}

void RecordWriter::OnIteration(const IterationRecord& record) {
  if (iterations_ == nullptr) return;
  row_.Clear();
  row_.Int(record.index)
      .Int(record.replica)
      .Seconds(record.start)
      .Seconds(record.end)
      .Millis(record.device)
      .Millis(record.host)
      .Millis(record.predicted)
      .Int(record.prefill_chunks)
      .Int(record.prefill_tokens)
      .Int(record.prefill_context_tokens)
      .Int(record.decodes)
      .Int(record.decode_kv_tokens)
      .Int(record.recomputed_tokens)
      .Int(record.preemptions)
      .Int(record.waiting)
      .Int(record.running)
      .Int(record.used_blocks)
      .End();
  iterations_->Append(row_.text());
}

void RecordWriter::OnRequest(const RequestRecord& record) {
  if (requests_ == nullptr) return;
  const bool completed = record.rejection.empty();
  row_.Clear();
  row_.Int(record.id)
      .Text(completed ? "completed" : "rejected")
      .Int(record.tenant)
      .Int(record.priority)
      .Int(record.prompt_tokens)
      .Int(record.output_tokens)
      .Seconds(record.arrival);
  if (completed) {
    CompletedFields(record);
  } else {
    constexpr int kFieldsOfCompleted = 11;
    for (int i = 0; i < kFieldsOfCompleted; ++i) row_.Empty();
  }
  Target(row_, record.slo.ttft);
  Target(row_, record.slo.tbt);
  row_.Int(record.attains_slo() ? 1 : 0).Text(record.rejection).End();
  requests_->Append(row_.text());
}

void RecordWriter::CompletedFields(const RequestRecord& record) {
  row_.Seconds(record.first_scheduled)
      .Seconds(record.first_token)
      .Seconds(record.last_token)
      .Millis(record.queueing_delay())
      .Millis(record.ttft());
  if (record.output_tokens > 1) {
    row_.Millis(
        SimDuration::Nanos(static_cast<int64_t>(record.tpot_nanos() + 0.5)));
    row_.Millis(record.longest_gap);
  } else {
    row_.Empty().Empty();
  }
  row_.Millis(record.e2e())
      .Int(record.preemptions)
      .Int(record.recomputed_tokens)
      .Int(record.prefix_hit_tokens);
}

}  // namespace interleave::sim
