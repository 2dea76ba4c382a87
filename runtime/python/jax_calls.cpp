/// Sweeps as custom calls of XLA, for arrays of JAX on the host and on CUDA devices. The Python package
/// compiles this file once, as a library of its own (spider_gen/_jax.py): kernels lie in others, which it is
/// told of by spider_jax_know().

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "spider/memory.h"
#include "spider/spider.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

/// A kernel, and the functions of the runtime in its library.
struct Known {
  const spider_kernel* kernel = nullptr;
  const spider_kernel_info* info = nullptr;
  decltype(&spider_run) run = nullptr;
  decltype(&spider_run_steps) run_steps = nullptr;
  decltype(&spider_last_error) last_error = nullptr;
  decltype(&spider_download) download = nullptr;
  decltype(&spider_synchronize) synchronize = nullptr;
};

/// By a name that is the same in each process, unlike an address: JAX may keep a compiled program in files.
struct Table {
  std::mutex mutex;
  std::unordered_map<std::string, Known> kernels;
};

Table& table() {
  static Table known;
  return known;
}

/// How a field of a system lies in operands and results; as _jax.py numbers it.
enum FieldRoom : std::int64_t {
  only_read = 0,    ///< an operand
  in_place = 1,     ///< an operand whose memory is a result
  two_buffers = 2,  ///< the same, and a result as the second buffer
  into_second = 3,  ///< an operand that is read, and a result as the second buffer
};

/// What a custom call is given.
struct Call {
  const ffi::RemainingArgs& operands;
  const ffi::RemainingRets& results;
  Known known;
  std::int64_t steps = 0;  ///< 0: one sweep
  ffi::Span<const std::int64_t> rooms;
  void* stream = nullptr;
  bool on_device = false;
};

ffi::Error failed(const Known& known, spider_status status) {
  return status == SPIDER_OK ? ffi::Error::Success() : ffi::Error::InvalidArgument(known.last_error());
}

/// Copies inside of the memory where the kernel runs. False where the driver refuses.
bool copy(const Call& call, void* to, const void* from, std::size_t bytes) {
  if (to == from) return true;
  if (!call.on_device) {
    std::memcpy(to, from, bytes);
    return true;
  }
  using Copy = int (*)(std::uint64_t, std::uint64_t, std::size_t, void*);
  static const auto copy_on_device = [] {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW);
    return reinterpret_cast<Copy>(driver == nullptr ? nullptr : dlsym(driver, "cuMemcpyDtoDAsync_v2"));
  }();
  return copy_on_device != nullptr &&
         copy_on_device(reinterpret_cast<std::uint64_t>(to), reinterpret_cast<std::uint64_t>(from), bytes,
                        call.stream) == 0;
}

/// Arrays are rows one after the other; axes ahead of the kernel's are those of a batch.
spider_field field_of(const Known& known, const ffi::AnyBuffer& array, void* data) {
  const auto shape = array.dimensions();
  const auto own = static_cast<std::size_t>(known.info->dimensions);
  spider_field field{data, {1, 1, 1}, {0, 0}};
  for (std::size_t axis = 0; axis < own; ++axis)
    field.extent[3 - own + axis] = shape[shape.size() - own + axis];
  field.stride[1] = field.extent[2];
  field.stride[0] = field.extent[1] * field.extent[2];
  return field;
}

std::int64_t images_of(const Known& known, const ffi::AnyBuffer& array) {
  const auto shape = array.dimensions();
  std::int64_t count = 1;
  for (std::size_t axis = 0; axis + static_cast<std::size_t>(known.info->dimensions) < shape.size(); ++axis)
    count *= shape[axis];
  return count;
}

std::int64_t cells_of(const spider_field& field) {
  return field.extent[0] * field.stride[0];
}

/// The numbers of a launch: those that the program knows, and those that come as operands behind the arrays.
ffi::Error read_scalars(const Call& call, ffi::Span<const double> fixed, ffi::Span<const std::int64_t> places,
                        std::vector<double>& scalars) {
  scalars.assign(fixed.begin(), fixed.end());
  if (places.size() > 0 && call.on_device) {
    if (const spider_status status = call.known.synchronize(call.stream); status != SPIDER_OK)
      return failed(call.known, status);
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    const ffi::AnyBuffer number =
        *call.operands.get<ffi::AnyBuffer>(call.operands.size() - places.size() + i);
    std::array<unsigned char, sizeof(double)> bytes{};
    const std::size_t size = number.size_bytes();
    if (call.on_device) {
      const spider_status status =
          call.known.download(bytes.data(), size, number.untyped_data(), size, size, 1);
      if (status != SPIDER_OK) return failed(call.known, status);
    } else {
      std::memcpy(bytes.data(), number.untyped_data(), size);
    }
    float narrow = 0;
    std::memcpy(&narrow, bytes.data(), sizeof narrow);
    double wide = 0;
    std::memcpy(&wide, bytes.data(), sizeof wide);
    scalars[static_cast<std::size_t>(places[i])] = size == sizeof narrow ? narrow : wide;
  }
  return ffi::Error::Success();
}

ffi::AnyBuffer operand(const Call& call, std::size_t i) {
  return *call.operands.get<ffi::AnyBuffer>(i);
}
ffi::AnyBuffer result(const Call& call, std::size_t i) {
  return **call.results.get<ffi::AnyBuffer>(i);
}

/// The field of a result whose memory begins as that of an operand. XLA has them share it, or they are copied
/// here.
bool field_in_place(const Call& call, std::size_t from, std::size_t to, spider_field& field) {
  const ffi::AnyBuffer array = operand(call, from);
  void* data = result(call, to).untyped_data();
  field = field_of(call.known, array, data);
  return copy(call, data, array.untyped_data(), array.size_bytes());
}

const char* const no_copy = "the CUDA driver refused to copy an array";

/// What a stencil's sweep is given beside input and output.
struct Others {
  std::vector<spider_field> fields;
  std::vector<const spider_field*> pointers;
  std::vector<std::int64_t> strides;  ///< of images
};

Others others_of(const Call& call, std::size_t first) {
  Others others;
  const auto count = static_cast<std::size_t>(call.known.info->field_count);
  others.fields.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const ffi::AnyBuffer array = operand(call, first + i);
    others.fields.push_back(field_of(call.known, array, array.untyped_data()));
    others.pointers.push_back(&others.fields.back());
    const bool is_of_all = array.dimensions().size() == static_cast<std::size_t>(call.known.info->dimensions);
    others.strides.push_back(is_of_all ? 0 : cells_of(others.fields.back()));
  }
  return others;
}

spider_sweep sweep_of(const Call& call, const Others& others, const std::vector<double>& scalars) {
  spider_sweep sweep{};
  sweep.size = sizeof sweep;
  sweep.fields = others.fields.empty() ? nullptr : others.pointers.data();
  sweep.scalars = scalars.empty() ? nullptr : scalars.data();
  sweep.stream = call.stream;
  const ffi::AnyBuffer input = operand(call, 0);
  sweep.batch = images_of(call.known, input);
  sweep.batch_stride = cells_of(field_of(call.known, input, nullptr));
  if (sweep.batch > 1) sweep.field_batch_strides = others.fields.empty() ? nullptr : others.strides.data();
  return sweep;
}

ffi::Error sweep_once(const Call& call, const std::vector<double>& scalars) {
  const bool has_previous = call.known.info->previous != nullptr;
  const Others others = others_of(call, has_previous ? 2 : 1);
  spider_sweep sweep = sweep_of(call, others, scalars);
  const ffi::AnyBuffer input = operand(call, 0);
  const spider_field in = field_of(call.known, input, input.untyped_data());
  const spider_field out = field_of(call.known, input, result(call, 0).untyped_data());
  spider_field previous{};
  if (has_previous) previous = field_of(call.known, operand(call, 1), operand(call, 1).untyped_data());
  sweep.in = &in;
  sweep.out = &out;
  sweep.previous = has_previous ? &previous : nullptr;
  return failed(call.known, call.known.run(call.known.kernel, &sweep));
}

/// Brings the last step, and the one before, to where the caller looks for them.
bool put_in_place(const Call& call, const std::array<spider_field, 4>& turns, std::size_t last,
                  std::size_t before) {
  const std::size_t bytes = operand(call, 0).size_bytes();
  const auto move = [&](std::size_t to, std::size_t from) {
    return copy(call, turns[to].data, turns[from].data, bytes);
  };
  if (call.known.info->previous == nullptr) return move(0, last);
  if (last == 2 && before == 0) return move(1, 0) && move(0, 2) && move(2, 1);
  if (last == 2) return move(0, 2) && move(2, before);
  return move(2, before) && move(0, last);
}

/// Results are the buffers in turn: that of the input, of the input one step back where there is one, and
/// those of outputs.
ffi::Error sweep_steps(const Call& call, const std::vector<double>& scalars) {
  const bool has_previous = call.known.info->previous != nullptr;
  const bool in_pairs = has_previous && call.known.info->steps > 1;
  const Others others = others_of(call, has_previous ? 2 : 1);
  spider_sweep sweep = sweep_of(call, others, scalars);
  std::array<spider_field, 4> turns{};  // in, out, previous, out_previous
  if (!field_in_place(call, 0, 0, turns[0])) return ffi::Error::Internal(no_copy);
  if (has_previous && !field_in_place(call, 1, 1, turns[2])) return ffi::Error::Internal(no_copy);
  turns[1] = field_of(call.known, operand(call, 0), result(call, has_previous ? 2 : 1).untyped_data());
  if (in_pairs) turns[3] = field_of(call.known, operand(call, 0), result(call, 3).untyped_data());
  sweep.in = turns.data();
  sweep.out = &turns[1];
  sweep.previous = has_previous ? &turns[2] : nullptr;
  sweep.out_previous = in_pairs ? &turns[3] : nullptr;
  const spider_field* found = nullptr;
  const spider_status status = call.known.run_steps(call.known.kernel, &sweep, call.steps, &found);
  if (status != SPIDER_OK) return failed(call.known, status);
  const auto last = static_cast<std::size_t>(found - turns.data());
  const bool moved = put_in_place(call, turns, last, in_pairs ? last ^ 2U : (last + 2) % 3);
  return moved ? ffi::Error::Success() : ffi::Error::Internal(no_copy);
}

/// The buffers of a system's fields, of its first image.
struct Buffers {
  std::vector<spider_field> first, second;
  std::vector<std::int64_t> strides;  ///< bytes from image to image
  std::vector<char> has_second;
  std::int64_t images = 1;
};

/// False where the driver refuses a copy.
bool place_buffers(const Call& call, Buffers& buffers) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < call.rooms.size(); ++i) {
    const ffi::AnyBuffer array = operand(call, i);
    const std::int64_t room = call.rooms[i];
    spider_field first = field_of(call.known, array, array.untyped_data());
    if (room == in_place || room == two_buffers) {
      if (!field_in_place(call, i, next++, first)) return false;
    }
    const bool doubles = room == two_buffers || room == into_second;
    buffers.first.push_back(first);
    buffers.second.push_back(
        field_of(call.known, array, doubles ? result(call, next++).untyped_data() : nullptr));
    buffers.has_second.push_back(doubles ? 1 : 0);
    const std::int64_t images = images_of(call.known, array);
    const bool is_of_all = array.dimensions().size() == static_cast<std::size_t>(call.known.info->dimensions);
    buffers.strides.push_back(
        is_of_all || images == 0 ? 0 : static_cast<std::int64_t>(array.size_bytes()) / images);
    buffers.images = std::max(buffers.images, images);
  }
  return true;
}

void next_image(std::vector<spider_field>& fields, const std::vector<std::int64_t>& strides) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].data != nullptr) fields[i].data = static_cast<char*>(fields[i].data) + strides[i];
  }
}

/// Of each image, one after the other.
ffi::Error sweep_system(const Call& call, const std::vector<double>& scalars) {
  Buffers buffers;
  if (!place_buffers(call, buffers)) return ffi::Error::Internal(no_copy);
  std::vector<const spider_field*> fields;
  std::vector<const spider_field*> outputs;
  for (std::size_t i = 0; i < call.rooms.size(); ++i) {
    fields.push_back(&buffers.first[i]);
    outputs.push_back(buffers.has_second[i] != 0 ? &buffers.second[i] : nullptr);
  }
  const bool has_outputs =
      std::any_of(outputs.begin(), outputs.end(), [](const auto* one) { return one != nullptr; });
  spider_sweep sweep{};
  sweep.size = sizeof sweep;
  sweep.fields = fields.data();
  sweep.outputs = has_outputs ? outputs.data() : nullptr;
  sweep.scalars = scalars.empty() ? nullptr : scalars.data();
  sweep.stream = call.stream;
  for (std::int64_t image = 0; image < buffers.images; ++image) {
    const spider_status status = call.steps == 0
                                     ? call.known.run(call.known.kernel, &sweep)
                                     : call.known.run_steps(call.known.kernel, &sweep, call.steps, nullptr);
    if (status != SPIDER_OK) return failed(call.known, status);
    next_image(buffers.first, buffers.strides);
    next_image(buffers.second, buffers.strides);
  }
  return ffi::Error::Success();
}

ffi::Error sweep(void* stream, bool on_device, ffi::RemainingArgs operands, ffi::RemainingRets results,
                 std::string_view name, std::int64_t steps, ffi::Span<const double> fixed,
                 ffi::Span<const std::int64_t> places, ffi::Span<const std::int64_t> rooms) {
  Call call{operands, results, {}, steps, rooms, stream, on_device};
  {
    const std::lock_guard<std::mutex> lock(table().mutex);
    const auto found = table().kernels.find(std::string(name));
    if (found == table().kernels.end()) {
      return ffi::Error::Internal("the kernel " + std::string(name) +
                                  " is not in this process: trace the function again");
    }
    call.known = found->second;
  }
  std::vector<double> scalars;
  if (ffi::Error error = read_scalars(call, fixed, places, scalars); error.failure()) return error;
  if (call.known.info->launch_count > 0) return sweep_system(call, scalars);
  return steps == 0 ? sweep_once(call, scalars) : sweep_steps(call, scalars);
}

auto bind() {
  return ffi::Ffi::Bind()
      .RemainingArgs()
      .RemainingRets()
      .Attr<std::string_view>("kernel")
      .Attr<std::int64_t>("steps")
      .Attr<ffi::Span<const double>>("scalars")
      .Attr<ffi::Span<const std::int64_t>>("places")
      .Attr<ffi::Span<const std::int64_t>>("rooms");
}

ffi::Error sweep_on_host(ffi::RemainingArgs operands, ffi::RemainingRets results, std::string_view name,
                         std::int64_t steps, ffi::Span<const double> fixed,
                         ffi::Span<const std::int64_t> places, ffi::Span<const std::int64_t> rooms) {
  return sweep(nullptr, false, operands, results, name, steps, fixed, places, rooms);
}

ffi::Error sweep_on_device(ffi::RemainingArgs operands, ffi::RemainingRets results, std::string_view name,
                           std::int64_t steps, ffi::Span<const double> fixed,
                           ffi::Span<const std::int64_t> places, ffi::Span<const std::int64_t> rooms,
                           void* stream) {
  return sweep(stream, true, operands, results, name, steps, fixed, places, rooms);
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(spider_jax_host, sweep_on_host, bind());

// A stream of CUDA is a pointer, so that its headers are not needed.
XLA_FFI_DEFINE_HANDLER_SYMBOL(spider_jax_cuda, sweep_on_device, bind().Ctx<ffi::PlatformStream<void*>>());

/// Tells of a kernel under a name. The functions are those of the runtime in its library, which stays loaded.
extern "C" void spider_jax_know(const char* name, const spider_kernel* kernel, decltype(&spider_info) info,
                                decltype(&spider_run) run, decltype(&spider_run_steps) run_steps,
                                decltype(&spider_last_error) last_error, decltype(&spider_download) download,
                                decltype(&spider_synchronize) synchronize) {
  const std::lock_guard<std::mutex> lock(table().mutex);
  table().kernels[name] = {kernel, info(kernel), run, run_steps, last_error, download, synchronize};
}
