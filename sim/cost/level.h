// Level: by what the sum of a profile's parts is multiplied for whole batches
// of a size.

#ifndef SIM_COST_LEVEL_H_
#define SIM_COST_LEVEL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace interleave::sim {

class Level {
 public:
  // One factor for sizes above the step before, up to and including `last`.
  struct Step {
    int64_t last = 0;
    double factor = 1;

    bool operator==(const Step&) const = default;
  };

  // 1 everywhere.
  Level() = default;
  // REQUIRES: `last` is positive and ascends.  The last step stands for what is
  // larger, too.
  explicit Level(std::vector<Step> steps) : steps_(std::move(steps)) {
    for (const Step& step : steps_) {
      factors_.resize(static_cast<size_t>(step.last) + 1, step.factor);
    }
  }

  double At(int64_t size) const {
    if (factors_.empty()) return 1;
    return factors_[std::min(static_cast<size_t>(size), factors_.size() - 1)];
  }

  const std::vector<Step>& steps() const { return steps_; }

 private:
  std::vector<Step> steps_;
  std::vector<double> factors_;  // by size
};

}  // namespace interleave::sim

#endif  // SIM_COST_LEVEL_H_
