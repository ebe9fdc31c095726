// SPDX-License-Identifier: BSD-3-Clause
//
// Settings of the caching allocator: upstream parses and checks them for all accelerators, the driver obeys them.
#include <c10/core/AllocatorConfig.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "aten/device/allocator.h"
#include "runtime/device/runtime.h"

namespace atalla::aten {

namespace {

using Settings = c10::CachingAllocator::AcceleratorAllocatorConfig;

// Runs while torch is imported, where an error would take PyTorch with it: a wrong value is named and ignored.
template <class F>
bool read_setting(const char* variable, const F& read) {
  try {
    read();
    return true;
  } catch (const std::exception& error) {
    const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
    const std::string reason = torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
    std::string keys;
    for (const std::string& key : Settings::getKeys()) keys += (keys.empty() ? "" : ", ") + key;
    const char* value = std::getenv(variable);
    TORCH_WARN(variable, ": expected <key>:<value>,... with keys of ", keys, ", got '", value == nullptr ? "" : value,
               "' (", reason.substr(0, reason.find('\n')), "); using the defaults");
    return false;
  }
}

void apply() {
  runtime::AllocatorConfig config;
  config.caching = runtime::allocator_config().caching;
  config.max_split_size = Settings::max_split_size();
  config.max_non_split_rounding = Settings::max_non_split_rounding_size();
  config.large_segment = Settings::large_segment_size();
  config.garbage_collection_threshold = Settings::garbage_collection_threshold();
  const std::vector<size_t>& divisions = Settings::roundup_power2_divisions();
  for (size_t i = 0; i < std::min(divisions.size(), config.roundup_power2_divisions.size()); ++i)
    config.roundup_power2_divisions[i] = static_cast<uint32_t>(divisions[i]);
  runtime::set_allocator_config(config);
}

}  // namespace

void install_allocator_settings() {
  // As long as there is no hook, settings of other devices in it are no error.
  const bool is_read = read_setting("PYTORCH_ALLOC_CONF", [] { Settings::instance(); });
  auto earlier = Settings::getConfigParserHook();  // of another device in this process
  Settings::registerDeviceConfigParserHook(
      [earlier = std::move(earlier)](const std::string& text) {
        if (earlier) earlier(text);
        apply();
        if (Settings::use_expandable_segments()) {
          TORCH_WARN_ONCE("expandable_segments is not supported on atalla, whose segments have a fixed size; ignored");
        }
      },
      {});
  const char* own = std::getenv("TORCH_ATALLA_ALLOC_CONF");
  if (!is_read) return;
  if (own == nullptr || *own == '\0') {
    apply();
  } else if (!read_setting("TORCH_ATALLA_ALLOC_CONF", [own] { c10::CachingAllocator::setAllocatorSettings(own); })) {
    c10::CachingAllocator::setAllocatorSettings("");
  }
}

}  // namespace atalla::aten
