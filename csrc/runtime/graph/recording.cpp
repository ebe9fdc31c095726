// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/graph/recording.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <mutex>

#include "runtime/device/api.h"
#include "runtime/device/device.h"
#include "runtime/device/error.h"
#include "runtime/stream/observer.h"

namespace atalla::runtime {
namespace {

// The device's ring is read whenever so many calls have been recorded, well before it is full (16,384 records).
constexpr uint32_t kCallsAReading = 1024;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

int32_t thread_id() {
  thread_local const auto id = static_cast<int32_t>(syscall(SYS_gettid));
  return id;
}

bool keeps_work_records() {
  const atalla_api& table = api();
  return table.struct_size >= offsetof(atalla_api, work_records) + sizeof table.work_records &&
         table.work_records != nullptr;
}

std::atomic<uint32_t> ids_epoch{1};

struct ThreadIds {
  uint32_t epoch = 0;
  std::vector<uint64_t> ops;
  std::vector<uint64_t> ranges;
  std::vector<int32_t> nodes;  // of `ranges` in the log with generation `log`; shorter when not yet entered
  uint32_t log = 0;
  int64_t begin_ns = 0;  // of the call in progress
  const char* call = "";
};

ThreadIds& own_ids() {
  thread_local ThreadIds ids;
  const uint32_t epoch = ids_epoch.load(std::memory_order_relaxed);
  if (ids.epoch != epoch) {
    ids.ops.clear();
    ids.ranges.clear();
    ids.nodes.clear();
    ids.epoch = epoch;
  }
  return ids;
}

// What all recordings in progress share; each takes its part at its end. Never destroyed.
class Log final : public WorkObserver {
 public:
  uint64_t begin(const char* call) noexcept override {
    ThreadIds& ids = own_ids();
    ids.call = call;
    ids.begin_ns = now_ns();
    return next_tag_.fetch_add(1, std::memory_order_relaxed);
  }

  void end(uint64_t tag) noexcept override {
    const int64_t end_ns = now_ns();
    ThreadIds& ids = own_ids();
    const std::lock_guard lock(mutex_);
    if (clients_ == 0) return;  // the last recording has ended meanwhile
    try {
      calls_.push_back({.tag = tag,
                        .name = ids.call,
                        .begin_ns = ids.begin_ns,
                        .end_ns = end_ns,
                        .thread = thread_id(),
                        .range = enter_ranges(ids),
                        .op = ids.ops.empty() ? 0 : ids.ops.back()});
      if (++unread_ >= kCallsAReading) read_devices();
    } catch (...) {  // out of memory: the work goes on without a record of its call
    }
  }

  void open(std::vector<uint64_t>* first_record, size_t* first_call) {
    const std::lock_guard lock(mutex_);
    if (clients_ == 0) {
      ++generation_;
      calls_.clear();
      ranges_.clear();
      next_tag_.store(1, std::memory_order_relaxed);
      for (Reader& reader : readers_) reader = {};
      for (int i = 0; i < kMaxDevices; ++i) {
        if (Device::is_open(i)) readers_[static_cast<size_t>(i)].next = next_sequence(Device::get(i));
      }
    } else {
      read_devices();
    }
    *first_call = calls_.size();
    first_record->clear();
    for (const Reader& reader : readers_) first_record->push_back(reader.next);
    ++clients_;
    work_observer.store(this, std::memory_order_release);
  }

  void close(const std::vector<uint64_t>& first_record, size_t first_call, RecordedWork* work) {
    const std::lock_guard lock(mutex_);
    if (work != nullptr) {
      read_devices();
      work->calls.assign(calls_.begin() + static_cast<std::ptrdiff_t>(first_call), calls_.end());
      work->ranges = ranges_;
      for (int i = 0; i < kMaxDevices; ++i) {
        if (!Device::is_open(i)) continue;
        const auto k = static_cast<size_t>(i);
        const Reader& reader = readers_[k];
        DeviceWork device{.ordinal = i, .clock_hz = Device::get(i).properties().clock_hz, .records = {}, .lost = 0};
        std::copy_if(reader.records.begin(), reader.records.end(), std::back_inserter(device.records),
                     [&](const atalla_work_record& r) { return r.sequence >= first_record[k]; });
        device.lost = reader.next - first_record[k] - device.records.size();
        work->devices.push_back(std::move(device));
      }
    }
    if (--clients_ == 0) {
      work_observer.store(nullptr, std::memory_order_release);
      calls_ = {};
      ranges_ = {};
      for (Reader& reader : readers_) reader = {};
    }
  }

 private:
  struct Reader {
    uint64_t next = 0;  // sequence number of the next record
    std::vector<atalla_work_record> records;
  };

  // There is a record with sequence >= s exactly when s is below the next one.
  static uint64_t next_sequence(Device& device) {
    uint64_t low = 0;
    uint64_t high = uint64_t{1} << 62;
    while (low < high) {
      const uint64_t middle = low + (high - low) / 2;
      atalla_work_record record;
      size_t count = 1;
      check(api().work_records(device.handle(), middle, &record, sizeof record, &count));
      if (count != 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // Appends what the devices have recorded since.
  void read_devices() {
    unread_ = 0;
    for (int i = 0; i < kMaxDevices; ++i) {
      if (!Device::is_open(i)) continue;
      Reader& reader = readers_[static_cast<size_t>(i)];
      const atalla_device device = Device::get(i).handle();
      for (;;) {
        const size_t before = reader.records.size();
        size_t count = kCallsAReading;
        reader.records.resize(before + count);
        const atalla_status status =
            api().work_records(device, reader.next, &reader.records[before], sizeof reader.records[0], &count);
        if (status != ATALLA_OK) count = 0;
        reader.records.resize(before + count);
        if (count == 0) break;
        reader.next = reader.records.back().sequence + 1;
      }
    }
  }

  int32_t enter_ranges(ThreadIds& ids) {
    if (ids.log != generation_) {
      ids.nodes.clear();
      ids.log = generation_;
    }
    while (ids.nodes.size() < ids.ranges.size()) {
      ranges_.push_back({ids.ranges[ids.nodes.size()], ids.nodes.empty() ? -1 : ids.nodes.back()});
      ids.nodes.push_back(static_cast<int32_t>(ranges_.size()) - 1);
    }
    return ids.nodes.empty() ? -1 : ids.nodes.back();
  }

  std::mutex mutex_;
  int clients_ = 0;
  uint32_t generation_ = 0;
  uint32_t unread_ = 0;
  std::atomic<uint64_t> next_tag_{1};
  std::vector<HostCall> calls_;
  std::vector<UserRange> ranges_;
  std::array<Reader, kMaxDevices> readers_;
};

Log& the_log() {
  static Log* const log = new Log;
  return *log;
}

}  // namespace

Recording::Recording() {
  if (!keeps_work_records())
    throw Error(ATALLA_ERR_UNSUPPORTED, "the device library keeps no records of work (ABI version 1.0)");
  for (int i = 0; i < kMaxDevices; ++i) {
    if (!Device::is_open(i)) continue;
    Device& device = Device::get(i);
    device.drain();
    // A barrier in simulated time. The driver keeps a queue's fault itself.
    (void)api().device_synchronize(device.handle());
    origin_ = std::max(origin_, device.counters().clock);
  }
  the_log().open(&first_record_, &first_call_);
  begin_ns_ = now_ns();
}

Recording::~Recording() {
  if (running_) the_log().close(first_record_, first_call_, nullptr);
}

RecordedWork Recording::stop() {
  look_at_charges(true);
  RecordedWork work{
      .begin_ns = begin_ns_, .end_ns = now_ns(), .origin = origin_, .calls = {}, .ranges = {}, .devices = {}};
  running_ = false;
  the_log().close(first_record_, first_call_, &work);
  return work;
}

namespace thread_ids {

void push_op(uint64_t id) { own_ids().ops.push_back(id); }

void pop_op() noexcept {
  ThreadIds& ids = own_ids();
  if (!ids.ops.empty()) ids.ops.pop_back();
}

void push_range(uint64_t id) { own_ids().ranges.push_back(id); }

void pop_range() noexcept {
  ThreadIds& ids = own_ids();
  if (ids.ranges.empty()) return;
  ids.ranges.pop_back();
  ids.nodes.resize(std::min(ids.nodes.size(), ids.ranges.size()));
}

void forget() noexcept { ids_epoch.fetch_add(1, std::memory_order_relaxed); }

}  // namespace thread_ids

}  // namespace atalla::runtime
