// SPDX-License-Identifier: BSD-3-Clause
#include "sim/energy/model.h"

#include <algorithm>
#include <bit>

#include "sim/dram/interconnect.h"
#include "sim/energy/area.h"

namespace atalla::sim {
namespace {

constexpr uint64_t kOperands = 3;  // registers that a vector instruction or a row of the array reads and writes
constexpr uint64_t kPico = 1000;   // femtojoules

using Wide = unsigned __int128;

uint64_t clip(Wide amount) { return static_cast<uint64_t>(std::min<Wide>(amount, UINT64_MAX)); }

}  // namespace

EnergyModel::EnergyModel(const ChipConfig& config)
    : config_(config),
      is_bus_(config.network_topology == Topology::kBus),
      bus_shift_(static_cast<unsigned>(std::countr_zero(config.bus_width_bytes))),
      row_shift_(static_cast<unsigned>(std::countr_zero(config.scratchpad_row_bytes))),
      channels_(config.memory_channels()) {
  const atalla_area area = area_of(config);
  const Wide square_um = Wide{area.array} + area.vector + area.registers + area.scalar_core + area.scratchpads;
  leakage_uw_ = clip((square_um * config.energy_leakage + 500'000) / 1'000'000);
  // Twice: scratchpads are charged for bytes that come and go.
  const Wide all =
      Wide{2} * (Wide{config.dram_energy.read_fj} + config.dram_energy.write_fj +
                 (Wide{config.dram.energy_activate} + config.dram.energy_read + config.dram.energy_write) * kPico +
                 Wide{config.energy_bus_beat} + config.energy_network_link_byte + config.energy_router_byte +
                 config.energy_scratchpad_row + config.energy_packet + config.energy_link_byte +
                 Wide{4 * kOperands} * config.energy_register_row +
                 Wide{config.vector_lanes} * (config.energy_lane + config.energy_exp_lane) + config.energy_mac_bf16 +
                 config.energy_mac_fp16 + config.energy_mac_fp32 + config.energy_mac_int8);
  for (most_bits_ = 62; most_bits_ != 0 && all >> (62 - most_bits_) != 0;) --most_bits_;
  const Interconnect network(config, channels_);
  for (uint64_t channel = 0; channel < channels_; ++channel) {
    links_ += network.path(0, channel, true).size();
    routers_ += network.routers(0, channel);
  }
}

uint64_t EnergyModel::mac_price(atalla_dtype dtype) const {
  switch (dtype) {
    case ATALLA_BF16:
      return config_.energy_mac_bf16;
    case ATALLA_F16:
      return config_.energy_mac_fp16;
    case ATALLA_F32:
    case ATALLA_F64:
    case ATALLA_C64:
    case ATALLA_C128:
      return config_.energy_mac_fp32;
    default:
      return config_.energy_mac_int8;
  }
}

template <class Amount>
atalla_energy EnergyModel::priced(const EnergyEvents& e) const {
  const auto amount = [](uint64_t count, uint64_t price) { return Amount{count} * price; };
  const Amount registers = amount(kOperands, config_.energy_register_row), lanes = config_.vector_lanes;
  atalla_energy found{};
  found.dram =
      clip(amount(e.stream_bytes_read, config_.dram_energy.read_fj) +
           amount(e.stream_bytes_written, config_.dram_energy.write_fj) +
           (amount(e.dram_activates, config_.dram.energy_activate) + amount(e.dram_reads, config_.dram.energy_read) +
            amount(e.dram_writes, config_.dram.energy_write)) *
               kPico);
  if (is_bus_) found.bus = clip(amount(e.moved_bytes, config_.energy_bus_beat) >> bus_shift_);
  found.network = clip(amount(e.network_link_bytes, config_.energy_network_link_byte) +
                       amount(e.network_router_bytes, config_.energy_router_byte));
  // The array reads its rows from scratchpads as well.
  found.scratchpad = clip(((Amount{e.moved_bytes} + e.touched_bytes) * config_.energy_scratchpad_row >> row_shift_) +
                          amount(e.array_rows, config_.energy_scratchpad_row));
  found.vector = clip(e.vector_ops * (registers + lanes * config_.energy_lane) +
                      e.exp_ops * (registers + lanes * config_.energy_exp_lane));
  found.array = clip(e.array_rows * registers + amount(e.macs, mac_price(e.mac_dtype)));
  found.control = clip(amount(e.packets, config_.energy_packet));
  found.link = clip(amount(e.link_bytes, config_.energy_link_byte));
  return found;
}

atalla_energy EnergyModel::of(const EnergyEvents& e) const {
  const uint64_t counts = e.stream_bytes_read | e.stream_bytes_written | e.dram_activates | e.dram_reads |
                          e.dram_writes | e.moved_bytes | e.network_link_bytes | e.network_router_bytes |
                          e.touched_bytes | e.vector_ops | e.exp_ops | e.array_rows | e.packets | e.macs | e.link_bytes;
  const bool fits = counts >> most_bits_ == 0;
  return fits ? priced<uint64_t>(e) : priced<Wide>(e);
}

atalla_energy EnergyModel::idle(uint64_t cycles) const {
  constexpr Wide kFemtoOfMicro = 1'000'000'000;
  atalla_energy found{};
  found.standby = clip(config_.dram_energy.static_uw * kFemtoOfMicro * cycles / config_.chip_clock_hz);
  found.leakage = clip(leakage_uw_ * kFemtoOfMicro * cycles / config_.chip_clock_hz);
  return found;
}

void EnergyModel::move(uint64_t read, uint64_t written, EnergyEvents* events) const {
  events->stream_bytes_read = read;
  events->stream_bytes_written = written;
  events->moved_bytes = clip(Wide{read} + written);
  if (is_bus_) return;
  events->network_link_bytes = clip(Wide{events->moved_bytes} * links_ / channels_);
  events->network_router_bytes = clip(Wide{events->moved_bytes} * routers_ / channels_);
}

EnergyEvents EnergyModel::computed(const Work& work, atalla_dtype dtype) const {
  EnergyEvents events;
  events.touched_bytes = clip(Wide{work.bytes_read} + work.bytes_written);
  events.vector_ops = work.vector_ops;
  const bool pairs = work.macs != 0 && std::max(config_.array_rows, config_.array_columns) > config_.vector_lanes;
  events.array_rows = clip(Wide{work.array_rows} * (pairs ? 2 : 1));
  events.packets = clip(Wide{work.vector_ops} + work.array_rows);
  events.macs = work.macs;
  events.mac_dtype = dtype;
  return events;
}

}  // namespace atalla::sim
