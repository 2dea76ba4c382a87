/// A sweep with its arguments made and its boxes cut, to be launched once or often.
#pragma once

#include <spider/kernel.h>

#include <cstdint>
#include <vector>

#include "backend.h"
#include "fields.h"

namespace spider {

/// The images of a sweep, spaced evenly from those of SweepFields; strides count elements.
struct Batch {
  std::int64_t count = 1;
  std::int64_t stride = 0;      ///< of all fields except those that follow
  std::int64_t out_stride = 0;  ///< of `out` and `out_previous`, whether a turn reads or writes them
  const spider_field* out = nullptr;
  const spider_field* out_previous = nullptr;
  const std::int64_t* further = nullptr;  ///< of each further field; null: `stride`

  /// For a field that takes turns.
  [[nodiscard]] std::int64_t stride_of(const spider_field* field) const {
    return field == out || field == out_previous ? out_stride : stride;
  }
  [[nodiscard]] std::int64_t stride_of_further(std::int32_t i) const {
    return further == nullptr ? stride : further[i];
  }
};

/// The arguments of a sweep: `previous`, `further` and `scalars` are null where the kernel takes none.
struct SweepFields {
  const spider_field* in = nullptr;
  const spider_field* out = nullptr;
  const spider_field* previous = nullptr;
  const spider_field* const* further = nullptr;
  const double* scalars = nullptr;
  const spider_field* out_previous = nullptr;
  Batch batch = {};
  void* scratch = nullptr;  ///< the caller's, for sweeps in passes; null: memory of the back end
  std::uint64_t scratch_bytes = 0;
};

/// True if a sweep of the kernel's steps also writes the step before the last one.
[[nodiscard]] bool writes_before(const spider_kernel& kernel);

/// The fields that the kernel takes besides input and output, given or not.
[[nodiscard]] std::vector<OtherField> other_fields(const spider_kernel& kernel, const SweepFields& given);

[[nodiscard]] Box whole_interior(const spider_field& field);

/// A box of a part, counted in the whole.
[[nodiscard]] Box box_in_whole(const Box& box, const PlacedFields& fields);

/// The distance between images of a sweep, in bytes, for each pointer of its arguments.
struct ImageSteps {
  std::int64_t count = 1;
  bool in_one_launch = false;  ///< the form finds its images itself
  std::int64_t input = 0;
  std::int64_t output = 0;
  std::int64_t before = 0;
  std::int64_t output_before = 0;
  std::int64_t further[most_further_fields] = {};
};

/// A sweep that only needs to be launched.
struct ReadySweep {
  spider_field in;
  spider_field out;
  const SweepForm* form;
  UpdateArguments arguments;  ///< kernels without an update use only the base
  std::int64_t blocks;
  bool early;  ///< may the sweep start while the work ahead of it still runs?
  // The rims, which another form computes first. Both read only the input and write different cells.
  const SweepForm* rims_form;
  BoxesArguments rims;
  std::int64_t rim_blocks;
  bool rims_early;  ///< as `early`
  bool beside;      ///< the same for the work ahead other than the launch of the rims

  ImageSteps images;

  /// Launches all images.
  [[nodiscard]] backend::Outcome launch(const spider_kernel& kernel, void* stream) const;

 private:
  [[nodiscard]] ReadySweep from_image(std::int64_t image) const;
  // If inlined where the arguments are on the stack, GCC warns of arguments that a form would not take.
  [[nodiscard, gnu::noinline]] backend::Outcome launch_first(const spider_kernel& kernel,
                                                             std::int32_t image_count, void* stream) const;
};

/// The forms that make_ready() may choose for the same arguments; they must be loaded before.
[[nodiscard]] backend::FormSet forms_for(const spider_kernel& kernel, const SweepFields& given,
                                         const spider_part* part, const backend::Residencies& residencies,
                                         std::int32_t steps);

/// Makes a sweep of `steps` time steps, for which the kernel has a form; the fields are a part of a whole, or
/// `part` is null. Kernel and fields are checked already.
[[nodiscard]] ReadySweep make_ready(const spider_kernel& kernel, const SweepFields& given, const Box& box,
                                    const spider_part* part, const backend::Residencies& residencies,
                                    std::int32_t steps);

}  // namespace spider
