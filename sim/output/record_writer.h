// RecordWriter: writes the requests and iterations of a run as they end, as
// requests.csv (in order of ending) and iterations.csv.
//
// Columns carry their units in their names; a time is counted from the start of
// the run.  A field that has no meaning for its row (the first token of a
// rejected request, the TPOT of one token, a target that nobody set) is empty.

#ifndef SIM_OUTPUT_RECORD_WRITER_H_
#define SIM_OUTPUT_RECORD_WRITER_H_

#include "absl/strings/string_view.h"
#include "sim/metrics/metrics.h"
#include "sim/output/csv.h"
#include "sim/output/output_folder.h"

namespace interleave::sim {

class RecordWriter final : public RecordSink {
 public:
  // Writes the header lines.  The files must outlive the writer; either may be
  // nullptr: not written.  Their status() tells of failures.
  RecordWriter(OutputFile* requests, OutputFile* iterations);

  void OnIteration(const IterationRecord& record) override;
  void OnRequest(const RequestRecord& record) override;

 private:
  void CompletedFields(const RequestRecord& record);

  OutputFile* const requests_;
  OutputFile* const iterations_;
  CsvRow row_;
};

}  // namespace interleave::sim

#endif  // SIM_OUTPUT_RECORD_WRITER_H_
