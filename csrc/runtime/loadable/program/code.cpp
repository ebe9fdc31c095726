// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/loadable/program/code.h"

#include <algorithm>
#include <string>

#include "runtime/device/api.h"
#include "runtime/device/error.h"
#include "runtime/loadable/file/regions.h"

namespace atalla::runtime::loadable {

void check_runs_code(const Device& device) {
  const std::string name = "atalla:" + std::to_string(device.ordinal());
  if (isa_api() == nullptr)
    throw Error(ATALLA_ERR_UNSUPPORTED, "the device library of " + name + " runs no Atalla code");
  const atalla_device_properties& chip = device.properties();
  // Code with pairs of registers is illegal on an array of 32 x 32, which says so when it is run.
  const auto takes_vectors = [](uint32_t edge) { return edge == kCodeLanes || edge == 2 * kCodeLanes; };
  if (chip.vector_lanes == kCodeLanes && takes_vectors(chip.array_rows) && takes_vectors(chip.array_columns) &&
      chip.scratchpads >= kCodeLeastPads && chip.scratchpads <= kCodeMostPads && chip.scratchpad_bytes >= kCodePadBytes)
    return;
  const std::string lanes = std::to_string(kCodeLanes);
  throw Error(ATALLA_ERR_UNSUPPORTED,
              "Atalla code needs " + lanes + " vector lanes, an array of " + lanes + " or " +
                  std::to_string(2 * kCodeLanes) + " rows and columns, and " + std::to_string(kCodeLeastPads) + " to " +
                  std::to_string(kCodeMostPads) + " scratchpads of at least " + std::to_string(kCodePadBytes) +
                  " bytes; " + name + " has " + std::to_string(chip.vector_lanes) + " lanes, an array of " +
                  std::to_string(chip.array_rows) + " x " + std::to_string(chip.array_columns) + " and " +
                  std::to_string(chip.scratchpads) + " scratchpads of " + std::to_string(chip.scratchpad_bytes) +
                  " bytes. Choose another chip file, or the functional engine");
}

uint32_t cores_for(const Code& code, const Device& device) {
  constexpr uint32_t kLeastMinor = 4;  // which tells a program its cores
  if (code.version != kDividedCodeVersion) return 1;
  if (isa_api()->abi_minor < kLeastMinor)
    throw Error(ATALLA_ERR_UNSUPPORTED,
                "the code is divided among cores; the device library of atalla:" + std::to_string(device.ordinal()) +
                    " runs programs on one core only. Save the file for a chip of one core");
  return std::max(1u, device.properties().program_cores);
}

CodeRecords code_records(const View& view) {
  CodeRecords records(view.methods.size());
  for (uint32_t i = 0; i < view.code.size(); ++i) {
    const Code code = view.code[i];
    std::vector<int64_t> values(code.symbols.count);
    for (uint32_t k = 0; k < code.symbols.count; ++k) values[k] = view.integers[code.symbols.first + k];
    records[code.method].emplace(std::move(values), code);
  }
  return records;
}

IsaProgram::IsaProgram(const View& view, Range packets, Device& device) {
  const std::byte* first = view.packets.data() + size_t{packets.first} * sizeof(Packet);
  check(isa_api()->program_create(device.handle(), first, uint64_t{packets.count} * sizeof(Packet), &handle_));
}

IsaProgram::~IsaProgram() { isa_api()->program_destroy(handle_); }

MethodCode::MethodCode(const View& view, const Code& code, Device& device, const CodePlaces& places,
                       const IsaProgram& program)
    : MethodPorts(view, code.method, device.properties().dram_base),
      device_(device),
      program_(program),
      cores_(cores_for(code, device)),
      table_(device, region_bytes(view, code, Region::kTable, 0)),
      words_(code.words.count) {
  for (uint32_t i = 0; i < code.words.count; ++i) words_[i] = view.code_words[code.words.first + i];
  for (uint32_t i = 0; i < code.relocations.count; ++i) {
    const Relocation r = view.relocations[code.relocations.first + i];
    const uint64_t bytes = region_bytes(view, code, r.region, r.index);
    if (r.offset > bytes)
      throw Error(ATALLA_ERR_FORMAT, "relocation " + std::to_string(code.relocations.first + i) + " has the offset " +
                                         std::to_string(r.offset) + " in an input or output of " +
                                         std::to_string(bytes) + " bytes; save the file again");
    auto fixed = [&](uint64_t addr, const char* what) {
      words_[r.word] = word_of(addr, bytes, what) + static_cast<uint32_t>(r.offset);
    };
    switch (r.region) {
      case Region::kTable:
        fixed(table_.addr(), "the table of calls");
        break;
      case Region::kConstants:
        fixed(places.constants, "the constants");
        break;
      case Region::kArena:
        fixed(places.arena, "the arena");
        break;
      case Region::kState:
        fixed(places.state + region_storage(view, code, r.region, r.index).offset, "a mutable buffer");
        break;
      case Region::kInput:
        port_words_.push_back({r.word, &inputs[r.index], r.offset});
        break;
      case Region::kOutput:
        port_words_.push_back({r.word, &outputs[r.index], r.offset});
        break;
    }
  }
}

// The address as code sees it. Regions without bytes lie nowhere: 0.
uint32_t MethodCode::word_of(uint64_t addr, uint64_t bytes, const char* what) const {
  if (bytes == 0) return 0;
  const uint64_t begin = addr - device_.properties().dram_base;
  if (begin > kCodeReach || bytes > kCodeReach - begin)
    throw Error(ATALLA_ERR_UNSUPPORTED, std::string(what) + " lies at bytes " + std::to_string(begin) + " to " +
                                            std::to_string(begin + bytes) +
                                            " of DRAM; Atalla code reaches the first 4 GiB. Free memory of the device, "
                                            "or use the functional engine");
  return static_cast<uint32_t>(begin);
}

void MethodCode::run(Stream& stream, uint64_t max_packets, atalla_isa_stats* stats) {
  for (const PortWord& item : port_words_)
    words_[item.word] =
        word_of(item.port->bound, item.port->storage_bytes, item.port->name) + static_cast<uint32_t>(item.offset);
  // Each time: code may write to its table.
  const uint64_t table_bytes = words_.size() * sizeof(uint32_t);
  stream.memcpy_h2d(table_.data(), words_.data(), table_bytes);
  atalla_isa_params params{};
  params.struct_size = sizeof params;
  params.n_args = 1;
  params.args[0] = word_of(table_.addr(), table_bytes, "the table of calls");
  params.max_packets = max_packets;
  params.cores = cores_;
  stream.launch_program(program_.handle(), params, stats);
}

ProgramCode::ProgramCode(File& file, Device& device, uint64_t state) : device_(device) {
  const View& view = file.view();
  if (view.code.size() == 0)
    throw Error(ATALLA_ERR_UNSUPPORTED, file.name() + " has no Atalla code; save it with engine=\"isa\"");
  check_runs_code(device);
  uint64_t arena_bytes = 0;
  for (uint32_t i = 0; i < view.code.size(); ++i) arena_bytes = std::max(arena_bytes, view.code[i].arena_bytes);
  constants_ = DeviceBuffer(device, view.constant_bytes);
  arena_ = DeviceBuffer(device, arena_bytes);
  file.read(SectionKind::kConstants, [&](size_t at, std::span<const std::byte> piece) {
    device.default_stream().memcpy_h2d(static_cast<std::byte*>(constants_.data()) + at, piece.data(), piece.size());
  });
  places_ = {constants_.addr(), arena_.addr(), state};
  records_ = code_records(view);
  fixed_.resize(view.methods.size());
  for (uint32_t i = 0; i < view.code.size(); ++i) {
    const Code code = view.code[i];
    auto& program = programs_[code.packets.first];
    if (!program) program = std::make_unique<IsaProgram>(view, code.packets, device);
    if (code.symbols.count == 0) fixed_[code.method] = make(view, code);
  }
}

std::unique_ptr<MethodCode> ProgramCode::make(const View& view, const Code& code) const {
  return std::make_unique<MethodCode>(view, code, device_, places_, *programs_.at(code.packets.first));
}

}  // namespace atalla::runtime::loadable
