// SPDX-License-Identifier: BSD-3-Clause
//
// Memory snapshots and history, in the form that torch.cuda._memory_viz and pytorch.org/memory_viz read.
#include <torch/csrc/profiler/combined_traceback.h>

#include <unordered_map>

#include "aten/bindings/bindings.h"
#include "aten/device/allocator.h"

namespace torch {
// Exported; declared in a header which needs a JSON library that the wheel does not have.
TORCH_API std::vector<py::object> py_symbolize(std::vector<CapturedTraceback*>& to_symbolize);
}  // namespace torch

namespace atalla::aten {

namespace {

using runtime::MemoryContext;

runtime::MemoryContext gather_python() { return torch::CapturedTraceback::gather(true, true, false); }
runtime::MemoryContext gather_all() { return torch::CapturedTraceback::gather(true, true, true); }

// The frames of many contexts at once: symbols are looked up once for each distinct one.
class Frames {
 public:
  void add(const MemoryContext& context) {
    if (context != nullptr && index_.emplace(context.get(), stacks_.size()).second)
      stacks_.push_back(static_cast<torch::CapturedTraceback*>(context.get()));
  }
  void symbolize() { frames_ = torch::py_symbolize(stacks_); }
  py::object of(const MemoryContext& context) const {
    return context == nullptr ? py::list() : frames_.at(index_.at(context.get()));
  }

 private:
  std::vector<torch::CapturedTraceback*> stacks_;
  std::unordered_map<const void*, size_t> index_;
  std::vector<py::object> frames_;
};

const char* action_name(runtime::TraceAction action) {
  static constexpr const char* kNames[] = {
      "alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "snapshot", "oom"};
  return kNames[static_cast<size_t>(action)];
}

py::dict segment_dict(int device, const runtime::SegmentInfo& segment, const Frames& frames) {
  py::list blocks;
  size_t allocated = 0, active = 0, requested = 0;
  for (const runtime::BlockInfo& block : segment.blocks) {
    py::dict b;
    b["address"] = block.addr;
    b["size"] = block.bytes;
    b["requested_size"] = block.requested;
    b["state"] = block.allocated ? "active_allocated" : block.active ? "active_pending_free" : "inactive";
    b["frames"] = frames.of(block.context);
    blocks.append(b);
    if (block.allocated) allocated += block.bytes;
    if (block.active) active += block.bytes;
    requested += block.requested;
  }
  py::dict d;
  d["device"] = device;
  d["address"] = segment.addr;
  d["total_size"] = segment.bytes;
  d["allocated_size"] = allocated;
  d["active_size"] = active;
  d["requested_size"] = requested;
  d["stream"] = segment.stream;
  d["segment_type"] = segment.large ? "large" : "small";
  d["segment_pool_id"] = segment.pool;
  d["is_expandable"] = false;
  d["frames"] = frames.of(segment.context);
  d["blocks"] = blocks;
  return d;
}

py::dict entry_dict(const runtime::TraceEntry& entry, const Frames& frames) {
  py::dict d;
  d["action"] = action_name(entry.action);
  d[entry.action == runtime::TraceAction::kOom ? "device_free" : "addr"] = entry.addr;
  d["size"] = entry.bytes;
  d["stream"] = entry.stream;
  d["time_us"] = entry.time_us;
  d["pool_id"] = entry.pool;
  d["compile_context"] = "N/A";
  d["user_metadata"] = entry.metadata;
  d["frames"] = frames.of(entry.context);
  return d;
}

py::dict settings_dict() {
  const runtime::AllocatorConfig& config = runtime::allocator_config();
  py::dict d;
  d["max_split_size"] = config.max_split_size == SIZE_MAX ? -1 : static_cast<int64_t>(config.max_split_size);
  d["garbage_collection_threshold"] = config.garbage_collection_threshold;
  d["expandable_segments"] = false;
  py::dict divisions;
  for (size_t i = 0; i < config.roundup_power2_divisions.size(); ++i)
    divisions[py::str(std::to_string(size_t{1} << i))] = config.roundup_power2_divisions[i];
  d["roundup_power2_divisions"] = divisions;
  return d;
}

py::dict memory_snapshot(runtime::PoolId pool, bool with_trace) {
  std::vector<runtime::Snapshot> devices(static_cast<size_t>(runtime::device_count()));
  {
    py::gil_scoped_release release;
    driver_call([&] {
      for (size_t i = 0; i < devices.size(); ++i)
        if (const int ordinal = static_cast<int>(i); runtime::Device::is_open(ordinal))
          devices[i] = runtime::Device::get(ordinal).allocator().snapshot(pool, with_trace);
    });
  }
  Frames frames;
  for (const auto& device : devices) {
    for (const auto& segment : device.segments) {
      frames.add(segment.context);
      for (const auto& block : segment.blocks) frames.add(block.context);
    }
    for (const auto& entry : device.trace) frames.add(entry.context);
  }
  frames.symbolize();
  py::list segments, traces;
  for (size_t i = 0; i < devices.size(); ++i) {
    for (const auto& segment : devices[i].segments) segments.append(segment_dict(static_cast<int>(i), segment, frames));
    py::list trace;
    for (const auto& entry : devices[i].trace) trace.append(entry_dict(entry, frames));
    traces.append(trace);
  }
  py::dict result;
  result["segments"] = segments;
  result["device_traces"] = traces;
  result["allocator_settings"] = settings_dict();
  result["external_annotations"] = py::list();
  return result;
}

runtime::ContextLevel context_level(const std::optional<std::string>& name) {
  if (!name) return runtime::ContextLevel::kNone;
  if (*name == "state") return runtime::ContextLevel::kState;
  if (*name == "alloc") return runtime::ContextLevel::kAlloc;
  TORCH_CHECK(*name == "all", "expected context to be 'state', 'alloc', 'all', or None, got '", *name, "'");
  return runtime::ContextLevel::kAll;
}

uint32_t action_bits(const std::vector<std::string>& actions) {
  uint32_t bits = 0;
  for (const std::string& name : actions) {
    bool known = false;
    for (auto action = runtime::TraceAction::kAlloc; action <= runtime::TraceAction::kOom;
         action = static_cast<runtime::TraceAction>(static_cast<uint8_t>(action) + 1)) {
      if (name != action_name(action)) continue;
      bits |= 1u << static_cast<uint32_t>(action);
      known = true;
    }
    TORCH_CHECK_VALUE(known, "Unknown action in skip_actions: ", name);
  }
  return bits;
}

void record_history(const std::optional<std::string>& enabled, const std::optional<std::string>& context,
                    const std::string& stacks, uint64_t max_entries, bool clear,
                    const std::vector<std::string>& skip_actions) {
  TORCH_CHECK(!enabled || *enabled == "state" || *enabled == "all",
              "expected state to be 'state', 'all', or None, got '", enabled.value_or(""), "'");
  TORCH_CHECK(stacks == "python" || stacks == "all", "expected stacks to be 'python', or 'all', got '", stacks, "'");
  runtime::HistorySettings settings;
  settings.trace = enabled == "all";
  settings.contexts = context_level(context);
  settings.gather = stacks == "all" ? &gather_all : &gather_python;
  settings.max_entries = max_entries;
  settings.skipped = action_bits(skip_actions);
  if (clear) driver_call([] { runtime::clear_memory_history(); });
  runtime::record_memory_history(enabled ? &settings : nullptr);
}

py::object allocation_traceback(uint64_t addr) {
  const auto* ptr = reinterpret_cast<const void*>(addr);
  const auto ordinal = runtime::device_of(ptr);
  if (!ordinal) return py::none();
  const MemoryContext context = runtime::Device::get(*ordinal).allocator().allocation_context(ptr);
  if (context == nullptr) return py::none();
  std::vector<torch::CapturedTraceback*> stacks{static_cast<torch::CapturedTraceback*>(context.get())};
  return torch::py_symbolize(stacks).at(0);
}

}  // namespace

void bind_memory_snapshot(py::module_& m) {
  m.def("memory_snapshot", &memory_snapshot);
  m.def("record_memory_history", &record_history);
  m.def("allocation_traceback", &allocation_traceback);
  m.def("set_memory_metadata", &runtime::set_memory_metadata);
  m.def("get_memory_metadata", &runtime::memory_metadata);
}

}  // namespace atalla::aten
