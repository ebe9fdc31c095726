// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/loadable/program/load.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "kernel_parameters.h"
#include "runtime/device/api.h"
#include "runtime/device/error.h"
#include "runtime/loadable/file/geometry.h"
#include "runtime/loadable/file/problems.h"
#include "runtime/loadable/file/regions.h"
#include "runtime/loadable/program/charges.h"

namespace atalla::runtime::loadable {
namespace {

bool draws(std::string_view kernel) {
  return std::find(std::begin(kRandomKernels), std::end(kRandomKernels), kernel) != std::end(kRandomKernels);
}

// Ids of all kernels that the program names; everything that the device library lacks is one error.
std::vector<atalla_kernel> resolve(const File& file) {
  const View& view = file.view();
  const atalla_api& device = api();
  Problems problems;
  atalla_status status = ATALLA_ERR_UNSUPPORTED;
  std::vector<atalla_kernel> ids(view.kernels.size());
  std::vector<uint64_t> dtypes(view.kernels.size());
  for (uint32_t k = 0; k < view.kernels.size(); ++k) {
    Kernel record = view.kernels[k];
    const char* name = view.string(record.name);
    atalla_kernel_info info{};
    info.struct_size = sizeof info;
    if (device.kernel_lookup(name, &ids[k]) != ATALLA_OK) {
      problems.add("the device library has no kernel '%.200s'", name);
      status = ATALLA_ERR_UNKNOWN_KERNEL;
      continue;
    }
    check(device.kernel_info(ids[k], &info));
    dtypes[k] = info.dtypes;
    if (info.version == record.version) continue;
    problems.add("kernel '%.200s' has version %u in the device library, the program was built for version %u", name,
                 info.version, record.version);
    if (status != ATALLA_ERR_UNKNOWN_KERNEL) status = ATALLA_ERR_VERSION;
  }
  std::set<std::pair<uint32_t, uint8_t>> missing;
  for (uint32_t i = 0; problems.empty() && i < view.instructions.size(); ++i) {
    Instruction r = view.instructions[i];
    if (r.kind == InstructionKind::kHostCall) continue;
    if (!(dtypes[r.callee] >> r.compute_dtype & 1)) missing.emplace(r.callee, r.compute_dtype);
    const char* name = view.string(view.kernels[r.callee].name);
    if (r.kind == InstructionKind::kRandom && !draws(name))
      problems.add("instruction %u draws random numbers, but kernel '%.200s' draws none", i, name);
  }
  for (auto [k, dtype] : missing)
    problems.add("kernel '%.200s' does not compute in %s", view.string(view.kernels[k].name), dtype_name(dtype));
  if (!problems.empty()) throw Error(status, "cannot load " + file.name() + ": " + problems.text());
  return ids;
}

}  // namespace

std::map<uint32_t, uint64_t> scratchpad_bytes(const View& view) {
  std::map<uint32_t, uint64_t> bytes;
  for (uint32_t i = 0; i < view.residency.size(); ++i) {
    Residency r = view.residency[i];
    uint64_t& most = bytes[r.pad];
    most = std::max(most, r.offset + view.storages[r.storage].bytes);
  }
  return bytes;
}

MethodImage::MethodImage(const View& view, uint32_t method_index, const std::vector<atalla_kernel>& kernels,
                         const Places& places)
    : MethodPorts(view, method_index, places.placeholder), places_(places) {
  Method method = view.methods[method_index];
  for (uint32_t i = 0; i < method.inputs.count; ++i)
    port_of_storage_[view.values[view.inputs[method.inputs.first + i].value].storage] = &inputs[i];
  for (uint32_t i = 0; i < method.outputs.count; ++i)
    port_of_storage_[view.values[view.outputs[method.outputs.first + i].value].storage] = &outputs[i];
  // The patches point into these, so that they must not move once they are filled.
  size_t words = 0, calls = 0;
  for (uint32_t i = 0; i < method.instructions.count; ++i) {
    Instruction r = view.instructions[method.instructions.first + i];
    if (r.kind != InstructionKind::kHostCall) words += atalla_launch_desc_bytes(r.operands.count) / sizeof(uint64_t);
    else ++calls;
  }
  descs_.assign(words, 0);
  steps.reserve(method.instructions.count);
  host_calls.reserve(calls);
  auto* at = reinterpret_cast<std::byte*>(descs_.data());
  for (uint32_t i = 0; i < method.instructions.count; ++i) {
    uint32_t index = method.instructions.first + i;
    Instruction r = view.instructions[index];
    if (r.kind == InstructionKind::kHostCall) {
      steps.push_back({index, static_cast<uint32_t>(host_calls.size()), nullptr, 0});
      add_host_call(view, view.host_calls[r.callee]);
      continue;
    }
    add_launch(view, r, at, index, kernels);
    size_t bytes = atalla_launch_desc_bytes(r.operands.count);
    auto* desc = reinterpret_cast<atalla_launch_desc*>(at);
    const bool random = r.kind == InstructionKind::kRandom;
    const int64_t offset = random ? RandomBernoulliParameters::read(*desc).offset : 0;
    steps.push_back({index, kNone, desc, bytes, random, static_cast<uint64_t>(offset)});
    at += bytes;
  }
}

void MethodImage::place(const View& view, uint32_t index, uint64_t byte_offset, uint64_t* addr) {
  Storage storage = view.storages[index];
  if (storage.space == Space::kArena || storage.space == Space::kState) {
    *addr = (storage.space == Space::kArena ? places_.arena : places_.state) + storage.offset + byte_offset;
    return;
  }
  if (storage.space == Space::kWeights) {
    auto moved = places_.replaced->find(index);
    *addr = moved != places_.replaced->end() ? moved->second.addr() + byte_offset
                                             : places_.weights + storage.offset + byte_offset;
    weight_patches_[index].push_back({addr, byte_offset});
    return;
  }
  *addr = places_.placeholder + byte_offset;
  port_of_storage_[index]->patches.push_back({addr, byte_offset});
}

void MethodImage::add_launch(const View& view, const Instruction& r, std::byte* at, uint32_t index,
                             const std::vector<atalla_kernel>& kernels) {
  auto* desc = reinterpret_cast<atalla_launch_desc*>(at);
  desc->kernel = kernels[r.callee];
  desc->n_outputs = r.n_outputs;
  desc->n_operands = static_cast<uint8_t>(r.operands.count);
  desc->compute_dtype = r.compute_dtype;
  desc->tag = index;
  desc->cores = r.cores;
  for (uint32_t k = 0; k < r.iparams.count; ++k) desc->iparams[k] = view.integers[r.iparams.first + k];
  for (uint32_t k = 0; k < r.fparams.count; ++k) desc->fparams[k] = view.doubles[r.fparams.first + k];
  for (uint32_t k = 0; k < r.operands.count; ++k) {
    Operand record = view.operands[r.operands.first + k];
    atalla_operand& operand = desc->operands[k];
    operand.dtype = record.dtype;
    if (record.kind == OperandKind::kImmediate) {
      operand.immediate = 1;
      std::memcpy(operand.sizes, record.immediate.data(), record.immediate.size());
    } else if (record.kind == OperandKind::kMemory) {
      Shape shape = read_shape(view, record.ndim, record.sizes, record.strides);
      operand.ndim = record.ndim;
      std::copy(std::begin(shape.sizes), std::end(shape.sizes), operand.sizes);
      std::copy(std::begin(shape.strides), std::end(shape.strides), operand.strides);
      place(view, record.storage, shape.placed(record.byte_offset), &operand.addr);
      if (view.storages[record.storage].space == Space::kWeights) desc->constants |= 1u << k;
    }
  }
}

void MethodImage::add_host_call(const View& view, const HostCall& call) {
  HostCallArgs& args = host_calls.emplace_back();
  args.program = view.string(call.program);
  args.ops = view.string(call.ops);
  for (bool output : {false, true}) {
    Range range = output ? call.outputs : call.inputs;
    auto& tensors = output ? args.outputs : args.inputs;
    tensors.resize(range.count);
    for (uint32_t k = 0; k < range.count; ++k) {
      Value value = view.values[static_cast<uint32_t>(view.integers[range.first + k])];
      tensors[k] = tensor_of(view, value);
      Shape shape = read_shape(view, value.ndim, value.sizes, value.strides);
      place(view, value.storage, shape.placed(value.byte_offset), &tensors[k].addr);
    }
  }
}

void MethodImage::set_charges(std::span<const uint32_t> charges) noexcept {
  if (charges.size() != steps.size()) return;
  for (size_t i = 0; i < steps.size(); ++i)
    if (steps[i].host_call == kNone) steps[i].desc->charge = charges[i];
}

void MethodImage::move_weight(uint32_t storage, uint64_t addr) noexcept {
  auto found = weight_patches_.find(storage);
  if (found == weight_patches_.end()) return;
  for (const Patch& patch : found->second) *patch.place = addr + patch.byte_offset;
}

std::string MethodImage::host_ops() const {
  std::set<std::string> ops;
  for (const HostCallArgs& call : host_calls) {
    std::string_view text = call.ops;
    while (!text.empty()) {
      size_t end = std::min(text.find('\n'), text.size());
      if (end > 0) ops.emplace(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }
  std::string all;
  for (const std::string& op : ops) all += (all.empty() ? "" : ", ") + op;
  return all;
}

void Image::charge(const View& sized, uint32_t method, const std::vector<int64_t>& symbols, MethodImage& image,
                   std::span<const std::byte> contents) const {
  constexpr uint64_t kLeastPackets = 100'000, kPacketsPerByte = 1000,
                     kPacketsPerOp = 10'000;  // far more than code takes
  const auto code = codes[method].find(symbols);
  if (code == codes[method].end() || schedule_api() == nullptr) return;
  uint64_t packets = kLeastPackets;
  for (const MethodImage::Step& step : image.steps) {
    atalla_launch_work work{};
    work.struct_size = sizeof work;
    if (step.host_call == kNone && schedule_api()->launch_work(step.desc, step.desc_bytes, &work) == ATALLA_OK)
      packets += kPacketsPerByte * (work.bytes_read + work.bytes_written) +
                 kPacketsPerOp * (work.vector_ops + work.array_rows);
  }
  image.set_charges(charges_of_code(sized, code->second, device, {contents, &initial}, packets));
}

Places Image::places(const DynamicMethod& dynamic) const {
  uint64_t base = device.properties().dram_base;
  auto addr = [&](const DeviceBuffer& buffer) { return buffer.data() != nullptr ? buffer.addr() : base; };
  return {addr(dynamic.plans_arena ? grown : arena), addr(weights), addr(state), base, &replaced};
}

namespace {

// Keeps what of a piece of WEIGHTS, from `at` on, is the initial value of a state.
void keep_initial(const View& view, Image& image, uint64_t at, std::span<const std::byte> piece) {
  for (auto& [index, bytes] : image.initial) {
    const uint64_t begin = std::max(view.states[index].initial, at);
    const uint64_t end = std::min(view.states[index].initial + bytes.size(), at + piece.size());
    if (begin < end)
      std::copy_n(piece.begin() + static_cast<std::ptrdiff_t>(begin - at), end - begin,
                  bytes.begin() + static_cast<std::ptrdiff_t>(begin - view.states[index].initial));
  }
}

void place_launches(File& file, Image& image) {
  const View& view = file.view();
  image.kernels = resolve(file);
  image.code_only = code_only_methods(view);
  uint64_t arena_bytes = 0;
  for (uint32_t m = 0; m < view.methods.size(); ++m) {
    // A method that places its temporaries at run time says here what the sizes of the file need.
    uint64_t& most = image.methods[m].dynamic.plans_arena ? image.grown_bytes : arena_bytes;
    most = std::max(most, view.methods[m].arena_bytes);
  }
  image.weights = DeviceBuffer(image.device, view.weight_bytes);
  image.arena = DeviceBuffer(image.device, arena_bytes);
  image.grown = DeviceBuffer(image.device, image.grown_bytes);
  for (uint32_t m = 0; m < view.methods.size(); ++m) {
    LoadedMethod& method = image.methods[m];
    method.image = std::make_unique<MethodImage>(view, m, image.kernels, image.places(method.dynamic));
  }
}

// Lets the launches of methods that have code be charged what the code takes.
void charge_by_code(File& file, Image& image) {
  const View& view = file.view();
  image.codes = code_records(view);
  bool named = false;  // calls, since format 1.5
  for (uint32_t i = 0; i < view.code.size(); ++i) named |= view.code[i].calls.count != 0;
  if (!named) return;
  std::vector<std::byte> constants(view.constant_bytes);
  file.read(SectionKind::kConstants, [&](size_t at, std::span<const std::byte> piece) {
    std::copy(piece.begin(), piece.end(), constants.begin() + static_cast<std::ptrdiff_t>(at));
  });
  bool sized = false;
  for (uint32_t m = 0; m < view.methods.size(); ++m) {
    std::vector<int64_t> planned;
    for (const uint32_t symbol : image.methods[m].dynamic.symbols) planned.push_back(view.symbols[symbol].value);
    sized |= !planned.empty() && !image.codes[m].empty();
    image.charge(view, m, planned, *image.methods[m].image, constants);
  }
  if (sized) image.constants = std::move(constants);
}

}  // namespace

std::unique_ptr<Image> load(File& file, Device& device, uint32_t engines) {
  const View& view = file.view();
  auto image = std::make_unique<Image>(device, engines);
  const bool launches = engines & ATALLA_ENGINE_FUNCTIONAL;
  for (uint32_t m = 0; m < view.methods.size(); ++m) image->methods.push_back({DynamicMethod(view, m), nullptr, {}});
  uint64_t state_bytes = 0;
  for (uint32_t i = 0; i < view.states.size(); ++i) {
    const State state = view.states[i];
    const Storage storage = view.storages[view.values[state.value].storage];
    state_bytes = std::max(state_bytes, storage.offset + storage.bytes);
    if (state.flags & kStateHasInitial) image->initial[i].resize(storage.bytes);
  }
  image->state = DeviceBuffer(device, state_bytes);
  if (engines & ATALLA_ENGINE_ISA) image->code = std::make_unique<ProgramCode>(file, device, image->state.addr());
  if (launches) place_launches(file, *image);
  if (launches || !image->initial.empty())
    file.read(SectionKind::kWeights, [&](size_t at, std::span<const std::byte> piece) {
      keep_initial(view, *image, at, piece);
      if (launches)
        device.default_stream().memcpy_h2d(static_cast<std::byte*>(image->weights.data()) + at, piece.data(),
                                           piece.size());
    });
  if (launches) charge_by_code(file, *image);
  file.release();
  return image;
}

}  // namespace atalla::runtime::loadable
