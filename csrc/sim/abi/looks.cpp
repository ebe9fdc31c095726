// SPDX-License-Identifier: BSD-3-Clause
#include "sim/abi/looks.h"

#include <memory>

#include "sim/abi/api_internal.h"
#include "sim/device/launch.h"
#include "sim/time/journal.h"

namespace atalla::sim::api {
namespace {

// body() while the device of the kind is open and cannot be closed. It may have been closed long before.
template <class F>
void while_open(const KindCharge& kind, F&& body) {
  const std::shared_lock lock(registry.mutex);
  registry.devices.for_each([&](const DeviceSlot& slot, uint64_t) {
    if (slot.device == kind.device) body();
  });
}

void ask(const ChargeProvider& provider, const KindCharge& kind) {
  int32_t ordinal = -1;
  while_open(kind, [&] { ordinal = kind.told() ? -1 : kind.device->ordinal(); });
  if (ordinal < 0) return;
  atalla_launch_charge charge{};
  charge.struct_size = sizeof charge;
  const auto* const desc = reinterpret_cast<const atalla_launch_desc*>(kind.desc.data());
  const int64_t* const program = kind.program.empty() ? nullptr : kind.program.data();
  const bool told = provider.function(provider.context, ordinal, desc, kind.desc.size(), program, kind.program.size(),
                                      &charge) == ATALLA_OK;
  while_open(kind, [&] { kind.device->charges().tell(&kind, told ? &charge : nullptr); });
}

}  // namespace

void settle_told() noexcept {
  if (!are_steps_waiting()) return;
  (void)guarded([] {
    const std::shared_lock lock(registry.mutex);
    journal().settle(false);
    return ATALLA_OK;
  });
}

void settle_clocks() noexcept {
  if (!are_steps_waiting()) [[likely]]
    return;
  (void)guarded([] {
    const ChargeProvider provider = charge_provider();
    if (provider.function != nullptr) {
      for (const auto& kind : journal().unknown()) ask(provider, *kind);
    }
    const std::shared_lock lock(registry.mutex);
    journal().settle(provider.function == nullptr);
    return ATALLA_OK;
  });
}

void ask_about(atalla_device device, const atalla_launch_desc* desc, size_t desc_bytes) noexcept {
  const ChargeProvider provider = charge_provider();
  if (provider.function == nullptr) return;
  std::shared_ptr<const KindCharge> kind;
  (void)with_device(device, [&](Device& d) {
    if (const KindCharge* const found = kind_of_launch(d, desc, desc_bytes)) kind = found->shared_from_this();
    return ATALLA_OK;
  });
  if (kind == nullptr || kind->told()) return;
  (void)guarded([&] { return ask(provider, *kind), ATALLA_OK; });
}

}  // namespace atalla::sim::api
