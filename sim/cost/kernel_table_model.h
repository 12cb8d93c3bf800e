// The cost model of published kernel tables (kernel_tables.h): a dense model at
// any tensor-parallel degree, 16-bit or FP8, composed kernel by kernel.
//
//   GEMMs       qkv, o, gate_up, down by tokens, lm_head by sequences, at this
//               degree's n and k; an n above the grid (a vocabulary) is run as
//               the fewest equal pieces inside it
//   prefill     B chunks as B prompts of equal length L with the same work
//               (pairs of query and key) as the chunks' whole prompts up to
//               here, times the share of that work the chunks do; at least
//               what their query tokens cost without context
//   decode      sequences at their mean length; uneven lengths cost no more
//   mixed       prefill + decode: the tables measure them alone, so what
//               mixing costs beyond that is not in this model
//   all-reduce  two a layer, of the table for captured or for launched kernels
//   elementwise five kernels a layer (six with norms of queries and keys) and
//               two more, by bytes and latency
//   sampling    by logits: reading them, or sorting them
//
// Beyond the grids their last line goes on; counted in stats().outside_grid.

#ifndef SIM_COST_KERNEL_TABLE_MODEL_H_
#define SIM_COST_KERNEL_TABLE_MODEL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "sim/cost/cost.pb.h"
#include "sim/cost/cost_model.h"
#include "sim/cost/device.pb.h"
#include "sim/cost/model.pb.h"
#include "sim/cost/roofline.h"

namespace interleave::sim {

// InvalidArgument for a model with experts, and for a table with points faster
// than `device`'s arithmetic peak: such a measurement is broken, and the error
// says where and what to take instead.
absl::StatusOr<std::unique_ptr<CostModel>> CreateKernelTableModel(
    const ModelSpec& model, const DeviceSpec& device,
    const Parallelism& parallelism, const KernelTableOptions& options);

}  // namespace interleave::sim

#endif  // SIM_COST_KERNEL_TABLE_MODEL_H_
