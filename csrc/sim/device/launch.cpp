// SPDX-License-Identifier: BSD-3-Clause
#include "sim/device/launch.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>

#include "sim/abi/dtype.h"
#include "sim/abi/error.h"
#include "sim/device/kernel_table.h"
#include "sim/device/launch_kind.h"
#include "sim/device/registry.h"
#include "sim/host/float_mode.h"
#include "sim/time/journal.h"
#include "sim/time/work.h"

namespace atalla::sim {
namespace {

atalla_status bad_header(const KernelTable& kernels, const atalla_launch_desc* desc, size_t desc_bytes) {
  if (desc == nullptr) return set_error(ATALLA_ERR_ARGUMENT, "the launch descriptor is a null pointer");
  if (desc_bytes < atalla_launch_desc_bytes(0)) {
    return set_error(ATALLA_ERR_ARGUMENT, "the launch descriptor has %zu bytes; expected at least %zu", desc_bytes,
                     atalla_launch_desc_bytes(0));
  }
  if (desc->kernel >= kernels.size()) {
    return set_error(ATALLA_ERR_UNKNOWN_KERNEL, "there is no kernel %u; expected an id below %zu", desc->kernel,
                     kernels.size());
  }
  const char* name = kernels[desc->kernel].name;
  if (desc->n_operands > ATALLA_MAX_OPERANDS || desc->n_outputs > desc->n_operands) {
    return set_error(ATALLA_ERR_ARGUMENT, "%s: %u outputs of %u operands; expected at most %d operands", name,
                     desc->n_outputs, desc->n_operands, ATALLA_MAX_OPERANDS);
  }
  if (desc_bytes < atalla_launch_desc_bytes(desc->n_operands)) {
    return set_error(ATALLA_ERR_ARGUMENT, "%s: the launch descriptor has %zu bytes; %u operands need %zu", name,
                     desc_bytes, desc->n_operands, atalla_launch_desc_bytes(desc->n_operands));
  }
  return set_error(ATALLA_ERR_UNSUPPORTED, "%s does not compute in %s (code %u)", name, dtype_name(desc->compute_dtype),
                   desc->compute_dtype);
}

// Kernel, counts and compute dtype.
atalla_status check_header(const KernelTable& kernels, const atalla_launch_desc* desc, size_t desc_bytes) {
  if (desc != nullptr && desc_bytes >= atalla_launch_desc_bytes(0) && desc->kernel < kernels.size() &&
      desc->n_operands <= ATALLA_MAX_OPERANDS && desc->n_outputs <= desc->n_operands &&
      desc_bytes >= atalla_launch_desc_bytes(desc->n_operands) && desc->compute_dtype < kDtypeCodes &&
      (kernels[desc->kernel].dtypes >> desc->compute_dtype & 1) != 0) [[likely]] {
    return ATALLA_OK;
  }
  return bad_header(kernels, desc, desc_bytes);
}

atalla_status bad_operand(const char* name, const atalla_launch_desc& desc, int i) {
  const atalla_operand& operand = desc.operands[i];
  if (dtype_size(operand.dtype) == 0) {
    return set_error(ATALLA_ERR_ARGUMENT, "%s: operand %d has dtype code %u, which is not a dtype", name, i,
                     operand.dtype);
  }
  if (operand.ndim > ATALLA_MAX_DIMS) {
    return set_error(ATALLA_ERR_ARGUMENT, "%s: operand %d has %u dimensions; expected at most %d", name, i,
                     operand.ndim, ATALLA_MAX_DIMS);
  }
  if (operand.immediate != 0) {
    return set_error(ATALLA_ERR_ARGUMENT,
                     "%s: operand %d is immediate (%u) with address 0x%" PRIx64
                     " and %u dimensions; expected 1, address 0, 0 dimensions, and an input",
                     name, i, operand.immediate, operand.addr, operand.ndim);
  }
  for (int d = 0; d < operand.ndim; ++d) {
    if (operand.sizes[d] < 0) {
      return set_error(ATALLA_ERR_ARGUMENT, "%s: operand %d has size %" PRId64 " in dimension %d", name, i,
                       operand.sizes[d], d);
    }
  }
  return set_error(ATALLA_ERR_ARGUMENT, "%s: the sizes of operand %d have more than 2^63 elements", name, i);
}

// The elements that an operand reaches, relative to its address.
struct Extent {
  int64_t low = 0;   // <= 0
  int64_t high = 0;  // >= 0, of the last element
  bool empty = false;
  bool overflow = false;
};

// False when a size is negative, or the sizes' product leaves 64 bits.
inline bool extent_of(const atalla_operand& operand, Extent* extent) {
  int64_t elements = 1;
  bool too_many = false;
  for (int d = 0; d < operand.ndim; ++d) {
    const int64_t size = operand.sizes[d];
    if (size < 0) return false;
    if (size == 0) {
      extent->empty = true;
      continue;
    }
    too_many |= __builtin_mul_overflow(elements, size, &elements);
    int64_t reach = 0;
    extent->overflow |= __builtin_mul_overflow(size - 1, operand.strides[d], &reach);
    int64_t& end = reach < 0 ? extent->low : extent->high;
    extent->overflow |= __builtin_add_overflow(end, reach, &end);
  }
  return extent->empty || !too_many;
}

inline bool well_formed(const atalla_launch_desc& desc, int i, Extent* extent) {
  const atalla_operand& operand = desc.operands[i];
  if (dtype_size(operand.dtype) == 0 || operand.ndim > ATALLA_MAX_DIMS) return false;
  if (operand.immediate != 0) {
    return operand.immediate == 1 && i >= desc.n_outputs && operand.addr == 0 && operand.ndim == 0;
  }
  return extent_of(operand, extent);
}

atalla_status operand_fault(const char* name, const Device& device, const atalla_launch_desc& desc, int i,
                            const Extent& extent) {
  const Dram& dram = device.dram();
  const atalla_operand& operand = desc.operands[i];
  const uint32_t align = dtype_alignment(operand.dtype);
  const bool known = dram.contains(operand.addr, 1) || registry.imports.find(operand.addr, 1) != nullptr;
  if (known && (operand.addr & (align - 1)) != 0) {
    return set_error(ATALLA_ERR_FAULT_KERNEL, "%s: operand %d at 0x%" PRIx64 " is misaligned: %s needs %u bytes", name,
                     i, operand.addr, dtype_name(operand.dtype), align);
  }
  if (extent.overflow) {
    return set_error(ATALLA_ERR_FAULT_ADDRESS, "%s: operand %d reaches beyond the 64-bit address space", name, i);
  }
  return set_error(ATALLA_ERR_FAULT_ADDRESS,
                   "%s: operand %d, elements %" PRId64 " to %" PRId64 " of %s at 0x%" PRIx64
                   ", leaves the DRAM of device %d: %" PRIu64 " bytes at 0x%" PRIx64,
                   name, i, extent.low, extent.high, dtype_name(operand.dtype), operand.addr,
                   static_cast<int>(device.ordinal()), dram.size(), dram.base());
}

// False when it leaves 64 bits.
inline bool reach_of(const atalla_operand& operand, const Extent& extent, Reach* reach) {
  const auto size = static_cast<int64_t>(dtype_size(operand.dtype));
  bool bad = extent.overflow;
  bad |= __builtin_mul_overflow(extent.low, size, &reach->low);
  bad |= __builtin_mul_overflow(extent.high, size, &reach->high);
  bad |= __builtin_add_overflow(reach->high, size, &reach->high);
  return !bad;
}

// One subtraction and two compares.
inline bool inside(const Dram& dram, atalla_addr addr, const Reach& reach) {
  const uint64_t offset = addr - dram.base();  // wraps below the base
  return offset < dram.size() && static_cast<uint64_t>(reach.high) <= dram.size() - offset &&
         static_cast<uint64_t>(-reach.low) <= offset;
}

// Engine pointers and reaches of all operands. *own: those in memory have elements, which lie in the device's memories.
atalla_status bind_operands(const char* name, const Device& device, const atalla_launch_desc& desc, void** data,
                            Reach* reaches, bool* own) {
  const Dram& dram = device.dram();
  *own = true;
  for (int i = 0; i < desc.n_operands; ++i) {
    const atalla_operand& operand = desc.operands[i];
    Extent extent;
    reaches[i] = {};
    if (!well_formed(desc, i, &extent)) [[unlikely]]
      return bad_operand(name, desc, i);
    if (operand.immediate != 0) {
      data[i] = const_cast<int64_t*>(operand.sizes);
    } else if (operand.addr == 0) {
      data[i] = nullptr;  // absent
    } else if (extent.empty) {
      // Reaches nothing; the address of an empty tensor may be anything.
      data[i] = dram.contains(operand.addr, 0) ? dram.translate(operand.addr) : nullptr;
      *own = false;
    } else {
      const Dram*& home = reaches[i].home = &dram;
      if (!reach_of(operand, extent, &reaches[i])) [[unlikely]]
        return operand_fault(name, device, desc, i, extent);
      if (!inside(dram, operand.addr, reaches[i])) [[unlikely]] {
        const Import* import = registry.imports.find(operand.addr, 1);
        if (import == nullptr || import->device != &device || !inside(import->dram, operand.addr, reaches[i])) {
          return operand_fault(name, device, desc, i, extent);
        }
        home = &import->dram;
        *own = false;
      }
      if ((operand.addr & (dtype_alignment(operand.dtype) - 1)) != 0) [[unlikely]] {
        return operand_fault(name, device, desc, i, extent);
      }
      data[i] = home->translate(operand.addr);
    }
  }
  return ATALLA_OK;
}

// The same for a launch that is known. False if an address is misaligned or leaves the operand's memory.
inline bool bind_known(const atalla_launch_desc& desc, const KnownLaunch& known, void** data) {
  for (int i = 0; i < desc.n_operands; ++i) {
    const atalla_operand& operand = desc.operands[i];
    if (operand.immediate != 0) {
      data[i] = const_cast<int64_t*>(operand.sizes);
    } else if (operand.addr == 0) {
      data[i] = nullptr;
    } else {
      const Reach& reach = known.operands[i].reach;
      if (!inside(*reach.home, operand.addr, reach)) [[unlikely]]
        return false;
      if ((operand.addr & known.operands[i].align_mask) != 0) [[unlikely]]
        return false;
      data[i] = reach.home->translate(operand.addr);
    }
  }
  return true;
}

// Puts the launch's tag before the text, and its number where that is known.
atalla_status name_launch(Device& device, const char* name, const atalla_launch_desc& desc, bool charged_next,
                          atalla_status status) {
  char number[24] = "";
  if (charged_next) snprintf(number, sizeof number, " %" PRIu64, device.telemetry().launches());
  prefix_error("device %d, launch%s (%s, tag %" PRIu64 "): ", static_cast<int>(device.ordinal()), number, name,
               desc.tag);
  return status;
}

// A descriptor that no kernel has checked: its counts may look at operands that the caller left out, so they
// must be there. *whole is the calling thread's copy, of which every operand is well-formed, until the next call.
atalla_status complete(const KernelTable& kernels, const atalla_launch_desc* desc, size_t desc_bytes,
                       const atalla_launch_desc** whole) {
  static thread_local atalla_launch_desc copy{};
  static thread_local size_t used = 0;  // bytes that are not zero
  if (const atalla_status status = check_header(kernels, desc, desc_bytes)) return status;
  const size_t bytes = atalla_launch_desc_bytes(desc->n_operands);
  memcpy(static_cast<void*>(&copy), desc, bytes);
  if (bytes < used) memset(reinterpret_cast<char*>(&copy) + bytes, 0, used - bytes);
  used = bytes;
  for (int i = 0; i < copy.n_operands; ++i) {
    Extent extent;
    if (!well_formed(copy, i, &extent)) return bad_operand(kernels[copy.kernel].name, copy, i);
  }
  *whole = &copy;
  return ATALLA_OK;
}

constexpr int64_t kMostProgramWords = 4096;  // of a vector program: many times what its limits allow

atalla_status check_charge(const Device& device, const atalla_launch_desc& desc) {
  const uint32_t count = device.charges().count();
  if (desc.charge <= count) [[likely]]
    return ATALLA_OK;
  return set_error(ATALLA_ERR_ARGUMENT, "%s: charge %u; device %d has charges 1 to %u",
                   device.kernels()[desc.kernel].name, desc.charge, static_cast<int>(device.ordinal()), count);
}

// The words of the launch's vector program, in the DRAM of the device; none if it has no program there.
std::span<const int64_t> program_of(const Device& device, const atalla_launch_desc& desc) {
  if (desc.n_operands == 0 || !has_program(traits_of(desc.kernel), desc)) [[likely]]
    return {};
  const atalla_operand& operand = desc.operands[desc.n_operands - 1];
  if (operand.immediate != 0 || operand.dtype != ATALLA_I64 || operand.ndim != 1 || operand.sizes[0] <= 0 ||
      operand.strides[0] != 1 || operand.addr % alignof(int64_t) != 0 || operand.sizes[0] > kMostProgramWords)
    return {};
  const auto words = static_cast<size_t>(operand.sizes[0]);
  if (!device.dram().contains(operand.addr, words * sizeof(int64_t))) return {};
  return {reinterpret_cast<const int64_t*>(device.dram().translate(operand.addr)), words};
}

// At the chip's full rates, by what the descriptor says alone.
LaunchCharge assumed_charge(const Device& device, const atalla_launch_desc& desc) {
  const ChipConfig& chip = device.config();
  const Work work = work_of(chip, traits_of(desc.kernel), device.kernels()[desc.kernel], desc);
  EnergyEvents events = device.energy().computed(work, desc.compute_dtype);
  device.energy().move(work.bytes_read, work.bytes_written, &events);
  const uint64_t tiles_under_way =
      2 * uint64_t{desc.n_operands} * chip.sdma_tile_rows * chip.sdma_tile_columns * chip.sdma_element_bytes;
  LaunchCharge charge;
  charge.time = device.timing().launch(work);
  charge.time.scratchpad_bytes = static_cast<uint32_t>(
      std::min({tiles_under_way, chip.scratchpad_count * chip.scratchpad_bytes, uint64_t{UINT32_MAX}}));
  charge.bytes_read = work.bytes_read;
  charge.bytes_written = work.bytes_written;
  charge.macs = work.macs;
  charge.energy = device.energy().of(events);
  return charge;
}

// A launch costs the charge that its descriptor names; without that, the device assumes one.
LaunchCharge given_charge(const Device& device, const atalla_launch_desc& desc) {
  return desc.charge != 0 ? device.charges()[desc.charge] : assumed_charge(device, desc);
}

// Null without a provider. A launch that names its charge is of a kind that is told already.
const KindCharge* kind_of(Device& device, const atalla_launch_desc& desc) {
  if (!has_charge_provider()) return nullptr;
  const std::span<const int64_t> program = program_of(device, desc);
  return device.charges().kind(kind_name(desc, program), desc, program, desc.charge != 0,
                               [&] { return given_charge(device, desc); });
}

PricedLaunch price_of(Device& device, const atalla_launch_desc& desc) {
  if (const KindCharge* const kind = kind_of(device, desc)) return {kind->value(), kind};
  return {given_charge(device, desc)};
}

// A launch without a kind: a program of Atalla code, or one that was submitted while a provider came.
[[gnu::noinline]] void record_in_turn(Device& device, uint32_t stream, const atalla_launch_desc& desc,
                                      const LaunchCharge& charge, StreamClock* clock) {
  atalla_launch_record head{};
  fill_head(desc, &head);
  Telemetry& telemetry = device.telemetry();
  telemetry.expect_launch();
  journal().append([&telemetry, clock, stream, head, charge] {
    telemetry.record_launch(clock, stream, head, head.tag, charge);
    telemetry.forget_expected();
  });
}

[[gnu::noinline]] void record_kind(Device& device, uint32_t stream, const atalla_launch_desc& desc,
                                   const PricedLaunch& price, StreamClock* clock) {
  if (price.kind == nullptr) return record_in_turn(device, stream, desc, price.charge, clock);
  if (are_steps_waiting() || !price.kind->told()) return journal().launch(*price.kind, clock, stream, desc.tag);
  device.telemetry().record_launch(clock, stream, desc, price.kind->value());
}

[[gnu::always_inline]] inline void record(Device& device, uint32_t stream, const atalla_launch_desc& desc,
                                          const PricedLaunch& price, StreamClock* clock) {
  if (price.kind != nullptr || are_steps_waiting()) return record_kind(device, stream, desc, price, clock);
  device.telemetry().record_launch(clock, stream, desc, price.charge);
}

// Of a launch whose descriptor is that of a known one, but for addresses: behind that of its vector program may be
// another one.
[[gnu::noinline]] void record_known_program(Device& device, uint32_t stream, const atalla_launch_desc& desc,
                                            const PricedLaunch& known, StreamClock* clock) {
  const bool same = std::ranges::equal(program_of(device, desc), known.kind->program);
  record(device, stream, desc, same ? known : price_of(device, desc), clock);
}

}  // namespace

const KindCharge* kind_of_launch(Device& device, const atalla_launch_desc* desc, size_t desc_bytes) {
  const atalla_launch_desc* whole = nullptr;
  return complete(device.kernels(), desc, desc_bytes, &whole) == ATALLA_OK ? kind_of(device, *whole) : nullptr;
}

void record_program(Device& device, uint32_t stream, const atalla_launch_desc& desc, const LaunchCharge& charge,
                    StreamClock* clock) {
  record(device, stream, desc, {charge}, clock);
}

atalla_status measure_work(const atalla_launch_desc* desc, size_t desc_bytes, Work* work) {
  const KernelTable kernels = kernel_table();
  const atalla_launch_desc* whole = nullptr;
  if (const atalla_status status = complete(kernels, desc, desc_bytes, &whole)) return status;
  *work = work_of(builtin_chip_config(), traits_of(whole->kernel), kernels[whole->kernel], *whole);
  return ATALLA_OK;
}

namespace {

atalla_status run_kernel(const Kernel& kernel, const Launch& launch) {
  const ChipFloatMode mode;
  return kernel.run(launch);
}

// Checks and runs; reaches and *own as of bind_operands.
atalla_status run_launch(Device& device, const atalla_launch_desc* desc, size_t desc_bytes, bool charged_next,
                         Reach* reaches, bool* own) {
  const KernelTable& kernels = device.kernels();
  if (const atalla_status status = check_header(kernels, desc, desc_bytes)) [[unlikely]]
    return status;
  void* data[ATALLA_MAX_OPERANDS];
  if (const atalla_status status = check_charge(device, *desc)) [[unlikely]]
    return status;
  const Kernel& kernel = kernels[desc->kernel];
  atalla_status status = bind_operands(kernel.name, device, *desc, data, reaches, own);
  const KernelTraits& traits = traits_of(desc->kernel);
  const Launch launch{*desc, data, kernel.name};
  if (status == ATALLA_OK) status = check_contract(launch, traits);
  if (status == ATALLA_OK) status = check_sizes(launch, size_function_of(desc->kernel), traits);
  if (status == ATALLA_OK) [[likely]]
    status = run_kernel(kernel, launch);
  if (status != ATALLA_OK) [[unlikely]]
    return name_launch(device, kernel.name, *desc, charged_next, status);
  return ATALLA_OK;
}

}  // namespace

atalla_status launch(Device& device, uint32_t stream, const atalla_launch_desc* desc, size_t desc_bytes,
                     LaunchMemo* memo, StreamClock* clock) {
  if (const KnownLaunch* known = memo->find(desc, desc_bytes)) {
    void* data[ATALLA_MAX_OPERANDS];
    if (bind_known(*desc, *known, data)) [[likely]] {
      const Kernel& kernel = device.kernels()[desc->kernel];
      const atalla_status status = run_kernel(kernel, Launch{*desc, data, kernel.name, true});
      if (status != ATALLA_OK) [[unlikely]]
        return name_launch(device, kernel.name, *desc, true, status);
      const KindCharge* const kind = known->price.kind;
      if (kind != nullptr && !kind->program.empty()) [[unlikely]]
        record_known_program(device, stream, *desc, known->price, clock);
      else record(device, stream, *desc, known->price, clock);
      return ATALLA_OK;
    }
  }
  Reach reaches[ATALLA_MAX_OPERANDS];
  bool own = false;
  const atalla_status status = run_launch(device, desc, desc_bytes, true, reaches, &own);
  if (status != ATALLA_OK) [[unlikely]]
    return status;
  const PricedLaunch price = price_of(device, *desc);
  record(device, stream, *desc, price, clock);
  if (own) memo->keep(*desc, reaches, price);
  return ATALLA_OK;
}

atalla_status execute_launch(Device& device, const atalla_launch_desc* desc, size_t desc_bytes) {
  Reach reaches[ATALLA_MAX_OPERANDS];
  bool own = false;
  return run_launch(device, desc, desc_bytes, false, reaches, &own);
}

atalla_status charge_launch(Device& device, uint32_t stream, const atalla_launch_desc* desc, size_t desc_bytes,
                            StreamClock* clock) {
  const atalla_launch_desc* whole = nullptr;
  if (const atalla_status status = complete(device.kernels(), desc, desc_bytes, &whole)) return status;
  if (const atalla_status status = check_charge(device, *whole)) return status;
  record(device, stream, *whole, price_of(device, *whole), clock);
  return ATALLA_OK;
}

atalla_status estimate_launch(Device& device, const atalla_launch_desc* desc, size_t desc_bytes,
                              atalla_launch_record* record, atalla_energy* energy) {
  const atalla_launch_desc* whole = nullptr;
  if (const atalla_status status = complete(device.kernels(), desc, desc_bytes, &whole)) return status;
  if (const atalla_status status = check_charge(device, *whole)) return status;
  const LaunchCharge charge = price_of(device, *whole).charge;
  atalla_launch_record filled{};
  fill_head(*whole, &filled);
  fill_charge(charge, &filled);
  *record = filled;
  if (energy == nullptr) return ATALLA_OK;
  *energy = charge.energy;
  const atalla_energy idle = device.energy().idle(charge.time.cycles);
  atalla_energy_add(energy, &idle);
  return ATALLA_OK;
}

}  // namespace atalla::sim
