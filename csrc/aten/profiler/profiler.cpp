// SPDX-License-Identifier: BSD-3-Clause
//
// torch.profiler: the launches and copies of a recording as kineto's activities. docs/guides/profiler.md says what is
// shown.
#define USE_KINETO
#define KINETO_NAMESPACE libkineto
#ifndef FMT_HEADER_ONLY
#define FMT_HEADER_ONLY 1  // the headers of kineto print with fmt
#endif
#include "aten/profiler/profiler.h"

#include <c10/core/ScalarType.h>
#include <kineto/libkineto.h>
#include <kineto/output_base.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

#include "runtime/device/runtime.h"
#include "runtime/graph/recording.h"
#include "sim/abi/atalla_link.h"

namespace atalla::aten {

namespace {

using libkineto::ActivityType;
using libkineto::GenericTraceActivity;
using libkineto::ITraceActivity;
using runtime::DeviceWork;
using runtime::HostCall;

// Tells kineto where rows of devices go: below those of the host.
constexpr int64_t kFirstDeviceRow = libkineto::kExceedMaxPid;

std::string stream_name(uint32_t stream) {
  return stream == 0 ? "stream 0 (default)" : "stream " + std::to_string(stream);
}

double utilisation(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : std::round(1e4 * static_cast<double>(part) / static_cast<double>(whole)) / 1e4;
}

// Builds the activities of one recording.
class Activities {
 public:
  using Lookup = std::function<const ITraceActivity*(int32_t)>;

  Activities(const runtime::RecordedWork& work, const std::set<ActivityType>& wanted, const Lookup& host_activity)
      : work_(work), wanted_(wanted), host_activity_(host_activity) {
    buffer_->span = libkineto::TraceSpan(work.begin_ns, work.end_ns, "atalla");
    buffer_->gpuOpCount = 0;
    for (const HostCall& call : work.calls) calls_.emplace(call.tag, &call);
    shift_ns_ = causal_shift();
    for (const HostCall& call : work.calls) add_call(call);
    for (const DeviceWork& device : work.devices) {
      for (const atalla_work_record& record : device.records) {
        if (record.work.stream == ATALLA_NO_STREAM) continue;  // of a peer's stream, which shows it
        streams_.emplace(device.ordinal, record.work.stream);
        add_work(device, record);
      }
    }
    add_ranges();
  }

  std::unique_ptr<libkineto::CpuTraceBuffer> take_buffer() { return std::move(buffer_); }
  const std::deque<std::unique_ptr<GenericTraceActivity>>& activities() const { return buffer_->activities; }
  const std::set<std::pair<int, uint32_t>>& streams() const { return streams_; }
  int64_t shift_ns() const { return shift_ns_; }

 private:
  bool wants(ActivityType type) const { return wanted_.count(type) != 0; }

  int64_t simulated_ns(const DeviceWork& device, uint64_t cycle) const {
    const auto since = static_cast<double>(static_cast<int64_t>(cycle - work_.origin));
    return static_cast<int64_t>(std::floor(since * 1e9 / device.clock_hz));
  }

  const HostCall* call_of(const atalla_work_record& record) const {
    const auto found = calls_.find(record.work.tag);
    return found == calls_.end() ? nullptr : found->second;
  }

  // Simulated time is moved as a whole until no work starts before the host had submitted it: an arrow that points
  // backwards is not drawn.
  int64_t causal_shift() const {
    int64_t shift = 0;
    for (const DeviceWork& device : work_.devices) {
      for (const atalla_work_record& record : device.records) {
        const HostCall* call = call_of(record);
        if (call == nullptr) continue;
        const int64_t start = work_.begin_ns + simulated_ns(device, record.work.start_cycle);
        shift = std::max(shift, call->end_ns - start);
      }
    }
    return shift;
  }

  GenericTraceActivity& add(ActivityType type, const std::string& name) {
    buffer_->emplace_activity(buffer_->span, type, name);
    return *buffer_->activities.back();
  }

  const ITraceActivity* op_of(const HostCall& call) const {
    return call.op != 0 && host_activity_ ? host_activity_(static_cast<int32_t>(call.op)) : nullptr;
  }

  void add_call(const HostCall& call) {
    if (!wants(ActivityType::PRIVATEUSE1_RUNTIME)) return;
    GenericTraceActivity& activity = add(ActivityType::PRIVATEUSE1_RUNTIME, call.name);
    activity.startTime = call.begin_ns;
    activity.endTime = call.end_ns;
    activity.device = libkineto::processId();
    activity.resource = call.thread;
    activity.threadId = call.thread;
    activity.linked = op_of(call);
    link(&activity, call, true);
    activity.addMetadata("correlation", call.tag);
  }

  static void link(GenericTraceActivity* activity, const HostCall& call, bool start) {
    activity->id = static_cast<int32_t>(call.tag);
    activity->flow.id = static_cast<uint32_t>(call.tag);
    activity->flow.type = libkineto::kLinkAsyncCpuGpu;
    activity->flow.start = start ? 1 : 0;
  }

  void add_work(const DeviceWork& device, const atalla_work_record& record) {
    const bool launch = record.kind == ATALLA_WORK_LAUNCH;
    const ActivityType type = launch ? ActivityType::CONCURRENT_KERNEL : ActivityType::GPU_MEMCPY;
    const atalla_launch_record& work = record.work;
    const int64_t start = work_.begin_ns + shift_ns_ + simulated_ns(device, work.start_cycle);
    const uint64_t elapsed = record.end_cycle - work.start_cycle;
    const int64_t end = start + std::llround(static_cast<double>(elapsed) * 1e9 / device.clock_hz);
    const HostCall* call = call_of(record);
    if (call != nullptr) extend_ranges(*call, device.ordinal, work.stream, start, end);
    if (!wants(type)) return;
    GenericTraceActivity& activity = add(type, launch ? kernel_name(work.kernel) : copy_name(record.kind));
    activity.startTime = start;
    activity.endTime = end;
    activity.device = device.ordinal;
    activity.resource = static_cast<int32_t>(work.stream);
    if (call != nullptr) {
      activity.linked = op_of(*call);
      // Without the host's end of the arrow (runtime calls filtered out) there is none.
      if (wants(ActivityType::PRIVATEUSE1_RUNTIME)) link(&activity, *call, false);
      activity.id = static_cast<int32_t>(call->tag);
      activity.addMetadata("correlation", call->tag);
    }
    activity.addMetadata("device", device.ordinal);
    activity.addMetadata("stream", work.stream);
    activity.addMetadata("start_cycle", work.start_cycle);
    activity.addMetadata("end_cycle", record.end_cycle);
    activity.addMetadata("cycles", work.cycles);
    activity.addMetadata("bytes_read", work.dram_bytes_read);
    activity.addMetadata("bytes_written", work.dram_bytes_written);
    activity.addMetadata("sdma_utilisation", utilisation(work.sdma_cycles, elapsed));
    if (const double joules = atalla_energy_joules(&record.energy); joules > 0) {
      activity.addMetadata("joules", fmt::format("{:.9g}", joules));
      activity.addMetadata("watts", fmt::format("{:.6g}", joules * device.clock_hz / static_cast<double>(elapsed)));
    }
    if (!launch) {
      activity.addMetadata("bytes", work.sizes[0] * work.sizes[1]);
      return;
    }
    activity.addMetadata("vector_utilisation", utilisation(work.vector_cycles, elapsed));
    activity.addMetadata("array_utilisation", utilisation(work.array_cycles, elapsed));
    activity.addMetadata("macs", work.macs);
    activity.addMetadataQuoted("kernel", kernel_name(work.kernel));
    activity.addMetadataQuoted("dtype",
                               std::string(c10::getDtypeNames(static_cast<c10::ScalarType>(work.dtype)).first));
    std::string shape = "[";
    for (int d = 0; d < work.ndim; ++d) shape += (d == 0 ? "" : ", ") + std::to_string(work.sizes[d]);
    activity.addMetadata("shape", shape + "]");
  }

  // Ranges of the user (record_function, profiler steps) span the work that was submitted inside of them.
  struct Span {
    int64_t start;
    int64_t end;
  };
  void extend_ranges(const HostCall& call, int device, uint32_t stream, int64_t start, int64_t end) {
    for (int32_t r = call.range; r >= 0; r = work_.ranges[static_cast<size_t>(r)].parent) {
      const uint64_t id = work_.ranges[static_cast<size_t>(r)].id;
      auto [found, fresh] = spans_.try_emplace({device, stream, id}, Span{start, end});
      if (fresh) continue;
      found->second.start = std::min(found->second.start, start);
      found->second.end = std::max(found->second.end, end);
    }
  }

  void add_ranges() {
    if (!wants(ActivityType::GPU_USER_ANNOTATION) || !host_activity_) return;
    for (const auto& [key, span] : spans_) {
      const auto& [device, stream, id] = key;
      const ITraceActivity* range = host_activity_(static_cast<int32_t>(id));
      if (range == nullptr) continue;
      GenericTraceActivity& activity = add(ActivityType::GPU_USER_ANNOTATION, range->name());
      activity.startTime = span.start;
      activity.endTime = span.end;
      activity.device = device;
      activity.resource = static_cast<int32_t>(stream);
      activity.id = static_cast<int32_t>(id);
    }
  }

  static const char* copy_name(uint32_t kind) {
    switch (kind) {
      case ATALLA_COPY_HOST_TO_DEVICE:
        return "Memcpy HtoD (Host -> Device)";
      case ATALLA_COPY_DEVICE_TO_HOST:
        return "Memcpy DtoH (Device -> Host)";
      case ATALLA_COPY_LINK_SEND:
        return "Link send (Device -> Peer)";
      case ATALLA_COPY_LINK_RECEIVE:
        return "Link receive (Peer -> Device)";
      case ATALLA_COPY_LINK_EXCHANGE:
        return "Link exchange (Device <-> Peer)";
      default:
        return "Memcpy DtoD (Device -> Device)";
    }
  }

  const std::string& kernel_name(atalla_kernel id) {
    auto [found, fresh] = kernel_names_.try_emplace(id);
    if (fresh) found->second = runtime::kernel_name(id);
    return found->second;
  }

  const runtime::RecordedWork& work_;
  const std::set<ActivityType>& wanted_;
  const Lookup& host_activity_;
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
  std::unordered_map<uint64_t, const HostCall*> calls_;  // by tag
  std::map<std::tuple<int, uint32_t, uint64_t>, Span> spans_;
  std::unordered_map<atalla_kernel, std::string> kernel_names_;
  std::set<std::pair<int, uint32_t>> streams_;
  int64_t shift_ns_ = 0;
};

class Session final : public libkineto::IActivityProfilerSession {
 public:
  explicit Session(std::set<ActivityType> wanted) : wanted_(std::move(wanted)) { runtime::thread_ids::forget(); }

  void start() override {
    try {
      // A worker that the devices wait for may need the interpreter.
      std::optional<pybind11::gil_scoped_release> release;
      if (PyGILState_Check() != 0) release.emplace();
      recording_.emplace();
      status_ = libkineto::TraceStatus::RECORDING;
    } catch (const runtime::Error& error) {
      errors_.emplace_back(error.what());
      status_ = libkineto::TraceStatus::ERROR;
    }
  }

  void stop() override {
    if (!recording_) return;
    work_ = recording_->stop();
    recording_.reset();
    status_ = libkineto::TraceStatus::PROCESSING;
    for (const DeviceWork& device : work_.devices) {
      if (device.lost == 0) continue;
      errors_.push_back("atalla:" + std::to_string(device.ordinal) + " overwrote " + std::to_string(device.lost) +
                        " records before they were read; telemetry.records of the chip configuration is their number");
      TORCH_WARN("torch.profiler: ", errors_.back());
    }
  }

  std::vector<std::string> errors() override { return errors_; }

  void processTrace(libkineto::ActivityLogger& logger) override { processTrace(logger, nullptr, 0, 0); }

  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback host_activity,
                    int64_t start_ns, int64_t) override {
    Activities built(work_, wanted_, host_activity);
    for (const auto& activity : built.activities()) activity->log(logger);
    streams_ = built.streams();
    shift_ns_ = built.shift_ns();
    // getDeviceInfo has room for one.
    for (const DeviceWork& device : work_.devices) {
      if (device.ordinal != first_device()) logger.handleDeviceInfo(device_info(device.ordinal), start_ns);
    }
    buffer_ = built.take_buffer();
  }

  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    return std::make_unique<libkineto::DeviceInfo>(device_info(first_device()));
  }

  std::vector<libkineto::ResourceInfo> getResourceInfos() override {
    std::vector<libkineto::ResourceInfo> rows;
    for (const auto& [device, stream] : streams_)
      rows.push_back({.id = stream, .sortIndex = stream, .deviceId = device, .name = stream_name(stream)});
    return rows;
  }

  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override { return std::move(buffer_); }

  void pushCorrelationId(uint64_t id) override { runtime::thread_ids::push_op(id); }
  void popCorrelationId() override { runtime::thread_ids::pop_op(); }
  void pushUserCorrelationId(uint64_t id) override { runtime::thread_ids::push_range(id); }
  void popUserCorrelationId() override { runtime::thread_ids::pop_range(); }

  std::string getDeviceProperties() override {
    std::string text;
    for (const DeviceWork& device : work_.devices) {
      const atalla_device_properties& p = runtime::Device::get(device.ordinal).properties();
      text += fmt::format(
          "{}\n    {{\"id\": {}, \"name\": \"{}\", \"totalGlobalMem\": {}, \"clockRateHz\": {}, "
          "\"busBytesPerCycle\": {}, \"vectorLanes\": {}, \"arrayRows\": {}, \"arrayColumns\": {}}}",
          text.empty() ? "" : ",", device.ordinal, p.name, p.dram_bytes, p.clock_hz, p.bus_bytes_per_cycle,
          p.vector_lanes, p.array_rows, p.array_columns);
    }
    return text;
  }

 private:
  int first_device() const { return work_.devices.empty() ? 0 : work_.devices.front().ordinal; }

  static libkineto::DeviceInfo device_info(int ordinal) {
    return {.id = ordinal,
            .sortIndex = kFirstDeviceRow + ordinal,
            .name = "atalla:" + std::to_string(ordinal),
            .label = "simulated time"};
  }

  std::set<ActivityType> wanted_;
  std::optional<runtime::Recording> recording_;
  runtime::RecordedWork work_;
  std::vector<std::string> errors_;
  std::set<std::pair<int, uint32_t>> streams_;
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_;
  int64_t shift_ns_ = 0;
};

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override {
    static const std::string name = "atalla";
    return name;
  }
  const std::set<ActivityType>& availableActivities() const override {
    static const std::set<ActivityType> types = {ActivityType::CONCURRENT_KERNEL, ActivityType::GPU_MEMCPY,
                                                 ActivityType::GPU_USER_ANNOTATION, ActivityType::PRIVATEUSE1_RUNTIME};
    return types;
  }
  // Runtime calls are among the host's activities too: they alone do not ask for the device.
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(const std::set<ActivityType>& types,
                                                                 const libkineto::Config&) override {
    const bool asked = types.count(ActivityType::CONCURRENT_KERNEL) != 0 || types.count(ActivityType::GPU_MEMCPY) != 0;
    return asked ? std::make_unique<Session>(types) : nullptr;
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(int64_t, int64_t, const std::set<ActivityType>& types,
                                                                 const libkineto::Config& config) override {
    return configure(types, config);
  }
};

}  // namespace

void register_profiler() {
  torch::profiler::impl::PrivateUse1ProfilerRegistry::instance().registerFactory(
      [] { return std::make_unique<Profiler>(); });
  register_profiler_stubs();
}

}  // namespace atalla::aten
