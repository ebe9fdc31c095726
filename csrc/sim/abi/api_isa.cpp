// SPDX-License-Identifier: BSD-3-Clause
//
// The C ABI: Atalla code.
#include <map>
#include <memory>

#include "sim/abi/api_internal.h"
#include "sim/abi/atalla_isa.h"
#include "sim/isa/machine.h"

namespace atalla::sim::api {
namespace {

constexpr uint64_t kMaxPackets = uint64_t{1} << 26;

// Objects by number, so that a handle that is none is found to be one.
template <class Object>
class Objects {
 public:
  uint64_t add(std::shared_ptr<Object> object) {
    const std::lock_guard lock(mutex_);
    objects_.emplace(++last_, std::move(object));
    return last_;
  }
  std::shared_ptr<Object> find(uint64_t handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }
  bool remove(uint64_t handle) {
    std::shared_ptr<Object> kept;  // ends after the lock
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return false;
    kept = std::move(found->second);
    objects_.erase(found);
    return true;
  }

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Object>> objects_;
  uint64_t last_ = 0;
};

struct OpenMachine {
  std::mutex mutex;
  uint64_t device = 0;  // handle; 0: has its own memory
  isa::Machine machine;
};

// Never destroyed: programs may be used until the very end of the process.
Objects<const isa::Program>& programs() {
  static auto* const all = new Objects<const isa::Program>;
  return *all;
}
Objects<OpenMachine>& machines() {
  static auto* const all = new Objects<OpenMachine>;
  return *all;
}

// body(Device*) with the device, null for the null handle, kept open.
template <class F>
atalla_status with_optional_device(uint64_t handle, F&& body) {
  if (handle == 0) return body(nullptr);
  return with_device(to_handle<atalla_device>(handle), [&](Device& d) -> atalla_status { return body(&d); });
}

// body(Machine&), alone on its device.
template <class F>
atalla_status with_machine(atalla_isa_machine handle, F&& body) noexcept {
  return guarded([&]() -> atalla_status {
    const std::shared_ptr<OpenMachine> open = machines().find(number(handle));
    if (open == nullptr) return bad_handle("machine", number(handle));
    const std::lock_guard lock(open->mutex);
    return with_optional_device(open->device, [&](Device* device) -> atalla_status {
      if (device == nullptr) return body(open->machine);
      const std::lock_guard core(device->core().mutex());
      return body(open->machine);
    });
  });
}

atalla_status device_find(int32_t ordinal, atalla_device* device, atalla_addr* base) {
  return guarded([&]() -> atalla_status {
    if (device == nullptr || base == nullptr) return null_argument("device or base");
    const std::shared_lock lock(registry.mutex);
    uint64_t found = 0;
    registry.devices.for_each([&](const DeviceSlot& slot, uint64_t handle) {
      if (slot.device->ordinal() != ordinal) return;
      found = handle;
      *base = slot.device->dram().base();
    });
    if (found == 0) return set_error(ATALLA_ERR_ARGUMENT, "device %d is not open", static_cast<int>(ordinal));
    *device = to_handle<atalla_device>(found);
    return ATALLA_OK;
  });
}

atalla_status add_program(const ChipConfig& config, const void* code, uint64_t bytes, atalla_isa_program* program) {
  if (program == nullptr || (code == nullptr && bytes != 0)) return null_argument("code or program");
  if (bytes % isa::kPacketBytes != 0 || bytes / isa::kPacketBytes > kMaxPackets) {
    return set_error(ATALLA_ERR_FORMAT, "a program of %llu bytes; expected a multiple of 20, at most 2^26 packets",
                     static_cast<unsigned long long>(bytes));
  }
  const auto packets = static_cast<uint32_t>(bytes / isa::kPacketBytes);
  auto made = std::make_shared<const isa::Program>(static_cast<const uint8_t*>(code), packets, config);
  *program = to_handle<atalla_isa_program>(programs().add(std::move(made)));
  return ATALLA_OK;
}

atalla_status program_create(atalla_device device, const void* code, uint64_t bytes, atalla_isa_program* program) {
  return guarded([&]() -> atalla_status {
    return with_optional_device(number(device), [&](Device* d) -> atalla_status {
      return add_program(d != nullptr ? d->config() : builtin_chip_config(), code, bytes, program);
    });
  });
}

atalla_status program_create_for(const char* chip, const void* code, uint64_t bytes, atalla_isa_program* program) {
  return guarded([&]() -> atalla_status {
    if (chip == nullptr) return null_argument("chip");
    ChipConfig config;
    if (const atalla_status status = parse_chip_config(chip, "chip file", &config)) return status;
    return add_program(config, code, bytes, program);
  });
}

atalla_status program_destroy(atalla_isa_program program) {
  return guarded([&]() -> atalla_status {
    return programs().remove(number(program)) ? ATALLA_OK : bad_handle("program", number(program));
  });
}

atalla_status launch_program(atalla_stream stream, atalla_isa_program program, const atalla_isa_params* params,
                             atalla_isa_stats* stats) {
  return guarded([&]() -> atalla_status {
    Stream* s = registry.streams.find(number(stream));
    if (s == nullptr) return bad_handle("stream", number(stream));
    const std::shared_ptr<const isa::Program> found = programs().find(number(program));
    if (found == nullptr) return bad_handle("program", number(program));
    atalla_isa_params known;
    if (const atalla_status status = read_struct(params, "atalla_isa_params", &known)) return status;
    atalla_isa_stats result{};
    if (const atalla_status status = s->launch_program(number(stream), *found, known, &result)) return status;
    return stats == nullptr ? static_cast<atalla_status>(ATALLA_OK) : write_struct(result, "atalla_isa_stats", stats);
  });
}

atalla_status machine_create(atalla_device device, uint64_t dram_bytes, atalla_isa_program program,
                             const atalla_isa_params* params, atalla_isa_machine* machine) {
  return guarded([&]() -> atalla_status {
    if (machine == nullptr) return null_argument("machine");
    std::shared_ptr<const isa::Program> found = programs().find(number(program));
    if (found == nullptr) return bad_handle("program", number(program));
    atalla_isa_params known;
    if (const atalla_status status = read_struct(params, "atalla_isa_params", &known)) return status;
    return with_optional_device(number(device), [&](Device* d) -> atalla_status {
      auto open = std::make_shared<OpenMachine>();
      open->device = number(device);
      std::unique_lock<std::mutex> core;
      if (d != nullptr) core = std::unique_lock(d->core().mutex());
      if (const atalla_status status = open->machine.open(d, dram_bytes, std::move(found), known)) return status;
      isa::Machine& made = open->machine;
      const uint64_t handle = machines().add(std::move(open));
      made.set_handle(handle);
      *machine = to_handle<atalla_isa_machine>(handle);
      return ATALLA_OK;
    });
  });
}

atalla_status machine_destroy(atalla_isa_machine machine) {
  return guarded([&]() -> atalla_status {
    const std::shared_ptr<OpenMachine> open = machines().find(number(machine));
    if (open == nullptr) return bad_handle("machine", number(machine));
    machines().remove(number(machine));
    const std::lock_guard lock(open->mutex);
    // With the device its allocator may be gone; then the pages are, too.
    const std::shared_lock devices(registry.mutex);
    const bool gone = open->device != 0 && registry.devices.find(open->device) == nullptr;
    if (gone) open->machine.forget_pages();
    else open->machine.release();
    return ATALLA_OK;
  });
}

atalla_status machine_run(atalla_isa_machine machine, uint64_t max_packets, uint32_t* stop) {
  return with_machine(machine, [&](isa::Machine& m) -> atalla_status {
    return stop == nullptr ? null_argument("stop") : m.run(max_packets, stop);
  });
}

atalla_status machine_stats(atalla_isa_machine machine, atalla_isa_stats* stats) {
  return with_machine(machine, [&](isa::Machine& m) -> atalla_status {
    atalla_isa_stats found;
    m.stats(&found);
    return write_struct(found, "atalla_isa_stats", stats);
  });
}

atalla_status machine_read(atalla_isa_machine machine, uint32_t space, uint64_t offset, uint64_t bytes, void* data) {
  return with_machine(machine, [&](isa::Machine& m) -> atalla_status {
    return data == nullptr ? null_argument("data") : m.read(space, offset, bytes, data);
  });
}

atalla_status machine_write(atalla_isa_machine machine, uint32_t space, uint64_t offset, uint64_t bytes,
                            const void* data) {
  return with_machine(machine, [&](isa::Machine& m) -> atalla_status {
    return data == nullptr ? null_argument("data") : m.write(space, offset, bytes, data);
  });
}

atalla_status machine_break(atalla_isa_machine machine, uint32_t address, uint32_t set) {
  return with_machine(machine, [&](isa::Machine& m) { return m.set_breakpoint(address, set != 0); });
}

atalla_status machine_watch(atalla_isa_machine machine, uint32_t space, uint64_t offset, uint64_t bytes,
                            uint32_t access) {
  return with_machine(machine, [&](isa::Machine& m) { return m.set_watch({space, offset, offset + bytes, access}); });
}

atalla_status machine_profile(atalla_isa_machine machine, uint64_t* counts, uint64_t count) {
  return with_machine(machine, [&](isa::Machine& m) -> atalla_status {
    if (counts == nullptr && count != 0) return null_argument("counts");
    const std::vector<uint64_t> executed = m.executed();
    if (count > executed.size()) {
      return set_error(ATALLA_ERR_ARGUMENT, "counts of %llu packets; the program has %zu",
                       static_cast<unsigned long long>(count), executed.size());
    }
    std::copy_n(executed.begin(), count, counts);
    return ATALLA_OK;
  });
}

atalla_status machine_set_array(atalla_isa_machine machine, const atalla_isa_array* array) {
  return with_machine(machine, [&](isa::Machine& m) -> atalla_status {
    atalla_isa_array known;
    if (const atalla_status status = read_struct(array, "atalla_isa_array", &known)) return status;
    return m.set_array(known);
  });
}

constexpr atalla_isa_api kApi = {
    .struct_size = sizeof(atalla_isa_api),
    .abi_major = ATALLA_ISA_ABI_MAJOR,
    .abi_minor = ATALLA_ISA_ABI_MINOR,
    .reserved = 0,
    .device_find = device_find,
    .program_create = program_create,
    .program_destroy = program_destroy,
    .launch = launch_program,
    .machine_create = machine_create,
    .machine_destroy = machine_destroy,
    .machine_run = machine_run,
    .machine_stats = machine_stats,
    .machine_read = machine_read,
    .machine_write = machine_write,
    .machine_break = machine_break,
    .machine_watch = machine_watch,
    .machine_profile = machine_profile,
    .unit_name = isa::unit_name,
    .stall_name = isa::stall_name,
    .machine_set_array = machine_set_array,
    .program_create_for = program_create_for,
};

}  // namespace
}  // namespace atalla::sim::api

extern "C" atalla_status atalla_get_isa_api(uint32_t abi_major, const atalla_isa_api** api) {
  using namespace atalla::sim;
  if (api == nullptr) return null_argument("api");
  if (abi_major != ATALLA_ISA_ABI_MAJOR) {
    return set_error(ATALLA_ERR_VERSION, "the caller wants version %u of the ISA interface; this library speaks %u.%u",
                     abi_major, ATALLA_ISA_ABI_MAJOR, ATALLA_ISA_ABI_MINOR);
  }
  *api = &api::kApi;
  return ATALLA_OK;
}
