// The summary of a run, as JSON, as CSV and for a terminal.
//
// Keys carry their units.  Everything is a function of configuration and seed
// but "simulator", which tells of the simulator's own speed; the CSV leaves it
// out.  docs/outputs.md lists the keys.

#ifndef SIM_OUTPUT_SUMMARY_H_
#define SIM_OUTPUT_SUMMARY_H_

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "sim/run_result.h"

namespace interleave::sim {

nlohmann::ordered_json SummaryJson(const RunResult& result);

// "metric,value" lines, one a number of `summary`, its path joined by dots.
std::string SummaryCsv(const nlohmann::ordered_json& summary);

// A table of a screen's height for a person.
std::string SummaryText(const nlohmann::ordered_json& summary);

// Summaries of one configuration under several seeds, as one: numbers become
// means; "confidence_95" has, under the same paths, the half-widths of their
// 95% confidence intervals (Student's t); what is no number is kept where all
// agree.
// REQUIRES: at least two.
nlohmann::ordered_json CombineSeeds(
    const std::vector<nlohmann::ordered_json>& summaries);

// The 97.5% quantile of Student's t distribution.
// REQUIRES: degrees_of_freedom >= 1.
double StudentT975(int degrees_of_freedom);

}  // namespace interleave::sim

#endif  // SIM_OUTPUT_SUMMARY_H_
