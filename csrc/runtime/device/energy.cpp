// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/device/energy.h"

#include "runtime/device/api.h"
#include "runtime/device/error.h"

namespace atalla::runtime {
atalla_energy launch_energy(atalla_device device, const atalla_launch_desc& desc, size_t desc_bytes) {
  atalla_energy energy{};
  const atalla_schedule_api* schedule = schedule_api();
  if (schedule != nullptr) check(schedule->launch_energy(device, &desc, desc_bytes, &energy));
  return energy;
}

}  // namespace atalla::runtime
