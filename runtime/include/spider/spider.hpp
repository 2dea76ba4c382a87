/// \file
/// A thin C++ layer over spider.h, memory.h and points.h: statuses become exceptions, device memory has an
/// owner.
///
///     #include <spider/spider.hpp>
///     #include "heat2d.h"
///
///     spider::Field<spider::half> a(rows, columns, spider::Halo::of(heat2d_kernel(), {1, rows, columns}));
///     spider::Field<spider::half> b(rows, columns, a.halo());
///     a.upload(values);  // a std::vector of rows * columns halves, row after row
///     values = spider::iterate(heat2d_kernel(), a, b, 100).download();
///
/// Three-element arrays are z, y, x, slowest first; a 2D field has one plane. With the CUDA back end memory
/// and kernels are those of the calling thread's current device; with the emulated back end they are the
/// host's.
#pragma once

#include <spider/memory.h>
#include <spider/points.h>
#include <spider/reductions.h>
#include <spider/spider.h>
#include <spider/half.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace spider {

/// A failed call of the runtime.
class Error : public std::runtime_error {
 public:
  /// what() returns `words`.
  Error(spider_status status, const std::string& words) : std::runtime_error(words), status_(status) {}

  /// SPIDER_ERROR_...; what() explains it.
  [[nodiscard]] spider_status status() const noexcept { return status_; }

 private:
  spider_status status_;
};

/// Throws Error, with the runtime's own words, unless `status` is SPIDER_OK.
inline void check(spider_status status) {
  if (status == SPIDER_OK) return;
  const std::string reason = spider_last_error();
  throw Error(status, reason.empty() ? spider_status_string(status) : reason);
}

/// Extents along z, y, x.
using Extents = std::array<std::int64_t, 3>;

/// A kernel's description. Throws Error where `kernel` is no kernel of this ABI.
[[nodiscard]] inline const spider_kernel_info& info(const spider_kernel* kernel) {
  const spider_kernel_info* information = spider_info(kernel);
  if (information == nullptr) {
    throw Error(SPIDER_ERROR_KERNEL,
                "not a kernel that spider-gen generated for this version of the runtime");
  }
  return *information;
}

/// The index of a name in one of a kernel's lists; messages call its entries `what`. Throws Error if the name
/// is missing.
[[nodiscard]] inline std::int32_t find_name(const spider_kernel* kernel, const std::string& name,
                                            const char* const* names, std::int32_t count, const char* what) {
  std::string known;
  for (std::int32_t i = 0; i < count; ++i) {
    if (name == names[i]) return i;
    known += std::string(i == 0 ? "" : ", ") + names[i];
  }
  throw Error(SPIDER_ERROR_UNSUPPORTED, std::string("the kernel ") + info(kernel).name + " has no " + what +
                                            " " + name + "; it has " + (count == 0 ? "none" : known));
}

/// The index of a field among those of a kernel.
[[nodiscard]] inline std::int32_t find_field(const spider_kernel* kernel, const std::string& name) {
  return find_name(kernel, name, info(kernel).field_names, info(kernel).field_count, "field");
}

/// Cells around the interior that taps may reach, per axis and side.
struct Halo {
  Extents low{};   ///< before the first interior element along z, y, x
  Extents high{};  ///< after the last

  bool operator==(const Halo&) const = default;  ///< equal on every side

  /// The same number on both sides of each axis of a 2D field.
  [[nodiscard]] static Halo symmetric(std::int64_t rows, std::int64_t columns) {
    return {{0, rows, columns}, {0, rows, columns}};
  }

  /// The halo that a sweep over a field of these extents reads: cells outside `halo` faces only. Throws Error
  /// for extents that the kernel cannot sweep.
  [[nodiscard]] static Halo of(const spider_kernel* kernel, const Extents& extents) {
    Halo halo;
    check(spider_halo(kernel, extents.data(), halo.low.data(), halo.high.data()));
    return halo;
  }

  /// The same for fields that are this part of a whole.
  [[nodiscard]] static Halo of(const spider_kernel* kernel, const Extents& extents, const spider_part& part) {
    Halo halo;
    check(spider_halo_of_part(kernel, extents.data(), &part, halo.low.data(), halo.high.data()));
    return halo;
  }

  /// The same for the further fields that its update reads: none unless a sweep has several steps.
  [[nodiscard]] static Halo of_fields(const spider_kernel* kernel, const Extents& extents) {
    Halo halo;
    check(spider_halo_of_fields(kernel, extents.data(), halo.low.data(), halo.high.data()));
    return halo;
  }

  /// The same for one field of a system, by its name: none along axes on which it has no cells. `extents` are
  /// those of fields with all axes.
  [[nodiscard]] static Halo of_field(const spider_kernel* kernel, const std::string& name,
                                     const Extents& extents,
                                     const std::optional<spider_part>& part = std::nullopt) {
    Halo halo;
    check(spider_halo_of_field(kernel, find_field(kernel, name), extents.data(), part ? &*part : nullptr,
                               halo.low.data(), halo.high.data()));
    return halo;
  }

  /// As wide as the kernel's taps reach, on every face: more memory than needed if the kernel reads no halo
  /// there.
  [[nodiscard]] static Halo of(const spider_kernel* kernel) {
    const spider_kernel_info& information = info(kernel);
    Halo halo;
    std::copy_n(information.reach_low, 3, halo.low.begin());
    std::copy_n(information.reach_high, 3, halo.high.begin());
    return halo;
  }
};

/// Where the elements of a field with its halo lie; counts elements.
struct FieldLayout {
  std::int64_t origin;        ///< from the start of the memory to the first interior element
  std::int64_t row_stride;    ///< from row to row
  std::int64_t plane_stride;  ///< from plane to plane
  std::int64_t size;          ///< of the memory
};

/// Lays a field out so that every interior row starts on 128 bytes if the memory does. The halo after one row
/// and the halo before the next share the padding between them. Throws Error for negative extents and
/// halos, and sizes that no address can hold.
[[nodiscard]] inline FieldLayout make_field_layout(const Extents& extents, const Halo& halo,
                                                   std::int64_t element_bytes) {
  constexpr std::int64_t row_alignment_bytes = 128;
  constexpr std::int64_t largest = std::int64_t{1} << 60;
  const auto refuse = [](const char* words) { throw Error(SPIDER_ERROR_EXTENT, words); };
  const auto multiply = [&](std::int64_t a, std::int64_t b) {
    if (b != 0 && a > largest / b) refuse("the field is larger than any address space");
    return a * b;
  };

  Extents total{};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (extents[axis] < 0) refuse("an extent of a field cannot be negative");
    if (halo.low[axis] < 0 || halo.high[axis] < 0) refuse("a halo cannot be negative");
    if (std::max({extents[axis], halo.low[axis], halo.high[axis]}) > largest / 4) {
      refuse("the field is larger than any address space");
    }
    total[axis] = halo.low[axis] + extents[axis] + halo.high[axis];
  }

  const std::int64_t alignment = row_alignment_bytes / element_bytes;
  const auto round_up = [&](std::int64_t n) { return (n + alignment - 1) / alignment * alignment; };
  FieldLayout layout{};
  layout.row_stride = round_up(total[2]);
  layout.plane_stride = multiply(layout.row_stride, total[1]);
  const std::int64_t body = multiply(layout.plane_stride, total[0]);
  const std::int64_t lead =
      round_up(halo.low[2]);  // the first row has no row before it to share padding with
  multiply(body + lead, element_bytes);
  layout.origin = lead + halo.low[0] * layout.plane_stride + halo.low[1] * layout.row_stride;
  layout.size = lead + body;
  return layout;
}

/// A grid of T in device memory that it owns, with room for a halo; zero-initialised. Movable, not copyable.
///
/// Host arrays are row after row, plane after plane; `host_stride` is elements from host row to host row, 0
/// for rows without gaps. Uploads and downloads wait until they are done, and for the legacy default stream's
/// work. They do not wait for other streams: call `synchronize` first.
template <typename T>
class Field {
  static_assert(std::is_trivially_copyable_v<T> &&
                    (sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8),
                "the elements of a field are 8, 16, 32 or 64 bits, e.g. spider::half, float or std::uint8_t");

 public:
  /// 2D; `Halo::of(kernel, {1, rows, columns})` gives the halo that a kernel reads. Throws Error, also if
  /// memory is insufficient.
  Field(std::int64_t rows, std::int64_t columns, const Halo& halo = {})
      : Field(Extents{1, rows, columns}, halo) {}

  /// Planes, rows, columns.
  explicit Field(const Extents& extents, const Halo& halo = {})
      : halo_(halo), layout_(make_field_layout(extents, halo, sizeof(T))), memory_(allocate(layout_.size)) {
    field_.data = static_cast<T*>(memory_.get()) + layout_.origin;
    std::copy_n(extents.begin(), 3, field_.extent);
    field_.stride[0] = layout_.plane_stride;
    field_.stride[1] = layout_.row_stride;
    clear();
  }

  Field(const Field&) = delete;
  Field& operator=(const Field&) = delete;
  /// A field that was moved from has no data: kernels and its own functions refuse it.
  Field(Field&& other) noexcept
      : halo_(other.halo_),
        layout_(other.layout_),
        memory_(std::move(other.memory_)),
        field_(std::exchange(other.field_, spider_field{})) {}
  /// Likewise; frees the memory that this field owned.
  Field& operator=(Field&& other) noexcept {
    if (this != &other) {
      halo_ = other.halo_;
      layout_ = other.layout_;
      memory_ = std::move(other.memory_);
      field_ = std::exchange(other.field_, spider_field{});
    }
    return *this;
  }
  ~Field() = default;

  [[nodiscard]] std::int64_t planes() const { return field_.extent[0]; }   ///< along z
  [[nodiscard]] std::int64_t rows() const { return field_.extent[1]; }     ///< along y
  [[nodiscard]] std::int64_t columns() const { return field_.extent[2]; }  ///< along x
  /// Interior elements.
  [[nodiscard]] std::int64_t size() const { return planes() * rows() * columns(); }
  /// Planes, rows, columns.
  [[nodiscard]] Extents extents() const { return {planes(), rows(), columns()}; }
  /// The halo around the interior.
  [[nodiscard]] const Halo& halo() const { return halo_; }
  /// Where its elements lie.
  [[nodiscard]] const FieldLayout& layout() const { return layout_; }
  /// For the C interface; valid until this object is moved or destroyed.
  [[nodiscard]] const spider_field& c_field() const { return field_; }

  /// Fills the interior from the host; the halo is unchanged.
  void upload(const T* host, std::int64_t host_stride = 0) { copy_in(host, host_stride, Halo{}); }
  /// The same from size() elements; throws Error if there are more or fewer.
  void upload(const std::vector<T>& host) { upload(checked(host, size()).data()); }

  /// Copies the interior to the host.
  void download(T* host, std::int64_t host_stride = 0) const { copy_out(host, host_stride, Halo{}); }
  /// The interior, rows without gaps.
  [[nodiscard]] std::vector<T> download() const {
    std::vector<T> host(static_cast<std::size_t>(size()));
    download(host.data());
    return host;
  }

  /// Fills interior and halo. The host array is the whole padded grid: along each axis halo.low, interior,
  /// halo.high, corners included. `host` points at its first element, the low corner of the halo.
  void upload_with_halo(const T* host, std::int64_t host_stride = 0) { copy_in(host, host_stride, halo_); }
  /// The same from size_with_halo() elements; throws Error if there are more or fewer.
  void upload_with_halo(const std::vector<T>& host) {
    upload_with_halo(checked(host, size_with_halo()).data());
  }

  /// Copies interior and halo to the host, in upload_with_halo's order.
  void download_with_halo(T* host, std::int64_t host_stride = 0) const { copy_out(host, host_stride, halo_); }
  /// Interior and halo, rows without gaps.
  [[nodiscard]] std::vector<T> download_with_halo() const {
    std::vector<T> host(static_cast<std::size_t>(size_with_halo()));
    download_with_halo(host.data());
    return host;
  }

  /// Elements of interior and halo, as upload_with_halo takes them.
  [[nodiscard]] std::int64_t size_with_halo() const {
    const Extents padded = with_margin(halo_);
    return padded[0] * padded[1] * padded[2];
  }

  /// Sets interior, halo and padding to zero bits.
  void clear() { check(spider_clear(owned(), static_cast<std::uint64_t>(layout_.size * element_bytes))); }

 private:
  static constexpr std::int64_t element_bytes = sizeof(T);

  struct Release {
    void operator()(void* memory) const noexcept { spider_free(memory); }
  };
  using Memory = std::unique_ptr<void, Release>;

  static Memory allocate(std::int64_t elements) {
    void* memory = nullptr;
    check(spider_allocate(static_cast<std::uint64_t>(elements * element_bytes), &memory));
    return Memory(memory);
  }

  [[nodiscard]] void* owned() const {
    if (memory_ == nullptr) throw Error(SPIDER_ERROR_NULL, "the field was moved from and has no memory");
    return memory_.get();
  }

  static const std::vector<T>& checked(const std::vector<T>& host, std::int64_t expected) {
    if (host.size() == static_cast<std::size_t>(expected)) return host;
    throw Error(SPIDER_ERROR_EXTENT, "the host array has " + std::to_string(host.size()) +
                                         " elements, the field needs " + std::to_string(expected));
  }

  [[nodiscard]] Extents with_margin(const Halo& margin) const {
    Extents padded = extents();
    for (std::size_t axis = 0; axis < 3; ++axis) padded[axis] += margin.low[axis] + margin.high[axis];
    return padded;
  }

  /// Calls copy(device rows, host rows' first index, bytes per host row, bytes of a row, rows) for each plane
  /// of the interior widened by `margin`.
  template <typename Copy>
  void for_each_plane(const void* host, std::int64_t host_stride, const Halo& margin,
                      const Copy& copy) const {
    auto* begin = static_cast<T*>(owned());
    const Extents padded = with_margin(margin);
    if (padded[0] == 0 || padded[1] == 0 || padded[2] == 0) return;
    if (host == nullptr) throw Error(SPIDER_ERROR_NULL, "the host array is null");
    if (host_stride == 0) host_stride = padded[2];
    if (host_stride < padded[2]) {
      throw Error(SPIDER_ERROR_STRIDE, "the host rows overlap: their stride is " +
                                           std::to_string(host_stride) + ", their length " +
                                           std::to_string(padded[2]));
    }
    const std::int64_t first = layout_.origin - margin.low[0] * layout_.plane_stride -
                               margin.low[1] * layout_.row_stride - margin.low[2];
    for (std::int64_t plane = 0; plane < padded[0]; ++plane) {
      check(copy(begin + first + plane * layout_.plane_stride, plane * padded[1] * host_stride,
                 static_cast<std::uint64_t>(host_stride * element_bytes),
                 static_cast<std::uint64_t>(padded[2] * element_bytes),
                 static_cast<std::uint64_t>(padded[1])));
    }
  }

  void copy_in(const T* host, std::int64_t host_stride, const Halo& margin) {
    for_each_plane(
        host, host_stride, margin,
        [&](T* rows, std::int64_t index, std::uint64_t host_pitch, std::uint64_t bytes, std::uint64_t count) {
          return spider_upload(rows, pitch_bytes(), host + index, host_pitch, bytes, count);
        });
  }

  void copy_out(T* host, std::int64_t host_stride, const Halo& margin) const {
    for_each_plane(host, host_stride, margin,
                   [&](const T* rows, std::int64_t index, std::uint64_t host_pitch, std::uint64_t bytes,
                       std::uint64_t count) {
                     return spider_download(host + index, host_pitch, rows, pitch_bytes(), bytes, count);
                   });
  }

  [[nodiscard]] std::uint64_t pitch_bytes() const {
    return static_cast<std::uint64_t>(layout_.row_stride * element_bytes);
  }

  Halo halo_;
  FieldLayout layout_{};
  Memory memory_;
  spider_field field_{};
};

/// Whether elements of T fit a storage, SPIDER_F16 and so on. Types other than half and float match by their
/// size, so that a caller's own 16-bit type, e.g. CUDA's __half, works too.
template <typename T>
[[nodiscard]] bool is_stored_as(std::int32_t storage) {
  switch (storage) {
    case SPIDER_U8:
      return std::is_same_v<T, std::uint8_t>;
    case SPIDER_U16:
      return std::is_same_v<T, std::uint16_t>;
    case SPIDER_I16:
      return std::is_same_v<T, std::int16_t>;
    default:
      break;
  }
  const bool same_size = sizeof(T) == (storage == SPIDER_F64 ? 8 : (storage == SPIDER_F32 ? 4 : 2));
  return same_size && (!std::is_same_v<T, half> || storage == SPIDER_F16);
}

/// Throws Error unless T matches the kernel's storage.
template <typename T>
void check_storage(const spider_kernel* kernel) {
  if (is_stored_as<T>(info(kernel).storage)) return;
  throw Error(SPIDER_ERROR_UNSUPPORTED, std::string("the kernel ") + info(kernel).name +
                                            " stores another type than the elements of this field");
}

/// Throws Error unless Out matches the storage of its results.
template <typename Out>
void check_output(const spider_kernel* kernel) {
  if (is_stored_as<Out>(info(kernel).output)) return;
  throw Error(SPIDER_ERROR_UNSUPPORTED, std::string("the kernel ") + info(kernel).name +
                                            " has results of another type than the elements of this field");
}

/// Throws Error if a field has a narrower halo than the kernel reads.
inline void check_halo(const spider_kernel* kernel, const Halo& kept, const Halo& read) {
  constexpr std::array<const char*, 3> axes{"z", "y", "x"};
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    if (kept.low[axis] >= read.low[axis] && kept.high[axis] >= read.high[axis]) continue;
    const auto in_words = [&](const Halo& halo) {
      return std::to_string(halo.low[axis]) + " cells before and " + std::to_string(halo.high[axis]) +
             " behind the interior";
    };
    throw Error(SPIDER_ERROR_EXTENT, std::string("along ") + axes[axis] + " the kernel " + info(kernel).name +
                                         " reads " + in_words(read) + ", and the field keeps " +
                                         in_words(kept) + ": make it with Halo::of(kernel, extents)");
  }
}

/// The same for a field.
template <typename T>
void check_halo(const spider_kernel* kernel, const Field<T>& field, const Halo& read) {
  check_halo(kernel, field.halo(), read);
}

/// The same for whole fields, or for a part of one. The C interface refuses fields that were moved from.
template <typename T>
void check_halo(const spider_kernel* kernel, const Field<T>& field,
                const std::optional<spider_part>& part = std::nullopt) {
  if (field.c_field().data == nullptr) return;
  const Extents extents = field.extents();
  check_halo(kernel, field, part ? Halo::of(kernel, extents, *part) : Halo::of(kernel, extents));
}

/// True if that many time steps of whole fields take more than one sweep, so that outputs become inputs.
[[nodiscard]] inline bool takes_turns(const spider_kernel* kernel, std::int64_t steps) {
  return steps > 1 && steps != info(kernel).steps;
}

/// Loads the kernel on the current device now: call it before capturing or timing.
inline void prepare(const spider_kernel* kernel) {
  check(spider_prepare(kernel));
}

/// Waits for the stream's work.
inline void synchronize(void* stream = nullptr) {
  check(spider_synchronize(stream));
}

/// One sweep, in stream order: `out` becomes the stencil of `in`. Returns `out`.
template <typename T, typename Out>
Field<Out>& apply(const spider_kernel* kernel, const Field<T>& in, Field<Out>& out, void* stream = nullptr) {
  check_storage<T>(kernel);
  check_output<Out>(kernel);
  check_halo(kernel, in);
  check(spider_apply(kernel, &in.c_field(), &out.c_field(), stream));
  return out;
}

/// The same for a kernel of one or two dimensions and fields of several planes: each plane is an image, and
/// one call sweeps all. Make the fields with `Halo::of(kernel, {1, rows, columns})`. Returns `out`.
template <typename T, typename Out>
Field<Out>& apply_images(const spider_kernel* kernel, const Field<T>& in, Field<Out>& out,
                         void* stream = nullptr) {
  check_storage<T>(kernel);
  check_output<Out>(kernel);
  if (info(kernel).dimensions == 3) {
    throw Error(SPIDER_ERROR_UNSUPPORTED, std::string("the kernel ") + info(kernel).name +
                                              " sweeps planes together: for a batch call spider_run");
  }
  if (in.planes() != out.planes()) {
    throw Error(SPIDER_ERROR_EXTENT, "the input has " + std::to_string(in.planes()) +
                                         " images, and the output " + std::to_string(out.planes()));
  }
  if (in.planes() == 0) return out;
  if (in.c_field().data != nullptr)
    check_halo(kernel, in.halo(), Halo::of(kernel, {1, in.rows(), in.columns()}));
  spider_field first_in = in.c_field();
  spider_field first_out = out.c_field();
  first_in.extent[0] = first_out.extent[0] = 1;
  spider_sweep sweep{};
  sweep.size = sizeof sweep;
  sweep.in = &first_in;
  sweep.out = &first_out;
  sweep.stream = stream;
  sweep.batch = in.planes();
  sweep.batch_stride = first_in.stride[0];
  sweep.out_batch_stride = first_out.stride[0];
  check(spider_run(kernel, &sweep));
  return out;
}

/// The part of a sweep that covers `extent` points from `offset` of the interior. Gives the same bits as a
/// whole sweep, writes only the box, and reads only the box and its reach. Returns `out`.
template <typename T, typename Out>
Field<Out>& apply_box(const spider_kernel* kernel, const Field<T>& in, Field<Out>& out, const Extents& offset,
                      const Extents& extent, void* stream = nullptr) {
  check_storage<T>(kernel);
  check_output<Out>(kernel);
  check(spider_apply_box(kernel, &in.c_field(), &out.c_field(), offset.data(), extent.data(), stream));
  return out;
}

/// Takes `steps` time steps from `a` to `b` and back, in stream order; returns the field with the last one.
/// The halos of both are read and never written.
template <typename T>
Field<T>& iterate(const spider_kernel* kernel, Field<T>& a, Field<T>& b, std::int64_t steps,
                  void* stream = nullptr) {
  check_storage<T>(kernel);
  if (steps > 0) check_halo(kernel, a);
  if (takes_turns(kernel, steps)) check_halo(kernel, b);
  const spider_field* result = nullptr;
  check(spider_iterate(kernel, &a.c_field(), &b.c_field(), steps, stream, &result));
  return result == &b.c_field() ? b : a;
}

/// Numbers that a system reduces all points to, by the names of its `reduce`.
using Numbers = std::map<std::string, double>;

/// Values of a system's reductions by their names.
[[nodiscard]] inline Numbers to_numbers(const spider_kernel* kernel, const std::vector<double>& values) {
  Numbers numbers;
  for (std::size_t i = 0; i < values.size(); ++i) numbers[info(kernel).reduction_names[i]] = values[i];
  return numbers;
}

/// Accumulators of a system's reductions; owns its memory. Serves the sweeps of one stream at a time.
///
///     spider::Reductions reductions(poisson_kernel());
///     poisson.run({.reductions = &reductions});
///     double mass = reductions.read().at("mass");
class Reductions {
 public:
  /// Holds no points yet. Throws Error where the kernel has no reductions.
  explicit Reductions(const spider_kernel* kernel) : kernel_(kernel) {
    spider_reductions* reductions = nullptr;
    check(spider_reductions_create(kernel, &reductions));
    reductions_.reset(reductions);
  }

  /// The numbers of all points since the last read; then they start again. Waits for the stream, and cannot
  /// be captured in a graph. Without points, sums are 0, maxima -infinity and minima infinity.
  [[nodiscard]] Numbers read(void* stream = nullptr) const {
    std::vector<double> values(static_cast<std::size_t>(info(kernel_).reduction_count));
    check(spider_reductions_read(reductions_.get(), values.data(), stream));
    return to_numbers(kernel_, values);
  }

  /// For the C interface. Throws Error if it was moved from.
  [[nodiscard]] spider_reductions* c_reductions() const {
    if (reductions_ == nullptr) throw Error(SPIDER_ERROR_NULL, "the reductions were moved from");
    return reductions_.get();
  }

 private:
  struct Release {
    void operator()(spider_reductions* reductions) const noexcept { spider_reductions_free(reductions); }
  };

  const spider_kernel* kernel_;
  std::unique_ptr<spider_reductions, Release> reductions_;
};

/// The box, part and stream of a sweep.
struct Launch {
  Extents offset{};                   ///< of the box to write
  Extents extent{};                   ///< of the box; zeros: all of the interior
  std::optional<spider_part> part{};  ///< where the fields lie in a larger whole; none: they are whole
  void* stream = nullptr;             ///< as in spider_apply
  /// Systems only: the accumulators of the reductions; several steps add only the last one. Null: none.
  const Reductions* reductions = nullptr;
};

/// How run_until() ended.
struct Stop {
  std::int64_t steps = 0;  ///< time steps taken
  Numbers numbers;         ///< of the last step; none for 0 steps
};

/// A kernel whose spec has an update, with its further fields and scalars by the names of the spec. Refers to
/// the fields: they must outlive it, and may be moved or swapped.
///
///     spider::Update wave(acoustic3d_kernel());
///     wave.field("c2dt2", c2dt2);
///     wave.run_steps(u, u_old, u_old, 100);  // u is the last step then, u_old the one before
class Update {
 public:
  /// Has no field or scalar yet. Throws Error where `kernel` is no kernel of this ABI.
  explicit Update(const spider_kernel* kernel)
      : kernel_(kernel),
        fields_(static_cast<std::size_t>(info(kernel).field_count)),
        scalars_(static_cast<std::size_t>(info(kernel).scalar_count), std::nullopt) {}

  /// A function that takes time steps; its arguments are the last three of spider_run_steps.
  using Steps = std::function<spider_status(const spider_sweep*, std::int64_t, const spider_field**)>;
  /// The same, with `steps` as its run_steps(): that of Grid::update(). It has no run().
  Update(const spider_kernel* kernel, Steps steps) : Update(kernel) { steps_ = std::move(steps); }

  /// Throws Error if the spec has no field of this name, or stores it otherwise.
  template <typename T>
  Update& field(const std::string& name, const Field<T>& field) {
    const spider_kernel_info& information = info(kernel_);
    const std::size_t index = find(name, information.field_names, fields_.size(), "field");
    if (!is_stored_as<T>(information.field_storages[index])) {
      throw Error(SPIDER_ERROR_UNSUPPORTED, std::string("the kernel ") + information.name +
                                                " stores another type in " + name +
                                                " than the elements of this field");
    }
    if (field.c_field().data != nullptr) {
      Extents extents = field.extents();
      if (information.dimensions < 3) extents[0] = 1;  // a grid's planes are images
      check_halo(kernel_, field, Halo::of_fields(kernel_, extents));
    }
    fields_[index] = &field.c_field();
    return *this;
  }
  template <typename T>
  Update& field(const std::string& name, Field<T>&& field) = delete;  // a temporary would be gone when the
                                                                      // kernel runs

  /// Throws Error if the spec has no scalar of this name.
  Update& scalar(const std::string& name, double value) {
    scalars_[find(name, info(kernel_).scalar_names, scalars_.size(), "scalar")] = value;
    return *this;
  }

  /// One sweep, in stream order. Returns `out`. Throws Error if a field or scalar of the update is missing.
  template <typename T>
  Field<T>& run(const Field<T>& in, Field<T>& out, const Launch& launch = {}) const {
    sweep_once(in, out, nullptr, launch);
    return out;
  }
  /// The same for an update that reads the input one step back; `out` may be `previous`.
  template <typename T>
  Field<T>& run(const Field<T>& in, Field<T>& out, const Field<T>& previous,
                const Launch& launch = {}) const {
    sweep_once(in, out, &previous.c_field(), launch);
    return out;
  }

  /// One sweep of a kernel of several steps: `out_previous` becomes the step before the last one.
  template <typename T>
  Field<T>& run(const Field<T>& in, Field<T>& out, const Field<T>& previous, Field<T>& out_previous,
                const Launch& launch = {}) const {
    Sweep sweep;
    fill(sweep, in, out, &previous.c_field(), launch);
    check_read(previous, launch);
    sweep.c.out_previous = &out_previous.c_field();
    take_sweep(sweep);
    return out;
  }

  /// Takes `steps` time steps, in stream order: `u` becomes the last one. The memory of `u` and `out` takes
  /// turns, and ends up in either.
  template <typename T>
  void run_steps(Field<T>& u, Field<T>& out, std::int64_t steps, const Launch& launch = {}) const {
    if (takes_turns(kernel_, steps)) check_read(out, launch);
    if (sweep_steps(u, out, nullptr, steps, launch) != &u.c_field()) std::swap(u, out);
  }
  /// The same for an update that reads the input one step back: `previous` becomes the step before the last
  /// one. `out` may be `previous` itself, which saves a field. Steps are taken one by one, whatever the
  /// kernel's.
  template <typename T>
  void run_steps(Field<T>& u, Field<T>& previous, Field<T>& out, std::int64_t steps,
                 const Launch& launch = {}) const {
    if (steps > 1) {
      check_read(out, launch);
      check_read(previous, launch);
    }
    const spider_field* result = sweep_steps(u, out, &previous.c_field(), steps, launch);
    if (result == &u.c_field()) return;
    if (result == &out.c_field() && &out != &previous) {  // u is the step before the last
      std::swap(previous, out);
      std::swap(u, previous);
    } else if (&out == &previous) {
      std::swap(u, previous);
    } else {  // the last one is in previous, the one before in out
      std::swap(u, previous);
      std::swap(previous, out);
    }
  }
  /// The same by sweeps of the kernel's several steps; all four fields need its halo.
  template <typename T>
  void run_steps(Field<T>& u, Field<T>& previous, Field<T>& out, Field<T>& out_previous, std::int64_t steps,
                 const Launch& launch = {}) const {
    Sweep sweep;
    fill(sweep, u, out, &previous.c_field(), launch);
    check_read(previous, launch);
    if (takes_turns(kernel_, steps)) {
      check_read(out, launch);
      check_read(out_previous, launch);
    }
    sweep.c.out_previous = &out_previous.c_field();
    const spider_field* result = take_steps(sweep, steps);
    if (result == &out.c_field() || result == &out_previous.c_field()) {
      std::swap(u, out);
      std::swap(previous, out_previous);
    }
    if (result == &previous.c_field() || result == &out_previous.c_field()) std::swap(u, previous);
  }

 private:
  /// The arguments of the C interface. Not movable: it points into itself.
  struct Sweep {
    spider_sweep c{};
    std::vector<double> scalars;
  };

  std::size_t find(const std::string& name, const char* const* names, std::size_t count,
                   const char* what) const {
    return static_cast<std::size_t>(find_name(kernel_, name, names, static_cast<std::int32_t>(count), what));
  }

  /// Checks that a field has the halo that a sweep reads. Boxes may read less; a grid checks its own fields.
  template <typename T>
  void check_read(const Field<T>& field, const Launch& launch) const {
    if (!steps_ && launch.extent == Extents{}) check_halo(kernel_, field, launch.part);
  }

  template <typename T>
  void fill(Sweep& sweep, const Field<T>& in, const Field<T>& out, const spider_field* previous,
            const Launch& launch) const {
    check_storage<T>(kernel_);
    check_read(in, launch);
    const spider_kernel_info& information = info(kernel_);
    for (std::size_t i = 0; i < scalars_.size(); ++i) {
      if (!scalars_[i]) {
        throw Error(SPIDER_ERROR_NULL, std::string("the kernel ") + information.name + " takes the scalar " +
                                           information.scalar_names[i] + ", which is not given");
      }
      sweep.scalars.push_back(*scalars_[i]);
    }
    sweep.c.size = sizeof(spider_sweep);
    sweep.c.in = &in.c_field();
    sweep.c.out = &out.c_field();
    sweep.c.previous = previous;
    sweep.c.fields = fields_.empty() ? nullptr : fields_.data();
    sweep.c.scalars = scalars_.empty() ? nullptr : sweep.scalars.data();
    std::copy_n(launch.offset.begin(), 3, sweep.c.offset);
    std::copy_n(launch.extent.begin(), 3, sweep.c.extent);
    sweep.c.part = launch.part ? &*launch.part : nullptr;
    sweep.c.stream = launch.stream;
    if (launch.reductions != nullptr) sweep.c.reductions = launch.reductions->c_reductions();
  }

  template <typename T>
  void sweep_once(const Field<T>& in, Field<T>& out, const spider_field* previous,
                  const Launch& launch) const {
    Sweep sweep;
    fill(sweep, in, out, previous, launch);
    take_sweep(sweep);
  }

  void take_sweep(const Sweep& sweep) const {
    if (steps_) {
      throw Error(SPIDER_ERROR_UNSUPPORTED, std::string("an update of a grid takes time steps of ") +
                                                info(kernel_).name + ": call run_steps");
    }
    check(spider_run(kernel_, &sweep.c));
  }

  /// Returns the field with the last step.
  [[nodiscard]] const spider_field* take_steps(const Sweep& sweep, std::int64_t steps) const {
    const spider_field* result = nullptr;
    check(steps_ ? steps_(&sweep.c, steps, &result) : spider_run_steps(kernel_, &sweep.c, steps, &result));
    return result;
  }

  template <typename T>
  const spider_field* sweep_steps(const Field<T>& in, Field<T>& out, const spider_field* previous,
                                  std::int64_t steps, const Launch& launch) const {
    Sweep sweep;
    fill(sweep, in, out, previous, launch);
    return take_steps(sweep, steps);
  }

  const spider_kernel* kernel_;
  std::vector<const spider_field*> fields_;  ///< as the kernel lists them; null: not given
  std::vector<std::optional<double>> scalars_;
  Steps steps_;  ///< empty: spider_run_steps
};

/// A system of equations, with its fields and scalars by the names of the spec. Refers to the fields: they
/// must outlive it, and may be moved or swapped.
///
///     spider::System waves(waves2d_kernel());
///     waves.field("p", p).field("u", u).field("v", v).field("k", k).scalar("dt", 1e-3);
///     waves.run_steps(100);  // p, u and v are those after 100 steps
class System {
 public:
  /// Has no field yet. Throws Error where `kernel` is no kernel of this ABI, or no system.
  explicit System(const spider_kernel* kernel)
      : kernel_(kernel),
        fields_(static_cast<std::size_t>(info(kernel).field_count)),
        outputs_(fields_.size()),
        halos_(fields_.size()),
        swaps_(fields_.size()),
        scalars_(static_cast<std::size_t>(info(kernel).scalar_count)) {
    if (info(kernel).launch_count > 0) return;
    throw Error(SPIDER_ERROR_UNSUPPORTED,
                std::string("the kernel ") + info(kernel).name + " is no system of equations");
  }
  /// spider_run_until without its kernel.
  using Until = std::function<spider_status(const spider_sweep*, std::int64_t, std::int32_t, double,
                                            std::int64_t, std::int64_t*, double*)>;
  /// The same, with `steps` as its run_steps() and `until` as its run_until(): those of Grid::system(). It
  /// has no run() and no run_launch().
  System(const spider_kernel* kernel, Update::Steps steps, Until until = {}) : System(kernel) {
    steps_ = std::move(steps);
    until_ = std::move(until);
  }

  /// A field that needs no second buffer. Throws Error if the spec has no field of this name or stores it
  /// otherwise, or if its halo is too narrow.
  template <typename T>
  System& field(const std::string& name, Field<T>& field) {
    return take<T>(name, field, nullptr);
  }
  /// A field that is only read.
  template <typename T>
  System& field(const std::string& name, const Field<T>& field) {
    const auto index = static_cast<std::size_t>(find_field(kernel_, name));
    if ((info(kernel_).field_uses[index] & SPIDER_FIELD_WRITTEN) != 0) {
      throw Error(SPIDER_ERROR_UNSUPPORTED,
                  std::string("the kernel ") + info(kernel_).name + " writes " + name + ", which is const");
    }
    return take<T>(name, field, nullptr);
  }
  template <typename T>
  System& field(const std::string& name, Field<T>&& field) = delete;  // a temporary would be gone when the
                                                                      // kernel runs
  /// A field with a second buffer (SPIDER_FIELD_TWO_BUFFERS) of the same extents and halo. After a run
  /// `field` has the result: if it is in the second buffer, the two swap memory.
  template <typename T>
  System& field(const std::string& name, Field<T>& field, Field<T>& second) {
    take<T>(name, field, &second);
    const auto index = static_cast<std::size_t>(find_field(kernel_, name));
    swaps_[index] = [&field, &second] { std::swap(field, second); };
    return *this;
  }

  /// Throws Error if the spec has no scalar of this name.
  System& scalar(const std::string& name, double value) {
    const spider_kernel_info& information = info(kernel_);
    scalars_[static_cast<std::size_t>(
        find_name(kernel_, name, information.scalar_names, information.scalar_count, "scalar"))] = value;
    return *this;
  }

  /// One sweep, in stream order. Throws Error if a field or a scalar is missing. For a box or a part of a
  /// system of several launches call run_launch().
  void run(const Launch& launch = {}) const {
    Sweep sweep;
    require_no_grid();
    fill(sweep, launch);
    check(spider_run(kernel_, &sweep.c));
    swap_results();
  }

  /// Takes `steps` time steps, in stream order.
  void run_steps(std::int64_t steps, const Launch& launch = {}) const {
    Sweep sweep;
    fill(sweep, launch);
    check(steps_ ? steps_(&sweep.c, steps, nullptr) : spider_run_steps(kernel_, &sweep.c, steps, nullptr));
    if (steps % 2 != 0) swap_results();
  }

  /// Takes time steps until the reduction of this name is at most `bound`, but no more than `steps`. Every
  /// `check_every`th step and the last compute the reductions and are waited for. NaN never meets the bound.
  /// Launch::reductions must have been read; without them the call makes its own.
  [[nodiscard]] Stop run_until(std::int64_t steps, const std::string& name, double bound,
                               std::int64_t check_every = 10, const Launch& launch = {}) const {
    Sweep sweep;
    if (!until_) require_no_grid();
    fill(sweep, launch);
    const spider_kernel_info& information = info(kernel_);
    const std::int32_t index =
        find_name(kernel_, name, information.reduction_names, information.reduction_count, "reduction");
    std::optional<Reductions> own;
    if (launch.reductions == nullptr) sweep.c.reductions = own.emplace(kernel_).c_reductions();
    std::vector<double> values(static_cast<std::size_t>(information.reduction_count));
    Stop stop;
    const auto run = [&](auto... given) {
      return until_ ? until_(given...) : spider_run_until(kernel_, given...);
    };
    const spider_status status = run(&sweep.c, steps, index, bound, check_every, &stop.steps, values.data());
    if (stop.steps % 2 != 0) swap_results();  // also for steps before a failed one
    check(status);
    if (stop.steps > 0) stop.numbers = to_numbers(kernel_, values);
    return stop;
  }

  /// Runs one of a sweep's spider_kernel_info::launch_count launches. Run them in order, each for all boxes
  /// and parts before the next, and then call end_launches().
  void run_launch(std::int32_t index, const Launch& launch = {}) const {
    Sweep sweep;
    require_no_grid();
    fill(sweep, launch);
    sweep.c.first_launch = index;
    sweep.c.launch_count = 1;
    check(spider_run(kernel_, &sweep.c));
  }
  /// Moves the results of a sweep's launches to the first of each field's buffers.
  void end_launches() const { swap_results(); }

 private:
  /// The arguments of the C interface. Not movable: it points into itself.
  struct Sweep {
    spider_sweep c{};
    std::vector<double> scalars;
  };

  void require_no_grid() const {
    if (!steps_) return;
    throw Error(SPIDER_ERROR_UNSUPPORTED, std::string("a system of a grid takes time steps of ") +
                                              info(kernel_).name + ": call run_steps or run_until");
  }

  template <typename T>
  System& take(const std::string& name, const Field<T>& field, const Field<T>* second) {
    const spider_kernel_info& information = info(kernel_);
    const auto index = static_cast<std::size_t>(find_field(kernel_, name));
    if (!is_stored_as<T>(information.field_storages[index])) {
      throw Error(SPIDER_ERROR_UNSUPPORTED, std::string("the kernel ") + information.name +
                                                " stores another type in " + name +
                                                " than the elements of this field");
    }
    for (const Field<T>* buffer : {&field, second}) {
      if (steps_ || buffer == nullptr || buffer->c_field().data == nullptr || buffer->size() == 0) continue;
      check_halo(kernel_, *buffer, Halo::of_field(kernel_, name, buffer->extents()));
    }
    halos_[index] = field.halo();
    for (std::size_t axis = 0; axis < 3 && second != nullptr; ++axis) {
      halos_[index].low[axis] = std::min(halos_[index].low[axis], second->halo().low[axis]);
      halos_[index].high[axis] = std::min(halos_[index].high[axis], second->halo().high[axis]);
    }
    fields_[index] = &field.c_field();
    outputs_[index] = second == nullptr ? nullptr : &second->c_field();
    swaps_[index] = nullptr;
    return *this;
  }

  void fill(Sweep& sweep, const Launch& launch) const {
    const spider_kernel_info& information = info(kernel_);
    for (std::size_t i = 0; i < scalars_.size(); ++i) {
      if (!scalars_[i]) {
        throw Error(SPIDER_ERROR_NULL, std::string("the kernel ") + information.name + " takes the scalar " +
                                           information.scalar_names[i] + ", which is not given");
      }
      sweep.scalars.push_back(*scalars_[i]);
    }
    if (launch.part) check_halos(*launch.part);
    sweep.c.size = sizeof(spider_sweep);
    sweep.c.fields = fields_.data();
    sweep.c.outputs = outputs_.data();
    sweep.c.scalars = scalars_.empty() ? nullptr : sweep.scalars.data();
    std::copy_n(launch.offset.begin(), 3, sweep.c.offset);
    std::copy_n(launch.extent.begin(), 3, sweep.c.extent);
    sweep.c.part = launch.part ? &*launch.part : nullptr;
    sweep.c.stream = launch.stream;
    if (launch.reductions != nullptr) sweep.c.reductions = launch.reductions->c_reductions();
  }

  /// Checks that all fields have the halo that a part reads.
  void check_halos(const spider_part& part) const {
    Extents all{1, 1, 1};
    for (const spider_field* field : fields_) {
      for (std::size_t axis = 0; axis < 3 && field != nullptr; ++axis)
        all[axis] = std::max(all[axis], field->extent[axis]);
    }
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      if (fields_[i] != nullptr)
        check_halo(kernel_, halos_[i], Halo::of_field(kernel_, info(kernel_).field_names[i], all, part));
    }
  }

  void swap_results() const {
    for (std::size_t i = 0; i < swaps_.size(); ++i) {
      if (swaps_[i] && (info(kernel_).field_uses[i] & SPIDER_FIELD_RESULT_IN_OUTPUT) != 0) swaps_[i]();
    }
  }

  const spider_kernel* kernel_;
  std::vector<const spider_field*> fields_;   ///< as the kernel lists them; null: not given
  std::vector<const spider_field*> outputs_;  ///< null: none
  std::vector<Halo> halos_;                   ///< of each field
  std::vector<std::function<void()>> swaps_;  ///< of fields with second buffers
  std::vector<std::optional<double>> scalars_;
  Update::Steps steps_;  ///< empty: spider_run_steps
  Until until_;          ///< empty: spider_run_until
};

/// Cells of fields of a kernel: sources and receivers. Values are rows of a field of their own, e.g. one row
/// a time step: Field<float> trace(steps, points.size()). They are float whatever the kernel's fields store,
/// but Field<double> for f64.
class Points {
 public:
  /// Cells z, y, x, counted from the first interior cell of fields of these extents. Throws Error for a cell
  /// outside.
  Points(const spider_kernel* kernel, const Extents& extents, const std::vector<Extents>& cells)
      : kernel_(kernel),
        size_(static_cast<std::int64_t>(cells.size())),
        storage_(info(kernel).storage),
        values_(info(kernel).accumulate) {
    if (info(kernel).launch_count > 0) {
      throw Error(SPIDER_ERROR_UNSUPPORTED, std::string("the kernel ") + info(kernel).name +
                                                " is a system: name the field whose cells these are");
    }
    spider_points* points = nullptr;
    check(spider_points_create(kernel, extents.data(), flat(cells).data(), size_, &points));
    points_.reset(points);
  }
  /// The same for one field of a system; `extents` are its own. Values are Field<double> where it stores f64,
  /// otherwise Field<float>.
  Points(const spider_kernel* kernel, const std::string& field, const Extents& extents,
         const std::vector<Extents>& cells)
      : kernel_(kernel), size_(static_cast<std::int64_t>(cells.size())) {
    const std::int32_t index = find_field(kernel, field);
    storage_ = info(kernel).field_storages[index];
    values_ = storage_ == SPIDER_F64 ? SPIDER_F64 : SPIDER_F32;
    spider_points* points = nullptr;
    check(spider_points_create_of_field(kernel, index, extents.data(), flat(cells).data(), size_, &points));
    points_.reset(points);
  }

  /// The number of points.
  [[nodiscard]] std::int64_t size() const { return size_; }

  /// Adds values[row][i] to cell i, in stream order. Values of a cell that is listed more than once add up in
  /// the order of the list and are rounded to the field's storage once. Returns `field`.
  template <typename T, typename Value>
  Field<T>& add(Field<T>& field, const Field<Value>& values, std::int64_t row = 0,
                void* stream = nullptr) const {
    check_cells<T>();
    check(spider_points_add(points_.get(), &field.c_field(), place(values, row), stream));
    return field;
  }

  /// Sets values[row][i] to cell i, in stream order. Returns `values`.
  template <typename T, typename Value>
  Field<Value>& read(const Field<T>& field, Field<Value>& values, std::int64_t row = 0,
                     void* stream = nullptr) const {
    check_cells<T>();
    check(spider_points_read(points_.get(), &field.c_field(), place(values, row), stream));
    return values;
  }

 private:
  struct Release {
    void operator()(spider_points* points) const noexcept { spider_points_free(points); }
  };

  static std::vector<std::int64_t> flat(const std::vector<Extents>& cells) {
    std::vector<std::int64_t> places;
    for (const Extents& cell : cells) places.insert(places.end(), cell.begin(), cell.end());
    return places;
  }

  template <typename T>
  void check_cells() const {
    if (is_stored_as<T>(storage_)) return;
    throw Error(SPIDER_ERROR_UNSUPPORTED, std::string("points of the kernel ") + info(kernel_).name +
                                              " are of another type than the elements of this field");
  }

  /// The begin of a row of values, which must have one for each point.
  template <typename Value>
  void* place(const Field<Value>& values, std::int64_t row) const {
    if (!is_stored_as<Value>(values_)) {
      throw Error(SPIDER_ERROR_UNSUPPORTED, std::string("values of points of the kernel ") +
                                                info(kernel_).name +
                                                " have another type than the elements of this field");
    }
    if (size_ == 0) return nullptr;
    if (values.planes() != 1 || values.columns() != size_ || row < 0 || row >= values.rows()) {
      throw Error(SPIDER_ERROR_EXTENT,
                  "row " + std::to_string(row) + " of a field of " + std::to_string(values.planes()) + " x " +
                      std::to_string(values.rows()) + " x " + std::to_string(values.columns()) +
                      " cells has no values for " + std::to_string(size_) + " points");
    }
    return static_cast<Value*>(values.c_field().data) + row * values.layout().row_stride;
  }

  const spider_kernel* kernel_;
  std::int64_t size_;
  std::int32_t storage_ = 0;  ///< of cells
  std::int32_t values_ = 0;
  std::unique_ptr<spider_points, Release> points_;
};

}  // namespace spider
