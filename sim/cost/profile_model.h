// The cost model of measured tables (profile_tables.h):
//
//   time = layers x (sum of dense layers by tokens + attention)
//        + embedding, last norm by tokens + LM head, sampler by sequences
//
// Attention comes from one measured launch of the whole batch: a mixed batch is
// looked up as mixed.  The table knows one chunk, and decodes of one length;
// ProfileOptions says how several chunks and uneven lengths become that.
//
//   * A chunk of one token is a decode: the kernel sees query lengths only.
//   * A chunk shorter than the smallest measured one costs what that costs
//     beside the same decodes (never interpolated towards a batch without
//     prefill, which runs another kernel).
//   * Uneven decode lengths: t(mean) + alpha (t(longest) - t(mean)).  alpha is
//     looked up with the share of long sequences; count, mean, variance v and
//     longest give that of the two-length batch with the same figures:
//     v / (v + (longest - mean)^2).
//
// A card slows down under load (throttle.h): the model follows what has run,
// and what a batch takes on a recovered card is multiplied by 1 + slowdown x
// the mean state while it runs; the attention of decodes slows down as decodes
// do.
//
// Beyond the largest measured size a line goes on (see grid.h), and the
// query is counted in stats().outside_grid.

#ifndef SIM_COST_PROFILE_MODEL_H_
#define SIM_COST_PROFILE_MODEL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "sim/cost/cost.pb.h"
#include "sim/cost/cost_model.h"
#include "sim/cost/device.pb.h"
#include "sim/cost/model.pb.h"
#include "sim/cost/profile_tables.h"
#include "sim/cost/roofline.h"

namespace interleave::sim {

// `device` gives the host link's rate for swaps.  InvalidArgument for a layer
// that the tables do not have, listing those they have, and for tables that
// name another model or device.
absl::StatusOr<std::unique_ptr<CostModel>> CreateProfileModel(
    const ModelSpec& model, const DeviceSpec& device,
    const Parallelism& parallelism, const ProfileOptions& options,
    ProfileTables tables);

}  // namespace interleave::sim

#endif  // SIM_COST_PROFILE_MODEL_H_
