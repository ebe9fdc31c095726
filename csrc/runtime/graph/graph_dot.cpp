// SPDX-License-Identifier: BSD-3-Clause
//
// A captured program as a drawing, for people who look for what it does.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "runtime/device/api.h"
#include "runtime/device/device.h"
#include "runtime/device/energy.h"
#include "runtime/graph/graph.h"
#include "sim/abi/atalla_link.h"
#include "sim/abi/dtype.h"

namespace atalla::runtime {
namespace {

std::string shape(const atalla_operand& operand) {
  std::string text = std::string(sim::dtype_name(operand.dtype)) + "[";
  for (int d = 0; d < operand.ndim; ++d) text += (d > 0 ? ", " : "") + std::to_string(operand.sizes[d]);
  return text + "]";
}

const char* copy_name(atalla_copy_kind kind) {
  switch (static_cast<int>(kind)) {
    case ATALLA_COPY_LINK_SEND:
      return "link send";
    case ATALLA_COPY_LINK_RECEIVE:
      return "link receive";
    case ATALLA_COPY_LINK_EXCHANGE:
      return "link exchange";
    case ATALLA_COPY_HOST_TO_DEVICE:
      return "copy host to device";
    case ATALLA_COPY_DEVICE_TO_HOST:
      return "copy device to host";
    default:
      return "copy device to device";
  }
}

}  // namespace

// An edge from what precedes a step in its lane, and one from each record to its waits.
std::string Graph::dot() const {
  std::string text = "digraph atalla {\n  node [shape=box, fontname=monospace];\n";
  constexpr size_t kNone = SIZE_MAX;
  std::vector<size_t> last(lanes_.size(), kNone), recorded(n_events_, kNone);
  std::vector<std::vector<size_t>> awaited(lanes_.size());  // nodes that the next step of the lane follows
  size_t node = 0;
  for (const Step& step : steps_) {
    if (step.kind == Kind::kRecord) {
      recorded[step.event] = last[step.lane];
      continue;
    }
    if (step.kind == Kind::kWait) {
      if (const size_t from = recorded[step.event]; from != kNone && from != last[step.lane])
        awaited[step.lane].push_back(from);
      continue;
    }
    std::string label = std::to_string(node) + ": ";
    if (step.kind == Kind::kLaunch) {
      const atalla_launch_desc& desc = launch_at(step);
      label += kernel_name(desc.kernel);
      for (int i = 0; i < desc.n_operands; ++i)
        label += (i == desc.n_outputs ? "\\n" : i > 0 ? " " : "\\n-> ") + shape(desc.operands[i]);
      atalla_launch_record record{};
      const size_t bytes = atalla_launch_desc_bytes(desc.n_operands);
      if (api().launch_estimate(device_.handle(), &desc, bytes, &record) == ATALLA_OK) {
        const atalla_energy energy = launch_energy(device_.handle(), desc, bytes);
        const double joules = atalla_energy_joules(&energy);
        label += "\\n" + std::to_string(record.cycles) + " cycles";
        if (joules > 0) {
          char amount[32];
          snprintf(amount, sizeof amount, ", %.3g J", joules);
          label += amount;
        }
      }
      if (step.random != 0) label += "\\nrandom source " + std::to_string(step.random - 1);
    } else if (step.kind == Kind::kHostCall) {
      label += "host call";
    } else {
      const atalla_copy_params& copy = copy_at(step);
      label += std::string(copy_name(copy.kind)) + "\\n" +
               std::to_string(copy.row_bytes * std::max<uint64_t>(copy.rows, 1)) + " bytes";
    }
    const std::string name = "n" + std::to_string(node);
    text += "  " + name + " [label=\"" + label + "\\nstream " + std::to_string(step.lane) + "\"];\n";
    if (last[step.lane] != kNone) text += "  n" + std::to_string(last[step.lane]) + " -> " + name + ";\n";
    for (const size_t from : awaited[step.lane])
      text += "  n" + std::to_string(from) + " -> " + name + " [style=dashed];\n";
    awaited[step.lane].clear();
    last[step.lane] = node++;
  }
  return text + "}\n";
}

}  // namespace atalla::runtime
