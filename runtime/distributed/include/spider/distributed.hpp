/// \file
/// A thin C++ layer over distributed.h: statuses become exceptions, a grid has an owner.
///
///     spider::select_device(MPI_COMM_WORLD);
///     spider::Grid grid(MPI_COMM_WORLD, heat2d_kernel(), {1, rows, columns});
///     spider::Field<spider::half> a = grid.make_field<spider::half>(), b = grid.make_field<spider::half>();
///     grid.read_npy("before.npy", a);
///     grid.write_npy(grid.iterate(a, b, 1000), "after.npy");
#pragma once

#include <spider/distributed.h>
#include <spider/spider.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace spider {

/// Makes a device current that no other rank takes.
inline void select_device(MPI_Comm communicator) {
  check(spider_select_device(communicator));
}

/// A whole field, or those of a system of equations, cut into a part for each rank. All functions but those
/// that only tell are collective, and throw Error on all ranks if on one.
class Grid {
 public:
  /// `whole` is planes, rows, columns; of a kernel of one or two dimensions planes are images of a batch.
  /// `periodic` is what the caller expects of the kernel's rules along z,
  /// y, x.
  Grid(MPI_Comm communicator, const spider_kernel* kernel, const Extents& whole,
       const std::optional<std::array<bool, 3>>& periodic = std::nullopt)
      : kernel_(kernel), storage_(info(kernel).storage) {
    std::array<std::int32_t, 3> expected{};
    if (periodic) std::copy(periodic->begin(), periodic->end(), expected.begin());
    spider_grid* grid = nullptr;
    check(
        spider_grid_create(communicator, kernel, whole.data(), periodic ? expected.data() : nullptr, &grid));
    grid_.reset(grid);
  }

  /// The grid of one field of a system: tells its halo, and makes, exchanges, scatters, gathers, reads and
  /// writes fields of its storage. Along axes that the field has not all ranks have all of it. This grid
  /// outlives it. Throws Error where the kernel is no system, or has no field of this name.
  [[nodiscard]] Grid of_field(const std::string& name) const {
    const std::int32_t index = find_field(kernel_, name);
    return Grid(kernel_, info(kernel_).field_storages[index], spider_grid_of_field(grid_.get(), index));
  }

  /// Of the C interface.
  [[nodiscard]] const spider_grid_layout& layout() const { return *spider_grid_info(grid_.get()); }
  /// Planes, rows, columns of this rank's part.
  [[nodiscard]] Extents extents() const { return to_extents(layout().extent); }
  /// Of its first interior element, in the whole.
  [[nodiscard]] Extents origin() const { return to_extents(layout().part.origin); }
  /// Of the whole.
  [[nodiscard]] Extents whole() const { return to_extents(layout().part.whole); }
  /// How halos come to this rank and leave it, in words.
  [[nodiscard]] std::string transport() const { return spider_grid_transport(grid_.get()); }
  /// What this rank's fields keep around their interior.
  [[nodiscard]] Halo halo() const { return {to_extents(layout().low), to_extents(layout().high)}; }

  /// A field for this rank's part, all zero.
  template <typename T>
  [[nodiscard]] Field<T> make_field() const {
    check_type<T>();
    return Field<T>(extents(), halo());
  }

  /// Fills the halo of `field`, in the order of `stream`.
  template <typename T>
  Field<T>& exchange(Field<T>& field, void* stream = nullptr) {
    check_type<T>();
    check(spider_grid_exchange(grid_.get(), &field.c_field(), stream));
    return field;
  }

  /// `steps` time steps of the whole; returns the field that holds the last one.
  template <typename T>
  Field<T>& iterate(Field<T>& a, Field<T>& b, std::int64_t steps, void* stream = nullptr) {
    check_type<T>();
    const spider_field* result = nullptr;
    check(spider_grid_iterate(grid_.get(), &a.c_field(), &b.c_field(), steps, stream, &result));
    return result == &b.c_field() ? b : a;
  }

  /// The kernel's update, whose run_steps() takes time steps of the whole. All fields that take turns are
  /// those of make_field(), and so are further fields where a sweep has several steps. The grid outlives it.
  [[nodiscard]] Update update() const {
    return Update(kernel_, [grid = grid_.get()](const spider_sweep* sweep, std::int64_t steps,
                                                const spider_field** result) {
      return spider_grid_run(grid, sweep, steps, result);
    });
  }

  /// A system of equations, whose run_steps() and run_until() take time steps of the whole. Fields and their
  /// second buffers are those that of_field() makes. The grid outlives it.
  [[nodiscard]] System system() const {
    return System(
        kernel_,
        [grid = grid_.get()](const spider_sweep* sweep, std::int64_t steps, const spider_field** result) {
          return spider_grid_run(grid, sweep, steps, result);
        },
        [grid = grid_.get()](auto... given) { return spider_grid_run_until(grid, given...); });
  }

  /// The numbers of all ranks' points since the last read, with the bits of one rank. Waits for the stream.
  [[nodiscard]] Numbers read_reductions(const Reductions& reductions, void* stream = nullptr) const {
    std::vector<double> values(static_cast<std::size_t>(info(kernel_).reduction_count));
    check(spider_grid_read_reductions(grid_.get(), reductions.c_reductions(), values.data(), stream));
    return to_numbers(kernel_, values);
  }

  /// Waits for the stream's work at most so many seconds; 0: for ever.
  void wait(void* stream = nullptr, double seconds = 0) {
    check(spider_grid_wait(grid_.get(), stream, seconds));
  }

  /// From the whole on `root`, row after row; other ranks pass nothing.
  template <typename T>
  Field<T>& scatter(const std::vector<T>& whole, Field<T>& field, std::int32_t root = 0) {
    check_type<T>();
    const bool fits = whole.size() == whole_size();
    check(spider_grid_scatter(grid_.get(), fits ? whole.data() : nullptr, root, &field.c_field()));
    return field;
  }

  /// The whole on `root`, nothing on others.
  template <typename T>
  [[nodiscard]] std::vector<T> gather(const Field<T>& field, std::int32_t root = 0) {
    check_type<T>();
    std::vector<T> whole(layout().rank == root ? whole_size() : 0);
    check(spider_grid_gather(grid_.get(), &field.c_field(), root, whole.empty() ? nullptr : whole.data()));
    return whole;
  }

  /// Reads the whole from a .npy file; returns `field`.
  template <typename T>
  Field<T>& read_npy(const std::string& path, Field<T>& field) {
    check_type<T>();
    check(spider_grid_read_npy(grid_.get(), path.c_str(), &field.c_field()));
    return field;
  }

  /// Writes the whole to one.
  template <typename T>
  void write_npy(const Field<T>& field, const std::string& path) {
    check_type<T>();
    check(spider_grid_write_npy(grid_.get(), &field.c_field(), path.c_str()));
  }

  /// For the C interface.
  [[nodiscard]] spider_grid* c_grid() const { return grid_.get(); }

 private:
  struct Release {
    Release() noexcept : owns(true) {}
    explicit Release(bool owned) noexcept : owns(owned) {}
    bool owns;
    void operator()(spider_grid* grid) const noexcept {
      if (owns) spider_grid_free(grid);
    }
  };

  Grid(const spider_kernel* kernel, std::int32_t storage, spider_grid* of_field)
      : kernel_(kernel), storage_(storage), grid_(of_field, Release{false}) {}

  template <typename T>
  void check_type() const {
    if (is_stored_as<T>(storage_)) return;
    throw Error(SPIDER_ERROR_UNSUPPORTED, std::string("the kernel ") + info(kernel_).name +
                                              " stores another type than the elements of this field");
  }

  static Extents to_extents(const std::int64_t (&values)[3]) { return {values[0], values[1], values[2]}; }

  [[nodiscard]] std::size_t whole_size() const {
    const Extents all = whole();
    return static_cast<std::size_t>(all[0] * all[1] * all[2]);
  }

  const spider_kernel* kernel_;
  std::int32_t storage_;
  std::unique_ptr<spider_grid, Release> grid_;
};

}  // namespace spider
