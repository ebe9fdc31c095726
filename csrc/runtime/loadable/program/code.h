// SPDX-License-Identifier: BSD-3-Clause
//
// The Atalla code of a program on its device: decoded packets, and in DRAM constants, temporaries and tables.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/loadable/file/file.h"
#include "runtime/loadable/program/ports.h"
#include "sim/abi/atalla_isa.h"

namespace atalla::runtime::loadable {

// Addresses of byte 0 of the regions that methods share.
struct CodePlaces {
  uint64_t constants;
  uint64_t arena;
  uint64_t state;
};

// One method as code.
class MethodCode : public MethodPorts {
 public:
  // Throws Error (ATALLA_ERR_UNSUPPORTED) for a region beyond the addresses of code.
  MethodCode(const View& view, const Code& code, Device& device, const CodePlaces& places);
  ~MethodCode();
  MethodCode(const MethodCode&) = delete;
  MethodCode& operator=(const MethodCode&) = delete;

  // Runs to the end with the addresses that the ports are bound to, on the calling thread, after the stream's earlier
  // work. max_packets: 0: no limit; reaching it is a fault.
  void run(Stream& stream, uint64_t max_packets, atalla_isa_stats* stats);

 private:
  // A word that holds the address of a port, plus an offset.
  struct PortWord {
    uint32_t word;
    const BoundPort* port;
    uint64_t offset;
  };
  uint32_t word_of(uint64_t addr, uint64_t bytes, const char* what) const;

  Device& device_;
  atalla_isa_program program_ = nullptr;
  DeviceBuffer table_;
  std::vector<uint32_t> words_;
  std::vector<PortWord> port_words_;
};

struct ProgramCode {
  DeviceBuffer constants;
  DeviceBuffer arena;                                // methods share it
  std::vector<std::unique_ptr<MethodCode>> methods;  // by method; null without code

  // Reads the file's constants. Throws Error: ATALLA_ERR_UNSUPPORTED for a file without code, or why the device cannot
  // run it; ATALLA_ERR_OUT_OF_MEMORY. `state` is the address of the program's mutable buffers.
  ProgramCode(File& file, Device& device, uint64_t state);
};

}  // namespace atalla::runtime::loadable
