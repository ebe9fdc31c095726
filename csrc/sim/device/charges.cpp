// SPDX-License-Identifier: BSD-3-Clause
#include "sim/device/charges.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "sim/abi/error.h"
#include "sim/device/launch_kind.h"

namespace atalla::sim {
namespace {

bool same(const LaunchCharge& a, const LaunchCharge& b) {
  return a.time == b.time && a.bytes_read == b.bytes_read && a.bytes_written == b.bytes_written && a.macs == b.macs &&
         a.assumed == b.assumed && memcmp(&a.energy, &b.energy, sizeof a.energy) == 0;
}

LaunchCharge charge_from(const atalla_launch_charge& given) {
  LaunchCharge made;
  made.time.cycles = given.cycles;
  made.time.sdma_cycles = given.sdma_cycles;
  made.time.vector_cycles = given.vector_cycles;
  made.time.array_cycles = given.array_cycles;
  made.time.scratchpad_bytes = given.scratchpad_bytes;
  made.bytes_read = given.dram_bytes_read;
  made.bytes_written = given.dram_bytes_written;
  made.macs = given.macs;
  made.energy = given.energy;
  made.assumed = given.assumed != 0;
  return made;
}

std::mutex provider_mutex;
ChargeProvider provider;

}  // namespace

std::atomic<bool> provider_present{false};

void set_charge_provider(atalla_charge_provider function, void* context) {
  const std::lock_guard lock(provider_mutex);
  provider = {function, context};
  provider_present.store(function != nullptr, std::memory_order_release);
}

ChargeProvider charge_provider() {
  const std::lock_guard lock(provider_mutex);
  return provider;
}

atalla_status Charges::add(const atalla_launch_charge& given, uint32_t* number) {
  for (const uint64_t busy : {given.sdma_cycles, given.vector_cycles, given.array_cycles}) {
    if (busy > given.cycles) {
      return set_error(ATALLA_ERR_ARGUMENT, "a unit works for %" PRIu64 " cycles of a launch of %" PRIu64, busy,
                       given.cycles);
    }
  }
  const LaunchCharge made = charge_from(given);
  const std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(charges_.begin(), charges_.end(), [&](const LaunchCharge& known) { return same(known, made); });
  *number = static_cast<uint32_t>(found - charges_.begin()) + 1;
  if (found == charges_.end()) {
    charges_.push_back(made);
    count_.store(static_cast<uint32_t>(charges_.size()), std::memory_order_release);
  }
  return ATALLA_OK;
}

LaunchCharge Charges::operator[](uint32_t number) const {
  const std::lock_guard lock(mutex_);
  return charges_[number - 1];
}

std::shared_ptr<KindCharge> Charges::new_kind(const atalla_launch_desc& desc, std::span<const int64_t> program,
                                              const LaunchCharge& model, bool told) const {
  auto made = std::make_shared<KindCharge>();
  made->device = device_;
  const auto* const bytes = reinterpret_cast<const std::byte*>(&desc);
  made->desc.assign(bytes, bytes + atalla_launch_desc_bytes(desc.n_operands));
  make_representative(reinterpret_cast<atalla_launch_desc*>(made->desc.data()));
  made->program.assign(program.begin(), program.end());
  fill_head(desc, &made->head);
  made->model = model;
  made->told_ = told;
  return made;
}

void Charges::tell(const KindCharge* kind, const atalla_launch_charge* given) {
  std::optional<LaunchCharge> made;
  if (given != nullptr) {
    made = charge_from(*given);
    made->time.cycles += overhead_;
    if (kind->model.macs != 0) made->macs = kind->model.macs;  // without those that code adds to fill tiles
    for (uint64_t* busy : {&made->time.sdma_cycles, &made->time.vector_cycles, &made->time.array_cycles})
      *busy = std::min(*busy, made->time.cycles);
  }
  const std::lock_guard lock(kinds_mutex_);
  if (kind->told()) return;
  auto* const own = const_cast<KindCharge*>(kind);
  own->code = made;
  own->told_.store(true, std::memory_order_release);
}

}  // namespace atalla::sim
